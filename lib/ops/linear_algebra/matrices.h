/* matrices (private): a tensor (..,T,D) as a batch of matrices (T,D). The batch axes are all axes before the last two;
 * the matrices are numbered in their row-major order. A second tensor may have fewer batch axes, or batch axes of size
 * 1: its matrices are repeated along them, as in broadcasting. If its size of an axis divides that of the first tensor,
 * each of its matrices belongs to as many neighbors: the heads of a group.
 */
#ifndef TG_OPS_LINEAR_ALGEBRA_MATRICES_H
#define TG_OPS_LINEAR_ALGEBRA_MATRICES_H

#include "products/gemm.h"
#include "tensor/tensor.h"

/* Returns the offset of matrix number `batch` of x, for any strides of the batch axes. */
static inline int64_t tg_matrix_of(const tg_tensor *x, int64_t batch)
{
    int64_t start = 0;
    for (int axis = x->rank - 3; axis >= 0; axis--) {
        start += batch % x->shape[axis] * x->strides[axis];
        batch /= x->shape[axis];
    }
    return start;
}

/* Returns the offset of the matrix of x that belongs to matrix number `batch` of `other`: in x, or, with `contiguous`,
 * in the gradient of x. */
static inline int64_t tg_repeated_matrix_of(const tg_tensor *x, const tg_tensor *other, int64_t batch, bool contiguous)
{
    int64_t start = 0, plain = x->shape[x->rank - 2] * x->shape[x->rank - 1];
    for (int axis = other->rank - 3, own = x->rank - 3; own >= 0; axis--, own--) {
        int64_t repeats = other->shape[axis] / x->shape[own], index = batch % other->shape[axis] / repeats;
        start += index * (contiguous ? plain : x->strides[own]);
        plain *= x->shape[own];
        batch /= other->shape[axis];
    }
    return start;
}

/* Returns whether matrix number `batch` is the first of `other` that belongs to its matrix of x. */
static inline bool tg_is_first_use(const tg_tensor *x, const tg_tensor *other, int64_t batch)
{
    bool first = true;
    for (int axis = other->rank - 3, own = x->rank - 3; axis >= 0; axis--, own--) {
        int64_t repeats = other->shape[axis] / (own < 0 ? 1 : x->shape[own]);
        first = first && batch % other->shape[axis] % repeats == 0;
        batch /= other->shape[axis];
    }
    return first;
}

/* Returns whether x is (..,rows,columns), with batch axes that are equal to those of `other`, or 1, or absent. */
static inline bool tg_is_repeated_matrix(const tg_tensor *x, tg_shape other, int64_t rows, int64_t columns)
{
    bool fits =
        x->rank >= 2 && x->rank <= other.rank && x->shape[x->rank - 2] == rows && x->shape[x->rank - 1] == columns;
    for (int axis = other.rank - 3, own = x->rank - 3; fits && own >= 0; axis--, own--) {
        fits = x->shape[own] == 1 || x->shape[own] == other.size[axis];
    }
    return fits;
}

/* Returns the distance between the rows of a matrix of x, for gemm. */
static inline int64_t tg_row_distance(const tg_tensor *x)
{
    int64_t rows = x->shape[x->rank - 2], width = x->shape[x->rank - 1];
    return rows == 1 ? width : x->strides[x->rank - 2];
}

/* For tg_op.accepts_layout: rows without gaps, with any distance between them. */
static inline bool tg_rows_layout(const tg_tensor *x, int i)
{
    (void)i;
    if (x->rank < 2) {
        return false;
    }
    int64_t width = x->shape[x->rank - 1], rows = x->shape[x->rank - 2], distance = x->strides[x->rank - 2];
    return (width == 1 || x->strides[x->rank - 1] == 1) &&
           (rows == 1 || (distance >= width && distance <= TG_GEMM_LIMIT));
}

#endif
