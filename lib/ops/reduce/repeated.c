/* repeated: the sums that repeated.h describes, as a reduction of a contiguous tensor. Few outputs are cut into a fixed
 * number of blocks, so that threads divide them and no scratch is needed. */
#include "ops/reduce/repeated.h"

#include "ops/reduce/sums.h"

enum { SHARES = 8, FEW = 256, GROUP = 16, WIDE = 4096 };

_Static_assert(PANEL == TG_GRADIENT_PART, "a part is a panel's row");

/* Sums columns of a few values, which follow each other: those of many columns are computed as one part. */
static void sum_few_values(const tg_panel *p, double *sum)
{
    const int64_t most = PANEL / p->count;
    for (int64_t first = 0, columns; first < p->width; first += columns) {
        real values[PANEL];
        columns = least(p->width - first, most);
        p->r->part(p->r->x, p->offset[first], columns * p->count, values);
        for (int64_t c = 0; c < columns; c++) {
            sum[first + c] = row_sum(values + c * p->count, p->count);
        }
    }
}

/* Sums columns whose runs follow each other: those of some columns are computed as one part. */
static void sum_groups(const tg_panel *p, int64_t run, double *sum)
{
    const tg_reduce_call *r = p->r;
    const int64_t most = least(GROUP, PANEL / run);
    for (int64_t first = 0, columns; first < p->width; first += columns) {
        real values[PANEL];
        double lanes[GROUP][PANEL_LANES];
        tg_cursor at = tg_walk_begin(&r->reduced, p->first);
        columns = least(p->width - first, most);
        memset(lanes, 0, (size_t)columns * sizeof *lanes);
        for (int64_t done = 0, n; done < p->count; done += n) {
            n = tg_walk_run(&r->reduced, &at, p->count - done);
            r->part(r->x, p->offset[first] + at.offset, (columns - 1) * run + n, values);
            for (int64_t c = 0; c < columns; c++) {
                add_runs(&(tg_runs){values + c * run, n, 1, 0}, true, value_term, 0, 0, lanes[c]);
            }
            tg_walk_advance(&r->reduced, &at, n);
        }
        for (int64_t c = 0; c < columns; c++) {
            sum[first + c] = join_lanes(lanes[c]);
        }
    }
}

/* Adds up long rows side by side, as they follow each other in memory. */
static void sum_wide_rows(void *context, int64_t begin, int64_t end)
{
    const tg_reduce_call *r = context;
    real buffers[PANEL_ROWS][PANEL], *dx = r->y;
    double sum[WIDE];
    for (int64_t at = begin, width; at < end; at += width) {
        tg_cursor kept = tg_walk_begin(&r->kept, at), row = tg_walk_begin(&r->reduced, 0);
        width = tg_walk_run(&r->kept, &kept, least(end - at, r->reduced.count < 64 ? PANEL : WIDE));
        memset(sum, 0, (size_t)width * sizeof *sum);
        for (int64_t left = r->reduced.count, count; left > 0; left -= count) {
            int64_t offset[PANEL_ROWS];
            count = least(left, PANEL_ROWS);
            for (int64_t i = 0; i < count; i++) {
                offset[i] = kept.offset + row.offset;
                tg_walk_advance(&r->reduced, &row, 1);
            }
            for (int64_t c = 0; c < width; c += PANEL) {
                const real *rows[PANEL_ROWS];
                int64_t n = least(width - c, PANEL);
                for (int64_t i = 0; i < count; i++) {
                    rows[i] = r->part ? buffers[i] : (const real *)r->x + offset[i] + c;
                    if (r->part) {
                        r->part(r->x, offset[i] + c, n, buffers[i]);
                    }
                }
                add_rows(rows, count, n, true, value_term, 0, NULL, sum + c);
            }
        }
        for (int64_t c = 0; c < width; c++) {
            dx[at + c] = accumulated(!r->add, dx[at + c], (real)sum[c]);
        }
    }
}

static void visit_repeated(const tg_panel *p, tg_columns *columns)
{
    const tg_walk *reduced = &p->r->reduced;
    int64_t run = reduced->size[reduced->rank - 1];
    if (!p->r->part || p->r->lines > 1 || p->apart != run || run > PANEL || p->count == 0) {
        panel_sum(p, true, value_term, 0, NULL, columns->sum);
    } else if (reduced->rank == 1 && run < PANEL_LANES) {
        sum_few_values(p, columns->sum);
    } else {
        sum_groups(p, run, columns->sum);
    }
}

static void finish_repeated(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    real *dx = (real *)r->y + at;
    for (int64_t c = 0; c < width; c++) {
        dx[c] = accumulated(!r->add, dx[c], (real)columns->sum[c]);
    }
}

static const tg_reducer repeated_reducer = {visit_repeated, join_sum, finish_repeated};

void KERNEL(tg_sum_repeated)(const tg_shape *shape, const int64_t *strides, tg_gradient_part *part, const void *context,
                             bool overwrite, void *dx)
{
    tg_partial partials[SHARES * FEW];
    tg_reduce_call r = {.x = context,
                        .dtype = REAL_DTYPE,
                        .part = part,
                        .y = dx,
                        .add = !overwrite,
                        .kept = tg_walk_new(),
                        .reduced = tg_walk_new(),
                        .blocks = 1,
                        .partials = partials};
    int64_t own[TG_MAX_RANK];
    tg_contiguous_strides(shape, own);
    for (int axis = 0; axis < shape->rank; axis++) {
        tg_walk_add_axis(strides[axis] == 0 ? &r.reduced : &r.kept, shape->size[axis], own[axis], 0);
    }
    int64_t outputs = r.kept.count, count = r.reduced.count;
    /* a block is at least some rows, or a part of the values of a column */
    const int64_t block = tg_walk_stride(&r.kept) == 1 ? SHARES : PANEL;
    if (outputs > 0 && outputs <= FEW && count >= SHARES * block && outputs * count >= 2 * TG_GRAIN) {
        r.blocks = SHARES;
    }
    if (r.blocks == 1 && tg_walk_stride(&r.kept) == 1 && r.kept.size[r.kept.rank - 1] > FEW) {
        tg_parallel_for(outputs, 16 + TG_GRAIN / (1 + count), sum_wide_rows, &r);
        return;
    }
    r.block = (count - 1) / r.blocks + 1;
    KERNEL(tg_reduce_walks)(&r, &repeated_reducer);
}
