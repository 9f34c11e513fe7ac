/* losses: pointwise losses of a prediction x and a target t.
 *
 *   mse_loss              (x - t)^2
 *   l1_loss               |x - t|
 *   smooth_l1_loss        (x - t)^2 / (2 beta)     where |x - t| < beta,      else |x - t| - beta / 2
 *   huber_loss            (x - t)^2 / 2            where |x - t| <= delta,    else delta (|x - t| - delta / 2)
 *   kl_div                t (log t - x)            0 log 0 is 0; with log_target: e^t (t - x)
 *   hinge_embedding_loss  x where t = 1, max(0, margin - x) where t = -1, their sum for other t
 *   margin_ranking_loss   max(0, -t (a - b) + margin)
 *
 * The reductions are in loss.c. Follows the functions of these names in torch.nn.functional, with one difference:
 * shapes must be equal. torch broadcasts a prediction (B,1) and a target (B) to (B,B), which is a mistake. Where no
 * derivative exists, gradients are torch's: 0 for |x - t| at 0, and that of the branch above 0 for max(0, ...) at 0. At
 * NaN and infinity, too: the gradient 0 of a max(0, ...) times an infinite factor is NaN.
 */
#include "base/config.h"
#include "ops/loss/pointwise.h"

enum { MSE, L1, SMOOTH_L1, HUBER, KL_DIV, KL_DIV_LOG_TARGET, HINGE_EMBEDDING, MARGIN_RANKING };

static real number_of(const tg_chunk *k)
{
    return (real)((const tg_loss_attributes *)k->attributes)->number;
}

static real sign_of(real x)
{
    return (real)((x > 0) - (x < 0));
}

/* ---- distances: the gradient of the target is that of the prediction, negated ---- */

static void negate(const tg_chunk *k)
{
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -out[i];
    }
}

static void mse(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = (x[i] - t[i]) * (x[i] - t[i]);
    }
}

static void mse_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = (x[i] - t[i]) * (2 * dy[i]);
    }
}

static void mse_gradient_target(const tg_chunk *k)
{
    mse_gradient(k);
    negate(k);
}

static void l1(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(fabs)(x[i] - t[i]);
    }
}

static void l1_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = sign_of(x[i] - t[i]) * dy[i];
    }
}

static void l1_gradient_target(const tg_chunk *k)
{
    l1_gradient(k);
    negate(k);
}

/* A beta of 0 gives l1_loss. */
static void smooth_l1(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], beta = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real z = REAL(fabs)(x[i] - t[i]);
        out[i] = z < beta ? (real)0.5 * z * z / beta : z - (real)0.5 * beta;
    }
}

static void smooth_l1_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], *dy = k->dy, beta = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real d = x[i] - t[i];
        /* a NaN stays, except in l1_loss */
        out[i] = (beta > 0 && !(REAL(fabs)(d) >= beta) ? d / beta : sign_of(d)) * dy[i];
    }
}

static void smooth_l1_gradient_target(const tg_chunk *k)
{
    smooth_l1_gradient(k);
    negate(k);
}

static void huber(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], delta = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real z = REAL(fabs)(x[i] - t[i]);
        out[i] = z <= delta ? (real)0.5 * z * z : delta * (z - (real)0.5 * delta);
    }
}

static void huber_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], *dy = k->dy, delta = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real d = x[i] - t[i];
        out[i] = (d > delta ? delta : d < -delta ? -delta : d) * dy[i];
    }
}

static void huber_gradient_target(const tg_chunk *k)
{
    huber_gradient(k);
    negate(k);
}

/* ---- kl_div ---- */

static void kl_div(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = (t[i] == 0 ? 0 : t[i] * LOG(t[i])) - t[i] * x[i];
    }
}

static void kl_div_gradient(const tg_chunk *k)
{
    const real *t = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -t[i] * dy[i];
    }
}

/* The derivative of t log t as torch computes it, log t + t/t: NaN for a target of 0, where none exists, and of inf. */
static void kl_div_gradient_target(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = (LOG(t[i]) + t[i] / t[i] - x[i]) * dy[i];
    }
}

static void kl_div_log_target(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = EXP(t[i]) * (t[i] - x[i]);
    }
}

static void kl_div_log_target_gradient(const tg_chunk *k)
{
    const real *t = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -EXP(t[i]) * dy[i];
    }
}

static void kl_div_log_target_gradient_target(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real power = EXP(t[i]);
        out[i] = power * ((t[i] - x[i]) * dy[i]) + power * dy[i];
    }
}

/* ---- hinges ---- */

static void hinge_embedding(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], margin = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real hinge = margin - x[i] < 0 ? 0 : margin - x[i];
        out[i] = (t[i] != 1 ? hinge : 0) + (t[i] != -1 ? x[i] : 0);
    }
}

static void hinge_embedding_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *t = k->in[1], *dy = k->dy, margin = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = (t[i] != -1 ? dy[i] : 0) - (t[i] != 1 && margin - x[i] >= 0 ? dy[i] : 0);
    }
}

static void margin_ranking(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *t = k->in[2], margin = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real loss = -t[i] * (a[i] - b[i]) + margin;
        out[i] = loss < 0 ? 0 : loss;
    }
}

static void margin_ranking_gradient_a(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *t = k->in[2], *dy = k->dy, margin = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real dl = -t[i] * (a[i] - b[i]) + margin >= 0 ? dy[i] : 0;
        out[i] = -t[i] * dl;
    }
}

static void margin_ranking_gradient_b(const tg_chunk *k)
{
    margin_ranking_gradient_a(k);
    negate(k);
}

static void margin_ranking_gradient_target(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *t = k->in[2], *dy = k->dy, margin = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real dl = -t[i] * (a[i] - b[i]) + margin >= 0 ? dy[i] : 0;
        out[i] = (b[i] - a[i]) * dl;
    }
}

TG_DECLARE_ELEMENTWISE(tg_losses);

const tg_elementwise_kernels KERNEL(tg_losses)[] = {
    [MSE] = {mse, {mse_gradient, mse_gradient_target}},
    [L1] = {l1, {l1_gradient, l1_gradient_target}},
    [SMOOTH_L1] = {smooth_l1, {smooth_l1_gradient, smooth_l1_gradient_target}},
    [HUBER] = {huber, {huber_gradient, huber_gradient_target}},
    [KL_DIV] = {kl_div, {kl_div_gradient, kl_div_gradient_target}},
    [KL_DIV_LOG_TARGET] = {kl_div_log_target, {kl_div_log_target_gradient, kl_div_log_target_gradient_target}},
    [HINGE_EMBEDDING] = {hinge_embedding, {hinge_embedding_gradient, NULL}},
    [MARGIN_RANKING] = {margin_ranking,
                        {margin_ranking_gradient_a, margin_ranking_gradient_b, margin_ranking_gradient_target}},
};

#ifdef TG_ONCE

static bool loss_shape(tg_op_call *call)
{
    const tg_loss_attributes *a = call->attributes;
    return tg_loss_check_reduction(call, a->reduction, false) && tg_loss_shape(call, call->input_count);
}

static bool kl_div_shape(tg_op_call *call)
{
    const tg_loss_attributes *a = call->attributes;
    return tg_loss_check_reduction(call, a->reduction, true) && tg_loss_shape(call, call->input_count);
}

static bool hinge_embedding_shape(tg_op_call *call)
{
    return tg_loss_expect_constant(call, 1, "target") && loss_shape(call);
}

static const tg_elementwise ops[] = {
    [MSE] = TG_POINTWISE_LOSS("mse_loss", loss_shape, tg_losses, MSE),
    [L1] = TG_POINTWISE_LOSS("l1_loss", loss_shape, tg_losses, L1),
    [SMOOTH_L1] = TG_POINTWISE_LOSS("smooth_l1_loss", loss_shape, tg_losses, SMOOTH_L1),
    [HUBER] = TG_POINTWISE_LOSS("huber_loss", loss_shape, tg_losses, HUBER),
    [KL_DIV] = TG_POINTWISE_LOSS("kl_div", kl_div_shape, tg_losses, KL_DIV),
    [KL_DIV_LOG_TARGET] = TG_POINTWISE_LOSS("kl_div", kl_div_shape, tg_losses, KL_DIV_LOG_TARGET),
    [HINGE_EMBEDDING] = TG_POINTWISE_LOSS("hinge_embedding_loss", hinge_embedding_shape, tg_losses, HINGE_EMBEDDING),
    [MARGIN_RANKING] = TG_POINTWISE_LOSS("margin_ranking_loss", loss_shape, tg_losses, MARGIN_RANKING),
};

static tg_tensor *apply(tg_tape *t, const tg_elementwise *op, tg_tensor *x, tg_tensor *target, double number,
                        tg_reduction reduction)
{
    tg_tensor *inputs[] = {x, target};
    tg_loss_attributes a = {reduction, number};
    return tg_apply(t, &op->op, inputs, 2, &a, sizeof a, NULL);
}

/* Checks a number of a config. */
static bool expect_number(tg_tape *t, const char *name, double number, bool is_allowed, const char *field,
                          const char *allowed)
{
    return is_allowed || tg_tape_fail(t, TG_ERROR_VALUE, name, "%s %g; it must be %s", field, number, allowed);
}

tg_tensor *tg_mse_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    return apply(t, &ops[MSE], prediction, target, 0, reduction);
}

tg_tensor *tg_l1_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    return apply(t, &ops[L1], prediction, target, 0, reduction);
}

static const char smooth_l1_mark[] = "tg_smooth_l1_loss_config_default";

tg_smooth_l1_loss_config tg_smooth_l1_loss_config_default(void)
{
    return (tg_smooth_l1_loss_config){.mark = smooth_l1_mark, .beta = 1};
}

tg_tensor *tg_smooth_l1_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target,
                             const tg_smooth_l1_loss_config *given)
{
    if (!tg_tape_expect_config(t, "smooth_l1_loss", given, smooth_l1_mark)) {
        return NULL;
    }
    tg_smooth_l1_loss_config c = given ? *given : tg_smooth_l1_loss_config_default();
    return expect_number(t, "smooth_l1_loss", c.beta, c.beta >= 0 && isfinite(c.beta), "beta", "finite, and 0 or more")
               ? apply(t, &ops[SMOOTH_L1], prediction, target, c.beta, c.reduction)
               : NULL;
}

static const char huber_mark[] = "tg_huber_loss_config_default";

tg_huber_loss_config tg_huber_loss_config_default(void)
{
    return (tg_huber_loss_config){.mark = huber_mark, .delta = 1};
}

tg_tensor *tg_huber_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, const tg_huber_loss_config *given)
{
    if (!tg_tape_expect_config(t, "huber_loss", given, huber_mark)) {
        return NULL;
    }
    tg_huber_loss_config c = given ? *given : tg_huber_loss_config_default();
    return expect_number(t, "huber_loss", c.delta, c.delta > 0 && isfinite(c.delta), "delta", "finite, and above 0")
               ? apply(t, &ops[HUBER], prediction, target, c.delta, c.reduction)
               : NULL;
}

static const char kl_div_mark[] = "tg_kl_div_config_default";

tg_kl_div_config tg_kl_div_config_default(void)
{
    return (tg_kl_div_config){.mark = kl_div_mark};
}

tg_tensor *tg_kl_div(tg_tape *t, tg_tensor *log_probs, tg_tensor *target, const tg_kl_div_config *given)
{
    if (!tg_tape_expect_config(t, "kl_div", given, kl_div_mark)) {
        return NULL;
    }
    tg_kl_div_config c = given ? *given : tg_kl_div_config_default();
    return apply(t, &ops[c.log_target ? KL_DIV_LOG_TARGET : KL_DIV], log_probs, target, 0, c.reduction);
}

static const char hinge_embedding_mark[] = "tg_hinge_embedding_loss_config_default";

tg_hinge_embedding_loss_config tg_hinge_embedding_loss_config_default(void)
{
    return (tg_hinge_embedding_loss_config){.mark = hinge_embedding_mark, .margin = 1};
}

tg_tensor *tg_hinge_embedding_loss(tg_tape *t, tg_tensor *x, tg_tensor *target,
                                   const tg_hinge_embedding_loss_config *given)
{
    if (!tg_tape_expect_config(t, "hinge_embedding_loss", given, hinge_embedding_mark)) {
        return NULL;
    }
    tg_hinge_embedding_loss_config c = given ? *given : tg_hinge_embedding_loss_config_default();
    return expect_number(t, "hinge_embedding_loss", c.margin, isfinite(c.margin), "margin", "finite")
               ? apply(t, &ops[HINGE_EMBEDDING], x, target, c.margin, c.reduction)
               : NULL;
}

static const char margin_ranking_mark[] = "tg_margin_ranking_loss_config_default";

tg_margin_ranking_loss_config tg_margin_ranking_loss_config_default(void)
{
    return (tg_margin_ranking_loss_config){.mark = margin_ranking_mark};
}

tg_tensor *tg_margin_ranking_loss(tg_tape *t, tg_tensor *a, tg_tensor *b, tg_tensor *target,
                                  const tg_margin_ranking_loss_config *given)
{
    if (!tg_tape_expect_config(t, "margin_ranking_loss", given, margin_ranking_mark)) {
        return NULL;
    }
    tg_margin_ranking_loss_config c = given ? *given : tg_margin_ranking_loss_config_default();
    tg_tensor *inputs[] = {a, b, target};
    tg_loss_attributes attributes = {c.reduction, c.margin};
    return expect_number(t, "margin_ranking_loss", c.margin, isfinite(c.margin), "margin", "finite")
               ? tg_apply(t, &ops[MARGIN_RANKING].op, inputs, 3, &attributes, sizeof attributes, NULL)
               : NULL;
}

#endif
