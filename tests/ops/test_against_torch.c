/* The values and gradients of every op against torch's, in f64 and f32. A gradient check passes if forward is wrong and
 * its gradient matches it; this test fails. */
#include "ops/goldens.h"
#include "support.h"

static void test_f64(void **state)
{
    (void)state;
    const golden_rule rule = {.kind = "", .dtype = TG_F64, .absolute = 7e-14, .relative = 7e-14};
    assert_int_equal(check_goldens(TG_TEST_GOLDENS "/ops.txt", &rule, 1), 72);
}

static void test_f32(void **state)
{
    (void)state;
    const golden_rule rule = {.kind = "", .dtype = TG_F32, .absolute = 1.4e-6, .relative = 1.4e-6};
    assert_int_equal(check_goldens(TG_TEST_GOLDENS "/ops.txt", &rule, 1), 72);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_f32),
    };
    return cmocka_run_group_tests_name("against torch", tests, NULL, NULL);
}
