#include "tensor/walk.h"

#include <stdlib.h>

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

/* Returns whether axis a of x belongs outside of axis b (1), inside (-1), or neither (0). The sign of a stride does not
 * count: a flipped axis, which is a copy in torch, keeps its position. */
static int compare_axes(const tg_tensor *x, int a, int b)
{
    bool has_order = x->shape[a] > 1 && x->shape[b] > 1 && x->strides[a] != 0 && x->strides[b] != 0;
    if (!has_order) {
        return 0;
    }
    int64_t distance_a = llabs(x->strides[a]), distance_b = llabs(x->strides[b]);
    return distance_a != distance_b ? (distance_a > distance_b ? 1 : -1) : x->shape[a] < x->shape[b];
}

/* An insertion sort from the last axis to the first, as torch's: it also decides where axes without order go. */
void tg_memory_order(const tg_tensor *x, int order[TG_MAX_RANK])
{
    for (int i = x->rank - 1; i >= 0; i--) {
        order[i] = i;
        int at = i;
        for (int inner = i + 1; inner < x->rank; inner++) {
            int outside = compare_axes(x, order[at], order[inner]);
            if (outside > 0) {
                break;
            }
            if (outside < 0) {
                int moved = order[at];
                order[at] = order[inner];
                order[inner] = moved;
                at = inner;
            }
        }
    }
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
