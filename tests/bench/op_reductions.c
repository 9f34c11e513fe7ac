/* The rows of reductions, of sorting and of running sums. */
#include "bench/op_row.h"

#include <math.h>

static tg_tensor *norm(tg_tape *t, tg_tensor *x, double p, int axis)
{
    return tg_norm(t, x, p, op_axes(axis), TG_DROP_AXES);
}

static tg_tensor *norm_last(tg_tape *t, tg_tensor *const *x)
{
    return norm(t, x[0], 2, -1);
}

static tg_tensor *norm_first(tg_tape *t, tg_tensor *const *x)
{
    return norm(t, x[0], 2, 0);
}

static tg_tensor *norm_all(tg_tape *t, tg_tensor *const *x)
{
    return norm(t, x[0], 2, OP_ALL_AXES);
}

static tg_tensor *norm_absolute(tg_tape *t, tg_tensor *const *x)
{
    return norm(t, x[0], 1, -1);
}

static tg_tensor *norm_cubic(tg_tape *t, tg_tensor *const *x)
{
    return norm(t, x[0], 3, -1);
}

static tg_tensor *norm_largest(tg_tape *t, tg_tensor *const *x)
{
    return norm(t, x[0], INFINITY, -1);
}

static tg_tensor *var_along(tg_tape *t, tg_tensor *x, int axis)
{
    return tg_var(t, x, op_axes(axis), 1, TG_DROP_AXES);
}

static tg_tensor *std_along(tg_tape *t, tg_tensor *x, int axis)
{
    return tg_std(t, x, op_axes(axis), 1, TG_DROP_AXES);
}

/* The axes of batch norm: all but the channels. */
static tg_tensor *sum_outer(tg_tape *t, tg_tensor *const *x)
{
    return tg_sum(t, x[0], TG_AXES(0, -1), TG_DROP_AXES);
}

static tg_tensor *sort_along(tg_tape *t, tg_tensor *x, int axis)
{
    tg_tensor *indices, *y = tg_sort(t, x, axis, TG_SMALLEST_FIRST, &indices);
    op_read(indices);
    return y;
}

static tg_tensor *topk(tg_tape *t, tg_tensor *x, int64_t k, int axis)
{
    tg_tensor *indices, *y = tg_topk(t, x, k, axis, TG_LARGEST_FIRST, &indices);
    op_read(indices);
    return y;
}

static tg_tensor *topk_many(tg_tape *t, tg_tensor *const *x)
{
    return topk(t, x[0], 50, -1);
}

static tg_tensor *topk_along(tg_tape *t, tg_tensor *x, int axis)
{
    return topk(t, x, 5, axis);
}

const op_row op_reductions[] = {
    {"tg_sum", "first axis", "real S", .reduce = tg_sum, .axis = 0},
    {"tg_sum", "second axis", "real 8,256,768", .reduce = tg_sum, .axis = 1},
    {"tg_sum", "last axis", "real S", .reduce = tg_sum, .axis = -1},
    {"tg_sum", "outer axes", "real 16,64,512", .call = sum_outer},
    {"tg_sum", "all", "real S", .reduce = tg_sum, .axis = OP_ALL_AXES},
    {"tg_sum", "all, mask", "mask S", .reduce = tg_sum, .axis = OP_ALL_AXES},
    {"tg_mean", "first axis", "real S", .reduce = tg_mean, .axis = 0},
    {"tg_mean", "last axis", "real S", .reduce = tg_mean, .axis = -1},
    {"tg_mean", "all", "real S", .reduce = tg_mean, .axis = OP_ALL_AXES},
    {"tg_amax", "first axis", "real S", .reduce = tg_amax, .axis = 0},
    {"tg_amax", "last axis", "real S", .reduce = tg_amax, .axis = -1},
    {"tg_amax", "all", "real S", .reduce = tg_amax, .axis = OP_ALL_AXES},
    {"tg_amin", "first axis", "real S", .reduce = tg_amin, .axis = 0},
    {"tg_amin", "last axis", "real S", .reduce = tg_amin, .axis = -1},
    {"tg_amin", "all", "real S", .reduce = tg_amin, .axis = OP_ALL_AXES},
    {"tg_logsumexp", "first axis", "real S", .reduce = tg_logsumexp, .axis = 0},
    {"tg_logsumexp", "last axis", "real S", .reduce = tg_logsumexp, .axis = -1},
    {"tg_logsumexp", "all", "real S", .reduce = tg_logsumexp, .axis = OP_ALL_AXES},
    {"tg_norm", "first axis", "real S", .call = norm_first},
    {"tg_norm", "last axis", "real S", .call = norm_last},
    {"tg_norm", "all", "real S", .call = norm_all},
    {"tg_norm", "p 1", "real S", .call = norm_absolute},
    {"tg_norm", "p 3", "real S", .call = norm_cubic},
    {"tg_norm", "p infinite", "real S", .call = norm_largest},
    {"tg_any", "last axis", "mask S", .reduce = tg_any, .axis = -1},
    {"tg_any", "all", "mask S", .reduce = tg_any, .axis = OP_ALL_AXES},
    {"tg_all", "first axis", "mask S", .reduce = tg_all, .axis = 0},
    {"tg_all", "last axis", "mask S", .reduce = tg_all, .axis = -1},
    {"tg_var", "first axis", "real S", .along = var_along, .axis = 0},
    {"tg_var", "last axis", "real S", .along = var_along, .axis = -1},
    {"tg_var", "all", "real S", .along = var_along, .axis = OP_ALL_AXES},
    {"tg_std", "first axis", "real S", .along = std_along, .axis = 0},
    {"tg_std", "last axis", "real S", .along = std_along, .axis = -1},
    {"tg_std", "all", "real S", .along = std_along, .axis = OP_ALL_AXES},
    {"tg_argmax", "first axis", "target S", .arg = tg_argmax, .axis = 0},
    {"tg_argmax", "last axis", "target S", .arg = tg_argmax, .axis = -1},
    {"tg_argmin", "first axis", "target S", .arg = tg_argmin, .axis = 0},
    {"tg_argmin", "last axis", "target S", .arg = tg_argmin, .axis = -1},
    {"tg_topk", "first axis", "real S", .along = topk_along, .axis = 0},
    {"tg_topk", "last axis", "real S", .along = topk_along, .axis = -1},
    {"tg_topk", "50 of 50257", "real 16,50257", .call = topk_many},
    {"tg_sort", "first axis", "real S", .along = sort_along, .axis = 0},
    {"tg_sort", "last axis", "real S", .along = sort_along, .axis = -1},
    {"tg_cumsum", "first axis", "real S", .along = tg_cumsum, .axis = 0},
    {"tg_cumsum", "last axis", "real S", .along = tg_cumsum, .axis = -1},
    {.op = NULL},
};
