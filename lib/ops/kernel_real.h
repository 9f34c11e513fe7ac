/* kernel_real (private): what all kernels share. */
#ifndef TG_OPS_KERNEL_REAL_H
#define TG_OPS_KERNEL_REAL_H

#include "base/real.h"
#include "ops/kernel.h"

static const tg_dtype real_dtype = IS_FLOAT ? TG_F32 : TG_F64;

/* Computes the product of two matrices (products/gemm.h). */
static inline void gemm(const tg_gemm *g, const real *a, const real *b, real *c)
{
    TYPED(tg_gemm)(g, a, b, c);
}

/* The same, where the dtype of B may be bf16, if `real` is float (tg_op.bf16_inputs). */
static inline void gemm_by(const tg_gemm *g, const real *a, int b_dtype, const void *b, real *c)
{
    if (b_dtype == TG_BF16) {
        tg_gemm_bf16(g, (const void *)a, b, (void *)c);
    } else {
        gemm(g, a, b, c);
    }
}

/* Returns the new value of a gradient: the contribution itself with `overwrite`, else added to the old value (see
 * tg_op.can_overwrite). */
static inline real accumulated(bool overwrite, real old, real contribution)
{
    return overwrite ? contribution : old + contribution;
}

#endif
