/* calls: short forms for calls whose options are in a config. */
#ifndef TG_TESTS_OPS_CALLS_H
#define TG_TESTS_OPS_CALLS_H

#include <tapegrad.h>

/* Backward from a gradient of the result. */
static inline bool backward_from(tg_tape *tape, tg_tensor *result, const tg_tensor *gradient)
{
    tg_backward_config config = tg_backward_config_default();
    config.gradient = gradient;
    return tg_backward(tape, result, &config);
}

static inline tg_scaled_dot_product_attention_config attention_config(bool is_causal, double dropout, tg_tensor *bias)
{
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = is_causal;
    config.dropout = dropout;
    config.bias = bias;
    return config;
}

/* Attention along a path: TG_ATTENTION_FUSED or TG_ATTENTION_ELEMENTARY. */
static inline tg_tensor *attend(tg_attention_path path, tg_tape *tape, tg_tensor *queries, tg_tensor *keys,
                                tg_tensor *values, tg_scaled_dot_product_attention_config config)
{
    config.path = path;
    return tg_scaled_dot_product_attention(tape, queries, keys, values, &config);
}

static inline tg_tensor *embed(tg_tape *tape, tg_tensor *ids, tg_tensor *table, int64_t padding_index,
                               bool scale_by_frequency)
{
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = padding_index;
    config.scale_by_frequency = scale_by_frequency;
    return tg_embedding(tape, ids, table, &config);
}

static inline tg_tensor *embed_bags(tg_tape *tape, tg_tensor *ids, tg_tensor *table, tg_bag_mode mode,
                                    int64_t padding_index, tg_tensor *offsets, tg_tensor *weights)
{
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.mode = mode;
    config.padding_index = padding_index;
    config.offsets = offsets;
    config.weights = weights;
    return tg_embedding_bag(tape, ids, table, &config);
}

static inline tg_cross_entropy_config loss_config(int32_t ignore_index, double label_smoothing, tg_reduction reduction)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.ignore_index = ignore_index;
    config.label_smoothing = label_smoothing;
    config.reduction = reduction;
    return config;
}

static inline tg_tensor *cross_entropy(tg_tape *tape, tg_tensor *logits, tg_tensor *targets,
                                       tg_cross_entropy_config config)
{
    return tg_cross_entropy(tape, logits, targets, &config);
}

static inline tg_tensor *nll_loss(tg_tape *tape, tg_tensor *log_probs, tg_tensor *targets, int32_t ignore_index,
                                  tg_reduction reduction)
{
    tg_cross_entropy_config config = loss_config(ignore_index, 0, reduction);
    return tg_nll_loss(tape, log_probs, targets, &config);
}

#endif
