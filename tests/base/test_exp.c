/* exp: at most 1 ulp from e^x for every float. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "support.h"

#include "base/exp.h"

/* Every 101st float of all 2^32, against libm's double. */
static void test_one_ulp(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 101) {
        uint32_t word = (uint32_t)bits;
        float x;
        memcpy(&x, &word, sizeof x);
        double expected = exp((double)x), found = (double)tg_exp_f32(x);
        if (isnan(x)) {
            assert_true(isnan(found));
        } else if (expected > (double)FLT_MAX) {
            assert_true(found == (double)INFINITY || found == (double)FLT_MAX);
        } else {
            float nearest = (float)expected;
            double ulp = (double)nextafterf(nearest, INFINITY) - (double)nearest;
            if (!(fabs(found - expected) <= ulp)) {
                fail_msg("exp(%.9g) is %.9g, not %.9g", (double)x, found, expected);
            }
        }
    }
}

static void test_edges(void **state)
{
    (void)state;
    assert_true(tg_exp_f32(0) == 1 && tg_exp_f32(-0.0F) == 1);
    assert_true(tg_exp_f32(INFINITY) == INFINITY && tg_exp_f32(89) == INFINITY && tg_exp_f32(FLT_MAX) == INFINITY);
    assert_true(tg_exp_f32(-INFINITY) == 0 && tg_exp_f32(-FLT_MAX) == 0);
    /* below the normal range, and not yet 0 */
    assert_true(tg_exp_f32(-103) > 0);
    assert_true(isnan(tg_exp_f32(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_ulp),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
