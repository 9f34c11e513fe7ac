/* gpt (private): the functions of a model that generation and files call. */
#ifndef TG_NN_GPT_H
#define TG_NN_GPT_H

#include <tapegrad/gpt.h>

#include "tensor/pool.h"

/* Returns the logits (V) of the token after ids (1,T). With a cache (optional) the ids continue the committed
 * positions, and are committed themselves. */
tg_tensor *tg_gpt_next_logits(tg_tape *tape, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache);

tg_dtype tg_gpt_dtype(const tg_gpt *model);
tg_params *tg_gpt_params(const tg_gpt *model);

/* tg_sample with memory from a pool; NULL: from the allocator. */
int32_t tg_sample_with(tg_pool *pool, const tg_tensor *logits, tg_rng *rng, const tg_sample_config *config,
                       tg_error *error);

/* The mark of a tg_sample_config, which a tg_gpt_generate_config contains. */
extern const char tg_sample_config_mark[];

#endif
