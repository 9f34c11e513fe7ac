/* The loader: windows and batches in the order of torch's DataLoader, its errors, and token files. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"

static int32_t ids[200];

static tg_loader_config config_of(int64_t context, int64_t stride, int64_t batch_size, bool shuffle, bool drop_last)
{
    tg_loader_config config = tg_loader_config_default();
    config.context = context;
    config.stride = stride;
    config.batch_size = batch_size;
    config.shuffle = shuffle;
    config.drop_last = drop_last;
    return config;
}

static tg_loader *loader_of(int64_t count, tg_loader_config config, tg_run *run)
{
    for (int32_t i = 0; i < 200; i++) {
        ids[i] = 1000 + i;
    }
    tg_loader *loader = tg_loader_new(run, ids, count, &config);
    assert_non_null(loader);
    assert_string_equal(tg_loader_error(loader)->text, "");
    return loader;
}

static void assert_loader_error(tg_loader *loader, tg_code code, const char *part)
{
    tg_error error = *tg_loader_error(loader);
    assert_error(&error, code, part);
    clear_loader_error(loader);
    assert_int_equal(tg_loader_error(loader)->code, TG_OK);
    assert_string_equal(tg_loader_error(loader)->text, "");
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
        tg_run *run = tg_run_new(123);
        tg_loader *loader = loader_of(count, config_of(length, stride, batch, shuffle != 0, drop != 0), run);
        assert_int_equal(tg_loader_batches(loader) * 3, batches);
        for (int pass = 0; pass < 3; pass++) {
            for (tg_batch b; tg_loader_next(loader, &b); batches--) {
                const int32_t *input = tg_tensor_data(b.inputs), *target = tg_tensor_data(b.targets);
                for (int64_t row = 0; row < tg_tensor_size(b.inputs, 0); row++, rows--) {
                    long long first;
                    assert_int_equal(fscanf(goldens, "%lld", &first), 1);
                    for (int64_t t = 0; t < length; t++) {
                        assert_int_equal(input[row * length + t], first + t);
                        assert_int_equal(target[row * length + t], first + t + 1);
                    }
                }
            }
            assert_int_equal(tg_loader_error(loader)->code, TG_OK);
        }
        assert_int_equal(batches, 0);
        assert_int_equal(rows, 0);
        assert_int_equal(fscanf(goldens, "%lld", &draw), 1);
        int64_t drawn;
        tg_rng_integers(tg_run_rng(run), &drawn, 1, 0, 1 << 24);
        assert_int_equal(drawn, draw);
        tg_loader_free(loader);
        tg_run_free(run);
    }
    fclose(goldens);
    assert_int_equal(cases, 6);
}

static void test_a_held_batch_is_never_overwritten(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_loader *loader = loader_of(50, config_of(4, 4, 2, false, true), run);
    tg_batch first, second, third;
    assert_true(tg_loader_next(loader, &first));
    tg_tensor *held = tg_retain(first.inputs);
    assert_true(tg_loader_next(loader, &second));
    assert_true(tg_loader_next(loader, &third));
    assert_true(tg_tensor_value_at(held, 0) == 1000);
    assert_ptr_not_equal(held, third.inputs);
    tg_release(held);
    tg_loader_free(loader);
    tg_run_free(run);
}

/* Without more options a pass has each window once, in order. A loop that is left early does not end its pass; a reset
 * does, and the next pass has the order that it would have had anyway. */
static void test_passes(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1), *same = tg_run_new(1);
    tg_loader_config config = tg_loader_config_default();
    config.context = 1;
    config.stride = 1;
    config.batch_size = 3;
    tg_loader *loader = loader_of(9, config, run);
    tg_batch b, other;
    for (int64_t i = 0; i < 3; i++) {
        assert_true(tg_loader_next(loader, &b));
        assert_int_equal(tg_tensor_count(b.inputs), i < 2 ? 3 : 2);
        assert_true(tg_tensor_value_at(b.inputs, 0) == (double)(1000 + 3 * i));
        assert_true(b.count == 2 && b.tensors[0] == b.inputs && b.tensors[1] == b.targets);
    }
    assert_false(tg_loader_next(loader, &b));
    assert_true(!b.tensors && b.count == 0);
    assert_true(tg_loader_next(loader, &b) && tg_loader_next(loader, &b));
    assert_true(tg_tensor_value_at(b.inputs, 0) == 1003);
    uint64_t position = tg_rng_position(tg_run_rng(run));
    tg_loader_reset(loader);
    assert_int_equal(tg_rng_position(tg_run_rng(run)), position);
    assert_true(tg_loader_next(loader, &b));
    assert_true(tg_tensor_value_at(b.inputs, 0) == 1000);
    /* also at the end of a pass that no call has reported */
    assert_true(tg_loader_next(loader, &b) && tg_loader_next(loader, &b));
    tg_loader_reset(loader);
    assert_true(tg_loader_next(loader, &b));
    assert_true(tg_tensor_value_at(b.inputs, 0) == 1000);
    tg_loader_free(loader);

    tg_rng_seed(tg_run_rng(run), 5);
    tg_rng_seed(tg_run_rng(same), 5);
    config.shuffle = true;
    loader = loader_of(9, config, run);
    tg_loader *whole = loader_of(9, config, same);
    for (int pass = 0; pass < 3; pass++) {
        tg_loader_reset(loader);
        for (int i = 0; i < 2; i++) {
            assert_true(tg_loader_next(loader, &b) && tg_loader_next(whole, &other));
            assert_values(b.inputs,
                          (double[]){tg_tensor_value_at(other.inputs, 0), tg_tensor_value_at(other.inputs, 1),
                                     tg_tensor_value_at(other.inputs, 2)},
                          3, 0, 0);
        }
        assert_true(tg_loader_next(whole, &other) && !tg_loader_next(whole, &other));
    }
    tg_loader_free(whole);
    tg_loader_free(loader);
    tg_run_free(run);
    tg_run_free(same);
}

/* A checking loader: the values of a batch are gone at the next call, unless somebody holds one of its tensors. */
static void test_stale_batches(void **state)
{
    (void)state;
    static const char stale[] = "a tensor of a batch is used after the next call of tg_loader_next; tg_retain keeps it";
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *table = tg_tensor_new(TG_F32, TG_SHAPE(2000, 2), NULL);
    tg_loader_config config = config_of(4, 4, 2, false, true);
    config.detect_stale_batches = true;
    tg_loader *loader = loader_of(50, config, run);
    tg_batch first, second, third;
    assert_true(tg_loader_next(loader, &first));
    assert_true(tg_tensor_value_at(first.inputs, 0) == 1000);
    assert_true(tg_loader_next(loader, &second));
    assert_null(tg_tensor_data(first.inputs));
    assert_loader_error(loader, TG_ERROR_STATE, stale);
    assert_null(tg_embedding(t, first.targets, table, NULL));
    assert_non_null(strstr(tg_tape_error(t)->text, "embedding: "));
    assert_tape_error(t, TG_ERROR_STATE, stale);
    clear_tape_error(t);
    tg_error error = TG_NO_ERROR;
    assert_null(tg_tensor_new_copy(first.inputs, &error));
    assert_error(&error, TG_ERROR_STATE, stale);
    /* one that is held stays as it is, until nobody holds it */
    tg_tensor *held = tg_retain(second.inputs);
    assert_true(tg_loader_next(loader, &third));
    assert_true(tg_tensor_value_at(held, 0) == 1008 && tg_tensor_value_at(second.targets, 0) == 1009);
    tg_release(held);
    while (tg_loader_next(loader, &first)) {
        assert_true(tg_tensor_value_at(first.inputs, 0) >= 1024);
    }
    assert_int_equal(tg_loader_error(loader)->code, TG_OK);
    assert_null(tg_tensor_data(second.inputs));
    assert_loader_error(loader, TG_ERROR_STATE, stale);
    /* a stale tensor that is retained outlives the loader */
    held = tg_retain(third.inputs);
    tg_loader_free(loader);
    assert_null(tg_tensor_data(held));
    tg_release(held);
    tg_release(table);
    tg_tape_free(t);
    tg_run_free(run);
}

/* A loader with an error has no batches, also after the error is cleared, and draws nothing. */
static void refuse(const int32_t *from, int64_t count, tg_run *run, const tg_loader_config *config, tg_code code,
                   const char *part)
{
    uint64_t position = tg_rng_position(tg_run_rng(run));
    tg_loader *loader = tg_loader_new(run, from, count, config);
    assert_non_null(loader);
    assert_int_equal(tg_loader_batches(loader), 0);
    tg_batch batch;
    memset(&batch, 0xcd, sizeof batch);
    assert_false(tg_loader_next(loader, &batch));
    assert_null(batch.inputs);
    assert_null(batch.targets);
    assert_loader_error(loader, code, part);
    for (int i = 0; i < 3; i++) {
        assert_false(tg_loader_next(loader, &batch));
        assert_null(batch.inputs);
    }
    assert_loader_error(loader, TG_ERROR_STATE, "the loader was not made");
    assert_int_equal(tg_rng_position(tg_run_rng(run)), position);
    tg_loader_free(loader);
}

/* The batches of all parts, one after the other, are those of a loader without parts, in the same order and with the
 * same draws. */
static void test_parts_of_the_batches(void **state)
{
    (void)state;
    for (int64_t parts = 1; parts <= 6; parts += parts == 3 ? 3 : 1) {
        tg_run *run = tg_run_new(7), *runs[6];
        tg_loader *whole = loader_of(98, config_of(3, 2, 12, true, false), run), *loaders[6];
        /* 48 windows: four full batches */
        assert_int_equal(tg_loader_batches(whole), 4);
        for (int64_t part = 0; part < parts; part++) {
            tg_loader_config config = config_of(3, 2, 12, true, false);
            config.parts = parts;
            config.part = part;
            runs[part] = tg_run_new(7);
            loaders[part] = loader_of(98, config, runs[part]);
            assert_int_equal(tg_loader_batches(loaders[part]), 4);
        }
        for (int i = 0; i < 9; i++) {
            tg_batch expected, batch;
            bool more = tg_loader_next(whole, &expected);
            for (int64_t part = 0; part < parts; part++) {
                assert_int_equal(tg_loader_next(loaders[part], &batch), more);
                assert_int_equal(tg_rng_position(tg_run_rng(runs[part])), tg_rng_position(tg_run_rng(run)));
                int64_t rows = 12 / parts, values = rows * 3;
                assert_int_equal(tg_tensor_size(batch.inputs, 0), more ? rows : 0);
                for (int64_t k = 0; more && k < values; k++) {
                    assert_true(tg_tensor_value_at(batch.inputs, k) ==
                                tg_tensor_value_at(expected.inputs, part * values + k));
                    assert_true(tg_tensor_value_at(batch.targets, k) ==
                                tg_tensor_value_at(expected.targets, part * values + k));
                }
            }
        }
        for (int64_t part = 0; part < parts; part++) {
            tg_loader_free(loaders[part]);
            tg_run_free(runs[part]);
        }
        tg_loader_free(whole);
        tg_run_free(run);
    }
}

static void test_parts_that_do_not_fit(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(7);
    const struct {
        int64_t parts, part, batch_size;
        bool drop_last;
        tg_code code;
        const char *text;
    } cases[] = {
        {4, 4, 8, true, TG_ERROR_RANGE, "loader_new: part 4 is outside [0,4)"},
        {4, -1, 8, true, TG_ERROR_RANGE, "loader_new: part -1 is outside [0,4)"},
        {0, 0, 8, true, TG_ERROR_VALUE, "loader_new: parts 0; it must be set to at least 1"},
        {4, 0, 6, true, TG_ERROR_VALUE, "loader_new: batch_size 6 is not a multiple of 4 parts"},
        {16, 0, 16, false, TG_ERROR_SHAPE, "loader_new: 10 windows for 16 parts; each part needs one"},
        {4, 0, 8, false, TG_ERROR_VALUE, "the last batch has 2 windows, which is not a multiple of 4 parts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_loader_config config = config_of(2, 1, cases[i].batch_size, true, cases[i].drop_last);
        config.parts = cases[i].parts;
        config.part = cases[i].part;
        tg_loader *loader = tg_loader_new(run, ids, 12, &config);
        assert_int_equal(tg_loader_batches(loader), 0);
        assert_loader_error(loader, cases[i].code, cases[i].text);
        tg_loader_free(loader);
    }
    tg_run_free(run);
}

static void test_bad_configs(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    const struct {
        int64_t count;
        tg_loader_config config;
        tg_code code;
        const char *message;
    } bad[] = {
        {50, config_of(0, 1, 1, false, false), TG_ERROR_VALUE, "loader_new: context 0; it must be set to at least 1"},
        {50, config_of(4, 0, 1, false, false), TG_ERROR_VALUE, "stride 0"},
        {50, config_of(4, 1, -3, false, false), TG_ERROR_VALUE, "batch_size -3"},
        {4, config_of(4, 1, 1, false, false), TG_ERROR_SHAPE,
         "the text has 4 ids; a window of 4 and its target need 5"},
        {0, config_of(4, 1, 1, false, false), TG_ERROR_SHAPE, "the text has 0 ids"},
        {10, config_of(4, 1, 7, false, true), TG_ERROR_SHAPE,
         "loader_new: 6 windows do not fill a batch of 7, and drop_last leaves out a batch that is not full"},
        {50,
         {.context = 4, .stride = 1, .batch_size = 2},
         TG_ERROR_VALUE,
         "loader_new: the config does not come from tg_loader_config_default()"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refuse(ids, bad[i].count, run, &bad[i].config, bad[i].code, bad[i].message);
    }
    tg_loader_config other = config_of(4, 1, 1, false, false);
    other.row_count = 3;
    refuse(ids, 50, run, &other, TG_ERROR_VALUE,
           "loader_new: row_count is set; it is an option of tg_loader_new_from_tensors, and windows have none");
    other.rows = (int64_t[]){0, 1, 2};
    refuse(ids, 50, run, &other, TG_ERROR_VALUE, "loader_new: rows is set");
    /* the sizes have no defaults */
    refuse(ids, 50, run, NULL, TG_ERROR_VALUE, "context 0");
    refuse(NULL, 50, run, NULL, TG_ERROR_STATE, "loader_new: the array of ids is NULL");
    tg_loader_config shuffled = config_of(4, 1, 1, true, false);
    refuse(ids, 50, NULL, &shuffled, TG_ERROR_STATE, "loader_new: shuffle needs a generator");
    tg_loader *loader = tg_loader_new_from_file(run, NULL, &bad[0].config);
    assert_loader_error(loader, TG_ERROR_STATE, "loader_new_from_file: the token file is NULL");
    tg_loader_free(loader);
    tg_run_free(run);
}

static void test_no_loader(void **state)
{
    (void)state;
    tg_batch batch;
    memset(&batch, 0xcd, sizeof batch);
    assert_int_equal(tg_loader_error(NULL)->code, TG_ERROR_MEMORY);
    assert_non_null(strstr(tg_loader_error(NULL)->text, "the loader is NULL"));
    assert_int_equal(tg_loader_batches(NULL), 0);
    assert_false(tg_loader_next(NULL, &batch));
    assert_null(batch.inputs);
    clear_loader_error(NULL);
    tg_loader_reset(NULL);
    tg_loader_free(NULL);
    /* a batch that is NULL is an error of the loader, which then stays where it is until that is cleared */
    tg_run *run = tg_run_new(1);
    tg_loader *loader = loader_of(50, config_of(4, 4, 2, true, true), run);
    assert_false(tg_loader_next(loader, NULL));
    assert_false(tg_loader_next(loader, &batch));
    assert_loader_error(loader, TG_ERROR_STATE, "loader_next: the batch is NULL");
    assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
    for (int64_t i = 0; i < tg_loader_batches(loader); i++) {
        assert_true(tg_loader_next(loader, &batch));
    }
    assert_false(tg_loader_next(loader, &batch));
    assert_int_equal(tg_loader_error(loader)->code, TG_OK);
    tg_loader_free(loader);
    tg_run_free(run);
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
    assert_error(&error, TG_ERROR_RANGE, "3 ids from index 2 on; the file has 4");
    assert_int_equal(tg_token_file_count(four), 2);
    assert_false(tg_token_file_read(four, 0, 2, read, &error));
    assert_error(&error, TG_ERROR_RANGE, "id 2147549183 at index 1 is above 2147483647");
    assert_true(tg_token_file_read(four, 0, 1, read, &error));
    assert_int_equal(read[0], 0x20001);
    tg_token_file_free(four);

    tg_run *run = tg_run_new(1);
    tg_loader_config config = config_of(2, 1, 1, false, false);
    tg_loader *loader = tg_loader_new_from_file(run, two, &config);
    tg_batch batch;
    assert_true(tg_loader_next(loader, &batch));
    assert_true(tg_loader_next(loader, &batch));
    assert_true(tg_tensor_value_at(batch.targets, 1) == 32768);
    tg_loader_free(loader);
    tg_run_free(run);
    tg_token_file_free(two);

    assert_true(tg_token_file_write(path, 4, (int32_t[]){7, INT32_MAX}, 2, &error));
    four = tg_token_file_open(path, 4, &error);
    assert_true(tg_token_file_read(four, 1, 1, read, &error));
    assert_int_equal(read[0], INT32_MAX);
    tg_token_file_free(four);
    assert_false(tg_token_file_write(path, 2, (int32_t[]){7, 65536}, 2, &error));
    assert_error(&error, TG_ERROR_RANGE, "id 65536 at index 1");
    assert_false(tg_token_file_write(path, 2, (int32_t[]){-7}, 1, &error));
    assert_error(&error, TG_ERROR_RANGE, "id -7 at index 0");
    assert_null(tg_token_file_open(path, 3, &error));
    assert_error(&error, TG_ERROR_VALUE, "3 bytes per id; it must be 2 or 4");
    assert_int_equal(truncate(path, 5), 0);
    assert_null(tg_token_file_open(path, 2, &error));
    assert_error(&error, TG_ERROR_FORMAT, "5 bytes are not a multiple of 2");
    assert_null(tg_token_file_open("/nowhere/x.bin", 2, &error));
    assert_error(&error, TG_ERROR_FILE, "/nowhere/x.bin");
    assert_null(tg_token_file_open("/tmp", 2, &error));
    assert_error(&error, TG_ERROR_FILE, "token_file_open: open '/tmp': it is a folder, not a regular file");
    unlink(path);
}

/* An id that no int32_t holds: the loader has the error, and neither its position nor the generator moves. */
static void test_bad_id_in_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/tapegrad-tokens-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, "\1\0\0\0\2\0\0\0\0\0\0\x80\4\0\0\0\5\0\0\0", 20), 20);
    close(file);
    tg_token_file *four = tg_token_file_open(path, 4, NULL);
    unlink(path);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        tg_run *run = tg_run_new(1);
        tg_loader_config config = config_of(1, 1, 4, shuffle, true);
        tg_loader *loader = tg_loader_new_from_file(run, four, &config);
        assert_int_equal(tg_loader_batches(loader), 1);
        tg_batch batch;
        for (int attempt = 0; attempt < 2; attempt++) {
            assert_false(tg_loader_next(loader, &batch));
            assert_null(batch.inputs);
            assert_loader_error(loader, TG_ERROR_RANGE, "id 2147483648 at index 2 is above 2147483647");
        }
        assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
        tg_loader_free(loader);
        tg_run_free(run);
    }
    tg_token_file_free(four);
}

/* Another process truncates the file: the loader has the error, and continues when the ids exist again. */
static void test_truncated_file(void **state)
{
    (void)state;
    static int32_t many[10000];
    for (int32_t i = 0; i < 10000; i++) {
        many[i] = i;
    }
    char path[] = "/tmp/tapegrad-tokens-XXXXXX", message[200];
    close(mkstemp(path));
    assert_true(tg_token_file_write(path, 4, many, 10000, NULL));
    tg_token_file *file = tg_token_file_open(path, 4, NULL);
    tg_run *run = tg_run_new(1);
    tg_rng *before = tg_rng_new(1);
    tg_loader_config config = config_of(4999, 4999, 1, false, true);
    tg_loader *loader = tg_loader_new_from_file(run, file, &config);
    tg_batch batch;
    assert_true(tg_loader_next(loader, &batch));
    tg_rng_copy(before, tg_run_rng(run));
    assert_int_equal(truncate(path, 4 * 7000 + 1), 0);
    assert_false(tg_loader_next(loader, &batch));
    assert_null(batch.inputs);
    snprintf(message, sizeof message, "token_file_read: '%s' ends at byte 28001; it had 40000 bytes when it was opened",
             path);
    assert_loader_error(loader, TG_ERROR_FILE, message);
    assert_int_equal(tg_rng_position(tg_run_rng(run)), tg_rng_position(before));
    tg_error error = TG_NO_ERROR;
    int32_t read[5000] = {-1};
    assert_false(tg_token_file_read(file, 4999, 5000, read, &error));
    assert_error(&error, TG_ERROR_FILE, "at byte 28001");
    assert_int_equal(read[0], -1); /* the portion before the end has not been copied */

    FILE *rest = fopen(path, "r+b");
    assert_int_equal(fseek(rest, 4 * 7000, SEEK_SET), 0);
    for (int32_t i = 7000; i < 10000; i++) {
        assert_int_equal(fwrite((unsigned char[]){i & 255, i >> 8, 0, 0}, 1, 4, rest), 4);
    }
    assert_int_equal(fclose(rest), 0);
    assert_true(tg_loader_next(loader, &batch));
    assert_true(tg_tensor_value_at(batch.inputs, 0) == 4999);
    assert_true(tg_tensor_value_at(batch.targets, 4998) == 9998);
    tg_loader_free(loader);
    tg_token_file_free(file);
    tg_run_free(run);
    tg_rng_free(before);
    unlink(path);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    bool finished = false;
    size_t failures = 0;
    tg_loader_config config = config_of(4, 1, 8, true, true);
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, 0, false);
        tg_run *run = tg_run_new(1);
        tg_rng *before = tg_rng_new(1);
        allocator_arm(&counting, k, true);
        tg_loader *loader = tg_loader_new(run, ids, 50, &config);
        tg_batch batch = {.inputs = NULL};
        finished = tg_loader_next(loader, &batch);
        if (!finished) {
            assert_int_equal(tg_loader_error(loader)->code, TG_ERROR_MEMORY);
            assert_int_equal(tg_rng_position(tg_run_rng(run)), tg_rng_position(before));
            failures++;
        }
        /* a loader that was created fails no more; one that could not be has no batches */
        bool is_created = tg_loader_batches(loader) > 0;
        allocator_arm(&counting, 0, false);
        if (loader && !finished) {
            clear_loader_error(loader);
            assert_int_equal(tg_loader_next(loader, &batch), is_created);
            assert_int_equal(tg_loader_error(loader)->code, is_created ? TG_OK : TG_ERROR_STATE);
            assert_int_equal(tg_rng_position(tg_run_rng(run)) > tg_rng_position(before), is_created);
        }
        tg_loader_free(loader);
        tg_run_free(run);
        tg_rng_free(before);
        assert_int_equal(counting.live, 0);
    }
    assert_true(failures > 5);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_torchs),
        cmocka_unit_test(test_a_held_batch_is_never_overwritten),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_stale_batches),
        cmocka_unit_test(test_parts_of_the_batches),
        cmocka_unit_test(test_parts_that_do_not_fit),
        cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_no_loader),
        cmocka_unit_test(test_token_files),
        cmocka_unit_test(test_bad_id_in_a_file),
        cmocka_unit_test(test_truncated_file),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
