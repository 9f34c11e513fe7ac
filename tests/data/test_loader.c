/* Windows and batches: torch's DataLoader's order, and what they refuse; token files. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int32_t ids[200];

static tg_loader *loader_of(int64_t count, tg_loader_config config, tg_rng *rng)
{
    tg_error error = TG_NO_ERROR;
    for (int32_t i = 0; i < 200; i++) {
        ids[i] = 1000 + i;
    }
    tg_loader *loader = tg_loader_new(ids, count, &config, rng, &error);
    if (!loader) {
        fail_msg("%s", error.text);
    }
    return loader;
}

static void test_order_is_torchs(void **state)
{
    (void)state;
    FILE *goldens = fopen(TG_TEST_GOLDENS "/data/batches.txt", "r");
    assert_non_null(goldens);
    int cases = 0;
    long long count, length, stride, batch, shuffle, drop, batches, rows, draw;
    for (; fscanf(goldens, "%lld %lld %lld %lld %lld %lld %lld %lld", &count, &length, &stride, &batch, &shuffle, &drop,
                  &batches, &rows) == 8;
         cases++) {
        tg_rng *rng = tg_rng_new(123);
        tg_loader_config config = {length, stride, batch, shuffle != 0, drop != 0};
        tg_loader *loader = loader_of(count, config, rng);
        assert_int_equal(tg_loader_batches(loader) * 3, batches);
        for (int pass = 0; pass < 3; pass++) {
            for (tg_batch b; tg_loader_next(loader, &b); batches--) {
                const int32_t *input = tg_data(b.inputs), *target = tg_data(b.targets);
                for (int64_t row = 0; row < tg_size(b.inputs, 0); row++, rows--) {
                    long long first;
                    assert_int_equal(fscanf(goldens, "%lld", &first), 1);
                    for (int64_t t = 0; t < length; t++) {
                        assert_int_equal(input[row * length + t], first + t);
                        assert_int_equal(target[row * length + t], first + t + 1);
                    }
                }
            }
            assert_int_equal(tg_loader_error_code(loader), TG_OK);
        }
        assert_int_equal(batches, 0);
        assert_int_equal(rows, 0);
        assert_int_equal(fscanf(goldens, "%lld", &draw), 1);
        int64_t drawn;
        tg_rng_randint(rng, &drawn, 1, 0, 1 << 24);
        assert_int_equal(drawn, draw);
        tg_loader_free(loader);
        tg_rng_free(rng);
    }
    fclose(goldens);
    assert_int_equal(cases, 6);
}

static void test_a_held_batch_is_never_overwritten(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(1);
    tg_loader *loader = loader_of(50, (tg_loader_config){4, 4, 2, false, true}, rng);
    tg_batch first, second, third;
    assert_true(tg_loader_next(loader, &first));
    tg_tensor *held = tg_retain(first.inputs);
    assert_true(tg_loader_next(loader, &second));
    assert_true(tg_loader_next(loader, &third));
    assert_true(tg_value_at(held, 0) == 1000);
    assert_ptr_not_equal(held, third.inputs);
    tg_release(held);
    tg_loader_free(loader);
    tg_rng_free(rng);
}

static void test_bad_options(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(1);
    static const struct {
        int64_t count;
        tg_loader_config config;
        tg_code code;
        const char *message;
    } bad[] = {
        {50, {0, 1, 1, false, false}, TG_ERROR_VALUE, "max_length 0"},
        {50, {4, 0, 1, false, false}, TG_ERROR_VALUE, "stride 0"},
        {50, {4, 1, -3, false, false}, TG_ERROR_VALUE, "batch_size -3"},
        {4, {4, 1, 1, false, false}, TG_ERROR_SHAPE, "the text has 4 ids; one window of 4 and its target need 5"},
        {0, {4, 1, 1, false, false}, TG_ERROR_SHAPE, "the text has 0 ids"},
        {10, {4, 1, 7, false, true}, TG_ERROR_SHAPE, "6 windows do not fill a batch of 7"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tg_error error = TG_NO_ERROR;
        assert_null(tg_loader_new(ids, bad[i].count, &bad[i].config, rng, &error));
        assert_error(&error, bad[i].code, bad[i].message);
    }
    tg_error error = TG_NO_ERROR;
    assert_null(tg_loader_new(NULL, 50, NULL, rng, &error));
    assert_error(&error, TG_ERROR_STATE, "NULL");
    assert_null(tg_loader_new(ids, 50, &bad[0].config, NULL, &error));
    assert_int_not_equal(error.code, TG_OK);
    assert_string_not_equal(tg_loader_error(NULL), "");
    tg_rng_free(rng);
}

static void test_token_files(void **state)
{
    (void)state;
    char path[] = "/tmp/tapegrad-tokens-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, "\1\0\2\0\xff\xff\0\x80", 8), 8);
    close(file);
    tg_error error = TG_NO_ERROR;
    int32_t read[5];
    tg_token_file *two = tg_token_file_open(path, 2, &error), *four = tg_token_file_open(path, 4, &error);
    assert_int_equal(tg_token_file_count(two), 4);
    assert_true(tg_token_file_read(two, 0, 4, read, &error));
    assert_memory_equal(read, ((int32_t[]){1, 2, 65535, 32768}), 4 * sizeof(int32_t));
    assert_false(tg_token_file_read(two, 2, 3, read, &error));
    assert_error(&error, TG_ERROR_RANGE, "3 ids from 2 on; the file has 4");
    assert_int_equal(tg_token_file_count(four), 2);
    assert_false(tg_token_file_read(four, 0, 2, read, &error));
    assert_error(&error, TG_ERROR_RANGE, "id 2147549183 at 1 is above 2147483647");
    assert_true(tg_token_file_read(four, 0, 1, read, &error));
    assert_int_equal(read[0], 0x20001);
    tg_token_file_free(four);

    tg_rng *rng = tg_rng_new(1);
    tg_loader_config config = {2, 1, 1, false, false};
    tg_loader *loader = tg_loader_new_from_file(two, &config, rng, &error);
    tg_batch batch;
    assert_true(tg_loader_next(loader, &batch));
    assert_true(tg_loader_next(loader, &batch));
    assert_true(tg_value_at(batch.targets, 1) == 32768);
    tg_loader_free(loader);
    tg_rng_free(rng);
    tg_token_file_free(two);

    assert_true(tg_token_file_write(path, 4, (int32_t[]){7, INT32_MAX}, 2, &error));
    four = tg_token_file_open(path, 4, &error);
    assert_true(tg_token_file_read(four, 1, 1, read, &error));
    assert_int_equal(read[0], INT32_MAX);
    tg_token_file_free(four);
    assert_false(tg_token_file_write(path, 2, (int32_t[]){7, 65536}, 2, &error));
    assert_error(&error, TG_ERROR_RANGE, "id 65536 at 1");
    assert_false(tg_token_file_write(path, 2, (int32_t[]){-7}, 1, &error));
    assert_error(&error, TG_ERROR_RANGE, "id -7 at 0");
    assert_null(tg_token_file_open(path, 3, &error));
    assert_error(&error, TG_ERROR_VALUE, "3 bytes an id");
    assert_int_equal(truncate(path, 5), 0);
    assert_null(tg_token_file_open(path, 2, &error));
    assert_error(&error, TG_ERROR_FORMAT, "5 bytes are not a multiple of 2");
    assert_null(tg_token_file_open("/nowhere/x.bin", 2, &error));
    assert_error(&error, TG_ERROR_FILE, "/nowhere/x.bin");
    unlink(path);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    bool finished = false;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, 0, false);
        tg_rng *rng = tg_rng_new(1), *before = tg_rng_new(1);
        allocator_arm(&counting, k, true);
        tg_error error = TG_NO_ERROR;
        tg_loader *loader = tg_loader_new(ids, 50, &(tg_loader_config){4, 1, 8, true, true}, rng, &error);
        tg_batch batch = {NULL, NULL};
        finished = loader && tg_loader_next(loader, &batch);
        if (!finished) {
            assert_int_equal(loader ? tg_loader_error_code(loader) : error.code, TG_ERROR_MEMORY);
            assert_int_equal(tg_rng_position(rng), tg_rng_position(before));
        }
        tg_loader_free(loader);
        tg_rng_free(rng);
        tg_rng_free(before);
        assert_int_equal(counting.live, 0);
    }
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_torchs), cmocka_unit_test(test_a_held_batch_is_never_overwritten),
        cmocka_unit_test(test_bad_options),     cmocka_unit_test(test_token_files),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
