/* slices (private): the slices of a tensor along an axis that a list of ids selects, for index_select and index_add. */
#ifndef TG_OPS_SHAPE_SLICES_H
#define TG_OPS_SHAPE_SLICES_H

#include "ops/kernel.h"

/* A tensor (outer,size,inner), where `size` is the axis of the ids, and another one (outer,selected,inner): its runs of
 * `inner` values are numbered from 0 to outer * selected - 1. */
typedef struct slices {
    int64_t outer, size, inner, selected;
    const int32_t *ids;
} slices;

/* The call's first input is the tensor, its second one the ids, and its attribute the axis. */
static inline slices slices_of(const tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    const tg_tensor *x = call->inputs[0];
    slices s = {1, 1, 1, call->inputs[1]->count, tg_values(call->inputs[1])};
    for (int i = 0; i < x->rank; i++) {
        *(i < axis ? &s.outer : i == axis ? &s.size : &s.inner) *= x->shape[i];
    }
    return s;
}

/* Returns the offset in the tensor of the slice for a run. */
static inline int64_t slice_offset(const slices *s, int64_t run)
{
    return (run / s->selected * s->size + s->ids[run % s->selected]) * s->inner;
}

#endif
