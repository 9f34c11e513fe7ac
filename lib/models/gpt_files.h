/* gpt_files (private): the weights of a GPT under the names of other programs, and the config.json of transformers. */
#ifndef TG_MODELS_GPT_FILES_H
#define TG_MODELS_GPT_FILES_H

#include <tapegrad/gpt.h>

/* ---- gpt_weights.c ---- */

/* Returns zeros for all weights of a model with parameters in `own`, under the names and in the shapes of a file, with
 * biases of the queries, keys and values, and with the head unless it is tied. NULL after an error. */
tg_params *tg_gpt_weights_new(const tg_params *own, const tg_gpt_config *config, tg_gpt_names names, const char *prefix,
                              tg_error *error);

/* Copies all weights to the params of a new model, or, if `from` is a model, from it to the params of
 * tg_gpt_weights_new, with its LoRA merged. Biases that the model does not have are left as they are. STATE for a
 * weight of the model without values. */
bool tg_gpt_weights_copy(const char *call, tg_params *weights, tg_params *own, const tg_gpt_config *config,
                         tg_gpt_names names, const char *prefix, const tg_gpt *from, tg_error *error);

/* ---- gpt_json.c ---- */

/* The settings of a config.json; a size that it does not have is -1. */
typedef struct tg_gpt_json {
    int64_t vocabulary, context, width, layers, heads, inner;
    double dropout[3];
    bool tied_head;
} tg_gpt_json;

/* Reads a config.json, with the defaults of transformers' GPT2Config for what it does not have. VALUE, with the name of
 * the setting, for what a tg_gpt cannot be. */
bool tg_gpt_json_read(const char *call, const char *path, tg_gpt_json *json, tg_error *error);

/* Writes the config.json of a model. `end_token` is -1 for none. */
bool tg_gpt_json_write(const char *call, const char *path, const tg_gpt_config *config, int32_t end_token,
                       tg_error *error);

#endif
