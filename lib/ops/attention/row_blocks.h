/* row_blocks (private): the rows of queries (..,T,D), taken in blocks of at most ROW_BLOCK rows of one matrix.
 *
 *     row_block b = row_blocks_of(queries, keys, causal);
 *     while (next_row_block(&b)) {
 *         ... rows b.first .. b.first + b.rows - 1 of matrix b.batch ...
 *     }
 */
#ifndef TG_OPS_ATTENTION_ROW_BLOCKS_H
#define TG_OPS_ATTENTION_ROW_BLOCKS_H

#include "ops/kernel.h"
#include "ops/linear_algebra/matrices.h"

enum { ROW_BLOCK = 128 };

typedef struct row_block {
    int64_t batches, queries, keys, width; /* the number of matrices, T, S, D */
    bool causal;                           /* row t, at position S - T + t, attends to keys up to its own position */
    int64_t batch, first, rows;            /* the block's matrix, its first row, its number of rows */
} row_block;

/* Returns the state before the first block. */
static inline row_block row_blocks_of(const tg_tensor *queries, int64_t keys, bool causal)
{
    int64_t rows = queries->shape[queries->rank - 2], width = queries->shape[queries->rank - 1];
    int64_t matrix = rows * width;
    return (row_block){.batches = matrix > 0 ? queries->count / matrix : 0,
                       .queries = rows,
                       .keys = keys,
                       .width = width,
                       .causal = causal,
                       .batch = -1,
                       .first = rows};
}

/* Moves to the next block; false after the last one. */
static inline bool next_row_block(row_block *b)
{
    b->first += b->rows;
    if (b->first >= b->queries) {
        b->first = 0;
        b->batch++;
    }
    b->rows = b->queries - b->first < ROW_BLOCK ? b->queries - b->first : ROW_BLOCK;
    return b->batch < b->batches;
}

/* Returns the number of keys that row i of the block attends to. */
static inline int64_t visible_keys(const row_block *b, int64_t i)
{
    return b->causal ? b->keys - b->queries + b->first + i + 1 : b->keys;
}

#endif
