/* Training in the fixed order has the same bits on 1, 2 and 4 ranks: the ranks of this run are divided into groups, and
 * every group trains the same model. */
#include "models.h"

#include <math.h>

#define STEPS 20

/* ---- runs ---- */

typedef struct run_options {
    model_kind kind;
    tg_dtype dtype;
    int method;
    double dropout;
    int64_t samples;
} run_options;

typedef struct result {
    tg_params *params;
    double norms[STEPS], losses[STEPS];
    tg_run *run;
    model m;
} result;

static tg_tensor *window(tg_tensor *batch, int64_t row)
{
    const int32_t *ids = tg_tensor_data(batch);
    return tensor_i32(TG_SHAPE(1, T), ids + row * T);
}

/* Runs one window, whose number over all ranks and steps seeds dropout. Returns its loss. */
static double run_window(const model *m, tg_tape *t, tg_rng *dropout, uint64_t number, tg_batch batch, int64_t row)
{
    tg_tensor *inputs = window(batch.inputs, row), *targets = window(batch.targets, row);
    tg_tape_reset(t);
    tg_rng_seed(dropout, tg_mpi_seed(5, number + 1));
    tg_tensor *loss = tg_cross_entropy(t, forward(t, m, inputs), targets, NULL);
    assert_true(tg_backward(t, loss, NULL));
    tg_release(inputs), tg_release(targets);
    return tg_tensor_item(loss, NULL);
}

/* Trains on the ranks of a communicator. */
static result run(const run_options *o, MPI_Comm communicator)
{
    tg_error error = TG_NO_ERROR;
    tg_mpi *mpi = tg_mpi_new(communicator, NULL, &error);
    assert_string_equal(error.text, "");
    int64_t own = o->samples / tg_mpi_size(mpi);
    result r = {.run = tg_run_new(123)};
    r.m = model_make(o->kind, o->dtype, o->dropout, r.run);
    tg_run *dropout = tg_run_new(0);
    tg_tape *t = tg_tape_new(dropout, NULL);
    tg_loader *loader = loader_make(r.run, o->samples, tg_mpi_size(mpi), tg_mpi_rank(mpi));
    tg_optim *optim = optim_make(o->method, r.m.params);
    assert_true(tg_mpi_broadcast(mpi, r.m.params, &error));
    for (int step = 0; step < STEPS; step++) {
        tg_batch batch;
        next_batch(loader, &batch);
        tg_optim_zero_grad(optim);
        double loss = 0;
        for (int64_t i = 0; i < own; i++) {
            uint64_t number = (uint64_t)(step * o->samples + tg_mpi_rank(mpi) * own + i);
            loss += run_window(&r.m, t, tg_run_rng(dropout), number, batch, i) / (double)o->samples;
            assert_true(tg_mpi_add_sample(mpi, r.m.params, o->samples, &error));
        }
        assert_true(tg_mpi_reduce(mpi, r.m.params, NULL, &error));
        r.losses[step] = tg_mpi_sum(mpi, loss, &error);
        r.norms[step] = tg_clip_grad_norm(r.m.params, 1);
        assert_true(tg_optim_step(optim));
    }
    assert_true(tg_mpi_check(mpi, r.m.params, &error));
    tg_optim_free(optim);
    tg_loader_free(loader);
    tg_tape_free(t);
    tg_run_free(dropout);
    tg_mpi_free(mpi);
    return r;
}

static void result_free(result *r)
{
    model_free(&r->m);
    tg_run_free(r->run);
}

/* One process, which runs the whole batch at a time. */
static void assert_trains_the_same(const run_options *o, const result *expected)
{
    tg_run *run = tg_run_new(123);
    model m = model_make(o->kind, o->dtype, 0, run);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_loader *loader = loader_make(run, o->samples, 1, 0);
    tg_optim *optim = optim_make(o->method, m.params);
    for (int step = 0; step < STEPS; step++) {
        tg_batch batch;
        next_batch(loader, &batch);
        tg_tape_reset(t);
        tg_optim_zero_grad(optim);
        tg_tensor *loss = tg_cross_entropy(t, forward(t, &m, batch.inputs), batch.targets, NULL);
        assert_true(tg_backward(t, loss, NULL));
        tg_clip_grad_norm(m.params, 1);
        assert_true(tg_optim_step(optim));
        double tolerance = o->dtype == TG_F32 ? 1e-5 : 1e-12;
        assert_true(fabs(tg_tensor_item(loss, NULL) - expected->losses[step]) < tolerance);
    }
    tg_optim_free(optim);
    tg_loader_free(loader);
    tg_tape_free(t);
    model_free(&m);
    tg_run_free(run);
}

static void compare(const run_options *o)
{
    result alone = run(o, MPI_COMM_SELF);
    if (o->dropout == 0) {
        assert_trains_the_same(o, &alone);
    }
    for (int size = 2; size <= ranks; size *= 2) {
        MPI_Comm group;
        MPI_Comm_split(MPI_COMM_WORLD, rank / size, rank, &group);
        int actual;
        MPI_Comm_size(group, &actual);
        if (actual == size) {
            result together = run(o, group);
            assert_same_values(together.m.params, alone.m.params);
            assert_memory_equal(together.norms, alone.norms, sizeof alone.norms);
            result_free(&together);
        }
        MPI_Comm_free(&group);
    }
    result_free(&alone);
}

static void test_bits_do_not_depend_on_the_ranks(void **state)
{
    (void)state;
    for (int kind = 0; kind < MODELS; kind++) {
        for (int method = 0; method < 4; method++) {
            compare(&(run_options){(model_kind)kind, TG_F32, method, 0, 8});
        }
        compare(&(run_options){(model_kind)kind, TG_F64, 2, 0, 8});
    }
}

/* 12 samples are no power of two: the tree has nodes of 3 samples. */
static void test_dropout_and_other_batches(void **state)
{
    (void)state;
    compare(&(run_options){GPT, TG_F32, 2, 0.2, 8});
    compare(&(run_options){GPT_TIED, TG_F32, 2, 0.2, 12});
    compare(&(run_options){EMBEDDING, TG_F32, 3, 0, 4});
}

/* ---- errors ---- */

typedef struct fixture {
    tg_params *params;
    tg_tensor *table, *bias;
    tg_mpi *mpi;
} fixture;

static fixture fixture_make(void)
{
    tg_error error = TG_NO_ERROR;
    fixture f = {.params = tg_params_new(NULL, TG_F32), .mpi = mpi_make(64)};
    f.table = tg_params_add(f.params, "table", TG_SHAPE(20, 2));
    f.bias = tg_params_add(f.params, "bias", TG_SHAPE(3));
    assert_true(tg_mpi_broadcast(f.mpi, f.params, &error));
    return f;
}

static void fixture_free(fixture *f)
{
    tg_mpi_free(f->mpi);
    tg_params_free(f->params);
}

/* Sample `number` has the rows `number` and 1, and every second one a gradient of the bias. */
static void give(const fixture *f, int number)
{
    float value = (float)number, values[] = {value, value, 1, 1};
    assert_true(tg_tensor_add_grad_rows(f->table, (int32_t[]){number + 2, 1}, values, 2, NULL));
    if (number % 2) {
        assert_true(tg_tensor_make_grad_dense(f->bias, NULL));
        tg_tensor_fill(tg_tensor_grad(f->bias), number, NULL);
    }
}

static void assert_sums(const fixture *f, int samples)
{
    tg_grad_rows rows = tg_tensor_grad_rows(f->table);
    assert_int_equal(rows.count, samples + 1);
    for (int i = 0; i <= samples; i++) {
        assert_int_equal(rows.ids[i], i + 1);
        float expected = i == 0 ? (float)samples : (float)(i - 1);
        assert_true(((const float *)rows.values)[2 * i + 1] == expected / (float)samples);
    }
    assert_true(tg_tensor_value_at(tg_tensor_grad(f->bias), 2) == samples / 4.0);
}

static void test_sums(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    fixture f = fixture_make();
    int own = 8 / ranks;
    for (int step = 0; step < 2; step++) {
        for (int i = 0; ranks != 3 && i < own; i++) {
            give(&f, rank * own + i);
            assert_true(tg_mpi_add_sample(f.mpi, f.params, 8, &error));
            assert_int_equal(tg_tensor_grad_kind(f.table), TG_GRAD_NONE);
            assert_int_equal(tg_tensor_grad_kind(f.bias), TG_GRAD_NONE);
        }
        if (ranks != 3) {
            assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
            assert_sums(&f, 8);
            tg_tensor_zero_grad(f.table), tg_tensor_zero_grad(f.bias);
        }
    }
    fixture_free(&f);
}

static void test_errors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    fixture f = fixture_make();
    give(&f, 3);
    const int64_t bad[] = {0, -8, ranks == 3 ? 3 : ranks + 1};
    for (int i = ranks == 1; i < 3; i++) {
        assert_false(tg_mpi_add_sample(f.mpi, f.params, ranks == 1 ? 0 : bad[i], &error));
        assert_error(&error, TG_ERROR_VALUE, "the number of ranks must be a power of two that divides the number");
        assert_int_equal(tg_tensor_grad_rows(f.table).count, 2);
    }
    assert_false(tg_mpi_add_sample(NULL, f.params, 8, &error));
    assert_error(&error, TG_ERROR_STATE, "mpi_add_sample: the tg_mpi is NULL");
    assert_false(tg_mpi_add_sample(f.mpi, NULL, 8, &error));
    assert_error(&error, TG_ERROR_STATE, "mpi_add_sample: the params is NULL");
    if (ranks != 3) {
        assert_true(tg_mpi_add_sample(f.mpi, f.params, 2 * ranks, &error));
        assert_false(tg_mpi_add_sample(f.mpi, f.params, 4 * ranks, &error));
        assert_error(&error, TG_ERROR_VALUE, "for the first one of this step");
        assert_false(tg_mpi_begin(f.mpi, f.params, NULL, &error));
        clear_params_error(f.params);
        assert_error(&error, TG_ERROR_STATE, "mpi_begin: step 1, rank 0: tg_mpi_add_sample");
        assert_false(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        clear_params_error(f.params);
        assert_error(&error, TG_ERROR_STATE, "mpi_reduce: step 1, rank 0: this rank has added 1 of its 2 samples");
        /* the samples are removed: the next step begins */
        assert_true(tg_mpi_add_sample(f.mpi, f.params, ranks, &error));
        assert_false(tg_mpi_add_sample(f.mpi, f.params, ranks, &error));
        assert_error(&error, TG_ERROR_STATE, "this rank has added its 1 samples; call tg_mpi_reduce");
        give(&f, 1);
        assert_false(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        clear_params_error(f.params);
        assert_error(&error, TG_ERROR_STATE, "a parameter has a gradient that tg_mpi_add_sample did not add");
        tg_tensor_zero_grad(f.table), tg_tensor_zero_grad(f.bias);
    }
    if (ranks == 2 || ranks == 4) {
        assert_true(rank == 0 || tg_mpi_add_sample(f.mpi, f.params, ranks, &error));
        assert_false(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        clear_params_error(f.params);
        assert_error(&error, TG_ERROR_VALUE, "the number of samples of tg_mpi_add_sample is 0 on rank 0, and");
        for (int i = 0; i < 1 + (rank == 0); i++) {
            assert_true(tg_mpi_add_sample(f.mpi, f.params, rank == 0 ? 2 * ranks : ranks, &error));
        }
        assert_false(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        clear_params_error(f.params);
        assert_error(&error, TG_ERROR_VALUE,
                     ranks == 2 ? "is 4 on rank 0, and 2 on rank 1" : "is 8 on rank 0, and 4 on rank 1");
    }
    fixture_free(&f);
}

/* Memory is exhausted on one rank, at each allocation: no gradient is lost before the reduction, and all ranks agree on
 * its error. */
static void test_out_of_memory(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    counting_allocator counting;
    allocator_install(&counting);
    int own = 8 / ranks, failures = 0;
    bool finished = ranks == 3;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, 0, false);
        fixture f = fixture_make();
        /* the allocations of the gradients are not counted */
        size_t calls = 0;
        for (int i = 0; i < own; i++) {
            give(&f, rank * own + i);
            size_t before = calls;
            allocator_arm(&counting, rank == 0 && k > before ? k - before : 0, true);
            bool added = tg_mpi_add_sample(f.mpi, f.params, 8, &error);
            calls += counting.calls;
            allocator_arm(&counting, 0, false);
            if (!added) {
                failures++;
                assert_error(&error, TG_ERROR_MEMORY, "mpi_add_sample: out of memory");
                assert_true(tg_mpi_add_sample(f.mpi, f.params, 8, &error));
                calls = k;
            }
        }
        allocator_arm(&counting, rank == 0 && k > calls ? k - calls : 0, true);
        finished = tg_mpi_reduce(f.mpi, f.params, NULL, &error);
        int past = k > calls + counting.calls, all_past;
        allocator_arm(&counting, 0, false);
        if (finished) {
            assert_sums(&f, 8);
        } else {
            assert_error(&error, TG_ERROR_MEMORY, "mpi_reduce: step 1, rank 0: ");
            failures++;
        }
        MPI_Allreduce(&past, &all_past, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        finished = all_past;
        fixture_free(&f);
        assert_int_equal(counting.live, 0);
    }
    assert_true(rank > 0 || ranks == 3 || failures > 3);
    allocator_restore();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_bits_do_not_depend_on_the_ranks),
    cmocka_unit_test(test_dropout_and_other_batches),
    cmocka_unit_test(test_sums),
    cmocka_unit_test(test_errors),
    cmocka_unit_test(test_out_of_memory),
};

DEFINE_MAIN("samples", tests)
