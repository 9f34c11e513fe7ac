/* blas_disabled: in place of blas.c in a build without BLAS (-Dblas=builtin). */
#include "products/kernels.h"

tg_blas tg_get_blas(void)
{
    return (tg_blas){.library = ""};
}

bool tg_blas_has_level(int level)
{
    (void)level;
    return false;
}

int tg_blas_callers(void)
{
    return 1;
}

/* These are never called: the backend is the built-in loops. */
void tg_blas_gemm_f32(const tg_gemm *g, const void *a, const void *b, void *c)
{
    (void)g, (void)a, (void)b, (void)c;
}

void tg_blas_gemm_f64(const tg_gemm *g, const void *a, const void *b, void *c)
{
    (void)g, (void)a, (void)b, (void)c;
}
