/* gpt: the decoder of language models, and text generation with it.
 *
 * By default the model is GPT-2 (Radford et al. 2019) as the book's GPTModel (Raschka, "Build a Large Language Model
 * From Scratch", chapter 4): token and learned position embeddings, dropout, pre-norm transformer blocks, a final layer
 * norm and a linear head. The parameters have the names, shapes and initial draws of the book's state dict:
 * "tok_emb.weight", "pos_emb.weight", "trf_blocks.0.att.W_query.weight", ..., "final_norm.scale", "out_head.weight".
 * Other settings make it a Llama, Qwen2, Qwen3 or Gemma 3; tg_gpt_open reads and tg_gpt_save writes their published
 * folders (lib/models/README.md).
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

#include <tapegrad/generate.h>
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

/* A kind of layers. */
typedef struct tg_gpt_layer {
    /* the number of last keys that a query sees, itself included: sliding_window in transformers; default 0, all */
    int64_t window;
    /* TG_POSITION_ROTARY: the rotation of queries and keys; default tg_rotary_config_default() */
    tg_rotary_config rotary;
} tg_gpt_layer;

/* The most kinds of layers that a model repeats. */
#define TG_GPT_PERIOD 16

typedef struct tg_gpt_config {
    /* private: tg_gpt_config_default() sets it */
    tg_config_mark mark;
    /* V, the number of tokens; must be set */
    int64_t vocabulary;
    /* the length of the longest sequence; must be set */
    int64_t context;
    /* C; a multiple of heads unless head_width is set; must be set */
    int64_t width;
    /* H, the number of heads; must be set */
    int64_t heads;
    /* the number of transformer blocks; must be set */
    int64_t layers;
    /* the probability of dropout of embeddings, attention weights and residual branches, in [0,1); default 0 */
    double dropout;
    /* the number of heads of keys and values, a divisor of heads: grouped queries, Ainslie et al. 2023; default 0, that
     * of heads */
    int64_t key_heads;
    /* D, the width of a head; default 0, width / heads */
    int64_t head_width;
    /* the hidden width of the feed-forward networks; default 0, 4 width */
    int64_t hidden;
    /* the kind of all norms and what they add to a variance or a mean square; default TG_NORM_LAYER and 1e-5 */
    tg_norm_kind norm;
    double eps;
    /* whether each half of a block has a norm after it, too, before the residual sum: Gemma 3; default false */
    bool norm_after;
    /* whether queries and keys have norms over the width of a head, before they are rotated: Qwen3; default false */
    bool query_key_norm;
    /* default TG_FEED_FORWARD_GELU */
    tg_feed_forward_kind feed_forward;
    /* whether queries, keys and values have biases, as in the published GPT-2, but not in the book; default false */
    bool qkv_bias;
    /* whether the output projections of attention have biases; default true */
    bool out_bias;
    /* whether the feed-forward networks have biases; default TG_BIAS_OF_KIND */
    tg_bias feed_forward_bias;
    /* the factor of the tokens' vectors; default 1 */
    double embedding_scale;
    /* the factor of the products of queries and keys; default TG_SCALE_OF_WIDTH, 1 / sqrt(D) */
    double attention_scale;
    /* the kinds of the first layers, which repeat: layer i is of kind i % period, from 1 to TG_GPT_PERIOD; default 1,
     * and kinds without a window */
    tg_gpt_layer layers_of_period[TG_GPT_PERIOD];
    int64_t period;
    /* whether the token table is also the weight of the head, as in GPT-2; in the book the head has its own weight;
     * default false */
    bool tied_head;
    /* the kind of positions. Absolute kinds are "pos_emb". ALiBi and T5 are "position", shared by all blocks. Of the
     * other relative kinds each block has its own, "trf_blocks.N.att.position". Default TG_POSITION_LEARNED */
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

/* What a pass has besides the ids. */
typedef struct tg_gpt_forward_config {
    /* private: tg_gpt_forward_config_default() sets it */
    tg_config_mark mark;
    /* the cache of earlier passes (tg_gpt_new_cache). The ids continue its committed positions, and are committed
     * themselves if the pass succeeds; recording must be off (STATE). Default NULL, none */
    tg_kv_cache *cache;
    /* the positions of the ids in their texts, (B,T) i32, for padding on the left, and for texts that are packed one
     * after the other. Relative kinds except rotary need none, and ignore them. RANGE, with the index, for one outside
     * of the context. Default NULL: 0 .. T - 1 after those of the cache */
    tg_tensor *positions;
    /* the first key that each position sees, (B,T) i32, counted from the first position of the cache: padding before
     * it, or the texts before, are not seen. Default NULL, all keys up to the position itself */
    tg_tensor *first_keys;
    /* the options of tg_gpt_loss; the other calls ignore them. A target of -100 does not count. Default NULL, those of
     * tg_cross_entropy_config_default() */
    const tg_cross_entropy_config *loss;
} tg_gpt_forward_config;

TG_API tg_gpt_forward_config tg_gpt_forward_config_default(void);

/* Returns an empty cache for the keys and values of `batch` texts of up to `positions` tokens. Yours to free
 * (tg_kv_cache_free). NULL, with the error in the run of the model's params: VALUE for a size below 1; MEMORY. */
TG_API tg_kv_cache *tg_gpt_new_cache(const tg_gpt *model, int64_t batch, int64_t positions);

/* Returns the logits of the next token at each position: ids (B,T) i32 -> (B,T,V). RANGE, with the index, for an id
 * outside of [0,V), and for positions beyond the context or the cache; SHAPE for ids that are not i32 (B,T), and for a
 * cache made for other sizes. */
TG_API tg_tensor *tg_gpt_forward(tg_tape *tape, const tg_gpt *model, tg_tensor *ids,
                                 const tg_gpt_forward_config *config);

/* Returns the logits at the last position alone: ids (B,T) -> (B,V), tg_gpt_forward(..)[:,-1,:] without the product for
 * the other positions. Errors as for tg_gpt_forward. */
TG_API tg_tensor *tg_gpt_last_logits(tg_tape *tape, const tg_gpt *model, tg_tensor *ids,
                                     const tg_gpt_forward_config *config);

/* Returns what the head receives, the result of the last norm: ids (B,T) -> (B,T,C), as the last_hidden_state of
 * transformers' GPT2Model. So a program can put a head of its own on the model, or take the vectors as embeddings.
 * Errors as for tg_gpt_forward. */
TG_API tg_tensor *tg_gpt_hidden_states(tg_tape *tape, const tg_gpt *model, tg_tensor *ids,
                                       const tg_gpt_forward_config *config);

/* Returns the loss of predicting the targets (B,T) i32 from the ids (B,T) i32: tg_cross_entropy of tg_gpt_forward, but
 * at most 2^23 logits exist at a time, or those of 64 positions (tg_linear_cross_entropy). A step of GPT-2 small with
 * 2 x 256 tokens takes 1.16 times as long as with logits, and 0.94 of the peak memory (tests/bench/run). STATE for a
 * cache; the errors of the two. */
TG_API tg_tensor *tg_gpt_loss(tg_tape *tape, const tg_gpt *model, tg_tensor *ids, tg_tensor *targets,
                              const tg_gpt_forward_config *config);

/* ---- fine-tuning ------------------------------------------------------------------------------------------------- */

/* Replaces the head by a Linear with a bias of `outputs` outputs, drawn as in PyTorch: model.out_head =
 * torch.nn.Linear(C, outputs). "out_head.weight" is then (outputs,C), and "out_head.bias" is added; a tied head is tied
 * no longer. Logits are then (B,T,outputs). LoRA of the old head is removed. An optimizer that was created before
 * refuses its next step. SHAPE for fewer than 1 output; STATE if the params have no generator; MEMORY. */
TG_API bool tg_gpt_replace_head(tg_gpt *model, int64_t outputs);

/* Adds LoRA (tapegrad/lora.h) to all layers whose names match a pattern, as in tg_params_new_part, in the order of the
 * params. Several patterns have spaces between them: "*.W_query *.W_value" are the q_proj and v_proj of peft's
 * target_modules. The layers are "trf_blocks.N.att.W_query", "W_key", "W_value" and "out_proj",
 * "trf_blocks.N.ff.layers.0" and "layers.2", or "fc1", "fc2" and "fc3", and "out_head" unless it is tied. RANGE, with
 * the pattern, if no layer matches one of them; the errors of tg_nn_linear_add_lora. Either all matching layers get it
 * or none. */
TG_API bool tg_gpt_add_lora(tg_gpt *model, const char *patterns, const tg_lora_config *config);

/* Returns the number of values that tg_gpt_add_lora would add to a model with this config, such as that of a
 * tg_gpt_summary; 0 if no layer matches, and for a rank or a config that no model can have. */
TG_API int64_t tg_gpt_count_lora(const char *patterns, int64_t rank, const tg_gpt_config *config);

/* Merges the LoRA of all layers into their weights, which tg_gpt_save does for the file that it writes. Errors as for
 * tg_nn_linear_merge_lora; then nothing has changed. */
TG_API bool tg_gpt_merge_lora(tg_gpt *model);

/* ---- files of other programs ------------------------------------------------------------------------------------- */

/* The names of the weights in a file. */
typedef enum tg_gpt_names {
    /* those of the model's class in Hugging Face's transformers */
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
    /* the number of heads of a GPT-2 without a config.json, because the tensors do not show it. Else it must be that of
     * config.json. Default TG_HEADS_OF_FILE; without a config.json this is the number of the published GPT-2 with the
     * same width */
    int64_t heads;
    /* whether matrices that the file has as BF16 stay so, frozen, with 2 bytes per value; the params must be f32 then.
     * LoRA trains such a model. Default false */
    bool keep_bf16;
    /* that of the model's tg_gpt_config; default false */
    bool activation_checkpointing;
} tg_gpt_open_config;

TG_API tg_gpt_open_config tg_gpt_open_config_default(void);

/* Opens a published model: adds its parameters to `params` and returns the model, as tg_gpt_new does:
 * AutoModelForCausalLM.from_pretrained(path). `path` is a folder with config.json and model.safetensors or
 * model.safetensors.index.json, or such a file. The families are GPT-2, Llama (3.2, SmolLM2), Mistral, Qwen2, Qwen3 and
 * Gemma 3 without images, with the keys of transformers 4 and 5, whose defaults hold for what config.json lacks. A
 * GPT-2 without a config.json has the sizes of its tensors and a dropout of 0.1. F16, BF16 and F64 are converted.
 * Weights are read straight into the parameters: no initial values are drawn, and no second copy of the model exists.
 * tg_tokenizer_open reads the vocabulary of the folder.
 *
 *     tg_gpt *model = tg_gpt_open(params, "Qwen3-0.6B", NULL);
 *     tg_tokenizer *tokenizer = tg_tokenizer_open("Qwen3-0.6B", NULL, &error);
 *
 * NULL, with the error in their run and nothing added or drawn. VALUE, with the file, the key and its value, for a
 * family, a setting or a value that a model here does not have, and for an unknown key, unless it is null; VALUE also
 * for missing and unknown tensors. SHAPE for a tensor that does not have the shape of config.json; DTYPE for one that
 * is not a float, or quantized; FORMAT for an invalid file; the errors of tg_gpt_new. */
TG_API tg_gpt *tg_gpt_open(tg_params *params, const char *path, const tg_gpt_open_config *config);

/* What a published model is. */
typedef struct tg_gpt_summary {
    /* the config of the model */
    tg_gpt_config config;
    /* its model_type in config.json: "gpt2", "llama", "mistral", "qwen2", "qwen3" or "gemma3_text" */
    const char *family;
    /* the number of values of its parameters, and the bytes that they take in params of f32 */
    int64_t values, bytes;
} tg_gpt_summary;

/* Reads what tg_gpt_open would open with this config, but no weights: config.json, and the names, shapes and dtypes of
 * the tensors. So a program can say what memory it will need, or find that it is too much. False, and *summary stays,
 * after the errors of tg_gpt_open, except those of unknown tensors; STATE for a NULL. */
TG_API bool tg_gpt_read_summary(const char *path, tg_gpt_summary *summary, const tg_gpt_open_config *config,
                                tg_error *error);

/* Returns the ids that end a text, those of eos_token_id in the config.json of a model that was opened, borrowed from
 * the model, and writes their number, at most 8, to *count. */
TG_API const int32_t *tg_gpt_end_tokens(const tg_gpt *model, int64_t *count);

typedef struct tg_gpt_save_config {
    /* private: tg_gpt_save_config_default() sets it */
    tg_config_mark mark;
    /* default TG_SAVE_FLOATS_KEEP */
    tg_save_floats floats;
    /* the id that begins and ends texts in transformers, such as that of <|endoftext|>; default -1, the ids of the
     * folder from which the model was opened, or none */
    int32_t end_token;
} tg_gpt_save_config;

TG_API tg_gpt_save_config tg_gpt_save_config_default(void);

/* Writes model.safetensors and then config.json, with the keys of transformers 5, to a folder that exists:
 * save_pretrained(folder). The family is that of the folder from which the model was opened, or else the first of those
 * of tg_gpt_open whose models may have its config. Each file is replaced as a whole, so after an error the first one
 * may be the new one. Biases that the family has, and the model not, are zeros, and LoRA is merged in the file. VALUE,
 * with the setting, for a model that no family has, and for a head that was replaced; SHAPE for a parameter that does
 * not have the shape of the config any more (tg_tensor_resize_rows); RANGE for end_token; the errors of tg_params_save.
 * */
TG_API bool tg_gpt_save(const tg_gpt *model, const char *folder, const tg_gpt_save_config *config, tg_error *error);

/* Reads LoRA that peft has written: PeftModel.from_pretrained(model, folder). The folder has adapter_config.json and
 * adapter_model.safetensors. The layers whose matrices it has get LoRA, as by tg_gpt_add_lora; each may have none
 * before. VALUE, with the file, the key and its value, for a setting that changes numbers in another way, such as
 * use_dora or rank_pattern, and for a tensor of a layer that the model does not have; SHAPE for one of a model with
 * other sizes; FORMAT for an invalid file; MEMORY. Nothing has changed then. LoRA of GPT-2's c_attn, which is three
 * layers here, cannot be read or written. */
TG_API bool tg_gpt_open_adapter(tg_gpt *model, const char *folder);

/* Writes the LoRA of a model to a folder that exists: save_pretrained(folder) of a model of peft. tg_gpt_save would
 * merge it. Each of the two files is replaced as a whole. VALUE for a model without LoRA, or with several ranks or
 * scales; the errors of tg_gpt_save. */
TG_API bool tg_gpt_save_adapter(const tg_gpt *model, const char *folder, tg_error *error);

/* ---- chats ------------------------------------------------------------------------------------------------------- */

/* How a family writes conversations. */
typedef enum tg_gpt_chat_format {
    /* Qwen2, SmolLM2 and many others: "<|im_start|>user\n...<|im_end|>\n". The system's message that their templates
     * add to conversations without one is yours to give */
    TG_GPT_CHAT_CHATML,
    /* the same, with thoughts in answers, "<think>\n...\n</think>\n\n" */
    TG_GPT_CHAT_QWEN3,
    /* Llama 3.1 and 3.2: "<|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>"; the system's message begins with
     * the date of the template, 26 Jul 2024 */
    TG_GPT_CHAT_LLAMA3,
    /* Mistral 7B Instruct 0.3: "[INST] ...[/INST] ...</s>" */
    TG_GPT_CHAT_MISTRAL,
    /* Gemma 3: "<start_of_turn>user\n...<end_of_turn>\n" */
    TG_GPT_CHAT_GEMMA
} tg_gpt_chat_format;

/* One message of a conversation. */
typedef struct tg_gpt_message {
    /* "system", "user" or "assistant" */
    const char *role;
    const char *content;
} tg_gpt_message;

typedef struct tg_gpt_chat_config {
    /* private: tg_gpt_chat_config_default() sets it */
    tg_config_mark mark;
    /* default TG_GPT_CHAT_CHATML */
    tg_gpt_chat_format format;
    /* whether the text ends with the beginning of the next answer: add_generation_prompt; default true */
    bool begins_answer;
    /* TG_GPT_CHAT_QWEN3: whether the next answer begins with thoughts: enable_thinking; default true */
    bool thinks;
} tg_gpt_chat_config;

TG_API tg_gpt_chat_config tg_gpt_chat_config_default(void);

/* Returns the text of a conversation, as tokenizer.apply_chat_template(messages, tokenize=False) of the published
 * templates. It has special tokens, those that begin a text included, so it must be encoded with them allowed and none
 * added. Yours to free (tg_text_free). NULL after an error: VALUE, with the number of the message, for another role,
 * and for an order that the format does not have; STATE for a NULL; MEMORY. */
TG_API char *tg_gpt_chat(const tg_gpt_message *messages, int64_t count, const tg_gpt_chat_config *config,
                         tg_error *error);

/* Finds the format whose special tokens a vocabulary has: `has_token` is called with `context` and a token. VALUE, and
 * *format stays, if it has those of none. */
TG_API bool tg_gpt_chat_format_find(bool (*has_token)(void *context, const char *token), void *context,
                                    tg_gpt_chat_format *format, tg_error *error);

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Continues a prompt of `count` ids, at least 1 and at most the context, as tg_generate does, also beyond the context.
 * Writes the new ids to `ids`, an array of max_new_tokens, and returns their number. -1 after the errors of
 * tg_generate; VALUE if the head was replaced. */
TG_API int64_t tg_gpt_generate(tg_tape *tape, const tg_gpt *model, const int32_t *prompt, int64_t count, int32_t *ids,
                               const tg_generate_config *config);

/* Continues several texts together: tg_generate, with its errors; VALUE if the head was replaced. Shorter prompts begin
 * with padding, so that all of them are one pass. */
TG_API bool tg_gpt_generate_batch(tg_tape *tape, const tg_gpt *model, const int32_t *prompts, const int64_t *counts,
                                  int64_t texts, int32_t *ids, int64_t *new_counts, const tg_generate_config *config);

#ifdef __cplusplus
}
#endif

#endif
