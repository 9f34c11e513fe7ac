/* builtin_row (private): built-in products of small matrices and of a row, which read their factors where they are. */
#ifndef TG_PRODUCTS_BUILTIN_ROW_H
#define TG_PRODUCTS_BUILTIN_ROW_H

#include "products/builtin_tile.h"

/* ---- small products ---- */

/* gcc may leave an expression unfused. */
#if defined TG_LEVEL_EXACT
#define MULTIPLY_ADD(a, b, c) TYPED(tg_exact_fma)(a, b, c)
#elif defined TG_HAS_FMA
#define MULTIPLY_ADD(a, b, c) REAL(fma)(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* Without copies: some columns of a row at a time. Their number is a constant in most calls. */
enum { SMALL_COLUMNS = 8 };

typedef struct small_factors {
    const real *a, *b;
    int64_t a_step, b_step, b_column, terms;
} small_factors;

static inline __attribute__((always_inline)) void multiply_columns(int64_t columns, const small_factors *f, bool add,
                                                                   real *c)
{
    real sum[SMALL_COLUMNS] = {0};
    for (int64_t k = 0; k < f->terms; k++) {
        const real a = f->a[k * f->a_step], *b = f->b + k * f->b_step;
        for (int64_t j = 0; j < columns; j++) {
            sum[j] = MULTIPLY_ADD(a, b[j * f->b_column], sum[j]);
        }
    }
    for (int64_t j = 0; j < columns; j++) {
        c[j] = add ? c[j] + sum[j] : sum[j];
    }
}

static inline __attribute__((always_inline)) void multiply_row(int64_t columns, small_factors f, bool add, real *c)
{
    for (int64_t j = 0; j < columns; j += SMALL_COLUMNS, f.b += SMALL_COLUMNS * f.b_column) {
        if (columns - j >= SMALL_COLUMNS) {
            multiply_columns(SMALL_COLUMNS, &f, add, c + j);
        } else {
            multiply_columns(columns - j, &f, add, c + j);
        }
    }
}

static inline bool is_small(const tg_gemm *g)
{
    return g->n <= 64 && g->k <= 64 && g->m <= 64 && g->m * g->n * g->k <= 4096;
}

static inline void multiply_small(const tg_gemm *g, const real *a, const real *b, bool add, real *c)
{
    small_factors f = {.b = b, .a_step = g->transpose_a ? g->lda : 1, .b_step = g->transpose_b ? 1 : g->ldb};
    f.terms = g->k;
    for (int64_t row = 0; row < g->m; row++) {
        f.a = a + row * (g->transpose_a ? 1 : g->lda);
        if (g->transpose_b) {
            f.b_column = g->ldb;
            multiply_row(g->n, f, add, c + row * g->ldc);
        } else {
            f.b_column = 1; /* known to the compiler */
            multiply_row(g->n, f, add, c + row * g->ldc);
        }
    }
}

/* ---- a row ---- */

/* The columns of a row-major B whose sums stay in the first level of the cache. */
#define ROW_COLUMNS 1024

/* Adds a term to the sums: a is a value of A, and b a row of B. */
static inline void add_term(int64_t columns, real a, const real *restrict b, real *restrict sum)
{
    for (int64_t j = 0; j < columns; j++) {
        sum[j] = MULTIPLY_ADD(a, b[j], sum[j]);
    }
}

/* Adds four terms: so the sums are read and written once for them. */
static inline void add_four_terms(int64_t columns, const real *a, int64_t a_step, const real *restrict b,
                                  int64_t b_step, real *restrict sum)
{
    const real a_0 = a[0], a_1 = a[a_step], a_2 = a[2 * a_step], a_3 = a[3 * a_step];
    const real *b_1 = b + b_step, *b_2 = b_1 + b_step, *b_3 = b_2 + b_step;
    for (int64_t j = 0; j < columns; j++) {
        real s = MULTIPLY_ADD(a_0, b[j], sum[j]);
        s = MULTIPLY_ADD(a_1, b_1[j], s);
        s = MULTIPLY_ADD(a_2, b_2[j], s);
        sum[j] = MULTIPLY_ADD(a_3, b_3[j], s);
    }
}

/* Computes sums of up to ROW_COLUMNS columns of a row-major B. */
static void row_sum_rows(const small_factors *f, int64_t columns, int64_t b_step, real *sum)
{
    int64_t k = 0;
    memset(sum, 0, (size_t)columns * sizeof *sum);
    for (; k + 4 <= f->terms; k += 4) {
        add_four_terms(columns, f->a + k * f->a_step, f->a_step, f->b + k * b_step, b_step, sum);
    }
    for (; k < f->terms; k++) {
        add_term(columns, f->a[k * f->a_step], f->b + k * b_step, sum);
    }
}

/* Adds a term to the sums of four columns. */
static inline __attribute__((always_inline)) void add_quad(real a, const quad *b, quad *sum)
{
#if defined TG_LEVEL_EXACT || defined TG_HAS_FMA
    quad next;
    for (int i = 0; i < SIDE; i++) {
        next[i] = MULTIPLY_ADD(a, (*b)[i], (*sum)[i]);
    }
    *sum = next;
#else
    *sum += a * *b;
#endif
}

/* Fused multiply-adds are written lane by lane. gcc would read the lanes of a shuffled vector where they come from,
 * one by one, if it knew. */
#if defined __FMA__
#define KEEP_VECTOR(x) __asm__("" : "+x"(x))
#else
#define KEEP_VECTOR(x) (void)0
#endif

/* Adds terms to the sums of four columns, which are in memory rows of B: their values are read in squares. */
static inline __attribute__((always_inline)) void add_squares(const small_factors *f, int64_t first, int64_t end,
                                                              quad *sum)
{
#pragma GCC unroll 4
    for (int64_t k = first; k < end; k += SIDE) {
        quad column[SIDE];
        read_columns(f->b + k, f->b_column, column);
#pragma GCC unroll 4
        for (int i = 0; i < SIDE; i++) {
            KEEP_VECTOR(column[i]);
            add_quad(f->a[(k + i) * f->a_step], &column[i], sum);
        }
    }
}

/* Computes sums of `groups` times four columns, a line of the cache of each in turn. The number is a constant in each
 * call. */
static inline __attribute__((always_inline)) void row_sum_lines(int groups, small_factors f, real *sums)
{
    const real *b = f.b;
    quad sum[4];
    int64_t k = 0;
#pragma GCC unroll 4
    for (int group = 0; group < groups; group++) {
        sum[group] = (quad){0};
    }
    for (; k + CACHE_LINE <= f.terms; k += CACHE_LINE) {
#pragma GCC unroll 4
        for (int group = 0; group < groups; group++) {
            f.b = b + group * SIDE * f.b_column;
            prefetch_lines(f.b + groups * SIDE * f.b_column + k, f.b_column, SIDE);
            add_squares(&f, k, k + CACHE_LINE, &sum[group]);
        }
    }
#pragma GCC unroll 4
    for (int group = 0; group < groups; group++) {
        const int64_t rest = f.terms - f.terms % SIDE;
        f.b = b + group * SIDE * f.b_column;
        add_squares(&f, k, rest, &sum[group]);
        for (int64_t i = rest; i < f.terms; i++) {
            const real *last = f.b + i;
            const quad four = {last[0], last[f.b_column], last[2 * f.b_column], last[3 * f.b_column]};
            add_quad(f.a[i * f.a_step], &four, &sum[group]);
        }
        *(quad *)(sums + group * SIDE) = sum[group];
    }
}

/* Computes sums of some columns, at most 16, which are in memory rows of B, and returns their number. */
static int64_t sum_columns(const small_factors *f, int64_t columns, real *sum)
{
    if (columns >= 4 * SIDE) {
        row_sum_lines(4, *f, sum);
        return 4 * SIDE;
    }
    if (columns >= SIDE) {
        row_sum_lines(1, *f, sum);
        return SIDE;
    }
    multiply_columns(1, f, false, sum);
    return 1;
}

/* Computes the rows of C one by one. */
static void multiply_rows_of_a(const tg_gemm *g, const real *a, const real *b, bool add, real *c)
{
    const int64_t a_row = g->transpose_a ? 1 : g->lda;
    small_factors f = {.a_step = g->transpose_a ? g->lda : 1, .b_column = g->transpose_b ? g->ldb : 1, .b_step = 1};
    for (int64_t row = 0; row < g->m; row++) {
        for (int64_t column = 0, columns; column < g->n; column += columns) {
            columns = least(g->n - column, ROW_COLUMNS);
            for (int64_t first = 0; first == 0 || first < g->k; first += DEPTH) {
                real sum[ROW_COLUMNS], *to = c + row * g->ldc + column;
                f.terms = least(DEPTH, g->k - first);
                f.a = a + row * a_row + first * f.a_step;
                if (g->transpose_b) {
                    f.b = b + column * g->ldb + first;
                    columns = sum_columns(&f, columns, sum);
                } else {
                    f.b = b + column + first * g->ldb;
                    row_sum_rows(&f, columns, g->ldb, sum);
                }
                for (int64_t j = 0; j < columns; j++) {
                    to[j] = add || first > 0 ? to[j] + sum[j] : sum[j];
                }
            }
        }
    }
}

#endif
