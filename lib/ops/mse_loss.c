/* mse_loss: the squared error.
 *
 *   forward     l_i = (a_i - b_i)^2;    y is their mean or sum, or all of them
 *   gradient    da += 2 (a - b) dl,    db -= 2 (a - b) dl,    with dl = dy / n for the mean, else dy
 *
 * The sum is in double, always in the same order. Follows torch.nn.functional.mse_loss with one difference: shapes must
 * be equal. torch broadcasts a prediction (B,1) and a target (B) to (B,B), which is a mistake.
 */
#include "ops/kernel.h"

TG_DECLARE_KERNEL(tg_mse_loss_forward);
TG_DECLARE_KERNEL(tg_mse_loss_backward);

void KERNEL(tg_mse_loss_forward)(const tg_op_call *call)
{
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]);
    real *y = tg_values(call->outputs[0]);
    int64_t count = call->inputs[0]->count;
    double sum[4] = {0}; /* four independent sums, because an addition waits for the one before it */
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

/* Adds scale (a - b) dy to the gradient of an input. With `each`, dy has the shape of a; else it is a scalar. */
static void add_distances(const tg_op_call *call, int input, real scale, bool each)
{
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]), *dy = call->output_gradients[0];
    real *dx = call->input_gradients[input];
    int64_t count = call->inputs[0]->count;
    if (!dx) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        real gradient = scale * (a[i] - b[i]) * (each ? dy[i] : dy[0]);
        dx[i] = accumulated(call->overwrite[input], dx[i], gradient);
    }
}

/* The forward pass computed l = (a - b)^2. */
void KERNEL(tg_mse_loss_backward)(const tg_op_call *call)
{
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    real scale = reduction == TG_REDUCTION_MEAN ? (real)(2 / (double)call->inputs[0]->count) : 2;
    bool each = reduction == TG_REDUCTION_NONE;
    add_distances(call, 0, scale, each);
    add_distances(call, 1, -scale, each);
}

#ifdef TG_ONCE

static bool mse_loss_shape(tg_op_call *call)
{
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    const tg_tensor *a = call->inputs[0];
    char a_text[TG_SHAPE_TEXT], b_text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
        return false;
    }
    if (!tg_same_shape(a, call->inputs[1])) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the prediction has shape %s and the target %s; they must be equal",
                          tg_shape_format(tg_shape_of(a), a_text),
                          tg_shape_format(tg_shape_of(call->inputs[1]), b_text));
    }
    if ((unsigned)reduction > TG_REDUCTION_NONE) {
        return tg_op_fail(call, TG_ERROR_VALUE, "reduction %d does not exist", (int)reduction);
    }
    return tg_op_output(call, 0, tg_dtype_of(a), reduction == TG_REDUCTION_NONE ? tg_shape_of(a) : TG_SCALAR);
}

static const tg_op mse_loss_op = {
    .name = "mse_loss",
    .shape = mse_loss_shape,
    TG_KERNELS(tg_mse_loss_forward, tg_mse_loss_backward),
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
};

tg_tensor *tg_mse_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    tg_tensor *inputs[] = {prediction, target};
    return tg_apply(t, &mse_loss_op, inputs, 2, &reduction, sizeof reduction, NULL);
}

#endif
