#include "bench/large_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>

#include "base/random.h"
#include "bench/figure.h"

enum { WIDTH = 16, IDS = 4096, ROUNDS = 101 };

#define ROWS 60000000
#define SMALL_ROWS 1000000
#define TOUCHED 1000000

typedef tg_optim *make_optim(tg_params *params);

static tg_optim *make_sparse_adam(tg_params *params)
{
    return tg_sparse_adam_new(params, NULL);
}

static tg_optim *make_deferred_adamw(tg_params *params)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.deferred = true;
    return tg_adamw_new(params, &config);
}

/* Returns the memory of the process in MB. */
static double resident(void)
{
    char line[256];
    long long kilobytes = 0;
    FILE *file = bench_must(fopen("/proc/self/status", "r"));
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "VmRSS: %lld", &kilobytes);
    }
    fclose(file);
    return (double)kilobytes / 1024;
}

typedef struct training {
    tg_run *run;
    tg_params *params;
    tg_tensor *table, *ids;
    tg_optim *optim;
    tg_tape *tape;
    int64_t rows;
} training;

/* The table has zeros: what is measured is the memory that its training takes. */
static training training_new(int64_t rows, make_optim *make)
{
    training t = {.run = bench_must(tg_run_new(1)), .rows = rows};
    t.params = bench_must(tg_params_new(t.run, TG_F32));
    t.table = bench_must(tg_params_add(t.params, "table", TG_SHAPE(rows, WIDTH)));
    t.ids = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(IDS), NULL));
    t.optim = bench_must(make(t.params));
    t.tape = bench_must(tg_tape_new(t.run, NULL));
    return t;
}

static void training_free(training *t)
{
    tg_tape_free(t->tape);
    tg_optim_free(t->optim);
    tg_release(t->ids);
    tg_params_free(t->params);
    tg_run_free(t->run);
}

/* A step of IDS random rows. */
static void run_step(void *context)
{
    training *t = context;
    int32_t *ids = tg_tensor_data_mut(t->ids);
    for (int i = 0; i < IDS; i++) {
        ids[i] = (int32_t)(tg_rng_u32(tg_run_rng(t->run)) % (uint32_t)t->rows);
    }
    tg_tape_reset(t->tape);
    tg_optim_zero_grad(t->optim);
    tg_tensor *x = tg_embedding(t->tape, t->ids, t->table, NULL);
    if (!tg_backward(t->tape, tg_sum(t->tape, x, TG_ALL_AXES, TG_DROP_AXES), NULL) || !tg_optim_step(t->optim)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(t->tape)->text);
        exit(1);
    }
}

static void bench_method(const char *method, make_optim *make)
{
    char name[96];
    double start = bench_seconds(), before = resident();
    training large = training_new(ROWS, make);
    snprintf(name, sizeof name, "%s, 60 million rows: made", method);
    bench_value(name, bench_seconds() - start, "s");
    snprintf(name, sizeof name, "%s, 60 million rows: memory", method);
    bench_value(name, resident() - before, "MB");
    for (int i = 0; i < TOUCHED / IDS; i++) {
        run_step(&large);
    }
    snprintf(name, sizeof name, "%s: memory after a million touched rows", method);
    bench_value(name, resident() - before, "MB");
    training small = training_new(SMALL_ROWS, make);
    for (int i = 0; i < TOUCHED / IDS; i++) {
        run_step(&small);
    }
    snprintf(name, sizeof name, "%s, 60 million rows: step of 4,096 ids", method);
    bench_measure(&(bench_figure){.name = name,
                                  .unit = "ms",
                                  .bound_name = "a million rows",
                                  .run = run_step,
                                  .bound = run_step,
                                  .context = &large,
                                  .bound_context = &small,
                                  .scale = 1e3,
                                  .rounds = ROUNDS});
    training_free(&small);
    training_free(&large);
}

void bench_large_table(void)
{
    bench_method("SparseAdam", make_sparse_adam);
    bench_method("deferred AdamW", make_deferred_adamw);
}
