/* cast: the same values in another dtype.
 *
 *   forward     y = x, converted as tg_tensor_new_cast does
 *   gradient    dx += dy, converted back: between f32 and f64
 *
 * Follows torch.Tensor.to.
 */
#include "ops/kernel.h"

TG_DECLARE_KERNEL(tg_cast_forward);
TG_DECLARE_KERNEL(tg_cast_backward);

void KERNEL(tg_cast_forward)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    tg_convert(tg_values(y), (tg_dtype)y->dtype, tg_values(x), tg_dtype_of(x), x->count);
}

/* x has the dtype of `real`, y the other float dtype. */
void KERNEL(tg_cast_backward)(const tg_op_call *call)
{
    const tg_tensor *y = call->outputs[0];
    const char *dy = call->output_gradients[0];
    real *dx = call->input_gradients[0];
    for (int64_t i = 0; i < y->count; i++) {
        real gradient;
        tg_convert(&gradient, REAL_DTYPE, dy + (size_t)i * tg_size_of(y->dtype), (tg_dtype)y->dtype, 1);
        dx[i] += gradient;
    }
}

#ifdef TG_ONCE

static bool cast_shape(tg_op_call *call)
{
    tg_dtype dtype = *(const tg_dtype *)call->attributes;
    return tg_op_output(call, 0, dtype, tg_shape_of(call->inputs[0]));
}

static const tg_op cast_op = {.name = "cast",
                              .shape = cast_shape,
                              .input_names = {"x"},
                              TG_KERNELS(tg_cast_forward, tg_cast_backward),
                              .backward_ignores_inputs = TG_OP_ALL,
                              .backward_ignores_outputs = TG_OP_ALL};

tg_tensor *tg_cast(tg_tape *t, tg_tensor *x, tg_dtype dtype)
{
    if (!tg_tape_expect_input(t, "cast", "x", x)) {
        return NULL;
    }
    return tg_dtype_of(x) == dtype ? x : tg_apply(t, &cast_op, &x, 1, &dtype, sizeof dtype, NULL);
}

#endif
