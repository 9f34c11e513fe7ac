/* neighbors (private): what the searches for the neighbors of a row (rows.c) and of vectors (neighbors.c) share. */
#ifndef TG_TENSOR_NEIGHBORS_H
#define TG_TENSOR_NEIGHBORS_H

#include "base/level.h"
#include "tensor/tensor.h"

/* Returns the similarity of row a of x, whose largest absolute value is `a_largest`, and row b of y, computed in
 * double; NaN if one of them is not finite. For a cosine both are divided by their largest absolute value before they
 * are squared, to prevent overflow and underflow. */
double tg_row_similarity(tg_similarity similarity, const tg_tensor *x, int64_t a, double a_largest, const tg_tensor *y,
                         int64_t b);

/* A search, and its current queries and block of rows. Memory of the dtype of the table has no type here. */
typedef struct tg_neighbor_search {
    const tg_tensor *table, *queries;
    tg_similarity similarity;
    const uint8_t *among; /* or NULL */
    int64_t width, count;
    int64_t query, query_count, row, row_count; /* the queries of this pass, and the rows of the block */
    int64_t room;                               /* the most rows of a block */
    const void *rows;                           /* the table's values */
    /* for the rows of the block, (room): the factors of the products, NaN where they are not exact enough; the products
     * (query_count,room); and the queries (query_count,C), for the cosine with a norm of 1 */
    void *factors, *products, *vectors;
    tg_row_neighbor *neighbors; /* (query_count,count), heaps */
} tg_neighbor_search;

typedef void tg_search_kernel(tg_neighbor_search *s);
tg_search_kernel TG_EACH_LEVEL(avx2, tg_search_f32), TG_EACH_LEVEL(avx2, tg_search_f64);

#endif
