/* relative_scores: queries times vectors of distances, moved to the pairs: Transformer-XL's position scores in one op.
 *
 *   forward     y[i][j] = q_i . r_(T - 1 - i + j)         q (..,T,D), r (..,L,D)  ->  y (..,T,S)
 *   gradient    dq_i += sum_j dy[i][j] r_(T - 1 - i + j)
 *               dr_l += sum of dy[i][j] q_i over the pairs with T - 1 - i + j = l, and over the batches that r was
 *                       repeated for
 *
 * That is tg_relative_shift (relative.c, which says what the places mean) of q r^T. But the shift leaves half of that
 * product unused, or more: here rows are taken in blocks, and a block's product has only the columns that one of its
 * rows needs. With `causal` these end at the diagonal, and what lies ahead of a query is 0. Nothing of size (T,L) is
 * ever made.
 */
#include "ops/matrices.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_relative_scores_forward);
TG_DECLARE_KERNEL(tg_relative_scores_backward);

#define BLOCK 128 /* rows at a time */

typedef struct scores_attributes {
    int64_t keys;
    bool causal;
} scores_attributes;

/* Rows first .. first + rows - 1 of one matrix, and the places low .. low + count - 1 that they need. Row i of the
 * block finds its first key at place rows - 1 - i of these. */
typedef struct KERNEL(block) {
    int64_t queries, keys, width; /* T, S, D */
    bool causal;
    int64_t first, rows, low, count;
    real *wide;   /* (rows,count) */
    real *square; /* the block's first row: rows of S */
} KERNEL(block);

static KERNEL(block) KERNEL(block_of)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0];
    const scores_attributes *a = call->attributes;
    return (KERNEL(block)){.queries = q->shape[q->rank - 2],
                           .keys = a->keys,
                           .width = q->shape[q->rank - 1],
                           .causal = a->causal,
                           .wide = call->scratch};
}

/* How many keys the block's row i has a score with. */
static int64_t KERNEL(visible)(const KERNEL(block) * b, int64_t i)
{
    return b->causal ? b->keys - b->queries + b->first + i + 1 : b->keys;
}

static void KERNEL(take_block)(KERNEL(block) * b, int64_t first, real *matrix)
{
    b->first = first;
    b->rows = b->queries - first < BLOCK ? b->queries - first : BLOCK;
    b->low = b->queries - first - b->rows;
    b->count = (b->causal ? b->keys : b->queries - first - 1 + b->keys) - b->low;
    b->square = matrix + first * b->keys;
}

static void KERNEL(to_square)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(block) *b = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = KERNEL(visible)(b, i);
        real *to = b->square + i * b->keys;
        memcpy(to, b->wide + i * b->count + b->rows - 1 - i, (size_t)n * sizeof(real));
        memset(to + n, 0, (size_t)(b->keys - n) * sizeof(real));
    }
}

static void KERNEL(to_wide)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(block) *b = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = KERNEL(visible)(b, i), before = b->rows - 1 - i, after = b->count - before - n;
        real *to = b->wide + i * b->count;
        memset(to, 0, (size_t)before * sizeof(real));
        memcpy(to + before, b->square + i * b->keys, (size_t)n * sizeof(real));
        memset(to + before + n, 0, (size_t)after * sizeof(real));
    }
}

static int64_t KERNEL(grain)(const KERNEL(block) * b)
{
    return 1 + TG_GRAIN / (b->keys + 1);
}

static int64_t KERNEL(batches_of)(const tg_tensor *q)
{
    int64_t matrix = q->shape[q->rank - 2] * q->shape[q->rank - 1];
    return matrix > 0 ? q->count / matrix : 0;
}

void KERNEL(tg_relative_scores_forward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *r = call->inputs[1];
    KERNEL(block) b = KERNEL(block_of)(call);
    int64_t batches = KERNEL(batches_of)(q), lq = tg_row_distance(q), lr = tg_row_distance(r);
    for (int64_t batch = 0; batch < batches; batch++) {
        const real *q_0 = (const real *)tg_values(q) + tg_matrix_of(q, batch);
        const real *r_0 = (const real *)tg_values(r) + tg_repeated_matrix_of(r, q, batch, false);
        real *y = (real *)tg_values(call->outputs[0]) + batch * b.queries * b.keys;
        for (int64_t first = 0; first < b.queries; first += BLOCK) {
            KERNEL(take_block)(&b, first, y);
            tg_gemm g = {b.rows, b.count, b.width, .transpose_b = true, .lda = lq, .ldb = lr, .ldc = b.count};
            KERNEL(tg_gemm)(&g, q_0 + first * lq, r_0 + b.low * lr, 0, b.wide);
            tg_parallel_for(b.rows, KERNEL(grain)(&b), KERNEL(to_square), &b);
        }
    }
}

/* In the forward pass this was: y[i][j] = q_i . r_(T - 1 - i + j). */
void KERNEL(tg_relative_scores_backward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *r = call->inputs[1];
    KERNEL(block) b = KERNEL(block_of)(call);
    int64_t batches = KERNEL(batches_of)(q), lq = tg_row_distance(q), lr = tg_row_distance(r);
    for (int64_t batch = 0; batch < batches; batch++) {
        const real *q_0 = (const real *)tg_values(q) + tg_matrix_of(q, batch);
        const real *r_0 = (const real *)tg_values(r) + tg_repeated_matrix_of(r, q, batch, false);
        real *dq = call->input_gradients[0], *dr = call->input_gradients[1];
        dq = dq ? dq + batch * b.queries * b.width : NULL;
        dr = dr ? dr + tg_repeated_matrix_of(r, q, batch, true) : NULL;
        for (int64_t first = 0; first < b.queries; first += BLOCK) {
            KERNEL(take_block)(&b, first, (real *)call->output_gradients[0] + batch * b.queries * b.keys);
            tg_parallel_for(b.rows, KERNEL(grain)(&b), KERNEL(to_wide), &b);
            tg_gemm to_queries = {b.rows, b.width, b.count, .lda = b.count, .ldb = lr, .ldc = b.width};
            tg_gemm to_places = {b.count,        b.width,   b.rows,        .transpose_a = true,
                                 .lda = b.count, .ldb = lq, .ldc = b.width};
            if (dq) {
                KERNEL(tg_gemm)(&to_queries, b.wide, r_0 + b.low * lr, 1, dq + first * b.width);
            }
            if (dr) {
                KERNEL(tg_gemm)(&to_places, b.wide, q_0 + first * lq, 1, dr + b.low * b.width);
            }
        }
    }
}

#ifdef TG_ONCE

static bool scores_shape(tg_op_call *call)
{
    const scores_attributes *a = call->attributes;
    const tg_tensor *q = call->inputs[0], *r = call->inputs[1];
    char q_text[TG_SHAPE_TEXT], r_text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
        return false;
    }
    bool fits = q->rank >= 2 && r->rank >= 2 && q->shape[q->rank - 1] >= 1 &&
                tg_is_repeated_matrix(r, q, r->shape[r->rank - 2], q->shape[q->rank - 1]);
    int64_t queries = fits ? q->shape[q->rank - 2] : 0;
    fits = fits && a->keys >= (a->causal ? queries : 0) && a->keys <= TG_GEMM_LIMIT - BLOCK &&
           q->shape[q->rank - 1] <= TG_GEMM_LIMIT;
    if (!fits || r->shape[r->rank - 2] < (a->causal ? a->keys : queries + a->keys - 1)) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "queries %s, distances %s and S = %lld keys; they must be (..,T,D) and (..,L,D), %s",
                          tg_shape_format(tg_shape_of(q), q_text), tg_shape_format(tg_shape_of(r), r_text),
                          (long long)a->keys, a->causal ? "T <= S <= L" : "T + S - 1 <= L");
    }
    tg_shape shape = tg_shape_of(q);
    shape.size[shape.rank - 1] = a->keys;
    int64_t room = BLOCK * (a->keys + BLOCK);
    size_t size = tg_dtype_size(tg_dtype_of(q));
    return tg_op_output(call, 0, tg_dtype_of(q), shape) && tg_op_scratch(call, room, size) &&
           tg_op_backward_scratch(call, room, size);
}

static const tg_op scores_op = {
    .name = "relative_scores",
    .shape = scores_shape,
    .f32 = {tg_relative_scores_forward_f32, tg_relative_scores_backward_f32},
    .f64 = {tg_relative_scores_forward_f64, tg_relative_scores_backward_f64},
    .accepts_layout = tg_rows_layout,
    .backward_reads_inputs = 3,
};

tg_tensor *tg_relative_scores(tg_tape *t, tg_tensor *queries, tg_tensor *distances, int64_t keys, bool causal)
{
    tg_tensor *inputs[] = {queries, distances};
    scores_attributes a = {keys, causal};
    return tg_apply(t, &scores_op, inputs, 2, &a, sizeof a);
}

#endif
