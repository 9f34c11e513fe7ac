/* functions: mathematical functions of one input, which follow the PyTorch functions of their names, also for abs at 0,
 * where no derivative exists. */
#include "math/trigonometry.h"
#include "ops/elementwise/elementwise.h"

/* y = -x, dx += -dy */
static inline real neg_value(real x)
{
    return -x;
}

static inline real neg_gradient(real dy)
{
    return -dy;
}

TG_LOOP_1(neg_gradient, dy);
TG_FUNCTION_OF_NEITHER(neg_op, "neg", neg_value, neg_gradient_loop);

#ifdef TG_ONCE
tg_tensor *tg_neg(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &neg_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = e^x, dx += dy y */
static inline real exp_value(real x)
{
    return EXP(x);
}

static inline real exp_gradient(real y, real dy)
{
    return dy * y;
}

TG_FUNCTION_OF_OUTPUT(exp_op, "exp", exp_value, exp_gradient);

#ifdef TG_ONCE
tg_tensor *tg_exp(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &exp_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = ln x, dx += dy / x */
static inline real log_value(real x)
{
    return LOG(x);
}

static inline real log_gradient(real x, real dy)
{
    return dy / x;
}

TG_FUNCTION_OF_INPUT(log_op, "log", log_value, log_gradient);

#ifdef TG_ONCE
tg_tensor *tg_log(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &log_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = x^(1/2), dx += dy / (2 y) */
static inline real sqrt_value(real x)
{
    return REAL(sqrt)(x);
}

static inline real sqrt_gradient(real y, real dy)
{
    return dy / (2 * y);
}

TG_FUNCTION_OF_OUTPUT(sqrt_op, "sqrt", sqrt_value, sqrt_gradient);

#ifdef TG_ONCE
tg_tensor *tg_sqrt(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &sqrt_op.op, &x, 1, NULL, 0, NULL);
}
#endif

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

TG_ELEMENTWISE_KERNELS(sin_op, sin_value_loop, sin_gradient_loop);
TG_FUNCTION_OP(sin_op, "sin", 0, TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_sin(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &sin_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = cos x, dx += -dy sin x */
static void cos_value_loop(const tg_chunk *k)
{
    TYPED(tg_turns)(k->in[0], k->n, true, k->out);
}

static void cos_gradient_loop(const tg_chunk *k)
{
    turn_gradient(k, false, -1);
}

TG_ELEMENTWISE_KERNELS(cos_op, cos_value_loop, cos_gradient_loop);
TG_FUNCTION_OP(cos_op, "cos", 0, TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_cos(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &cos_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = |x|, dx += dy sign(x) */
static inline real abs_value(real x)
{
    return REAL(fabs)(x);
}

static inline real abs_gradient(real x, real dy)
{
    return x > 0 ? dy : x < 0 ? -dy : 0;
}

TG_FUNCTION_OF_INPUT(abs_op, "abs", abs_value, abs_gradient);

#ifdef TG_ONCE
tg_tensor *tg_abs(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &abs_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* ---- functions that are constant between their steps: dx += 0 ---- */

static void zero_gradient(const tg_chunk *k)
{
    memset(k->out, 0, (size_t)k->n * sizeof(real));
}

/* y = -1, 0 or 1 */
static inline real sign_value(real x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

TG_FUNCTION_OF_NEITHER(sign_op, "sign", sign_value, zero_gradient);

#ifdef TG_ONCE
tg_tensor *tg_sign(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &sign_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = the nearest whole number; halves go to the even one */
static inline real round_value(real x)
{
    return REAL(nearbyint)(x);
}

TG_FUNCTION_OF_NEITHER(round_op, "round", round_value, zero_gradient);

#ifdef TG_ONCE
tg_tensor *tg_round(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &round_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = the largest whole number that is not above x */
static inline real floor_value(real x)
{
    return REAL(floor)(x);
}

TG_FUNCTION_OF_NEITHER(floor_op, "floor", floor_value, zero_gradient);

#ifdef TG_ONCE
tg_tensor *tg_floor(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &floor_op.op, &x, 1, NULL, 0, NULL);
}
#endif
