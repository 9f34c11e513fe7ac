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

TG_LOOP(neg_value, a[i]);
TG_LOOP(neg_gradient, dy[i]);
TG_FUNCTION_OF_ONE(neg, TG_OP_ALL, TG_OP_ALL, neg_gradient_loop);

/* y = e^x, dx += dy y */
static inline real exp_value(real x)
{
    return EXP(x);
}

static inline real exp_gradient(real y, real dy)
{
    return dy * y;
}

TG_LOOP(exp_value, a[i]);
TG_LOOP(exp_gradient, y[i], dy[i]);
TG_FUNCTION_OF_ONE(exp, TG_OP_ALL, 0, exp_gradient_loop);

/* y = ln x, dx += dy / x */
static inline real log_value(real x)
{
    return LOG(x);
}

static inline real log_gradient(real x, real dy)
{
    return dy / x;
}

TG_LOOP(log_value, a[i]);
TG_LOOP(log_gradient, a[i], dy[i]);
TG_FUNCTION_OF_ONE(log, 0, TG_OP_ALL, log_gradient_loop);

/* y = x^(1/2), dx += dy / (2 y) */
static inline real sqrt_value(real x)
{
    return REAL(sqrt)(x);
}

static inline real sqrt_gradient(real y, real dy)
{
    return dy / (2 * y);
}

TG_LOOP(sqrt_value, a[i]);
TG_LOOP(sqrt_gradient, y[i], dy[i]);
TG_FUNCTION_OF_ONE(sqrt, TG_OP_ALL, 0, sqrt_gradient_loop);

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

TG_FUNCTION_OF_ONE(sin, 0, TG_OP_ALL, sin_gradient_loop);

/* y = cos x, dx += -dy sin x */
static void cos_value_loop(const tg_chunk *k)
{
    TYPED(tg_turns)(k->in[0], k->n, true, k->out);
}

static void cos_gradient_loop(const tg_chunk *k)
{
    turn_gradient(k, false, -1);
}

TG_FUNCTION_OF_ONE(cos, 0, TG_OP_ALL, cos_gradient_loop);

/* y = |x|, dx += dy sign(x) */
static inline real abs_value(real x)
{
    return REAL(fabs)(x);
}

static inline real abs_gradient(real x, real dy)
{
    return x > 0 ? dy : x < 0 ? -dy : 0;
}

TG_LOOP(abs_value, a[i]);
TG_LOOP(abs_gradient, a[i], dy[i]);
TG_FUNCTION_OF_ONE(abs, 0, TG_OP_ALL, abs_gradient_loop);

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

TG_LOOP(sign_value, a[i]);
TG_FUNCTION_OF_ONE(sign, TG_OP_ALL, TG_OP_ALL, zero_gradient);

/* y = the nearest whole number; halves go to the even one */
static inline real round_value(real x)
{
    return REAL(nearbyint)(x);
}

TG_LOOP(round_value, a[i]);
TG_FUNCTION_OF_ONE(round, TG_OP_ALL, TG_OP_ALL, zero_gradient);

/* y = the largest whole number that is not above x */
static inline real floor_value(real x)
{
    return REAL(floor)(x);
}

TG_LOOP(floor_value, a[i]);
TG_FUNCTION_OF_ONE(floor, TG_OP_ALL, TG_OP_ALL, zero_gradient);
