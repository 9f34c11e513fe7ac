/* panel: which panels cover x, and the order in which they are read (panel.h). */
#include "ops/reduce/panel.h"

#include <stdlib.h>

/* Fewer neighboring outputs than this, or fewer values of an output than there are lanes, are no long run. */
#define LONG_ROW 16
#define LONG_RUN 64

/* Longer rows are not added side by side: of values in memory, and of values that are computed, a part at a time. */
#define LONG_LINE (LONG_RUN - 1)
#define LONG_COMPUTED_LINE (PANEL / 2)

/* The bytes of a panel that is read by rows, so that a second visit finds them in the processor's cache. One that is
 * read by columns is as wide as possible: for long columns, wide rows save more than a second visit costs. */
#define BYTES_BY_ROWS (1 << 17)

/* ---- reading x ---- */

/* Copies n values as reals: those at offsets[i], or, if that is NULL, at i * stride. */
static inline void gather(const tg_reduce_call *r, int64_t start, const int64_t *offsets, int64_t stride, int64_t n,
                          real *restrict out)
{
    if (r->dtype == TG_U8) {
        const uint8_t *values = (const uint8_t *)r->x + start;
        for (int64_t i = 0; i < n; i++) {
            out[i] = values[offsets ? offsets[i] : i * stride];
        }
    } else if (r->dtype == TG_I32) {
        const int32_t *values = (const int32_t *)r->x + start;
        for (int64_t i = 0; i < n; i++) {
            out[i] = (real)values[offsets ? offsets[i] : i * stride];
        }
    } else {
        const real *values = (const real *)r->x + start;
        for (int64_t i = 0; i < n; i++) {
            out[i] = values[offsets ? offsets[i] : i * stride];
        }
    }
}

/* The same for one stride; those that vectorize are constants. */
static void gather_run(const tg_reduce_call *r, int64_t start, int64_t stride, int64_t n, real *out)
{
    switch (stride) {
    case 1: gather(r, start, NULL, 1, n, out); break;
    case 2: gather(r, start, NULL, 2, n, out); break;
    case -1: gather(r, start, NULL, -1, n, out); break;
    default: gather(r, start, NULL, stride, n, out);
    }
}

/* Returns n values side by side as reals: in place, or in the buffer. */
static const real *row_at(const tg_panel *p, int64_t offset, int64_t n, real *buffer)
{
    if (p->r->part) {
        p->r->part(p->r->x, offset, n, buffer);
    } else if (p->r->dtype == REAL_DTYPE) {
        return (const real *)p->r->x + offset;
    } else {
        gather_run(p->r, offset, 1, n, buffer);
    }
    return buffer;
}

int64_t KERNEL(tg_panel_rows)(const tg_panel *p, tg_cursor *at, int64_t left, real (*buffers)[PANEL], const real **rows)
{
    int64_t n = least(left, PANEL_ROWS);
    for (int64_t i = 0; i < n; i++) {
        rows[i] = buffers[i];
        if (p->r->is_direct) {
            rows[i] = (const real *)p->r->x + p->offset[0] + at->offset;
        } else if (p->apart != 0) {
            gather_run(p->r, p->offset[0] + at->offset, p->apart, p->width, buffers[i]);
        } else {
            gather(p->r, at->offset, p->offset, 0, p->width, buffers[i]);
        }
        tg_walk_advance(&p->r->reduced, at, 1);
    }
    return n;
}

int64_t KERNEL(tg_panel_lines)(const tg_panel *p, tg_cursor *at, int64_t left, real (*buffers)[PANEL],
                               const real **rows, int64_t *width)
{
    int64_t run = tg_walk_run(&p->r->reduced, at, left), lines = least(run, p->r->lines);
    int64_t n = least(run / lines, PANEL_ROWS);
    *width = lines * p->width;
    for (int64_t i = 0; i < n; i++) {
        rows[i] = row_at(p, p->offset[0] + at->offset, *width, buffers[i]);
        tg_walk_advance(&p->r->reduced, at, lines);
    }
    return n;
}

int64_t KERNEL(tg_panel_run)(const tg_panel *p, int64_t column, tg_cursor *at, int64_t left, real *buffer,
                             tg_runs *runs)
{
    const tg_walk *walk = &p->r->reduced;
    const int last = walk->rank - 1;
    *runs = (tg_runs){.x = buffer, .count = 1};
    if (p->r->part) {
        runs->n = least(tg_walk_run(walk, at, left), PANEL);
        p->r->part(p->r->x, p->offset[column] + at->offset, runs->n, buffer);
        tg_walk_advance(walk, at, runs->n);
        return runs->n;
    }
    if (p->r->is_direct) {
        runs->x = (const real *)p->r->x + p->offset[column] + at->offset;
        runs->n = tg_walk_run(walk, at, left);
        if (last > 0 && runs->n == walk->size[last]) { /* all whole runs of the axis before the last */
            runs->count = least(left / runs->n, walk->size[last - 1] - at->index[last - 1]);
            runs->apart = walk->stride[last - 1];
            at->index[last - 1] += runs->count - 1;
            at->offset += (runs->count - 1) * runs->apart;
        }
        tg_walk_advance(walk, at, runs->n);
        return runs->count * runs->n;
    }
    while (runs->n < left && runs->n < PANEL) {
        int64_t run = tg_walk_run(walk, at, least(left, PANEL) - runs->n);
        gather_run(p->r, p->offset[column] + at->offset, tg_walk_stride(walk), run, buffer + runs->n);
        tg_walk_advance(walk, at, run);
        runs->n += run;
    }
    return runs->n;
}

/* ---- panels ---- */

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
                        .block = TG_REDUCE_BLOCK,
                        .lines = 1,
                        .unit = 1};
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

/* Returns the number of columns of a panel. */
static int64_t width_of(const tg_reduce_call *r, int64_t rows)
{
    if (r->lines > 1) {
        return r->unit;
    }
    return r->by_columns ? PANEL : least(PANEL, BYTES_BY_ROWS / ((rows + 1) * (int64_t)sizeof(real)) + 1);
}

/* Writes the first unit of [at,end) as a panel: as many outputs of one block as fit. */
static void set_panel(tg_panel *p, const tg_reduce_call *r, int64_t at, int64_t end, bool backward)
{
    const int64_t outputs = r->kept.count, block = at / outputs;
    p->r = r;
    p->output = at - block * outputs;
    p->first = block * r->block;
    p->count = r->blocks == 1 ? r->reduced.count : least(r->reduced.count - p->first, r->block);
    int64_t width = least(least(end - at, outputs - p->output), width_of(r, p->count));
    tg_cursor kept = tg_walk_begin(&r->kept, p->output);
    if (r->part || (r->by_columns && (r->is_direct || backward))) {
        width = tg_walk_run(&r->kept, &kept, width); /* the columns are side by side, or equally far apart */
    }
    p->width = width;
    p->apart = tg_walk_run(&r->kept, &kept, width) == width ? tg_walk_stride(&r->kept) : 0;
    const bool is_row = r->by_columns && p->apart != 0; /* only the first offset is read */
    for (int64_t c = 0, run, known = is_row ? 1 : width; c < known; c += run) {
        run = tg_walk_run(&r->kept, &kept, known - c);
        for (int64_t i = 0; i < run; i++) {
            p->offset[c + i] = kept.offset + i * tg_walk_stride(&r->kept);
        }
        for (int64_t i = 0; backward && i < run; i++) {
            p->gradient_offset[c + i] = kept.other_offset + i * tg_walk_other_stride(&r->kept);
        }
        tg_walk_advance(&r->kept, &kept, run);
    }
}

/* Runs the body for all outputs of all blocks: block b of output o is b * outputs + o. */
static void over_blocks(const tg_reduce_call *r, loop_body *body, void *context)
{
    int64_t grain = TG_GRAIN / (1 + least(r->reduced.count, r->block)) / r->unit;
    tg_parallel_for(r->kept.count * r->blocks / r->unit, grain < 1 ? 1 : grain, body, context);
}

/* ---- forward ---- */

static void reduce_panels(void *context, int64_t begin, int64_t end)
{
    const tg_reduce_call *r = context;
    tg_panel p;
    tg_columns columns;
    for (int64_t at = begin * r->unit; at < end * r->unit; at += p.width) {
        set_panel(&p, r, at, end * r->unit, false);
        r->reducer->visit(&p, &columns);
        if (r->blocks == 1) {
            r->reducer->finish(r, p.output, p.width, &columns);
            continue;
        }
        for (int64_t c = 0; c < p.width; c++) {
            r->partials[at + c] = (tg_partial){columns.center[c], columns.sum[c]};
        }
    }
}

/* Joins the blocks of each output in order. */
static void join_blocks(void *context, int64_t begin, int64_t end)
{
    const tg_reduce_call *r = context;
    tg_columns columns;
    for (int64_t at = begin, width; at < end; at += width) {
        width = least(end - at, PANEL);
        for (int64_t c = 0; c < width; c++) {
            tg_partial sofar = r->partials[at + c];
            for (int64_t block = 1; block < r->blocks; block++) {
                int64_t first = block * r->block, more = least(r->reduced.count - first, r->block);
                r->reducer->join(&sofar, (double)first, &r->partials[block * r->kept.count + at + c], (double)more);
            }
            columns.center[c] = sofar.center;
            columns.sum[c] = sofar.sum;
        }
        r->reducer->finish(r, at, width, &columns);
    }
}

/* Returns how many rows are added side by side: those that fit into a panel, if they are short and follow each other.
 */
static int64_t lines_of(const tg_reduce_call *r)
{
    int64_t width = r->kept.size[r->kept.rank - 1];
    bool is_row =
        r->reduced.count > 1 && width > 1 && tg_walk_stride(&r->kept) == 1 && tg_walk_stride(&r->reduced) == width;
    bool is_short = width <= (r->part ? LONG_COMPUTED_LINE : LONG_LINE);
    return is_row && is_short ? least(PANEL / width, r->reduced.size[r->reduced.rank - 1]) : 1;
}

void KERNEL(tg_reduce_walks)(tg_reduce_call *r, const tg_reducer *reducer)
{
    int64_t distance = r->kept.count > 1 ? llabs(tg_walk_stride(&r->kept)) : INT64_MAX;
    r->reducer = reducer;
    r->lines = lines_of(r);
    r->unit = r->lines > 1 ? r->kept.size[r->kept.rank - 1] : 1;
    r->by_columns = !r->part && (r->reduced.count < PANEL_LANES ||
                                 (r->kept.count >= LONG_ROW && distance < llabs(tg_walk_stride(&r->reduced))));
    const tg_walk *inner = r->by_columns ? &r->kept : &r->reduced;
    r->is_direct = r->dtype == REAL_DTYPE && tg_walk_stride(inner) == 1 &&
                   inner->size[inner->rank - 1] >= (r->by_columns ? LONG_ROW : least(inner->count, LONG_RUN));
    over_blocks(r, reduce_panels, r);
    if (r->blocks > 1) {
        tg_parallel_for(r->kept.count, TG_GRAIN / r->blocks + 1, join_blocks, r);
    }
    r->lines = r->unit = 1;
}

void KERNEL(tg_reduce_forward)(const tg_op_call *call, const tg_reducer *reducer)
{
    tg_reduce_call r = reduction_of(call);
    r.partials = call->scratch;
    KERNEL(tg_reduce_walks)(&r, reducer);
}

/* ---- backward ---- */

typedef struct spread_loop {
    tg_reduce_call r;
    tg_spread *spread;
} spread_loop;

static void spread_panels(void *context, int64_t begin, int64_t end)
{
    const spread_loop *l = context;
    tg_panel p;
    for (int64_t at = begin; at < end; at += p.width) {
        set_panel(&p, &l->r, at, end, true);
        l->spread(&p);
    }
}

void KERNEL(tg_reduce_backward)(const tg_op_call *call, const tg_reducer *reducer, tg_spread *spread)
{
    spread_loop l = {reduction_of(call), spread};
    tg_reduce_call *r = &l.r;
    r->dy = call->output_gradients[0];
    if (reducer) {
        r->results = call->scratch;
        r->partials = r->results + r->kept.count;
        KERNEL(tg_reduce_walks)(r, reducer);
    }
    r->by_columns = r->kept.count > 1 && tg_walk_other_stride(&r->kept) == 1;
    r->is_direct = tg_walk_stride(r->by_columns ? &r->kept : &r->reduced) == 1;
    over_blocks(r, spread_panels, &l);
}
