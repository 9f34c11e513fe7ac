/* Changes of a leaf's gradient outside of a backward. */
#include "support.h"

static tg_tensor *table;
static tg_error error;

static int set_up(void **state)
{
    (void)state;
    table = leaf(tg_tensor_new(TG_F64, TG_SHAPE(4, 2), NULL));
    tg_error_clear(&error);
    return !table;
}

static int tear_down(void **state)
{
    (void)state;
    tg_release(table);
    return 0;
}

static void assert_gradient(const tg_tensor *x, const double *expected)
{
    tg_tensor *dense = tg_tensor_new_dense_grad(x, NULL);
    assert_values(dense, expected, tg_tensor_count(x), 0, 0);
    tg_release(dense);
}

static void test_rows_add_up_in_order(void **state)
{
    (void)state;
    assert_true(tg_tensor_add_grad_rows(table, NULL, NULL, 0, &error));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);
    /* 1e16 + 1 - 1e16 is 0 in this order, and 1 in another */
    assert_true(
        tg_tensor_add_grad_rows(table, (int32_t[]){2, 0, 2, 2}, (double[]){1e16, 1, 7, 8, 1, 0, -1e16, 1}, 4, &error));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);
    tg_grad_rows rows = tg_tensor_grad_rows(table);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.ids[0], 2);
    assert_int_equal(rows.ids[1], 0);
    assert_gradient(table, (double[]){7, 8, 0, 0, 0, 2, 0, 0});
    assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){3, 0}, (double[]){1, 2, 3, 4}, 2, &error));
    assert_int_equal(tg_tensor_grad_rows(table).count, 3);
    assert_gradient(table, (double[]){10, 12, 0, 0, 0, 2, 1, 2});
    assert_true(tg_tensor_add_grad_rows(table, NULL, NULL, 0, &error));
    assert_gradient(table, (double[]){10, 12, 0, 0, 0, 2, 1, 2});
    assert_true(tg_tensor_make_grad_dense(table, &error));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_DENSE);
    assert_gradient(table, (double[]){10, 12, 0, 0, 0, 2, 1, 2});
    assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){1, 1}, (double[]){1, 2, 3, 4}, 2, &error));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_DENSE);
    assert_gradient(table, (double[]){10, 12, 4, 6, 0, 2, 1, 2});
}

static void test_floats(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(3, 1), NULL));
    assert_true(tg_tensor_add_grad_rows(x, (int32_t[]){1, 1}, (float[]){0.5f, 2}, 2, &error));
    assert_gradient(x, (double[]){0, 2.5, 0});
    tg_tensor_zero_grad(x);
    assert_true(tg_tensor_make_grad_dense(x, &error));
    assert_gradient(x, (double[]){0, 0, 0});
    tg_release(x);
}

static void test_frozen_rows_get_no_gradient(void **state)
{
    (void)state;
    assert_true(tg_tensor_set_rows_frozen(table, 1, 1, true, &error));
    assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){1, 3}, (double[]){1, 2, 3, 4}, 2, &error));
    assert_int_equal(tg_tensor_grad_rows(table).count, 1);
    assert_gradient(table, (double[]){0, 0, 0, 0, 0, 0, 3, 4});
}

static void test_errors_change_nothing(void **state)
{
    (void)state;
    const double values[] = {1, 2, 3, 4};
    assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){1}, values, 1, &error));
    assert_false(tg_tensor_add_grad_rows(table, (int32_t[]){0, 4}, values, 2, &error));
    assert_error(&error, TG_ERROR_RANGE, "tensor_add_grad_rows: id 4 at [1] is outside [0,4)");
    assert_false(tg_tensor_add_grad_rows(table, (int32_t[]){-1}, values, 1, &error));
    assert_error(&error, TG_ERROR_RANGE, "id -1 at [0] is outside [0,4)");
    assert_false(tg_tensor_add_grad_rows(table, (int32_t[]){0}, values, -1, &error));
    assert_error(&error, TG_ERROR_RANGE, "-1 rows; it must be 0 or more");
    assert_false(tg_tensor_reserve_grad(table, TG_GRAD_NONE, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "kind 0 and 1 rows");
    assert_false(tg_tensor_reserve_grad(table, TG_GRAD_ROWS, -1, &error));
    assert_error(&error, TG_ERROR_VALUE, "kind 1 and -1 rows");
    assert_gradient(table, (double[]){0, 0, 1, 2, 0, 0, 0, 0});
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);

    tg_tensor *vector = leaf(tg_tensor_new(TG_F64, TG_SHAPE(4), NULL));
    assert_false(tg_tensor_add_grad_rows(vector, (int32_t[]){0}, values, 1, &error));
    assert_error(&error, TG_ERROR_SHAPE, "the tensor has rank 1; a gradient by rows needs rank 2");
    assert_true(tg_tensor_make_grad_dense(vector, &error));
    tg_release(vector);
    assert_true(tg_tensor_set_requires_grad(table, false, NULL));
    assert_false(tg_tensor_make_grad_dense(table, &error));
    assert_error(&error, TG_ERROR_STATE, "a leaf that does not require a gradient; it must be a leaf that requires");
}

/* A reservation takes the only step that can fail; a failed one changes nothing. */
static void test_out_of_memory(void **state)
{
    (void)state;
    const int32_t id[] = {3, 2, 1};
    const double values[] = {1, 2, 3, 4, 5, 6};
    counting_allocator counting;
    allocator_install(&counting);
    for (int kind = TG_GRAD_ROWS; kind <= TG_GRAD_DENSE; kind++) {
        bool reserved = false;
        int failures = 0;
        for (size_t k = 1; !reserved; k++) {
            allocator_arm(&counting, 0, false);
            tg_tensor *x = leaf(tg_tensor_new(TG_F64, TG_SHAPE(4, 2), NULL));
            allocator_arm(&counting, k, true);
            reserved = tg_tensor_reserve_grad(x, (tg_grad_kind)kind, 3, &error);
            if (reserved) {
                allocator_arm(&counting, 1, true);
                assert_true(kind == TG_GRAD_ROWS ? tg_tensor_add_grad_rows(x, id, values, 3, &error)
                                                 : tg_tensor_make_grad_dense(x, &error));
            } else {
                failures++;
                assert_error(&error, TG_ERROR_MEMORY, "tensor_reserve_grad: out of memory for the gradient");
                assert_int_equal(tg_tensor_grad_kind(x), TG_GRAD_NONE);
            }
            tg_release(x);
            assert_int_equal(counting.live, 0);
        }
        assert_true(failures >= 2);
    }
    allocator_restore();
}

/* Only rows that are new need memory: neither those that have a gradient, nor the repetitions of an id. */
static void test_rows_that_exist_need_no_memory(void **state)
{
    (void)state;
    const int32_t ids[] = {5, 6, 7, 1, 9, 1, 5};
    const double ones[] = {1, 1, 1, 1, 1, 1, 1};
    counting_allocator counting;
    allocator_install(&counting);
    tg_tensor *x = leaf(tg_tensor_new(TG_F64, TG_SHAPE(40, 1), NULL));
    assert_true(tg_tensor_add_grad_rows(x, ids, ones, 3, &error));
    tg_grad_rows own = tg_tensor_grad_rows(x);
    allocator_arm(&counting, 1, true);
    assert_true(tg_tensor_add_grad_rows(x, own.ids, own.values, own.count, &error));
    allocator_arm(&counting, 0, false);
    assert_true(tg_tensor_reserve_grad(x, TG_GRAD_ROWS, 2, &error));
    allocator_arm(&counting, 1, true);
    assert_true(tg_tensor_add_grad_rows(x, ids, ones, 7, &error));
    allocator_arm(&counting, 0, false);
    assert_int_equal(tg_tensor_grad_rows(x).count, 5);
    assert_gradient(x, (double[40]){[1] = 2, [5] = 4, [6] = 3, [7] = 3, [9] = 1});
    tg_release(x);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_add_up_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_floats, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frozen_rows_get_no_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors_change_nothing, set_up, tear_down),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_rows_that_exist_need_no_memory),
    };
    return cmocka_run_group_tests_name("change_gradient", tests, NULL, NULL);
}
