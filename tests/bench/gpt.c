#include "bench/gpt.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <tapegrad.h>

#include "bench/figure.h"
#include "nn/gpt.h"
#include "tape/tape.h"
#include "tensor/blas.h"

enum { B = 2, T = 256, C = 768, V = 50257, H = 12, LAYERS = 12 };

/* ---- the step: chapter 5's configuration, dropout with torch's stream, AdamW ---- */

typedef struct training {
    tg_rng *rng;
    tg_params *params;
    tg_gpt *model;
    tg_tape *tape;
    tg_optim *optim;
    tg_tensor *inputs, *targets;
} training;

/* The rest of a step, from the loss on. */
static void train(training *run, tg_tensor *loss)
{
    tg_optim_zero_grad(run->optim);
    if (!tg_backward(run->tape, loss, NULL)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(run->tape)->text);
        exit(1);
    }
    tg_optim_step(run->optim);
}

static void run_step(void *context)
{
    training *run = context;
    tg_tape_reset(run->tape);
    tg_tensor *logits = tg_gpt_forward(run->tape, run->model, run->inputs, NULL);
    train(run, tg_cross_entropy(run->tape, logits, run->targets, NULL));
}

static void run_step_without_logits(void *context)
{
    training *run = context;
    tg_tape_reset(run->tape);
    train(run, tg_gpt_loss(run->tape, run->model, run->inputs, run->targets, NULL));
}

static void run_step_in(training *run, tg_matmul_precision precision)
{
    if (!tg_tape_set_matmul_precision(run->tape, precision)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(run->tape)->text);
        exit(1);
    }
    run_step(run);
}

static void run_step_in_bf16(void *context)
{
    run_step_in(context, TG_MATMUL_BF16);
}

static void run_step_in_f32(void *context)
{
    run_step_in(context, TG_MATMUL_F32);
}

static training training_make(const tg_gpt_config *config)
{
    training run = {.rng = bench_must(tg_rng_new(123))};
    tg_adamw_config adamw = tg_adamw_config_default();
    run.params = bench_must(tg_params_new(TG_F32, run.rng));
    run.model = bench_must(tg_gpt_new(run.params, config));
    run.tape = bench_must(tg_tape_new(run.rng, NULL));
    run.optim = bench_must(tg_adamw_new(run.params, &adamw));
    run.inputs = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL));
    run.targets = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL));
    tg_tensor_fill_randint(run.inputs, run.rng, 0, config->vocabulary, NULL);
    tg_tensor_fill_randint(run.targets, run.rng, 0, config->vocabulary, NULL);
    return run;
}

static training training_new(void)
{
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    config.context = T;
    return training_make(&config);
}

static void training_free(training *run)
{
    tg_release(run->inputs);
    tg_release(run->targets);
    tg_optim_free(run->optim);
    tg_tape_free(run->tape);
    tg_gpt_free(run->model);
    tg_params_free(run->params);
    tg_rng_free(run->rng);
}

/* ---- the bound: every product of the unfused model, (M,K) x (K,N), once ---- */

typedef struct product {
    const char *what;
    int m, n, k, count;
    int transpose_a, transpose_b;
} product;

static const product products[] = {
    {"projections", B *T, C, C, 4 * LAYERS, 0, 1},
    {"projections, dx", B *T, C, C, 4 * LAYERS, 0, 0},
    {"projections, dW", C, C, B *T, 4 * LAYERS, 1, 0},
    {"feed-forward up", B *T, 4 * C, C, LAYERS, 0, 1},
    {"feed-forward up, dx", B *T, C, 4 * C, LAYERS, 0, 0},
    {"feed-forward up, dW", 4 * C, C, B *T, LAYERS, 1, 0},
    {"feed-forward down", B *T, C, 4 * C, LAYERS, 0, 1},
    {"feed-forward down, dx", B *T, 4 * C, C, LAYERS, 0, 0},
    {"feed-forward down, dW", C, 4 * C, B *T, LAYERS, 1, 0},
    {"head", B *T, V, C, 1, 0, 1},
    {"head, dx", B *T, C, V, 1, 0, 0},
    {"head, dW", V, C, B *T, 1, 1, 0},
    {"attention, q k^T and dP", T, T, C / H, 2 * B *H *LAYERS, 0, 1},
    {"attention, P v and dq", T, C / H, T, 2 * B *H *LAYERS, 0, 0},
    {"attention, dk and dv", T, C / H, T, 2 * B *H *LAYERS, 1, 0},
};

#define PRODUCTS ((int)(sizeof products / sizeof products[0]))

/* Buffers of the model's size: a product takes the next stretch of memory each time, so nothing is in a cache that
 * would not be there in the model. */
typedef struct arena {
    float *values;
    size_t size, used;
} arena;

static float *take(arena *a, size_t count)
{
    if (a->used + count > a->size) {
        a->used = 0;
    }
    float *taken = a->values + a->used;
    a->used += count;
    return taken;
}

static void run_products(void *context)
{
    arena *a = context;
    for (int i = 0; i < PRODUCTS; i++) {
        const product *p = &products[i];
        for (int n = 0; n < p->count; n++) {
            float *left = take(a, (size_t)p->m * (size_t)p->k), *right = take(a, (size_t)p->k * (size_t)p->n);
            float *out = take(a, (size_t)p->m * (size_t)p->n);
            const tg_gemm gemm = {p->m,
                                  p->n,
                                  p->k,
                                  .transpose_a = p->transpose_a,
                                  .transpose_b = p->transpose_b,
                                  .lda = p->transpose_a ? p->m : p->k,
                                  .ldb = p->transpose_b ? p->k : p->n,
                                  .ldc = p->n};
            tg_gemm_f32(&gemm, left, right, 0, out);
        }
    }
}

static double flops(void)
{
    double sum = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        sum += 2.0 * products[i].m * products[i].n * products[i].k * products[i].count;
    }
    return sum;
}

static void print_products(void)
{
    printf("\nthe matrix products of a step (B %d, T %d, 124M parameters), %.1f Gflop:\n", B, T, flops() * 1e-9);
    for (int i = 0; i < PRODUCTS; i++) {
        printf("  %-26s M %5d  N %5d  K %5d  x %d\n", products[i].what, products[i].m, products[i].n, products[i].k,
               products[i].count);
    }
}

/* Runs two steps, and prints the peak of the process's memory so far. */
static void bench_memory(training *run, void (*step)(void *run), const char *name)
{
    step(run);
    step(run);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    bench_value(name, (double)usage.ru_maxrss * 1024 / (16.0 * (double)tg_params_value_count(run->params)),
                "times 16 bytes a parameter");
}

static void bench_training(void)
{
    training run = training_new();
    bench_memory(&run, run_step_without_logits, "gpt: peak memory, tg_gpt_loss");
    training_free(&run);
    run = training_new();
    bench_memory(&run, run_step, "gpt: peak memory, with logits");
    /* 400 MiB */
    arena a = {.size = (size_t)400 << 18};
    a.values = bench_must(malloc(a.size * sizeof(float)));
    for (size_t i = 0; i < a.size; i++) {
        a.values[i] = (float)(i % 1024) * 1e-3f;
    }
    if (!bench_json) {
        print_products();
    }
    double step = bench_measure(&(bench_figure){.name = "gpt: a training step, 124M, B 2 x T 256",
                                                .unit = "ms",
                                                .bound_name = "its sgemm calls alone",
                                                .run = run_step,
                                                .bound = run_products,
                                                .context = &run,
                                                .bound_context = &a,
                                                .scale = 1e3,
                                                .rounds = 5});
    bench_value("gpt: training", B * T / step, "tokens/s");
    bench_measure(&(bench_figure){.name = "gpt: the same step by tg_gpt_loss",
                                  .unit = "ms",
                                  .bound_name = "the step with logits",
                                  .run = run_step_without_logits,
                                  .bound = run_step,
                                  .context = &run,
                                  .bound_context = &run,
                                  .scale = 1e3,
                                  .rounds = 5});
    free(a.values);
    run_step_in_bf16(&run); /* takes the memory of the rounded parameters */
    bench_measure(&(bench_figure){.name = "gpt: the same step, its products in bf16",
                                  .unit = "ms",
                                  .bound_name = "the step in f32",
                                  .run = run_step_in_bf16,
                                  .bound = run_step_in_f32,
                                  .context = &run,
                                  .bound_context = &run,
                                  .scale = 1e3,
                                  .rounds = 5});
    training_free(&run);
}

/* Returns the most memory that the tape had in use: its pool keeps each block. */
static double tape_bytes(const training *run)
{
    tg_tape_reset(run->tape);
    return (double)tg_tape_get_stats(run->tape).idle_bytes;
}

/* A smaller model, whose parameters do not hide the memory of its results. */
static void bench_checkpointing(void)
{
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    config.vocabulary = 5000;
    config.context = T;
    config.width = 256;
    config.heads = 4;
    training plain = training_make(&config);
    config.activation_checkpointing = true;
    training spans = training_make(&config);
    bench_measure(&(bench_figure){.name = "gpt: a step with activation checkpointing, C 256",
                                  .unit = "ms",
                                  .bound_name = "the step without",
                                  .run = run_step_without_logits,
                                  .bound = run_step_without_logits,
                                  .context = &spans,
                                  .bound_context = &plain,
                                  .scale = 1e3,
                                  .rounds = 5});
    bench_value("gpt: memory of its results", tape_bytes(&spans) / tape_bytes(&plain), "of that without");
    training_free(&plain);
    training_free(&spans);
}

/* ---- generation ---- */

typedef struct generation {
    tg_tape *tape;
    tg_gpt *model;
    tg_kv_cache *cache;
    tg_tensor *id, *prompt;
} generation;

static void next_token(void *context)
{
    generation *g = context;
    tg_tape_reset(g->tape);
    if (!tg_gpt_forward(g->tape, g->model, g->id, g->cache)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(g->tape)->text);
        exit(1);
    }
}

/* What a token needs of the memory. */
typedef struct traffic {
    uint64_t *values;
    int64_t count;
} traffic;

/* The sum of all sums: if nothing used them, the compiler would remove the loop. */
static atomic_ullong total;

static void read_part(void *context, int64_t begin, int64_t end)
{
    const traffic *read = context;
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++) {
        sum += read->values[i];
    }
    atomic_fetch_add(&total, sum);
}

/* The bound of a token: all weights, and the keys and values of the tokens before it, are read once. */
static void read_all(void *context)
{
    traffic *read = context;
    tg_parallel_for(read->count, 1 << 16, read_part, read);
}

static void bench_generation(void)
{
    tg_rng *rng = bench_must(tg_rng_new(123));
    tg_params *params = bench_must(tg_params_new(TG_F32, rng));
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    generation g = {.tape = bench_must(tg_tape_new(rng, NULL)), .model = bench_must(tg_gpt_new(params, &config))};
    g.cache = bench_must(tg_kv_cache_new(TG_F32, config.layers, 1, config.heads, config.context, config.width, NULL));
    g.id = bench_must(tg_tensor_new_full(TG_I32, TG_SHAPE(1, 1), 42, NULL));
    tg_tape_set_recording(g.tape, false);
    tg_tape_set_training(g.tape, false);
    /* In pairs of floats: the weights of the blocks and of the head, and the keys and values of a token. */
    const int64_t weights = ((int64_t)LAYERS * 12 * C * C + (int64_t)V * C) / 2, cached = (int64_t)LAYERS * C;
    const int64_t lengths[] = {1, 250, 500, 1000};
    traffic read = {.values = bench_must(malloc((size_t)(weights + 1000 * cached) * sizeof *read.values))};
    memset(read.values, 1, (size_t)(weights + 1000 * cached) * sizeof *read.values);
    for (int i = 0; i < 4; i++) {
        read.count = weights + lengths[i] * cached;
        tg_kv_cache_clear(g.cache);
        g.prompt = bench_must(tg_tensor_new_full(TG_I32, TG_SHAPE(1, lengths[i]), 7, NULL));
        /* not timed, and without the logits of all positions, which would be 200 MB */
        bench_must(tg_gpt_next_logits(g.tape, g.model, g.prompt, g.cache));
        char name[64];
        snprintf(name, sizeof name, "gpt: the next token after %lld, 124M", (long long)lengths[i]);
        bench_measure(&(bench_figure){.name = name,
                                      .unit = "ms",
                                      .bound_name = "its weights, keys and values, read once",
                                      .run = next_token,
                                      .bound = read_all,
                                      .context = &g,
                                      .bound_context = &read,
                                      .scale = 1e3,
                                      .rounds = 21});
        tg_release(g.prompt);
    }
    free(read.values);
    tg_release(g.id);
    tg_kv_cache_free(g.cache);
    tg_tape_free(g.tape);
    tg_gpt_free(g.model);
    tg_params_free(params);
    tg_rng_free(rng);
}

void bench_gpt_serve(int rounds)
{
    training run = training_new();
    bench_print_seconds(run_step, &run, rounds);
    training_free(&run);
}

void bench_gpt(void)
{
    bench_checkpointing(); /* takes much less memory than the next one, which prints peaks */
    bench_training();
    bench_generation();
}
