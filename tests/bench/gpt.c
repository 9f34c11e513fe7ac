#include "bench/gpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <tapegrad.h>

#include "bench/figure.h"
#include "bench/products.h"
#include "models/gpt.h"
#include "tape_stats.h"

enum { B = 2, T = 256, C = BENCH_C, V = BENCH_V, LAYERS = BENCH_LAYERS };

/* ---- a training step, with AdamW ---- */

typedef struct training {
    tg_run *shared_run;
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

static training training_make(const tg_gpt_config *config, int64_t batch)
{
    training run = {.shared_run = bench_must(tg_run_new(123))};
    tg_adamw_config adamw = tg_adamw_config_default();
    run.params = bench_must(tg_params_new(run.shared_run, TG_F32));
    run.model = bench_must(tg_gpt_new(run.params, config));
    run.tape = bench_must(tg_tape_new(run.shared_run, NULL));
    run.optim = bench_must(tg_adamw_new(run.params, &adamw));
    run.inputs = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(batch, config->context), NULL));
    run.targets = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(batch, config->context), NULL));
    tg_tensor_fill_randint(run.inputs, tg_run_rng(run.shared_run), 0, config->vocabulary, NULL);
    tg_tensor_fill_randint(run.targets, tg_run_rng(run.shared_run), 0, config->vocabulary, NULL);
    return run;
}

/* Chapter 5's configuration: dropout, with torch's stream, and a head of its own. */
static training training_new(void)
{
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    config.context = T;
    return training_make(&config, B);
}

static void training_free(training *run)
{
    tg_release(run->inputs);
    tg_release(run->targets);
    tg_optim_free(run->optim);
    tg_tape_free(run->tape);
    tg_gpt_free(run->model);
    tg_params_free(run->params);
    tg_run_free(run->shared_run);
}

/* Measures a step beside its bound, and returns its time in seconds. */
static double measure(const char *name, void (*run)(void *context), void *context, const char *bound_name,
                      void (*bound)(void *context), void *bound_context)
{
    return bench_measure(&(bench_figure){.name = name,
                                         .unit = "ms",
                                         .bound_name = bound_name,
                                         .run = run,
                                         .bound = bound,
                                         .context = context,
                                         .bound_context = bound_context,
                                         .scale = 1e3,
                                         .rounds = 5});
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
    bench_products products = bench_products_new(B, T);
    if (!bench_json) {
        bench_products_print(&products);
    }
    double step = measure("gpt: a training step, 124M, B 2 x T 256", run_step, &run, "its sgemm calls alone",
                          bench_products_run, &products);
    bench_value("gpt: training", B * T / step, "tokens/s");
    measure("gpt: the same step by tg_gpt_loss", run_step_without_logits, &run, "the step with logits", run_step, &run);
    bench_products_free(&products);
    training_free(&run);
}

/* GPT-2 as it was published, its head tied, but without dropout. */
static void bench_tied(int64_t batch, int64_t length)
{
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    config.context = length;
    config.tied_head = config.qkv_bias = true;
    config.init = TG_GPT_INIT_GPT2;
    config.dropout = 0;
    training run = training_make(&config, batch);
    bench_products products = bench_products_new((int)batch, (int)length);
    char name[64];
    snprintf(name, sizeof name, "gpt: a step, tied, no dropout, B %d x T %d", (int)batch, (int)length);
    measure(name, run_step, &run, "its sgemm calls alone", bench_products_run, &products);
    bench_products_free(&products);
    training_free(&run);
}

/* Returns the most memory that the tape had in use: its pool keeps each block. */
static double tape_bytes(const training *run)
{
    tg_tape_reset(run->tape);
    return (double)tape_stats_of(run->tape).idle_bytes;
}

static tg_gpt_config small_config(void)
{
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    config.vocabulary = 5000;
    config.context = T;
    config.width = 256;
    config.heads = 4;
    return config;
}

/* A smaller model, whose parameters do not hide the memory of its results. */
static void bench_checkpointing(void)
{
    tg_gpt_config config = small_config();
    training plain = training_make(&config, B);
    config.activation_checkpointing = true;
    training spans = training_make(&config, B);
    measure("gpt: a step with activation checkpointing, C 256", run_step_without_logits, &spans, "the step without",
            run_step_without_logits, &plain);
    bench_value("gpt: memory of its results", tape_bytes(&spans) / tape_bytes(&plain), "of that without");
    training_free(&plain);
    training_free(&spans);
}

/* Logits of some hundreds: most weights of the loss, and of its gradient, are far below the smallest normal number. */
static void bench_saturated(void)
{
    tg_gpt_config config = small_config();
    config.vocabulary = 20000;
    config.layers = 2;
    config.dropout = 0;
    training plain = training_make(&config, B), saturated = training_make(&config, B);
    tg_tensor *head = bench_must(tg_params_find(saturated.params, "out_head.weight"));
    float *weights = bench_must(tg_tensor_data_mut(head));
    for (int64_t i = 0; i < tg_tensor_count(head); i++) {
        weights[i] *= 1000;
    }
    measure("gpt: a step with saturated logits, C 256", run_step, &saturated, "the step without", run_step, &plain);
    training_free(&plain);
    training_free(&saturated);
}

void bench_gpt_serve(void)
{
    training run = training_new();
    for (char line[32]; fgets(line, sizeof line, stdin);) {
        bench_print_seconds(run_step, &run, atoi(line));
    }
    training_free(&run);
}

void bench_gpt(void)
{
    bench_checkpointing(); /* takes much less memory than the next one, which prints peaks */
    bench_saturated();
    bench_training();
    bench_tied(2, 256);
    bench_tied(4, 64);
}
