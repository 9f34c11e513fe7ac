/* differentiate: what the gradients in ops share (differentiate.h). */
#include "ops/differentiate.h"

void tg_differentiate_linear(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    tg_tensor *ones = tg_full(t, tg_dtype_of(y), tg_shape_of(y), 1);
    tg_tensor *slope = tg_zeros_like(t, x);
    if (!ones || !slope) {
        return;
    }
    tg_op_call backward = *call;
    void *gradient = tg_values(slope);
    const tg_gradient_mode mode = TG_GRADIENT_ADD;
    backward.output_gradients[0] = tg_values(ones);
    backward.input_gradients = &gradient;
    backward.gradient_modes = &mode;
    if (!tg_op_is_empty(call)) {
        tg_op_kernels_of(call->op, x->dtype == TG_F64)->backward(&backward);
    }
    dx[0] = tg_mul(t, dy[0], slope);
}

static tg_tensor *row_mean(tg_tape *t, tg_tensor *x)
{
    return tg_mean(t, x, TG_AXES(-1), TG_KEEP_AXES);
}

static tg_tensor *centered(tg_tape *t, tg_tensor *x)
{
    return tg_sub(t, x, row_mean(t, x));
}

void tg_differentiate_rms(tg_tape *t, const tg_op_call *call, bool is_centered, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = is_centered ? centered(t, call->inputs[0]) : call->inputs[0];
    tg_tensor *squares = tg_add_scalar(t, row_mean(t, tg_mul(t, x, x)), *(const double *)call->attributes);
    tg_tensor *inverse = tg_pow_scalar(t, squares, -0.5), *n = tg_mul(t, x, inverse);
    if (tg_wants(call, 0)) {
        tg_tensor *g = tg_mul(t, dy[0], call->inputs[1]);
        g = is_centered ? centered(t, g) : g;
        dx[0] = tg_mul(t, inverse, tg_sub(t, g, tg_mul(t, n, row_mean(t, tg_mul(t, g, n)))));
    }
    dx[1] = tg_wants(call, 1) ? tg_mul(t, dy[0], n) : NULL;
}
