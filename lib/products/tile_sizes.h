/* tile_sizes (private): the tiles of the built-in products and their factors (products/builtin_tile.h). */
#ifndef TG_PRODUCTS_TILE_SIZES_H
#define TG_PRODUCTS_TILE_SIZES_H

#include "base/least.h"
#include "base/real.h"
#include "base/vector.h"
#include "products/gemm.h"

#define DEPTH 384

/* The values in a line of the cache. */
#define CACHE_LINE ((int64_t)(64 / sizeof(real)))

/* A tile takes up 24 of the 32 registers of AVX-512, and 12 of 16 otherwise. */
#define GEMM_ROWS (VECTOR_BYTES == 64 ? 12 : 4)
#define GEMM_VECTORS (VECTOR_BYTES == 64 ? 2 : 3)
#define GEMM_COLUMNS (GEMM_VECTORS * VECTOR_LANES)

/* The smallest number that is not 0, and the largest one, without signs (products/exact_tile.h). */
typedef struct range {
    double least, largest;
} range;

/* The factors of a tile: the values of A are a_row apart from one row to the next, a_tile from one whole tile to the
 * next, and a_step from one term to the next; the vectors of B are b_step apart. */
typedef struct factors {
    const real *a, *b;
    int64_t a_row, a_tile, a_step, b_step, terms;
    range of_b; /* for exact multiply-adds */
} factors;

#endif
