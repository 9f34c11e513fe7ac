/* sequence: modules for sequences besides attention: recurrent layers and convolutions.
 *
 * The rules of tapegrad/nn.h hold for modules, and those of tapegrad/ops.h for ops. Recurrent layers read sequences
 * (B,T,C), like the rest of this library: torch's batch_first=True. Convolutions read (B,C,T), as in torch.
 *
 * This example writes a text letter by letter: it reads one letter, draws the next one (tg_sample in tapegrad/gpt.h),
 * and keeps its state across the reset of the tape.
 *
 * ```c
 * tg_nn_embedding letters = tg_nn_embedding_make(params, "letters", 27, 8, NULL);
 * tg_nn_gru gru = tg_nn_gru_make(params, "gru", 8, 16, NULL);
 * tg_nn_linear head = tg_nn_linear_make(params, "head", 16, 27, TG_BIAS);
 *
 * tg_nn_recurrent_forward_config before = tg_nn_recurrent_forward_config_default();
 * tg_evaluation evaluation = tg_evaluation_begin(t);
 * int32_t letter = 0;
 * for (int i = 0; i < 20; i++) {
 *     tg_tensor *state = NULL, *id = tg_tensor_new_from_i32(TG_SHAPE(1, 1), &letter, &error);
 *     tg_tensor *y = tg_nn_gru_forward(t, &gru, tg_nn_embedding_forward(t, &letters, id), &state, &before);
 *     tg_tensor *logits = tg_reshape(t, tg_nn_linear_forward(t, &head, y), TG_SHAPE(27));    // (1,1,27) -> (27)
 *     letter = tg_sample(logits, tg_run_rng(run), NULL, &error);
 *     tg_release(id);
 *     tg_release(before.state);
 *     before.state = tg_retain(state);    // without this the reset frees it
 *     tg_tape_reset(t);
 * }
 * tg_release(before.state);
 * tg_evaluation_end(t, evaluation);
 * ```
 */
#ifndef TAPEGRAD_SEQUENCE_H
#define TAPEGRAD_SEQUENCE_H

#include <tapegrad/conv.h>
#include <tapegrad/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- GRU and LSTM: torch.nn.GRU and torch.nn.LSTM ---------------------------------------------------------------- */

/* The largest number of layers. */
#define TG_NN_RECURRENT_LAYERS 8

typedef struct tg_nn_recurrent_config {
    /* private: tg_nn_recurrent_config_default() sets it */
    tg_config_mark mark;
    /* the number of layers, each of which reads the results of the one before; default 1 */
    int layers;
    /* whether there is a second direction, from the last position to the first; default false */
    bool bidirectional;
    /* default true */
    bool bias;
    /* the probability, in [0,1], that a result of a layer other than the last is dropped in training; the draws are
     * torch's for sequences that are not packed; default 0 */
    double dropout;
} tg_nn_recurrent_config;

TG_API tg_nn_recurrent_config tg_nn_recurrent_config_default(void);

/* The parameters of a layer in one direction, owned by the params. The rows of the gates are in torch's order: r, z, n
 * of a GRU (G = 3), and i, f, g, o of an LSTM (G = 4). */
typedef struct tg_nn_recurrent_layer {
    /* (G H,in) and (G H,H) */
    tg_tensor *weight_ih, *weight_hh;
    /* (G H), or NULL */
    tg_tensor *bias_ih, *bias_hh;
} tg_nn_recurrent_layer;

/* What a GRU and an LSTM share. */
typedef struct tg_nn_recurrent {
    tg_nn_module module;
    /* the sizes of an input and of a state */
    int64_t in, width;
    /* directions is 1 or 2 */
    int layers, directions;
    double dropout;
    /* of layer i and direction d: layer[i * directions + d] */
    tg_nn_recurrent_layer layer[2 * TG_NN_RECURRENT_LAYERS];
} tg_nn_recurrent;

typedef struct tg_nn_gru {
    tg_nn_module module;
    /* its layers */
    tg_nn_recurrent recurrent;
} tg_nn_gru;

typedef struct tg_nn_lstm {
    tg_nn_module module;
    /* its layers */
    tg_nn_recurrent recurrent;
} tg_nn_lstm;

/* Add "<name>.weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", with "_reverse" behind them for the second
 * direction, and so on for each layer, all uniform in +-1/sqrt(width). VALUE for sizes below 1, too many layers, and a
 * dropout outside of [0,1]. */
TG_API tg_nn_gru tg_nn_gru_make(tg_params *params, const char *name, int64_t in, int64_t width,
                                const tg_nn_recurrent_config *config);
TG_API tg_nn_lstm tg_nn_lstm_make(tg_params *params, const char *name, int64_t in, int64_t width,
                                  const tg_nn_recurrent_config *config);

typedef struct tg_nn_recurrent_forward_config {
    /* private: tg_nn_recurrent_forward_config_default() sets it */
    tg_config_mark mark;
    /* the states before the first position (layers directions,B,H), and the cells of an LSTM, which must be NULL for a
     * GRU (VALUE); default NULL, zeros */
    tg_tensor *state, *cell;
    /* u8 (B,T), with 0 at the positions after the end of a sequence. These change no state and give zeros, as with
     * torch's pack_padded_sequence. Default NULL, no such positions */
    tg_tensor *mask;
} tg_nn_recurrent_forward_config;

TG_API tg_nn_recurrent_forward_config tg_nn_recurrent_forward_config_default(void);

/* The states of the last layer at each position: x (B,T,in) -> (B,T,directions H). Writes the final states of all
 * layers and directions (layers directions,B,H), and the final cells of an LSTM, to *state and *cell, which are
 * optional. */
TG_API tg_tensor *tg_nn_gru_forward(tg_tape *tape, const tg_nn_gru *gru, tg_tensor *x, tg_tensor **state,
                                    const tg_nn_recurrent_forward_config *config);
TG_API tg_tensor *tg_nn_lstm_forward(tg_tape *tape, const tg_nn_lstm *lstm, tg_tensor *x, tg_tensor **state,
                                     tg_tensor **cell, const tg_nn_recurrent_forward_config *config);

/* ---- convolution: torch.nn.Conv1d -------------------------------------------------------------------------------- */

typedef struct tg_nn_conv1d_config {
    /* private: tg_nn_conv1d_config_default() sets it */
    tg_config_mark mark;
    /* stride, padding, dilation and groups; default tg_conv1d_config_default() */
    tg_conv1d_config conv;
    /* default true */
    bool bias;
} tg_nn_conv1d_config;

typedef struct tg_nn_conv1d {
    tg_nn_module module;
    /* (out,in/groups,kernel), and (out) or NULL; owned by the params */
    tg_tensor *weight, *bias;
    tg_conv1d_config conv;
} tg_nn_conv1d;

TG_API tg_nn_conv1d_config tg_nn_conv1d_config_default(void);

/* Adds "<name>.weight" (out,in/groups,kernel) and "<name>.bias" (out), both uniform in +-1/sqrt(in / groups * kernel):
 * torch.nn.Conv1d. SHAPE for sizes below 1, and unless `in` and `out` are multiples of groups. */
TG_API tg_nn_conv1d tg_nn_conv1d_make(tg_params *params, const char *name, int64_t in, int64_t out, int64_t kernel,
                                      const tg_nn_conv1d_config *config);

/* tg_conv1d: x (B,in,T) -> (B,out,T'). */
TG_API tg_tensor *tg_nn_conv1d_forward(tg_tape *tape, const tg_nn_conv1d *conv, tg_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
