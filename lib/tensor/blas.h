/* blas (private): matrix products. Only blas.c depends on a particular BLAS library. */
#ifndef TG_TENSOR_BLAS_H
#define TG_TENSOR_BLAS_H

#include <tapegrad/base.h>

/* C = A B + beta C for row-major matrices: A is (m,k), B is (k,n), C is (m,n). `lda`, `ldb` and `ldc` are the distances
 * between rows, in values. With transpose_a the memory holds A's transpose, (k,m) with rows lda apart; B likewise. beta
 * 0 overwrites C even if it holds NaN. Sizes of 0 are allowed. */
typedef struct tg_gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    int64_t lda, ldb, ldc;
} tg_gemm;

void tg_gemm_f32(const tg_gemm *gemm, const float *a, const float *b, float beta, float *c);
void tg_gemm_f64(const tg_gemm *gemm, const double *a, const double *b, double beta, double *c);

/* A product of at most this number of multiplications, m n k, is computed in the calling thread. OpenBLAS has this
 * limit, and other libraries are given it. */
#define TG_GEMM_ONE_THREAD (64 * 64 * 64)

/* Call it before a parallel loop that computes products of at most TG_GEMM_ONE_THREAD multiplications: then none of
 * them changes the number of BLAS's threads, which all threads of the program share. */
void tg_gemm_begin_parallel(void);

/* The largest size or distance that the BLAS library can take. */
#define TG_GEMM_LIMIT INT32_MAX

#endif
