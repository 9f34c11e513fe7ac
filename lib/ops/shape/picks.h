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

static inline void pick_one(pick_action action, size_t size, char *x, int64_t at, char *values, int64_t k)
{
    switch (action) {
    case PICK_COPY: memcpy(values + k * (int64_t)size, x + at * (int64_t)size, size); break;
    case PICK_ADD: ((real *)(void *)values)[k] += ((const real *)(void *)x)[at]; break;
    case PICK_ADD_TO_X: ((real *)(void *)x)[at] += ((const real *)(void *)values)[k]; break;
    }
}

/* Visits the columns begin .. end - 1 of a row, which have an id each. `scale`, `step`, `action` and `size` are
 * constants where they can be. */
static inline void pick_values(const int32_t *restrict ids, int64_t scale, int64_t step, char *restrict x,
                               char *restrict values, int64_t begin, int64_t end, pick_action action, size_t size)
{
    enum { PICK_GROUP = 8 }; /* loads that do not wait for the loop */
    int64_t k = begin;
    for (; k + PICK_GROUP <= end; k += PICK_GROUP) {
        for (int i = 0; i < PICK_GROUP; i++) {
            pick_one(action, size, x, ids[k + i] * scale + (k + i) * step, values, k + i);
        }
    }
    for (; k < end; k++) {
        pick_one(action, size, x, ids[k] * scale + k * step, values, k);
    }
}

/* The same of any row. */
static inline void pick_row(const picks *p, const int32_t *restrict ids, char *restrict x, char *restrict values,
                            int64_t begin, int64_t end, pick_action action, size_t size)
{
    if (p->one_id) {
        x += *ids * p->scale * (int64_t)size;
        const int64_t step = action == PICK_COPY ? p->step : 1; /* values are added to neighbors only */
        if (action == PICK_COPY && step == 1) {
            memcpy(values + begin * (int64_t)size, x + begin * (int64_t)size, (size_t)(end - begin) * size);
        } else if (step == 2) {
            for (int64_t k = begin; k < end; k++) {
                pick_one(action, size, x, k * 2, values, k);
            }
        } else {
            for (int64_t k = begin; k < end; k++) {
                pick_one(action, size, x, k * step, values, k);
            }
        }
    } else if (p->step == 0 && p->scale == 1) {
        pick_values(ids, 1, 0, x, values, begin, end, action, size);
    } else {
        pick_values(ids, p->scale, p->step, x, values, begin, end, action, size);
    }
}

static inline void pick_rows(const picks *p, int64_t first, int64_t last, int64_t begin, int64_t end,
                             pick_action action, size_t size)
{
    tg_cursor at = tg_walk_begin(&p->rows, first);
    int64_t id_row = first % p->id_rows;
    for (int64_t row = first; row < last; row++) {
        pick_row(p, p->ids + id_row * p->id_stride, p->x + at.offset * (int64_t)size,
                 p->values + at.other_offset * (int64_t)size, begin, end, action, size);
        id_row = id_row + 1 == p->id_rows ? 0 : id_row + 1;
        tg_walk_advance(&p->rows, &at, 1);
    }
}

/* Visits the columns begin .. end - 1 of the rows first .. last - 1. */
static inline void pick_part(const picks *p, int64_t first, int64_t last, int64_t begin, int64_t end)
{
    if (p->action == PICK_ADD) {
        pick_rows(p, first, last, begin, end, PICK_ADD, sizeof(real));
    } else if (p->action == PICK_ADD_TO_X) {
        pick_rows(p, first, last, begin, end, PICK_ADD_TO_X, sizeof(real));
    } else if (p->size == 8) {
        pick_rows(p, first, last, begin, end, PICK_COPY, 8);
    } else if (p->size == 4) {
        pick_rows(p, first, last, begin, end, PICK_COPY, 4);
    } else {
        pick_rows(p, first, last, begin, end, PICK_COPY, 1);
    }
}

static inline void pick_groups(void *context, int64_t begin, int64_t end)
{
    const picks *p = context;
    int64_t rows = p->rows.count / p->groups;
    pick_part(p, begin * rows, end * rows, 0, p->length);
}

static inline void pick_columns(void *context, int64_t begin, int64_t end)
{
    const picks *p = context;
    pick_part(p, 0, p->rows.count, begin, end);
}

/* Does it for all picks, with values of `size` bytes; sums are of reals. */
static inline void pick(picks p, pick_action action, const void *x, const void *values, size_t size)
{
    int64_t count = p.rows.count * p.length;
    if (count == 0) {
        return;
    }
    p.action = action;
    p.x = (char *)x;
    p.values = (char *)values;
    p.size = size;
    if (p.one_id && action != PICK_ADD_TO_X) {
        p.groups = p.rows.count; /* each row has values of its own */
    }
    if (p.groups >= tg_threads() || (action == PICK_ADD_TO_X && p.step == 0)) {
        tg_parallel_for(p.groups, 1 + TG_GRAIN / (count / p.groups), pick_groups, &p);
    } else {
        int64_t grain = 1 + TG_GRAIN / p.rows.count;
        tg_parallel_for(p.length, grain < 16 ? 16 : grain, pick_columns, &p);
    }
}

#endif
