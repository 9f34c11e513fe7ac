/* elementwise (private): the loop of all ops that work value by value, with NumPy's broadcasting.
 *
 * An elementwise op is a tg_op with kernels for chunks. The loop cuts the output into short contiguous chunks. It calls
 * a kernel with the same chunk of each input, of y and of dy. An input with another layout is copied first, and a mask
 * or ids are converted. So a kernel is a plain loop over k->n values, which the compiler vectorizes.
 *
 * A formula is a function of numbers. TG_LOOP_1 to TG_LOOP_4 write the loop that calls it for each value of a chunk;
 * their arguments are the arrays of tg_chunk that the function reads:
 *
 *     static inline real mul_value(real a, real b)                 y = a b
 *     static inline real mul_gradient_a(real b, real dy)           da = dy b
 *     static inline real mul_gradient_b(real a, real dy)           db = dy a
 *     TG_LOOP_2(mul_value, in[0], in[1]);                          mul_value_loop
 *     TG_LOOP_2(mul_gradient_a, in[1], dy);                        mul_gradient_a_loop
 *     TG_LOOP_2(mul_gradient_b, in[0], dy);                        mul_gradient_b_loop
 *
 * A gradient kernel writes d loss / d input for each value of the output. If the input was broadcast, the loop adds up
 * those that belong to the same value of the input.
 *
 * A file is compiled once per dtype and level (base/real.h). Each pass defines the kernels of the op. The op, which
 * exists once, points to those of all passes:
 *
 *     TG_ELEMENTWISE_KERNELS(mul_op, mul_value_loop, mul_gradient_a_loop, mul_gradient_b_loop);
 *     static const tg_elementwise mul_op = {TG_ELEMENTWISE("mul", mul_op, 0, TG_OP_ALL, "a", "b")};   with TG_ONCE
 *
 * A function of one input without options needs one line for all of that, a TG_FUNCTION_OF_INPUT, _OUTPUT or _NEITHER.
 */
#ifndef TG_OPS_ELEMENTWISE_ELEMENTWISE_H
#define TG_OPS_ELEMENTWISE_ELEMENTWISE_H

#include "ops/kernel.h"
#include "ops/loop.h"

#define TG_ELEMENTWISE_INPUTS 4

/* The largest number of values in a chunk that is copied. */
#define TG_ELEMENTWISE_CHUNK 512

/* The arguments of a kernel. All arrays have the type `real`, but the output of an op that gives a mask is u8. */
typedef struct tg_chunk {
    int64_t n;
    const void *in[TG_ELEMENTWISE_INPUTS];
    const void *y, *dy;     /* for gradient kernels only */
    void *out;              /* y, or the gradient of one input */
    uint32_t single;        /* bit i: in[i] has a single value for the chunk (takes_value); at most one bit is set */
    const void *attributes; /* of the call */
} tg_chunk;

typedef void tg_chunk_kernel(const tg_chunk *k);

typedef struct tg_elementwise_kernels {
    tg_chunk_kernel *forward;
    tg_chunk_kernel *gradient[TG_ELEMENTWISE_INPUTS]; /* NULL for an input without a gradient, such as a mask */
    bool takes_value;       /* whether `forward` is a TG_LOOP_PAIR, which obeys tg_chunk.single */
    bool is_linear;         /* whether gradient[0] does not read in[0] */
    tg_chunk_kernel *masks; /* optional: the forward kernel if all inputs and y are u8; its arrays are bytes */
} tg_elementwise_kernels;

typedef struct tg_elementwise {
    tg_op op; /* first, so that a kernel finds the others through call->op */
    const tg_elementwise_kernels *f32[TG_LEVELS], *f64[TG_LEVELS];
} tg_elementwise;

/* ---- the loops ---- */

/* Define function_loop, a kernel that writes function(u[i], ...) for each value of a chunk. The arrays have the names
 * that they have in tg_chunk: in[0], in[1], y, dy. */
#define TG_LOOP_1(function, u) TG_LOOP(function, TG_ARRAYS_1(u), function(p[i]))
#define TG_LOOP_2(function, u, v) TG_LOOP(function, TG_ARRAYS_2(u, v), function(p[i], q[i]))
#define TG_LOOP_3(function, u, v, w) TG_LOOP(function, TG_ARRAYS_3(u, v, w), function(p[i], q[i], r[i]))
#define TG_LOOP_4(function, u, v, w, z) TG_LOOP(function, TG_ARRAYS_4(u, v, w, z), function(p[i], q[i], r[i], s[i]))

/* The same for in[0] and in[1], one of which may be a single value: a column that is broadcast need not be repeated. */
#define TG_LOOP_PAIR(function)                     \
    static void function##_loop(const tg_chunk *k) \
    {                                              \
        loop_over_pairs(k, function);              \
    }                                              \
    static tg_chunk_kernel function##_loop

TG_FOR_EACH_OP void loop_over_pairs(const tg_chunk *k, real function(real a, real b))
{
    const real *p = k->in[0], *q = k->in[1];
    real *out = k->out;
    const int64_t n = k->n;
    if (!k->single) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = function(p[i], q[i]);
        }
    } else if (k->single & 1) {
        const real value = *p;
        for (int64_t i = 0; i < n; i++) {
            out[i] = function(value, q[i]);
        }
    } else {
        const real value = *q;
        for (int64_t i = 0; i < n; i++) {
            out[i] = function(p[i], value);
        }
    }
}

/* The same for a function that is true or false, with one or two inputs: the chunk of y is a mask. */
#define TG_MASK_LOOP_1(function, u) TG_LOOP_TO(uint8_t, function, function(p[i]), TG_ARRAYS_1(u))
#define TG_MASK_LOOP_2(function, u, v) TG_LOOP_TO(uint8_t, function, function(p[i], q[i]), TG_ARRAYS_2(u, v))

/* The same for a function whose last argument is the attributes of the call, which have this type. */
#define TG_LOOP_1_WITH(type, function, u) \
    TG_LOOP(function, TG_ARRAYS_1(u); TG_ATTRIBUTES(type), function(p[i], attributes))
#define TG_LOOP_2_WITH(type, function, u, v) \
    TG_LOOP(function, TG_ARRAYS_2(u, v); TG_ATTRIBUTES(type), function(p[i], q[i], attributes))
#define TG_LOOP_3_WITH(type, function, u, v, w) \
    TG_LOOP(function, TG_ARRAYS_3(u, v, w); TG_ATTRIBUTES(type), function(p[i], q[i], r[i], attributes))
#define TG_LOOP_4_WITH(type, function, u, v, w, z) \
    TG_LOOP(function, TG_ARRAYS_4(u, v, w, z); TG_ATTRIBUTES(type), function(p[i], q[i], r[i], s[i], attributes))

#define TG_ARRAYS_1(u) const real *p = k->u
#define TG_ARRAYS_2(u, v) TG_ARRAYS_1(u), *q = k->v
#define TG_ARRAYS_3(u, v, w) TG_ARRAYS_2(u, v), *r = k->w
#define TG_ARRAYS_4(u, v, w, z) TG_ARRAYS_3(u, v, w), *s = k->z
#define TG_ATTRIBUTES(type) const type attributes = *(const type *)k->attributes

#define TG_LOOP(function, arrays, value) TG_LOOP_TO(real, function, value, arrays)

/* The arrays come last, because a declaration of several of them has commas. n is a copy, because a byte of a mask
 * could be a part of k. */
#define TG_LOOP_TO(type, function, value, ...)     \
    static void function##_loop(const tg_chunk *k) \
    {                                              \
        __VA_ARGS__;                               \
        type *out = k->out;                        \
        int64_t n = k->n;                          \
        for (int64_t i = 0; i < n; i++) {          \
            out[i] = value;                        \
        }                                          \
    }                                              \
    static tg_chunk_kernel function##_loop

/* ---- ops ---- */

/* Declares the kernels of an op for both dtypes at each level. */
#define TG_DECLARE_ELEMENTWISE(op) \
    extern const tg_elementwise_kernels TG_EACH_LEVEL(tg_##op##_kernels_f32), TG_EACH_LEVEL(tg_##op##_kernels_f64)

/* Defines those of this pass: the forward kernel, and a gradient kernel for each input. */
#define TG_ELEMENTWISE_KERNELS(op, forward_kernel, ...) \
    TG_DECLARE_ELEMENTWISE(op);                         \
    const tg_elementwise_kernels KERNEL(tg_##op##_kernels) = {.forward = forward_kernel, .gradient = {__VA_ARGS__}}

/* The same for a forward kernel that is a TG_LOOP_PAIR. */
#define TG_PAIR_KERNELS(op, forward_kernel, ...)               \
    TG_DECLARE_ELEMENTWISE(op);                                \
    const tg_elementwise_kernels KERNEL(tg_##op##_kernels) = { \
        .forward = forward_kernel, .gradient = {__VA_ARGS__}, .takes_value = true}

/* The same for an op that is linear in its first input, whose gradient does not read it. */
#define TG_LINEAR_KERNELS(op, forward_kernel, ...)             \
    TG_DECLARE_ELEMENTWISE(op);                                \
    const tg_elementwise_kernels KERNEL(tg_##op##_kernels) = { \
        .forward = forward_kernel, .gradient = {__VA_ARGS__}, .takes_value = true, .is_linear = true}

/* The same for an op that gives a mask: the forward kernels of reals, and of masks or NULL. */
#define TG_MASK_KERNELS(op, forward_kernel, masks_kernel) \
    TG_DECLARE_ELEMENTWISE(op);                           \
    const tg_elementwise_kernels KERNEL(tg_##op##_kernels) = {.forward = forward_kernel, .masks = masks_kernel}

/* Initializes an op that has these kernels: its name, the op, the inputs and outputs that backward does not read
 * (tg_op.backward_ignores_inputs), and the names of the inputs. */
#define TG_ELEMENTWISE(name, op, ignores_inputs, ignores_outputs, ...) \
    TG_ELEMENTWISE_WITH_RULE(name, op, tg_elementwise_shape, ignores_inputs, ignores_outputs, __VA_ARGS__)

/* The same with another shape rule, which must end with tg_elementwise_shape or tg_elementwise_output. */
#define TG_ELEMENTWISE_WITH_RULE(op_name, elementwise, rule, ignores_inputs, ignores_outputs, ...) \
    .op = {.name = op_name,                                                                        \
           .shape = rule,                                                                          \
           .input_names = {__VA_ARGS__},                                                           \
           TG_KERNELS(tg_elementwise_forward, tg_elementwise_backward),                            \
           .accepts_layout = tg_any_layout,                                                        \
           .backward_ignores_inputs = ignores_inputs,                                              \
           .backward_ignores_outputs = ignores_outputs,                                            \
           .can_overwrite = true},                                                                 \
    TG_ELEMENTWISE_TABLES(elementwise)

#define TG_ELEMENTWISE_TABLES(op) \
    .f32 = {TG_EACH_LEVEL(&tg_##op##_kernels_f32)}, .f64 = {TG_EACH_LEVEL(&tg_##op##_kernels_f64)}

/* ---- functions of one input ---- */

/* Defines an op and its kernels: `value` is y of x, and `gradient` dx of x and dy. */
#define TG_FUNCTION_OF_INPUT(op, name, value, gradient) \
    TG_LOOP_2(gradient, in[0], dy);                     \
    TG_FUNCTION(op, name, value, gradient##_loop, 0, TG_OP_ALL)

/* The same if `gradient` is dx of y and dy. */
#define TG_FUNCTION_OF_OUTPUT(op, name, value, gradient) \
    TG_LOOP_2(gradient, y, dy);                          \
    TG_FUNCTION(op, name, value, gradient##_loop, TG_OP_ALL, 0)

/* The same if the kernel of the gradient reads neither x nor y. */
#define TG_FUNCTION_OF_NEITHER(op, name, value, gradient_kernel) \
    TG_FUNCTION(op, name, value, gradient_kernel, TG_OP_ALL, TG_OP_ALL)

#define TG_FUNCTION(op, name, value, gradient_kernel, ignores_inputs, ignores_outputs) \
    TG_LOOP_1(value, in[0]);                                                           \
    TG_ELEMENTWISE_KERNELS(op, value##_loop, gradient_kernel);                         \
    TG_FUNCTION_OP(op, name, ignores_inputs, ignores_outputs)

#ifdef TG_ONCE
#define TG_FUNCTION_OP(op, name, ignores_inputs, ignores_outputs) \
    static const tg_elementwise op = {TG_ELEMENTWISE(name, op, ignores_inputs, ignores_outputs, "x")}
#else
#define TG_FUNCTION_OP(op, name, ignores_inputs, ignores_outputs) TG_DECLARE_ELEMENTWISE(op)
#endif

/* ---- the loop over chunks ---- */

TG_DECLARE_KERNEL(tg_elementwise_forward);
TG_DECLARE_KERNEL(tg_elementwise_backward);

/* Copies n values of x, from position `begin` of the walk on, to an array of reals. A mask becomes 0 or 1, and ids
 * become reals. */
void KERNEL(tg_chunk_gather)(const tg_walk *walk, const tg_tensor *x, int64_t begin, int64_t n, void *chunk);

/* The same from the cursor on, which moves past the values. */
void KERNEL(tg_chunk_gather_at)(const tg_walk *walk, const tg_tensor *x, tg_cursor *at, int64_t n, void *chunk);

/* Copies n bytes of a mask from the cursor on, which moves past them. */
void KERNEL(tg_chunk_gather_mask)(const tg_walk *walk, const tg_tensor *x, tg_cursor *at, int64_t n, uint8_t *chunk);

/* Returns the kernels of the called op for this dtype. */
const tg_elementwise_kernels *KERNEL(tg_elementwise_kernels_of)(const tg_op_call *call);

/* Shape rules: all inputs broadcast together. The output has the dtype of the first input that has a gradient, or the
 * given one; an input that has a gradient must be a float. */
bool tg_elementwise_shape(tg_op_call *call);
bool tg_elementwise_output(tg_op_call *call, tg_dtype dtype);

#endif
