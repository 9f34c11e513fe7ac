/* activations: functions of one input between the layers of a network.
 *
 * Follows the functions of torch.nn.functional of these names (log_sigmoid: logsigmoid), also for relu at 0, where no
 * derivative exists. Results of softplus and log_sigmoid that are not normal numbers are 0, and so are the gradients of
 * all functions but tanh, relu and leaky_relu (math/exp.h).
 */
#include "math/normal_tail.h"
#include "ops/elementwise/elementwise_real.h"

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_tanh(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *y = call->outputs[0];
    dx[0] = tg_mul(t, dy[0], tg_mul(t, tg_number_minus(t, 1, y), tg_add_scalar(t, y, 1)));
}

static void differentiate_sigmoid(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *y = call->outputs[0];
    dx[0] = tg_mul(t, dy[0], tg_mul(t, y, tg_number_minus(t, 1, y)));
}

static void differentiate_gelu_tanh(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *x2 = tg_mul(t, x, x);
    const double root = 2 * 0.79788456080286535588; /* 2 sqrt(2/pi) */
    tg_tensor *s =
        tg_sigmoid(t, tg_mul(t, x, tg_mul_scalar(t, tg_add_scalar(t, tg_mul_scalar(t, x2, 0.044715), 1), root)));
    tg_tensor *du = tg_mul_scalar(t, tg_add_scalar(t, tg_mul_scalar(t, x2, 3 * 0.044715), 1), root);
    tg_tensor *slope = tg_mul(t, tg_mul(t, x, tg_number_minus(t, 1, s)), du);
    dx[0] = tg_mul(t, dy[0], tg_mul(t, s, tg_add_scalar(t, slope, 1)));
}

static void differentiate_silu(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *s = tg_sigmoid(t, x);
    dx[0] = tg_mul(t, dy[0], tg_mul(t, s, tg_add_scalar(t, tg_mul(t, x, tg_number_minus(t, 1, s)), 1)));
}

/* e^x is taken of values up to 0 alone: that of a large one would be infinite, and its second derivative NaN. */
static void differentiate_elu(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *zero = tg_full(t, tg_dtype_of(x), TG_SCALAR, 0);
    tg_tensor *power = tg_exp(t, tg_neg(t, tg_relu(t, tg_neg(t, x)))); /* torch's slope of the slope at 0 is 0 */
    tg_tensor *slope = tg_mul_scalar(t, power, ((const tg_numbers *)call->attributes)->p);
    dx[0] = tg_where(t, tg_le(t, x, zero), tg_mul(t, dy[0], slope), dy[0]);
}

static void differentiate_softplus(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const tg_numbers *options = call->attributes;
    tg_tensor *z = tg_mul_scalar(t, call->inputs[0], options->p);
    tg_tensor *threshold = tg_full(t, tg_dtype_of(call->inputs[0]), TG_SCALAR, options->q);
    dx[0] = tg_where(t, tg_gt(t, z, threshold), dy[0], tg_mul(t, dy[0], tg_sigmoid(t, z)));
}

static void differentiate_log_sigmoid(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_mul(t, dy[0], tg_sigmoid(t, tg_neg(t, call->inputs[0])));
}

static tg_tensor *apply_with(tg_tape *t, const tg_elementwise *op, tg_tensor *x, double p, double q)
{
    const tg_numbers numbers = {p, q};
    return tg_apply(t, &op->op, &x, 1, &numbers, sizeof numbers, NULL);
}
#endif

/* y = tanh x, dx += dy (1 - y^2) */
TG_LOOP(tanh_value_loop, real_tanh(a));
TG_LOOP(tanh_gradient_loop, dy * (1 - y * y));
TG_FUNCTION_OF_ONE(tg_tanh, tg_tanh_op, tanh_value_loop, tanh_gradient_loop, .op.name = "tanh",
                   .op.differentiate = differentiate_tanh, .op.backward_ignores_inputs = TG_OP_ALL);

/* y = 1 / (1 + e^-x), which is sigmoid_of (base/real.h); dx += dy y (1 - y) */
TG_LOOP(sigmoid_value_loop, sigmoid_of(a));
TG_LOOP(sigmoid_gradient_loop, normal_or_zero(dy * y * (1 - y)));
TG_FUNCTION_OF_ONE(tg_sigmoid, tg_sigmoid_op, sigmoid_value_loop, sigmoid_gradient_loop, .op.name = "sigmoid",
                   .op.differentiate = differentiate_sigmoid, .op.backward_ignores_inputs = TG_OP_ALL);

/* y = max(x, 0), dx += dy where not x <= 0. -0 stays -0, although LLVM 14 makes WebAssembly's max of `x < 0 ? 0 : x`,
 * and so 0 of it: the comparison is with the largest number below 0. */
static inline real relu_value(real x)
{
    const real below = IS_FLOAT ? (real)-0x1p-149 : (real)-0x1p-1074;
    return x <= below ? 0 : x; /* NaN stays NaN */
}

TG_LOOP(relu_value_loop, relu_value(a));
TG_LOOP(relu_gradient_loop, y <= 0 ? 0 : dy); /* dy passes at a NaN */
TG_FUNCTION_OF_ONE(tg_relu, tg_relu_op, relu_value_loop, relu_gradient_loop, .op.name = "relu",
                   .op.differentiate = tg_differentiate_linear, .op.backward_ignores_inputs = TG_OP_ALL);

/* y = x where x > 0, else slope x; dx += dy where x > 0, else slope dy */
TG_LOOP(leaky_relu_value_loop, a > 0 ? a : (real)p * a);
TG_LOOP(leaky_relu_gradient_loop, a > 0 ? dy : (real)p * dy);
TG_ELEMENTWISE(tg_leaky_relu_op, tg_elementwise_levels, leaky_relu_value_loop, leaky_relu_gradient_loop, NULL, NULL,
               .op.name = "leaky_relu", .op.differentiate = tg_differentiate_linear, .op.shape = tg_elementwise_shape,
               .op.input_names = {"x"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_leaky_relu(tg_tape *t, tg_tensor *x, double slope)
{
    return apply_with(t, &tg_leaky_relu_op, x, slope, 0);
}
#endif

/* y = x Phi(x), dx += dy (Phi(x) + x phi(x)), with the standard normal distribution function Phi and its density phi.
 * Follows Hendrycks and Gimpel 2016. */
static inline real gelu_value(real x)
{
    real density, tail = TYPED(tg_normal_tail)(real_fabs(x), &density);
    return x * (x < 0 ? tail : 1 - tail);
}

static inline real gelu_gradient(real x, real dy)
{
    real density, tail = TYPED(tg_normal_tail)(real_fabs(x), &density);
    return normal_or_zero(dy * ((x < 0 ? tail : 1 - tail) + x * density));
}

/* y = Phi(x) + x phi(x), the slope of gelu, for second derivatives; dx += dy phi(x) (2 - x^2) */
static inline real gelu_slope_gradient(real x, real dy)
{
    real density;
    TYPED(tg_normal_tail)(real_fabs(x), &density);
    return normal_or_zero(dy * density * (2 - x * x));
}

TG_LOOP(gelu_slope_value_loop, gelu_gradient(a, 1));
TG_LOOP(gelu_slope_gradient_loop, gelu_slope_gradient(a, dy));

#ifdef TG_ONCE
static void differentiate_gelu_slope(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *x2 = tg_mul(t, x, x);
    tg_tensor *density = tg_mul_scalar(t, tg_exp(t, tg_mul_scalar(t, x2, -0.5)), 0.39894228040143267794);
    dx[0] = tg_mul(t, dy[0], tg_mul(t, density, tg_number_minus(t, 2, x2)));
}
#endif

TG_ELEMENTWISE(gelu_slope_op, tg_elementwise_levels, gelu_slope_value_loop, gelu_slope_gradient_loop, NULL, NULL,
               .op.name = "gelu_slope", .op.differentiate = differentiate_gelu_slope, .op.shape = tg_elementwise_shape,
               .op.input_names = {"x"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
static void differentiate_gelu(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_mul(t, dy[0], tg_apply(t, &gelu_slope_op.op, call->inputs, 1, NULL, 0, NULL));
}
#endif

TG_LOOP(gelu_value_loop, gelu_value(a));
TG_LOOP(gelu_gradient_loop, gelu_gradient(a, dy));
TG_FUNCTION_OF_ONE(tg_gelu, tg_gelu_op, gelu_value_loop, gelu_gradient_loop, .op.name = "gelu",
                   .op.differentiate = differentiate_gelu, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = x/2 (1 + tanh u) = x s, dx += dy (s + x s (1 - s) 2 u'), with s = sigmoid(2 u) and
 * u = sqrt(2/pi) (x + 0.044715 x^3). */
static const real sqrt_2_over_pi = (real)0.79788456080286535588;

/* Returns s = (1 + tanh u) / 2 as sigmoid(2 u): this takes one exp, and loses no digits where tanh u is close to -1. */
static inline real gelu_gate(real x)
{
    return sigmoid_of(2 * sqrt_2_over_pi * (x + (real)0.044715 * x * x * x));
}

static inline real gelu_tanh_gradient(real x, real dy)
{
    real s = gelu_gate(x);
    real du = 2 * sqrt_2_over_pi * (1 + 3 * (real)0.044715 * x * x);
    return normal_or_zero(dy * (s + x * s * (1 - s) * du));
}

TG_LOOP(gelu_tanh_value_loop, a * gelu_gate(a));
TG_LOOP(gelu_tanh_gradient_loop, gelu_tanh_gradient(a, dy));
TG_FUNCTION_OF_ONE(tg_gelu_tanh, tg_gelu_tanh_op, gelu_tanh_value_loop, gelu_tanh_gradient_loop, .op.name = "gelu_tanh",
                   .op.differentiate = differentiate_gelu_tanh, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = x s, dx += dy s (1 + x (1 - s)), s = sigmoid(x) */
static inline real silu_gradient(real x, real dy)
{
    real s = sigmoid_of(x);
    return normal_or_zero(dy * s * (1 + x * (1 - s)));
}

TG_LOOP(silu_value_loop, a * sigmoid_of(a));
TG_LOOP(silu_gradient_loop, silu_gradient(a, dy));
TG_FUNCTION_OF_ONE(tg_silu, tg_silu_op, silu_value_loop, silu_gradient_loop, .op.name = "silu",
                   .op.differentiate = differentiate_silu, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = x where x > 0, else alpha (e^x - 1); dx += dy alpha e^x where x <= 0, else dy. Follows Clevert et al. 2016. */
TG_LOOP(elu_value_loop, a > 0 ? a : (real)p * real_expm1(a));
TG_LOOP(elu_gradient_loop, a <= 0 ? normal_or_zero(dy * (real)p * real_exp(a)) : dy); /* dy passes at a NaN */
TG_ELEMENTWISE(tg_elu_op, tg_elementwise_levels, elu_value_loop, elu_gradient_loop, NULL, NULL, .op.name = "elu",
               .op.differentiate = differentiate_elu, .op.shape = tg_elementwise_shape, .op.input_names = {"x"},
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_elu(tg_tape *t, tg_tensor *x, double alpha)
{
    return apply_with(t, &tg_elu_op, x, alpha, 0);
}
#endif

/* y = log(1 + e^(beta x)) / beta, dx += dy sigmoid(beta x); where beta x > threshold: y = x, dx += dy. As in torch, y
 * is infinite where that power of e is. */
static inline real softplus_value(real x, double beta_option, double threshold_option)
{
    const real beta = (real)beta_option, threshold = (real)threshold_option, z = x * beta;
    real y = (z > 0 ? z : 0) + softplus_tail(z);
    y = z > (real)(IS_FLOAT ? 88.7228394 : 709.782712893384) ? (real)INFINITY : y;
    return z > threshold ? x : normal_or_zero(y / beta);
}

static inline real softplus_gradient(real x, real dy, double beta_option, double threshold_option)
{
    const real beta = (real)beta_option, threshold = (real)threshold_option;
    return x * beta > threshold ? dy : normal_or_zero(dy / (1 + real_exp(-x * beta)));
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

TG_LOOP(softplus_value_loop, softplus_value(a, p, q));
TG_LOOP(softplus_gradient_loop, softplus_gradient(a, dy, p, q));
TG_ELEMENTWISE(tg_softplus_op, tg_elementwise_levels, softplus_value_loop, softplus_gradient_loop, NULL, NULL,
               .op.name = "softplus", .op.differentiate = differentiate_softplus, .op.shape = softplus_shape,
               .op.input_names = {"x"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_softplus(tg_tape *t, tg_tensor *x, double beta, double threshold)
{
    return apply_with(t, &tg_softplus_op, x, beta, threshold);
}
#endif

/* y = -log(1 + e^-x), dx += dy sigmoid(-x) */
TG_LOOP(log_sigmoid_value_loop, (a > 0 ? 0 : a) - softplus_tail(a)); /* NaN stays NaN */
TG_LOOP(log_sigmoid_gradient_loop, normal_or_zero(dy / (1 + real_exp(a))));
TG_FUNCTION_OF_ONE(tg_log_sigmoid, tg_log_sigmoid_op, log_sigmoid_value_loop, log_sigmoid_gradient_loop,
                   .op.name = "log_sigmoid", .op.differentiate = differentiate_log_sigmoid,
                   .op.backward_ignores_outputs = TG_OP_ALL);
