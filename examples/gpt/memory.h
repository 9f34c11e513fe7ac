/* memory: an estimate of the memory that training needs besides parameters, gradients and the optimizer. */
#ifndef MEMORY_H
#define MEMORY_H

#include <tapegrad.h>

/* Returns about how many floats per token the tape of a training step has, with config.activation_checkpointing or
 * without. */
double activation_floats(const tg_gpt_config *config);

/* Returns the floats that a step has besides the weights of a model: the gradients and the two moments of AdamW of the
 * `trained` ones, and the activations of `tokens` positions. With LoRA of a `rank`, `trained` has its values, which are
 * counted, too; without, the rank is 0. */
double training_floats(const tg_gpt_config *config, int64_t trained, int64_t rank, int64_t tokens);

/* Returns the floats of the keys and values of `tokens` positions. */
double cache_floats(const tg_gpt_config *config, int64_t tokens);

/* Writes a number of bytes in MB or GB. */
#define BYTES_TEXT 24
const char *bytes_text(double bytes, char text[BYTES_TEXT]);

#endif
