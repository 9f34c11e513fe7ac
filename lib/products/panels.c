/* panels: the products that panels.h describes. */
#include "products/panels.h"

#include "products/builtin_tile.h"

_Static_assert(GEMM_COLUMNS <= TG_PANEL_MOST, "TG_PANEL_MOST");

int64_t KERNEL(tg_panel_columns)(void)
{
    return GEMM_COLUMNS;
}

void KERNEL(tg_panel_store)(const real *from, int64_t column_distance, int64_t term_distance, int64_t columns,
                            int64_t terms, real *panel)
{
    copy_panel(from, column_distance, term_distance, columns, terms, panel);
}

void KERNEL(tg_panels_multiply)(const tg_gemm *g, const real *a, const real *panels, bool add, real *c)
{
#if !defined TG_LEVEL_EXACT
    if (tg_products_are_exact()) { /* at the baseline */
        EXACT(tg_panels_multiply)(g, a, panels, add, c);
        return;
    }
#endif
    real *memory = tg_builtin_memory();
    for (int64_t row = 0; row < g->m; row += PACKED_ROWS) {
        const int64_t rows = least(PACKED_ROWS, g->m - row);
        for (int64_t first = 0; first < g->k; first += DEPTH) {
            factors f = factors_of(g, a, row, rows, first, memory);
            f.b_step = GEMM_COLUMNS;
            for (int64_t column = 0; column < g->n; column += GEMM_COLUMNS) {
                f.b = panels + column * g->k + first * GEMM_COLUMNS;
                multiply_panel(rows, GEMM_COLUMNS, f, add || first > 0, c + row * g->ldc + column, g->ldc);
            }
        }
    }
}
