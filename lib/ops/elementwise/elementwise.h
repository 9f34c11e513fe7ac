/* elementwise (private): the loop of all ops that work value by value, with NumPy's broadcasting.
 *
 * The output is contiguous, and is cut into chunks of neighboring values. A kernel gets the same chunk of each input,
 * of y and of dy, as contiguous reals: in place if they lie so in memory, else as a copy of at most 512 values, where a
 * mask is 0 or 1, and ids are reals. So a kernel is a plain loop over k->n values, which the compiler vectorizes. All
 * that is around it is compiled once for all ops.
 *
 * An op is one or a few functions of numbers, the loops over them, and a row:
 *
 *     static inline real div_value(real a, real b)                      y = a / b
 *     static inline real div_gradient_a(real b, real dy)                da = dy / b
 *     static inline real div_gradient_b(real b, real y, real dy)        db = -dy y / b
 *     TG_LOOP(div_value, a[i], b[i]);                                   div_value_loop
 *     TG_LOOP(div_gradient_a, b[i], dy[i]);
 *     TG_LOOP(div_gradient_b, b[i], y[i], dy[i]);
 *     TG_FUNCTION_OF_TWO(div, 1, 0, 0, div_gradient_a_loop, div_gradient_b_loop);     tg_div
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

#define TG_ELEMENTWISE_INPUTS 4

/* The largest number of values in a chunk that is copied. */
#define TG_ELEMENTWISE_CHUNK 512

/* The options of an op, which are numbers; the attributes of the call begin with them. */
typedef struct tg_numbers {
    double p, q;
} tg_numbers;

/* The arguments of a kernel. All arrays have the type `real`, but those of masks are u8. */
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

/* ---- the loops over a chunk ---- */

/* Defines function_loop, a kernel that writes function(...) for each value of a chunk. The arguments are those of the
 * function: a[i] to d[i] are the inputs, y[i] and dy[i] the result and its gradient, p and q the options. */
#define TG_LOOP(function, ...) TG_LOOP_OF(real, real, function, __VA_ARGS__)

/* The same with these types of the inputs and of the result; n is a copy, because a byte could be a part of k. */
#define TG_LOOP_OF(type, result, function, ...)                                  \
    static void function##_loop(const tg_chunk *k)                               \
    {                                                                            \
        const type *a = k->in[0], *b = k->in[1], *c = k->in[2], *d = k->in[3];   \
        const real *y = k->y, *dy = k->dy;                                       \
        const double p = k->numbers.p, q = k->numbers.q;                         \
        result *out = k->out;                                                    \
        const int64_t n = k->n;                                                  \
        for (int64_t i = 0; i < n; i++) {                                        \
            out[i] = function(__VA_ARGS__);                                      \
        }                                                                        \
        (void)a, (void)b, (void)c, (void)d, (void)y, (void)dy, (void)p, (void)q; \
    }                                                                            \
    static tg_chunk_kernel function##_loop

/* ---- ops ---- */

/* Defines the kernels of an op for this dtype and level: the forward kernel, and those of the gradients of the first
 * three inputs. */
#define TG_ELEMENTWISE_KERNELS(function, forward_kernel, gradient_a, gradient_b, gradient_c) \
    extern const tg_elementwise_kernels TG_EACH_WIDE_LEVEL(tg_##function##_kernels_f32),     \
        TG_EACH_WIDE_LEVEL(tg_##function##_kernels_f64);                                     \
    const tg_elementwise_kernels KERNEL(tg_##function##_kernels) = {forward_kernel,          \
                                                                    {gradient_a, gradient_b, gradient_c}}

/* The same, and function_op with these fields of a tg_elementwise. Its kernels are loop_forward and loop_backward:
 * `loop` is tg_elementwise, or that of a file that calls this one. */
#ifdef TG_ONCE
#define TG_ELEMENTWISE(function, loop, forward_kernel, gradient_a, gradient_b, gradient_c, ...)                      \
    TG_ELEMENTWISE_KERNELS(function, forward_kernel, gradient_a, gradient_b, gradient_c);                            \
    static const tg_elementwise function##_op = {                                                                    \
        .op = {TG_KERNELS(loop##_forward, loop##_backward), .accepts_layout = tg_any_layout, .can_overwrite = true}, \
        .f32 = {TG_EACH_WIDE_LEVEL(&tg_##function##_kernels_f32)},                                                   \
        .f64 = {TG_EACH_WIDE_LEVEL(&tg_##function##_kernels_f64)},                                                   \
        __VA_ARGS__}
#else
#define TG_ELEMENTWISE(function, loop, forward_kernel, gradient_a, gradient_b, gradient_c, ...) \
    TG_ELEMENTWISE_KERNELS(function, forward_kernel, gradient_a, gradient_b, gradient_c)
#endif

/* Defines an op of one input without options, and the public function tg_function. The forward kernel is
 * function_value_loop. The others are bit masks of the inputs and the outputs that backward does not read, and the
 * kernel of the gradient. */
#ifdef TG_ONCE
#define TG_FUNCTION_OF_ONE(function, ignores_inputs, ignores_outputs, gradient)                                   \
    TG_ELEMENTWISE(function, tg_elementwise, function##_value_loop, gradient, NULL, NULL, .op.name = #function,   \
                   .op.shape = tg_elementwise_shape, .op.input_names = {"x"},                                     \
                   .op.backward_ignores_inputs = ignores_inputs, .op.backward_ignores_outputs = ignores_outputs); \
    tg_tensor *tg_##function(tg_tape *t, tg_tensor *x)                                                            \
    {                                                                                                             \
        return tg_apply(t, &function##_op.op, &x, 1, NULL, 0, NULL);                                              \
    }                                                                                                             \
    tg_tensor *tg_##function(tg_tape *t, tg_tensor *x)
#else
#define TG_FUNCTION_OF_ONE(function, ignores_inputs, ignores_outputs, gradient) \
    TG_ELEMENTWISE_KERNELS(function, function##_value_loop, gradient, NULL, NULL)
#endif

/* The same for two inputs; `passes` are those whose gradient is dy itself. */
#ifdef TG_ONCE
#define TG_FUNCTION_OF_TWO(function, ignores_inputs, ignores_outputs, passes, gradient_a, gradient_b)            \
    TG_ELEMENTWISE(function, tg_elementwise, function##_value_loop, gradient_a, gradient_b, NULL,                \
                   .op.name = #function, .op.shape = tg_elementwise_shape, .op.input_names = {"a", "b"},         \
                   .op.backward_ignores_inputs = ignores_inputs, .op.backward_ignores_outputs = ignores_outputs, \
                   .op.passes_gradient = passes);                                                                \
    tg_tensor *tg_##function(tg_tape *t, tg_tensor *a, tg_tensor *b)                                             \
    {                                                                                                            \
        tg_tensor *inputs[] = {a, b};                                                                            \
        return tg_apply(t, &function##_op.op, inputs, 2, NULL, 0, NULL);                                         \
    }                                                                                                            \
    tg_tensor *tg_##function(tg_tape *t, tg_tensor *a, tg_tensor *b)
#else
#define TG_FUNCTION_OF_TWO(function, ignores_inputs, ignores_outputs, passes, gradient_a, gradient_b) \
    TG_ELEMENTWISE_KERNELS(function, function##_value_loop, gradient_a, gradient_b, NULL)
#endif

/* Shape rules: all inputs broadcast together. The output has the dtype of the first input that has a gradient, or the
 * given one; an input that has a gradient must be a float. */
bool tg_elementwise_shape(tg_op_call *call);
bool tg_elementwise_output(tg_op_call *call, tg_dtype dtype);

/* ---- the loop over chunks ---- */

TG_DECLARE_KERNEL(tg_elementwise_forward);
TG_DECLARE_KERNEL(tg_elementwise_backward);

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

/* Sets all but y and dy for a call whose results have this shape; `ignores` are the inputs that no kernel reads. */
void KERNEL(tg_elementwise_set)(tg_elementwise_call *l, const tg_op_call *call, const tg_shape *shape,
                                uint32_t ignores);

/* Calls the kernel for the values begin .. end - 1, and writes the results, of type u8 or real, to `out`. */
void KERNEL(tg_elementwise_part)(const tg_elementwise_call *l, tg_chunk_kernel *kernel, int64_t begin, int64_t end,
                                 void *out);

/* The same for gradients, which are added to dx. */
void KERNEL(tg_elementwise_add)(const tg_elementwise_call *l, tg_chunk_kernel *kernel, int64_t begin, int64_t end,
                                void *dx);

#endif
