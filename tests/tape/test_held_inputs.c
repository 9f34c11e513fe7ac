/* The references of a tape to inputs that it did not record, such as parameters (tg_tape.held). */
#include "support.h"

#include "tape/tape.h"

static tg_tensor *number(double value)
{
    return leaf(tensor_f64(TG_SHAPE(1), &value));
}

/* Three records and five uses: one reference, until the reset. */
static void test_held_once(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = number(3);
    for (int step = 0; step < 3; step++) {
        assert_int_equal(tg_tensor_references(x), 1);
        tg_tensor *y = tg_mul(t, tg_add(t, tg_mul(t, x, x), x), x);
        assert_int_equal(tg_tensor_references(x), 2);
        assert_true(tg_tensor_value_at(y, 0) == 36);
        tg_tape_reset(t);
    }
    tg_tape_free(t);
    tg_release(x);
}

/* Nothing is held that only unrecorded calls read. */
static void test_not_recorded(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = number(3), *constant = tensor_f64(TG_SHAPE(1), (double[]){2});
    assert_non_null(tg_mul(t, constant, constant));
    tg_tape_set_recording(t, false);
    assert_non_null(tg_mul(t, x, constant));
    assert_int_equal(tg_tensor_references(x), 1);
    assert_int_equal(tg_tensor_references(constant), 1);
    tg_tape_free(t);
    tg_release(constant);
    tg_release(x);
}

/* A call of several ops that fails gives back what it was the first to use, and no more. */
static void test_failed_call(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *before = number(3), *within = number(2);
    tg_tensor *kept = tg_mul(t, before, before);
    tg_tape_point point;
    for (int i = 0; i < 2; i++) {
        tg_tape_save_point(t, false, &point);
        assert_non_null(tg_mul(t, tg_mul(t, before, within), kept));
        assert_int_equal(tg_tensor_references(within), 2);
        assert_null(tg_tape_end(t, &point, NULL));
        assert_int_equal(tg_tensor_references(before), 2);
        assert_int_equal(tg_tensor_references(within), 1);
    }
    /* What a later call uses is held again. */
    tg_tensor *y = tg_mul(t, kept, within);
    assert_int_equal(tg_tensor_references(within), 2);
    tg_tensor *same = within;
    tg_release(within);
    assert_true(tg_backward(t, y, NULL));
    assert_true(tg_tensor_value_at(tg_tensor_grad(before), 0) == 12);
    assert_true(tg_tensor_value_at(tg_tensor_grad(same), 0) == 9);
    tg_tape_reset(t);
    assert_int_equal(tg_tensor_references(before), 1);
    tg_tape_free(t);
    tg_release(before);
}

/* Each of two tapes holds the tensor, in whatever order they use it and are reset. */
static void test_two_tapes(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        tg_tape *t[] = {tg_tape_new(NULL, NULL), tg_tape_new(NULL, NULL)};
        tg_tensor *x = number(3), *y[2] = {NULL};
        for (int i = 0; i < 4; i++) {
            y[i % 2] = tg_mul(t[i % 2], x, x);
        }
        assert_true(tg_tensor_references(x) >= 3);
        tg_tape_reset(t[order]);
        assert_true(tg_tensor_references(x) >= 2);
        y[order] = tg_mul(t[order], x, x);
        tg_tape_reset(t[1 - order]);
        assert_int_equal(tg_tensor_references(x), 2);
        tg_release(x);
        assert_true(tg_backward(t[order], y[order], NULL));
        assert_true(tg_tensor_value_at(tg_tensor_grad(x), 0) == 6);
        tg_tape_free(t[0]);
        tg_tape_free(t[1]);
    }
}

/* Inputs that the program releases before the tape return to the allocator, and not to the pool: one whose tensor the
 * tape releases last, and one whose values a view on the tape releases last. */
static void test_released_inputs(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_tape *t = tg_tape_new(NULL, NULL);
    size_t live = 0;
    for (int step = 0; step < 10; step++) {
        tg_tape_reset(t);
        tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(500), NULL);
        tg_tensor_set_requires_grad(x, true, NULL);
        assert_true(tg_backward(t, tg_sum(t, x, TG_ALL_AXES, TG_DROP_AXES), NULL));
        tg_release(x);
        tg_tensor *constant = tg_tensor_new(TG_F32, TG_SHAPE(500), NULL);
        assert_non_null(tg_reshape(t, constant, TG_SHAPE(20, 25)));
        tg_release(constant);
        live = step == 3 ? counting.live : live;
    }
    assert_int_equal(counting.live, live);
    tg_tape_free(t);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_once), cmocka_unit_test(test_not_recorded),    cmocka_unit_test(test_failed_call),
        cmocka_unit_test(test_two_tapes), cmocka_unit_test(test_released_inputs),
    };
    return cmocka_run_group_tests_name("held_inputs", tests, NULL, NULL);
}
