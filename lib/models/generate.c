/* generate: continues texts, token by token.
 *
 * With a cache the prompt goes through the model once, and then each new token alone. When the text becomes longer than
 * the context, its beginning is dropped and every token gets another position. The cached keys and values are then
 * invalid, so each further step computes the last `context` tokens again, as without a cache.
 *
 * Several texts have the same length at each step, and share a pass, which reads the weights once for all of them. A
 * text whose prompt is longer than the shortest one takes its next tokens from there. A text that has ended goes on
 * with tokens that nobody reads.
 *
 * A failed call has no effect except its calls of on_token: the new ids are written at the end, and the generator is
 * restored if a step fails.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "models/gpt.h"
#include "nn/kv_cache.h"
#include "tape/tape.h"

static const char mark[] = "tg_gpt_generate_config_default";

tg_gpt_generate_config tg_gpt_generate_config_default(void)
{
    return (tg_gpt_generate_config){
        .mark = mark, .max_new_tokens = 50, .sample = tg_sample_config_default(), .end_token = -1, .use_cache = true};
}

/* One of the texts that are generated together. */
typedef struct text {
    const int32_t *prompt;
    int64_t count, new_count; /* of the tokens of the prompt, and of the new ones */
    int32_t *tokens;          /* the prompt, then the new ids */
    bool ended;
} text;

typedef struct generation {
    const char *call;
    tg_tape *tape;
    const tg_gpt *model;
    const tg_gpt_generate_config *config;
    tg_kv_cache *cache; /* NULL without a cache, or after the texts have become longer than the context */
    text *texts;
    int64_t text_count;
    int32_t *tokens; /* of all texts */
    int64_t length;  /* of each text */
    int64_t running; /* the number of texts that have not ended */
    tg_rng saved;
} generation;

/* ---- checks ---- */

static bool check_prompt(const generation *g, const text *x)
{
    const tg_gpt_config *c = tg_gpt_get_config(g->model);
    char number[32] = "";
    if (g->text_count > 1) {
        snprintf(number, sizeof number, " %lld", (long long)(x - g->texts));
    }
    if (x->count < 1) {
        return tg_tape_fail(g->tape, TG_ERROR_SHAPE, g->call, "the prompt%s is empty; it needs at least one token",
                            number);
    }
    if (x->count > c->context) {
        return tg_tape_fail(g->tape, TG_ERROR_RANGE, g->call,
                            "the prompt%s has %lld tokens; the model's context is %lld", number, (long long)x->count,
                            (long long)c->context);
    }
    for (int64_t i = 0; i < x->count; i++) {
        if (x->prompt[i] < 0 || x->prompt[i] >= c->vocabulary) {
            return tg_tape_fail(g->tape, TG_ERROR_RANGE, g->call, "id %d at [%lld] of the prompt%s is outside [0,%lld)",
                                x->prompt[i], (long long)i, number, (long long)c->vocabulary);
        }
    }
    return true;
}

static bool check_pointers(const generation *g, const void *const *pointers, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (!pointers[i]) {
            return tg_tape_fail(g->tape, TG_ERROR_STATE, g->call, "the %s is NULL", names[i]);
        }
    }
    return true;
}

static bool check_prompts(const generation *g)
{
    if (g->config->max_new_tokens < 0) {
        return tg_tape_fail(g->tape, TG_ERROR_VALUE, g->call, "max_new_tokens %lld; it must be at least 0",
                            (long long)g->config->max_new_tokens);
    }
    if (g->model->out_head.weight->shape[0] != g->model->config.vocabulary) {
        return tg_tape_fail(g->tape, TG_ERROR_VALUE, g->call,
                            "the head has %lld outputs, which are no ids of the vocabulary of %lld",
                            (long long)g->model->out_head.weight->shape[0], (long long)g->model->config.vocabulary);
    }
    for (int64_t i = 0; i < g->text_count; i++) {
        if (!check_prompt(g, &g->texts[i])) {
            return false;
        }
    }
    return true;
}

/* ---- steps ---- */

/* Returns the logits (texts,V) of the tokens after the texts; NULL after an error. */
static tg_tensor *next_logits(generation *g)
{
    int64_t context = tg_gpt_get_config(g->model)->context;
    if (g->cache && g->length > context) {
        tg_kv_cache_free(g->cache);
        g->cache = NULL;
    }
    int64_t begin = g->cache ? tg_kv_cache_length(g->cache) : g->length > context ? g->length - context : 0;
    int64_t shape[] = {g->text_count, g->length - begin};
    tg_tensor *ids = tg_tape_new_tensor(g->tape, g->call, TG_I32, tg_shape_make(2, shape));
    if (!ids) {
        return NULL;
    }
    for (int64_t i = 0; i < g->text_count; i++) {
        memcpy((int32_t *)tg_values(ids) + i * shape[1], g->texts[i].tokens + begin,
               (size_t)shape[1] * sizeof(int32_t));
    }
    return tg_gpt_last_logits(g->tape, g->model, ids, g->cache);
}

/* Returns the next id of a text, or -1 after an error. */
static int32_t choose(const generation *g, tg_tensor *logits, int64_t number)
{
    tg_tensor *row = tg_select(g->tape, logits, 0, number);
    if (!row) {
        return -1;
    }
    tg_error error = TG_NO_ERROR;
    int32_t id = tg_sample_with(g->tape->pool, row, g->tape->rng, &g->config->sample, &error);
    if (id < 0) {
        tg_tape_fail(g->tape, error.code, g->call, "%s", error.text);
    }
    return id;
}

/* Ends a text or adds an id to it. */
static void add_id(generation *g, text *x, int32_t id)
{
    const tg_gpt_generate_config *config = g->config;
    bool goes_on = id != config->end_token;
    if (goes_on) {
        x->tokens[g->length] = id;
        x->new_count++;
        goes_on = (!config->on_token || config->on_token(config->context, id)) && x->new_count < config->max_new_tokens;
    }
    x->ended = !goes_on;
    g->running -= !goes_on;
}

/* Makes each text one token longer. */
static bool step(generation *g)
{
    tg_tensor *logits = next_logits(g);
    for (int64_t i = 0; logits && i < g->text_count; i++) {
        text *x = &g->texts[i];
        if (x->ended || g->length < x->count) {
            continue;
        }
        int32_t id = choose(g, logits, i);
        if (id < 0) {
            return false;
        }
        add_id(g, x, id);
    }
    g->length++;
    return logits != NULL;
}

static bool generate_tokens(generation *g)
{
    bool is_good = true;
    while (is_good && g->running > 0) {
        if (!tg_scope_begin(g->tape)) {
            return false;
        }
        is_good = step(g);
        tg_scope_end(g->tape, NULL);
    }
    return is_good;
}

/* ---- the calls ---- */

/* Allocates the texts' tokens and the cache. */
static bool start(generation *g)
{
    const tg_gpt_config *c = tg_gpt_get_config(g->model);
    tg_error error = TG_NO_ERROR;
    int64_t shortest = c->context, longest = 0;
    for (int64_t i = 0; i < g->text_count; i++) {
        shortest = g->texts[i].count < shortest ? g->texts[i].count : shortest;
        longest = g->texts[i].count > longest ? g->texts[i].count : longest;
    }
    size_t length, all;
    bool fits = tg_checked_add((size_t)longest, (size_t)g->config->max_new_tokens, &length) &&
                tg_checked_mul(length, (uint64_t)g->text_count, &all);
    g->tokens = fits ? tg_alloc_zeroed(all, sizeof *g->tokens) : NULL;
    if (!g->tokens) {
        return tg_tape_fail(g->tape, TG_ERROR_MEMORY, g->call, "out of memory for %lld new tokens",
                            (long long)g->config->max_new_tokens);
    }
    for (int64_t i = 0; i < g->text_count; i++) {
        text *x = &g->texts[i];
        x->tokens = g->tokens + (size_t)i * length;
        x->ended = g->config->max_new_tokens == 0;
        memcpy(x->tokens, x->prompt, (size_t)x->count * sizeof *x->prompt);
    }
    g->length = shortest;
    g->running = g->config->max_new_tokens > 0 ? g->text_count : 0;
    if (g->config->use_cache && g->running > 0) {
        int64_t positions = (int64_t)length < c->context ? (int64_t)length : c->context;
        g->cache = tg_kv_cache_new(tg_gpt_dtype(g->model), c->layers, g->text_count, c->heads, positions, c->width,
                                   NULL, &error);
        return g->cache || tg_tape_fail(g->tape, error.code, g->call, "%s", error.text);
    }
    return true;
}

/* Generates the texts of g. After an error the generator is as it was. */
static bool generate(generation *g)
{
    tg_evaluation before = tg_evaluation_begin(g->tape);
    tg_rng_copy(&g->saved, g->tape->rng);
    bool is_good = start(g) && generate_tokens(g);
    if (!is_good) {
        tg_rng_copy(g->tape->rng, &g->saved);
    }
    tg_kv_cache_free(g->cache);
    tg_evaluation_end(g->tape, before);
    return is_good;
}

static bool expect_config(tg_tape *t, const char *call, const tg_gpt_generate_config *given)
{
    return tg_tape_is_usable(t) && tg_tape_expect_config(t, call, given, mark) &&
           (!given || tg_tape_expect_config(t, call, &given->sample, tg_sample_config_mark));
}

int64_t tg_gpt_generate(tg_tape *t, const tg_gpt *model, const int32_t *prompt, int64_t count, int32_t *ids,
                        const tg_gpt_generate_config *given)
{
    static const char call[] = "gpt_generate";
    if (!expect_config(t, call, given)) {
        return -1;
    }
    tg_gpt_generate_config config = given ? *given : tg_gpt_generate_config_default();
    text only = {.prompt = prompt, .count = count};
    generation g = {.call = call, .tape = t, .model = model, .config = &config, .texts = &only, .text_count = 1};
    /* The array may be NULL if no new ids are requested. */
    const void *pointers[] = {model, prompt, config.max_new_tokens > 0 ? (const void *)ids : call};
    static const char *const names[] = {"model", "prompt", "array for the new ids"};
    if (!check_pointers(&g, pointers, names, 3) || !check_prompts(&g)) {
        return -1;
    }
    bool is_good = generate(&g);
    if (is_good && only.new_count > 0) {
        memcpy(ids, only.tokens + count, (size_t)only.new_count * sizeof *ids);
    }
    tg_free(g.tokens);
    return is_good ? only.new_count : -1;
}

static bool check_batch(const generation *g, const int32_t *prompts, const int64_t *counts, const int32_t *ids,
                        const int64_t *new_counts)
{
    const void *pointers[] = {g->model, prompts, counts, g->config->max_new_tokens > 0 ? (const void *)ids : counts,
                              new_counts};
    static const char *const names[] = {"model", "array of the prompts", "array counts", "array for the new ids",
                                        "array new_counts"};
    if (!check_pointers(g, pointers, names, 5)) {
        return false;
    }
    if (g->text_count < 1 || g->text_count > INT32_MAX) {
        return tg_tape_fail(g->tape, TG_ERROR_VALUE, g->call, "%lld texts; it must be 1 to %d",
                            (long long)g->text_count, INT32_MAX);
    }
    return !g->config->on_token || tg_tape_fail(g->tape, TG_ERROR_VALUE, g->call,
                                                "on_token is set, which has no number of the text; it must be NULL");
}

bool tg_gpt_generate_batch(tg_tape *t, const tg_gpt *model, const int32_t *prompts, const int64_t *counts,
                           int64_t texts, int32_t *ids, int64_t *new_counts, const tg_gpt_generate_config *given)
{
    static const char call[] = "gpt_generate_batch";
    if (!expect_config(t, call, given)) {
        return false;
    }
    tg_gpt_generate_config config = given ? *given : tg_gpt_generate_config_default();
    generation g = {.call = call, .tape = t, .model = model, .config = &config, .text_count = texts};
    if (!check_batch(&g, prompts, counts, ids, new_counts)) {
        return false;
    }
    g.texts = tg_alloc_zeroed((uint64_t)texts, sizeof *g.texts);
    if (!g.texts) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, call, "out of memory for %lld texts", (long long)texts);
    }
    for (int64_t i = 0; i < texts; i++) {
        g.texts[i].prompt = prompts;
        g.texts[i].count = counts[i];
        bool fits = counts[i] > 0 && counts[i] <= tg_gpt_get_config(model)->context; /* checked below */
        prompts += fits ? counts[i] : 0;
    }
    bool is_good = check_prompts(&g) && generate(&g);
    for (int64_t i = 0; is_good && i < texts; i++) {
        const text *x = &g.texts[i];
        new_counts[i] = x->new_count;
        if (x->new_count > 0) {
            memcpy(ids + i * config.max_new_tokens, x->tokens + x->count, (size_t)x->new_count * sizeof *ids);
        }
    }
    tg_free(g.tokens);
    tg_free(g.texts);
    return is_good;
}
