/* transformer: the layers of an encoder and of a decoder (Vaswani et al. 2017), as in torch.nn. Errors are those of
 * tapegrad/nn.h.
 *
 * ```c
 * tg_nn_transformer_encoder_layer layer = tg_nn_transformer_encoder_layer_make(params, "layers.0", 4, 2, NULL);
 * tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
 * // two sequences of at most two vectors: the second one has only one, and padding
 * config.lengths = tg_constant_i32(t, TG_SHAPE(2), (const int32_t[]){2, 1});
 * tg_tensor *vectors = tg_reshape(t, x, TG_SHAPE(2, 2, 4));
 * tg_tensor *encoded = tg_nn_transformer_encoder_layer_forward(t, &layer, vectors, &config); // (2,2,4)
 * ```
 */
#ifndef TAPEGRAD_TRANSFORMER_H
#define TAPEGRAD_TRANSFORMER_H

#include <tapegrad/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The activation between the two Linears of a layer: tg_relu or tg_gelu. */
typedef enum tg_activation { TG_ACTIVATION_RELU, TG_ACTIVATION_GELU } tg_activation;

typedef struct tg_nn_transformer_layer_config {
    /* private: tg_nn_transformer_layer_config_default() sets it */
    tg_config_mark mark;
    /* the number of channels between the two Linears: torch's dim_feedforward; default 2048 */
    int64_t hidden;
    /* the probability of dropout, in [0,1), for attention's weights, after the activation, and for the result of each
     * part before it is added to x; default 0.1 */
    double dropout;
    /* relu or gelu; default TG_ACTIVATION_RELU */
    tg_activation activation;
    /* whether each part normalizes its input, x + part(norm(x)), and not the sum, norm(x + part(x)) (Xiong et al.
     * 2020); default false */
    bool norm_first;
    /* what is added to the variance in the norms, > 0: torch's layer_norm_eps; default 1e-5 */
    double eps;
    /* whether the self-attention is causal; default false */
    bool is_causal;
    /* relative positions of the self-attention, as in tg_nn_multihead_attention_config; default NULL, none */
    const tg_nn_positional *positional;
    /* fused or elementary attention; default TG_ATTENTION_FUSED */
    tg_attention_path path;
} tg_nn_transformer_layer_config;

TG_API tg_nn_transformer_layer_config tg_nn_transformer_layer_config_default(void);

/* ---- TransformerEncoderLayer: torch.nn.TransformerEncoderLayer, batch_first -------------------------------------- */

typedef struct tg_nn_transformer_encoder_layer {
    tg_nn_module module;
    /* the parts, under torch's names */
    tg_nn_multihead_attention self_attn;
    tg_nn_linear linear1, linear2;
    tg_nn_layer_norm norm1, norm2;
    /* without the pointer to the positions, which self_attn has */
    tg_nn_transformer_layer_config config;
} tg_nn_transformer_encoder_layer;

/* Adds "<name>.self_attn", "<name>.linear1" (hidden,width), "<name>.linear2" (width,hidden), "<name>.norm1" and
 * "<name>.norm2", with torch's initial draws. */
TG_API tg_nn_transformer_encoder_layer tg_nn_transformer_encoder_layer_make(
    tg_params *params, const char *name, int64_t width, int64_t heads, const tg_nn_transformer_layer_config *config);

/* The parts of the layer are self-attention and linear2(activation(linear1(x))): x (B,T,width) -> (B,T,width). The
 * config goes to the attention. The draws of dropout are torch's. */
TG_API tg_tensor *tg_nn_transformer_encoder_layer_forward(tg_tape *tape, const tg_nn_transformer_encoder_layer *layer,
                                                          tg_tensor *x,
                                                          const tg_nn_multihead_attention_forward_config *config);

/* ---- TransformerDecoderLayer: torch.nn.TransformerDecoderLayer, batch_first -------------------------------------- */

typedef struct tg_nn_transformer_decoder_layer {
    tg_nn_module module;
    /* the parts, under torch's names */
    tg_nn_multihead_attention self_attn, multihead_attn;
    tg_nn_linear linear1, linear2;
    tg_nn_layer_norm norm1, norm2, norm3;
    /* as in tg_nn_transformer_encoder_layer */
    tg_nn_transformer_layer_config config;
} tg_nn_transformer_decoder_layer;

/* Adds the same as an encoder's layer, and "<name>.multihead_attn" after the self-attention, and "<name>.norm3". A
 * decoder that predicts the next token needs config.is_causal: torch takes a mask in each forward pass instead. */
TG_API tg_nn_transformer_decoder_layer tg_nn_transformer_decoder_layer_make(
    tg_params *params, const char *name, int64_t width, int64_t heads, const tg_nn_transformer_layer_config *config);

typedef struct tg_nn_transformer_decoder_layer_forward_config {
    /* private: tg_nn_transformer_decoder_layer_forward_config_default() sets it */
    tg_config_mark mark;
    /* the positions of x that exist, as in tg_nn_multihead_attention_forward_config: their number, (B) i32, or a mask,
     * (B,T) u8; default NULL, all */
    tg_tensor *lengths, *key_mask;
    /* the same for the memory: (B) i32, or (B,S) u8; default NULL, all */
    tg_tensor *memory_lengths, *memory_key_mask;
} tg_nn_transformer_decoder_layer_forward_config;

TG_API tg_nn_transformer_decoder_layer_forward_config tg_nn_transformer_decoder_layer_forward_config_default(void);

/* The parts of the layer are self-attention, attention to the memory (B,S,width), the result of the encoder, and
 * linear2(activation(linear1(x))): x (B,T,width) -> (B,T,width). The draws of dropout are torch's. */
TG_API tg_tensor *tg_nn_transformer_decoder_layer_forward(tg_tape *tape, const tg_nn_transformer_decoder_layer *layer,
                                                          tg_tensor *x, tg_tensor *memory,
                                                          const tg_nn_transformer_decoder_layer_forward_config *config);

#ifdef __cplusplus
}
#endif

#endif
