/* reduce (private): what the ops share that reduce x over some axes. The loops are in fold.h. */
#ifndef TG_OPS_REDUCE_REDUCE_H
#define TG_OPS_REDUCE_REDUCE_H

#include "ops/kernel.h"

/* The most values of an output that are reduced in one go: longer ones are cut into blocks, and their results are
 * joined. The bits depend on it. */
#define TG_REDUCE_BLOCK 16384

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

/* The sum of i32 and u8 values (reduce_any.c). */
extern const tg_op tg_sum_integers_op;

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

/* Checks the axes (RANGE), completes the attributes, and calls the op. */
tg_tensor *tg_reduce(tg_tape *t, const tg_op *op, tg_tensor *x, tg_axes axes, tg_keep_axes keep,
                     tg_reduce_attributes attributes);

#endif
