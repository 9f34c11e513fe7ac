/* attention: multi-head causal self-attention as a module.
 *
 *   q, k, v = x Wq^T, x Wk^T, x Wv^T      (B,T,C), each C of them H heads of D
 *   y       = attention of each head      (B,H,T,D), lib/ops/attention.c or attention_elementary.c; relative positions
 *                                         come in here, nn/relative_position.c
 *   out     = y Wo^T + b                  the heads side by side again, (B,T,C)
 *
 * Heads are views: (B,T,C) read as (B,T,H,D) with the middle axes exchanged. The course's chapter 3,
 * MultiHeadAttention.
 */
#include "nn/kv_cache.h"
#include "nn/positional.h"

tg_multi_head_attention_config tg_multi_head_attention_config_default(void)
{
    return (tg_multi_head_attention_config){.dropout = 0, .qkv_bias = TG_NO_BIAS, .path = TG_ATTENTION_FUSED};
}

tg_multi_head_attention tg_multi_head_attention_make(tg_params *params, const char *name, int64_t in, int64_t out,
                                                     int64_t heads, const tg_multi_head_attention_config *given)
{
    tg_multi_head_attention_config config = given ? *given : tg_multi_head_attention_config_default();
    tg_multi_head_attention made = {.heads = heads, .config = config};
    made.query.params = made.key.params = made.value.params = made.out.params = params;
    char full[TG_NAME_SIZE];
    if (!tg_module_name(params, name, "W_query", full)) {
        return made;
    }
    if (heads < 1 || out < 1 || out % heads != 0) {
        tg_params_fail(params, TG_ERROR_VALUE, "attention %s: %lld heads do not divide a width of %lld", name,
                       (long long)heads, (long long)out);
        return made;
    }
    if (!(config.dropout >= 0 && config.dropout < 1)) {
        tg_params_fail(params, TG_ERROR_VALUE, "attention %s: dropout %g is outside [0,1)", name, config.dropout);
        return made;
    }
    struct {
        const char *part;
        tg_linear *linear;
        int64_t in;
        tg_bias bias;
    } projections[] = {{"W_query", &made.query, in, config.qkv_bias},
                       {"W_key", &made.key, in, config.qkv_bias},
                       {"W_value", &made.value, in, config.qkv_bias},
                       {"out_proj", &made.out, out, TG_BIAS}};
    for (int i = 0; i < 4 && tg_module_name(params, name, projections[i].part, full); i++) {
        *projections[i].linear = tg_linear_make(params, full, projections[i].in, out, projections[i].bias);
    }
    return made;
}

/* (B,T,C) -> (B,H,T,D), a view. */
static tg_tensor *heads_of(tg_tape *t, tg_tensor *x, int64_t heads)
{
    if (!x) {
        return NULL;
    }
    tg_shape shape = tg_shape_make(4, (int64_t[]){tg_size(x, 0), tg_size(x, 1), heads, tg_size(x, 2) / heads});
    return tg_transpose(t, tg_reshape(t, x, shape), 1, 2);
}

/* Shaw's positions also add to the values, and need the weights for it. */
tg_tensor *tg_positional_attention(tg_tape *t, const tg_positional *position, tg_attention_path path,
                                   tg_tensor *queries, tg_tensor *keys, tg_tensor *values, bool causal, double dropout)
{
    tg_attention_config config = {.causal = causal, .dropout = dropout, .bias = NULL};
    if (!keys || !tg_positional_bias(t, position, queries, tg_size(keys, -2), causal, &config.bias)) {
        return NULL;
    }
    queries = tg_positional_content(t, position, queries);
    if (!tg_positional_needs_weights(position)) {
        return (path == TG_ATTENTION_FUSED ? tg_attention : tg_attention_elementary)(t, queries, keys, values, &config);
    }
    tg_tensor *weights = tg_attention_weights(t, queries, keys, &config);
    return tg_add(t, tg_matmul(t, weights, values), tg_positional_values(t, position, weights));
}

static tg_tensor *forward(tg_tape *t, const tg_multi_head_attention *attention, tg_tensor *x, tg_tensor *memory,
                          tg_kv_cache *cache, int64_t layer)
{
    const tg_multi_head_attention_config *c = &attention->config;
    if (x && (tg_rank(x) != 3 || (memory && tg_rank(memory) != 3))) {
        char text[TG_SHAPE_TEXT];
        return tg_tape_fail(t, TG_ERROR_SHAPE, "attention", "the input has shape %s; it must be (B,T,C)",
                            tg_shape_format(tg_shape_of(tg_rank(x) != 3 ? x : memory), text));
    }
    if (c->position && !c->position->made) {
        tg_module_ready(t, "attention", c->position->params, NULL);
        return NULL;
    }
    tg_tensor *seen = memory ? tg_cat(t, (tg_tensor *[]){tg_detach(t, memory), x}, 2, 1) : x;
    int64_t start = memory ? tg_size(memory, 1) : cache ? tg_kv_cache_length(cache) : 0;
    tg_tensor *queries = heads_of(t, tg_linear_forward(t, &attention->query, x), attention->heads);
    tg_tensor *keys = heads_of(t, tg_linear_forward(t, &attention->key, seen), attention->heads);
    tg_tensor *values = heads_of(t, tg_linear_forward(t, &attention->value, seen), attention->heads);
    queries = tg_positional_turn(t, c->position, queries, start);
    keys = tg_positional_turn(t, c->position, keys, memory ? 0 : start);
    if (cache && !tg_kv_cache_extend(t, cache, layer, &keys, &values)) {
        return NULL;
    }
    tg_tensor *y =
        tg_positional_attention(t, c->position, c->path, queries, keys, values, !c->both_directions, c->dropout);
    if (!y) {
        return NULL;
    }
    tg_shape joined = tg_shape_make(3, (int64_t[]){tg_size(x, 0), tg_size(x, 1), tg_size(y, 1) * tg_size(y, 3)});
    return tg_linear_forward(t, &attention->out, tg_reshape(t, tg_transpose(t, y, 1, 2), joined));
}

tg_tensor *tg_multi_head_attention_forward(tg_tape *t, const tg_multi_head_attention *attention, tg_tensor *x)
{
    return forward(t, attention, x, NULL, NULL, 0);
}

tg_tensor *tg_multi_head_attention_forward_memory(tg_tape *t, const tg_multi_head_attention *attention, tg_tensor *x,
                                                  tg_tensor *memory)
{
    return memory ? forward(t, attention, x, memory, NULL, 0)
                  : tg_tape_fail(t, TG_ERROR_STATE, "attention", "the memory is NULL");
}

tg_tensor *tg_multi_head_attention_forward_cached(tg_tape *t, const tg_multi_head_attention *attention, tg_tensor *x,
                                                  tg_kv_cache *cache, int64_t layer)
{
    if (!cache) {
        return tg_tape_fail(t, TG_ERROR_STATE, "attention", "the cache is NULL");
    }
    int64_t before = cache->length;
    tg_tensor *y = forward(t, attention, x, NULL, cache, layer);
    cache->length = y ? cache->length : before; /* it moves on with the last layer's keys, before the projection out */
    return y;
}
