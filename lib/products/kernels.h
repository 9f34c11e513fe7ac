/* kernels (private): what computes a product in the calling thread. products/choose.c has the table of all kernels. */
#ifndef TG_PRODUCTS_KERNELS_H
#define TG_PRODUCTS_KERNELS_H

#include "base/level.h"
#include "products/gemm.h"

/* The arrays are float or double. */
typedef void tg_gemm_kernel(const tg_gemm *g, const void *a, const void *b, void *c);

/* The built-in loops. Each value of C is a sum in one order (products/tile_gemm.c). */
tg_gemm_kernel TG_EACH_LEVEL(avx512, tg_tile_gemm_f32), TG_EACH_LEVEL(avx512, tg_tile_gemm_f64);
tg_gemm_kernel TG_EACH_LEVEL(avx512, tg_row_gemm_f32), TG_EACH_LEVEL(avx512, tg_row_gemm_f64);
tg_gemm_kernel TG_EACH_LEVEL(avx512, tg_small_gemm_f32), TG_EACH_LEVEL(avx512, tg_small_gemm_f64);
tg_gemm_kernel TG_EACH_LEVEL(avx512, tg_row_of_bf16_f32); /* with the transpose of B in bf16 */

/* The memory that the built-in loops will copy the next panel from: rows of `bytes` bytes, of which the first has been
 * fetched up to `byte`. */
typedef struct tg_gemm_ahead {
    const char *row;
    int64_t rows, bytes, distance, byte;
    int64_t share; /* the lines of the cache to fetch for each GEMM_FETCH terms of a tile */
} tg_gemm_ahead;

/* A few rows times the transpose of B, with sums in an order of their own, beside BLAS (products/few_rows.c). */
tg_gemm_kernel TG_EACH_LEVEL(avx2, tg_few_rows_gemm_f32), TG_EACH_LEVEL(avx2, tg_few_rows_gemm_f64);
tg_gemm_kernel TG_EACH_LEVEL(avx2, tg_few_rows_of_bf16_f32); /* with B in bf16 */

tg_gemm_kernel tg_blas_gemm_f32, tg_blas_gemm_f64;

/* Returns whether the BLAS of the build has kernels for the vector instructions of this level, or may have. False in a
 * build without BLAS. */
bool tg_blas_has_level(int level);

/* Returns how many threads may call BLAS at the same time. 1: the library divides a product itself, or cannot compute
 * two at the same time. */
int tg_blas_callers(void);

/* Writes rows of bf16 as floats. The distance between those of `from` is in values. */
typedef void tg_conversion(float *to, const uint16_t *from, int64_t rows, int64_t width, int64_t distance);
tg_conversion TG_EACH_LEVEL(avx512, tg_floats_of_bf16);

/* Returns memory of the calling thread for copies of factors, aligned to a cache line, which stays until the thread
 * ends: TG_BUILTIN_MEMORY bytes, behind them those of a panel (products/tile_gemm.c), and of a block that was bf16
 * (products/choose.c). NULL if there is none. */
#define TG_BUILTIN_MEMORY ((size_t)516 * 384 * sizeof(float))
#define TG_BUILTIN_PANEL ((size_t)384 * 128)
#define TG_BUILTIN_BLOCK ((size_t)1 << 20)
void *tg_builtin_memory(void);

/* Fetches a line of the cache of each of some rows. The processor alone would not read so many rows in turn ahead. */
static inline void gemm_prefetch_lines(const void *from, int64_t row_bytes, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        __builtin_prefetch((const char *)from + row * row_bytes, 0, 2);
    }
}

#endif
