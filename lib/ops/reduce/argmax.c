/* argmax and argmin: the i32 index of the first maximum or minimum along an axis, of values of any dtype. A NaN counts
 * as the largest and the smallest value. No gradient, because an index is an integer. Follows torch.argmax and
 * torch.argmin. */
#include "ops/reduce/panel.h"

TG_DECLARE_KERNEL(tg_argmax_forward);

/* Returns whether a value is the maximum: if there is a NaN, each NaN is one. */
static inline bool is_most(real x, real most)
{
    return (x == most) | (x != x);
}

/* Returns the index of the first maximum of a run, or n. */
static int64_t first_of_run(const real *x, int64_t n, real most)
{
    int64_t i = 0;
    for (; i + PANEL_LANES <= n; i += PANEL_LANES) {
        int found = 0;
        for (int k = 0; k < PANEL_LANES; k++) {
            found |= is_most(x[i + k], most);
        }
        if (found) {
            break;
        }
    }
    while (i < n && !is_most(x[i], most)) {
        i++;
    }
    return i;
}

static double first_of_column(const tg_panel *p, int64_t c, real most)
{
    real buffer[PANEL];
    tg_runs runs;
    tg_cursor at = tg_walk_begin(&p->r->reduced, p->first);
    for (int64_t done = 0; done < p->count;) {
        int64_t n = next_runs(p, c, &at, p->count - done, buffer, &runs);
        for (int64_t run = 0; run < runs.count; run++) {
            int64_t i = first_of_run(runs.x + run * runs.apart, runs.n, most);
            if (i < runs.n) {
                return (double)(p->first + done + run * runs.n + i);
            }
        }
        done += n;
    }
    return 0;
}

/* Writes the position of the first maximum of each column. */
static void first_of_rows(const tg_panel *p, const real *most, double *restrict first)
{
    real buffers[PANEL_ROWS][PANEL];
    const real *rows[PANEL_ROWS];
    tg_cursor at = tg_walk_begin(&p->r->reduced, p->first);
    for (int64_t c = 0; c < p->width; c++) {
        first[c] = -1;
    }
    for (int64_t done = 0, n; done < p->count; done += n) {
        n = KERNEL(tg_panel_rows)(p, &at, p->count - done, buffers, rows);
        for (int64_t i = 0; i < n; i++) {
            const real *x = rows[i];
            double position = (double)(p->first + done + i);
            for (int64_t c = 0; c < p->width; c++) {
                first[c] = ((first[c] < 0) & is_most(x[c], most[c])) ? position : first[c];
            }
        }
    }
}

/* The maximum is in `center`, and its position in `sum`. */
static void visit_argmax(const tg_panel *p, tg_columns *columns)
{
    real sought[PANEL];
    bool smallest = p->r->attributes->smallest;
    if (smallest) {
        panel_max(p, value_key, true, columns->center);
    } else {
        panel_max(p, value_key, false, columns->center);
    }
    for (int64_t c = 0; c < p->width; c++) {
        sought[c] = (real)(smallest ? -columns->center[c] : columns->center[c]);
    }
    if (p->r->by_columns) {
        first_of_rows(p, sought, columns->sum);
        return;
    }
    for (int64_t c = 0; c < p->width; c++) {
        columns->sum[c] = first_of_column(p, c, sought[c]);
    }
}

/* The earlier one of two equal maxima, or of two NaN, stays. */
static void join_argmax(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    (void)count, (void)more;
    bool is_larger = block->center != block->center ? sofar->center == sofar->center : block->center > sofar->center;
    *sofar = is_larger ? *block : *sofar;
}

static void finish_argmax(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    int32_t *y = (int32_t *)r->y + at;
    for (int64_t c = 0; c < width; c++) {
        y[c] = (int32_t)columns->sum[c];
    }
}

static const tg_reducer argmax_reducer = {visit_argmax, join_argmax, finish_argmax};

void KERNEL(tg_argmax_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &argmax_reducer);
}

#ifdef TG_ONCE

static bool argmax_shape(tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    tg_shape x = tg_shape_of(call->inputs[0]);
    char text[TG_SHAPE_TEXT];
    for (int axis = 0; axis < x.rank; axis++) {
        if ((a->reduced >> axis & 1) && (x.size[axis] < 1 || x.size[axis] > INT32_MAX)) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "axis %d of %s; its size must be 1 to %d", axis,
                              tg_shape_format(x, text), INT32_MAX);
        }
    }
    return tg_reduce_output(call, TG_I32);
}

static const tg_op argmax_op = {
    .name = "argmax",
    .shape = argmax_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_argmax_forward, TG_NO_KERNEL),
    .accepts_layout = tg_any_layout,
};

static const tg_op argmin_op = {
    .name = "argmin",
    .shape = argmax_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_argmax_forward, TG_NO_KERNEL),
    .accepts_layout = tg_any_layout,
};

tg_tensor *tg_argmax(tg_tape *t, tg_tensor *x, int axis, tg_keep_axes keep)
{
    return tg_reduce(t, &argmax_op, x, tg_axes_make(1, &axis), keep, (tg_reduce_attributes){.smallest = false});
}

tg_tensor *tg_argmin(tg_tape *t, tg_tensor *x, int axis, tg_keep_axes keep)
{
    return tg_reduce(t, &argmin_op, x, tg_axes_make(1, &axis), keep, (tg_reduce_attributes){.smallest = true});
}

#endif
