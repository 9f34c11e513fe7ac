#include "tensor/walk.h"

void tg_walk_add_axis(tg_walk *walk, int64_t size, int64_t stride, int64_t other_stride)
{
    int last = walk->rank - 1;
    walk->count *= size;
    if (size == 1) {
        return;
    }
    bool first = walk->size[last] == 1;
    if (first ||
        (walk->count > 0 && walk->stride[last] == stride * size && walk->other_stride[last] == other_stride * size)) {
        walk->size[last] *= size;
    } else {
        walk->size[++last] = size;
        walk->rank++;
    }
    walk->stride[last] = stride;
    walk->other_stride[last] = other_stride;
}

tg_walk tg_walk_of(const tg_tensor *x)
{
    tg_walk walk = tg_walk_new();
    for (int axis = 0; axis < x->rank; axis++) {
        tg_walk_add_axis(&walk, x->shape[axis], x->strides[axis], x->strides[axis]);
    }
    return walk;
}

tg_walk tg_walk_broadcast(const tg_tensor *x, const tg_shape *shape)
{
    tg_walk walk = tg_walk_new();
    tg_shape own = tg_shape_of(x);
    int64_t contiguous[TG_MAX_RANK];
    tg_contiguous_strides(&own, contiguous);
    for (int axis = 0; axis < shape->rank; axis++) {
        int from = axis - (shape->rank - x->rank);
        bool repeats = from < 0 || x->shape[from] == 1;
        tg_walk_add_axis(&walk, shape->size[axis], repeats ? 0 : x->strides[from], repeats ? 0 : contiguous[from]);
    }
    return walk;
}

tg_cursor tg_walk_begin(const tg_walk *walk, int64_t position)
{
    tg_cursor at = {.offset = 0};
    for (int axis = walk->rank - 1; axis >= 0 && position > 0; axis--) {
        at.index[axis] = position % walk->size[axis];
        position /= walk->size[axis];
        at.offset += at.index[axis] * walk->stride[axis];
        at.other_offset += at.index[axis] * walk->other_stride[axis];
    }
    return at;
}
