/* gpt: GPT-2's language model, and text generation.
 *
 * The model is GPT-2 (Radford et al. 2019) as the book's GPTModel (Raschka, "Build a Large Language Model From
 * Scratch", chapter 4): token and learned position embeddings, dropout, pre-norm transformer blocks, a final layer norm
 * and a linear head. The parameters have the names, shapes and initial draws of the book's state dict:
 * "tok_emb.weight", "pos_emb.weight", "trf_blocks.0.att.W_query.weight", ..., "final_norm.scale", "out_head.weight".
 *
 * ```c
 * tg_gpt_config config;
 * tg_gpt_config_from_name("tiny", &config, &error);
 * tg_gpt *model = tg_gpt_new(params, &config);
 * tg_tensor *logits = tg_gpt_forward(t, model, ids, NULL);        // (B,T) -> (B,T,V)
 * ```
 */
#ifndef TAPEGRAD_GPT_H
#define TAPEGRAD_GPT_H

#include <tapegrad/io.h>
#include <tapegrad/lora.h>
#include <tapegrad/losses.h>
#include <tapegrad/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* The initial values of a model. */
typedef enum tg_gpt_init {
    /* the draws of its modules, as in the book: torch.nn's defaults. Tables are drawn from N(0,1), so a model with a
     * tied head starts at a loss far above ln V */
    TG_GPT_INIT_MODULES,
    /* GPT-2's (Radford et al. 2019, section 2.3), at a loss near ln V. After the draws of the modules, each matrix and
     * table is drawn again, in the order of the params: from N(0, 0.02), and the output projections of attention and of
     * the feed-forward network from N(0, 0.02 / sqrt(2 layers)). Biases are 0. A tied table is drawn once */
    TG_GPT_INIT_GPT2
} tg_gpt_init;

typedef struct tg_gpt_config {
    /* private: tg_gpt_config_default() sets it */
    tg_config_mark mark;
    /* V, the number of tokens; must be set */
    int64_t vocabulary;
    /* the length of the longest sequence; must be set */
    int64_t context;
    /* C, a multiple of heads; must be set */
    int64_t width;
    /* H, the number of heads; must be set */
    int64_t heads;
    /* the number of transformer blocks; must be set */
    int64_t layers;
    /* the probability of dropout of embeddings, attention weights and residual branches, in [0,1); default 0 */
    double dropout;
    /* whether queries, keys and values have biases, as in the published GPT-2, but not in the book; default false */
    bool qkv_bias;
    /* whether the token table is also the weight of the head, as in GPT-2; in the book the head has its own weight;
     * default false */
    bool tied_head;
    /* the kind of positions. Absolute kinds are "pos_emb". Rotary, ALiBi and T5 are "position", shared by all blocks.
     * Of the other relative kinds each block has its own, "trf_blocks.N.att.position". Default TG_POSITION_LEARNED */
    tg_position position;
    /* fused or elementary; default TG_ATTENTION_FUSED */
    tg_attention_path path;
    /* the initial values; default TG_GPT_INIT_MODULES */
    tg_gpt_init init;
    /* whether each block is a span of tg_activation_checkpoint_begin in training: a step then gives the same numbers
     * with less memory, and takes longer; default false */
    bool activation_checkpointing;
} tg_gpt_config;

TG_API tg_gpt_config tg_gpt_config_default(void);

/* Writes the configuration with this name to *config: "gpt2-small", "gpt2-medium", "gpt2-large" and "gpt2-xl" as in the
 * course (V 50257, context 1024, dropout 0.1, head not tied), and "tiny", which a small machine trains in a minute
 * (V 512, context 128, width 128, 4 heads, 4 layers, head tied, TG_GPT_INIT_GPT2). VALUE, with the list of names, for
 * an unknown name. */
TG_API bool tg_gpt_config_from_name(const char *name, tg_gpt_config *config, tg_error *error);

typedef struct tg_gpt tg_gpt;

/* Adds the parameters of a model to `params`, which must outlive it, and returns the model. Yours to free; the
 * parameters stay in the params. NULL, with the error in their run and nothing added or drawn: VALUE for an invalid
 * field, or a name that is in use; STATE if the params have no generator; MEMORY. */
TG_API tg_gpt *tg_gpt_new(tg_params *params, const tg_gpt_config *config);
TG_API void tg_gpt_free(tg_gpt *model);

/* Returns the model's config with the current vocabulary and context, borrowed from the model. */
TG_API const tg_gpt_config *tg_gpt_get_config(const tg_gpt *model);

/* Changes the number of tokens: tg_nn_embedding_resize of the token table. A head that is not tied is resized, too; its
 * new rows are drawn as those of a Linear. With LoRA on the head, the new rows of its B are zeros. Either all are
 * resized or none. Errors as for tg_nn_embedding_resize. */
TG_API bool tg_gpt_resize_vocabulary(tg_gpt *model, int64_t vocabulary);

/* Extends the context, to continue training on longer texts: tg_nn_positional_extend, with its errors. */
TG_API bool tg_gpt_extend_context(tg_gpt *model, int64_t context);

/* Returns the logits of the next token at each position: ids (B,T) i32 -> (B,T,V). The cache is optional. With one, the
 * ids continue the committed positions and are committed themselves if the pass succeeds; recording must be off
 * (STATE). RANGE, with the index, for an id outside of [0,V), and for positions beyond the context or the cache; SHAPE
 * for ids that are not i32 (B,T), and for a cache made for other sizes. */
TG_API tg_tensor *tg_gpt_forward(tg_tape *tape, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache);

/* Returns the logits at the last position alone: ids (B,T) -> (B,V), tg_gpt_forward(..)[:,-1,:] without the product for
 * the other positions. The cache is optional. Errors as for tg_gpt_forward. */
TG_API tg_tensor *tg_gpt_last_logits(tg_tape *tape, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache);

/* Returns what the head receives, the result of the last layer norm: ids (B,T) -> (B,T,C), as the last_hidden_state of
 * transformers' GPT2Model. So a program can put a head of its own on the model, or take the vectors as embeddings. The
 * cache is optional. Errors as for tg_gpt_forward. */
TG_API tg_tensor *tg_gpt_hidden_states(tg_tape *tape, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache);

/* Returns the loss of predicting the targets (B,T) i32 from the ids (B,T) i32: tg_cross_entropy of tg_gpt_forward, but
 * at most 2^23 logits exist at a time, or those of 64 positions (tg_linear_cross_entropy). A step of GPT-2 small with
 * 2 x 256 tokens takes 1.16 times as long as with logits, and 0.94 of the peak memory (tests/bench/run). Errors as for
 * the two. */
TG_API tg_tensor *tg_gpt_loss(tg_tape *tape, const tg_gpt *model, tg_tensor *ids, tg_tensor *targets,
                              const tg_cross_entropy_config *config);

/* ---- fine-tuning ------------------------------------------------------------------------------------------------- */

/* Replaces the head by a Linear with a bias of `outputs` outputs, drawn as in PyTorch: model.out_head =
 * torch.nn.Linear(C, outputs). "out_head.weight" is then (outputs,C), and "out_head.bias" is added; a tied head is tied
 * no longer. Logits are then (B,T,outputs). LoRA of the old head is removed. An optimizer that was created before
 * refuses its next step. SHAPE for fewer than 1 output; STATE if the params have no generator; MEMORY. */
TG_API bool tg_gpt_replace_head(tg_gpt *model, int64_t outputs);

/* Adds LoRA (tapegrad/lora.h) to all layers whose names match a pattern, as in tg_params_new_part, in the order of the
 * params. The layers are "trf_blocks.N.att.W_query", "W_key", "W_value" and "out_proj", "trf_blocks.N.ff.layers.0" and
 * "layers.2", and "out_head" unless it is tied. RANGE, with the pattern, if no layer matches; the errors of
 * tg_nn_linear_add_lora. Either all matching layers get it or none. */
TG_API bool tg_gpt_add_lora(tg_gpt *model, const char *pattern, const tg_lora_config *config);

/* Merges the LoRA of all layers into their weights, which tg_gpt_save does for the file that it writes. Errors as for
 * tg_nn_linear_merge_lora; then nothing has changed. */
TG_API bool tg_gpt_merge_lora(tg_gpt *model);

/* ---- files of other programs ------------------------------------------------------------------------------------- */

/* The names of the weights in a file. */
typedef enum tg_gpt_names {
    /* those of GPT2LMHeadModel and GPT2Model in Hugging Face's transformers, which are OpenAI's */
    TG_GPT_NAMES_TRANSFORMERS,
    /* those of the book's GPTModel, which are those of the params here */
    TG_GPT_NAMES_COURSE
} tg_gpt_names;

/* The heads of config.json. */
#define TG_HEADS_OF_FILE (-1)

typedef struct tg_gpt_open_config {
    /* private: tg_gpt_open_config_default() sets it */
    tg_config_mark mark;
    /* default TG_GPT_NAMES_TRANSFORMERS */
    tg_gpt_names names;
    /* the number of heads, which the tensors do not show. It must be that of config.json, if there is one. Default
     * TG_HEADS_OF_FILE; without a config.json this is the number of the published GPT-2 with the same width */
    int64_t heads;
} tg_gpt_open_config;

TG_API tg_gpt_open_config tg_gpt_open_config_default(void);

/* Opens a GPT-2 that another program has written: adds its parameters to `params` and returns the model, as tg_gpt_new
 * does: GPT2LMHeadModel.from_pretrained(path). `path` is a folder with model.safetensors or
 * model.safetensors.index.json, or such a file. F16 and BF16 are converted. The sizes are those of the tensors. A
 * config.json beside them gives the heads and the dropout; a setting that it lacks has the default of transformers'
 * GPT2Config. Without a config.json the dropout is 0.1. tg_tokenizer_open reads the vocabulary of the folder.
 *
 *     tg_gpt *model = tg_gpt_open(params, "gpt2", NULL);
 *     tg_tokenizer *tokenizer = tg_tokenizer_open("gpt2", NULL, &error);
 *
 * NULL, with the error in their run and nothing added or drawn. VALUE, with the name of the setting, for a model that
 * is not a tg_gpt: another model_type, activation_function, layer_norm_epsilon or n_inner, scaling by layers,
 * cross-attention, different probabilities of dropout. VALUE also for settings that disagree with the tensors, and for
 * missing and unknown tensors. FORMAT for an invalid file; SHAPE and DTYPE as for tg_params_load; the errors of
 * tg_gpt_new. */
TG_API tg_gpt *tg_gpt_open(tg_params *params, const char *path, const tg_gpt_open_config *config);

typedef struct tg_gpt_save_config {
    /* private: tg_gpt_save_config_default() sets it */
    tg_config_mark mark;
    /* default TG_SAVE_FLOATS_KEEP */
    tg_save_floats floats;
    /* the id of <|endoftext|>, which begins and ends texts in transformers; default -1, none */
    int32_t end_token;
} tg_gpt_save_config;

TG_API tg_gpt_save_config tg_gpt_save_config_default(void);

/* Writes model.safetensors and then config.json to a folder that exists: GPT2LMHeadModel.save_pretrained(folder). Each
 * is replaced as a whole, so after an error the first one may be the new one. A model without biases of queries, keys
 * and values gets zeros, and LoRA is merged in the file. VALUE for positions that are not learned, and for a head that
 * was replaced; SHAPE for a parameter that does not have the shape of the config any more (tg_tensor_resize_rows);
 * RANGE for end_token; the errors of tg_params_save. */
TG_API bool tg_gpt_save(const tg_gpt *model, const char *folder, const tg_gpt_save_config *config, tg_error *error);

/* ---- the next token ---------------------------------------------------------------------------------------------- */

/* The top_k that keeps all logits. */
#define TG_NO_TOP_K (-1)

typedef struct tg_sample_config {
    /* private: tg_sample_config_default() sets it */
    tg_config_mark mark;
    /* whether the most probable token is returned, without a draw; on ties the smaller id. Default true. The options
     * below need false; setting them together with true is an error */
    bool greedy;
    /* the divisor of the logits, above 0 and finite; default 1 */
    double temperature;
    /* the number of largest logits that are kept, 1 to V; those that tie with the last are kept, too; default
     * TG_NO_TOP_K, all */
    int64_t top_k;
    /* of the kept tokens, only the most probable ones are kept that together reach this probability, in (0,1]; default
     * 1, all */
    double top_p;
} tg_sample_config;

TG_API tg_sample_config tg_sample_config_default(void);

/* Returns the id of the next token of any language model, drawn as by torch.multinomial(softmax(logits / temperature),
 * 1) from logits (V) of f32 or f64. Follows the book's `generate` (top_k, then temperature) and Holtzman et al. 2020
 * (top_p). `rng` is optional if greedy. -1, and nothing drawn, after an error: SHAPE for other logits; VALUE if a logit
 * is NaN or inf, or if all are -inf; RANGE or VALUE for an option out of bounds; VALUE for an option that greedy would
 * ignore; STATE without a generator; MEMORY. */
TG_API int32_t tg_sample(const tg_tensor *logits, tg_rng *rng, const tg_sample_config *config, tg_error *error);

/* ---- text -------------------------------------------------------------------------------------------------------- */

typedef struct tg_gpt_generate_config {
    /* private: tg_gpt_generate_config_default() sets it */
    tg_config_mark mark;
    /* the largest number of new tokens, 0 or more; default 50 */
    int64_t max_new_tokens;
    /* the choice of each token; default tg_sample_config_default() */
    tg_sample_config sample;
    /* the id that ends the generation, and is not written; default -1, none */
    int32_t end_token;
    /* whether keys and values are kept for the next token: faster, with more memory; default true */
    bool use_cache;
    /* a function that is called with `context` and each new id; it returns false to end the generation; default NULL */
    bool (*on_token)(void *context, int32_t id);
    void *context;
} tg_gpt_generate_config;

TG_API tg_gpt_generate_config tg_gpt_generate_config_default(void);

/* Continues a prompt of `count` ids, at least 1 and at most the context. Writes the new ids to `ids`, an array of
 * max_new_tokens, and returns their number. A text that becomes longer than the context continues from its last
 * `context` tokens, as in the book's generate_text_simple; each further token then costs a whole pass. Recording and
 * training are off during the call, and restored after it. Draws from the generator of the tape's run unless greedy.
 *
 * -1 after an error: nothing is written, and the generator is as it was before, but on_token may have been called.
 * SHAPE for an empty prompt; RANGE for a longer prompt, and, with the index, for an id outside of [0,V); VALUE for an
 * invalid option; the errors of tg_gpt_forward and tg_sample. */
TG_API int64_t tg_gpt_generate(tg_tape *tape, const tg_gpt *model, const int32_t *prompt, int64_t count, int32_t *ids,
                               const tg_gpt_generate_config *config);

/* Continues several texts at a time, which is several times as fast as one after the other: each step reads the weights
 * once for all of them. `prompts` has the ids of the prompts one after the other, counts[i] of prompt i. Writes the new
 * ids of text i to row i of `ids`, (texts,max_new_tokens), and their number to new_counts[i]; the rest of a row stays.
 * Each text is one that tg_gpt_generate could have returned; their draws follow each other in each step. Prompts of
 * one length are the fastest: the tokens that a prompt has more than the shortest one go through the model one by one.
 *
 * false after an error: nothing is written, and the generator is as it was before. VALUE for a number of texts below 1,
 * and if on_token is set; the other errors of tg_gpt_generate. */
TG_API bool tg_gpt_generate_batch(tg_tape *tape, const tg_gpt *model, const int32_t *prompts, const int64_t *counts,
                                  int64_t texts, int32_t *ids, int64_t *new_counts,
                                  const tg_gpt_generate_config *config);

#ifdef __cplusplus
}
#endif

#endif
