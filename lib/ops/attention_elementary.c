/* attention_elementary: attention as a chain of ops, as the course's chapter 3 builds it. attention.c computes the same
 * as one op.
 *
 *   scores  = q k^T / sqrt(D) + bias                    (..,T,S)
 *   scores[keys after the query's position] = -inf      if causal
 *   weights = dropout(softmax(scores))
 *   y       = weights v
 *
 * This file also has the public function, which checks the inputs and chooses between the two.
 */
#include <math.h>

#include "ops/attention.h"
#include "ops/matrices.h"
#include "tape/tape.h"

static const char call[] = "scaled_dot_product_attention";

/* Returns a mask (T,S): 1 for the keys after each query's position. */
static tg_tensor *future_mask(tg_tape *t, int64_t queries, int64_t keys)
{
    tg_tensor *future = tg_tape_new_tensor(t, call, TG_U8, tg_shape_make(2, (int64_t[]){queries, keys}));
    uint8_t *values = future ? tg_values(future) : NULL;
    for (int64_t i = 0; values && i < queries; i++) {
        for (int64_t j = 0; j < keys; j++) {
            values[i * keys + j] = j > keys - queries + i;
        }
    }
    return future;
}

tg_tensor *tg_attention_weights(tg_tape *t, tg_tensor *queries, tg_tensor *keys,
                                const tg_scaled_dot_product_attention_config *config)
{
    tg_tensor *scores = tg_matmul(t, queries, tg_transpose(t, keys, -2, -1));
    if (!scores) {
        return NULL;
    }
    int64_t T = tg_tensor_size(queries, -2), S = tg_tensor_size(keys, -2);
    scores = tg_div_scalar(t, scores, sqrt((double)tg_tensor_size(queries, -1)));
    if (config->bias) {
        scores = tg_add(t, scores, config->bias);
    }
    if (config->is_causal) {
        scores = tg_masked_fill(t, scores, future_mask(t, T, S), -(double)INFINITY);
    }
    return tg_dropout(t, tg_softmax(t, scores, -1), config->dropout);
}

tg_tensor *tg_attention_elementary(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                   const tg_scaled_dot_product_attention_config *config)
{
    tg_tape_point point;
    tg_tape_save_point(t, config->dropout > 0, &point);
    return tg_tape_end(t, &point, tg_matmul(t, tg_attention_weights(t, queries, keys, config), values));
}

/* ---- the public function ---- */

static bool check_shapes(tg_tape *t, const tg_tensor *q, const tg_tensor *k, const tg_tensor *v, bool is_causal)
{
    char q_text[TG_SHAPE_TEXT], k_text[TG_SHAPE_TEXT], v_text[TG_SHAPE_TEXT];
    tg_shape expected = tg_shape_of(q);
    bool fits = q->rank >= 2 && q->rank == k->rank && q->shape[q->rank - 1] >= 1;
    if (fits) {
        expected.size[expected.rank - 2] = k->shape[k->rank - 2];
        fits = tg_shape_equal(tg_shape_of(k), expected) && tg_shape_equal(tg_shape_of(v), expected) &&
               (!is_causal || k->shape[k->rank - 2] >= q->shape[q->rank - 2]) &&
               k->shape[k->rank - 2] <= TG_GEMM_LIMIT && k->shape[k->rank - 1] <= TG_GEMM_LIMIT;
    }
    return fits || tg_tape_fail(t, TG_ERROR_SHAPE, call,
                                "queries %s, keys %s and values %s; they must be (..,T,D), (..,S,D) and (..,S,D)%s",
                                tg_shape_format(tg_shape_of(q), q_text), tg_shape_format(tg_shape_of(k), k_text),
                                tg_shape_format(tg_shape_of(v), v_text), is_causal ? " with S >= T" : "");
}

/* Checks everything that either path refuses, before dropout draws. */
static bool check(tg_tape *t, const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                  const tg_scaled_dot_product_attention_config *config)
{
    const tg_tensor *inputs[] = {q, k, v, config->bias};
    static const char *const names[] = {"tensor of queries", "tensor of keys", "tensor of values", "bias"};
    int count = config->bias ? 4 : 3;
    for (int i = 0; i < count; i++) {
        if (!tg_tape_expect_tensor(t, call, names[i], inputs[i])) {
            return false;
        }
        if (!tg_dtype_is_float(inputs[i]->dtype) || inputs[i]->dtype != q->dtype) {
            return tg_tape_fail(t, TG_ERROR_DTYPE, call, "the %s is %s; all must be f32, or all f64 (tg_cast converts)",
                                names[i], tg_dtype_name(tg_dtype_of(inputs[i])));
        }
    }
    if (!check_shapes(t, q, k, v, config->is_causal)) {
        return false;
    }
    int64_t rows = q->shape[q->rank - 2], columns = k->shape[k->rank - 2];
    if (config->bias && !tg_is_repeated_matrix(config->bias, q, rows, columns)) {
        char b_text[TG_SHAPE_TEXT], q_text[TG_SHAPE_TEXT], k_text[TG_SHAPE_TEXT];
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the bias is %s; for queries %s and keys %s it must be (..,T,S)",
                            tg_shape_format(tg_shape_of(config->bias), b_text), tg_shape_format(tg_shape_of(q), q_text),
                            tg_shape_format(tg_shape_of(k), k_text));
    }
    if (!(config->dropout >= 0 && config->dropout < 1)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "dropout %g is outside [0,1)", config->dropout);
    }
    if ((unsigned)config->path > TG_ATTENTION_ELEMENTARY) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "path %d does not exist; allowed are 0, fused, and 1, elementary",
                            (int)config->path);
    }
    return config->dropout == 0 || !t->training || t->rng ||
           tg_tape_fail(t, TG_ERROR_STATE, call, "dropout needs a generator; tg_tape_new takes one");
}

static const char mark[] = "tg_scaled_dot_product_attention_config_default";

tg_scaled_dot_product_attention_config tg_scaled_dot_product_attention_config_default(void)
{
    return (tg_scaled_dot_product_attention_config){.mark = mark, .path = TG_ATTENTION_FUSED};
}

tg_tensor *tg_scaled_dot_product_attention(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                           const tg_scaled_dot_product_attention_config *given)
{
    if (!tg_tape_expect_config(t, call, given, mark)) {
        return NULL;
    }
    tg_scaled_dot_product_attention_config config = given ? *given : tg_scaled_dot_product_attention_config_default();
    if (!check(t, queries, keys, values, &config)) {
        return NULL;
    }
    return (config.path == TG_ATTENTION_FUSED ? tg_attention_fused : tg_attention_elementary)(t, queries, keys, values,
                                                                                              &config);
}
