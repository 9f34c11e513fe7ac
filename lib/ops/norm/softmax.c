/* softmax and log_softmax along one axis.
 *
 *   softmax      y_i = exp(x_i - m) / s           m = max x, s = sum_j exp(x_j - m)
 *   gradient     dx_i += y_i (dy_i - sum_j dy_j y_j)
 *
 *   log_softmax  y_i = x_i - m - log s
 *   gradient     dx_i += dy_i - exp(y_i) sum_j dy_j
 *
 * Subtracting the maximum changes nothing in exact arithmetic, and keeps exp from overflowing. Probabilities and
 * gradients that are not normal numbers are 0 (math/exp.h). Sums are in double.
 *
 * The values along the axis are a line. Lines are independent, so threads divide them. On the last axis a line is a
 * row, which is computed in lanes (ops/lanes.h). On another axis the values of a line are far apart, but lines are
 * adjacent: up to STRIP are computed together, as a strip, so that the innermost loops are over adjacent values.
 *
 * Follows torch.softmax and torch.log_softmax: a line that is all -inf gives NaN.
 */
#include "base/least.h"
#include "ops/lanes.h"

TG_DECLARE_WIDE_KERNELS(tg_softmax_forward, tg_softmax_backward);
TG_DECLARE_WIDE_KERNELS(tg_log_softmax_forward, tg_log_softmax_backward);

/* The largest number of neighboring lines that are computed together. */
enum { STRIP = 128 };

typedef struct lines lines;

/* Computes the row, or the `width` adjacent lines, that begin at the value `start`. */
typedef void row_body(const lines *a, int64_t start);
typedef void strip_body(const lines *a, int64_t start, int64_t width);

struct lines {
    row_body *row;
    strip_body *strip;
    const real *x, *y, *dy;
    real *out;
    axis_split axis;
    bool overwrite;
};

/* ---- rows ---- */

static void softmax_row_forward(const lines *a, int64_t start)
{
    real *y = a->out + start;
    row_normalize(y, a->axis.size, softmax_row(a->x + start, a->axis.size, y).sum);
}

/* The forward pass computed y_i = exp(x_i) / sum_j exp(x_j). */
static void softmax_row_backward(const lines *a, int64_t start)
{
    const real *y = a->y + start, *dy = a->dy + start, dot = (real)row_dot(dy, y, a->axis.size);
    real *dx = a->out + start;
    for (int64_t i = 0; i < a->axis.size; i++) {
        dx[i] = accumulated(a->overwrite, dx[i], normal_or_zero(y[i] * (dy[i] - dot)));
    }
}

static void log_softmax_row_forward(const lines *a, int64_t start)
{
    const real *x = a->x + start;
    real *y = a->out + start;
    tg_softmax_row row = softmax_row(x, a->axis.size, NULL);
    const real most = (real)row.most, log_sum = (real)tg_log_f64(row.sum);
    for (int64_t i = 0; i < a->axis.size; i++) {
        y[i] = x[i] - most - log_sum;
    }
}

/* The forward pass computed y_i = x_i - log sum_j exp(x_j). */
static inline real log_softmax_gradient(real y, real dy, real sum)
{
    return normal_or_zero(dy - real_exp_or_zero(y) * sum);
}

static void log_softmax_row_backward(const lines *a, int64_t start)
{
    const real *y = a->y + start, *dy = a->dy + start, sum = (real)row_sum(dy, a->axis.size);
    real *dx = a->out + start;
    for (int64_t i = 0; i < a->axis.size; i++) {
        dx[i] = accumulated(a->overwrite, dx[i], log_softmax_gradient(y[i], dy[i], sum));
    }
}

/* ---- strips: the same for lines with a stride ---- */

/* Writes m of each line to `most` and the sum of exp(x_i - m) to `sum`, and with `keep` its terms to the results. A NaN
 * is skipped in m. */
static void exponentials(const lines *a, int64_t start, int64_t width, bool keep, real *restrict most,
                         double *restrict sum)
{
    real part[STRIP];
    for (int64_t k = 0; k < width; k++) {
        most[k] = -(real)INFINITY;
        sum[k] = 0;
    }
    for (int64_t i = 0; i < a->axis.size; i++) {
        const real *x = a->x + start + i * a->axis.inner;
        for (int64_t k = 0; k < width; k++) {
            most[k] = x[k] > most[k] ? x[k] : most[k];
        }
    }
    for (int64_t i = 0; i < a->axis.size; i++) {
        const real *x = a->x + start + i * a->axis.inner;
        real *restrict y = keep ? a->out + start + i * a->axis.inner : part;
        for (int64_t k = 0; k < width; k++) {
            y[k] = real_exp_or_zero(x[k] - most[k]);
        }
        add_to_sums(y, width, sum);
    }
}

static void softmax_strip_forward(const lines *a, int64_t start, int64_t width)
{
    real most[STRIP], scale[STRIP], least[STRIP];
    double sum[STRIP];
    exponentials(a, start, width, true, most, sum);
    /* A quotient that is not a normal number is 0. */
    for (int64_t k = 0; k < width; k++) {
        scale[k] = (real)(1 / sum[k]);
        least[k] = (real)(1.01 * smallest_normal * sum[k]);
    }
    for (int64_t i = 0; i < a->axis.size; i++) {
        real *y = a->out + start + i * a->axis.inner;
        for (int64_t k = 0; k < width; k++) {
            y[k] = (y[k] < least[k] ? 0 : y[k]) * scale[k];
        }
    }
}

static void softmax_strip_backward(const lines *a, int64_t start, int64_t width)
{
    double dot[STRIP] = {0};
    for (int64_t i = 0; i < a->axis.size; i++) {
        const real *y = a->y + start + i * a->axis.inner, *dy = a->dy + start + i * a->axis.inner;
        for (int64_t k = 0; k < width; k++) {
            dot[k] += (double)dy[k] * (double)y[k];
        }
    }
    for (int64_t i = 0; i < a->axis.size; i++) {
        const real *y = a->y + start + i * a->axis.inner, *dy = a->dy + start + i * a->axis.inner;
        real *dx = a->out + start + i * a->axis.inner;
        for (int64_t k = 0; k < width; k++) {
            real gradient = y[k] * (dy[k] - (real)dot[k]);
            dx[k] = accumulated(a->overwrite, dx[k], normal_or_zero(gradient));
        }
    }
}

static void log_softmax_strip_forward(const lines *a, int64_t start, int64_t width)
{
    real most[STRIP], log_sum[STRIP];
    double sum[STRIP];
    exponentials(a, start, width, false, most, sum);
    for (int64_t k = 0; k < width; k++) {
        log_sum[k] = (real)tg_log_f64(sum[k]);
    }
    for (int64_t i = 0; i < a->axis.size; i++) {
        const real *x = a->x + start + i * a->axis.inner;
        real *y = a->out + start + i * a->axis.inner;
        for (int64_t k = 0; k < width; k++) {
            y[k] = x[k] - most[k] - log_sum[k];
        }
    }
}

static void log_softmax_strip_backward(const lines *a, int64_t start, int64_t width)
{
    double sum[STRIP] = {0};
    for (int64_t i = 0; i < a->axis.size; i++) {
        add_to_sums(a->dy + start + i * a->axis.inner, width, sum);
    }
    for (int64_t i = 0; i < a->axis.size; i++) {
        const real *y = a->y + start + i * a->axis.inner, *dy = a->dy + start + i * a->axis.inner;
        real *dx = a->out + start + i * a->axis.inner;
        for (int64_t k = 0; k < width; k++) {
            dx[k] = accumulated(a->overwrite, dx[k], log_softmax_gradient(y[k], dy[k], (real)sum[k]));
        }
    }
}

/* ---- all lines ---- */

static void some_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    for (int64_t line = begin, width = 1; line < end; line += width) {
        if (a->axis.inner == 1) {
            a->row(a, line * a->axis.size);
            continue;
        }
        int64_t column = line % a->axis.inner;
        width = least(least(end - line, STRIP), a->axis.inner - column);
        a->strip(a, (line - column) * a->axis.size + column, width);
    }
}

static void over_lines(const tg_op_call *call, row_body *row, strip_body *strip, const void *dy, void *out)
{
    const tg_tensor *x = call->inputs[0];
    int axis = *(const int *)call->attributes;
    lines a = {row, strip, tg_values(x),           tg_values(call->outputs[0]),
               dy,  out,   split_at_axis(x, axis), dy && writes_gradient(call, 0)};
    if (x->count > 0) {
        tg_parallel_for(x->count / a.axis.size, 1 + TG_GRAIN / 8 / a.axis.size, some_lines, &a);
    }
}

void KERNEL(tg_softmax_forward)(const tg_op_call *call)
{
    over_lines(call, softmax_row_forward, softmax_strip_forward, NULL, tg_values(call->outputs[0]));
}

void KERNEL(tg_softmax_backward)(const tg_op_call *call)
{
    over_lines(call, softmax_row_backward, softmax_strip_backward, call->output_gradients[0], call->input_gradients[0]);
}

void KERNEL(tg_log_softmax_forward)(const tg_op_call *call)
{
    over_lines(call, log_softmax_row_forward, log_softmax_strip_forward, NULL, tg_values(call->outputs[0]));
}

void KERNEL(tg_log_softmax_backward)(const tg_op_call *call)
{
    over_lines(call, log_softmax_row_backward, log_softmax_strip_backward, call->output_gradients[0],
               call->input_gradients[0]);
}

#ifdef TG_ONCE

/* A scalar has one line of one value, as in PyTorch. The attribute is the axis, counted from the front. */
static bool softmax_shape(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    return tg_op_expect_float(call, 0) && tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x));
}

/* ---- gradients in ops ---- */

static void differentiate_softmax(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *y = call->outputs[0], *dot;
    dot = tg_sum(t, tg_mul(t, dy[0], y), TG_AXES(*(const int *)call->attributes), TG_KEEP_AXES);
    dx[0] = tg_mul(t, y, tg_sub(t, dy[0], dot));
}

static void differentiate_log_softmax(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *sum = tg_sum(t, dy[0], TG_AXES(*(const int *)call->attributes), TG_KEEP_AXES);
    dx[0] = tg_sub(t, dy[0], tg_mul(t, tg_exp(t, call->outputs[0]), sum));
}

static const tg_op softmax_op = {
    .name = "softmax",
    .shape = softmax_shape,
    .input_names = {"x"},
    TG_WIDE_KERNELS(tg_softmax_forward, tg_softmax_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_softmax,
};

static const tg_op log_softmax_op = {
    .name = "log_softmax",
    .shape = softmax_shape,
    .input_names = {"x"},
    TG_WIDE_KERNELS(tg_log_softmax_forward, tg_log_softmax_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_log_softmax,
};

static tg_tensor *along_axis(tg_tape *t, const tg_op *op, tg_tensor *x, int axis)
{
    return tg_tape_expect_axis(t, op->name, x, &axis) ? tg_apply(t, op, &x, 1, &axis, sizeof axis, NULL) : NULL;
}

tg_tensor *tg_softmax(tg_tape *t, tg_tensor *x, int axis)
{
    return along_axis(t, &softmax_op, x, axis);
}

tg_tensor *tg_log_softmax(tg_tape *t, tg_tensor *x, int axis)
{
    return along_axis(t, &log_softmax_op, x, axis);
}

#endif
