/* softmax and log_softmax along one axis.
 *
 *   softmax      y_i = exp(x_i - m) / s           m = max x, s = sum_j exp(x_j - m)
 *   gradient     dx_i += y_i (dy_i - sum_j dy_j y_j)
 *
 *   log_softmax  y_i = x_i - m - log s
 *   gradient     dx_i += dy_i - exp(y_i) sum_j dy_j
 *
 * Subtracting the maximum changes nothing in exact arithmetic, and keeps exp from overflowing. Probabilities and
 * gradients that are not normal numbers are 0 (base/exp.h). Sums are in double. The
 * values along the axis are a line, with a stride if the axis is not the last. Lines are independent, so threads divide
 * them. Follows torch.softmax and torch.log_softmax: a line that is all -inf gives NaN.
 */
#include "ops/kernel.h"

TG_DECLARE_KERNEL(tg_softmax_forward);
TG_DECLARE_KERNEL(tg_softmax_backward);
TG_DECLARE_KERNEL(tg_log_softmax_forward);
TG_DECLARE_KERNEL(tg_log_softmax_backward);

/* x is (outer,size,inner); line l has the outer index l / inner and the inner index l % inner. */
typedef struct lines {
    const real *x, *y, *dy;
    real *out;
    int64_t size, inner;
    bool overwrite;
} lines;

static int64_t line_start(const lines *a, int64_t line)
{
    return line / a->inner * a->size * a->inner + line % a->inner;
}

static real largest(const real *x, int64_t n, int64_t stride)
{
    real most = -(real)INFINITY;
    for (int64_t i = 0; i < n; i++) {
        real value = x[i * stride];
        most = value > most || value != value ? value : most;
    }
    return most;
}

static void softmax_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    for (int64_t line = begin; line < end; line++) {
        const real *x = a->x + line_start(a, line);
        real *y = a->out + line_start(a, line);
        real most = largest(x, a->size, a->inner);
        double sum = 0;
        for (int64_t i = 0; i < a->size; i++) {
            y[i * a->inner] = EXP_OR_ZERO(x[i * a->inner] - most);
        }
        for (int64_t i = 0; i < a->size; i++) {
            sum += (double)y[i * a->inner];
        }
        /* A quotient that is not a normal number is 0. */
        real scale = (real)(1 / sum), least = (real)(1.01 * SMALLEST * sum);
        for (int64_t i = 0; i < a->size; i++) {
            y[i * a->inner] = (y[i * a->inner] < least ? 0 : y[i * a->inner]) * scale;
        }
    }
}

/* The forward pass computed y_i = exp(x_i) / sum_j exp(x_j). */
static void softmax_gradient_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    for (int64_t line = begin; line < end; line++) {
        int64_t start = line_start(a, line);
        const real *y = a->y + start, *dy = a->dy + start;
        real *dx = a->out + start;
        double dot = 0;
        for (int64_t i = 0; i < a->size; i++) {
            dot += (double)dy[i * a->inner] * (double)y[i * a->inner];
        }
        for (int64_t i = 0; i < a->size; i++) {
            real gradient = y[i * a->inner] * (dy[i * a->inner] - (real)dot);
            dx[i * a->inner] = accumulated(a->overwrite, dx[i * a->inner], normal_or_zero(gradient));
        }
    }
}

static void log_softmax_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    for (int64_t line = begin; line < end; line++) {
        const real *x = a->x + line_start(a, line);
        real *y = a->out + line_start(a, line);
        real most = largest(x, a->size, a->inner);
        double sum = 0;
        for (int64_t i = 0; i < a->size; i++) {
            sum += (double)EXP_OR_ZERO(x[i * a->inner] - most);
        }
        real log_sum = (real)log(sum);
        for (int64_t i = 0; i < a->size; i++) {
            y[i * a->inner] = x[i * a->inner] - most - log_sum;
        }
    }
}

/* The forward pass computed y_i = x_i - log sum_j exp(x_j). */
static void log_softmax_gradient_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    for (int64_t line = begin; line < end; line++) {
        int64_t start = line_start(a, line);
        const real *y = a->y + start, *dy = a->dy + start;
        real *dx = a->out + start;
        double sum = 0;
        for (int64_t i = 0; i < a->size; i++) {
            sum += (double)dy[i * a->inner];
        }
        for (int64_t i = 0; i < a->size; i++) {
            real gradient = dy[i * a->inner] - EXP_OR_ZERO(y[i * a->inner]) * (real)sum;
            dx[i * a->inner] = accumulated(a->overwrite, dx[i * a->inner], normal_or_zero(gradient));
        }
    }
}

static void over_lines(const tg_op_call *call, const void *dy, void *out, loop_body *body)
{
    const tg_tensor *x = call->inputs[0];
    int axis = *(const int *)call->attributes;
    lines a = {tg_values(x), tg_values(call->outputs[0]), dy, out, 1, 1, dy && call->overwrite[0]};
    for (int i = axis; i < x->rank; i++) {
        *(i == axis ? &a.size : &a.inner) *= x->shape[i];
    }
    if (x->count > 0) {
        tg_parallel_for(x->count / a.size, 1 + TG_GRAIN / 8 / a.size, body, &a);
    }
}

void KERNEL(tg_softmax_forward)(const tg_op_call *call)
{
    over_lines(call, NULL, tg_values(call->outputs[0]), softmax_lines);
}

void KERNEL(tg_softmax_backward)(const tg_op_call *call)
{
    over_lines(call, call->output_gradients[0], call->input_gradients[0], softmax_gradient_lines);
}

void KERNEL(tg_log_softmax_forward)(const tg_op_call *call)
{
    over_lines(call, NULL, tg_values(call->outputs[0]), log_softmax_lines);
}

void KERNEL(tg_log_softmax_backward)(const tg_op_call *call)
{
    over_lines(call, call->output_gradients[0], call->input_gradients[0], log_softmax_gradient_lines);
}

#ifdef TG_ONCE

/* A scalar has one line of one value, as in PyTorch. The attribute is the axis, counted from the front. */
static bool softmax_shape(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    return tg_op_expect_float(call, 0) && tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x));
}

static const tg_op softmax_op = {
    .name = "softmax",
    .shape = softmax_shape,
    TG_KERNELS(tg_softmax_forward, tg_softmax_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .can_overwrite = true,
};

static const tg_op log_softmax_op = {
    .name = "log_softmax",
    .shape = softmax_shape,
    TG_KERNELS(tg_log_softmax_forward, tg_log_softmax_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .can_overwrite = true,
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
