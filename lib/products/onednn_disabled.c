/* onednn_disabled: replaces onednn.c in a build without oneDNN. No tape has a tg_onednn then. */
#include "products/onednn.h"

const char *tg_onednn_missing(void)
{
    return "this build has no oneDNN (-Donednn=enabled needs oneDNN 2.5 to 2.7)";
}

tg_onednn *tg_onednn_new(void)
{
    return NULL;
}

void tg_onednn_free(tg_onednn *o)
{
    (void)o;
}

bool tg_onednn_accepts(int64_t m, int64_t n, int64_t k)
{
    (void)m, (void)n, (void)k;
    return false;
}

bool tg_onednn_prepare(tg_onednn *o, const char *call, const tg_gemm *gemm, bool add, tg_error *error)
{
    (void)o, (void)call, (void)gemm, (void)add, (void)error;
    return false;
}

void tg_onednn_run(tg_onednn *o, const tg_gemm *gemm, bool add, const uint16_t *a, const uint16_t *b, float *c)
{
    (void)o, (void)gemm, (void)add, (void)a, (void)b, (void)c;
}

void tg_onednn_end_step(tg_onednn *o)
{
    (void)o;
}

int64_t tg_onednn_count(const tg_onednn *o)
{
    (void)o;
    return 0;
}
