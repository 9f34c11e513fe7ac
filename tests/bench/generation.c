#include "bench/generation.h"

#include <stdio.h>
#include <stdlib.h>

#include <tapegrad.h>

#include "bench/figure.h"
#include "bench/products.h"
#include "bench/read_bound.h"
#include "models/gpt.h"

enum { C = BENCH_C, V = BENCH_V, LAYERS = BENCH_LAYERS, TEXTS = 8 };

/* One or more texts of one length. */
typedef struct generation {
    tg_run *shared_run;
    tg_tape *tape;
    tg_gpt *model;
    tg_kv_cache *cache;
    tg_tensor *ids, *prompt;
    int64_t texts;
} generation;

static generation generation_new(tg_run *shared_run, tg_gpt *model, int64_t texts)
{
    const tg_gpt_config *c = tg_gpt_get_config(model);
    generation g = {
        .shared_run = shared_run, .tape = bench_must(tg_tape_new(shared_run, NULL)), .model = model, .texts = texts};
    g.cache = bench_must(tg_kv_cache_new(TG_F32, c->layers, texts, c->heads, c->context, c->width, NULL, NULL));
    g.ids = bench_must(tg_tensor_new_full(TG_I32, TG_SHAPE(texts, 1), 42, NULL));
    tg_tape_set_recording(g.tape, false);
    tg_tape_set_training(g.tape, false);
    return g;
}

static void generation_free(generation *g)
{
    tg_release(g->ids);
    tg_kv_cache_free(g->cache);
    tg_tape_free(g->tape);
}

static void next_logits(generation *g, tg_tensor *ids)
{
    tg_gpt_forward_config config = tg_gpt_forward_config_default();
    config.cache = g->cache;
    tg_tape_reset(g->tape);
    if (!tg_gpt_last_logits(g->tape, g->model, ids, &config)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(g->tape)->text);
        exit(1);
    }
}

static void run_token(void *context)
{
    generation *g = context;
    next_logits(g, g->ids);
}

static void run_prompt(void *context)
{
    generation *g = context;
    tg_kv_cache_clear(g->cache);
    next_logits(g, g->prompt);
}

/* Begins texts of a length. */
static void begin(generation *g, int64_t length)
{
    g->prompt = bench_must(tg_tensor_new_full(TG_I32, TG_SHAPE(g->texts, length), 7, NULL));
    run_prompt(g);
    tg_release(g->prompt);
}

/* ---- one token ---- */

/* The bound of a token: all weights, and the keys and values of the tokens before it, are read once. */
static void bench_tokens(generation *g)
{
    const double weights = sizeof(float) * ((double)LAYERS * 12 * C * C + (double)V * C);
    const double cached = sizeof(float) * 2.0 * LAYERS * C;
    const int64_t lengths[] = {1, 250, 500, 1000};
    for (int i = 0; i < 4; i++) {
        read_bound read = read_bound_new(weights + (double)lengths[i] * cached);
        begin(g, lengths[i]);
        char name[64];
        snprintf(name, sizeof name, "gpt: the next token after %lld, 124M", (long long)lengths[i]);
        bench_measure(&(bench_figure){.name = name,
                                      .unit = "ms",
                                      .bound_name = "its weights, keys and values, read once",
                                      .run = run_token,
                                      .bound = read_bound_run,
                                      .context = g,
                                      .bound_context = &read,
                                      .scale = 1e3,
                                      .rounds = 21});
        read_bound_free(&read);
    }
}

/* ---- several texts, and a prompt ---- */

/* The keys and values of each text are read, too: the longer the texts, the less a token of several has in common. */
static void bench_texts_of(generation *one, generation *several, int64_t length)
{
    begin(one, length);
    begin(several, length);
    enum { ROUNDS = 15 };
    double single[ROUNDS], together[ROUNDS];
    for (int round = -2; round < ROUNDS; round++) {
        double start = bench_seconds();
        run_token(one);
        double middle = bench_seconds();
        run_token(several);
        double end = bench_seconds();
        if (round >= 0) {
            single[round] = middle - start;
            together[round] = end - middle;
        }
    }
    char name[64];
    snprintf(name, sizeof name, "gpt: 8 texts together after %lld, tokens a second", (long long)length);
    bench_value(name, TEXTS * bench_median(single, ROUNDS) / bench_median(together, ROUNDS), "times those of one text");
}

static void bench_texts(generation *one)
{
    generation several = generation_new(one->shared_run, one->model, TEXTS);
    bench_texts_of(one, &several, 1);
    bench_texts_of(one, &several, 250);
    generation_free(&several);
}

static void bench_prompt(generation *g)
{
    bench_products products = bench_products_of_prompt(256);
    g->prompt = bench_must(tg_tensor_new_full(TG_I32, TG_SHAPE(1, 256), 7, NULL));
    bench_measure(&(bench_figure){.name = "gpt: a prompt of 256 tokens, 124M",
                                  .unit = "ms",
                                  .bound_name = "its products",
                                  .run = run_prompt,
                                  .bound = bench_products_run,
                                  .context = g,
                                  .bound_context = &products,
                                  .scale = 1e3,
                                  .rounds = 9});
    tg_release(g->prompt);
    bench_products_free(&products);
}

/* Runs something with GPT-2 small and one text. */
static void with_model(void (*run)(generation *one))
{
    tg_run *shared_run = bench_must(tg_run_new(123));
    tg_params *params = bench_must(tg_params_new(shared_run, TG_F32));
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    tg_gpt *model = bench_must(tg_gpt_new(params, &config));
    generation one = generation_new(shared_run, model, 1);
    run(&one);
    generation_free(&one);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(shared_run);
}

static void bench_all(generation *one)
{
    bench_tokens(one);
    bench_texts(one);
    bench_prompt(one);
}

void bench_next_token(void)
{
    with_model(bench_tokens);
}

void bench_generation(void)
{
    with_model(bench_all);
}
