/* Forty wrong backward kernels, which were written by somebody who did not know the gradient checker. Both modes refuse
 * each of them, the fast mode for 50 seeds of its projections. */
#include "support.h"

#include <string.h>

#include "gradcheck/planted_gradients.h"

static bool is_refused(const planted *op, tg_gradcheck_mode mode, uint64_t seed)
{
    tg_rng *rng = tg_rng_new(1);
    tg_tensor *inputs[2] = {NULL, NULL};
    for (int i = 0; i < op->input_count; i++) {
        inputs[i] = planted_make_input(&op->inputs[i], rng);
    }
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.name = op->name;
    config.mode = mode;
    config.projection_seed = seed;
    config.rtol = op->rtol > 0 ? op->rtol : config.rtol;
    tg_error error = TG_NO_ERROR;
    tg_gradcheck_report report;
    bool passed = tg_gradcheck(planted_call, (void *)(uintptr_t)op, inputs, op->input_count, &config, &report, &error);
    assert_int_equal(error.code, passed ? TG_OK : TG_ERROR_VALUE);
    assert_null(strstr(report.text, "-nan"));
    for (int i = 0; i < op->input_count; i++) {
        tg_release(inputs[i]);
    }
    tg_rng_free(rng);
    return !passed;
}

static void refuse_all(tg_gradcheck_mode mode, uint64_t seed)
{
    assert_int_equal(planted_count, 40);
    for (int i = 0; i < planted_count; i++) {
        if (!is_refused(&planted_ops[i], mode, seed)) {
            fail_msg("%s passed: %s (seed %d)", planted_ops[i].name, planted_ops[i].wrong, (int)seed);
        }
    }
}

static void test_slow_mode(void **state)
{
    (void)state;
    refuse_all(TG_GRADCHECK_SLOW, 1);
}

static void test_fast_mode(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        refuse_all(TG_GRADCHECK_FAST, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_mode),
        cmocka_unit_test(test_fast_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
