/* kernel (private): the declarations that all files with kernels share; those with `real` are in kernel_real.h. */
#ifndef TG_OPS_KERNEL_H
#define TG_OPS_KERNEL_H

#include <limits.h>

#include <tapegrad/losses.h>

#include "base/level.h"
#include "base/parallel.h"
#include "products/gemm.h"
#include "tape/tape.h"
#include "tensor/walk.h"

/* Declares a kernel, or the two of an op, for both dtypes at each level: TG_DECLARE_KERNELS(tg_embedding_forward,
 * tg_embedding_backward); TG_DECLARE_WIDE_KERNELS declares those of a file that AVX-512 has in f32, too (base/level.h).
 */
typedef void tg_kernel(const tg_op_call *call);
#define TG_DECLARE_KERNEL(name) tg_kernel TG_EACH_LEVEL(avx2, name##_f32), TG_EACH_LEVEL(avx2, name##_f64)
#define TG_DECLARE_KERNELS(f, b)                                                                        \
    tg_kernel TG_EACH_LEVEL(avx2, f##_f32), TG_EACH_LEVEL(avx2, f##_f64), TG_EACH_LEVEL(avx2, b##_f32), \
        TG_EACH_LEVEL(avx2, b##_f64)
#define TG_DECLARE_WIDE_KERNELS(f, b)                                                                       \
    tg_kernel TG_EACH_LEVEL(avx512, f##_f32), TG_EACH_LEVEL(avx2, f##_f64), TG_EACH_LEVEL(avx512, b##_f32), \
        TG_EACH_LEVEL(avx2, b##_f64)

/* Initializes the kernels of a tg_op: TG_KERNELS(tg_embedding_forward, tg_embedding_backward), with TG_NO_KERNEL for
 * one that does not exist; TG_WIDE_KERNELS those of a file that AVX-512 has, too. */
#define TG_KERNELS(f, b)                                  \
    .f32 = {f##_f32, b##_f32}, .f64 = {f##_f64, b##_f64}, \
    .levels = (const tg_op_kernels[TG_LEVELS][2])TG_KERNELS_UP_TO(avx2, f, b)
#define TG_WIDE_KERNELS(f, b)                             \
    .f32 = {f##_f32, b##_f32}, .f64 = {f##_f64, b##_f64}, \
    .levels = (const tg_op_kernels[TG_LEVELS][2])TG_KERNELS_UP_TO(avx512, f, b)
#if TG_LEVELS == 1
#define TG_KERNELS_UP_TO(highest, f, b)           \
    {                                             \
        {{f##_f32, b##_f32}, {f##_f64, b##_f64}}, \
    }
#else
#define TG_KERNELS_UP_TO(highest, f, b)                                                                         \
    {                                                                                                           \
        {{f##_f32, b##_f32}, {f##_f64, b##_f64}}, {{f##_f32_avx2, b##_f32_avx2}, {f##_f64_avx2, b##_f64_avx2}}, \
            {{f##_f32_##highest, b##_f32_##highest}, {f##_f64_avx2, b##_f64_avx2}},                             \
    }
#endif
#define TG_NO_KERNEL_f32 NULL
#define TG_NO_KERNEL_f64 NULL
#define TG_NO_KERNEL_f32_avx2 NULL
#define TG_NO_KERNEL_f64_avx2 NULL

/* Returns whether backward has to write the gradient of an input, which is uninitialized, and not to add to it. */
static inline bool writes_gradient(const tg_op_call *call, int input)
{
    return call->gradient_modes[input] == TG_GRADIENT_WRITE;
}

/* A tensor as (outer,size,inner), where `size` is that of one axis. The values along the axis are a line, and `inner`
 * apart. Line l has the outer index l / inner and the inner index l % inner. A scalar is (1,1,1). */
typedef struct axis_split {
    int64_t outer, size, inner;
} axis_split;

static inline axis_split split_at_axis(const tg_tensor *x, int axis)
{
    axis_split split = {1, 1, 1};
    for (int i = 0; i < axis; i++) {
        split.outer *= x->shape[i];
    }
    if (axis < x->rank) {
        split.size = x->shape[axis];
    }
    for (int i = axis + 1; i < x->rank; i++) {
        split.inner *= x->shape[i];
    }
    return split;
}

/* Returns the offset of the first value of a line. */
static inline int64_t line_offset(const axis_split *split, int64_t line)
{
    return line / split->inner * split->size * split->inner + line % split->inner;
}

/* Returns whether a row of the gradient has no values yet. The kernel visits the ids in their order. *next_new, which
 * begins as *first_new, moves on with each new row. */
static inline bool is_new_row(int32_t row, int32_t *next_new)
{
    const bool is_new = row == *next_new;
    *next_new += is_new;
    return is_new;
}

/* The count of the list that tg_axes_make returns for NULL axes. */
#define TG_NULL_AXES INT_MAX

/* Refuses that list. */
static inline bool tg_expect_list(tg_tape *t, const char *call, tg_axes axes)
{
    return axes.count != TG_NULL_AXES || tg_tape_fail(t, TG_ERROR_STATE, call, "the array of axes is NULL");
}

/* The same, and a list without axes that is not TG_ALL_AXES, or with too many. */
static inline bool tg_expect_axes(tg_tape *t, const char *call, tg_axes axes)
{
    return tg_expect_list(t, call, axes) &&
           (axes.count == -1 || (axes.count >= 1 && axes.count <= TG_MAX_RANK) ||
            (axes.count < 1 ? tg_tape_fail(t, TG_ERROR_VALUE, call,
                                           "%d axes are listed; at least 1 is needed, or TG_ALL_AXES", axes.count)
                            : tg_tape_fail(t, TG_ERROR_RANGE, call, "%d axes are listed; a tensor has at most %d",
                                           axes.count, TG_MAX_RANK)));
}

#endif
