/* exp, expm1 and tanh: at most 1, 1 and 2.5 ulp from the exact value for every float; and the functions that build on
 * exp. Those of doubles are in test_doubles.c. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "support.h"

#define TG_REAL_F32
#include "base/real.h"
#include "math/normal_tail.h"

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

/* exp_or_zero is exp where that is normal, and else 0. */
static void test_or_zero(void **state)
{
    (void)state;
    for (float x = -120; x <= 88; x += 0.0137F) {
        float found = real_exp_or_zero(x);
        assert_true(found == 0 ? tg_exp_f32(x) < 1.01F * FLT_MIN : found >= FLT_MIN && found == tg_exp_f32(x));
    }
    assert_true(real_exp_or_zero(-INFINITY) == 0 && real_exp_or_zero(0) == 1 && isnan(real_exp_or_zero(NAN)));
}

/* expm1 of every 101st float that is not above 0, against libm's double. */
static void test_expm1(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 101) {
        uint32_t word = (uint32_t)bits;
        float x;
        memcpy(&x, &word, sizeof x);
        if (x <= 0) {
            double expected = expm1((double)x), found = (double)real_expm1(x);
            float nearest = (float)fabs(expected);
            double ulp = (double)nextafterf(nearest, INFINITY) - (double)nearest;
            if (!(fabs(found - expected) <= ulp && !signbit(found) == !signbit(x))) {
                fail_msg("expm1(%.9g) is %.9g, not %.9g", (double)x, found, expected);
            }
        }
    }
    assert_true(real_expm1(0) == 0 && signbit(real_expm1(-0.0F)) && !signbit(real_expm1(0)));
    assert_true(real_expm1(-INFINITY) == -1 && isnan(real_expm1(NAN)));
}

/* tanh of every 101st float, against libm's double. */
static void test_tanh(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 101) {
        uint32_t word = (uint32_t)bits;
        float x;
        memcpy(&x, &word, sizeof x);
        if (isnan(x)) {
            assert_true(isnan(real_tanh(x)));
            continue;
        }
        double expected = tanh((double)x), found = (double)real_tanh(x);
        float nearest = (float)fabs(expected);
        double ulp = (double)nextafterf(nearest, INFINITY) - (double)nearest;
        if (!(fabs(found - expected) <= 2.5 * ulp && fabs(found) <= 1 && !signbit(found) == !signbit(x))) {
            fail_msg("tanh(%.9g) is %.9g, not %.9g", (double)x, found, expected);
        }
    }
    assert_true(real_tanh(INFINITY) == 1 && real_tanh(-INFINITY) == -1);
}

/* The density and the tail of the normal distribution, against libm's double. */
static void test_normal_tail(void **state)
{
    (void)state;
    for (float a = 0; a < 12.8F; a += 0.00011F) {
        float density;
        double x = (double)a, tail = (double)tg_normal_tail_f32(a, &density);
        double expected = 0.5 * erfc(x * sqrt(0.5)), exact = exp(-0.5 * x * x) * 0.39894228040143267794;
        double found = tail * (exact / (double)density);
        if (!(fabs((double)density - exact) <= 2e-7 * (1 + 0.73 * x * x) * exact)) {
            fail_msg("the density at %.9g is %.9g, not %.9g", x, (double)density, exact);
        }
        if (!(fabs(found - expected) <= 7e-7 * expected)) {
            fail_msg("the tail at %.9g is %.9g, not %.9g", x, found, expected);
        }
    }
    float density;
    assert_true(isnan(tg_normal_tail_f32(NAN, &density)) && isnan(density));
}

/* No result is subnormal, and none far outside is wrong. */
static void test_normal_tail_edges(void **state)
{
    (void)state;
    float density;
    for (float a = 12.7F; a < INFINITY; a *= 1.001F) {
        float tail = tg_normal_tail_f32(a, &density);
        assert_true(a < 12.8F ? density > 0 : density == 0 || a < 12.81F);
        assert_true(tail == 0 ? density == 0 : tail >= FLT_MIN);
    }
    assert_true(tg_normal_tail_f32(INFINITY, &density) == 0 && density == 0);
}

/* A NaN stays one, whatever its other bits are: they must not become an exponent. */
static void test_nan_payloads(void **state)
{
    (void)state;
    for (uint32_t payload = 1; payload < 0x800000; payload = payload * 3 + 1) {
        for (uint32_t sign = 0; sign <= 1; sign++) {
            tg_float_bits x = {.bits = sign << 31 | 0x7f800000 | payload};
            float density;
            assert_true(isnan(tg_exp_f32(x.value)));
            assert_true(isnan(real_exp_or_zero(x.value)));
            assert_true(isnan(real_expm1(x.value)));
            assert_true(isnan(real_tanh(x.value)));
            assert_true(isnan(tg_log_f32(x.value)));
            assert_true(isnan(tg_log1p_f32(x.value)));
            assert_true(isnan(tg_normal_tail_f32(x.value, &density)) && isnan(density));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_ulp),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_or_zero),
        cmocka_unit_test(test_expm1),
        cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_normal_tail),
        cmocka_unit_test(test_normal_tail_edges),
        cmocka_unit_test(test_nan_payloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
