/* bench: the times of the library's core, each beside a bound that is measured in the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>
#include <tapegrad/extend.h>

#include "../examples/common/products.h"
#include "bench/adam.h"
#include "bench/course.h"
#include "bench/figure.h"
#include "bench/generation.h"
#include "bench/gpt.h"
#include "bench/io.h"
#include "bench/kernels.h"
#include "bench/large_table.h"
#include "bench/op_bench.h"
#include "bench/op_bound.h"
#include "bench/params.h"
#include "bench/positions.h"
#include "bench/profile.h"

/* ---- the tape ---- */

typedef struct chain {
    tg_tape *tape;
    tg_tensor *x, *gradient;
} chain;

static void run_chain(void *context)
{
    chain *c = context;
    tg_tape_reset(c->tape);
    tg_tensor *y = c->x;
    for (int i = 0; i < 1000; i++) {
        y = tg_add(c->tape, y, c->x);
    }
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = c->gradient;
    tg_backward(c->tape, y, &backward);
    tg_tensor_zero_grad(c->x);
}

static void bench_chain(void)
{
    chain c = {bench_must(tg_tape_new(NULL, NULL)), bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(4), 1, NULL)),
               bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(4), 1, NULL))};
    tg_tensor_set_requires_grad(c.x, true, NULL);
    bench_measure(&(bench_figure){.name = "tape: add of 4 floats, forward and backward",
                                  .unit = "ns",
                                  .run = run_chain,
                                  .context = &c,
                                  .scale = 1e9 / 1000,
                                  .rounds = 401});
    tg_tape_free(c.tape);
    tg_release(c.x);
    tg_release(c.gradient);
}

/* ---- embedding forward ---- */

typedef struct lookup {
    tg_tape *tape;
    tg_tensor *table, *ids, *from, *to;
} lookup;

static void run_lookup(void *context)
{
    lookup *l = context;
    tg_tape_reset(l->tape);
    tg_embedding(l->tape, l->ids, l->table, NULL);
}

static void run_memcpy(void *context)
{
    lookup *l = context;
    bench_copy(tg_tensor_data_mut(l->to), tg_tensor_data(l->from), tg_tensor_count(l->to) * (int64_t)sizeof(float),
               1 << 20);
}

static void bench_lookup(void)
{
    lookup l = {bench_must(tg_tape_new(NULL, NULL)),
                bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(50257, 768), 1, NULL)),
                bench_must(tg_tensor_new(TG_I32, TG_SHAPE(8192), NULL)),
                bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(8192, 768), 1, NULL)),
                bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(8192, 768), 1, NULL))};
    tg_rng *rng = bench_must(tg_rng_new(1));
    tg_tensor_fill_randint(l.ids, rng, 0, 50257, NULL);
    tg_tape_set_recording(l.tape, false);
    bench_measure(&(bench_figure){.name = "embedding: forward of 8192 x 768",
                                  .unit = "ms",
                                  .bound_name = "memcpy",
                                  .run = run_lookup,
                                  .bound = run_memcpy,
                                  .context = &l,
                                  .scale = 1e3,
                                  .rounds = 41});
    tg_tape_free(l.tape);
    tg_rng_free(rng);
    tg_release(l.table);
    tg_release(l.ids);
    tg_release(l.from);
    tg_release(l.to);
}

/* ---- options ---- */

typedef struct options {
    bool ops, serve;
    const char *part; /* the name of the only part that runs, or NULL */
    op_options op;
} options;

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void explain(void)
{
    printf("bench: measures the library's core, each time beside a bound of the same run.\n\n"
           "  --quick            fewer rounds, and neither the kinds of positions nor the GPT\n"
           "  --json             one line of JSON per figure\n"
           "  --threads=N        number of threads\n"
           "  --products=NAME    what computes matrix products: auto, blas or builtin\n"
           "  --part NAME        one part alone: deferred, generation, next-token, params or large-table\n"
           "  --ops [REGEX]      a line for each op instead, or for those that match\n"
           "  --shape NAME       of --ops: the shape of the inputs\n"
           "  --dtype f32|f64    of --ops: the dtype of the inputs\n"
           "  --list             of --ops: names alone\n"
           "  --serve            steps of a GPT, or with --ops of ops, for the scripts of tests/bench\n");
}

/* Reads the option at argv[0], of `count` arguments; returns how many it has, or 0 for an unknown one. */
static int read_option(options *o, char **argv, int count)
{
    const char *option = argv[0], *value = count > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    bench_json = bench_json || strcmp(option, "--json") == 0;
    bench_quick = bench_quick || strcmp(option, "--quick") == 0;
    o->serve = o->serve || strcmp(option, "--serve") == 0;
    o->op.list = o->op.list || strcmp(option, "--list") == 0;
    if (strcmp(option, "--ops") == 0) {
        o->ops = true;
        o->op.names = value;
        return value ? 2 : 1;
    }
    if (strcmp(option, "--part") == 0 && value) {
        o->part = value;
        return 2;
    }
    if (strcmp(option, "--shape") == 0 && value) {
        o->op.shape = value;
        return 2;
    }
    if (strcmp(option, "--dtype") == 0 && value && (strcmp(value, "f32") == 0 || strcmp(value, "f64") == 0)) {
        o->op.f64 = strcmp(value, "f64") == 0;
        return 2;
    }
    if (starts(option, "--products=")) {
        static const char *const names[] = {"auto", "blas", "builtin"}; /* as tg_matmul_backend */
        int i = 0;
        while (i < 3 && strcmp(option + strlen("--products="), names[i]) != 0) {
            i++;
        }
        return i < 3 && tg_set_matmul_backend((tg_matmul_backend)i, NULL) ? 1 : 0;
    }
    bool is_flag = strcmp(option, "--json") == 0 || strcmp(option, "--quick") == 0 || strcmp(option, "--serve") == 0 ||
                   strcmp(option, "--list") == 0;
    return is_flag || (starts(option, "--threads=") && tg_set_threads(atoi(option + 10), NULL)) ? 1 : 0;
}

/* Parts of the benchmark that can run alone. The last one runs only if it is asked for: it needs much memory. */
static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"deferred", bench_deferred_methods}, {"generation", bench_generation},
    {"next-token", bench_next_token},     {"params", bench_params},
    {"large-table", bench_large_table},
};

/* Prints an error, whose text has an argument, escaped. Returns the exit status. */
static int refuse(const char *format, const char *argument)
{
    tg_error error = TG_NO_ERROR;
    tg_error_set(&error, TG_ERROR_VALUE, format, argument);
    fprintf(stderr, "bench: %s\n", error.text);
    return 2;
}

/* Runs a part; returns the exit status. */
static int run_part(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(name, parts[i].name) == 0) {
            parts[i].run();
            return 0;
        }
    }
    return refuse("no part '%s'; the parts are deferred, generation, next-token, params and large-table", name);
}

int main(int argc, char **argv)
{
    options o = {.ops = false};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            explain();
            return 0;
        }
    }
    for (int i = 1, read; i < argc; i += read) {
        read = read_option(&o, argv + i, argc - i);
        if (read == 0) {
            return refuse("%s is unknown, or has no valid value (allowed: --help, --json, --quick, --threads=N, "
                          "--products=auto|blas|builtin, --serve, --list, --part NAME, --ops [REGEX], --shape NAME, "
                          "--dtype f32|f64)",
                          argv[i]);
        }
    }
    if (o.ops || o.op.list) {
        o.op.serve = o.serve;
        return op_bench(&o.op);
    }
    if (o.serve) {
        bench_gpt_serve();
        return 0;
    }
    if (o.part) {
        return run_part(o.part);
    }
    if (!bench_json) {
        char text[PRODUCTS_TEXT];
        printf("%s\n", products_text(text));
    }
    if (!bench_quick) {
        bench_gpt(); /* first: its peak of memory is that of the process */
        bench_generation();
    }
    bench_chain();
    bench_lookup();
    bench_course();
    bench_deferred_methods();
    bench_adam();
    bench_kernels();
    bench_profile();
    if (!bench_quick) {
        bench_params();
        bench_io();
        bench_positions();
    }
    return 0;
}
