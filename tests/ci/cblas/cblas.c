#include "cblas.h"

#define GEMM(name, real)                                                                                               \
    void name(int order, int transpose_a, int transpose_b, blasint m, blasint n, blasint k, real alpha, const real *a, \
              blasint lda, const real *b, blasint ldb, real beta, real *c, blasint ldc)                                \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        for (blasint i = 0; i < m; i++) {                                                                              \
            for (blasint j = 0; j < n; j++) {                                                                          \
                double sum = 0;                                                                                        \
                for (blasint l = 0; l < k; l++) {                                                                      \
                    real left = transpose_a == CblasTrans ? a[(long)l * lda + i] : a[(long)i * lda + l];               \
                    real right = transpose_b == CblasTrans ? b[(long)j * ldb + l] : b[(long)l * ldb + j];              \
                    sum += (double)left * (double)right;                                                               \
                }                                                                                                      \
                real *to = &c[(long)i * ldc + j];                                                                      \
                *to = (real)((double)alpha * sum + (beta == 0 ? 0 : (double)beta * (double)*to));                      \
            }                                                                                                          \
        }                                                                                                              \
    }

GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
