/* gpt (private): a model, and the functions of it that generation and files call. */
#ifndef TG_MODELS_GPT_H
#define TG_MODELS_GPT_H

#include <tapegrad/gpt.h>

#include "tensor/pool.h"

struct tg_gpt {
    tg_params *params;
    tg_gpt_config config;
    tg_nn_embedding tok_emb;
    tg_nn_positional pos_emb; /* absolute positions, or relative ones that all blocks share; else not made */
    tg_nn_norm final_norm;
    tg_nn_linear out_head;
    bool has_own_head; /* whether tg_gpt_replace_head has made the head */
    tg_nn_transformer_block blocks[];
};

/* Returns the layer of the head, or of the blocks, whose weight is `weight`; NULL for another tensor. */
const tg_nn_linear *tg_gpt_layer_of(const tg_gpt *model, const tg_tensor *weight);

tg_dtype tg_gpt_dtype(const tg_gpt *model);
tg_params *tg_gpt_params(const tg_gpt *model);

/* tg_sample with memory from a pool; NULL: from the allocator. */
int32_t tg_sample_with(tg_pool *pool, const tg_tensor *logits, tg_rng *rng, const tg_sample_config *config,
                       tg_error *error);

/* The mark of a tg_sample_config, which a tg_gpt_generate_config contains. */
extern const char tg_sample_config_mark[];

#endif
