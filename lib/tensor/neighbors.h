/* neighbors (private): what the searches for the neighbors of a row (rows.c) and of vectors (neighbors.c) share. */
#ifndef TG_TENSOR_NEIGHBORS_H
#define TG_TENSOR_NEIGHBORS_H

#include "tensor/tensor.h"

/* Returns the similarity of row a of x, whose largest absolute value is `a_largest`, and row b of y, computed in
 * double; NaN if one of them is not finite. For a cosine both are divided by their largest absolute value before they
 * are squared, to prevent overflow and underflow. */
double tg_row_similarity(tg_similarity similarity, const tg_tensor *x, int64_t a, double a_largest, const tg_tensor *y,
                         int64_t b);

#endif
