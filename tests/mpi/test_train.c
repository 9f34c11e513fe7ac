/* Training on several ranks gives the losses of one process with the same global batch: 50 steps of an embedding model
 * and of a GPT, with a tied head and without, in f32 and f64, with every optimizer, gradients clipped. Each rank also
 * trains alone on the whole batches, which is the reference. */
#include "models.h"

#include <math.h>

#define STEPS 50
#define BATCH 12

/* ---- one run ---- */

/* The ways to run a step. */
typedef enum way { ALONE, TOGETHER, OVERLAPPED } way;

typedef struct run_options {
    model_kind kind;
    tg_dtype dtype;
    int method, accumulate;
    way way;
    int64_t bucket_bytes;
} run_options;

typedef struct result {
    double losses[STEPS], norms[STEPS];
    tg_params *params;
    tg_run *shared_run;
    model m;
} result;

/* Runs backward for one step, and returns the loss. */
static double gradients(const run_options *o, const model *m, tg_tape *t, tg_loader *loader, tg_mpi *mpi)
{
    double loss = 0;
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < o->accumulate; i++) {
        tg_batch batch;
        next_batch(loader, &batch);
        tg_tape_reset(t);
        tg_tensor *mean = tg_cross_entropy(t, forward(t, m, batch.inputs), batch.targets, NULL);
        tg_backward_config config = tg_backward_config_default();
        if (o->way == OVERLAPPED && i == o->accumulate - 1) {
            assert_true(tg_mpi_begin(mpi, m->params, NULL, &error));
            config.on_gradient = tg_mpi_on_gradient;
            config.context = mpi;
        }
        assert_true(tg_backward(t, mean, &config));
        loss += tg_tensor_item(mean, NULL) / o->accumulate;
    }
    if (o->way != ALONE) {
        loss = tg_mpi_mean(mpi, loss, 1, &error);
        tg_mpi_reduce_config reduce = tg_mpi_reduce_config_default();
        reduce.cause = tg_tape_error(t);
        assert_true(tg_mpi_reduce(mpi, m->params, &reduce, &error));
    }
    return loss;
}

static result run(const run_options *o)
{
    tg_error error = TG_NO_ERROR;
    /* Ranks that train together begin with other values: the broadcast copies those of rank 0. */
    result r = {.shared_run = tg_run_new(o->way == ALONE ? 123 : 123 + (uint64_t)rank)};
    r.m = model_make(o->kind, o->dtype, 0, r.shared_run);
    tg_rng_seed(tg_run_rng(r.shared_run), 7);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_loader *loader = o->way == ALONE ? loader_make(r.shared_run, BATCH / o->accumulate, 1, 0)
                                        : loader_make(r.shared_run, BATCH / o->accumulate, ranks, rank);
    tg_optim *optim = optim_make(o->method, r.m.params);
    assert_non_null(optim);
    tg_mpi *mpi = NULL;
    if (o->way != ALONE) {
        mpi = mpi_make(o->bucket_bytes);
        assert_true(tg_mpi_broadcast(mpi, r.m.params, &error));
    }
    for (int step = 0; step < STEPS; step++) {
        tg_optim_zero_grad(optim);
        r.losses[step] = gradients(o, &r.m, t, loader, mpi);
        tg_scale_grad(r.m.params, 1.0 / o->accumulate);
        r.norms[step] = tg_clip_grad_norm(r.m.params, 1);
        assert_true(tg_optim_step(optim));
    }
    if (mpi && o->method >= DENSE_METHODS && o->kind == EMBEDDING) {
        assert_false(tg_mpi_check(mpi, r.m.params, &error));
        clear_params_error(r.m.params);
        assert_int_equal(error.code, TG_ERROR_STATE);
        assert_non_null(strstr(error.text, "the values of 'tok_emb.weight' cannot be read"));
        error.code = TG_OK;
    }
    assert_true(tg_optim_flush(optim));
    if (mpi) {
        assert_true(tg_mpi_check(mpi, r.m.params, &error));
    }
    tg_mpi_free(mpi);
    tg_optim_free(optim);
    tg_loader_free(loader);
    tg_tape_free(t);
    return r;
}

static void result_free(result *r)
{
    model_free(&r->m);
    tg_run_free(r->shared_run);
}

static void assert_same_losses(const run_options *o, const result *found, const result *expected)
{
    const double tolerance = o->dtype == TG_F32 ? 1e-5 : 1e-12;
    /* training has an effect that is far above the tolerance */
    assert_true(fabs(expected->losses[0] - expected->losses[STEPS - 1]) > 100 * tolerance);
    for (int step = 0; step < STEPS; step++) {
        if (fabs(found->losses[step] - expected->losses[step]) > tolerance) {
            fail_msg("rank %d, model %d, optimizer %d, %s: step %d has the loss %.17g, and alone %.17g", rank,
                     (int)o->kind, o->method, tg_dtype_name(o->dtype), step, found->losses[step],
                     expected->losses[step]);
        }
    }
}

static void assert_same_bits(const result *a, const result *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->norms, b->norms, sizeof a->norms);
    assert_same_values(a->m.params, b->m.params);
}

/* ---- tests ---- */

static void compare(model_kind kind, tg_dtype dtype, int accumulate)
{
    for (int method = 0; method < (kind == GPT_TIED ? DENSE_METHODS : METHODS); method++) {
        run_options o = {kind, dtype, method, accumulate, ALONE, 4000};
        result alone = run(&o);
        o.way = TOGETHER;
        result together = run(&o);
        assert_same_losses(&o, &together, &alone);
        o.way = OVERLAPPED;
        result overlapped = run(&o);
        assert_same_bits(&overlapped, &together);
        result_free(&alone), result_free(&overlapped);
        if (method == 2) {
            /* the order of the additions is the same in buckets of another size */
            o.bucket_bytes = 1 << 20;
            result large = run(&o);
            assert_same_bits(&large, &together);
            result_free(&large);
        }
        result_free(&together);
    }
}

static void test_embedding_f32(void **state)
{
    (void)state;
    compare(EMBEDDING, TG_F32, 1);
}

static void test_embedding_f64(void **state)
{
    (void)state;
    compare(EMBEDDING, TG_F64, 1);
}

static void test_gpt_f32(void **state)
{
    (void)state;
    compare(GPT, TG_F32, 1);
}

static void test_gpt_f64(void **state)
{
    (void)state;
    compare(GPT, TG_F64, 1);
}

static void test_gpt_tied_f32(void **state)
{
    (void)state;
    compare(GPT_TIED, TG_F32, 1);
}

static void test_gpt_tied_f64(void **state)
{
    (void)state;
    compare(GPT_TIED, TG_F64, 1);
}

/* Two backwards per step; the batches of each are divided among the ranks. */
static void test_accumulation(void **state)
{
    (void)state;
    if (BATCH / 2 % ranks == 0) {
        compare(GPT, TG_F64, 2);
        compare(EMBEDDING, TG_F64, 2);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_embedding_f32), cmocka_unit_test(test_embedding_f64), cmocka_unit_test(test_gpt_f32),
    cmocka_unit_test(test_gpt_f64),       cmocka_unit_test(test_gpt_tied_f32),  cmocka_unit_test(test_gpt_tied_f64),
    cmocka_unit_test(test_accumulation),
};

DEFINE_MAIN("train", tests)
