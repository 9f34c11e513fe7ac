/* tg_log_f32 and tg_log1p_f32, against libm's double. */
#include <math.h>
#include <string.h>

#include "math/log.h"
#include "support.h"

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void assert_close(const char *function, float x, float found, double expected, double ulps)
{
    float nearest = (float)fabs(expected);
    double ulp = (double)nextafterf(nearest, INFINITY) - (double)nearest;
    if (!(fabs((double)found - expected) <= ulps * ulp)) {
        fail_msg("%s(%.9g) is %.9g, not %.9g", function, (double)x, (double)found, expected);
    }
}

/* All positive floats, or those up to 1, in steps that meet every exponent, and all floats close to 1, where the
 * logarithm is small. */
static void test_values(void **state)
{
    (void)state;
    for (uint32_t bits = 1; bits < 0x7f800000; bits += 257) {
        float x = float_of(bits);
        assert_close("log", x, tg_log_f32(x), log((double)x), 0.8);
    }
    for (uint32_t bits = 0x3f7f0000; bits < 0x3f810000; bits++) {
        float x = float_of(bits);
        assert_close("log", x, tg_log_f32(x), log((double)x), 0.8);
    }
    for (uint32_t bits = 1; bits <= 0x3f800000; bits += 97) {
        float x = float_of(bits);
        assert_close("log1p", x, tg_log1p_f32(x), log1p((double)x), 1.1);
    }
}

static void test_edges(void **state)
{
    (void)state;
    assert_true(tg_log_f32(1) == 0 && tg_log1p_f32(0) == 0);
    assert_true(tg_log_f32(0) == -INFINITY && tg_log_f32(-0.0F) == -INFINITY);
    assert_true(tg_log_f32(INFINITY) == INFINITY && tg_log1p_f32(1) == (float)log(2));
    assert_true(isnan(tg_log_f32(NAN)) && isnan(tg_log1p_f32(NAN)));
    assert_true(isnan(tg_log_f32(-1)) && isnan(tg_log_f32(-INFINITY)) && isnan(tg_log_f32(-1e-40F)));
    /* as x where 1 + x is 1 */
    assert_true(tg_log1p_f32(1e-20F) == 1e-20F && tg_log1p_f32(1e-40F) == 1e-40F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
