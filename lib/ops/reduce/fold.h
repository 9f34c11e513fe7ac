/* fold (private): the loop of reductions over some axes of x, which may have any strides, and that of their gradients.
 *
 * The axes of x are kept or reduced, and those that are nearer in memory are inside. So x is visited in tiles: either
 * the columns of a tile are neighboring outputs, and rows are added to the row of their sums, four at a time; or each
 * row is an output, whose values are added in lanes. Values that are not side by side, integers, and values that a
 * function computes are copied to a buffer first.
 *
 * An op is a row (TG_REDUCE_OP) of two reducers, and gives functions of numbers: the term of a value, which is summed,
 * or the key of which the largest is searched; and for backward the gradient of a value. The loops over a tile are
 * compiled for each of them (always_inline), all that is around these loops only once: an indirect call for each tile
 * costs little, and a loop for each layout of x would be compiled for each op, dtype and level.
 *
 * A long reduction is cut into blocks of TG_REDUCE_BLOCK values, and each has a result of its own. Threads divide the
 * outputs and the blocks. So the order of all additions depends on the shape and the strides of x alone, and the bits
 * are the same for each level and any number of threads.
 */
#ifndef TG_OPS_REDUCE_FOLD_H
#define TG_OPS_REDUCE_FOLD_H

#include "base/least.h"
#include "ops/lanes.h"
#include "ops/reduce/reduce.h"

/* The most outputs that are computed together, and the most values of a row that is copied; the values of a buffer,
 * which has four such rows. */
enum { FOLD = 512, BUFFER = 4 * FOLD };

/* Lanes of a row. Compilers unroll a loop over sixteen, and then compute one value after the other. */
enum { FOLD_LANES = 2 * LANES };

/* A call: the walks have the strides of x and, as the other strides, those of its gradient. */
typedef struct tg_reduce_call {
    const tg_op_call *call;
    const tg_reduce_attributes *attributes;
    const void *x;
    tg_dtype dtype;       /* of x */
    tg_values_part *part; /* not NULL: computes values of x, which is contiguous and not in memory; x is its context */
    void *y;
    bool add; /* results are added to y */
    tg_walk kept, reduced;
    int64_t block, blocks; /* the most values of a block, and the number of blocks of an output */
    bool by_columns;       /* the columns of a tile are outputs, else its rows */
    const struct tg_reducer *reducer;
    tg_partial *partials; /* of the blocks; NULL for one block */
    tg_partial *results;  /* of the outputs, for backward; NULL in forward */
} tg_reduce_call;

/* The outputs from `begin` on, and of each of them the values from `first` on. What an op knows of an output after it
 * has visited its values: a maximum or a mean, and a sum. */
typedef struct tg_outputs {
    const tg_reduce_call *r;
    int64_t begin, count, first, length;
    double center[FOLD], sum[FOLD];
} tg_outputs;

/* An op. */
typedef struct tg_reducer {
    /* computes `center` and `sum` of some outputs, by tg_fold */
    void (*reduce)(tg_outputs *o);
    /* adds a block of `more` values to what is known of the `count` values before it */
    void (*combine)(tg_partial *sofar, double count, const tg_partial *block, double more);
    /* writes the values of the outputs; NULL in backward, which keeps `center` and `sum` */
    void (*project)(const tg_outputs *o);
    bool reads_bytes; /* the values of a tile of a mask are its bytes, else reals */
    /* in backward: writes the scales and the centers of the outputs; and the gradients of a tile, one row after the
     * other */
    void (*prepare)(tg_outputs *o, double *scale);
    void (*differentiate)(const tg_tile *tile, real *dx);
    bool reads_x;
} tg_reducer;

/* Accumulates all values of the outputs from an initial result on, by tiles. The results may be the centers. */
void KERNEL(tg_fold)(const tg_outputs *o, tg_accumulate *accumulate, double initial, double *result);

/* The same for sums. */
void KERNEL(tg_fold_sums)(const tg_outputs *o, tg_accumulate *accumulate, double *sum);

/* Computes the outputs for walks and blocks that are set. */
void KERNEL(tg_reduce_walks)(tg_reduce_call *r, const tg_reducer *reducer);

/* Defines an op, a static variable, with its reducers for this dtype and level, KERNEL(variable), and more fields of a
 * tg_reduce_op. */
#ifdef TG_ONCE
#define TG_REDUCE_OP(variable, reducer, gradient, ...)                                                   \
    extern const tg_reducers TG_EACH_LEVEL(avx512, variable##_f32), TG_EACH_LEVEL(avx2, variable##_f64); \
    const tg_reducers KERNEL(variable) = {reducer, gradient};                                            \
    static const tg_reduce_op variable = {.op = {TG_WIDE_KERNELS(tg_reduce_forward, tg_reduce_backward), \
                                                 .input_names = {"x"}, .accepts_layout = tg_any_layout,  \
                                                 .can_overwrite = true},                                 \
                                          .f32 = {TG_EACH_LEVEL(avx512, &variable##_f32)},               \
                                          .f64 = {TG_EACH_LEVEL(avx2, &variable##_f64)},                 \
                                          __VA_ARGS__}
#else
#define TG_REDUCE_OP(variable, reducer, gradient, ...)                                                   \
    extern const tg_reducers TG_EACH_LEVEL(avx512, variable##_f32), TG_EACH_LEVEL(avx2, variable##_f64); \
    const tg_reducers KERNEL(variable) = {reducer, gradient}
#endif

/* Reads the next row ahead, if rows are side by side: it is often in another page, where the processor does not. */
static inline void prefetch_next_row(const tg_tile *tile, int64_t row)
{
    if (tile->by_columns && row + 1 < tile->rows) {
        const real *next = (const real *)tile->x + (row + 1) * tile->apart;
        tg_prefetch_row(next, (size_t)tile->columns * sizeof *next);
    }
}

/* Returns the gradients of the outputs. */
static inline const real *dy_of(const tg_outputs *o)
{
    return (const real *)o->r->call->output_gradients[0] + o->begin;
}

/* ---- sums ---- */

/* Returns what is summed for a value. */
typedef double tg_term(real x, double center, const tg_reduce_attributes *a);

/* Returns the sum of the terms of a row. */
static inline __attribute__((always_inline)) double sum_of_terms(const real *x, int64_t n, tg_term *term, double center,
                                                                 const tg_reduce_attributes *a)
{
    double lane[FOLD_LANES] = {0};
    int64_t i = 0;
    for (; i + FOLD_LANES <= n; i += FOLD_LANES) {
        for (int k = 0; k < FOLD_LANES; k++) {
            lane[k] += term(x[i + k], center, a);
        }
    }
    for (int64_t k = 0; k < n - i; k++) {
        lane[k] += term(x[i + k], center, a);
    }
    for (int k = 0; k < LANES; k++) {
        lane[k] += lane[LANES + k];
    }
    return sum_of_lanes(lane);
}

/* Adds the terms of all values of a tile, of columns by four rows. */
static inline __attribute__((always_inline)) void add_tile_terms(const tg_tile *tile, tg_term *term,
                                                                 double *restrict sum)
{
    const tg_reduce_attributes a = *tile->attributes;
    const double *center = tile->center;
    const real *x = tile->x;
    int64_t row = 0;
    for (; tile->by_columns && row + 4 <= tile->rows; row += 4, x += 4 * tile->apart) {
        const real *x1 = x + tile->apart, *x2 = x1 + tile->apart, *x3 = x2 + tile->apart;
        for (int64_t c = 0; c < tile->columns; c++) {
            sum[c] += (term(x[c], center[c], &a) + term(x1[c], center[c], &a)) +
                      (term(x2[c], center[c], &a) + term(x3[c], center[c], &a));
        }
    }
    for (; row < tile->rows; row++, x += tile->apart) {
        for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
            sum[c] += term(x[c], center[c], &a);
        }
        if (!tile->by_columns) {
            sum[row] += sum_of_terms(x, tile->columns, term, center[row], &a);
        }
    }
}

/* Defines the function of a reducer that adds up an expression, the function `term` of a value x, the center of its
 * output, and the attributes a. */
#define TG_ADD_TERMS(function, term, expression)                                    \
    static inline double term(real x, double center, const tg_reduce_attributes *a) \
    {                                                                               \
        (void)center, (void)a;                                                      \
        return expression;                                                          \
    }                                                                               \
    static void function(const tg_tile *tile, double *sum)                          \
    {                                                                               \
        add_tile_terms(tile, term, sum);                                            \
    }                                                                               \
    static tg_accumulate function

/* Adds the values themselves. */
void KERNEL(tg_add_tile)(const tg_tile *tile, double *sum);

static inline void reduce_sum(tg_outputs *o)
{
    KERNEL(tg_fold_sums)(o, KERNEL(tg_add_tile), o->sum);
}

/* ---- maxima ---- */

/* Returns the larger one of two numbers, and NaN if one is NaN. */
static inline real larger(real most, real x)
{
    return ((x > most) | (x != x)) ? x : most;
}

/* Returns the number of which the maximum is searched. */
typedef real tg_key(real x, const tg_reduce_attributes *a);

/* Returns the largest key of a row. */
static inline __attribute__((always_inline)) real largest_key(const real *x, int64_t n, tg_key *key,
                                                              const tg_reduce_attributes *a)
{
    real lane[FOLD_LANES], most = -(real)INFINITY;
    int64_t i = 0;
    for (int k = 0; k < FOLD_LANES; k++) {
        lane[k] = most;
    }
    for (; n >= FOLD_LANES && i < n; i += FOLD_LANES) {
        const real *row = x + least(i, n - FOLD_LANES); /* at the end some values twice */
        for (int k = 0; k < FOLD_LANES; k++) {
            lane[k] = larger(lane[k], key(row[k], a));
        }
    }
    for (int half = FOLD_LANES / 2; i > 0 && half > 0; half /= 2) {
        for (int k = 0; k < half; k++) {
            lane[k] = larger(lane[k], lane[half + k]);
        }
    }
    for (; i < n; i++) {
        most = larger(most, key(x[i], a));
    }
    return larger(lane[0], most);
}

/* Joins the keys of all values of a tile with the maxima. */
static inline __attribute__((always_inline)) void find_largest(const tg_tile *tile, tg_key *key,
                                                               double *restrict result)
{
    const tg_reduce_attributes a = *tile->attributes;
    const real *x = tile->x;
    real most[FOLD];
    for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
        most[c] = (real)result[c];
    }
    for (int64_t row = 0; row < tile->rows; row++, x += tile->apart) {
        prefetch_next_row(tile, row);
        for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
            most[c] = larger(most[c], key(x[c], &a));
        }
        if (!tile->by_columns) {
            result[row] = tg_larger(result[row], (double)largest_key(x, tile->columns, key, &a));
        }
    }
    for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
        result[c] = (double)most[c];
    }
}

/* Finds the largest of the values, times the sign of the attributes: a maximum, or the negative of a minimum. */
void KERNEL(tg_find_extremes)(const tg_tile *tile, double *most);

/* ---- gradients ---- */

/* Returns the gradient of a value. */
typedef real tg_slope(real x, double scale, double center, const tg_reduce_attributes *a);

/* Writes the gradients of all values of a tile. */
static inline __attribute__((always_inline)) void write_slopes(const tg_tile *tile, tg_slope *slope, real *restrict dx)
{
    const tg_reduce_attributes a = *tile->attributes;
    const double *scale = tile->scale, *center = tile->center;
    const real *x = tile->x;
    for (int64_t row = 0; row < tile->rows; row++, x += tile->apart, dx += tile->columns) {
        for (int64_t c = 0; tile->by_columns && c < tile->columns; c++) {
            dx[c] = slope(x[c], scale[c], center[c], &a);
        }
        for (int64_t c = 0; !tile->by_columns && c < tile->columns; c++) {
            dx[c] = slope(x[c], scale[row], center[row], &a);
        }
    }
}

#endif
