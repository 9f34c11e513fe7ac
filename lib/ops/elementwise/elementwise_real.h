/* elementwise_real (private): loops over a chunk, and the rows of elementwise ops (elementwise.h). */
#ifndef TG_OPS_ELEMENTWISE_ELEMENTWISE_REAL_H
#define TG_OPS_ELEMENTWISE_ELEMENTWISE_REAL_H

#include "ops/kernel_real.h"
#include "ops/elementwise/elementwise.h"

/* ---- the loops over a chunk ---- */

/* Defines a kernel that writes an expression for each value of a chunk. In it a to d are the values of the inputs, y
 * and dy the result and its gradient, p and q the options. */
#define TG_LOOP(kernel, expression)                                                                          \
    static void kernel(const tg_chunk *k)                                                                    \
    {                                                                                                        \
        const real *as = k->in[0], *bs = k->in[1], *cs = k->in[2], *ds = k->in[3], *ys = k->y, *dys = k->dy; \
        const double p = k->numbers.p, q = k->numbers.q;                                                     \
        real *out = k->out;                                                                                  \
        for (int64_t i = 0, n = k->n; i < n; i++) {                                                          \
            const real a = as[i], b = bs[i], c = cs[i], d = ds[i], y = ys[i], dy = dys[i];                   \
            out[i] = expression;                                                                             \
            (void)a, (void)b, (void)c, (void)d, (void)y, (void)dy;                                           \
        }                                                                                                    \
        (void)p, (void)q;                                                                                    \
    }                                                                                                        \
    static tg_chunk_kernel kernel

/* ---- ops ---- */

/* Defines an op, a static variable, with these fields of a tg_elementwise. Its kernels for this dtype and level are
 * KERNEL(variable): forward, and those of the gradients of the first three inputs. `loops` are the loops over chunks,
 * tg_elementwise_levels or those of a file that calls them. */
#ifdef TG_ONCE
#define TG_ELEMENTWISE(variable, loops, forward, gradient_a, gradient_b, gradient_c, ...)                            \
    extern const tg_elementwise_kernels TG_EACH_LEVEL(avx512, variable##_f32), TG_EACH_LEVEL(avx2, variable##_f64);  \
    const tg_elementwise_kernels KERNEL(variable) = {forward, {gradient_a, gradient_b, gradient_c}};                 \
    static const tg_elementwise variable = {.op = {.f32 = {tg_elementwise_forward_f32, tg_elementwise_backward_f32}, \
                                                   .f64 = {tg_elementwise_forward_f64, tg_elementwise_backward_f64}, \
                                                   .levels = loops,                                                  \
                                                   .accepts_layout = tg_any_layout,                                  \
                                                   .can_overwrite = true},                                           \
                                            .f32 = {TG_EACH_LEVEL(avx512, &variable##_f32)},                         \
                                            .f64 = {TG_EACH_LEVEL(avx2, &variable##_f64)},                           \
                                            __VA_ARGS__}
#else
#define TG_ELEMENTWISE(variable, loops, forward, gradient_a, gradient_b, gradient_c, ...)                           \
    extern const tg_elementwise_kernels TG_EACH_LEVEL(avx512, variable##_f32), TG_EACH_LEVEL(avx2, variable##_f64); \
    const tg_elementwise_kernels KERNEL(variable) = {forward, {gradient_a, gradient_b, gradient_c}}
#endif

/* Defines an op and its public function, of one input or of two and without options. The result has the dtype of the
 * inputs (tg_elementwise_shape). */
#ifdef TG_ONCE
#define TG_FUNCTION_OF_ONE(function, variable, forward, gradient, ...)                                      \
    TG_ELEMENTWISE(variable, tg_elementwise_levels, forward, gradient, NULL, NULL, .op.input_names = {"x"}, \
                   .op.shape = tg_elementwise_shape, __VA_ARGS__);                                          \
    tg_tensor *function(tg_tape *t, tg_tensor *x)                                                           \
    {                                                                                                       \
        return tg_apply(t, &variable.op, &x, 1, NULL, 0, NULL);                                             \
    }                                                                                                       \
    tg_tensor *function(tg_tape *t, tg_tensor *x)
#define TG_FUNCTION_OF_TWO(function, variable, forward, gradient_a, gradient_b, ...)       \
    TG_ELEMENTWISE(variable, tg_elementwise_levels, forward, gradient_a, gradient_b, NULL, \
                   .op.input_names = {"a", "b"}, __VA_ARGS__);                             \
    tg_tensor *function(tg_tape *t, tg_tensor *a, tg_tensor *b)                            \
    {                                                                                      \
        tg_tensor *inputs[] = {a, b};                                                      \
        return tg_apply(t, &variable.op, inputs, 2, NULL, 0, NULL);                        \
    }                                                                                      \
    tg_tensor *function(tg_tape *t, tg_tensor *a, tg_tensor *b)
#else
#define TG_FUNCTION_OF_ONE(function, variable, forward, gradient, ...) \
    TG_ELEMENTWISE(variable, tg_elementwise_levels, forward, gradient, NULL, NULL, __VA_ARGS__)
#define TG_FUNCTION_OF_TWO(function, variable, forward, gradient_a, gradient_b, ...) \
    TG_ELEMENTWISE(variable, tg_elementwise_levels, forward, gradient_a, gradient_b, NULL, __VA_ARGS__)
#endif

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
