/* cast: the same values in another dtype.
 *
 *   forward     y = x, converted as tg_tensor_new_cast does
 *   gradient    dx += dy, converted back: between f32 and f64
 *
 * Follows torch.Tensor.to.
 */
#include "base/least.h"
#include "ops/kernel_real.h"
#include "tensor/strided.h"

TG_DECLARE_KERNELS(tg_cast_forward, tg_cast_backward);

enum { CAST_PART = 512 };

typedef struct conversion {
    void *out;
    tg_dtype to;
    const void *in;
    tg_dtype from;
    bool add; /* to what is there, which has the dtype of `real` */
} conversion;

static void convert_range(void *context, int64_t begin, int64_t end)
{
    const conversion *c = context;
    const char *in = (const char *)c->in + (size_t)begin * tg_size_of(c->from);
    if (!c->add) {
        tg_convert((char *)c->out + (size_t)begin * tg_size_of(c->to), c->to, in, c->from, end - begin);
        return;
    }
    for (int64_t i = begin, n; i < end; i += n) {
        real values[CAST_PART];
        n = least(end - i, CAST_PART);
        tg_convert(values, c->to, in + (size_t)(i - begin) * tg_size_of(c->from), c->from, n);
        tg_add_values((real *)c->out + i, values, n, c->to);
    }
}

void KERNEL(tg_cast_forward)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    conversion c = {tg_values(y), tg_dtype_of(y), tg_values(x), tg_dtype_of(x), false};
    tg_parallel_for(x->count, TG_GRAIN, convert_range, &c);
}

/* x has the dtype of `real`, y the other float dtype. */
void KERNEL(tg_cast_backward)(const tg_op_call *call)
{
    conversion c = {call->input_gradients[0], real_dtype, call->output_gradients[0], tg_dtype_of(call->outputs[0]),
                    !writes_gradient(call, 0)};
    tg_parallel_for(call->outputs[0]->count, TG_GRAIN, convert_range, &c);
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_cast(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_cast(t, dy[0], tg_dtype_of(call->inputs[0]));
}

/* ---- the op ---- */

static bool cast_shape(tg_op_call *call)
{
    tg_dtype dtype = *(const tg_dtype *)call->attributes;
    return tg_op_output(call, 0, dtype, tg_shape_of(call->inputs[0]));
}

static const tg_op cast_op = {.name = "cast",
                              .shape = cast_shape,
                              .input_names = {"x"},
                              TG_KERNELS(tg_cast_forward, tg_cast_backward),
                              TG_IGNORES_VALUES,
                              .can_overwrite = true,
                              .differentiate = differentiate_cast};

tg_tensor *tg_cast(tg_tape *t, tg_tensor *x, tg_dtype dtype)
{
    if (!tg_tape_expect_input(t, "cast", "x", x)) {
        return NULL;
    }
    return tg_dtype_of(x) == dtype ? x : tg_apply(t, &cast_op, &x, 1, &dtype, sizeof dtype, NULL);
}

#endif
