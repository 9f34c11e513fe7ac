#include "bench/params.h"

#include <stdio.h>
#include <stdlib.h>

#include <tapegrad.h>

#include "base/random.h"
#include "bench/figure.h"

enum { NAME = 40, ROUNDS = 9, ACTIONS = 4 };

static const char path[] = "bench_params.safetensors";

/* Names in the order in which they are added, and in another one. */
typedef struct names {
    char (*added)[NAME], (*found)[NAME];
    int count;
} names;

static names names_new(int count)
{
    names n = {.count = count};
    n.added = bench_must(calloc((size_t)count, NAME));
    n.found = bench_must(calloc((size_t)count, NAME));
    tg_rng *rng = bench_must(tg_rng_new(1));
    int *order = bench_must(calloc((size_t)count, sizeof *order));
    for (int i = 0; i < count; i++) {
        int j = (int)(tg_rng_u32(rng) % (uint32_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
        snprintf(n.added[i], NAME, "blocks.%d.attention.weight", i);
    }
    for (int i = 0; i < count; i++) {
        snprintf(n.found[i], NAME, "blocks.%d.attention.weight", order[i]);
    }
    free(order);
    tg_rng_free(rng);
    return n;
}

static void must(bool is_done, const tg_error *error)
{
    if (!is_done) {
        fprintf(stderr, "bench: %s\n", error->text);
        exit(1);
    }
}

/* Measures adding, finding, saving and loading once, in seconds. */
static void measure(const names *n, double seconds[ACTIONS])
{
    tg_error error = TG_NO_ERROR;
    tg_params *params = bench_must(tg_params_new(NULL, TG_F32));
    double start[ACTIONS + 1] = {bench_seconds()};
    for (int i = 0; i < n->count; i++) {
        tg_params_add(params, n->added[i], TG_SHAPE(4));
    }
    start[1] = bench_seconds();
    for (int i = 0; i < n->count; i++) {
        bench_must(tg_params_find(params, n->found[i]));
    }
    start[2] = bench_seconds();
    must(tg_params_save(params, path, NULL, &error), &error);
    start[3] = bench_seconds();
    must(tg_params_load(params, path, NULL, &error), &error);
    start[4] = bench_seconds();
    for (int i = 0; i < ACTIONS; i++) {
        seconds[i] = start[i + 1] - start[i];
    }
    tg_params_free(params);
    remove(path);
}

void bench_params(void)
{
    static const int counts[] = {1000, 10000, 100000};
    static const char *const actions[] = {"added", "found by name", "saved", "loaded"};
    double times[ACTIONS][ROUNDS];
    for (int size = 0; size < 3; size++) {
        names n = names_new(counts[size]);
        for (int round = 0; round < ROUNDS; round++) {
            double seconds[ACTIONS];
            measure(&n, seconds);
            for (int i = 0; i < ACTIONS; i++) {
                times[i][round] = seconds[i];
            }
        }
        for (int i = 0; i < ACTIONS; i++) {
            char name[64];
            snprintf(name, sizeof name, "params: one of %d, %s", n.count, actions[i]);
            bench_value(name, 1e6 * bench_median(times[i], ROUNDS) / n.count, "us");
        }
        free(n.added);
        free(n.found);
    }
}
