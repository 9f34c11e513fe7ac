/* gemm_tile (private): the sizes of the tiles of the built-in products and their factors (products/tile_gemm.c), and
 * squares of a matrix, which are read by lines and used by columns. */
#ifndef TG_PRODUCTS_GEMM_TILE_H
#define TG_PRODUCTS_GEMM_TILE_H

#include "base/real.h"
#include "base/vector.h"
#include "math/fma.h"
#include "products/kernels.h"

/* The terms that are added up before they are added to C. */
#define GEMM_DEPTH 384

/* The values in a line of the cache. */
#define GEMM_CACHE_LINE ((int64_t)(64 / sizeof(real)))

/* A tile takes up 24 of the 32 registers of AVX-512, and 12 of 16 otherwise. */
#define GEMM_ROWS (VECTOR_BYTES == 64 ? 12 : 4)
#define GEMM_VECTORS (VECTOR_BYTES == 64 ? 2 : 3)
#define GEMM_COLUMNS (GEMM_VECTORS * VECTOR_LANES)

/* The terms of a tile between two fetches of what the next panel is copied from, and the values from which on a B is
 * fetched at all. */
#define GEMM_FETCH 96
#define GEMM_LARGE 32768

/* The factors of a tile: the values of A are a_row apart from one row to the next, a_tile from one whole tile to the
 * next, and a_step from one term to the next; the vectors of B are b_step apart. */
typedef struct gemm_factors {
    const real *a, *b;
    int64_t a_row, a_tile, a_step, b_step, terms;
    bool exact; /* never where the instructions have fused multiply-adds */
    tg_gemm_ahead ahead;
} gemm_factors;

/* ---- squares ---- */

#define GEMM_SIDE 4
typedef real gemm_quad __attribute__((vector_size(GEMM_SIDE * sizeof(real)), aligned(sizeof(real)), may_alias));

/* The compilers have different functions; gcc before 12 lacks clang's. */
#if defined __clang__
#define GEMM_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef __typeof__(_Generic((real)0, float : (int32_t)0, double : (int64_t)0)) gemm_place;
typedef gemm_place gemm_places __attribute__((vector_size(GEMM_SIDE * sizeof(real))));
#define GEMM_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (gemm_places){__VA_ARGS__})
#endif
#define GEMM_FIRST_HALVES(a, b) GEMM_SHUFFLE(a, b, 0, 4, 1, 5)
#define GEMM_LAST_HALVES(a, b) GEMM_SHUFFLE(a, b, 2, 6, 3, 7)

/* Reads a square, whose lines are line_bytes apart, and returns its columns. */
static inline void gemm_read_columns(const void *from, int64_t line_bytes, gemm_quad column[GEMM_SIDE])
{
    gemm_quad line[GEMM_SIDE];
    for (int i = 0; i < GEMM_SIDE; i++) {
        memcpy(&line[i], (const char *)from + i * line_bytes, sizeof line[i]);
    }
    const gemm_quad a = GEMM_FIRST_HALVES(line[0], line[2]), b = GEMM_FIRST_HALVES(line[1], line[3]);
    const gemm_quad c = GEMM_LAST_HALVES(line[0], line[2]), d = GEMM_LAST_HALVES(line[1], line[3]);
    column[0] = GEMM_FIRST_HALVES(a, b);
    column[1] = GEMM_LAST_HALVES(a, b);
    column[2] = GEMM_FIRST_HALVES(c, d);
    column[3] = GEMM_LAST_HALVES(c, d);
}

#endif
