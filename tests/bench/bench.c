/* bench: the times of the library's core, each beside a bound that is measured in the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>

#include "../examples/common/products.h"
#include "base/random.h"
#include "bench/figure.h"
#include "bench/gpt.h"
#include "bench/io.h"
#include "bench/kernels.h"
#include "bench/op_bench.h"
#include "bench/op_bound.h"
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

/* ---- the course's own step ---- */

typedef struct course {
    tg_tape *tape;
    tg_rng *rng;
    tg_params *params;
    tg_nn_embedding token;
    tg_nn_positional position;
    tg_optim *optim;
    tg_tensor *ids, *target;
    int64_t rows;
} course;

static void run_step(void *context)
{
    course *c = context;
    int32_t *ids = tg_tensor_data_mut(c->ids);
    for (int i = 0; i < 32; i++) {
        ids[i] = (int32_t)(tg_rng_u32(c->rng) % (uint32_t)c->rows);
    }
    tg_tape_reset(c->tape);
    tg_optim_zero_grad(c->optim);
    tg_tensor *tokens = tg_nn_embedding_forward(c->tape, &c->token, c->ids);
    tg_tensor *x = tg_nn_positional_forward(c->tape, &c->position, tokens, 0);
    if (!tg_backward(c->tape, tg_mse_loss(c->tape, x, c->target, TG_REDUCTION_MEAN), NULL)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(c->tape)->text);
        exit(1);
    }
    tg_optim_step(c->optim);
}

typedef tg_optim *make_optim(tg_params *params);

static tg_optim *make_sgd(tg_params *params)
{
    return tg_sgd_new(params, NULL);
}

static tg_optim *make_sparse_adam(tg_params *params)
{
    return tg_sparse_adam_new(params, NULL);
}

static tg_optim *make_adamw(tg_params *params)
{
    return tg_adamw_new(params, NULL);
}

static tg_optim *make_momentum(tg_params *params, bool deferred)
{
    tg_sgd_config config = tg_sgd_config_default();
    config.momentum = 0.9;
    config.weight_decay = 1e-2;
    config.deferred = deferred;
    return tg_sgd_new(params, &config);
}

static tg_optim *make_dense_sgd(tg_params *params)
{
    return make_momentum(params, false);
}

static tg_optim *make_deferred_sgd(tg_params *params)
{
    return make_momentum(params, true);
}

static tg_optim *make_deferred_adamw(tg_params *params)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.deferred = true;
    return tg_adamw_new(params, &config);
}

static course course_make(int64_t rows, make_optim *make)
{
    course c = {.tape = bench_must(tg_tape_new(NULL, NULL)), .rng = bench_must(tg_rng_new(1)), .rows = rows};
    c.params = bench_must(tg_params_new(TG_F32, c.rng));
    c.token = tg_nn_embedding_make(c.params, "tok_emb", rows, 256, NULL);
    c.position = tg_nn_positional_make(c.params, "pos_emb", TG_POSITION_LEARNED, 4, 256, NULL);
    c.optim = bench_must(make(c.params));
    c.ids = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(8, 4), NULL));
    c.target = bench_must(tg_tensor_new(TG_F32, TG_SHAPE(8, 4, 256), NULL));
    return c;
}

static void course_free(course *c)
{
    tg_optim_free(c->optim);
    tg_params_free(c->params);
    tg_tape_free(c->tape);
    tg_rng_free(c->rng);
    tg_release(c->ids);
    tg_release(c->target);
}

/* Reads a value of each page of 4 KiB. */
static void read_pages(const tg_tensor *x)
{
    const volatile char *bytes = tg_tensor_data(x);
    for (int64_t i = 0; i < tg_tensor_count(x) * (int64_t)sizeof(float); i += 4096) {
        (void)bytes[i];
    }
}

/* Touches the table and its moments right before a measurement. A hypervisor may take pages back after they were
 * written, and the next access to each such page takes as long as that to twenty rows. */
static void course_touch(const course *c)
{
    tg_tensor *moments;
    read_pages(c->token.weight);
    for (int64_t i = 0; (moments = tg_optim_state_at(c->optim, i).tensor); i++) {
        read_pages(moments);
    }
}

static double bench_step(const char *name, int64_t rows, make_optim *make, int rounds)
{
    course c = course_make(rows, make);
    course_touch(&c);
    double time = bench_measure(
        &(bench_figure){.name = name, .unit = "us", .run = run_step, .context = &c, .scale = 1e6, .rounds = rounds});
    course_free(&c);
    return time;
}

typedef struct deferred_method {
    make_optim *make, *make_dense;
    const char *tables[3]; /* the names of the figures for 1,000, 50,257 and 1,000,000 rows */
    const char *dense, *comparison;
} deferred_method;

/* Deferred steps against SparseAdam, which does less: its other rows stay. Then against the dense optimizer. */
static void bench_deferred(const deferred_method *method)
{
    const int64_t rows[] = {1000, 50257, 1000000};
    double time = 0;
    for (int i = 0; i < 3; i++) {
        course deferred = course_make(rows[i], method->make), sparse = course_make(rows[i], make_sparse_adam);
        course_touch(&deferred);
        course_touch(&sparse);
        time = bench_measure(&(bench_figure){.name = method->tables[i],
                                             .unit = "us",
                                             .bound_name = "SparseAdam",
                                             .run = run_step,
                                             .bound = run_step,
                                             .context = &deferred,
                                             .bound_context = &sparse,
                                             .scale = 1e6,
                                             .rounds = 1001});
        course_free(&deferred);
        course_free(&sparse);
    }
    double dense = bench_step(method->dense, rows[2], method->make_dense, 11);
    if (!bench_json) {
        printf("%-44s %10.4f times\n", method->comparison, time / dense);
    }
}

static void bench_deferred_methods(void)
{
    const deferred_method methods[] = {
        {.make = make_deferred_adamw,
         .make_dense = make_adamw,
         .tables = {"deferred AdamW: one step, 1,000 rows", "deferred AdamW: one step, 50,257 rows",
                    "deferred AdamW: one step, 1,000,000 rows"},
         .dense = "dense AdamW: one step, 1,000,000 rows",
         .comparison = "deferred AdamW: against dense, a million rows"},
        {.make = make_deferred_sgd,
         .make_dense = make_dense_sgd,
         .tables = {"deferred SGD: one step, 1,000 rows", "deferred SGD: one step, 50,257 rows",
                    "deferred SGD: one step, 1,000,000 rows"},
         .dense = "dense SGD: one step, 1,000,000 rows",
         .comparison = "deferred SGD: against dense, a million rows"},
    };
    for (int i = 0; i < 2; i++) {
        bench_deferred(&methods[i]);
    }
}

/* ---- dense Adam ---- */

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

static void bench_adam(void)
{
    tg_rng *rng = bench_must(tg_rng_new(1));
    tg_tape *tape = bench_must(tg_tape_new(NULL, NULL));
    adam a = {.params = bench_must(tg_params_new(TG_F32, rng)), .count = (int64_t)50257 * 256};
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
    tg_rng_free(rng);
}

/* ---- options ---- */

typedef struct options {
    bool ops, serve;
    op_options op;
} options;

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
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
    if (strcmp(option, "--shape") == 0 && value) {
        o->op.shape = value;
        return 2;
    }
    if (strcmp(option, "--dtype") == 0 && value && (strcmp(value, "f32") == 0 || strcmp(value, "f64") == 0)) {
        o->op.f64 = strcmp(value, "f64") == 0;
        return 2;
    }
    bool is_flag = strcmp(option, "--json") == 0 || strcmp(option, "--quick") == 0 || strcmp(option, "--serve") == 0 ||
                   strcmp(option, "--list") == 0;
    return is_flag || (starts(option, "--threads=") && tg_set_threads(atoi(option + 10), NULL)) ? 1 : 0;
}

int main(int argc, char **argv)
{
    options o = {.ops = false};
    for (int i = 1, read; i < argc; i += read) {
        read = read_option(&o, argv + i, argc - i);
        if (read == 0) {
            fprintf(stderr,
                    "bench: %s is unknown, or has no valid value (allowed: --json, --quick, --threads=N, --serve, "
                    "--list, --ops [REGEX], "
                    "--shape NAME, --dtype f32|f64)\n",
                    argv[i]);
            return 2;
        }
    }
    if (o.ops || o.op.list) {
        o.op.serve = o.serve;
        return op_bench(&o.op);
    }
    if (o.serve) {
        return bench_serve();
    }
    if (!bench_json) {
        char text[PRODUCTS_TEXT];
        printf("%s\n", products_text(text));
    }
    if (!bench_quick) {
        bench_gpt(); /* first: its peak of memory is that of the process */
    }
    bench_chain();
    bench_lookup();
    double small = bench_step("course: one step, table of 1,000 rows", 1000, make_sgd, 1001);
    bench_step("course: one step, table of 50,257 rows", 50257, make_sgd, 1001);
    double large = bench_step("course: one step, table of 1,000,000 rows", 1000000, make_sgd, 1001);
    if (!bench_json) {
        printf("%-44s %10.2f times\n", "course: a million rows against a thousand", large / small);
    }
    bench_deferred_methods();
    bench_adam();
    bench_kernels();
    bench_profile();
    if (!bench_quick) {
        bench_io();
        bench_positions();
    }
    return 0;
}
