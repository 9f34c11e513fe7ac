/* cblas: the matrix products that the library uses, for systems without a BLAS package. Tests only: slow. */
#ifndef CBLAS_H
#define CBLAS_H

typedef int blasint;
enum { CblasRowMajor = 101, CblasNoTrans = 111, CblasTrans = 112 };

/* C = alpha A B + beta C for row-major matrices; the arguments are those of BLAS. */
void cblas_sgemm(int order, int transpose_a, int transpose_b, blasint m, blasint n, blasint k, float alpha,
                 const float *a, blasint lda, const float *b, blasint ldb, float beta, float *c, blasint ldc);
void cblas_dgemm(int order, int transpose_a, int transpose_b, blasint m, blasint n, blasint k, double alpha,
                 const double *a, blasint lda, const double *b, blasint ldb, double beta, double *c, blasint ldc);

#endif
