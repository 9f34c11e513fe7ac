/* binary_cross_entropy_with_logits: the loss of independent yes-or-no decisions, from their logits.
 *
 *   forward     l = w ((1 - t) x + s log(1 + e^-x))        s = 1 + (p - 1) t
 *   gradient    dx = w dl (s sigmoid(x) - p t)
 *               dt = w dl (p log(1 + e^-x) - log(1 + e^x)) = w dl ((p - 1) log(1 + e^-|x|) - (x < 0 ? p x : x))
 *
 * x are the logits, t the targets in [0,1], w the weights of the losses and p the weights of positive targets, 1 if
 * they are absent. log(1 + e^-x) is computed as max(0, -x) + log1p(e^-|x|), which cannot overflow. The reductions are
 * in loss.c. Losses, and gradients of the logits, that are not normal numbers are 0 (math/exp.h). Follows
 * torch.nn.functional.binary_cross_entropy_with_logits.
 */
#include <tapegrad/extend.h>

#include "ops/differentiate.h"
#include "ops/elementwise/elementwise_real.h"
#include "ops/loss/pointwise.h"

/* Returns log(1 + e^-x), which is -log(sigmoid(x)). */
static inline real softplus_of_negative(real x)
{
    return (x < 0 ? -x : 0) + softplus_tail(x);
}

static inline real binary_cross_entropy_value(real x, real t, real w, real p)
{
    real s = 1 + (p - 1) * t;
    return normal_or_zero(w * ((1 - t) * x + s * softplus_of_negative(x)));
}

static inline real logits_gradient(real x, real t, real w, real p, real dy)
{
    real s = 1 + (p - 1) * t;
    return normal_or_zero(w * dy * (s / (1 + real_exp(-x)) - p * t));
}

static inline real target_gradient(real x, real w, real p, real dy)
{
    real rest = softplus_tail(x);
    return w * dy * ((p - 1) * rest - (x < 0 ? p * x : x));
}

TG_LOOP(binary_cross_entropy_value_loop, binary_cross_entropy_value(a, b, c, d));
TG_LOOP(logits_gradient_loop, logits_gradient(a, b, c, d, dy));
TG_LOOP(target_gradient_loop, target_gradient(a, c, d, dy));

#ifdef TG_ONCE
/* ---- gradients in ops ---- */

static void differentiate_binary_cross_entropy(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *target = call->inputs[1], *p = call->inputs[3];
    tg_tensor *dl = tg_mul(t, call->inputs[2], tg_loss_gradient(t, call, dy[0])), *one_less = tg_number_minus(t, 1, p);
    if (tg_wants(call, 0)) {
        tg_tensor *s = tg_number_minus(t, 1, tg_mul(t, one_less, target));
        dx[0] = tg_mul(t, dl, tg_sub(t, tg_mul(t, s, tg_sigmoid(t, x)), tg_mul(t, p, target)));
    }
    if (tg_wants(call, 1)) {
        dx[1] = tg_mul(t, dl, tg_sub(t, tg_mul(t, one_less, tg_log_sigmoid(t, x)), x));
    }
}

/* Checks that an input broadcasts to the logits, and has no gradient. */
static bool check_weight(tg_op_call *call, int input, const char *name)
{
    tg_shape x = tg_shape_of(call->inputs[0]), weight = tg_shape_of(call->inputs[input]), joined;
    if (!tg_op_expect_float(call, input) || !tg_loss_expect_constant(call, input, name)) {
        return false;
    }
    return (tg_shape_broadcast(&x, &weight, &joined) && tg_shape_equal(joined, x)) ||
           tg_op_fail(call, TG_ERROR_SHAPE, "the %s of shape %s does not broadcast to %s", name,
                      tg_shape_text(weight).text, tg_shape_text(x).text);
}

static bool binary_cross_entropy_shape(tg_op_call *call)
{
    const tg_loss_attributes *a = call->attributes;
    return tg_loss_check_reduction(call, a->reduction, false) && tg_loss_shape(call, 2) &&
           check_weight(call, 2, "weight") && check_weight(call, 3, "pos_weight");
}
#endif

TG_ELEMENTWISE(tg_binary_cross_entropy_op, tg_loss_levels, binary_cross_entropy_value_loop, logits_gradient_loop,
               target_gradient_loop, NULL, .op.name = "binary_cross_entropy_with_logits",
               .op.differentiate = differentiate_binary_cross_entropy, .op.shape = binary_cross_entropy_shape,
               .op.input_names = {"logits", "target", "weight", "pos_weight"},
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE

TG_CONFIG(tg_binary_cross_entropy_with_logits_config, tg_binary_cross_entropy_with_logits_config_default, mark,
          .mark = mark);

tg_tensor *tg_binary_cross_entropy_with_logits(tg_tape *t, tg_tensor *logits, tg_tensor *target,
                                               const tg_binary_cross_entropy_with_logits_config *given)
{
    const tg_op *op = &tg_binary_cross_entropy_op.op;
    tg_binary_cross_entropy_with_logits_config c =
        given ? *given : tg_binary_cross_entropy_with_logits_config_default();
    if (!tg_tape_expect_config(t, op->name, given, mark) || !tg_tape_expect_input(t, op->name, "logits", logits)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *one = c.weight && c.pos_weight ? NULL : tg_full(t, tg_dtype_of(logits), TG_SCALAR, 1);
    tg_tensor *inputs[] = {logits, target, c.weight ? c.weight : one, c.pos_weight ? c.pos_weight : one};
    tg_loss_attributes a = {.reduction = c.reduction};
    return tg_tape_end(t, &point, tg_apply(t, op, inputs, 4, &a, sizeof a, NULL));
}
#endif
