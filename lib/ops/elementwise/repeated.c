/* repeated: the sums that repeated.h describes.
 *
 * Neighboring axes are merged, so that axes along which x was repeated and axes of x take turns. The last one decides:
 *
 *   (.., summed, kept)   an output is a column: rows of y, as many as a part holds, are added side by side
 *   (.., kept, summed)   an output is a row: the outputs whose rows fit into a part are computed together
 *
 * Both visit their values of y in steps, parts of y that are contiguous. Threads divide the outputs. If there are few
 * of them, they divide the steps instead, into a fixed number of shares.
 */
#include "ops/elementwise/repeated.h"

#include "ops/lanes.h"

enum { PART = TG_GRADIENT_PART, SHARES = 8, FEW = 256 };

typedef struct sums {
    tg_walk kept, summed; /* the axes before the last one: the strides of y */
    int64_t width;        /* of the last axis */
    int64_t lines;        /* outputs of a row (kept, summed), or rows (summed, kept), that are contiguous in y */
    bool columns;         /* the last axis is kept */
    int64_t outputs, steps;
    tg_gradient_part *part;
    const void *context;
    bool overwrite;
    real *dx;
    double *shares; /* (SHARES, outputs), if there are few */
} sums;

/* Returns the gradients of n values of y, in the buffer unless they exist in memory. */
static const real *part_at(const sums *s, int64_t begin, int64_t n, real *buffer)
{
    if (!s->part) {
        return (const real *)s->context + begin;
    }
    s->part(s->context, begin, n, buffer);
    return buffer;
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return (a - 1) / b + 1;
}

/* (.., kept, summed): sum[i] = the values of output first + i in the steps begin .. end - 1. */
static void sum_rows(const sums *s, int64_t first, int64_t count, int64_t begin, int64_t end, double *sum)
{
    real buffer[PART];
    int64_t per_row = s->width < PART ? 1 : quotient_up(s->width, PART);
    int64_t offset = tg_walk_begin(&s->kept, first).offset;
    tg_cursor at = tg_walk_begin(&s->summed, begin / per_row);
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t step = begin; step < end; step++) {
        int64_t column = step % per_row * PART;
        int64_t length = s->width - column < PART ? s->width - column : PART;
        const real *dy = part_at(s, offset + at.offset + column, count * length, buffer);
        for (int64_t i = 0; i < count; i++) {
            sum[i] += row_sum(dy + i * length, length);
        }
        if (column + length == s->width) {
            tg_walk_advance(&s->summed, &at, 1);
        }
    }
}

/* (.., summed, kept): the same for columns of one row of outputs. */
static void sum_columns(const sums *s, int64_t first, int64_t count, int64_t begin, int64_t end, double *sum)
{
    real buffer[PART];
    double sides[PART], *side = s->lines > 1 ? sides : sum;
    int64_t rows = s->summed.size[s->summed.rank - 1], per_block = quotient_up(rows, s->lines);
    int64_t offset = tg_walk_begin(&s->kept, first / s->width).offset + first % s->width;
    tg_cursor at = tg_walk_begin(&s->summed, begin / per_block * rows + begin % per_block * s->lines);
    memset(side, 0, (size_t)(count * s->lines) * sizeof *side);
    for (int64_t step = begin; step < end; step++) {
        int64_t lines = tg_walk_run(&s->summed, &at, s->lines);
        const real *dy = part_at(s, offset + at.offset, count * lines, buffer);
        for (int64_t i = 0; i < count * lines; i++) {
            side[i] += (double)dy[i];
        }
        tg_walk_advance(&s->summed, &at, lines);
    }
    for (int64_t line = 0; line < s->lines && s->lines > 1; line++) {
        for (int64_t i = 0; i < count; i++) {
            sum[i] = (line > 0 ? sum[i] : 0) + side[line * count + i];
        }
    }
}

/* Returns the number of outputs from `first` on, at most `most`, that are computed together. */
static int64_t together(const sums *s, int64_t first, int64_t most)
{
    int64_t row = s->columns ? s->width : s->kept.size[s->kept.rank - 1], left = row - first % row;
    int64_t limit = s->columns ? PART : s->lines;
    limit = left < limit ? left : limit;
    return limit < most ? limit : most;
}

static int64_t sum_outputs(const sums *s, int64_t first, int64_t most, int64_t begin, int64_t end, double *sum)
{
    int64_t count = together(s, first, most);
    (s->columns ? sum_columns : sum_rows)(s, first, count, begin, end, sum);
    return count;
}

/* Computes a range of rows of outputs, if several rows of y are added side by side, else of outputs. */
static void run_outputs(void *context, int64_t begin, int64_t end)
{
    const sums *s = context;
    int64_t unit = s->columns && s->lines > 1 ? s->width : 1;
    double sum[PART];
    for (int64_t at = begin * unit, count; at < end * unit; at += count) {
        count = sum_outputs(s, at, end * unit - at, 0, s->steps, sum);
        for (int64_t i = 0; i < count; i++) {
            s->dx[at + i] = accumulated(s->overwrite, s->dx[at + i], (real)sum[i]);
        }
    }
}

static void run_shares(void *context, int64_t begin, int64_t end)
{
    const sums *s = context;
    for (int64_t share = begin; share < end; share++) {
        int64_t from = s->steps / SHARES * share, to = share == SHARES - 1 ? s->steps : from + s->steps / SHARES;
        double *sum = s->shares + share * s->outputs;
        for (int64_t at = 0; at < s->outputs;) {
            at += sum_outputs(s, at, s->outputs - at, from, to, sum + at);
        }
    }
}

static void run_few(sums *s)
{
    double shares[SHARES * FEW];
    s->shares = shares;
    tg_parallel_for(SHARES, 1, run_shares, s);
    for (int64_t i = 0; i < s->outputs; i++) {
        double sum = 0;
        for (int share = 0; share < SHARES; share++) {
            sum += shares[share * s->outputs + i];
        }
        s->dx[i] = accumulated(s->overwrite, s->dx[i], (real)sum);
    }
}

void KERNEL(tg_sum_repeated)(const tg_shape *shape, const int64_t *strides, tg_gradient_part *part, const void *context,
                             bool overwrite, void *dx)
{
    int64_t own[TG_MAX_RANK];
    tg_walk all = tg_walk_new();
    tg_contiguous_strides(shape, own);
    for (int axis = 0; axis < shape->rank; axis++) {
        tg_walk_add_axis(&all, shape->size[axis], own[axis], strides[axis]);
    }
    int last = all.rank - 1;
    sums s = {.kept = tg_walk_new(),
              .summed = tg_walk_new(),
              .width = all.size[last],
              .columns = all.other_stride[last] != 0,
              .part = part,
              .context = context,
              .overwrite = overwrite,
              .dx = dx};
    for (int axis = 0; axis < last; axis++) {
        tg_walk_add_axis(all.other_stride[axis] ? &s.kept : &s.summed, all.size[axis], all.stride[axis], 0);
    }
    const tg_walk *next = s.columns ? &s.summed : &s.kept;
    int64_t lines = next->size[next->rank - 1], fitting = s.width < PART ? PART / s.width : 1;
    s.lines = lines < fitting ? lines : fitting;
    s.outputs = s.kept.count * (s.columns ? s.width : 1);
    s.steps = s.columns ? s.summed.count / lines * quotient_up(lines, s.lines)
                        : s.summed.count * (s.width < PART ? 1 : quotient_up(s.width, PART));
    int64_t unit = s.columns && s.lines > 1 ? s.width : 1, per_unit = all.count / s.outputs * unit;
    if (s.outputs <= FEW && s.steps >= SHARES && all.count >= 2 * TG_GRAIN) {
        run_few(&s);
    } else {
        int64_t grain = 1 + TG_GRAIN / per_unit;
        tg_parallel_for(s.outputs / unit, s.columns && unit == 1 && grain < 16 ? 16 : grain, run_outputs, &s);
    }
}
