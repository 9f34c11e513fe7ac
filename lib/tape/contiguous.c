/* contiguous: a row-major copy of a tensor with any strides. Follows torch.Tensor.contiguous.
 *
 *   forward     y = x        values in the row-major order of x's shape
 *   gradient    dx += dy     gradients are contiguous, so this is a plain sum
 *
 * The op is part of the tape, because tg_apply creates such a copy for ops that need contiguous inputs.
 */
#include "tape/tape.h"
#include "tensor/strided.h"

static bool contiguous_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), tg_shape_of(call->inputs[0]));
}

bool tg_any_layout(const tg_tensor *input, int i)
{
    (void)input;
    (void)i;
    return true;
}

static void forward(const tg_op_call *call)
{
    tg_copy_to_contiguous(call->inputs[0], tg_values(call->outputs[0]));
}

static void backward(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    void *dx = call->input_gradients[0];
    if (call->gradient_modes[0] == TG_GRADIENT_WRITE) {
        tg_copy_values(dx, call->output_gradients[0], x->count, tg_size_of(x->dtype));
    } else {
        tg_add_values(dx, call->output_gradients[0], x->count, tg_dtype_of(x));
    }
}

static void differentiate(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    (void)t;
    (void)call;
    dx[0] = dy[0];
}

static const tg_op contiguous_op = {
    .name = "contiguous",
    .shape = contiguous_shape,
    .input_names = {"x"},
    .f32 = {forward, backward},
    .f64 = {forward, backward},
    .accepts_layout = tg_any_layout,
    TG_IGNORES_VALUES,
    .can_overwrite = true,
    .differentiate = differentiate,
};

tg_tensor *tg_make_contiguous(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &contiguous_op, &x, 1, NULL, 0, NULL);
}
