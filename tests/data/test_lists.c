/* Loaders of lists of ids: batches as by custom_collate_fn (tests/goldens/make_collate.py), masks, parts and errors. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"

enum { MOST_LISTS = 20, MOST_IDS = 13, PAD = 22 };

static int32_t ids[MOST_LISTS * MOST_IDS];
static int64_t lengths[MOST_LISTS];

/* Writes the lists of make_collate.py. */
static void make_lists(int64_t count)
{
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        lengths[i] = (7 * i * i + 3) % MOST_IDS + 1;
        for (int64_t k = 0; k < lengths[i]; k++) {
            ids[total++] = (int32_t)((i * i + 5 * k) % 23);
        }
    }
}

static tg_loader_config config_of(int64_t batch_size)
{
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = batch_size;
    config.pad_id = PAD;
    return config;
}

static void assert_next_numbers(FILE *goldens, const tg_tensor *x)
{
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        int expected;
        assert_int_equal(fscanf(goldens, "%d", &expected), 1);
        assert_int_equal((int)tg_tensor_value_at(x, i), expected);
    }
}

/* A row of the mask is ones, then zeros; where it is zero, the input is padding. */
static void assert_mask(const tg_batch *b)
{
    assert_int_equal(b->count, 3);
    assert_int_equal(tg_tensor_dtype(b->tensors[2]), TG_U8);
    int64_t width = tg_tensor_size(b->inputs, 1);
    for (int64_t i = 0; i < tg_tensor_count(b->inputs); i++) {
        double kept = tg_tensor_value_at(b->tensors[2], i);
        assert_true(kept == 0 || kept == 1);
        assert_true(kept == 1 || tg_tensor_value_at(b->inputs, i) == PAD);
        assert_true(i % width == 0 || kept <= tg_tensor_value_at(b->tensors[2], i - 1));
    }
}

static void test_batches_are_the_courses(void **state)
{
    (void)state;
    FILE *goldens = fopen(TG_TEST_GOLDENS "/data/collate.txt", "r");
    assert_non_null(goldens);
    int cases = 0, draw;
    long long count, size, drop, most, rows, columns;
    for (; fscanf(goldens, "%lld %lld %lld %lld", &count, &size, &drop, &most) == 4; cases++) {
        make_lists(count);
        tg_loader_config config = config_of(size);
        config.shuffle = true;
        config.drop_last = drop != 0;
        config.max_length = most;
        tg_run *run = tg_run_new(123);
        tg_loader *loader = tg_loader_new_from_lists(run, ids, lengths, count, &config);
        assert_string_equal(tg_loader_error(loader)->text, "");
        int64_t batches = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (tg_batch b; tg_loader_next(loader, &b); batches++) {
                assert_int_equal(fscanf(goldens, "%lld %lld", &rows, &columns), 2);
                assert_int_equal(tg_tensor_size(b.inputs, 0), rows);
                assert_int_equal(tg_tensor_size(b.inputs, 1), columns);
                assert_next_numbers(goldens, b.inputs);
                assert_next_numbers(goldens, b.targets);
                assert_mask(&b);
            }
            assert_string_equal(tg_loader_error(loader)->text, "");
        }
        assert_int_equal(batches, 2 * tg_loader_batches(loader));
        int64_t drawn;
        tg_rng_integers(tg_run_rng(run), &drawn, 1, 0, 1 << 24);
        assert_int_equal(fscanf(goldens, " next %d", &draw), 1);
        assert_int_equal(drawn, draw);
        tg_loader_free(loader);
        tg_run_free(run);
    }
    fclose(goldens);
    assert_int_equal(cases, 5);
}

/* The parts of a batch, joined, are the batch: also a part of short lists has its columns. A held batch stays. */
static void test_parts(void **state)
{
    (void)state;
    make_lists(12);
    tg_run *run = tg_run_new(4);
    tg_run *same[2] = {tg_run_new(4), tg_run_new(4)};
    tg_loader_config config = config_of(4);
    config.shuffle = true;
    tg_loader *whole = tg_loader_new_from_lists(run, ids, lengths, 12, &config), *parts[2];
    config.parts = 2;
    for (int64_t i = 0; i < 2; i++) {
        config.part = i;
        parts[i] = tg_loader_new_from_lists(same[i], ids, lengths, 12, &config);
    }
    tg_tensor *held = NULL;
    double first = 0;
    for (tg_batch b, p[2]; tg_loader_next(whole, &b);) {
        for (int i = 0; i < 2; i++) {
            assert_true(tg_loader_next(parts[i], &p[i]));
            assert_int_equal(tg_tensor_size(p[i].inputs, 1), tg_tensor_size(b.inputs, 1));
            int64_t half = tg_tensor_count(p[i].inputs);
            for (int64_t k = 0; k < half; k++) {
                assert_true(tg_tensor_value_at(p[i].targets, k) == tg_tensor_value_at(b.targets, i * half + k));
            }
        }
        first = held ? first : tg_tensor_value_at(b.inputs, 0);
        held = held ? held : tg_retain(b.inputs);
    }
    for (tg_batch b; tg_loader_next(whole, &b);) {
        assert_ptr_not_equal(b.inputs, held);
    }
    assert_true(tg_tensor_value_at(held, 0) == first);
    tg_release(held);
    tg_loader_free(whole);
    tg_run_free(run);
    for (int i = 0; i < 2; i++) {
        tg_loader_free(parts[i]);
        tg_run_free(same[i]);
    }
}

typedef struct bad {
    tg_loader_config config;
    int64_t count, first_length;
    int32_t second_id;
    tg_code code;
    const char *text;
} bad;

static void test_errors(void **state)
{
    (void)state;
#define NEW "loader_new_from_lists: "
    bad cases[] = {
        {config_of(1), 0, 2, 5, TG_ERROR_SHAPE, NEW "0 lists; at least 1 is needed"},
        {config_of(1), -1, 2, 5, TG_ERROR_SHAPE, NEW "-1 lists; at least 1 is needed"},
        {config_of(1), 2, 0, 5, TG_ERROR_SHAPE, NEW "list 0 has 0 ids; it must have 1 to 2147483646"},
        {config_of(1), 2, INT64_MAX, 5, TG_ERROR_SHAPE, NEW "list 0 has 9223372036854775807 ids"},
        {config_of(1), 2, 2, -7, TG_ERROR_RANGE, NEW "id -7 at [1] of list 0; it must be at least 0"},
        {config_of(0), 2, 2, 5, TG_ERROR_VALUE, NEW "batch_size 0; it must be set to at least 1"},
        {config_of(1), 2, 2, 5, TG_ERROR_RANGE, NEW "pad_id -1; it must be set to at least 0"},
        {config_of(1), 2, 2, 5, TG_ERROR_VALUE, NEW "max_length 0; it must be at least 1, or TG_NO_MAX_LENGTH"},
        {config_of(1), 2, 2, 5, TG_ERROR_VALUE,
         NEW "context is 4; it is an option of windows of ids (tg_loader_new), and lists have none"},
        {config_of(1), 2, 2, 5, TG_ERROR_VALUE,
         NEW "row_count is set; it is an option of tg_loader_new_from_tensors, and lists have none"},
    };
    cases[6].config.pad_id = -1;
    cases[7].config.max_length = 0;
    cases[8].config.context = 4;
    cases[9].config.row_count = 1;
    tg_run *run = tg_run_new(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int32_t few[] = {3, cases[i].second_id, 4, 4};
        const int64_t sizes[] = {cases[i].first_length, 2};
        tg_loader *loader = tg_loader_new_from_lists(run, few, sizes, cases[i].count, &cases[i].config);
        tg_error error = *tg_loader_error(loader);
        assert_error(&error, cases[i].code, cases[i].text);
        tg_batch batch;
        assert_false(tg_loader_next(loader, &batch));
        tg_run_clear_error(run);
        tg_loader_free(loader);
    }
    tg_loader_config config = config_of(1);
    config.context = config.stride = 1;
    tg_loader *windows = tg_loader_new(run, (const int32_t[]){1, 2, 3}, 3, &config);
    tg_error error = *tg_loader_error(windows);
    assert_error(&error, TG_ERROR_VALUE,
                 "loader_new: pad_id is 22; it is an option of tg_loader_new_from_lists, and windows have none");
    tg_loader_free(windows);
    assert_true(tg_rng_position(tg_run_rng(run)) == 0);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_are_the_courses),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
