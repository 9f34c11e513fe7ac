/* kernel (private): the declarations that all files with kernels share. */
#ifndef TG_OPS_KERNEL_H
#define TG_OPS_KERNEL_H

#include <tapegrad/losses.h>

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

#endif
