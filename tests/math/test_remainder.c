/* The remainders of floats have the bits that fmodf gives. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "math/remainder.h"
#include "support.h"

enum { COUNT = 64 };

static void check(const float *a, const float *b, int count)
{
    float found[COUNT];
    tg_remainders_f32(a, b, count, found);
    for (int i = 0; i < count; i++) {
        float expected = fmodf(a[i], b[i]);
        expected = expected != 0 && (expected < 0) != (b[i] < 0) ? expected + b[i] : expected;
        if (isnan(expected) ? !isnan(found[i]) : memcmp(&found[i], &expected, sizeof expected) != 0) {
            fail_msg("remainder(%a, %a) is %a, not %a", (double)a[i], (double)b[i], (double)found[i], (double)expected);
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

/* Multiples of b and their neighbors: quotients that a rounding might raise to the next whole number. */
static void test_near_multiples(void **state)
{
    (void)state;
    for (int k = 1; k < 3000000; k += 7) {
        float b = 1 + (float)(k % 8191) * 0x1p-23F, a = (float)((double)k * (double)b);
        float x[] = {a, nextafterf(a, 0), nextafterf(a, INFINITY), -a, -nextafterf(a, 0)}, y[] = {b, b, b, b, -b};
        check(x, y, 5);
    }
}

static void test_edges(void **state)
{
    (void)state;
    static const float edges[] = {0, 1, 2.5F, 3, 1e-45F, FLT_MIN, FLT_MAX, 0x1p29F, 0x1.fffffep28F, INFINITY, NAN};
    enum { EDGES = sizeof edges / sizeof *edges };
    for (int i = 0; i < EDGES * EDGES * 4; i++) {
        float a = edges[i % EDGES], b = edges[i / EDGES % EDGES];
        check(&(float){i / EDGES / EDGES % 2 ? -a : a}, &(float){i / EDGES / EDGES / 2 ? -b : b}, 1);
    }
    double y;
    tg_remainders_f64((double[]){-7}, (double[]){3}, 1, &y);
    assert_true(y == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponents),
        cmocka_unit_test(test_near_multiples),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("remainder", tests, NULL, NULL);
}
