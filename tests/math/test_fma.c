/* a b + c without fused multiply-adds (lib/math/fma.h) beside the C library's fma: random numbers of all sizes, sums
 * near each other, ties, subnormal numbers, overflow, special values. Doubles of extreme sizes are rounded twice. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/random_bits.h"
#include "support.h"

#include "math/fma.h"

static bool has_fmaf, has_fma;

/* mingw-w64 rounds both twice: a float in double, and a double in the numbers of x87. So does fmaf of emscripten 3.1.6,
 * where c is less than half of the last bit. */
static void find_fma(void)
{
    volatile double a = 1 + 0x1p-30, c = -1 - 0x1p-29, tie = 1 + 0x1p-52, tiny = -0x1p-1022;
    volatile float b = 1 + 0x1p-12f, d = 0x1p-60f;
    has_fmaf = fmaf(b, b, d) == 0x1.002002p0f && fmaf(b, b, -d) == 0x1.002p0f;
    has_fma = fma(a, a, c) == 0x1p-60 && fma(3, tie, tiny) == 0x1.8000000000001p1;
}

static bool are_same(double x, double y)
{
    return isnan(x) ? isnan(y) : x == y && !signbit(x) == !signbit(y);
}

static void check_f32(float a, float b, float c)
{
    float found = tg_exact_fma_f32(a, b, c), expected = fmaf(a, b, c);
    if (has_fmaf && !are_same((double)found, (double)expected)) {
        fail_msg("%a * %a + %a is %a, not %a", (double)a, (double)b, (double)c, (double)found, (double)expected);
    }
}

/* Returns whether the sum is rounded once: the sizes for which lib/math/fma.h says so. */
static bool is_rounded_once(double a, double b, double c)
{
    double least = fmin(fabs(a), fabs(b)), most = fmax(fabs(a), fabs(b));
    return least >= 0x1p-450 && most <= 0x1p450 && fabs(c) <= 0x1p1000;
}

static void check_f64(double a, double b, double c)
{
    volatile double product = a * b;
    double found = tg_exact_fma_f64(a, b, c), expected = product + c;
    if (is_rounded_once(a, b, c)) {
        expected = has_fma ? fma(a, b, c) : found;
    }
    if (!are_same(found, expected)) {
        fail_msg("%a * %a + %a is %a, not %a", a, b, c, found, expected);
    }
}

static float any_f32(void)
{
    uint32_t bits = (uint32_t)(random_bits() >> 32);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double any_f64(void)
{
    uint64_t bits = random_bits();
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void test_any_bits(void **state)
{
    (void)state;
    find_fma();
    for (int i = 0; i < 1000000; i++) {
        check_f32(any_f32(), any_f32(), any_f32());
        check_f64(any_f64(), any_f64(), any_f64());
    }
}

/* Returns a number with a few significant bits, at both ends of its significand, so that sums are often ties. */
static double short_number(int bits, int exponent)
{
    uint64_t drawn = random_bits();
    double upper = (double)(drawn & 7) + 8, lower = (double)(drawn >> 3 & 7);
    double x = ldexp(upper + ldexp(lower, -bits + 4), exponent - 3);
    return drawn >> 63 ? -x : x;
}

/* The terms have sizes near each other, or far apart, around the exponent of a result. */
static void check_around(int bits, int exponent)
{
    uint64_t drawn = random_bits();
    int part = (int)(drawn % 200) - 100, distance = (int)(drawn >> 8 & 127) - 64;
    int places = (int)(drawn >> 16 & 1) ? bits : 1 + (int)(drawn >> 20) % bits;
    double a = short_number(places, part), b = short_number(places, exponent - part);
    double c = short_number(places, exponent + distance);
    if (bits == 24) {
        check_f32((float)a, (float)b, (float)c);
        check_f32((float)a, (float)b, (float)(-a * b));
    } else {
        check_f64(a, b, c);
        check_f64(a, b, -a * b);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    find_fma();
    static const int f32[] = {0, -60, 60, -125, -126, -127, -140, -149, -150, -151, 126, 127};
    static const int f64[] = {0, -150, 150, -300, 300, -400, 400, -500, 500, -540, 540, -900, 900, -1074, 1023};
    for (int i = 0; i < 40000; i++) {
        for (size_t k = 0; k < sizeof f32 / sizeof *f32; k++) {
            check_around(24, f32[k]);
        }
        for (size_t k = 0; k < sizeof f64 / sizeof *f64; k++) {
            check_around(53, f64[k]);
        }
    }
}

static void test_special_values(void **state)
{
    (void)state;
    find_fma();
    static const double values[] = {0,         -0.0,        1,         -1,          DBL_MIN,  -DBL_MIN, DBL_TRUE_MIN,
                                    DBL_MAX,   -DBL_MAX,    INFINITY,  -INFINITY,   NAN,      0x1p-450, 0x1p450,
                                    0x1p-1000, 0x1p1000,    -0x1p1000, 1 + 0x1p-52, 0x1p-537, FLT_MIN,  FLT_TRUE_MIN,
                                    FLT_MAX,   0x1.8p-1074, 0x1p-149,  -0x1p-149,   3};
    const int count = sizeof values / sizeof *values;
    for (int i = 0; i < count * count * count; i++) {
        double a = values[i % count], b = values[i / count % count], c = values[i / count / count];
        check_f32((float)a, (float)b, (float)c);
        check_f64(a, b, c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_bits), cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_special_values)};
    return cmocka_run_group_tests_name("fma", tests, NULL, NULL);
}
