/* lora: low-rank adaptation (Hu et al. 2022), to fine-tune a model with a few parameters. As in the package peft, a
 * Linear keeps its weight W (out,in), and two thin matrices are trained beside it:
 *
 *     y = x W^T + b + alpha / rank * (x A^T) B^T,     A (rank,in), B (out,rank)
 *
 * B begins with zeros, so the model begins with the results that it had. A and B are parameters like all others:
 * optimizers, checkpoints and tg_params_save have them, under peft's names. In a file for peft these have the prefix
 * "base_model.model.".
 *
 * ```c
 * tg_params_set_frozen(params, "*", true);
 * tg_lora_config lora = tg_lora_config_default();
 * lora.rank = 2;
 * lora.alpha = 4;
 * tg_nn_linear_add_lora(params, &linear, &lora);
 * tg_optim *optim = tg_adamw_new(params, NULL);
 * tg_params *adapter = tg_params_new_part(params, "*.lora_*");
 * tg_params_save(adapter, "adapter.safetensors", NULL, &error);
 * tg_optim_free(optim);
 * tg_params_free(adapter);
 * tg_nn_linear_merge_lora(params, &linear);
 * ```
 *
 * tapegrad/gpt.h has the calls for all layers of a GPT. tg_gpt_resize_vocabulary resizes the B of the head, too. After
 * a tg_tensor_resize_rows of a weight its B needs the same rows: until then forward, merge and save report SHAPE.
 */
#ifndef TAPEGRAD_LORA_H
#define TAPEGRAD_LORA_H

#include <tapegrad/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_lora_config {
    /* private: tg_lora_config_default() sets it */
    tg_config_mark mark;
    /* the number of rows of A and of columns of B, 1 to the larger of the layer's sizes; must be set. A rank above the
     * smaller size adds nothing, but lets one config fit all layers: the book has 16 for a head of 2 outputs */
    int64_t rank;
    /* the numerator of the scale alpha / rank, finite and above 0; must be set */
    double alpha;
} tg_lora_config;

TG_API tg_lora_config tg_lora_config_default(void);

/* Adds LoRA to a layer whose weight has the name "<name>.weight" in the params: "<name>.lora_A.weight", uniform in
 * +-1/sqrt(in) as a Linear's weight, and "<name>.lora_B.weight", zeros. Copies of the struct that were made before do
 * not have it. The weight is not frozen; tg_params_set_frozen does that. False, with the error in the run of the params
 * and nothing added or drawn: VALUE for an option out of bounds, a layer that has LoRA already, and a weight that the
 * params do not have under such a name; STATE for a layer that was not made, and without a generator; MEMORY. */
TG_API bool tg_nn_linear_add_lora(tg_params *params, tg_nn_linear *linear, const tg_lora_config *config);

/* Adds alpha / rank * B A to the weight, and removes A and B from the params, so the layer is as fast as without LoRA,
 * and computes the same: merge_and_unload(). An optimizer that was created before refuses its next step. Without LoRA
 * nothing changes. False, with the error in their run and nothing changed: STATE for a layer that was not made, for
 * tensors without values, and for params that do not have A and B; SHAPE if A and B do not fit the weight any more;
 * MEMORY. Copies of the struct that were made before refer to A and B, and must not be used. */
TG_API bool tg_nn_linear_merge_lora(tg_params *params, tg_nn_linear *linear);

#ifdef __cplusplus
}
#endif

#endif
