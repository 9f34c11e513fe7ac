/* functions: one value in, one value out.
 *
 *   neg       -x                                   dx += -dy
 *   exp       e^x                                  dx += dy y
 *   log       ln x                                 dx += dy / x
 *   sqrt      x^(1/2)                              dx += dy / (2 y)
 *   tanh                                           dx += dy (1 - y^2)
 *   sigmoid   1 / (1 + e^-x)                       dx += dy y (1 - y)
 *   relu      max(x, 0)                            dx += dy where not x <= 0
 *   gelu      x Phi(x)                             dx += dy (Phi(x) + x phi(x))
 *   gelu_tanh x/2 (1 + tanh u) = x s               dx += dy (s + x s (1 - s) 2 u'), s = sigmoid(2 u)
 *             u = sqrt(2/pi) (x + 0.044715 x^3)
 *   silu      x sigmoid(x)                         dx += dy s (1 + x (1 - s)), s = sigmoid(x)
 *   abs       |x|                                  dx += dy sign(x)
 *   clamp     min(max(x, low), high)               dx += dy where low <= x <= high
 *
 * Phi is the normal distribution function, phi its density (Hendrycks and Gimpel 2016). Follows the PyTorch functions
 * of these names, at the kinks too.
 */
#include "ops/elementwise.h"

#include <tapegrad/ops.h>

#define SQRT_HALF ((real)0.70710678118654752440)
#define SQRT_2_OVER_PI ((real)0.79788456080286535588)
#define ONE_OVER_SQRT_2PI ((real)0.39894228040143267794)

typedef struct clamp_bounds {
    double low, high;
} clamp_bounds;

static void KERNEL(neg)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = -k->in[0][i];
    }
}

static void KERNEL(neg_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = -k->dy[i];
    }
}

static void KERNEL(exp)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = EXP(k->in[0][i]);
    }
}

static void KERNEL(exp_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] * k->y[i];
    }
}

static void KERNEL(log)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = REAL(log)(k->in[0][i]);
    }
}

static void KERNEL(log_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] / k->in[0][i];
    }
}

static void KERNEL(sqrt)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = REAL(sqrt)(k->in[0][i]);
    }
}

static void KERNEL(sqrt_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] / (2 * k->y[i]);
    }
}

static void KERNEL(tanh)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = REAL(tanh)(k->in[0][i]);
    }
}

static void KERNEL(tanh_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] * (1 - k->y[i] * k->y[i]);
    }
}

static real KERNEL(sigmoid_of)(real x)
{
    return 1 / (1 + EXP(-x));
}

static void KERNEL(sigmoid)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = KERNEL(sigmoid_of)(k->in[0][i]);
    }
}

static void KERNEL(sigmoid_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] * k->y[i] * (1 - k->y[i]);
    }
}

static void KERNEL(relu)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i];
        k->out[i] = x < 0 ? 0 : x; /* NaN stays */
    }
}

static void KERNEL(relu_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->y[i] <= 0 ? 0 : k->dy[i]; /* that of a NaN passes */
    }
}

static void KERNEL(gelu)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i];
        k->out[i] = x * (real)0.5 * (1 + REAL(erf)(x * SQRT_HALF));
    }
}

static void KERNEL(gelu_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i];
        real distribution = (real)0.5 * (1 + REAL(erf)(x * SQRT_HALF));
        real density = EXP((real)-0.5 * x * x) * ONE_OVER_SQRT_2PI;
        k->out[i] = k->dy[i] * (distribution + x * density);
    }
}

/* (1 + tanh u) / 2 is sigmoid(2u): one exp, and no digits lost where tanh u is near -1. */
static inline real KERNEL(gelu_gate)(real x)
{
    return KERNEL(sigmoid_of)(2 * SQRT_2_OVER_PI * (x + (real)0.044715 * x * x * x));
}

static void KERNEL(gelu_tanh)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] * KERNEL(gelu_gate)(k->in[0][i]);
    }
}

static void KERNEL(gelu_tanh_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i], s = KERNEL(gelu_gate)(x);
        real du = 2 * SQRT_2_OVER_PI * (1 + 3 * (real)0.044715 * x * x);
        k->out[i] = k->dy[i] * (s + x * s * (1 - s) * du);
    }
}

static void KERNEL(silu)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] * KERNEL(sigmoid_of)(k->in[0][i]);
    }
}

static void KERNEL(silu_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i], s = KERNEL(sigmoid_of)(x);
        k->out[i] = k->dy[i] * s * (1 + x * (1 - s));
    }
}

static void KERNEL(abs)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = REAL(fabs)(k->in[0][i]);
    }
}

static void KERNEL(abs_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i];
        k->out[i] = x > 0 ? k->dy[i] : x < 0 ? -k->dy[i] : 0;
    }
}

static void KERNEL(clamp)(const KERNEL(chunk) * k)
{
    const clamp_bounds *bounds = k->attributes;
    real low = (real)bounds->low, high = (real)bounds->high;
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i];
        k->out[i] = x < low ? low : x > high ? high : x;
    }
}

static void KERNEL(clamp_gradient)(const KERNEL(chunk) * k)
{
    const clamp_bounds *bounds = k->attributes;
    real low = (real)bounds->low, high = (real)bounds->high;
    for (int64_t i = 0; i < k->n; i++) {
        real x = k->in[0][i];
        k->out[i] = x >= low && x <= high ? k->dy[i] : 0;
    }
}

#define FUNCTION(name)                           \
    TG_DECLARE_FUNCTIONS(tg_##name##_functions); \
    const KERNEL(tg_elementwise_functions) KERNEL(tg_##name##_functions) = {KERNEL(name), {KERNEL(name##_gradient)}}

FUNCTION(neg);
FUNCTION(exp);
FUNCTION(log);
FUNCTION(sqrt);
FUNCTION(tanh);
FUNCTION(sigmoid);
FUNCTION(relu);
FUNCTION(gelu);
FUNCTION(gelu_tanh);
FUNCTION(silu);
FUNCTION(abs);
FUNCTION(clamp);

#ifdef TG_ONCE

/* The public function of each: its op, with what backward reads (1 or 0: the input, the output). */
#define PUBLIC_FUNCTION(name, reads_input, reads_output)                                                               \
    static const tg_elementwise name##_op = {TG_ELEMENTWISE(#name, tg_##name##_functions, reads_input, reads_output)}; \
    tg_tensor *tg_##name(tg_tape *t, tg_tensor *x)                                                                     \
    {                                                                                                                  \
        return tg_apply(t, &name##_op.op, &x, 1, NULL, 0);                                                             \
    }

PUBLIC_FUNCTION(neg, 0, 0)
PUBLIC_FUNCTION(exp, 0, 1)
PUBLIC_FUNCTION(log, 1, 0)
PUBLIC_FUNCTION(sqrt, 0, 1)
PUBLIC_FUNCTION(tanh, 0, 1)
PUBLIC_FUNCTION(sigmoid, 0, 1)
PUBLIC_FUNCTION(relu, 0, 1)
PUBLIC_FUNCTION(gelu, 1, 0)
PUBLIC_FUNCTION(gelu_tanh, 1, 0)
PUBLIC_FUNCTION(silu, 1, 0)
PUBLIC_FUNCTION(abs, 1, 0)

static const tg_elementwise clamp_op = {TG_ELEMENTWISE("clamp", tg_clamp_functions, 1, 0)};

tg_tensor *tg_clamp(tg_tape *t, tg_tensor *x, double low, double high)
{
    if (!(low <= high)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "clamp", "bounds %g and %g; allowed are low <= high", low, high);
    }
    clamp_bounds bounds = {low, high};
    return tg_apply(t, &clamp_op.op, &x, 1, &bounds, sizeof bounds);
}

#endif
