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

/* y = alpha M x + beta y for a row-major matrix M of `rows` x `columns` in memory, or its transpose. */
void cblas_sgemv(int order, int transpose, blasint rows, blasint columns, float alpha, const float *m, blasint ld,
                 const float *x, blasint x_distance, float beta, float *y, blasint y_distance);
void cblas_dgemv(int order, int transpose, blasint rows, blasint columns, double alpha, const double *m, blasint ld,
                 const double *x, blasint x_distance, double beta, double *y, blasint y_distance);

#endif
