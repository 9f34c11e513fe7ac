/* attention_tiles (private): the tiles of attention, for its forward pass (attention.c) and its backward pass
 * (attention_backward.c).
 *
 *   S = scale q k^T + b, and -inf for keys that a query does not attend to     P = softmax(S)     y = (P m) v
 *
 * m is the mask of dropout: each value is 1 / (1 - p) or 0; without dropout it is 1. The matrices S and P exist in
 * tiles alone: a few rows of queries by a few keys, which stay in the first-level cache (Dao et al. 2022). Tiles above
 * the diagonal, if causal, before the first key that a block of rows sees and behind the last key of a sequence are not
 * computed.
 *
 * Keys, values and bias may have fewer matrices than the queries, each for several of them: one for a group of heads,
 * or one for a whole axis (matrices.h). The mask of keys has a row per sequence, which is the queries' first axis.
 */
#ifndef TG_OPS_ATTENTION_ATTENTION_TILES_H
#define TG_OPS_ATTENTION_ATTENTION_TILES_H

#include "ops/lanes.h"
#include "ops/attention/attention_attributes.h"
#include "ops/elementwise/mask.h"
#include "ops/linear_algebra/matrices.h"

/* The most rows of a tile, and the most values. Forward visits a few tiles together, because softmax and the product
 * with the values take less time for long rows. */
enum {
    ATTENTION_TILE = 64,
    TILE_VALUES = ATTENTION_TILE * ATTENTION_TILE,
    TILES_TOGETHER = 16 / (int)sizeof(real),
};

/* One call. The saved memory holds the maximum of each row, then the logarithm of its sum, and then, with dropout, one
 * bit per weight. */
typedef struct attention {
    const tg_op_call *call;
    const real *q, *k, *v, *y, *dy;
    const tg_tensor *bias, *mask;          /* (..,T,S) and (B,S), or NULL */
    const tg_tensor *first_keys;           /* (T) or (B,T), or NULL */
    int64_t window;                        /* the number of keys that a query sees at most; 0: all */
    int64_t batches, queries, keys, width; /* the number of matrices, T, S, D */
    int64_t blocks;                        /* the number of blocks of rows per matrix */
    int64_t lq, lk, lv, lbias;             /* the distances between rows */
    real scale, factor;                    /* factor is 1 / (1 - p) */
    real *maxima, *log_sums;
    const uint8_t *bits; /* the mask of dropout, or NULL */
    bool causal;
} attention;

/* Rows first .. first + rows - 1 of matrix `batch`, in tiles of `columns` keys. */
typedef struct attention_block {
    int64_t batch, first, rows, columns;
    int64_t row;        /* the index of the first row among those of all matrices */
    int64_t weight_row; /* the same among those of the weights */
    const real *q, *k, *v;
    const real *bias;          /* the first row of the bias, or NULL */
    const uint8_t *mask;       /* the mask of the sequence's keys, or NULL */
    const int32_t *first_keys; /* those of the sequence, or NULL */
    int64_t begin;             /* the first key that a row attends to */
    int64_t end_key;           /* the mask removes all keys from here on */
    int64_t visible;           /* the number of keys up to the last one that the last row attends to */
} attention_block;

static inline attention attention_of(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
    const attention_attributes *attributes = call->attributes;
    attention a = {.call = call,
                   .q = tg_values(q),
                   .k = tg_values(k),
                   .v = tg_values(v),
                   .y = tg_values(call->outputs[0]),
                   .bias = attributes->has_bias ? call->inputs[3] : NULL,
                   .mask = attention_mask_of(call),
                   .first_keys = attention_first_keys_of(call),
                   .window = attributes->window,
                   .queries = q->shape[q->rank - 2],
                   .keys = k->shape[k->rank - 2],
                   .width = q->shape[q->rank - 1],
                   .lq = tg_row_distance(q),
                   .lk = tg_row_distance(k),
                   .lv = tg_row_distance(v),
                   .scale = (real)attributes->scale,
                   .maxima = call->saved,
                   .causal = attributes->causal};
    int64_t matrix = a.queries * a.width;
    a.batches = matrix > 0 ? q->count / matrix : 0;
    a.blocks = (a.queries + ATTENTION_TILE - 1) / ATTENTION_TILE;
    a.lbias = a.bias ? tg_row_distance(a.bias) : 0;
    a.factor = 1 / (real)(1 - attributes->p);
    bool dropped = attributes->p > 0 && call->saved; /* without rows nothing is saved */
    a.log_sums = call->saved ? a.maxima + attention_rows_of(q) : NULL;
    a.bits = dropped ? (const uint8_t *)(a.log_sums + attention_rows_of(q)) : NULL;
    return a;
}

/* Returns the number of keys up to the last one that row i of the block attends to. */
static inline int64_t visible_to_row(const attention *a, const attention_block *b, int64_t i)
{
    int64_t past = a->causal ? a->keys - a->queries + b->first + i + 1 : a->keys;
    return past < b->end_key ? past : b->end_key;
}

/* Returns the first key that row i of the block attends to. */
static inline int64_t first_key_of_row(const attention *a, const attention_block *b, int64_t i)
{
    const int64_t row = b->first + i, past = a->keys - a->queries + row + 1 - a->window;
    const int64_t first = b->first_keys ? b->first_keys[row] : 0;
    return a->window > 0 && past > first ? past : first;
}

static inline void find_keys(const attention *a, attention_block *b)
{
    b->end_key = b->begin = a->keys;
    if (a->first_keys) {
        int64_t sequence = a->first_keys->rank == 2 ? b->batch / (a->batches / a->first_keys->shape[0]) : 0;
        b->first_keys = (const int32_t *)tg_values(a->first_keys) + sequence * a->queries;
    }
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t first = first_key_of_row(a, b, i);
        b->begin = first < b->begin ? first : b->begin;
    }
    if (a->mask) {
        int64_t sequence = b->batch / (a->batches / a->mask->shape[0]);
        b->mask = (const uint8_t *)tg_values(a->mask) + sequence * a->mask->strides[0];
        while (b->end_key > 0 && !b->mask[b->end_key - 1]) {
            b->end_key--;
        }
    }
    b->visible = visible_to_row(a, b, b->rows - 1);
}

static inline attention_block attention_block_of(const attention *a, int64_t batch, int64_t block)
{
    const tg_tensor *const *inputs = (const tg_tensor *const *)a->call->inputs;
    attention_block b = {.batch = batch, .first = block * ATTENTION_TILE};
    b.rows = a->queries - b.first < ATTENTION_TILE ? a->queries - b.first : ATTENTION_TILE;
    b.columns = TILE_VALUES / b.rows / 16 * 16;
    b.row = batch * a->queries + b.first;
    b.weight_row = weight_matrix_of(a->call, batch) * a->queries + b.first;
    b.q = a->q + tg_matrix_of(inputs[0], batch) + b.first * a->lq;
    b.k = a->k + tg_repeated_matrix_of(inputs[1], inputs[0], batch, false);
    b.v = a->v + tg_repeated_matrix_of(inputs[2], inputs[0], batch, false);
    if (a->bias) {
        b.bias = (const real *)tg_values(a->bias) + tg_repeated_matrix_of(a->bias, inputs[0], batch, false) +
                 b.first * a->lbias;
    }
    find_keys(a, &b);
    return b;
}

/* Computes the products of the queries with `columns` keys, for each tile alone. Backward computes them again, and they
 * must have the bits of forward: where scores are large, a last bit more would multiply the weights. */
static inline void multiply_keys(const attention *a, const attention_block *b, int64_t first, int64_t columns,
                                 real *scores)
{
    for (int64_t c = 0; c < columns; c += b->columns) {
        const real *k = b->k + (first + c) * a->lk;
        const int64_t n = columns - c < b->columns ? columns - c : b->columns;
        const tg_gemm tile = {
            b->rows,          n, a->width, .b_layout = TG_TRANSPOSED, .lda = a->lq, .ldb = a->lk, .ldc = columns,
            .in_thread = true};
        gemm(&tile, b->q, k, scores + c);
    }
}

/* Returns how many of the columns first .. first + columns - 1 row i of the block may attend to. */
static inline int64_t visible_in_tile(const attention *a, const attention_block *b, int64_t i, int64_t first,
                                      int64_t columns)
{
    int64_t n = visible_to_row(a, b, i) - first;
    return n < 0 ? 0 : n < columns ? n : columns;
}

/* Multiplies n values, which belong to row i from column `first` on, by the mask of dropout. */
static inline void drop(const attention *a, const attention_block *b, int64_t i, int64_t first, int64_t n, real *row)
{
    if (a->bits) {
        mask_values(a->bits, (b->weight_row + i) * a->keys + first, a->factor, row, n, row);
    }
}

/* Turns n products of row i into scores: scales them, adds the bias, and removes masked keys and those before the
 * first one. */
static inline void score_row(const attention *a, const attention_block *b, int64_t i, int64_t first, int64_t n,
                             real *row)
{
    for (int64_t j = 0; j < n; j++) {
        row[j] *= a->scale;
    }
    const real *bias = b->bias ? b->bias + i * a->lbias + first : NULL;
    for (int64_t j = 0; bias && j < n; j++) {
        row[j] += bias[j];
    }
    const uint8_t *mask = b->mask ? b->mask + first : NULL;
    for (int64_t j = 0; mask && j < n; j++) {
        row[j] = mask[j] ? row[j] : -(real)INFINITY;
    }
    const int64_t hidden = first_key_of_row(a, b, i) - first;
    for (int64_t j = 0; j < hidden && j < n; j++) {
        row[j] = -(real)INFINITY;
    }
}

#endif
