/* gpt: GPT-2's language model, and text from it.
 *
 * The model is the course's GPTModel (Raschka, "Build a Large Language Model From Scratch", chapter 4), which is GPT-2
 * (Radford et al. 2019): token and learned position embeddings, dropout, pre-norm transformer blocks, a last layer
 * norm, a linear head. Parameters have the names, shapes and initial draws of the course's state dict:
 * "tok_emb.weight", "pos_emb.weight", "trf_blocks.0.att.W_query.weight", ..., "final_norm.scale", "out_head.weight";
 * so the same seed gives the same model.
 *
 *     tg_gpt_config config;
 *     tg_gpt_config_named("gpt2-small", &config);
 *     tg_gpt *model = tg_gpt_new(params, &config);
 *     tg_tensor *logits = tg_gpt_forward(tape, model, ids);                                     (B,T) -> (B,T,V)
 */
#ifndef TAPEGRAD_GPT_H
#define TAPEGRAD_GPT_H

#include <tapegrad/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_gpt_config {
    int64_t vocabulary;     /* V: tokens that have a row and a logit */
    int64_t context;        /* the longest sequence */
    int64_t width;          /* C, a multiple of heads */
    int64_t heads;          /* H */
    int64_t layers;         /* transformer blocks */
    double dropout;         /* of embeddings, attention weights and shortcuts, in training */
    tg_bias qkv_bias;       /* TG_NO_BIAS in the course, TG_BIAS in the published GPT-2 */
    bool tied_head;         /* the head's weight is the token table (GPT-2); otherwise one of its own (the course) */
    tg_attention_path path; /* TG_ATTENTION_FUSED unless for a comparison */
    tg_position
        position; /* TG_POSITION_LEARNED, as "pos_emb.weight"; relative kinds have "position" for all blocks, or,
                               Shaw's and Transformer-XL's, "trf_blocks.N.att.position" for each */
} tg_gpt_config;

/* "gpt2-small", "gpt2-medium", "gpt2-large" and "gpt2-xl" as in the course (V 50257, context 1024, dropout 0.1, no
 * bias, head untied), and "tiny", which a small machine trains in a minute (V 512, context 128, width 128, 4 heads, 4
 * layers, dropout 0, head tied). False for another name. */
TG_API bool tg_gpt_config_named(const char *name, tg_gpt_config *config);

/* The names, "gpt2-small" first; NULL ends the list. */
TG_API const char *const *tg_gpt_config_names(void);

typedef struct tg_gpt tg_gpt;

/* Adds the model's parameters to `params`, which must outlive it. Yours to free. NULL, with the error in the params,
 * when a size is below 1, heads do not divide the width, the dropout is outside of [0,1), or memory is out;
 * parameters that were added until then stay. */
TG_API tg_gpt *tg_gpt_new(tg_params *params, const tg_gpt_config *config);
TG_API void tg_gpt_free(tg_gpt *model); /* NULL is fine */

TG_API const tg_gpt_config *tg_gpt_config_of(const tg_gpt *model);
TG_API tg_dtype tg_gpt_dtype(const tg_gpt *model); /* its params' */

/* Another number of tokens: tg_embedding_resize of the token table, and the same of a head of its own, whose new rows
 * are drawn as a Linear's. All or nothing. */
TG_API bool tg_gpt_resize_vocabulary(tg_gpt *model, int64_t vocabulary, tg_error *error);

/* A longer context, for training to go on with: tg_positional_extend, where positions have a table. RANGE for a
 * shorter one. */
TG_API bool tg_gpt_extend_context(tg_gpt *model, int64_t context, tg_error *error);

/* ids (B,T) i32 -> logits (B,T,V). RANGE for an id outside of [0,V) or T above the context. */
TG_API tg_tensor *tg_gpt_forward(tg_tape *tape, const tg_gpt *model, tg_tensor *ids);

/* The two halves: what the last layer norm gives, (B,T) -> (B,T,C), and the head, (..,C) -> (..,V). With a cache the
 * ids are the positions that follow those in it, and recording must be off; NULL for none. SHAPE for a cache of other
 * sizes; a call that fails leaves the cache's length. */
TG_API tg_tensor *tg_gpt_features(tg_tape *tape, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache);
TG_API tg_tensor *tg_gpt_head(tg_tape *tape, const tg_gpt *model, tg_tensor *features);

/* ---- choosing the next token ------------------------------------------------------------------------------------- */

#define TG_NO_TOP_K (-1)

typedef struct tg_sampling_config {
    bool greedy;        /* the likeliest token, nothing is drawn: true. The lower id wins a tie */
    double temperature; /* divides the logits; above 0 and finite: 1 */
    int64_t top_k; /* only the k largest logits (ties with the k-th stay), 1 to V; TG_NO_TOP_K for all: the default */
    double top_p;  /* then only the likeliest tokens that together reach this probability, in (0,1]: 1 */
} tg_sampling_config;

TG_API tg_sampling_config tg_sampling_config_default(void);

/* logits (V) of f32 or f64 -> an id, drawn as torch.multinomial(softmax(logits / temperature), 1) draws it. Follows the
 * course's `generate` (top_k, then temperature) and Holtzman et al. 2020 (top_p). -1, with `error` set and nothing
 * drawn, when an option is out of its range, or a logit is NaN or inf, or all are -inf. `rng` may be NULL when
 * greedy. */
TG_API int32_t tg_sample(const tg_tensor *logits, const tg_sampling_config *config, tg_rng *rng, tg_error *error);

/* ---- text -------------------------------------------------------------------------------------------------------- */

typedef struct tg_generate_config {
    int64_t max_new_tokens; /* 50 */
    tg_sampling_config sampling;
    int32_t end_token; /* generation stops before this id; -1 for none: the default */
    bool use_cache;    /* the same tokens at a cost that does not grow with the square of the length: true */

    /* Called with each new token, to stream it; false stops. May be NULL. */
    bool (*on_token)(void *context, int32_t id);
    void *context;
} tg_generate_config;

TG_API tg_generate_config tg_generate_config_default(void);

/* Continues `prompt` (count >= 1 ids in [0,V), not more than the context) and writes the new ids to `ids`, which has
 * room for max_new_tokens. Returns how many, or -1 with the error in the tape. Once the sequence is longer than the
 * context the model sees its last `context` tokens, as in the course's generate_text_simple. Runs without recording
 * and in evaluation mode, and leaves both switches as they were; frees its results. Draws from the tape's generator
 * unless greedy. */
TG_API int64_t tg_gpt_generate(tg_tape *tape, const tg_gpt *model, const int32_t *prompt, int64_t count,
                               const tg_generate_config *config, int32_t *ids);

#ifdef __cplusplus
}
#endif

#endif
