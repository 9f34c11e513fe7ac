/* kernel (private): the declarations that all files with kernels share. */
#ifndef TG_OPS_KERNEL_H
#define TG_OPS_KERNEL_H

#include <limits.h>

#include <tapegrad/ops.h>

#include "base/parallel.h"
#include "base/real.h"
#include "tape/tape.h"
#include "tensor/blas.h"
#include "tensor/walk.h"

/* Declares a kernel for both dtypes: TG_DECLARE_KERNEL(tg_softmax_forward); */
#define TG_DECLARE_KERNEL(name)              \
    void name##_f32(const tg_op_call *call); \
    void name##_f64(const tg_op_call *call)

/* The body of a loop for tg_parallel_for. */
typedef void loop_body(void *context, int64_t begin, int64_t end);

/* Computes C = A B + beta C (tensor/blas.h). */
static inline void gemm(const tg_gemm *g, const real *a, const real *b, real beta, real *c)
{
    KERNEL(tg_gemm)(g, a, b, beta, c);
}

/* Returns the new value of a gradient: the contribution itself with `overwrite`, else added to the old value (see
 * tg_op.can_overwrite). */
static inline real accumulated(bool overwrite, real old, real contribution)
{
    return overwrite ? contribution : old + contribution;
}

/* The count of the list that tg_axes_make returns for NULL axes. */
#define TG_NULL_AXES INT_MAX

/* Refuses that list. */
static inline bool tg_expect_axes(tg_tape *t, const char *call, tg_axes axes)
{
    return axes.count != TG_NULL_AXES || tg_tape_fail(t, TG_ERROR_STATE, call, "the array of axes is NULL");
}

#endif
