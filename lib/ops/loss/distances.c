/* distances: pointwise losses of a prediction x and a target t.
 *
 * The reductions are in pointwise.c. Follows the functions of these names in torch.nn.functional, with one difference:
 * shapes must be equal. torch broadcasts a prediction (B,1) and a target (B) to (B,B), which is a mistake. Where no
 * derivative exists, gradients are torch's: 0 for |x - t| at 0, and that of the branch above 0 for max(0, ...) at 0. At
 * NaN and infinity, too: the gradient 0 of a max(0, ...) times an infinite factor is NaN.
 */
#include <tapegrad/extend.h>

#include "ops/differentiate.h"
#include "ops/elementwise/elementwise_real.h"
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
    tg_loss_attributes a = {{.p = number}, reduction};
    return tg_apply(t, &op->op, inputs, 2, &a, sizeof a, NULL);
}

/* ---- gradients in ops ---- */

static void differentiate_mse_loss(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *slope = tg_mul_scalar(t, tg_sub(t, call->inputs[0], call->inputs[1]), 2);
    dx[0] = tg_mul(t, slope, tg_loss_gradient(t, call, dy[0]));
    dx[1] = tg_wants(call, 1) ? tg_neg(t, dx[0]) : NULL;
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
static inline real mse_loss_gradient(real x, real t, real dy)
{
    return (x - t) * (2 * dy);
}

TG_LOOP(mse_loss_value_loop, (a - b) * (a - b));
TG_LOOP(mse_loss_gradient_loop, mse_loss_gradient(a, b, dy));
TG_LOOP(mse_loss_gradient_target_loop, -mse_loss_gradient(a, b, dy));
TG_ELEMENTWISE(tg_mse_loss_op, tg_loss_levels, mse_loss_value_loop, mse_loss_gradient_loop,
               mse_loss_gradient_target_loop, NULL, .op.name = "mse_loss", .op.differentiate = differentiate_mse_loss,
               .op.shape = loss_shape, .op.input_names = {"prediction", "target"},
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_mse_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    return apply_loss(t, &tg_mse_loss_op, prediction, target, 0, reduction);
}
#endif

/* l = |x - t| */
static inline real l1_loss_gradient(real x, real t, real dy)
{
    return sign_of(x - t) * dy;
}

TG_LOOP(l1_loss_value_loop, real_fabs(a - b));
TG_LOOP(l1_loss_gradient_loop, l1_loss_gradient(a, b, dy));
TG_LOOP(l1_loss_gradient_target_loop, -l1_loss_gradient(a, b, dy));
TG_ELEMENTWISE(tg_l1_loss_op, tg_loss_levels, l1_loss_value_loop, l1_loss_gradient_loop, l1_loss_gradient_target_loop,
               NULL, .op.name = "l1_loss", .op.shape = loss_shape, .op.input_names = {"prediction", "target"},
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_l1_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction)
{
    return apply_loss(t, &tg_l1_loss_op, prediction, target, 0, reduction);
}
#endif

/* l = (x - t)^2 / (2 beta) where |x - t| < beta, else |x - t| - beta / 2. A beta of 0 gives l1_loss. */
static inline real smooth_l1_loss_value(real x, real t, double beta_option)
{
    const real z = real_fabs(x - t), beta = (real)beta_option;
    return z < beta ? (real)0.5 * z * z / beta : z - (real)0.5 * beta;
}

static inline real smooth_l1_loss_gradient(real x, real t, real dy, double beta_option)
{
    const real d = x - t, beta = (real)beta_option;
    /* a NaN stays, except in l1_loss */
    return (beta > 0 && !(real_fabs(d) >= beta) ? d / beta : sign_of(d)) * dy;
}

TG_LOOP(smooth_l1_loss_value_loop, smooth_l1_loss_value(a, b, p));
TG_LOOP(smooth_l1_loss_gradient_loop, smooth_l1_loss_gradient(a, b, dy, p));
TG_LOOP(smooth_l1_loss_gradient_target_loop, -smooth_l1_loss_gradient(a, b, dy, p));
TG_ELEMENTWISE(tg_smooth_l1_loss_op, tg_loss_levels, smooth_l1_loss_value_loop, smooth_l1_loss_gradient_loop,
               smooth_l1_loss_gradient_target_loop, NULL, .op.name = "smooth_l1_loss", .op.shape = loss_shape,
               .op.input_names = {"prediction", "target"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE

TG_CONFIG(tg_smooth_l1_loss_config, tg_smooth_l1_loss_config_default, smooth_l1_mark, .mark = smooth_l1_mark,
          .beta = 1);

tg_tensor *tg_smooth_l1_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target,
                             const tg_smooth_l1_loss_config *given)
{
    if (!tg_tape_expect_config(t, "smooth_l1_loss", given, smooth_l1_mark)) {
        return NULL;
    }
    tg_smooth_l1_loss_config c = given ? *given : tg_smooth_l1_loss_config_default();
    return expect_number(t, "smooth_l1_loss", c.beta, c.beta >= 0 && isfinite(c.beta), "beta", "finite, and 0 or more")
               ? apply_loss(t, &tg_smooth_l1_loss_op, prediction, target, c.beta, c.reduction)
               : NULL;
}
#endif

/* l = (x - t)^2 / 2 where |x - t| <= delta, else delta (|x - t| - delta / 2) */
static inline real huber_loss_value(real x, real t, double delta_option)
{
    const real z = real_fabs(x - t), delta = (real)delta_option;
    return z <= delta ? (real)0.5 * z * z : delta * (z - (real)0.5 * delta);
}

static inline real huber_loss_gradient(real x, real t, real dy, double delta_option)
{
    const real d = x - t, delta = (real)delta_option;
    return (d > delta ? delta : d < -delta ? -delta : d) * dy;
}

TG_LOOP(huber_loss_value_loop, huber_loss_value(a, b, p));
TG_LOOP(huber_loss_gradient_loop, huber_loss_gradient(a, b, dy, p));
TG_LOOP(huber_loss_gradient_target_loop, -huber_loss_gradient(a, b, dy, p));
TG_ELEMENTWISE(tg_huber_loss_op, tg_loss_levels, huber_loss_value_loop, huber_loss_gradient_loop,
               huber_loss_gradient_target_loop, NULL, .op.name = "huber_loss", .op.shape = loss_shape,
               .op.input_names = {"prediction", "target"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE

TG_CONFIG(tg_huber_loss_config, tg_huber_loss_config_default, huber_mark, .mark = huber_mark, .delta = 1);

tg_tensor *tg_huber_loss(tg_tape *t, tg_tensor *prediction, tg_tensor *target, const tg_huber_loss_config *given)
{
    if (!tg_tape_expect_config(t, "huber_loss", given, huber_mark)) {
        return NULL;
    }
    tg_huber_loss_config c = given ? *given : tg_huber_loss_config_default();
    return expect_number(t, "huber_loss", c.delta, c.delta > 0 && isfinite(c.delta), "delta", "finite, and above 0")
               ? apply_loss(t, &tg_huber_loss_op, prediction, target, c.delta, c.reduction)
               : NULL;
}
#endif

/* ---- kl_div ---- */

/* l = t (log t - x); 0 log 0 is 0 */
/* The derivative of t log t as torch computes it, log t + t/t: NaN for a target of 0, where none exists, and of inf. */
TG_LOOP(kl_div_value_loop, (b == 0 ? 0 : b * real_log(b)) - b * a);
TG_LOOP(kl_div_gradient_loop, -b * dy);
TG_LOOP(kl_div_gradient_target_loop, (real_log(b) + b / b - a) * dy);

/* With log_target: l = e^t (t - x) */
static inline real kl_div_log_gradient_target(real x, real t, real dy)
{
    real power = real_exp(t);
    return power * ((t - x) * dy) + power * dy;
}

TG_LOOP(kl_div_log_value_loop, real_exp(b) * (b - a));
TG_LOOP(kl_div_log_gradient_loop, -real_exp(b) * dy);
TG_LOOP(kl_div_log_gradient_target_loop, kl_div_log_gradient_target(a, b, dy));

#ifdef TG_ONCE
static bool kl_div_shape(tg_op_call *call)
{
    const tg_loss_attributes *a = call->attributes;
    return tg_loss_check_reduction(call, a->reduction, true) && tg_loss_shape(call, call->input_count);
}

#endif

TG_ELEMENTWISE(tg_kl_div_op, tg_loss_levels, kl_div_value_loop, kl_div_gradient_loop, kl_div_gradient_target_loop, NULL,
               .op.name = "kl_div", .op.shape = kl_div_shape, .op.input_names = {"log_probs", "target"},
               .op.backward_ignores_outputs = TG_OP_ALL);
TG_ELEMENTWISE(tg_kl_div_log_op, tg_loss_levels, kl_div_log_value_loop, kl_div_log_gradient_loop,
               kl_div_log_gradient_target_loop, NULL, .op.name = "kl_div", .op.shape = kl_div_shape,
               .op.input_names = {"log_probs", "target"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE

TG_CONFIG(tg_kl_div_config, tg_kl_div_config_default, kl_div_mark, .mark = kl_div_mark);

tg_tensor *tg_kl_div(tg_tape *t, tg_tensor *log_probs, tg_tensor *target, const tg_kl_div_config *given)
{
    if (!tg_tape_expect_config(t, "kl_div", given, kl_div_mark)) {
        return NULL;
    }
    tg_kl_div_config c = given ? *given : tg_kl_div_config_default();
    return apply_loss(t, c.log_target ? &tg_kl_div_log_op : &tg_kl_div_op, log_probs, target, 0, c.reduction);
}
#endif

/* ---- hinges ---- */

/* l = x where t = 1, max(0, margin - x) where t = -1, their sum for other t */
static inline real hinge_embedding_loss_value(real x, real t, double margin_option)
{
    const real margin = (real)margin_option, hinge = margin - x < 0 ? 0 : margin - x;
    return (t != 1 ? hinge : 0) + (t != -1 ? x : 0);
}

TG_LOOP(hinge_embedding_loss_value_loop, hinge_embedding_loss_value(a, b, p));
TG_LOOP(hinge_embedding_loss_gradient_loop, (b != -1 ? dy : 0) - (b != 1 && (real)p - a >= 0 ? dy : 0));

#ifdef TG_ONCE
static bool hinge_embedding_shape(tg_op_call *call)
{
    return tg_loss_expect_constant(call, 1, "target") && loss_shape(call);
}

#endif

TG_ELEMENTWISE(tg_hinge_embedding_loss_op, tg_loss_levels, hinge_embedding_loss_value_loop,
               hinge_embedding_loss_gradient_loop, NULL, NULL, .op.name = "hinge_embedding_loss",
               .op.shape = hinge_embedding_shape, .op.input_names = {"x", "target"},
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE

TG_CONFIG(tg_hinge_embedding_loss_config, tg_hinge_embedding_loss_config_default, hinge_embedding_mark,
          .mark = hinge_embedding_mark, .margin = 1);

tg_tensor *tg_hinge_embedding_loss(tg_tape *t, tg_tensor *x, tg_tensor *target,
                                   const tg_hinge_embedding_loss_config *given)
{
    if (!tg_tape_expect_config(t, "hinge_embedding_loss", given, hinge_embedding_mark)) {
        return NULL;
    }
    tg_hinge_embedding_loss_config c = given ? *given : tg_hinge_embedding_loss_config_default();
    return expect_number(t, "hinge_embedding_loss", c.margin, isfinite(c.margin), "margin", "finite")
               ? apply_loss(t, &tg_hinge_embedding_loss_op, x, target, c.margin, c.reduction)
               : NULL;
}
#endif

/* l = max(0, margin - t (a - b)) */
static inline real margin_ranking_loss_value(real a, real b, real t, double margin)
{
    real value = -t * (a - b) + (real)margin;
    return value < 0 ? 0 : value;
}

static inline real margin_ranking_loss_gradient_a(real a, real b, real t, real dy, double margin)
{
    real dl = -t * (a - b) + (real)margin >= 0 ? dy : 0;
    return -t * dl;
}

static inline real margin_ranking_loss_gradient_target(real a, real b, real t, real dy, double margin)
{
    real dl = -t * (a - b) + (real)margin >= 0 ? dy : 0;
    return (b - a) * dl;
}

TG_LOOP(margin_ranking_loss_value_loop, margin_ranking_loss_value(a, b, c, p));
TG_LOOP(margin_ranking_loss_gradient_a_loop, margin_ranking_loss_gradient_a(a, b, c, dy, p));
TG_LOOP(margin_ranking_loss_gradient_b_loop, -margin_ranking_loss_gradient_a(a, b, c, dy, p));
TG_LOOP(margin_ranking_loss_gradient_target_loop, margin_ranking_loss_gradient_target(a, b, c, dy, p));
TG_ELEMENTWISE(tg_margin_ranking_loss_op, tg_loss_levels, margin_ranking_loss_value_loop,
               margin_ranking_loss_gradient_a_loop, margin_ranking_loss_gradient_b_loop,
               margin_ranking_loss_gradient_target_loop, .op.name = "margin_ranking_loss", .op.shape = loss_shape,
               .op.input_names = {"a", "b", "target"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE

TG_CONFIG(tg_margin_ranking_loss_config, tg_margin_ranking_loss_config_default, margin_ranking_mark,
          .mark = margin_ranking_mark);

tg_tensor *tg_margin_ranking_loss(tg_tape *t, tg_tensor *a, tg_tensor *b, tg_tensor *target,
                                  const tg_margin_ranking_loss_config *given)
{
    if (!tg_tape_expect_config(t, "margin_ranking_loss", given, margin_ranking_mark)) {
        return NULL;
    }
    tg_margin_ranking_loss_config c = given ? *given : tg_margin_ranking_loss_config_default();
    tg_tensor *inputs[] = {a, b, target};
    tg_loss_attributes attributes = {{.p = c.margin}, c.reduction};
    return expect_number(t, "margin_ranking_loss", c.margin, isfinite(c.margin), "margin", "finite")
               ? tg_apply(t, &tg_margin_ranking_loss_op.op, inputs, 3, &attributes, sizeof attributes, NULL)
               : NULL;
}
#endif
