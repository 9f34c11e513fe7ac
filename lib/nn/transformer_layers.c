/* transformer_layers: the layers of an encoder and of a decoder (Vaswani et al. 2017).
 *
 *   norm_first = false    x = norm(x + dropout(part(x)))
 *   norm_first = true     x = x + dropout(part(norm(x)))      Xiong et al. 2020
 *
 * The parts of an encoder's layer are self-attention and linear2(dropout(activation(linear1(x)))). A decoder's layer
 * has attention to the encoder's result between them.
 */
#include <tapegrad/transformer.h>

#include "nn/module.h"
#include "tape/tape.h"

TG_CONFIG(tg_nn_transformer_layer_config, tg_nn_transformer_layer_config_default, mark, .mark = mark, .hidden = 2048,
          .dropout = 0.1, .eps = 1e-5, .path = TG_ATTENTION_FUSED);

TG_CONFIG(tg_nn_transformer_decoder_layer_forward_config, tg_nn_transformer_decoder_layer_forward_config_default,
          decoder_mark, .mark = decoder_mark);

/* ---- make ---- */

static bool check_transformer_layer(tg_params *params, const char *call, const char *name,
                                    const tg_nn_transformer_layer_config *config)
{
    if ((unsigned)config->activation > TG_ACTIVATION_GELU) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: '%s' has activation %d, which does not exist; it must be 0 (relu) or 1 (gelu)", call,
                              name, (int)config->activation);
    }
    return (config->dropout >= 0 && config->dropout < 1) ||
           tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has dropout %g, outside [0,1)", call, name,
                          config->dropout);
}

static tg_nn_multihead_attention make_attention(tg_params *params, const char *name, const char *part, int64_t width,
                                                int64_t heads, const tg_nn_transformer_layer_config *layer,
                                                bool is_self)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.dropout = layer->dropout;
    config.path = layer->path;
    config.is_causal = is_self && layer->is_causal;
    config.positional = is_self ? layer->positional : NULL;
    return tg_nn_multihead_attention_make(params, TG_MODULE_NAME(params, name, part), width, width, heads, &config);
}

static tg_nn_linear make_linear(tg_params *params, const char *name, const char *part, int64_t in, int64_t out)
{
    return tg_nn_linear_make(params, TG_MODULE_NAME(params, name, part), in, out, TG_BIAS);
}

static tg_nn_layer_norm make_norm(tg_params *params, const char *name, const char *part, int64_t width, double eps)
{
    tg_nn_layer_norm_config config = tg_nn_layer_norm_config_default();
    config.eps = eps;
    return tg_nn_layer_norm_make(params, TG_MODULE_NAME(params, name, part), width, &config);
}

/* Begins a layer, and writes the config that holds for it. */
static bool begin_transformer_layer(tg_params *params, const char *call, const char *name,
                                    const tg_nn_transformer_layer_config *given, tg_nn_transformer_layer_config *config,
                                    tg_params_point *point)
{
    if (!tg_module_begin(params, call, name, given, mark, point)) {
        return false;
    }
    *config = given ? *given : tg_nn_transformer_layer_config_default();
    return check_transformer_layer(params, call, name, config);
}

tg_nn_transformer_encoder_layer tg_nn_transformer_encoder_layer_make(tg_params *params, const char *name, int64_t width,
                                                                     int64_t heads,
                                                                     const tg_nn_transformer_layer_config *given)
{
    tg_nn_transformer_encoder_layer none = {.module = {params, false}}, made = none;
    tg_params_point point;
    if (!begin_transformer_layer(params, "nn_transformer_encoder_layer_make", name, given, &made.config, &point)) {
        return none;
    }
    const tg_nn_transformer_layer_config config = made.config;
    made.self_attn = make_attention(params, name, "self_attn", width, heads, &config, true);
    made.linear1 = make_linear(params, name, "linear1", width, config.hidden);
    made.linear2 = make_linear(params, name, "linear2", config.hidden, width);
    made.norm1 = make_norm(params, name, "norm1", width, config.eps);
    made.norm2 = make_norm(params, name, "norm2", width, config.eps);
    made.config.positional = NULL; /* self_attn has a copy */
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

tg_nn_transformer_decoder_layer tg_nn_transformer_decoder_layer_make(tg_params *params, const char *name, int64_t width,
                                                                     int64_t heads,
                                                                     const tg_nn_transformer_layer_config *given)
{
    tg_nn_transformer_decoder_layer none = {.module = {params, false}}, made = none;
    tg_params_point point;
    if (!begin_transformer_layer(params, "nn_transformer_decoder_layer_make", name, given, &made.config, &point)) {
        return none;
    }
    const tg_nn_transformer_layer_config config = made.config;
    made.self_attn = make_attention(params, name, "self_attn", width, heads, &config, true);
    made.multihead_attn = make_attention(params, name, "multihead_attn", width, heads, &config, false);
    made.linear1 = make_linear(params, name, "linear1", width, config.hidden);
    made.linear2 = make_linear(params, name, "linear2", config.hidden, width);
    made.norm1 = make_norm(params, name, "norm1", width, config.eps);
    made.norm2 = make_norm(params, name, "norm2", width, config.eps);
    made.norm3 = make_norm(params, name, "norm3", width, config.eps);
    made.config.positional = NULL; /* self_attn has a copy */
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

/* ---- forward ---- */

/* Returns the input of a part. */
static tg_tensor *begin_part(tg_tape *t, const tg_nn_transformer_layer_config *config, const tg_nn_layer_norm *norm,
                             tg_tensor *x)
{
    return config->norm_first ? tg_nn_layer_norm_forward(t, norm, x) : x;
}

/* Adds the result of a part to x. */
static tg_tensor *end_part(tg_tape *t, const tg_nn_transformer_layer_config *config, const tg_nn_layer_norm *norm,
                           tg_tensor *x, tg_tensor *part)
{
    x = tg_add(t, x, tg_dropout(t, part, config->dropout));
    return config->norm_first ? x : tg_nn_layer_norm_forward(t, norm, x);
}

/* torch.nn.MultiheadAttention computes a result (T,B,C) and returns it as (B,T,C). Dropout draws in the order of the
 * memory, so the result gets this order before it. */
static tg_tensor *in_order_of_torch(tg_tape *t, tg_tensor *x, double dropout)
{
    if (!x || dropout == 0 || !tg_tape_is_training(t)) {
        return x;
    }
    return tg_transpose(t, tg_contiguous(t, tg_transpose(t, x, 0, 1)), 0, 1);
}

static tg_tensor *attention_part(tg_tape *t, const tg_nn_transformer_layer_config *config,
                                 const tg_nn_multihead_attention *attention, const tg_nn_layer_norm *norm, tg_tensor *x,
                                 const tg_nn_multihead_attention_forward_config *forward)
{
    tg_tensor *y = tg_nn_multihead_attention_forward(t, attention, begin_part(t, config, norm, x), forward);
    return end_part(t, config, norm, x, in_order_of_torch(t, y, config->dropout));
}

static tg_tensor *linear_part(tg_tape *t, const tg_nn_transformer_layer_config *config, const tg_nn_linear *linear1,
                              const tg_nn_linear *linear2, const tg_nn_layer_norm *norm, tg_tensor *x)
{
    tg_tensor *hidden = tg_nn_linear_forward(t, linear1, begin_part(t, config, norm, x));
    hidden = config->activation == TG_ACTIVATION_RELU ? tg_relu(t, hidden) : tg_gelu(t, hidden);
    tg_tensor *y = tg_nn_linear_forward(t, linear2, tg_dropout(t, hidden, config->dropout));
    return end_part(t, config, norm, x, y);
}

tg_tensor *tg_nn_transformer_encoder_layer_forward(tg_tape *t, const tg_nn_transformer_encoder_layer *layer,
                                                   tg_tensor *x, const tg_nn_multihead_attention_forward_config *config)
{
    static const char call[] = "nn_transformer_encoder_layer_forward";
    if (!tg_module_is_ready(t, call, layer) || !tg_tape_expect_input(t, call, "x", x)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, layer->config.dropout > 0, &point);
    x = attention_part(t, &layer->config, &layer->self_attn, &layer->norm1, x, config);
    x = x ? linear_part(t, &layer->config, &layer->linear1, &layer->linear2, &layer->norm2, x) : NULL;
    return tg_tape_end_module(t, &point, x);
}

tg_tensor *tg_nn_transformer_decoder_layer_forward(tg_tape *t, const tg_nn_transformer_decoder_layer *layer,
                                                   tg_tensor *x, tg_tensor *memory,
                                                   const tg_nn_transformer_decoder_layer_forward_config *given)
{
    static const char call[] = "nn_transformer_decoder_layer_forward";
    if (!tg_module_is_ready(t, call, layer) || !tg_tape_expect_config(t, call, given, decoder_mark) ||
        !tg_tape_expect_input(t, call, "x", x) || !tg_tape_expect_input(t, call, "memory", memory)) {
        return NULL;
    }
    tg_nn_multihead_attention_forward_config own = tg_nn_multihead_attention_forward_config_default(), cross = own;
    own.lengths = given ? given->lengths : NULL;
    own.key_mask = given ? given->key_mask : NULL;
    cross.lengths = given ? given->memory_lengths : NULL;
    cross.key_mask = given ? given->memory_key_mask : NULL;
    cross.key = memory;
    tg_tape_point point;
    tg_tape_save_point(t, layer->config.dropout > 0, &point);
    x = attention_part(t, &layer->config, &layer->self_attn, &layer->norm1, x, &own);
    x = x ? attention_part(t, &layer->config, &layer->multihead_attn, &layer->norm2, x, &cross) : NULL;
    x = x ? linear_part(t, &layer->config, &layer->linear1, &layer->linear2, &layer->norm3, x) : NULL;
    return tg_tape_end_module(t, &point, x);
}
