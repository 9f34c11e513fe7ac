#include "bench/adam.h"

#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>

#include "bench/figure.h"

typedef struct adam {
    tg_params *params;
    tg_optim *optim;
    float *theta, *gradient, *m, *v;
    int64_t count;
} adam;

static void run_adam(void *context)
{
    tg_optim_step(((adam *)context)->optim);
}

/* The bound: read four arrays and write three, with next to nothing computed. */
static void sweep_part(void *context, int64_t begin, int64_t end)
{
    const adam *a = context;
    float *theta = a->theta, *m = a->m, *v = a->v;
    const float *gradient = a->gradient;
    for (int64_t i = begin; i < end; i++) {
        m[i] += gradient[i];
        v[i] += gradient[i];
        theta[i] += m[i];
    }
}

static void run_sweep(void *context)
{
    const adam *a = context;
    tg_parallel_for(a->count, 1 << 16, sweep_part, context);
}

void bench_adam(void)
{
    tg_run *run = bench_must(tg_run_new(1));
    tg_tape *tape = bench_must(tg_tape_new(NULL, NULL));
    adam a = {.params = bench_must(tg_params_new(run, TG_F32)), .count = (int64_t)50257 * 256};
    tg_nn_embedding table = tg_nn_embedding_make(a.params, "tok_emb", 50257, 256, NULL);
    tg_adam_config config = tg_adam_config_default();
    a.optim = bench_must(tg_adam_new(a.params, &config));
    tg_tensor *square = tg_mul(tape, table.weight, table.weight);
    tg_backward(tape, tg_sum(tape, square, TG_ALL_AXES, TG_DROP_AXES), NULL);
    size_t bytes = (size_t)a.count * sizeof(float);
    float **arrays[] = {&a.theta, &a.gradient, &a.m, &a.v};
    for (int i = 0; i < 4; i++) {
        *arrays[i] = bench_must(aligned_alloc(64, bytes));
        memset(*arrays[i], 0, bytes);
    }
    bench_measure(&(bench_figure){.name = "adam: dense step on 50257 x 256",
                                  .unit = "ms",
                                  .bound_name = "a plain loop over the same arrays",
                                  .run = run_adam,
                                  .bound = run_sweep,
                                  .context = &a,
                                  .scale = 1e3,
                                  .rounds = 41});
    for (int i = 0; i < 4; i++) {
        free(*arrays[i]);
    }
    tg_tape_free(tape);
    tg_optim_free(a.optim);
    tg_params_free(a.params);
    tg_run_free(run);
}
