/* builtin_gemm: the library's own matrix product, in the calling thread.
 *
 * Each value of C is a sum over k in one order, which depends on k alone:
 *
 *     c = s_0 + s_1 + ...     s_i = the sum of the terms i DEPTH .. i DEPTH + DEPTH - 1, each added to those before it
 *                             by a fused multiply-add, which rounds once; the first one to 0.   (DEPTH is 384.)
 *
 * With `add` the sums are added to the old value of c one after the other. So the bits do not depend on the sizes of
 * the matrices, on tiles, threads or the level, as long as the processor has fused multiply-adds: the AVX2 and AVX-512
 * levels agree. The baseline of x86-64 has none and rounds each product, too. The build compiles this file so that a
 * multiplication and the addition of its result become one instruction where there is one (lib/meson.build).
 *
 * C is computed in tiles of ROWS x COLUMNS values, which stay in registers for DEPTH terms. COLUMNS are a few vectors.
 * DEPTH rows of B, COLUMNS wide, are a panel, which is copied so that its vectors are neighbors in memory and all fit
 * into the first level of the cache. The values of A are read one by one, each for a row of the tile. Where many panels
 * read them, PACKED_ROWS of them are copied, too, in the order in which the tiles read them; without memory for that
 * they are read where they are. The scheme is that of Goto and van de Geijn (Anatomy of High-Performance Matrix
 * Multiplication, 2008).
 */
#include "base/real.h"
#include "tensor/gemm.h"

#define DEPTH 384

/* The rows of A whose terms fit into the memory of a thread. */
#define PACKED_ROWS ((int64_t)(TG_BUILTIN_MEMORY / (DEPTH * sizeof(real)))) /* 480, or 240 */

/* A tile takes up 24 of the 32 registers of AVX-512, and 12 of 16 otherwise. */
#if defined TG_LEVEL_AVX512
#define VECTOR_BYTES 64
#define ROWS 12
#define VECTORS 2
#elif defined TG_LEVEL_AVX2
#define VECTOR_BYTES 32
#define ROWS 4
#define VECTORS 3
#else
#define VECTOR_BYTES 16
#define ROWS 4
#define VECTORS 3
#endif
#define LANES ((int)(VECTOR_BYTES / sizeof(real)))
#define COLUMNS (VECTORS * LANES)

typedef real vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- copies ---- */

#define SIDE 4
typedef real quad __attribute__((vector_size(SIDE * sizeof(real)), aligned(sizeof(real)), may_alias));

#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define LAST_HALVES(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

/* Copies a square, whose lines become columns: so neither of them leaves the cache. */
static inline void transpose_square(const real *from, int64_t line_stride, int64_t width, real *to)
{
    quad line[SIDE];
    for (int i = 0; i < SIDE; i++) {
        line[i] = *(const quad *)(from + i * line_stride);
    }
    const quad a = FIRST_HALVES(line[0], line[2]), b = FIRST_HALVES(line[1], line[3]);
    const quad c = LAST_HALVES(line[0], line[2]), d = LAST_HALVES(line[1], line[3]);
    *(quad *)to = FIRST_HALVES(a, b);
    *(quad *)(to + width) = LAST_HALVES(a, b);
    *(quad *)(to + 2 * width) = FIRST_HALVES(c, d);
    *(quad *)(to + 3 * width) = LAST_HALVES(c, d);
}

/* Copies lines of k values side by side: to[step * width + line] = from[line * line_stride + step * stride]. `width`, a
 * constant in each call, is at least the number of lines. */
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
    int64_t step = 0;
    for (; step + SIDE <= k; step += SIDE) {
        int64_t line = 0;
        for (; line + SIDE <= lines; line += SIDE) {
            transpose_square(from + line * line_stride + step, line_stride, width, to + step * width + line);
        }
        for (; line < lines; line++) {
            for (int i = 0; i < SIDE; i++) {
                to[(step + i) * width + line] = from[line * line_stride + step + i];
            }
        }
    }
    for (; step < k; step++) {
        for (int64_t line = 0; line < lines; line++) {
            to[step * width + line] = from[line * line_stride + step];
        }
    }
}

/* ---- tiles ---- */

/* The factors of a tile: the values of A are a_row apart from one row to the next, a_tile from one whole tile to the
 * next, and a_step from one term to the next; the vectors of B are b_step apart. */
typedef struct factors {
    const real *a, *b;
    int64_t a_row, a_tile, a_step, b_step, terms;
} factors;

/* Computes a tile of `rows` rows. The number is a constant in each call, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void multiply_tile(int rows, const factors *f, bool add, real *c,
                                                                int64_t ldc)
{
    vector sum[ROWS][VECTORS];
    const real *a = f->a, *b = f->b;
    const int64_t a_row = f->a_row;
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < VECTORS; v++) {
            sum[i][v] = (vector){0};
        }
    }
    for (int64_t term = 0; term < f->terms; term++) {
        vector of_b[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            of_b[v] = *(const vector *)(b + v * LANES);
        }
        for (int i = 0; i < rows; i++) {
            for (int v = 0; v < VECTORS; v++) {
                sum[i][v] += a[i * a_row] * of_b[v];
            }
        }
        a += f->a_step;
        b += f->b_step;
    }
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < VECTORS; v++) {
            vector *to = (vector *)(c + i * ldc + v * LANES);
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
    if (rows >= ROWS) {
        multiply_tile(ROWS, f, add, c, ldc);
        return ROWS;
    }
    if (rows >= 4) {
        multiply_tile(4, f, add, c, ldc);
        return 4;
    }
    multiply_tile(1, f, add, c, ldc);
    return 1;
}

/* Computes `rows` rows of a panel of `columns` columns, at most COLUMNS. */
static void multiply_panel(int64_t rows, int64_t columns, factors f, bool add, real *c, int64_t ldc)
{
    for (int64_t row = 0, done; row < rows; row += done) {
        if (columns == COLUMNS) {
            done = multiply_rows(rows - row, &f, add, c + row * ldc, ldc);
        } else {
            real tile[ROWS * COLUMNS];
            done = multiply_rows(rows - row, &f, false, tile, COLUMNS);
            for (int64_t i = 0; i < done; i++) {
                for (int64_t j = 0; j < columns; j++) {
                    real *to = c + (row + i) * ldc + j;
                    *to = add ? *to + tile[i * COLUMNS + j] : tile[i * COLUMNS + j];
                }
            }
        }
        f.a += done == ROWS ? f.a_tile : done * f.a_row;
    }
}

/* ---- large products ---- */

/* Where B is row-major, its values are read where they are by products of a few rows. */
static bool copies_panel(const tg_gemm *g, int64_t rows, int64_t columns)
{
    return g->transpose_b || columns < COLUMNS || rows > 2 * ROWS;
}

/* Returns the factors of `rows` rows of A, for the terms from `first` on; with memory, a copy of them. */
static factors factors_of(const tg_gemm *g, const real *a, int64_t row, int64_t rows, int64_t first, real *memory)
{
    factors f = {.a_row = g->transpose_a ? 1 : g->lda, .a_step = g->transpose_a ? g->lda : 1};
    f.terms = least(DEPTH, g->k - first);
    f.a = a + row * f.a_row + first * f.a_step;
    f.a_tile = ROWS * f.a_row;
    if (!memory) {
        return f;
    }
    for (int64_t tile = 0; tile < rows; tile += ROWS) {
        interleave(ROWS, f.a + tile * f.a_row, f.a_row, f.a_step, least(ROWS, rows - tile), f.terms,
                   memory + tile * f.terms);
    }
    return (factors){.a = memory, .a_row = 1, .a_tile = ROWS * f.terms, .a_step = ROWS, .terms = f.terms};
}

/* Adds the terms from `first` on to `rows` rows of C. */
static void add_terms(const tg_gemm *g, factors f, const real *b, int64_t rows, int64_t first, bool add, real *c)
{
    _Alignas(64) real panel[DEPTH * COLUMNS];
    const int64_t b_column = g->transpose_b ? g->ldb : 1, b_step = g->transpose_b ? 1 : g->ldb;
    for (int64_t column = 0; column < g->n; column += COLUMNS) {
        const int64_t columns = least(COLUMNS, g->n - column);
        f.b = b + column * b_column + first * b_step;
        f.b_step = b_step;
        if (copies_panel(g, rows, columns)) {
            if (columns < COLUMNS) {
                memset(panel, 0, (size_t)(f.terms * COLUMNS) * sizeof *panel);
            }
            interleave(COLUMNS, f.b, b_column, b_step, columns, f.terms, panel);
            f.b = panel;
            f.b_step = COLUMNS;
        }
        multiply_panel(rows, columns, f, add, c + column, g->ldc);
    }
}

/* ---- small products ---- */

/* gcc may leave an expression of numbers unfused, unlike one of vectors. */
#if defined TG_LEVEL_AVX512 || defined TG_LEVEL_AVX2 || defined __FP_FAST_FMA
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

static bool is_small(const tg_gemm *g)
{
    return g->n <= 64 && g->k <= 64 && g->m <= 64 && g->m * g->n * g->k <= 4096;
}

static void multiply_small(const tg_gemm *g, const real *a, const real *b, bool add, real *c)
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

/* ---- products ---- */

void KERNEL(tg_builtin_gemm)(const tg_gemm *g, const void *a, const void *b, bool add, void *c)
{
    if (is_small(g)) {
        multiply_small(g, a, b, add, c);
        return;
    }
    if (g->n == 1 && g->m > 1 && g->ldc <= 1) { /* a column of C is a row of its transpose: (A b)^T = b^T A^T */
        const tg_gemm row = {1, g->m, g->k, !g->transpose_b, !g->transpose_a, g->ldb, g->lda, g->m};
        KERNEL(tg_builtin_gemm)(&row, b, a, add, c);
        return;
    }
    const bool many_panels = g->n >= 8 * COLUMNS && g->m > ROWS;
    real *memory = many_panels ? tg_builtin_memory() : NULL, *out = c;
    if (g->k == 0) {
        for (int64_t row = 0; row < g->m && !add; row++) {
            memset(out + row * g->ldc, 0, (size_t)g->n * sizeof *out);
        }
    }
    for (int64_t row = 0; row < g->m; row += PACKED_ROWS) {
        const int64_t rows = least(PACKED_ROWS, g->m - row);
        for (int64_t first = 0; first < g->k; first += DEPTH) {
            factors f = factors_of(g, a, row, rows, first, memory);
            add_terms(g, f, b, rows, first, add || first > 0, out + row * g->ldc);
        }
    }
}
