#include "tensor/blas.h"

#include <cblas.h>

/* Sets the number of threads of OpenBLAS, which has its own thread pool, to tg_threads(). Reading the number is cheap,
 * but setting it is not. */
static void follow_threads(void)
{
#ifdef OPENBLAS_THREAD
    if (openblas_get_num_threads() != tg_threads()) {
        openblas_set_num_threads(tg_threads());
    }
#endif
}

void tg_gemm_begin_parallel(void)
{
    follow_threads();
}

/* Returns a leading dimension that BLAS accepts: at least 1, even for an empty matrix. */
static blasint distance(int64_t ld)
{
    return ld < 1 ? 1 : (blasint)ld;
}

void tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, float beta, float *c)
{
    follow_threads();
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)g->m, (blasint)g->n, (blasint)g->k, 1.0f, a, distance(g->lda), b, distance(g->ldb), beta, c,
                distance(g->ldc));
}

void tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, double beta, double *c)
{
    follow_threads();
    cblas_dgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)g->m, (blasint)g->n, (blasint)g->k, 1.0, a, distance(g->lda), b, distance(g->ldb), beta, c,
                distance(g->ldc));
}
