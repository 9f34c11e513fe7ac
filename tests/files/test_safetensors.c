/* safetensors files of the reference (tests/goldens/make_io.py): each dtype and rank is read, and a file that is
 * written here has the bytes that the reference writes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "math/half.h"
#include "files/safetensors.h"
#include "support.h"

static const char *golden(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/io/%s", TG_TEST_GOLDENS, name);
    return path;
}

static tg_safetensors *open_golden(const char *name)
{
    tg_error error = TG_NO_ERROR;
    tg_safetensors *f = tg_safetensors_open("test", golden(name), TG_SAFETENSORS_HEADER, &error);
    if (!f) {
        fail_msg("%s", error.text);
    }
    return f;
}

static double whole(int64_t k)
{
    return (double)(k * 7 % 23);
}

/* The value of make_io.py. */
static double golden_value(char kind, int64_t k)
{
    return kind == 'f' ? (whole(k) - 11) / 2 : kind == 'i' ? whole(k) - 11 : kind == 'u' ? whole(k) : k % 3 == 0;
}

static void assert_golden_values(const tg_tensor *x, char kind)
{
    for (int64_t k = 0; k < tg_tensor_count(x); k++) {
        assert_true(tg_tensor_value_at(x, k) == golden_value(kind, k));
    }
}

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        tg_dtype dtype;
        char kind;
    } readable[] = {{"F32", TG_F32, 'f'}, {"F64", TG_F64, 'f'}, {"F16", TG_F32, 'f'}, {"BF16", TG_F32, 'f'},
                    {"I64", TG_I32, 'i'}, {"I32", TG_I32, 'i'}, {"U8", TG_U8, 'u'},   {"BOOL", TG_U8, 'b'},
                    {"I8", TG_I32, 'i'},  {"I16", TG_I32, 'i'}, {"U16", TG_I32, 'u'}, {"U32", TG_I32, 'u'},
                    {"U64", TG_I32, 'u'}};
    static const char *const unreadable[] = {"C64", "F8_E4M3", "F8_E5M2"};
    tg_error error = TG_NO_ERROR;
    tg_safetensors *f = open_golden("dtypes.safetensors");
    assert_int_equal(tg_safetensors_count(f), 16 + 9 + 4);
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
        const tg_array *array = tg_safetensors_find(f, "", readable[i].name);
        tg_tensor *x = tg_array_read_new(array, &error);
        assert_int_equal(tg_tensor_dtype(x), readable[i].dtype);
        assert_true(tg_shape_equal(tg_tensor_shape(x), TG_SHAPE(2, 3)));
        assert_golden_values(x, readable[i].kind);
        tg_release(x);
    }
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        const tg_array *array = tg_safetensors_find(f, "", unreadable[i]);
        assert_string_equal(tg_stored_name(array->dtype), unreadable[i]);
        assert_null(tg_array_read_new(array, &error));
        char expected[80];
        snprintf(expected, sizeof expected, "'%s' is %s, which cannot be read", unreadable[i], unreadable[i]);
        assert_error(&error, TG_ERROR_DTYPE, expected);
    }
    tg_safetensors_close(f);
}

static void test_shapes_and_names(void **state)
{
    (void)state;
    tg_safetensors *f = open_golden("dtypes.safetensors");
    for (int rank = 0; rank <= 8; rank++) {
        char name[8];
        snprintf(name, sizeof name, "k%d", rank);
        tg_tensor *x = tg_array_read_new(tg_safetensors_find(f, "ran", name), NULL);
        assert_int_equal(tg_tensor_rank(x), rank);
        assert_int_equal(tg_tensor_count(x), 1 << rank);
        assert_golden_values(x, 'f');
        tg_release(x);
    }
    tg_tensor *empty = tg_array_read_new(tg_safetensors_find(f, "", "empty3"), NULL);
    assert_true(tg_shape_equal(tg_tensor_shape(empty), TG_SHAPE(2, 0, 3)));
    assert_int_equal(tg_tensor_dtype(empty), TG_I32);
    tg_release(empty);
    assert_non_null(tg_safetensors_find(f, "größe.", "重み.🙂"));
    assert_non_null(tg_safetensors_find(f, "", "quote \" backslash \\ newline \n bell \a"));
    assert_null(tg_safetensors_find(f, "rank", "9"));
    assert_null(tg_safetensors_find(f, "rank0", "x"));
    assert_null(tg_safetensors_find(f, "", "rank"));
    assert_string_equal(tg_safetensors_metadata(f, "format"), "pt");
    assert_null(tg_safetensors_metadata(f, "forma"));
    for (int64_t i = 1; i < tg_safetensors_count(f); i++) {
        assert_true(strcmp(tg_safetensors_at(f, i - 1)->name, tg_safetensors_at(f, i)->name) < 0);
    }
    assert_null(tg_safetensors_at(f, tg_safetensors_count(f)));
    tg_safetensors_close(f);
}

static void test_sharded(void **state)
{
    (void)state;
    static const int64_t counts[] = {6, 3, 4};
    static const char *const names[] = {"a", "b", "c"};
    tg_safetensors *f = open_golden("sharded.safetensors.index.json");
    assert_int_equal(tg_safetensors_count(f), 3);
    for (int i = 0; i < 3; i++) {
        tg_tensor *x = tg_array_read_new(tg_safetensors_find(f, "", names[i]), NULL);
        assert_int_equal(tg_tensor_count(x), counts[i]);
        assert_golden_values(x, 'f');
        tg_release(x);
    }
    tg_safetensors_close(f);
}

/* ---- 16-bit floats ---- */

/* The value of an F16 by the formula of IEEE 754. */
static double value_of_f16(unsigned half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double magnitude = exponent == 31  ? (mantissa ? (double)NAN : (double)INFINITY)
                       : exponent == 0 ? ldexp(mantissa, -24)
                                       : ldexp(1024 + mantissa, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static void test_every_half(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 65536; half++) {
        double expected = value_of_f16(half);
        float found = tg_from_f16((uint16_t)half);
        assert_true(isnan(expected) ? isnan(found)
                                    : (double)found == expected && !signbit(found) == !signbit(expected));
        assert_true(isnan(expected) ? (tg_to_f16(found) & 0x7fff) > 0x7c00 : tg_to_f16(found) == half);
        float brain = tg_from_bf16((uint16_t)half);
        assert_true(isnan(brain) ? (tg_to_bf16(brain) & 0x7fff) > 0x7f80 : tg_to_bf16(brain) == half);
    }
}

/* Saved as F16 and BF16, x has torch's x.half() and x.bfloat16(). */
static void test_rounding(void **state)
{
    (void)state;
    static const char *const names[] = {"half", "bfloat16"};
    tg_safetensors *f = open_golden("rounding.safetensors");
    tg_tensor *x = tg_array_read_new(tg_safetensors_find(f, "", "x"), NULL);
    assert_true(tg_tensor_count(x) > 3000);
    for (int i = 0; i < 2; i++) {
        const tg_tensor *expected = tg_array_read_new(tg_safetensors_find(f, "", names[i]), NULL);
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            float value = (float)tg_tensor_value_at(x, k), wanted = (float)tg_tensor_value_at(expected, k);
            float found = i ? tg_from_bf16(tg_to_bf16(value)) : tg_from_f16(tg_to_f16(value));
            if (!(found == wanted || (isnan(found) && isnan(wanted)))) {
                fail_msg("%s of %a is %a, expected %a", names[i], (double)value, (double)found, (double)wanted);
            }
        }
        tg_release((tg_tensor *)(uintptr_t)expected);
    }
    tg_release(x);
    tg_safetensors_close(f);
}

/* ---- writing ---- */

static char *read_all(const char *path, size_t *length)
{
    char *text = tg_text_read(path, length, NULL);
    assert_non_null(text);
    return text;
}

/* x[k] as in make_io.py, from a view whose axes are permuted, if it has two axes. */
static tg_tensor *golden_tensor(tg_dtype dtype, tg_shape shape, char kind)
{
    tg_tensor *x = tg_tensor_new(dtype, shape, NULL);
    for (int64_t k = 0; k < tg_tensor_count(x); k++) {
        double value = golden_value(kind, k);
        tg_convert((char *)tg_tensor_data_mut(x) + (size_t)k * tg_dtype_size(dtype), dtype, &value, TG_F64, 1);
    }
    return x;
}

static void assert_layout(const tg_tensor *b)
{
    tg_error error = TG_NO_ERROR;
    const char *path = "test_safetensors.layout";
    tg_tensor *weight = golden_tensor(TG_F64, TG_SHAPE(3), 'f'), *ids = golden_tensor(TG_I32, TG_SCALAR, 'i');
    tg_tensor *mask = golden_tensor(TG_U8, TG_SHAPE(5), 'u'), *bias = golden_tensor(TG_F32, TG_SHAPE(0, 4), 'f');
    tg_safetensors_writer *w = tg_safetensors_writer_new("test", &error);
    assert_true(tg_safetensors_add(w, "mask", " \"é\"\t\x01", mask, (tg_shard){0, 0}, TG_SAVE_FLOATS_F16, &error));
    assert_true(tg_safetensors_add(w, "", "b", b, (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP, &error));
    assert_true(tg_safetensors_add(w, "a.", "weight", weight, (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP, &error));
    assert_true(tg_safetensors_add(w, "", "ids", ids, (tg_shard){0, 0}, TG_SAVE_FLOATS_BF16, &error));
    assert_true(tg_safetensors_add(w, "", "a.bias", bias, (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP, &error));
    assert_true(tg_safetensors_add_metadata(w, "", "who\n", "me é \"\\/\b\x1f", &error));
    assert_true(tg_safetensors_add_metadata(w, "", "who\n", "the second value is dropped", &error));
    assert_true(tg_safetensors_write(w, path, &error));
    tg_safetensors_writer_free(w);
    size_t expected_length, length;
    char *expected = read_all(golden("layout.safetensors"), &expected_length), *found = read_all(path, &length);
    assert_int_equal(length, expected_length);
    assert_memory_equal(found, expected, length);
    tg_text_free(expected);
    tg_text_free(found);
    tg_release(weight);
    tg_release(ids);
    tg_release(mask);
    tg_release(bias);
    remove(path);
}

/* The bytes are those of the reference, also from a view that is not contiguous. */
static void test_layout(void **state)
{
    (void)state;
    tg_tensor *b = golden_tensor(TG_F32, TG_SHAPE(2, 3), 'f');
    assert_layout(b);
    tg_tensor *transposed = tg_tensor_new(TG_F32, TG_SHAPE(3, 2), NULL);
    for (int64_t k = 0; k < 6; k++) {
        ((float *)tg_tensor_data_mut(transposed))[k % 3 * 2 + k / 3] = (float)golden_value('f', k);
    }
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *view = tg_transpose(tape, transposed, 0, 1);
    assert_false(tg_tensor_is_contiguous(view));
    assert_layout(view);
    tg_tape_free(tape);
    tg_release(transposed);
    tg_release(b);
}

/* Spaces fill the header to the next multiple of 8 bytes, and to no more. */
static void test_padding(void **state)
{
    (void)state;
    const char *path = "test_safetensors.padding";
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SCALAR, NULL);
    for (int length = 1; length <= 16; length++) {
        size_t size;
        tg_safetensors_writer *w = tg_safetensors_writer_new("test", NULL);
        assert_true(tg_safetensors_add(
            w, "", &"abcdefghijklmnop" [16 - length], x, (tg_shard) { 0, 0 }, TG_SAVE_FLOATS_KEEP, NULL));
        assert_true(tg_safetensors_write(w, path, NULL));
        tg_safetensors_writer_free(w);
        char *bytes = read_all(path, &size);
        size_t header = strlen("{\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}") + (size_t)length;
        assert_int_equal(size, 8 + (header + 7) / 8 * 8 + 4);
        tg_text_free(bytes);
    }
    tg_release(x);
    remove(path);
}

static void test_names_that_cannot_be_written(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SCALAR, NULL);
    tg_safetensors_writer *w = tg_safetensors_writer_new("test", &error);
    assert_false(tg_safetensors_add(w, "__meta", "data__", x, (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP, &error));
    assert_error(&error, TG_ERROR_VALUE, "test: a tensor cannot have the name '__metadata__'");
    assert_false(tg_safetensors_add(w, "ab", "c\xff", x, (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP, &error));
    assert_error(&error, TG_ERROR_VALUE, "is not UTF-8 at byte 3");
    assert_false(tg_safetensors_add_metadata(w, "", "key", "\xc0\x80", &error));
    assert_error(&error, TG_ERROR_VALUE, "the metadata value '\\xc0\\x80' is not UTF-8 at byte 0");
    assert_false(tg_safetensors_add_metadata(w, "", "\xed\xa0\x80", "value", &error));
    assert_error(&error, TG_ERROR_VALUE, "the metadata key");
    assert_true(tg_safetensors_add(w, "a", "bc", x, (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP, &error));
    assert_true(tg_safetensors_add(w, "ab", "c", x, (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP, &error));
    assert_false(tg_safetensors_write(w, "test_safetensors.names", &error));
    assert_error(&error, TG_ERROR_VALUE, "test: two tensors have the name 'abc'");
    assert_int_not_equal(remove("test_safetensors.names"), 0);
    tg_safetensors_writer_free(w);
    tg_release(x);
}

/* More values than the buffer for conversions holds, at both ends and in the middle. */
static void test_many_values(void **state)
{
    (void)state;
    const char *path = "test_safetensors.many";
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(100003), NULL);
    for (int64_t k = 0; k < 100003; k++) {
        ((double *)tg_tensor_data_mut(x))[k] = (double)(k % 2048);
    }
    tg_safetensors_writer *w = tg_safetensors_writer_new("test", NULL);
    assert_true(tg_safetensors_add(w, "", "x", x, (tg_shard){0, 0}, TG_SAVE_FLOATS_F16, NULL));
    assert_true(tg_safetensors_write(w, path, NULL));
    tg_safetensors_writer_free(w);
    tg_safetensors *f = tg_safetensors_open("test", path, TG_SAFETENSORS_HEADER, NULL);
    double *values = malloc(100003 * sizeof *values);
    assert_true(tg_array_read(tg_safetensors_find(f, "", "x"), values, TG_F64, NULL));
    for (int64_t k = 0; k < 100003; k++) {
        assert_true(values[k] == (double)(k % 2048));
    }
    free(values);
    tg_safetensors_close(f);
    tg_release(x);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_shapes_and_names),
        cmocka_unit_test(test_sharded),
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_many_values),
        cmocka_unit_test(test_names_that_cannot_be_written),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
