/* tile_gemm: the built-in product of large matrices, in the calling thread.
 *
 * Each value of C is a sum over k in one order, which depends on k alone:
 *
 *     c = s_0 + s_1 + ...     s_i = the sum of the terms i DEPTH .. i DEPTH + DEPTH - 1, each added to those before it
 *                             by a fused multiply-add, which rounds once; the first one to 0.   (DEPTH is 384.)
 *
 * With `add` the sums are added to the old value of c one after the other. So the bits do not depend on the sizes of
 * the matrices, on tiles, threads or the level, as long as the processor has fused multiply-adds: the AVX2 and AVX-512
 * levels agree. The baseline of x86-64 has none and rounds each product, too. The multiply-adds stand in the source, so
 * no flag of the compiler decides what is fused. The same holds for small matrices and rows (row_gemm.c).
 *
 * C is computed in tiles of GEMM_ROWS x GEMM_COLUMNS values, which stay in registers for DEPTH terms. GEMM_COLUMNS are
 * a few vectors. DEPTH rows of B, GEMM_COLUMNS wide, are a panel, which is copied so that its vectors are neighbors in
 * memory and all fit into the first level of the cache. The values of A are read one by one, each for a row of the
 * tile. Where many panels read the values of A, PACKED_ROWS of these are copied, too, in the order in which the tiles
 * read them. What the next panel is copied from is fetched while this one is computed, a few lines of the cache at a
 * time: the copy would wait for memory as long as 30 rows take. A thread without memory for copies computes row by row.
 * The scheme is that of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008).
 */
#include "base/least.h"
#include "products/gemm_tile.h"

/* ---- copies ---- */

/* Copies a square, whose lines become columns: so neither of them leaves the cache. */
static inline void tile_transpose_square(const real *from, int64_t line_stride, int64_t width, real *to)
{
    gemm_quad column[GEMM_SIDE];
    gemm_read_columns(from, line_stride * (int64_t)sizeof *from, column);
    for (int i = 0; i < GEMM_SIDE; i++) {
        *(gemm_quad *)(to + i * width) = column[i];
    }
}

/* Copies at most GEMM_CACHE_LINE values of each of some lines side by side. Lines that are a power of two apart push
 * each other out of the cache, so each is read once: all its values in turn. The lines of the next call follow. */
static inline __attribute__((always_inline)) void interleave_lines(int width, const real *from, int64_t line_stride,
                                                                   int64_t lines, int64_t k, real *to)
{
    int64_t line = 0;
    for (; line + GEMM_SIDE <= lines; line += GEMM_SIDE) {
        const real *four = from + line * line_stride;
        int64_t step = 0;
        gemm_prefetch_lines(four + lines * line_stride, line_stride * (int64_t)sizeof *from, GEMM_SIDE);
        for (; step + GEMM_SIDE <= k; step += GEMM_SIDE) {
            tile_transpose_square(four + step, line_stride, width, to + step * width + line);
        }
        for (; step < k; step++) {
            for (int i = 0; i < GEMM_SIDE; i++) {
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
    for (int64_t step = 0; step < k; step += GEMM_CACHE_LINE) {
        interleave_lines(width, from + step, line_stride, lines, least(GEMM_CACHE_LINE, k - step), to + step * width);
    }
}

/* ---- tiles ---- */

/* Unrolls a loop over the rows or the vectors of a tile. Clang 14 ignores gcc's pragma where a loop has fewer
 * passes. */
#if defined __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Returns a b + c, each lane rounded once where the processor can, or with `exact`. gcc may leave an expression of
 * vectors unfused, as it does with -mtune=znver3. */
static inline __attribute__((always_inline)) vector multiply_add(bool exact, real a, vector b, vector c)
{
#if !defined TG_HAS_FMA
    if (!exact) {
        return a * b + c;
    }
#endif
    (void)exact;
    vector sum;
    for (int lane = 0; lane < VECTOR_LANES; lane++) {
        sum[lane] = TYPED(tg_fma)(a, b[lane], c[lane]);
    }
    return sum;
}

/* Fetches some of the lines that the next panel will be copied from. */
static inline void fetch_share(tg_gemm_ahead *ahead)
{
    for (int64_t line = 0; line < ahead->share && ahead->rows > 0; line++) {
        __builtin_prefetch(ahead->row + ahead->byte, 0, 2);
        ahead->byte += 64;
        if (ahead->byte >= ahead->bytes) {
            ahead->byte = 0;
            ahead->row += ahead->distance;
            ahead->rows--;
        }
    }
}

/* `exact` is a constant in each call. */
static inline __attribute__((always_inline)) void sum_terms(bool exact, int rows, gemm_factors *f,
                                                            vector sum[GEMM_ROWS][GEMM_VECTORS])
{
    const real *a = f->a, *b = f->b;
    const int64_t a_row = f->a_row;
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int v = 0; v < GEMM_VECTORS; v++) {
            sum[i][v] = (vector){0};
        }
    }
    for (int64_t term = 0; term < f->terms;) {
        fetch_share(&f->ahead);
        for (const int64_t stop = least(term + GEMM_FETCH, f->terms); term < stop; term++) {
            vector of_b[GEMM_VECTORS];
            UNROLL
            for (int v = 0; v < GEMM_VECTORS; v++) {
                of_b[v] = *(const vector *)(b + v * VECTOR_LANES);
            }
            UNROLL
            for (int i = 0; i < rows; i++) {
                UNROLL
                for (int v = 0; v < GEMM_VECTORS; v++) {
                    sum[i][v] = multiply_add(exact, a[i * a_row], of_b[v], sum[i][v]);
                }
            }
            a += f->a_step;
            b += f->b_step;
        }
    }
}

static inline __attribute__((always_inline)) void write_sums(int rows, vector sum[GEMM_ROWS][GEMM_VECTORS], bool add,
                                                             real *c, int64_t ldc)
{
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
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

/* Computes a tile of `rows` rows. The number is a constant in each call, and the loops over a tile are unrolled at
 * -O2, too, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void multiply_tile(int rows, gemm_factors *f, bool add, real *c,
                                                                int64_t ldc)
{
    vector sum[GEMM_ROWS][GEMM_VECTORS];
    for (int i = 0; i < rows; i++) { /* needed after the sums; the rows of a wide C lie on pages of their own */
        __builtin_prefetch(c + i * ldc, 1);
    }
#if !defined TG_HAS_FMA
    if (f->exact) {
        vector exact[GEMM_ROWS][GEMM_VECTORS]; /* in memory, unlike those of other sums */
        sum_terms(true, rows, f, exact);
        write_sums(rows, exact, add, c, ldc);
        return;
    }
#endif
    sum_terms(false, rows, f, sum);
    write_sums(rows, sum, add, c, ldc);
}

/* Computes as many rows as a tile has, or 8, 4 or 1, but at most `rows`, and returns their number. */
static inline int64_t multiply_rows(int64_t rows, gemm_factors *f, bool add, real *c, int64_t ldc)
{
    if (rows >= GEMM_ROWS) {
        multiply_tile(GEMM_ROWS, f, add, c, ldc);
        return GEMM_ROWS;
    }
    if (GEMM_ROWS > 8 && rows >= 8) {
        multiply_tile(8, f, add, c, ldc);
        return 8;
    }
    if (rows >= 4) {
        multiply_tile(4, f, add, c, ldc);
        return 4;
    }
    multiply_tile(1, f, add, c, ldc);
    return 1;
}

/* Computes `rows` rows of a panel of `columns` columns, at most GEMM_COLUMNS. */
static void multiply_panel(int64_t rows, int64_t columns, gemm_factors f, bool add, real *c, int64_t ldc)
{
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
#define PACKED_ROWS ((int64_t)(TG_BUILTIN_MEMORY / (GEMM_DEPTH * sizeof(real)))) /* 516, or 258 */

/* Returns the factors of `rows` rows of A, for the terms from `first` on; with memory, a copy of them. */
static gemm_factors factors_of(const tg_gemm *g, const real *a, int64_t row, int64_t rows, int64_t first, real *memory)
{
    gemm_factors f = {.a_row = g->transpose_a ? 1 : g->lda, .a_step = g->transpose_a ? g->lda : 1, .exact = g->exact};
    f.terms = least(GEMM_DEPTH, g->k - first);
    f.a = a + row * f.a_row + first * f.a_step;
    f.a_tile = GEMM_ROWS * f.a_row;
    if (!memory) {
        return f;
    }
    for (int64_t tile = 0; tile < rows; tile += GEMM_ROWS) {
        interleave(GEMM_ROWS, f.a + tile * f.a_row, f.a_row, f.a_step, least(GEMM_ROWS, rows - tile), f.terms,
                   memory + tile * f.terms);
    }
    f.a = memory;
    f.a_row = 1;
    f.a_tile = GEMM_ROWS * f.terms;
    f.a_step = GEMM_ROWS;
    return f;
}

/* ---- panels ---- */

_Static_assert(sizeof(real) * GEMM_DEPTH * GEMM_COLUMNS <= TG_BUILTIN_PANEL, "TG_BUILTIN_PANEL");

/* Sets the columns of B that a panel has from `column` on, for the terms from `first` on, where they are or copied into
 * `panel`. Where B is row-major, its values are read where they are by products of a few rows. */
static void find_columns(const tg_gemm *g, gemm_factors *f, const real *b, int64_t rows, int64_t column, int64_t first,
                         real *panel)
{
    const int64_t b_column = g->b_layout == TG_TRANSPOSED ? g->ldb : 1;
    const int64_t b_step = g->b_layout == TG_TRANSPOSED ? 1 : g->ldb;
    const int64_t columns = least(GEMM_COLUMNS, g->n - column), size = sizeof *b;
    const int64_t next = least(GEMM_COLUMNS, g->n - column - columns);
    f->b = b + column * b_column + first * b_step;
    f->b_step = GEMM_COLUMNS;
    f->ahead.rows = 0;
    /* A small B is in the cache, and fewer rows than a tile take too little time for what would be fetched. */
    if (next > 0 && rows >= GEMM_ROWS && g->n * f->terms >= GEMM_LARGE) {
        const bool by_columns = g->b_layout == TG_TRANSPOSED;
        f->ahead = (tg_gemm_ahead){.row = (const char *)(f->b + columns * b_column), .distance = g->ldb * size};
        f->ahead.rows = by_columns ? next : f->terms;
        f->ahead.bytes = (by_columns ? f->terms : next) * size;
        f->ahead.share = 1 + f->ahead.rows * f->ahead.bytes / 64 * GEMM_FETCH * GEMM_ROWS / (rows * f->terms);
    }
    if (g->b_layout == TG_TRANSPOSED || columns < GEMM_COLUMNS || rows > 2 * GEMM_ROWS) {
        if (columns < GEMM_COLUMNS) {
            memset(panel, 0, (size_t)(f->terms * GEMM_COLUMNS) * sizeof *panel);
        }
        interleave(GEMM_COLUMNS, f->b, b_column, b_step, columns, f->terms, panel);
        f->b = panel;
    } else {
        f->b_step = b_step;
    }
}

void KERNEL(tg_tile_gemm)(const tg_gemm *g, const void *a, const void *b, void *c)
{
    real *memory = tg_builtin_memory(), *out = c;
    if (!memory) {
        KERNEL(tg_row_gemm)(g, a, b, c);
        return;
    }
    real *panel = memory + TG_BUILTIN_MEMORY / sizeof *memory;
    const bool copies_a = g->n >= 8 * GEMM_COLUMNS && g->m > GEMM_ROWS;
    for (int64_t row = 0; g->k == 0 && row < g->m && !g->add; row++) {
        memset(out + row * g->ldc, 0, (size_t)g->n * sizeof *out);
    }
    for (int64_t row = 0; row < g->m; row += PACKED_ROWS) {
        const int64_t rows = least(PACKED_ROWS, g->m - row);
        for (int64_t first = 0; first < g->k; first += GEMM_DEPTH) {
            gemm_factors f = factors_of(g, a, row, rows, first, copies_a ? memory : NULL);
            for (int64_t column = 0; column < g->n; column += GEMM_COLUMNS) {
                find_columns(g, &f, b, rows, column, first, panel);
                multiply_panel(rows, least(GEMM_COLUMNS, g->n - column), f, g->add || first > 0,
                               out + row * g->ldc + column, g->ldc);
            }
        }
    }
}
