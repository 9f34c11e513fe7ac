/* gpt (private): a model, and the functions of it that files call. */
#ifndef TG_MODELS_GPT_H
#define TG_MODELS_GPT_H

#include <tapegrad/gpt.h>

#include "params/params.h"

/* Ids of special tokens. */
typedef struct tg_special_ids {
    int64_t count;
    int32_t ids[8];
} tg_special_ids;

struct tg_gpt {
    tg_params *params;
    tg_gpt_config config; /* complete (tg_gpt_config_complete) */
    /* of a model that was opened: the model_type of its config.json, or NULL, and its special tokens */
    const char *family;
    tg_special_ids begin_tokens, end_tokens, padding_tokens;
    tg_nn_embedding tok_emb;
    tg_nn_positional pos_emb; /* absolute positions, or relative ones that all blocks share; else not made */
    tg_nn_norm final_norm;
    tg_nn_linear out_head;
    bool has_own_head; /* whether tg_gpt_replace_head has made the head */
    tg_nn_transformer_block blocks[];
};

/* ---- gpt_config.c ---- */

extern const char tg_gpt_config_mark[];

/* The size of the text of a problem. */
#define TG_GPT_PROBLEM 200

/* Sets the sizes of a config that are 0 for those that they stand for. Returns false for a setting that is out of
 * bounds, or for settings that contradict each other, and writes why to `problem`. */
bool tg_gpt_config_complete(tg_gpt_config *config, char problem[TG_GPT_PROBLEM]);

/* ---- gpt_parts.c ---- */

/* A part of a model that has a weight. */
typedef struct tg_gpt_part {
    char name[64];  /* such as "trf_blocks.0.att.W_query" */
    tg_shape shape; /* that of its weight */
    bool is_norm;   /* its weight is ".scale" and its bias ".shift", not ".weight" and ".bias" */
    bool has_bias;  /* (rows) */
    int64_t block;  /* the number of its block, or -1 */
    size_t layer;   /* private: the offset of its Linear in the block; 0 without one */
    int64_t next;   /* private: where the search for the next one begins */
} tg_gpt_part;

/* Finds the next part of a model with a complete config, in the order of the params. Begin with {.next = 0}. Returns
 * false after the last one. */
bool tg_gpt_next_part(const tg_gpt_config *config, tg_gpt_part *part);

/* Returns the Linear of a part of a block, or of the head; NULL for other parts. */
tg_nn_linear *tg_gpt_layer_of(tg_gpt *model, const tg_gpt_part *part);

/* Finds the next part that is a Linear. A tied head is none. */
bool tg_gpt_next_layer(tg_gpt *model, tg_gpt_part *part, tg_nn_linear **layer);

/* ---- gpt_fine_tune.c ---- */

/* Returns the params of a model to a point (tg_params_return_to), and its layers forget the LoRA that is removed. */
void tg_gpt_return_to(tg_gpt *model, const tg_params_point *point);

/* ---- the model ---- */

tg_dtype tg_gpt_dtype(const tg_gpt *model);
tg_params *tg_gpt_params(const tg_gpt *model);

/* tg_gpt_new_cache with an error of the caller. */
tg_kv_cache *tg_gpt_make_cache(const tg_gpt *model, int64_t batch, int64_t positions, tg_error *error);

#endif
