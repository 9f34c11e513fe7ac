/* tg_pow_f32: at most 0.54 ulp from libm's double, and special values as C's pow has them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "math/power.h"
#include "support.h"

static void assert_close(float x, float y)
{
    double expected = pow((double)x, (double)y);
    float found = tg_pow_f32(x, y), nearest = (float)fabs(expected);
    double ulp = nearest >= FLT_MAX ? 0x1p104 : (double)nextafterf(nearest, INFINITY) - (double)nearest;
    bool is_close = found == (float)expected || fabs((double)found - expected) <= 0.54 * ulp;
    if (isnan(expected) ? !isnan(found) : !is_close || !signbit(found) != !signbit(expected)) {
        fail_msg("pow(%.9g, %.9g) is %.9g, not %.9g", (double)x, (double)y, (double)found, expected);
    }
}

/* x of all exponents and y so that the powers have all exponents: steps of the bits meet every one. */
static void test_values(void **state)
{
    (void)state;
    for (uint32_t bits = 1; bits < 0x7f800000; bits += 40009) {
        float x;
        memcpy(&x, &bits, sizeof x);
        double log = log2((double)x);
        for (double t = -151.3; log != 0 && t < 128; t += 1.37) {
            float y = (float)(t / log);
            assert_close(x, y);
        }
    }
}

/* Numbers close to 1, whose logarithm is small. */
static void test_near_one(void **state)
{
    (void)state;
    for (uint32_t bits = 0x3f7fc000; bits < 0x3f804000; bits += 3) {
        float x;
        memcpy(&x, &bits, sizeof x);
        for (float y = -1e5F; y < 1e5F; y += 1234.567F) {
            assert_close(x, y);
        }
    }
}

/* Negative numbers with whole and other exponents, zeros, infinities, NaN and subnormals. */
static void test_edges(void **state)
{
    (void)state;
    static const float edges[] = {0,          0.5F,    0.9F,    1,          1.0000001F, 0.9999999F, 1.5F,
                                  2,          2.5F,    3,       4,          5,          16777215,   16777216,
                                  8388607.5F, 8388608, 8388609, 4194304.5F, 4194305.5F, 33554432,   1e30F,
                                  FLT_MIN,    0.3F,    1e-40F,  1e-45F,     FLT_MAX,    INFINITY,   NAN};
    enum { COUNT = sizeof edges / sizeof *edges };
    for (int i = 0; i < COUNT * COUNT * 4; i++) {
        float x = edges[i % COUNT], y = edges[i / COUNT % COUNT];
        assert_close(i / COUNT / COUNT % 2 ? -x : x, i / COUNT / COUNT / 2 ? -y : y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_near_one),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
