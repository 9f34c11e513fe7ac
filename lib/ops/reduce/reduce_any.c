/* reduce_any: any and all over some axes, of every dtype, and the sum of i32 and u8 values.
 *
 *   any   y = 1 if a value is not 0, else 0        0 for no values
 *   all   y = 1 if no value is 0, else 0           1 for no values
 *   sum   y = sum x, as i32; a u8 value counts as 0 or 1, as a mask does, and a sum outside of i32's range is clamped
 *
 * No gradient. Follows torch.any, torch.all and torch.sum, whose sum of integers is int64.
 */
#include "ops/reduce/fold.h"

/* Returns 1 for a value that decides: for `any` one that is not 0, for `all` a 0. */
static inline real decides(real x, const tg_reduce_attributes *a)
{
    return (x == 0) == a->all;
}

static void find_values(const tg_tile *tile, double *found)
{
    find_largest(tile, decides, found);
}

/* The same for the bytes of a mask. */
static void find_bytes(const tg_tile *tile, double *restrict found)
{
    const bool all = tile->attributes->all;
    const uint8_t *x = tile->x;
    uint8_t of_columns[FOLD] = {0};
    for (int64_t row = 0; row < tile->rows; row++, x += tile->apart) {
        uint8_t of_row = 0;
        for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
            of_columns[c] |= (x[c] == 0) == all;
        }
        for (int64_t c = 0; !tile->by_columns && c < tile->columns; c++) {
            of_row |= (x[c] == 0) == all;
        }
        found[tile->by_columns ? 0 : row] += of_row;
    }
    for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
        found[c] += of_columns[c];
    }
}

static void reduce_any(tg_outputs *o)
{
    KERNEL(tg_fold_sums)(o, o->r->dtype == TG_U8 ? find_bytes : find_values, o->sum);
}

static void project_any(const tg_outputs *o)
{
    uint8_t *y = (uint8_t *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        y[c] = (o->sum[c] > 0) != o->r->attributes->all;
    }
}

static const tg_reducer any_reducer = {
    .reduce = reduce_any, .combine = combine_sums, .project = project_any, .reads_bytes = true};

#ifdef TG_ONCE
static bool any_shape(tg_op_call *call)
{
    return tg_reduce_output(call, TG_U8);
}
#endif

TG_REDUCE_OP(tg_any_op, &any_reducer, NULL, .op.name = "any", .op.shape = any_shape);
TG_REDUCE_OP(tg_all_op, &any_reducer, NULL, .op.name = "all", .op.shape = any_shape);

/* A u8 value counts as 0 or 1. */
TG_ADD_TERMS(add_true, true_term, x != 0);

static void reduce_integers(tg_outputs *o)
{
    KERNEL(tg_fold_sums)(o, o->r->dtype == TG_U8 ? add_true : KERNEL(tg_add_tile), o->sum);
}

static void project_integers(const tg_outputs *o)
{
    tg_convert((int32_t *)o->r->y + o->begin, TG_I32, o->sum, TG_F64, o->count);
}

static const tg_reducer integers_reducer = {
    .reduce = reduce_integers, .combine = combine_sums, .project = project_integers};

#ifdef TG_ONCE
static bool sum_shape(tg_op_call *call)
{
    return tg_reduce_output(call, TG_I32);
}
#endif

TG_REDUCE_OP(tg_sum_of_integers_op, &integers_reducer, NULL, .op.name = "sum", .op.shape = sum_shape);

#ifdef TG_ONCE

const tg_op *const tg_sum_integers_op = &tg_sum_of_integers_op.op;

tg_tensor *tg_any(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_any_op.op, x, axes, keep, (tg_reduce_attributes){.all = false});
}

tg_tensor *tg_all(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_all_op.op, x, axes, keep, (tg_reduce_attributes){.all = true});
}

#endif
