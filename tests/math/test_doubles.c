/* The functions of doubles (lib/math, lib/base/real.h) beside those of the C library for long double, which has 11 more
 * bits on x86-64 and at least as many elsewhere. */
#include <float.h>
#include <math.h>

#include "support.h"

#define TG_REAL_F64
#include "base/real.h"
#include "math/normal_tail.h"
#include "math/power.h"
#include "math/trigonometry.h"

static uint64_t seed = 3;

/* A number in [low,high). */
static double uniform(double low, double high)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return low + (high - low) * ((double)(seed >> 11) * 0x1p-53);
}

/* Returns the distance in ulps of the expected number. */
static double distance(double found, long double expected)
{
    double nearest = fabs((double)expected);
    double ulp = nextafter(nearest, (double)INFINITY) - nearest;
    return nearest > DBL_MAX ? found == (double)expected ? 0 : 1e9
                             : (double)(fabsl((long double)found - expected) / (long double)ulp);
}

static double worst;

static void check(const char *name, double x, double y, double found, long double expected, double most)
{
    double ulps = distance(found, expected);
    worst = ulps > worst ? ulps : worst;
    if (!(ulps <= most)) {
        fail_msg("%s of %.17g %.17g: %.17g, not %.20Lg: %g ulp", name, x, y, found, expected, ulps);
    }
}

static void report(const char *name)
{
    print_message("%s: at most %.3f ulp\n", name, worst);
    worst = 0;
}

enum { DRAWS = 300000 };

/* Returns how many values to draw: none if the C library is wrong at this one, in the last bits of a double, as
 * mingw-w64's cosl and powl are, and emscripten's cosl and tanhl. */
static int draws(long double found, long double right)
{
    bool is_right = fabsl(found - right) <= 1e-17L * fabsl(right);
    if (!is_right) {
        print_message("not compared: the C library is wrong by %.2Lg\n", found / right - 1);
    }
    return is_right ? DRAWS : 0;
}

static void test_exp(void **state)
{
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x = i % 2 ? uniform(-745, 709.7) : uniform(-1, 1) * pow(2, uniform(-60, 0));
        check("exp", x, 0, tg_exp_f64(x), expl((long double)x), 1);
    }
    report("exp");
    for (int i = 0; i < DRAWS; i++) {
        double x = uniform(-708.39, 709);
        check("exp_or_zero", x, 0, real_exp_or_zero(x), expl((long double)x), 1);
    }
    report("exp_or_zero");
    for (int i = 0; i < DRAWS; i++) {
        double x = i % 2 ? uniform(-40, 0) : -pow(2, uniform(-60, 0));
        check("expm1", x, 0, real_expm1(x), expm1l((long double)x), 1.5);
    }
    report("expm1");
    volatile double wrong = 0.11781327786939655;
    int drawn = draws(tanhl((long double)wrong), 0.1172712057220155618752L);
    for (int i = 0; i < drawn; i++) {
        double x = i % 2 ? uniform(-21, 21) : uniform(-1, 1) * pow(2, uniform(-60, 0));
        check("tanh", x, 0, real_tanh(x), tanhl((long double)x), 2.5);
    }
    report("tanh");
    assert_true(tg_exp_f64(0) == 1 && tg_exp_f64(-0.0) == 1 && tg_exp_f64(710) == (double)INFINITY);
    assert_true(tg_exp_f64(-746) == 0 && tg_exp_f64(-745) == 0x1p-1074 && isnan(tg_exp_f64((double)NAN)));
    assert_true(tg_exp_f64(-(double)INFINITY) == 0 && tg_exp_f64((double)INFINITY) == (double)INFINITY);
    assert_true(real_exp_or_zero(-709) == 0 && real_exp_or_zero(-(double)INFINITY) == 0 && real_exp_or_zero(0) == 1 &&
                real_exp_or_zero(-708.38) > DBL_MIN && isnan(real_exp_or_zero((double)NAN)));
    assert_true(real_expm1(-(double)INFINITY) == -1 && signbit(real_expm1(-0.0)) && isnan(real_expm1((double)NAN)));
    assert_true(real_tanh((double)INFINITY) == 1 && real_tanh(-50) == -1 && signbit(real_tanh(-0.0)));
    assert_true(isnan(real_tanh((double)NAN)) && real_tanh(0x1p-1074) == 0x1p-1074);
}

static void test_log(void **state)
{
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x = i % 2 ? uniform(0.5, 2) : pow(2, uniform(-1074, 1024));
        check("log", x, 0, tg_log_f64(x), logl((long double)x), 1);
    }
    report("log");
    for (int i = 0; i < DRAWS; i++) {
        double x = i % 2 ? uniform(-1, 1) : uniform(-1, 1) * pow(2, uniform(-60, 0));
        check("log1p", x, 0, tg_log1p_f64(x), log1pl((long double)x), 1.5);
    }
    report("log1p");
    assert_true(tg_log_f64(1) == 0 && tg_log_f64(0) == -(double)INFINITY && isnan(tg_log_f64(-1)));
    assert_true(tg_log_f64((double)INFINITY) == (double)INFINITY && isnan(tg_log_f64((double)NAN)));
    assert_true(tg_log1p_f64(-1) == -(double)INFINITY && signbit(tg_log1p_f64(-0.0)) && tg_log1p_f64(0) == 0);
}

static void test_sine(void **state)
{
    (void)state;
    volatile double wrong = 74938.223780816188; /* gcc must not compute the cosine */
    int drawn = draws(cosl((long double)wrong), 0.2410216645625363628253L);
    for (int i = 0; i < drawn; i++) {
        double x = i % 3 == 0 ? uniform(-8, 8) : i % 3 == 1 ? uniform(-0x1p20, 0x1p20) : pow(2, uniform(-60, 20));
        x = i % 100 == 99 ? nearbyint(uniform(0, 600000)) * 1.5707963267948966 : x; /* near multiples of pi / 2 */
        check("sin", x, 0, tg_sin_f64(x), sinl((long double)x), 1);
        check("cos", x, 0, tg_cos_f64(x), cosl((long double)x), 1);
    }
    report("sin, cos");
    assert_true(signbit(tg_sin_f64(-0.0)) && tg_cos_f64(0) == 1 && isnan(tg_sin_f64((double)INFINITY)));
    assert_true(isnan(tg_cos_f64((double)NAN)) && tg_sin_f64(0x1p-1074) == 0x1p-1074);
}

static void test_pow(void **state)
{
    (void)state;
    volatile double wrong = 0.99654128211601922;
    int drawn = draws(powl((long double)wrong, -930), 25.08282028774937623298L);
    for (int i = 0; i < drawn; i++) {
        double x = i % 4 == 0   ? uniform(0.5, 2)
                   : i % 4 == 1 ? 1 - pow(2, uniform(-40, -1))
                                : pow(2, uniform(-1074, 1024));
        double y = i % 2 ? nearbyint(uniform(-1000, 1000)) : uniform(-3, 3) * pow(2, uniform(-4, 20));
        y = fabs(log(x) * y) > 700 ? y * (700 / fabs(log(x) * y)) : y;
        check("pow", x, y, tg_pow_f64(x, y), powl((long double)x, (long double)y), 1);
    }
    report("pow");
    static const double values[] = {0,
                                    -0.0,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    0.5,
                                    -0.5,
                                    1e300,
                                    -1e300,
                                    1e-300,
                                    2.5,
                                    -7.5,
                                    0x1p52,
                                    0x1p53,
                                    INFINITY,
                                    -INFINITY,
                                    NAN,
                                    0x1p-1074,
                                    1e-320,
                                    0x1.fffffffffffffp52};
    const int count = sizeof values / sizeof *values;
    for (int i = 0; i < count * count; i++) {
        double x = values[i % count], y = values[i / count], found = tg_pow_f64(x, y), expected = pow(x, y);
        bool is_compared = drawn > 0 || isinf(expected) || expected == 0;
        double most = is_compared ? 1 : (double)INFINITY;
        if (isnan(expected)
                ? !isnan(found)
                : (distance(found, (long double)expected) > most || !signbit(found) != !signbit(expected))) {
            fail_msg("%g to the power of %g is %g, not %g", x, y, found, expected);
        }
    }
}

/* The normal distribution: the density, and the tail, which is half of erfc(a / sqrt(2)). */
static void test_normal_tail(void **state)
{
    (void)state;
    const long double root = 0.70710678118654752440084436210485L, scale = 0.39894228040143267793994605993438L;
    double density;
    for (int i = 0; i < DRAWS; i++) {
        double a = i % 2 ? uniform(0, 37.4) : pow(2, uniform(-60, 3)), tail = tg_normal_tail_f64(a, &density);
        check("the tail", a, 0, tail, erfcl((long double)a * root) / 2, 12);
    }
    report("the tail");
    for (int i = 0; i < DRAWS; i++) {
        double a = i % 2 ? uniform(0, 37.4) : pow(2, uniform(-60, 3));
        tg_normal_tail_f64(a, &density);
        check("the density", a, 0, density, scale * expl((long double)a * (long double)a / -2), 2.5);
    }
    report("the density");
    assert_true(tg_normal_tail_f64(0, &density) == 0.5 && density == 0.39894228040143267794);
    assert_true(tg_normal_tail_f64((double)INFINITY, &density) == 0 && density == 0);
    assert_true(isnan(tg_normal_tail_f64((double)NAN, &density)) && isnan(density));
    for (double a = 37.3; a < (double)INFINITY;
         a *= 1.001) { /* no result is subnormal, and none far outside is wrong */
        double tail = tg_normal_tail_f64(a, &density);
        assert_true(a < 37.41 ? tail >= DBL_MIN && density >= DBL_MIN : a > 37.42 ? tail == 0 && density == 0 : true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exp), cmocka_unit_test(test_log),
                                       cmocka_unit_test(test_sine), cmocka_unit_test(test_pow),
                                       cmocka_unit_test(test_normal_tail)};
    return cmocka_run_group_tests_name("doubles", tests, NULL, NULL);
}
