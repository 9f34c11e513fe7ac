/* relative_scores: products of queries with vectors of distances, moved to the pairs of queries and keys. These are the
 * position scores of Transformer-XL, as one op.
 *
 *   forward     y[i][j] = q_i . r_(T - 1 - i + j)         q (..,T,D), r (..,L,D)  ->  y (..,T,S)
 *   gradient    dq_i += sum_j dy[i][j] r_(T - 1 - i + j)
 *               dr_l += sum of dy[i][j] q_i over the pairs with T - 1 - i + j = l, and over the batches that r was
 *                       repeated for
 *
 * This is tg_relative_shift of q r^T (relative.h explains the indices). But if T = S, the shift uses only half of that
 * product. Here the rows are taken in blocks, and the product of a block has only the columns that its rows need. In
 * causal attention these end at the diagonal, and the scores of later keys are 0. No matrix of size (T,L) exists.
 */
#include "ops/attention/relative.h"
#include "ops/attention/row_blocks.h"
#include "ops/kernel_real.h"

TG_DECLARE_KERNELS(tg_relative_scores_forward, tg_relative_scores_backward);

typedef struct scores_attributes {
    int64_t keys;
    bool causal;
} scores_attributes;

/* A block of rows, and the indices low .. low + count - 1 of the distances that they need. The score of key 0 and row i
 * of the block is at index rows - 1 - i of these. */
typedef struct scores {
    row_block block;
    int64_t low, count;
    real *wide;   /* (rows,count) */
    real *square; /* (rows,S), the block's rows of y or dy */
} scores;

static scores scores_of(const tg_op_call *call)
{
    const scores_attributes *a = call->attributes;
    return (scores){.block = row_blocks_of(call->inputs[0], a->keys, a->causal), .wide = call->scratch};
}

/* Moves to the next block; false after the last one. `square` begins with the first row of the first matrix. */
static bool next_block(scores *s, real *square)
{
    row_block *b = &s->block;
    if (!next_row_block(b)) {
        return false;
    }
    s->low = b->queries - b->first - b->rows;
    s->count = (b->causal ? b->keys : b->queries - b->first - 1 + b->keys) - s->low;
    s->square = square + (b->batch * b->queries + b->first) * b->keys;
    return true;
}

static void to_square(void *context, int64_t begin, int64_t end)
{
    const scores *s = context;
    const row_block *b = &s->block;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = visible_keys(b, i);
        real *to = s->square + i * b->keys;
        memcpy(to, s->wide + i * s->count + b->rows - 1 - i, (size_t)n * sizeof(real));
        memset(to + n, 0, (size_t)(b->keys - n) * sizeof(real));
    }
}

static void to_wide(void *context, int64_t begin, int64_t end)
{
    const scores *s = context;
    const row_block *b = &s->block;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = visible_keys(b, i), before = b->rows - 1 - i, after = s->count - before - n;
        real *to = s->wide + i * s->count;
        memset(to, 0, (size_t)before * sizeof(real));
        memcpy(to + before, s->square + i * b->keys, (size_t)n * sizeof(real));
        memset(to + before + n, 0, (size_t)after * sizeof(real));
    }
}

static int64_t grain_of(const scores *s)
{
    return 1 + TG_GRAIN / (s->block.keys + 1);
}

void KERNEL(tg_relative_scores_forward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *r = call->inputs[1];
    scores s = scores_of(call);
    const row_block *b = &s.block;
    int64_t lq = tg_row_distance(q), lr = tg_row_distance(r);
    while (next_block(&s, tg_values(call->outputs[0]))) {
        const real *q_0 = (const real *)tg_values(q) + tg_matrix_of(q, b->batch) + b->first * lq;
        const real *r_0 = (const real *)tg_values(r) + tg_repeated_matrix_of(r, q, b->batch, false) + s.low * lr;
        tg_gemm g = {b->rows, s.count, b->width, .b_layout = TG_TRANSPOSED, .lda = lq, .ldb = lr, .ldc = s.count};
        gemm(&g, q_0, r_0, s.wide);
        tg_parallel_for(b->rows, grain_of(&s), to_square, &s);
    }
}

/* The forward pass computed y[i][j] = q_i . r_(T - 1 - i + j). */
void KERNEL(tg_relative_scores_backward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *r = call->inputs[1];
    scores s = scores_of(call);
    const row_block *b = &s.block;
    int64_t lq = tg_row_distance(q), lr = tg_row_distance(r);
    real *dq = call->input_gradients[0], *dr = call->input_gradients[1];
    while (next_block(&s, (real *)call->output_gradients[0])) {
        const real *q_0 = (const real *)tg_values(q) + tg_matrix_of(q, b->batch) + b->first * lq;
        const real *r_0 = (const real *)tg_values(r) + tg_repeated_matrix_of(r, q, b->batch, false) + s.low * lr;
        tg_parallel_for(b->rows, grain_of(&s), to_wide, &s);
        if (dq) {
            tg_gemm g = {b->rows, b->width, s.count, .lda = s.count, .ldb = lr, .ldc = b->width, .add = true};
            gemm(&g, s.wide, r_0, dq + (b->batch * b->queries + b->first) * b->width);
        }
        if (dr) {
            tg_gemm g = {s.count,        b->width,  b->rows,         .transpose_a = true,
                         .lda = s.count, .ldb = lq, .ldc = b->width, .add = true};
            gemm(&g, s.wide, q_0, dr + tg_repeated_matrix_of(r, q, b->batch, true) + s.low * b->width);
        }
    }
}

#ifdef TG_ONCE

static bool scores_shape(tg_op_call *call)
{
    const scores_attributes *a = call->attributes;
    const tg_tensor *q = call->inputs[0], *r = call->inputs[1];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
        return false;
    }
    bool fits = q->rank >= 2 && r->rank >= 2 && q->shape[q->rank - 1] >= 1 &&
                tg_is_repeated_matrix(r, tg_shape_of(q), r->shape[r->rank - 2], q->shape[q->rank - 1]);
    int64_t queries = fits ? q->shape[q->rank - 2] : 0;
    fits = fits && a->keys >= (a->causal ? queries : 0) && a->keys <= TG_GEMM_LIMIT - ROW_BLOCK &&
           q->shape[q->rank - 1] <= TG_GEMM_LIMIT;
    if (!fits || r->shape[r->rank - 2] - a->keys < (a->causal ? 0 : queries - 1)) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "queries %s, distances %s and S = %lld keys; they must be (..,T,D) and (..,L,D), %s",
                          tg_shape_text_of(q).text, tg_shape_text_of(r).text, (long long)a->keys,
                          a->causal ? "T <= S <= L" : "T + S - 1 <= L");
    }
    tg_shape shape = tg_shape_of(q);
    shape.size[shape.rank - 1] = a->keys;
    int64_t wide = ROW_BLOCK * (a->keys + ROW_BLOCK);
    size_t size = tg_size_of(q->dtype);
    return tg_op_output(call, 0, tg_dtype_of(q), shape) && tg_op_scratch(call, wide, size) &&
           tg_op_backward_scratch(call, wide, size);
}

static const tg_op scores_op = {
    .name = "relative_scores",
    .shape = scores_shape,
    .input_names = {"queries", "distances"},
    TG_KERNELS(tg_relative_scores_forward, tg_relative_scores_backward),
    .accepts_layout = tg_rows_layout,
    .backward_ignores_outputs = TG_OP_ALL,
};

tg_tensor *tg_relative_scores(tg_tape *t, tg_tensor *queries, tg_tensor *distances, int64_t keys, bool causal)
{
    tg_tensor *inputs[] = {queries, distances};
    scores_attributes a = {keys, causal};
    return tg_apply(t, &scores_op, inputs, 2, &a, sizeof a, NULL);
}

#endif
