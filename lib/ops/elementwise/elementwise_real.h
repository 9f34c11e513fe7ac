/* elementwise_real (private): loops over a chunk, and the rows of elementwise ops (elementwise.h). */
#ifndef TG_OPS_ELEMENTWISE_ELEMENTWISE_REAL_H
#define TG_OPS_ELEMENTWISE_ELEMENTWISE_REAL_H

#include "ops/kernel_real.h"
#include "ops/elementwise/elementwise.h"

/* ---- the loops over a chunk ---- */

/* Defines a kernel that writes an expression for each value of a chunk. In it a[i] to d[i] are the inputs, y[i] and
 * dy[i] the result and its gradient, p and q the options. */
#define TG_LOOP(kernel, expression) TG_LOOP_OF(real, real, kernel, expression)

/* The same with these types of the inputs and of the result; n is a copy, because a byte could be a part of k. */
#define TG_LOOP_OF(type, result, kernel, expression)                             \
    static void kernel(const tg_chunk *k)                                        \
    {                                                                            \
        const type *a = k->in[0], *b = k->in[1], *c = k->in[2], *d = k->in[3];   \
        const real *y = k->y, *dy = k->dy;                                       \
        const double p = k->numbers.p, q = k->numbers.q;                         \
        result *out = k->out;                                                    \
        const int64_t n = k->n;                                                  \
        for (int64_t i = 0; i < n; i++) {                                        \
            out[i] = expression;                                                 \
        }                                                                        \
        (void)a, (void)b, (void)c, (void)d, (void)y, (void)dy, (void)p, (void)q; \
    }                                                                            \
    static tg_chunk_kernel kernel

/* ---- ops ---- */

/* Defines the kernels of an op for this dtype and level, KERNEL(variable): the forward kernel, and those of the
 * gradients of the first three inputs. */
#define TG_ELEMENTWISE_KERNELS(variable, forward_kernel, gradient_a, gradient_b, gradient_c)                    \
    extern const tg_elementwise_kernels TG_EACH_WIDE_LEVEL(variable##_f32), TG_EACH_WIDE_LEVEL(variable##_f64); \
    const tg_elementwise_kernels KERNEL(variable) = {forward_kernel, {gradient_a, gradient_b, gradient_c}}

/* Defines an op, a static variable, with its kernels, two kernels that loop over chunks, and more fields of a
 * tg_elementwise. The loops are tg_elementwise_forward and tg_elementwise_backward, or those of a file that calls
 * them. */
#ifdef TG_ONCE
#define TG_ELEMENTWISE(variable, loop_forward, loop_backward, forward_kernel, gradient_a, gradient_b, gradient_c, ...) \
    TG_ELEMENTWISE_KERNELS(variable, forward_kernel, gradient_a, gradient_b, gradient_c);                              \
    static const tg_elementwise variable = {                                                                           \
        .op = {TG_KERNELS(loop_forward, loop_backward), .accepts_layout = tg_any_layout, .can_overwrite = true},       \
        .f32 = {TG_EACH_WIDE_LEVEL(&variable##_f32)},                                                                  \
        .f64 = {TG_EACH_WIDE_LEVEL(&variable##_f64)},                                                                  \
        __VA_ARGS__}
#else
#define TG_ELEMENTWISE(variable, loop_forward, loop_backward, forward_kernel, gradient_a, gradient_b, gradient_c, ...) \
    TG_ELEMENTWISE_KERNELS(variable, forward_kernel, gradient_a, gradient_b, gradient_c)
#endif

/* Defines a public function of one input without options, and its op. The numbers are bit masks of the inputs and the
 * outputs that backward does not read. */
#ifdef TG_ONCE
#define TG_FUNCTION_OF_ONE(function, variable, text, ignores_inputs, ignores_outputs, forward_kernel, gradient)     \
    TG_ELEMENTWISE(variable, tg_elementwise_forward, tg_elementwise_backward, forward_kernel, gradient, NULL, NULL, \
                   .op.name = text, .op.shape = tg_elementwise_shape, .op.input_names = {"x"},                      \
                   .op.backward_ignores_inputs = ignores_inputs, .op.backward_ignores_outputs = ignores_outputs);   \
    tg_tensor *function(tg_tape *t, tg_tensor *x)                                                                   \
    {                                                                                                               \
        return tg_apply(t, &variable.op, &x, 1, NULL, 0, NULL);                                                     \
    }                                                                                                               \
    tg_tensor *function(tg_tape *t, tg_tensor *x)
#else
#define TG_FUNCTION_OF_ONE(function, variable, text, ignores_inputs, ignores_outputs, forward_kernel, gradient) \
    TG_ELEMENTWISE_KERNELS(variable, forward_kernel, gradient, NULL, NULL)
#endif

/* Defines a public function of two inputs without options, and its op with these fields of a tg_elementwise. */
#ifdef TG_ONCE
#define TG_OP_OF_TWO(function, variable, forward, for_a, for_b, ...)                                       \
    TG_ELEMENTWISE(variable, tg_elementwise_forward, tg_elementwise_backward, forward, for_a, for_b, NULL, \
                   .op.input_names = {"a", "b"}, __VA_ARGS__);                                             \
    tg_tensor *function(tg_tape *t, tg_tensor *a, tg_tensor *b)                                            \
    {                                                                                                      \
        tg_tensor *inputs[] = {a, b};                                                                      \
        return tg_apply(t, &variable.op, inputs, 2, NULL, 0, NULL);                                        \
    }                                                                                                      \
    tg_tensor *function(tg_tape *t, tg_tensor *a, tg_tensor *b)
#else
#define TG_OP_OF_TWO(function, variable, forward, for_a, for_b, ...) \
    TG_ELEMENTWISE_KERNELS(variable, forward, for_a, for_b, NULL)
#endif

/* The same for arithmetic, with the masks of TG_FUNCTION_OF_ONE; `passes` are inputs whose gradient is dy itself. */
#define TG_FUNCTION_OF_TWO(function, variable, text, ignores_inputs, ignores_outputs, passes, forward, for_a, for_b) \
    TG_OP_OF_TWO(function, variable, forward, for_a, for_b, .op.name = text, .op.shape = tg_elementwise_shape,       \
                 .op.backward_ignores_inputs = ignores_inputs, .op.backward_ignores_outputs = ignores_outputs,       \
                 .op.passes_gradient = passes)

/* ---- parts of a call ---- */

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
