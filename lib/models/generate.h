/* generate (private): what the models of the library need of generation. */
#ifndef TG_MODELS_GENERATE_H
#define TG_MODELS_GENERATE_H

#include <tapegrad/generate.h>

#include "tensor/pool.h"

/* tg_sample with memory from a pool; NULL: from the allocator. */
int32_t tg_sample_with(tg_pool *pool, const tg_tensor *logits, tg_rng *rng, const tg_sample_config *config,
                       tg_error *error);

/* The mark of a tg_sample_config, which a tg_generate_config contains. */
extern const char tg_sample_config_mark[];

/* tg_generate with the name of the call in errors. */
bool tg_generate_as(tg_tape *t, const char *call, const tg_language_model *model, const int32_t *prompts,
                    const int64_t *counts, int64_t texts, int32_t *ids, int64_t *new_counts,
                    const tg_generate_config *config);

#endif
