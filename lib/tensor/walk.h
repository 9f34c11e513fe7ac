/* walk (private): visits the values of a strided tensor in row-major order, run by run. Copies, fills, reductions,
 * views and elementwise ops all use it.
 *
 * A walk lists the axes of a shape with the strides of one or two tensors (such as x and its gradient). Axes of size 1
 * are left out, and neighboring axes that can be visited with one stride are merged, so a contiguous tensor becomes a
 * single axis. A cursor is a position in a walk: the offsets of the current value in both tensors. A run is a part of
 * the last axis; its values are one stride apart:
 *
 *     tg_cursor at = tg_walk_begin(&walk, begin);
 *     for (int64_t done = 0, run; done < count; done += run) {
 *         run = tg_walk_run(&walk, &at, count - done);
 *         for (int64_t i = 0; i < run; i++) {
 *             ... x[at.offset + i * tg_walk_stride(&walk)] ...
 *         }
 *         tg_walk_advance(&walk, &at, run);
 *     }
 */
#ifndef TG_TENSOR_WALK_H
#define TG_TENSOR_WALK_H

#include "tensor/tensor.h"

typedef struct tg_walk {
    int rank; /* at least 1 */
    int64_t count;
    int64_t size[TG_MAX_RANK], stride[TG_MAX_RANK], other_stride[TG_MAX_RANK];
} tg_walk;

typedef struct tg_cursor {
    int64_t index[TG_MAX_RANK];
    int64_t offset, other_offset;
} tg_cursor;

/* Returns a walk over one value, to which tg_walk_add_axis adds axes, outermost first. */
static inline tg_walk tg_walk_new(void)
{
    return (tg_walk){.rank = 1, .count = 1, .size = {1}, .stride = {1}, .other_stride = {1}};
}

void tg_walk_add_axis(tg_walk *walk, int64_t size, int64_t stride, int64_t other_stride);

/* Returns a walk over all of x. */
tg_walk tg_walk_of(const tg_tensor *x);

/* Writes the axes of x, outermost in memory first: those with larger strides come first. Axes of size 1 and axes that
 * repeat their values (stride 0) have no order, and stay where they are. torch visits a tensor in this order
 * (TensorIterator). */
void tg_memory_order(const tg_tensor *x, int order[TG_MAX_RANK]);

/* Returns a walk over x broadcast to `shape`: the stride is 0 on axes where x repeats. The other strides are those of a
 * contiguous tensor of x's shape, such as its gradient, and also 0 where x repeats. */
tg_walk tg_walk_broadcast(const tg_tensor *x, const tg_shape *shape);

/* Returns the cursor at a row-major position. */
tg_cursor tg_walk_begin(const tg_walk *walk, int64_t position);

static inline int64_t tg_walk_stride(const tg_walk *walk)
{
    return walk->stride[walk->rank - 1];
}

static inline int64_t tg_walk_other_stride(const tg_walk *walk)
{
    return walk->other_stride[walk->rank - 1];
}

/* Returns the length of the run that begins at the cursor, at most `most`. A run ends at the end of the last axis. */
static inline int64_t tg_walk_run(const tg_walk *walk, const tg_cursor *at, int64_t most)
{
    int64_t run = walk->size[walk->rank - 1] - at->index[walk->rank - 1];
    return run < most ? run : most;
}

/* Moves the cursor past a run. */
static inline void tg_walk_advance(const tg_walk *walk, tg_cursor *at, int64_t run)
{
    int axis = walk->rank - 1;
    at->index[axis] += run;
    at->offset += run * walk->stride[axis];
    at->other_offset += run * walk->other_stride[axis];
    while (axis > 0 && at->index[axis] == walk->size[axis]) {
        at->offset += walk->stride[axis - 1] - walk->size[axis] * walk->stride[axis];
        at->other_offset += walk->other_stride[axis - 1] - walk->size[axis] * walk->other_stride[axis];
        at->index[axis] = 0;
        at->index[--axis]++;
    }
}

/* Returns whether the values are contiguous. */
static inline bool tg_walk_is_plain(const tg_walk *walk)
{
    return walk->rank == 1 && walk->stride[0] == 1;
}

#endif
