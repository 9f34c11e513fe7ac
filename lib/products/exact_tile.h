/* exact_tile (private): sums of the built-in products whose fused multiply-adds are computed exactly by other means, as
 * math/fma.h says: for the reproducible mode on processors without them. One version, for the baseline. */
#ifndef TG_PRODUCTS_EXACT_TILE_H
#define TG_PRODUCTS_EXACT_TILE_H

#include "products/gemm_tile.h"

/* Returns the range of a panel of B. */
gemm_range TYPED(tg_exact_range)(const gemm_factors *f);

/* Computes the sums of a tile of `rows` rows, which are GEMM_ROWS or 1. */
void TYPED(tg_exact_tile)(int rows, const gemm_factors *f, vector sums[GEMM_ROWS][GEMM_VECTORS]);

#endif
