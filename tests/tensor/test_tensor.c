/* Tensors: constructors, getters, fills, views, and their errors. */
#include "support.h"

#include <math.h>

#include "base/random.h"
#include "tensor/tensor.h"

static void test_constructors(void **state)
{
    (void)state;
    tg_tensor *x = tg_tensor_new_full(TG_I32, TG_SHAPE(2, 3), 7.9, NULL);
    assert_values(x, (double[]){7, 7, 7, 7, 7, 7}, 6, 0, 0);
    assert_int_equal(tg_tensor_size(x, -1), 3);
    assert_int_equal(tg_tensor_size(x, 2), 0);
    assert_int_equal(tg_tensor_size(x, -3), 0);
    assert_int_equal(tg_tensor_stride(x, 2), 0);
    assert_int_equal(tg_tensor_stride(x, 0), 3);
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
    assert_true(isnan(tg_tensor_value_at(x, 4)) && isnan(tg_tensor_value_at(x, -1)));
    tg_release(x);
    tg_release(cast);
}

/* Values of bf16 are the upper halves of floats. A conversion rounds to nearest, ties to even. */
static void test_bf16(void **state)
{
    (void)state;
    assert_string_equal(tg_dtype_name(TG_BF16), "bf16");
    assert_string_equal(tg_dtype_name((tg_dtype)(TG_BF16 + 1)), "unknown");
    assert_int_equal(tg_dtype_size(TG_BF16), 2);
    assert_int_equal(tg_dtype_size((tg_dtype)(TG_BF16 + 1)), 0);
    /* 1 + 2^-8 and 1 + 3 2^-8 are ties; 1 + 2^-8 + 2^-20 is above one, and 3.4e38 rounds to infinity */
    const float values[] = {0.5f, -2, 1.00390625f, 1.01171875f, 1.0039072f, 3.4e38f, NAN};
    tg_tensor *x = tensor_f32(TG_SHAPE(7), values), *half = tg_tensor_new_cast(x, TG_BF16, NULL);
    assert_values(half, (double[]){0.5, -2, 1, 1.015625, 1.0078125, (double)INFINITY, (double)NAN}, 7, 0, 0);
    assert_memory_equal(tg_tensor_data(half), ((uint16_t[]){0x3f00, 0xc000, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0x7fc0}),
                        14);
    tg_tensor *back = tg_tensor_new_cast(half, TG_F64, NULL), *ids = tg_tensor_new_cast(half, TG_I32, NULL);
    assert_values(back, (double[]){0.5, -2, 1, 1.015625, 1.0078125, (double)INFINITY, (double)NAN}, 7, 0, 0);
    assert_values(ids, (double[]){0, -2, 1, 1, 1, INT32_MAX, 0}, 7, 0, 0);
    /* copies move 2 bytes for each value */
    tg_tensor *copy = tg_tensor_new_copy(half, NULL), *full = tg_tensor_new_full(TG_BF16, TG_SHAPE(3, 2), 0.1, NULL);
    assert_memory_equal(tg_tensor_data(copy), tg_tensor_data(half), 14);
    assert_values(full,
                  (double[]){0.10009765625, 0.10009765625, 0.10009765625, 0.10009765625, 0.10009765625, 0.10009765625},
                  6, 0, 0);
    tg_tensor *column = tg_tensor_new_from(TG_BF16, TG_SHAPE(3, 1), (uint16_t[]){0x3f80, 0x4000, 0x4040}, NULL);
    assert_true(tg_tensor_copy_from(full, column, NULL));
    assert_values(full, (double[]){1, 1, 2, 2, 3, 3}, 6, 0, 0);
    tg_error error = TG_NO_ERROR;
    assert_false(tg_tensor_copy_from(full, x, &error));
    assert_error(&error, TG_ERROR_DTYPE, "bf16");
    assert_false(tg_tensor_set_requires_grad(half, true, &error));
    assert_error(&error, TG_ERROR_DTYPE, "the tensor is bf16; it must be f32 or f64");
    tg_rng *rng = tg_rng_new(1);
    assert_false(tg_tensor_fill_normal(half, rng, 0, 1, &error));
    assert_error(&error, TG_ERROR_DTYPE, "the tensor is bf16; it must be f32 or f64");
    assert_false(tg_tensor_fill_randint(half, rng, -257, 256, &error));
    assert_error(&error, TG_ERROR_VALUE, "a bf16 tensor allows low < high within [-256,256]");
    assert_true(tg_tensor_fill_randint(half, rng, 256, 257, NULL));
    assert_values(half, (double[]){256, 256, 256, 256, 256, 256, 256}, 7, 0, 0);
    assert_false(tg_tensor_resize_rows(full, 2, &error));
    assert_error(&error, TG_ERROR_DTYPE, "the tensor is bf16; it must be f32 or f64");
    tg_rng_free(rng);
    tg_tensor *all[] = {x, half, back, ids, copy, full, column};
    for (int i = 0; i < 7; i++) {
        tg_release(all[i]);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_null(tg_tensor_new(TG_F32, TG_SHAPE(2, -3), &error));
    assert_error(&error, TG_ERROR_SHAPE, "size -3 of axis 1 in (2,-3) is negative");
    /* 2^32 + 1 values: a size of 32 bits cuts it to 1 */
    if (SIZE_MAX == UINT32_MAX) {
        assert_null(tg_tensor_new(TG_U8, TG_SHAPE(((int64_t)1 << 32) + 1), &error));
        assert_error(&error, TG_ERROR_SHAPE, "more values than memory can hold");
    }
    assert_null(tg_tensor_new(TG_F32, TG_SHAPE(INT64_MAX, INT64_MAX, 0), &error));
    assert_error(&error, TG_ERROR_SHAPE, "more values than memory can hold");
    assert_null(tg_tensor_new(TG_F32, tg_shape_make(9, (int64_t[9]){0}), &error));
    assert_error(&error, TG_ERROR_SHAPE, "rank 9 is outside [0,8]");
    assert_null(tg_tensor_new((tg_dtype)9, TG_SHAPE(1), &error));
    assert_error(&error, TG_ERROR_DTYPE, "9 is not a dtype");
    assert_null(tg_tensor_new_arange(TG_F32, 0, 1, 0, &error));
    assert_error(&error, TG_ERROR_VALUE, "steps of 0; all must be finite, and the step must lead towards the end");
    assert_null(tg_tensor_new_from(TG_F32, TG_SHAPE(1), NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "NULL");
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 2});
    assert_false(tg_tensor_set_requires_grad(ids, true, &error));
    assert_error(&error, TG_ERROR_DTYPE, "the tensor is i32; it must be f32 or f64");
    tg_rng *rng = tg_rng_new(1);
    assert_false(tg_tensor_fill_normal(ids, rng, 0, 1, &error));
    assert_error(&error, TG_ERROR_DTYPE, "tensor_fill_normal: the tensor is i32; it must be f32 or f64");
    assert_false(tg_tensor_fill_randint(ids, rng, 3, 3, &error));
    assert_error(&error, TG_ERROR_VALUE, "[3,3)");
    assert_false(tg_tensor_fill_bernoulli(ids, rng, NAN, &error));
    assert_error(&error, TG_ERROR_VALUE, "outside [0,1]");
    /* nothing was drawn */
    assert_int_equal(tg_rng_position(rng), 0);
    tg_rng_free(rng);
    tg_release(ids);
}

/* A strided view is filled in the order of its own shape, and writing moves the storage's version on. */
static void test_fills_go_through_views(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(2, 3), NULL);
    uint64_t version = tg_storage_version(x);
    tg_tensor *turned = tg_transpose(t, x, 0, 1);
    assert_true(tg_tensor_fill_from(turned, (double[]){1, 2, 3, 4, 5, 6}, NULL));
    assert_values(x, (double[]){1, 3, 5, 2, 4, 6}, 6, 0, 0);
    assert_true(tg_storage_version(x) > version);
    tg_tensor *middle = tg_slice(t, x, 1, 1, 2, 1);
    assert_true(tg_tensor_fill(middle, -1, NULL));
    assert_values(x, (double[]){1, -1, 5, 2, -1, 6}, 6, 0, 0);
    tg_rng *rng = tg_rng_new(5), *same = tg_rng_new(5);
    double drawn[6];
    assert_true(tg_tensor_fill_uniform(turned, rng, 0, 1, NULL));
    tg_rng_uniform_f64(same, drawn, 6, 0, 1);
    assert_values(x, drawn, 6, 0, 0); /* in the order of the memory */
    tg_tensor *detached = tg_detach(t, x);
    ((double *)tg_tensor_data_mut(detached))[0] = 42;
    assert_true(tg_tensor_value_at(x, 0) == 42);
    tg_rng_free(rng);
    tg_rng_free(same);
    tg_release(x);
    tg_tape_free(t);
}

static void test_item(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *scalar = tensor_f32(TG_SCALAR, (float[]){2.5F}),
              *byte = tg_tensor_new_full(TG_U8, TG_SHAPE(1, 1), 200, NULL);
    tg_tensor *two = tensor_f64(TG_SHAPE(2), (double[]){3, 4}), *none = tg_tensor_new(TG_F64, TG_SHAPE(0, 2), NULL);
    assert_true(tg_tensor_item(scalar, &error) == 2.5);
    assert_true(tg_tensor_item(byte, &error) == 200);
    assert_true(tg_tensor_item(tg_select(t, two, 0, 1), &error) == 4);
    assert_int_equal(error.code, TG_OK);
    assert_true(isnan(tg_tensor_item(two, &error)));
    assert_error(&error, TG_ERROR_SHAPE, "tensor_item: shape (2,) has 2 values; it must have exactly one");
    assert_true(isnan(tg_tensor_item(none, &error)));
    assert_error(&error, TG_ERROR_SHAPE, "tensor_item: shape (0,2) has 0 values");
    assert_true(isnan(tg_tensor_item(NULL, &error)));
    assert_error(&error, TG_ERROR_STATE, "tensor_item: the tensor is NULL");
    assert_true(isnan(tg_tensor_item(two, NULL)));
    tg_release(scalar);
    tg_release(byte);
    tg_release(two);
    tg_release(none);
    tg_tape_free(t);
}

static void test_copy_from(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tensor_f32(TG_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6});
    tg_tensor *row = tensor_f32(TG_SHAPE(3), (float[]){7, 8, 9}),
              *column = tensor_f32(TG_SHAPE(2, 1), (float[]){-1, -2});
    tg_tensor *wide = tensor_f64(TG_SHAPE(2, 3), (double[6]){0}), *pair = tensor_f32(TG_SHAPE(2), (float[]){1, 2});
    tg_tensor *higher = tensor_f32(TG_SHAPE(1, 2, 3), (float[6]){0});
    uint64_t version = tg_storage_version(x), source = tg_storage_version(row);
    assert_true(tg_tensor_copy_from(x, row, &error));
    assert_values(x, (double[]){7, 8, 9, 7, 8, 9}, 6, 0, 0);
    assert_true(tg_storage_version(x) > version);
    assert_true(tg_storage_version(row) == source);
    assert_true(tg_tensor_copy_from(x, column, &error));
    assert_values(x, (double[]){-1, -1, -1, -2, -2, -2}, 6, 0, 0);
    /* into a view, from a view: the last two columns of x */
    tg_tensor *last = tg_slice(t, x, 1, 1, 3, 1), *turned = tg_transpose(t, last, 0, 1);
    tg_tensor *pairs = tensor_f32(TG_SHAPE(2, 2), (float[]){7, 8, 8, 9});
    assert_true(tg_tensor_copy_from(last, pairs, &error));
    assert_values(x, (double[]){-1, 7, 8, -2, 8, 9}, 6, 0, 0);
    assert_true(tg_tensor_fill_from(pairs, (float[]){1, 2, 3, 4}, &error) &&
                tg_tensor_copy_from(turned, pairs, &error));
    assert_values(x, (double[]){-1, 1, 3, -2, 2, 4}, 6, 0, 0);
    assert_true(tg_tensor_fill(pairs, 0, &error) && tg_tensor_copy_from(pairs, turned, &error));
    assert_values(pairs, (double[]){1, 2, 3, 4}, 4, 0, 0);
    /* onto itself */
    assert_true(tg_tensor_copy_from(x, x, &error) && tg_tensor_copy_from(turned, turned, &error));
    assert_values(x, (double[]){-1, 1, 3, -2, 2, 4}, 6, 0, 0);

    version = tg_storage_version(x);
    assert_false(tg_tensor_copy_from(x, wide, &error));
    assert_error(&error, TG_ERROR_DTYPE, "tensor_copy_from: the tensor is f32 and the source f64");
    assert_false(tg_tensor_copy_from(x, pair, &error));
    assert_error(&error, TG_ERROR_SHAPE, "tensor_copy_from: shape (2,) does not broadcast to (2,3)");
    assert_false(tg_tensor_copy_from(x, higher, &error));
    assert_error(&error, TG_ERROR_SHAPE, "tensor_copy_from: shape (1,2,3) does not broadcast to (2,3)");
    assert_false(tg_tensor_copy_from(row, x, &error));
    assert_error(&error, TG_ERROR_SHAPE, "tensor_copy_from: shape (2,3) does not broadcast to (3,)");
    assert_false(tg_tensor_copy_from(NULL, x, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_copy_from: the target is NULL");
    assert_false(tg_tensor_copy_from(x, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_copy_from: the source is NULL");
    assert_values(x, (double[]){-1, 1, 3, -2, 2, 4}, 6, 0, 0);
    assert_true(tg_storage_version(x) == version);
    tg_tape_free(t);
    tg_release(x);
    tg_release(row);
    tg_release(column);
    tg_release(wide);
    tg_release(pair);
    tg_release(higher);
    tg_release(pairs);
}

/* Copies of a view are contiguous, in its shape, with storage of their own and without history. */
static void test_copies_of_views(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2, 3), (double[]){1.9, 2, 3, 4, 5, -6.9}));
    tg_tensor *turned = tg_transpose(t, x, 0, 1);
    tg_tensor *copy = tg_tensor_new_copy(turned, NULL), *cast = tg_tensor_new_cast(turned, TG_I32, NULL);
    assert_true(tg_tensor_fill(x, 0, NULL));
    assert_values(copy, (double[]){1.9, 4, 2, 5, 3, -6.9}, 6, 0, 0);
    assert_values(cast, (double[]){1, 4, 2, 5, 3, -6}, 6, 0, 0);
    assert_true(tg_tensor_is_contiguous(copy) && tg_tensor_is_contiguous(cast));
    assert_false(tg_tensor_is_contiguous(turned));
    assert_true(tg_shape_equal(tg_tensor_shape(copy), TG_SHAPE(3, 2)));
    assert_false(tg_tensor_requires_grad(copy));
    assert_int_equal(tg_tensor_dtype(cast), TG_I32);
    tg_tape_free(t);
    tg_release(x);
    tg_release(copy);
    tg_release(cast);
}

static void test_null(void **state)
{
    (void)state;
    assert_int_equal(tg_tensor_rank(NULL), 0);
    assert_int_equal(tg_tensor_size(NULL, 0), 0);
    assert_int_equal(tg_tensor_stride(NULL, 0), 0);
    assert_int_equal(tg_tensor_count(NULL), 0);
    assert_false(tg_tensor_is_contiguous(NULL));
    assert_null(tg_tensor_data(NULL));
    assert_null(tg_tensor_data_mut(NULL));
    assert_true(isnan(tg_tensor_value_at(NULL, 0)));
    assert_false(tg_tensor_requires_grad(NULL));
    assert_int_equal(tg_tensor_grad_kind(NULL), TG_GRAD_NONE);
    assert_null(tg_tensor_grad(NULL));
    assert_int_equal(tg_tensor_grad_rows(NULL).count, 0);
    assert_null(tg_retain(NULL));
    tg_release(NULL);
    tg_tensor_zero_grad(NULL);
    assert_string_equal(tg_dtype_name((tg_dtype)7), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constructors),           cmocka_unit_test(test_bf16), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fills_go_through_views), cmocka_unit_test(test_item), cmocka_unit_test(test_copy_from),
        cmocka_unit_test(test_copies_of_views),        cmocka_unit_test(test_null),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
