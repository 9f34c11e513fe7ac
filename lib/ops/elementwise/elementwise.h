/* elementwise (private): the loop of all ops that work value by value, with NumPy's broadcasting.
 *
 * The output is contiguous, and is cut into chunks of neighboring values. A kernel gets the same chunk of each input,
 * of y and of dy, as contiguous reals: in place if they lie so in memory, else as a copy of at most 512 values, where a
 * mask is 0 or 1, and ids are reals. So a kernel is a plain loop over k->n values, which the compiler vectorizes. All
 * that is around it is compiled once for all ops.
 *
 * An op is the loops over one or a few formulas, and a row (elementwise_real.h). A longer formula is a function of
 * numbers, which its loop calls.
 *
 *     TG_LOOP(div_value_loop, a / b);
 *     TG_LOOP(div_gradient_a_loop, dy / b);
 *     TG_LOOP(div_gradient_b_loop, -dy * y / b);
 *     TG_FUNCTION_OF_TWO(tg_div, tg_div_op, div_value_loop, div_gradient_a_loop, div_gradient_b_loop,
 *                        .op.name = "div", .op.shape = tg_elementwise_shape, .op.backward_ignores_inputs = 1);
 *
 * A gradient kernel writes d loss / d input for each value of the output. If the input was broadcast, the loop adds up
 * those that belong to the same value of the input.
 *
 * A file is compiled once per dtype and level (base/real.h). Each pass defines the kernels of an op; the op, which
 * exists once, points to those of all passes.
 */
#ifndef TG_OPS_ELEMENTWISE_ELEMENTWISE_H
#define TG_OPS_ELEMENTWISE_ELEMENTWISE_H

#include "ops/kernel.h"

enum { TG_ELEMENTWISE_INPUTS = 4 };

/* The largest number of values in a chunk that is copied. */
enum { TG_ELEMENTWISE_CHUNK = 512 };

/* The options of an op, which are numbers; the attributes of the call begin with them. */
typedef struct tg_numbers {
    double p, q;
} tg_numbers;

/* The arguments of a kernel. All arrays have the type `real`, but those of masks are u8. What a kernel does not use may
 * be any array. */
typedef struct tg_chunk {
    int64_t n;
    const void *in[TG_ELEMENTWISE_INPUTS];
    const void *y, *dy; /* for gradient kernels only */
    void *out;          /* y, or the gradient of one input */
    tg_numbers numbers; /* of the call, if it has attributes */
} tg_chunk;

typedef void tg_chunk_kernel(const tg_chunk *k);

typedef struct tg_elementwise_kernels {
    tg_chunk_kernel *forward;
    tg_chunk_kernel *gradient[TG_ELEMENTWISE_INPUTS]; /* NULL for an input without a gradient, such as a mask */
} tg_elementwise_kernels;

typedef struct tg_elementwise {
    tg_op op; /* first, so that a kernel finds the others through call->op */
    const tg_elementwise_kernels *f32[TG_LEVELS], *f64[TG_LEVELS];
    bool reads_masks; /* chunks of inputs are masks: u8, where other values than 0 are true */
} tg_elementwise;

/* Shape rules: all inputs broadcast together. The output has the dtype of the first input that has a gradient, or the
 * given one; an input that has a gradient must be a float. */
bool tg_elementwise_shape(tg_op_call *call);
bool tg_elementwise_output(tg_op_call *call, tg_dtype dtype);

/* ---- the loop over chunks ---- */

TG_DECLARE_KERNELS(tg_elementwise_forward, tg_elementwise_backward);
extern const tg_op_kernels tg_elementwise_levels[TG_LEVELS][2];

/* A call. */
typedef struct tg_elementwise_call {
    const tg_op_call *call;
    const tg_elementwise_kernels *kernels;
    tg_dtype dtype;                            /* of the chunks of the inputs */
    const void *values[TG_ELEMENTWISE_INPUTS]; /* NULL: no kernel reads the input */
    bool is_whole[TG_ELEMENTWISE_INPUTS];      /* the input lies in memory like y, or is not read */
    tg_walk walks[TG_ELEMENTWISE_INPUTS];      /* of the others, broadcast to y */
    int64_t most, period; /* a chunk ends after `most` values, and at each multiple of the period */
    const void *y, *dy;   /* NULL in the forward pass */
    bool dy_is_chunk;     /* dy is that of each chunk, of TG_ELEMENTWISE_CHUNK values */
} tg_elementwise_call;

#endif
