/* functions: mathematical functions of one input, which follow the PyTorch functions of their names, also for abs at 0,
 * where no derivative exists. */
#include "math/trigonometry.h"
#include "ops/elementwise/elementwise_real.h"

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_neg(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    (void)call;
    dx[0] = tg_neg(t, dy[0]);
}

static void differentiate_exp(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_mul(t, dy[0], call->outputs[0]);
}

static void differentiate_log(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_div(t, dy[0], call->inputs[0]);
}

static void differentiate_sqrt(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_div(t, dy[0], tg_mul_scalar(t, call->outputs[0], 2));
}

static void differentiate_sin(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_mul(t, dy[0], tg_cos(t, call->inputs[0]));
}

static void differentiate_cos(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_neg(t, tg_mul(t, dy[0], tg_sin(t, call->inputs[0])));
}

/* The gradient of a function that is constant between its steps. */
static void differentiate_steps(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    (void)t;
    (void)call;
    (void)dy;
    (void)dx;
}
#endif

/* y = -x, dx += -dy */
TG_LOOP(neg_value_loop, -a);
TG_LOOP(neg_gradient_loop, -dy);
TG_FUNCTION_OF_ONE(tg_neg, tg_neg_op, neg_value_loop, neg_gradient_loop, .op.name = "neg",
                   .op.differentiate = differentiate_neg, .op.backward_ignores_inputs = TG_OP_ALL,
                   .op.backward_ignores_outputs = TG_OP_ALL);

/* y = e^x, dx += dy y */
TG_LOOP(exp_value_loop, real_exp(a));
TG_LOOP(exp_gradient_loop, dy * y);
TG_FUNCTION_OF_ONE(tg_exp, tg_exp_op, exp_value_loop, exp_gradient_loop, .op.name = "exp",
                   .op.differentiate = differentiate_exp, .op.backward_ignores_inputs = TG_OP_ALL);

/* y = ln x, dx += dy / x */
TG_LOOP(log_value_loop, real_log(a));
TG_LOOP(log_gradient_loop, dy / a);
TG_FUNCTION_OF_ONE(tg_log, tg_log_op, log_value_loop, log_gradient_loop, .op.name = "log",
                   .op.differentiate = differentiate_log, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = x^(1/2), dx += dy / (2 y) */
TG_LOOP(sqrt_value_loop, real_sqrt(a));
TG_LOOP(sqrt_gradient_loop, dy / (2 * y));
TG_FUNCTION_OF_ONE(tg_sqrt, tg_sqrt_op, sqrt_value_loop, sqrt_gradient_loop, .op.name = "sqrt",
                   .op.differentiate = differentiate_sqrt, .op.backward_ignores_inputs = TG_OP_ALL);

/* y = sin x, dx += dy cos x */
static void sin_value_loop(const tg_chunk *k)
{
    TYPED(tg_turns)(k->in[0], k->n, false, k->out);
}

/* Computes sign dy cos x, or sign dy sin x. */
static inline void turn_gradient(const tg_chunk *k, bool is_cos, real sign)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out, part[TG_ELEMENTWISE_CHUNK];
    for (int64_t i = 0, n; i < k->n; i += n) {
        n = k->n - i < TG_ELEMENTWISE_CHUNK ? k->n - i : TG_ELEMENTWISE_CHUNK;
        TYPED(tg_turns)(x + i, n, is_cos, part);
        for (int64_t j = 0; j < n; j++) {
            out[i + j] = sign * dy[i + j] * part[j];
        }
    }
}

static void sin_gradient_loop(const tg_chunk *k)
{
    turn_gradient(k, true, 1);
}

TG_FUNCTION_OF_ONE(tg_sin, tg_sin_op, sin_value_loop, sin_gradient_loop, .op.name = "sin",
                   .op.differentiate = differentiate_sin, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = cos x, dx += -dy sin x */
static void cos_value_loop(const tg_chunk *k)
{
    TYPED(tg_turns)(k->in[0], k->n, true, k->out);
}

static void cos_gradient_loop(const tg_chunk *k)
{
    turn_gradient(k, false, -1);
}

TG_FUNCTION_OF_ONE(tg_cos, tg_cos_op, cos_value_loop, cos_gradient_loop, .op.name = "cos",
                   .op.differentiate = differentiate_cos, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = |x|, dx += dy sign(x) */
TG_LOOP(abs_value_loop, real_fabs(a));
TG_LOOP(abs_gradient_loop, a > 0 ? dy : a < 0 ? -dy : 0);
TG_FUNCTION_OF_ONE(tg_abs, tg_abs_op, abs_value_loop, abs_gradient_loop, .op.name = "abs",
                   .op.differentiate = tg_differentiate_linear, .op.backward_ignores_outputs = TG_OP_ALL);

/* ---- functions that are constant between their steps: dx += 0 ---- */

static void zero_gradient(const tg_chunk *k)
{
    memset(k->out, 0, (size_t)k->n * sizeof(real));
}

/* y = -1, 0 or 1 */
TG_LOOP(sign_value_loop, a > 0 ? 1 : a < 0 ? -1 : 0);
TG_FUNCTION_OF_ONE(tg_sign, tg_sign_op, sign_value_loop, zero_gradient, .op.name = "sign",
                   .op.differentiate = differentiate_steps, .op.backward_ignores_inputs = TG_OP_ALL,
                   .op.backward_ignores_outputs = TG_OP_ALL);

/* y = the nearest whole number; halves go to the even one */
TG_LOOP(round_value_loop, real_nearbyint(a));
TG_FUNCTION_OF_ONE(tg_round, tg_round_op, round_value_loop, zero_gradient, .op.name = "round",
                   .op.differentiate = differentiate_steps, .op.backward_ignores_inputs = TG_OP_ALL,
                   .op.backward_ignores_outputs = TG_OP_ALL);

/* y = the largest whole number that is not above x */
TG_LOOP(floor_value_loop, real_floor(a));
TG_FUNCTION_OF_ONE(tg_floor, tg_floor_op, floor_value_loop, zero_gradient, .op.name = "floor",
                   .op.differentiate = differentiate_steps, .op.backward_ignores_inputs = TG_OP_ALL,
                   .op.backward_ignores_outputs = TG_OP_ALL);
