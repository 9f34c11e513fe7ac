/* differentiate: what the gradients in ops share (differentiate.h). */
#include "ops/differentiate.h"

void tg_differentiate_linear(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    tg_tensor *ones = tg_full(t, tg_dtype_of(y), tg_shape_of(y), 1);
    tg_tensor *slope = tg_full(t, tg_dtype_of(x), tg_shape_of(x), 0);
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
