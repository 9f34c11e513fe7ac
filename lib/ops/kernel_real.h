/* kernel_real (private): what all kernels share. */
#ifndef TG_OPS_KERNEL_REAL_H
#define TG_OPS_KERNEL_REAL_H

#include "base/real.h"
#include "ops/kernel.h"

static const tg_dtype real_dtype = sizeof(real) == sizeof(float) ? TG_F32 : TG_F64;

/* Computes the product of two matrices (products/gemm.h). */
static inline void gemm(const tg_gemm *g, const real *a, const real *b, real *c)
{
    TYPED(tg_gemm)(g, a, b, c);
}

/* Returns the new value of a gradient: the contribution itself with `overwrite`, else added to the old value (see
 * tg_op.can_overwrite). */
static inline real accumulated(bool overwrite, real old, real contribution)
{
    return overwrite ? contribution : old + contribution;
}

#endif
