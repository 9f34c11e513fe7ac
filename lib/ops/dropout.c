/* dropout: in training each value is dropped with probability p, and the others grow to keep the mean.
 *
 *   forward     y = x m,   m = b / (1 - p),   b drawn from bernoulli(1 - p), one for each value, in order
 *   gradient    dx += dy m
 *
 * The draws are torch.nn.functional.dropout's, so the same seed drops the same values; and like torch the factor
 * 1/(1-p) is rounded once, and then multiplied. Forward keeps b as bits, an eighth of a byte a value. In evaluation,
 * and for p = 0, nothing is drawn and x itself is returned; for p = 1 nothing is drawn and all is 0. The draws for an
 * x that is not contiguous are in the row-major order of its shape, where torch's are in the order of its memory.
 */
#include "ops/real.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_dropout_forward);
TG_DECLARE_KERNEL(tg_dropout_backward);

#define DRAWS 512 /* a multiple of 8 */

static real KERNEL(factor)(double p)
{
    return p < 1 ? 1 / (real)(1 - p) : 0;
}

void KERNEL(tg_dropout_forward)(const tg_op_call *call)
{
    double p = *(const double *)call->attributes;
    const real *x = tg_values(call->inputs[0]);
    real *y = tg_values(call->outputs[0]), factor = KERNEL(factor)(p);
    uint8_t *bits = call->saved, drawn[DRAWS] = {0};
    int64_t count = call->inputs[0]->count;
    memset(bits, 0, (size_t)(count + 7) / 8);
    for (int64_t begin = 0; begin < count; begin += DRAWS) {
        int64_t n = count - begin < DRAWS ? count - begin : DRAWS;
        if (p < 1) {
            tg_rng_bernoulli(call->rng, drawn, n, 1 - p);
        }
        for (int64_t i = 0; i < n; i++) {
            y[begin + i] = x[begin + i] * (drawn[i] ? factor : 0);
            bits[(begin + i) / 8] |= (uint8_t)(drawn[i] << (i % 8));
        }
    }
}

/* In the forward pass this was: y = x m. */
void KERNEL(tg_dropout_backward)(const tg_op_call *call)
{
    const real *dy = call->output_gradients[0];
    real *dx = call->input_gradients[0], factor = KERNEL(factor)(*(const double *)call->attributes);
    const uint8_t *bits = call->saved;
    for (int64_t i = 0; i < call->inputs[0]->count; i++) {
        real gradient = dy[i] * (bits[i / 8] >> (i % 8) & 1 ? factor : 0);
        dx[i] = call->fresh[0] ? gradient : dx[i] + gradient;
    }
}

#ifdef TG_ONCE

static bool dropout_shape(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (!call->rng) {
        return tg_op_fail(call, TG_ERROR_STATE, "the tape has no generator; give tg_tape_new one");
    }
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) && tg_op_save(call, x->count / 8 + 1, 1);
}

static const tg_op dropout_op = {
    .name = "dropout",
    .shape = dropout_shape,
    .f32 = {tg_dropout_forward_f32, tg_dropout_backward_f32},
    .f64 = {tg_dropout_forward_f64, tg_dropout_backward_f64},
    .overwrites_fresh = true,
};

tg_tensor *tg_dropout(tg_tape *t, tg_tensor *x, double p)
{
    int axis = 0;
    if (!tg_tape_axis(t, "dropout", x, &axis)) {
        return NULL;
    }
    if (!(p >= 0 && p <= 1)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "dropout", "probability %g is outside [0,1]", p);
    }
    return p == 0 || !tg_tape_training(t) ? x : tg_apply(t, &dropout_op, &x, 1, &p, sizeof p);
}

#endif
