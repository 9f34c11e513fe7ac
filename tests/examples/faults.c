/* faults: preloaded into a program, it makes one fault, named by $TG_FAULT: a bad config of the params, the tape, the
 * optimizer or the loader; a loader that fails in its third batch; an id, or targets of another rank, in that batch.
 * At the end it writes to $TG_FAULT_REPORT whether a value of the params has changed since the fault. Over MPI only
 * rank 1 has the fault. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapegrad.h>

static tg_params *params;
static tg_run *common;
static uint64_t before;
static bool is_made, is_reported;
static int batches;
static tg_tensor *other;

static bool is(const char *fault)
{
    const char *wanted = getenv("TG_FAULT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    return wanted && strcmp(wanted, fault) == 0 && (!rank || atoi(rank) == 1);
}

/* The next definition of a call, that of the library. */
static void next(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

static uint64_t sum_of_values(void)
{
    uint64_t sum = 1469598103934665603u;
    for (int64_t i = 0; params && i < tg_params_count(params); i++) {
        const tg_tensor *x = tg_params_at(params, i).tensor;
        const unsigned char *bytes = tg_tensor_data(x);
        for (int64_t k = 0; bytes && k < tg_tensor_count(x) * 4; k++) {
            sum = (sum ^ bytes[k]) * 1099511628211u;
        }
    }
    return sum;
}

static void make(void)
{
    before = sum_of_values();
    is_made = true;
}

static void report(void)
{
    FILE *file = is_made && !is_reported ? fopen(getenv("TG_FAULT_REPORT"), "w") : NULL;
    is_reported = true;
    if (file) {
        fputs(sum_of_values() == before ? "unchanged\n" : "changed\n", file);
        fclose(file);
    }
}

__attribute__((destructor)) static void at_the_end(void)
{
    report();
}

tg_params *tg_params_new(tg_run *run, tg_dtype dtype)
{
    tg_params *(*real)(tg_run *, tg_dtype);
    next("tg_params_new", &real);
    common = run;
    return params = real(run, is("params") ? TG_I32 : dtype);
}

void tg_params_free(tg_params *p)
{
    void (*real)(tg_params *);
    next("tg_params_free", &real);
    if (p && p == params) {
        report();
        params = NULL;
    }
    real(p);
}

tg_tape *tg_tape_new(tg_run *run, const tg_tape_config *config)
{
    tg_tape *(*real)(tg_run *, const tg_tape_config *);
    next("tg_tape_new", &real);
    tg_tape_config bad = tg_tape_config_default();
    bad.max_backwards = -1;
    return real(run, is("tape") ? &bad : config);
}

#define OPTIMIZER(name, config)                                     \
    tg_optim *tg_##name##_new(tg_params *p, const config *given)    \
    {                                                               \
        tg_optim *(*real)(tg_params *, const config *);             \
        next("tg_" #name "_new", &real);                            \
        config bad = given ? *given : tg_##name##_config_default(); \
        bad.lr = -1;                                                \
        return real(p, is("optimizer") ? &bad : given);             \
    }
OPTIMIZER(adam, tg_adam_config)
OPTIMIZER(adamw, tg_adamw_config)

tg_loader *tg_loader_new(tg_run *run, const int32_t *ids, int64_t count, const tg_loader_config *config)
{
    tg_loader *(*real)(tg_run *, const int32_t *, int64_t, const tg_loader_config *);
    next("tg_loader_new", &real);
    tg_loader_config bad = *config;
    bad.batch_size = -1;
    return real(run, ids, count, is("loader") ? &bad : config);
}

bool tg_loader_next(tg_loader *loader, tg_batch *batch)
{
    bool (*real)(tg_loader *, tg_batch *);
    next("tg_loader_next", &real);
    if (!real(loader, batch) || ++batches != 3) {
        return batch->inputs != NULL;
    }
    if (is("batch")) {
        make();
        tg_error error = {.code = TG_ERROR_FILE, .text = "loader: the file has no data at byte 24"};
        memset(batch, 0, sizeof *batch);
        return tg_run_set_error(common, &error);
    }
    if (is("id")) {
        make();
        *(int32_t *)tg_tensor_data_mut(batch->inputs) = 1000000;
    }
    if (is("rank")) {
        make();
        batch->targets = other = tg_tensor_new(TG_I32, TG_SHAPE(1, 1, 1), NULL);
    }
    return true;
}
