/* panels (private): products of a few rows with one matrix that is a factor of many products.
 *
 * BLAS copies its factors into another order in every call. For a few rows that takes as long as half of the product.
 * So the matrix is copied once, into panels of some columns, and the rows are multiplied with these by the tiles of the
 * built-in products (products/builtin_tile.h), whatever the backend is. A panel has the same number of columns for all
 * matrices; those that the matrix lacks are 0. The sums have the order of the built-in products (tg_matmul_backend).
 */
#ifndef TG_PRODUCTS_PANELS_H
#define TG_PRODUCTS_PANELS_H

#include "base/real.h"
#include "products/gemm.h"

/* The largest number of columns of a panel at any level. */
#define TG_PANEL_MOST 32

#if defined TG_REAL_F32 || defined TG_REAL_F64 /* for kernels */

/* Returns the number of columns of a panel. */
int64_t KERNEL(tg_panel_columns)(void);

/* Copies columns of a matrix, at most as many as a panel has, into a panel (terms,columns of a panel). They are
 * column_distance apart, and their values, one for each term, term_distance; one of these distances is 1. */
void KERNEL(tg_panel_store)(const real *from, int64_t column_distance, int64_t term_distance, int64_t columns,
                            int64_t terms, real *panel);

/* Computes C = A B, or with `add` C += A B, for a row-major A. B is stored in g->n columns of panels, which follow each
 * other; its distance is not read. */
void KERNEL(tg_panels_multiply)(const tg_gemm *g, const real *a, const real *panels, bool add, real *c);

/* The same with exact multiply-adds (products/exact_tile.h), and the number of columns of the baseline. */
#if defined TG_REAL_F32
#define EXACT(name) name##_f32_exact
#else
#define EXACT(name) name##_f64_exact
#endif
void EXACT(tg_panels_multiply)(const tg_gemm *g, const real *a, const real *panels, bool add, real *c);

#endif

#endif
