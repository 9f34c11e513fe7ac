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

#include "ops/kernel_real.h"

typedef struct pool_attributes {
    int64_t kernel, stride, padding, dilation;
} pool_attributes;

TG_DECLARE_KERNELS(tg_max_pool1d_forward, tg_max_pool1d_backward);
TG_DECLARE_KERNELS(tg_avg_pool1d_forward, tg_avg_pool1d_backward);

/* The outputs that are computed at once. */
enum { POOL_PART = 256 };

typedef struct windows {
    pool_attributes a;
    int64_t rows, length, outputs; /* of a row: T and T' */
    int64_t parts;                 /* of the outputs of a row */
    const real *x, *dy;
    real *y, *dx;
} windows;

static windows windows_of(const tg_op_call *call, bool backward)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    windows w = {.a = *(const pool_attributes *)call->attributes,
                 .length = x->shape[x->rank - 1],
                 .outputs = y->shape[y->rank - 1],
                 .dy = call->output_gradients[0],
                 .dx = backward ? call->input_gradients[0] : NULL,
                 .x = tg_values(x),
                 .y = tg_values(y)};
    w.a.dilation = w.a.kernel == 1 ? 1 : w.a.dilation; /* one value has no distance, whatever the option is */
    w.rows = y->count / w.outputs;
    w.parts = (w.outputs - 1) / POOL_PART + 1;
    return w;
}

/* Some outputs of a row: those from y on, and the taps that have values inside of the sequence. */
typedef struct part {
    int64_t x, y; /* the first value of the row, and the first output */
    int64_t first, count;
    int64_t begin, end; /* of the taps */
} part;

/* Returns a / b, rounded up, or 0 if a is not positive. */
static int64_t divided_up(int64_t a, int64_t b)
{
    return a > 0 ? (a - 1) / b + 1 : 0;
}

static part part_at(const windows *w, int64_t number)
{
    int64_t row = number / w->parts, first = number % w->parts * POOL_PART, rest = w->outputs - first;
    part p = {.x = row * w->length,
              .y = row * w->outputs + first,
              .first = first,
              .count = rest < POOL_PART ? rest : POOL_PART};
    p.begin = divided_up(w->a.padding - (first + p.count - 1) * w->a.stride, w->a.dilation);
    p.end = divided_up(w->length + w->a.padding - first * w->a.stride, w->a.dilation);
    p.end = p.end < w->a.kernel ? p.end : w->a.kernel;
    return p;
}

/* A tap of those outputs of a part whose value is inside of the sequence: the value of output begin is at x, and the
 * others follow, one stride apart. */
typedef struct tap {
    int64_t begin, end, x;
} tap;

static tap tap_at(const windows *w, const part *p, int64_t k)
{
    int64_t offset = k * w->a.dilation - w->a.padding, begin = divided_up(-offset, w->a.stride) - p->first;
    tap t = {.begin = begin > 0 ? begin : 0, .end = divided_up(w->length - offset, w->a.stride) - p->first};
    t.end = t.end < p->count ? t.end : p->count;
    t.x = t.begin < t.end ? p->x + (p->first + t.begin) * w->a.stride + offset : 0;
    return t;
}

/* ---- maximum ---- */

static inline void raise(const real *x, int64_t stride, int64_t n, real *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        real value = x[i * stride];
        bool is_larger = (value > y[i]) | (value != value);
        y[i] = is_larger ? value : y[i];
    }
}

static void maxima_of_parts(void *context, int64_t begin, int64_t end)
{
    const windows *w = context;
    for (int64_t number = begin; number < end; number++) {
        const part p = part_at(w, number);
        real *y = w->y + p.y;
        for (int64_t i = 0; i < p.count; i++) {
            y[i] = -(real)INFINITY;
        }
        for (int64_t k = p.begin; k < p.end; k++) {
            const tap t = tap_at(w, &p, k);
            raise(w->x + t.x, w->a.stride, t.end - t.begin, y + t.begin);
        }
    }
}

void KERNEL(tg_max_pool1d_forward)(const tg_op_call *call)
{
    windows w = windows_of(call, false);
    tg_parallel_for(w.rows * w.parts, 1 + TG_GRAIN / 4 / POOL_PART, maxima_of_parts, &w);
}

/* Finds the maximum of each output, and its position in x. */
static inline void find(const real *x, int64_t stride, int64_t n, int64_t first, real *restrict most,
                        int64_t *restrict position)
{
    for (int64_t i = 0; i < n; i++) {
        real value = x[i * stride];
        bool is_better = (value > most[i]) | (value != value) | (position[i] < 0);
        most[i] = is_better ? value : most[i];
        position[i] = is_better ? first + i * stride : position[i];
    }
}

/* Adds dy at the first maximum of each window. A window without any value has none. */
static void spread_maxima(void *context, int64_t begin, int64_t end)
{
    const windows *w = context;
    real most[POOL_PART];
    int64_t position[POOL_PART];
    for (int64_t number = begin; number < end; number++) {
        const part p = part_at(w, number);
        for (int64_t i = 0; i < p.count; i++) {
            most[i] = 0;
            position[i] = -1;
        }
        for (int64_t k = p.begin; k < p.end; k++) {
            const tap t = tap_at(w, &p, k);
            find(w->x + t.x, w->a.stride, t.end - t.begin, t.x, most + t.begin, position + t.begin);
        }
        for (int64_t i = 0; i < p.count; i++) {
            if (position[i] >= 0) {
                w->dx[position[i]] += w->dy[p.y + i];
            }
        }
    }
}

/* ---- mean ---- */

static void means_of_parts(void *context, int64_t begin, int64_t end)
{
    const windows *w = context;
    for (int64_t number = begin; number < end; number++) {
        const part p = part_at(w, number);
        double sum[POOL_PART] = {0};
        for (int64_t k = p.begin; k < p.end; k++) {
            const tap t = tap_at(w, &p, k);
            const real *x = w->x + t.x;
            for (int64_t i = t.begin; i < t.end; i++) {
                sum[i] += (double)x[(i - t.begin) * w->a.stride];
            }
        }
        for (int64_t i = 0; i < p.count; i++) {
            w->y[p.y + i] = (real)(sum[i] / (double)w->a.kernel);
        }
    }
}

void KERNEL(tg_avg_pool1d_forward)(const tg_op_call *call)
{
    windows w = windows_of(call, false);
    tg_parallel_for(w.rows * w.parts, 1 + TG_GRAIN / 4 / POOL_PART, means_of_parts, &w);
}

/* The forward pass computed y = sum x / K. The last taps come first, so each value of x adds its windows in order. */
static void spread_means(void *context, int64_t begin, int64_t end)
{
    const windows *w = context;
    for (int64_t number = begin; number < end; number++) {
        const part p = part_at(w, number);
        real share[POOL_PART];
        for (int64_t i = 0; i < p.count; i++) {
            share[i] = w->dy[p.y + i] / (real)w->a.kernel;
        }
        for (int64_t k = p.end - 1; k >= p.begin; k--) {
            const tap t = tap_at(w, &p, k);
            real *dx = w->dx + t.x;
            for (int64_t i = t.begin; i < t.end; i++) {
                dx[(i - t.begin) * w->a.stride] += share[i];
            }
        }
    }
}

/* ---- gradients ---- */

typedef struct spread_loop {
    windows w;
    loop_body *body;
} spread_loop;

static void spread_rows(void *context, int64_t begin, int64_t end)
{
    spread_loop *l = context;
    l->body(&l->w, begin * l->w.parts, end * l->w.parts);
}

/* Windows of one row may overlap, so a thread has whole rows. */
static void spread(const tg_op_call *call, loop_body *body)
{
    spread_loop l = {windows_of(call, true), body};
    tg_parallel_for(l.w.rows, 1 + TG_GRAIN / 4 / (l.w.outputs + l.w.length), spread_rows, &l);
}

void KERNEL(tg_max_pool1d_backward)(const tg_op_call *call)
{
    spread(call, spread_maxima);
}

void KERNEL(tg_avg_pool1d_backward)(const tg_op_call *call)
{
    spread(call, spread_means);
}

#ifdef TG_ONCE

static bool pool_shape(tg_op_call *call)
{
    const pool_attributes *a = call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
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
            (long long)a->kernel, (long long)a->dilation, tg_shape_text(shape).text, (long long)a->padding);
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
    TG_IGNORES_VALUES,
};

TG_CONFIG(tg_pool1d_config, tg_pool1d_config_default, mark, .mark = mark, .dilation = 1);

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
