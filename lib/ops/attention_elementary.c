/* attention_elementary: attention as a chain of ops, as the course's chapter 3 builds it. attention.c computes the same
 * as one op.
 *
 *   scores  = q k^T / sqrt(D) + bias                    (..,T,S); with a given scale, q k^T scale + bias
 *   scores[keys that the query does not attend to] = -inf
 *   weights = dropout(softmax(scores))
 *   y       = weights v
 *
 * The softmax of a row without keys would be NaN. Such a row keeps its scores, and its weights become 0 afterwards.
 */
#include <math.h>
#include <string.h>

#include "ops/attention.h"
#include "tape/tape.h"

/* The keys that queries do not attend to, and the queries without any key; NULL without a mask. */
typedef struct hidden {
    tg_tensor *keys, *queries; /* (T,S) or, with a mask of keys, (B,1..,T,S), and (B,1..,T,1) */
} hidden;

/* Fills row i of a matrix of hidden keys. Returns whether the query has a key. */
static bool fill_row(uint8_t *row, int64_t keys, int64_t visible, const tg_tensor *mask, int64_t sequence)
{
    bool has_key = !mask;
    const uint8_t *own = mask ? (const uint8_t *)tg_values(mask) + sequence * mask->strides[0] : NULL;
    for (int64_t j = 0; j < keys; j++) {
        row[j] = j >= visible || (own && !own[j * mask->strides[1]]);
        has_key = has_key || !row[j];
    }
    if (!has_key) {
        memset(row, 0, (size_t)keys);
    }
    return has_key;
}

static bool hide(tg_tape *t, const tg_tensor *q, int64_t keys, const tg_scaled_dot_product_attention_config *config,
                 hidden *h)
{
    static const char call[] = "scaled_dot_product_attention";
    const tg_tensor *mask = config->key_mask;
    int64_t queries = q->shape[q->rank - 2], sequences = mask ? q->shape[0] : 1;
    *h = (hidden){NULL, NULL};
    if (keys == 0 || (!mask && !config->is_causal)) {
        return true;
    }
    tg_shape shape = {mask ? q->rank : 2, {0}};
    for (int axis = 0; axis < shape.rank; axis++) {
        shape.size[axis] = 1;
    }
    shape.size[0] = sequences;
    shape.size[shape.rank - 2] = queries;
    h->queries = mask ? tg_tape_new_tensor(t, call, TG_U8, shape) : NULL;
    shape.size[shape.rank - 1] = keys;
    h->keys = tg_tape_new_tensor(t, call, TG_U8, shape);
    if (!h->keys || (mask && !h->queries)) {
        return false;
    }
    uint8_t *without_keys = h->queries ? tg_values(h->queries) : NULL;
    for (int64_t i = 0; i < sequences * queries; i++) {
        int64_t visible = config->is_causal ? keys - queries + i % queries + 1 : keys;
        bool has_key = fill_row((uint8_t *)tg_values(h->keys) + i * keys, keys, visible, mask, i / queries);
        if (without_keys) {
            without_keys[i] = !has_key;
        }
    }
    return true;
}

tg_tensor *tg_attention_weights(tg_tape *t, tg_tensor *queries, tg_tensor *keys,
                                const tg_scaled_dot_product_attention_config *config)
{
    hidden h;
    tg_tensor *scores = tg_matmul(t, queries, tg_transpose(t, keys, -2, -1));
    if (!scores || !hide(t, queries, tg_tensor_size(keys, -2), config, &h)) {
        return NULL;
    }
    scores = config->scale == TG_SCALE_OF_WIDTH ? tg_div_scalar(t, scores, sqrt((double)tg_tensor_size(queries, -1)))
                                                : tg_mul_scalar(t, scores, config->scale);
    if (config->bias) {
        scores = tg_add(t, scores, config->bias);
    }
    if (h.keys) {
        scores = tg_masked_fill(t, scores, h.keys, -(double)INFINITY);
    }
    tg_tensor *weights = tg_softmax(t, scores, -1);
    if (h.queries) {
        weights = tg_masked_fill(t, weights, h.queries, 0);
    }
    return tg_dropout(t, weights, config->dropout);
}

/* Returns keys or values with a matrix for each head of the queries: (..,H / n,S,D) -> (..,H,S,D). */
static tg_tensor *repeat_heads(tg_tape *t, tg_tensor *x, int64_t heads)
{
    if (!x || x->shape[x->rank - 3] == heads) {
        return x;
    }
    tg_shape grouped = tg_shape_of(x), joined = grouped;
    int axis = x->rank - 3;
    joined.size[axis] = heads;
    grouped.rank++;
    grouped.size[axis + 1] = heads / x->shape[axis];
    grouped.size[axis + 2] = x->shape[axis + 1];
    grouped.size[axis + 3] = x->shape[axis + 2];
    return tg_reshape(t, tg_expand(t, tg_unsqueeze(t, x, axis + 1), grouped), joined);
}

tg_tensor *tg_attention_elementary(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                   const tg_scaled_dot_product_attention_config *config)
{
    if (config->enable_gqa) {
        int64_t heads = queries->shape[queries->rank - 3];
        keys = repeat_heads(t, keys, heads);
        values = repeat_heads(t, values, heads);
    }
    tg_tensor *weights = keys ? tg_attention_weights(t, queries, keys, config) : NULL;
    return tg_matmul(t, weights, values);
}
