/* argmax and argmin: the i32 index of the first maximum or minimum along an axis, of values of any dtype. A NaN counts
 * as the largest and the smallest value. No gradient, because an index is an integer. Follows torch.argmax and
 * torch.argmin. */
#include "ops/reduce/fold.h"

/* Returns whether a value is the maximum, or the minimum: if there is a NaN, each NaN is one. */
static inline bool is_most(real x, real most)
{
    return (x == most) | (x != x);
}

/* Returns the index of the first maximum of a row, or n. */
static int64_t first_of_row(const real *x, int64_t n, real most)
{
    int64_t i = 0;
    while (i < n && !is_most(x[i], most)) {
        i++;
    }
    return i;
}

/* Writes the positions of the first maxima where none was found before, which is -1. */
static void find_first(const tg_tile *tile, double *restrict first)
{
    const double sign = tile->attributes->sign;
    const real *x = tile->x;
    for (int64_t row = 0; row < tile->rows; row++, x += tile->apart) {
        const double position = (double)(tile->first + row);
        for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
            const real most = (real)(sign * tile->center[c]);
            first[c] = ((first[c] < 0) & is_most(x[c], most)) ? position : first[c];
        }
        if (!tile->by_columns && first[row] < 0) {
            const int64_t i = first_of_row(x, tile->columns, (real)(sign * tile->center[row]));
            first[row] = i < tile->columns ? (double)(tile->first + i) : first[row];
        }
    }
}

/* The maximum, or the negative of the minimum, is in `center`, and its position in `sum`. */
static void reduce_argmax(tg_outputs *o)
{
    KERNEL(tg_fold)(o, KERNEL(tg_find_extremes), -(double)INFINITY, o->center);
    KERNEL(tg_fold)(o, find_first, -1, o->sum);
}

/* The earlier one of two equal maxima, or of two NaN, stays. */
static void combine_argmax(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    (void)count, (void)more;
    bool is_larger = block->center != block->center ? sofar->center == sofar->center : block->center > sofar->center;
    *sofar = is_larger ? *block : *sofar;
}

static void project_argmax(const tg_outputs *o)
{
    int32_t *y = (int32_t *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        y[c] = (int32_t)o->sum[c];
    }
}

static const tg_reducer argmax_reducer = {
    .reduce = reduce_argmax, .combine = combine_argmax, .project = project_argmax};

#ifdef TG_ONCE
static bool argmax_shape(tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    tg_shape x = tg_shape_of(call->inputs[0]);
    for (int axis = 0; axis < x.rank; axis++) {
        if ((a->reduced >> axis & 1) && (x.size[axis] < 1 || x.size[axis] > INT32_MAX)) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "axis %d of %s; its size must be 1 to %d", axis,
                              tg_shape_text(x).text, INT32_MAX);
        }
    }
    return tg_reduce_output(call, TG_I32);
}
#endif

TG_REDUCE_OP(tg_argmax_op, &argmax_reducer, NULL, .op.name = "argmax", .op.shape = argmax_shape);
TG_REDUCE_OP(tg_argmin_op, &argmax_reducer, NULL, .op.name = "argmin", .op.shape = argmax_shape);

#ifdef TG_ONCE

tg_tensor *tg_argmax(tg_tape *t, tg_tensor *x, int axis, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_argmax_op.op, x, tg_axes_make(1, &axis), keep, (tg_reduce_attributes){.sign = 1});
}

tg_tensor *tg_argmin(tg_tape *t, tg_tensor *x, int axis, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_argmin_op.op, x, tg_axes_make(1, &axis), keep, (tg_reduce_attributes){.sign = -1});
}

#endif
