#include "tensor/strided.h"

#include "base/parallel.h"
#include "tensor/transpose.h"

/* A tile: a line of memory of each row of the target, and eight of each row of the source. The most columns of a row of
 * tiles, and the most values of a row or of some rows, that are one piece of work. */
enum {
    STRIDED_ROWS = 512 / sizeof(word),
    STRIDED_COLUMNS = 64 / sizeof(word),
    STRIDED_STRIP = 256,
    STRIDED_PIECE = 4096
};

/* Two axes of a block: their sizes and strides. */
typedef struct plane {
    int64_t size[2], to[2], from[2];
} plane;

/* Moves a tile. `plain`: its columns are neighbors in the source, and its rows in the target. With `ahead`, begins to
 * read and to write the next tile: its rows are too short for the processor to foresee them. */
static inline void move_tile(const plane *p, int64_t rows, int64_t columns, void *restrict to,
                             const word *restrict from, bool plain, bool ahead, bool add)
{
    word tile[STRIDED_ROWS][STRIDED_COLUMNS], lines[STRIDED_COLUMNS][STRIDED_ROWS];
    for (int64_t c = 0; ahead && c < STRIDED_COLUMNS; c++) {
        tg_prefetch_row(from + (c + STRIDED_COLUMNS) * p->from[1], (size_t)rows * sizeof *from);
    }
    if (plain) {
        transpose_tile(tile[0], STRIDED_COLUMNS, from, p->from[1], rows, columns);
    } else {
        for (int64_t c = 0; c < columns; c++) {
            copy_to_row(lines[c], from + c * p->from[1], p->from[0], rows);
        }
        transpose_tile(tile[0], STRIDED_COLUMNS, lines[0], STRIDED_ROWS, rows, columns);
    }
    const int64_t to_step = plain ? 1 : p->to[1];
    for (int64_t r = 0; r < rows; r++) {
        if (ahead) {
            __builtin_prefetch(to_word(to, r * p->to[0] + STRIDED_COLUMNS), 1);
        }
        for (int64_t c = 0; c < columns; c++) {
            move_value(to, r * p->to[0] + c * to_step, tile[r][c], add);
        }
    }
}

static inline void move_tiles(const plane *p, int64_t rows, int64_t columns, void *to, const word *from, bool add)
{
    const bool plain = p->to[1] == 1 && p->from[0] == 1;
    for (int64_t c = 0; c < columns; c += STRIDED_COLUMNS) {
        const int64_t left = columns - c;
        void *tile_to = to_word(to, c * p->to[1]);
        const word *tile_from = from + c * p->from[1];
        if (plain && left >= 2 * STRIDED_COLUMNS) {
            move_tile(p, rows, STRIDED_COLUMNS, tile_to, tile_from, true, true, add);
        } else if (plain) {
            move_tile(p, rows, left < STRIDED_COLUMNS ? left : STRIDED_COLUMNS, tile_to, tile_from, true, false, add);
        } else {
            move_tile(p, rows, left < STRIDED_COLUMNS ? left : STRIDED_COLUMNS, tile_to, tile_from, false, false, add);
        }
    }
}

/* A block as pieces: rows and columns of a plane, for each index of the other axes. */
typedef struct pieces {
    tg_walk walk; /* one position is one piece; the last two axes are those of the plane */
    plane plane;
    int64_t rows, columns; /* of a piece */
    bool tiled;
    void *to;
    const word *from;
} pieces;

static inline void move_pieces(const pieces *w, int64_t begin, int64_t end, bool add)
{
    const plane *p = &w->plane;
    int last = w->walk.rank - 1;
    tg_cursor at = tg_walk_begin(&w->walk, begin);
    for (int64_t i = begin; i < end; i++) {
        int64_t rows = p->size[0] - at.index[last - 1] * w->rows, columns = p->size[1] - at.index[last] * w->columns;
        rows = rows < w->rows ? rows : w->rows;
        columns = columns < w->columns ? columns : w->columns;
        void *to = to_word(w->to, at.offset);
        const word *from = w->from + at.other_offset;
        if (w->tiled) {
            move_tiles(p, rows, columns, to, from, add);
        } else if (columns < 8 && rows > columns) {
            for (int64_t c = 0; c < columns; c++) {
                move_row(to_word(to, c * p->to[1]), p->to[0], from + c * p->from[1], p->from[0], rows, add);
            }
        } else {
            for (int64_t r = 0; r < rows; r++) {
                move_row(to_word(to, r * p->to[0]), p->to[1], from + r * p->from[0], p->from[1], columns, add);
            }
        }
        tg_walk_advance(&w->walk, &at, 1);
    }
}

static void copy_pieces(void *context, int64_t begin, int64_t end)
{
    move_pieces(context, begin, end, false);
}

static void add_pieces(void *context, int64_t begin, int64_t end)
{
    move_pieces(context, begin, end, true);
}

static int64_t distance(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Returns the axis of the walk that is the rows of the plane; -1 for a walk with one axis. In tiles it is the axis
 * along which the source is dense, if that is not the last one. */
static int choose_rows(const tg_walk *walk, bool *tiled)
{
    int last = walk->rank - 1, densest = last;
    for (int axis = last - 1; axis >= 0; axis--) {
        int64_t d = distance(walk->other_stride[axis]);
        densest = d > 0 && d < distance(walk->other_stride[densest]) ? axis : densest;
    }
    *tiled = densest != last && walk->size[last] >= 8 && walk->size[densest] >= 8;
    return *tiled ? densest : last - 1;
}

/* Adds an axis of `count` pieces. */
static void add_axis(tg_walk *walk, int64_t count, int64_t stride, int64_t other_stride)
{
    walk->size[walk->rank] = count;
    walk->stride[walk->rank] = stride;
    walk->other_stride[walk->rank] = other_stride;
    walk->rank++;
    walk->count *= count;
}

static void cut(const tg_walk *walk, pieces *w)
{
    int last = walk->rank - 1, rows = choose_rows(walk, &w->tiled);
    plane *p = &w->plane;
    *p = (plane){{1, walk->size[last]}, {0, walk->stride[last]}, {0, walk->other_stride[last]}};
    if (rows >= 0) {
        p->size[0] = walk->size[rows];
        p->to[0] = walk->stride[rows];
        p->from[0] = walk->other_stride[rows];
    }
    int64_t most = w->tiled ? STRIDED_STRIP : STRIDED_PIECE;
    w->columns = p->size[1] < most ? p->size[1] : most;
    w->rows = w->tiled ? STRIDED_ROWS : STRIDED_PIECE / w->columns;
    w->walk.rank = 0;
    w->walk.count = 1;
    for (int axis = 0; axis < last; axis++) {
        if (axis != rows) {
            add_axis(&w->walk, walk->size[axis], walk->stride[axis], walk->other_stride[axis]);
        }
    }
    add_axis(&w->walk, (p->size[0] - 1) / w->rows + 1, w->rows * p->to[0], w->rows * p->from[0]);
    add_axis(&w->walk, (p->size[1] - 1) / w->columns + 1, w->columns * p->to[1], w->columns * p->from[1]);
}

static void run(const tg_strided *s, void *to, const void *from, loop_body *body)
{
    pieces w = {.to = to_word(to, s->to), .from = (const word *)from + s->from};
    cut(&s->walk, &w);
    int64_t rows = w.plane.size[0] < w.rows ? w.plane.size[0] : w.rows;
    tg_parallel_for(w.walk.count, 1 + TG_GRAIN / (rows * w.columns), body, &w);
}

void KERNEL(tg_strided_copy)(const tg_strided *s, void *to, const void *from)
{
    run(s, to, from, copy_pieces);
}

void KERNEL(tg_strided_add)(const tg_strided *s, void *to, const void *from)
{
    run(s, to, from, add_pieces);
}

#ifdef TG_ONCE

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
    return s;
}

static void copy_bytes(const tg_strided *s, char *to, const char *from)
{
    const tg_walk *walk = &s->walk;
    const int64_t step = tg_walk_stride(walk), from_step = tg_walk_other_stride(walk);
    tg_cursor at = tg_walk_begin(walk, 0);
    for (int64_t done = 0, length; done < walk->count; done += length) {
        length = tg_walk_run(walk, &at, walk->count);
        char *out = to + s->to + at.offset;
        const char *in = from + s->from + at.other_offset;
        if (step == 1 && from_step == 1) {
            memcpy(out, in, (size_t)length);
        } else if (step == 1 && from_step == 0) {
            memset(out, *in, (size_t)length);
        } else if (step == 1 && from_step == 2) { /* becomes vectors */
            for (int64_t i = 0; i < length; i++) {
                out[i] = in[i * 2];
            }
        } else {
            for (int64_t i = 0; i < length; i++) {
                out[i * step] = in[i * from_step];
            }
        }
        tg_walk_advance(walk, &at, length);
    }
}

void tg_strided_copy(const tg_strided *s, size_t size, void *to, const void *from)
{
    static tg_strided_kernel *const f32[] = {TG_EACH_LEVEL(tg_strided_copy_f32)}, *const f64[] = {TG_EACH_LEVEL(
                                                                                      tg_strided_copy_f64)};
    if (s->walk.count == 0) {
        return;
    }
    switch (size) {
    case 4: f32[tg_level()](s, to, from); return;
    case 8: f64[tg_level()](s, to, from); return;
    default: copy_bytes(s, to, from);
    }
}

typedef struct spread {
    const tg_strided *s;
    size_t size;
    char *to;
    int64_t count, group; /* the indices of the outermost axis that are one piece of work */
    const void *from;
} spread;

/* Zeroes a piece of the target and copies its values, while it is in the cache. */
static void spread_groups(void *context, int64_t begin, int64_t end)
{
    const spread *p = context;
    const int64_t size = p->s->walk.size[0], stride = p->s->walk.stride[0], inner = p->s->walk.count / size;
    for (int64_t group = begin; group < end; group++) {
        tg_strided part = *p->s;
        int64_t first = group * p->group, next = first + p->group < size ? first + p->group : size;
        int64_t zeros = group == 0 ? 0 : part.to + first * stride;
        int64_t zeros_end = next == size ? p->count : part.to + next * stride;
        memset(p->to + (size_t)zeros * p->size, 0, (size_t)(zeros_end - zeros) * p->size);
        part.to += first * stride;
        part.from += first * part.walk.other_stride[0];
        part.walk.size[0] = next - first;
        part.walk.count = (next - first) * inner;
        tg_strided_copy(&part, p->size, p->to, p->from);
    }
}

void tg_strided_spread(const tg_strided *s, size_t size, void *to, int64_t count, const void *from)
{
    const tg_walk *walk = &s->walk;
    char *bytes = to;
    if (walk->count == 0) {
        tg_zero_values(to, count, size);
    } else if (tg_walk_is_plain(walk)) {
        int64_t end = s->to + walk->count;
        tg_zero_values(bytes, s->to, size);
        tg_zero_values(bytes + (size_t)end * size, count - end, size);
        tg_strided_copy(s, size, to, from);
    } else {
        int64_t group = 1 + TG_GRAIN / walk->stride[0];
        spread p = {s, size, to, count, group, from};
        tg_parallel_for((walk->size[0] - 1) / group + 1, 1, spread_groups, &p);
    }
}

void tg_strided_add(const tg_strided *s, tg_dtype dtype, void *to, const void *from)
{
    static tg_strided_kernel *const f32[] = {TG_EACH_LEVEL(tg_strided_add_f32)}, *const f64[] = {
                                                                                     TG_EACH_LEVEL(tg_strided_add_f64)};
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
