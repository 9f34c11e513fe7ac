/* sin and cos of many numbers: of floats at most 0.61 ulp from the exact value up to 2^20, and libm's above. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "math/doubles.h"
#include "math/trigonometry.h"
#include "support.h"

enum { COUNT = 1000 };

static void assert_close(float x, float found, double expected)
{
    float nearest = (float)fabs(expected);
    double ulp = (double)nextafterf(nearest, INFINITY) - (double)nearest;
    if (!(fabs((double)found - expected) <= (fabsf(x) <= (float)TG_TURN_LIMIT ? 0.61 : 1) * ulp)) {
        fail_msg("%.9g for %.9g, not %.9g", (double)found, (double)x, expected);
    }
}

/* Checks the sines and cosines of COUNT numbers. */
static void check(const float *x)
{
    float sines[COUNT], cosines[COUNT];
    tg_turns_f32(x, COUNT, false, sines);
    tg_turns_f32(x, COUNT, true, cosines);
    for (int i = 0; i < COUNT; i++) {
        if (fabsf(x[i]) <= FLT_MAX) {
            assert_close(x[i], sines[i], sin((double)x[i]));
            assert_close(x[i], cosines[i], cos((double)x[i]));
        } else {
            assert_true(isnan(sines[i]) && isnan(cosines[i]));
        }
    }
}

/* Every 101st float of all 2^32. */
static void test_values(void **state)
{
    (void)state;
    float x[COUNT];
    int filled = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 101) {
        uint32_t word = (uint32_t)bits;
        memcpy(&x[filled++], &word, sizeof word);
        if (filled == COUNT) {
            check(x);
            filled = 0;
        }
    }
}

/* The floats nearest to multiples of pi / 2, where a result is small, up to the limit of the loop and above it. */
static void test_near_zeros(void **state)
{
    (void)state;
    float x[COUNT];
    for (int64_t first = -300000; first < 800000; first += COUNT) {
        for (int i = 0; i < COUNT; i++) {
            x[i] = (float)((double)(first + i) * 1.57079632679489661923);
        }
        check(x);
    }
}

static void test_edges(void **state)
{
    (void)state;
    const float x[] = {0, -0.0F, 1e-40F, -1e-40F, INFINITY, -INFINITY, NAN};
    float sines[7], cosines[7];
    tg_turns_f32(x, 7, false, sines);
    tg_turns_f32(x, 7, true, cosines);
    assert_memory_equal(sines, x, 4 * sizeof *x);
    for (int i = 0; i < 7; i++) {
        assert_true(i < 4 ? cosines[i] == 1 : isnan(sines[i]) && isnan(cosines[i]));
    }
}

/* Doubles have the values of tg_sin_f64 and tg_cos_f64 (test_doubles.c), which are those of libm above 2^20. */
static void test_doubles(void **state)
{
    (void)state;
    double x[COUNT], sines[COUNT], cosines[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (i % 2 ? 1 : -1) * ldexp(1 + i * 0x1p-10, i % 60 - 30);
    }
    memcpy(x, (double[]){0, -0.0, 0x1p-1074, 0x1p20, 0x1.0000000000001p20, 1e300, (double)INFINITY, (double)NAN},
           8 * sizeof *x);
    tg_turns_f64(x, COUNT, false, sines);
    tg_turns_f64(x, COUNT, true, cosines);
    for (int i = 0; i < COUNT; i++) {
        double sine = tg_sin_f64(x[i]), cosine = tg_cos_f64(x[i]);
        bool is_nan = isnan(x[i]) || isinf(x[i]);
        assert_true(is_nan ? isnan(sines[i]) && isnan(sine) : memcmp(&sines[i], &sine, sizeof sine) == 0);
        assert_true(is_nan ? isnan(cosines[i]) && isnan(cosine) : memcmp(&cosines[i], &cosine, sizeof cosine) == 0);
        assert_true(is_nan || fabs(x[i]) <= TG_TURN_LIMIT || (sine == sin(x[i]) && cosine == cos(x[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_near_zeros),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_doubles),
    };
    return cmocka_run_group_tests_name("trigonometry", tests, NULL, NULL);
}
