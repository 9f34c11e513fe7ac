/* lora (private): LoRA for the layers of a model. */
#ifndef TG_MODELS_LORA_H
#define TG_MODELS_LORA_H

#include <tapegrad/lora.h>

#include "nn/module.h"

/* Checks a config. `config` receives it, or the default. */
bool tg_lora_check_config(tg_params *params, const char *call, const tg_lora_config *given, tg_lora_config *config);

/* Adds LoRA to a layer that has none. After an error the params have what was added before; the layer is unchanged. */
bool tg_lora_add(tg_params *params, const char *call, tg_nn_linear *linear, const tg_lora_config *config);

/* Returns alpha / rank * B A + W as a new tensor, for tg_release; NULL with the error set. */
tg_tensor *tg_lora_new_merged(const char *call, const tg_nn_linear *linear, tg_error *error);

/* Checks the shapes, and that the tensors that a merge reads have values. */
bool tg_lora_check(const char *call, const tg_nn_linear *linear, tg_error *error);

/* Merges into the weight, and removes A and B. `memory` has tg_lora_scratch numbers. Cannot fail. */
uint64_t tg_lora_scratch(const tg_nn_linear *linear);
void tg_lora_merge(tg_params *params, tg_nn_linear *linear, double *memory);

/* Removes A and B from the params and from the layer. */
void tg_lora_remove(tg_params *params, tg_nn_linear *linear);

#endif
