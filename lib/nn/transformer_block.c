/* transformer_block: one layer of a transformer, with a norm before each half (Xiong et al. 2020; GPT-2), and maybe one
 * after it (Gemma 3).
 *
 *   x = x + dropout(norm1_after(attention(norm1(x))))
 *   x = x + dropout(norm2_after(feed_forward(norm2(x))))
 *
 * Residual sums, norms and GELU are ops of their own. One op for two of them would save a pass over the memory, but all
 * of them together take about 2 % of the kernels' time (tests/bench/README.md). The bias of a linear layer is written
 * into the product's output, and gradients pass through a sum without a copy.
 */
#include "nn/kv_cache.h"
#include "nn/module.h"
#include "tape/tape.h"

static const char mark[] = "tg_nn_transformer_block_config_default";

tg_nn_transformer_block_config tg_nn_transformer_block_config_default(void)
{
    tg_nn_transformer_block_config config = {.mark = mark,
                                             .norm = TG_NORM_LAYER,
                                             .eps = 1e-5,
                                             .feed_forward_bias = TG_BIAS_OF_KIND,
                                             .attention = tg_nn_multihead_attention_config_default()};
    config.attention.layout = TG_ATTENTION_SEPARATE;
    config.attention.bias = false;
    config.attention.is_causal = true;
    return config;
}

static tg_nn_norm make_block_norm(tg_params *params, const char *name, const char *part, int64_t width,
                                  tg_norm_kind kind, double eps)
{
    return tg_nn_norm_make(params, TG_MODULE_NAME(params, name, part), width, kind, eps);
}

tg_nn_transformer_block tg_nn_transformer_block_make(tg_params *params, const char *name, int64_t width, int64_t heads,
                                                     const tg_nn_transformer_block_config *given)
{
    static const char call[] = "nn_transformer_block_make";
    tg_nn_transformer_block none = {.module = {params, false}}, made;
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return none;
    }
    tg_nn_transformer_block_config config = given ? *given : tg_nn_transformer_block_config_default();
    if (!(config.dropout >= 0 && config.dropout <= 1)) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has dropout %g, outside [0,1]", call, name, config.dropout);
        return none;
    }
    int64_t hidden = config.hidden;
    if (width < 1) {
        tg_params_fail(params, TG_ERROR_SHAPE, "%s: '%s' has width %lld; it must be at least 1", call, name,
                       (long long)width);
        return none;
    }
    if (hidden == 0 && !tg_module_multiply(params, call, name, "width", width, 4, &hidden)) {
        return none;
    }
    made.dropout = config.dropout;
    const char *att = TG_MODULE_NAME(params, name, "att");
    made.attention = tg_nn_multihead_attention_make(params, att, width, width, heads, &config.attention);
    const char *ff = TG_MODULE_NAME(params, name, "ff");
    tg_nn_feed_forward_config feed_forward = tg_nn_feed_forward_config_default();
    feed_forward.bias = config.feed_forward_bias;
    made.feed_forward = tg_nn_feed_forward_make(params, ff, width, hidden, config.feed_forward, &feed_forward);
    tg_norm_kind after = config.norm_after ? config.norm : TG_NORM_NONE;
    made.norm1 = make_block_norm(params, name, "norm1", width, config.norm, config.eps);
    made.norm2 = make_block_norm(params, name, "norm2", width, config.norm, config.eps);
    made.norm1_after = make_block_norm(params, name, "norm1_after", width, after, config.eps);
    made.norm2_after = make_block_norm(params, name, "norm2_after", width, after, config.eps);
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

tg_tensor *tg_nn_transformer_block_forward(tg_tape *t, const tg_nn_transformer_block *block, tg_tensor *x,
                                           const tg_nn_multihead_attention_forward_config *config)
{
    if (!tg_module_is_ready(t, "nn_transformer_block_forward", block)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    int64_t pending = config ? tg_kv_cache_pending(config->cache, config->layer) : 0;
    tg_tensor *y = tg_nn_norm_forward(t, &block->norm1, x);
    y = tg_nn_multihead_attention_forward(t, &block->attention, y, config);
    y = tg_nn_norm_forward(t, &block->norm1_after, y);
    x = tg_add(t, tg_dropout(t, y, block->dropout), x);
    y = tg_nn_feed_forward_forward(t, &block->feed_forward, tg_nn_norm_forward(t, &block->norm2, x));
    y = tg_nn_norm_forward(t, &block->norm2_after, y);
    y = tg_add(t, tg_dropout(t, y, block->dropout), x);
    if (!y && config) {
        tg_kv_cache_set_pending(config->cache, config->layer, pending);
    }
    return tg_tape_end_module(t, &point, y);
}
