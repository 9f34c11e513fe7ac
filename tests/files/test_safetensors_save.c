/* tg_safetensors_save: the bytes of the reference for every dtype and rank, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

static const char path[] = "test_safetensors_save.safetensors";
static const char golden[] = TG_TEST_GOLDENS "/io/every.safetensors";

/* Requires that two files have the same bytes. */
static void assert_same_file(const char *a, const char *b)
{
    size_t length, other_length;
    char *bytes = tg_text_read(a, &length, NULL), *other = tg_text_read(b, &other_length, NULL);
    assert_int_equal(length, other_length);
    assert_memory_equal(bytes, other, length);
    tg_text_free(bytes);
    tg_text_free(other);
}

/* Every dtype in the ranks 0 to 8 is read, written in the reverse order, and equal to the reference's file. */
static void test_every_dtype_and_rank(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_named_tensor tensors[8 * 9];
    tg_safetensors_list *list = tg_safetensors_list_new(golden, &error);
    assert_non_null(list);
    assert_int_equal(list->count, 8 * 9);
    for (int64_t i = 0; i < list->count; i++) {
        const tg_safetensors_item *item = &list->items[i];
        tg_tensor *x = tg_tensor_new_from_safetensors(golden, item->name, &error);
        assert_non_null(x);
        tensors[list->count - 1 - i] = (tg_named_tensor){item->name, x, item->dtype};
    }
    assert_true(tg_safetensors_save(path, tensors, list->count, &error));
    assert_same_file(path, golden);
    for (int64_t i = 0; i < list->count; i++) {
        tg_release((tg_tensor *)tensors[i].tensor);
    }
    tg_safetensors_list_free(list);
    remove(path);
}

/* Without a dtype a tensor has its own. A view is written as its copy would be. */
static void test_own_dtypes_and_views(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    for (int i = 0; i < 4; i++) {
        tg_tape *tape = tg_tape_new(NULL, NULL);
        tg_tensor *x = tg_tensor_new_cast(tg_constant(tape, TG_F32, TG_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6}),
                                          dtypes[i], &error);
        const tg_named_tensor tensors[] = {{.name = "x", .tensor = x},
                                           {.name = "view", .tensor = tg_transpose(tape, x, 0, 1)}};
        assert_true(tg_safetensors_save(path, tensors, 2, &error));
        tg_tensor *read = tg_tensor_new_from_safetensors(path, "view", &error);
        assert_int_equal(tg_tensor_dtype(read), dtypes[i]);
        assert_int_equal(tg_tensor_size(read, 0), 3);
        for (int64_t k = 0; k < 6; k++) {
            assert_true(tg_tensor_value_at(read, k) == (double)(1 + k / 2 + k % 2 * 3));
        }
        tg_release(read);
        tg_release(x);
        tg_tape_free(tape);
    }
    remove(path);
}

static void test_rounding_and_truth(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    /* each value is halfway between two values of BF16 or F16, or between the largest and infinity */
    const float floats[] = {1 + 0x1p-8f, 1 + 0x3p-8f, 65520};
    const unsigned char bytes[] = {0, 1, 255};
    tg_tensor *x = tg_tensor_new_from(TG_F32, TG_SHAPE(3), floats, &error);
    tg_tensor *mask = tg_tensor_new_from(TG_U8, TG_SHAPE(3), bytes, &error);
    const tg_named_tensor tensors[] = {{"f16", x, "F16"}, {"bf16", x, "BF16"}, {"mask", mask, "BOOL"}};
    assert_true(tg_safetensors_save(path, tensors, 3, &error));
    tg_tensor *f16 = tg_tensor_new_from_safetensors(path, "f16", &error);
    tg_tensor *bf16 = tg_tensor_new_from_safetensors(path, "bf16", &error);
    tg_tensor *truth = tg_tensor_new_from_safetensors(path, "mask", &error);
    assert_true(tg_tensor_value_at(bf16, 0) == 1 && tg_tensor_value_at(bf16, 1) == 1 + 0x1p-6);
    assert_true(tg_tensor_value_at(f16, 0) == 1 + 0x1p-8 && tg_tensor_value_at(f16, 2) == (double)INFINITY);
    assert_true(tg_tensor_value_at(truth, 0) == 0 && tg_tensor_value_at(truth, 1) == 1 &&
                tg_tensor_value_at(truth, 2) == 1);
    tg_tensor *all[] = {x, mask, f16, bf16, truth};
    for (int i = 0; i < 5; i++) {
        tg_release(all[i]);
    }
    remove(path);
}

static void test_empty(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_true(tg_safetensors_save(path, NULL, 0, &error));
    tg_safetensors_list *list = tg_safetensors_list_new(path, &error);
    assert_int_equal(list->count, 0);
    tg_safetensors_list_free(list);
    remove(path);
}

/* The old file stays after every error. */
static void test_errors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2), NULL), *d = tg_tensor_new(TG_F64, TG_SHAPE(2), NULL);
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SCALAR, NULL), *mask = tg_tensor_new(TG_U8, TG_SCALAR, NULL);
    tg_tape_config config = tg_tape_config_default();
    config.detect_freed_results = true;
    tg_tape *tape = tg_tape_new(NULL, &config);
    tg_tensor *freed = tg_relu(tape, x);
    tg_tape_reset(tape);
    assert_true(tg_safetensors_save(path, (tg_named_tensor[]){{"x", x, NULL}}, 1, &error));
    const struct {
        tg_named_tensor bad;
        tg_code code;
        const char *text;
    } rows[] = {
        {{"x", x, NULL}, TG_ERROR_VALUE, "safetensors_save: two tensors have the name 'x'"},
        {{NULL, x, NULL}, TG_ERROR_STATE, "safetensors_save: the name of tensor 1 is NULL"},
        {{"a", NULL, NULL}, TG_ERROR_STATE, "safetensors_save: the tensor 1 is NULL"},
        {{"a", freed, NULL}, TG_ERROR_STATE, "the tensor 1 is a result of 'relu' from generation 1 of its tape"},
        {{"__metadata__", x, NULL}, TG_ERROR_VALUE, "a tensor cannot have the name '__metadata__'"},
        {{"a\xff", x, NULL}, TG_ERROR_VALUE, "is not UTF-8 at byte 1"},
        {{"a", x, "I64"},
         TG_ERROR_DTYPE,
         "safetensors_save: tensor 1, 'a': f32 cannot be written as 'I64'; the dtype must be F32, F16 or BF16"},
        {{"a", d, "F16"}, TG_ERROR_DTYPE, "f64 cannot be written as 'F16'; the dtype must be F64"},
        {{"a", ids, "U8"}, TG_ERROR_DTYPE, "i32 cannot be written as 'U8'; the dtype must be I32 or I64"},
        {{"a", ids, "I16"}, TG_ERROR_DTYPE, "i32 cannot be written as 'I16'; the dtype must be I32 or I64"},
        {{"a", mask, "I32"}, TG_ERROR_DTYPE, "u8 cannot be written as 'I32'; the dtype must be U8 or BOOL"},
        {{"a", x, "F8_E5M2"}, TG_ERROR_DTYPE, "f32 cannot be written as 'F8_E5M2'"},
        {{"a", x, "f32"}, TG_ERROR_DTYPE, "f32 cannot be written as 'f32'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tg_named_tensor tensors[] = {{"x", d, NULL}, rows[i].bad};
        tg_error_clear(&error);
        assert_false(tg_safetensors_save(path, tensors, 2, &error));
        assert_error(&error, rows[i].code, rows[i].text);
    }
    assert_false(tg_safetensors_save(path, NULL, 1, &error));
    assert_error(&error, TG_ERROR_STATE, "safetensors_save: the tensors are NULL");
    assert_false(tg_safetensors_save(path, NULL, -1, &error));
    assert_error(&error, TG_ERROR_VALUE, "safetensors_save: -1 tensors; it must be 0 or more");
    assert_false(tg_safetensors_save(NULL, NULL, 0, &error));
    assert_error(&error, TG_ERROR_STATE, "safetensors_save: the path is NULL");
    assert_false(tg_safetensors_save("nowhere/x", NULL, 0, &error));
    assert_error(&error, TG_ERROR_FILE, "nowhere/x");
    tg_tensor *read = tg_tensor_new_from_safetensors(path, "x", NULL);
    assert_int_equal(tg_tensor_dtype(read), TG_F32);
    tg_tensor *all[] = {x, d, ids, mask, read};
    for (int i = 0; i < 5; i++) {
        tg_release(all[i]);
    }
    tg_tape_free(tape);
    remove(path);
}

/* Allocation k fails, for every k: MEMORY, and nothing is left. */
static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2), NULL);
    const tg_named_tensor tensors[] = {{"x", x, NULL}, {"y", x, "F16"}};
    size_t live = counting.live;
    bool is_saved = false;
    for (size_t k = 1; !is_saved; k++) {
        tg_error error = TG_NO_ERROR;
        allocator_arm(&counting, k, false);
        is_saved = tg_safetensors_save(path, tensors, 2, &error);
        assert_true(is_saved || error.code == TG_ERROR_MEMORY);
        assert_int_equal(counting.live, live);
    }
    tg_release(x);
    allocator_restore();
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_and_rank),
        cmocka_unit_test(test_own_dtypes_and_views),
        cmocka_unit_test(test_rounding_and_truth),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("safetensors_save", tests, NULL, NULL);
}
