#include "bench/course.h"

#include <stdio.h>
#include <stdlib.h>

#include <tapegrad.h>

#include "base/random.h"
#include "bench/figure.h"

typedef struct course {
    tg_tape *tape;
    tg_run *run;
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
        ids[i] = (int32_t)(tg_rng_u32(tg_run_rng(c->run)) % (uint32_t)c->rows);
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
    course c = {.tape = bench_must(tg_tape_new(NULL, NULL)), .run = bench_must(tg_run_new(1)), .rows = rows};
    c.params = bench_must(tg_params_new(c.run, TG_F32));
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
    tg_run_free(c->run);
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

void bench_deferred_methods(void)
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

void bench_course(void)
{
    double small = bench_step("course: one step, table of 1,000 rows", 1000, make_sgd, 1001);
    bench_step("course: one step, table of 50,257 rows", 50257, make_sgd, 1001);
    double large = bench_step("course: one step, table of 1,000,000 rows", 1000000, make_sgd, 1001);
    if (!bench_json) {
        printf("%-44s %10.2f times\n", "course: a million rows against a thousand", large / small);
    }
}
