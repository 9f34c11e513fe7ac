/* picks_real (private): copies picked values (picks.h), and adds them. */
#ifndef TG_OPS_SHAPE_PICKS_REAL_H
#define TG_OPS_SHAPE_PICKS_REAL_H

#include "ops/kernel_real.h"
#include "ops/shape/picks.h"

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
    for (int64_t k = begin; k < end; k++) {
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
        } else {
            for (int64_t k = begin; k < end; k++) {
                pick_one(action, size, x, k * step, values, k);
            }
        }
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
