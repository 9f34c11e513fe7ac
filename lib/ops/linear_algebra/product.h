/* product (private): the products of tg_linear and tg_matmul. */
#ifndef TG_OPS_LINEAR_ALGEBRA_PRODUCT_H
#define TG_OPS_LINEAR_ALGEBRA_PRODUCT_H

#include "ops/kernel_real.h"
#include "products/few_rows.h"

/* Computes C = A B, or with `add` C += A B; with `in_thread` in the calling thread. */
static inline void product_multiply(const tg_gemm *g, const real *a, const real *b, bool add, real *c, bool in_thread)
{
    if (has_few_rows(g) && !tg_products_are_builtin()) {
        KERNEL(tg_multiply_few_rows)(g, a, b, add, c);
    } else if (in_thread) {
        gemm_in_thread(g, a, b, add, c);
    } else {
        gemm(g, a, b, add, c);
    }
}

#endif
