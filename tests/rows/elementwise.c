/* The rows of elementwise functions: of one value, of one value and numbers, and of two or three values.
 *
 * A formula is the value and its slope, as terms of x (or a and b) and of the options p and q. Of two inputs, k is the
 * one whose slope it is.
 */
#include "rows/rows.h"

#include <float.h>

/* Defines OP_formula, and for it the functions OP_value and OP_slope. */
#define FORMULA(op, value_of, slope_of)                                       \
    static quantity op##_value(const double *in, const double *number)        \
    {                                                                         \
        double x = in[0], a = in[0], b = in[1], p = number[0], q = number[1]; \
        (void)x, (void)a, (void)b, (void)p, (void)q;                          \
        return value_of;                                                      \
    }                                                                         \
    static quantity op##_slope(int k, const double *in, const double *number) \
    {                                                                         \
        double x = in[0], a = in[0], b = in[1], p = number[0], q = number[1]; \
        (void)k, (void)x, (void)a, (void)b, (void)p, (void)q;                 \
        return slope_of;                                                      \
    }                                                                         \
    static const formula op##_formula = {op##_value, op##_slope};

/* A value, and the sum of its absolute terms. */
#define TERMS(value, terms) ((quantity){value, terms})

/* clang-format off */
FORMULA(neg, plain(-x), plain(-1))
FORMULA(exp, plain(exp(x)), plain(exp(x)))
FORMULA(log, plain(log(x)), plain(1 / x))
FORMULA(sqrt, plain(sqrt(x)), plain(1 / (2 * sqrt(x))))
FORMULA(tanh, plain(tanh(x)), TERMS(1 - tanh(x) * tanh(x), 1))
FORMULA(sigmoid, plain(sigmoid(x)), TERMS(sigmoid(x) * (1 - sigmoid(x)), sigmoid(x)))
FORMULA(relu, plain(x < 0 ? 0 : x), plain(!(x <= 0)))
FORMULA(gelu,
        TERMS(x * distribution(x), fabs(x) * distribution(x) * (1 + x * x) + flushed(x)),
        TERMS(distribution(x) + x * density(x),
              (distribution(x) + fabs(x) * density(x)) * (1 + x * x + in_tail(x) / FLT_EPSILON) + flushed(x)))
FORMULA(gelu_tanh,
        TERMS(x * sigmoid(gelu_u(x)), fabs(x) * sigmoid(gelu_u(x)) * (1 + fabs(gelu_u(x))) + flushed(x)),
        TERMS(slope_of_gate(x, sigmoid(gelu_u(x)), gelu_u_slope(x)),
              sigmoid(gelu_u(x)) * (1 + fabs(x * gelu_u_slope(x))) * (1 + fabs(gelu_u(x))) +
                  flushed(x * gelu_u_slope(x)) + overflowing(x * gelu_u_slope(x))))
FORMULA(silu,
        TERMS(x * sigmoid(x), fabs(x) * sigmoid(x) + flushed(x)),
        TERMS(slope_of_gate(x, sigmoid(x), 1), sigmoid(x) * (1 + fabs(x)) + flushed(x)))
FORMULA(abs, plain(fabs(x)), plain(sign_of(x)))
FORMULA(sin, plain(sin(x)), plain(cos(x)))
FORMULA(cos, plain(cos(x)), plain(-sin(x)))
FORMULA(sign, plain(sign_of(x)), plain(0))
FORMULA(round, plain(nearbyint(x)), plain(0))
FORMULA(floor, plain(floor(x)), plain(0))
FORMULA(log_sigmoid, plain(x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x))), plain(1 / (1 + exp(x))))

FORMULA(add_scalar, TERMS(x + p, fabs(x) + fabs(p)), plain(1))
FORMULA(mul_scalar, plain(x * p), plain(p))
FORMULA(div_scalar, plain(x / p), plain(1 / p))
FORMULA(pow_scalar, power_of_number(x, p), slope_of_power_of_number(x, p))
FORMULA(leaky_relu, plain(x > 0 ? x : p * x), plain(x > 0 ? 1 : p))
FORMULA(elu, plain(x > 0 ? x : p * expm1(x)), x <= 0 ? scaled_power_of_e(p, x) : plain(1))
FORMULA(softplus,
        TERMS(p * x > q ? x : log1p(exp(p * x)) / p,
              p * x > q ? fabs(x) : log1p(exp(p * x)) / p * (1 + fabs(p * x)) + overflowing(exp(p * x))),
        TERMS(p * x > q ? 1 : sigmoid(p * x), p * x > q ? 1 : sigmoid(p * x) * (1 + fabs(p * x))))
FORMULA(clamp, plain(x < p ? p : x > q ? q : x), plain(x >= p && x <= q))

FORMULA(add, TERMS(a + b, fabs(a) + fabs(b)), plain(1))
FORMULA(sub, TERMS(a - b, fabs(a) + fabs(b)), plain(k == 0 ? 1 : -1))
FORMULA(mul, plain(a * b), plain(k == 0 ? b : a))
FORMULA(div, plain(a / b), plain(k == 0 ? 1 / b : -(a / b) / b))
FORMULA(pow, plain(pow(a, b)), k == 0 ? slope_of_power(pow(a, b - 1), a, b) : slope_by_exponent(a, b))
FORMULA(maximum, plain(max_or_nan(a, b)), plain(k == 0 ? share(a, b) : share(b, a)))
FORMULA(minimum, plain(min_or_nan(a, b)), plain(k == 0 ? share(b, a) : share(a, b)))
FORMULA(remainder, plain(remainder_of(a, b)), plain(k == 0 ? 1 : -floor_of_quotient(a, b)))
/* clang-format on */

static bool softplus_accepts(const double *number)
{
    return number[0] > 0 && !isnan(number[1]);
}

static bool clamp_accepts(const double *number)
{
    return number[0] <= number[1];
}

static tg_tensor *clamp_tensor(tg_tape *t, tg_tensor *const *x)
{
    return tg_clamp_tensor(t, x[0], x[1], x[2]);
}

static tg_tensor *clamp_low(tg_tape *t, tg_tensor *const *x)
{
    return tg_clamp_tensor(t, x[0], x[1], NULL);
}

static tg_tensor *clamp_high(tg_tape *t, tg_tensor *const *x)
{
    return tg_clamp_tensor(t, x[0], NULL, x[1]);
}

/* A bound that is NULL is infinite, and gets no gradient. */
static quantity clamp_tensor_value(const double *in, const double *number)
{
    (void)number;
    return plain(min_or_nan(max_or_nan(in[0], in[1]), in[2]));
}

static quantity clamp_tensor_slope(int k, const double *in, const double *number)
{
    double x = in[0], low = in[1], high = in[2];
    bool has_high = number[1] != 0;
    bool is_of_low = x < low && (low < high || !has_high), is_of_high = x > high || high < low;
    return plain(k == 0 ? x >= low && x <= high : k == 1 ? is_of_low : is_of_high);
}

static const formula clamp_tensor_formula = {clamp_tensor_value, clamp_tensor_slope};

const test_row elementwise_rows[] = {
    {"tg_neg", "", .of_one = tg_neg, .inputs = {REAL}, .torch = "-x", .formula = &neg_formula, .bench = "real S",
     .weight = 1},
    {"tg_exp", "", .of_one = tg_exp, .inputs = {REAL}, .torch = "torch.exp(x)", .formula = &exp_formula,
     .bench = "real S", .weight = 2},
    {"tg_log", "", .of_one = tg_log, .inputs = {POSITIVE}, .torch = "torch.log(x)", .formula = &log_formula,
     .bench = "positive S", .weight = 1},
    {"tg_sqrt", "", .of_one = tg_sqrt, .inputs = {POSITIVE}, .torch = "torch.sqrt(x)", .formula = &sqrt_formula,
     .bench = "positive S", .weight = 1},
    {"tg_tanh", "", .of_one = tg_tanh, .inputs = {REAL}, .torch = "torch.tanh(x)", .formula = &tanh_formula,
     .bench = "real S", .weight = 4},
    {"tg_sigmoid", "", .of_one = tg_sigmoid, .inputs = {REAL}, .torch = "torch.sigmoid(x)", .formula = &sigmoid_formula,
     .is_never_subnormal = true, .bench = "real S", .weight = 3},
    {"tg_relu", "", .of_one = tg_relu, .inputs = {DISTINCT}, .torch = "torch.relu(x)", .formula = &relu_formula,
     .bench = "real S", .weight = 2},
    {"tg_gelu", "", .of_one = tg_gelu, .inputs = {REAL}, .torch = "F.gelu(x)", .formula = &gelu_formula,
     .is_never_subnormal = true, .loses_digits = true, .bench = "real S", .weight = 2},
    {"tg_gelu_tanh", "", .of_one = tg_gelu_tanh, .inputs = {REAL}, .torch = "F.gelu(x, approximate='tanh')",
     .formula = &gelu_tanh_formula, .is_never_subnormal = true, .loses_digits = true, .bench = "real S", .weight = 1},
    {"tg_silu", "", .of_one = tg_silu, .inputs = {REAL}, .torch = "F.silu(x)", .formula = &silu_formula,
     .is_never_subnormal = true, .loses_digits = true, .bench = "real S", .weight = 1},
    {"tg_abs", "", .of_one = tg_abs, .inputs = {DISTINCT}, .torch = "torch.abs(x)", .formula = &abs_formula,
     .bench = "real S", .weight = 1},
    {"tg_sin", "", .of_one = tg_sin, .inputs = {REAL}, .torch = "torch.sin(x)", .formula = &sin_formula,
     .bench = "real S", .weight = 2},
    {"tg_cos", "", .of_one = tg_cos, .inputs = {REAL}, .torch = "torch.cos(x)", .formula = &cos_formula,
     .bench = "real S", .weight = 1},
    {"tg_sign", "", .of_one = tg_sign, .inputs = {REAL}, .torch = "torch.sign(x)", .formula = &sign_formula,
     .has_no_gradient = true, .bench = "real S"},
    {"tg_round", "", .of_one = tg_round, .inputs = {REAL}, .torch = "torch.round(x)", .formula = &round_formula,
     .has_no_gradient = true, .bench = "real S"},
    {"tg_floor", "", .of_one = tg_floor, .inputs = {REAL}, .torch = "torch.floor(x)", .formula = &floor_formula,
     .has_no_gradient = true, .bench = "real S"},
    {"tg_log_sigmoid", "", .of_one = tg_log_sigmoid, .inputs = {REAL}, .torch = "F.logsigmoid(x)",
     .formula = &log_sigmoid_formula, .is_never_subnormal = true, .bench = "real S", .weight = 1},
    {"tg_add_scalar", "", .with_number = tg_add_scalar, .inputs = {REAL}, .options = {"1.5"}, .torch = "x + p",
     .formula = &add_scalar_formula, .bench = "real S", .weight = 1},
    {"tg_mul_scalar", "", .with_number = tg_mul_scalar, .inputs = {REAL}, .options = {"1.5", "-1.5"}, .torch = "x * p",
     .formula = &mul_scalar_formula, .bench = "real S", .weight = 1},
    {"tg_div_scalar", "", .with_number = tg_div_scalar, .inputs = {REAL}, .options = {"1.5"}, .torch = "x / p",
     .formula = &div_scalar_formula, .bench = "real S", .weight = 1},
    {"tg_pow_scalar", "", .with_number = tg_pow_scalar, .inputs = {POSITIVE},
     .options = {"2.5", "0.5", "-0.5", "1", "-1", "-2", "3", "-3", "4", "1.75"},
     .edges = {"0", "1.5", "2", "inf", "-inf", "nan"}, .torch = "x ** p", .formula = &pow_scalar_formula, .weight = 1},
    {"tg_pow_scalar", "2", .with_number = tg_pow_scalar, .inputs = {REAL}, .options = {"2"}, .torch = "x ** p",
     .formula = &pow_scalar_formula, .bench = "positive S"},
    {"tg_pow_scalar", "3", .with_number = tg_pow_scalar, .inputs = {POSITIVE}, .options = {"3"}, .torch = "x ** p",
     .formula = &pow_scalar_formula, .bench = "positive S"},
    {"tg_pow_scalar", "0.5", .with_number = tg_pow_scalar, .inputs = {POSITIVE}, .options = {"0.5"}, .torch = "x ** p",
     .formula = &pow_scalar_formula, .bench = "positive S"},
    {"tg_pow_scalar", "1.7", .with_number = tg_pow_scalar, .inputs = {POSITIVE}, .options = {"1.7"}, .torch = "x ** p",
     .formula = &pow_scalar_formula, .bench = "positive S"},
    {"tg_leaky_relu", "", .with_number = tg_leaky_relu, .inputs = {DISTINCT},
     .options = {"0.01", "0.3", "-0.5", "0.25", "1"}, .torch = "F.leaky_relu(x, p)", .formula = &leaky_relu_formula,
     .bench = "real S", .weight = 1},
    {"tg_elu", "", .with_number = tg_elu, .inputs = {DISTINCT}, .options = {"1", "0.3", "0.7", "0.25"},
     .torch = "F.elu(x, p)", .formula = &elu_formula, .is_never_subnormal = true, .bench = "real S", .weight = 1},
    {"tg_softplus", "", .with_numbers = tg_softplus, .inputs = {DISTINCT}, .options = {"1 20", "2 1.5", "2 4", "2 20"},
     .accepts = softplus_accepts, .refusal = "beta %g and threshold %g; beta must be above 0, threshold a number",
     .torch = "F.softplus(x, p, q)", .formula = &softplus_formula, .is_never_subnormal = true, .bench = "real S",
     .weight = 1},
    {"tg_clamp", "", .with_numbers = tg_clamp, .inputs = {DISTINCT}, .options = {"-0.6 0.7", "-0.5 0.25", "-1 1"},
     .edges = {"-inf 1", "0 inf", "inf inf", "-inf 0.5", "3 3", "-0.5 0.75"}, .accepts = clamp_accepts,
     .refusal = "low %g and high %g; low must be at most high", .torch = "torch.clamp(x, p, q)",
     .formula = &clamp_formula, .bench = "real S", .weight = 1},
    {"tg_add", "", .of_two = tg_add, .inputs = {REAL, REAL}, .torch = "a + b", .formula = &add_formula,
     .bench = "real S; real S", .weight = 8},
    {"tg_sub", "", .of_two = tg_sub, .inputs = {REAL, REAL}, .torch = "a - b", .formula = &sub_formula,
     .bench = "real S; real S", .weight = 4},
    {"tg_mul", "", .of_two = tg_mul, .inputs = {REAL, REAL}, .torch = "a * b", .formula = &mul_formula,
     .bench = "real S; real S", .weight = 8},
    {"tg_div", "", .of_two = tg_div, .inputs = {REAL, NONZERO}, .torch = "a / b", .formula = &div_formula,
     .bench = "positive S; positive S", .weight = 2},
    {"tg_pow", "", .of_two = tg_pow, .inputs = {POSITIVE, REAL}, .torch = "torch.pow(a, b)", .formula = &pow_formula,
     .bench = "positive S; positive S", .weight = 1},
    {"tg_maximum", "", .of_two = tg_maximum, .inputs = {DISTINCT, DISTINCT}, .torch = "torch.maximum(a, b)",
     .formula = &maximum_formula, .bench = "real S; real S", .weight = 1},
    {"tg_minimum", "", .of_two = tg_minimum, .inputs = {DISTINCT, DISTINCT}, .torch = "torch.minimum(a, b)",
     .formula = &minimum_formula, .bench = "real S; real S", .weight = 1},
    {"tg_remainder", "", .of_two = tg_remainder, .inputs = {DISTINCT, POSITIVE}, .torch = "torch.remainder(a, b)",
     .formula = &remainder_formula, .bench = "positive S; positive S"},
    {"tg_clamp_tensor", "", .call = clamp_tensor, .inputs = {DISTINCT, DISTINCT, DISTINCT},
     .shapes = {"2,3 2,3 2,3", "7 7 7", "2,3 3 2,1", "0,3 3 0,3"}, .formula = &clamp_tensor_formula},
    {"tg_clamp_tensor", "low", .call = clamp_low, .inputs = {DISTINCT, DISTINCT}},
    {"tg_clamp_tensor", "high", .call = clamp_high, .inputs = {DISTINCT, DISTINCT}},
    {.op = NULL},
};
