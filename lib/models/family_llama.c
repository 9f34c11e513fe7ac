/* family_llama: Llama (Touvron et al. 2023; Llama 3.2), SmolLM2, which is one, and Mistral (Jiang et al. 2023), which
 * has windows, as transformers' LlamaForCausalLM and MistralForCausalLM. The tables serve the families after them,
 * too. */
#include "models/family.h"

const tg_setting tg_harmless_settings[] = {
    {"bos_token_id", TG_SETTING_TOKENS, .at = TG_SETTING_AT(begin_tokens)},
    {"eos_token_id", TG_SETTING_TOKENS, .at = TG_SETTING_AT(end_tokens)},
    {"pad_token_id", TG_SETTING_TOKENS, .at = TG_SETTING_AT(padding_tokens)},
    {"architectures", .kind = TG_SETTING_HARMLESS},
    {"model_type", .kind = TG_SETTING_HARMLESS},
    {"dtype", .kind = TG_SETTING_HARMLESS},
    {"torch_dtype", .kind = TG_SETTING_HARMLESS},
    {"transformers_version", .kind = TG_SETTING_HARMLESS},
    {"transformers.js_config", .kind = TG_SETTING_HARMLESS},
    {"_name_or_path", .kind = TG_SETTING_HARMLESS},
    {"_attn_implementation_autoset", .kind = TG_SETTING_HARMLESS},
    {"attn_implementation", .kind = TG_SETTING_HARMLESS},
    {"cache_implementation", .kind = TG_SETTING_HARMLESS},
    {"use_cache", .kind = TG_SETTING_HARMLESS},
    {"initializer_range", .kind = TG_SETTING_HARMLESS},
    {"pretraining_tp", .kind = TG_SETTING_HARMLESS},
    {"gradient_checkpointing", .kind = TG_SETTING_HARMLESS},
    {"output_attentions", .kind = TG_SETTING_HARMLESS},
    {"output_hidden_states", .kind = TG_SETTING_HARMLESS},
    {"return_dict", .kind = TG_SETTING_HARMLESS},
    {"return_dict_in_generate", .kind = TG_SETTING_HARMLESS},
    {"chunk_size_feed_forward", .kind = TG_SETTING_HARMLESS},
    {"id2label", .kind = TG_SETTING_HARMLESS},
    {"label2id", .kind = TG_SETTING_HARMLESS},
    {"problem_type", .kind = TG_SETTING_HARMLESS},
    {"task_specific_params", .kind = TG_SETTING_HARMLESS},
    {"is_decoder", .kind = TG_SETTING_HARMLESS},
    {"is_encoder_decoder", TG_SETTING_FIXED, .allowed = "false", .is_old = true},
    {"is_llama_config", .kind = TG_SETTING_HARMLESS},
    {"use_mrope", TG_SETTING_FIXED, .allowed = "false", .is_old = true},
    {"quantization_config", TG_SETTING_FIXED, .allowed = "null", .is_old = true},
    {.kind = TG_SETTING_END},
};

const tg_setting tg_llama_settings[] = {
    {"vocab_size", TG_SETTING_SIZE, .at = TG_SETTING_AT(vocabulary)},
    {"max_position_embeddings", TG_SETTING_SIZE, .at = TG_SETTING_AT(context)},
    {"hidden_size", TG_SETTING_SIZE, .at = TG_SETTING_AT(width)},
    {"intermediate_size", TG_SETTING_SIZE, .at = TG_SETTING_AT(hidden)},
    {"num_hidden_layers", TG_SETTING_SIZE, .at = TG_SETTING_AT(layers)},
    {"num_attention_heads", TG_SETTING_SIZE, .at = TG_SETTING_AT(heads)},
    {"num_key_value_heads", TG_SETTING_SIZE, .at = TG_SETTING_AT(key_heads)},
    {"head_dim", TG_SETTING_SIZE, .at = TG_SETTING_AT(head_width)},
    {"hidden_act", TG_SETTING_FIXED, .allowed = "\"silu\" \"swish\""},
    {"rms_norm_eps", TG_SETTING_NUMBER, .at = TG_SETTING_AT(eps)},
    {"tie_word_embeddings", TG_SETTING_SWITCH, .at = TG_SETTING_AT(tied_head)},
    {"attention_dropout", TG_SETTING_FIXED, .allowed = "0.0 0"},
    {"rope_parameters", TG_SETTING_ROPE, .at = TG_SETTING_AT(rope)},
    {"rope_theta", TG_SETTING_NUMBER, .at = TG_SETTING_AT(rope.theta), .is_old = true},
    {"rope_scaling", TG_SETTING_ROPE, .at = TG_SETTING_AT(rope), .is_old = true},
    {"rope_interleaved", TG_SETTING_FIXED, .allowed = "false", .is_old = true},
    {"partial_rotary_factor", TG_SETTING_FIXED, .allowed = "1.0 1", .is_old = true},
    {.kind = TG_SETTING_END},
};

const tg_weight_name tg_llama_names[] = {
    {"tok_emb", .file = "embed_tokens"},
    {"final_norm", .file = "norm"},
    {"out_head", .file = "lm_head"},
    {"norm1", .file = "input_layernorm"},
    {"norm2", .file = "post_attention_layernorm"},
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

/* ---- Llama ---- */

static const tg_setting of_llama[] = {
    {"attention_bias", TG_SETTING_SWITCH, .at = TG_SETTING_AT(attention_bias)},
    {"mlp_bias", TG_SETTING_SWITCH, .at = TG_SETTING_AT(feed_forward_bias)},
    {.kind = TG_SETTING_END},
};

/* those of LlamaConfig */
static const tg_settings llama = {.vocabulary = 32000,
                                  .context = 2048,
                                  .width = 4096,
                                  .hidden = 11008,
                                  .layers = 32,
                                  .heads = 32,
                                  .eps = 1e-6,
                                  .rope = {.theta = 10000}};

const tg_family tg_llama_family = {
    .name = "llama",
    .architecture = "LlamaForCausalLM",
    .base = "LlamaModel",
    .settings = tg_llama_settings,
    .more_settings = of_llama,
    .standard = &llama,
    .position = TG_POSITION_ROTARY,
    .norm = TG_NORM_RMS,
    .feed_forward = TG_FEED_FORWARD_SWIGLU,
    .has_out_bias = true,
    .prefix = "model.",
    .blocks = "layers",
    .names = tg_llama_names,
    .unused = ".rotary_emb.inv_freq",
};

/* ---- Mistral ---- */

static const tg_setting of_mistral[] = {
    {"sliding_window", TG_SETTING_SIZE, .at = TG_SETTING_AT(window)},
    {.kind = TG_SETTING_END},
};

/* those of MistralConfig */
static const tg_settings mistral = {.vocabulary = 32000,
                                    .context = 131072,
                                    .width = 4096,
                                    .hidden = 14336,
                                    .layers = 32,
                                    .heads = 32,
                                    .key_heads = 8,
                                    .eps = 1e-6,
                                    .has_window = true,
                                    .window = 4096,
                                    .rope = {.theta = 10000}};

const tg_family tg_mistral_family = {
    .name = "mistral",
    .architecture = "MistralForCausalLM",
    .base = "MistralModel",
    .settings = tg_llama_settings,
    .more_settings = of_mistral,
    .standard = &mistral,
    .position = TG_POSITION_ROTARY,
    .norm = TG_NORM_RMS,
    .feed_forward = TG_FEED_FORWARD_SWIGLU,
    .prefix = "model.",
    .blocks = "layers",
    .names = tg_llama_names,
    .unused = ".rotary_emb.inv_freq",
};
