/* Tensors: making, looking, filling, sharing; and what they refuse. */
#include "support.h"

#include <math.h>

static void test_making(void **state)
{
    (void)state;
    tg_tensor *x = tg_tensor_new_full(TG_I32, TG_SHAPE(2, 3), 7.9, NULL);
    assert_values(x, (double[]){7, 7, 7, 7, 7, 7}, 6, 0, 0);
    assert_int_equal(tg_size(x, -1), 3);
    assert_int_equal(tg_size(x, 2), -1);
    assert_int_equal(tg_stride(x, 0), 3);
    tg_release(x);
    x = tg_tensor_new_arange(TG_F64, 1, 2, 0.25, NULL);
    assert_values(x, (double[]){1, 1.25, 1.5, 1.75}, 4, 0, 0);
    tg_release(x);
    x = tg_tensor_new_arange(TG_I32, 3, -3, -2, NULL);
    assert_values(x, (double[]){3, 1, -1}, 3, 0, 0);
    tg_release(x);
    x = tensor_f64(TG_SHAPE(4), (double[]){NAN, 1e20, -1e20, -2.7});
    tg_tensor *cast = tg_tensor_new_cast(x, TG_I32, NULL);
    assert_values(cast, (double[]){0, INT32_MAX, INT32_MIN, -2}, 4, 0, 0);
    assert_true(isnan(tg_value_at(x, 4)) && isnan(tg_value_at(x, -1)));
    tg_release(x);
    tg_release(cast);
}

static void test_refusals(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_null(tg_tensor_new(TG_F32, TG_SHAPE(2, -3), &error));
    assert_error(&error, TG_ERROR_SHAPE, "size -3 of axis 1 in (2,-3) is negative");
    assert_null(tg_tensor_new(TG_F32, TG_SHAPE(INT64_MAX, INT64_MAX, 0), &error));
    assert_error(&error, TG_ERROR_SHAPE, "more values than memory can hold");
    assert_null(tg_tensor_new(TG_F32, tg_shape_make(9, (int64_t[9]){0}), &error));
    assert_error(&error, TG_ERROR_SHAPE, "rank 9 is outside of 0..8");
    assert_null(tg_tensor_new((tg_dtype)9, TG_SHAPE(1), &error));
    assert_error(&error, TG_ERROR_DTYPE, "9 is not a dtype");
    assert_null(tg_tensor_new_arange(TG_F32, 0, 1, 0, &error));
    assert_error(&error, TG_ERROR_VALUE, "steps of 0");
    assert_null(tg_tensor_new_from(TG_F32, TG_SHAPE(1), NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "NULL");
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 2});
    assert_false(tg_set_requires_grad(ids, true, &error));
    assert_error(&error, TG_ERROR_DTYPE, "i32 tensors have no gradient");
    tg_rng *rng = tg_rng_new(1);
    assert_false(tg_fill_normal(ids, rng, 0, 1, &error));
    assert_error(&error, TG_ERROR_DTYPE, "a i32 tensor");
    assert_false(tg_fill_randint(ids, rng, 3, 3, &error));
    assert_error(&error, TG_ERROR_VALUE, "[3,3)");
    assert_false(tg_fill_bernoulli(ids, rng, NAN, &error));
    assert_error(&error, TG_ERROR_VALUE, "outside [0,1]");
    assert_int_equal(tg_rng_position(rng), 0); /* nothing was drawn */
    tg_rng_free(rng);
    tg_release(ids);
}

/* A strided view is filled in the order of its own shape, and writing moves the storage's version on. */
static void test_fills_go_through_views(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(2, 3), NULL);
    uint64_t version = tg_version_of(x);
    tg_tensor *turned = tg_transpose(t, x, 0, 1);
    assert_true(tg_fill_from(turned, (double[]){1, 2, 3, 4, 5, 6}, NULL));
    assert_values(x, (double[]){1, 3, 5, 2, 4, 6}, 6, 0, 0);
    assert_true(tg_version_of(x) > version);
    tg_tensor *middle = tg_slice(t, x, 1, 1, 2, 1);
    assert_true(tg_fill(middle, -1, NULL));
    assert_values(x, (double[]){1, -1, 5, 2, -1, 6}, 6, 0, 0);
    tg_rng *rng = tg_rng_new(5), *same = tg_rng_new(5);
    double drawn[6];
    assert_true(tg_fill_uniform(turned, rng, 0, 1, NULL));
    tg_rng_uniform_f64(same, drawn, 6, 0, 1);
    assert_values(turned, drawn, 6, 0, 0);
    tg_tensor *detached = tg_tensor_new_detached(x, NULL);
    ((double *)tg_data_mut(detached))[0] = 42;
    assert_true(tg_value_at(x, 0) == 42);
    tg_release(detached);
    tg_rng_free(rng);
    tg_rng_free(same);
    tg_release(x);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_making),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fills_go_through_views),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
