/* elementwise (private): the loop of all ops that work value by value, with NumPy's broadcasting.
 *
 * An elementwise op is a tg_op with kernels for chunks. The loop cuts the output into short contiguous chunks. It calls
 * a kernel with the same chunk of each input, of y and of dy. An input with another layout is copied first, and a mask
 * or ids are converted. So a kernel is a plain loop over k->n values, which the compiler vectorizes:
 *
 *     static void mul(const tg_chunk *k)              out = a * b, which is y
 *     static void mul_gradient_a(const tg_chunk *k)   out = dy * b
 *
 * A gradient kernel writes d loss / d input for each value of the output. If the input was broadcast, the loop adds up
 * those that belong to the same value of the input.
 *
 * A file is compiled once per dtype and level (base/real.h). Each pass puts its kernels into a table. The ops, which
 * exist once, point to all tables:
 *
 *     const tg_elementwise_kernels KERNEL(tg_arithmetic)[] = {[MUL] = {mul, {mul_gradient_a, mul_gradient_b}}};
 *     static const tg_elementwise ops[] = {[MUL] = TG_ELEMENTWISE("mul", tg_arithmetic, MUL, 0, TG_OP_ALL)};
 */
#ifndef TG_OPS_ELEMENTWISE_ELEMENTWISE_H
#define TG_OPS_ELEMENTWISE_ELEMENTWISE_H

#include "ops/kernel.h"

#define TG_ELEMENTWISE_INPUTS 4

/* The largest number of values in a chunk that is copied. */
#define TG_ELEMENTWISE_CHUNK 512

/* The arguments of a kernel. All arrays have the type `real`. */
typedef struct tg_chunk {
    int64_t n;
    const void *in[TG_ELEMENTWISE_INPUTS];
    const void *y, *dy;     /* for gradient kernels only */
    void *out;              /* y, or the gradient of one input */
    const void *attributes; /* of the call */
} tg_chunk;

typedef void tg_chunk_kernel(const tg_chunk *k);

typedef struct tg_elementwise_kernels {
    tg_chunk_kernel *forward;
    tg_chunk_kernel *gradient[TG_ELEMENTWISE_INPUTS]; /* NULL for an input without a gradient, such as a mask */
} tg_elementwise_kernels;

typedef const tg_elementwise_kernels tg_elementwise_table[];

typedef struct tg_elementwise {
    tg_op op; /* first, so that a kernel finds the tables through call->op */
    const tg_elementwise_kernels *f32[TG_LEVELS], *f64[TG_LEVELS]; /* the tables */
    int index;                                                     /* of the op in each table */
} tg_elementwise;

/* Declares the table of a file for both dtypes at each level. */
#define TG_DECLARE_ELEMENTWISE(table) extern tg_elementwise_table TG_EACH_LEVEL(table##_f32), TG_EACH_LEVEL(table##_f64)

/* The initializer of an op: its name, the table and the index in it, and the inputs and outputs that backward does not
 * read (tg_op.backward_ignores_inputs). */
#define TG_ELEMENTWISE(name, table, index, ignores_inputs, ignores_outputs) \
    TG_ELEMENTWISE_WITH_RULE(name, tg_elementwise_shape, table, index, ignores_inputs, ignores_outputs)

/* The same with another shape rule, which must end with tg_elementwise_shape or tg_elementwise_output. */
#define TG_ELEMENTWISE_WITH_RULE(op_name, rule, table, table_index, ignores_inputs, ignores_outputs)   \
    {                                                                                                  \
        .op = {.name = op_name,                                                                        \
               .shape = rule,                                                                          \
               TG_KERNELS(tg_elementwise_forward, tg_elementwise_backward),                            \
               .accepts_layout = tg_any_layout,                                                        \
               .backward_ignores_inputs = ignores_inputs,                                              \
               .backward_ignores_outputs = ignores_outputs,                                            \
               .can_overwrite = true},                                                                 \
        .f32 = {TG_EACH_LEVEL(table##_f32)}, .f64 = {TG_EACH_LEVEL(table##_f64)}, .index = table_index \
    }

TG_DECLARE_KERNEL(tg_elementwise_forward);
TG_DECLARE_KERNEL(tg_elementwise_backward);

/* Copies n values of x, from position `begin` of the walk on, to an array of reals. A mask becomes 0 or 1, and ids
 * become reals. */
void KERNEL(tg_chunk_gather)(const tg_walk *walk, const tg_tensor *x, int64_t begin, int64_t n, void *chunk);

/* Returns the kernels of the called op for this dtype. */
const tg_elementwise_kernels *KERNEL(tg_elementwise_kernels_of)(const tg_op_call *call);

/* Shape rules: all inputs broadcast together. The output has the dtype of the first input that has a gradient, or the
 * given one; an input that has a gradient must be a float. */
bool tg_elementwise_shape(tg_op_call *call);
bool tg_elementwise_output(tg_op_call *call, tg_dtype dtype);

/* tg_pow with a number as the exponent, a constant of shape (). */
tg_tensor *tg_pow_number(tg_tape *t, tg_tensor *x, tg_tensor *number);

#endif
