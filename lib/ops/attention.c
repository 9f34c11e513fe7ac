/* attention: scaled dot-product attention as one op, causal or not, with or without a bias.
 *
 *   forward     S = scale q k^T + b, causal: -inf above the diagonal   P = softmax(S)   y = (P m) v
 *               scale = 1 / sqrt(D)
 *   gradient    dv += (P m)^T dy        dP = (dy v^T) m       dS = P (dP - r)     r_i = sum_j dP_ij P_ij = dy_i . y_i
 *               dq += scale dS k        dk += scale dS^T q    db += dS, summed over the batches that b was repeated for
 *
 * m is the mask of dropout: each value is 1 / (1 - p) or 0; without dropout it is 1. The matrices S, P and dP exist in
 * tiles alone: a few rows of queries by a few keys, which stay in the first-level cache (Dao et al. 2022). If causal,
 * tiles above the diagonal are not computed.
 *
 * Forward visits the tiles of a block of rows from left to right. For each row it keeps the maximum M so far, the sum
 * s = sum_j exp(S_ij - M), and y = sum_j exp(S_ij - M) m_ij v_j. A larger maximum M' multiplies s and y by
 * exp(M - M'). The last step divides y by s. It saves l_i = M + log s of each row, from which backward recomputes
 * P_ij = exp(S_ij - l_i), and m as bits. r_i = dy_i . y_i also holds with dropout, because y contains the mask (Dao et
 * al. 2022, appendix B.2).
 *
 * Threads divide the blocks in forward, and the matrices in backward. gemm computes the products of a tile in the
 * thread that calls it, because they are small (TILE_PRODUCT). So the bits do not depend on the number of threads.
 * Probabilities and gradients that are not normal numbers are 0 (base/exp.h).
 *
 * Dropout draws what torch.nn.functional.dropout draws for the whole (..,T,S) matrix, masked weights included, as in
 * the course's chapter 3. Follows torch.nn.functional.scaled_dot_product_attention with is_causal; if S > T, query t is
 * at position S - T + t, as with keys from a cache.
 */
#include "base/random.h"
#include "ops/attention.h"
#include "ops/lanes.h"
#include "ops/mask.h"
#include "ops/matrices.h"

TG_DECLARE_KERNEL(tg_attention_forward);
TG_DECLARE_KERNEL(tg_attention_backward);

typedef struct attention_attributes {
    double p; /* the probability of dropout; 0 in evaluation */
    bool causal;
} attention_attributes;

/* The most rows of a tile, and the most values. */
#define TILE_ROWS 64
#define TILE_VALUES (TILE_ROWS * TILE_ROWS)

/* OpenBLAS computes a product in the calling thread if m n k is at most this number. */
#define TILE_PRODUCT (64 * 64 * 64)

/* One call. The saved memory holds the log sum of each row, and then, with dropout, one bit per weight. */
typedef struct attention {
    const tg_op_call *call;
    const real *q, *k, *v, *bias, *y, *dy;
    int64_t batches, queries, keys, width; /* the number of matrices, T, S, D */
    int64_t blocks;                        /* the number of blocks of rows per matrix */
    int64_t lq, lk, lv, lbias;             /* the distances between rows */
    real scale, factor;                    /* 1 / sqrt(D), and 1 / (1 - p) */
    real *log_sums;
    const uint8_t *bits; /* the mask, or NULL */
    bool causal;
} attention;

/* Rows first .. first + rows - 1 of matrix `batch`, in tiles of `columns` keys. */
typedef struct row_block {
    int64_t batch, first, rows, columns;
    int64_t row;     /* the index of the first row among those of all matrices */
    int64_t visible; /* the number of keys that the last row attends to */
    const real *q, *k, *v;
    const real *bias; /* the first row of the bias, or NULL */
} row_block;

static int64_t rows_of(const tg_tensor *queries)
{
    return queries->count / queries->shape[queries->rank - 1];
}

static attention attention_of(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1], *v = call->inputs[2];
    const tg_tensor *bias = call->input_count > 3 ? call->inputs[3] : NULL;
    const attention_attributes *attributes = call->attributes;
    attention a = {.call = call,
                   .q = tg_values(q),
                   .k = tg_values(k),
                   .v = tg_values(v),
                   .bias = bias ? tg_values(bias) : NULL,
                   .y = tg_values(call->outputs[0]),
                   .queries = q->shape[q->rank - 2],
                   .keys = k->shape[k->rank - 2],
                   .width = q->shape[q->rank - 1],
                   .lq = tg_row_distance(q),
                   .lk = tg_row_distance(k),
                   .lv = tg_row_distance(v),
                   .lbias = bias ? tg_row_distance(bias) : 0,
                   .log_sums = call->saved,
                   .causal = attributes->causal};
    int64_t matrix = a.queries * a.width;
    a.batches = matrix > 0 ? q->count / matrix : 0;
    a.blocks = (a.queries + TILE_ROWS - 1) / TILE_ROWS;
    a.scale = (real)(1 / sqrt((double)a.width));
    a.factor = 1 / (real)(1 - attributes->p);
    bool dropped = attributes->p > 0 && call->saved; /* without rows nothing is saved */
    a.bits = dropped ? (const uint8_t *)(a.log_sums + rows_of(q)) : NULL;
    return a;
}

static row_block block_of(const attention *a, int64_t batch, int64_t block)
{
    const tg_op_call *call = a->call;
    row_block b = {.batch = batch, .first = block * TILE_ROWS};
    b.rows = a->queries - b.first < TILE_ROWS ? a->queries - b.first : TILE_ROWS;
    int64_t columns = TILE_PRODUCT / (b.rows * a->width), most = TILE_VALUES / b.rows;
    columns = columns < most ? columns : most;
    b.columns = columns < 16 ? 16 : columns / 16 * 16;
    b.row = batch * a->queries + b.first;
    b.visible = a->causal ? a->keys - a->queries + b.first + b.rows : a->keys;
    b.q = a->q + tg_matrix_of(call->inputs[0], batch) + b.first * a->lq;
    b.k = a->k + tg_matrix_of(call->inputs[1], batch);
    b.v = a->v + tg_matrix_of(call->inputs[2], batch);
    if (a->bias) {
        b.bias = a->bias + tg_repeated_matrix_of(call->inputs[3], call->inputs[0], batch, false) + b.first * a->lbias;
    }
    return b;
}

/* Returns how many of the columns first .. first + columns - 1 row i of the block attends to. */
static int64_t visible_in_tile(const attention *a, const row_block *b, int64_t i, int64_t first, int64_t columns)
{
    int64_t n = (a->causal ? b->visible - b->rows + i + 1 : b->visible) - first;
    return n < 0 ? 0 : n < columns ? n : columns;
}

/* Multiplies n values, which belong to row i from column `first` on, by the mask. */
static void drop(const attention *a, const row_block *b, int64_t i, int64_t first, int64_t n, real *row)
{
    if (a->bits) {
        mask_values(a->bits, (b->row + i) * a->keys + first, a->factor, row, n, row);
    }
}

/* Turns n products of row i into scores: scales them and adds the bias. */
static void scale_row(const attention *a, const row_block *b, int64_t i, int64_t first, int64_t n, real *row)
{
    for (int64_t j = 0; j < n; j++) {
        row[j] *= a->scale;
    }
    const real *bias = b->bias ? b->bias + i * a->lbias + first : NULL;
    for (int64_t j = 0; bias && j < n; j++) {
        row[j] += bias[j];
    }
}

/* ---- forward ---- */

/* A row of the forward pass: M and s. */
typedef struct running_row {
    real most;
    double sum;
} running_row;

/* Replaces n scores of a row by exp(S - M), and updates M, s and y. */
static void add_scores(const attention *a, real *scores, int64_t n, running_row *r, real *y)
{
    real most = row_max(scores, n);
    most = most > r->most ? most : r->most;
    real shift = most == -(real)INFINITY ? 0 : most; /* scores of -inf alone give weights of 0 */
    row_exp(scores, n, shift, scores);
    real correction = EXP_OR_ZERO(r->most - shift);
    for (int64_t c = 0; correction != 1 && c < a->width; c++) {
        y[c] *= correction;
    }
    r->sum = r->sum * (double)correction + row_sum(scores, n);
    r->most = most;
}

static void forward_of_block(const attention *a, const row_block *b)
{
    real tile[TILE_VALUES], *y = (real *)a->y + b->row * a->width;
    running_row running[TILE_ROWS];
    memset(y, 0, (size_t)(b->rows * a->width) * sizeof(real));
    for (int64_t i = 0; i < b->rows; i++) {
        running[i] = (running_row){-(real)INFINITY, 0};
    }
    for (int64_t first = 0; first < b->visible; first += b->columns) {
        int64_t columns = b->visible - first < b->columns ? b->visible - first : b->columns;
        tg_gemm scores = {b->rows, columns, a->width, .transpose_b = true, .lda = a->lq, .ldb = a->lk, .ldc = columns};
        gemm(&scores, b->q, b->k + first * a->lk, 0, tile);
        for (int64_t i = 0; i < b->rows; i++) {
            real *row = tile + i * columns;
            int64_t n = visible_in_tile(a, b, i, first, columns);
            scale_row(a, b, i, first, n, row);
            add_scores(a, row, n, &running[i], y + i * a->width);
            drop(a, b, i, first, n, row);
            memset(row + n, 0, (size_t)(columns - n) * sizeof(real));
        }
        tg_gemm mix = {b->rows, a->width, columns, .lda = columns, .ldb = a->lv, .ldc = a->width};
        gemm(&mix, tile, b->v + first * a->lv, 1, y);
    }
    for (int64_t i = 0; i < b->rows && b->visible > 0; i++) {
        real inverse = (real)(1 / running[i].sum);
        for (int64_t c = 0; c < a->width; c++) {
            y[i * a->width + c] *= inverse;
        }
        a->log_sums[b->row + i] = running[i].most + (real)log(running[i].sum);
    }
}

static void forward_of_blocks(void *context, int64_t begin, int64_t end)
{
    const attention *a = context;
    for (int64_t i = begin; i < end; i++) {
        row_block b = block_of(a, i / a->blocks, i % a->blocks);
        forward_of_block(a, &b);
    }
}

void KERNEL(tg_attention_forward)(const tg_op_call *call)
{
    attention a = attention_of(call);
    if (a.bits) {
        double p = ((const attention_attributes *)call->attributes)->p;
        tg_rng_bernoulli_bits(call->rng, (uint8_t *)a.bits, rows_of(call->inputs[0]) * a.keys, 1 - p);
    }
    tg_gemm_begin_parallel();
    tg_parallel_for(a.batches * a.blocks, 1 + TG_GRAIN / (TILE_ROWS * a.keys + 1), forward_of_blocks, &a);
}

/* ---- backward ---- */

/* The gradients of one matrix; NULL for those that no input needs. */
typedef struct gradients {
    real *dq, *dk, *dv;
    real *dbias; /* rows are S apart */
    bool overwrite_dbias;
} gradients;

/* Returns a matrix of the gradient of an input, which is contiguous, and sets a new one to zero. */
static real *gradient_matrix(const attention *a, int input, int64_t batch)
{
    const tg_tensor *x = a->call->inputs[input];
    real *gradient = a->call->input_gradients[input];
    int64_t size = x->shape[x->rank - 2] * x->shape[x->rank - 1];
    if (gradient && a->call->overwrite[input]) {
        memset(gradient + batch * size, 0, (size_t)size * sizeof(real));
    }
    return gradient ? gradient + batch * size : NULL;
}

static gradients gradients_of(const attention *a, int64_t batch)
{
    gradients g = {
        .dq = gradient_matrix(a, 0, batch), .dk = gradient_matrix(a, 1, batch), .dv = gradient_matrix(a, 2, batch)};
    real *dbias = a->bias ? a->call->input_gradients[3] : NULL;
    if (dbias) {
        const tg_tensor *bias = a->call->inputs[3], *q = a->call->inputs[0];
        g.dbias = dbias + tg_repeated_matrix_of(bias, q, batch, true);
        g.overwrite_dbias = a->call->overwrite[3] && tg_is_first_use(bias, q, batch);
    }
    return g;
}

/* Adds n values of dS to a row of the gradient of the bias. */
static void add_to_bias(const gradients *g, const real *drow, int64_t n, int64_t columns, real *dbias)
{
    if (g->overwrite_dbias) {
        memcpy(dbias, drow, (size_t)n * sizeof(real));
        memset(dbias + n, 0, (size_t)(columns - n) * sizeof(real));
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        dbias[j] += drow[j];
    }
}

/* Replaces the products q k^T in `tile` by P m, and dy v^T in `dtile` by scale dS. */
static void gradient_of_tile(const attention *a, const row_block *b, const gradients *g, const real *r, int64_t first,
                             int64_t columns, real *tile, real *dtile)
{
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = tile + i * columns, *drow = dtile + i * columns, log_sum = a->log_sums[b->row + i];
        int64_t n = visible_in_tile(a, b, i, first, columns);
        drop(a, b, i, first, n, drow);
        scale_row(a, b, i, first, n, row);
        for (int64_t j = 0; j < n; j++) {
            row[j] = EXP_OR_ZERO(row[j] - log_sum);
            drow[j] = row[j] * (drow[j] - r[i]);
        }
        if (g->dbias) {
            add_to_bias(g, drow, n, columns, g->dbias + (b->first + i) * a->keys + first);
        }
        for (int64_t j = 0; j < n; j++) {
            drow[j] = normal_or_zero(drow[j] * a->scale);
        }
        drop(a, b, i, first, n, row);
        memset(row + n, 0, (size_t)(columns - n) * sizeof(real));
        memset(drow + n, 0, (size_t)(columns - n) * sizeof(real));
    }
}

static void backward_of_block(const attention *a, const row_block *b, const gradients *g)
{
    real tile[TILE_VALUES], dtile[TILE_VALUES], r[TILE_ROWS];
    const int64_t width = a->width, rows = b->rows;
    const real *y = a->y + b->row * width, *dy = a->dy + b->row * width;
    for (int64_t i = 0; i < rows; i++) {
        r[i] = (real)row_dot(dy + i * width, y + i * width, width);
    }
    for (int64_t first = 0; first < b->visible; first += b->columns) {
        int64_t columns = b->visible - first < b->columns ? b->visible - first : b->columns;
        const real *k = b->k + first * a->lk, *v = b->v + first * a->lv;
        tg_gemm scores = {rows, columns, width, .transpose_b = true, .lda = a->lq, .ldb = a->lk, .ldc = columns};
        tg_gemm dweights = {rows, columns, width, .transpose_b = true, .lda = width, .ldb = a->lv, .ldc = columns};
        gemm(&scores, b->q, k, 0, tile);
        gemm(&dweights, dy, v, 0, dtile);
        gradient_of_tile(a, b, g, r, first, columns, tile, dtile);
        tg_gemm to_queries = {rows, width, columns, .lda = columns, .ldb = a->lk, .ldc = width};
        tg_gemm to_keys = {columns, width, rows, .transpose_a = true, .lda = columns, .ldb = a->lq, .ldc = width};
        tg_gemm to_values = to_keys;
        to_values.ldb = width;
        if (g->dq) {
            gemm(&to_queries, dtile, k, 1, g->dq + b->first * width);
        }
        if (g->dk) {
            gemm(&to_keys, dtile, b->q, 1, g->dk + first * width);
        }
        if (g->dv) {
            gemm(&to_values, tile, dy, 1, g->dv + first * width);
        }
    }
    for (int64_t i = 0; g->overwrite_dbias && i < rows; i++) {
        memset(g->dbias + (b->first + i) * a->keys + b->visible, 0, (size_t)(a->keys - b->visible) * sizeof(real));
    }
}

static void backward_of_matrix(const attention *a, int64_t batch)
{
    gradients g = gradients_of(a, batch);
    for (int64_t block = 0; block < a->blocks; block++) {
        row_block b = block_of(a, batch, block);
        backward_of_block(a, &b, &g);
    }
}

/* Computes the matrices begin .. end - 1. If matrices share a gradient of the bias, one thread computes them, when it
 * comes to the first of them. */
static void backward_of_matrices(void *context, int64_t begin, int64_t end)
{
    const attention *a = context;
    const tg_tensor *q = a->call->inputs[0], *bias = a->bias ? a->call->inputs[3] : NULL;
    bool shared = bias && a->call->input_gradients[3] && bias->count < a->batches * a->queries * a->keys;
    for (int64_t batch = begin; batch < end; batch++) {
        if (!shared) {
            backward_of_matrix(a, batch);
            continue;
        }
        int64_t matrix = tg_repeated_matrix_of(bias, q, batch, true);
        for (int64_t k = batch; tg_is_first_use(bias, q, batch) && k < a->batches; k++) {
            if (tg_repeated_matrix_of(bias, q, k, true) == matrix) {
                backward_of_matrix(a, k);
            }
        }
    }
}

/* The forward pass computed y = (softmax(scale q k^T + b) m) v. */
void KERNEL(tg_attention_backward)(const tg_op_call *call)
{
    attention a = attention_of(call);
    a.dy = call->output_gradients[0];
    for (int i = 0; a.batches == 0 && i < call->input_count; i++) { /* no matrix sets new gradients to zero */
        if (call->input_gradients[i] && call->overwrite[i]) {
            memset(call->input_gradients[i], 0, (size_t)call->inputs[i]->count * sizeof(real));
        }
    }
    tg_gemm_begin_parallel();
    tg_parallel_for(a.batches, 1 + TG_GRAIN / (a.queries * a.keys + 1), backward_of_matrices, &a);
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
    return tg_op_output(call, 0, tg_dtype_of(q), tg_shape_of(q)) && tg_op_save(call, rows, tg_size_of(q->dtype)) &&
           (a->p == 0 || rows == 0 || save_bits(call, rows, keys));
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
