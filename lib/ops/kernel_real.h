/* kernel_real (private): what all kernels share. */
#ifndef TG_OPS_KERNEL_REAL_H
#define TG_OPS_KERNEL_REAL_H

#include "base/real.h"
#include "ops/kernel.h"

/* Computes C = A B, or with `add` C += A B (products/gemm.h). */
static inline void gemm(const tg_gemm *g, const real *a, const real *b, bool add, real *c)
{
    TYPED(tg_gemm)(g, a, b, add, c);
}

/* The same in the calling thread, for the body of a parallel loop. */
static inline void gemm_in_thread(const tg_gemm *g, const real *a, const real *b, bool add, real *c)
{
    TYPED(tg_gemm_in_thread)(g, a, b, add, c);
}

/* Returns the new value of a gradient: the contribution itself with `overwrite`, else added to the old value (see
 * tg_op.can_overwrite). */
static inline real accumulated(bool overwrite, real old, real contribution)
{
    return overwrite ? contribution : old + contribution;
}

#endif
