/* distributions.c and normal.c against PyTorch 2.13: make_random.py has the same calls in the same order. */
#include "streams.h"

static tg_rng *rng_of(uint64_t seed, tg_rng_profile profile)
{
    tg_rng *rng = tg_rng_new(seed);
    assert_non_null(rng);
    assert_int_equal(rng->profile, TG_RNG_AVX2);
    tg_rng_set_profile(rng, profile);
    assert_int_equal(rng->profile, profile);
    return rng;
}

static const char *suffixed(const char *name, tg_rng_profile profile)
{
    static char text[64];
    snprintf(text, sizeof text, "%s%s", name, profile == TG_RNG_GENERIC ? "_generic" : "");
    return text;
}

static void uniforms(tg_rng_profile profile)
{
    stream f32 = stream_of(4), f64 = stream_of(8);
    static const struct {
        int64_t count;
        double low, high;
    } fills[] = {{100003, -0.1, 0.37}, {17, 0, 1}, {1000, 1.0, 1.0000001}, {1000, 1.0, 1.0 + 0x1p-52}};
    tg_rng *a = rng_of(123, profile), *b = rng_of(123, profile);
    for (int64_t i = 0; i < COUNT(fills); i++) {
        tg_rng_uniform_f32(a, stream_extend(&f32, fills[i].count), fills[i].count, fills[i].low, fills[i].high);
        tg_rng_uniform_f64(b, stream_extend(&f64, fills[i].count), fills[i].count, fills[i].low, fills[i].high);
    }
    check_stream(f32, suffixed("uniform_f32", profile), false, 0, 0);
    check_stream(f64, suffixed("uniform_f64", profile), false, 0, 0);
    tg_rng_free(a);
    tg_rng_free(b);
}

static void large_normals(tg_rng_profile profile)
{
    static const int64_t sizes[] = {16, 17, 31, 32, 100, 127, 128, 129, 1000, 1039, 100003};
    stream f32 = stream_of(4), f64 = stream_of(8);
    tg_rng *a = rng_of(123, profile), *b = rng_of(123, profile);
    for (int64_t i = 0; i < COUNT(sizes); i++) {
        tg_rng_normal_f32(a, stream_extend(&f32, sizes[i]), sizes[i], 0.3, 1.7);
        tg_rng_normal_f64(b, stream_extend(&f64, sizes[i]), sizes[i], 0.3, 1.7);
    }
    check_stream(f32, suffixed("normal_f32", profile), profile == TG_RNG_GENERIC, 4, 0.3);
    check_stream(f64, suffixed("normal_f64", profile), true, 4, 0.3);
    tg_rng_free(a);
    tg_rng_free(b);
}

/* Small fills of both dtypes with large ones among them: the waiting normal passes through all. */
static void mixed_normals(tg_rng_profile profile)
{
    stream f32 = stream_of(4), f64 = stream_of(8);
    tg_rng *rng = rng_of(123, profile);
    for (int i = 0; i < 40000; i++) {
        int64_t count = i % 10 == 9 ? 16 + i % 7 : 1 + i % 15;
        if (i % 3 == 0) {
            tg_rng_normal_f64(rng, stream_extend(&f64, count), count, -0.7, 0.02);
        } else {
            tg_rng_normal_f32(rng, stream_extend(&f32, count), count, -0.7, 0.02);
        }
    }
    check_stream(f32, suffixed("normal_mixed_f32", profile), true, 1, 0.7);
    check_stream(f64, suffixed("normal_mixed_f64", profile), true, 1, 0.7);
    tg_rng_free(rng);
}

static void test_uniform(void **state)
{
    (void)state;
    uniforms(TG_RNG_AVX2);
    uniforms(TG_RNG_GENERIC);
}

static void test_normal(void **state)
{
    (void)state;
    large_normals(TG_RNG_AVX2);
    large_normals(TG_RNG_GENERIC);
    mixed_normals(TG_RNG_AVX2);
    mixed_normals(TG_RNG_GENERIC);
}

static void test_integers(void **state)
{
    (void)state;
    static const int64_t ranges[][2] = {{0, 2},
                                        {0, 50257},
                                        {-7, 9},
                                        {0, (1 << 28) - 1},
                                        {0, 1 << 28},
                                        {0, (1 << 28) + 1},
                                        {0, 4294967295},
                                        {0, 4294967296},
                                        {-((int64_t)1 << 40), (int64_t)1 << 41},
                                        {-((int64_t)1 << 62), (int64_t)1 << 62},
                                        {INT64_MIN, INT64_MAX}};
    static const int64_t counts[] = {0, 1, 2, 3, 10, 1000, 100003};
    stream integers = stream_of(8), permutations = stream_of(8);
    tg_rng *rng = tg_rng_new(123);
    for (int64_t i = 0; i < COUNT(ranges); i++) {
        tg_rng_integers(rng, stream_extend(&integers, 20001), 20001, ranges[i][0], ranges[i][1]);
    }
    check_stream(integers, "randint", false, 0, 0);
    tg_rng_seed(rng, 123);
    for (int64_t i = 0; i < COUNT(counts); i++) {
        tg_rng_randperm(rng, stream_extend(&permutations, counts[i]), counts[i]);
    }
    check_stream(permutations, "randperm", false, 0, 0);
    tg_rng_free(rng);
}

static void test_bernoulli(void **state)
{
    (void)state;
    static const double probabilities[] = {0, 1, 0.9, 0.1, 0.5, 1.0 / 3, 0x1p-53, 1 - 0x1p-53};
    stream s = stream_of(1);
    tg_rng *rng = tg_rng_new(123);
    /* from here on a pair of outputs is in two blocks of the engine */
    tg_rng_u32(rng);
    for (int64_t i = 0; i < COUNT(probabilities); i++) {
        tg_rng_bernoulli(rng, stream_extend(&s, 30001), 30001, probabilities[i]);
    }
    check_stream(s, "bernoulli", false, 0, 0);
    tg_rng_free(rng);
}

/* The values of tg_rng_bernoulli, eight in a byte, and the generator after them, by any number of threads. */
static void test_bits(void **state)
{
    (void)state;
    enum { LARGEST = 100003 };
    static const int64_t counts[] = {0, 1, 7, 8, 624, 16384, 2 * 16384, 2 * 16384 + 1, 4 * 16384 + 9, LARGEST};
    static uint8_t values[LARGEST], bits[LARGEST / 8 + 2];
    for (int threads = 1; threads <= 5; threads += 2) {
        assert_true(tg_set_threads(threads, NULL));
        tg_rng *a = tg_rng_new(123), *b = tg_rng_new(123);
        for (int64_t i = 0; i < COUNT(counts); i++) {
            const int64_t count = counts[i], bytes = (count + 7) / 8;
            assert_int_equal(tg_rng_u32(a), tg_rng_u32(b)); /* and a pair of outputs in two blocks */
            tg_rng_bernoulli(a, values, count, 0.3);
            memset(bits, 0xaa, sizeof bits);
            tg_rng_bernoulli_bits(b, bits, count, 0.3);
            for (int64_t k = 0; k < 8 * bytes; k++) {
                assert_int_equal(bits[k / 8] >> k % 8 & 1, k < count ? values[k] : 0);
            }
            assert_int_equal(bits[bytes], 0xaa);
            assert_int_equal(tg_rng_position(a), tg_rng_position(b));
        }
        assert_int_equal(tg_rng_u64(a), tg_rng_u64(b));
        tg_rng_free(a);
        tg_rng_free(b);
    }
    assert_true(tg_set_threads(1, NULL));
}

static void test_exponential(void **state)
{
    (void)state;
    static double values[70001];
    stream f32 = stream_of(4), f64 = stream_of(8);
    tg_rng *a = tg_rng_new(123), *b = tg_rng_new(123);
    for (int i = 0; i < 2; i++) {
        float *rounded = stream_extend(&f32, 70001);
        tg_rng_exponential_f64(a, values, 70001, i == 0 ? 1.0 : 0.7);
        for (int k = 0; k < 70001; k++) {
            rounded[k] = (float)values[k];
        }
        tg_rng_exponential_f64(b, stream_extend(&f64, 70001), 70001, i == 0 ? 1.0 : 0.7);
    }
    check_stream(f32, "exponential_f32", true, 1, 0);
    /* the product with 1/lambda rounds again */
    check_stream(f64, "exponential_f64", true, 2, 0);
    tg_rng_free(a);
    tg_rng_free(b);
}

static void test_versions_agree(void **state)
{
    (void)state;
    static tg_uniform_loop *const uniform[] = {TG_EACH_LEVEL(avx2, tg_uniform_values)};
    static tg_normal_loop *const normal[] = {TG_EACH_LEVEL(avx2, tg_normal_values)};
    static tg_bernoulli_loop *const bernoulli[] = {TG_EACH_LEVEL(avx2, tg_bernoulli_values)};
    enum { COUNT_OF_VALUES = 160000 + 16 };
    uint32_t *outputs = malloc(COUNT_OF_VALUES * sizeof *outputs);
    float *a = malloc(COUNT_OF_VALUES * sizeof *a), *b = malloc(COUNT_OF_VALUES * sizeof *b);
    assert_true(outputs && a && b);
    tg_rng *rng = tg_rng_new(5);
    tg_rng_draw(rng, outputs, COUNT_OF_VALUES);
    /* both ends of [0,1): ln(1) and ln(2^-24), angles 0 and almost 2 pi */
    outputs[0] = outputs[8] = 0;
    outputs[1] = outputs[9] = 0xffffff;
    for (int level = 1; level <= tg_level_highest(); level++) {
        uniform[0](outputs, a, COUNT_OF_VALUES, -0.1F, 0.37F);
        uniform[level](outputs, b, COUNT_OF_VALUES, -0.1F, 0.37F);
        assert_memory_equal(a, b, COUNT_OF_VALUES * sizeof *a);
        memset(a, 2, COUNT_OF_VALUES);
        memset(b, 3, COUNT_OF_VALUES);
        bernoulli[0](outputs, (uint8_t *)a, COUNT_OF_VALUES / 2, 0.9);
        bernoulli[level](outputs, (uint8_t *)b, COUNT_OF_VALUES / 2, 0.9);
        assert_memory_equal(a, b, COUNT_OF_VALUES / 2);
        uniform[0](outputs, a, COUNT_OF_VALUES, 0, 1);
        memcpy(b, a, COUNT_OF_VALUES * sizeof *a);
        normal[0](a, COUNT_OF_VALUES, 0.3F, 1.7F);
        normal[level](b, COUNT_OF_VALUES, 0.3F, 1.7F);
        assert_memory_equal(a, b, COUNT_OF_VALUES * sizeof *a);
        assert_true(a[0] == 0.3F && fabsf(a[1]) > 5);
    }
    tg_rng_free(rng);
    free(outputs);
    free(a);
    free(b);
}

/* Without libm: floats as in TG_RNG_AVX2, and doubles within 4 ulps of them. */
static void test_portable(void **state)
{
    (void)state;
    enum { DRAWS = 1000 };
    static float f32[2][DRAWS];
    static double f64[2][2 * DRAWS];
    for (int k = 0; k < 2; k++) {
        tg_rng *rng = rng_of(5, k ? TG_RNG_PORTABLE : TG_RNG_AVX2);
        tg_rng_normal_f32(rng, f32[k], DRAWS, 0.3, 1.7);
        for (int i = 0; i < DRAWS; i++) {
            tg_rng_normal_f64(rng, f64[k] + i, 1, 0, 1);
        }
        tg_rng_exponential_f64(rng, f64[k] + DRAWS, DRAWS, 0.7);
        tg_rng_normal_f64(rng, f64[k], DRAWS / 2, 0, 1);
        tg_rng_free(rng);
    }
    assert_memory_equal(f32[0], f32[1], sizeof f32[0]);
    for (int i = 0; i < 2 * DRAWS; i++) {
        assert_true(fabs(f64[0][i] - f64[1][i]) <= 0x1p-50 * fabs(f64[0][i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform),   cmocka_unit_test(test_normal),         cmocka_unit_test(test_integers),
        cmocka_unit_test(test_bernoulli), cmocka_unit_test(test_bits),           cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_portable),  cmocka_unit_test(test_versions_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
