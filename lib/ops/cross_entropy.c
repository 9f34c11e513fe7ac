/* cross_entropy: the loss of a classifier, from its logits; and nll_loss, from log-probabilities.
 *
 *   forward     l_s = (1-e) (L_s - x[s,t_s]) + e (L_s - mean_k x[s,k])        L_s = log sum_k exp x[s,k]
 *   gradient    dx[s,k] += dl_s (softmax(x)[s,k] - (1-e) [k = t_s] - e / V)
 *
 * with t the targets, e the label smoothing and V the classes, which are on the last axis. Targets equal to
 * ignore_index give no loss and no gradient. The mean is over the targets that count; over none of them it is NaN, as
 * in PyTorch. Forward keeps two numbers of each row, its maximum m and the sum of exp(x - m), and backward makes the
 * softmax again from them: a (S,V) matrix is never stored. L itself would be too coarse where logits are large, for a
 * rounded m + log s has lost the logarithm: so the loss is (m - x) + log s. Rows are independent, and the losses are
 * summed in order in double; so the bits do not depend on the threads.
 *
 * Follows torch.nn.functional.cross_entropy and nll_loss.
 */
#include "ops/rows.h"

#include <tapegrad/ops.h>

typedef struct loss_attributes {
    tg_cross_entropy_config config;
    bool from_log_probabilities; /* nll_loss: L_s is 0 and its gradient too */
} loss_attributes;

TG_DECLARE_KERNEL(tg_cross_entropy_forward);
TG_DECLARE_KERNEL(tg_cross_entropy_backward);

typedef struct row_sum {
    double most, sum; /* m and sum_k exp(x_k - m) */
} row_sum;

/* What forward leaves for backward. */
typedef struct loss_saved {
    double counted; /* targets that count */
    row_sum rows[];
} loss_saved;

typedef struct KERNEL(rows) {
    const real *x, *dy;
    const int32_t *targets;
    real *losses; /* (S), in the forward pass */
    real *dx;
    bool fresh;
    loss_saved *saved;
    int64_t classes;
    loss_attributes a;
} KERNEL(rows);

static KERNEL(rows) KERNEL(rows_of)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    KERNEL(rows)
    r = {.x = tg_values(x),
         .targets = tg_values(call->inputs[1]),
         .saved = call->saved,
         .classes = x->shape[x->rank - 1],
         .a = *(const loss_attributes *)call->attributes};
    return r;
}

static row_sum KERNEL(sum_of_row)(const real *x, int64_t n)
{
    real most = KERNEL(row_max)(x, n), part[256];
    double sum = 0;
    for (int64_t k = 0; k < n; k += 256) {
        int64_t length = n - k < 256 ? n - k : 256;
        KERNEL(row_exp)(x + k, length, most, part);
        sum += KERNEL(row_sum)(part, length);
    }
    return (row_sum){(double)most, sum};
}

/* mean_k (most - x_k) */
static double KERNEL(mean_distance)(const real *x, int64_t n, real most)
{
    real part[256];
    double sum = 0;
    for (int64_t k = 0; k < n; k += 256) {
        int64_t length = n - k < 256 ? n - k : 256;
        for (int64_t i = 0; i < length; i++) {
            part[i] = most - x[k + i];
        }
        sum += KERNEL(row_sum)(part, length);
    }
    return sum / (double)n;
}

static void KERNEL(loss_of_rows)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(rows) *r = context;
    double e = r->a.config.label_smoothing;
    for (int64_t s = begin; s < end; s++) {
        const real *x = r->x + s * r->classes;
        r->losses[s] = 0;
        if (r->targets[s] == r->a.config.ignore_index) {
            continue;
        }
        double most = 0, log_sum = 0;
        if (!r->a.from_log_probabilities) {
            r->saved->rows[s] = KERNEL(sum_of_row)(x, r->classes);
            most = r->saved->rows[s].most;
            log_sum = log(r->saved->rows[s].sum);
        }
        double loss = (1 - e) * (most - (double)x[r->targets[s]] + log_sum);
        if (e > 0) {
            loss += e * (KERNEL(mean_distance)(x, r->classes, (real)most) + log_sum);
        }
        r->losses[s] = (real)loss;
    }
}

void KERNEL(tg_cross_entropy_forward)(const tg_op_call *call)
{
    KERNEL(rows) r = KERNEL(rows_of)(call);
    int64_t rows = call->inputs[1]->count;
    bool each = r.a.config.reduction == TG_REDUCTION_NONE;
    r.losses = each ? tg_values(call->outputs[0]) : call->scratch;
    tg_parallel_for(rows, 1 + TG_GRAIN / 8 / (r.classes + 1), KERNEL(loss_of_rows), &r);
    double sum = 0, counted = 0;
    for (int64_t s = 0; s < rows; s++) {
        sum += (double)r.losses[s];
        counted += r.targets[s] != r.a.config.ignore_index;
    }
    r.saved->counted = counted;
    if (!each) {
        double divisor = r.a.config.reduction == TG_REDUCTION_MEAN ? counted : 1;
        *(real *)tg_values(call->outputs[0]) = (real)(sum / divisor);
    }
}

static void KERNEL(gradient_of_rows)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(rows) *r = context;
    double e = r->a.config.label_smoothing;
    for (int64_t s = begin; s < end; s++) {
        const real *x = r->x + s * r->classes;
        real *dx = r->dx + s * r->classes;
        bool counts = r->targets[s] != r->a.config.ignore_index;
        if (r->fresh && (!counts || r->a.from_log_probabilities)) {
            memset(dx, 0, (size_t)r->classes * sizeof *dx);
        }
        if (!counts) {
            continue;
        }
        real dl = r->a.config.reduction == TG_REDUCTION_NONE ? r->dy[s] : r->dy[0];
        if (r->a.config.reduction == TG_REDUCTION_MEAN) {
            dl = (real)((double)dl / r->saved->counted);
        }
        if (!r->a.from_log_probabilities) {
            real most = (real)r->saved->rows[s].most, inverse = (real)(1 / r->saved->rows[s].sum);
            real smoothed = (real)(e / (double)r->classes);
            for (int64_t k = 0; k < r->classes; k++) {
                real gradient = dl * (EXP(x[k] - most) * inverse - smoothed);
                dx[k] = r->fresh ? gradient : dx[k] + gradient;
            }
        }
        dx[r->targets[s]] -= dl * (real)(1 - e);
    }
}

/* In the forward pass this was: l = (1-e) (L - x[t]) + e (L - mean x). */
void KERNEL(tg_cross_entropy_backward)(const tg_op_call *call)
{
    KERNEL(rows) r = KERNEL(rows_of)(call);
    r.dy = call->output_gradients[0];
    r.dx = call->input_gradients[0];
    r.fresh = call->fresh[0];
    tg_parallel_for(call->inputs[1]->count, 1 + TG_GRAIN / 8 / (r.classes + 1), KERNEL(gradient_of_rows), &r);
}

#ifdef TG_ONCE

static bool check_targets(tg_op_call *call, int64_t classes, int32_t ignored)
{
    const tg_tensor *targets = call->inputs[1];
    const int32_t *target = tg_values(targets);
    for (int64_t s = 0; s < targets->count; s++) {
        if ((target[s] < 0 || target[s] >= classes) && target[s] != ignored) {
            tg_shape shape = tg_shape_of(targets);
            char text[TG_SHAPE_TEXT];
            return tg_op_fail(call, TG_ERROR_RANGE, "target %d at %s is outside [0,%lld), and %d is what is ignored",
                              target[s], tg_index_format(&shape, s, text), (long long)classes, ignored);
        }
    }
    return true;
}

static bool cross_entropy_shape(tg_op_call *call)
{
    const loss_attributes *a = call->attributes;
    const tg_tensor *logits = call->inputs[0], *targets = call->inputs[1];
    tg_shape rows = tg_shape_of(logits);
    char x_text[TG_SHAPE_TEXT], t_text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_dtype(call, 1, TG_I32)) {
        return false;
    }
    rows.rank--;
    if (rows.rank < 0 || !tg_shape_equal(rows, tg_shape_of(targets)) || logits->shape[rows.rank] < 1) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s %s and targets %s; they must be (S,V) and (S) with V >= 1",
                          a->from_log_probabilities ? "log-probabilities" : "logits",
                          tg_shape_format(tg_shape_of(logits), x_text), tg_shape_format(tg_shape_of(targets), t_text));
    }
    if (!(a->config.label_smoothing >= 0 && a->config.label_smoothing <= 1)) {
        return tg_op_fail(call, TG_ERROR_VALUE, "label smoothing %g is outside [0,1]", a->config.label_smoothing);
    }
    if ((unsigned)a->config.reduction > TG_REDUCTION_NONE) {
        return tg_op_fail(call, TG_ERROR_VALUE, "%d is not a reduction", (int)a->config.reduction);
    }
    return check_targets(call, logits->shape[rows.rank], a->config.ignore_index) &&
           tg_op_output(call, 0, tg_dtype_of(logits), a->config.reduction == TG_REDUCTION_NONE ? rows : TG_SCALAR) &&
           tg_op_save(call, 1, sizeof(loss_saved)) && tg_op_save(call, targets->count, sizeof(row_sum)) &&
           tg_op_scratch(call, targets->count + 1, tg_dtype_size(tg_dtype_of(logits)));
}

static const tg_op cross_entropy_op = {
    .name = "cross_entropy",
    .shape = cross_entropy_shape,
    .f32 = {tg_cross_entropy_forward_f32, tg_cross_entropy_backward_f32},
    .f64 = {tg_cross_entropy_forward_f64, tg_cross_entropy_backward_f64},
    .backward_reads_inputs = 3,
    .overwrites_fresh = true,
};

static const tg_op nll_loss_op = {
    .name = "nll_loss",
    .shape = cross_entropy_shape,
    .f32 = {tg_cross_entropy_forward_f32, tg_cross_entropy_backward_f32},
    .f64 = {tg_cross_entropy_forward_f64, tg_cross_entropy_backward_f64},
    .backward_reads_inputs = 2,
    .overwrites_fresh = true,
};

tg_cross_entropy_config tg_cross_entropy_config_default(void)
{
    return (tg_cross_entropy_config){.ignore_index = -100, .label_smoothing = 0, .reduction = TG_REDUCTION_MEAN};
}

tg_tensor *tg_cross_entropy_with(tg_tape *t, tg_tensor *logits, tg_tensor *targets,
                                 const tg_cross_entropy_config *config)
{
    tg_tensor *inputs[] = {logits, targets};
    loss_attributes attributes = {.config = config ? *config : tg_cross_entropy_config_default()};
    return tg_apply(t, &cross_entropy_op, inputs, 2, &attributes, sizeof attributes);
}

tg_tensor *tg_cross_entropy(tg_tape *t, tg_tensor *logits, tg_tensor *targets)
{
    return tg_cross_entropy_with(t, logits, targets, NULL);
}

tg_tensor *tg_nll_loss(tg_tape *t, tg_tensor *log_probs, tg_tensor *targets, int32_t ignore_index,
                       tg_reduction reduction)
{
    tg_tensor *inputs[] = {log_probs, targets};
    loss_attributes attributes = {.config = {.ignore_index = ignore_index, .reduction = reduction},
                                  .from_log_probabilities = true};
    return tg_apply(t, &nll_loss_op, inputs, 2, &attributes, sizeof attributes);
}

#endif
