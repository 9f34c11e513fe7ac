/* Quotients by multiply-adds (lib/base/quotient.h) beside divisions: Adam's divisors and random ones, random numbers of
 * all sizes that are allowed, quotients near the middle of two floats, and special values. */
#include <float.h>
#include <math.h>

#include "random_bits.h"
#include "support.h"

#define TG_REAL_F32
#include "math/fma.h"
#define TG_HAS_FMA
#include "base/quotient.h"

double quotient_f64(double x, double c);

enum { DIVISORS = 300, NUMBERS = 5000 };

/* In [1,2). */
static double random_number(void)
{
    return 1 + (double)(random_bits() >> 12) * 0x1p-52;
}

/* Roots of 1 - 0.999^t, the first and last numbers of a power of two, and random ones. */
static double divisor_number(int i)
{
    static const double ends[] = {1, 1 + FLT_EPSILON, 1 + DBL_EPSILON, 2 - FLT_EPSILON, 2 - DBL_EPSILON, 1.5};
    return i < 6 ? ends[i] : i % 2 ? sqrt(1 - pow(0.999, i)) : ldexp(random_number(), (int)(random_bits() % 81) - 40);
}

static void check(double x, double c)
{
    const divisor d = tg_divisor_of((float)c);
    float found = quotient((float)x, &d), expected = (float)x / (float)c;
    if (found != expected) {
        fail_msg("%a / %a is %a, not %a", (double)(float)x, (double)(float)c, (double)found, (double)expected);
    }
    if (quotient_f64(x, c) != x / c) {
        fail_msg("%a / %a is %a, not %a", x, c, quotient_f64(x, c), x / c);
    }
}

static void test_bits(void **state)
{
    (void)state;
    for (int i = 0; i < DIVISORS; i++) {
        double c = divisor_number(i);
        for (int j = 0; j < NUMBERS; j++) {
            check(ldexp(random_number(), (int)(random_bits() % 140) - 80), c);
            /* a float whose quotient is as near as it can be to the middle of two floats, or to a float */
            double near = (double)(float)random_number() + (j % 2 ? 0.5 * FLT_EPSILON : 0);
            check((double)(float)(near * (double)(float)c), c);
        }
    }
}

static void test_special_values(void **state)
{
    (void)state;
    for (int i = 0; i < DIVISORS; i++) {
        double c = divisor_number(i);
        check(0, c);
        check((double)INFINITY, c);
        const divisor d = tg_divisor_of((float)c);
        assert_true(isnan(quotient(NAN, &d)) && isnan(quotient_f64((double)NAN, c)));
        assert_false(signbit(quotient(0, &d)) || signbit(quotient_f64(0, c)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits), cmocka_unit_test(test_special_values)};
    return cmocka_run_group_tests_name("quotient", tests, NULL, NULL);
}
