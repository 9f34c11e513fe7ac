/* planted_second: the ops of planted_second.h. They were written by somebody who had not read the other tests of second
 * derivatives, and stay as they are: they are what tg_gradgradcheck is measured by.
 */
#include "grad/planted_second.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <tapegrad/ops.h>

/* ---- what the ops share ---- */

/* The attributes of all ops. */
typedef struct choice {
    bool is_right;
    double exponent;
} choice;

static bool right(const tg_op_call *call)
{
    return ((const choice *)call->attributes)->is_right;
}

static bool wants(const tg_op_call *call, int input)
{
    return call->gradient_modes[input] != TG_GRADIENT_NONE;
}

static int64_t count_of(const tg_op_call *call)
{
    return tg_tensor_count(call->outputs[0]);
}

static int64_t columns_of(const tg_op_call *call, int input)
{
    return tg_tensor_size(call->inputs[input], -1);
}

static const double *value_of(const tg_op_call *call, int input)
{
    return tg_tensor_data(call->inputs[input]);
}

static const double *result_of(const tg_op_call *call)
{
    return tg_tensor_data(call->outputs[0]);
}

static double *result_to_write(const tg_op_call *call)
{
    return tg_tensor_data_mut(call->outputs[0]);
}

static const double *dy_of(const tg_op_call *call)
{
    return call->output_gradients[0];
}

static double *dx_of(const tg_op_call *call, int input)
{
    return call->input_gradients[input];
}

/* The sum along the rows, (R,C) -> (R,1). */
static tg_tensor *row_sums(tg_tape *t, tg_tensor *x)
{
    return tg_sum(t, x, TG_AXES(-1), TG_KEEP_AXES);
}

/* The output has the shape of the first input, or of the last one, or is a column with a value for each row. */
static bool like_first(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_F64) && tg_op_output(call, 0, TG_F64, tg_tensor_shape(call->inputs[0]));
}

static bool like_last(tg_op_call *call)
{
    int last = call->input_count - 1;
    return tg_op_expect_dtype(call, last, TG_F64) && tg_op_output(call, 0, TG_F64, tg_tensor_shape(call->inputs[last]));
}

static bool like_column(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_F64) && tg_op_expect_rank(call, 0, 2) &&
           tg_op_output(call, 0, TG_F64, TG_SHAPE(tg_tensor_size(call->inputs[0], 0), 1));
}

/* Defines the op `id` and the function id_call, which applies it to `count` inputs. Then comes the body of its
 * gradient in ops. */
#define OP(id, rule, forward, backward, count)                                                              \
    static void id##_in_ops(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx);      \
    static const tg_op id##_op = {                                                                          \
        .name = #id, .shape = rule, .f64 = {forward, backward}, .differentiate = id##_in_ops};              \
    static tg_tensor *id##_call(tg_tape *t, tg_tensor *const *inputs, bool is_right)                        \
    {                                                                                                       \
        return tg_apply(t, &id##_op, inputs, count, &(choice){.is_right = is_right}, sizeof(choice), NULL); \
    }                                                                                                       \
    static void id##_in_ops(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)

/* Defines two kernels value by value: y and the slope are expressions of x, and the slope also of y. */
#define VALUES(id, value, slope)                                           \
    static void id##_forward(const tg_op_call *call)                       \
    {                                                                      \
        for (int64_t i = 0; i < count_of(call); i++) {                     \
            const double x = value_of(call, 0)[i];                         \
            result_to_write(call)[i] = (value);                            \
        }                                                                  \
    }                                                                      \
    static void id##_backward(const tg_op_call *call)                      \
    {                                                                      \
        for (int64_t i = 0; i < count_of(call); i++) {                     \
            const double x = value_of(call, 0)[i], y = result_of(call)[i]; \
            (void)x;                                                       \
            (void)y;                                                       \
            dx_of(call, 0)[i] += dy_of(call)[i] * (slope);                 \
        }                                                                  \
    }

VALUES(sine, sin(x), cos(x))
VALUES(cosine, cos(x), -sin(x))
VALUES(cube, x *x *x, 3 * x * x)
VALUES(exponential, exp(x), y)
VALUES(hyperbolic, tanh(x), 1 - y * y)
VALUES(x_times_exponential, x *exp(x), y + exp(x))
VALUES(log_of_one_more, log(1 + exp(x)), exp(x) / (1 + exp(x)))

/* Defines two kernels of two inputs: y[i] is an expression of a and b, the values of the inputs at the indices a_index
 * and b_index, and so are the slopes. The index i counts the values of y, and n is the size of its last axis. */
#define PAIRS(id, a_index, b_index, value, a_slope, b_slope)                             \
    static void id##_forward(const tg_op_call *call)                                     \
    {                                                                                    \
        const int64_t n = tg_tensor_size(call->outputs[0], -1);                          \
        for (int64_t i = 0; n > 0 && i < count_of(call); i++) {                          \
            const double a = value_of(call, 0)[a_index], b = value_of(call, 1)[b_index]; \
            result_to_write(call)[i] = (value);                                          \
        }                                                                                \
    }                                                                                    \
    static void id##_backward(const tg_op_call *call)                                    \
    {                                                                                    \
        const int64_t n = tg_tensor_size(call->outputs[0], -1);                          \
        double *da = dx_of(call, 0), *db = dx_of(call, 1);                               \
        for (int64_t i = 0; n > 0 && i < count_of(call); i++) {                          \
            const double a = value_of(call, 0)[a_index], b = value_of(call, 1)[b_index]; \
            (void)a;                                                                     \
            (void)b;                                                                     \
            if (da) {                                                                    \
                da[a_index] += dy_of(call)[i] * (a_slope);                               \
            }                                                                            \
            if (db) {                                                                    \
                db[b_index] += dy_of(call)[i] * (b_slope);                               \
            }                                                                            \
        }                                                                                \
    }

PAIRS(product, i, i, a *b, b, a)
PAIRS(times_square, i, i, a *b *b, b *b, 2 * a * b)
PAIRS(row_times, i % n, i, a *b, b, a)
PAIRS(outer, i / n, i % n, a *b, b, a)

/* Both inputs are (N,N): y = a b. */
static void matrix_forward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t i = 0; i < n * n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
            sum += value_of(call, 0)[i / n * n + k] * value_of(call, 1)[k * n + i % n];
        }
        result_to_write(call)[i] = sum;
    }
}

static void matrix_backward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    double *da = dx_of(call, 0), *db = dx_of(call, 1);
    for (int64_t i = 0; i < n * n; i++) {
        for (int64_t k = 0; k < n; k++) {
            if (da) {
                da[i / n * n + k] += dy_of(call)[i] * value_of(call, 1)[k * n + i % n];
            }
            if (db) {
                db[k * n + i % n] += dy_of(call)[i] * value_of(call, 0)[i / n * n + k];
            }
        }
    }
}

/* Returns the mean of row r of a matrix with n columns. */
static double mean_of_row(const double *x, int64_t r, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++) {
        sum += x[r * n + c];
    }
    return sum / (double)n;
}

/* ---- wrong from the first derivative on: value by value ---- */

OP(sign_lost, like_first, cosine_forward, cosine_backward, 1)
{
    tg_tensor *slope = tg_sin(t, call->inputs[0]);
    dx[0] = tg_mul(t, dy[0], right(call) ? tg_neg(t, slope) : slope);
}

OP(factor_lost, like_first, cube_forward, cube_backward, 1)
{
    tg_tensor *square = tg_pow_scalar(t, call->inputs[0], 2);
    dx[0] = tg_mul(t, dy[0], right(call) ? tg_mul_scalar(t, square, 3) : square);
}

OP(dy_forgotten, like_first, sine_forward, sine_backward, 1)
{
    tg_tensor *slope = tg_cos(t, call->inputs[0]);
    dx[0] = right(call) ? tg_mul(t, dy[0], slope) : slope;
}

OP(term_lost, like_first, x_times_exponential_forward, x_times_exponential_backward, 1)
{
    tg_tensor *y = call->outputs[0];
    dx[0] = tg_mul(t, dy[0], right(call) ? tg_add(t, y, tg_exp(t, call->inputs[0])) : y);
}

OP(x_for_y, like_first, hyperbolic_forward, hyperbolic_backward, 1)
{
    tg_tensor *y = right(call) ? call->outputs[0] : call->inputs[0];
    dx[0] = tg_sub(t, dy[0], tg_mul(t, dy[0], tg_mul(t, y, y)));
}

/* x to the power of an attribute. Forward also leaves the exponent in a variable of the program. */
static double last_exponent;

static void power_forward(const tg_op_call *call)
{
    last_exponent = ((const choice *)call->attributes)->exponent;
    for (int64_t i = 0; i < count_of(call); i++) {
        result_to_write(call)[i] = pow(value_of(call, 0)[i], last_exponent);
    }
}

static void power_backward(const tg_op_call *call)
{
    const double exponent = ((const choice *)call->attributes)->exponent;
    for (int64_t i = 0; i < count_of(call); i++) {
        dx_of(call, 0)[i] += dy_of(call)[i] * exponent * pow(value_of(call, 0)[i], exponent - 1);
    }
}

static void power_in_ops(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const double exponent = right(call) ? ((const choice *)call->attributes)->exponent : last_exponent;
    dx[0] = tg_mul(t, dy[0], tg_mul_scalar(t, tg_pow_scalar(t, call->inputs[0], exponent - 1), exponent));
}

static const tg_op power_op = {
    .name = "power", .shape = like_first, .f64 = {power_forward, power_backward}, .differentiate = power_in_ops};

/* (x^1.5)^3 */
static tg_tensor *stale_exponent_call(tg_tape *t, tg_tensor *const *inputs, bool is_right)
{
    tg_tensor *inner = tg_apply(t, &power_op, inputs, 1, &(choice){is_right, 1.5}, sizeof(choice), NULL);
    return tg_apply(t, &power_op, &inner, 1, &(choice){is_right, 3}, sizeof(choice), NULL);
}

/* ---- wrong from the first derivative on: two inputs, two outputs ---- */

OP(second_input_forgotten, like_first, product_forward, product_backward, 2)
{
    dx[0] = tg_mul(t, dy[0], call->inputs[1]);
    if (right(call)) {
        dx[1] = tg_mul(t, dy[0], call->inputs[0]);
    }
}

OP(inputs_exchanged, like_first, times_square_forward, times_square_backward, 2)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    dx[right(call) ? 0 : 1] = tg_mul(t, dy[0], tg_mul(t, b, b));
    dx[right(call) ? 1 : 0] = tg_mul(t, dy[0], tg_mul_scalar(t, tg_mul(t, a, b), 2));
}

OP(second_needs_first, like_first, times_square_forward, times_square_backward, 2)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    if (wants(call, 0)) {
        dx[0] = tg_mul(t, dy[0], tg_mul(t, b, b));
    }
    if (wants(call, right(call) ? 1 : 0)) {
        dx[1] = tg_mul(t, dy[0], tg_mul_scalar(t, tg_mul(t, a, b), 2));
    }
}

static void twice_in_ops(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_mul(t, dy[0], call->inputs[1]);
    if (right(call) || call->inputs[0] != call->inputs[1]) {
        dx[1] = tg_mul(t, dy[0], call->inputs[0]);
    }
}

static const tg_op twice_op = {
    .name = "twice", .shape = like_first, .f64 = {product_forward, product_backward}, .differentiate = twice_in_ops};

static tg_tensor *twice_counts_once_call(tg_tape *t, tg_tensor *const *inputs, bool is_right)
{
    tg_tensor *both[] = {inputs[0], inputs[0]};
    return tg_apply(t, &twice_op, both, 2, &(choice){.is_right = is_right}, sizeof(choice), NULL);
}

/* The sine and the cosine. */
static bool circle_shape(tg_op_call *call)
{
    return like_first(call) && tg_op_output(call, 1, TG_F64, tg_tensor_shape(call->inputs[0]));
}

static void circle_forward(const tg_op_call *call)
{
    double *cosines = tg_tensor_data_mut(call->outputs[1]);
    for (int64_t i = 0; i < count_of(call); i++) {
        result_to_write(call)[i] = sin(value_of(call, 0)[i]);
        cosines[i] = cos(value_of(call, 0)[i]);
    }
}

static void circle_backward(const tg_op_call *call)
{
    const double *of_sine = dy_of(call), *of_cosine = call->output_gradients[1];
    for (int64_t i = 0; i < count_of(call); i++) {
        const double x = value_of(call, 0)[i];
        dx_of(call, 0)[i] += (of_sine ? of_sine[i] * cos(x) : 0) - (of_cosine ? of_cosine[i] * sin(x) : 0);
    }
}

static void circle_in_ops(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    if (dy[0]) {
        dx[0] = tg_mul(t, dy[0], call->outputs[1]);
    }
    if (dy[1]) {
        tg_tensor *second = tg_neg(t, tg_mul(t, dy[1], call->outputs[0]));
        dx[0] = right(call) && dx[0] ? tg_add(t, dx[0], second) : second;
    }
}

static const tg_op circle_op = {
    .name = "circle", .shape = circle_shape, .f64 = {circle_forward, circle_backward}, .differentiate = circle_in_ops};

/* The sine times the cosine. */
static tg_tensor *last_output_wins_call(tg_tape *t, tg_tensor *const *inputs, bool is_right)
{
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS] = {NULL};
    tg_apply(t, &circle_op, inputs, 1, &(choice){.is_right = is_right}, sizeof(choice), outputs);
    return tg_mul(t, outputs[0], outputs[1]);
}

/* ---- wrong from the first derivative on: matrices, axes ---- */

OP(not_transposed, like_first, matrix_forward, matrix_backward, 2)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    dx[0] = tg_matmul(t, dy[0], right(call) ? tg_transpose(t, b, 0, 1) : b);
    dx[1] = tg_matmul(t, tg_transpose(t, a, 0, 1), dy[0]);
}

OP(row_not_summed, like_last, row_times_forward, row_times_backward, 2)
{
    tg_tensor *row = tg_mul(t, dy[0], call->inputs[1]);
    dx[0] = right(call) ? row : tg_select(t, row, 0, 0);
    dx[1] = tg_mul(t, dy[0], call->inputs[0]);
}

OP(row_averaged, like_last, row_times_forward, row_times_backward, 2)
{
    tg_tensor *row = tg_mul(t, dy[0], call->inputs[1]);
    dx[0] = right(call) ? tg_sum(t, row, TG_AXES(0), TG_DROP_AXES) : tg_mean(t, row, TG_AXES(0), TG_DROP_AXES);
    dx[1] = tg_mul(t, dy[0], call->inputs[0]);
}

static bool outer_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_F64) && tg_op_expect_rank(call, 0, 1) && tg_op_expect_rank(call, 1, 1) &&
           tg_op_output(call, 0, TG_F64, TG_SHAPE(columns_of(call, 0), columns_of(call, 1)));
}

/* y[i,j] = a[i] b[j]. What has a leading axis too many is added up along it. */
OP(outer_over_wrong_axis, outer_shape, outer_forward, outer_backward, 2)
{
    tg_tensor *of_a = tg_mul(t, dy[0], call->inputs[1]);
    dx[0] = right(call) ? tg_sum(t, of_a, TG_AXES(1), TG_DROP_AXES) : of_a;
    dx[1] = tg_mul(t, dy[0], tg_unsqueeze(t, call->inputs[0], 1));
}

/* Each row minus its mean. */
static void centered_forward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t i = 0; i < count_of(call); i++) {
        result_to_write(call)[i] = value_of(call, 0)[i] - mean_of_row(value_of(call, 0), i / n, n);
    }
}

static void centered_backward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t i = 0; i < count_of(call); i++) {
        dx_of(call, 0)[i] += dy_of(call)[i] - mean_of_row(dy_of(call), i / n, n);
    }
}

OP(mean_of_wrong_axis, like_first, centered_forward, centered_backward, 1)
{
    dx[0] = tg_sub(t, dy[0], tg_mean(t, dy[0], TG_AXES(right(call) ? 1 : 0), TG_KEEP_AXES));
}

/* The mean of the squares of each row, (R,C) -> (R,1). */
static void mean_square_forward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t r = 0; r < count_of(call); r++) {
        double sum = 0;
        for (int64_t c = 0; c < n; c++) {
            sum += value_of(call, 0)[r * n + c] * value_of(call, 0)[r * n + c];
        }
        result_to_write(call)[r] = sum / (double)n;
    }
}

static void mean_square_backward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t i = 0; i < count_of(call) * n; i++) {
        dx_of(call, 0)[i] += 2 * value_of(call, 0)[i] * dy_of(call)[i / n] / (double)n;
    }
}

OP(sum_for_mean, like_column, mean_square_forward, mean_square_backward, 1)
{
    tg_tensor *of_sum = tg_mul_scalar(t, tg_mul(t, dy[0], call->inputs[0]), 2);
    dx[0] = right(call) ? tg_div_scalar(t, of_sum, (double)columns_of(call, 0)) : of_sum;
}

/* The sum of each row, (R,C) -> (R,1). */
static void total_forward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t r = 0; r < count_of(call); r++) {
        result_to_write(call)[r] = mean_of_row(value_of(call, 0), r, n) * (double)n;
    }
}

static void total_backward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t i = 0; i < count_of(call) * n; i++) {
        dx_of(call, 0)[i] += dy_of(call)[i / n];
    }
}

OP(sum_not_expanded, like_column, total_forward, total_backward, 1)
{
    dx[0] = right(call) ? tg_expand(t, dy[0], tg_tensor_shape(call->inputs[0])) : dy[0];
}

/* ---- wrong from the second derivative on: value by value ---- */

/* Returns x, without its history in the wrong version. */
static tg_tensor *maybe_detached(tg_tape *t, const tg_op_call *call, tg_tensor *x)
{
    return right(call) ? x : tg_detach(t, x);
}

OP(x_detached, like_first, cube_forward, cube_backward, 1)
{
    tg_tensor *x = maybe_detached(t, call, call->inputs[0]);
    dx[0] = tg_mul(t, dy[0], tg_mul_scalar(t, tg_mul(t, x, x), 3));
}

OP(y_detached, like_first, exponential_forward, exponential_backward, 1)
{
    dx[0] = tg_mul(t, dy[0], maybe_detached(t, call, call->outputs[0]));
}

OP(dy_detached, like_first, sine_forward, sine_backward, 1)
{
    dx[0] = tg_mul(t, maybe_detached(t, call, dy[0]), tg_cos(t, call->inputs[0]));
}

OP(slope_not_recorded, like_first, sine_forward, sine_backward, 1)
{
    tg_tape_set_recording(t, right(call));
    tg_tensor *slope = tg_cos(t, call->inputs[0]);
    tg_tape_set_recording(t, true);
    dx[0] = tg_mul(t, dy[0], slope);
}

/* x minus its own value is 0, and its derivative is 1. */
OP(term_of_zero, like_first, sine_forward, sine_backward, 1)
{
    tg_tensor *x = call->inputs[0], *slope = tg_cos(t, x);
    dx[0] = tg_mul(t, dy[0], right(call) ? slope : tg_add(t, slope, tg_sub(t, x, tg_detach(t, x))));
}

OP(denominator_detached, like_first, log_of_one_more_forward, log_of_one_more_backward, 1)
{
    tg_tensor *power = tg_exp(t, call->inputs[0]);
    dx[0] = tg_mul(t, dy[0], tg_div(t, power, maybe_detached(t, call, tg_add_scalar(t, power, 1))));
}

/* y over its own value is 1, and its derivative is not 0. */
OP(factor_of_one, like_first, exponential_forward, exponential_backward, 1)
{
    tg_tensor *y = call->outputs[0], *slope = tg_div(t, tg_mul(t, y, y), maybe_detached(t, call, y));
    dx[0] = tg_mul(t, dy[0], slope);
}

/* ---- wrong from the second derivative on: several inputs, rows and matrices ---- */

OP(first_factor_detached, like_first, product_forward, product_backward, 2)
{
    dx[0] = tg_mul(t, dy[0], call->inputs[1]);
    dx[1] = tg_mul(t, dy[0], maybe_detached(t, call, call->inputs[0]));
}

OP(matrix_detached, like_first, matrix_forward, matrix_backward, 2)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    dx[0] = tg_matmul(t, dy[0], tg_transpose(t, maybe_detached(t, call, b), 0, 1));
    dx[1] = tg_matmul(t, tg_transpose(t, a, 0, 1), dy[0]);
}

/* The squares of each row minus its mean. */
static void deviation_forward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t i = 0; i < count_of(call); i++) {
        const double centered = value_of(call, 0)[i] - mean_of_row(value_of(call, 0), i / n, n);
        result_to_write(call)[i] = centered * centered;
    }
}

static void deviation_backward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    for (int64_t i = 0; i < count_of(call); i++) {
        const double centered = value_of(call, 0)[i] - mean_of_row(value_of(call, 0), i / n, n);
        const double of_centered = 2 * centered * dy_of(call)[i];
        for (int64_t c = 0; c < n; c++) {
            dx_of(call, 0)[i / n * n + c] += (i % n == c ? of_centered : 0) - of_centered / (double)n;
        }
    }
}

OP(mean_detached, like_first, deviation_forward, deviation_backward, 1)
{
    tg_tensor *x = call->inputs[0];
    tg_tensor *mean = maybe_detached(t, call, tg_mean(t, x, TG_AXES(-1), TG_KEEP_AXES));
    tg_tensor *of_centered = tg_mul(t, dy[0], tg_mul_scalar(t, tg_sub(t, x, mean), 2));
    dx[0] = tg_sub(t, of_centered, tg_mean(t, of_centered, TG_AXES(-1), TG_KEEP_AXES));
}

/* Each row divided by its length, whose inverse is saved. */
static bool unit_shape(tg_op_call *call)
{
    return like_first(call) && tg_op_expect_rank(call, 0, 2) &&
           tg_op_save(call, tg_tensor_size(call->inputs[0], 0), sizeof(double));
}

static void unit_forward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    const double *x = value_of(call, 0);
    double *inverse = call->saved;
    for (int64_t i = 0; i < count_of(call); i++) {
        double squares = 0;
        for (int64_t c = 0; c < n; c++) {
            squares += x[i / n * n + c] * x[i / n * n + c];
        }
        inverse[i / n] = 1 / sqrt(squares);
        result_to_write(call)[i] = x[i] * inverse[i / n];
    }
}

static void unit_backward(const tg_op_call *call)
{
    const int64_t n = columns_of(call, 0);
    const double *y = result_of(call), *dy = dy_of(call), *inverse = call->saved;
    for (int64_t i = 0; i < count_of(call); i++) {
        double along = 0;
        for (int64_t c = 0; c < n; c++) {
            along += y[i / n * n + c] * dy[i / n * n + c];
        }
        dx_of(call, 0)[i] += (dy[i] - y[i] * along) * inverse[i / n];
    }
}

OP(saved_as_constant, unit_shape, unit_forward, unit_backward, 1)
{
    tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    tg_tensor *across = tg_sub(t, dy[0], tg_mul(t, y, row_sums(t, tg_mul(t, y, dy[0]))));
    tg_tensor *inverse = right(call) ? tg_pow_scalar(t, row_sums(t, tg_mul(t, x, x)), -0.5)
                                     : tg_constant_f64(t, TG_SHAPE(tg_tensor_size(x, 0), 1), call->saved);
    dx[0] = tg_mul(t, across, inverse);
}

/* The squares of the rows of a table: ids (N) and table (V,C), y[i,:] = table[ids[i],:]^2. */
static bool lookup_shape(tg_op_call *call)
{
    return tg_op_expect_rank(call, 0, 1) && tg_op_expect_rank(call, 1, 2) && tg_op_expect_dtype(call, 1, TG_F64) &&
           tg_op_expect_ids_below(call, 0, tg_tensor_size(call->inputs[1], 0)) &&
           tg_op_output(call, 0, TG_F64, TG_SHAPE(columns_of(call, 0), columns_of(call, 1)));
}

/* Returns where value i of the output is in the table. */
static int64_t place_of(const tg_op_call *call, int64_t i)
{
    const int32_t *ids = tg_tensor_data(call->inputs[0]);
    const int64_t n = columns_of(call, 1);
    return ids[i / n] * n + i % n;
}

static void lookup_forward(const tg_op_call *call)
{
    for (int64_t i = 0; i < count_of(call); i++) {
        const double value = value_of(call, 1)[place_of(call, i)];
        result_to_write(call)[i] = value * value;
    }
}

static void lookup_backward(const tg_op_call *call)
{
    for (int64_t i = 0; i < count_of(call); i++) {
        const int64_t place = place_of(call, i);
        dx_of(call, 1)[place] += 2 * value_of(call, 1)[place] * dy_of(call)[i];
    }
}

OP(table_detached, lookup_shape, lookup_forward, lookup_backward, 2)
{
    tg_tensor *ids = call->inputs[0], *table = maybe_detached(t, call, call->inputs[1]);
    tg_tensor *rows = tg_mul_scalar(t, tg_mul(t, dy[0], tg_index_select(t, table, 0, ids)), 2);
    tg_tensor *zeros = tg_full(t, TG_F64, tg_tensor_shape(table), 0);
    dx[1] = tg_index_add(t, zeros, 0, ids, rows);
}

/* ---- wrong only at other values than the check has ---- */

/* Backward computes e^x anew and promises not to read y. The gradient in ops reads y. */
static void exponential_of_x_backward(const tg_op_call *call)
{
    for (int64_t i = 0; i < count_of(call); i++) {
        dx_of(call, 0)[i] += dy_of(call)[i] * exp(value_of(call, 0)[i]);
    }
}

static void reads_ignored_in_ops(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_mul(t, dy[0], right(call) ? tg_exp(t, call->inputs[0]) : call->outputs[0]);
}

static const tg_op reads_ignored_op = {.name = "reads_ignored",
                                       .shape = like_first,
                                       .f64 = {exponential_forward, exponential_of_x_backward},
                                       .backward_ignores_outputs = TG_OP_ALL,
                                       .differentiate = reads_ignored_in_ops};

static tg_tensor *reads_ignored_call(tg_tape *t, tg_tensor *const *inputs, bool is_right)
{
    return tg_apply(t, &reads_ignored_op, inputs, 1, &(choice){.is_right = is_right}, sizeof(choice), NULL);
}

/* The slopes of the first call in the program are kept as constants for all later calls. */
OP(kept_slopes, like_first, sine_forward, sine_backward, 1)
{
    static double slopes[8];
    static bool is_filled;
    for (int64_t i = 0; !is_filled && i < count_of(call); i++) {
        slopes[i] = cos(value_of(call, 0)[i]);
    }
    is_filled = true;
    tg_tensor *x = call->inputs[0];
    dx[0] = tg_mul(t, dy[0], right(call) ? tg_cos(t, x) : tg_constant_f64(t, tg_tensor_shape(x), slopes));
}

OP(clipped_dy, like_first, sine_forward, sine_backward, 1)
{
    dx[0] = tg_mul(t, right(call) ? dy[0] : tg_clamp(t, dy[0], -1, 1), tg_cos(t, call->inputs[0]));
}

/* Multiplies by dy / dy, which is 1, unless dy is 0. */
OP(zero_over_zero, like_first, exponential_forward, exponential_backward, 1)
{
    tg_tensor *y = call->outputs[0];
    tg_tensor *total = tg_mul(t, dy[0], y);
    dx[0] = right(call) ? total : tg_div(t, tg_mul(t, total, dy[0]), dy[0]);
}

/* ---- the table ---- */

/* Five ids of a table with six rows: 4 occurs twice, 0 never. */
static const int32_t ids_of_rows[] = {4, 1, 5, 4, 2};

#define VECTOR(n, from, to)                                \
    {                                                      \
        .rank = 1, .size = {n, 0}, .low = from, .high = to \
    }
#define CONSTANT(n, from, to)                                                   \
    {                                                                           \
        .rank = 1, .size = {n, 0}, .low = from, .high = to, .is_constant = true \
    }
#define MATRIX(r, c, from, to)                             \
    {                                                      \
        .rank = 2, .size = {r, c}, .low = from, .high = to \
    }
#define IDS                                           \
    {                                                 \
        .rank = 1, .size = {5, 0}, .ids = ids_of_rows \
    }
#define FIRST(id, count, wrong) #id, wrong, id##_call, count, false, NULL
#define SECOND(id, count, wrong) #id, wrong, id##_call, count, true, NULL
#define UNNOTICED(id, count, wrong, reason) #id, wrong, id##_call, count, true, reason

const planted_second planted_seconds[] = {
    {FIRST(sign_lost, 1, "the sign of the derivative of a cosine is wrong"), {VECTOR(5, 0.3, 1.3)}},
    {FIRST(factor_lost, 1, "x^2 instead of 3 x^2"), {VECTOR(5, 0.5, 1.5)}},
    {FIRST(dy_forgotten, 1, "the slope is not multiplied by dy"), {VECTOR(5, 0.3, 1.3)}},
    {FIRST(term_lost, 1, "one of the two terms of a product rule is missing"), {VECTOR(5, -1, 1)}},
    {FIRST(x_for_y, 1, "1 - x^2 instead of 1 - y^2"), {VECTOR(5, 0.5, 1.5)}},
    {FIRST(stale_exponent, 1, "the exponent is that of the last call in the program, and not that of the record"),
     {VECTOR(5, 0.5, 1.5)}},
    {FIRST(second_input_forgotten, 2, "the second factor of a product gets no gradient"),
     {VECTOR(5, 0.5, 1.5), VECTOR(5, 0.5, 1.5)}},
    {FIRST(inputs_exchanged, 2, "each of two inputs gets the gradient of the other one"),
     {VECTOR(5, 0.5, 1.5), VECTOR(5, 0.5, 1.5)}},
    {FIRST(second_needs_first, 2, "the mode of the first input decides about both, so a constant stops the second one"),
     {CONSTANT(5, 0.5, 1.5), VECTOR(5, 0.5, 1.5)}},
    {FIRST(twice_counts_once, 1, "a tensor that is both factors of a product gets one of its two contributions"),
     {VECTOR(5, 0.5, 1.5)}},
    {FIRST(last_output_wins, 1, "the gradient that comes from the second output replaces that from the first one"),
     {VECTOR(5, 0.3, 1.3)}},
    {FIRST(not_transposed, 2, "the gradient of the left factor of a square product lacks a transposition"),
     {MATRIX(3, 3, -1, 1), MATRIX(3, 3, -1, 1)}},
    {FIRST(row_not_summed, 2, "the gradient of a row that all rows share comes from the first of them alone"),
     {VECTOR(3, 0.5, 1.5), MATRIX(4, 3, 0.5, 1.5)}},
    {FIRST(row_averaged, 2, "the gradient of a row that all rows share is their mean instead of their sum"),
     {VECTOR(3, 0.5, 1.5), MATRIX(4, 3, 0.5, 1.5)}},
    {FIRST(outer_over_wrong_axis, 2,
           "the sum over the leading axis is left to the library, but the other one is meant"),
     {VECTOR(4, 0.5, 1.5), VECTOR(4, 0.5, 1.5)}},
    {FIRST(mean_of_wrong_axis, 1, "the mean of dy is taken over the columns of a square matrix and not over its rows"),
     {MATRIX(4, 4, -1, 1)}},
    {FIRST(sum_for_mean, 1, "the gradient of a mean is not divided by the count"), {MATRIX(3, 4, 0.5, 1.5)}},
    {FIRST(sum_not_expanded, 1, "the gradient of a sum keeps the shape of the sum"), {MATRIX(3, 4, -1, 1)}},

    {SECOND(x_detached, 1, "x has no history in the slope"), {VECTOR(5, 0.5, 1.5)}},
    {SECOND(y_detached, 1, "y has no history in the slope"), {VECTOR(5, -1, 1)}},
    {SECOND(dy_detached, 1, "dy has no history"), {VECTOR(5, 0.3, 1.3)}},
    {SECOND(slope_not_recorded, 1, "recording is off while the slope is computed"), {VECTOR(5, 0.3, 1.3)}},
    {SECOND(term_of_zero, 1, "x minus its own value is added to the slope, which is 0 and has the derivative 1"),
     {VECTOR(5, 0.3, 1.3)}},
    {SECOND(denominator_detached, 1, "the denominator of the slope has no history"), {VECTOR(5, -1, 1)}},
    {SECOND(factor_of_one, 1, "the slope is multiplied by y over its own value, which is 1"), {VECTOR(5, -1, 1)}},
    {SECOND(first_factor_detached, 2, "the first factor has no history in the gradient of the second one"),
     {VECTOR(5, 0.5, 1.5), VECTOR(5, 0.5, 1.5)}},
    {SECOND(matrix_detached, 2, "the right matrix has no history in the gradient of the left one"),
     {MATRIX(3, 3, -1, 1), MATRIX(3, 3, -1, 1)}},
    {SECOND(mean_detached, 1, "the mean that is subtracted has no history"), {MATRIX(3, 4, -1, 1)}},
    {SECOND(saved_as_constant, 1, "the inverse of a length is taken from the saved memory, as a constant"),
     {MATRIX(3, 4, 0.5, 1.5)}},
    {SECOND(table_detached, 2, "the table has no history in the gradient of its rows"), {IDS, MATRIX(6, 3, 0.5, 1.5)}},

    {UNNOTICED(reads_ignored, 1, "reads y, although the op says that backward does not: wrong if y was written since",
               "y is as it was"),
     {VECTOR(5, -1, 1)}},
    {UNNOTICED(kept_slopes, 1, "the slopes of the first call are used for all later calls",
               "only the first call is compared with the kernels, and a constant has no differences"),
     {VECTOR(5, 0.3, 1.3)}},
    {SECOND(clipped_dy, 1, "dy is clipped to [-1,1]"), {VECTOR(5, 0.3, 1.3)}},
    {SECOND(zero_over_zero, 1, "the gradient is NaN where dy is 0"), {VECTOR(5, -1, 1)}},
};

const int planted_second_count = (int)(sizeof planted_seconds / sizeof *planted_seconds);
