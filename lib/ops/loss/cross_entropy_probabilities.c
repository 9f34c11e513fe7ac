/* cross_entropy_probabilities: the cross-entropy with a distribution over the classes as the target.
 *
 *   forward     l_s = sum_k a[s,k] (L_s - x[s,k])       a[s,k] = w[k] ((1-e) t[s,k] + e / V)
 *                                                       L_s = log sum_k exp x[s,k]
 *   gradient    dx[s,k] += dl_s (softmax(x)[s,k] sum_j a[s,j] - a[s,k])
 *               dt[s,k] += dl_s (1-e) w[k] (L_s - x[s,k])
 *
 * t are the probabilities, w the weights of the classes (1 if they are absent) and e is the label smoothing. The mean
 * is over the rows, also with weights. Forward saves the maximum of each row and its sum of exponentials, as
 * cross_entropy does. Gradients of x that are not normal numbers are 0 (math/exp.h). Follows
 * torch.nn.functional.cross_entropy with probabilities.
 */
#include "ops/lanes.h"
#include "ops/loss/cross_entropy.h"

TG_DECLARE_WIDE_KERNELS(tg_cross_entropy_probabilities_forward, tg_cross_entropy_probabilities_backward);

typedef struct loss_rows {
    const real *x, *t, *dy;
    const real *w; /* (V), or NULL */
    real *losses;  /* (S), in the forward pass */
    real *dx, *dt; /* either may be NULL */
    tg_softmax_row *saved;
    int64_t count, classes;
    double e, divisor;
    bool each;
} loss_rows;

static loss_rows rows_of(const tg_op_call *call)
{
    const tg_cross_entropy_config *config = call->attributes;
    const tg_tensor *x = call->inputs[0];
    loss_rows r = {.x = tg_values(x),
                   .t = tg_values(call->inputs[1]),
                   .w = call->input_count > 2 ? tg_values(call->inputs[2]) : NULL,
                   .saved = call->saved,
                   .classes = x->shape[x->rank - 1],
                   .e = config->label_smoothing,
                   .each = config->reduction == TG_REDUCTION_NONE};
    r.count = x->count / r.classes;
    r.divisor = tg_loss_divisor(config->reduction, r.count, r.count);
    return r;
}

/* Returns a[s,k]. */
static double share_of(const loss_rows *r, int64_t s, int64_t k)
{
    double target = (1 - r->e) * (double)r->t[s * r->classes + k] + r->e / (double)r->classes;
    return r->w ? target * (double)r->w[k] : target;
}

static void loss_of_rows(void *context, int64_t begin, int64_t end)
{
    const loss_rows *r = context;
    for (int64_t s = begin; s < end; s++) {
        const real *x = r->x + s * r->classes;
        r->saved[s] = softmax_row(x, r->classes, NULL);
        double log_sum = tg_log_f64(r->saved[s].sum), loss = 0;
        for (int64_t k = 0; k < r->classes; k++) {
            double share = share_of(r, s, k);
            loss += share == 0 ? 0 : share * (r->saved[s].most - (double)x[k] + log_sum);
        }
        r->losses[s] = (real)loss;
    }
}

void KERNEL(tg_cross_entropy_probabilities_forward)(const tg_op_call *call)
{
    loss_rows r = rows_of(call);
    r.losses = r.each ? tg_values(call->outputs[0]) : call->scratch;
    tg_parallel_for(r.count, 1 + TG_GRAIN / 8 / (r.classes + 1), loss_of_rows, &r);
    if (!r.each) {
        *(real *)tg_values(call->outputs[0]) = (real)(row_sum(r.losses, r.count) / r.divisor);
    }
}

static void gradient_of_rows(void *context, int64_t begin, int64_t end)
{
    const loss_rows *r = context;
    for (int64_t s = begin; s < end; s++) {
        const real *x = r->x + s * r->classes;
        real *dx = r->dx ? r->dx + s * r->classes : NULL, *dt = r->dt ? r->dt + s * r->classes : NULL;
        double dl = (double)r->dy[r->each ? s : 0] / r->divisor, shares = 0;
        double most = r->saved[s].most, log_sum = tg_log_f64(r->saved[s].sum);
        for (int64_t k = 0; k < r->classes; k++) {
            shares += share_of(r, s, k);
        }
        double spread = shares / r->saved[s].sum;
        for (int64_t k = 0; k < r->classes; k++) {
            double own = most - (double)x[k] + log_sum;
            if (dx) {
                double power = (double)real_exp_or_zero(x[k] - (real)most);
                dx[k] += normal_or_zero((real)(dl * (power * spread - share_of(r, s, k))));
            }
            if (dt) {
                dt[k] += (real)(dl * (1 - r->e) * (r->w ? (double)r->w[k] : 1) * own);
            }
        }
    }
}

/* The forward pass computed l = sum_k a_k (L - x_k). */
void KERNEL(tg_cross_entropy_probabilities_backward)(const tg_op_call *call)
{
    loss_rows r = rows_of(call);
    r.dy = call->output_gradients[0];
    r.dx = call->input_gradients[0];
    r.dt = call->input_gradients[1];
    tg_parallel_for(r.count, 1 + TG_GRAIN / 8 / (r.classes + 1), gradient_of_rows, &r);
}

#ifdef TG_ONCE

static bool probabilities_shape(tg_op_call *call)
{
    const tg_cross_entropy_config *config = call->attributes;
    const tg_tensor *logits = call->inputs[0], *targets = call->inputs[1];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
        return false;
    }
    if (logits->rank == 0 || !tg_same_shape(logits, targets) || logits->shape[logits->rank - 1] < 1) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "logits %s and targets %s of %s, which count as probabilities; both must be (..,V) with "
                          "V >= 1, and targets that are ids must be i32",
                          tg_shape_text_of(logits).text, tg_shape_text_of(targets).text,
                          tg_dtype_name(tg_dtype_of(targets)));
    }
    tg_shape rows = tg_shape_of(logits);
    rows.rank--;
    int64_t count = tg_shape_count(rows);
    return tg_check_cross_entropy(call, config, logits->shape[rows.rank], 2) &&
           tg_op_output(call, 0, tg_dtype_of(logits), config->reduction == TG_REDUCTION_NONE ? rows : TG_SCALAR) &&
           tg_op_save(call, count, sizeof(tg_softmax_row)) && tg_op_scratch(call, count + 1, sizeof(double));
}

const tg_op tg_cross_entropy_probabilities_op = {
    .name = "cross_entropy",
    .shape = probabilities_shape,
    .input_names = {"logits", "targets", "weight"},
    TG_WIDE_KERNELS(tg_cross_entropy_probabilities_forward, tg_cross_entropy_probabilities_backward),
    .backward_ignores_outputs = TG_OP_ALL,
};

#endif
