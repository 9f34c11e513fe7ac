/* Tables sharded by rows train like one table of one process: lookups, bags, gradients, and every kind of optimizer
 * state. */
#include "models.h"

#include <math.h>

#define STEPS 30
#define ROWS 101
#define WIDTH 8
#define BATCH 12

static tg_error error;

/* ---- initial values ---- */

static void test_initial_values(void **state)
{
    (void)state;
    tg_error_clear(&error);
    const int64_t sizes[][2] = {{1001, 300}, {7, 1}, {40001, 3}, {16, 1}, {8, 3}};
    tg_mpi *mpi = mpi_make(64);
    for (int dtype = TG_F32; dtype <= TG_F64; dtype++) {
        for (int i = 0; i < 5; i++) {
            tg_rng *whole_rng = tg_rng_new(5);
            tg_run *run = tg_run_new(5);
            tg_tensor *whole = tg_tensor_new((tg_dtype)dtype, tg_shape_make(2, sizes[i]), NULL);
            tg_tensor_fill_normal(whole, whole_rng, 0, 1, NULL);
            tg_params *shards = tg_params_new(run, (tg_dtype)dtype);
            tg_mpi_table *table = tg_mpi_table_new(mpi, shards, "a", sizes[i][0], sizes[i][1], &error);
            assert_string_equal(error.text, "");
            const tg_tensor *shard = tg_mpi_table_shard(table);
            assert_ptr_equal(shard, tg_params_find(shards, "a.weight"));
            int64_t first = tg_mpi_table_first_row(table) * sizes[i][1];
            for (int64_t k = 0; k < tg_tensor_count(shard); k++) {
                assert_true(tg_tensor_value_at(shard, k) == tg_tensor_value_at(whole, first + k));
            }
            assert_int_equal(tg_rng_position(tg_run_rng(run)), tg_rng_position(whole_rng));
            assert_true(tg_mpi_sum(mpi, (double)tg_tensor_size(shard, 0), &error) == (double)sizes[i][0]);
            tg_mpi_table_free(table);
            tg_params_free(shards);
            tg_release(whole);
            tg_run_free(run), tg_rng_free(whole_rng);
        }
    }
    tg_mpi_free(mpi);
}

/* ---- training ---- */

typedef enum kind { LOOKUP, TWO_LOOKUPS, BAG_MEAN, BAG_WEIGHTED, BAG_MAX, PADDING, KINDS } kind;

/* A table of one process, or a sharded one, under a linear head. */
typedef struct net {
    kind kind;
    tg_tensor *table;
    tg_mpi_table *sharded;
    tg_nn_linear head;
} net;

static tg_tensor *bag(tg_tape *t, const net *n, tg_tensor *ids, const tg_embedding_bag_config *config)
{
    return n->sharded ? tg_mpi_embedding_bag(t, n->sharded, ids, config) : tg_embedding_bag(t, ids, n->table, config);
}

static tg_tensor *lookup(tg_tape *t, const net *n, tg_tensor *ids, const tg_embedding_config *config)
{
    return n->sharded ? tg_mpi_embedding(t, n->sharded, ids, config) : tg_embedding(t, ids, n->table, config);
}

/* ids (B,T) -> (B,WIDTH) */
static tg_tensor *features(tg_tape *t, const net *n, tg_tensor *ids, tg_tensor *others, tg_tensor *weights)
{
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    tg_embedding_config padded = tg_embedding_config_default();
    tg_axes time = tg_axes_make(1, (int[]){1});
    switch (n->kind) {
    case LOOKUP: return tg_sum(t, lookup(t, n, ids, NULL), time, TG_DROP_AXES);
    case TWO_LOOKUPS:
        return tg_sum(t, tg_mul(t, lookup(t, n, ids, NULL), lookup(t, n, others, NULL)), time, TG_DROP_AXES);
    case PADDING: padded.padding_index = 3 - ROWS; return tg_sum(t, lookup(t, n, ids, &padded), time, TG_DROP_AXES);
    case BAG_WEIGHTED:
        config.mode = TG_BAG_SUM;
        config.weights = weights;
        config.padding_index = 3;
        return bag(t, n, ids, &config);
    default: config.mode = n->kind == BAG_MAX ? TG_BAG_MAX : TG_BAG_MEAN; return bag(t, n, ids, &config);
    }
}

/* Factors of the ids of a bag. */
static tg_tensor *weights_of(const tg_tensor *ids, tg_dtype dtype)
{
    tg_tensor *weights = tg_tensor_new(dtype, tg_tensor_shape(ids), NULL);
    for (int64_t i = 0; i < tg_tensor_count(ids); i++) {
        double weight = 0.5 + ((const int32_t *)tg_tensor_data(ids))[i] % 3;
        if (dtype == TG_F32) {
            ((float *)tg_tensor_data_mut(weights))[i] = (float)weight;
        } else {
            ((double *)tg_tensor_data_mut(weights))[i] = weight;
        }
    }
    return weights;
}

typedef struct result {
    double losses[STEPS], norms[STEPS];
    /* the rows of the table on this rank, as doubles */
    double rows[ROWS * WIDTH];
} result;

typedef struct setting {
    kind kind;
    tg_dtype dtype;
    int method;
} setting;

/* Runs one step forward and backward, and returns the loss. */
static double forward_backward(tg_tape *t, const net *n, tg_batch batch, tg_dtype dtype)
{
    int64_t windows = tg_tensor_size(batch.inputs, 0);
    int32_t last[BATCH];
    for (int64_t i = 0; i < windows; i++) {
        last[i] = ((const int32_t *)tg_tensor_data(batch.targets))[i * T + T - 1];
    }
    tg_tensor *targets = tensor_i32(tg_shape_make(1, &windows), last), *weights = weights_of(batch.inputs, dtype);
    tg_tape_reset(t);
    tg_tensor *x = features(t, n, batch.inputs, batch.targets, weights);
    tg_tensor *loss = tg_cross_entropy(t, tg_nn_linear_forward(t, &n->head, x), targets, NULL);
    if (!tg_backward(t, loss, NULL)) {
        fail_msg("%s", tg_tape_error(t)->text);
    }
    tg_release(targets), tg_release(weights);
    return tg_tensor_item(loss, NULL);
}

static void train_alone(const setting *o, result *r)
{
    tg_run *run = tg_run_new(9);
    tg_params *params = tg_params_new(run, o->dtype);
    net n = {.kind = o->kind};
    n.table = tg_params_add_normal(params, "table.weight", TG_SHAPE(ROWS, WIDTH), 0, 1);
    n.head = tg_nn_linear_make(params, "head", WIDTH, V, TG_BIAS);
    tg_optim *optim = optim_make(o->method, params);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_loader *loader = loader_make(run, BATCH, 1, 0);
    for (int step = 0; step < STEPS; step++) {
        tg_batch batch;
        next_batch(loader, &batch);
        tg_optim_zero_grad(optim);
        r->losses[step] = forward_backward(t, &n, batch, o->dtype);
        r->norms[step] = tg_clip_grad_norm(params, 0.5);
        assert_true(tg_optim_step(optim));
    }
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        r->rows[i] = tg_tensor_value_at(n.table, i);
    }
    tg_loader_free(loader);
    tg_tape_free(t);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_run_free(run);
}

static void train_sharded(const setting *o, result *r)
{
    tg_mpi *mpi = mpi_make(4000);
    tg_run *run = tg_run_new(9);
    tg_params *params = tg_params_new(run, o->dtype), *shards = tg_params_new(run, o->dtype);
    net n = {.kind = o->kind};
    n.sharded = tg_mpi_table_new(mpi, shards, "table", ROWS, WIDTH, &error);
    n.head = tg_nn_linear_make(params, "head", WIDTH, V, TG_BIAS);
    assert_true(tg_mpi_broadcast(mpi, params, &error));
    tg_optim *optim = optim_make(o->method, params), *sharded = optim_make(o->method, shards);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_loader *loader = loader_make(run, BATCH, ranks, rank);
    for (int step = 0; step < STEPS; step++) {
        tg_batch batch;
        next_batch(loader, &batch);
        tg_optim_zero_grad(optim), tg_optim_zero_grad(sharded);
        double loss = forward_backward(t, &n, batch, o->dtype);
        tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
        config.cause = tg_tape_error(t);
        assert_true(tg_mpi_reduce(mpi, params, &config, &error));
        assert_true(tg_mpi_table_reduce(n.sharded, &config, &error));
        r->losses[step] = tg_mpi_mean(mpi, loss, 1, &error);
        r->norms[step] = tg_mpi_clip_grad_norm(mpi, params, shards, 0.5, &error);
        assert_true(tg_optim_step(optim) && tg_optim_step(sharded));
    }
    const tg_tensor *shard = tg_mpi_table_shard(n.sharded);
    for (int64_t i = 0; i < tg_tensor_count(shard); i++) {
        r->rows[tg_mpi_table_first_row(n.sharded) * WIDTH + i] = tg_tensor_value_at(shard, i);
    }
    tg_mpi_table_free(n.sharded);
    tg_loader_free(loader);
    tg_tape_free(t);
    tg_optim_free(optim), tg_optim_free(sharded);
    tg_params_free(params), tg_params_free(shards);
    tg_run_free(run);
    tg_mpi_free(mpi);
}

static void test_training(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        for (int method = 0; method < DENSE_METHODS; method++) {
            setting o = {(kind)k, method == 6 ? TG_F32 : TG_F64, method};
            double tolerance = o.dtype == TG_F32 ? 1e-5 : 1e-12;
            result alone, sharded;
            train_alone(&o, &alone);
            memcpy(sharded.rows, alone.rows, sizeof alone.rows);
            train_sharded(&o, &sharded);
            for (int step = 0; step < STEPS; step++) {
                if (fabs(alone.losses[step] - sharded.losses[step]) > tolerance ||
                    fabs(alone.norms[step] - sharded.norms[step]) > tolerance) {
                    fail_msg("kind %d, optimizer %d, step %d: loss %.17g and norm %.17g, alone %.17g and %.17g", k,
                             method, step, sharded.losses[step], sharded.norms[step], alone.losses[step],
                             alone.norms[step]);
                }
            }
            for (int64_t i = 0; i < ROWS * WIDTH; i++) {
                assert_true(fabs(alone.rows[i] - sharded.rows[i]) < 10 * tolerance);
            }
        }
    }
}

/* ---- lookups ---- */

typedef struct fixture {
    tg_mpi *mpi;
    tg_params *shards;
    tg_run *run;
    tg_mpi_table *table;
    tg_tape *tape;
} fixture;

static fixture fixture_make(void)
{
    tg_error_clear(&error);
    fixture f = {.mpi = mpi_make(64), .run = tg_run_new(1)};
    f.shards = tg_params_new(f.run, TG_F32);
    f.table = tg_mpi_table_new(f.mpi, f.shards, "a", 20, 2, &error);
    f.tape = tg_tape_new(NULL, NULL);
    assert_string_equal(error.text, "");
    return f;
}

static void fixture_free(fixture *f)
{
    tg_tape_free(f->tape);
    tg_mpi_table_free(f->table);
    tg_params_free(f->shards);
    tg_run_free(f->run);
    tg_mpi_free(f->mpi);
}

/* The last rank has no ids, and another no gradient. */
static void test_ranks_without_ids(void **state)
{
    (void)state;
    fixture f = fixture_make();
    int64_t count = rank == ranks - 1 && ranks > 1 ? 0 : 3;
    tg_tensor *ids = tensor_i32(tg_shape_make(1, &count), (int32_t[]){19, 0, 19});
    tg_tensor *y = tg_mpi_embedding(f.tape, f.table, ids, NULL);
    assert_int_equal(tg_tensor_count(y), 2 * count);
    if (count > 0) {
        assert_true(tg_tensor_value_at(y, 0) == tg_tensor_value_at(y, 4));
        assert_true(tg_backward(f.tape, tg_sum(f.tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    }
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    config.share = 1;
    assert_true(tg_mpi_table_reduce(f.table, &config, &error));
    tg_grad_rows rows = tg_tensor_grad_rows(tg_mpi_table_shard(f.table));
    assert_int_equal(tg_tensor_grad_kind(tg_mpi_table_shard(f.table)), TG_GRAD_ROWS);
    bool owns = rank == 0 || rank == ranks - 1;
    assert_int_equal(rows.count, ranks == 1 ? 2 : owns);
    float expected = (float)(ranks == 1 ? 1 : ranks - 1) * (rank == 0 ? 1 : 2);
    assert_true(!owns || ((const float *)rows.values)[0] == expected);
    /* without recording nothing waits for a reduction */
    tg_tensor_zero_grad(tg_mpi_table_shard(f.table));
    tg_tape_set_recording(f.tape, false);
    assert_non_null(tg_mpi_embedding(f.tape, f.table, ids, NULL));
    assert_true(tg_mpi_table_reduce(f.table, NULL, &error));
    assert_int_equal(tg_tensor_grad_kind(tg_mpi_table_shard(f.table)), TG_GRAD_NONE);
    tg_release(ids);
    fixture_free(&f);
}

static void test_errors_on_all_ranks(void **state)
{
    (void)state;
    fixture f = fixture_make();
    bool last = rank == ranks - 1;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){1, 2, last ? 20 : 3, 4});
    char expected[100];
    snprintf(expected, sizeof expected, "mpi_embedding: rank %d: id 20 at [1,0] is outside [0,20)", ranks - 1);
    assert_null(tg_mpi_embedding(f.tape, f.table, ids, NULL));
    assert_tape_error(f.tape, TG_ERROR_RANGE, expected);
    /* a rank whose tape has an error */
    if (last) {
        tg_tape_fail(f.tape, TG_ERROR_VALUE, "earlier", "something was wrong");
    }
    tg_tensor *good = tensor_i32(TG_SHAPE(1), (int32_t[]){1});
    assert_null(tg_mpi_embedding_bag(f.tape, f.table, good, NULL));
    assert_tape_error(f.tape, TG_ERROR_VALUE, "earlier: something was wrong");
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = last ? 1 : 0;
    assert_null(tg_mpi_embedding(f.tape, f.table, good, &config));
    assert_tape_error(f.tape, TG_ERROR_VALUE, "max_norm is not possible for a sharded table");
    config = tg_embedding_config_default();
    config.padding_index = 20;
    assert_null(tg_mpi_embedding(f.tape, f.table, good, &config));
    assert_tape_error(f.tape, TG_ERROR_RANGE, "padding_index 20 is outside [-20,20)");
    assert_null(tg_mpi_embedding(f.tape, f.table, last ? NULL : good, NULL));
    assert_tape_error(f.tape, TG_ERROR_STATE, "the ids are NULL");
    assert_null(tg_mpi_embedding(f.tape, f.table, last ? tg_mpi_table_shard(f.table) : good, NULL));
    assert_tape_error(f.tape, TG_ERROR_DTYPE, "ids of f32; they must be i32");
    tg_mpi_reduce_config reduce = tg_mpi_reduce_config_default();
    reduce.share = last ? -3 : 1;
    assert_non_null(tg_mpi_embedding(f.tape, f.table, good, NULL));
    assert_false(tg_mpi_table_reduce(f.table, &reduce, &error));
    assert_error(&error, TG_ERROR_VALUE, "the share is -3");
    assert_params_error(f.shards, TG_ERROR_VALUE, "the share is -3");

    assert_null(tg_mpi_embedding(f.tape, NULL, good, NULL));
    assert_tape_error(f.tape, TG_ERROR_STATE, "mpi_embedding: the table is NULL");
    assert_null(tg_mpi_embedding(NULL, f.table, good, NULL));
    assert_null(tg_mpi_embedding_bag(f.tape, NULL, good, NULL));
    assert_tape_error(f.tape, TG_ERROR_STATE, "mpi_embedding_bag: the table is NULL");
    assert_false(tg_mpi_table_reduce(NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "mpi_table_reduce: the table is NULL");
    assert_null(tg_mpi_table_shard(NULL));
    assert_int_equal(tg_mpi_table_first_row(NULL), 0);
    assert_null(tg_mpi_table_new(NULL, f.shards, "b", 20, 2, &error));
    assert_error(&error, TG_ERROR_STATE, "mpi_table_new: the tg_mpi is NULL");
    assert_null(tg_mpi_table_new(f.mpi, f.shards, "b", ranks - 1, 2, &error));
    assert_error(&error, TG_ERROR_SHAPE, "every rank must own a row");
    assert_params_error(f.shards, TG_ERROR_SHAPE, "every rank must own a row");
    assert_null(tg_mpi_table_new(f.mpi, f.shards, "a", 20, 2, &error));
    assert_error(&error, TG_ERROR_VALUE, "the name 'a.weight' is in use");
    clear_params_error(f.shards);
    assert_true(isnan(tg_mpi_clip_grad_norm(f.mpi, f.shards, f.shards, -1, &error)));
    assert_error(&error, TG_ERROR_VALUE, "mpi_clip_grad_norm: rank 0: max_norm -1; it must be at least 0");
    tg_release(ids), tg_release(good);
    fixture_free(&f);
}

static bool one_step(fixture *f, tg_tensor *ids)
{
    tg_tape_reset(f->tape);
    tg_tensor *y = tg_mpi_embedding(f->tape, f->table, ids, NULL);
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    tg_backward(f->tape, y ? tg_sum(f->tape, y, TG_ALL_AXES, TG_DROP_AXES) : NULL, NULL);
    config.cause = tg_tape_error(f->tape);
    bool good = tg_mpi_table_reduce(f->table, &config, &error);
    clear_tape_error(f->tape);
    clear_params_error(f->shards);
    return good;
}

/* A lookup in a shard whose optimizer defers steps is refused on all ranks, until the flush. */
static void test_deferred_steps(void **state)
{
    (void)state;
    fixture f = fixture_make();
    tg_adamw_config config = tg_adamw_config_default();
    config.deferred = true;
    tg_optim *optim = tg_adamw_new(f.shards, &config);
    tg_tensor *ids = tensor_i32(TG_SHAPE(1), (int32_t[]){1});
    assert_true(one_step(&f, ids));
    assert_true(tg_optim_step(optim));
    tg_tape_reset(f.tape);
    assert_null(tg_mpi_embedding(f.tape, f.table, ids, NULL));
    assert_tape_error(f.tape, TG_ERROR_STATE, "the optimizer has deferred steps of a sharded table");
    assert_true(tg_optim_flush(optim));
    assert_non_null(tg_mpi_embedding(f.tape, f.table, ids, NULL));
    tg_tape_reset(f.tape);
    tg_optim_free(optim);
    tg_release(ids);
    fixture_free(&f);
}

/* Steps do not collect memory. */
static void test_memory_of_steps(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    fixture f = fixture_make();
    tg_tensor *ids = tensor_i32(TG_SHAPE(4), (int32_t[]){1, 18, 1, 7});
    size_t live = 0;
    for (int step = 0; step < 10; step++) {
        assert_true(one_step(&f, ids));
        live = step == 3 ? counting.live : live;
    }
    assert_int_equal(counting.live, live);
    tg_release(ids);
    fixture_free(&f);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

/* Memory is exhausted on one rank, at each allocation of a lookup, its backward and the reduction. */
static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    bool finished = false;
    int failures = 0;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, 0, false);
        fixture f = fixture_make();
        tg_tensor *ids = tensor_i32(TG_SHAPE(4), (int32_t[]){1, 18, 1, 7});
        allocator_arm(&counting, rank == 0 ? k : 0, true);
        finished = one_step(&f, ids);
        allocator_arm(&counting, 0, false);
        if (!finished) {
            failures++;
            /* that of the lookup, on which all ranks have agreed already, stays as it is */
            assert_error(&error, TG_ERROR_MEMORY, ": rank 0: ");
            assert_int_equal(tg_tensor_grad_kind(tg_mpi_table_shard(f.table)), TG_GRAD_NONE);
            assert_true(one_step(&f, ids));
        }
        assert_int_equal(tg_tensor_grad_kind(tg_mpi_table_shard(f.table)), TG_GRAD_ROWS);
        tg_release(ids);
        fixture_free(&f);
        assert_int_equal(counting.live, 0);
    }
    assert_true(failures > 10);
    allocator_restore();
}

/* Memory is exhausted at each allocation of tg_mpi_new and of tg_mpi_table_new, on the last rank: all report it. */
static void test_out_of_memory_at_first(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    int failures = 0;
    bool finished = false;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, rank == ranks - 1 ? k : 0, true);
        tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, NULL, &error);
        finished = mpi != NULL;
        allocator_arm(&counting, 0, false);
        if (!finished) {
            failures++;
            char expected[60];
            snprintf(expected, sizeof expected, "mpi_new: rank %d: out of memory", ranks - 1);
            assert_error(&error, TG_ERROR_MEMORY, expected);
        }
        tg_mpi_free(mpi);
        assert_int_equal(counting.live, 0);
    }
    assert_true(failures > 1);
    failures = 0;
    finished = false;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, 0, false);
        tg_mpi *mpi = mpi_make(64);
        tg_run *run = tg_run_new(5);
        tg_params *shards = tg_params_new(run, TG_F32);
        allocator_arm(&counting, rank == ranks - 1 ? k : 0, true);
        tg_mpi_table *table = tg_mpi_table_new(mpi, shards, "a", 20, 2, &error);
        finished = table != NULL;
        allocator_arm(&counting, 0, false);
        if (!finished) {
            failures++;
            char expected[60];
            snprintf(expected, sizeof expected, "mpi_table_new: rank %d: ", ranks - 1);
            assert_error(&error, TG_ERROR_MEMORY, expected);
        }
        tg_mpi_table_free(table);
        tg_params_free(shards);
        tg_run_free(run);
        tg_mpi_free(mpi);
        assert_int_equal(counting.live, 0);
    }
    assert_true(failures > 5);
    allocator_restore();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_initial_values),    cmocka_unit_test(test_training),
    cmocka_unit_test(test_ranks_without_ids), cmocka_unit_test(test_errors_on_all_ranks),
    cmocka_unit_test(test_deferred_steps),    cmocka_unit_test(test_memory_of_steps),
    cmocka_unit_test(test_out_of_memory),     cmocka_unit_test(test_out_of_memory_at_first),
};

DEFINE_MAIN("table", tests)
