/* published: the figures of a published decoder, for tests/bench/published.
 *
 *     bench_published make MODEL FOLDER                       writes a folder with random weights of bf16
 *     bench_published ROW FOLDER f32|bf16 THREADS             answers lines with a number of rounds
 *
 * An answer has the seconds of each round, or, after the end of the input, the peak of the memory in MB and the
 * parameters, all and trained. The rows: "step", AdamW of all weights with 2 x 256 tokens; "lora", the same of rank 8
 * on all projections; "token", the next one after 250; "prompt", 256 tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <tapegrad.h>

#include "bench/decoder.h"
#include "bench/figure.h"

enum { TEXTS = 2, LENGTH = 256, BEFORE = 250 };

/* Ends the program with an error. */
static int stop(const char *text)
{
    fprintf(stderr, "bench_published: %s\n", text);
    exit(1);
}

/* ---- folders ---- */

static int make(const char *name, const char *folder)
{
    tg_error error = TG_NO_ERROR;
    tg_gpt_config config;
    if (!bench_decoder(name, &config)) {
        stop("MODEL is 135m or 0.6b");
    }
    tg_gpt_save_config save = tg_gpt_save_config_default();
    tg_run *run = bench_must(tg_run_new(1));
    tg_params *params = bench_must(tg_params_new(run, TG_F32));
    tg_gpt *model = tg_gpt_new(params, &config);
    save.floats = TG_SAVE_FLOATS_BF16;
    if (!model || !tg_gpt_save(model, folder, &save, &error)) {
        stop(model ? error.text : tg_params_error(params)->text);
    }
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    return 0;
}

/* ---- rows ---- */

typedef struct state {
    tg_run *run;
    tg_params *params;
    tg_gpt *model;
    tg_tape *tape;
    tg_optim *optim;
    tg_kv_cache *cache;
    tg_tensor *ids, *targets, *next;
} state;

static tg_tensor *random_ids(const state *s, int64_t texts, int64_t length)
{
    tg_tensor *ids = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(texts, length), NULL));
    tg_tensor_fill_randint(ids, tg_run_rng(s->run), 0, tg_gpt_get_config(s->model)->vocabulary, NULL);
    return ids;
}

static void run_step(void *context)
{
    state *s = context;
    tg_tape_reset(s->tape);
    tg_optim_zero_grad(s->optim);
    tg_tensor *logits = tg_gpt_forward(s->tape, s->model, s->ids, NULL);
    if (!tg_backward(s->tape, tg_cross_entropy(s->tape, logits, s->targets, NULL), NULL)) {
        stop(tg_tape_error(s->tape)->text);
    }
    tg_optim_step(s->optim);
}

static void run_pass(state *s, tg_tensor *ids)
{
    tg_gpt_forward_config config = tg_gpt_forward_config_default();
    config.cache = s->cache;
    tg_tape_reset(s->tape);
    if (!tg_gpt_last_logits(s->tape, s->model, ids, &config)) {
        stop(tg_tape_error(s->tape)->text);
    }
}

static void run_token(void *context)
{
    state *s = context;
    run_pass(s, s->next);
}

static void run_prompt(void *context)
{
    state *s = context;
    tg_kv_cache_clear(s->cache);
    run_pass(s, s->ids);
}

static void begin_training(state *s, bool is_lora)
{
    tg_lora_config lora = tg_lora_config_default();
    lora.rank = 8;
    lora.alpha = 16;
    if (is_lora && (!tg_params_set_frozen(s->params, "*", true) || !tg_gpt_add_lora(s->model, "trf_blocks.*", &lora))) {
        stop(tg_params_error(s->params)->text);
    }
    s->optim = bench_must(tg_adamw_new(s->params, NULL));
    s->ids = random_ids(s, TEXTS, LENGTH);
    s->targets = random_ids(s, TEXTS, LENGTH);
}

static void begin_generation(state *s, int64_t length)
{
    tg_tape_set_recording(s->tape, false);
    tg_tape_set_training(s->tape, false);
    s->ids = random_ids(s, 1, length);
    s->next = random_ids(s, 1, 1);
    s->cache = bench_must(tg_gpt_new_cache(s->model, 1, tg_gpt_get_config(s->model)->context));
    run_prompt(s);
}

static void print_memory(const state *s)
{
    double trained = 0;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    for (int64_t i = 0; s->optim && i < tg_params_count(s->params); i++) {
        tg_entry entry = tg_params_at(s->params, i);
        if (entry.kind == TG_ENTRY_PARAMETER && tg_tensor_requires_grad(entry.tensor)) {
            trained += (double)tg_tensor_count(entry.tensor);
        }
    }
    printf("%.0f %lld %.0f\n", (double)usage.ru_maxrss * 1024 / 1e6, (long long)tg_params_value_count(s->params),
           trained);
}

static void state_free(state *s)
{
    tg_release(s->ids);
    tg_release(s->targets);
    tg_release(s->next);
    tg_kv_cache_free(s->cache);
    tg_optim_free(s->optim);
    tg_tape_free(s->tape);
    tg_gpt_free(s->model);
    tg_params_free(s->params);
    tg_run_free(s->run);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "make") == 0) {
        return make(argv[2], argv[3]);
    }
    if (argc != 5) {
        return stop("make MODEL FOLDER, or ROW FOLDER f32|bf16 THREADS");
    }
    const char *row = argv[1];
    tg_gpt_open_config open = tg_gpt_open_config_default();
    open.keep_bf16 = strcmp(argv[3], "bf16") == 0;
    tg_set_threads(atoi(argv[4]), NULL);
    state s = {.run = bench_must(tg_run_new(1))};
    s.params = bench_must(tg_params_new(s.run, TG_F32));
    s.model = tg_gpt_open(s.params, argv[2], &open);
    if (!s.model) {
        return stop(tg_params_error(s.params)->text);
    }
    s.tape = bench_must(tg_tape_new(s.run, NULL));
    void (*run)(void *state) = strcmp(row, "token") == 0    ? run_token
                               : strcmp(row, "prompt") == 0 ? run_prompt
                                                            : run_step;
    if (run == run_step) {
        begin_training(&s, strcmp(row, "lora") == 0);
    } else {
        begin_generation(&s, run == run_token ? BEFORE : LENGTH);
    }
    for (char line[32]; fgets(line, sizeof line, stdin);) {
        bench_print_seconds(run, &s, atoi(line));
    }
    print_memory(&s);
    state_free(&s);
    return 0;
}
