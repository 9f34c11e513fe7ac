/* move (private): moves a run of values from one stride to another. Copies, the inputs of elementwise ops and triangles
 * share this loop.
 *
 * A loop over a stride that is known when it is compiled becomes vectors: two loads and a shuffle for every second
 * value. So the frequent strides are constants. Others are read in groups, whose loads do not wait for the loop.
 */
#ifndef TG_TENSOR_MOVE_H
#define TG_TENSOR_MOVE_H

#include "base/real.h"

/* A value is copied as an integer of its size: a float register may change the bits of a NaN. */
#if defined TG_REAL_F32
typedef uint32_t word __attribute__((may_alias));
#else
typedef uint64_t word __attribute__((may_alias));
#endif

static inline void move_value(void *to, int64_t at, word value, bool add)
{
    if (add) {
        real more;
        memcpy(&more, &value, sizeof more);
        ((real *)to)[at] += more;
    } else {
        ((word *)to)[at] = value;
    }
}

static inline void *to_word(const void *values, int64_t at)
{
    return (word *)values + at;
}

static inline void move_values(void *restrict to, int64_t to_stride, const word *restrict from, int64_t from_stride,
                               int64_t n, bool add)
{
    for (int64_t i = 0; i < n; i++) {
        move_value(to, i * to_stride, from[i * from_stride], add);
    }
}

/* Moves n values to a contiguous row. */
static inline void move_to_row(void *to, const word *from, int64_t stride, int64_t n, bool add)
{
    enum { MOVE_GROUP = 4 };
    int64_t i = 0;
    switch (stride) {
    case 0: move_values(to, 1, from, 0, n, add); return;
    case 1: move_values(to, 1, from, 1, n, add); return;
    case -1: move_values(to, 1, from, -1, n, add); return;
    case 2: move_values(to, 1, from, 2, n, add); return;
    case 4: move_values(to, 1, from, 4, n, add); return;
    default:
        for (; i + MOVE_GROUP <= n; i += MOVE_GROUP) {
            move_values(to_word(to, i), 1, from + i * stride, stride, MOVE_GROUP, add);
        }
        move_values(to_word(to, i), 1, from + i * stride, stride, n - i, add);
    }
}

/* Copies n values to a contiguous row. As a part of its caller, compiled by gcc 12, the loop waits for memory, and a
 * sum of two tensors of every second column takes three times as long (tests/bench/README.md). */
__attribute__((noinline)) static void copy_to_row(void *to, const word *from, int64_t stride, int64_t n)
{
    move_to_row(to, from, stride, n, false);
}

/* Moves n values. */
static inline void move_row(void *to, int64_t to_stride, const word *from, int64_t from_stride, int64_t n, bool add)
{
    if (to_stride != 1) {
        move_values(to, to_stride, from, from_stride, n, add);
    } else if (add) {
        move_to_row(to, from, from_stride, n, true);
    } else if (from_stride == 1 && n >= 8) {
        memcpy(to, from, (size_t)n * sizeof *from);
    } else {
        copy_to_row(to, from, from_stride, n);
    }
}

#endif
