/* generate: a text goes on, one token after the other.
 *
 * With a cache the prompt goes through the model once, and then each new token alone. Positions are absolute, so when
 * the text becomes longer than the context and its beginning falls out, every position changes and nothing that was
 * cached holds any more: from there on each step computes the last `context` tokens again, as without a cache.
 *
 * New ids are handed over at the end, and the generator goes back to where it was when a step fails: a failed call has
 * changed nothing but what on_token heard.
 */
#include <tapegrad/gpt.h>

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "nn/module.h"
#include "tensor/tensor.h"

tg_generate_config tg_generate_config_default(void)
{
    return (tg_generate_config){
        .max_new_tokens = 50, .sampling = tg_sampling_config_default(), .end_token = -1, .use_cache = true};
}

/* One generation: the text so far, and how it goes on. */
typedef struct generation {
    tg_tape *tape;
    const tg_gpt *model;
    const tg_generate_config *config;
    tg_kv_cache *cache; /* NULL: none, or no longer of use */
    int32_t *text;      /* the prompt, then the new ids */
    int64_t length;
} generation;

static bool check(tg_tape *t, const tg_gpt *model, const int32_t *prompt, int64_t count,
                  const tg_generate_config *config, const int32_t *ids)
{
    if (!model || !prompt || !config || (!ids && config->max_new_tokens > 0)) {
        tg_tape_fail(t, TG_ERROR_STATE, "generate", "the %s is NULL",
                     !model    ? "model"
                     : !prompt ? "prompt"
                     : !config ? "config"
                               : "place for the new ids");
        return false;
    }
    const tg_gpt_config *c = tg_gpt_config_of(model);
    if (count < 1) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "generate", "the prompt is empty; it needs at least one token");
        return false;
    }
    if (count > c->context) {
        tg_tape_fail(t, TG_ERROR_RANGE, "generate", "the prompt has %lld tokens; the model's context is %lld",
                     (long long)count, (long long)c->context);
        return false;
    }
    if (config->max_new_tokens < 0) {
        tg_tape_fail(t, TG_ERROR_VALUE, "generate", "max_new_tokens is %lld; it must be at least 0",
                     (long long)config->max_new_tokens);
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        if (prompt[i] < 0 || prompt[i] >= c->vocabulary) {
            tg_tape_fail(t, TG_ERROR_RANGE, "generate", "id %d at [%lld] of the prompt is outside [0,%lld)", prompt[i],
                         (long long)i, (long long)c->vocabulary);
            return false;
        }
    }
    return true;
}

/* The logits (V) of what comes after the text; NULL after an error. */
static tg_tensor *next_logits(generation *g)
{
    int64_t context = tg_gpt_config_of(g->model)->context;
    if (g->cache && g->length > context) {
        tg_kv_cache_free(g->cache);
        g->cache = NULL;
    }
    int64_t begin = g->cache ? tg_kv_cache_length(g->cache) : g->length > context ? g->length - context : 0;
    tg_error error = {0};
    tg_tensor *ids = tg_tensor_new_from(TG_I32, TG_SHAPE(1, g->length - begin), g->text + begin, &error);
    if (!ids) {
        return tg_tape_fail(g->tape, error.code, "generate", "%s", error.text);
    }
    tg_tensor *features = tg_gpt_features(g->tape, g->model, ids, g->cache);
    tg_release(ids);
    tg_tensor *last = features ? tg_slice(g->tape, features, 1, -1, INT64_MAX, 1) : NULL;
    tg_tensor *logits = last ? tg_gpt_head(g->tape, g->model, last) : NULL;
    return logits ? tg_reshape(g->tape, logits, TG_SHAPE(-1)) : NULL;
}

/* The next id, or -1 after an error. */
static int32_t next_id(generation *g, tg_rng *rng)
{
    int32_t id = -1;
    tg_scope_begin(g->tape);
    if (tg_tape_error_code(g->tape) != TG_OK) {
        return id; /* no scope was opened */
    }
    tg_tensor *logits = next_logits(g);
    if (logits) {
        tg_error error = {0};
        id = tg_sample(logits, &g->config->sampling, rng, &error);
        if (id < 0) {
            tg_tape_fail(g->tape, error.code, "generate", "%s", error.text);
        }
    }
    tg_scope_end(g->tape, NULL);
    return id;
}

static bool start(generation *g, const int32_t *prompt, int64_t count)
{
    const tg_gpt_config *c = tg_gpt_config_of(g->model);
    size_t length;
    bool fits = tg_checked_add((size_t)count, (size_t)g->config->max_new_tokens, &length);
    g->text = fits ? tg_alloc(length, sizeof *g->text) : NULL;
    if (!g->text) {
        tg_tape_fail(g->tape, TG_ERROR_MEMORY, "generate", "out of memory");
        return false;
    }
    memcpy(g->text, prompt, (size_t)count * sizeof *prompt);
    g->length = count;
    if (g->config->use_cache) {
        tg_error error = {0};
        int64_t positions = (int64_t)length < c->context ? (int64_t)length : c->context;
        g->cache = tg_kv_cache_new(tg_gpt_dtype(g->model), c->layers, 1, c->heads, positions, c->width, &error);
        if (!g->cache) {
            tg_tape_fail(g->tape, error.code, "generate", "%s", error.text);
            return false;
        }
    }
    return true;
}

/* How many new ids there are, or -1 after an error. */
static int64_t run(generation *g, tg_rng *rng)
{
    const tg_generate_config *config = g->config;
    int64_t made = 0;
    while (made < config->max_new_tokens) {
        int32_t id = next_id(g, rng);
        if (id < 0) {
            return -1;
        }
        if (id == config->end_token) {
            break;
        }
        g->text[g->length++] = id;
        made++;
        if (config->on_token && !config->on_token(config->context, id)) {
            break;
        }
    }
    return made;
}

int64_t tg_gpt_generate(tg_tape *t, const tg_gpt *model, const int32_t *prompt, int64_t count,
                        const tg_generate_config *config, int32_t *ids)
{
    if (tg_tape_error_code(t) != TG_OK || !check(t, model, prompt, count, config, ids)) {
        return -1;
    }
    bool recording = tg_tape_recording(t), training = tg_tape_training(t);
    tg_tape_set_recording(t, false);
    tg_tape_set_training(t, false);
    generation g = {.tape = t, .model = model, .config = config};
    tg_rng *rng = tg_tape_rng(t), saved;
    if (rng) {
        saved = *rng;
    }
    int64_t made = start(&g, prompt, count) ? run(&g, rng) : -1;
    if (made > 0) {
        memcpy(ids, g.text + count, (size_t)made * sizeof *ids);
    } else if (made < 0 && rng) {
        *rng = saved;
    }
    tg_kv_cache_free(g.cache);
    tg_free(g.text);
    tg_tape_set_recording(t, recording);
    tg_tape_set_training(t, training);
    return made;
}
