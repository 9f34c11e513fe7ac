/* panel (private): the loops of reductions over some axes of x, which may have any strides.
 *
 * The axes of x are kept or reduced. A panel is some neighboring outputs, its columns, and below each other the values
 * that each of them reduces, its rows. Memory is read in long runs and in vectors, whichever of the two is contiguous:
 *   - by columns: a row of the panel is added to the row of the columns' sums, value by value;
 *   - by rows: the values of one output are added to PANEL_LANES sums, which are then joined in a fixed tree.
 * Rows and values with other strides, and integers, are copied into a short buffer first. Where the columns of the
 * panel are few and its rows follow each other, as in a matrix of three columns, some rows are added side by side.
 *
 * A long reduction is cut into blocks of TG_REDUCE_BLOCK values, and each has a result of its own. Threads divide the
 * outputs and the blocks. So the order of all additions depends on the shape and the strides of x alone, and the bits
 * are the same for each level and any number of threads.
 *
 * An op gives functions of numbers: the term of a value, which is summed, or the gradient of a value. The loops are
 * compiled for each of them (TG_FOR_EACH_OP).
 */
#ifndef TG_OPS_REDUCE_PANEL_H
#define TG_OPS_REDUCE_PANEL_H

#include "base/least.h"
#include "ops/lanes.h"
#include "ops/loop.h"
#include "ops/reduce/reduce.h"

/* The largest number of columns, and of values in a buffer. */
#define PANEL 512
/* The number of rows that are added to the sums of the columns at once. */
#define PANEL_ROWS 4
#define PANEL_LANES MAX_LANES

/* Computes n values from `begin` on, at most PANEL, as reals. */
typedef void tg_values_part(const void *context, int64_t begin, int64_t n, void *out);

/* A call: the walks have the strides of x and, as the other strides, those of its gradient. */
typedef struct tg_reduce_call {
    const tg_op_call *call;
    const tg_reduce_attributes *attributes;
    const void *x;
    tg_dtype dtype;       /* of x */
    tg_values_part *part; /* not NULL: computes values of x, which is contiguous and not in memory; x is its context */
    void *y;
    bool add;       /* results are added to y */
    const real *dy; /* in backward */
    tg_walk kept, reduced;
    int64_t block, blocks; /* the most values of a block, and the number of blocks of an output */
    bool by_columns;       /* in backward: the order of the gradient */
    bool is_direct;        /* rows, or the values of an output, are read in place */
    int64_t lines;         /* rows that are added side by side */
    int64_t unit;          /* a multiple of this number of outputs is one piece of work */
    const struct tg_reducer *reducer;
    tg_partial *partials; /* of the blocks; NULL for one block */
    tg_partial *results;  /* of the outputs, for backward; NULL in forward */
} tg_reduce_call;

/* A part of x. */
typedef struct tg_panel {
    const tg_reduce_call *r;
    int64_t output, width;          /* the outputs */
    int64_t first, count;           /* the values of each of them */
    int64_t offset[PANEL];          /* of the first value of each output in x */
    int64_t apart;                  /* of these, or 0 if they are not a run */
    int64_t gradient_offset[PANEL]; /* the same in the gradient; in backward only */
} tg_panel;

/* What an op knows of each column of a panel after it has visited its values: a maximum or a mean, and a sum. */
typedef struct tg_columns {
    double center[PANEL], sum[PANEL];
} tg_columns;

/* An op. */
typedef struct tg_reducer {
    /* visits the values of a panel */
    void (*visit)(const tg_panel *p, tg_columns *columns);
    /* adds a block of `more` values to what is known of the `count` values before it */
    void (*join)(tg_partial *sofar, double count, const tg_partial *block, double more);
    /* writes the outputs from `at` on */
    void (*finish)(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns);
} tg_reducer;

/* Join sums, and maxima. */
static inline void join_sum(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    (void)count, (void)more;
    sofar->sum += block->sum;
}

static inline void join_max(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    (void)count, (void)more;
    bool is_larger = (block->center > sofar->center) | (block->center != block->center);
    sofar->center = is_larger ? block->center : sofar->center;
}

/* Finishes a reduction for backward. */
static inline void keep_columns(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    for (int64_t c = 0; c < width; c++) {
        r->results[at + c] = (tg_partial){columns->center[c], columns->sum[c]};
    }
}

/* Computes the outputs for walks and blocks that are set. */
void KERNEL(tg_reduce_walks)(tg_reduce_call *r, const tg_reducer *reducer);

/* Computes the outputs of a call. */
void KERNEL(tg_reduce_forward)(const tg_op_call *call, const tg_reducer *reducer);

/* Calls `spread` for panels that cover the gradient of x, with the number of values of an output. If `reducer` is not
 * NULL, it computes the results before, in the scratch that tg_reduce_twice_shape declares. */
typedef void tg_spread(const tg_panel *p);
void KERNEL(tg_reduce_backward)(const tg_op_call *call, const tg_reducer *reducer, tg_spread *spread);

/* Sets rows[] to the next rows of the panel, at most PANEL_ROWS of `left`, in place or in buffers. Returns their
 * number, and moves the cursor behind them. */
int64_t KERNEL(tg_panel_rows)(const tg_panel *p, tg_cursor *at, int64_t left, real (*buffers)[PANEL],
                              const real **rows);

/* Sets rows[] to the next rows of p->r->lines rows of the panel each, which are side by side, and *width to the number
 * of their values. The last row of a run has fewer, and is alone. Returns the number of rows, and moves the cursor
 * behind them. */
int64_t KERNEL(tg_panel_lines)(const tg_panel *p, tg_cursor *at, int64_t left, real (*buffers)[PANEL],
                               const real **rows, int64_t *width);

/* Some runs of n values each, whose beginnings are `apart`. */
typedef struct tg_runs {
    const real *x;
    int64_t n, count, apart;
} tg_runs;

/* Sets *runs to the next values of a column, at most `left`, in place or in the buffer. Returns their number, and moves
 * the cursor behind them. */
int64_t KERNEL(tg_panel_run)(const tg_panel *p, int64_t column, tg_cursor *at, int64_t left, real *buffer,
                             tg_runs *runs);

/* Returns whether the values of an output, or of a block, are one run in memory. */
static inline bool is_one_run(const tg_reduce_call *r)
{
    return r->is_direct && !r->part && r->reduced.rank == 1;
}

/* Every second value is copied in pieces of this size: during longer ones the processor does not read ahead. */
#define PIECE 128

/* The same; a column that is one run, or every second value of one, is not worth a call. */
static inline int64_t next_runs(const tg_panel *p, int64_t column, tg_cursor *at, int64_t left, real *restrict buffer,
                                tg_runs *runs)
{
    const tg_walk *walk = &p->r->reduced;
    const bool is_half = walk->rank == 1 && walk->stride[0] == 2 && p->r->dtype == REAL_DTYPE && !p->r->part;
    if (!is_half && !is_one_run(p->r)) {
        return KERNEL(tg_panel_run)(p, column, at, left, buffer, runs);
    }
    const real *x = (const real *)p->r->x + p->offset[column] + at->offset;
    *runs = (tg_runs){x, left, 1, 0};
    if (is_half) {
        *runs = (tg_runs){buffer, least(left, PIECE), 1, 0};
        for (int64_t i = 0; i < runs->n; i++) {
            buffer[i] = x[2 * i];
        }
    }
    tg_walk_advance(walk, at, runs->n);
    return runs->n;
}

/* ---- maxima ---- */

/* Returns the number of which the maximum is searched. */
typedef real tg_key(real x);

static inline real value_key(real x)
{
    return x;
}

/* Whether a number comes before another one in the search for the smallest or the largest. `smallest` is a constant in
 * each call. */
static inline bool is_before(real a, real b, bool smallest)
{
    return smallest ? a < b : a > b;
}

/* Returns the one of two numbers that comes before the other, and NaN if one is NaN. */
static inline real first_of(real a, real b, bool smallest)
{
    real most = is_before(b, a, smallest) ? b : a;
    return b == b ? most : b;
}

static inline real larger(real a, real b)
{
    return first_of(a, b, false);
}

TG_FOR_EACH_OP void compare_keys(const real *x, tg_key *key, bool smallest, real *restrict lane, real *restrict nan)
{
    for (int k = 0; k < PANEL_LANES; k++) {
        real value = key(x[k]);
        lane[k] = is_before(value, lane[k], smallest) ? value : lane[k];
        nan[k] = value == value ? nan[k] : value;
    }
}

/* Joins the lanes to four, which are the maxima or NaN. `nan` has -0, which changes no value that it is added to. */
static inline void join_maxima(const real *lane, const real *nan, real *four)
{
    const tg_four *n = (const tg_four *)nan;
    tg_four most;
    four_of_lanes(lane, &most);
    *(tg_four *)four = most + (((n[0] + n[1]) + (n[2] + n[3])) + ((n[4] + n[5]) + (n[6] + n[7])));
}

/* Returns the maximum of what join_maxima wrote, or NaN. */
static inline real max_of_four(const real *four)
{
    const real most = larger(larger(four[3], four[2]), larger(four[1], four[0]));
    return most == most ? most : (real)NAN;
}

TG_FOR_EACH_OP void compare_run(const real *x, int64_t n, tg_key *key, bool smallest, real *restrict lane,
                                real *restrict nan)
{
    int64_t i = 0;
    for (; i + PANEL_LANES <= n; i += PANEL_LANES) {
        compare_keys(x + i, key, smallest, lane, nan);
    }
    if (i < n && n >= PANEL_LANES) { /* some values twice */
        compare_keys(x + n - PANEL_LANES, key, smallest, lane, nan);
    } else {
        for (int k = 0; i + k < n; k++) {
            real value = key(x[i + k]);
            lane[k] = is_before(value, lane[k], smallest) ? value : lane[k];
            nan[k] = value == value ? nan[k] : value;
        }
    }
}

/* Joins the maxima, or the negatives of the minima, of a column to four. */
TG_FOR_EACH_OP void max_of_column(const tg_panel *p, int64_t c, const tg_cursor *first, tg_key *key, bool smallest,
                                  real *four)
{
    real lane[PANEL_LANES], nan[PANEL_LANES], buffer[PANEL];
    tg_runs runs;
    for (int k = 0; k < PANEL_LANES; k++) {
        lane[k] = smallest ? (real)INFINITY : -(real)INFINITY;
        nan[k] = -(real)0;
    }
    if (is_one_run(p->r)) {
        compare_run((const real *)p->r->x + p->offset[c] + first->offset, p->count, key, smallest, lane, nan);
    } else {
        tg_cursor at = *first;
        for (int64_t done = 0; done < p->count;) {
            done += next_runs(p, c, &at, p->count - done, buffer, &runs);
            for (int64_t run = 0; run < runs.count; run++) {
                compare_run(runs.x + run * runs.apart, runs.n, key, smallest, lane, nan);
            }
        }
    }
    for (int k = 0; smallest && k < PANEL_LANES; k++) {
        lane[k] = -lane[k];
    }
    join_maxima(lane, nan, four);
}

TG_FOR_EACH_OP void compare_rows(const real *const *rows, int64_t count, int64_t width, tg_key *key, bool smallest,
                                 real *restrict most)
{
    if (count == PANEL_ROWS) {
        const real *x0 = rows[0], *x1 = rows[1], *x2 = rows[2], *x3 = rows[3];
        for (int64_t c = 0; c < width; c++) {
            const real two = first_of(first_of(most[c], key(x0[c]), smallest), key(x1[c]), smallest);
            most[c] = first_of(first_of(two, key(x2[c]), smallest), key(x3[c]), smallest);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const real *x = rows[i];
        for (int64_t c = 0; c < width; c++) {
            most[c] = first_of(most[c], key(x[c]), smallest);
        }
    }
}

TG_FOR_EACH_OP void compare_all_rows(const tg_panel *p, tg_key *key, bool smallest, real *most)
{
    real buffers[PANEL_ROWS][PANEL];
    const real *rows[PANEL_ROWS];
    tg_cursor at = tg_walk_begin(&p->r->reduced, p->first);
    for (int64_t done = 0, n; done < p->count; done += n) {
        n = KERNEL(tg_panel_rows)(p, &at, p->count - done, buffers, rows);
        compare_rows(rows, n, p->width, key, smallest, most);
    }
}

/* The same for rows that are compared side by side. */
TG_FOR_EACH_OP void compare_lines(const tg_panel *p, tg_key *key, bool smallest, real *most)
{
    real buffers[PANEL_ROWS][PANEL];
    const real *rows[PANEL_ROWS];
    tg_cursor at = tg_walk_begin(&p->r->reduced, p->first);
    for (int64_t done = 0, n, width; done < p->count; done += n * (width / p->width)) {
        n = KERNEL(tg_panel_lines)(p, &at, p->count - done, buffers, rows, &width);
        compare_rows(rows, n, width, key, smallest, most);
    }
    for (int64_t line = p->width; line < p->r->lines * p->width; line += p->width) {
        for (int64_t c = 0; c < p->width; c++) {
            most[c] = first_of(most[c], most[line + c], smallest);
        }
    }
}

/* Finds the largest key of each column, or the negative of the smallest one; -inf for no values. */
TG_FOR_EACH_OP void panel_max(const tg_panel *p, tg_key *key, bool smallest, double *result)
{
    real most[PANEL], fours[PANEL][4];
    const bool by_lines = p->r->lines > 1, by_rows = !by_lines && !p->r->by_columns;
    const tg_cursor first = tg_walk_begin(&p->r->reduced, p->first);
    const int64_t all = p->width * p->r->lines;
    for (int64_t c = 0; by_rows && c < p->width; c++) {
        max_of_column(p, c, &first, key, smallest, fours[c]);
    }
    for (int64_t c = 0; by_rows && c < p->width; c++) {
        most[c] = max_of_four(fours[c]);
    }
    for (int64_t c = 0; !by_rows && c < all; c++) {
        most[c] = smallest ? (real)INFINITY : -(real)INFINITY;
    }
    if (by_lines) {
        compare_lines(p, key, smallest, most);
    } else if (!by_rows) {
        compare_all_rows(p, key, smallest, most);
    }
    for (int64_t c = 0; c < p->width; c++) {
        result[c] = (double)(smallest && !by_rows ? -most[c] : most[c]);
    }
}

#endif
