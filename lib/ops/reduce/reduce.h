/* reduce (private): what the ops share that reduce x over some axes. The loops are in fold.h. */
#ifndef TG_OPS_REDUCE_REDUCE_H
#define TG_OPS_REDUCE_REDUCE_H

#include "ops/kernel.h"

/* The most values of an output that are reduced in one go: longer ones are cut into blocks, and their results are
 * joined. The bits depend on it. */
enum { TG_REDUCE_BLOCK = 16384 };

typedef struct tg_reduce_attributes {
    uint32_t reduced; /* one bit per axis */
    bool keep;
    bool root;      /* of var: the square root */
    bool all;       /* of any: whether all values must be true */
    int correction; /* of var */
    double sign;    /* of amax, argmax and logsumexp: 1, or -1 for the minimum */
    double p;       /* of norm */
} tg_reduce_attributes;

/* What is known of the values of an output, or of a block: a maximum or a mean, and a sum. */
typedef struct tg_partial {
    double center, sum;
} tg_partial;

/* Computes n values from `begin` on, at most FOLD, as reals. */
typedef void tg_values_part(const void *context, int64_t begin, int64_t n, void *out);

/* Values of x: rows of columns. */
typedef struct tg_tile {
    const void *x;
    int64_t rows, columns, apart; /* `apart`: from a row to the next */
    bool by_columns;              /* as in the call */
    int64_t first;                /* the position of the first value among those of its output */
    const double *center, *scale; /* of the outputs; `scale` in backward only */
    const tg_reduce_attributes *attributes;
} tg_tile;

/* Joins the values of a tile with the results of its outputs. */
typedef void tg_accumulate(const tg_tile *tile, double *result);

/* What an op does in the forward and in the backward pass: two tg_reducer (fold.h), of which the second one is NULL
 * without a gradient. */
typedef struct tg_reducers {
    const void *forward, *backward;
} tg_reducers;

typedef struct tg_reduce_op {
    tg_op op; /* first, so that a kernel finds the reducers through call->op */
    const tg_reducers *f32[TG_LEVELS], *f64[TG_LEVELS];
} tg_reduce_op;

/* The sum of i32 and u8 values (reduce_any.c). */
extern const tg_op *const tg_sum_integers_op;

/* The kernels of all reductions (fold.c). */
TG_DECLARE_WIDE_KERNELS(tg_reduce_forward, tg_reduce_backward);

/* Joins a block of `more` values with the `count` values before it: their sums, and their maxima. */
static inline void combine_sums(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    (void)count, (void)more;
    sofar->sum += block->sum;
}

/* Returns the larger one of two numbers, and NaN if one is NaN. */
static inline double tg_larger(double most, double x)
{
    return ((x > most) | (x != x)) ? x : most;
}

static inline void combine_maxima(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    (void)count, (void)more;
    sofar->center = tg_larger(sofar->center, block->center);
}

/* Returns the number of blocks of an output of `count` values. */
static inline int64_t tg_reduce_blocks(int64_t count)
{
    return count <= TG_REDUCE_BLOCK ? 1 : (count - 1) / TG_REDUCE_BLOCK + 1;
}

/* The shape rule: declares the output, of the dtype of x, which must be a float, and the scratch of the forward pass.
 */
bool tg_reduce_shape(tg_op_call *call);

/* The same for an op whose backward pass reduces x again, for which it declares scratch, too. */
bool tg_reduce_twice_shape(tg_op_call *call);

/* The same with another dtype, for an x of any dtype. */
bool tg_reduce_output(tg_op_call *call, tg_dtype dtype);

/* Checks that no reduced axis is empty (SHAPE). `name` is that of the result that does not exist. */
bool tg_reduce_expect_values(tg_op_call *call, const char *name);

/* Returns y, or its gradient, with the reduced axes, of size 1: it broadcasts with x. */
tg_tensor *tg_reduce_kept(tg_tape *t, const tg_op_call *call, tg_tensor *y);

/* Returns the sum of x, which has the shape of the input, over the axes that the call reduces, which stay. */
tg_tensor *tg_reduce_sum(tg_tape *t, const tg_op_call *call, tg_tensor *x);

/* Checks the axes (RANGE), completes the attributes, and calls the op. */
tg_tensor *tg_reduce(tg_tape *t, const tg_op *op, tg_tensor *x, tg_axes axes, tg_keep_axes keep,
                     tg_reduce_attributes attributes);

#endif
