/* gpt_generate: generation with a tg_gpt, whose step has a cache of its own. */
#include "models/generate.h"
#include "models/gpt.h"
#include "nn/kv_cache.h"
#include "tape/tape.h"

typedef struct generator {
    const char *call;
    const tg_gpt *model;
    tg_kv_cache *cache; /* NULL if no pass follows that continues the one before */
} generator;

static tg_tensor *step(tg_tape *t, const tg_generate_pass *pass, void *context)
{
    generator *g = context;
    if (pass->start == 0) {
        tg_error error = TG_NO_ERROR;
        tg_kv_cache_free(g->cache);
        g->cache = NULL;
        if (pass->cache_context > 0) {
            g->cache = tg_gpt_make_cache(g->model, pass->ids->shape[0], pass->cache_context, &error);
            if (!g->cache) {
                tg_tape_fail(t, error.code, g->call, "%s", error.text);
                return NULL;
            }
        }
    }
    tg_gpt_forward_config config = tg_gpt_forward_config_default();
    config.cache = g->cache;
    config.positions = pass->positions;
    config.first_keys = pass->first_keys;
    return tg_gpt_last_logits(t, g->model, pass->ids, &config);
}

static bool generate(tg_tape *t, const char *call, const tg_gpt *model, const int32_t *prompts, const int64_t *counts,
                     int64_t texts, int32_t *ids, int64_t *new_counts, const tg_generate_config *config)
{
    if (!tg_tape_is_usable(t)) {
        return false;
    }
    if (!model) {
        return tg_tape_fail(t, TG_ERROR_STATE, call, "the model is NULL");
    }
    const tg_gpt_config *c = &model->config;
    if (model->out_head.weight->shape[0] != c->vocabulary) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call,
                            "the head has %lld outputs, which are no ids of the vocabulary of %lld",
                            (long long)model->out_head.weight->shape[0], (long long)c->vocabulary);
    }
    generator g = {.call = call, .model = model};
    tg_language_model any = {step, &g, c->vocabulary, c->context, .takes_padding = true};
    bool is_good = tg_generate_as(t, call, &any, prompts, counts, texts, ids, new_counts, config);
    tg_kv_cache_free(g.cache);
    return is_good;
}

int64_t tg_gpt_generate(tg_tape *t, const tg_gpt *model, const int32_t *prompt, int64_t count, int32_t *ids,
                        const tg_generate_config *config)
{
    int64_t made;
    if (tg_tape_is_usable(t) && model && !prompt) {
        tg_tape_fail(t, TG_ERROR_STATE, "gpt_generate", "the prompt is NULL");
        return -1;
    }
    return generate(t, "gpt_generate", model, prompt, &count, 1, ids, &made, config) ? made : -1;
}

bool tg_gpt_generate_batch(tg_tape *t, const tg_gpt *model, const int32_t *prompts, const int64_t *counts,
                           int64_t texts, int32_t *ids, int64_t *new_counts, const tg_generate_config *config)
{
    return generate(t, "gpt_generate_batch", model, prompts, counts, texts, ids, new_counts, config);
}
