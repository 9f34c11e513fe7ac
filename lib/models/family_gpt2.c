/* family_gpt2: GPT-2 (Radford et al. 2019) as transformers' GPT2LMHeadModel, whose names are OpenAI's: a linear
 * layer stores its weight as (in,out), and the queries, keys and values of a block are one layer. The course's names
 * are those of the params, and such files have no config.json. */
#include "models/family.h"

static const tg_setting settings[] = {
    {"vocab_size", TG_SETTING_SIZE, .at = TG_SETTING_AT(vocabulary)},
    {"n_positions", TG_SETTING_SIZE, .at = TG_SETTING_AT(context)},
    {"n_embd", TG_SETTING_SIZE, .at = TG_SETTING_AT(width)},
    {"n_layer", TG_SETTING_SIZE, .at = TG_SETTING_AT(layers)},
    {"n_head", TG_SETTING_SIZE, .at = TG_SETTING_AT(heads)},
    {"n_inner", TG_SETTING_SIZE, .at = TG_SETTING_AT(hidden)},
    {"layer_norm_epsilon", TG_SETTING_NUMBER, .at = TG_SETTING_AT(eps)},
    {"embd_pdrop", TG_SETTING_NUMBER, .at = TG_SETTING_AT(dropout[0])},
    {"attn_pdrop", TG_SETTING_NUMBER, .at = TG_SETTING_AT(dropout[1])},
    {"resid_pdrop", TG_SETTING_NUMBER, .at = TG_SETTING_AT(dropout[2])},
    {"tie_word_embeddings", TG_SETTING_SWITCH, .at = TG_SETTING_AT(tied_head)},
    {"activation_function", TG_SETTING_FIXED, .allowed = "\"gelu_new\" \"gelu_pytorch_tanh\""},
    {"scale_attn_weights", TG_SETTING_FIXED, .allowed = "true"},
    {"scale_attn_by_inverse_layer_idx", TG_SETTING_FIXED, .allowed = "false"},
    {"reorder_and_upcast_attn", .kind = TG_SETTING_HARMLESS},
    {"add_cross_attention", TG_SETTING_FIXED, .allowed = "false"},
    {"n_ctx", .kind = TG_SETTING_HARMLESS},
    {"summary_type", .kind = TG_SETTING_HARMLESS},
    {"summary_use_proj", .kind = TG_SETTING_HARMLESS},
    {"summary_activation", .kind = TG_SETTING_HARMLESS},
    {"summary_proj_to_labels", .kind = TG_SETTING_HARMLESS},
    {"summary_first_dropout", .kind = TG_SETTING_HARMLESS},
    {.kind = TG_SETTING_END},
};

/* those of GPT2Config */
static const tg_settings standard = {.vocabulary = 50257,
                                     .context = 1024,
                                     .width = 768,
                                     .layers = 12,
                                     .heads = 12,
                                     .eps = 1e-5,
                                     .dropout = {0.1, 0.1, 0.1},
                                     .tied_head = true,
                                     .attention_bias = true,
                                     .feed_forward_bias = true};

static const tg_weight_name names[] = {
    {"tok_emb", .file = "wte"},
    {"pos_emb", .file = "wpe"},
    {"final_norm", .file = "ln_f"},
    {"out_head", .file = "lm_head"},
    {"norm1", .file = "ln_1"},
    {"norm2", .file = "ln_2"},
    {"att.W_query", "attn.c_attn", 0, 3, .is_transposed = true},
    {"att.W_key", "attn.c_attn", 1, 3, .is_transposed = true},
    {"att.W_value", "attn.c_attn", 2, 3, .is_transposed = true},
    {"att.out_proj", "attn.c_proj", .is_transposed = true},
    {"ff.layers.0", "mlp.c_fc", .is_transposed = true},
    {"ff.layers.2", "mlp.c_proj", .is_transposed = true},
    {.own = NULL},
};

const tg_family tg_gpt2_family = {
    .name = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .base = "GPT2Model",
    .settings = settings,
    .standard = &standard,
    .position = TG_POSITION_LEARNED,
    .norm = TG_NORM_LAYER,
    .feed_forward = TG_FEED_FORWARD_GELU,
    .has_out_bias = true,
    .prefix = "transformer.",
    .blocks = "h",
    .names = names,
    .unused = ".attn.bias .attn.masked_bias",
};

const tg_family tg_course_family = {
    .name = "the course",
    .standard = &standard,
    .position = TG_POSITION_LEARNED,
    .norm = TG_NORM_LAYER,
    .feed_forward = TG_FEED_FORWARD_GELU,
    .has_out_bias = true,
    .prefix = "",
    .unused = ".att.mask",
};
