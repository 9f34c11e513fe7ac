/* gemm (private): matrix products, by BLAS or by loops of the library's own.
 *
 * A product is divided into blocks of C, one for each of the library's threads. What computes a block in its thread is
 * the backend (tg_set_matmul_backend): BLAS (products/blas.c), which never starts threads of its own, or the built-in
 * loops (products/builtin_gemm.c). So one pool of threads is awake at a time.
 */
#ifndef TG_PRODUCTS_GEMM_H
#define TG_PRODUCTS_GEMM_H

#include "base/level.h"
#include "base/parallel.h"

/* C = A B for row-major matrices: A is (m,k), B is (k,n), C is (m,n). `lda`, `ldb` and `ldc` are the distances between
 * rows, in values. With transpose_a the memory holds A's transpose, (k,m) with rows lda apart; B likewise. Sizes of 0
 * are allowed. */
typedef struct tg_gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    int64_t lda, ldb, ldc;
} tg_gemm;

/* Computes C = A B, or with `add` C += A B. Without `add` the old values of C are not read. */
void tg_gemm_f32(const tg_gemm *gemm, const float *a, const float *b, bool add, float *c);
void tg_gemm_f64(const tg_gemm *gemm, const double *a, const double *b, bool add, double *c);

/* The same in the calling thread, with bits that do not depend on the number of threads. */
void tg_gemm_in_thread_f32(const tg_gemm *gemm, const float *a, const float *b, bool add, float *c);
void tg_gemm_in_thread_f64(const tg_gemm *gemm, const double *a, const double *b, bool add, double *c);

/* ---- reproducible products ---- */
/* In the reproducible mode, one of the calling thread, products have the same bits on every processor: the built-in
 * loops compute them with fused multiply-adds, or where the level has none, exactly by other means. */

static inline void tg_products_set_reproducible(bool reproducible)
{
    tg_thread_mode = reproducible;
}

/* Returns whether the built-in loops compute the products of the calling thread. */
bool tg_products_are_builtin(void);

/* Returns whether they have to compute multiply-adds by other means. */
bool tg_products_are_exact(void);

/* The largest size or distance that the BLAS library can take. */
#define TG_GEMM_LIMIT INT32_MAX

/* ---- backends ---- */

/* Computes a product in the calling thread. The arrays are float or double. */
typedef void tg_gemm_kernel(const tg_gemm *gemm, const void *a, const void *b, bool add, void *c);

tg_gemm_kernel tg_blas_gemm_f32, tg_blas_gemm_f64;
tg_gemm_kernel TG_EACH_WIDE_LEVEL(tg_builtin_gemm_f32), TG_EACH_WIDE_LEVEL(tg_builtin_gemm_f64);
tg_gemm_kernel tg_builtin_gemm_f32_exact, tg_builtin_gemm_f64_exact; /* products/exact_tile.h */

/* Returns memory of the calling thread for the built-in loops, aligned to a cache line, which stays until the thread
 * ends: TG_BUILTIN_MEMORY bytes, and behind them those of a panel (products/builtin_tile.h). NULL if there is none. */
#define TG_BUILTIN_MEMORY ((size_t)480 * 384 * sizeof(float))
#define TG_BUILTIN_PANEL ((size_t)384 * 128)
void *tg_builtin_memory(void);

/* Returns whether the BLAS of the build has kernels for the vector instructions of this level, or may have. False in a
 * build without BLAS. */
bool tg_blas_has_level(int level);

/* Returns how many threads may call BLAS at the same time. 1: the library divides a product itself, or cannot compute
 * two at the same time. */
int tg_blas_callers(void);

#endif
