/* few_rows (private): C = A B^T for a matrix A of a few rows, and c += a B for a row.
 *
 * When a model generates text, the next token of each sequence is one row, and the step reads every weight once, and
 * the keys and values of all tokens before: its time is that of reading them. BLAS copies B into another order before
 * it multiplies, which takes longer than so few products. Here B is read where it is. Threads divide the rows of B.
 *
 * With AVX2 and AVX-512 up to 16 rows of a large B take less time than in BLAS. Of a small B, which stays in the cache,
 * 4 rows do with AVX2, and with AVX-512 OpenBLAS has faster kernels (tests/bench/README.md). The limits are the same at
 * each level, and so are the bits.
 * A dot product of fewer terms than it has lanes, such as the single one of a gradient of a column, takes longer than
 * BLAS does.
 */
#ifndef TG_PRODUCTS_FEW_ROWS_H
#define TG_PRODUCTS_FEW_ROWS_H

#include "base/real.h"
#include "products/gemm.h"

/* The values of a large B. */
#define TG_LARGE_FACTOR ((int64_t)1 << 16)

/* Returns whether a product has few enough rows, long enough sums, and the right layout. */
static inline bool has_few_rows(const tg_gemm *g)
{
    return g->m <= (g->n >= TG_LARGE_FACTOR / (g->k + 1) ? 16 : 8) && g->k >= 32 && g->transpose_b && !g->transpose_a;
}

/* Computes C = A B^T, or with `add` C += A B^T. */
void KERNEL(tg_multiply_few_rows)(const tg_gemm *g, const real *a, const real *b, bool add, real *c);

/* Computes c += a B in the calling thread, for a row a and a row-major B. */
void KERNEL(tg_add_row_product)(const tg_gemm *g, const real *a, const real *b, real *c);

#endif
