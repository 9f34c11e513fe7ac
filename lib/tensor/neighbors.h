/* neighbors (private): a search for the rows that are nearest to each of many queries (neighbors.c), and what it shares
 * with the search for those of a row (rows.c). */
#ifndef TG_TENSOR_NEIGHBORS_H
#define TG_TENSOR_NEIGHBORS_H

#include "base/level.h"
#include "base/parallel.h"
#include "tensor/tensor.h"

/* Returns the similarity of row a of x, whose largest absolute value is `a_largest`, and row b of y, computed in double;
 * NaN if one of them is not finite. For a cosine both are divided by their largest absolute value before they are
 * squared, to prevent overflow and underflow. */
double tg_row_similarity(tg_similarity similarity, const tg_tensor *x, int64_t a, double a_largest, const tg_tensor *y,
                         int64_t b);

/* Inserts a row into a list of `found` rows, nearest first, and drops the last if there are more than `count`. Returns
 * their new number. */
int64_t tg_neighbors_insert(tg_row_neighbor *list, int64_t found, int64_t count, tg_row_neighbor next);

/* A search, and its current queries and block of rows. Memory of the dtype of the table has no type here. */
typedef struct tg_search {
    const tg_tensor *table, *queries;
    tg_similarity similarity;
    const uint8_t *among; /* or NULL */
    int64_t count;
    int64_t query, query_count; /* the first of these queries */
    int64_t row, row_count;     /* the first of the block */
    int64_t room;               /* the most rows of a block */
    const void *rows;           /* the table's values */
    void *vectors;              /* the queries (query_count,C), for the cosine with a norm of 1 */
    void *products;             /* (query_count,room) */
    void *factors;              /* (room): those of the products, NaN where they are not exact enough */
    tg_row_neighbor *neighbors; /* (query_count,count) */
} tg_search;

/* Offers a row to the list of a query: `similarity` may be NaN, and the row is not yet known to be among those that
 * count. */
void tg_search_offer(const tg_search *s, int64_t query, int64_t row, double similarity);

/* The loops over strips of the block, and over the queries. */
loop_body TG_EACH_LEVEL(avx2, tg_search_multiply_f32), TG_EACH_LEVEL(avx2, tg_search_multiply_f64);
loop_body TG_EACH_LEVEL(avx2, tg_search_select_f32), TG_EACH_LEVEL(avx2, tg_search_select_f64);

/* The rows of a strip. */
#define TG_SEARCH_STRIP 512

#endif
