/* attention: scaled dot-product attention as one op, causal or not, with or without a bias.
 *
 *   forward     S = scale q k^T + b, causal: -inf above the diagonal   P = softmax(S)   y = (P m) v
 *               scale = 1 / sqrt(D)
 *   gradient    dv += (P m)^T dy        dP = (dy v^T) m       dS = P (dP - r)     r_i = sum_j dP_ij P_ij = dy_i . y_i
 *               dq += scale dS k        dk += scale dS^T q    db += dS, summed over the batches that b was repeated for
 *
 * m is the mask of dropout: each value is 1 / (1 - p) or 0; without dropout it is 1. The rows of each matrix of the
 * batch are taken in blocks (row_blocks.h). S, P and dP exist for one block at a time. If causal, only the columns up
 * to the diagonal are computed.
 *
 * Forward saves no (T,S) matrix except m, as bits. It saves l_i = log sum_j exp(S_ij) of each row, and backward
 * recomputes P_ij = exp(S_ij - l_i). r_i = dy_i . y_i also holds with dropout, because y contains the mask (Dao et al.
 * 2022, appendix B.2).
 *
 * gemm computes the products, one block after the other, and threads divide the rows of a block. Dropout draws what
 * torch.nn.functional.dropout draws for the whole (..,T,S) matrix, masked weights included, as in the course's
 * chapter 3. Follows torch.nn.functional.scaled_dot_product_attention with is_causal; if S > T, query t is at position
 * S - T + t, as with keys from a cache.
 */
#include "base/random.h"
#include "ops/attention.h"
#include "ops/lanes.h"
#include "ops/row_blocks.h"

TG_DECLARE_KERNEL(tg_attention_forward);
TG_DECLARE_KERNEL(tg_attention_backward);

typedef struct attention_attributes {
    double p; /* the probability of dropout; 0 in evaluation */
    bool causal;
} attention_attributes;

/* A block of rows, which attend to the keys 0 .. visible - 1. The saved memory holds the log sum of each row of the
 * call, and then, with dropout, one bit per weight. */
typedef struct attention {
    row_block block;
    int64_t visible;
    real scale, factor; /* 1 / sqrt(D), and 1 / (1 - p) */
    real *weights;      /* (rows,visible): q k^T, then P m */
    real *dweights;     /* (rows,visible): dy v^T, then scale dS */
    /* the block's rows of the bias, `bias_distance` apart, and of its gradient, S apart; or NULL */
    const real *bias;
    real *dbias;
    int64_t bias_distance;
    bool overwrite_dbias;
    real *log_sums;      /* of the block's rows */
    const uint8_t *bits; /* the mask of the whole call, or NULL */
    int64_t first_bit;   /* of the block's first row */
    const real *y, *dy;  /* the block's rows */
} attention;

static int64_t rows_of(const tg_tensor *queries)
{
    return queries->count / queries->shape[queries->rank - 1];
}

static attention attention_of(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1];
    const attention_attributes *a = call->attributes;
    attention b = {.block = row_blocks_of(q, k->shape[k->rank - 2], a->causal)};
    b.scale = (real)(1 / sqrt((double)b.block.width));
    b.factor = 1 / (real)(1 - a->p);
    b.weights = call->scratch;
    b.dweights = b.weights + ROW_BLOCK * b.block.keys;
    bool dropped = a->p > 0 && call->saved; /* without rows nothing is saved */
    b.bits = dropped ? (const uint8_t *)((real *)call->saved + rows_of(q)) : NULL;
    return b;
}

/* Finds the block's rows of the bias, and in backward those of its gradient. */
static void find_bias(attention *b, const tg_op_call *call)
{
    if (call->input_count < 4) {
        return;
    }
    const tg_tensor *bias = call->inputs[3], *q = call->inputs[0];
    int64_t batch = b->block.batch, first = b->block.first;
    b->bias_distance = tg_row_distance(bias);
    b->bias = (const real *)tg_values(bias) + tg_repeated_matrix_of(bias, q, batch, false) + first * b->bias_distance;
    real *dbias = b->dy ? call->input_gradients[3] : NULL;
    b->dbias = dbias ? dbias + tg_repeated_matrix_of(bias, q, batch, true) + first * b->block.keys : NULL;
    b->overwrite_dbias = dbias && call->overwrite[3] && tg_is_first_use(bias, q, batch);
}

/* Moves to the next block; false after the last one. `dy` is NULL in the forward pass. */
static bool next_block(attention *b, const tg_op_call *call, const real *dy)
{
    row_block *rows = &b->block;
    if (!next_row_block(rows)) {
        return false;
    }
    int64_t row = rows->batch * rows->queries + rows->first;
    b->visible = visible_keys(rows, rows->rows - 1);
    b->first_bit = row * rows->keys;
    b->log_sums = (real *)call->saved + row;
    b->y = (const real *)tg_values(call->outputs[0]) + row * rows->width;
    b->dy = dy ? dy + row * rows->width : NULL;
    find_bias(b, call);
    return true;
}

static int64_t grain_of(const attention *b)
{
    return 1 + TG_GRAIN / 8 / (b->visible + 1);
}

/* Returns the first value of the block's matrix in an input. */
static const real *matrix_of(const tg_tensor *x, const attention *b)
{
    return (const real *)tg_values(x) + tg_matrix_of(x, b->block.batch);
}

/* Multiplies the first n values of row i of the block by the mask. */
static void drop(const attention *b, int64_t i, int64_t n, real *row)
{
    for (int64_t j = 0; j < n; j++) {
        int64_t bit = b->first_bit + i * b->block.keys + j;
        row[j] *= b->bits[bit / 8] >> (bit % 8) & 1 ? b->factor : 0;
    }
}

/* Turns the n products of row i into scores: scales them and adds the bias. */
static void scale_row(const attention *b, int64_t i, int64_t n, real *row)
{
    const real *bias = b->bias ? b->bias + i * b->bias_distance : NULL;
    for (int64_t j = 0; j < n; j++) {
        row[j] *= b->scale;
    }
    for (int64_t j = 0; bias && j < n; j++) {
        row[j] += bias[j];
    }
}

/* ---- forward ---- */

/* Replaces q k^T in `weights` by P m, and saves the log sums of the rows. */
static void softmax_rows(void *context, int64_t begin, int64_t end)
{
    const attention *b = context;
    for (int64_t i = begin; i < end; i++) {
        real *row = b->weights + i * b->visible;
        int64_t n = visible_keys(&b->block, i);
        scale_row(b, i, n, row);
        real most = row_max(row, n);
        row_exp(row, n, most, row);
        double sum = row_sum(row, n);
        real inverse = (real)(1 / sum);
        for (int64_t j = 0; j < n; j++) {
            row[j] *= inverse;
        }
        b->log_sums[i] = most + (real)log(sum);
        if (b->bits) {
            drop(b, i, n, row);
        }
        memset(row + n, 0, (size_t)(b->visible - n) * sizeof(real));
    }
}

void KERNEL(tg_attention_forward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
    double p = ((const attention_attributes *)call->attributes)->p;
    attention b = attention_of(call);
    const row_block *rows = &b.block;
    if (b.bits) {
        tg_rng_bernoulli_bits(call->rng, (uint8_t *)b.bits, rows_of(q) * rows->keys, 1 - p);
    }
    int64_t lq = tg_row_distance(q), lk = tg_row_distance(k), lv = tg_row_distance(v);
    while (next_block(&b, call, NULL)) {
        tg_gemm scores = {rows->rows, b.visible, rows->width,     .transpose_b = true,
                          .lda = lq,  .ldb = lk, .ldc = b.visible};
        gemm(&scores, matrix_of(q, &b) + rows->first * lq, matrix_of(k, &b), 0, b.weights);
        tg_parallel_for(rows->rows, grain_of(&b), softmax_rows, &b);
        tg_gemm mix = {rows->rows, rows->width, b.visible, .lda = b.visible, .ldb = lv, .ldc = rows->width};
        gemm(&mix, b.weights, matrix_of(v, &b), 0, (real *)b.y);
    }
}

/* ---- backward ---- */

static void add_to_bias(const attention *b, const real *drow, int64_t n, real *dbias)
{
    if (b->overwrite_dbias) {
        memcpy(dbias, drow, (size_t)n * sizeof(real));
        memset(dbias + n, 0, (size_t)(b->block.keys - n) * sizeof(real));
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        dbias[j] += drow[j];
    }
}

/* Replaces q k^T in `weights` by P m, and dy v^T in `dweights` by scale dS. */
static void gradient_rows(void *context, int64_t begin, int64_t end)
{
    const attention *b = context;
    int64_t width = b->block.width;
    for (int64_t i = begin; i < end; i++) {
        real *row = b->weights + i * b->visible, *drow = b->dweights + i * b->visible;
        int64_t n = visible_keys(&b->block, i);
        if (b->bits) {
            drop(b, i, n, drow);
        }
        real r = (real)row_dot(b->dy + i * width, b->y + i * width, width), log_sum = b->log_sums[i];
        scale_row(b, i, n, row);
        for (int64_t j = 0; j < n; j++) {
            row[j] = EXP(row[j] - log_sum);
            drow[j] = row[j] * (drow[j] - r);
        }
        if (b->dbias) {
            add_to_bias(b, drow, n, b->dbias + i * b->block.keys);
        }
        for (int64_t j = 0; j < n; j++) {
            drow[j] *= b->scale;
        }
        if (b->bits) {
            drop(b, i, n, row);
        }
        memset(row + n, 0, (size_t)(b->visible - n) * sizeof(real));
        memset(drow + n, 0, (size_t)(b->visible - n) * sizeof(real));
    }
}

/* Returns a matrix of the gradient of an input, which is contiguous; NULL if the input needs none. */
static real *gradient_matrix(const tg_op_call *call, int input, int64_t batch)
{
    const tg_tensor *x = call->inputs[input];
    real *gradient = call->input_gradients[input];
    return gradient ? gradient + batch * x->shape[x->rank - 2] * x->shape[x->rank - 1] : NULL;
}

/* The forward pass computed y = (softmax(scale q k^T + b) m) v. */
void KERNEL(tg_attention_backward)(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
    attention b = attention_of(call);
    const row_block *rows = &b.block;
    /* All blocks add to the gradients of queries, keys and values, so these start as zeros. A row of the bias's
     * gradient is overwritten by the first block that uses it; only without blocks it is set to zero here. */
    for (int i = 0; i < (rows->batches > 0 ? 3 : call->input_count); i++) {
        if (call->input_gradients[i] && call->overwrite[i]) {
            memset(call->input_gradients[i], 0, (size_t)call->inputs[i]->count * sizeof(real));
        }
    }
    int64_t lq = tg_row_distance(q), lk = tg_row_distance(k), lv = tg_row_distance(v), width = rows->width;
    while (next_block(&b, call, call->output_gradients[0])) {
        const real *q_rows = matrix_of(q, &b) + rows->first * lq;
        real *dq = gradient_matrix(call, 0, rows->batch), *dk = gradient_matrix(call, 1, rows->batch);
        real *dv = gradient_matrix(call, 2, rows->batch);
        tg_gemm scores = {rows->rows, b.visible, width, .transpose_b = true, .lda = lq, .ldb = lk, .ldc = b.visible};
        tg_gemm dweights = {rows->rows,   b.visible, width,           .transpose_b = true,
                            .lda = width, .ldb = lv, .ldc = b.visible};
        gemm(&scores, q_rows, matrix_of(k, &b), 0, b.weights);
        gemm(&dweights, b.dy, matrix_of(v, &b), 0, b.dweights);
        tg_parallel_for(rows->rows, grain_of(&b), gradient_rows, &b);
        tg_gemm to_queries = {rows->rows, width, b.visible, .lda = b.visible, .ldb = lk, .ldc = width};
        tg_gemm to_keys = {b.visible,        width,     rows->rows,  .transpose_a = true,
                           .lda = b.visible, .ldb = lq, .ldc = width};
        tg_gemm to_values = to_keys;
        to_values.ldb = width;
        if (dq) {
            gemm(&to_queries, b.dweights, matrix_of(k, &b), 1, dq + rows->first * width);
        }
        if (dk) {
            gemm(&to_keys, b.dweights, q_rows, 1, dk);
        }
        if (dv) {
            gemm(&to_values, b.weights, b.dy, 1, dv);
        }
    }
}

#ifdef TG_ONCE

/* The bias is read row by row, so its rows may overlap, as those of scores by distance do (relative.c). */
static bool attention_layout(const tg_tensor *x, int i)
{
    return i < 3 ? tg_rows_layout(x, i) : x->rank >= 2 && (x->shape[x->rank - 1] == 1 || x->strides[x->rank - 1] == 1);
}

/* Declares the saved mask, one bit per weight. */
static bool save_bits(tg_op_call *call, int64_t rows, int64_t keys)
{
    return rows <= INT64_MAX / 8 / (keys + 1)
               ? tg_op_save(call, rows * keys / 8 + 1, 1)
               : tg_op_fail(call, TG_ERROR_MEMORY, "the mask of %lld x %lld weights does not fit into memory",
                            (long long)rows, (long long)keys);
}

/* attention_elementary.c has checked the inputs. */
static bool attention_shape(tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1];
    const attention_attributes *a = call->attributes;
    int64_t rows = rows_of(q), keys = k->shape[k->rank - 2];
    /* Not empty, because gemm needs an address even without keys. */
    int64_t scores = ROW_BLOCK * (keys > 0 ? keys : 1);
    size_t value = tg_size_of(q->dtype);
    return tg_op_output(call, 0, tg_dtype_of(q), tg_shape_of(q)) && tg_op_save(call, rows, value) &&
           (a->p == 0 || rows == 0 || save_bits(call, rows, keys)) && tg_op_scratch(call, scores, value) &&
           tg_op_backward_scratch(call, 2 * scores, value);
}

static const tg_op attention_op = {
    .name = "scaled_dot_product_attention",
    .shape = attention_shape,
    TG_KERNELS(tg_attention_forward, tg_attention_backward),
    .accepts_layout = attention_layout,
    .can_overwrite = true,
};

tg_tensor *tg_attention_fused(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                              const tg_scaled_dot_product_attention_config *config)
{
    tg_tensor *inputs[] = {queries, keys, values, config->bias};
    attention_attributes a = {.p = tg_tape_is_training(t) ? config->dropout : 0, .causal = config->is_causal};
    return tg_apply(t, &attention_op, inputs, config->bias ? 4 : 3, &a, sizeof a, NULL);
}

#endif
