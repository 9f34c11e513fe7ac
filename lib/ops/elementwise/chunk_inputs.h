/* chunk_inputs (private): how the loop of elementwise ops gives a chunk its inputs as contiguous reals.
 *
 * An input that has the layout of y is read where it is. So are long rows, such as those of a bias: a chunk ends where
 * the row does. A row or a value that is repeated is copied once for many chunks. Where the values of an input are
 * dense along another axis than those of y, as in a transposed matrix, the inputs of some rows are copied in a tile, so
 * that each line of memory is read once. All others are copied chunk by chunk.
 */
#ifndef TG_OPS_ELEMENTWISE_CHUNK_INPUTS_H
#define TG_OPS_ELEMENTWISE_CHUNK_INPUTS_H

#include "ops/elementwise/elementwise.h"
#include "tensor/transpose.h"

/* The largest chunk of copied inputs; that of long rows, so short that the processor reads the inputs of a chunk while
 * it writes the results of the one before; the shortest of these rows; the shortest row that is not copied, the
 * shortest block to which values are repeated, and the sides of a tile. */
enum {
    MOST_COPIED = 1024,
    FEW_COPIED = 256,
    LONG_COPIED = 1024,
    LONG_ROW = 128,
    LONG_BLOCK = 128,
    TILE_ROWS = 16,
    TILE_COLUMNS = 64
};

typedef enum input_kind { INPUT_UNREAD, INPUT_PLAIN, INPUT_ROWS, INPUT_REPEATED, INPUT_TILED, INPUT_COPIED } input_kind;

typedef struct chunk_input {
    const tg_tensor *x;
    input_kind kind;
    tg_walk walk;          /* unless it is plain */
    int64_t period, block; /* INPUT_REPEATED: `period` values are repeated to blocks of y */
    int dense;             /* INPUT_TILED: the axis of the walk along which the values are dense */
} chunk_input;

typedef struct chunk_inputs {
    int count;
    chunk_input inputs[TG_ELEMENTWISE_INPUTS];
    int single;         /* the input whose rows are one value each, which the kernel repeats; -1: none */
    bool none_copied;   /* each input is plain or has long rows */
    int64_t most;       /* the values of a chunk, if inputs are copied */
    int64_t width;      /* of the shortest row or block that ends chunks; without any, the number of values of y */
    int64_t tile_width; /* the distance in y between the rows of tiles; 0 if no input needs them */
} chunk_inputs;

/* The copies of one thread. */
typedef struct chunk_buffers {
    tg_cursor at[TG_ELEMENTWISE_INPUTS];
    int64_t position[TG_ELEMENTWISE_INPUTS]; /* of the cursor in y; -1: nowhere */
    int64_t block[TG_ELEMENTWISE_INPUTS];  /* INPUT_REPEATED: the first position of the block whose values are copied */
    int64_t copied[TG_ELEMENTWISE_INPUTS]; /* and how many of them; 0: none */
    real values[TG_ELEMENTWISE_INPUTS][MOST_COPIED + LONG_BLOCK];
} chunk_buffers;

static inline void chunk_buffers_begin(chunk_buffers *b, int inputs)
{
    for (int i = 0; i < inputs; i++) {
        b->position[i] = -1;
        b->block[i] = b->copied[i] = 0;
    }
}

static inline int64_t stride_length(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Returns the axis with the smallest stride. */
static inline int densest_axis(const tg_walk *w)
{
    int densest = w->rank - 1;
    for (int axis = densest - 1; axis >= 0; axis--) {
        int64_t length = stride_length(w->stride[axis]);
        densest = length > 0 && length < stride_length(w->stride[densest]) ? axis : densest;
    }
    return densest;
}

/* Chooses how an input that is not plain is read. */
static inline void choose_input(chunk_inputs *c, chunk_input *in, bool is_real)
{
    const tg_walk *w = &in->walk;
    int last = w->rank - 1;
    int64_t size = w->size[last], stride = w->stride[last], outer = last > 0 ? w->stride[last - 1] : 0;
    int64_t rows = last > 0 ? w->size[last - 1] : 1, inner = 1;
    in->period = stride == 0 ? 1 : size;
    in->block = stride == 0 ? size : outer == 0 ? size * rows : 0;
    in->dense = densest_axis(w);
    for (int axis = last; axis > in->dense; axis--) {
        inner *= w->size[axis];
    }
    in->kind = INPUT_COPIED;
    if (is_real && stride == 1 && size >= (outer == 0 ? LONG_ROW : LONG_ROW / 2)) {
        in->kind = INPUT_ROWS;
        in->block = size;
    } else if (in->block >= LONG_BLOCK && in->period <= LONG_BLOCK) {
        in->kind = INPUT_REPEATED;
    } else if (is_real && in->dense != last && inner >= TILE_COLUMNS && w->size[in->dense] >= TILE_ROWS &&
               (c->tile_width == 0 || c->tile_width == inner)) {
        in->kind = INPUT_TILED;
        c->tile_width = inner;
    }
    if ((in->kind == INPUT_ROWS || in->kind == INPUT_REPEATED) && in->block < c->width) {
        c->width = in->block;
    }
}

/* The bits of `ignored` are those of inputs that no kernel reads. With `takes_value`, the kernel may get one value for
 * an input. */
static inline void set_inputs(chunk_inputs *c, const tg_op_call *call, uint32_t ignored, bool takes_value)
{
    const tg_tensor *y = call->outputs[0];
    c->count = call->input_count;
    c->single = -1;
    c->none_copied = true;
    c->most = FEW_COPIED;
    c->width = y->count;
    c->tile_width = 0;
    for (int i = 0; i < call->input_count; i++) {
        chunk_input *in = &c->inputs[i];
        const tg_tensor *x = in->x = call->inputs[i];
        bool is_real = x->dtype == REAL_DTYPE;
        in->kind = ignored >> i & 1 ? INPUT_UNREAD : INPUT_PLAIN;
        if (in->kind == INPUT_PLAIN && (!is_real || !x->contiguous || !tg_same_shape(x, y))) {
            tg_shape shape = tg_shape_of(y);
            in->walk = tg_walk_broadcast(x, &shape);
            if (!is_real || !tg_walk_is_plain(&in->walk)) {
                choose_input(c, in, is_real);
            }
        }
        if (takes_value && is_real && c->single < 0 && in->kind == INPUT_REPEATED && in->period == 1) {
            c->single = i;
            in->kind = INPUT_ROWS; /* of one value each, which is read where it is */
        }
        if (in->kind > INPUT_ROWS) {
            c->none_copied = false;
            c->most = in->walk.size[in->walk.rank - 1] < LONG_COPIED ? MOST_COPIED : c->most;
        }
    }
}

/* Copies the only input, but for a number, to y if it is tiled, and reads it there: a copy of all values has larger
 * tiles. */
static inline void copy_only_tiled(chunk_inputs *c, tg_tensor *y)
{
    chunk_input *in = &c->inputs[c->single == 0 ? 1 : 0];
    const bool is_alone = c->count == 1 || (c->count == 2 && c->single >= 0 && c->inputs[c->single].walk.rank == 1);
    if (is_alone && in->kind == INPUT_TILED) {
        tg_copy_broadcast(y, in->x);
        in->x = y;
        in->walk = tg_walk_of(y);
        in->kind = INPUT_COPIED;
        c->tile_width = 0;
    }
}

/* Copies TILE_ROWS rows of at most TILE_COLUMNS values; `begin` is the first position in y. */
static inline void copy_tile(const chunk_input *in, int64_t begin, int64_t columns, real *values)
{
    const tg_walk *w = &in->walk;
    const int64_t stride = tg_walk_stride(w), row_stride = w->stride[in->dense], size = w->size[w->rank - 1];
    tg_cursor at = tg_walk_begin(w, begin);
    for (int64_t done = 0, run; done < columns; done += run) {
        run = tg_walk_run(w, &at, columns - done);
        const real *x = (const real *)tg_values(in->x) + at.offset;
        int64_t left = size - at.index[w->rank - 1] - TILE_COLUMNS;
        for (int64_t c = 0; c < run && c < left; c++) {
            tg_prefetch_row(x + (c + TILE_COLUMNS) * stride, TILE_ROWS * sizeof *x);
        }
        if (row_stride == 1) {
            transpose_tile((word *)values + done, TILE_COLUMNS, (const word *)x, stride, TILE_ROWS, run);
        } else {
            word lines[TILE_COLUMNS][TILE_ROWS];
            for (int64_t c = 0; c < run; c++) {
                copy_to_row(lines[c], (const word *)x + c * stride, row_stride, TILE_ROWS);
            }
            transpose_tile((word *)values + done, TILE_COLUMNS, lines[0], TILE_ROWS, TILE_ROWS, run);
        }
        tg_walk_advance(w, &at, run);
    }
}

/* Copies the tile of each input that is read in tiles. */
static inline void copy_tiles(const chunk_inputs *c, chunk_buffers *b, int64_t begin, int64_t columns)
{
    for (int i = 0; i < c->count; i++) {
        if (c->inputs[i].kind == INPUT_TILED) {
            copy_tile(&c->inputs[i], begin, columns, b->values[i]);
        }
    }
}

/* Returns the cursor of input i at a position of y, which has moved there already if chunks follow each other. The
 * caller moves it past n values. */
static inline tg_cursor *cursor_at(const chunk_inputs *c, int i, chunk_buffers *b, int64_t begin, int64_t n)
{
    if (b->position[i] != begin) {
        b->at[i] = tg_walk_begin(&c->inputs[i].walk, begin);
    }
    b->position[i] = begin + n;
    return &b->at[i];
}

/* Copies the period of the block that begins at this position. */
static inline void begin_block(const chunk_inputs *c, int i, chunk_buffers *b, int64_t begin)
{
    const chunk_input *in = &c->inputs[i];
    tg_cursor first = *cursor_at(c, i, b, begin, in->block);
    KERNEL(tg_chunk_gather_at)(&in->walk, in->x, &first, in->period, b->values[i]);
    b->block[i] = begin;
    b->copied[i] = in->period;
    if (in->period == 1) {
        tg_walk_advance(&in->walk, &b->at[i], in->block);
    } else {
        b->position[i] = -1;
    }
}

/* Returns n values of a block, which are repeated as often as they are needed. */
static inline const real *repeated_at(const chunk_inputs *c, int i, chunk_buffers *b, int64_t begin, int64_t n)
{
    const chunk_input *in = &c->inputs[i];
    real *values = b->values[i];
    if (b->copied[i] == 0 || begin < b->block[i] || begin >= b->block[i] + in->block) {
        bool next = b->copied[i] > 0 && begin == b->block[i] + in->block;
        begin_block(c, i, b, next ? begin : begin - begin % in->block);
    }
    int64_t first = in->period == 1 ? 0 : (begin - b->block[i]) % in->period, copied = b->copied[i];
    if (in->period == 1) {
        const real value = values[0];
        for (; copied < n; copied++) {
            values[copied] = value;
        }
    }
    for (int64_t more; copied < first + n; copied += more) {
        int64_t phase = copied % in->period, needed = first + n - copied;
        more = needed < copied - phase ? needed : copied - phase;
        memcpy(values + copied, values + phase, (size_t)more * sizeof *values);
    }
    b->copied[i] = copied;
    return values + first;
}

/* Returns n values of input i, those of y from `begin` on, or one (c->single). `row` is that of the tile, if there is
 * one. */
static inline const void *input_at(const chunk_inputs *c, int i, chunk_buffers *b, int64_t begin, int64_t n, int row)
{
    const chunk_input *in = &c->inputs[i];
    real *values = b->values[i];
    int64_t offset;
    tg_cursor *at;
    switch (in->kind) {
    case INPUT_UNREAD: return NULL;
    case INPUT_PLAIN: return (const real *)tg_values(in->x) + begin;
    case INPUT_ROWS:
        at = cursor_at(c, i, b, begin, n);
        offset = at->offset;
        tg_walk_advance(&in->walk, at, n);
        return (const real *)tg_values(in->x) + offset;
    case INPUT_REPEATED: return repeated_at(c, i, b, begin, n);
    case INPUT_TILED:
        if (row >= 0) {
            return values + (int64_t)row * TILE_COLUMNS;
        }
        break;
    case INPUT_COPIED: break;
    }
    KERNEL(tg_chunk_gather_at)(&in->walk, in->x, cursor_at(c, i, b, begin, n), n, values);
    return values;
}

/* Returns how many of the next rows of c->width values, at most `most`, are equally far apart in each input, all of
 * which are read in place. Writes these distances. */
static inline int64_t rows_together(const chunk_inputs *c, chunk_buffers *b, int64_t begin, int64_t most,
                                    int64_t step[TG_ELEMENTWISE_INPUTS])
{
    const int64_t n = c->width;
    for (int i = 0; i < c->count; i++) {
        const tg_walk *w = &c->inputs[i].walk;
        step[i] = n;
        if (c->inputs[i].kind == INPUT_ROWS) {
            const int last = w->rank - 1;
            const tg_cursor *at = cursor_at(c, i, b, begin, 0);
            bool is_whole = last > 0 && w->size[last] == n;
            int64_t left = is_whole ? w->size[last - 1] - at->index[last - 1] : (w->size[last] - at->index[last]) / n;
            step[i] = is_whole ? w->stride[last - 1] : n * w->stride[last];
            most = left < most ? left : most;
        }
    }
    return most;
}

/* Returns the number of whole rows of y, from this position on, that are a tile; 0 if none are. */
static inline int64_t tile_rows(const chunk_inputs *c, int64_t begin, int64_t end)
{
    if (c->tile_width == 0 || begin % c->tile_width != 0) {
        return 0;
    }
    int64_t left = (end - begin) / c->tile_width;
    for (int i = 0; i < c->count; i++) {
        const chunk_input *in = &c->inputs[i];
        if (in->kind == INPUT_TILED) {
            const int64_t rows = in->walk.size[in->dense], own = rows - begin / c->tile_width % rows;
            left = own < left ? own : left;
        }
    }
    return left < TILE_ROWS ? 0 : TILE_ROWS;
}

#endif
