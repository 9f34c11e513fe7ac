/* Steps in which all ranks do the same: they freeze parameters, end with messages under way, and have gradients that
 * are not finite, or were dense before. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "world.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An allocator whose blocks are unmapped when they are released, so that nobody can use one later. */
#define PAGE 4096

static void *map_block(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    char *block = alignment > PAGE
                      ? MAP_FAILED
                      : mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return NULL;
    }
    *(size_t *)(void *)block = bytes;
    return block + PAGE;
}

static void unmap_block(void *context, void *block)
{
    (void)context;
    char *start = (char *)block - PAGE;
    munmap(start, *(size_t *)(void *)start + PAGE);
}

/* All ranks end with messages under way: those of rank 0 alone, of all ranks, or of none; and the params may be gone.
 */
static void test_free_during_a_reduction(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    const tg_allocator mapping = {map_block, unmap_block, NULL};
    tg_set_allocator(&mapping);
    for (int i = 0; i < 6; i++) {
        tg_mpi *mpi = mpi_make(1 << 20);
        tg_params *params = tg_params_new(NULL, TG_F32);
        tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(1 << 20));
        assert_true(tg_mpi_broadcast(mpi, params, &error));
        assert_true(tg_tensor_make_grad_dense(x, &error));
        assert_true(tg_mpi_reduce(mpi, params, NULL, &error));
        assert_true(tg_mpi_begin(mpi, params, NULL, &error));
        if (i % 3 == 1 || (i % 3 == 0 && rank == 0)) {
            tg_mpi_on_gradient(mpi, x);
        }
        if (i < 3) {
            tg_mpi_free(mpi);
            tg_params_free(params);
        } else {
            tg_params_free(params);
            tg_mpi_free(mpi);
        }
        /* MPI looks after messages that are open */
        world w = world_make();
        assert_true(tg_mpi_sum(w.mpi, 1, &error) == ranks);
        world_free(&w);
    }
    allocator_restore();
}

/* A head that is replaced twice: the params have as many entries as before, but not the same ones. */
static void test_replaced_between_steps(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_mpi *mpi = mpi_make(1 << 20);
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config = tg_gpt_config_default();
    tg_gpt_config_from_name("tiny", &config, &error);
    tg_gpt *model = tg_gpt_new(params, &config);
    assert_true(tg_gpt_replace_head(model, 3) && tg_mpi_broadcast(mpi, params, &error));
    assert_true(tg_gpt_replace_head(model, 9));
    assert_false(tg_mpi_reduce(mpi, params, NULL, &error));
    clear_params_error(params);
    assert_error(&error, TG_ERROR_STATE, "the params are not those of the last tg_mpi_broadcast");
    assert_true(tg_mpi_broadcast(mpi, params, &error) && tg_mpi_reduce(mpi, params, NULL, &error));
    tg_gpt_free(model);
    tg_mpi_free(mpi);
    tg_params_free(params);
    tg_run_free(run);
}

/* A parameter that all ranks freeze for a step, and train again. */
static void test_frozen_between_steps(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    world w = world_make();
    tg_mpi_reduce_config config = sum_config();
    for (int step = 0; step < 4; step++) {
        bool is_frozen = step == 1 || step == 2;
        assert_true(tg_params_set_frozen(w.params, "dense", is_frozen));
        tg_tensor_zero_grad(w.rows);
        if (!tg_mpi_begin(w.mpi, w.params, &config, &error)) {
            fail_msg("step %d: %s", step, error.text);
        }
        if (is_frozen) {
            float values[] = {1, 2};
            assert_true(tg_tensor_add_grad_rows(w.rows, (int32_t[]){3}, values, 1, &error));
        } else {
            give_gradients(&w);
        }
        assert_true(tg_mpi_reduce(w.mpi, w.params, &config, &error));
        if (is_frozen) {
            assert_int_equal(tg_tensor_grad_kind(w.dense), TG_GRAD_NONE);
            assert_true(((const float *)tg_tensor_grad_rows(w.rows).values)[1] == (float)(2 * ranks));
        } else {
            assert_sums(&w);
        }
    }
    world_free(&w);
}

/* A gradient that was dense stays dense in all later steps in which every rank has it by rows. */
static void test_dense_stays_dense(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    world w = world_make();
    tg_mpi_reduce_config config = sum_config();
    for (int step = 0; step < 4; step++) {
        assert_true(tg_mpi_begin(w.mpi, w.params, &config, &error));
        give_gradients(&w);
        assert_true(step > 0 || tg_tensor_make_grad_dense(w.rows, &error));
        assert_true(tg_mpi_reduce(w.mpi, w.params, &config, &error));
        assert_int_equal(tg_tensor_grad_kind(w.rows), TG_GRAD_DENSE);
        assert_sums(&w);
    }
    world_free(&w);
}

/* A gradient of the last rank's shard is not finite: all gradients of all ranks change as they do in one process, in
 * tg_clip_grad_norm. */
static void test_clip_of_a_norm_that_is_not_finite(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY};
    const double limits[] = {1, INFINITY};
    for (int i = 0; i < 4; i++) {
        tg_error error = TG_NO_ERROR;
        world w = world_make();
        tg_params *alone = tg_params_new(NULL, TG_F32);
        tg_tensor *x = tg_params_add(alone, "x", TG_SHAPE(4, WIDTH));
        tg_tensor *shard = tg_mpi_table_shard(w.table);
        float good[] = {3, -2}, wrong_row[] = {bad[i % 2], 5};
        tg_tensor_make_grad_dense(w.dense, &error);
        ((float *)tg_tensor_data_mut(tg_tensor_grad(w.dense)))[0] = 3;
        tg_tensor_add_grad_rows(w.rows, (int32_t[]){1}, good, 1, &error);
        tg_tensor_add_grad_rows(x, (int32_t[]){1}, good, 1, &error);
        tg_tensor_add_grad_rows(x, (int32_t[]){2}, wrong_row, 1, &error);
        if (rank == ranks - 1) {
            tg_tensor_add_grad_rows(shard, (int32_t[]){1}, wrong_row, 1, &error);
        }
        double expected = tg_clip_grad_norm(alone, limits[i / 2]);
        double norm = tg_mpi_clip_grad_norm(w.mpi, w.params, w.shards, limits[i / 2], &error);
        assert_string_equal(error.text, "");
        assert_true(isnan(expected) ? isnan(norm) : norm == expected);
        const float *all = tg_tensor_grad_rows(x).values, *own = tg_tensor_grad_rows(w.rows).values;
        const float *sharded = tg_tensor_grad_rows(shard).values;
        for (int c = 0; c < WIDTH; c++) {
            assert_true(isnan(all[c]) ? isnan(own[c]) : own[c] == all[c]);
            assert_true(rank < ranks - 1 || (isnan(all[2 + c]) ? isnan(sharded[c]) : sharded[c] == all[2 + c]));
        }
        double first = tg_tensor_value_at(tg_tensor_grad(w.dense), 0);
        assert_true(isnan(all[0]) ? isnan(first) : first == (double)all[0]);
        tg_params_free(alone);
        world_free(&w);
    }
}

/* Without a limit the call returns the norm, and changes nothing. */
static void test_clip_without_a_limit(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    world w = world_make();
    tg_tensor *shard = tg_mpi_table_shard(w.table);
    tg_tensor_make_grad_dense(w.dense, &error);
    ((float *)tg_tensor_data_mut(tg_tensor_grad(w.dense)))[0] = 3;
    if (rank == ranks - 1) {
        tg_tensor_add_grad_rows(shard, (int32_t[]){1}, (float[]){0, 4}, 1, &error);
    }
    assert_true(tg_mpi_clip_grad_norm(w.mpi, w.params, w.shards, INFINITY, &error) == 5);
    assert_string_equal(error.text, "");
    assert_true(tg_tensor_value_at(tg_tensor_grad(w.dense), 0) == 3);
    assert_true(rank < ranks - 1 || ((const float *)tg_tensor_grad_rows(shard).values)[1] == 4);
    world_free(&w);
}

static void report_hang(int signal_number)
{
    (void)signal_number;
    fprintf(stderr, "rank %d waits after an op has failed\n", rank);
    _exit(1);
}

/* An op of the last rank fails, on a tape of a stream: all ranks end the step with its error, and no weight moves. */
static void test_failing_op(void **state)
{
    (void)state;
    signal(SIGALRM, report_hang);
    for (int round = 0; round < 8; round++) {
        bool is_last = rank == ranks - 1, is_early = round & 1, has_cause = round & 4;
        int backwards = round & 2 ? 2 : 1;
        tg_mpi *mpi = mpi_make(64);
        tg_run *run = tg_run_new(3), *stream = tg_run_new_stream(run, tg_mpi_seed(3, (uint64_t)rank));
        tg_params *params = tg_params_new(run, TG_F32);
        tg_nn_embedding table = tg_nn_embedding_make(params, "table", 8, 2, NULL);
        tg_optim *optim = tg_sgd_new(params, NULL);
        tg_tape *t = tg_tape_new(stream, NULL);
        tg_tensor *before = tg_tensor_new_copy(table.weight, NULL);
        tg_error error = TG_NO_ERROR, nan_loss = TG_NO_ERROR;
        tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
        config.cause = &nan_loss;
        alarm(60);
        assert_true(tg_mpi_broadcast(mpi, params, &error));
        for (int attempt = 0; attempt < 2; attempt++) {
            tg_optim_zero_grad(optim);
            for (int i = 0; i < backwards; i++) {
                bool is_wrong = attempt == 0 && is_last && i == backwards - 1;
                tg_tensor *ids = tensor_i32(TG_SHAPE(1), (int32_t[]){is_wrong ? 9 : 1});
                tg_backward_config backward = tg_backward_config_default();
                if (is_early && i == backwards - 1 && tg_mpi_begin(mpi, params, &config, NULL)) {
                    backward.on_gradient = tg_mpi_on_gradient;
                    backward.context = mpi;
                }
                tg_backward(t, tg_sum_all(t, tg_nn_embedding_forward(t, &table, ids)), &backward);
                tg_tape_reset(t);
                tg_release(ids);
            }
            if (attempt == 0 && has_cause && is_last) {
                nan_loss = (tg_error){TG_ERROR_VALUE, "the loss is nan", -1, -1};
            }
            bool reduced = tg_mpi_reduce(mpi, params, &config, NULL);
            assert_int_equal(reduced, attempt == 1);
            if (!reduced) {
                char expected[120];
                snprintf(expected, sizeof expected, "mpi_reduce: step 1, rank %d: %s", ranks - 1,
                         has_cause ? "the loss is nan" : "embedding: id 9 at [0] is outside [0,8)");
                assert_string_equal(tg_run_error(run)->text, expected);
                /* the next call says the same */
                assert_false(tg_mpi_check(mpi, params, &error));
                assert_string_equal(error.text, expected);
                assert_false(tg_mpi_add_sample(mpi, params, ranks, NULL));
            }
            assert_int_equal(tg_optim_step(optim), attempt == 1);
            assert_int_equal(memcmp(tg_tensor_data(before), tg_tensor_data(table.weight), 64) == 0, attempt == 0);
            tg_run_clear_error(run);
            tg_error_clear(&error);
            tg_error_clear(&nan_loss);
        }
        alarm(0);
        tg_release(before);
        tg_tape_free(t);
        tg_optim_free(optim);
        tg_params_free(params);
        tg_run_free(stream), tg_run_free(run);
        tg_mpi_free(mpi);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_failing_op),
    cmocka_unit_test(test_free_during_a_reduction),
    cmocka_unit_test(test_frozen_between_steps),
    cmocka_unit_test(test_dense_stays_dense),
    cmocka_unit_test(test_clip_of_a_norm_that_is_not_finite),
    cmocka_unit_test(test_clip_without_a_limit),
    cmocka_unit_test(test_replaced_between_steps),
};

DEFINE_MAIN("steps", tests)
