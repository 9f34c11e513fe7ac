/* row_gemm: built-in products of small matrices, and of rows one by one, which read their factors where they are. Each
 * value is a sum in the order that products/tile_gemm.c describes. */
#include "base/least.h"
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

/* Adds terms to the sums of four columns, which are in memory rows of B: their values are read in squares. */
static inline __attribute__((always_inline)) void add_squares(const row_factors *f, int64_t first, int64_t end,
                                                              gemm_quad *sum)
{
#pragma GCC unroll 4
    for (int64_t k = first; k < end; k += GEMM_SIDE) {
        gemm_quad column[GEMM_SIDE];
        gemm_read_columns(f->b + k, f->b_column, column);
#pragma GCC unroll 4
        for (int i = 0; i < GEMM_SIDE; i++) {
            KEEP_VECTOR(column[i]);
            add_quad(f->a[(k + i) * f->a_step], &column[i], sum);
        }
    }
}

/* Computes sums of `groups` times four columns, a line of the cache of each in turn. The number is a constant in each
 * call. */
static inline __attribute__((always_inline)) void row_sum_lines(int groups, row_factors f, real *sums)
{
    const real *b = f.b;
    gemm_quad sum[4];
    int64_t k = 0;
#pragma GCC unroll 4
    for (int group = 0; group < groups; group++) {
        sum[group] = (gemm_quad){0};
    }
    for (; k + GEMM_CACHE_LINE <= f.terms; k += GEMM_CACHE_LINE) {
#pragma GCC unroll 4
        for (int group = 0; group < groups; group++) {
            f.b = b + group * GEMM_SIDE * f.b_column;
            gemm_prefetch_lines(f.b + groups * GEMM_SIDE * f.b_column + k, f.b_column, GEMM_SIDE);
            add_squares(&f, k, k + GEMM_CACHE_LINE, &sum[group]);
        }
    }
#pragma GCC unroll 4
    for (int group = 0; group < groups; group++) {
        const int64_t rest = f.terms - f.terms % GEMM_SIDE;
        f.b = b + group * GEMM_SIDE * f.b_column;
        add_squares(&f, k, rest, &sum[group]);
        for (int64_t i = rest; i < f.terms; i++) {
            const real *last = f.b + i;
            const gemm_quad four = {last[0], last[f.b_column], last[2 * f.b_column], last[3 * f.b_column]};
            add_quad(f.a[i * f.a_step], &four, &sum[group]);
        }
        *(gemm_quad *)(sums + group * GEMM_SIDE) = sum[group];
    }
}

/* Computes sums of some columns, at most 16, which are in memory rows of B, and returns their number. */
static int64_t sum_columns(const row_factors *f, int64_t columns, real *sum)
{
    if (columns >= 4 * GEMM_SIDE) {
        row_sum_lines(4, *f, sum);
        return 4 * GEMM_SIDE;
    }
    if (columns >= GEMM_SIDE) {
        row_sum_lines(1, *f, sum);
        return GEMM_SIDE;
    }
    multiply_columns(false, 1, f, false, sum);
    return 1;
}

void KERNEL(tg_row_gemm)(const tg_gemm *g, const void *a, const void *b, void *c)
{
#if !defined TG_HAS_FMA
    if (g->exact) {
        multiply_exactly(g, a, b, c);
        return;
    }
#endif
    const bool by_columns = g->b_layout == TG_TRANSPOSED;
    const int64_t a_row = g->transpose_a ? 1 : g->lda;
    row_factors f = {.a_step = g->transpose_a ? g->lda : 1, .b_column = by_columns ? g->ldb : 1, .b_step = 1};
    for (int64_t row = 0; row < g->m; row++) {
        for (int64_t column = 0, columns; column < g->n; column += columns) {
            columns = least(g->n - column, ROW_COLUMNS);
            for (int64_t first = 0; first == 0 || first < g->k; first += GEMM_DEPTH) {
                real sum[ROW_COLUMNS], *to = (real *)c + row * g->ldc + column;
                f.terms = least(GEMM_DEPTH, g->k - first);
                f.a = (const real *)a + row * a_row + first * f.a_step;
                if (by_columns) {
                    f.b = (const real *)b + column * g->ldb + first;
                    columns = sum_columns(&f, columns, sum);
                } else {
                    f.b = (const real *)b + column + first * g->ldb;
                    row_sum_rows(&f, columns, g->ldb, sum);
                }
                for (int64_t j = 0; j < columns; j++) {
                    to[j] = g->add || first > 0 ? to[j] + sum[j] : sum[j];
                }
            }
        }
    }
}
