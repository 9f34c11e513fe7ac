/* attention: scaled dot-product attention as one op. Forward; the gradient is in attention_backward.c.
 *
 *   S = scale q k^T + b, and -inf for keys that a query does not attend to     P = softmax(S)     y = (P m) v
 *
 * Forward visits the tiles (attention_tiles.h) of a block of rows from left to right, a few at once. For each row it
 * keeps the maximum M so far, the sum s = sum_j exp(S_ij - M), and y = sum_j exp(S_ij - M) m_ij v_j. A larger maximum
 * M' multiplies s and y by exp(M - M'). The last step divides y by s. It saves M and l = log s of each row, from which
 * backward recomputes P_ij = exp((S_ij - M) - l), and m as bits. M + l in one number would be rounded: to M alone, if a
 * bias is as large as -1e30. A row without keys, whose scores are all -inf, gets y = 0, and M = l = 0, so that backward
 * computes P = 0.
 *
 * Threads divide the blocks in forward, and the matrices in backward. The products of a tile are computed in the thread
 * that needs them, so the bits do not depend on the number of threads.
 * Probabilities and gradients that are not normal numbers are 0 (math/exp.h).
 *
 * Dropout draws what torch.nn.functional.dropout draws for the whole (..,T,S) matrix, masked weights included, as in
 * the book's chapter 3. Matrices of queries that differ by their values alone share a mask. If causal and S > T,
 * query t is at position S - T + t, as with keys from a cache.
 */
#include "base/random.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_tiles.h"

TG_DECLARE_KERNELS(tg_attention_forward, tg_attention_backward);

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
    real correction = real_exp_or_zero(r->most - shift);
    for (int64_t c = 0; correction != 1 && c < a->width; c++) {
        y[c] *= correction;
    }
    r->sum = r->sum * (double)correction + row_sum(scores, n);
    r->most = most;
}

/* Adds the values of `columns` keys, weighted by the tile. */
static void add_values(const attention *a, const attention_block *b, int64_t first, int64_t columns, const real *tile,
                       real *y)
{
    const tg_gemm mix = {b->rows,      a->width,        columns,     .lda = columns,
                         .ldb = a->lv, .ldc = a->width, .add = true, .in_thread = true};
    gemm(&mix, tile, b->v + first * a->lv, y);
}

static void forward_of_block(const attention *a, const attention_block *b)
{
    real tile[TILES_TOGETHER * TILE_VALUES], *y = (real *)a->y + b->row * a->width;
    running_row running[ATTENTION_TILE];
    memset(y, 0, (size_t)(b->rows * a->width) * sizeof(real));
    for (int64_t i = 0; i < b->rows; i++) {
        running[i] = (running_row){-(real)INFINITY, 0};
    }
    const int64_t most = TILES_TOGETHER * b->columns;
    for (int64_t first = b->begin; first < b->visible; first += most) {
        int64_t columns = b->visible - first < most ? b->visible - first : most;
        multiply_keys(a, b, first, columns, tile);
        for (int64_t i = 0; i < b->rows; i++) {
            real *row = tile + i * columns;
            int64_t n = visible_in_tile(a, b, i, first, columns);
            score_row(a, b, i, first, n, row);
            add_scores(a, row, n, &running[i], y + i * a->width);
            drop(a, b, i, first, n, row);
            memset(row + n, 0, (size_t)(columns - n) * sizeof(real));
        }
        add_values(a, b, first, columns, tile, y);
    }
    for (int64_t i = 0; i < b->rows; i++) {
        bool has_keys = running[i].sum != 0; /* a NaN stays */
        real inverse = (real)(1 / running[i].sum);
        for (int64_t c = 0; c < a->width; c++) {
            y[i * a->width + c] = has_keys ? y[i * a->width + c] * inverse : 0;
        }
        a->maxima[b->row + i] = has_keys ? running[i].most : 0;
        a->log_sums[b->row + i] = has_keys ? (real)tg_log_f64(running[i].sum) : 0;
    }
}

static void forward_of_blocks(void *context, int64_t begin, int64_t end)
{
    const attention *a = context;
    for (int64_t i = begin; i < end; i++) {
        attention_block b = attention_block_of(a, i / a->blocks, i % a->blocks);
        forward_of_block(a, &b);
    }
}

void KERNEL(tg_attention_forward)(const tg_op_call *call)
{
    attention a = attention_of(call);
    if (a.bits) {
        double p = ((const attention_attributes *)call->attributes)->p;
        tg_rng_bernoulli_bits(call->rng, (uint8_t *)a.bits, weight_rows_of(call) * a.keys, 1 - p);
    }
    tg_parallel_for(a.batches * a.blocks, 1 + TG_GRAIN / (ATTENTION_TILE * a.keys + 1), forward_of_blocks, &a);
}

#ifdef TG_ONCE

/* Bias and mask are read row by row, so their rows may overlap, as those of scores by distance do (relative.c). First
 * keys are contiguous. */
static bool attention_layout(const tg_tensor *x, int i)
{
    return x->dtype == TG_I32 ? tg_tensor_is_contiguous(x)
           : i < 3            ? tg_rows_layout(x, i)
                              : x->rank >= 2 && (x->shape[x->rank - 1] == 1 || x->strides[x->rank - 1] == 1);
}

/* Declares the saved mask, one bit per weight. */
static bool save_bits(tg_op_call *call, int64_t rows, int64_t keys)
{
    return rows <= INT64_MAX / 8 / (keys + 1)
               ? tg_op_save(call, rows * keys / 8 + 1, 1)
               : tg_op_fail(call, TG_ERROR_MEMORY, "the mask of %lld x %lld weights does not fit into memory",
                            (long long)rows, (long long)keys);
}

/* scaled_dot_product_attention.c has checked the inputs. */
static bool attention_shape(tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0], *k = call->inputs[1];
    const attention_attributes *a = call->attributes;
    int64_t rows = attention_rows_of(q), keys = k->shape[k->rank - 2];
    size_t size = tg_size_of(q->dtype);
    return tg_op_output(call, 0, tg_dtype_of(q), tg_shape_of(q)) && tg_op_save(call, rows, size) &&
           tg_op_save(call, rows, size) && (a->p == 0 || save_bits(call, weight_rows_of(call), keys));
}

static const tg_op attention_op = {
    .name = "scaled_dot_product_attention",
    .shape = attention_shape,
    .input_names = {"queries", "keys", "values"},
    TG_KERNELS(tg_attention_forward, tg_attention_backward),
    .accepts_layout = attention_layout,
    .can_overwrite = true,
    .differentiate = tg_differentiate_attention,
};

/* Expands the queries to the batch axes of the values, and writes which of these axes the weights do not have. With
 * grouped heads the values have fewer. */
static tg_tensor *expand_to_values(tg_tape *t, tg_tensor *queries, const tg_tensor *values, uint32_t *shared_axes)
{
    tg_shape weights = tg_shape_of(queries), shape = weights;
    shape.rank = weights.rank > values->rank ? weights.rank : values->rank;
    for (int axis = 0; axis < shape.rank; axis++) {
        int own = axis - shape.rank + weights.rank, other = axis - shape.rank + values->rank;
        int64_t size = own < 0 ? 1 : weights.size[own];
        bool is_shared = axis < shape.rank - 2 && size == 1 && other >= 0 && values->shape[other] != 1;
        shape.size[axis] = is_shared ? values->shape[other] : size;
        *shared_axes |= (uint32_t)is_shared << axis;
    }
    return *shared_axes || shape.rank > weights.rank ? tg_expand(t, queries, shape) : queries;
}

tg_tensor *tg_attention_fused(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                              const tg_scaled_dot_product_attention_config *config)
{
    attention_attributes a;
    memset(&a, 0, sizeof a);
    if (!(queries = expand_to_values(t, queries, values, &a.shared_axes))) {
        return NULL;
    }
    tg_tensor *inputs[6] = {queries, keys, values};
    int count = 3;
    a.p = tg_tape_is_training(t) ? config->dropout : 0;
    a.scale = config->scale == TG_SCALE_OF_WIDTH ? 1 / sqrt((double)queries->shape[queries->rank - 1]) : config->scale;
    a.causal = config->is_causal;
    a.window = config->window;
    if ((a.has_bias = config->bias)) {
        inputs[count++] = config->bias;
    }
    if ((a.has_mask = config->key_mask)) {
        inputs[count++] = config->key_mask;
    }
    if ((a.has_first_keys = config->first_keys)) {
        inputs[count++] = config->first_keys;
    }
    return tg_apply(t, &attention_op, inputs, count, &a, sizeof a, NULL);
}

#endif
