/* distances: pointwise losses of a prediction x and a target t.
 *
 * The reductions are in pointwise.c. Follows the functions of these names in torch.nn.functional, with one difference:
 * shapes must be equal. torch broadcasts a prediction (B,1) and a target (B) to (B,B), which is a mistake. Where no
 * derivative exists, gradients are torch's: 0 for |x - t| at 0, and that of the branch above 0 for max(0, ...) at 0. At
 * NaN and infinity, too: the gradient 0 of a max(0, ...) times an infinite factor is NaN.
 */
#include <tapegrad/extend.h>

#include "ops/loss/pointwise.h"

#ifdef TG_ONCE
static bool loss_shape(tg_op_call *call)
{
    const tg_loss_attributes *a = call->attributes;
    return tg_loss_check_reduction(call, a->reduction, false) && tg_loss_shape(call, call->input_count);
}

static tg_tensor *apply_loss(tg_tape *t, const tg_elementwise *op, tg_tensor *x, tg_tensor *target, double number,
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
#endif

/* ---- distances: the gradient of the target is that of the prediction, negated ---- */

static inline real sign_of(real x)
{
    return (real)((x > 0) - (x < 0));
}

/* l = (x - t)^2 */
static inline real mse_loss_value(real x, real t)
{
    return (x - t) * (x - t);
}

static inline real mse_loss_gradient(real x, real t, real dy)
{
    return (x - t) * (2 * dy);
}

static inline real mse_loss_gradient_target(real x, real t, real dy)
{
    return -mse_loss_gradient(x, t, dy);
}

TG_LOOP_2(mse_loss_value, in[0], in[1]);
TG_LOOP_3(mse_loss_gradient, in[0], in[1], dy);
TG_LOOP_3(mse_loss_gradient_target, in[0], in[1], dy);
TG_ELEMENTWISE_KERNELS(mse_loss_op, mse_loss_value_loop, mse_loss_gradient_loop, mse_loss_gradient_target_loop);

#ifdef TG_ONCE
static const tg_elementwise mse_loss_op = {
    TG_POINTWISE_LOSS("mse_loss", mse_loss_op, loss_shape, "prediction", "target")};

tg_tensor *tg_mse_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    return apply_loss(t, &mse_loss_op, prediction, target, 0, reduction);
}
#endif

/* l = |x - t| */
static inline real l1_loss_value(real x, real t)
{
    return REAL(fabs)(x - t);
}

static inline real l1_loss_gradient(real x, real t, real dy)
{
    return sign_of(x - t) * dy;
}

static inline real l1_loss_gradient_target(real x, real t, real dy)
{
    return -l1_loss_gradient(x, t, dy);
}

TG_LOOP_2(l1_loss_value, in[0], in[1]);
TG_LOOP_3(l1_loss_gradient, in[0], in[1], dy);
TG_LOOP_3(l1_loss_gradient_target, in[0], in[1], dy);
TG_ELEMENTWISE_KERNELS(l1_loss_op, l1_loss_value_loop, l1_loss_gradient_loop, l1_loss_gradient_target_loop);

#ifdef TG_ONCE
static const tg_elementwise l1_loss_op = {TG_POINTWISE_LOSS("l1_loss", l1_loss_op, loss_shape, "prediction", "target")};

tg_tensor *tg_l1_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    return apply_loss(t, &l1_loss_op, prediction, target, 0, reduction);
}
#endif

/* l = (x - t)^2 / (2 beta) where |x - t| < beta, else |x - t| - beta / 2. A beta of 0 gives l1_loss. */
static inline real smooth_l1_loss_value(real x, real t, tg_loss_attributes loss)
{
    const real z = REAL(fabs)(x - t), beta = (real)loss.number;
    return z < beta ? (real)0.5 * z * z / beta : z - (real)0.5 * beta;
}

static inline real smooth_l1_loss_gradient(real x, real t, real dy, tg_loss_attributes loss)
{
    const real d = x - t, beta = (real)loss.number;
    /* a NaN stays, except in l1_loss */
    return (beta > 0 && !(REAL(fabs)(d) >= beta) ? d / beta : sign_of(d)) * dy;
}

static inline real smooth_l1_loss_gradient_target(real x, real t, real dy, tg_loss_attributes loss)
{
    return -smooth_l1_loss_gradient(x, t, dy, loss);
}

TG_LOOP_2_WITH(tg_loss_attributes, smooth_l1_loss_value, in[0], in[1]);
TG_LOOP_3_WITH(tg_loss_attributes, smooth_l1_loss_gradient, in[0], in[1], dy);
TG_LOOP_3_WITH(tg_loss_attributes, smooth_l1_loss_gradient_target, in[0], in[1], dy);
TG_ELEMENTWISE_KERNELS(smooth_l1_loss_op, smooth_l1_loss_value_loop, smooth_l1_loss_gradient_loop,
                       smooth_l1_loss_gradient_target_loop);

#ifdef TG_ONCE
static const tg_elementwise smooth_l1_loss_op = {
    TG_POINTWISE_LOSS("smooth_l1_loss", smooth_l1_loss_op, loss_shape, "prediction", "target")};

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
               ? apply_loss(t, &smooth_l1_loss_op, prediction, target, c.beta, c.reduction)
               : NULL;
}
#endif

/* l = (x - t)^2 / 2 where |x - t| <= delta, else delta (|x - t| - delta / 2) */
static inline real huber_loss_value(real x, real t, tg_loss_attributes loss)
{
    const real z = REAL(fabs)(x - t), delta = (real)loss.number;
    return z <= delta ? (real)0.5 * z * z : delta * (z - (real)0.5 * delta);
}

static inline real huber_loss_gradient(real x, real t, real dy, tg_loss_attributes loss)
{
    const real d = x - t, delta = (real)loss.number;
    return (d > delta ? delta : d < -delta ? -delta : d) * dy;
}

static inline real huber_loss_gradient_target(real x, real t, real dy, tg_loss_attributes loss)
{
    return -huber_loss_gradient(x, t, dy, loss);
}

TG_LOOP_2_WITH(tg_loss_attributes, huber_loss_value, in[0], in[1]);
TG_LOOP_3_WITH(tg_loss_attributes, huber_loss_gradient, in[0], in[1], dy);
TG_LOOP_3_WITH(tg_loss_attributes, huber_loss_gradient_target, in[0], in[1], dy);
TG_ELEMENTWISE_KERNELS(huber_loss_op, huber_loss_value_loop, huber_loss_gradient_loop, huber_loss_gradient_target_loop);

#ifdef TG_ONCE
static const tg_elementwise huber_loss_op = {
    TG_POINTWISE_LOSS("huber_loss", huber_loss_op, loss_shape, "prediction", "target")};

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
               ? apply_loss(t, &huber_loss_op, prediction, target, c.delta, c.reduction)
               : NULL;
}
#endif

/* ---- kl_div ---- */

/* l = t (log t - x); 0 log 0 is 0 */
static inline real kl_div_value(real x, real t)
{
    return (t == 0 ? 0 : t * LOG(t)) - t * x;
}

static inline real kl_div_gradient(real t, real dy)
{
    return -t * dy;
}

/* The derivative of t log t as torch computes it, log t + t/t: NaN for a target of 0, where none exists, and of inf. */
static inline real kl_div_gradient_target(real x, real t, real dy)
{
    return (LOG(t) + t / t - x) * dy;
}

TG_LOOP_2(kl_div_value, in[0], in[1]);
TG_LOOP_2(kl_div_gradient, in[1], dy);
TG_LOOP_3(kl_div_gradient_target, in[0], in[1], dy);
TG_ELEMENTWISE_KERNELS(kl_div_op, kl_div_value_loop, kl_div_gradient_loop, kl_div_gradient_target_loop);

/* With log_target: l = e^t (t - x) */
static inline real kl_div_log_value(real x, real t)
{
    return EXP(t) * (t - x);
}

static inline real kl_div_log_gradient(real t, real dy)
{
    return -EXP(t) * dy;
}

static inline real kl_div_log_gradient_target(real x, real t, real dy)
{
    real power = EXP(t);
    return power * ((t - x) * dy) + power * dy;
}

TG_LOOP_2(kl_div_log_value, in[0], in[1]);
TG_LOOP_2(kl_div_log_gradient, in[1], dy);
TG_LOOP_3(kl_div_log_gradient_target, in[0], in[1], dy);
TG_ELEMENTWISE_KERNELS(kl_div_log_op, kl_div_log_value_loop, kl_div_log_gradient_loop, kl_div_log_gradient_target_loop);

#ifdef TG_ONCE
static bool kl_div_shape(tg_op_call *call)
{
    const tg_loss_attributes *a = call->attributes;
    return tg_loss_check_reduction(call, a->reduction, true) && tg_loss_shape(call, call->input_count);
}

static const tg_elementwise kl_div_op = {TG_POINTWISE_LOSS("kl_div", kl_div_op, kl_div_shape, "log_probs", "target")};
static const tg_elementwise kl_div_log_op = {
    TG_POINTWISE_LOSS("kl_div", kl_div_log_op, kl_div_shape, "log_probs", "target")};

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
    return apply_loss(t, c.log_target ? &kl_div_log_op : &kl_div_op, log_probs, target, 0, c.reduction);
}
#endif

/* ---- hinges ---- */

/* l = x where t = 1, max(0, margin - x) where t = -1, their sum for other t */
static inline real hinge_embedding_loss_value(real x, real t, tg_loss_attributes loss)
{
    const real margin = (real)loss.number, hinge = margin - x < 0 ? 0 : margin - x;
    return (t != 1 ? hinge : 0) + (t != -1 ? x : 0);
}

static inline real hinge_embedding_loss_gradient(real x, real t, real dy, tg_loss_attributes loss)
{
    return (t != -1 ? dy : 0) - (t != 1 && (real)loss.number - x >= 0 ? dy : 0);
}

TG_LOOP_2_WITH(tg_loss_attributes, hinge_embedding_loss_value, in[0], in[1]);
TG_LOOP_3_WITH(tg_loss_attributes, hinge_embedding_loss_gradient, in[0], in[1], dy);
TG_ELEMENTWISE_KERNELS(hinge_embedding_loss_op, hinge_embedding_loss_value_loop, hinge_embedding_loss_gradient_loop,
                       NULL);

#ifdef TG_ONCE
static bool hinge_embedding_shape(tg_op_call *call)
{
    return tg_loss_expect_constant(call, 1, "target") && loss_shape(call);
}

static const tg_elementwise hinge_embedding_loss_op = {
    TG_POINTWISE_LOSS("hinge_embedding_loss", hinge_embedding_loss_op, hinge_embedding_shape, "x", "target")};

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
               ? apply_loss(t, &hinge_embedding_loss_op, x, target, c.margin, c.reduction)
               : NULL;
}
#endif

/* l = max(0, margin - t (a - b)) */
static inline real margin_ranking_loss_value(real a, real b, real t, tg_loss_attributes loss)
{
    real value = -t * (a - b) + (real)loss.number;
    return value < 0 ? 0 : value;
}

static inline real margin_ranking_loss_gradient_a(real a, real b, real t, real dy, tg_loss_attributes loss)
{
    real dl = -t * (a - b) + (real)loss.number >= 0 ? dy : 0;
    return -t * dl;
}

static inline real margin_ranking_loss_gradient_b(real a, real b, real t, real dy, tg_loss_attributes loss)
{
    return -margin_ranking_loss_gradient_a(a, b, t, dy, loss);
}

static inline real margin_ranking_loss_gradient_target(real a, real b, real t, real dy, tg_loss_attributes loss)
{
    real dl = -t * (a - b) + (real)loss.number >= 0 ? dy : 0;
    return (b - a) * dl;
}

TG_LOOP_3_WITH(tg_loss_attributes, margin_ranking_loss_value, in[0], in[1], in[2]);
TG_LOOP_4_WITH(tg_loss_attributes, margin_ranking_loss_gradient_a, in[0], in[1], in[2], dy);
TG_LOOP_4_WITH(tg_loss_attributes, margin_ranking_loss_gradient_b, in[0], in[1], in[2], dy);
TG_LOOP_4_WITH(tg_loss_attributes, margin_ranking_loss_gradient_target, in[0], in[1], in[2], dy);
TG_ELEMENTWISE_KERNELS(margin_ranking_loss_op, margin_ranking_loss_value_loop, margin_ranking_loss_gradient_a_loop,
                       margin_ranking_loss_gradient_b_loop, margin_ranking_loss_gradient_target_loop);

#ifdef TG_ONCE
static const tg_elementwise margin_ranking_loss_op = {
    TG_POINTWISE_LOSS("margin_ranking_loss", margin_ranking_loss_op, loss_shape, "a", "b", "target")};

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
               ? tg_apply(t, &margin_ranking_loss_op.op, inputs, 3, &attributes, sizeof attributes, NULL)
               : NULL;
}
#endif
