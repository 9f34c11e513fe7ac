/* dropout: in training each value becomes 0 with probability p, and the others are scaled to keep the mean.
 *
 *   forward     y = x m,   m = b / (1 - p),   b drawn from bernoulli(1 - p), one per value, in order
 *   gradient    dx += dy m
 *
 * The draws are those of torch.nn.functional.dropout, so the same seed drops the same values. As in torch, the factor
 * 1 / (1 - p) is rounded once, and then multiplied. Forward saves b as bits. In evaluation, and for p = 0, nothing is
 * drawn and x itself is returned. For p = 1 nothing is drawn and all values are 0. For an x that is not contiguous the
 * draws are in the order of its memory, as in torch: its axes are permuted before the op, and back after it.
 */
#include "base/random.h"
#include "ops/differentiate.h"
#include "ops/elementwise/mask.h"

TG_DECLARE_KERNELS(tg_dropout_forward, tg_dropout_backward);

/* The number of values in the buffer of a sum. */
enum { PART = 512 };

/* out = in m, or out += in m. */
typedef struct masked {
    const real *in;
    real *out, factor;
    const uint8_t *bits;
    bool overwrite;
} masked;

static masked masked_of(const tg_op_call *call, const real *in, real *out, bool overwrite)
{
    double p = *(const double *)call->attributes;
    return (masked){in, out, p < 1 ? 1 / (real)(1 - p) : 0, call->saved, overwrite};
}

/* Computes the values begin .. end - 1. */
static void apply_mask(void *context, int64_t begin, int64_t end)
{
    const masked *m = context;
    real part[PART];
    for (int64_t at = begin; at < end; at += PART) {
        int64_t n = end - at < PART ? end - at : PART;
        real *out = m->out + at;
        mask_values(m->bits, at, m->factor, m->in + at, n, m->overwrite ? out : part);
        for (int64_t i = 0; !m->overwrite && i < n; i++) {
            out[i] += part[i];
        }
    }
}

void KERNEL(tg_dropout_forward)(const tg_op_call *call)
{
    double p = *(const double *)call->attributes;
    int64_t count = call->inputs[0]->count;
    uint8_t *bits = call->saved;
    if (p < 1) {
        tg_rng_bernoulli_bits(call->rng, bits, count, 1 - p);
    } else {
        memset(bits, 0, (size_t)(count + 7) / 8);
    }
    masked m = masked_of(call, tg_values(call->inputs[0]), tg_values(call->outputs[0]), true);
    tg_parallel_for(count, TG_GRAIN, apply_mask, &m);
}

/* The forward pass computed y = x m. */
void KERNEL(tg_dropout_backward)(const tg_op_call *call)
{
    masked m = masked_of(call, call->output_gradients[0], call->input_gradients[0], writes_gradient(call, 0));
    tg_parallel_for(call->inputs[0]->count, TG_GRAIN, apply_mask, &m);
}

#ifdef TG_ONCE

static bool dropout_shape(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (!call->rng) {
        return tg_op_fail(call, TG_ERROR_STATE, "the tape has no generator; it needs a run (tg_run_new)");
    }
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) && tg_op_save(call, x->count / 8 + 1, 1);
}

static const tg_op dropout_op = {
    .name = "dropout",
    .shape = dropout_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_dropout_forward, tg_dropout_backward),
    TG_IGNORES_VALUES,
    .can_overwrite = true,
    .differentiate = tg_differentiate_linear, /* with the bits of the forward pass */
};

tg_tensor *tg_dropout(tg_tape *t, tg_tensor *x, double p)
{
    if (!tg_tape_expect_input(t, "dropout", "x", x)) {
        return NULL;
    }
    if (!(p >= 0 && p <= 1)) {
        tg_tape_fail(t, TG_ERROR_VALUE, "dropout", "probability %g is outside [0,1]", p);
        return NULL;
    }
    if (p == 0 || !tg_tape_is_training(t)) {
        return x;
    }
    if (x->contiguous) {
        return tg_apply(t, &dropout_op, &x, 1, &p, sizeof p, NULL);
    }
    tg_axes order = {.count = x->rank}, back = order;
    tg_memory_order(x, order.axis);
    for (int i = 0; i < x->rank; i++) {
        back.axis[order.axis[i]] = i;
    }
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    x = tg_permute(t, x, order);
    return tg_tape_end(t, &point, tg_permute(t, tg_apply(t, &dropout_op, &x, 1, &p, sizeof p, NULL), back));
}

#endif
