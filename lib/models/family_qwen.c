/* family_qwen: Qwen2 and 2.5 (Yang et al. 2024), whose queries, keys and values have biases, and Qwen3 (Yang et al.
 * 2025), which has norms of queries and keys instead, as transformers' Qwen2ForCausalLM and
 * Qwen3ForCausalLM. */
#include "models/family.h"

static const tg_setting of_qwen2[] = {
    {"use_sliding_window", TG_SETTING_SWITCH, .at = TG_SETTING_AT(has_window)},
    {"sliding_window", TG_SETTING_SIZE, .at = TG_SETTING_AT(window)},
    {"max_window_layers", TG_SETTING_SIZE, .at = TG_SETTING_AT(first_window_layer)},
    {"layer_types", .kind = TG_SETTING_TYPES},
    {.kind = TG_SETTING_END},
};

/* those of Qwen2Config */
static const tg_settings qwen2 = {.vocabulary = 151936,
                                  .context = 32768,
                                  .width = 4096,
                                  .hidden = 22016,
                                  .layers = 32,
                                  .heads = 32,
                                  .key_heads = 32,
                                  .eps = 1e-6,
                                  .attention_bias = true,
                                  .window = 4096,
                                  .first_window_layer = 28,
                                  .rope = {.theta = 10000}};

const tg_family tg_qwen2_family = {
    .name = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .base = "Qwen2Model",
    .settings = tg_llama_settings,
    .more_settings = of_qwen2,
    .standard = &qwen2,
    .position = TG_POSITION_ROTARY,
    .norm = TG_NORM_RMS,
    .feed_forward = TG_FEED_FORWARD_SWIGLU,
    .prefix = "model.",
    .blocks = "layers",
    .names = tg_llama_names,
    .unused = ".rotary_emb.inv_freq",
};

static const tg_setting of_qwen3[] = {
    {"attention_bias", TG_SETTING_SWITCH, .at = TG_SETTING_AT(attention_bias)},
    {"use_sliding_window", TG_SETTING_SWITCH, .at = TG_SETTING_AT(has_window)},
    {"sliding_window", TG_SETTING_SIZE, .at = TG_SETTING_AT(window)},
    {"max_window_layers", TG_SETTING_SIZE, .at = TG_SETTING_AT(first_window_layer)},
    {"layer_types", .kind = TG_SETTING_TYPES},
    {.kind = TG_SETTING_END},
};

/* those of Qwen3Config */
static const tg_settings qwen3 = {.vocabulary = 151936,
                                  .context = 32768,
                                  .width = 4096,
                                  .hidden = 22016,
                                  .layers = 32,
                                  .heads = 32,
                                  .key_heads = 32,
                                  .head_width = 128,
                                  .eps = 1e-6,
                                  .window = 4096,
                                  .first_window_layer = 28,
                                  .rope = {.theta = 10000}};

const tg_family tg_qwen3_family = {
    .name = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .base = "Qwen3Model",
    .settings = tg_llama_settings,
    .more_settings = of_qwen3,
    .standard = &qwen3,
    .position = TG_POSITION_ROTARY,
    .norm = TG_NORM_RMS,
    .feed_forward = TG_FEED_FORWARD_SWIGLU,
    .query_key_norm = true,
    .has_out_bias = true,
    .prefix = "model.",
    .blocks = "layers",
    .names = tg_llama_names,
    .unused = ".rotary_emb.inv_freq",
};
