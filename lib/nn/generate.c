/* generate: continues a text, token by token.
 *
 * With a cache the prompt goes through the model once, and then each new token alone. When the text becomes longer than
 * the context, its beginning is dropped and every token gets another position. The cached keys and values are then
 * invalid, so each further step computes the last `context` tokens again, as without a cache.
 *
 * A failed call has no effect except its calls of on_token: the new ids are written at the end, and the generator is
 * restored if a step fails.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "nn/gpt.h"
#include "nn/kv_cache.h"
#include "tape/tape.h"

static const char call[] = "gpt_generate";
static const char mark[] = "tg_gpt_generate_config_default";

tg_gpt_generate_config tg_gpt_generate_config_default(void)
{
    return (tg_gpt_generate_config){
        .mark = mark, .max_new_tokens = 50, .sample = tg_sample_config_default(), .end_token = -1, .use_cache = true};
}

/* The state of one generation. */
typedef struct generation {
    tg_tape *tape;
    const tg_gpt *model;
    const tg_gpt_generate_config *config;
    tg_kv_cache *cache; /* NULL without a cache, or after the text has become longer than the context */
    int32_t *text;      /* the prompt, then the new ids */
    int64_t length;
} generation;

static bool check_generate_arguments(tg_tape *t, const tg_gpt *model, const int32_t *prompt, int64_t count,
                                     const int32_t *ids, const tg_gpt_generate_config *config)
{
    /* The array may be NULL if no new ids are requested. */
    const void *pointers[] = {model, prompt, config->max_new_tokens > 0 ? (const void *)ids : call};
    const char *names[] = {"model", "prompt", "array for the new ids"};
    for (int i = 0; i < 3; i++) {
        if (!pointers[i]) {
            return tg_tape_fail(t, TG_ERROR_STATE, call, "the %s is NULL", names[i]);
        }
    }
    const tg_gpt_config *c = tg_gpt_get_config(model);
    if (count < 1) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the prompt is empty; it needs at least one token");
    }
    if (count > c->context) {
        return tg_tape_fail(t, TG_ERROR_RANGE, call, "the prompt has %lld tokens; the model's context is %lld",
                            (long long)count, (long long)c->context);
    }
    if (config->max_new_tokens < 0) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "max_new_tokens %lld; it must be at least 0",
                            (long long)config->max_new_tokens);
    }
    for (int64_t i = 0; i < count; i++) {
        if (prompt[i] < 0 || prompt[i] >= c->vocabulary) {
            return tg_tape_fail(t, TG_ERROR_RANGE, call, "id %d at [%lld] of the prompt is outside [0,%lld)", prompt[i],
                                (long long)i, (long long)c->vocabulary);
        }
    }
    return true;
}

/* Returns the logits (V) of the token after the text; NULL after an error. */
static tg_tensor *next_logits(generation *g)
{
    int64_t context = tg_gpt_get_config(g->model)->context;
    if (g->cache && g->length > context) {
        tg_kv_cache_free(g->cache);
        g->cache = NULL;
    }
    int64_t begin = g->cache ? tg_kv_cache_length(g->cache) : g->length > context ? g->length - context : 0;
    int64_t shape[] = {1, g->length - begin};
    tg_tensor *ids = tg_tape_new_tensor(g->tape, call, TG_I32, tg_shape_make(2, shape));
    if (!ids) {
        return NULL;
    }
    memcpy(tg_values(ids), g->text + begin, tg_bytes_of(ids));
    return tg_gpt_next_logits(g->tape, g->model, ids, g->cache);
}

/* Returns the next id, or -1 after an error. */
static int32_t next_id(generation *g)
{
    if (!tg_scope_begin(g->tape)) {
        return -1;
    }
    int32_t id = -1;
    tg_tensor *logits = next_logits(g);
    if (logits) {
        tg_error error = TG_NO_ERROR;
        id = tg_sample_with(g->tape->pool, logits, g->tape->rng, &g->config->sample, &error);
        if (id < 0) {
            tg_tape_fail(g->tape, error.code, call, "%s", error.text);
        }
    }
    tg_scope_end(g->tape, NULL);
    return id;
}

/* Allocates the text and the cache. */
static bool start(generation *g, const int32_t *prompt, int64_t count)
{
    const tg_gpt_config *c = tg_gpt_get_config(g->model);
    tg_error error = TG_NO_ERROR;
    size_t length;
    bool fits = tg_checked_add((size_t)count, (size_t)g->config->max_new_tokens, &length);
    g->text = fits ? tg_alloc(length, sizeof *g->text) : NULL;
    if (!g->text) {
        return tg_tape_fail(g->tape, TG_ERROR_MEMORY, call, "out of memory for %lld new tokens",
                            (long long)g->config->max_new_tokens);
    }
    memcpy(g->text, prompt, (size_t)count * sizeof *prompt);
    g->length = count;
    if (g->config->use_cache) {
        int64_t positions = (int64_t)length < c->context ? (int64_t)length : c->context;
        g->cache = tg_kv_cache_new(tg_gpt_dtype(g->model), c->layers, 1, c->heads, positions, c->width, &error);
    }
    return !g->config->use_cache || g->cache || tg_tape_fail(g->tape, error.code, call, "%s", error.text);
}

/* Returns the number of new ids, or -1 after an error. */
static int64_t generate_tokens(generation *g)
{
    const tg_gpt_generate_config *config = g->config;
    int64_t count = 0;
    while (count < config->max_new_tokens) {
        int32_t id = next_id(g);
        if (id < 0) {
            return -1;
        }
        if (id == config->end_token) {
            break;
        }
        g->text[g->length++] = id;
        count++;
        if (config->on_token && !config->on_token(config->context, id)) {
            break;
        }
    }
    return count;
}

int64_t tg_gpt_generate(tg_tape *t, const tg_gpt *model, const int32_t *prompt, int64_t count, int32_t *ids,
                        const tg_gpt_generate_config *given)
{
    if (!tg_tape_is_usable(t) || !tg_tape_expect_config(t, call, given, mark) ||
        (given && !tg_tape_expect_config(t, call, &given->sample, tg_sample_config_mark))) {
        return -1;
    }
    tg_gpt_generate_config config = given ? *given : tg_gpt_generate_config_default();
    if (!check_generate_arguments(t, model, prompt, count, ids, &config)) {
        return -1;
    }
    tg_evaluation before = tg_evaluation_begin(t);
    generation g = {.tape = t, .model = model, .config = &config};
    tg_rng saved;
    tg_rng_copy(&saved, t->rng);
    int64_t new_count = start(&g, prompt, count) ? generate_tokens(&g) : -1;
    if (new_count > 0) {
        memcpy(ids, g.text + count, (size_t)new_count * sizeof *ids);
    } else if (new_count < 0) {
        tg_rng_copy(t->rng, &saved);
    }
    tg_kv_cache_free(g.cache);
    tg_free(g.text);
    tg_evaluation_end(t, before);
    return new_count;
}
