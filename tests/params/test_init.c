/* Initial values against torch.nn.init: the same bits, and the same position of the generator after them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "support.h"

#define MOST 128

typedef struct init_golden {
    unsigned long long after, bits[MOST];
    int count;
} init_golden;

static init_golden read_golden(const char *name, tg_dtype dtype)
{
    FILE *file = fopen(TG_TEST_GOLDENS "/optim/inits.txt", "r");
    assert_non_null(file);
    init_golden g;
    char case_name[64], case_dtype[8];
    bool found = false;
    while (!found && fscanf(file, "%63s %7s %llu %d", case_name, case_dtype, &g.after, &g.count) == 4) {
        assert_in_range(g.count, 1, MOST);
        for (int i = 0; i < g.count; i++) {
            assert_int_equal(fscanf(file, "%llx", &g.bits[i]), 1);
        }
        found = strcmp(case_name, name) == 0 && strcmp(case_dtype, tg_dtype_name(dtype)) == 0;
    }
    fclose(file);
    assert_true(found);
    return g;
}

static double as_double(unsigned long long bits, tg_dtype dtype)
{
    double value;
    if (dtype == TG_F32) {
        uint32_t low = (uint32_t)bits;
        float single;
        memcpy(&single, &low, sizeof single);
        return (double)single;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

typedef bool fill(tg_tensor *x, tg_rng *rng, tg_error *error);

/* `ulps`: 0 asks for the same bits. Normals of f64 go through libm, which may differ in the last bits between machines;
 * f32 normals below 16 values too, but are rounded from double. */
static void check(const char *name, tg_shape shape, fill *call, double ulps)
{
    for (int dtype = TG_F32; dtype <= TG_F64; dtype++) {
        init_golden want = read_golden(name, (tg_dtype)dtype);
        tg_rng *rng = tg_rng_new(7);
        tg_tensor *x = tg_tensor_new((tg_dtype)dtype, shape, NULL);
        tg_error error = TG_NO_ERROR;
        if (!call(x, rng, &error)) {
            fail_msg("%s: %s", name, error.text);
        }
        assert_int_equal(tg_tensor_count(x), want.count);
        for (int i = 0; i < want.count; i++) {
            double expected = as_double(want.bits[i], (tg_dtype)dtype);
            double tolerance = dtype == TG_F64 ? ulps * 0x1p-52 * fmax(fabs(expected), 0.25) : 0;
            if (!(fabs(tg_tensor_value_at(x, i) - expected) <= tolerance)) {
                fail_msg("%s %s: value %d is %.17g, not %.17g", name, tg_dtype_name((tg_dtype)dtype), i,
                         tg_tensor_value_at(x, i), expected);
            }
        }
        assert_true(tg_rng_int64(rng) == want.after);
        tg_release(x);
        tg_rng_free(rng);
    }
}

static bool xavier_uniform(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_xavier_uniform(x, rng, 1.5, error);
}

static bool xavier_normal(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_xavier_normal(x, rng, 1, error);
}

static bool kaiming_uniform_in(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_kaiming_uniform(x, rng, sqrt(5.0), TG_FAN_IN, error);
}

static bool kaiming_uniform_out(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_kaiming_uniform(x, rng, 0.2, TG_FAN_OUT, error);
}

static bool kaiming_normal_in(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_kaiming_normal(x, rng, 0, TG_FAN_IN, error);
}

static bool kaiming_normal_out(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_kaiming_normal(x, rng, 0, TG_FAN_OUT, error);
}

static bool trunc_default(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0, 1, -2, 2, error);
}

static bool trunc_cut(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0.5, 0.25, 0.2, 0.6, error);
}

static bool trunc_tail(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0, 1, 1, 3, error);
}

static bool trunc_few(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0, 1, -0.5, 0.7, error);
}

static void test_goldens(void **state)
{
    (void)state;
    check("xavier_uniform", TG_SHAPE(6, 4), xavier_uniform, 0);
    check("xavier_normal", TG_SHAPE(6, 4, 3), xavier_normal, 2);
    check("kaiming_uniform_in", TG_SHAPE(5, 7), kaiming_uniform_in, 0);
    check("kaiming_uniform_out", TG_SHAPE(5, 7), kaiming_uniform_out, 0);
    check("kaiming_normal_in", TG_SHAPE(3, 5), kaiming_normal_in, 2);
    check("kaiming_normal_out", TG_SHAPE(3, 5, 2), kaiming_normal_out, 2);
    check("trunc_default", TG_SHAPE(9, 11), trunc_default, 4);
    check("trunc_cut", TG_SHAPE(9, 11), trunc_cut, 4);
    check("trunc_tail", TG_SHAPE(9, 11), trunc_tail, 0);
    check("trunc_few", TG_SHAPE(2, 3), trunc_few, 4);
}

/* Every refusal draws nothing and leaves the values. */
static void refuse(fill *call, tg_tensor *x, tg_code code, const char *part)
{
    tg_rng *rng = tg_rng_new(7);
    tg_error error = TG_NO_ERROR;
    if (x) {
        tg_tensor_fill(x, 3, NULL);
    }
    assert_false(call(x, rng, &error));
    assert_error(&error, code, part);
    assert_int_equal(tg_rng_position(rng), 0);
    for (int64_t i = 0; x && i < tg_tensor_count(x); i++) {
        assert_true(tg_tensor_value_at(x, i) == 3);
    }
    tg_rng_free(rng);
}

static bool negative_gain(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_xavier_uniform(x, rng, -1, error);
}

static bool nan_slope(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_kaiming_normal(x, rng, (double)NAN, TG_FAN_IN, error);
}

static bool empty_cut(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0, 1, 2, -2, error);
}

static bool no_deviation(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0, 0, -2, 2, error);
}

/* high - low is infinite in float. */
static bool too_wide(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0, 1, -3e38, 3e38, error);
}

/* The square of 2e19 is infinite in float. */
static bool without_density(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    return tg_init_trunc_normal(x, rng, 0, 0.5, 1e19, 2e19, error);
}

static bool no_generator(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    (void)rng;
    return tg_init_trunc_normal(x, NULL, 0, 1, -2, 2, error);
}

static void test_refusals(void **state)
{
    (void)state;
    tg_tensor *matrix = tg_tensor_new(TG_F32, TG_SHAPE(3, 2), NULL), *vector = tg_tensor_new(TG_F32, TG_SHAPE(3), NULL);
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(3, 2), NULL);
    refuse(xavier_uniform, NULL, TG_ERROR_STATE, "init_xavier_uniform: the tensor is NULL");
    refuse(xavier_uniform, vector, TG_ERROR_SHAPE, "init_xavier_uniform: a tensor of rank 1 has no fans");
    refuse(kaiming_normal_in, vector, TG_ERROR_SHAPE, "init_kaiming_normal: a tensor of rank 1");
    refuse(kaiming_uniform_in, ids, TG_ERROR_DTYPE, "i32");
    refuse(negative_gain, matrix, TG_ERROR_VALUE, "init_xavier_uniform: gain -1; it must be finite and at least 0");
    refuse(nan_slope, matrix, TG_ERROR_VALUE, "init_kaiming_normal: a negative slope of ");
    refuse(trunc_default, NULL, TG_ERROR_STATE, "init_trunc_normal: the tensor is NULL");
    refuse(no_generator, matrix, TG_ERROR_STATE, "init_trunc_normal: the generator is NULL");
    refuse(trunc_default, ids, TG_ERROR_DTYPE, "init_trunc_normal: a i32 tensor; it must be contiguous f32 or f64");
    refuse(empty_cut, matrix, TG_ERROR_VALUE,
           "cut at 2 and -2; all must lie in [-1.70141e+38,1.70141e+38], the deviation above 0, and low < high");
    refuse(too_wide, matrix, TG_ERROR_VALUE, "cut at -3e+38 and 3e+38; all must lie in");
    refuse(without_density, matrix, TG_ERROR_VALUE,
           "cut at 1e+19 and 2e+19, which is 2e+19 standard deviations 0.5 away from the mean 0; that has no density");
    refuse(no_deviation, matrix, TG_ERROR_VALUE, "standard deviation 0");
    tg_release(matrix);
    tg_release(vector);
    tg_release(ids);
}

/* Tensors without values need no fans: nothing happens, as in torch. */
static void test_empty(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(7);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(4, 0), NULL);
    assert_true(tg_init_kaiming_uniform(x, rng, 0, TG_FAN_IN, NULL));
    assert_true(tg_init_xavier_normal(x, rng, 1, NULL));
    assert_true(tg_init_trunc_normal(x, rng, 0, 1, -2, 2, NULL));
    assert_int_equal(tg_rng_position(rng), 0);
    tg_release(x);
    tg_rng_free(rng);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(3, 2), NULL);
    size_t live = counting.live;
    for (size_t k = 1; k <= 2; k++) {
        tg_rng *rng = tg_rng_new(7);
        tg_error error = TG_NO_ERROR;
        allocator_arm(&counting, k, false);
        assert_false(tg_init_trunc_normal(x, rng, 0, 1, -2, 2, &error));
        allocator_arm(&counting, 0, false);
        assert_int_equal(error.code, TG_ERROR_MEMORY);
        assert_int_equal(tg_rng_position(rng), 0);
        tg_rng_free(rng);
        assert_int_equal(counting.live, live);
    }
    tg_release(x);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
