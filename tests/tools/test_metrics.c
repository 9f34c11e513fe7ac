/* tg_accuracy_add and tg_confusion_add: tests/goldens/metrics.txt has torch's counts (make_metrics.py). Layouts, sums
 * over batches, and errors. */
#include "support.h"

#include <math.h>

static tg_error error;

static int set_up(void **state)
{
    (void)state;
    tg_error_clear(&error);
    return 0;
}

/* ---- goldens ---- */

#define MOST 240

typedef struct golden {
    double rows, classes, ignored, right, count, logits[MOST], targets[MOST], matrix[MOST];
} golden;

static bool read_numbers(FILE *file, double *numbers, int64_t count)
{
    bool is_read = true;
    for (int64_t i = 0; is_read && i < count; i++) {
        is_read = fscanf(file, "%lf", &numbers[i]) == 1;
    }
    return is_read;
}

static bool read_golden(FILE *file, golden *g)
{
    if (!read_numbers(file, &g->rows, 1)) {
        return false;
    }
    assert_true(read_numbers(file, &g->classes, 1) && read_numbers(file, &g->ignored, 1) &&
                read_numbers(file, &g->right, 1) && read_numbers(file, &g->count, 1));
    int64_t rows = (int64_t)g->rows, classes = (int64_t)g->classes;
    assert_true(rows * classes <= MOST);
    return read_numbers(file, g->logits, rows * classes) && read_numbers(file, g->targets, rows) &&
           read_numbers(file, g->matrix, classes * classes);
}

/* Compares with logits (2,rows/2,C) and targets (2,rows/2), with `strided` in another order of memory. */
static void check_golden(const golden *g, tg_dtype dtype, bool strided)
{
    int64_t classes = (int64_t)g->classes, parts = (int64_t)g->rows % 2 == 0 ? 2 : 1, rows = (int64_t)g->rows / parts;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_metric_config config = tg_metric_config_default();
    assert_int_equal(config.ignore_index, -100);
    config.ignore_index = (int32_t)g->ignored;
    tg_tensor *x = tensor_f64(TG_SHAPE(parts, rows, classes), g->logits),
              *y = tensor_f64(TG_SHAPE(parts, rows), g->targets);
    tg_tensor *logits = tg_cast(t, x, dtype), *targets = tg_cast(t, y, TG_I32);
    if (strided) {
        logits = tg_permute(t, tg_contiguous(t, tg_permute(t, logits, TG_AXES(2, 1, 0))), TG_AXES(2, 1, 0));
        targets = tg_transpose(t, tg_contiguous(t, tg_transpose(t, targets, 0, 1)), 0, 1);
    }
    tg_tensor *wide = tg_tensor_new(TG_I32, TG_SHAPE(classes, 2 * classes), &error);
    tg_tensor *matrix = tg_slice(t, tg_transpose(t, wide, 0, 1), 0, 0, classes, 1);
    tg_accuracy accuracy = {1000, 2000};
    for (int batch = 0; batch < 2; batch++) {
        assert_true(tg_accuracy_add(&accuracy, logits, targets, &config, &error));
        assert_true(tg_confusion_add(matrix, logits, targets, &config, &error));
    }
    assert_int_equal(accuracy.correct, 1000 + 2 * (int64_t)g->right);
    assert_int_equal(accuracy.count, 2000 + 2 * (int64_t)g->count);
    for (int64_t i = 0; i < classes * classes; i++) {
        assert_int_equal(tg_tensor_value_at(matrix, i), 2 * (int64_t)g->matrix[i]);
    }
    assert_int_equal(tg_tape_error(t)->code, TG_OK);
    tg_tape_free(t);
    tg_release(wide);
    tg_release(x);
    tg_release(y);
}

static void test_goldens(void **state)
{
    (void)state;
    FILE *file = fopen(TG_TEST_GOLDENS "/metrics.txt", "r");
    assert_non_null(file);
    golden g;
    int found = 0;
    while (read_golden(file, &g)) {
        check_golden(&g, TG_F32, false);
        check_golden(&g, TG_F64, false);
        check_golden(&g, TG_F32, true);
        check_golden(&g, TG_F64, true);
        found++;
    }
    fclose(file);
    assert_int_equal(found, 4);
}

/* ---- one row, no rows, and a matrix that is saved for backward ---- */

static void test_a_single_row(void **state)
{
    (void)state;
    tg_tensor *logits = tensor_f32(TG_SHAPE(3), (float[]){1, 3, 2}), *target = tensor_i32(TG_SHAPE(), (int32_t[]){1});
    tg_tensor *none = tg_tensor_new(TG_F32, TG_SHAPE(0, 3), &error),
              *no_targets = tg_tensor_new(TG_I32, TG_SHAPE(0), &error);
    tg_accuracy accuracy = {0, 0};
    assert_true(tg_accuracy_add(&accuracy, logits, target, NULL, &error));
    assert_true(tg_accuracy_add(&accuracy, none, no_targets, NULL, &error));
    assert_int_equal(accuracy.correct, 1);
    assert_int_equal(accuracy.count, 1);
    tg_release(logits);
    tg_release(target);
    tg_release(none);
    tg_release(no_targets);
}

/* The matrix counts as modified: an embedding whose ids are the matrix cannot run backward. */
static void test_the_matrix_is_modified(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *matrix = tg_tensor_new(TG_I32, TG_SHAPE(2, 2), &error),
              *target = tensor_i32(TG_SHAPE(1), (int32_t[]){1});
    tg_tensor *table = leaf(tensor_f32(TG_SHAPE(2, 2), (float[]){1, 2, 3, 4}));
    tg_tensor *loss = tg_sum(t, tg_embedding(t, matrix, table, NULL), TG_ALL_AXES, TG_DROP_AXES);
    tg_tensor *logits = tensor_f32(TG_SHAPE(1, 2), (float[]){1, 2});
    assert_true(tg_confusion_add(matrix, logits, target, NULL, &error));
    assert_false(tg_backward(t, loss, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "changed in place");
    tg_tape_free(t);
    tg_release(matrix);
    tg_release(target);
    tg_release(table);
    tg_release(logits);
}

/* ---- errors ---- */

static tg_tensor *logits, *targets, *matrix;

/* Both calls refuse the tensors with the same text, and change nothing. */
static void refuse(const tg_tensor *x, const tg_tensor *y, tg_code code, const char *message)
{
    tg_accuracy accuracy = {3, 4};
    assert_false(tg_accuracy_add(&accuracy, x, y, NULL, &error));
    char text[sizeof error.text];
    snprintf(text, sizeof text, "accuracy_add: %s", message);
    assert_error(&error, code, text);
    assert_true(accuracy.correct == 3 && accuracy.count == 4);
    assert_false(tg_confusion_add(matrix, x, y, NULL, &error));
    snprintf(text, sizeof text, "confusion_add: %s", message);
    assert_error(&error, code, text);
    assert_values(matrix, (double[]){5, 0, 0, 0}, 4, 0, 0);
}

static void refuse_matrix(tg_tensor *x, tg_code code, const char *message)
{
    assert_false(tg_confusion_add(x, logits, targets, NULL, &error));
    assert_error(&error, code, message);
}

static void test_errors(void **state)
{
    (void)state;
    logits = tensor_f32(TG_SHAPE(2, 2), (float[]){1, 2, 4, 3});
    targets = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1});
    matrix = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){5, 0, 0, 0});
    tg_tensor *bad[] = {
        tensor_i32(TG_SHAPE(2), (int32_t[]){1, 2}),    tensor_i32(TG_SHAPE(2), (int32_t[]){1, -1}),
        tensor_i32(TG_SHAPE(1), (int32_t[]){1}),       tg_tensor_new(TG_F32, TG_SHAPE(2, 0), &error),
        tg_tensor_new(TG_F32, TG_SHAPE(), &error),     tg_tensor_new(TG_F32, TG_SHAPE(2), &error),
        tg_tensor_new(TG_I32, TG_SHAPE(2, 2), &error), tensor_i32(TG_SHAPE(2, 2), (int32_t[]){0, 0, INT32_MAX - 1, 0}),
        tg_tensor_new(TG_I32, TG_SHAPE(2, 3), &error), tg_tensor_new(TG_I32, TG_SHAPE(3, 2), &error),
        tg_tensor_new(TG_I32, TG_SHAPE(4), &error)};
    refuse(logits, bad[0], TG_ERROR_RANGE,
           "target 2 at [1] is outside [0,2), the classes of logits (2,2), and is not ignore_index, -100");
    refuse(logits, bad[1], TG_ERROR_RANGE,
           "target -1 at [1] is outside [0,2), the classes of logits (2,2), and is not ignore_index, -100");
    refuse(logits, bad[2], TG_ERROR_SHAPE, "logits (2,2) and targets (1,); they must be (..,C) and (..) with C >= 1");
    refuse(bad[3], targets, TG_ERROR_SHAPE, "logits (2,0) and targets (2,); they must be (..,C) and (..) with C >= 1");
    refuse(bad[4], targets, TG_ERROR_SHAPE, "logits () and targets (2,); they must be (..,C) and (..) with C >= 1");
    refuse(logits, bad[5], TG_ERROR_DTYPE, "logits f32 and targets f32; they must be f32 or f64, and i32");
    refuse(bad[6], targets, TG_ERROR_DTYPE, "logits i32 and targets i32; they must be f32 or f64, and i32");

    refuse_matrix(bad[7], TG_ERROR_RANGE,
                  "confusion_add: the count 2147483646 at [1,0] and 2 more could exceed 2147483647");
    assert_values(bad[7], (double[]){0, 0, INT32_MAX - 1, 0}, 4, 0, 0);
    refuse_matrix(bad[8], TG_ERROR_SHAPE, "confusion_add: the matrix is i32 (2,3); it must be i32 (2,2)");
    refuse_matrix(bad[9], TG_ERROR_SHAPE, "the matrix is i32 (3,2); it must be i32 (2,2)");
    refuse_matrix(bad[10], TG_ERROR_SHAPE, "the matrix is i32 (4,); it must be i32 (2,2)");
    refuse_matrix(logits, TG_ERROR_DTYPE, "the matrix is f32 (2,2); it must be i32 (2,2)");
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *view = tg_select(t, matrix, 0, 1); /* targets 0, 0; predictions 1, 0 */
    assert_true(tg_confusion_add(matrix, logits, view, NULL, &error));
    assert_values(matrix, (double[]){6, 1, 0, 0}, 4, 0, 0);
    tg_tape_free(t);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tg_release(bad[i]);
    }
    tg_release(logits);
    tg_release(targets);
    tg_release(matrix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_goldens, set_up),
        cmocka_unit_test_setup(test_a_single_row, set_up),
        cmocka_unit_test_setup(test_the_matrix_is_modified, set_up),
        cmocka_unit_test_setup(test_errors, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
