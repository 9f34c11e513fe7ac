/* panels (private): a matrix that is a factor of many products, packed once.
 *
 * BLAS copies its factors into another order in every call. For a few rows that takes as long as half of the product.
 * So the matrix is copied once, into panels of some columns, and the rows are multiplied with these by the tiles of the
 * built-in products (products/tile_gemm.c), whatever the backend is. A panel has the same number of columns for all
 * matrices; those that the matrix lacks are 0. The sums have the order of the built-in products (tg_matmul_backend).
 */
#ifndef TG_PRODUCTS_PANELS_H
#define TG_PRODUCTS_PANELS_H

#include "base/real.h"

/* The largest number of columns of a panel at any level. */
#define TG_PANEL_MOST 32

/* Returns the number of columns of a panel. */
int64_t KERNEL(tg_panel_columns)(void);

/* Copies columns of a matrix, at most as many as a panel has, into a panel (terms,columns of a panel). They are
 * column_distance apart, and their values, one for each term, term_distance; one of these distances is 1. */
void KERNEL(tg_panel_store)(const real *from, int64_t column_distance, int64_t term_distance, int64_t columns,
                            int64_t terms, real *panel);

#endif
