/* repeated_product (private): products of a few rows with one matrix that is a factor of many products.
 *
 * BLAS copies its factors into another order in every call. For a few rows that takes as long as half of the product.
 * So the matrix is copied once, into blocks of some columns, and the rows are multiplied with these. In a block the
 * values of a row are neighbors, and so are the rows: the cache keeps a block, and a loop over its columns is
 * vectorized. Sums have the order of the terms, so their bits depend neither on the blocks nor on the threads.
 *
 *     block = block_for(columns);
 *     for (int64_t column = begin, n; (n = columns_in_block(block, column, end)) > 0; column += n) {
 *         ... the n columns from `column` on are in one block: store_columns, then add_product as often as needed ...
 *     }
 */
#ifndef TG_OPS_LINEAR_ALGEBRA_REPEATED_PRODUCT_H
#define TG_OPS_LINEAR_ALGEBRA_REPEATED_PRODUCT_H

#include "ops/kernel.h"

/* The rows whose sums of a block stay in the first level of the cache. */
#define ROWS_AT_ONCE 16

/* Returns the number of columns of a block: at most 256, and so few that no block is of two threads, if threads divide
 * the columns. The processor reads ahead, and would else fetch the half of the other thread, too. */
static inline int64_t block_for(int64_t columns)
{
    int64_t share = columns / tg_threads() / 16 * 16;
    return share < 16 ? 16 : share < 256 ? share : 256;
}

/* Returns the number of columns from `begin` to the end of its block, or to `end` if that is first. */
static inline int64_t columns_in_block(int64_t block, int64_t begin, int64_t end)
{
    int64_t stop = (begin / block + 1) * block;
    return (stop < end ? stop : end) - begin;
}

/* Returns the distance between the rows of the block that has a column. */
static inline int64_t block_width(int64_t block, int64_t columns, int64_t column)
{
    int64_t rest = columns - column / block * block;
    return rest < block ? rest : block;
}

/* Returns the address of a value of a matrix (rows,columns) in blocks. */
static inline real *in_blocks(int64_t block, real *matrix, int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    int64_t start = column / block * block;
    return matrix + start * rows + row * block_width(block, columns, column) + (column - start);
}

/* Copies the n columns from `column` on, which are in one block, of a matrix (rows,columns) into blocks. */
static inline void store_columns(int64_t block, int64_t rows, int64_t columns, const real *from, real *matrix,
                                 int64_t column, int64_t n)
{
    const int64_t width = block_width(block, columns, column);
    real *to = in_blocks(block, matrix, rows, columns, 0, column);
    for (int64_t row = 0; row < rows; row++) {
        memcpy(to + row * width, from + row * columns + column, (size_t)n * sizeof *from);
    }
}

/* The same for the transpose of a matrix (columns,rows), a few rows at a time: their cache lines are filled while they
 * are in the cache. */
static inline void store_transposed_columns(int64_t block, int64_t rows, int64_t columns, const real *from,
                                            real *matrix, int64_t column, int64_t n)
{
    const int64_t width = block_width(block, columns, column);
    real *to = in_blocks(block, matrix, rows, columns, 0, column);
    from += column * rows;
    for (int64_t first = 0, end; first < rows; first = end) {
        end = rows - first < ROWS_AT_ONCE ? rows : first + ROWS_AT_ONCE;
        for (int64_t k = 0; k < n; k++) {
            for (int64_t row = first; row < end; row++) {
                to[row * width + k] = from[k * rows + row];
            }
        }
    }
}

/* A product of rows with some columns of a block: `a` has the rows, `m` the columns, `sum` the results. */
typedef struct block_product {
    int64_t rows, terms, columns;
    const real *a, *m;
    real *sum;
    int64_t a_distance, m_distance, sum_distance; /* between rows */
} block_product;

/* Adds four terms to the sums of four rows: the rows of a and of m are a_distance and m_distance apart. */
static void add_four_to_four(int64_t n, const real *a, int64_t a_distance, const real *restrict m, int64_t m_distance,
                             real *restrict s, real *restrict t, real *restrict u, real *restrict v)
{
    const real *b = a + a_distance, *c = b + a_distance, *d = c + a_distance;
    const real *m_1 = m + m_distance, *m_2 = m_1 + m_distance, *m_3 = m_2 + m_distance;
    const real a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];
    const real c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
    for (int64_t k = 0; k < n; k++) {
        real m0 = m[k], m1 = m_1[k], m2 = m_2[k], m3 = m_3[k];
        s[k] = s[k] + a0 * m0 + a1 * m1 + a2 * m2 + a3 * m3;
        t[k] = t[k] + b0 * m0 + b1 * m1 + b2 * m2 + b3 * m3;
        u[k] = u[k] + c0 * m0 + c1 * m1 + c2 * m2 + c3 * m3;
        v[k] = v[k] + d0 * m0 + d1 * m1 + d2 * m2 + d3 * m3;
    }
}

/* Adds four terms to the sums of one row. */
static void add_four(int64_t n, const real *a, const real *restrict m, int64_t m_distance, real *restrict sum)
{
    const real *m_1 = m + m_distance, *m_2 = m_1 + m_distance, *m_3 = m_2 + m_distance;
    const real a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
    for (int64_t k = 0; k < n; k++) {
        sum[k] = sum[k] + a0 * m[k] + a1 * m_1[k] + a2 * m_2[k] + a3 * m_3[k];
    }
}

static void add_one(int64_t n, real a, const real *restrict m, real *restrict sum)
{
    for (int64_t k = 0; k < n; k++) {
        sum[k] += a * m[k];
    }
}

/* Computes sum[i,j] += sum_k a[i,k] m[k,j]. */
static void add_product(const block_product *p)
{
    const int64_t ad = p->a_distance, md = p->m_distance, sd = p->sum_distance;
    for (int64_t first = 0, end; first < p->rows; first = end) {
        end = p->rows - first < ROWS_AT_ONCE ? p->rows : first + ROWS_AT_ONCE;
        int64_t term = 0;
        for (; term + 4 <= p->terms; term += 4) {
            const real *a = p->a + term, *m = p->m + term * md;
            int64_t row = first;
            for (; row + 4 <= end; row += 4) {
                real *sum = p->sum + row * sd;
                add_four_to_four(p->columns, a + row * ad, ad, m, md, sum, sum + sd, sum + 2 * sd, sum + 3 * sd);
            }
            for (; row < end; row++) {
                add_four(p->columns, a + row * ad, m, md, p->sum + row * sd);
            }
        }
        for (; term < p->terms; term++) {
            for (int64_t row = first; row < end; row++) {
                add_one(p->columns, p->a[row * ad + term], p->m + term * md, p->sum + row * sd);
            }
        }
    }
}

#endif
