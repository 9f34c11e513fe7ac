/* attention: scaled dot-product attention as one op, causal or not, with a bias or without.
 *
 *   forward     S = scale q k^T + b, causal: -inf above the diagonal   P = softmax(S)   y = (P m) v
 *               scale = 1 / sqrt(D)
 *   gradient    dv += (P m)^T dy        dP = (dy v^T) m       dS = P (dP - r)     r_i = sum_j dP_ij P_ij = dy_i . y_i
 *               dq += scale dS k        dk += scale dS^T q    db += dS, summed over the batches that b was repeated for
 *
 * m is dropout's mask, 1/(1-p) or 0 (all 1 without). For each matrix of the batch the rows are taken in blocks, and
 * S, P and dP exist for one block at a time; only the columns up to the diagonal are computed. Between forward and
 * backward nothing of size (T,S) is kept but m, as bits; P is made again from S and the row's log sum l_i: P_ij =
 * exp(S_ij - l_i). That r_i is dy_i . y_i holds with dropout as well, because y has the mask in it (Dao et al. 2022,
 * appendix B.2).
 *
 * The products are gemm's, one block after the other; threads divide the rows of a block. Draws are those of
 * torch.nn.functional.dropout on the whole (..,T,S) matrix, masked weights included, which is what the course's
 * chapter 3 draws. Otherwise follows torch.nn.functional.scaled_dot_product_attention with is_causal; if S > T, query
 * t stands at position S - T + t, as with keys from a cache.
 */
#include "base/random.h"
#include "ops/matrices.h"
#include "ops/rows.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_attention_forward);
TG_DECLARE_KERNEL(tg_attention_backward);

#define BLOCK 128 /* rows at a time */

typedef struct attention_attributes {
    double p; /* 0 in evaluation */
    bool causal;
} attention_attributes;

/* What forward leaves for backward: a log sum for each row, then, with dropout, a bit for each weight. */
static int64_t KERNEL(rows_of)(const tg_tensor *queries)
{
    return queries->count / queries->shape[queries->rank - 1];
}

/* One block of rows of one matrix: rows first .. first + rows - 1 of T, which see columns 0 .. seen - 1 of S. */
typedef struct KERNEL(block) {
    int64_t queries, keys, width; /* T, S, D */
    int64_t first, rows, seen;
    real scale, factor;
    real *weights;    /* (rows,seen): S, then P or P m */
    real *dweights;   /* (rows,seen): dP, then scale dS */
    const real *bias; /* of the block's first row, or NULL */
    real *dbias;      /* likewise: contiguous rows of S */
    int64_t bias_distance;
    bool dbias_fresh; /* write, not add */
    bool causal;
    real *log_sums;      /* of the block's rows */
    const uint8_t *bits; /* of the whole call, or NULL */
    int64_t first_bit;   /* of the block's first row */
    const real *y, *dy;  /* of the block's first row */
} KERNEL(block);

static void KERNEL(take_block)(KERNEL(block) * b, int64_t batch, int64_t first)
{
    b->first = first;
    b->rows = b->queries - first < BLOCK ? b->queries - first : BLOCK;
    b->seen = b->causal ? b->keys - b->queries + first + b->rows : b->keys;
    b->first_bit = (batch * b->queries + first) * b->keys;
}

/* Columns that row i of the block may look at. */
static int64_t KERNEL(visible)(const KERNEL(block) * b, int64_t i)
{
    return b->causal ? b->keys - b->queries + b->first + i + 1 : b->keys;
}

static real KERNEL(mask)(const KERNEL(block) * b, int64_t i, int64_t j)
{
    int64_t bit = b->first_bit + i * b->keys + j;
    return b->bits[bit / 8] >> (bit % 8) & 1 ? b->factor : 0;
}

/* Multiplies a row of n values by the mask. */
static void KERNEL(drop)(const KERNEL(block) * b, int64_t i, int64_t n, real *row)
{
    for (int64_t j = 0; j < n; j++) {
        row[j] *= KERNEL(mask)(b, i, j);
    }
}

/* n scores of a row, from products. */
static void KERNEL(scale_row)(const KERNEL(block) * b, int64_t i, int64_t n, real *row)
{
    const real *bias = b->bias ? b->bias + i * b->bias_distance : NULL;
    for (int64_t j = 0; j < n; j++) {
        row[j] *= b->scale;
    }
    for (int64_t j = 0; bias && j < n; j++) {
        row[j] += bias[j];
    }
}

static void KERNEL(softmax_rows)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(block) *b = context;
    for (int64_t i = begin; i < end; i++) {
        real *row = b->weights + i * b->seen;
        int64_t n = KERNEL(visible)(b, i);
        KERNEL(scale_row)(b, i, n, row);
        real most = KERNEL(row_max)(row, n);
        KERNEL(row_exp)(row, n, most, row);
        double sum = KERNEL(row_sum)(row, n);
        real inverse = (real)(1 / sum);
        for (int64_t j = 0; j < n; j++) {
            row[j] *= inverse;
        }
        b->log_sums[i] = most + (real)log(sum);
        if (b->bits) {
            KERNEL(drop)(b, i, n, row);
        }
        memset(row + n, 0, (size_t)(b->seen - n) * sizeof(real));
    }
}

static KERNEL(block) KERNEL(block_of)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1];
    const attention_attributes *a = call->attributes;
    KERNEL(block)
    b = {.causal = a->causal,
         .queries = q->shape[q->rank - 2],
         .keys = k->shape[k->rank - 2],
         .width = q->shape[q->rank - 1]};
    b.scale = (real)(1 / sqrt((double)b.width));
    b.factor = 1 / (real)(1 - a->p);
    b.weights = call->scratch;
    b.dweights = b.weights + BLOCK * b.keys;
    bool dropped = a->p > 0 && call->saved; /* without rows nothing is kept */
    b.bits = dropped ? (const uint8_t *)((real *)call->saved + KERNEL(rows_of)(q)) : NULL;
    return b;
}

/* The block's rows of the bias, and of its gradient in backward. */
static void KERNEL(take_bias)(KERNEL(block) * b, const tg_op_call *call, int64_t batch, bool backward)
{
    if (call->input_count < 4) {
        return;
    }
    const tg_tensor *bias = call->inputs[3], *q = call->inputs[0];
    b->bias_distance = tg_row_distance(bias);
    b->bias =
        (const real *)tg_values(bias) + tg_repeated_matrix_of(bias, q, batch, false) + b->first * b->bias_distance;
    real *dbias = backward ? call->input_gradients[3] : NULL;
    b->dbias = dbias ? dbias + tg_repeated_matrix_of(bias, q, batch, true) + b->first * b->keys : NULL;
    b->dbias_fresh = dbias && call->fresh[3] && tg_is_first_use(bias, q, batch);
}

static int64_t KERNEL(grain)(const KERNEL(block) * b)
{
    return 1 + TG_GRAIN / 8 / (b->seen + 1);
}

void KERNEL(tg_attention_forward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
    double p = ((const attention_attributes *)call->attributes)->p;
    KERNEL(block) b = KERNEL(block_of)(call);
    int64_t rows = KERNEL(rows_of)(q), batches = b.queries > 0 ? rows / b.queries : 0;
    real *y = tg_values(call->outputs[0]), *log_sums = call->saved;
    if (b.bits) {
        tg_rng_bernoulli_bits(call->rng, (uint8_t *)(log_sums + rows), rows * b.keys, 1 - p);
    }
    for (int64_t batch = 0; batch < batches; batch++) {
        const real *q_0 = (const real *)tg_values(q) + tg_matrix_of(q, batch);
        const real *k_0 = (const real *)tg_values(k) + tg_matrix_of(k, batch);
        const real *v_0 = (const real *)tg_values(v) + tg_matrix_of(v, batch);
        for (int64_t first = 0; first < b.queries; first += BLOCK) {
            KERNEL(take_block)(&b, batch, first);
            int64_t row = batch * b.queries + first;
            b.log_sums = log_sums + row;
            KERNEL(take_bias)(&b, call, batch, false);
            tg_gemm scores = {b.rows,
                              b.seen,
                              b.width,
                              .transpose_b = true,
                              .lda = tg_row_distance(q),
                              .ldb = tg_row_distance(k),
                              .ldc = b.seen};
            KERNEL(tg_gemm)(&scores, q_0 + first * scores.lda, k_0, 0, b.weights);
            tg_parallel_for(b.rows, KERNEL(grain)(&b), KERNEL(softmax_rows), &b);
            tg_gemm mix = {b.rows, b.width, b.seen, .lda = b.seen, .ldb = tg_row_distance(v), .ldc = b.width};
            KERNEL(tg_gemm)(&mix, b.weights, v_0, 0, y + row * b.width);
        }
    }
}

static void KERNEL(give_bias)(const KERNEL(block) * b, const real *drow, int64_t n, real *dbias)
{
    if (b->dbias_fresh) {
        memcpy(dbias, drow, (size_t)n * sizeof(real));
        memset(dbias + n, 0, (size_t)(b->keys - n) * sizeof(real));
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        dbias[j] += drow[j];
    }
}

/* From S and dP m^-1 of the block: weights becomes P m, and dweights scale dS. */
static void KERNEL(gradient_rows)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(block) *b = context;
    for (int64_t i = begin; i < end; i++) {
        real *row = b->weights + i * b->seen, *drow = b->dweights + i * b->seen;
        int64_t n = KERNEL(visible)(b, i);
        if (b->bits) {
            KERNEL(drop)(b, i, n, drow);
        }
        real r = (real)KERNEL(row_dot)(b->dy + i * b->width, b->y + i * b->width, b->width), log_sum = b->log_sums[i];
        KERNEL(scale_row)(b, i, n, row);
        for (int64_t j = 0; j < n; j++) {
            row[j] = EXP(row[j] - log_sum);
            drow[j] = row[j] * (drow[j] - r);
        }
        if (b->dbias) {
            KERNEL(give_bias)(b, drow, n, b->dbias + i * b->keys);
        }
        for (int64_t j = 0; j < n; j++) {
            drow[j] *= b->scale;
        }
        if (b->bits) {
            KERNEL(drop)(b, i, n, row);
        }
        memset(row + n, 0, (size_t)(b->seen - n) * sizeof(real));
        memset(drow + n, 0, (size_t)(b->seen - n) * sizeof(real));
    }
}

/* A contiguous gradient's matrix, or NULL where none is wanted. */
static real *KERNEL(gradient_matrix)(const tg_op_call *call, int input, int64_t batch)
{
    const tg_tensor *x = call->inputs[input];
    real *gradient = call->input_gradients[input];
    return gradient ? gradient + batch * x->shape[x->rank - 2] * x->shape[x->rank - 1] : NULL;
}

/* In the forward pass this was: y = (softmax(scale q k^T) m) v. */
void KERNEL(tg_attention_backward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
    KERNEL(block) b = KERNEL(block_of)(call);
    int64_t rows = KERNEL(rows_of)(q), batches = b.queries > 0 ? rows / b.queries : 0;
    const real *y = tg_values(call->outputs[0]), *dy = call->output_gradients[0];
    /* the last block reaches every key, but the first ones must find zeros to add to; the bias has its rows for
     * itself */
    for (int i = 0; i < (batches > 0 ? 3 : call->input_count); i++) {
        if (call->input_gradients[i] && call->fresh[i]) {
            memset(call->input_gradients[i], 0, (size_t)call->inputs[i]->count * sizeof(real));
        }
    }
    for (int64_t batch = 0; batch < batches; batch++) {
        const real *q_0 = (const real *)tg_values(q) + tg_matrix_of(q, batch);
        const real *k_0 = (const real *)tg_values(k) + tg_matrix_of(k, batch);
        const real *v_0 = (const real *)tg_values(v) + tg_matrix_of(v, batch);
        real *dq = KERNEL(gradient_matrix)(call, 0, batch), *dk = KERNEL(gradient_matrix)(call, 1, batch);
        real *dv = KERNEL(gradient_matrix)(call, 2, batch);
        for (int64_t first = 0; first < b.queries; first += BLOCK) {
            KERNEL(take_block)(&b, batch, first);
            int64_t row = batch * b.queries + first, lq = tg_row_distance(q), lk = tg_row_distance(k);
            b.log_sums = (real *)call->saved + row;
            KERNEL(take_bias)(&b, call, batch, true);
            b.y = y + row * b.width;
            b.dy = dy + row * b.width;
            tg_gemm scores = {b.rows, b.seen, b.width, .transpose_b = true, .lda = lq, .ldb = lk, .ldc = b.seen};
            tg_gemm dweights = {
                b.rows, b.seen, b.width, .transpose_b = true, .lda = b.width, .ldb = tg_row_distance(v), .ldc = b.seen};
            KERNEL(tg_gemm)(&scores, q_0 + first * lq, k_0, 0, b.weights);
            KERNEL(tg_gemm)(&dweights, b.dy, v_0, 0, b.dweights);
            tg_parallel_for(b.rows, KERNEL(grain)(&b), KERNEL(gradient_rows), &b);
            tg_gemm to_queries = {b.rows, b.width, b.seen, .lda = b.seen, .ldb = lk, .ldc = b.width};
            tg_gemm to_keys = {b.seen, b.width, b.rows, .transpose_a = true, .lda = b.seen, .ldb = lq, .ldc = b.width};
            tg_gemm to_values = to_keys;
            to_values.ldb = b.width;
            if (dq) {
                KERNEL(tg_gemm)(&to_queries, b.dweights, k_0, 1, dq + first * b.width);
            }
            if (dk) {
                KERNEL(tg_gemm)(&to_keys, b.dweights, q_0 + first * lq, 1, dk);
            }
            if (dv) {
                KERNEL(tg_gemm)(&to_values, b.weights, b.dy, 1, dv);
            }
        }
    }
}

#ifdef TG_ONCE

/* The bias is only read row by row: its rows may overlap, as those of scores by distance do (relative.c). */
static bool attention_layout(const tg_tensor *x, int i)
{
    return i < 3 ? tg_rows_layout(x, i) : x->rank >= 2 && (x->shape[x->rank - 1] == 1 || x->strides[x->rank - 1] == 1);
}

static bool attention_shape(tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
    char q_text[TG_SHAPE_TEXT], k_text[TG_SHAPE_TEXT], v_text[TG_SHAPE_TEXT];
    const attention_attributes *a = call->attributes;
    double p = a->p;
    for (int i = 0; i < call->input_count; i++) {
        if (!tg_op_expect_float(call, i)) {
            return false;
        }
    }
    tg_shape expected = tg_shape_of(q);
    bool fits = q->rank >= 2 && q->rank == k->rank && q->shape[q->rank - 1] >= 1;
    if (fits) {
        expected.size[expected.rank - 2] = k->shape[k->rank - 2];
        fits = tg_shape_equal(tg_shape_of(k), expected) && tg_shape_equal(tg_shape_of(v), expected) &&
               (!a->causal || k->shape[k->rank - 2] >= q->shape[q->rank - 2]);
    }
    if (!fits || expected.size[expected.rank - 2] > TG_GEMM_LIMIT || expected.size[expected.rank - 1] > TG_GEMM_LIMIT) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "queries %s, keys %s and values %s; they must be (..,T,D), (..,S,D) and (..,S,D)%s",
                          tg_shape_format(tg_shape_of(q), q_text), tg_shape_format(tg_shape_of(k), k_text),
                          tg_shape_format(tg_shape_of(v), v_text), a->causal ? " with S >= T" : "");
    }
    if (call->input_count == 4 &&
        !tg_is_repeated_matrix(call->inputs[3], q, q->shape[q->rank - 2], k->shape[k->rank - 2])) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the bias is %s; for queries %s and keys %s it must be (..,T,S)",
                          tg_shape_format(tg_shape_of(call->inputs[3]), v_text),
                          tg_shape_format(tg_shape_of(q), q_text), tg_shape_format(tg_shape_of(k), k_text));
    }
    if (p > 0 && !call->rng) {
        return tg_op_fail(call, TG_ERROR_STATE, "the tape has no generator; give tg_tape_new one");
    }
    int64_t rows = q->count / q->shape[q->rank - 1], keys = k->shape[k->rank - 2];
    int64_t room = keys > 0 ? keys : 1; /* without keys the rows are empty, but their place is no NULL */
    size_t value = tg_dtype_size(tg_dtype_of(q));
    return tg_op_output(call, 0, tg_dtype_of(q), tg_shape_of(q)) && tg_op_save(call, rows, value) &&
           (p == 0 || rows == 0 || (rows <= INT64_MAX / 8 / (keys + 1) && tg_op_save(call, rows * keys / 8 + 1, 1))) &&
           tg_op_scratch(call, BLOCK * room, value) && tg_op_backward_scratch(call, 2 * BLOCK * room, value);
}

static const tg_op attention_op = {
    .name = "attention",
    .shape = attention_shape,
    .f32 = {tg_attention_forward_f32, tg_attention_backward_f32},
    .f64 = {tg_attention_forward_f64, tg_attention_backward_f64},
    .accepts_layout = attention_layout,
    .backward_reads_inputs = 15,
    .backward_reads_outputs = 1,
    .overwrites_fresh = true,
};

tg_attention_config tg_attention_config_default(void)
{
    return (tg_attention_config){.causal = true, .dropout = 0, .bias = NULL};
}

tg_tensor *tg_attention(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                        const tg_attention_config *given)
{
    tg_attention_config config = given ? *given : tg_attention_config_default();
    if (!(config.dropout >= 0 && config.dropout < 1)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "attention", "dropout probability %g is outside [0,1)", config.dropout);
    }
    tg_tensor *inputs[] = {queries, keys, values, config.bias};
    attention_attributes a = {.p = tg_tape_training(t) ? config.dropout : 0, .causal = config.causal};
    return tg_apply(t, &attention_op, inputs, config.bias ? 4 : 3, &a, sizeof a);
}

#endif
