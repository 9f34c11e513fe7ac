/* exact_gemm: the built-in products once more, for reproducible products where the processor has no fused
 * multiply-adds: these are computed exactly by other means (products/exact_tile.h). One version, for the baseline. */
#if !defined TG_LEVEL_AVX2 && !defined TG_LEVEL_AVX512
#define TG_LEVEL_EXACT
#include "products/builtin_gemm.c"
#include "products/panels.c"
#else
#include "base/real.h" /* no file may be empty */
#endif
