/* picks (private): values of a tensor x that ids select along an axis, for gather, index_select and their gradients.
 *
 * The selected values stand in rows. Row r has one id per value (gather, scatter_add, and the last axis of index_select
 * and index_add), or one id for all of its values, which are then equally far apart in x:
 *
 *     x[first + ids[k] * scale + k * step]      k = 0 .. length - 1, where `first` depends on the row
 *
 * Values that are added to x may have equal ids. Rows of different groups have different targets, and so have different
 * columns unless the rows run along the axis. So threads divide groups or columns, and every target has its sum in the
 * order of the ids.
 */
#ifndef TG_OPS_SHAPE_PICKS_H
#define TG_OPS_SHAPE_PICKS_H

#include "ops/kernel.h"

/* What is done with each pick: values = x, values += x, x += values. */
typedef enum pick_action { PICK_COPY, PICK_ADD, PICK_ADD_TO_X } pick_action;

typedef struct picks {
    tg_walk rows; /* a position is a row; the strides are those of x, the other ones those of the values */
    int64_t length, scale, step;
    const int32_t *ids;
    int64_t id_stride, id_rows; /* row r has its ids at ids + r % id_rows * id_stride */
    bool one_id;                /* for a whole row */
    int64_t groups;             /* of rows with targets of their own */
    pick_action action;
    char *x, *values;
    size_t size; /* of a value in bytes */
} picks;

/* Returns the picks of gather and scatter_add: input 0 is x, input 1 the ids, and the attribute the axis. The values
 * have this shape; each size is at least that of the ids. */
static inline picks picks_of_values(const tg_op_call *call, const tg_shape *values)
{
    const tg_tensor *ids = call->inputs[1];
    int axis = *(const int *)call->attributes, last = ids->rank - 1;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    int64_t strides[TG_MAX_RANK], value_strides[TG_MAX_RANK];
    tg_contiguous_strides(&shape, strides);
    tg_contiguous_strides(values, value_strides);
    picks p = {.rows = tg_walk_new(),
               .length = ids->shape[last],
               .scale = strides[axis],
               .step = axis == last ? 0 : 1,
               .ids = tg_values(ids),
               .id_stride = ids->shape[last],
               .id_rows = INT64_MAX,
               .groups = 1};
    for (int i = 0; i < last; i++) {
        tg_walk_add_axis(&p.rows, ids->shape[i], i == axis ? 0 : strides[i], value_strides[i]);
        p.groups *= i < axis ? ids->shape[i] : 1;
    }
    return p;
}

/* Returns those of index_select and index_add. x is contiguous, or has these strides and at most two axes. */
static inline picks picks_of_slices(const tg_op_call *call, const int64_t *strides)
{
    const int axis = *(const int *)call->attributes;
    axis_split a = split_at_axis(call->inputs[0], axis);
    const tg_tensor *ids = call->inputs[1];
    bool one_id = a.inner > 1;
    picks p = {.rows = tg_walk_new(),
               .length = one_id ? a.inner : ids->count,
               .scale = strides[axis],
               .step = one_id ? strides[call->inputs[0]->rank - 1] : 0,
               .ids = tg_values(ids),
               .id_stride = one_id ? 1 : 0,
               .id_rows = one_id ? ids->count : 1,
               .one_id = one_id,
               .groups = a.outer};
    tg_walk_add_axis(&p.rows, a.outer, axis > 0 ? strides[axis - 1] : 0, ids->count * a.inner);
    if (one_id) {
        tg_walk_add_axis(&p.rows, ids->count, 0, a.inner);
    }
    return p;
}

/* The same for a contiguous x, or its gradient. */
static inline picks picks_of_dense_slices(const tg_op_call *call)
{
    const tg_shape shape = tg_shape_of(call->inputs[0]);
    int64_t strides[TG_MAX_RANK];
    tg_contiguous_strides(&shape, strides);
    return picks_of_slices(call, strides);
}

#endif
