/* memory: an estimate of the memory that training needs besides parameters, gradients and the optimizer. */
#ifndef MEMORY_H
#define MEMORY_H

#include <tapegrad.h>

/* Returns about how many floats per token the tape of a training step has, with config.activation_checkpointing or
 * without. */
double activation_floats(const tg_gpt_config *config);

#endif
