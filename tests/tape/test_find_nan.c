/* After a loss turned NaN: the op that made it, or the input that brought it. */
#include "support.h"

#include <math.h>

static tg_tape *tape;
static tg_tensor *x;

static int set_up(void **state)
{
    (void)state;
    tape = tg_tape_new(NULL);
    x = leaf(tensor_f32(TG_SHAPE(2, 2), (float[]){1, 4, -2, 3}));
    return tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_release(x);
    tg_tape_free(tape);
    return 0;
}

static void assert_found(const char *text)
{
    tg_error found = TG_NO_ERROR;
    assert_true(tg_tape_find_nan(tape, &found));
    assert_error(&found, TG_ERROR_VALUE, text);
}

static void test_an_op_made_it(void **state)
{
    (void)state;
    tg_tensor *y = tg_log(tape, tg_mul_scalar(tape, x, 2));
    tg_sum(tape, tg_exp(tape, y), TG_ALL_AXES, TG_DROP_AXES);
    assert_found("'log' (op 2 of 4) made a NaN at [1,0] of (2,2), from inputs without one (largest absolute value 8)");
}

static void test_infinities_that_meet(void **state)
{
    (void)state;
    tg_tensor *large = tg_exp(tape, tg_mul_scalar(tape, tg_transpose(tape, x, 0, 1), 100)); /* inf, but no NaN */
    tg_sub(tape, large, large);
    assert_found(
        "'sub' (op 4 of 4) made a NaN at [0,0] of (2,2), from inputs without one (largest absolute value inf)");
}

static void test_an_input_brought_it(void **state)
{
    (void)state;
    tg_tensor *bad = tensor_f32(TG_SHAPE(2), (float[]){0, NAN});
    tg_tensor *y = tg_exp(tape, x);
    tg_mul(tape, y, bad);
    tg_release(bad);
    assert_found("input 1 of 'mul' (op 2 of 2), (2,), has a NaN at [1]: no op made it");
}

static void test_nothing_to_find(void **state)
{
    (void)state;
    tg_error found = TG_NO_ERROR;
    tg_exp(tape, x);
    assert_false(tg_tape_find_nan(tape, &found));
    assert_int_equal(found.code, TG_OK);
    tg_log(tape, x);
    tg_tape_reset(tape);
    assert_false(tg_tape_find_nan(tape, &found));
    assert_false(tg_tape_find_nan(NULL, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_op_made_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_infinities_that_meet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_input_brought_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_to_find, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
