/* family_gemma: Gemma 3 without images (Gemma Team 2025), as transformers' Gemma3ForCausalLM: norms by 1 + weight,
 * before and after each half, vectors of tokens times sqrt(width), and layers with a window and a rotation of their
 * own. */
#include "models/family.h"

static const tg_setting of_gemma3[] = {
    {"attention_bias", TG_SETTING_SWITCH, .at = TG_SETTING_AT(attention_bias)},
    {"query_pre_attn_scalar", TG_SETTING_SIZE, .at = TG_SETTING_AT(query_scalar)},
    {"hidden_activation", TG_SETTING_FIXED, .allowed = "\"gelu_pytorch_tanh\""},
    {"hidden_act", TG_SETTING_FIXED, .allowed = "\"gelu_pytorch_tanh\"", .is_old = true},
    {"sliding_window", TG_SETTING_SIZE, .at = TG_SETTING_AT(window)},
    {"layer_types", .kind = TG_SETTING_TYPES},
    {"rope_parameters", TG_SETTING_ROPES, .at = TG_SETTING_AT(rope)},
    {"rope_local_base_freq", TG_SETTING_NUMBER, .at = TG_SETTING_AT(sliding_rope.theta), .is_old = true},
    {"sliding_window_pattern", TG_SETTING_SIZE, .at = TG_SETTING_AT(window_pattern), .is_old = true},
    {"_sliding_window_pattern", TG_SETTING_SIZE, .at = TG_SETTING_AT(window_pattern), .is_old = true},
    {"final_logit_softcapping", TG_SETTING_FIXED, .allowed = "null"},
    {"attn_logit_softcapping", TG_SETTING_FIXED, .allowed = "null"},
    {"use_bidirectional_attention", TG_SETTING_FIXED, .allowed = "false null"},
    {.kind = TG_SETTING_END},
};

/* those of Gemma3TextConfig */
static const tg_settings gemma3 = {.vocabulary = 262208,
                                   .context = 131072,
                                   .width = 2304,
                                   .hidden = 9216,
                                   .layers = 26,
                                   .heads = 8,
                                   .key_heads = 4,
                                   .head_width = 256,
                                   .eps = 1e-6,
                                   .tied_head = true,
                                   .query_scalar = 256,
                                   .has_window = true,
                                   .window = 4096,
                                   .window_pattern = 6,
                                   .rope = {.theta = 1000000},
                                   .sliding_rope = {.theta = 10000}};

static const tg_weight_name names[] = {
    {"tok_emb", .file = "embed_tokens"},
    {"final_norm", .file = "norm"},
    {"out_head", .file = "lm_head"},
    {"norm1", .file = "input_layernorm"},
    {"norm1_after", .file = "post_attention_layernorm"},
    {"norm2", .file = "pre_feedforward_layernorm"},
    {"norm2_after", .file = "post_feedforward_layernorm"},
    {"att.W_query", .file = "self_attn.q_proj"},
    {"att.W_key", .file = "self_attn.k_proj"},
    {"att.W_value", .file = "self_attn.v_proj"},
    {"att.out_proj", .file = "self_attn.o_proj"},
    {"att.q_norm", .file = "self_attn.q_norm"},
    {"att.k_norm", .file = "self_attn.k_norm"},
    {"ff.fc1", .file = "mlp.gate_proj"},
    {"ff.fc2", .file = "mlp.up_proj"},
    {"ff.fc3", .file = "mlp.down_proj"},
    {.own = NULL},
};

const tg_family tg_gemma3_family = {
    .name = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .base = "Gemma3TextModel",
    .settings = tg_llama_settings,
    .more_settings = of_gemma3,
    .standard = &gemma3,
    .position = TG_POSITION_ROTARY,
    .norm = TG_NORM_RMS_PLUS_ONE,
    .feed_forward = TG_FEED_FORWARD_GEGLU,
    .norm_after = true,
    .query_key_norm = true,
    .has_out_bias = true,
    .scales_embeddings = true,
    .prefix = "model.",
    .blocks = "layers",
    .names = names,
    .unused = ".rotary_emb.inv_freq",
};
