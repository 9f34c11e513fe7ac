/* activations: functions of one input between the layers of a network.
 *
 * Follows the functions of torch.nn.functional of these names (log_sigmoid: logsigmoid), also for relu at 0, where no
 * derivative exists. Results of softplus and log_sigmoid that are not normal numbers are 0, and so are the gradients of
 * all functions but tanh, relu and leaky_relu (math/exp.h).
 */
#include "math/normal_tail.h"
#include "ops/elementwise/elementwise.h"

/* y = tanh x, dx += dy (1 - y^2) */
static inline real tanh_value(real x)
{
    return TANH(x);
}

static inline real tanh_gradient(real y, real dy)
{
    return dy * (1 - y * y);
}

TG_FUNCTION_OF_OUTPUT(tanh_op, "tanh", tanh_value, tanh_gradient);

#ifdef TG_ONCE
tg_tensor *tg_tanh(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &tanh_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = 1 / (1 + e^-x), which is sigmoid_of (base/real.h); dx += dy y (1 - y) */
static inline real sigmoid_gradient(real y, real dy)
{
    return normal_or_zero(dy * y * (1 - y));
}

TG_FUNCTION_OF_OUTPUT(sigmoid_op, "sigmoid", sigmoid_of, sigmoid_gradient);

#ifdef TG_ONCE
tg_tensor *tg_sigmoid(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &sigmoid_op.op, &x, 1, NULL, 0, NULL);
}
#endif

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

TG_FUNCTION_OF_OUTPUT(relu_op, "relu", relu_value, relu_gradient);

#ifdef TG_ONCE
tg_tensor *tg_relu(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &relu_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = x where x > 0, else slope x; dx += dy where x > 0, else slope dy */
static inline real leaky_relu_value(real x, double slope)
{
    return x > 0 ? x : (real)slope * x;
}

static inline real leaky_relu_gradient(real x, real dy, double slope)
{
    return x > 0 ? dy : (real)slope * dy;
}

TG_LOOP_1_WITH(double, leaky_relu_value, in[0]);
TG_LOOP_2_WITH(double, leaky_relu_gradient, in[0], dy);
TG_ELEMENTWISE_KERNELS(leaky_relu_op, leaky_relu_value_loop, leaky_relu_gradient_loop);

#ifdef TG_ONCE
static const tg_elementwise leaky_relu_op = {TG_ELEMENTWISE("leaky_relu", leaky_relu_op, 0, TG_OP_ALL, "x")};

tg_tensor *tg_leaky_relu(tg_tape *t, tg_tensor *x, double slope)
{
    return tg_apply(t, &leaky_relu_op.op, &x, 1, &slope, sizeof slope, NULL);
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

TG_FUNCTION_OF_INPUT(gelu_op, "gelu", gelu_value, gelu_gradient);

#ifdef TG_ONCE
tg_tensor *tg_gelu(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &gelu_op.op, &x, 1, NULL, 0, NULL);
}
#endif

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

TG_FUNCTION_OF_INPUT(gelu_tanh_op, "gelu_tanh", gelu_tanh_value, gelu_tanh_gradient);

#ifdef TG_ONCE
tg_tensor *tg_gelu_tanh(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &gelu_tanh_op.op, &x, 1, NULL, 0, NULL);
}
#endif

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

TG_FUNCTION_OF_INPUT(silu_op, "silu", silu_value, silu_gradient);

#ifdef TG_ONCE
tg_tensor *tg_silu(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &silu_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* y = x where x > 0, else alpha (e^x - 1); dx += dy alpha e^x where x <= 0, else dy. Follows Clevert et al. 2016. */
static inline real elu_value(real x, double alpha)
{
    return x > 0 ? x : (real)alpha * EXPM1(x);
}

static inline real elu_gradient(real x, real dy, double alpha)
{
    return x <= 0 ? normal_or_zero(dy * (real)alpha * EXP(x)) : dy; /* dy passes at a NaN */
}

TG_LOOP_1_WITH(double, elu_value, in[0]);
TG_LOOP_2_WITH(double, elu_gradient, in[0], dy);
TG_ELEMENTWISE_KERNELS(elu_op, elu_value_loop, elu_gradient_loop);

#ifdef TG_ONCE
static const tg_elementwise elu_op = {TG_ELEMENTWISE("elu", elu_op, 0, TG_OP_ALL, "x")};

tg_tensor *tg_elu(tg_tape *t, tg_tensor *x, double alpha)
{
    return tg_apply(t, &elu_op.op, &x, 1, &alpha, sizeof alpha, NULL);
}
#endif

/* y = log(1 + e^(beta x)) / beta, dx += dy sigmoid(beta x); where beta x > threshold: y = x, dx += dy. As in torch, y
 * is infinite where that power of e is. */
typedef struct softplus_options {
    double beta, threshold;
} softplus_options;

static inline real softplus_value(real x, softplus_options o)
{
    const real beta = (real)o.beta, threshold = (real)o.threshold, z = x * beta;
    real y = (z > 0 ? z : 0) + softplus_tail(z);
    y = z > (real)(sizeof(real) == sizeof(float) ? 88.7228394 : 709.782712893384) ? (real)INFINITY : y;
    return z > threshold ? x : normal_or_zero(y / beta);
}

static inline real softplus_gradient(real x, real dy, softplus_options o)
{
    const real beta = (real)o.beta, threshold = (real)o.threshold;
    return x * beta > threshold ? dy : normal_or_zero(dy / (1 + EXP(-x * beta)));
}

TG_LOOP_1_WITH(softplus_options, softplus_value, in[0]);
TG_LOOP_2_WITH(softplus_options, softplus_gradient, in[0], dy);
TG_ELEMENTWISE_KERNELS(softplus_op, softplus_value_loop, softplus_gradient_loop);

#ifdef TG_ONCE
static bool softplus_shape(tg_op_call *call)
{
    const softplus_options *o = call->attributes;
    return ((o->beta > 0 && o->threshold == o->threshold) ||
            tg_op_fail(call, TG_ERROR_VALUE, "beta %g and threshold %g; beta must be above 0, threshold a number",
                       o->beta, o->threshold)) &&
           tg_elementwise_shape(call);
}

static const tg_elementwise softplus_op = {
    TG_ELEMENTWISE_WITH_RULE("softplus", softplus_op, softplus_shape, 0, TG_OP_ALL, "x")};

tg_tensor *tg_softplus(tg_tape *t, tg_tensor *x, double beta, double threshold)
{
    softplus_options o = {beta, threshold};
    return tg_apply(t, &softplus_op.op, &x, 1, &o, sizeof o, NULL);
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

TG_FUNCTION_OF_INPUT(log_sigmoid_op, "log_sigmoid", log_sigmoid_value, log_sigmoid_gradient);

#ifdef TG_ONCE
tg_tensor *tg_log_sigmoid(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &log_sigmoid_op.op, &x, 1, NULL, 0, NULL);
}
#endif
