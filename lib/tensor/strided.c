#include "tensor/strided.h"

#include "base/parallel.h"
#include "tensor/move.h"

/* Values that are moved, divided among threads by their positions. */
typedef struct moves {
    const tg_walk *walk;
    void *to;
    const word *from;
} moves;

static inline void move_range(const moves *m, int64_t begin, int64_t end, bool add)
{
    const int64_t step = tg_walk_stride(m->walk), from_step = tg_walk_other_stride(m->walk);
    tg_cursor at = tg_walk_begin(m->walk, begin);
    for (int64_t done = begin, n; done < end; done += n) {
        n = tg_walk_run(m->walk, &at, end - done);
        move_row(to_word(m->to, at.offset), step, m->from + at.other_offset, from_step, n, add);
        tg_walk_advance(m->walk, &at, n);
    }
}

static void copy_range(void *context, int64_t begin, int64_t end)
{
    move_range(context, begin, end, false);
}

static void add_range(void *context, int64_t begin, int64_t end)
{
    move_range(context, begin, end, true);
}

static void run(const tg_strided *s, void *to, const void *from, loop_body *body)
{
    moves m = {&s->walk, to_word(to, s->to), (const word *)from + s->from};
    tg_parallel_for(s->walk.count, TG_GRAIN, body, &m);
}

void KERNEL(tg_strided_copy)(const tg_strided *s, void *to, const void *from)
{
    run(s, to, from, copy_range);
}

void KERNEL(tg_strided_add)(const tg_strided *s, void *to, const void *from)
{
    run(s, to, from, add_range);
}

#ifdef TG_ONCE

static int64_t distance(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Lets a short last axis and the longest one change places, so that the innermost loop is long. */
static void lengthen_runs(tg_walk *walk)
{
    int last = walk->rank - 1, longest = last;
    for (int axis = 0; axis < last && walk->size[last] < 8; axis++) {
        longest = walk->size[axis] > walk->size[longest] ? axis : longest;
    }
    const int64_t size = walk->size[last], to = walk->stride[last], from = walk->other_stride[last];
    walk->size[last] = walk->size[longest];
    walk->stride[last] = walk->stride[longest];
    walk->other_stride[last] = walk->other_stride[longest];
    walk->size[longest] = size;
    walk->stride[longest] = to;
    walk->other_stride[longest] = from;
}

tg_strided tg_strided_of(const tg_shape *shape, const int64_t *to, const int64_t *from)
{
    tg_strided s = {.walk = tg_walk_new()};
    int order[TG_MAX_RANK], axes = 0;
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t size = shape->size[axis];
        if (size == 0) {
            s.walk.count = 0;
            return s;
        }
        if (size == 1 || to[axis] == 0) {
            s.from += (size - 1) * from[axis];
            continue;
        }
        if (to[axis] < 0) {
            s.to += (size - 1) * to[axis];
            s.from += (size - 1) * from[axis];
        }
        int at = axes++;
        for (; at > 0 && distance(to[order[at - 1]]) < distance(to[axis]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = axis;
    }
    for (int i = 0; i < axes; i++) {
        int axis = order[i], sign = to[axis] < 0 ? -1 : 1;
        tg_walk_add_axis(&s.walk, shape->size[axis], sign * to[axis], sign * from[axis]);
    }
    lengthen_runs(&s.walk);
    return s;
}

/* Copies values of `size` bytes, a constant in each call. */
static inline __attribute__((always_inline)) void copy_bytes(const tg_strided *s, size_t size, char *to,
                                                             const char *from)
{
    const int64_t bytes = (int64_t)size;
    const tg_walk *walk = &s->walk;
    const int64_t step = tg_walk_stride(walk), from_step = tg_walk_other_stride(walk);
    tg_cursor at = tg_walk_begin(walk, 0);
    for (int64_t done = 0, length; done < walk->count; done += length) {
        length = tg_walk_run(walk, &at, walk->count);
        char *out = to + (s->to + at.offset) * bytes;
        const char *in = from + (s->from + at.other_offset) * bytes;
        for (int64_t i = 0; i < length; i++) {
            memcpy(out + i * step * bytes, in + i * from_step * bytes, size);
        }
        tg_walk_advance(walk, &at, length);
    }
}

void tg_strided_copy(const tg_strided *s, size_t size, void *to, const void *from)
{
    static tg_strided_kernel *const f32[] = {TG_EACH_LEVEL(avx2, tg_strided_copy_f32)}, *const f64[] = {TG_EACH_LEVEL(
                                                                                            avx2, tg_strided_copy_f64)};
    if (s->walk.count == 0) {
        return;
    }
    switch (size) {
    case 4: f32[tg_level()](s, to, from); return;
    case 8: f64[tg_level()](s, to, from); return;
    case 2: copy_bytes(s, 2, to, from); return;
    default: copy_bytes(s, 1, to, from);
    }
}

void tg_strided_add(const tg_strided *s, tg_dtype dtype, void *to, const void *from)
{
    static tg_strided_kernel *const f32[] = {TG_EACH_LEVEL(avx2, tg_strided_add_f32)}, *const f64[] = {TG_EACH_LEVEL(
                                                                                           avx2, tg_strided_add_f64)};
    if (s->walk.count > 0) {
        (dtype == TG_F32 ? f32 : f64)[tg_level()](s, to, from);
    }
}

static tg_strided line_of(int64_t count)
{
    const int64_t stride = 1;
    return tg_strided_of(&(tg_shape){1, {count}}, &stride, &stride);
}

void tg_copy_values(void *to, const void *from, int64_t count, size_t size)
{
    tg_strided line = line_of(count);
    tg_strided_copy(&line, size, to, from);
}

void tg_add_values(void *to, const void *from, int64_t count, tg_dtype dtype)
{
    tg_strided line = line_of(count);
    tg_strided_add(&line, dtype, to, from);
}

static void zero_bytes(void *to, int64_t begin, int64_t end)
{
    memset((char *)to + begin, 0, (size_t)(end - begin));
}

/* Short zeros are written before another thread would be awake. */
void tg_zero_values(void *to, int64_t count, size_t size)
{
    tg_parallel_for(count * (int64_t)size, 8 * TG_GRAIN * (int64_t)sizeof(float), zero_bytes, to);
}

#endif
