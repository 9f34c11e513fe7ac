/* planted_gradients: the forty ops of planted_gradients.h. They were written by somebody who did not know the gradient
 * checker and its tests, and stay as they are: they are what the checker is measured by.
 */
#include "gradcheck/planted_gradients.h"

#include "support.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tapegrad/ops.h>

/* ---- what the ops share ---- */

static int64_t count_of(const tg_op_call *call)
{
    return tg_tensor_count(call->outputs[0]);
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

/* The output has the shape of the first input, or of the last one. */
static bool like_first(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_F64) && tg_op_output(call, 0, TG_F64, tg_tensor_shape(call->inputs[0]));
}

static bool like_last(tg_op_call *call)
{
    int last = call->input_count - 1;
    return tg_op_expect_dtype(call, last, TG_F64) && tg_op_output(call, 0, TG_F64, tg_tensor_shape(call->inputs[last]));
}

/* Defines id_forward, value by value: y is an expression of x. */
#define FORWARD(id, y)                                 \
    static void id##_forward(const tg_op_call *call)   \
    {                                                  \
        const double *in = value_of(call, 0);          \
        double *out = result_to_write(call);           \
        for (int64_t i = 0; i < count_of(call); i++) { \
            const double x = in[i];                    \
            out[i] = (y);                              \
        }                                              \
    }

/* Defines id_op and the function id_call, which applies the op to its inputs. */
#define OP(id, rule, count)                                                                          \
    static const tg_op id##_op = {.name = #id, .shape = rule, .f64 = {id##_forward, id##_backward}}; \
    static tg_tensor *id##_call(tg_tape *tape, tg_tensor *const *inputs)                             \
    {                                                                                                \
        return tg_apply(tape, &id##_op, inputs, count, NULL, 0, NULL);                               \
    }

/* An op of one input with a backward value by value. In `step`, x, y and dy are the numbers at index i, n is their
 * count, and dx is the gradient. */
#define POINTWISE(id, forward, step)                                                        \
    FORWARD(id, forward)                                                                    \
    static void id##_backward(const tg_op_call *call)                                       \
    {                                                                                       \
        const double *in = value_of(call, 0), *out = result_of(call), *given = dy_of(call); \
        double *dx = dx_of(call, 0);                                                        \
        const int64_t n = count_of(call);                                                   \
        for (int64_t i = 0; i < n; i++) {                                                   \
            const double x = in[i], y = out[i], dy = given[i];                              \
            (void)x;                                                                        \
            (void)y;                                                                        \
            (void)dy;                                                                       \
            step;                                                                           \
        }                                                                                   \
    }                                                                                       \
    OP(id, like_first, 1)

/* ---- not linear in dy ---- */

POINTWISE(square_of_dy, 3 * x, dx[i] += 3 * dy * dy)

static double sum_of(const double *values, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += values[i];
    }
    return sum;
}

POINTWISE(times_sum_of_dy, 3 * x, dx[i] += 3 * dy * sum_of(given, n))

POINTWISE(absolute_dy, 3 * x, dx[i] += 3 * fabs(dy))

POINTWISE(negative_dy_is_zero, sin(x), dx[i] += dy > 0 ? dy * cos(x) : 0)

POINTWISE(clipped_dy, exp(x), dx[i] += y * (dy > 1 ? 1 : dy < -1 ? -1 : dy))

POINTWISE(dy_taken_as_one, sin(x), dx[i] += cos(x))

POINTWISE(dy_of_first_value, sin(x), dx[i] += given[0] * cos(x))

static double length_of(const double *values, int64_t n)
{
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += values[i] * values[i];
    }
    return squares > 0 ? sqrt(squares) : 1;
}

POINTWISE(dy_of_length_one, x *x, dx[i] += 2 * x * dy / length_of(given, n))

/* ---- signs and factors ---- */

POINTWISE(sign_of_cosine, cos(x), dx[i] += dy * sin(x))

static void difference_forward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *b = value_of(call, 1);
    double *y = result_to_write(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        y[i] = a[i] - b[i] * b[i];
    }
}

static void difference_backward(const tg_op_call *call)
{
    const double *b = value_of(call, 1), *dy = dy_of(call);
    double *da = dx_of(call, 0), *db = dx_of(call, 1);
    for (int64_t i = 0; i < count_of(call); i++) {
        if (da) {
            da[i] += dy[i];
        }
        if (db) {
            db[i] += 2 * b[i] * dy[i];
        }
    }
}

OP(difference, like_first, 2)

POINTWISE(one_percent_too_large, x *x *x, dx[i] += 1.01 * 3 * x * x * dy)

POINTWISE(tenth_of_percent_too_small, x *x *x, dx[i] += 0.999 * 3 * x * x * dy)

/* ---- one tensor given twice ---- */

static void product_forward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *b = value_of(call, 1);
    double *y = result_to_write(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        y[i] = a[i] * b[i];
    }
}

static void twice_counts_once_backward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *b = value_of(call, 1), *dy = dy_of(call);
    double *da = dx_of(call, 0), *db = dx_of(call, 1);
    bool same = call->inputs[0] == call->inputs[1];
    for (int64_t i = 0; i < count_of(call); i++) {
        if (da) {
            da[i] += dy[i] * b[i];
        }
        if (db && !same) {
            db[i] += dy[i] * a[i];
        }
    }
}

/* Both old gradients are read before either is written. */
static void twice_read_before_write_backward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *b = value_of(call, 1), *dy = dy_of(call);
    double *da = dx_of(call, 0), *db = dx_of(call, 1);
    for (int64_t i = 0; i < count_of(call); i++) {
        double old_a = da ? da[i] : 0, old_b = db ? db[i] : 0;
        if (da) {
            da[i] = old_a + dy[i] * b[i];
        }
        if (db) {
            db[i] = old_b + dy[i] * a[i];
        }
    }
}

static const tg_op twice_counts_once_op = {
    .name = "twice_counts_once", .shape = like_first, .f64 = {product_forward, twice_counts_once_backward}};
static const tg_op twice_read_before_write_op = {
    .name = "twice_read_before_write", .shape = like_first, .f64 = {product_forward, twice_read_before_write_backward}};

static tg_tensor *twice_counts_once_call(tg_tape *tape, tg_tensor *const *inputs)
{
    tg_tensor *both[] = {inputs[0], inputs[0]};
    return tg_apply(tape, &twice_counts_once_op, both, 2, NULL, 0, NULL);
}

static tg_tensor *twice_read_before_write_call(tg_tape *tape, tg_tensor *const *inputs)
{
    tg_tensor *both[] = {inputs[0], inputs[0]};
    return tg_apply(tape, &twice_read_before_write_op, both, 2, NULL, 0, NULL);
}

/* ---- broadcasts: a row (C) or a column (R,1), and a matrix (R,C), which is the last input ---- */

static int64_t columns_of(const tg_op_call *call)
{
    return tg_tensor_size(call->outputs[0], -1);
}

/* y[r,c] = b[c] x[r,c] */
static void row_forward(const tg_op_call *call)
{
    const double *b = value_of(call, 0), *x = value_of(call, 1);
    double *y = result_to_write(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        y[i] = b[i % columns_of(call)] * x[i];
    }
}

/* Adds dx, and db over the first `rows` rows. */
static void row_gradients(const tg_op_call *call, int64_t rows)
{
    const double *b = value_of(call, 0), *x = value_of(call, 1), *dy = dy_of(call);
    double *db = dx_of(call, 0), *dx = dx_of(call, 1);
    const int64_t columns = columns_of(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        if (db && i / columns < rows) {
            db[i % columns] += dy[i] * x[i];
        }
        if (dx) {
            dx[i] += dy[i] * b[i % columns];
        }
    }
}

#define row_not_summed_forward row_forward
#define row_without_last_forward row_forward

static void row_not_summed_backward(const tg_op_call *call)
{
    row_gradients(call, 1);
}

static void row_without_last_backward(const tg_op_call *call)
{
    row_gradients(call, tg_tensor_size(call->outputs[0], 0) - 1);
}

OP(row_not_summed, like_last, 2)
OP(row_without_last, like_last, 2)

/* y[r,c] = a[r] x[r,c] for a square x */
static void column_over_wrong_axis_forward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *x = value_of(call, 1);
    double *y = result_to_write(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        y[i] = a[i / columns_of(call)] * x[i];
    }
}

static void column_over_wrong_axis_backward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *x = value_of(call, 1), *dy = dy_of(call);
    double *da = dx_of(call, 0), *dx = dx_of(call, 1);
    const int64_t columns = columns_of(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        if (da) {
            da[i % columns] += dy[i] * x[i];
        }
        if (dx) {
            dx[i] += dy[i] * a[i / columns];
        }
    }
}

OP(column_over_wrong_axis, like_last, 2)

/* ---- one part of a long tensor ---- */

POINTWISE(first_entry_missing, sin(x), dx[i] += i == 0 ? 0 : dy * cos(x))

POINTWISE(last_entry_missing, sin(x), dx[i] += i == n - 1 ? 0 : dy * cos(x))

POINTWISE(middle_entry_too_large, sin(x), dx[i] += (i == n / 2 ? 1.5 : 1) * dy * cos(x))

POINTWISE(tail_missing, sin(x), dx[i] += i >= n / 8 * 8 ? 0 : dy * cos(x))

/* ---- rows of a table: ids (N) and table (V,C), y[i,:] = table[ids[i],:]^2 ---- */

static bool lookup_shape(tg_op_call *call)
{
    int64_t count = tg_tensor_count(call->inputs[0]);
    return tg_op_expect_rank(call, 0, 1) && tg_op_expect_rank(call, 1, 2) && tg_op_expect_dtype(call, 1, TG_F64) &&
           tg_op_expect_ids_below(call, 0, tg_tensor_size(call->inputs[1], 0)) &&
           tg_op_output(call, 0, TG_F64, TG_SHAPE(count, tg_tensor_size(call->inputs[1], 1))) &&
           tg_op_reserve_rows(call, count + 1) && tg_op_backward_scratch(call, 2 * (count + 1), sizeof(int32_t));
}

static void lookup_forward(const tg_op_call *call)
{
    const int32_t *ids = tg_tensor_data(call->inputs[0]);
    const double *table = value_of(call, 1);
    double *y = result_to_write(call);
    const int64_t width = columns_of(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        double value = table[ids[i / width] * width + i % width];
        y[i] = value * value;
    }
}

/* Adds the gradient of entry i of the ids to the row that begins at `row`. */
static void add_row(const tg_op_call *call, int64_t i, double *row)
{
    const int32_t *ids = tg_tensor_data(call->inputs[0]);
    const int64_t width = columns_of(call);
    const double *from = value_of(call, 1) + ids[i] * width, *dy = dy_of(call) + i * width;
    for (int64_t c = 0; c < width; c++) {
        row[c] += 2 * from[c] * dy[c];
    }
}

static bool named_before(const int32_t *ids, int64_t i)
{
    for (int64_t k = 0; k < i; k++) {
        if (ids[k] == ids[i]) {
            return true;
        }
    }
    return false;
}

#define row_dropped_forward lookup_forward
#define duplicates_not_summed_forward lookup_forward
#define neighbors_row_forward lookup_forward
#define extra_row_forward lookup_forward

/* Defines a backward in which `step` handles entry i of the n ids, and the row of entry k is ROW(k). */
#define LOOKUP_BACKWARD(id, step)                                 \
    static void id##_backward(const tg_op_call *call)             \
    {                                                             \
        const int32_t *ids = tg_tensor_data(call->inputs[0]);     \
        const int64_t n = tg_tensor_count(call->inputs[0]);       \
        int32_t *slots = call->scratch;                           \
        double *values = tg_op_grad_rows(call, 1, ids, n, slots); \
        for (int64_t i = 0; values && i < n; i++) {               \
            step;                                                 \
        }                                                         \
    }
#define ROW(k) (values + slots[k] * columns_of(call))

LOOKUP_BACKWARD(
    row_dropped, if (i < n - 1) { add_row(call, i, ROW(i)); })
LOOKUP_BACKWARD(
    duplicates_not_summed, if (!named_before(ids, i)) { add_row(call, i, ROW(i)); })
LOOKUP_BACKWARD(neighbors_row, add_row(call, i, ROW((i + 1) % n)))

/* Row 0, which no id names, gets what the last id's row gets. */
static void extra_row_backward(const tg_op_call *call)
{
    const int64_t n = tg_tensor_count(call->inputs[0]);
    int32_t *slots = call->scratch, *ids = slots + n + 1;
    memcpy(ids, tg_tensor_data(call->inputs[0]), (size_t)n * sizeof *ids);
    ids[n] = 0;
    double *values = tg_op_grad_rows(call, 1, ids, n + 1, slots);
    for (int64_t i = 0; values && i <= n; i++) {
        add_row(call, i < n ? i : n - 1, ROW(i));
    }
}

static tg_op const lookup_ops[] = {
    {.name = "row_dropped",
     .shape = lookup_shape,
     .f64 = {row_dropped_forward, row_dropped_backward},
     .row_inputs = 1u << 1},
    {.name = "duplicates_not_summed",
     .shape = lookup_shape,
     .f64 = {duplicates_not_summed_forward, duplicates_not_summed_backward},
     .row_inputs = 1u << 1},
    {.name = "neighbors_row",
     .shape = lookup_shape,
     .f64 = {neighbors_row_forward, neighbors_row_backward},
     .row_inputs = 1u << 1},
    {.name = "extra_row", .shape = lookup_shape, .f64 = {extra_row_forward, extra_row_backward}, .row_inputs = 1u << 1},
};

#define LOOKUP_CALL(op_name, index)                                           \
    static tg_tensor *op_name##_call(tg_tape *tape, tg_tensor *const *inputs) \
    {                                                                         \
        return tg_apply(tape, &lookup_ops[index], inputs, 2, NULL, 0, NULL);  \
    }

LOOKUP_CALL(row_dropped, 0)
LOOKUP_CALL(duplicates_not_summed, 1)
LOOKUP_CALL(neighbors_row, 2)
LOOKUP_CALL(extra_row, 3)

/* ---- a gradient that has values already, and state between calls ---- */

POINTWISE(second_pass_overwrites, exp(x), dx[i] = dy * y)

static bool any_not_zero(const double *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (values[i] != 0) {
            return true;
        }
    }
    return false;
}

FORWARD(second_pass_adds_nothing, exp(x))

static void second_pass_adds_nothing_backward(const tg_op_call *call)
{
    const double *y = result_of(call), *dy = dy_of(call);
    double *dx = dx_of(call, 0);
    if (any_not_zero(dx, count_of(call))) {
        return;
    }
    for (int64_t i = 0; i < count_of(call); i++) {
        dx[i] += dy[i] * y[i];
    }
}

OP(second_pass_adds_nothing, like_first, 1)

FORWARD(every_third_call, exp(x))

static void every_third_call_backward(const tg_op_call *call)
{
    static unsigned calls;
    const double *y = result_of(call), *dy = dy_of(call);
    double *dx = dx_of(call, 0), factor = ++calls % 3 == 0 ? 1.5 : 1;
    for (int64_t i = 0; i < count_of(call); i++) {
        dx[i] += factor * dy[i] * y[i];
    }
}

OP(every_third_call, like_first, 1)

/* The cosines of the first call are kept for all later calls, also those at another point of the same function. */
FORWARD(kept_cosines, sin(x))

static void kept_cosines_backward(const tg_op_call *call)
{
    static double cosines[16];
    static bool is_filled;
    const double *x = value_of(call, 0), *dy = dy_of(call);
    double *dx = dx_of(call, 0);
    for (int64_t i = 0; !is_filled && i < 16; i++) {
        cosines[i] = i < count_of(call) ? cos(x[i]) : 1;
    }
    is_filled = true;
    for (int64_t i = 0; i < count_of(call); i++) {
        dx[i] += dy[i] * cosines[i % 16];
    }
}

static const tg_op kept_cosines_op = {
    .name = "kept_cosines", .shape = like_first, .f64 = {kept_cosines_forward, kept_cosines_backward}};

/* sin(sin(x)) */
static tg_tensor *kept_cosines_call(tg_tape *tape, tg_tensor *const *inputs)
{
    tg_tensor *inner = tg_apply(tape, &kept_cosines_op, inputs, 1, NULL, 0, NULL);
    return tg_apply(tape, &kept_cosines_op, &inner, 1, NULL, 0, NULL);
}

/* ---- numbers that are not finite ---- */

POINTWISE(nan_in_one_entry, sin(x), dx[i] += i == 2 ? (double)NAN : dy * cos(x))

POINTWISE(infinity_in_one_entry, sin(x), dx[i] += i == n - 1 ? (double)INFINITY : dy * cos(x))

/* The derivative, and so a quotient of differences, is larger than every double. */
POINTWISE(steeper_than_doubles, 1e308 * sin(4 * x), dx[i] += dy)

/* e^x is finite, and e^(x + 1e-6) is not. */
POINTWISE(step_overflows, exp(x), dx[i] -= dy)

/* ---- wrong values in the right formula ---- */

static bool saving_shape(tg_op_call *call)
{
    return like_first(call) && tg_op_save(call, tg_tensor_count(call->inputs[0]), sizeof(double));
}

/* Saves x where tanh(x) belongs. */
static void saved_before_tanh_forward(const tg_op_call *call)
{
    const double *x = value_of(call, 0);
    double *y = result_to_write(call), *saved = call->saved;
    for (int64_t i = 0; i < count_of(call); i++) {
        saved[i] = x[i];
        y[i] = tanh(x[i]);
    }
}

static void saved_before_tanh_backward(const tg_op_call *call)
{
    const double *saved = call->saved, *dy = dy_of(call);
    double *dx = dx_of(call, 0);
    for (int64_t i = 0; i < count_of(call); i++) {
        dx[i] += dy[i] * (1 - saved[i] * saved[i]);
    }
}

OP(saved_before_tanh, saving_shape, 1)

/* Both inputs are (N,N): y = a b. */
static void matrix_not_transposed_forward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *b = value_of(call, 1);
    double *y = result_to_write(call);
    const int64_t n = columns_of(call);
    for (int64_t i = 0; i < n * n; i++) {
        y[i] = 0;
        for (int64_t k = 0; k < n; k++) {
            y[i] += a[i / n * n + k] * b[k * n + i % n];
        }
    }
}

/* da = dy b, where it should be dy b^T. */
static void matrix_not_transposed_backward(const tg_op_call *call)
{
    const double *a = value_of(call, 0), *b = value_of(call, 1), *dy = dy_of(call);
    double *da = dx_of(call, 0), *db = dx_of(call, 1);
    const int64_t n = columns_of(call);
    for (int64_t i = 0; i < n * n; i++) {
        for (int64_t k = 0; k < n; k++) {
            if (da) {
                da[i] += dy[i / n * n + k] * b[k * n + i % n];
            }
            if (db) {
                db[i] += a[k * n + i / n] * dy[k * n + i % n];
            }
        }
    }
}

OP(matrix_not_transposed, like_first, 2)

POINTWISE(entries_reversed, x *x, dx[n - 1 - i] += 2 * x * dy)

#define second_input_forgotten_forward product_forward

static void second_input_forgotten_backward(const tg_op_call *call)
{
    const double *b = value_of(call, 1), *dy = dy_of(call);
    double *da = dx_of(call, 0);
    for (int64_t i = 0; da && i < count_of(call); i++) {
        da[i] += dy[i] * b[i];
    }
}

OP(second_input_forgotten, like_first, 2)

/* Each row minus its mean. The gradient divides by the number of all values: right for a single row. */
static void right_for_one_row_forward(const tg_op_call *call)
{
    const double *x = value_of(call, 0);
    double *y = result_to_write(call);
    const int64_t width = columns_of(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        y[i] = x[i] - sum_of(x + i / width * width, width) / (double)width;
    }
}

static void right_for_one_row_backward(const tg_op_call *call)
{
    const double *dy = dy_of(call);
    double *dx = dx_of(call, 0);
    const int64_t width = columns_of(call);
    for (int64_t i = 0; i < count_of(call); i++) {
        dx[i] += dy[i] - sum_of(dy + i / width * width, width) / (double)count_of(call);
    }
}

OP(right_for_one_row, like_first, 1)

/* The op takes matrices of any strides. Forward reads x by its strides, and backward as if it had no gaps. */
static bool any_strides(const tg_tensor *input, int i)
{
    (void)i;
    return tg_tensor_rank(input) == 2;
}

static void strides_ignored_forward(const tg_op_call *call)
{
    const double *x = value_of(call, 0);
    double *y = result_to_write(call);
    const int64_t width = columns_of(call), row = tg_tensor_stride(call->inputs[0], 0),
                  column = tg_tensor_stride(call->inputs[0], 1);
    for (int64_t i = 0; i < count_of(call); i++) {
        y[i] = sin(x[i / width * row + i % width * column]);
    }
}

static void strides_ignored_backward(const tg_op_call *call)
{
    const double *x = value_of(call, 0), *dy = dy_of(call);
    double *dx = dx_of(call, 0);
    for (int64_t i = 0; i < count_of(call); i++) {
        dx[i] += dy[i] * cos(x[i]);
    }
}

static const tg_op strides_ignored_op = {.name = "strides_ignored",
                                         .shape = like_first,
                                         .f64 = {strides_ignored_forward, strides_ignored_backward},
                                         .accepts_layout = any_strides};

static tg_tensor *strides_ignored_call(tg_tape *tape, tg_tensor *const *inputs)
{
    tg_tensor *x = tg_transpose(tape, inputs[0], 0, 1);
    return tg_apply(tape, &strides_ignored_op, &x, 1, NULL, 0, NULL);
}

POINTWISE(constant_gradient, x *x, dx[i] += 2 * dy)

/* ---- the table ---- */

/* Five ids of a table with six rows: 4 occurs twice, 0 never. */
static const int32_t ids_of_rows[] = {4, 1, 5, 4, 2};

#define VECTOR(n, low, high)       \
    {                              \
        1, {n, 0}, low, high, NULL \
    }
#define MATRIX(r, c, low, high)    \
    {                              \
        2, {r, c}, low, high, NULL \
    }
#define IDS                          \
    {                                \
        1, {5, 0}, 0, 0, ids_of_rows \
    }
#define ENTRY(id, count, ...) #id, __VA_ARGS__, id##_call, count

const planted planted_ops[] = {
    {ENTRY(square_of_dy, 1, "3 dy^2 instead of 3 dy, which is right for a dy of 1 or 0"), {VECTOR(5, -1, 1)}, 0},
    {ENTRY(times_sum_of_dy, 1, "dy is multiplied by the sum of all dy, which is 1 if only one entry is"),
     {VECTOR(5, -1, 1)},
     0},
    {ENTRY(absolute_dy, 1, "|dy| instead of dy"), {VECTOR(5, -1, 1)}, 0},
    {ENTRY(negative_dy_is_zero, 1, "a negative dy counts as 0"), {VECTOR(5, 0.2, 1.2)}, 0},
    {ENTRY(clipped_dy, 1, "dy is clipped to [-1,1]"), {VECTOR(5, -1, 1)}, 0},
    {ENTRY(dy_taken_as_one, 1, "dy is not read, as if it was 1 everywhere"), {VECTOR(5, 0.2, 1.2)}, 0},
    {ENTRY(dy_of_first_value, 1, "every entry gets the dy of the first one, which is right if all are equal"),
     {VECTOR(5, 0.2, 1.2)},
     0},
    {ENTRY(dy_of_length_one, 1, "dy is divided by its Euclidean norm, which is 1 if only one entry is 1"),
     {VECTOR(5, 0.5, 1.5)},
     0},

    {ENTRY(sign_of_cosine, 1, "the sign of the derivative of a cosine is wrong"), {VECTOR(5, 0.3, 1.3)}, 0},
    {ENTRY(difference, 2, "the second input of a - b^2 gets a gradient of the wrong sign"),
     {VECTOR(5, -1, 1), VECTOR(5, 0.5, 1.5)},
     0},
    {ENTRY(one_percent_too_large, 1, "the gradient is 1 % too large"), {VECTOR(5, 1, 2)}, 0},
    {ENTRY(tenth_of_percent_too_small, 1, "the gradient is 0.1 % too small"), {VECTOR(5, 1, 2)}, 1e-4},

    {ENTRY(twice_counts_once, 1, "a tensor that is both factors of a product gets one of its two contributions"),
     {VECTOR(5, 0.5, 1.5)},
     0},
    {ENTRY(
         twice_read_before_write, 1,
         "both old gradients are read before one is written, so a tensor that is both factors loses one contribution"),
     {VECTOR(5, 0.5, 1.5)},
     0},

    {ENTRY(row_not_summed, 2, "the gradient of a row that all rows share comes from the first of them alone"),
     {VECTOR(3, 0.5, 1.5), MATRIX(4, 3, 0.5, 1.5)},
     0},
    {ENTRY(row_without_last, 2, "the gradient of a row that all rows share leaves out the last of them"),
     {VECTOR(3, 0.5, 1.5), MATRIX(4, 3, 0.5, 1.5)},
     0},
    {ENTRY(column_over_wrong_axis, 2, "the gradient of a column (N,1) that all columns share is summed over the rows"),
     {MATRIX(4, 1, 0.5, 1.5), MATRIX(4, 4, 0.5, 1.5)},
     0},

    {ENTRY(first_entry_missing, 1, "the first of 67 values gets no gradient"), {VECTOR(67, 0.2, 1.2)}, 0},
    {ENTRY(last_entry_missing, 1, "the last of 67 values gets no gradient"), {VECTOR(67, 0.2, 1.2)}, 0},
    {ENTRY(middle_entry_too_large, 1, "the gradient of the middle one of 67 values is half too large"),
     {VECTOR(67, 0.2, 1.2)},
     0},
    {ENTRY(tail_missing, 1, "the values behind the last multiple of 8 get no gradient"), {VECTOR(67, 0.2, 1.2)}, 0},

    {ENTRY(row_dropped, 2, "the row of the last id gets no gradient"), {IDS, MATRIX(6, 3, 0.5, 1.5)}, 0},
    {ENTRY(duplicates_not_summed, 2, "an id that occurs twice counts once"), {IDS, MATRIX(6, 3, 0.5, 1.5)}, 0},
    {ENTRY(neighbors_row, 2, "each gradient is added to the row of the next id"), {IDS, MATRIX(6, 3, 0.5, 1.5)}, 0},
    {ENTRY(extra_row, 2, "a row that no id names gets a gradient"), {IDS, MATRIX(6, 3, 0.5, 1.5)}, 0},

    {ENTRY(second_pass_overwrites, 1, "the gradient is written instead of added, which is right the first time"),
     {VECTOR(5, -1, 1)},
     0},
    {ENTRY(second_pass_adds_nothing, 1, "a gradient that has values already stays as it is"), {VECTOR(5, -1, 1)}, 0},
    {ENTRY(every_third_call, 1, "each third call of backward in the program gives half too much"),
     {VECTOR(5, -1, 1)},
     0},
    {ENTRY(kept_cosines, 1, "the derivatives of the first call are kept and used for all later calls"),
     {VECTOR(5, 0.3, 1.3)},
     0},

    {ENTRY(nan_in_one_entry, 1, "one entry of the gradient is NaN"), {VECTOR(5, 0.2, 1.2)}, 0},
    {ENTRY(infinity_in_one_entry, 1, "one entry of the gradient is infinite"), {VECTOR(5, 0.2, 1.2)}, 0},
    {ENTRY(steeper_than_doubles, 1, "dy instead of a derivative that overflows, as the differences do"),
     {VECTOR(5, -0.1, 0.1)},
     0},
    {ENTRY(step_overflows, 1, "-dy instead of dy e^x, where e^x is finite and the next step of a difference is not"),
     {VECTOR(5, 709.7827122, 709.7827128)},
     0},

    {ENTRY(saved_before_tanh, 1, "forward saves x where the gradient needs tanh(x)"), {VECTOR(5, 0.5, 1.5)}, 0},
    {ENTRY(matrix_not_transposed, 2, "the gradient of the left factor of a square product lacks a transposition"),
     {MATRIX(3, 3, -1, 1), MATRIX(3, 3, -1, 1)},
     0},
    {ENTRY(entries_reversed, 1, "the entries of the gradient are in reverse order"), {VECTOR(6, 0.5, 1.5)}, 0},
    {ENTRY(second_input_forgotten, 2, "the second factor of a product gets no gradient"),
     {VECTOR(5, 0.5, 1.5), VECTOR(5, 0.5, 1.5)},
     0},
    {ENTRY(right_for_one_row, 1, "the gradient of a mean divides by the number of all values, right for one row"),
     {MATRIX(3, 4, -1, 1)},
     0},
    {ENTRY(strides_ignored, 1, "backward reads a transposed input as if it was contiguous"),
     {MATRIX(3, 4, 0.2, 1.4)},
     0},
    {ENTRY(constant_gradient, 1, "the derivative of x^2 is 2 for every x"), {VECTOR(5, 1.2, 2.2)}, 0},
};

const int planted_count = (int)(sizeof planted_ops / sizeof *planted_ops);

tg_tensor *planted_make_input(const planted_input *in, tg_rng *rng)
{
    tg_shape shape = tg_shape_make(in->rank, in->size);
    if (in->ids) {
        return tensor_i32(shape, in->ids);
    }
    tg_tensor *x = leaf(tg_tensor_new(TG_F64, shape, NULL));
    assert_true(tg_tensor_fill_uniform(x, rng, in->low, in->high, NULL));
    return x;
}

tg_tensor *planted_call(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return ((const planted *)context)->call(tape, inputs);
}
