/* elementwise: functions of one, two or three values, with broadcasting.
 *
 * A line of the lists below is the op, its value, and its slopes, as terms of x (or a and b, or x, low and high) and of
 * the numbers p and q that are options. A second value in braces is the sum of the absolute terms; it is
 * larger than the result if it is a difference of terms.
 */
#include "elementwise_formula.h"

#include <float.h>
#include <string.h>

enum { MOST_INPUTS = 3, MOST_NUMBERS = 2 };

typedef struct function {
    int inputs, numbers;
    tg_tensor *(*call)(trial *t);
    quantity (*value)(const double *in, const double *number);
    quantity (*slope)(int k, const double *in, const double *number); /* for input k */
    bool (*accepts)(const double *number);                            /* NULL: all numbers */
} function;

typedef struct numbers_of_call {
    double given[MOST_NUMBERS], rounded[MOST_NUMBERS]; /* to the dtype, as the op does */
} numbers_of_call;

/* ---- the functions ---- */

#define TERMS(value, terms) ((quantity){value, terms})

#define DEFINE(op, count, number_count, arguments, value_of, slope_of, accepts_numbers) \
    static tg_tensor *op##_call(trial *t)                                               \
    {                                                                                   \
        input *in = t->inputs;                                                          \
        const double *number = OPTIONS(t, numbers_of_call)->given;                      \
        (void)in, (void)number;                                                         \
        return tg_##op arguments;                                                       \
    }                                                                                   \
    static const function op##_function = {count, number_count, op##_call, value_of, slope_of, accepts_numbers};

#define UNARY(op, value_of_x, ...)                                            \
    static quantity op##_value(const double *in, const double *number)        \
    {                                                                         \
        double x = in[0];                                                     \
        (void)number;                                                         \
        return value_of_x;                                                    \
    }                                                                         \
    static quantity op##_slope(int k, const double *in, const double *number) \
    {                                                                         \
        double x = in[0];                                                     \
        (void)number, (void)k, (void)x;                                       \
        return __VA_ARGS__;                                                   \
    }                                                                         \
    DEFINE(op, 1, 0, (t->tape, in[0].tensor), op##_value, op##_slope, NULL)

#define WITH_NUMBERS(op, number_count, arguments, allowed, value_of_x, ...)   \
    static bool op##_accepts(const double *number)                            \
    {                                                                         \
        double p = number[0], q = number[1];                                  \
        (void)p, (void)q;                                                     \
        return allowed;                                                       \
    }                                                                         \
    static quantity op##_value(const double *in, const double *number)        \
    {                                                                         \
        double x = in[0], p = number[0], q = number[1];                       \
        (void)p, (void)q;                                                     \
        return value_of_x;                                                    \
    }                                                                         \
    static quantity op##_slope(int k, const double *in, const double *number) \
    {                                                                         \
        double x = in[0], p = number[0], q = number[1];                       \
        (void)k, (void)x, (void)p, (void)q;                                   \
        return __VA_ARGS__;                                                   \
    }                                                                         \
    DEFINE(op, 1, number_count, arguments, op##_value, op##_slope, op##_accepts)

#define BINARY(op, value_of_a_b, slope_a, slope_b)                            \
    static quantity op##_value(const double *in, const double *number)        \
    {                                                                         \
        double a = in[0], b = in[1];                                          \
        (void)number;                                                         \
        return value_of_a_b;                                                  \
    }                                                                         \
    static quantity op##_slope(int k, const double *in, const double *number) \
    {                                                                         \
        double a = in[0], b = in[1];                                          \
        (void)a, (void)b, (void)number;                                       \
        return k == 0 ? slope_a : slope_b;                                    \
    }                                                                         \
    DEFINE(op, 2, 0, (t->tape, in[0].tensor, in[1].tensor), op##_value, op##_slope, NULL)

/* clang-format off */
UNARY(neg, plain(-x), plain(-1))
UNARY(exp, plain(exp(x)), plain(exp(x)))
UNARY(log, plain(log(x)), plain(1 / x))
UNARY(sqrt, plain(sqrt(x)), plain(1 / (2 * sqrt(x))))
UNARY(tanh, plain(tanh(x)), TERMS(1 - tanh(x) * tanh(x), 1))
UNARY(sigmoid, plain(sigmoid(x)), TERMS(sigmoid(x) * (1 - sigmoid(x)), sigmoid(x)))
UNARY(relu, plain(x < 0 ? 0 : x), plain(!(x <= 0)))
UNARY(gelu,
      TERMS(x * distribution(x), fabs(x) * distribution(x) * (1 + x * x) + flushed(x)),
      TERMS(distribution(x) + x * density(x),
            (distribution(x) + fabs(x) * density(x)) * (1 + x * x + in_tail(x) / FLT_EPSILON) + flushed(x)))
UNARY(gelu_tanh,
      TERMS(x * sigmoid(gelu_u(x)), fabs(x) * sigmoid(gelu_u(x)) * (1 + fabs(gelu_u(x))) + flushed(x)),
      TERMS(slope_of_gate(x, sigmoid(gelu_u(x)), gelu_u_slope(x)),
            sigmoid(gelu_u(x)) * (1 + fabs(x * gelu_u_slope(x))) * (1 + fabs(gelu_u(x))) +
                flushed(x * gelu_u_slope(x)) + overflowing(x * gelu_u_slope(x))))
UNARY(silu,
      TERMS(x * sigmoid(x), fabs(x) * sigmoid(x) + flushed(x)),
      TERMS(slope_of_gate(x, sigmoid(x), 1), sigmoid(x) * (1 + fabs(x)) + flushed(x)))
UNARY(abs, plain(fabs(x)), plain(sign_of(x)))
UNARY(sin, plain(sin(x)), plain(cos(x)))
UNARY(cos, plain(cos(x)), plain(-sin(x)))
UNARY(sign, plain(sign_of(x)), plain(0))
UNARY(round, plain(nearbyint(x)), plain(0))
UNARY(floor, plain(floor(x)), plain(0))
UNARY(log_sigmoid, plain(x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x))), plain(1 / (1 + exp(x))))

WITH_NUMBERS(leaky_relu, 1, (t->tape, in[0].tensor, number[0]), true,
             plain(x > 0 ? x : p * x), plain(x > 0 ? 1 : p))
WITH_NUMBERS(elu, 1, (t->tape, in[0].tensor, number[0]), true,
             plain(x > 0 ? x : p * expm1(x)), x <= 0 ? scaled_power_of_e(p, x) : plain(1))
WITH_NUMBERS(softplus, 2, (t->tape, in[0].tensor, number[0], number[1]), p > 0 && !isnan(q),
             TERMS(p * x > q ? x : log1p(exp(p * x)) / p,
                   p * x > q ? fabs(x) : log1p(exp(p * x)) / p * (1 + fabs(p * x)) + overflowing(exp(p * x))),
             TERMS(p * x > q ? 1 : sigmoid(p * x), p * x > q ? 1 : sigmoid(p * x) * (1 + fabs(p * x))))
WITH_NUMBERS(clamp, 2, (t->tape, in[0].tensor, number[0], number[1]), p <= q,
             plain(x < p ? p : x > q ? q : x), plain(x >= p && x <= q))
WITH_NUMBERS(add_scalar, 1, (t->tape, in[0].tensor, number[0]), true, TERMS(x + p, fabs(x) + fabs(p)), plain(1))
WITH_NUMBERS(mul_scalar, 1, (t->tape, in[0].tensor, number[0]), true, plain(x * p), plain(p))
WITH_NUMBERS(div_scalar, 1, (t->tape, in[0].tensor, number[0]), true, plain(x / p), plain(1 / p))
WITH_NUMBERS(pow_scalar, 1, (t->tape, in[0].tensor, number[0]), true,
             power_of_number(x, p), slope_of_power_of_number(x, p))

BINARY(add, TERMS(a + b, fabs(a) + fabs(b)), plain(1), plain(1))
BINARY(sub, TERMS(a - b, fabs(a) + fabs(b)), plain(1), plain(-1))
BINARY(mul, plain(a * b), plain(b), plain(a))
BINARY(div, plain(a / b), plain(1 / b), plain(-(a / b) / b))
BINARY(pow, plain(pow(a, b)), slope_of_power(pow(a, b - 1), a, b), slope_by_exponent(a, b))
BINARY(maximum, plain(max_or_nan(a, b)), plain(share(a, b)), plain(share(b, a)))
BINARY(minimum, plain(min_or_nan(a, b)), plain(share(b, a)), plain(share(a, b)))
BINARY(remainder, plain(remainder_of(a, b)), plain(1), plain(-floor_of_quotient(a, b)))
/* clang-format on */

/* The bounds low and high; one that is NULL counts as infinite, and gets no gradient. */
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
    (void)number;
    return plain(k == 0 ? x >= low && x <= high : k == 1 ? is_of_low : is_of_high);
}

DEFINE(clamp_tensor, 3, 0, (t->tape, in[0].tensor, in[1].tensor, in[2].tensor), clamp_tensor_value, clamp_tensor_slope,
       NULL)

/* ---- a call ---- */

/* Seldom a shape of more values than a chunk of the kernels (TG_ELEMENTWISE_CHUNK). */
static tg_shape draw_inputs_shape(trial *t)
{
    return draw_chance(t, 4) ? TG_SHAPE(draw_integer(t, 10, 70), draw_integer(t, 10, 40))
                             : draw_shape(t, 0, TG_MAX_RANK);
}

static void draw_function(trial *t)
{
    const function *f = t->reference->data;
    numbers_of_call *numbers = OPTIONS(t, numbers_of_call);
    static const char *const names[] = {"first number", "second number"};
    for (int k = 0; k < f->numbers; k++) {
        double number = draw_chance(t, 50)
                            ? draw_uniform(t, -3, 3)
                            : DRAW_DOUBLE_OF(t, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 20, 1e-3, INFINITY, -INFINITY, NAN);
        numbers->given[k] = note_double(t, names[k], number);
        numbers->rounded[k] = converted(t->dtype, number);
    }
    static const char *const inputs[] = {"first", "second", "third"};
    tg_shape shape = draw_inputs_shape(t);
    int absent =
        strcmp(t->reference->op, "tg_clamp_tensor") == 0 && draw_chance(t, 50) ? (int)draw_integer(t, 1, 2) : -1;
    for (int k = 0; k < f->inputs; k++) {
        if (k == absent) {
            draw_absent(t, inputs[k]);
        } else {
            draw_input(t, inputs[k], f->inputs == 1 ? shape : draw_broadcastable(t, shape));
        }
    }
    numbers->rounded[1] =
        strcmp(t->reference->op, "tg_clamp_tensor") == 0 ? t->inputs[2].is_present : numbers->rounded[1];
}

/* The broadcast shape of all inputs; false if they do not match. */
static bool shape_of_result(const trial *t, tg_shape *shape)
{
    *shape = t->inputs[0].x.shape;
    bool matches = true;
    for (int k = 1; k < t->input_count; k++) {
        if (t->inputs[k].is_present) {
            matches = matches && broadcast_shapes(*shape, t->inputs[k].x.shape, shape);
        }
    }
    return matches;
}

static bool is_valid_function(const trial *t)
{
    const function *f = t->reference->data;
    tg_shape shape;
    return shape_of_result(t, &shape) && (!f->accepts || f->accepts(OPTIONS(t, numbers_of_call)->given));
}

static tg_tensor *call_function(trial *t)
{
    return ((const function *)t->reference->data)->call(t);
}

/* Reads the values of the inputs that belong to an index of the result, and their numbers. An absent bound is
 * infinite. */
static void read_inputs(const trial *t, tg_shape shape, const int64_t *index, double *values, int64_t *at)
{
    for (int k = 0; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        at[k] = in->is_present ? broadcast_index(in->x.shape, shape.rank, index) : 0;
        values[k] = in->is_present ? in->x.values[at[k]] : k == 1 ? -INFINITY : INFINITY;
    }
}

static void function_forward(trial *t)
{
    const function *f = t->reference->data;
    tg_shape shape;
    shape_of_result(t, &shape);
    array *y = output_new(t, 0, shape);
    int64_t index[TG_MAX_RANK], at[MOST_INPUTS];
    double in[MOST_INPUTS];
    for (int64_t i = 0; i < y->count; i++) {
        split_index(shape, i, index);
        read_inputs(t, shape, index, in, at);
        quantity value = f->value(in, OPTIONS(t, numbers_of_call)->rounded);
        put_terms(y, i, value.value, value.terms);
    }
}

static void function_backward(trial *t)
{
    const function *f = t->reference->data;
    const array *dy = &t->outputs[0].dy;
    int64_t index[TG_MAX_RANK], at[MOST_INPUTS];
    double in[MOST_INPUTS];
    for (int64_t i = 0; i < dy->count; i++) {
        split_index(dy->shape, i, index);
        read_inputs(t, dy->shape, index, in, at);
        for (int k = 0; k < f->inputs; k++) {
            quantity slope = f->slope(k, in, OPTIONS(t, numbers_of_call)->rounded);
            if (t->inputs[k].is_present) {
                add_terms(&t->inputs[k].dx, at[k], dy->values[i] * slope.value,
                          fabs(dy->values[i]) * slope.terms + overflowing(slope.terms));
            }
        }
    }
}

#define REFERENCE(function)                                                                                   \
    {                                                                                                         \
        .op = "tg_" #function, .draw = draw_function, .is_valid = is_valid_function, .call = call_function,   \
        .forward = function_forward, .backward = function_backward, .roundings = 8, .gradient_roundings = 16, \
        .data = &function##_function,                                                                         \
    }

static const reference references[] = {
    REFERENCE(neg),     REFERENCE(exp),         REFERENCE(log),        REFERENCE(sqrt),         REFERENCE(tanh),
    REFERENCE(sigmoid), REFERENCE(relu),        REFERENCE(gelu),       REFERENCE(gelu_tanh),    REFERENCE(silu),
    REFERENCE(abs),     REFERENCE(sin),         REFERENCE(cos),        REFERENCE(sign),         REFERENCE(round),
    REFERENCE(floor),   REFERENCE(log_sigmoid), REFERENCE(leaky_relu), REFERENCE(elu),          REFERENCE(softplus),
    REFERENCE(clamp),   REFERENCE(add_scalar),  REFERENCE(mul_scalar), REFERENCE(div_scalar),   REFERENCE(pow_scalar),
    REFERENCE(add),     REFERENCE(sub),         REFERENCE(mul),        REFERENCE(div),          REFERENCE(pow),
    REFERENCE(maximum), REFERENCE(minimum),     REFERENCE(remainder),  REFERENCE(clamp_tensor),
};

const reference_family elementwise = {"elementwise", references, sizeof references / sizeof *references, 40000};
