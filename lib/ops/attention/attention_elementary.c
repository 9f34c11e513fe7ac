/* attention_elementary: attention as a chain of ops, as the book's chapter 3 builds it. attention.c computes the same
 * as one op.
 *
 *   scores  = q k^T / sqrt(D) + bias                    (..,T,S); with a given scale, q k^T scale + bias
 *   scores[keys that the query does not attend to] = -inf
 *   weights = dropout(softmax(scores))
 *   y       = weights v
 *
 * The softmax of a row without keys, whose scores are all -inf, would be NaN. Such a row gets scores of 0, and its
 * weights become 0 afterwards, so that no gradient flows to it: torch's safe softmax. For D = 0, q k^T is 0, and so are
 * its scaled scores.
 */
#include <math.h>

#include "ops/attention/attention.h"
#include "tape/tape.h"

static const char call[] = "scaled_dot_product_attention";

/* Writes to *hidden the mask of the keys that queries do not attend to: (T,S) or, if sequences differ, (B,1..,T,S);
 * NULL if they attend to all. Returns false after an error. */
static bool hide_keys(tg_tape *t, const tg_tensor *q, int64_t keys,
                      const tg_scaled_dot_product_attention_config *config, tg_tensor **hidden)
{
    const tg_tensor *mask = config->key_mask, *first_keys = config->first_keys;
    bool has_sequences = mask || (first_keys && first_keys->rank == 2);
    int64_t queries = q->shape[q->rank - 2], sequences = has_sequences ? q->shape[0] : 1;
    *hidden = NULL;
    if (keys == 0 || (!mask && !first_keys && !config->is_causal)) {
        return true;
    }
    tg_shape shape = {has_sequences ? q->rank : 2, {0}};
    for (int axis = 0; axis < shape.rank; axis++) {
        shape.size[axis] = 1;
    }
    shape.size[0] = sequences;
    shape.size[shape.rank - 2] = queries;
    shape.size[shape.rank - 1] = keys;
    *hidden = tg_tape_new_tensor(t, call, TG_U8, shape);
    uint8_t *row = *hidden ? tg_values(*hidden) : NULL;
    for (int64_t i = 0; row && i < sequences * queries; i++, row += keys) {
        int64_t visible = config->is_causal ? keys - queries + i % queries + 1 : keys;
        int64_t first = config->window > 0 ? visible - config->window : 0;
        if (first_keys) {
            int32_t own_first = ((const int32_t *)tg_values(first_keys))[first_keys->rank == 2 ? i : i % queries];
            first = own_first > first ? own_first : first;
        }
        const uint8_t *own = mask ? (const uint8_t *)tg_values(mask) + i / queries * mask->strides[0] : NULL;
        for (int64_t j = 0; j < keys; j++) {
            row[j] = j < first || j >= visible || (own && !own[j * mask->strides[1]]);
        }
    }
    return *hidden;
}

/* Returns the number of leading values of a row of scores that are -inf. */
static int64_t hidden_scores(const tg_tensor *scores, int64_t row)
{
    int64_t keys = scores->shape[scores->rank - 1], j = 0;
    while (j < keys && tg_get(scores, row * keys + j) == -(double)INFINITY) {
        j++;
    }
    return j;
}

/* Writes to *rows the mask (..,T,1) of the rows of scores that are -inf everywhere, or NULL if no row is. Returns false
 * after an error. */
static bool find_rows_without_keys(tg_tape *t, const tg_tensor *scores, tg_tensor **rows)
{
    tg_shape shape = tg_shape_of(scores);
    int64_t keys = shape.size[shape.rank - 1], count = keys > 0 ? scores->count / keys : 0, first = 0;
    *rows = NULL;
    while (first < count && hidden_scores(scores, first) < keys) {
        first++;
    }
    if (first == count) {
        return true;
    }
    shape.size[shape.rank - 1] = 1;
    *rows = tg_tape_new_tensor(t, call, TG_U8, shape);
    for (int64_t i = 0; *rows && i < count; i++) {
        ((uint8_t *)tg_values(*rows))[i] = hidden_scores(scores, i) == keys;
    }
    return *rows;
}

tg_tensor *tg_attention_weights(tg_tape *t, tg_tensor *queries, tg_tensor *keys,
                                const tg_scaled_dot_product_attention_config *config)
{
    tg_tensor *hidden, *rows;
    tg_tensor *scores = tg_matmul(t, queries, tg_transpose(t, keys, -2, -1));
    if (!scores || !hide_keys(t, queries, tg_tensor_size(keys, -2), config, &hidden)) {
        return NULL;
    }
    int64_t width = tg_tensor_size(queries, -1);
    if (config->scale != TG_SCALE_OF_WIDTH) {
        scores = tg_mul_scalar(t, scores, config->scale);
    } else if (width > 0) {
        scores = tg_div_scalar(t, scores, sqrt((double)width));
    }
    if (config->bias) {
        scores = tg_add(t, scores, config->bias);
    }
    if (hidden) {
        scores = tg_masked_fill(t, scores, hidden, -(double)INFINITY);
    }
    if (!scores || !find_rows_without_keys(t, scores, &rows)) {
        return NULL;
    }
    if (rows) {
        scores = tg_masked_fill(t, scores, rows, 0);
    }
    tg_tensor *weights = tg_softmax(t, scores, -1);
    if (rows) {
        weights = tg_masked_fill(t, weights, rows, 0);
    }
    return tg_dropout(t, weights, config->dropout);
}

tg_tensor *tg_attention_repeat_heads(tg_tape *t, tg_tensor *x, int64_t heads)
{
    if (!x || x->shape[x->rank - 3] == heads) {
        return x;
    }
    /* one axis for all matrices, because x may have the largest rank */
    tg_shape joined = tg_shape_of(x), grouped = {4, {1, 1, x->shape[x->rank - 2], x->shape[x->rank - 1]}};
    int axis = x->rank - 3;
    for (int i = 0; i <= axis; i++) {
        grouped.size[0] *= x->shape[i];
    }
    tg_tensor *matrices = tg_reshape(t, x, grouped);
    grouped.size[1] = heads / x->shape[axis];
    joined.size[axis] = heads;
    return tg_reshape(t, tg_expand(t, matrices, grouped), joined);
}

tg_tensor *tg_attention_elementary(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                   const tg_scaled_dot_product_attention_config *config)
{
    if (config->enable_gqa) {
        int64_t heads = queries->shape[queries->rank - 3];
        keys = tg_attention_repeat_heads(t, keys, heads);
        values = tg_attention_repeat_heads(t, values, heads);
    }
    tg_tensor *weights = keys ? tg_attention_weights(t, queries, keys, config) : NULL;
    if (config->weights) {
        *config->weights = weights;
    }
    return tg_matmul(t, weights, values);
}
