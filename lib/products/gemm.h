/* gemm (private): matrix products.
 *
 * A tg_gemm describes one product and how the memory of its factors is laid out. products/choose.c chooses what
 * computes it: a kernel of the library's own, or BLAS, by the sizes, the layout and the backend
 * (tg_set_matmul_backend). A product that is not of one thread is divided into blocks of C, one for each of the
 * library's threads, and BLAS never starts threads of its own. So one pool of threads is awake at a time.
 */
#ifndef TG_PRODUCTS_GEMM_H
#define TG_PRODUCTS_GEMM_H

#include "base/parallel.h"

/* How the memory holds a factor B, (k,n). */
typedef enum tg_gemm_layout {
    TG_ROW_MAJOR, /* B */
    TG_TRANSPOSED /* the transpose of B, (n,k) */
} tg_gemm_layout;

/* C = A B: A is (m,k), B is (k,n), C is (m,n). A and C are row-major; with transpose_a the memory holds A's transpose,
 * (k,m). `lda`, `ldb` and `ldc` are the distances between the rows in memory, in values. Sizes of 0 are allowed. */
typedef struct tg_gemm {
    int64_t m, n, k;
    bool transpose_a;
    tg_gemm_layout b_layout;
    int64_t lda, ldb, ldc;
    bool add;       /* C += A B; without it the old values of C are not read */
    bool in_thread; /* in the calling thread, with bits that do not depend on the number of threads */
    bool exact;     /* set by products/choose.c: multiply-adds are computed by other means (math/fma.h) */
} tg_gemm;

void tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, float *c);
void tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, double *c);

/* A product of floats with values of B in bf16 (math/half.h): as if they had been converted before. */
void tg_gemm_bf16(const tg_gemm *g, const float *a, const uint16_t *b, float *c);

/* In the reproducible mode, one of the calling thread, products have the same bits on every processor: the built-in
 * loops compute them with fused multiply-adds, or where the level has none, exactly by other means. */
static inline void tg_products_set_reproducible(bool reproducible)
{
    tg_thread_mode = reproducible;
}

/* The largest size or distance that the BLAS library can take. */
#define TG_GEMM_LIMIT INT32_MAX

#endif
