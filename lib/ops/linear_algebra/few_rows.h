/* few_rows (private): C = A B^T for a matrix A of a few rows, and c += a B for a row.
 *
 * When a model generates text, the next token of each sequence is one row, and the step reads every weight once, and
 * the keys and values of all tokens before: its time is that of reading them. BLAS copies B into another order before
 * it multiplies, which takes longer than so few products. Here B is read where it is. Threads divide the rows of B.
 *
 * BLAS is as fast from 12 rows on with AVX-512, and from 8 or 9 on with AVX2 (GPT-2 small, the next token of several
 * sequences). The limit is the same at each level, and so are the bits.
 * A dot product of fewer terms than it has lanes, such as the single one of a gradient of a column, takes longer than
 * BLAS does.
 */
#ifndef TG_OPS_LINEAR_ALGEBRA_FEW_ROWS_H
#define TG_OPS_LINEAR_ALGEBRA_FEW_ROWS_H

#include "ops/kernel.h"

/* Returns whether a product has few enough rows, long enough sums, and the right layout. */
static inline bool has_few_rows(const tg_gemm *g)
{
    return g->m <= 8 && g->k >= 32 && g->transpose_b && !g->transpose_a;
}

/* Computes C = A B^T, or with `add` C += A B^T. */
void KERNEL(tg_multiply_few_rows)(const tg_gemm *g, const real *a, const real *b, bool add, real *c);

/* Computes c += a B in the calling thread, for a row a and a row-major B. */
void KERNEL(tg_add_row_product)(const tg_gemm *g, const real *a, const real *b, real *c);

#endif
