/* fold: which tiles cover x, and the order in which they are visited (fold.h). */
#include "ops/reduce/fold.h"

#include <stdlib.h>

#include "tensor/move.h"

/* Fewer neighboring outputs than this are no row, and shorter runs of values are copied side by side. */
enum { MANY_OUTPUTS = 16, LONG_RUN = 64 };

/* The most values of a row that are copied at once if they are apart: during longer pieces the processor does not read
 * ahead. */
enum { PIECE = 128 };

/* The most rows whose sums are computed before they are added to those of all rows, so that the errors of long sums
 * stay small. */
enum { SUMMED_ROWS = 128 };

/* The most values of some rows: a second visit finds them in the processor's cache. */
enum { VALUES_IN_CACHE = 1 << 15 };

/* ---- tiles ---- */

/* Copies n values that are `stride` apart to the buffer, from position `at` of it on. */
static void copy_values(const tg_reduce_call *r, int64_t offset, int64_t stride, int64_t n, real *buffer, int64_t at)
{
    real *restrict out = buffer + at;
    if (r->part) {
        r->part(r->x, offset, n, out);
    } else if (r->dtype == TG_U8 && r->reducer->reads_bytes) {
        const uint8_t *x = (const uint8_t *)r->x + offset;
        uint8_t *restrict bytes = (uint8_t *)buffer + at;
        for (int64_t i = 0; i < n; i++) {
            bytes[i] = x[i * stride];
        }
    } else if (r->dtype == TG_U8) {
        const uint8_t *x = (const uint8_t *)r->x + offset;
        for (int64_t i = 0; i < n; i++) {
            out[i] = x[i * stride];
        }
    } else if (r->dtype == TG_I32) {
        const int32_t *x = (const int32_t *)r->x + offset;
        for (int64_t i = 0; i < n; i++) {
            out[i] = (real)x[i * stride];
        }
    } else {
        copy_to_row(out, (const word *)r->x + offset, stride, n);
    }
}

/* The loop over the values of some outputs: `inner` are the axes within a row, and `outer` those from row to row. */
typedef struct tile_loop {
    const tg_reduce_call *r;
    const tg_walk *inner, *outer;
    tg_cursor row, column;
    bool is_backward, reads_x;
    bool is_in_place, writes_in_place; /* x is read, and its gradient is written, without a buffer */
    real *buffer;
} tile_loop;

/* Copies the values of a tile. */
static void copy_tile(const tile_loop *l, tg_tile *tile)
{
    const int64_t stride = tg_walk_stride(l->inner), apart = tg_walk_stride(l->outer);
    const int64_t begin = l->row.offset + l->column.offset, all = tile->rows * tile->columns;
    const int64_t run = tg_walk_run(l->inner, &l->column, tile->columns);
    const bool is_one_run = tile->rows > 1 && run == tile->columns && stride == 1 && apart == run;
    for (int64_t done = 0, n; is_one_run && done < all; done += n) {
        n = least(all - done, FOLD);
        copy_values(l->r, begin + done, 1, n, l->buffer, done);
    }
    for (int64_t row = 0; !is_one_run && row < tile->rows; row++) {
        tg_cursor at = l->column;
        for (int64_t done = 0, n; done < tile->columns; done += n) {
            n = tg_walk_run(l->inner, &at, tile->columns - done);
            copy_values(l->r, l->row.offset + row * apart + at.offset, stride, n, l->buffer,
                        row * tile->columns + done);
            tg_walk_advance(l->inner, &at, n);
        }
    }
    tile->x = l->buffer;
    tile->apart = tile->columns;
}

/* Sets the tile to the next values: in the row `columns` are left, of `all`, and of the rows so many. Whole rows are
 * visited together, and in a buffer a multiple of four of them, so that sums group the same rows whatever the width of
 * a tile. In backward a tile is one run of the gradient. */
static void next_tile(const tile_loop *l, int64_t columns, int64_t all, int64_t rows, tg_tile *tile)
{
    const int64_t run = tg_walk_run(l->inner, &l->column, columns);
    const bool in_place = l->is_in_place && (l->is_backward || run == columns || run >= LONG_RUN);
    const bool has_buffer = !in_place || !l->writes_in_place;
    const int64_t width = in_place || l->is_backward ? run : columns;
    const int64_t most = l->r->by_columns || tg_walk_stride(l->inner) == 1 ? FOLD : PIECE;
    tile->columns = has_buffer ? least(width, most) : width;
    tile->rows = 1;
    if (tile->columns == all && (!l->is_backward || tg_walk_other_stride(l->outer) == all)) {
        tile->rows = tg_walk_run(l->outer, &l->row, has_buffer ? least(rows, BUFFER / all / 4 * 4) : rows);
    }
    if (in_place) {
        const int64_t offset = l->row.offset + l->column.offset;
        tile->x = l->reads_x ? (const char *)l->r->x + offset * (int64_t)tg_dtype_size(l->r->dtype) : NULL;
        tile->apart = tg_walk_stride(l->outer);
    } else {
        copy_tile(l, tile);
    }
}

/* Writes the gradients of a tile, or adds them. */
static void write_gradients(const tile_loop *l, const tg_tile *tile)
{
    real *dx = (real *)l->r->call->input_gradients[0] + l->row.other_offset + l->column.other_offset;
    if (l->writes_in_place) {
        l->r->reducer->differentiate(tile, dx);
        return;
    }
    real gradients[BUFFER];
    l->r->reducer->differentiate(tile, gradients);
    for (int64_t i = 0; i < tile->rows * tile->columns; i++) {
        dx[i] += gradients[i];
    }
}

/* Visits `length` values of each output from `first` on, and accumulates them; or, with scales, writes their gradients.
 */
static void visit_tiles(const tg_outputs *o, int64_t first, int64_t length, tg_accumulate *accumulate, double *result,
                        const double *scale)
{
    const tg_reduce_call *r = o->r;
    const bool by_columns = r->by_columns;
    const int64_t rows = by_columns ? length : o->count, columns = by_columns ? o->count : length;
    real buffer[BUFFER];
    tile_loop l = {.r = r,
                   .inner = by_columns ? &r->kept : &r->reduced,
                   .outer = by_columns ? &r->reduced : &r->kept,
                   .is_backward = scale,
                   .reads_x = !scale || r->reducer->reads_x,
                   .writes_in_place = !scale || writes_gradient(r->call, 0),
                   .buffer = buffer};
    const bool has_type = r->dtype == real_dtype || (r->dtype == TG_U8 && r->reducer->reads_bytes);
    l.is_in_place = !l.reads_x || (!r->part && has_type && tg_walk_stride(l.inner) == 1);
    const tg_cursor begin = tg_walk_begin(l.inner, by_columns ? o->begin : first);
    l.row = tg_walk_begin(l.outer, by_columns ? first : o->begin);
    tg_tile tile = {.by_columns = by_columns, .attributes = r->attributes};
    for (int64_t row = 0; columns > 0 && row < rows; row += tile.rows) {
        l.column = begin;
        for (int64_t column = 0; column < columns; column += tile.columns) {
            const int64_t output = by_columns ? column : row;
            next_tile(&l, columns - column, columns, rows - row, &tile);
            tile.first = first + (by_columns ? row : column);
            tile.center = o->center + output;
            tile.scale = scale ? scale + output : NULL;
            if (scale) {
                write_gradients(&l, &tile);
            } else {
                accumulate(&tile, result + output);
            }
            for (int64_t done = 0, run; done < tile.columns; done += run) {
                run = tg_walk_run(l.inner, &l.column, tile.columns - done);
                tg_walk_advance(l.inner, &l.column, run);
            }
        }
        tg_walk_advance(l.outer, &l.row, tile.rows);
    }
}

void KERNEL(tg_fold)(const tg_outputs *o, tg_accumulate *accumulate, double initial, double *result)
{
    for (int64_t c = 0; c < o->count; c++) {
        result[c] = initial;
    }
    visit_tiles(o, o->first, o->length, accumulate, result, NULL);
}

void KERNEL(tg_fold_sums)(const tg_outputs *o, tg_accumulate *accumulate, double *sum)
{
    const int64_t most = o->r->by_columns ? SUMMED_ROWS : o->length;
    double part[FOLD];
    memset(sum, 0, (size_t)o->count * sizeof *sum);
    for (int64_t done = 0; done < o->length; done += most) {
        memset(part, 0, (size_t)o->count * sizeof *part);
        visit_tiles(o, o->first + done, least(o->length - done, most), accumulate, part, NULL);
        for (int64_t c = 0; c < o->count; c++) {
            sum[c] += part[c];
        }
    }
}

/* ---- values as they are ---- */

/* Adds four rows to the sums of their columns. */
static void add_four_rows(const real *x, int64_t apart, int64_t columns, double *restrict sum)
{
    const real *x1 = x + apart, *x2 = x1 + apart, *x3 = x2 + apart;
    for (int64_t c = 0; c < columns; c++) {
        sum[c] += ((double)x[c] + (double)x1[c]) + ((double)x2[c] + (double)x3[c]);
    }
}

/* Returns the sum of a row. */
static double sum_of_values(const real *x, int64_t n)
{
    tg_four_lanes lane[FOLD_LANES / 4] = {{0}};
    double rest = 0;
    int64_t i = 0;
    for (; i + FOLD_LANES <= n; i += FOLD_LANES) {
        for (int k = 0; k < FOLD_LANES / 4; k++) {
            add_four_values(x + i + 4 * k, &lane[k]);
        }
    }
    for (; i + 4 <= n; i += 4) {
        add_four_values(x + i, &lane[0]);
    }
    for (; i < n; i++) {
        rest += (double)x[i];
    }
    const tg_four_lanes four =
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    return ((four[0] + four[1]) + (four[2] + four[3])) + rest;
}

/* The same as add_tile_terms: compilers read eight floats at a time there, for which they need more instructions. */
void KERNEL(tg_add_tile)(const tg_tile *tile, double *sum)
{
    const real *x = tile->x;
    int64_t row = 0;
    for (; tile->by_columns && row + 4 <= tile->rows; row += 4, x += 4 * tile->apart) {
        add_four_rows(x, tile->apart, tile->columns, sum);
    }
    for (; row < tile->rows; row++, x += tile->apart) {
        if (tile->by_columns) {
            add_to_sums(x, tile->columns, sum);
        } else {
            sum[row] += sum_of_values(x, tile->columns);
        }
    }
}

static inline real signed_value(real x, const tg_reduce_attributes *a)
{
    return (real)a->sign * x;
}

void KERNEL(tg_find_extremes)(const tg_tile *tile, double *most)
{
    find_largest(tile, signed_value, most);
}

/* ---- calls ---- */

static tg_reduce_call reduction_of(const tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_reduce_call r = {.call = call,
                        .attributes = a,
                        .x = tg_values(x),
                        .dtype = x->dtype,
                        .y = tg_values(call->outputs[0]),
                        .kept = tg_walk_new(),
                        .reduced = tg_walk_new(),
                        .block = TG_REDUCE_BLOCK};
    tg_shape shape = tg_shape_of(x);
    int64_t contiguous[TG_MAX_RANK];
    tg_contiguous_strides(&shape, contiguous);
    for (int axis = 0; axis < x->rank; axis++) {
        tg_walk_add_axis(a->reduced >> axis & 1 ? &r.reduced : &r.kept, x->shape[axis], x->strides[axis],
                         contiguous[axis]);
    }
    r.blocks = tg_reduce_blocks(r.reduced.count);
    return r;
}

/* Takes the first of the work [at,end): as many outputs of one block as fit. */
static void set_outputs(tg_outputs *o, const tg_reduce_call *r, int64_t at, int64_t end)
{
    const int64_t outputs = r->kept.count, block = at / outputs;
    o->r = r;
    o->begin = at - block * outputs;
    o->first = block * r->block;
    o->length = r->blocks == 1 ? r->reduced.count : least(r->reduced.count - o->first, r->block);
    o->count = least(least(end - at, outputs - o->begin),
                     r->by_columns ? FOLD : least(FOLD, 1 + VALUES_IN_CACHE / (1 + o->length)));
    const tg_cursor kept = tg_walk_begin(&r->kept, o->begin);
    const int64_t run = tg_walk_run(&r->kept, &kept, o->count);
    if (r->by_columns && run >= MANY_OUTPUTS) {
        o->count = run;
    }
}

/* Runs the body for all outputs of all blocks: block b of output o is b * outputs + o. */
static void over_blocks(const tg_reduce_call *r, loop_body *body, void *context)
{
    tg_parallel_for(r->kept.count * r->blocks, 1 + TG_GRAIN / (1 + least(r->reduced.count, r->block)), body, context);
}

static void write_outputs(const tg_outputs *o)
{
    if (o->r->reducer->project) {
        o->r->reducer->project(o);
        return;
    }
    for (int64_t c = 0; c < o->count; c++) {
        o->r->results[o->begin + c] = (tg_partial){o->center[c], o->sum[c]};
    }
}

static void reduce_outputs(void *context, int64_t begin, int64_t end)
{
    const tg_reduce_call *r = context;
    tg_outputs o;
    for (int64_t at = begin; at < end; at += o.count) {
        set_outputs(&o, r, at, end);
        r->reducer->reduce(&o);
        if (r->blocks == 1) {
            write_outputs(&o);
            continue;
        }
        for (int64_t c = 0; c < o.count; c++) {
            r->partials[at + c] = (tg_partial){o.center[c], o.sum[c]};
        }
    }
}

/* Combines the blocks of each output in order. */
static void combine_blocks(void *context, int64_t begin, int64_t end)
{
    const tg_reduce_call *r = context;
    tg_outputs o = {.r = r, .length = r->reduced.count};
    for (o.begin = begin; o.begin < end; o.begin += o.count) {
        o.count = least(end - o.begin, FOLD);
        for (int64_t c = 0; c < o.count; c++) {
            tg_partial sofar = r->partials[o.begin + c];
            for (int64_t block = 1; block < r->blocks; block++) {
                int64_t first = block * r->block, more = least(r->reduced.count - first, r->block);
                r->reducer->combine(&sofar, (double)first, &r->partials[block * r->kept.count + o.begin + c],
                                    (double)more);
            }
            o.center[c] = sofar.center;
            o.sum[c] = sofar.sum;
        }
        write_outputs(&o);
    }
}

void KERNEL(tg_reduce_walks)(tg_reduce_call *r, const tg_reducer *reducer)
{
    const int64_t kept = llabs(tg_walk_stride(&r->kept)), reduced = llabs(tg_walk_stride(&r->reduced));
    r->reducer = reducer;
    r->by_columns =
        r->kept.count > 1 &&
        (r->part ? kept == 1 : r->reduced.count < LANES || (r->kept.count >= MANY_OUTPUTS && kept < reduced));
    over_blocks(r, reduce_outputs, r);
    if (r->blocks > 1) {
        tg_parallel_for(r->kept.count, TG_GRAIN / r->blocks + 1, combine_blocks, r);
    }
}

/* Returns the reducers of the op. */
static const tg_reducers *reducers_of(const tg_op_call *call)
{
    const tg_reduce_op *op = (const tg_reduce_op *)call->op;
    /* NOLINTNEXTLINE(misc-redundant-expression): TG_F32 in one of two compilations */
    return (real_dtype == TG_F32 ? op->f32 : op->f64)[tg_level()];
}

void KERNEL(tg_reduce_forward)(const tg_op_call *call)
{
    tg_reduce_call r = reduction_of(call);
    r.partials = call->scratch;
    KERNEL(tg_reduce_walks)(&r, reducers_of(call)->forward);
}

/* ---- backward ---- */

static void differentiate_outputs(void *context, int64_t begin, int64_t end)
{
    const tg_reduce_call *r = context;
    tg_outputs o;
    double scale[FOLD];
    for (int64_t at = begin; at < end; at += o.count) {
        set_outputs(&o, r, at, end);
        r->reducer->prepare(&o, scale);
        visit_tiles(&o, o.first, o.length, NULL, NULL, scale);
    }
}

/* If the reducer has a function `reduce`, it computes the results before, in the scratch that tg_reduce_twice_shape
 * declares. */
void KERNEL(tg_reduce_backward)(const tg_op_call *call)
{
    const tg_reducer *reducer = reducers_of(call)->backward;
    tg_reduce_call r = reduction_of(call);
    r.reducer = reducer;
    if (reducer->reduce) {
        r.results = call->scratch;
        r.partials = r.results + r.kept.count;
        KERNEL(tg_reduce_walks)(&r, reducer);
    }
    r.by_columns = r.kept.count > 1 && tg_walk_other_stride(&r.kept) == 1;
    over_blocks(&r, differentiate_outputs, &r);
}
