/* Frozen rows, counts of updates, norms, neighbours and resizing, without an optimizer:
 * tests/optim/test_row_properties.c has those. */
#include <math.h>
#include <string.h>

#include "support.h"
#include "tensor/tensor.h"

static tg_tensor *table;
static tg_tape *tape;
static tg_error error;

static int set_up(void **state)
{
    (void)state;
    table = leaf(tensor_f64(TG_SHAPE(4, 2), (double[]){1, 2, -3, 4, 0, 0, 2, 4.5}));
    tape = tg_tape_new(NULL);
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
    tg_tensor *rows = tg_embedding_lookup(tape, table, at);
    tg_release(at);
    return rows;
}

/* ---- frozen rows ---- */

static void test_frozen_rows_get_no_gradient(void **state)
{
    (void)state;
    assert_true(tg_set_rows_frozen(table, 1, 2, true, &error));
    assert_false(tg_row_is_frozen(table, 0));
    assert_true(tg_row_is_frozen(table, 1) && tg_row_is_frozen(table, 2));
    assert_false(tg_row_is_frozen(table, 3) || tg_row_is_frozen(table, 4) || tg_row_is_frozen(table, -1));

    /* by rows: the others keep the order of the first touch, and add up */
    assert_true(tg_backward(tape, sum(lookup(6, (int32_t[]){1, 3, 2, 0, 3, 1}))));
    tg_row_gradient rows = tg_grad_rows(table);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.ids[0], 3);
    assert_int_equal(rows.ids[1], 0);
    const double *values = rows.values;
    assert_true(values[0] == 2 && values[1] == 2 && values[2] == 1 && values[3] == 1);
    assert_true(tg_backward(tape, sum(lookup(2, (int32_t[]){2, 0})))); /* on top */
    tg_tensor *gradient = tg_grad_new_dense(table, NULL);
    assert_values(gradient, (double[]){2, 2, 0, 0, 0, 0, 2, 2}, 8, 0, 0);
    tg_release(gradient);

    /* dense, over the rows, from any op */
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3))));
    assert_values(tg_grad(table), (double[]){5, 5, 0, 0, 0, 0, 5, 5}, 8, 0, 0);
}

static void test_freezing_drops_the_gradient(void **state)
{
    (void)state;
    assert_true(tg_backward(tape, sum(lookup(3, (int32_t[]){2, 1, 0}))));
    assert_true(tg_set_rows_frozen(table, 2, 1, true, &error));
    assert_int_equal(tg_grad_rows(table).count, 2);
    assert_int_equal(tg_grad_rows(table).ids[0], 1);
    tg_zero_grad(table);
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3))));
    assert_true(tg_set_rows_frozen(table, 0, 1, true, &error));
    assert_values(tg_grad(table), (double[]){0, 0, 3, 3, 0, 0, 3, 3}, 8, 0, 0);
    assert_true(tg_set_rows_frozen(table, 0, 1, true, &error)); /* once more */
    assert_true(tg_set_rows_frozen(table, 0, 4, false, &error));
    assert_int_equal(table->gradient->rows.frozen_count, 0);
    tg_zero_grad(table);
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3))));
    assert_values(tg_grad(table), (double[]){3, 3, 3, 3, 3, 3, 3, 3}, 8, 0, 0);
}

/* Switching the whole table off and on again leaves its frozen rows frozen. */
static void test_frozen_rows_stay_frozen(void **state)
{
    (void)state;
    assert_true(tg_set_rows_frozen(table, 3, 1, true, &error));
    assert_true(tg_set_requires_grad(table, false, &error) && tg_set_requires_grad(table, true, &error));
    assert_true(tg_row_is_frozen(table, 3));
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){3, 1});
    assert_true(tg_embedding_renorm(tape, table, ids, 1, 2));
    assert_values(table, (double[]){1, 2, -0.6, 0.8, 0, 0, 2, 4.5}, 8, 1e-6, 0);
    tg_release(ids);
}

static void test_freezing_refuses(void **state)
{
    (void)state;
    assert_false(tg_set_rows_frozen(NULL, 0, 1, true, &error));
    assert_error(&error, TG_ERROR_STATE, "set_rows_frozen: the tensor is NULL");
    assert_false(tg_set_rows_frozen(table, 3, 2, true, &error));
    assert_error(&error, TG_ERROR_RANGE, "2 rows from row 3; the tensor has 4");
    assert_false(tg_set_rows_frozen(table, -1, 2, true, &error));
    assert_error(&error, TG_ERROR_RANGE, "2 rows from row -1");
    assert_false(tg_set_rows_frozen(table, 0, INT64_MAX, true, &error));
    assert_error(&error, TG_ERROR_RANGE, "the tensor has 4");
    assert_false(tg_set_rows_frozen(lookup(1, (int32_t[]){0}), 0, 1, true, &error));
    assert_error(&error, TG_ERROR_STATE, "the result of an op");
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1}), *scalar = tg_tensor_new(TG_F32, TG_SCALAR, NULL);
    assert_false(tg_set_rows_frozen(ids, 0, 1, true, &error));
    assert_error(&error, TG_ERROR_DTYPE, "the tensor is i32");
    assert_false(tg_set_rows_frozen(scalar, 0, 1, true, &error));
    assert_error(&error, TG_ERROR_SHAPE, "a scalar, which has no rows");
    assert_false(tg_row_is_frozen(table, 0));
    tg_release(ids);
    tg_release(scalar);
}

/* A check of gradients leaves frozen rows out, and sees to it that they get nothing. */
static tg_tensor *squares(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul(t, inputs[0], inputs[0]);
}

static void test_gradcheck_knows_frozen_rows(void **state)
{
    (void)state;
    tg_gradcheck_report report;
    assert_true(tg_set_rows_frozen(table, 1, 1, true, &error));
    assert_true(tg_gradcheck(squares, NULL, &table, 1, NULL, &report));
    assert_int_equal(report.compared, 6 * 8); /* 6 values of the free rows, 8 results */
    tg_gradcheck_config fast = tg_gradcheck_config_default();
    fast.mode = TG_GRADCHECK_FAST;
    assert_true(tg_gradcheck(squares, NULL, &table, 1, &fast, &report));
}

/* ---- norms and neighbours ---- */

static void test_norms(void **state)
{
    (void)state;
    assert_float_equal(tg_row_norm(table, 1, 2), 5, 1e-15);
    assert_float_equal(tg_row_norm(table, 1, 1), 7, 1e-15);
    assert_float_equal(tg_row_norm(table, 1, 3), cbrt(27 + 64), 1e-14);
    assert_float_equal(tg_row_norm(table, 1, (double)INFINITY), 4, 0);
    assert_true(isnan(tg_row_norm(table, 4, 2)) && isnan(tg_row_norm(table, -1, 2)));
    assert_true(isnan(tg_row_norm(table, 0, 0)) && isnan(tg_row_norm(table, 0, (double)NAN)));
    tg_tensor *turned = tg_transpose(tape, table, 0, 1); /* (2,4): rows 1 -3 0 2 and 2 4 0 4.5 */
    assert_float_equal(tg_row_norm(turned, 0, 1), 6, 1e-15);
    tg_tensor *floats = tensor_f32(TG_SHAPE(1, 2), (float[]){3, -4});
    assert_float_equal(tg_row_norm(floats, 0, 2), 5, 1e-15);
    tg_release(floats);
}

static void test_neighbours(void **state)
{
    (void)state;
    tg_row_neighbour near[5];
    assert_int_equal(tg_row_neighbours(table, 0, NULL, near, 5), 3);
    assert_int_equal(near[0].row, 3);
    assert_float_equal(near[0].cosine, (2 + 9) / (sqrt(5) * sqrt(4 + 20.25)), 1e-15);
    assert_int_equal(near[1].row, 1);
    assert_float_equal(near[1].cosine, 5 / (sqrt(5) * 5), 1e-15);
    assert_int_equal(near[2].row, 2); /* all zeros: no angle */
    assert_true(near[2].cosine == 0);
    near[1].row = -7;
    assert_int_equal(tg_row_neighbours(table, 0, NULL, near, 1), 1); /* no more than asked for */
    assert_int_equal(near[0].row, 3);
    assert_int_equal(near[1].row, -7);
    assert_int_equal(tg_row_neighbours(table, 0, (uint8_t[]){1, 1, 1, 0}, near, 2), 2);
    assert_int_equal(near[0].row, 1);
    assert_int_equal(near[1].row, 2);
    assert_int_equal(tg_row_neighbours(table, 0, NULL, NULL, 0), 0);
    assert_int_equal(tg_row_neighbours(table, 4, NULL, near, 5), -1);
    /* what is not finite is nobody's neighbour; what is large or small is, and no cosine is above 1 */
    tg_tensor *odd =
        tensor_f64(TG_SHAPE(6, 2), (double[]){1, 1, INFINITY, 0, 3e200, 3e200, -1e-200, 0, NAN, 1, -7, -7});
    assert_int_equal(tg_row_neighbours(odd, 0, NULL, near, 5), 3);
    assert_int_equal(near[0].row, 2);
    assert_true(near[0].cosine <= 1 && near[0].cosine > 1 - 1e-15);
    assert_int_equal(near[1].row, 3);
    assert_float_equal(near[1].cosine, -sqrt(0.5), 1e-15);
    assert_int_equal(near[2].row, 5);
    assert_true(near[2].cosine >= -1 && near[2].cosine < -1 + 1e-15);
    assert_int_equal(tg_row_neighbours(odd, 1, NULL, near, 5), 0);
    tg_release(odd);
    tg_tensor *same = tensor_f32(TG_SHAPE(4, 1), (float[]){2, 1, 3, 4}); /* all equally near: by index */
    assert_int_equal(tg_row_neighbours(same, 1, NULL, near, 2), 2);
    assert_int_equal(near[0].row, 0);
    assert_int_equal(near[1].row, 2);
    tg_release(same);
}

/* ---- resizing ---- */

static void test_resize_keeps_rows(void **state)
{
    (void)state;
    tg_tensor *handle = table;
    assert_true(tg_set_rows_frozen(table, 1, 1, true, &error));
    uint64_t version = tg_version_of(table);
    assert_true(tg_resize_rows(table, 6, &error));
    assert_ptr_equal(handle, table);
    assert_values(table, (double[]){1, 2, -3, 4, 0, 0, 2, 4.5, 0, 0, 0, 0}, 12, 0, 0);
    assert_int_equal(tg_size(table, 0), 6);
    assert_true(tg_version_of(table) > version);
    assert_true(tg_requires_grad(table));
    assert_true(tg_row_is_frozen(table, 1));
    assert_false(tg_row_is_frozen(table, 0) || tg_row_is_frozen(table, 4) || tg_row_is_frozen(table, 5));
    assert_true(tg_backward(tape, sum(lookup(3, (int32_t[]){5, 1, 5})))); /* slots for the new rows */
    assert_int_equal(tg_grad_rows(table).count, 1);
    assert_int_equal(tg_grad_rows(table).ids[0], 5);
    tg_tape_reset(tape);
    tg_zero_grad(table);
    assert_true(tg_resize_rows(table, 2, &error));
    assert_values(table, (double[]){1, 2, -3, 4}, 4, 0, 0);
    assert_null(lookup(1, (int32_t[]){2}));
    assert_tape_error(tape, TG_ERROR_RANGE, "id 2 at [0] is outside [0,2)");
    assert_true(tg_backward(tape, sum(tg_mul_scalar(tape, table, 3))));
    assert_values(tg_grad(table), (double[]){3, 3, 0, 0}, 4, 0, 0);
}

static void test_resize_refuses(void **state)
{
    (void)state;
    assert_false(tg_resize_rows(table, 0, &error));
    assert_error(&error, TG_ERROR_SHAPE, "resize_rows: 0 rows; a table has 1 to 2147483647");
    assert_false(tg_resize_rows(table, INT64_C(1) << 31, &error));
    assert_error(&error, TG_ERROR_SHAPE, "2147483648 rows");
    assert_true(tg_backward(tape, sum(lookup(1, (int32_t[]){3}))));
    assert_false(tg_resize_rows(table, 3, &error));
    assert_error(&error, TG_ERROR_STATE, "the table has a gradient");
    tg_zero_grad(table);
    tg_reshape(tape, table, TG_SHAPE(8));
    assert_false(tg_resize_rows(table, 5, &error));
    assert_error(&error, TG_ERROR_STATE, "another tensor shares the table's values");
    tg_tape_reset(tape);
    assert_true(tg_set_rows_frozen(table, 3, 1, true, &error));
    assert_false(tg_resize_rows(table, 3, &error));
    assert_error(&error, TG_ERROR_STATE, "row 3 is frozen (a padding row?) and would go with 3 rows");
    assert_values(table, (double[]){1, 2, -3, 4, 0, 0, 2, 4.5}, 8, 0, 0);
    assert_true(tg_resize_rows(table, 4, &error)); /* what it has */
}

/* Calls recorded before a resize cannot be sent back through it: their rows and shapes are not the table's any more. */
static void test_backward_after_a_resize(void **state)
{
    (void)state;
    tg_tensor *y = sum(lookup(1, (int32_t[]){3}));
    assert_true(tg_resize_rows(table, 2, &error));
    assert_false(tg_backward(tape, y));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'embedding' was resized after it was recorded");
    assert_int_equal(tg_gradient_kind_of(table), TG_GRADIENT_NONE);
    assert_true(tg_backward(tape, sum(lookup(1, (int32_t[]){1}))));
}

/* Also where the resized input wants no gradient itself, but says where the others' is. */
static void test_backward_after_a_resize_beside(void **state)
{
    (void)state;
    tg_tensor *fixed = tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    tg_tensor *y = sum(tg_cat(tape, (tg_tensor *[]){fixed, table}, 2, 0));
    assert_true(tg_resize_rows(fixed, 300, &error));
    assert_false(tg_backward(tape, y));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'cat' was resized after it was recorded");
    tg_tape_reset(tape);
    tg_release(fixed);
}

/* The stride of an axis of 1 means nothing, and may be anything: more rows must not lie by it. */
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
        assert_true(tg_resize_rows(x, 3, &error));
        for (int i = 0; i < 9; i++) {
            ((double *)tg_data_mut(x))[i] = i;
        }
        for (int i = 0; i < 9; i++) {
            assert_true(tg_value_at(x, i) == i);
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
    assert_true(tg_watch_rows(none, true, &error) && tg_set_rows_frozen(none, 0, 0, true, &error));
    assert_int_equal(tg_rows_never_updated(none, NULL, 0), 0);
    assert_true(tg_resize_rows(none, 2, &error));
    assert_values(none, (double[]){0, 0, 0, 0, 0, 0}, 6, 0, 0);
    assert_int_equal(tg_rows_never_updated(none, NULL, 0), 2);
    tg_release(none);
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
        done =
            tg_set_rows_frozen(x, 1, 1, true, &error) && tg_watch_rows(x, true, &error) && tg_resize_rows(x, 5, &error);
        allocator_arm(&counting, 0, false);
        if (!done) {
            assert_error(&error, TG_ERROR_MEMORY, "out of memory for");
            assert_values(x, (double[]){1, 2, 3, 4, 5, 6}, 6, 0, 0);
        }
    }
    assert_values(x, (double[]){1, 2, 3, 4, 5, 6, 0, 0, 0, 0}, 10, 0, 0);
    tg_release(x);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frozen_rows_get_no_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_freezing_drops_the_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frozen_rows_stay_frozen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_freezing_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gradcheck_knows_frozen_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_norms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_neighbours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resize_keeps_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resize_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_backward_after_a_resize, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_backward_after_a_resize_beside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resize_from_one_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_rows, set_up, tear_down),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
