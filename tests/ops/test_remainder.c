/* The remainders of floats and doubles have the bits that fmodf and fmod give. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "support.h"

#define TG_REAL_F32
#include "ops/elementwise/remainder.h"

void remainders_f64(const double *a, const double *b, int64_t n, double *out);

enum { COUNT = 64 };

static void check(const float *a, const float *b, int count)
{
    float found[COUNT];
    remainders(a, b, count, found);
    for (int i = 0; i < count; i++) {
        float expected = fmodf(a[i], b[i]);
        expected = expected != 0 && (expected < 0) != (b[i] < 0) ? expected + b[i] : expected;
        if (isnan(expected) ? !isnan(found[i]) : memcmp(&found[i], &expected, sizeof expected) != 0) {
            fail_msg("remainder(%a, %a) is %a, not %a", (double)a[i], (double)b[i], (double)found[i], (double)expected);
        }
    }
}

static void check_doubles(const double *a, const double *b, int count)
{
    double found[COUNT];
    remainders_f64(a, b, count, found);
    for (int i = 0; i < count; i++) {
        double expected = fmod(a[i], b[i]);
        expected = expected != 0 && (expected < 0) != (b[i] < 0) ? expected + b[i] : expected;
        if (isnan(expected) ? !isnan(found[i]) : memcmp(&found[i], &expected, sizeof expected) != 0) {
            fail_msg("remainder(%a, %a) is %a, not %a", a[i], b[i], found[i], expected);
        }
    }
}

/* All pairs of exponents and signs, with several digits. */
static void test_exponents(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (uint32_t high = 0; high < 512; high++) {
        for (uint32_t other = 0; other < 512; other += 1 + high % 3) {
            float a[COUNT], b[COUNT];
            for (int i = 0; i < COUNT; i++) {
                random = random * 1664525 + 1013904223;
                uint32_t word = high << 23 | random >> 9;
                memcpy(&a[i], &word, sizeof word);
                random = random * 1664525 + 1013904223;
                word = other << 23 | (random >> 9 << i % 23 & 0x7fffff);
                memcpy(&b[i], &word, sizeof word);
            }
            check(a, b, COUNT);
        }
    }
}

/* Quotients of all sizes up to 2^30, whose numbers have all digits or few, also subnormal ones. */
static void test_doubles(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int exponent = -1074; exponent < 1024; exponent++) {
        double a[COUNT], b[COUNT];
        for (int i = 0; i < COUNT; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            double digits = 1 + (double)(random >> 12 & ~UINT64_C(0) << i % 52) * 0x1p-52;
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            double other = 1 + (double)(random >> 12 & ~UINT64_C(0) << random % 52) * 0x1p-52;
            a[i] = ldexp(i % 3 ? digits : -digits, exponent);
            b[i] = ldexp(i % 5 ? other : -other, exponent - (int)(random >> 20) % 30);
        }
        check_doubles(a, b, COUNT);
    }
}

/* Multiples of b and their neighbors: quotients that a rounding might raise to the next whole number. */
static void test_near_multiples(void **state)
{
    (void)state;
    for (int k = 1; k < 3000000; k += 7) {
        float b = 1 + (float)(k % 8191) * 0x1p-23F, a = (float)((double)k * (double)b);
        float x[] = {a, nextafterf(a, 0), nextafterf(a, INFINITY), -a, -nextafterf(a, 0)}, y[] = {b, b, b, b, -b};
        check(x, y, 5);
        double long_b = 1 + (double)(k % 8191) * 0x1.000001p-24, long_a = k * long_b;
        double v[] = {long_a, nextafter(long_a, 0), nextafter(long_a, 1e9), -long_a, -nextafter(long_a, 0)},
               w[] = {long_b, long_b, long_b, long_b, -long_b};
        check_doubles(v, w, 5);
    }
}

static void test_edges(void **state)
{
    (void)state;
    static const float edges[] = {0, 1, 2.5F, 3, 1e-45F, FLT_MIN, FLT_MAX, 0x1p26F, 0x1.fffffep25F, INFINITY, NAN};
    enum { EDGES = sizeof edges / sizeof *edges };
    for (int i = 0; i < EDGES * EDGES * 4; i++) {
        float a = edges[i % EDGES], b = edges[i / EDGES % EDGES];
        check(&(float){i / EDGES / EDGES % 2 ? -a : a}, &(float){i / EDGES / EDGES / 2 ? -b : b}, 1);
    }
    static const double limits[] = {0,       1,      2.5,    3,        0x1p-1074,      DBL_MIN,
                                    DBL_MAX, 0x1p26, 0x1p53, INFINITY, 0x1.fffffffp25, NAN};
    enum { LIMITS = sizeof limits / sizeof *limits };
    for (int i = 0; i < LIMITS * LIMITS * 4; i++) {
        double a = limits[i % LIMITS], b = limits[i / LIMITS % LIMITS];
        check_doubles(&(double){i / LIMITS / LIMITS % 2 ? -a : a}, &(double){i / LIMITS / LIMITS / 2 ? -b : b}, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponents),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_near_multiples),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("remainder", tests, NULL, NULL);
}
