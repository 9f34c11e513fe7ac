/* Frozen rows, update counts, norms, neighbors and resizing, without an optimizer. tests/optim/test_row_properties.c
 * has the tests with optimizers. */
#include <math.h>
#include <string.h>

#include "support.h"

#include "ops/attention/relative.h"
#include "tensor/tensor.h"

static tg_tensor *table;
static tg_tape *tape;
static tg_error error;

static int set_up(void **state)
{
    (void)state;
    table = leaf(tensor_f64(TG_SHAPE(4, 2), (double[]){1, 2, -3, 4, 0, 0, 2, 4.5}));
    tape = tg_tape_new(NULL, NULL);
    tg_error_clear(&error);
    return !tape;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_release(table);
    return 0;
}

static tg_tensor *sum(tg_tensor *x)
{
    return tg_sum(tape, x, TG_ALL_AXES, TG_DROP_AXES);
}

static tg_tensor *lookup(int64_t count, const int32_t *ids)
{
    tg_tensor *at = tensor_i32(TG_SHAPE(count), ids);
    tg_tensor *rows = tg_embedding(tape, at, table, NULL);
    tg_release(at);
    return rows;
}

/* ---- frozen rows ---- */

static void test_frozen_rows_get_no_gradient(void **state)
{
    (void)state;
    assert_true(tg_tensor_set_rows_frozen(table, 1, 2, true, &error));
    assert_false(tg_tensor_row_is_frozen(table, 0));
    assert_true(tg_tensor_row_is_frozen(table, 1) && tg_tensor_row_is_frozen(table, 2));
    assert_false(tg_tensor_row_is_frozen(table, 3) || tg_tensor_row_is_frozen(table, 4) ||
                 tg_tensor_row_is_frozen(table, -1));

    /* by rows: the others keep the order of the first touch, and add up */
    assert_true(tg_backward(tape, sum(lookup(6, (int32_t[]){1, 3, 2, 0, 3, 1})), NULL));
    tg_grad_rows rows = tg_tensor_grad_rows(table);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.ids[0], 3);
    assert_int_equal(rows.ids[1], 0);
    const double *values = rows.values;
    assert_true(values[0] == 2 && values[1] == 2 && values[2] == 1 && values[3] == 1);
    /* on top */
    assert_true(tg_backward(tape, sum(lookup(2, (int32_t[]){2, 0})), NULL));
    tg_tensor *gradient = tg_tensor_new_dense_grad(table, NULL);
    assert_values(gradient, (double[]){2, 2, 0, 0, 0, 0, 2, 2}, 8, 0, 0);
    tg_release(gradient);

    /* dense, over the rows, from any op */
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3)), NULL));
    assert_values(tg_tensor_grad(table), (double[]){5, 5, 0, 0, 0, 0, 5, 5}, 8, 0, 0);
}

static void test_freezing_drops_the_gradient(void **state)
{
    (void)state;
    assert_true(tg_backward(tape, sum(lookup(3, (int32_t[]){2, 1, 0})), NULL));
    assert_true(tg_tensor_set_rows_frozen(table, 2, 1, true, &error));
    assert_int_equal(tg_tensor_grad_rows(table).count, 2);
    assert_int_equal(tg_tensor_grad_rows(table).ids[0], 1);
    tg_tensor_zero_grad(table);
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3)), NULL));
    assert_true(tg_tensor_set_rows_frozen(table, 0, 1, true, &error));
    assert_values(tg_tensor_grad(table), (double[]){0, 0, 3, 3, 0, 0, 3, 3}, 8, 0, 0);
    /* once more */
    assert_true(tg_tensor_set_rows_frozen(table, 0, 1, true, &error));
    assert_true(tg_tensor_set_rows_frozen(table, 0, 4, false, &error));
    assert_int_equal(table->rows->frozen_count, 0);
    tg_tensor_zero_grad(table);
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3)), NULL));
    assert_values(tg_tensor_grad(table), (double[]){3, 3, 3, 3, 3, 3, 3, 3}, 8, 0, 0);
}

/* Switching the whole table off and on again leaves its frozen rows frozen. */
static void test_frozen_rows_stay_frozen(void **state)
{
    (void)state;
    assert_true(tg_tensor_set_rows_frozen(table, 3, 1, true, &error));
    assert_true(tg_tensor_set_requires_grad(table, false, &error) && tg_tensor_set_requires_grad(table, true, &error));
    assert_true(tg_tensor_row_is_frozen(table, 3));
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){3, 1});
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = 1;
    assert_non_null(tg_embedding(tape, ids, table, &config));
    assert_values(table, (double[]){1, 2, -0.6, 0.8, 0, 0, 2, 4.5}, 8, 1e-6, 0);
    tg_release(ids);
}

static void test_freezing_refuses(void **state)
{
    (void)state;
    assert_false(tg_tensor_set_rows_frozen(NULL, 0, 1, true, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_set_rows_frozen: the tensor is NULL");
    assert_false(tg_tensor_set_rows_frozen(table, 3, 2, true, &error));
    assert_error(&error, TG_ERROR_RANGE, "2 rows from row 3; the tensor has 4");
    assert_false(tg_tensor_set_rows_frozen(table, -1, 2, true, &error));
    assert_error(&error, TG_ERROR_RANGE, "2 rows from row -1");
    assert_false(tg_tensor_set_rows_frozen(table, 0, INT64_MAX, true, &error));
    assert_error(&error, TG_ERROR_RANGE, "the tensor has 4");
    assert_false(tg_tensor_set_rows_frozen(lookup(1, (int32_t[]){0}), 0, 1, true, &error));
    assert_error(&error, TG_ERROR_STATE, "the result of an op");
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1}), *scalar = tg_tensor_new(TG_F32, TG_SCALAR, NULL);
    assert_false(tg_tensor_set_rows_frozen(ids, 0, 1, true, &error));
    assert_error(&error, TG_ERROR_DTYPE, "the tensor is i32");
    assert_false(tg_tensor_set_rows_frozen(scalar, 0, 1, true, &error));
    assert_error(&error, TG_ERROR_SHAPE, "a scalar, which has no rows");
    assert_false(tg_tensor_row_is_frozen(table, 0));
    tg_release(ids);
    tg_release(scalar);
}

/* A check of gradients leaves frozen rows out, and checks that they have no gradient. */
static tg_tensor *squares(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul(t, inputs[0], inputs[0]);
}

static void test_gradcheck_of_frozen_rows(void **state)
{
    (void)state;
    tg_gradcheck_report report;
    assert_true(tg_tensor_set_rows_frozen(table, 1, 1, true, &error));
    assert_true(tg_gradcheck(squares, NULL, &table, 1, NULL, &report, NULL));
    /* 6 values of the free rows, 8 results */
    assert_int_equal(report.compared, 6 * 8);
    tg_gradcheck_config fast = tg_gradcheck_config_default();
    fast.mode = TG_GRADCHECK_FAST;
    assert_true(tg_gradcheck(squares, NULL, &table, 1, &fast, &report, NULL));
}

/* ---- norms and neighbors ---- */

static void test_norms(void **state)
{
    (void)state;
    assert_float_equal(tg_tensor_row_norm(table, 1, 2, &error), 5, 1e-15);
    assert_float_equal(tg_tensor_row_norm(table, 1, 1, &error), 7, 1e-15);
    assert_float_equal(tg_tensor_row_norm(table, 1, 3, &error), cbrt(27 + 64), 1e-14);
    assert_float_equal(tg_tensor_row_norm(table, 1, (double)INFINITY, &error), 4, 0);
    assert_int_equal(error.code, TG_OK);
    assert_true(isnan(tg_tensor_row_norm(table, 4, 2, &error)));
    assert_error(&error, TG_ERROR_RANGE, "tensor_row_norm: row 4 is outside [0,4)");
    assert_true(isnan(tg_tensor_row_norm(table, -1, 2, &error)));
    assert_error(&error, TG_ERROR_RANGE, "row -1 is outside [0,4)");
    assert_true(isnan(tg_tensor_row_norm(table, 0, 0, &error)));
    assert_error(&error, TG_ERROR_VALUE, "tensor_row_norm: p is 0; it must be above 0");
    assert_true(isnan(tg_tensor_row_norm(table, 0, (double)NAN, &error)));
    assert_error(&error, TG_ERROR_VALUE, "p is nan");
    assert_true(isnan(tg_tensor_row_norm(NULL, 0, 2, &error)));
    assert_error(&error, TG_ERROR_STATE, "tensor_row_norm: the tensor is NULL");
    /* (2,4): rows 1 -3 0 2 and 2 4 0 4.5 */
    tg_tensor *turned = tg_transpose(tape, table, 0, 1);
    assert_float_equal(tg_tensor_row_norm(turned, 0, 1, &error), 6, 1e-15);
    tg_tensor *floats = tensor_f32(TG_SHAPE(1, 2), (float[]){3, -4});
    assert_float_equal(tg_tensor_row_norm(floats, 0, 2, &error), 5, 1e-15);
    tg_release(floats);
}

static void test_neighbors(void **state)
{
    (void)state;
    tg_row_neighbor near[5];
    assert_int_equal(tg_tensor_row_neighbors(table, 0, NULL, near, 5, &error), 3);
    assert_int_equal(near[0].row, 3);
    assert_float_equal(near[0].similarity, (2 + 9) / (sqrt(5) * sqrt(4 + 20.25)), 1e-15);
    assert_int_equal(near[1].row, 1);
    assert_float_equal(near[1].similarity, 5 / (sqrt(5) * 5), 1e-15);
    /* all zeros: no angle */
    assert_int_equal(near[2].row, 2);
    assert_true(near[2].similarity == 0);
    near[1].row = -7;
    /* no more than asked for */
    assert_int_equal(tg_tensor_row_neighbors(table, 0, NULL, near, 1, &error), 1);
    assert_int_equal(near[0].row, 3);
    assert_int_equal(near[1].row, -7);
    assert_int_equal(tg_tensor_row_neighbors(table, 0, (uint8_t[]){1, 1, 1, 0}, near, 2, &error), 2);
    assert_int_equal(near[0].row, 1);
    assert_int_equal(near[1].row, 2);
    assert_int_equal(tg_tensor_row_neighbors(table, 0, NULL, NULL, 0, &error), 0);
    assert_int_equal(error.code, TG_OK);
    /* rows without values are all equally near, and nobody can visit so many */
    tg_tensor *empty = tg_tensor_new(TG_F32, TG_SHAPE(INT64_C(1) << 60, 0), &error);
    assert_int_equal(tg_tensor_row_neighbors(empty, 1, NULL, near, 3, &error), 3);
    assert_true(near[0].row == 0 && near[1].row == 2 && near[2].row == 3);
    tg_release(empty);
    near[0].row = -7;
    assert_int_equal(tg_tensor_row_neighbors(table, 4, NULL, near, 5, &error), -1);
    assert_error(&error, TG_ERROR_RANGE, "tensor_row_neighbors: row 4 is outside [0,4)");
    assert_int_equal(tg_tensor_row_neighbors(table, 0, NULL, near, -1, &error), -1);
    assert_error(&error, TG_ERROR_RANGE, "tensor_row_neighbors: -1 neighbors; it must be 0 or more");
    assert_int_equal(tg_tensor_row_neighbors(table, 0, NULL, NULL, 2, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "2 neighbors into an array that is NULL");
    assert_int_equal(tg_tensor_row_neighbors(NULL, 0, NULL, near, 5, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "tensor_row_neighbors: the tensor is NULL");
    assert_int_equal(near[0].row, -7);
    /* what is not finite is nobody's neighbor; what is large or small is, and no cosine is above 1 */
    tg_tensor *odd =
        tensor_f64(TG_SHAPE(6, 2), (double[]){1, 1, INFINITY, 0, 3e200, 3e200, -1e-200, 0, NAN, 1, -7, -7});
    assert_int_equal(tg_tensor_row_neighbors(odd, 0, NULL, near, 5, &error), 3);
    assert_int_equal(near[0].row, 2);
    assert_true(near[0].similarity <= 1 && near[0].similarity > 1 - 1e-15);
    assert_int_equal(near[1].row, 3);
    assert_float_equal(near[1].similarity, -sqrt(0.5), 1e-15);
    assert_int_equal(near[2].row, 5);
    assert_true(near[2].similarity >= -1 && near[2].similarity < -1 + 1e-15);
    assert_int_equal(tg_tensor_row_neighbors(odd, 1, NULL, near, 5, &error), 0);
    tg_release(odd);
    /* all equally near: by index */
    tg_tensor *same = tensor_f32(TG_SHAPE(4, 1), (float[]){2, 1, 3, 4});
    assert_int_equal(tg_tensor_row_neighbors(same, 1, NULL, near, 2, &error), 2);
    assert_int_equal(near[0].row, 0);
    assert_int_equal(near[1].row, 2);
    tg_release(same);
}

/* ---- resizing ---- */

static void test_resize_keeps_rows(void **state)
{
    (void)state;
    tg_tensor *handle = table;
    assert_true(tg_tensor_set_rows_frozen(table, 1, 1, true, &error));
    uint64_t version = tg_storage_version(table);
    assert_true(tg_tensor_resize_rows(table, 6, &error));
    assert_ptr_equal(handle, table);
    assert_values(table, (double[]){1, 2, -3, 4, 0, 0, 2, 4.5, 0, 0, 0, 0}, 12, 0, 0);
    assert_int_equal(tg_tensor_size(table, 0), 6);
    assert_true(tg_storage_version(table) > version);
    assert_true(tg_tensor_requires_grad(table));
    assert_true(tg_tensor_row_is_frozen(table, 1));
    assert_false(tg_tensor_row_is_frozen(table, 0) || tg_tensor_row_is_frozen(table, 4) ||
                 tg_tensor_row_is_frozen(table, 5));
    /* slots for the new rows */
    assert_true(tg_backward(tape, sum(lookup(3, (int32_t[]){5, 1, 5})), NULL));
    assert_int_equal(tg_tensor_grad_rows(table).count, 1);
    assert_int_equal(tg_tensor_grad_rows(table).ids[0], 5);
    tg_tape_reset(tape);
    tg_tensor_zero_grad(table);
    assert_true(tg_tensor_resize_rows(table, 2, &error));
    assert_values(table, (double[]){1, 2, -3, 4}, 4, 0, 0);
    assert_null(lookup(1, (int32_t[]){2}));
    assert_tape_error(tape, TG_ERROR_RANGE, "id 2 at [0] is outside [0,2)");
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3)), NULL));
    assert_values(tg_tensor_grad(table), (double[]){3, 3, 0, 0}, 4, 0, 0);
}

static void test_resize_refuses(void **state)
{
    (void)state;
    assert_false(tg_tensor_resize_rows(table, 0, &error));
    assert_error(&error, TG_ERROR_SHAPE, "tensor_resize_rows: 0 rows; it must be 1 to 2147483647");
    assert_false(tg_tensor_resize_rows(table, INT64_C(1) << 31, &error));
    assert_error(&error, TG_ERROR_SHAPE, "2147483648 rows");
    assert_true(tg_backward(tape, sum(lookup(1, (int32_t[]){3})), NULL));
    assert_false(tg_tensor_resize_rows(table, 3, &error));
    assert_error(&error, TG_ERROR_STATE, "the table has a gradient");
    tg_tensor_zero_grad(table);
    tg_reshape(tape, table, TG_SHAPE(8));
    assert_false(tg_tensor_resize_rows(table, 5, &error));
    assert_error(&error, TG_ERROR_STATE, "another tensor shares the table's values");
    tg_tape_reset(tape);
    assert_true(tg_tensor_set_rows_frozen(table, 3, 1, true, &error));
    assert_false(tg_tensor_resize_rows(table, 3, &error));
    assert_error(&error, TG_ERROR_STATE, "3 rows would remove row 3, which is frozen (a padding row?)");
    assert_values(table, (double[]){1, 2, -3, 4, 0, 0, 2, 4.5}, 8, 0, 0);
    /* what it has */
    assert_true(tg_tensor_resize_rows(table, 4, &error));
}

/* No backward goes through calls that were recorded before a resize: the table has other rows and another shape now. */
static void test_backward_after_a_resize(void **state)
{
    (void)state;
    tg_tensor *y = sum(lookup(1, (int32_t[]){3}));
    assert_true(tg_tensor_resize_rows(table, 2, &error));
    assert_false(tg_backward(tape, y, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "input 1 of 'embedding' was resized after it was recorded");
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_NONE);
    assert_true(tg_backward(tape, sum(lookup(1, (int32_t[]){1})), NULL));
}

/* Also where the resized input needs no gradient itself, but determines where the others' is. */
static void test_backward_after_a_resize_beside(void **state)
{
    (void)state;
    tg_tensor *fixed = tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    tg_tensor *y = sum(tg_cat(tape, (tg_tensor *[]){fixed, table}, 2, 0));
    assert_true(tg_tensor_resize_rows(fixed, 300, &error));
    assert_false(tg_backward(tape, y, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'cat' was resized after it was recorded");
    tg_tape_reset(tape);
    tg_release(fixed);
}

/* The stride of an axis of size 1 has no meaning, and may have any value: more rows must not use it. */
static void test_resize_from_one_row(void **state)
{
    (void)state;
    tg_tensor *column = tensor_f64(TG_SHAPE(3, 1), (double[]){1, 2, 3});
    tg_tensor *row = tg_retain(tg_relu(tape, tg_transpose(tape, column, 0, 1)));
    tg_tensor *shifted = tg_retain(tg_relative_shift(tape, tg_transpose(tape, column, 0, 1), 1, 3));
    tg_release(column);
    tg_tape_reset(tape);
    for (int k = 0; k < 2; k++) {
        tg_tensor *x = k ? shifted : row;
        assert_true(tg_tensor_resize_rows(x, 3, &error));
        for (int i = 0; i < 9; i++) {
            ((double *)tg_tensor_data_mut(x))[i] = i;
        }
        for (int i = 0; i < 9; i++) {
            assert_true(tg_tensor_value_at(x, i) == i);
        }
        assert_values(tg_transpose(tape, x, 0, 1), (double[]){0, 3, 6, 1, 4, 7, 2, 5, 8}, 9, 0, 0);
        tg_tape_reset(tape);
    }
    tg_release(row);
    tg_release(shifted);
}

static void test_without_rows(void **state)
{
    (void)state;
    tg_tensor *none = leaf(tg_tensor_new(TG_F64, TG_SHAPE(0, 3), NULL));
    assert_true(tg_tensor_set_rows_watched(none, true, &error) && tg_tensor_set_rows_frozen(none, 0, 0, true, &error));
    assert_int_equal(tg_tensor_rows_never_updated(none, NULL, 0, &error), 0);
    assert_true(tg_tensor_resize_rows(none, 2, &error));
    assert_values(none, (double[]){0, 0, 0, 0, 0, 0}, 6, 0, 0);
    int32_t ids[3] = {-7, -7, -7};
    assert_int_equal(tg_tensor_rows_never_updated(none, ids, 1, &error), 2);
    assert_true(ids[0] == 0 && ids[1] == -7);
    assert_int_equal(error.code, TG_OK);
    assert_int_equal(tg_tensor_rows_never_updated(none, NULL, 3, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "tensor_rows_never_updated: the ids are NULL");
    assert_int_equal(tg_tensor_rows_never_updated(table, ids, 3, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "tensor_rows_never_updated: the tensor is not watched");
    assert_int_equal(tg_tensor_rows_never_updated(NULL, ids, 3, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "tensor_rows_never_updated: the tensor is NULL");
    tg_release(none);
}

static void test_shards(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6})),
              *scalar = tg_tensor_new(TG_F32, TG_SCALAR, NULL);
    const int64_t bad[][2] = {{-1, 10}, {8, 10}, {11, 10}, {0, 2}, {0, 0}, {0, -3}, {INT64_MAX, INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(tg_tensor_set_shard(x, bad[i][0], bad[i][1], &error));
        char expected[120];
        snprintf(expected, sizeof expected, "tensor_set_shard: 3 rows from row %lld on, of a table of %lld rows",
                 (long long)bad[i][0], (long long)bad[i][1]);
        assert_error(&error, TG_ERROR_RANGE, expected);
    }
    assert_false(tg_tensor_set_shard(scalar, 0, 1, &error));
    assert_error(&error, TG_ERROR_SHAPE, "tensor_set_shard: the tensor is a scalar");
    assert_false(tg_tensor_set_shard(tg_mul_scalar(tape, x, 2), 0, 3, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_set_shard: the tensor is the result of an op");
    tg_tape_reset(tape);
    assert_true(tg_tensor_set_shard(x, 7, 10, &error));
    assert_false(tg_tensor_resize_rows(x, 4, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_resize_rows: the table is a shard; its rows are divided");
    tg_release(x), tg_release(scalar);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting = {0};
    allocator_install(&counting);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6}));
    bool done = false;
    for (size_t k = 1; !done; k++) {
        assert_true(k < 20);
        tg_error_clear(&error);
        allocator_arm(&counting, k, false);
        done = tg_tensor_set_rows_frozen(x, 1, 1, true, &error) && tg_tensor_set_rows_watched(x, true, &error) &&
               tg_tensor_resize_rows(x, 5, &error);
        allocator_arm(&counting, 0, false);
        if (!done) {
            assert_error(&error, TG_ERROR_MEMORY, "out of memory");
            assert_values(x, (double[]){1, 2, 3, 4, 5, 6}, 6, 0, 0);
        }
    }
    assert_values(x, (double[]){1, 2, 3, 4, 5, 6, 0, 0, 0, 0}, 10, 0, 0);
    tg_release(x);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

/* A step reads as many rows of the gradient as the table has. */
static void test_gradients_are_not_resized(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(1000, 8), NULL));
    assert_true(tg_tensor_make_grad_dense(x, &error));
    assert_false(tg_tensor_resize_rows(tg_tensor_grad(x), 1, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_resize_rows: the tensor is the gradient of another one");
    assert_int_equal(tg_tensor_size(tg_tensor_grad(x), 0), 1000);
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frozen_rows_get_no_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_freezing_drops_the_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frozen_rows_stay_frozen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_freezing_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gradcheck_of_frozen_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_norms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_neighbors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resize_keeps_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resize_refuses, set_up, tear_down),
        cmocka_unit_test(test_gradients_are_not_resized),
        cmocka_unit_test_setup_teardown(test_backward_after_a_resize, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_backward_after_a_resize_beside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resize_from_one_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shards, set_up, tear_down),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
