/* functions: elementwise functions of one input.
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
 *   sin                                            dx += dy cos x
 *   cos                                            dx += -dy sin x
 *   sign, round, floor                             dx += 0
 *
 * Phi is the standard normal distribution function and phi its density (Hendrycks and Gimpel 2016). Follows the PyTorch
 * functions of these names, also where no derivative exists (relu and abs at 0, clamp at its bounds). The gradients of
 * sigmoid, gelu, gelu_tanh and silu that are not normal numbers are 0 (base/exp.h).
 */
#include "base/normal_tail.h"
#include "ops/elementwise/elementwise.h"

#define SQRT_2_OVER_PI ((real)0.79788456080286535588)

enum {
    NEG,
    EXPONENTIAL,
    LOG,
    SQRT,
    TANH,
    SIGMOID,
    RELU,
    GELU,
    GELU_TANH,
    SILU,
    ABS,
    CLAMP,
    SIN,
    COS,
    SIGN,
    ROUND,
    FLOOR
};

typedef struct clamp_bounds {
    double low, high;
} clamp_bounds;

static void negate(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -x[i];
    }
}

static void negate_gradient(const tg_chunk *k)
{
    const real *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -dy[i];
    }
}

static void exponential(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = EXP(x[i]);
    }
}

static void exponential_gradient(const tg_chunk *k)
{
    const real *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] * y[i];
    }
}

static void logarithm(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = LOG(x[i]);
    }
}

static void logarithm_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] / x[i];
    }
}

static void square_root(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(sqrt)(x[i]);
    }
}

static void square_root_gradient(const tg_chunk *k)
{
    const real *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] / (2 * y[i]);
    }
}

static void hyperbolic_tangent(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = TANH(x[i]);
    }
}

static void hyperbolic_tangent_gradient(const tg_chunk *k)
{
    const real *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] * (1 - y[i] * y[i]);
    }
}

static void sigmoid(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = sigmoid_of(x[i]);
    }
}

static void sigmoid_gradient(const tg_chunk *k)
{
    const real *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = normal_or_zero(dy[i] * y[i] * (1 - y[i]));
    }
}

static void relu(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays NaN */
    }
}

static void relu_gradient(const tg_chunk *k)
{
    const real *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = y[i] <= 0 ? 0 : dy[i]; /* dy passes at a NaN */
    }
}

static void gelu(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real density, tail = TYPED(tg_normal_tail)(REAL(fabs)(x[i]), &density);
        out[i] = x[i] * (x[i] < 0 ? tail : 1 - tail);
    }
}

static void gelu_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real density, tail = TYPED(tg_normal_tail)(REAL(fabs)(x[i]), &density);
        out[i] = normal_or_zero(dy[i] * ((x[i] < 0 ? tail : 1 - tail) + x[i] * density));
    }
}

/* Returns (1 + tanh u) / 2 as sigmoid(2 u): this takes one exp, and loses no digits where tanh u is close to -1. */
static inline real gelu_gate(real x)
{
    return sigmoid_of(2 * SQRT_2_OVER_PI * (x + (real)0.044715 * x * x * x));
}

static void gelu_tanh(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] * gelu_gate(x[i]);
    }
}

static void gelu_tanh_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real s = gelu_gate(x[i]);
        real du = 2 * SQRT_2_OVER_PI * (1 + 3 * (real)0.044715 * x[i] * x[i]);
        out[i] = normal_or_zero(dy[i] * (s + x[i] * s * (1 - s) * du));
    }
}

static void silu(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] * sigmoid_of(x[i]);
    }
}

static void silu_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real s = sigmoid_of(x[i]);
        out[i] = normal_or_zero(dy[i] * s * (1 + x[i] * (1 - s)));
    }
}

static void absolute(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(fabs)(x[i]);
    }
}

static void absolute_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] > 0 ? dy[i] : x[i] < 0 ? -dy[i] : 0;
    }
}

static void clamp(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    const clamp_bounds *bounds = k->attributes;
    const real low = (real)bounds->low, high = (real)bounds->high;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] < low ? low : x[i] > high ? high : x[i];
    }
}

static void clamp_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    const clamp_bounds *bounds = k->attributes;
    const real low = (real)bounds->low, high = (real)bounds->high;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] >= low && x[i] <= high ? dy[i] : 0;
    }
}

static void sine(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(sin)(x[i]);
    }
}

static void sine_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] * REAL(cos)(x[i]);
    }
}

static void cosine(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(cos)(x[i]);
    }
}

static void cosine_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -dy[i] * REAL(sin)(x[i]);
    }
}

static void sign(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] > 0 ? 1 : x[i] < 0 ? -1 : 0;
    }
}

static void round_half_to_even(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(nearbyint)(x[i]);
    }
}

static void round_down(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(floor)(x[i]);
    }
}

/* Of the functions that are constant between their steps. */
static void zero_gradient(const tg_chunk *k)
{
    memset(k->out, 0, (size_t)k->n * sizeof(real));
}

TG_DECLARE_ELEMENTWISE(tg_functions);

const tg_elementwise_kernels KERNEL(tg_functions)[] = {
    [NEG] = {negate, {negate_gradient}},
    [EXPONENTIAL] = {exponential, {exponential_gradient}},
    [LOG] = {logarithm, {logarithm_gradient}},
    [SQRT] = {square_root, {square_root_gradient}},
    [TANH] = {hyperbolic_tangent, {hyperbolic_tangent_gradient}},
    [SIGMOID] = {sigmoid, {sigmoid_gradient}},
    [RELU] = {relu, {relu_gradient}},
    [GELU] = {gelu, {gelu_gradient}},
    [GELU_TANH] = {gelu_tanh, {gelu_tanh_gradient}},
    [SILU] = {silu, {silu_gradient}},
    [ABS] = {absolute, {absolute_gradient}},
    [CLAMP] = {clamp, {clamp_gradient}},
    [SIN] = {sine, {sine_gradient}},
    [COS] = {cosine, {cosine_gradient}},
    [SIGN] = {sign, {zero_gradient}},
    [ROUND] = {round_half_to_even, {zero_gradient}},
    [FLOOR] = {round_down, {zero_gradient}},
};

#ifdef TG_ONCE

static bool clamp_shape(tg_op_call *call)
{
    const clamp_bounds *b = call->attributes;
    return (b->low <= b->high ||
            tg_op_fail(call, TG_ERROR_VALUE, "low %g and high %g; low must be at most high", b->low, b->high)) &&
           tg_elementwise_shape(call);
}

/* The last two columns: the inputs and outputs that backward does not read. */
static const tg_elementwise ops[] = {
    [NEG] = TG_ELEMENTWISE("neg", tg_functions, NEG, TG_OP_ALL, TG_OP_ALL),
    [EXPONENTIAL] = TG_ELEMENTWISE("exp", tg_functions, EXPONENTIAL, TG_OP_ALL, 0),
    [LOG] = TG_ELEMENTWISE("log", tg_functions, LOG, 0, TG_OP_ALL),
    [SQRT] = TG_ELEMENTWISE("sqrt", tg_functions, SQRT, TG_OP_ALL, 0),
    [TANH] = TG_ELEMENTWISE("tanh", tg_functions, TANH, TG_OP_ALL, 0),
    [SIGMOID] = TG_ELEMENTWISE("sigmoid", tg_functions, SIGMOID, TG_OP_ALL, 0),
    [RELU] = TG_ELEMENTWISE("relu", tg_functions, RELU, TG_OP_ALL, 0),
    [GELU] = TG_ELEMENTWISE("gelu", tg_functions, GELU, 0, TG_OP_ALL),
    [GELU_TANH] = TG_ELEMENTWISE("gelu_tanh", tg_functions, GELU_TANH, 0, TG_OP_ALL),
    [SILU] = TG_ELEMENTWISE("silu", tg_functions, SILU, 0, TG_OP_ALL),
    [ABS] = TG_ELEMENTWISE("abs", tg_functions, ABS, 0, TG_OP_ALL),
    [CLAMP] = TG_ELEMENTWISE_WITH_RULE("clamp", clamp_shape, tg_functions, CLAMP, 0, TG_OP_ALL),
    [SIN] = TG_ELEMENTWISE("sin", tg_functions, SIN, 0, TG_OP_ALL),
    [COS] = TG_ELEMENTWISE("cos", tg_functions, COS, 0, TG_OP_ALL),
    [SIGN] = TG_ELEMENTWISE("sign", tg_functions, SIGN, TG_OP_ALL, TG_OP_ALL),
    [ROUND] = TG_ELEMENTWISE("round", tg_functions, ROUND, TG_OP_ALL, TG_OP_ALL),
    [FLOOR] = TG_ELEMENTWISE("floor", tg_functions, FLOOR, TG_OP_ALL, TG_OP_ALL),
};

static tg_tensor *apply(tg_tape *t, const tg_elementwise *op, tg_tensor *x)
{
    return tg_apply(t, &op->op, &x, 1, NULL, 0, NULL);
}

tg_tensor *tg_neg(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[NEG], x);
}

tg_tensor *tg_exp(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[EXPONENTIAL], x);
}

tg_tensor *tg_log(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[LOG], x);
}

tg_tensor *tg_sqrt(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[SQRT], x);
}

tg_tensor *tg_tanh(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[TANH], x);
}

tg_tensor *tg_sigmoid(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[SIGMOID], x);
}

tg_tensor *tg_relu(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[RELU], x);
}

tg_tensor *tg_gelu(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[GELU], x);
}

tg_tensor *tg_gelu_tanh(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[GELU_TANH], x);
}

tg_tensor *tg_silu(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[SILU], x);
}

tg_tensor *tg_abs(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[ABS], x);
}

tg_tensor *tg_sin(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[SIN], x);
}

tg_tensor *tg_cos(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[COS], x);
}

tg_tensor *tg_sign(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[SIGN], x);
}

tg_tensor *tg_round(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[ROUND], x);
}

tg_tensor *tg_floor(tg_tape *t, tg_tensor *x)
{
    return apply(t, &ops[FLOOR], x);
}

tg_tensor *tg_clamp(tg_tape *t, tg_tensor *x, double low, double high)
{
    clamp_bounds bounds = {low, high};
    return tg_apply(t, &ops[CLAMP].op, &x, 1, &bounds, sizeof bounds, NULL);
}

#endif
