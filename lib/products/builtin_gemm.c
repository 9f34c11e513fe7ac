/* builtin_gemm: the library's own matrix product, in the calling thread.
 *
 * Each value of C is a sum over k in one order, which depends on k alone:
 *
 *     c = s_0 + s_1 + ...     s_i = the sum of the terms i DEPTH .. i DEPTH + DEPTH - 1, each added to those before it
 *                             by a fused multiply-add, which rounds once; the first one to 0.   (DEPTH is 384.)
 *
 * With `add` the sums are added to the old value of c one after the other. So the bits do not depend on the sizes of
 * the matrices, on tiles, threads or the level, as long as the processor has fused multiply-adds: the AVX2 and AVX-512
 * levels agree. The baseline of x86-64 has none and rounds each product, too. The multiply-adds stand in the source
 * (builtin_tile.h, builtin_row.h), so no flag of the compiler decides what is fused.
 *
 * C is computed in tiles (builtin_tile.h), for which columns of B are copied. Where many panels read the values
 * of A, PACKED_ROWS of these are copied, too, in the order in which the tiles read them. A thread without memory for
 * copies computes row by row. The scheme is that of Goto and van de Geijn (Anatomy of High-Performance Matrix
 * Multiplication, 2008).
 */
#include "products/builtin_row.h"

/* ---- large products ---- */

/* Where B is row-major, its values are read where they are by products of a few rows. */
static bool copies_panel(const tg_gemm *g, int64_t rows, int64_t columns)
{
    return g->transpose_b || columns < GEMM_COLUMNS || rows > 2 * GEMM_ROWS;
}

_Static_assert(sizeof(real) * DEPTH * GEMM_COLUMNS <= TG_BUILTIN_PANEL, "TG_BUILTIN_PANEL");

/* Adds the terms from `first` on to `rows` rows of C. `panel` has room for a panel. */
static void add_terms(const tg_gemm *g, factors f, const real *b, int64_t rows, int64_t first, real *panel, bool add,
                      real *c)
{
    const int64_t b_column = g->transpose_b ? g->ldb : 1, b_step = g->transpose_b ? 1 : g->ldb;
    for (int64_t column = 0; column < g->n; column += GEMM_COLUMNS) {
        const int64_t columns = least(GEMM_COLUMNS, g->n - column);
        f.b = b + column * b_column + first * b_step;
        f.b_step = b_step;
        if (copies_panel(g, rows, columns)) {
            copy_panel(f.b, b_column, b_step, columns, f.terms, panel);
            f.b = panel;
            f.b_step = GEMM_COLUMNS;
        }
        multiply_panel(rows, columns, f, add, c + column, g->ldc);
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
    const bool by_rows = g->m == 1 || (g->m < 4 && !g->transpose_b);
    real *memory = by_rows ? NULL : tg_builtin_memory(), *out = c;
    if (!memory) {
        multiply_rows_of_a(g, a, b, add, c);
        return;
    }
    real *panel = memory + TG_BUILTIN_MEMORY / sizeof *memory;
    const bool many_panels = g->n >= 8 * GEMM_COLUMNS && g->m > GEMM_ROWS;
    if (g->k == 0) {
        for (int64_t row = 0; row < g->m && !add; row++) {
            memset(out + row * g->ldc, 0, (size_t)g->n * sizeof *out);
        }
    }
    for (int64_t row = 0; row < g->m; row += PACKED_ROWS) {
        const int64_t rows = least(PACKED_ROWS, g->m - row);
        for (int64_t first = 0; first < g->k; first += DEPTH) {
            factors f = factors_of(g, a, row, rows, first, many_panels ? memory : NULL);
            add_terms(g, f, b, rows, first, panel, add || first > 0, out + row * g->ldc);
        }
    }
}
