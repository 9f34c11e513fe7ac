/* attention, step by step: the chain of ops that lib/ops/attention.c is one op of, as the course's chapter 3 builds it.
 *
 *   scores  = q k^T / sqrt(D) + bias     (..,T,S)
 *   scores[j beyond the query's position] = -inf
 *   weights = dropout(softmax(scores))
 *   y       = weights v
 */
#include <tapegrad/op.h>
#include <tapegrad/ops.h>

#include <math.h>

/* u8 (T,S), 1 where key j lies after query i, which stands at S - T + i. Yours to release. */
static tg_tensor *future_new(tg_tape *t, int64_t queries, int64_t keys)
{
    tg_error error = {0};
    tg_tensor *future = tg_tensor_new(TG_U8, tg_shape_make(2, (int64_t[]){queries, keys}), &error);
    if (!future) {
        return tg_tape_fail(t, error.code, "attention", "%s", error.text);
    }
    uint8_t *values = tg_data_mut(future);
    for (int64_t i = 0; i < queries; i++) {
        for (int64_t j = 0; j < keys; j++) {
            values[i * keys + j] = j > keys - queries + i;
        }
    }
    return future;
}

tg_tensor *tg_attention_weights(tg_tape *t, tg_tensor *queries, tg_tensor *keys, const tg_attention_config *given)
{
    tg_attention_config config = given ? *given : tg_attention_config_default();
    if (!(config.dropout >= 0 && config.dropout < 1)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "attention", "dropout probability %g is outside [0,1)", config.dropout);
    }
    tg_tensor *scores = tg_matmul(t, queries, tg_transpose(t, keys, -2, -1));
    if (!scores) {
        return NULL;
    }
    if (config.causal && tg_size(keys, -2) < tg_size(queries, -2)) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "attention",
                            "%lld keys for %lld queries; there must be as many at least", (long long)tg_size(keys, -2),
                            (long long)tg_size(queries, -2));
    }
    scores = tg_div_scalar(t, scores, sqrt((double)tg_size(queries, -1)));
    if (config.bias) {
        scores = tg_add(t, scores, config.bias);
    }
    if (config.causal) {
        tg_tensor *future = future_new(t, tg_size(queries, -2), tg_size(keys, -2));
        if (!future) {
            return NULL;
        }
        scores = tg_masked_fill(t, scores, future, -INFINITY);
        tg_release(future);
    }
    return tg_dropout(t, tg_softmax(t, scores, -1), config.dropout);
}

/* Before anything is drawn. */
static bool values_fit(tg_tape *t, const tg_tensor *keys, const tg_tensor *values)
{
    char k[TG_SHAPE_TEXT], v[TG_SHAPE_TEXT];
    if (!keys || !values) {
        tg_tape_fail(t, TG_ERROR_STATE, "attention", "the %s NULL", keys ? "values are" : "keys are");
        return false;
    }
    if (tg_dtype_of(values) != tg_dtype_of(keys)) {
        tg_tape_fail(t, TG_ERROR_DTYPE, "attention", "keys are %s and values %s; nothing is promoted",
                     tg_dtype_name(tg_dtype_of(keys)), tg_dtype_name(tg_dtype_of(values)));
        return false;
    }
    if (tg_rank(values) < 2 || tg_rank(values) != tg_rank(keys) || tg_size(values, -2) != tg_size(keys, -2)) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "attention", "keys %s and values %s; there must be a value for each key",
                     tg_shape_format(tg_shape_of(keys), k), tg_shape_format(tg_shape_of(values), v));
        return false;
    }
    return true;
}

tg_tensor *tg_attention_elementary(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                   const tg_attention_config *config)
{
    return values_fit(t, keys, values) ? tg_matmul(t, tg_attention_weights(t, queries, keys, config), values) : NULL;
}
