/* mse_loss: squared distance.
 *
 *   forward     l = (a - b)^2, value by value; their mean, their sum, or all of them
 *   gradient    da += 2 (a - b) dl,    db -= 2 (a - b) dl,    with dl = dy / n for the mean
 *
 * Summed in double, in order. Follows torch.nn.functional.mse_loss, which would broadcast; here shapes must be equal,
 * because a (B,1) beside a (B) is a mistake.
 */
#include "ops/real.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_mse_loss_forward);
TG_DECLARE_KERNEL(tg_mse_loss_backward);

void KERNEL(tg_mse_loss_forward)(const tg_op_call *call)
{
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]);
    real *y = tg_values(call->outputs[0]);
    int64_t count = call->inputs[0]->count;
    double sum[4] = {0}; /* four at a time: an addition has to wait for the one before it */
    if (reduction == TG_REDUCTION_NONE) {
        for (int64_t i = 0; i < count; i++) {
            y[i] = (a[i] - b[i]) * (a[i] - b[i]);
        }
        return;
    }
    for (int64_t i = 0; i < count - count % 4; i += 4) {
        for (int k = 0; k < 4; k++) {
            real distance = a[i + k] - b[i + k];
            sum[k] += (double)(distance * distance);
        }
    }
    for (int64_t i = count - count % 4; i < count; i++) {
        sum[0] += (double)((a[i] - b[i]) * (a[i] - b[i]));
    }
    double total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    y[0] = (real)(reduction == TG_REDUCTION_MEAN ? total / (double)count : total);
}

/* Adds scale * (a - b) * dl, or writes it when the gradient is fresh. */
static void KERNEL(add_distances)(const tg_op_call *call, int input, real scale, bool each)
{
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]), *dy = call->output_gradients[0];
    real *dx = call->input_gradients[input];
    int64_t count = call->inputs[0]->count;
    if (!dx) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        real gradient = scale * (a[i] - b[i]) * (each ? dy[i] : dy[0]);
        dx[i] = call->fresh[input] ? gradient : dx[i] + gradient;
    }
}

/* In the forward pass this was: l = (a - b)^2. */
void KERNEL(tg_mse_loss_backward)(const tg_op_call *call)
{
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    real scale = reduction == TG_REDUCTION_MEAN ? (real)(2 / (double)call->inputs[0]->count) : 2;
    bool each = reduction == TG_REDUCTION_NONE;
    KERNEL(add_distances)(call, 0, scale, each);
    KERNEL(add_distances)(call, 1, -scale, each);
}

#ifdef TG_ONCE

static bool mse_loss_shape(tg_op_call *call)
{
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    const tg_tensor *a = call->inputs[0];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1) || !tg_op_expect_same_shape(call, 0, 1)) {
        return false;
    }
    if ((unsigned)reduction > TG_REDUCTION_NONE) {
        return tg_op_fail(call, TG_ERROR_VALUE, "%d is not a reduction", (int)reduction);
    }
    return tg_op_output(call, 0, tg_dtype_of(a), reduction == TG_REDUCTION_NONE ? tg_shape_of(a) : TG_SCALAR);
}

static const tg_op mse_loss_op = {
    .name = "mse_loss",
    .shape = mse_loss_shape,
    .f32 = {tg_mse_loss_forward_f32, tg_mse_loss_backward_f32},
    .f64 = {tg_mse_loss_forward_f64, tg_mse_loss_backward_f64},
    .backward_reads_inputs = 3,
    .overwrites_fresh = true,
};

tg_tensor *tg_mse_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    tg_tensor *inputs[] = {prediction, target};
    return tg_apply(t, &mse_loss_op, inputs, 2, &reduction, sizeof reduction);
}

#endif
