/* The kinds of a gradient, and how they change (lib/tensor/gradient.h). */
#include "support.h"
#include "tensor/gradient.h"

#include <string.h>

static tg_tensor *table;

static int set_up(void **state)
{
    (void)state;
    table = leaf(tg_tensor_new(TG_F64, TG_SHAPE(3, 2), NULL));
    return !table || !tg_gradient_reserve(table, TG_GRAD_DENSE, 0) || !tg_gradient_reserve(table, TG_GRAD_ROWS, 2);
}

static int tear_down(void **state)
{
    (void)state;
    tg_release(table);
    return 0;
}

/* Adds a row of ones. */
static void give_row(int32_t id)
{
    double *row = (double *)table->gradient->values + 2 * tg_gradient_row(table, id);
    row[0] = row[1] = 1;
}

/* Only a gradient of kind NONE may be left uninitialized, and only if the caller allows it. */
static void test_write(void **state)
{
    (void)state;
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_NONE);
    bool overwrite = true;
    double *values = tg_gradient_write(table, &overwrite);
    assert_true(overwrite);
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_DENSE);
    values[5] = 7;
    assert_ptr_equal(tg_gradient_write(table, &overwrite), values);
    assert_false(overwrite);
    assert_true(values[5] == 7);
    tg_tensor_zero_grad(table);
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_NONE);
    tg_gradient_write(table, &overwrite);
    assert_false(overwrite);
    assert_values(tg_tensor_grad(table), (double[6]){0}, 6, 0, 0);
    tg_tensor_zero_grad(table);
    values[5] = 7;
    tg_gradient_write(table, NULL);
    assert_values(tg_tensor_grad(table), (double[6]){0}, 6, 0, 0);
}

/* Rows keep their values when the gradient becomes dense. */
static void test_rows(void **state)
{
    (void)state;
    tg_gradient_rows(table, NULL, 0, NULL, true);
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);
    assert_int_equal(tg_tensor_grad_rows(table).count, 0);
    give_row(2);
    bool overwrite = true;
    tg_gradient_write(table, &overwrite);
    assert_false(overwrite);
    assert_values(tg_tensor_grad(table), (double[]){0, 0, 0, 0, 1, 1}, 6, 0, 0);
    tg_tensor_zero_grad(table);
    give_row(1);
    give_row(2);
    assert_int_equal(tg_tensor_grad_rows(table).count, 2);
    tg_gradient_release(table);
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_NONE);
    assert_null(table->gradient->dense);
}

/* A plan moves the version of the dense gradient once, and the first write does not move it again. */
static void test_plan(void **state)
{
    (void)state;
    const tg_tensor *dense = table->gradient->dense;
    uint64_t version = tg_storage_version(dense);
    assert_true(tg_gradient_plan(table, TG_GRAD_DENSE, 0) && tg_gradient_plan(table, TG_GRAD_DENSE, 0));
    assert_int_equal(tg_storage_version(dense), version + 1);
    tg_gradient_abandon_plan(table);
    tg_gradient_abandon_plan(table);
    assert_int_equal(tg_storage_version(dense), version);
    assert_true(tg_gradient_plan(table, TG_GRAD_DENSE, 0));
    tg_gradient_write(table, NULL);
    assert_int_equal(tg_storage_version(dense), version + 1);
    tg_gradient_write(table, NULL);
    assert_int_equal(tg_storage_version(dense), version + 2);
    tg_gradient_abandon_plan(table); /* nothing is planned any more */
    assert_int_equal(tg_storage_version(dense), version + 2);
}

/* Planned rows add up, and a reservation between them is in addition to both. */
static void test_planned_rows(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tg_tensor_new(TG_F64, TG_SHAPE(1000, 2), NULL));
    assert_true(tg_gradient_plan(x, TG_GRAD_ROWS, 10) && tg_gradient_plan(x, TG_GRAD_ROWS, 100));
    assert_true(x->gradient->capacity >= 110 && x->gradient->planned_rows == 110);
    assert_true(tg_gradient_reserve(x, TG_GRAD_ROWS, 300));
    assert_true(x->gradient->capacity >= 410 && x->gradient->planned_rows == 110);
    tg_gradient_end_plan(x);
    int64_t capacity = x->gradient->capacity;
    assert_true(tg_gradient_plan(x, TG_GRAD_ROWS, 20));
    assert_true(x->gradient->capacity == capacity && x->gradient->planned_rows == 20);
    tg_gradient_abandon_plan(x);
    assert_int_equal(x->gradient->planned_rows, 0);
    assert_true(tg_gradient_plan(x, TG_GRAD_ROWS, INT64_MAX / 2)); /* no more than the table has */
    assert_int_equal(x->gradient->capacity, 1000);
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plan, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_planned_rows, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("gradient", tests, NULL, NULL);
}
