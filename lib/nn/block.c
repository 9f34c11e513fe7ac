/* block: one layer of a transformer, with the norms before its halves (Xiong et al. 2020; GPT-2).
 *
 *   x = x + dropout(attention(norm1(x)))
 *   x = x + dropout(feed_forward(norm2(x)))
 */
#include "nn/kv_cache.h"
#include "nn/module.h"

tg_transformer_block tg_transformer_block_make(tg_params *params, const char *name, int64_t width, int64_t heads,
                                               double dropout, const tg_multi_head_attention_config *attention)
{
    tg_transformer_block made = {.dropout = dropout, .norm1.params = params, .norm2.params = params};
    char full[TG_NAME_SIZE];
    if (!(dropout >= 0 && dropout <= 1)) {
        tg_params_fail(params, TG_ERROR_VALUE, "block %s: dropout %g is outside [0,1]", name ? name : "", dropout);
    }
    if (width < 1 || width > INT64_MAX / 4) {
        tg_params_fail(params, TG_ERROR_SHAPE, "block %s: a width of %lld is outside [1,%lld]", name ? name : "",
                       (long long)width, (long long)(INT64_MAX / 4));
        return made;
    }
    if (tg_module_name(params, name, "att", full)) {
        made.attention = tg_multi_head_attention_make(params, full, width, width, heads, attention);
    }
    if (tg_module_name(params, name, "ff", full)) {
        made.feed_forward = tg_feed_forward_make(params, full, width, 4 * width, TG_FEED_FORWARD_GELU);
    }
    if (tg_module_name(params, name, "norm1", full)) {
        made.norm1 = tg_layernorm_make_scale_shift(params, full, width, 1e-5);
    }
    if (tg_module_name(params, name, "norm2", full)) {
        made.norm2 = tg_layernorm_make_scale_shift(params, full, width, 1e-5);
    }
    return made;
}

static tg_tensor *forward(tg_tape *t, const tg_transformer_block *block, tg_tensor *x, tg_kv_cache *cache,
                          int64_t layer)
{
    tg_tensor *normal = tg_layernorm_forward(t, &block->norm1, x);
    tg_tensor *mixed = cache ? tg_multi_head_attention_forward_cached(t, &block->attention, normal, cache, layer)
                             : tg_multi_head_attention_forward(t, &block->attention, normal);
    x = tg_add(t, tg_dropout(t, mixed, block->dropout), x);
    tg_tensor *made = tg_feed_forward_forward(t, &block->feed_forward, tg_layernorm_forward(t, &block->norm2, x));
    return tg_add(t, tg_dropout(t, made, block->dropout), x);
}

tg_tensor *tg_transformer_block_forward(tg_tape *t, const tg_transformer_block *block, tg_tensor *x)
{
    return forward(t, block, x, NULL, 0);
}

tg_tensor *tg_transformer_block_forward_cached(tg_tape *t, const tg_transformer_block *block, tg_tensor *x,
                                               tg_kv_cache *cache, int64_t layer)
{
    if (!cache) {
        return tg_tape_fail(t, TG_ERROR_STATE, "block", "the cache is NULL");
    }
    int64_t before = cache->length;
    tg_tensor *y = forward(t, block, x, cache, layer);
    cache->length = y ? cache->length : before;
    return y;
}
