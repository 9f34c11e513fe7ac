/* Loaders over tensors and random splits in torch's order (make_dataset.py), and their errors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "support.h"

static tg_loader_config config_of(int64_t batch_size, bool shuffle, bool drop_last)
{
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = batch_size;
    config.shuffle = shuffle;
    config.drop_last = drop_last;
    return config;
}

/* ---- against torch ---- */

static int64_t next_number(FILE *goldens)
{
    long long value;
    assert_int_equal(fscanf(goldens, "%lld", &value), 1);
    return value;
}

/* Row i of the tensors is i as i32, i / 2 as (f32, f32), and i % 2 as u8. */
static void check_batch(FILE *goldens, tg_batch b)
{
    tg_tensor *const *batch = b.tensors;
    int64_t rows = next_number(goldens);
    assert_int_equal(b.count, 3);
    assert_true(b.inputs == batch[0] && b.targets == batch[1]);
    assert_true(tg_shape_equal(tg_tensor_shape(batch[0]), TG_SHAPE(rows)));
    assert_true(tg_shape_equal(tg_tensor_shape(batch[1]), TG_SHAPE(rows, 2)));
    for (int64_t i = 0; i < rows; i++) {
        double row = (double)next_number(goldens);
        assert_true(tg_tensor_value_at(batch[0], i) == row);
        assert_true(tg_tensor_value_at(batch[1], 2 * i) == row / 2 && tg_tensor_value_at(batch[1], 2 * i + 1) == -row);
        assert_true(tg_tensor_value_at(batch[2], i) == fmod(row, 2));
    }
}

static void check_loader(FILE *goldens)
{
    tg_run *run = tg_run_new((uint64_t)next_number(goldens));
    int64_t rows = next_number(goldens), size = next_number(goldens);
    bool shuffle = next_number(goldens) != 0, drop_last = next_number(goldens) != 0;
    tg_loader_config config = config_of(size, shuffle, drop_last);
    tg_tensor *tensors[] = {tg_tensor_new_arange(TG_I32, 0, (double)rows, 1, NULL),
                            tg_tensor_new(TG_F32, TG_SHAPE(rows, 2), NULL), tg_tensor_new(TG_U8, TG_SHAPE(rows), NULL)};
    for (int64_t i = 0; i < rows; i++) {
        ((float *)tg_tensor_data_mut(tensors[1]))[2 * i] = (float)i / 2;
        ((float *)tg_tensor_data_mut(tensors[1]))[2 * i + 1] = (float)-i;
        ((uint8_t *)tg_tensor_data_mut(tensors[2]))[i] = (uint8_t)(i % 2);
    }
    tg_loader *loader = tg_loader_new_from_tensors(run, tensors, 3, &config);
    assert_int_equal(tg_loader_error(loader)->code, TG_OK);
    assert_int_equal(tg_loader_batches(loader), next_number(goldens));
    tg_batch batch;
    for (int pass = 0; pass < 3; pass++) {
        int64_t batches = 0;
        for (; tg_loader_next(loader, &batch); batches++) {
            check_batch(goldens, batch);
        }
        assert_int_equal(batches, tg_loader_batches(loader));
        assert_true(!batch.inputs && !batch.targets && !batch.tensors && batch.count == 0);
    }
    int64_t drawn;
    tg_rng_integers(tg_run_rng(run), &drawn, 1, 0, 1000000);
    assert_int_equal(drawn, next_number(goldens));
    tg_loader_free(loader);
    for (int i = 0; i < 3; i++) {
        tg_release(tensors[i]);
    }
    tg_run_free(run);
}

static void check_split(FILE *goldens)
{
    int64_t rows[64], lengths[3], total = 0;
    tg_rng *rng = tg_rng_new((uint64_t)next_number(goldens));
    int parts = (int)next_number(goldens);
    for (int i = 0; i < parts; i++) {
        lengths[i] = next_number(goldens);
        total += lengths[i];
    }
    assert_true(tg_random_split(rng, lengths, parts, rows, total, NULL));
    for (int64_t i = 0; i < total; i++) {
        assert_int_equal(rows[i], next_number(goldens));
    }
    tg_rng_free(rng);
}

static void test_orders_are_torchs(void **state)
{
    (void)state;
    FILE *goldens = fopen(TG_TEST_GOLDENS "/data/dataset.txt", "r");
    assert_non_null(goldens);
    char kind[8];
    int loaders = 0, splits = 0;
    while (fscanf(goldens, "%7s", kind) == 1) {
        bool is_loader = strcmp(kind, "loader") == 0;
        is_loader ? check_loader(goldens) : check_split(goldens);
        loaders += is_loader;
        splits += !is_loader;
    }
    fclose(goldens);
    assert_int_equal(loaders, 80);
    assert_int_equal(splits, 20);
}

/* A retained batch keeps its values, and a loader of some rows reads only those. */
static void test_batches_that_are_held(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tensor *x = tg_tensor_new_arange(TG_F64, 0, 6, 1, NULL);
    tg_batch batch;
    tg_loader_config config = config_of(2, false, false);
    const int64_t rows[] = {5, 0, 4, 4};
    config.rows = rows;
    config.row_count = 4;
    tg_loader *loader = tg_loader_new_from_tensors(run, &x, 1, &config);
    assert_true(tg_loader_next(loader, &batch));
    assert_true(batch.count == 1 && batch.tensors[0] == batch.inputs && !batch.targets);
    tg_tensor *held = tg_retain(batch.inputs);
    assert_true(tg_loader_next(loader, &batch));
    assert_values(held, (double[]){5, 0}, 2, 0, 0);
    assert_values(batch.inputs, (double[]){4, 4}, 2, 0, 0);
    assert_false(tg_loader_next(loader, &batch));
    tg_release(held);
    tg_loader_free(loader);
    tg_release(x);
    tg_run_free(run);
}

/* The parts of each batch, one after the other, are the batch of a loader without parts. */
static void test_parts_of_rows(void **state)
{
    (void)state;
    tg_tensor *x = tg_tensor_new_arange(TG_I32, 0, 20, 1, NULL);
    tg_run *runs[3];
    tg_loader *loaders[3];
    for (int i = 0; i < 3; i++) {
        tg_loader_config config = config_of(6, true, false);
        config.parts = i < 2 ? 2 : 1;
        config.part = i % 2;
        runs[i] = tg_run_new(3);
        loaders[i] = tg_loader_new_from_tensors(runs[i], &x, 1, &config);
        assert_int_equal(tg_loader_batches(loaders[i]), 4);
    }
    for (int k = 0; k < 8; k++) {
        tg_batch whole, half;
        bool is_more = tg_loader_next(loaders[2], &whole);
        int64_t rows = tg_tensor_size(whole.inputs, 0) / 2;
        for (int part = 0; part < 2; part++) {
            assert_true(tg_loader_next(loaders[part], &half) == is_more);
            assert_int_equal(tg_tensor_size(half.inputs, 0), rows);
            for (int64_t i = 0; i < rows; i++) {
                assert_true(tg_tensor_value_at(half.inputs, i) == tg_tensor_value_at(whole.inputs, part * rows + i));
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        tg_loader_free(loaders[i]);
        tg_run_free(runs[i]);
    }
    tg_release(x);
}

static void refused(tg_tensor *const *tensors, int count, tg_run *run, tg_loader_config config, tg_code code,
                    const char *text)
{
    tg_loader *loader = tg_loader_new_from_tensors(run, tensors, count, &config);
    const tg_error *error = tg_loader_error(loader);
    if (error->code != code || strcmp(error->text, text)) {
        fail_msg("error %d \"%s\"", (int)error->code, error->text);
    }
    tg_batch batch;
    assert_int_equal(tg_loader_batches(loader), 0);
    assert_false(tg_loader_next(loader, &batch));
    clear_loader_error(loader);
    tg_loader_free(loader);
}

static void test_errors(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tensor *three = tg_tensor_new(TG_F32, TG_SHAPE(3, 2), NULL), *four = tg_tensor_new(TG_F32, TG_SHAPE(4), NULL);
    tg_tensor *scalar = tg_tensor_new(TG_F32, TG_SCALAR, NULL), *none = tg_tensor_new(TG_F32, TG_SHAPE(0, 2), NULL);
    tg_loader_config config = config_of(2, false, false);
#define NEW "loader_new_from_tensors: "
    refused((tg_tensor *[]){three, four}, 2, run, config, TG_ERROR_SHAPE,
            NEW "tensor 1 has shape (4,), and tensor 0 3 rows; the sizes of axis 0 must be equal");
    refused(&scalar, 1, run, config, TG_ERROR_SHAPE,
            NEW "tensor 0 has shape (), and tensor 0 0 rows; the sizes of axis 0 must be equal");
    refused(&none, 1, run, config, TG_ERROR_SHAPE, NEW "the tensors have no rows");
    refused(&three, 0, run, config, TG_ERROR_VALUE, NEW "0 tensors; at least 1 is needed");
    refused((tg_tensor *[]){three, NULL}, 2, run, config, TG_ERROR_STATE, NEW "the tensor in the array is NULL");
    refused(NULL, 1, run, config, TG_ERROR_STATE, NEW "the array of tensors is NULL");
    refused(&three, 1, NULL, config_of(2, true, false), TG_ERROR_STATE,
            NEW "shuffle needs a generator; give the loader a run");
    refused(&three, 1, run, config_of(0, false, false), TG_ERROR_VALUE,
            NEW "batch_size 0; it must be set to at least 1");
    refused(&three, 1, run, config_of(4, false, true), TG_ERROR_SHAPE,
            NEW "3 rows do not fill a batch of 4, and drop_last leaves out a batch that is not full");
    config.rows = (int64_t[]){0, 3};
    config.row_count = 2;
    refused(&three, 1, run, config, TG_ERROR_RANGE, NEW "row 3 at [1] is outside [0,3)");
    config.row_count = 0;
    refused(&three, 1, run, config, TG_ERROR_VALUE,
            NEW "rows is set, and row_count is 0; it must be set to at least 1");
    config.rows = NULL;
    config.row_count = 2;
    refused(&three, 1, run, config, TG_ERROR_VALUE, NEW "row_count is 2, and rows is NULL; set both, or none of them");
    config = config_of(2, false, false);
    config.stride = 3;
    refused(&three, 1, run, config, TG_ERROR_VALUE,
            NEW "stride is 3; it is an option of windows of ids (tg_loader_new), and tensors have none");
    config.context = 8;
    refused(&three, 1, run, config, TG_ERROR_VALUE,
            NEW "context is 8; it is an option of windows of ids (tg_loader_new), and tensors have none");
    config = config_of(2, false, false);
    config.parts = 2;
    refused(&three, 1, run, config, TG_ERROR_VALUE,
            NEW "the last batch has 1 rows, which is not a multiple of 2 parts; drop_last leaves it out");
    tg_error error = TG_NO_ERROR;
    int64_t rows[4];
    assert_false(tg_random_split(tg_run_rng(run), (int64_t[]){2, -1}, 2, rows, 4, &error));
    assert_error(&error, TG_ERROR_SHAPE, "random_split: length -1 of part 1 is negative or too large");
    assert_false(tg_random_split(tg_run_rng(run), rows, 0, rows, 4, &error));
    assert_error(&error, TG_ERROR_SHAPE, "random_split: 0 parts; at least 1 is needed");
    assert_false(tg_random_split(tg_run_rng(run), (int64_t[]){0, 0}, 2, rows, 0, &error));
    assert_error(&error, TG_ERROR_SHAPE, "random_split: the parts have no rows");
    for (int64_t more = 2; more <= 4; more += 2) {
        const int64_t before[4] = {9, 9, 9, 9};
        memcpy(rows, before, sizeof rows);
        assert_false(tg_random_split(tg_run_rng(run), (int64_t[]){1, more}, 2, rows, 4, &error));
        assert_error(&error, TG_ERROR_VALUE,
                     more == 2 ? "random_split: the sum of the lengths is 3; it must be row_count, 4"
                               : "random_split: the sum of the lengths is 5; it must be row_count, 4");
        assert_memory_equal(rows, before, sizeof rows);
    }
    assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
    tg_release(three);
    tg_release(four);
    tg_release(scalar);
    tg_release(none);
    tg_run_free(run);
}

/* Memory that runs out at any allocation is an error, leaks nothing, and leaves the generator. */
static void test_memory_runs_out(void **state)
{
    (void)state;
    counting_allocator memory;
    allocator_install(&memory);
    tg_run *run = tg_run_new(1);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(5, 2), NULL);
    tg_batch batch;
    tg_loader_config config = config_of(2, true, false);
    config.detect_stale_batches = true;
    size_t live = memory.live;
    bool is_done = false;
    for (size_t k = 1; !is_done; k++) {
        uint64_t position = tg_rng_position(tg_run_rng(run));
        allocator_arm(&memory, k, false);
        tg_loader *loader = tg_loader_new_from_tensors(run, &x, 1, &config);
        bool has_begun = tg_loader_next(loader, &batch);
        is_done = has_begun && tg_loader_next(loader, &batch);
        if (!is_done) {
            assert_int_equal(tg_loader_error(loader)->code, TG_ERROR_MEMORY);
            assert_true(has_begun || tg_rng_position(tg_run_rng(run)) == position);
        }
        tg_run_clear_error(run);
        tg_loader_free(loader);
        assert_int_equal(memory.live, live);
    }
    tg_release(x);
    tg_run_free(run);
    allocator_restore();
}

/* A loader holds tensors of its caller, and checks them each time that it reads them. */
static void test_tensors_that_change(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *table = tg_params_add(params, "table", TG_SHAPE(4096, 2));
    tg_batch batch;
    tg_adam_config adam = tg_adam_config_default();
    adam.deferred = true;
    tg_optim *optim = tg_adam_new(params, &adam);
    tg_run *run = tg_run_new(1);
    tg_loader_config config = config_of(2048, false, false);
    tg_loader *loader = tg_loader_new_from_tensors(run, &table, 1, &config);
    assert_true(tg_loader_next(loader, &batch));
    uint64_t position = tg_rng_position(tg_run_rng(run));
    for (int64_t rows = 1; rows < 10000; rows += 8000) {
        assert_true(tg_tensor_resize_rows(table, rows, NULL));
        batch.inputs = table;
        assert_false(tg_loader_next(loader, &batch));
        assert_null(batch.inputs);
        tg_error error = *tg_loader_error(loader);
        assert_error(&error, TG_ERROR_STATE,
                     rows == 1 ? "loader_next: tensor 0 was resized to 1 rows; it had 4096 when the loader was "
                                 "made"
                               : "resized to 8001 rows");
        clear_loader_error(loader);
        assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){0}, (float[]){1, 1}, 1, NULL));
        assert_true(tg_optim_step(optim) && tg_optim_flush(optim));
        tg_tensor_zero_grad(table);
    }
    assert_true(tg_tensor_resize_rows(table, 4096, NULL));
    assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){3}, (float[]){1, 1}, 1, NULL));
    assert_true(tg_optim_step(optim));
    assert_false(tg_loader_next(loader, &batch));
    tg_error error = *tg_loader_error(loader);
    assert_error(&error, TG_ERROR_STATE, "loader_next: rows of 'table' have deferred steps");
    clear_loader_error(loader);
    assert_true(tg_rng_position(tg_run_rng(run)) == position);
    /* the pass goes on where it was */
    assert_true(tg_optim_flush(optim));
    assert_true(tg_loader_next(loader, &batch));
    assert_false(tg_loader_next(loader, &batch));
    assert_int_equal(tg_loader_error(loader)->code, TG_OK);
    tg_loader_free(loader);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_are_torchs),   cmocka_unit_test(test_batches_that_are_held),
        cmocka_unit_test(test_parts_of_rows),       cmocka_unit_test(test_errors),
        cmocka_unit_test(test_tensors_that_change), cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
