/* activations: functions of one input between the layers of a network.
 *
 * Follows the functions of torch.nn.functional of these names (log_sigmoid: logsigmoid), also for relu at 0, where no
 * derivative exists. Results of softplus and log_sigmoid that are not normal numbers are 0, and so are the gradients of
 * all functions but tanh, relu and leaky_relu (math/exp.h).
 */
#include "math/normal_tail.h"
#include "ops/elementwise/elementwise.h"

#ifdef TG_ONCE
static tg_tensor *apply_with(tg_tape *t, const tg_elementwise *op, tg_tensor *x, double p, double q)
{
    const tg_numbers numbers = {p, q};
    return tg_apply(t, &op->op, &x, 1, &numbers, sizeof numbers, NULL);
}
#endif

/* y = tanh x, dx += dy (1 - y^2) */
static inline real tanh_value(real x)
{
    return TANH(x);
}

static inline real tanh_gradient(real y, real dy)
{
    return dy * (1 - y * y);
}

TG_LOOP(tanh_value, a[i]);
TG_LOOP(tanh_gradient, y[i], dy[i]);
TG_FUNCTION_OF_ONE(tanh, TG_OP_ALL, 0, tanh_gradient_loop);

/* y = 1 / (1 + e^-x), which is sigmoid_of (base/real.h); dx += dy y (1 - y) */
static inline real sigmoid_value(real x)
{
    return sigmoid_of(x);
}

static inline real sigmoid_gradient(real y, real dy)
{
    return normal_or_zero(dy * y * (1 - y));
}

TG_LOOP(sigmoid_value, a[i]);
TG_LOOP(sigmoid_gradient, y[i], dy[i]);
TG_FUNCTION_OF_ONE(sigmoid, TG_OP_ALL, 0, sigmoid_gradient_loop);

/* y = max(x, 0), dx += dy where not x <= 0. -0 stays -0, although LLVM 14 makes WebAssembly's max of `x < 0 ? 0 : x`,
 * and so 0 of it: the comparison is with the largest number below 0. */
static inline real relu_value(real x)
{
    const real below = sizeof(real) == sizeof(float) ? (real)-0x1p-149 : (real)-0x1p-1074;
    return x <= below ? 0 : x; /* NaN stays NaN */
}

static inline real relu_gradient(real y, real dy)
{
    return y <= 0 ? 0 : dy; /* dy passes at a NaN */
}

TG_LOOP(relu_value, a[i]);
TG_LOOP(relu_gradient, y[i], dy[i]);
TG_FUNCTION_OF_ONE(relu, TG_OP_ALL, 0, relu_gradient_loop);

/* y = x where x > 0, else slope x; dx += dy where x > 0, else slope dy */
static inline real leaky_relu_value(real x, double slope)
{
    return x > 0 ? x : (real)slope * x;
}

static inline real leaky_relu_gradient(real x, real dy, double slope)
{
    return x > 0 ? dy : (real)slope * dy;
}

TG_LOOP(leaky_relu_value, a[i], p);
TG_LOOP(leaky_relu_gradient, a[i], dy[i], p);
TG_ELEMENTWISE(leaky_relu, tg_elementwise, leaky_relu_value_loop, leaky_relu_gradient_loop, NULL, NULL,
               .op.name = "leaky_relu", .op.shape = tg_elementwise_shape, .op.input_names = {"x"},
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_leaky_relu(tg_tape *t, tg_tensor *x, double slope)
{
    return apply_with(t, &leaky_relu_op, x, slope, 0);
}
#endif

/* y = x Phi(x), dx += dy (Phi(x) + x phi(x)), with the standard normal distribution function Phi and its density phi.
 * Follows Hendrycks and Gimpel 2016. */
static inline real gelu_value(real x)
{
    real density, tail = TYPED(tg_normal_tail)(REAL(fabs)(x), &density);
    return x * (x < 0 ? tail : 1 - tail);
}

static inline real gelu_gradient(real x, real dy)
{
    real density, tail = TYPED(tg_normal_tail)(REAL(fabs)(x), &density);
    return normal_or_zero(dy * ((x < 0 ? tail : 1 - tail) + x * density));
}

TG_LOOP(gelu_value, a[i]);
TG_LOOP(gelu_gradient, a[i], dy[i]);
TG_FUNCTION_OF_ONE(gelu, 0, TG_OP_ALL, gelu_gradient_loop);

/* y = x/2 (1 + tanh u) = x s, dx += dy (s + x s (1 - s) 2 u'), with s = sigmoid(2 u) and
 * u = sqrt(2/pi) (x + 0.044715 x^3). */
#define SQRT_2_OVER_PI ((real)0.79788456080286535588)

/* Returns s = (1 + tanh u) / 2 as sigmoid(2 u): this takes one exp, and loses no digits where tanh u is close to -1. */
static inline real gelu_gate(real x)
{
    return sigmoid_of(2 * SQRT_2_OVER_PI * (x + (real)0.044715 * x * x * x));
}

static inline real gelu_tanh_value(real x)
{
    return x * gelu_gate(x);
}

static inline real gelu_tanh_gradient(real x, real dy)
{
    real s = gelu_gate(x);
    real du = 2 * SQRT_2_OVER_PI * (1 + 3 * (real)0.044715 * x * x);
    return normal_or_zero(dy * (s + x * s * (1 - s) * du));
}

TG_LOOP(gelu_tanh_value, a[i]);
TG_LOOP(gelu_tanh_gradient, a[i], dy[i]);
TG_FUNCTION_OF_ONE(gelu_tanh, 0, TG_OP_ALL, gelu_tanh_gradient_loop);

/* y = x s, dx += dy s (1 + x (1 - s)), s = sigmoid(x) */
static inline real silu_value(real x)
{
    return x * sigmoid_of(x);
}

static inline real silu_gradient(real x, real dy)
{
    real s = sigmoid_of(x);
    return normal_or_zero(dy * s * (1 + x * (1 - s)));
}

TG_LOOP(silu_value, a[i]);
TG_LOOP(silu_gradient, a[i], dy[i]);
TG_FUNCTION_OF_ONE(silu, 0, TG_OP_ALL, silu_gradient_loop);

/* y = x where x > 0, else alpha (e^x - 1); dx += dy alpha e^x where x <= 0, else dy. Follows Clevert et al. 2016. */
static inline real elu_value(real x, double alpha)
{
    return x > 0 ? x : (real)alpha * EXPM1(x);
}

static inline real elu_gradient(real x, real dy, double alpha)
{
    return x <= 0 ? normal_or_zero(dy * (real)alpha * EXP(x)) : dy; /* dy passes at a NaN */
}

TG_LOOP(elu_value, a[i], p);
TG_LOOP(elu_gradient, a[i], dy[i], p);
TG_ELEMENTWISE(elu, tg_elementwise, elu_value_loop, elu_gradient_loop, NULL, NULL, .op.name = "elu",
               .op.shape = tg_elementwise_shape, .op.input_names = {"x"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_elu(tg_tape *t, tg_tensor *x, double alpha)
{
    return apply_with(t, &elu_op, x, alpha, 0);
}
#endif

/* y = log(1 + e^(beta x)) / beta, dx += dy sigmoid(beta x); where beta x > threshold: y = x, dx += dy. As in torch, y
 * is infinite where that power of e is. */
static inline real softplus_value(real x, double beta_option, double threshold_option)
{
    const real beta = (real)beta_option, threshold = (real)threshold_option, z = x * beta;
    real y = (z > 0 ? z : 0) + softplus_tail(z);
    y = z > (real)(sizeof(real) == sizeof(float) ? 88.7228394 : 709.782712893384) ? (real)INFINITY : y;
    return z > threshold ? x : normal_or_zero(y / beta);
}

static inline real softplus_gradient(real x, real dy, double beta_option, double threshold_option)
{
    const real beta = (real)beta_option, threshold = (real)threshold_option;
    return x * beta > threshold ? dy : normal_or_zero(dy / (1 + EXP(-x * beta)));
}

#ifdef TG_ONCE
static bool softplus_shape(tg_op_call *call)
{
    const tg_numbers *options = call->attributes;
    const double beta = options->p, threshold = options->q;
    return ((beta > 0 && threshold == threshold) ||
            tg_op_fail(call, TG_ERROR_VALUE, "beta %g and threshold %g; beta must be above 0, threshold a number", beta,
                       threshold)) &&
           tg_elementwise_shape(call);
}
#endif

TG_LOOP(softplus_value, a[i], p, q);
TG_LOOP(softplus_gradient, a[i], dy[i], p, q);
TG_ELEMENTWISE(softplus, tg_elementwise, softplus_value_loop, softplus_gradient_loop, NULL, NULL, .op.name = "softplus",
               .op.shape = softplus_shape, .op.input_names = {"x"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_softplus(tg_tape *t, tg_tensor *x, double beta, double threshold)
{
    return apply_with(t, &softplus_op, x, beta, threshold);
}
#endif

/* y = -log(1 + e^-x), dx += dy sigmoid(-x) */
static inline real log_sigmoid_value(real x)
{
    return (x > 0 ? 0 : x) - softplus_tail(x); /* NaN stays NaN */
}

static inline real log_sigmoid_gradient(real x, real dy)
{
    return normal_or_zero(dy / (1 + EXP(x)));
}

TG_LOOP(log_sigmoid_value, a[i]);
TG_LOOP(log_sigmoid_gradient, a[i], dy[i]);
TG_FUNCTION_OF_ONE(log_sigmoid, 0, TG_OP_ALL, log_sigmoid_gradient_loop);
