/* slices (private): the slices of a tensor along an axis that a list of ids selects, for index_select and index_add. */
#ifndef TG_OPS_SHAPE_SLICES_H
#define TG_OPS_SHAPE_SLICES_H

#include "ops/kernel.h"

/* A tensor (outer,size,inner), where `size` is the axis of the ids, and another one (outer,selected,inner): its runs of
 * `inner` values are numbered from 0 to outer * selected - 1. */
typedef struct slices {
    axis_split axis;
    int64_t selected;
    const int32_t *ids;
} slices;

/* The call's first input is the tensor, its second one the ids, and its attribute the axis. */
static inline slices slices_of(const tg_op_call *call)
{
    const tg_tensor *ids = call->inputs[1];
    int axis = *(const int *)call->attributes;
    return (slices){split_at_axis(call->inputs[0], axis), ids->count, tg_values(ids)};
}

/* Returns the offset in the tensor of the slice for a run. */
static inline int64_t slice_offset(const slices *s, int64_t run)
{
    return (run / s->selected * s->axis.size + s->ids[run % s->selected]) * s->axis.inner;
}

#endif
