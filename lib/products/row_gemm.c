/* row_gemm: built-in products of small matrices, and of rows one by one, which read their factors where they are. Each
 * value is a sum in the order that products/tile_gemm.c describes. */
#include "base/least.h"
#include "math/half.h"
#include "products/gemm_tile.h"

/* Returns a b + c, fused. gcc may leave an expression unfused. */
static inline real multiply_add(real a, real b, real c)
{
#if defined TG_HAS_FMA
    return real_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* ---- small products ---- */

/* Without copies: some columns of a row at a time. Their number is a constant in most calls. */
enum { SMALL_COLUMNS = 8 };

typedef struct row_factors {
    const real *a, *b;
    int64_t a_step, b_step, b_column, terms;
} row_factors;

static inline __attribute__((always_inline)) void multiply_columns(bool exact, int64_t columns, const row_factors *f,
                                                                   bool add, real *c)
{
    real sum[SMALL_COLUMNS] = {0};
    for (int64_t k = 0; k < f->terms; k++) {
        const real a = f->a[k * f->a_step], *b = f->b + k * f->b_step;
        for (int64_t j = 0; j < columns; j++) {
            const real of_b = b[j * f->b_column];
            sum[j] = exact ? TYPED(tg_exact_fma)(a, of_b, sum[j]) : multiply_add(a, of_b, sum[j]);
        }
    }
    for (int64_t j = 0; j < columns; j++) {
        c[j] = add ? c[j] + sum[j] : sum[j];
    }
}

static inline __attribute__((always_inline)) void multiply_row(bool exact, int64_t columns, row_factors f, bool add,
                                                               real *c)
{
    for (int64_t j = 0; j < columns; j += SMALL_COLUMNS, f.b += SMALL_COLUMNS * f.b_column) {
        if (columns - j >= SMALL_COLUMNS) {
            multiply_columns(exact, SMALL_COLUMNS, &f, add, c + j);
        } else {
            multiply_columns(exact, columns - j, &f, add, c + j);
        }
    }
}

/* Computes a product of at most GEMM_DEPTH terms. */
static inline __attribute__((always_inline)) void multiply_terms(bool exact, const tg_gemm *g, const real *a,
                                                                 const real *b, real *c)
{
    row_factors f = {.b = b, .terms = g->k};
    f.a_step = g->transpose_a ? g->lda : 1;
    f.b_step = g->b_layout == TG_TRANSPOSED ? 1 : g->ldb;
    for (int64_t row = 0; row < g->m; row++) {
        f.a = a + row * (g->transpose_a ? 1 : g->lda);
        if (g->b_layout == TG_TRANSPOSED) {
            f.b_column = g->ldb;
            multiply_row(exact, g->n, f, g->add, c + row * g->ldc);
        } else {
            f.b_column = 1; /* known to the compiler */
            multiply_row(exact, g->n, f, g->add, c + row * g->ldc);
        }
    }
}

#if !defined TG_HAS_FMA

/* Computes a product whose fused multiply-adds are computed by other means (math/fma.h). */
static void multiply_exactly(const tg_gemm *g, const real *a, const real *b, real *c)
{
    tg_gemm part = *g;
    for (int64_t first = 0; first == 0 || first < g->k; first += GEMM_DEPTH) {
        part.k = least(GEMM_DEPTH, g->k - first);
        part.add = g->add || first > 0;
        multiply_terms(true, &part, a + first * (g->transpose_a ? g->lda : 1),
                       b + first * (g->b_layout == TG_TRANSPOSED ? 1 : g->ldb), c);
    }
}

#endif

void KERNEL(tg_small_gemm)(const tg_gemm *g, const void *a, const void *b, void *c)
{
#if !defined TG_HAS_FMA
    if (g->exact) {
        multiply_exactly(g, a, b, c);
        return;
    }
#endif
    multiply_terms(false, g, a, b, c);
}

/* ---- a row ---- */

/* The columns of a row-major B whose sums stay in the first level of the cache. */
#define ROW_COLUMNS 1024

/* Adds a term to the sums: a is a value of A, and b a row of B. */
static inline void add_term(int64_t columns, real a, const real *restrict b, real *restrict sum)
{
    for (int64_t j = 0; j < columns; j++) {
        sum[j] = multiply_add(a, b[j], sum[j]);
    }
}

/* Adds four terms: so the sums are read and written once for them. */
static inline void add_four_terms(int64_t columns, const real *a, int64_t a_step, const real *restrict b,
                                  int64_t b_step, real *restrict sum)
{
    const real a_0 = a[0], a_1 = a[a_step], a_2 = a[2 * a_step], a_3 = a[3 * a_step];
    const real *b_1 = b + b_step, *b_2 = b_1 + b_step, *b_3 = b_2 + b_step;
    for (int64_t j = 0; j < columns; j++) {
        real s = multiply_add(a_0, b[j], sum[j]);
        s = multiply_add(a_1, b_1[j], s);
        s = multiply_add(a_2, b_2[j], s);
        sum[j] = multiply_add(a_3, b_3[j], s);
    }
}

/* Computes sums of up to ROW_COLUMNS columns of a row-major B. */
static void row_sum_rows(const row_factors *f, int64_t columns, int64_t b_step, real *sum)
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
static inline __attribute__((always_inline)) void add_quad(real a, const gemm_quad *b, gemm_quad *sum)
{
#if defined TG_HAS_FMA
    gemm_quad next;
    for (int i = 0; i < GEMM_SIDE; i++) {
        next[i] = multiply_add(a, (*b)[i], (*sum)[i]);
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

/* ---- columns that are rows of B in memory, whose values have `size` bytes: those of a real, or 2 for bf16 ---- */

typedef float floats __attribute__((vector_size(GEMM_SIDE * sizeof(float))));
typedef uint32_t words __attribute__((vector_size(GEMM_SIDE * sizeof(float))));

/* Writes the first or the second values of pairs of bf16. */
static inline __attribute__((always_inline)) void split_pairs(const gemm_quad *pairs, int place, gemm_quad *values)
{
    words bits;
    memcpy(&bits, pairs, sizeof bits);
    bits = (place == 0) == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) ? bits << 16 : bits & 0xffff0000;
    *values = __builtin_convertvector((floats)bits, gemm_quad);
}

static inline __attribute__((always_inline)) real value_of(int64_t size, const char *b)
{
    return size == sizeof(real) ? *(const real *)(const void *)b
                                : (real)tg_from_bf16(*(const uint16_t *)(const void *)b);
}

/* The terms of a square of four columns, which is read in reals, or in pairs. */
#define SQUARE_TERMS(size) (GEMM_SIDE * (int64_t)sizeof(real) / (size))

/* Adds the terms of a square to the sums of its columns. */
static inline __attribute__((always_inline)) void add_square(int64_t size, const row_factors *f, const char *b,
                                                             int64_t first, gemm_quad *sum)
{
    const int in_a_place = size == sizeof(real) ? 1 : 2;
    gemm_quad column[GEMM_SIDE];
    gemm_read_columns(b + first * size, f->b_column * size, column);
#pragma GCC unroll 8
    for (int i = 0; i < GEMM_SIDE * in_a_place; i++) {
        gemm_quad values = column[i / in_a_place];
        if (in_a_place == 2) {
            split_pairs(&column[i / 2], i % 2, &values);
        }
        KEEP_VECTOR(values);
        add_quad(f->a[(first + i) * f->a_step], &values, sum);
    }
}

/* Computes sums of `groups` times four columns, a square of each in turn: so the processor adds to several sums at a
 * time. The first two numbers are constants in each call. */
static inline __attribute__((always_inline)) void row_sum_squares(int64_t size, int groups, const row_factors *f,
                                                                  const char *b, real *sums)
{
    const int64_t group_bytes = GEMM_SIDE * f->b_column * size;
    gemm_quad sum[4];
    int64_t k = 0;
#pragma GCC unroll 4
    for (int group = 0; group < groups; group++) {
        sum[group] = (gemm_quad){0};
    }
    for (; k + SQUARE_TERMS(size) <= f->terms; k += SQUARE_TERMS(size)) {
        if (k * size % 64 == 0) {
            gemm_prefetch_lines(b + groups * group_bytes + k * size, f->b_column * size, groups * GEMM_SIDE);
        }
#pragma GCC unroll 4
        for (int group = 0; group < groups; group++) {
            add_square(size, f, b + group * group_bytes, k, &sum[group]);
        }
    }
#pragma GCC unroll 4
    for (int group = 0; group < groups; group++) {
        for (int64_t i = k; i < f->terms; i++) {
            gemm_quad four;
            for (int j = 0; j < GEMM_SIDE; j++) {
                four[j] = value_of(size, b + group * group_bytes + (j * f->b_column + i) * size);
            }
            add_quad(f->a[i * f->a_step], &four, &sum[group]);
        }
        *(gemm_quad *)(sums + group * GEMM_SIDE) = sum[group];
    }
}

/* Computes sums of some columns, at most 16, and returns their number. */
static inline __attribute__((always_inline)) int64_t sum_columns(int64_t size, const row_factors *f, const char *b,
                                                                 int64_t columns, real *sum)
{
    if (columns >= 4 * GEMM_SIDE) {
        row_sum_squares(size, 4, f, b, sum);
        return 4 * GEMM_SIDE;
    }
    if (columns >= GEMM_SIDE) {
        row_sum_squares(size, 1, f, b, sum);
        return GEMM_SIDE;
    }
    *sum = 0;
    for (int64_t k = 0; k < f->terms; k++) {
        *sum = multiply_add(f->a[k * f->a_step], value_of(size, b + k * size), *sum);
    }
    return 1;
}

/* `size` is a constant in each call. */
static inline __attribute__((always_inline)) void multiply_rows(int64_t size, const tg_gemm *g, const real *a,
                                                                const char *b, real *c)
{
    const bool by_columns = g->b_layout == TG_TRANSPOSED;
    const int64_t a_row = g->transpose_a ? 1 : g->lda;
    row_factors f = {.a_step = g->transpose_a ? g->lda : 1, .b_column = by_columns ? g->ldb : 1, .b_step = 1};
    for (int64_t row = 0; row < g->m; row++) {
        for (int64_t column = 0, columns; column < g->n; column += columns) {
            columns = least(g->n - column, ROW_COLUMNS);
            for (int64_t first = 0; first == 0 || first < g->k; first += GEMM_DEPTH) {
                real sum[ROW_COLUMNS], *to = c + row * g->ldc + column;
                f.terms = least(GEMM_DEPTH, g->k - first);
                f.a = a + row * a_row + first * f.a_step;
                if (by_columns) {
                    columns = sum_columns(size, &f, b + (column * g->ldb + first) * size, columns, sum);
                } else {
                    f.b = (const real *)(const void *)b + column + first * g->ldb;
                    row_sum_rows(&f, columns, g->ldb, sum);
                }
                for (int64_t j = 0; j < columns; j++) {
                    to[j] = g->add || first > 0 ? to[j] + sum[j] : sum[j];
                }
            }
        }
    }
}

void KERNEL(tg_row_gemm)(const tg_gemm *g, const void *a, const void *b, void *c)
{
#if !defined TG_HAS_FMA
    if (g->exact) {
        multiply_exactly(g, a, b, c);
        return;
    }
#endif
    multiply_rows(sizeof(real), g, a, b, c);
}

#if defined TG_REAL_F32

void KERNEL(tg_row_of_bf16)(const tg_gemm *g, const void *a, const void *b, void *c)
{
    multiply_rows(sizeof(uint16_t), g, a, b, c);
}

#endif
