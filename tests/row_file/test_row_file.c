/* A table in a file trains like one in memory, bit for bit, and its file is refused if anything about it is wrong. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

static const char path[] = "test_row_file.rows";
static tg_error error;

/* Returns a new file; the values are those of a generator with the seed 3. */
static tg_row_file *new_file(int64_t rows, int64_t width, double initial)
{
    tg_system_remove(path);
    tg_rng *rng = tg_rng_new(3);
    tg_row_file_config config = tg_row_file_config_default();
    config.rng = rng;
    config.std = 0.5;
    config.initial_accumulator = initial;
    tg_error_clear(&error);
    tg_row_file *file = tg_row_file_new(path, rows, width, &config, &error);
    assert_string_equal(error.text, "");
    tg_rng_free(rng);
    return file;
}

/* Requires that all rows of the file have the bits of a table in memory. */
static void expect_table(tg_row_file *file, const tg_tensor *table)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tape_set_recording(t, false);
    tg_tensor *ids = tg_tensor_new_arange(TG_I32, 0, (double)tg_tensor_size(table, 0), 1, NULL);
    tg_tensor *rows = tg_row_file_lookup(t, file, ids);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_memory_equal(tg_tensor_data(rows), tg_tensor_data(table), (size_t)tg_tensor_count(table) * sizeof(float));
    tg_release(ids);
    tg_tape_free(t);
}

/* The initial values are those of the whole table, and the generator advances by them. */
static void test_initial_values(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{1, 1}, {3, 5}, {1000, 64}, {40001, 3}, {33, 1023}, {2049, 256}, {16 * 4 * 2 + 1, 255}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tg_rng *drawn = tg_rng_new(3), *whole = tg_rng_new(3);
        tg_tensor *table = tg_tensor_new(TG_F32, tg_shape_make(2, sizes[i]), NULL);
        assert_true(tg_tensor_fill_normal(table, whole, 0, 0.5, NULL));
        tg_row_file_config config = tg_row_file_config_default();
        config.rng = drawn;
        config.std = 0.5;
        tg_system_remove(path);
        tg_row_file *file = tg_row_file_new(path, sizes[i][0], sizes[i][1], &config, &error);
        assert_non_null(file);
        assert_true(tg_rng_position(drawn) == tg_rng_position(whole));
        expect_table(file, table);
        tg_row_file_free(file);
        tg_rng_free(drawn);
        tg_rng_free(whole);
        tg_release(table);
    }
}

/* ---- training ---- */

enum { ROWS = 300, WIDTH = 37, BATCH = 40, STEPS = 60 };

/* ids (BATCH) of a step, some of them often, and targets for a loss that is not linear. */
static tg_tensor *ids_of(tg_tape *t, int step, int shift)
{
    int32_t ids[BATCH];
    for (int i = 0; i < BATCH; i++) {
        ids[i] = (step * 31 + i * i * 7 + shift) % (i % 3 == 0 ? 5 : ROWS);
    }
    return tg_constant_i32(t, TG_SHAPE(BATCH / 4, 4), ids);
}

static tg_tensor *lookup(tg_tape *t, tg_row_file *file, tg_tensor *table, tg_tensor *ids)
{
    return file ? tg_row_file_lookup(t, file, ids) : tg_embedding(t, ids, table, NULL);
}

/* Trains a file, or a table in memory, with `lookups` per step, which share no row if there are several. */
static void train(tg_row_file *file, tg_tensor *table, tg_optim *optim, int first, int last, int lookups)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int step = first; step < last; step++) {
        tg_tape_reset(t);
        tg_tensor *sum = NULL;
        for (int k = 0; k < lookups; k++) {
            tg_tensor *x = lookup(t, file, table, ids_of(t, step, k));
            x = tg_mean(t, tg_pow_scalar(t, tg_add_scalar(t, tg_sigmoid(t, x), -0.25), 2), TG_ALL_AXES, TG_DROP_AXES);
            sum = sum ? tg_add(t, sum, x) : x;
        }
        if (optim) {
            tg_optim_zero_grad(optim);
            tg_optim_set_lr(optim, NULL, 0.5 / (1 + step));
        }
        assert_true(tg_backward(t, sum, NULL));
        assert_true(optim ? tg_optim_step(optim) : tg_row_file_step(file, 0.5 / (1 + step), &error));
    }
    tg_tape_free(t);
}

/* The same table in memory, and an optimizer of it. */
typedef struct twin {
    tg_params *params;
    tg_tensor *table;
    tg_optim *optim;
} twin;

static twin twin_make(int64_t rows, int64_t width, double initial)
{
    twin w = {.params = tg_params_new(NULL, TG_F32)};
    w.table = tg_params_add(w.params, "table", TG_SHAPE(rows, width));
    tg_rng *rng = tg_rng_new(3);
    assert_true(tg_tensor_fill_normal(w.table, rng, 0, 0.5, NULL));
    tg_rng_free(rng);
    tg_adagrad_config config = tg_adagrad_config_default();
    config.by_rows = true;
    config.eps = 1e-8;
    config.initial_accumulator = initial;
    w.optim = tg_adagrad_new(w.params, &config);
    assert_non_null(w.optim);
    return w;
}

static void twin_free(twin *w)
{
    tg_optim_free(w->optim);
    tg_params_free(w->params);
}

static void test_trains_like_memory(void **state)
{
    (void)state;
    const double initials[] = {0, 0.125};
    for (int i = 0; i < 2; i++) {
        tg_row_file *file = new_file(ROWS, WIDTH, initials[i]);
        twin w = twin_make(ROWS, WIDTH, initials[i]);
        train(file, NULL, NULL, 0, STEPS / 2, 1);
        train(NULL, w.table, w.optim, 0, STEPS, 1);
        /* a later run continues */
        tg_row_file_free(file);
        file = tg_row_file_open(path, ROWS, WIDTH, &error);
        assert_non_null(file);
        train(file, NULL, NULL, STEPS / 2, STEPS, 1);
        expect_table(file, w.table);
        tg_row_file_free(file);
        twin_free(&w);
    }
}

/* Several lookups of a step: the sums of a row's gradients are rounded differently. */
static void test_several_lookups(void **state)
{
    (void)state;
    tg_row_file *file = new_file(ROWS, WIDTH, 0);
    twin w = twin_make(ROWS, WIDTH, 0);
    train(file, NULL, NULL, 0, STEPS, 3);
    train(NULL, w.table, w.optim, 0, STEPS, 3);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *ids = tg_tensor_new_arange(TG_I32, 0, ROWS, 1, NULL), *rows = tg_row_file_lookup(t, file, ids);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        assert_true(fabs(tg_tensor_value_at(rows, i) - tg_tensor_value_at(w.table, i)) < 2e-6);
    }
    tg_release(ids);
    tg_tape_free(t);
    tg_row_file_free(file);
    twin_free(&w);
}

/* Gradients are of the lookups since the last step that were recorded, and can be dropped. */
static void test_what_a_step_uses(void **state)
{
    (void)state;
    tg_row_file *file = new_file(ROWS, WIDTH, 0);
    twin w = twin_make(ROWS, WIDTH, 0);
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *ids = ids_of(t, 0, 0);
    assert_true(tg_row_file_step(file, 1, &error));
    tg_tape_set_recording(t, false);
    assert_non_null(tg_row_file_lookup(t, file, ids));
    tg_tape_set_recording(t, true);
    tg_tensor *loss = tg_sum(t, tg_row_file_lookup(t, file, ids), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_row_file_step(file, 1, &error));
    assert_true(tg_backward(t, loss, NULL));
    assert_true(tg_row_file_step(file, 1, &error));
    loss = tg_sum(t, tg_row_file_lookup(t, file, ids), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_backward(t, loss, NULL));
    tg_row_file_zero_grad(file);
    assert_true(tg_row_file_step(file, 1, &error));
    /* while there is an error nothing moves */
    loss = tg_sum(t, tg_row_file_lookup(t, file, ids), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_backward(t, loss, NULL));
    assert_null(tg_add(t, loss, NULL));
    assert_null(tg_row_file_lookup(t, file, ids));
    assert_false(tg_row_file_step(file, 1, &error));
    assert_string_equal(error.text, tg_run_error(run)->text);
    tg_error_clear(&error);
    tg_run_clear_error(run);
    assert_true(tg_row_file_step(file, 1, &error));
    expect_table(file, w.table);
    /* no ids */
    tg_tensor *none = tg_constant_i32(t, TG_SHAPE(0), NULL);
    assert_int_equal(tg_tensor_count(tg_row_file_lookup(t, file, none)), 0);
    assert_true(tg_row_file_step(file, 1, &error));
    tg_tape_free(t);
    tg_run_free(run);
    tg_row_file_free(file);
    twin_free(&w);
}

/* ---- errors ---- */

/* A file that another program has made shorter. */
static void test_file_ends(void **state)
{
    (void)state;
    tg_row_file *file = new_file(100, 64, 0);
    int descriptor = tg_system_open(path, TG_OPEN_WRITE);
    assert_true(tg_system_set_size(descriptor, 4096));
    tg_system_close(descriptor);
    tg_tape *t = tg_tape_new(NULL, NULL);
    assert_null(tg_row_file_lookup(t, file, tg_constant_i32(t, TG_SHAPE(1), (int32_t[]){0})));
    assert_string_equal(tg_tape_error(t)->text,
                        "row_file_lookup: 'test_row_file.rows' ends at byte 4096; it had 32768 bytes when it was "
                        "opened");
    assert_int_equal(tg_tape_error(t)->code, TG_ERROR_FORMAT);
    tg_tape_free(t);
    tg_row_file_free(file);
}

static void expect_error(tg_code code, const char *text)
{
    assert_string_equal(error.text, text);
    assert_int_equal(error.code, code);
    tg_error_clear(&error);
}

static void write_bytes(const char *bytes, size_t length)
{
    assert_true(tg_file_replace("test", path, bytes, length, NULL));
}

static void test_refuses_files(void **state)
{
    (void)state;
    tg_row_file_free(new_file(100, 64, 0));
    assert_null(tg_row_file_open(path, 100, 32, &error));
    expect_error(TG_ERROR_SHAPE, "row_file_open: 'test_row_file.rows' has 100 rows of width 64, not 100 of width 32");
    assert_null(tg_row_file_open(path, 99, 64, &error));
    expect_error(TG_ERROR_SHAPE, "row_file_open: 'test_row_file.rows' has 100 rows of width 64, not 99 of width 64");
    assert_null(tg_row_file_new(path, 100, 64, NULL, &error));
    expect_error(TG_ERROR_FILE, "row_file_new: 'test_row_file.rows' exists; open it, or remove it");
    assert_null(tg_row_file_open("none.rows", 100, 64, &error));
    expect_error(TG_ERROR_FILE, "row_file_open: open 'none.rows': No such file or directory");
    tg_row_file *file = tg_row_file_open(path, 100, 64, &error);
    assert_null(tg_row_file_open(path, 100, 64, &error));
    expect_error(TG_ERROR_STATE, "row_file_open: lock 'test_row_file.rows': it is open already");
    tg_row_file_free(file);
    size_t length = 0;
    char *bytes = tg_file_read_text("test", path, &length, NULL);
    assert_int_equal(length, 4096 * (1 + 7));
    write_bytes(bytes, length - 1);
    assert_null(tg_row_file_open(path, 100, 64, &error));
    expect_error(TG_ERROR_FORMAT,
                 "row_file_open: 'test_row_file.rows' has 32767 bytes, not the 32768 of its 100 rows of "
                 "width 64");
    static const char other[] =
        "row_file_open: 'test_row_file.rows' is no row file of version 1 of this kind of processor";
    write_bytes(bytes, 4095);
    assert_null(tg_row_file_open(path, 100, 64, &error));
    expect_error(TG_ERROR_FORMAT, other);
    write_bytes("", 0);
    assert_null(tg_row_file_open(path, 100, 64, &error));
    expect_error(TG_ERROR_FORMAT, other);
    /* the format, the version, and the sign of eps in either order of the bytes */
    const int changed[] = {0, 16, 24, 31, *(const char *)&(int){1} ? 55 : 48};
    for (int i = 0; i < 5; i++) {
        bytes[changed[i]] ^= (char)0x80;
        write_bytes(bytes, length);
        assert_null(tg_row_file_open(path, 100, 64, &error));
        bytes[changed[i]] ^= (char)0x80;
        expect_error(TG_ERROR_FORMAT, other);
    }
    write_bytes(bytes, length);
    tg_row_file_free(tg_row_file_open(path, 100, 64, &error));
    assert_int_equal(error.code, TG_OK);
    tg_free(bytes);
}

static void test_refuses_options(void **state)
{
    (void)state;
    tg_system_remove(path);
    const struct {
        int64_t rows, width;
        const char *text;
    } sizes[] = {{0, 4, "0 rows of width 4"},
                 {-1, 4, "-1 rows of width 4"},
                 {(int64_t)INT32_MAX + 1, 4, "2147483648 rows of width 4"},
                 {4, 0, "4 rows of width 0"},
                 {4, 1024, "4 rows of width 1024"}};
    for (int i = 0; i < 5; i++) {
        char text[200];
        snprintf(text, sizeof text, "row_file_new: %s; at least 1 and at most 2147483647 and 1023", sizes[i].text);
        assert_null(tg_row_file_new(path, sizes[i].rows, sizes[i].width, NULL, &error));
        expect_error(TG_ERROR_SHAPE, text);
    }
    tg_row_file_config config = tg_row_file_config_default();
    assert_true(config.std == 1 && config.eps == 1e-8 && config.initial_accumulator == 0 && !config.rng);
    config.std = -1;
    assert_null(tg_row_file_new(path, 4, 4, &config, &error));
    expect_error(TG_ERROR_VALUE, "row_file_new: std -1; it must be finite and at least 0");
    config = tg_row_file_config_default();
    config.eps = (double)NAN;
    assert_null(tg_row_file_new(path, 4, 4, &config, &error));
    expect_error(TG_ERROR_VALUE, "row_file_new: eps nan; it must be finite and at least 0");
    config = tg_row_file_config_default();
    config.initial_accumulator = (double)INFINITY;
    assert_null(tg_row_file_new(path, 4, 4, &config, &error));
    expect_error(TG_ERROR_VALUE, "row_file_new: initial accumulator inf; it must be finite and at least 0");
    assert_null(tg_row_file_new("", 4, 4, NULL, &error));
    expect_error(TG_ERROR_VALUE, "row_file_new: the path is empty");
    assert_int_equal(tg_system_status(path).kind, TG_PATH_NONE);

    tg_row_file *file = new_file(10, 4, 0);
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    const struct {
        int32_t ids[4];
        const char *text;
    } cases[] = {{{0, 9, 10, 3}, "row_file_lookup: id 10 at [1,0] is outside [0,10)"},
                 {{0, -1, 9, 3}, "row_file_lookup: id -1 at [0,1] is outside [0,10)"}};
    for (int i = 0; i < 2; i++) {
        assert_null(tg_row_file_lookup(t, file, tg_constant_i32(t, TG_SHAPE(2, 2), cases[i].ids)));
        assert_string_equal(tg_run_error(run)->text, cases[i].text);
        assert_int_equal(tg_run_error(run)->code, TG_ERROR_RANGE);
        tg_run_clear_error(run);
    }
    assert_null(tg_row_file_lookup(t, file, tg_constant_f32(t, TG_SHAPE(1), (float[]){1})));
    assert_string_equal(tg_run_error(run)->text, "row_file_lookup: argument 'ids' is f32; it must be i32");
    tg_run_clear_error(run);
    assert_false(tg_row_file_step(file, -1, &error));
    expect_error(TG_ERROR_VALUE, "row_file_step: learning rate -1; it must be finite and at least 0");
    tg_tape_free(t);
    tg_run_free(run);
    tg_row_file_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_values),  cmocka_unit_test(test_trains_like_memory),
        cmocka_unit_test(test_several_lookups), cmocka_unit_test(test_what_a_step_uses),
        cmocka_unit_test(test_file_ends),       cmocka_unit_test(test_refuses_files),
        cmocka_unit_test(test_refuses_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
