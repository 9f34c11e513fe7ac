/* builtin_tile (private): tiles of the built-in products, which stay in registers (products/builtin_gemm.c).
 *
 * C is computed in tiles of GEMM_ROWS x GEMM_COLUMNS values, which stay in registers for DEPTH terms. GEMM_COLUMNS are
 * a few vectors. DEPTH rows of B, GEMM_COLUMNS wide, are a panel, which is copied so that its vectors are neighbors in
 * memory and all fit into the first level of the cache. The values of A are read one by one, each for a row of the
 * tile.
 */
#ifndef TG_PRODUCTS_BUILTIN_TILE_H
#define TG_PRODUCTS_BUILTIN_TILE_H

#include "products/exact_tile.h"

/* ---- copies ---- */

#define SIDE 4
typedef real quad __attribute__((vector_size(SIDE * sizeof(real)), aligned(sizeof(real)), may_alias));

/* The compilers have different functions; gcc before 12 lacks clang's. */
#if defined __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef __typeof__(_Generic((real)0, float : (int32_t)0, double : (int64_t)0)) place;
typedef place places __attribute__((vector_size(SIDE * sizeof(real))));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (places){__VA_ARGS__})
#endif
#define FIRST_HALVES(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define LAST_HALVES(a, b) SHUFFLE(a, b, 2, 6, 3, 7)

/* Fetches a line of the cache of each of some rows. The processor alone would not read so many rows in turn ahead. */
static inline void prefetch_lines(const real *from, int64_t row_stride, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        __builtin_prefetch(from + row * row_stride, 0, 2);
    }
}

/* Reads a square, and returns its columns. */
static inline void read_columns(const real *from, int64_t line_stride, quad column[SIDE])
{
    quad line[SIDE];
    for (int i = 0; i < SIDE; i++) {
        line[i] = *(const quad *)(from + i * line_stride);
    }
    const quad a = FIRST_HALVES(line[0], line[2]), b = FIRST_HALVES(line[1], line[3]);
    const quad c = LAST_HALVES(line[0], line[2]), d = LAST_HALVES(line[1], line[3]);
    column[0] = FIRST_HALVES(a, b);
    column[1] = LAST_HALVES(a, b);
    column[2] = FIRST_HALVES(c, d);
    column[3] = LAST_HALVES(c, d);
}

/* Copies a square, whose lines become columns: so neither of them leaves the cache. */
static inline void tile_transpose_square(const real *from, int64_t line_stride, int64_t width, real *to)
{
    quad column[SIDE];
    read_columns(from, line_stride, column);
    for (int i = 0; i < SIDE; i++) {
        *(quad *)(to + i * width) = column[i];
    }
}

/* Copies at most CACHE_LINE values of each of some lines side by side. Lines that are a power of two apart push each
 * other out of the cache, so each is read once: all its values in turn. The lines of the next call follow these. */
static inline __attribute__((always_inline)) void interleave_lines(int width, const real *from, int64_t line_stride,
                                                                   int64_t lines, int64_t k, real *to)
{
    int64_t line = 0;
    for (; line + SIDE <= lines; line += SIDE) {
        const real *four = from + line * line_stride;
        int64_t step = 0;
        prefetch_lines(four + lines * line_stride, line_stride, SIDE);
        for (; step + SIDE <= k; step += SIDE) {
            tile_transpose_square(four + step, line_stride, width, to + step * width + line);
        }
        for (; step < k; step++) {
            for (int i = 0; i < SIDE; i++) {
                to[step * width + line + i] = four[i * line_stride + step];
            }
        }
    }
    for (; line < lines; line++) {
        for (int64_t step = 0; step < k; step++) {
            to[step * width + line] = from[line * line_stride + step];
        }
    }
}

/* Copies lines of k values side by side: to[step * width + line] = from[line * line_stride + step * stride]. `width`, a
 * constant in each call, is at least the number of lines. One of the strides is 1. */
static inline __attribute__((always_inline)) void interleave(int width, const real *from, int64_t line_stride,
                                                             int64_t stride, int64_t lines, int64_t k, real *to)
{
    if (line_stride == 1) {
        for (int64_t step = 0; step < k; step++) {
            if (lines == width) {
                memcpy(to + step * width, from + step * stride, sizeof *to * (size_t)width); /* a few instructions */
            } else {
                memcpy(to + step * width, from + step * stride, sizeof *to * (size_t)lines);
            }
        }
        return;
    }
    for (int64_t step = 0; step < k; step += CACHE_LINE) {
        interleave_lines(width, from + step, line_stride, lines, least(CACHE_LINE, k - step), to + step * width);
    }
}

/* Copies columns of B into a panel: interleaved, with zeros in the columns that it has besides. */
static inline void copy_panel(const real *from, int64_t column_distance, int64_t term_distance, int64_t columns,
                              int64_t terms, real *panel)
{
    if (columns < GEMM_COLUMNS) {
        memset(panel, 0, (size_t)(terms * GEMM_COLUMNS) * sizeof *panel);
    }
    interleave(GEMM_COLUMNS, from, column_distance, term_distance, columns, terms, panel);
}

/* ---- tiles ---- */

#if defined TG_LEVEL_EXACT

static inline __attribute__((always_inline)) void sum_terms(int rows, const factors *f,
                                                            vector sum[GEMM_ROWS][GEMM_VECTORS])
{
    sum_tile(rows, f, sum);
}

#else

/* Returns a b + c, each lane rounded once where the processor can. gcc may leave an expression of vectors unfused, as
 * it does with -mtune=znver3. */
static inline __attribute__((always_inline)) vector multiply_add(real a, vector b, vector c)
{
#if defined TG_HAS_FMA
    vector sum;
    for (int lane = 0; lane < VECTOR_LANES; lane++) {
        sum[lane] = REAL(fma)(a, b[lane], c[lane]);
    }
    return sum;
#else
    return a * b + c;
#endif
}

static inline __attribute__((always_inline)) void sum_terms(int rows, const factors *f,
                                                            vector sum[GEMM_ROWS][GEMM_VECTORS])
{
    const real *a = f->a, *b = f->b;
    const int64_t a_row = f->a_row;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < GEMM_VECTORS; v++) {
            sum[i][v] = (vector){0};
        }
    }
    for (int64_t term = 0; term < f->terms; term++) {
        vector of_b[GEMM_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < GEMM_VECTORS; v++) {
            of_b[v] = *(const vector *)(b + v * VECTOR_LANES);
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
            for (int v = 0; v < GEMM_VECTORS; v++) {
                sum[i][v] = multiply_add(a[i * a_row], of_b[v], sum[i][v]);
            }
        }
        a += f->a_step;
        b += f->b_step;
    }
}

#endif

/* Computes a tile of `rows` rows. The number is a constant in each call, and the loops over a tile are unrolled at
 * -O2, too, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void multiply_tile(int rows, const factors *f, bool add, real *c,
                                                                int64_t ldc)
{
    vector sum[GEMM_ROWS][GEMM_VECTORS];
    for (int i = 0; i < rows; i++) { /* needed after the sums; the rows of a wide C lie on pages of their own */
        __builtin_prefetch(c + i * ldc, 1);
    }
    sum_terms(rows, f, sum);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < GEMM_VECTORS; v++) {
            vector *to = (vector *)(c + i * ldc + v * VECTOR_LANES);
            if (add) {
                *to += sum[i][v];
            } else {
                *to = sum[i][v];
            }
        }
    }
}

/* Computes as many rows as a tile has, but at most `rows`, and returns their number. */
static inline int64_t multiply_rows(int64_t rows, const factors *f, bool add, real *c, int64_t ldc)
{
    if (rows >= GEMM_ROWS) {
        multiply_tile(GEMM_ROWS, f, add, c, ldc);
        return GEMM_ROWS;
    }
    if (rows >= 4) {
        multiply_tile(4, f, add, c, ldc);
        return 4;
    }
    multiply_tile(1, f, add, c, ldc);
    return 1;
}

/* Computes `rows` rows of a panel of `columns` columns, at most GEMM_COLUMNS. */
static void multiply_panel(int64_t rows, int64_t columns, factors f, bool add, real *c, int64_t ldc)
{
#if defined TG_LEVEL_EXACT
    f.of_b = range_of_panel(&f);
#endif
    for (int64_t row = 0, done; row < rows; row += done) {
        if (columns == GEMM_COLUMNS) {
            done = multiply_rows(rows - row, &f, add, c + row * ldc, ldc);
        } else {
            real tile[GEMM_ROWS * GEMM_COLUMNS];
            done = multiply_rows(rows - row, &f, false, tile, GEMM_COLUMNS);
            for (int64_t i = 0; i < done; i++) {
                for (int64_t j = 0; j < columns; j++) {
                    real *to = c + (row + i) * ldc + j;
                    *to = add ? *to + tile[i * GEMM_COLUMNS + j] : tile[i * GEMM_COLUMNS + j];
                }
            }
        }
        f.a += done == GEMM_ROWS ? f.a_tile : done * f.a_row;
    }
}

/* ---- copies of A ---- */

/* The rows of A whose terms fit into the memory of a thread. */
#define PACKED_ROWS ((int64_t)(TG_BUILTIN_MEMORY / (DEPTH * sizeof(real)))) /* 480, or 240 */

/* Returns the factors of `rows` rows of A, for the terms from `first` on; with memory, a copy of them. */
static factors factors_of(const tg_gemm *g, const real *a, int64_t row, int64_t rows, int64_t first, real *memory)
{
    factors f = {.a_row = g->transpose_a ? 1 : g->lda, .a_step = g->transpose_a ? g->lda : 1};
    f.terms = least(DEPTH, g->k - first);
    f.a = a + row * f.a_row + first * f.a_step;
    f.a_tile = GEMM_ROWS * f.a_row;
    if (!memory) {
        return f;
    }
    for (int64_t tile = 0; tile < rows; tile += GEMM_ROWS) {
        interleave(GEMM_ROWS, f.a + tile * f.a_row, f.a_row, f.a_step, least(GEMM_ROWS, rows - tile), f.terms,
                   memory + tile * f.terms);
    }
    return (factors){.a = memory, .a_row = 1, .a_tile = GEMM_ROWS * f.terms, .a_step = GEMM_ROWS, .terms = f.terms};
}

#endif
