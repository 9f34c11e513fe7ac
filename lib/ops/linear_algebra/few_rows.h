/* few_rows (private): C = A B^T for a matrix A of a few rows.
 *
 * When a model generates text, the next token of each sequence is one row, and the step reads every weight once: its
 * time is that of reading the weights. BLAS copies B into another order before it multiplies, which takes longer than
 * so few products. Here each value is a dot product of two rows where they are. Threads divide the rows of B.
 *
 * The limit is the number of rows from which on BLAS was as fast (GPT-2 small, one token of each of 6 or 8 sequences).
 */
#ifndef TG_OPS_LINEAR_ALGEBRA_FEW_ROWS_H
#define TG_OPS_LINEAR_ALGEBRA_FEW_ROWS_H

#include "ops/kernel.h"

/* Returns whether a product has few enough rows, and the right layout. */
static inline bool has_few_rows(const tg_gemm *g)
{
    return g->m <= 6 && g->transpose_b && !g->transpose_a;
}

/* Computes C = A B^T, or with `add` C += A B^T. */
void KERNEL(tg_multiply_few_rows)(const tg_gemm *g, const real *a, const real *b, bool add, real *c);

#endif
