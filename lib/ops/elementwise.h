/* elementwise: the shared loop behind every op that works value by value, with NumPy's broadcasting.
 *
 * An elementwise op is a tg_op followed by its chunk functions. The loop hands them short contiguous runs: of the
 * inputs (gathered when their layout is another, converted when they are masks or ids), of y and of dy; so a chunk
 * function is a plain loop over k->n values, which the compiler vectorises:
 *
 *     static void KERNEL(mul)(const KERNEL(chunk) *k)             out = a * b, which is y
 *     static void KERNEL(mul_gradient_a)(const KERNEL(chunk) *k)  out = dy * b
 *
 * Both passes put their functions into a table, and the op, which exists once, points to both tables:
 *
 *     const KERNEL(tg_elementwise_functions) KERNEL(tg_mul_functions) = {KERNEL(mul), {KERNEL(mul_gradient_a), ...}};
 *     static const tg_elementwise mul_op = {TG_ELEMENTWISE("mul", tg_mul_functions, reads_inputs, reads_outputs)};
 *
 * A gradient function writes d loss / d input for each output value; the loop sums what broadcasting repeated.
 */
#ifndef TG_OPS_ELEMENTWISE_H
#define TG_OPS_ELEMENTWISE_H

#include "ops/real.h"

#define TG_ELEMENTWISE_INPUTS 3

typedef struct tg_chunk_f32 {
    int64_t n;
    const float *in[TG_ELEMENTWISE_INPUTS];
    const float *y, *dy;    /* in gradients */
    float *out;             /* y, or the gradient of one input */
    const void *attributes; /* the call's */
} tg_chunk_f32;

typedef struct tg_chunk_f64 {
    int64_t n;
    const double *in[TG_ELEMENTWISE_INPUTS];
    const double *y, *dy;
    double *out;
    const void *attributes;
} tg_chunk_f64;

#define chunk_f32 tg_chunk_f32
#define chunk_f64 tg_chunk_f64

typedef struct tg_elementwise_functions_f32 {
    void (*forward)(const tg_chunk_f32 *);
    void (*gradient[TG_ELEMENTWISE_INPUTS])(const tg_chunk_f32 *); /* NULL: this input has none (a mask, say) */
} tg_elementwise_functions_f32;

typedef struct tg_elementwise_functions_f64 {
    void (*forward)(const tg_chunk_f64 *);
    void (*gradient[TG_ELEMENTWISE_INPUTS])(const tg_chunk_f64 *);
} tg_elementwise_functions_f64;

typedef struct tg_elementwise {
    tg_op op; /* first, so that a kernel finds the functions behind its call->op */
    const tg_elementwise_functions_f32 *f32;
    const tg_elementwise_functions_f64 *f64;
} tg_elementwise;

#define TG_DECLARE_FUNCTIONS(name)                        \
    extern const tg_elementwise_functions_f32 name##_f32; \
    extern const tg_elementwise_functions_f64 name##_f64

TG_DECLARE_KERNEL(tg_elementwise_forward);
TG_DECLARE_KERNEL(tg_elementwise_backward);

/* Shape rules: all inputs broadcast together; the output has the float inputs' dtype, or the given one. An input that
 * has a gradient function must be a float. */
bool tg_elementwise_shape(tg_op_call *call);
bool tg_elementwise_output(tg_op_call *call, tg_dtype dtype);

bool tg_any_layout(const tg_tensor *input, int i);

/* A whole op: its name, its tables, and what backward reads, a bit an input or output (tg_op.backward_reads_inputs). */
#define TG_ELEMENTWISE(op_name, functions, reads_inputs, reads_outputs) \
    TG_ELEMENTWISE_RULE(op_name, tg_elementwise_shape, functions, reads_inputs, reads_outputs)

/* The same with a shape rule of its own, which ends in tg_elementwise_shape or tg_elementwise_output. */
#define TG_ELEMENTWISE_RULE(op_name, rule, functions, reads_inputs, reads_outputs) \
    .op = {.name = op_name,                                                        \
           .shape = rule,                                                          \
           .f32 = {tg_elementwise_forward_f32, tg_elementwise_backward_f32},       \
           .f64 = {tg_elementwise_forward_f64, tg_elementwise_backward_f64},       \
           .accepts_layout = tg_any_layout,                                        \
           .backward_reads_inputs = reads_inputs,                                  \
           .backward_reads_outputs = reads_outputs,                                \
           .overwrites_fresh = true},                                              \
    .f32 = &functions##_f32, .f64 = &functions##_f64

/* ---- walks: a layout seen through a larger shape ---- */

/* Axes in row-major order, of the shape that is walked, with the walked tensor's strides: 0 where it is repeated.
 * Neighbouring axes that one stride covers are merged, so a tensor of the same shape without gaps is one axis. */
typedef struct tg_walk {
    int rank;
    int64_t size[TG_MAX_RANK], stride[TG_MAX_RANK];
} tg_walk;

/* x broadcast to `shape`. With `contiguous` the strides are those of a contiguous tensor of x's shape (a gradient). */
void tg_walk_init(tg_walk *walk, const tg_shape *shape, const tg_tensor *x, bool contiguous);

static inline bool tg_walk_is_plain(const tg_walk *walk)
{
    return walk->rank == 0 || (walk->rank == 1 && walk->stride[0] == 1);
}

#endif
