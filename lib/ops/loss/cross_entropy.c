/* cross_entropy: the loss of a classifier, from its logits; and nll_loss, from log-probabilities.
 *
 *   forward     l_s = (1-e) (L_s - x[s,t_s]) + e (L_s - mean_k x[s,k])        L_s = log sum_k exp x[s,k]
 *   gradient    dx[s,k] += dl_s (softmax(x)[s,k] - (1-e) [k = t_s] - e / V)
 *
 * t are the targets, e is the label smoothing, and V the number of classes, which are on the last axis. A target equal
 * to ignore_index has no loss and no gradient. The mean is over the other targets; without any it is NaN, as in
 * PyTorch. Targets that are probabilities are in cross_entropy_probabilities.c.
 *
 * With weights w of the classes, the mean divides by the sum of w[t_s]:
 *
 *   forward     l_s = (1-e) w[t_s] (L_s - x[s,t_s]) + e/V sum_k w[k] (L_s - x[s,k])
 *   gradient    dx[s,k] += dl_s (softmax(x)[s,k] ((1-e) w[t_s] + e/V sum w) - (1-e) w[t_s] [k = t_s] - e/V w[k])
 *
 * Forward saves two numbers per row, the maximum m and the sum z = sum_k exp(x[s,k] - m). Backward recomputes the
 * softmax from them, so it is never stored. L_s = m + log z alone would lose precision: for a large m the sum is
 * rounded, and digits of log z are lost. For the same reason the loss is computed as (m - x) + log z. Rows are
 * independent, and the losses are added in order, in double; so the result has the same bits for any number of threads.
 *
 * Follows torch.nn.functional.cross_entropy and nll_loss.
 */
#include <tapegrad/extend.h>

#include "ops/differentiate.h"
#include "ops/lanes.h"
#include "ops/loss/cross_entropy_rows.h"

TG_DECLARE_WIDE_KERNELS(tg_cross_entropy_forward, tg_cross_entropy_backward);

static tg_cross_entropy_rows rows_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    tg_cross_entropy_rows r = {.x = tg_values(x),
                               .targets = tg_values(call->inputs[1]),
                               .saved = call->saved,
                               .classes = x->shape[x->rank - 1],
                               .attributes = *(const tg_cross_entropy_attributes *)call->attributes};
    if (call->input_count > 2) {
        r.weight = tg_values(call->inputs[2]);
        r.weight_sum = row_sum(r.weight, r.classes);
    }
    return r;
}

/* Returns mean_k (most - x_k). */
static double mean_distance(const real *x, int64_t n, real most)
{
    real part[256];
    double sum = 0;
    for (int64_t k = 0; k < n; k += 256) {
        int64_t length = n - k < 256 ? n - k : 256;
        for (int64_t i = 0; i < length; i++) {
            part[i] = most - x[k + i];
        }
        sum += row_sum(part, length);
    }
    return sum / (double)n;
}

/* Returns sum_k w_k (most - x_k). */
static double weighted_distance(const real *x, const real *w, int64_t n, real most)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += (double)(w[k] * (most - x[k]));
    }
    return sum;
}

void KERNEL(tg_cross_entropy_of_rows)(void *context, int64_t begin, int64_t end)
{
    const tg_cross_entropy_rows *r = context;
    double e = r->attributes.config.label_smoothing;
    for (int64_t row = begin; row < end; row++) {
        int64_t s = r->first + row;
        const real *x = r->x + row * r->classes;
        r->losses[s] = 0;
        if (r->targets[s] == r->attributes.config.ignore_index) {
            continue;
        }
        double most = 0, log_sum = 0;
        if (!r->attributes.from_log_probabilities) {
            r->saved->rows[s] = softmax_row(x, r->classes, NULL);
            most = r->saved->rows[s].most;
            log_sum = tg_log_f64(r->saved->rows[s].sum);
        }
        double loss = (1 - e) * (most - (double)x[r->targets[s]] + log_sum);
        if (r->weight) {
            loss *= (double)r->weight[r->targets[s]];
        }
        if (e > 0 && r->weight) {
            double distance = weighted_distance(x, r->weight, r->classes, (real)most) + r->weight_sum * log_sum;
            loss += e / (double)r->classes * distance;
        } else if (e > 0) {
            loss += e * (mean_distance(x, r->classes, (real)most) + log_sum);
        }
        r->losses[s] = (real)loss;
    }
}

void KERNEL(tg_cross_entropy_reduce)(const tg_cross_entropy_rows *r, int64_t rows, real *y)
{
    double sum = 0, counted = 0;
    for (int64_t s = 0; s < rows; s++) {
        sum += (double)r->losses[s];
        bool counts = r->targets[s] != r->attributes.config.ignore_index;
        counted += counts && r->weight ? (double)r->weight[r->targets[s]] : counts;
    }
    r->saved->counted = counted;
    if (r->attributes.config.reduction != TG_REDUCTION_NONE) {
        *y = (real)(sum / (r->attributes.config.reduction == TG_REDUCTION_MEAN ? counted : 1));
    }
}

void KERNEL(tg_cross_entropy_forward)(const tg_op_call *call)
{
    tg_cross_entropy_rows r = rows_of(call);
    int64_t rows = call->inputs[1]->count;
    real *y = tg_values(call->outputs[0]);
    r.losses = r.attributes.config.reduction == TG_REDUCTION_NONE ? y : call->scratch;
    tg_parallel_for(rows, 1 + TG_GRAIN / 8 / (r.classes + 1), KERNEL(tg_cross_entropy_of_rows), &r);
    KERNEL(tg_cross_entropy_reduce)(&r, rows, y);
}

void KERNEL(tg_cross_entropy_gradient_of_rows)(void *context, int64_t begin, int64_t end)
{
    const tg_cross_entropy_rows *r = context;
    double e = r->attributes.config.label_smoothing;
    for (int64_t row = begin; row < end; row++) {
        int64_t s = r->first + row;
        const real *x = r->x + row * r->classes;
        real *dx = r->dx + row * r->classes;
        bool counts = r->targets[s] != r->attributes.config.ignore_index;
        if (r->overwrite && (!counts || r->attributes.from_log_probabilities)) {
            memset(dx, 0, (size_t)r->classes * sizeof *dx);
        }
        if (!counts) {
            continue;
        }
        real dl = r->attributes.config.reduction == TG_REDUCTION_NONE ? r->dy[s] : r->dy[0];
        if (r->attributes.config.reduction == TG_REDUCTION_MEAN) {
            dl = (real)((double)dl / r->saved->counted);
        }
        if (!r->attributes.from_log_probabilities) {
            real most = (real)r->saved->rows[s].most, inverse = (real)(1 / r->saved->rows[s].sum);
            real smoothed = (real)(e / (double)r->classes);
            if (r->weight) {
                inverse *= (real)((1 - e) * (double)r->weight[r->targets[s]]) + smoothed * (real)r->weight_sum;
            }
            real part[256]; /* the exponentials: x may be dx */
            for (int64_t k = 0; k < r->classes; k += 256) {
                int64_t length = r->classes - k < 256 ? r->classes - k : 256;
                row_exp(x + k, length, most, part);
                for (int64_t i = 0; i < length; i++) {
                    real spread = r->weight ? smoothed * r->weight[k + i] : smoothed;
                    real gradient = normal_or_zero(dl * (part[i] * inverse - spread));
                    dx[k + i] = accumulated(r->overwrite, dx[k + i], gradient);
                }
            }
        }
        real own = r->weight ? r->weight[r->targets[s]] : 1;
        dx[r->targets[s]] -= dl * (real)(1 - e) * own;
    }
}

/* The forward pass computed l = (1-e) (L - x[t]) + e (L - mean x). */
void KERNEL(tg_cross_entropy_backward)(const tg_op_call *call)
{
    tg_cross_entropy_rows r = rows_of(call);
    r.dy = call->output_gradients[0];
    r.dx = call->input_gradients[0];
    r.overwrite = writes_gradient(call, 0);
    tg_parallel_for(call->inputs[1]->count, 1 + TG_GRAIN / 8 / (r.classes + 1),
                    KERNEL(tg_cross_entropy_gradient_of_rows), &r);
}

#ifdef TG_ONCE

bool tg_check_targets(tg_op_call *call, int64_t classes, int32_t ignored, const char *name, const tg_tensor *scored)
{
    const tg_tensor *targets = call->inputs[1];
    const int32_t *target = tg_values(targets);
    for (int64_t s = 0; s < targets->count; s++) {
        if ((target[s] < 0 || target[s] >= classes) && target[s] != ignored) {
            tg_shape shape = tg_shape_of(targets);
            char text[TG_SHAPE_TEXT];
            return tg_op_fail(call, TG_ERROR_RANGE,
                              "target %d at %s is outside [0,%lld), the classes of %s %s, and is not ignore_index, %d",
                              target[s], tg_index_format(&shape, s, text), (long long)classes, name,
                              tg_shape_text_of(scored).text, ignored);
        }
    }
    return true;
}

bool tg_check_cross_entropy(tg_op_call *call, const tg_cross_entropy_config *config, int64_t classes, int weight)
{
    if (!(config->label_smoothing >= 0 && config->label_smoothing <= 1)) {
        return tg_op_fail(call, TG_ERROR_VALUE, "label_smoothing %g is outside [0,1]", config->label_smoothing);
    }
    if (!tg_loss_check_reduction(call, config->reduction, false)) {
        return false;
    }
    if (call->input_count <= weight) {
        return true;
    }
    if (!tg_op_expect_float(call, weight) || !tg_loss_expect_constant(call, weight, "weight")) {
        return false;
    }
    const tg_tensor *w = call->inputs[weight];
    return (w->rank == 1 && w->count == classes) ||
           tg_op_fail(call, TG_ERROR_SHAPE, "a weight of shape %s for %lld classes; it must be (V)",
                      tg_shape_text_of(w).text, (long long)classes);
}

static bool cross_entropy_shape(tg_op_call *call)
{
    const tg_cross_entropy_attributes *a = call->attributes;
    const tg_tensor *logits = call->inputs[0], *targets = call->inputs[1];
    tg_shape rows = tg_shape_of(logits);
    const char *name = a->from_log_probabilities ? "log-probabilities" : "logits";
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_dtype(call, 1, TG_I32)) {
        return false;
    }
    rows.rank--;
    if (rows.rank < 0 || !tg_shape_equal(rows, tg_shape_of(targets)) || logits->shape[rows.rank] < 1) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s %s and targets %s; they must be (..,V) and (..) with V >= 1", name,
                          tg_shape_text_of(logits).text, tg_shape_text_of(targets).text);
    }
    if (a->from_log_probabilities && a->config.label_smoothing != 0) {
        return tg_op_fail(call, TG_ERROR_VALUE, "label_smoothing %g is outside [0,0]", a->config.label_smoothing);
    }
    if (!tg_check_cross_entropy(call, &a->config, logits->shape[rows.rank], 2)) {
        return false;
    }
    return tg_check_targets(call, logits->shape[rows.rank], a->config.ignore_index, name, logits) &&
           tg_op_output(call, 0, tg_dtype_of(logits), a->config.reduction == TG_REDUCTION_NONE ? rows : TG_SCALAR) &&
           tg_op_save(call, 1, sizeof(tg_cross_entropy_saved)) &&
           tg_op_save(call, targets->count, sizeof(tg_softmax_row)) &&
           tg_op_scratch(call, targets->count + 1, tg_size_of(tg_dtype_of(logits)));
}

/* ---- gradients in ops ----
 *
 *   dx = dl (softmax(x) sum_k a_k - a)      a_k = w[k] ((1-e) [k = t] + e / V),    and for nll_loss -dl a
 *
 * A row that is ignored has an x and a dl of 0, so its values do not count. */
static void differentiate_cross_entropy(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const tg_cross_entropy_attributes *a = call->attributes;
    const double e = a->config.label_smoothing;
    tg_tensor *x = call->inputs[0], *ids = call->inputs[1], *zero = tg_full(t, tg_dtype_of(x), TG_SCALAR, 0);
    const int64_t classes = x->shape[x->rank - 1];
    tg_tensor *ignored = tg_eq(t, ids, tg_full(t, TG_I32, TG_SCALAR, a->config.ignore_index));
    tg_tensor *share = tg_one_hot(t, tg_masked_fill(t, ids, ignored, 0), classes, tg_dtype_of(x));
    share = tg_add_scalar(t, tg_mul_scalar(t, share, 1 - e), e / (double)classes);
    share = call->input_count > 2 ? tg_mul(t, share, call->inputs[2]) : share;
    ignored = tg_unsqueeze(t, ignored, -1);
    tg_tensor *dl = a->config.reduction == TG_REDUCTION_NONE ? tg_unsqueeze(t, dy[0], -1) : dy[0], *slope;
    if (a->config.reduction == TG_REDUCTION_MEAN) {
        dl = tg_div_scalar(t, dl, ((const tg_cross_entropy_saved *)call->saved)->counted);
    }
    if (a->from_log_probabilities) {
        slope = tg_neg(t, share);
    } else {
        tg_tensor *softmax = tg_softmax(t, tg_masked_fill(t, x, ignored, 0), -1);
        slope = tg_sub(t, tg_mul(t, softmax, tg_sum(t, share, TG_AXES(-1), TG_KEEP_AXES)), share);
    }
    dx[0] = tg_mul(t, tg_where(t, ignored, zero, dl), slope);
}

static const tg_op cross_entropy_op = {
    .name = "cross_entropy",
    .shape = cross_entropy_shape,
    .input_names = {"logits", "targets", "weight"},
    TG_WIDE_KERNELS(tg_cross_entropy_forward, tg_cross_entropy_backward),
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_cross_entropy,
};

static const tg_op nll_loss_op = {
    .name = "nll_loss",
    .shape = cross_entropy_shape,
    .input_names = {"log_probs", "targets", "weight"},
    TG_WIDE_KERNELS(tg_cross_entropy_forward, tg_cross_entropy_backward),
    .backward_ignores_inputs = 1u << 0, /* the log-probabilities */
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_cross_entropy,
};

const char tg_cross_entropy_mark[] = "tg_cross_entropy_config_default";

tg_cross_entropy_config tg_cross_entropy_config_default(void)
{
    return (tg_cross_entropy_config){
        .mark = tg_cross_entropy_mark, .ignore_index = -100, .reduction = TG_REDUCTION_MEAN};
}

static tg_tensor *apply(tg_tape *t, const tg_op *op, tg_tensor *x, tg_tensor *targets,
                        const tg_cross_entropy_config *config, bool from_log_probabilities)
{
    tg_cross_entropy_attributes a = {.config = config ? *config : tg_cross_entropy_config_default(),
                                     .from_log_probabilities = from_log_probabilities};
    tg_tensor *inputs[] = {x, targets, a.config.weight};
    return tg_tape_expect_config(t, op->name, config, tg_cross_entropy_mark)
               ? tg_apply(t, op, inputs, a.config.weight ? 3 : 2, &a, sizeof a, NULL)
               : NULL;
}

tg_tensor *tg_cross_entropy(tg_tape *t, tg_tensor *logits, tg_tensor *targets, const tg_cross_entropy_config *config)
{
    bool probabilities = targets && !targets->is_freed && tg_dtype_is_float(targets->dtype);
    return apply(t, probabilities ? &tg_cross_entropy_probabilities_op : &cross_entropy_op, logits, targets, config,
                 false);
}

tg_tensor *tg_nll_loss(tg_tape *t, tg_tensor *log_probs, tg_tensor *targets, const tg_cross_entropy_config *config)
{
    return apply(t, &nll_loss_op, log_probs, targets, config, true);
}

#endif
