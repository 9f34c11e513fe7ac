/* pool1d: the maximum and the mean of windows of a sequence.
 *
 *   max_pool1d   y[..,t] = max_k x[.., t stride + k dilation - padding]      dx at the first maximum += dy
 *   avg_pool1d   y[..,t] = sum_k x[.., t stride + k - padding] / K            dx of each value += dy / K
 *
 * Positions outside of the sequence count as -inf in a maximum and as 0 in a mean, which divides by K as in torch's
 * count_include_pad=True. NaN counts as the largest value, and the last one gets the gradient. A window without any
 * value inside has the maximum -inf, and no gradient. Follows torch.nn.functional.max_pool1d and avg_pool1d.
 */
#include <tapegrad/conv.h>
#include <tapegrad/extend.h>

#include "ops/kernel.h"

typedef struct pool_attributes {
    int64_t kernel, stride, padding, dilation;
} pool_attributes;

TG_DECLARE_KERNEL(tg_max_pool1d_forward);
TG_DECLARE_KERNEL(tg_max_pool1d_backward);
TG_DECLARE_KERNEL(tg_avg_pool1d_forward);
TG_DECLARE_KERNEL(tg_avg_pool1d_backward);

typedef struct windows {
    pool_attributes a;
    int64_t length, outputs; /* T and T' */
    int64_t count;           /* of all windows */
} windows;

static windows windows_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    windows w = {*(const pool_attributes *)call->attributes, x->shape[x->rank - 1], y->shape[y->rank - 1], y->count};
    w.a.dilation = w.a.kernel == 1 ? 1 : w.a.dilation; /* one value has no distance, whatever the option is */
    return w;
}

/* The positions in x of the taps of a window that are inside of the sequence: first, first + dilation, .. below end.
 * With padding and dilation there may be none. */
typedef struct taps {
    int64_t first, end;
} taps;

static taps taps_of(const windows *w, int64_t window)
{
    int64_t begin = window % w->outputs * w->a.stride - w->a.padding, row = window / w->outputs * w->length;
    int64_t end = begin + (w->a.kernel - 1) * w->a.dilation + 1;
    int64_t before = begin < 0 ? (-begin - 1) / w->a.dilation + 1 : 0; /* taps before the sequence */
    return (taps){row + begin + before * w->a.dilation, row + (end < w->length ? end : w->length)};
}

/* Returns the position of the maximum of a window, or -1 if all of its taps are outside. */
static int64_t position_of_maximum(const windows *w, const real *x, int64_t window)
{
    int64_t best = -1;
    taps inside = taps_of(w, window);
    for (int64_t at = inside.first; at < inside.end; at += w->a.dilation) {
        best = best < 0 || x[at] > x[best] || x[at] != x[at] ? at : best;
    }
    return best;
}

void KERNEL(tg_max_pool1d_forward)(const tg_op_call *call)
{
    windows w = windows_of(call);
    const real *x = tg_values(call->inputs[0]);
    real *y = tg_values(call->outputs[0]);
    for (int64_t i = 0; i < w.count; i++) {
        int64_t at = position_of_maximum(&w, x, i);
        y[i] = at < 0 ? -(real)INFINITY : x[at];
    }
}

void KERNEL(tg_max_pool1d_backward)(const tg_op_call *call)
{
    windows w = windows_of(call);
    const real *x = tg_values(call->inputs[0]), *dy = call->output_gradients[0];
    real *dx = call->input_gradients[0];
    for (int64_t i = 0; i < w.count; i++) {
        int64_t at = position_of_maximum(&w, x, i);
        if (at >= 0) {
            dx[at] += dy[i];
        }
    }
}

void KERNEL(tg_avg_pool1d_forward)(const tg_op_call *call)
{
    windows w = windows_of(call);
    const real *x = tg_values(call->inputs[0]);
    real *y = tg_values(call->outputs[0]);
    for (int64_t i = 0; i < w.count; i++) {
        taps inside = taps_of(&w, i);
        double sum = 0;
        for (int64_t at = inside.first; at < inside.end; at++) {
            sum += (double)x[at];
        }
        y[i] = (real)(sum / (double)w.a.kernel);
    }
}

/* The forward pass computed y = sum x / K. */
void KERNEL(tg_avg_pool1d_backward)(const tg_op_call *call)
{
    windows w = windows_of(call);
    const real *dy = call->output_gradients[0];
    real *dx = call->input_gradients[0];
    for (int64_t i = 0; i < w.count; i++) {
        taps inside = taps_of(&w, i);
        for (int64_t at = inside.first; at < inside.end; at++) {
            dx[at] += dy[i] / (real)w.a.kernel;
        }
    }
}

#ifdef TG_ONCE

static bool pool_shape(tg_op_call *call)
{
    const pool_attributes *a = call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    char text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (shape.rank == 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "argument 'x' is a scalar; it must be (..,T)");
    }
    if (a->kernel < 1 || a->stride < 1 || a->dilation < 1 || a->padding < 0 || a->padding > a->kernel / 2) {
        return tg_op_fail(call, TG_ERROR_VALUE,
                          "kernel %lld, stride %lld, padding %lld and dilation %lld; padding must be in [0,kernel/2], "
                          "the others 1 or more",
                          (long long)a->kernel, (long long)a->stride, (long long)a->padding, (long long)a->dilation);
    }
    int64_t span, padded, *length = &shape.size[shape.rank - 1];
    bool fits = !__builtin_mul_overflow(a->kernel - 1, a->dilation, &span) &&
                !__builtin_add_overflow(*length, 2 * a->padding, &padded) && padded > span && *length > 0;
    if (!fits) {
        return tg_op_fail(
            call, TG_ERROR_SHAPE, "a window of %lld with dilation %lld does not fit into %s with padding %lld",
            (long long)a->kernel, (long long)a->dilation, tg_shape_format(shape, text), (long long)a->padding);
    }
    *length = (padded - span - 1) / a->stride + 1;
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

static const tg_op max_pool1d_op = {
    .name = "max_pool1d",
    .shape = pool_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_max_pool1d_forward, tg_max_pool1d_backward),
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op avg_pool1d_op = {
    .name = "avg_pool1d",
    .shape = pool_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_avg_pool1d_forward, tg_avg_pool1d_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const char mark[] = "tg_pool1d_config_default";

tg_pool1d_config tg_pool1d_config_default(void)
{
    return (tg_pool1d_config){.mark = mark, .dilation = 1};
}

static tg_tensor *apply(tg_tape *t, const tg_op *op, tg_tensor *x, int64_t kernel, const tg_pool1d_config *given)
{
    if (!tg_tape_expect_config(t, op->name, given, mark)) {
        return NULL;
    }
    tg_pool1d_config c = given ? *given : tg_pool1d_config_default();
    pool_attributes a = {kernel, c.stride == 0 ? kernel : c.stride, c.padding, c.dilation};
    return tg_apply(t, op, &x, 1, &a, sizeof a, NULL);
}

tg_tensor *tg_max_pool1d(tg_tape *t, tg_tensor *x, int64_t kernel, const tg_pool1d_config *config)
{
    return apply(t, &max_pool1d_op, x, kernel, config);
}

tg_tensor *tg_avg_pool1d(tg_tape *t, tg_tensor *x, int64_t kernel, const tg_pool1d_config *config)
{
    if (config && config->mark == mark && config->dilation != 1) {
        tg_tape_fail(t, TG_ERROR_VALUE, "avg_pool1d", "dilation %lld; a mean has none, so it must be 1",
                     (long long)config->dilation);
        return NULL;
    }
    return apply(t, &avg_pool1d_op, x, kernel, config);
}

#endif
