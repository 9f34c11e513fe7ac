/* generate: the next token, and texts, from any language model.
 *
 * A model is a function that returns the logits of the next tokens. tg_generate has the loop around it: the choice of
 * each token, several texts together, and the end of each. tapegrad/gpt.h generates with it.
 *
 *     static tg_tensor *next_logits(tg_tape *tape, const tg_generate_pass *pass, void *context)
 *     {
 *         return my_logits(tape, context, pass->ids);
 *     }
 *
 *     tg_language_model model = {next_logits, my_model, .vocabulary = 50257, .context_length = 1024};
 *     tg_generate(tape, &model, prompt, &count, 1, ids, &new_count, NULL);
 */
#ifndef TAPEGRAD_GENERATE_H
#define TAPEGRAD_GENERATE_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the next token ---------------------------------------------------------------------------------------------- */

/* The top_k that keeps all logits. */
#define TG_NO_TOP_K (-1)

typedef struct tg_sample_config {
    /* private: tg_sample_config_default() sets it */
    tg_config_mark mark;
    /* whether the most probable token is returned, without a draw; on ties the smaller id. Default true. temperature,
     * top_k, top_p and min_p need false; setting them together with true is an error */
    bool greedy;
    /* the divisor of the logits, above 0 and finite; default 1 */
    double temperature;
    /* the number of largest logits that are kept, 1 to V; those that tie with the last are kept, too; default
     * TG_NO_TOP_K, all */
    int64_t top_k;
    /* of the kept tokens, only the most probable ones are kept that together reach this probability, in (0,1]; default
     * 1, all */
    double top_p;
    /* of the kept tokens, only those are kept whose probability is at least this part of the largest one, in [0,1];
     * default 0, all */
    double min_p;
    /* the divisor of the positive logits of tokens that the text has, and the factor of their negative ones, above 0
     * and finite; default 1, none */
    double repetition_penalty;
    /* the ids of the text so far, and their number, for repetition_penalty. tg_generate sets them, and refuses others.
     * Default NULL */
    const int32_t *text;
    int64_t text_count;
} tg_sample_config;

TG_API tg_sample_config tg_sample_config_default(void);

/* Returns the id of the next token of any language model, drawn as by torch.multinomial(softmax(logits / temperature),
 * 1) from logits (V) of f32 or f64. Follows the book's `generate` (top_k, then temperature), Holtzman et al. 2020
 * (top_p), Nguyen et al. 2024 (min_p), and Keskar et al. 2019 (repetition_penalty), in the order of transformers:
 * repetition_penalty, top_k, top_p, min_p. `rng` is optional if greedy. -1, and nothing drawn, after an error: SHAPE
 * for other logits; VALUE if a logit is NaN or inf, or if all are -inf; RANGE or VALUE for an option out of bounds;
 * RANGE, with the index, for an id of the text outside of [0,V); VALUE for an option that greedy would ignore, and for
 * a repetition_penalty without a text; STATE without a generator; MEMORY. */
TG_API int32_t tg_sample(const tg_tensor *logits, tg_rng *rng, const tg_sample_config *config, tg_error *error);

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* What a model gets in a pass. B texts have T new positions each. The tensors are those of the tape. */
typedef struct tg_generate_pass {
    /* the new ids, (B,T) i32 */
    tg_tensor *ids;
    /* the number of positions of earlier passes, whose keys and values the model has kept. 0: the model begins again,
     * and forgets earlier positions */
    int64_t start;
    /* if start is 0, the number of positions that all passes need together, so that the model can make a cache; 0 if
     * the next pass begins again, and the model needs none */
    int64_t cache_context;
    /* NULL unless the model takes padding and the prompts have different lengths. Shorter texts then begin with
     * padding, which no query may see. The position of each new id in its text, (B,T) i32, with 0 for padding */
    tg_tensor *positions;
    /* NULL, or for each new id the first key that is no padding, (B,T) i32, of start + T keys */
    tg_tensor *first_keys;
} tg_generate_pass;

/* A model from which tg_generate generates. */
typedef struct tg_language_model {
    /* a function that returns the logits (B,V) of the tokens after the new ids, as a result of the tape; NULL after an
     * error, which is in the tape's run. It must not reset the tape; its other results are freed after each pass */
    tg_tensor *(*step)(tg_tape *tape, const tg_generate_pass *pass, void *context);
    /* the last argument of step */
    void *context;
    /* V, the number of tokens; must be set */
    int64_t vocabulary;
    /* the largest number of positions of a text in the model, its context; must be set. INT64_MAX: no limit */
    int64_t context_length;
    /* whether step reads positions and first_keys. Prompts of different lengths are then padded at the left, and go
     * through the model in one pass. Without it, the tokens that a prompt has more than the shortest one go through the
     * model one by one: the same texts, and any model can do it, but it takes longer */
    bool takes_padding;
} tg_language_model;

typedef struct tg_generate_config {
    /* private: tg_generate_config_default() sets it */
    tg_config_mark mark;
    /* the largest number of new tokens, 0 or more; default 50 */
    int64_t max_new_tokens;
    /* the choice of each token; default tg_sample_config_default() */
    tg_sample_config sample;
    /* the ids that end a text, and are not written, and their number. Ids that do not exist, such as -1, end no text.
     * Default NULL, none */
    const int32_t *end_tokens;
    int64_t end_token_count;
    /* whether the model keeps keys and values for the next token, and a pass has only new ids: faster, with more
     * memory. Without it each pass begins again, with the whole text; default true */
    bool use_cache;
    /* a function that is called with `context`, the number of the text, and each of its new ids; it returns false to
     * end this text; default NULL */
    bool (*on_token)(void *context, int64_t text, int32_t id);
    void *context;
    /* an array of (texts,max_new_tokens), which gets the log-probability of each new id, log_softmax(logits)[id] of the
     * logits of the model: options of the choice do not change it. It is written where the ids are, and as they are.
     * Default NULL */
    double *log_probs;
} tg_generate_config;

TG_API tg_generate_config tg_generate_config_default(void);

/* Continues several texts together, which is several times as fast as one after the other: each pass reads the weights
 * once for all of them. `prompts` has the ids of the prompts one after the other, counts[i] of prompt i, at least 1 and
 * at most context_length. Writes the new ids of text i to row i of `ids`, (texts,max_new_tokens), and their number to
 * new_counts[i]; the rest of a row stays. Each text is one that could have been generated alone; their draws follow
 * each other in each pass, and come from the generator of the tape's run unless greedy. Recording and training are off
 * during the call, and restored after it.
 *
 * A text that becomes longer than context_length continues from its last tokens, as in the book's
 * generate_text_simple; each further pass then begins again.
 *
 * false after an error: nothing is written, and the generator is as it was before, but on_token may have been called.
 * SHAPE for an empty prompt; RANGE for a longer prompt, and, with the index, for an id outside of [0,V); VALUE for a
 * number of texts below 1, a field of the model that is not set, and an invalid option; SHAPE for logits that are not
 * (B,V), and STATE if the step returns NULL without an error; the errors of the step and of tg_sample. */
TG_API bool tg_generate(tg_tape *tape, const tg_language_model *model, const int32_t *prompts, const int64_t *counts,
                        int64_t texts, int32_t *ids, int64_t *new_counts, const tg_generate_config *config);

#ifdef __cplusplus
}
#endif

#endif
