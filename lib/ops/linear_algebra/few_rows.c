/* few_rows: the product that few_rows.h describes. */
#include "ops/linear_algebra/few_rows.h"

/* Two registers of AVX-512: an addition need not wait for the one before it. */
#define DOT_LANES 32

typedef struct product {
    const tg_gemm *g;
    const real *a, *b;
    bool add;
    real *c;
} product;

/* Returns sum_i a_i b_i. The order of the additions is the same at every level. */
static inline real dot(const real *a, const real *b, int64_t n)
{
    real lane[DOT_LANES] = {0};
    int64_t i = 0;
    for (; i + DOT_LANES <= n; i += DOT_LANES) {
        for (int k = 0; k < DOT_LANES; k++) {
            lane[k] += a[i + k] * b[i + k];
        }
    }
    for (int k = 0; i < n; i++, k++) {
        lane[k] += a[i] * b[i];
    }
    for (int half = DOT_LANES / 2; half > 0; half /= 2) {
        for (int k = 0; k < half; k++) {
            lane[k] += lane[k + half];
        }
    }
    return lane[0];
}

/* Computes the columns begin .. end - 1 of C. A row of B, once it is in the cache, meets all rows of A. */
static void multiply_columns(void *context, int64_t begin, int64_t end)
{
    const product *p = context;
    for (int64_t column = begin; column < end; column++) {
        const real *b = p->b + column * p->g->ldb;
        for (int64_t row = 0; row < p->g->m; row++) {
            real sum = dot(p->a + row * p->g->lda, b, p->g->k), *c = p->c + row * p->g->ldc + column;
            *c = p->add ? *c + sum : sum;
        }
    }
}

void KERNEL(tg_multiply_few_rows)(const tg_gemm *g, const real *a, const real *b, bool add, real *c)
{
    product p = {g, a, b, add, c};
    tg_parallel_for(g->n, 1 + TG_GRAIN / (1 + g->m * g->k), multiply_columns, &p);
}
