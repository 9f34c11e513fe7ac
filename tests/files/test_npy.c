/* NPY and NPZ: each dtype and layout that NumPy has written (tests/goldens/make_io.py) is read, what is written here
 * has NumPy's bytes, and bad files are refused: more than 40, each with its byte's position. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static const char path[] = "test_npy.npy";

static const char *golden(const char *name)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s/io/%s", TG_TEST_GOLDENS, name);
    return text;
}

/* The value of make_io.py. */
static double golden_value(char kind, int64_t k)
{
    double whole = (double)(k * 7 % 23);
    return kind == 'f' ? (whole - 11) / 2 : kind == 'i' ? whole - 11 : kind == 'u' ? whole : k % 3 == 0;
}

static void assert_golden(tg_tensor *x, tg_dtype dtype, tg_shape shape, char kind)
{
    assert_non_null(x);
    assert_int_equal(tg_tensor_dtype(x), dtype);
    assert_true(tg_shape_equal(tg_tensor_shape(x), shape));
    for (int64_t k = 0; k < tg_tensor_count(x); k++) {
        assert_true(tg_tensor_value_at(x, k) == golden_value(kind, k));
    }
    tg_release(x);
}

static void test_every_layout(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        tg_dtype dtype;
        char kind;
    } dtypes[] = {{"f2", TG_F32, 'f'}, {"f4", TG_F32, 'f'}, {"f8", TG_F64, 'f'}, {"i4", TG_I32, 'i'},
                  {"i8", TG_I32, 'i'}, {"u1", TG_U8, 'u'},  {"b1", TG_U8, 'b'}};
    tg_error error = TG_NO_ERROR;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        for (int layout = 0; layout < 4; layout++) {
            char name[16];
            snprintf(name, sizeof name, "%s_%s_%s", dtypes[i].code, layout & 1 ? "be" : "le", layout & 2 ? "f" : "c");
            tg_tensor *x = tg_tensor_new_from_npz(golden("arrays.npz"), name, &error);
            if (!x) {
                fail_msg("%s: %s", name, error.text);
            }
            assert_golden(x, dtypes[i].dtype, TG_SHAPE(2, 3, 4), dtypes[i].kind);
        }
    }
}

static void test_shapes(void **state)
{
    (void)state;
    for (int rank = 0; rank <= 8; rank++) {
        char name[16];
        const int64_t sizes[] = {2, 2, 2, 2, 2, 2, 2, 2};
        snprintf(name, sizeof name, "rank%d.npy", rank);
        assert_golden(tg_tensor_new_from_npz(golden("arrays.npz"), name, NULL), TG_F32, tg_shape_make(rank, sizes),
                      'f');
    }
    assert_golden(tg_tensor_new_from_npz(golden("arrays.npz"), "empty", NULL), TG_F32, TG_SHAPE(0, 3), 'f');
}

static void test_versions(void **state)
{
    (void)state;
    assert_golden(tg_tensor_new_from_npy(golden("v1.npy"), NULL), TG_F32, TG_SHAPE(2, 3, 4), 'f');
    assert_golden(tg_tensor_new_from_npy(golden("v2.npy"), NULL), TG_F32, TG_SHAPE(2, 3, 4), 'f');
    assert_golden(tg_tensor_new_from_npy(golden("v3.npy"), NULL), TG_F32, TG_SHAPE(2, 3, 4), 'f');
}

static void test_members_that_cannot_be_read(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_null(tg_tensor_new_from_npz(golden("arrays.npz"), "rank9", &error));
    assert_error(&error, TG_ERROR_RANGE, "has no member 'rank9'");
    assert_null(tg_tensor_new_from_npz(golden("arrays.npz"), "rank0.np", &error));
    assert_error(&error, TG_ERROR_RANGE, "has no member 'rank0.np'");
    assert_null(tg_tensor_new_from_npz(golden("arrays.npz"), "big", &error));
    assert_error(&error, TG_ERROR_RANGE, "value 2147483648 of 'big' at [2] is outside of i32");
    assert_null(tg_tensor_new_from_npz(golden("arrays.npz"), "big_f", &error));
    assert_error(&error, TG_ERROR_RANGE, "value 2147483648 of 'big_f' at [1,0] is outside of i32");
    assert_null(tg_tensor_new_from_npz(golden("compressed.npz"), "x", &error));
    assert_error(&error, TG_ERROR_FORMAT, "the member is compressed");
    assert_null(tg_tensor_new_from_npz(golden("v1.npy"), "x", &error));
    assert_error(&error, TG_ERROR_FORMAT, "byte 0: this is not an NPZ file");
}

/* ---- writing ---- */

static void assert_saved(const tg_tensor *x, const char *expected, size_t expected_length)
{
    tg_error error = TG_NO_ERROR;
    size_t length;
    if (!tg_tensor_save_npy(x, path, &error)) {
        fail_msg("%s", error.text);
    }
    char *found = tg_text_read(path, &length, NULL);
    assert_int_equal(length, expected_length);
    assert_memory_equal(found, expected, length);
    tg_text_free(found);
    remove(path);
}

/* The values of v1.npy have NumPy's bytes, also from a view. */
static void test_numpy_bytes(void **state)
{
    (void)state;
    size_t length;
    char *expected = tg_text_read(golden("v1.npy"), &length, NULL);
    tg_tensor *x = tg_tensor_new_from_npy(golden("v1.npy"), NULL);
    assert_saved(x, expected, length);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *back = tg_contiguous(t, tg_transpose(t, x, 0, 2));
    tg_tensor *view = tg_transpose(t, back, 0, 2);
    assert_false(tg_tensor_is_contiguous(view));
    assert_saved(view, expected, length);
    tg_tape_free(t);
    tg_text_free(expected);
    tg_release(x);
}

static void test_saved_is_loaded(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 2, 1, 3, 1, 2, 1, 2};
    for (int dtype = TG_F32; dtype <= TG_U8; dtype++) {
        for (int rank = 0; rank <= 8; rank++) {
            tg_tensor *x = tg_tensor_new_full((tg_dtype)dtype, tg_shape_make(rank, sizes), 7, NULL);
            assert_true(tg_tensor_save_npy(x, path, NULL));
            tg_tensor *y = tg_tensor_new_from_npy(path, NULL);
            assert_int_equal(tg_tensor_dtype(y), dtype);
            assert_true(tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(y)));
            for (int64_t k = 0; k < tg_tensor_count(y); k++) {
                assert_true(tg_tensor_value_at(y, k) == 7);
            }
            tg_release(x);
            tg_release(y);
        }
    }
    remove(path);
}

/* ---- bad files ---- */

static void write_file(const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* A file of version 1.0 with a header and some bytes of values. The text of the error is what follows the path. */
typedef struct bad_header {
    const char *header;
    size_t values;
    const char *error;
} bad_header;

#define ITEM(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"
#define DESCR(descr) ITEM(descr, "False", "(2,)")
#define SHAPE(shape) ITEM("'<f4'", "False", shape)

static const bad_header bad_headers[] = {
    {"", 0, "byte 10: expected '{', found the end"},
    {"[]", 0, "byte 10: expected '{', found '['"},
    {"{}", 0, "byte 10: the header has no descr"},
    {"{'descr': '<f4', 'shape': (2,)}", 8, "byte 10: the header has no fortran_order"},
    {"{'descr': '<f4', 'fortran_order': False}", 8, "byte 10: the header has no shape"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8, "byte 27: 'descr' is given twice"},
    {"{'descr': '<f4', 'order': False, 'shape': (2,)}", 8, "byte 27: unknown key 'order'"},
    {"{descr: '<f4'}", 8, "byte 11: expected a string, found 'd'"},
    {"{'descr", 0, "byte 11: the string does not end"},
    {"{'descr' '<f4'}", 0, "byte 19: expected ':', found '''"},
    {"{'des\\x63r': '<f4'}", 0, "byte 15: a string contains a backslash"},
    {"{'descr': '<f4' 'fortran_order': False}", 0, "byte 26: expected ',' or '}', found '''"},
    {"{'descr': '<f4',, 'fortran_order': False}", 0, "byte 26: expected a string, found ','"},
    {"{'descr': '<f4'", 0, "byte 25: expected ',' or '}', found the end"},
    {SHAPE("(2,)") "x", 8, "byte 68: expected the end, found 'x'"},
    {DESCR("4"), 8, "byte 20: expected a string, found '4'"},
    {DESCR("'<i3'"), 8,
     "byte 20: dtype '<i3' cannot be read; it must be f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 or b1 with < or > in "
     "front"},
    {DESCR("'f4'"), 8, "byte 20: dtype 'f4' cannot be read"},
    {DESCR("'|f4'"), 8, "byte 20: dtype '|f4' cannot be read"},
    {DESCR("'=f4'"), 8, "byte 20: dtype '=f4' cannot be read"},
    {DESCR("'<f16'"), 8, "byte 20: dtype '<f16' cannot be read"},
    {DESCR("'|O'"), 8, "byte 20: dtype '|O' cannot be read"},
    {DESCR("''"), 8, "byte 20: dtype '' cannot be read"},
    {DESCR("[('x', '<f4')]"), 8, "byte 20: a structured dtype, which cannot be read"},
    {DESCR("('<f4', (2,))"), 8, "byte 20: a structured dtype, which cannot be read"},
    {ITEM("'<f4'", "0", "(2,)"), 8, "byte 44: expected True or False, found '0'"},
    {ITEM("'<f4'", "true", "(2,)"), 8, "byte 44: expected True or False, found 't'"},
    {ITEM("'<f4'", "Falsely", "(2,)"), 8, "byte 49: expected ',' or '}', found 'l'"},
    {SHAPE("2"), 8, "byte 60: expected '(', found '2'"},
    {SHAPE("(2)"), 8, "byte 60: the shape is a number, not a tuple"},
    {SHAPE("[2,]"), 8, "byte 60: expected '(', found '['"},
    {SHAPE("(,)"), 8, "byte 61: expected a whole number, found ','"},
    {SHAPE("(2 3)"), 24, "byte 63: expected ',' or ')', found '3'"},
    {SHAPE("(-2,)"), 8, "byte 61: expected a whole number, found '-'"},
    {SHAPE("(02,)"), 8, "byte 61: the number begins with a 0"},
    {SHAPE("(0x2,)"), 8, "byte 62: expected ',' or ')', found 'x'"},
    {SHAPE("(2.0,)"), 8, "byte 62: expected ',' or ')', found '.'"},
    {SHAPE("(True,)"), 4, "byte 61: expected a whole number, found 'T'"},
    {SHAPE("(9223372036854775808,)"), 8, "byte 61: the number is larger than 2^63 - 1"},
    {SHAPE("(4294967296, 4294967296)"), 8, "byte 60: the shape is larger than any file"},
    {SHAPE("(4294967296, 4294967296, 0)"), 0, "byte 60: the shape is larger than any file"},
    {SHAPE("(4611686018427387903, 1)"), 8, "byte 88: 8 bytes of values; the shape (4611686018427387903,1) has"},
    {SHAPE("(4611686018427387904, 1)"), 8, "byte 60: the shape is larger than any file"},
    {SHAPE("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 4, "byte 60: a rank above 8"},
    {SHAPE("(2,)"), 7, "byte 68: 7 bytes of values; the shape (2,) has values of 4 bytes each"},
    {SHAPE("(2,)"), 9, "byte 68: 9 bytes of values; the shape (2,) has values of 4 bytes each"},
    {SHAPE("(2,)"), 0, "byte 68: 0 bytes of values; the shape (2,) has values of 4 bytes each"},
    {SHAPE("(0,)"), 1, "byte 68: 1 bytes of values; the shape (0,) has values of 4 bytes each"},
};

/* Opens the file, which must fail with this text after the path, within 16 times its size and 1 MiB of memory. */
static void assert_refused(const char *expected, size_t file_size)
{
    tg_error error = TG_NO_ERROR;
    metered_allocator m;
    char text[TG_ERROR_TEXT];
    allocator_measure(&m);
    tg_tensor *x = tg_tensor_new_from_npy(path, &error);
    allocator_restore();
    assert_null(x);
    assert_int_equal(m.now, 0);
    assert_true(m.most <= 16 * file_size + (1 << 20));
    snprintf(text, sizeof text, "tensor_new_from_npy: 'test_npy.npy', %s", expected);
    if (strncmp(error.text, text, strlen(text)) != 0) {
        fail_msg("expected \"%s\", found \"%s\"", text, error.text);
    }
    assert_int_equal(error.code, strstr(text, ": dtype '") ? TG_ERROR_DTYPE : TG_ERROR_FORMAT);
}

static void test_bad_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++) {
        char bytes[512] = "\x93NUMPY\x01";
        size_t length = strlen(bad_headers[i].header);
        bytes[8] = (char)length;
        memcpy(bytes + 10, bad_headers[i].header, length);
        write_file(bytes, 10 + length + bad_headers[i].values);
        assert_refused(bad_headers[i].error, 10 + length + bad_headers[i].values);
    }
    print_message("%zu bad headers\n", sizeof bad_headers / sizeof *bad_headers);
    remove(path);
}

/* A file whose first bytes are bad. */
static void test_bad_starts(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *error;
    } starts[] = {
        {"", 0, "byte 0: this is not an NPY file"},
        {"\x93NUMP", 5, "byte 0: this is not an NPY file"},
        {"\x93NUMPy\1\0\0\0", 10, "byte 0: this is not an NPY file"},
        {"\x93NUMPY", 6, "byte 6: an unknown version; it must be 1.0, 2.0 or 3.0"},
        {"\x93NUMPY\1", 7, "byte 6: an unknown version"},
        {"\x93NUMPY\0\1\0\0", 10, "byte 6: an unknown version"},
        {"\x93NUMPY\4\0\0\0\0\0", 12, "byte 6: an unknown version"},
        {"\x93NUMPY\1\1\0\0", 10, "byte 6: an unknown version"},
        {"\x93NUMPY\1\0\1", 9, "byte 8: the file ends in the length of its header"},
        {"\x93NUMPY\2\0\1\0\0", 11, "byte 8: the file ends in the length of its header"},
        {"\x93NUMPY\1\0\1\0", 10, "byte 8: the header is longer than the file"},
        {"\x93NUMPY\1\0\xff\xff", 10, "byte 8: the header is longer than the file"},
        {"\x93NUMPY\3\0\xff\xff\xff\xff", 12, "byte 8: the header is longer than the file"},
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        write_file(starts[i].bytes, starts[i].length);
        assert_refused(starts[i].error, starts[i].length);
    }
    char *large = calloc(1, 70000);
    memcpy(large, "\x93NUMPY\2\0\1\0\1\0", 12);
    write_file(large, 70000);
    assert_refused("byte 8: a header of more than 65536 bytes", 70000);
    free(large);
    remove(path);
}

/* An integer of another dtype that does not fit: the error has its value and its index. */
static void test_integers_that_do_not_fit(void **state)
{
    (void)state;
    static const char bytes[] = "\x93NUMPY\1\0\x3a\0{'descr': '>u8', 'fortran_order': True, 'shape': (1, 2)}  "
                                "\0\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    tg_error error = TG_NO_ERROR;
    write_file(bytes, sizeof bytes - 1);
    assert_null(tg_tensor_new_from_npy(path, &error));
    assert_error(&error, TG_ERROR_RANGE, "value 18446744073709551615 of 'array' at [0,1] is outside of i32");
    remove(path);
}

static void put_byte(FILE *file, size_t at, char byte)
{
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, file), (unsigned char)byte);
    assert_int_equal(fflush(file), 0);
}

/* Bytes of an archive replaced, and its end cut off: an error, or the member with its values. */
static void test_damaged_archives(void **state)
{
    (void)state;
    static const char values[] = {0, 1, (char)0x80, (char)0xff};
    size_t length;
    int64_t refused = 0;
    char *bytes = tg_text_read(golden("arrays.npz"), &length, NULL);
    write_file(bytes, length);
    FILE *file = fopen(path, "r+b");
    for (size_t i = 0; i < length; i += 3) {
        for (size_t k = 0; k < sizeof values; k++) {
            put_byte(file, i, values[k]);
            tg_tensor *x = tg_tensor_new_from_npz(path, "f4_be_f", NULL);
            refused += !x;
            if (x) {
                assert_golden(x, TG_F32, TG_SHAPE(2, 3, 4), 'f');
            }
        }
        put_byte(file, i, bytes[i]);
    }
    assert_true(refused > 100);
    for (size_t cut = length - 1; cut > 13; cut -= 13) {
        tg_error error = TG_NO_ERROR;
        assert_int_equal(ftruncate(fileno(file), (off_t)cut), 0);
        assert_null(tg_tensor_new_from_npz(path, "f4_be_f", &error));
        assert_int_equal(error.code, TG_ERROR_FORMAT);
    }
    fclose(file);
    tg_text_free(bytes);
    remove(path);
}

/* Every allocation fails once. */
static void test_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_error error = TG_NO_ERROR;
    size_t failures = 0;
    for (size_t k = 1;; k++) {
        allocator_arm(&counting, k, false);
        tg_tensor *x = tg_tensor_new_from_npz(golden("arrays.npz"), "f2_be_f", &error);
        allocator_arm(&counting, 0, false);
        tg_release(x);
        assert_int_equal(counting.live, 0);
        if (x) {
            break;
        }
        assert_error(&error, TG_ERROR_MEMORY, "");
        failures++;
    }
    assert_true(failures >= 5);
    allocator_restore();
}

static void test_bf16_is_refused(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_tensor_new(TG_BF16, TG_SHAPE(2), NULL);
    assert_false(tg_tensor_save_npy(x, "test_npy.bf16.npy", &error));
    assert_error(&error, TG_ERROR_DTYPE, "tensor_save_npy: the tensor is bf16, which NumPy does not have");
    assert_null(fopen("test_npy.bf16.npy", "rb"));
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_members_that_cannot_be_read),
        cmocka_unit_test(test_numpy_bytes),
        cmocka_unit_test(test_saved_is_loaded),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_bad_starts),
        cmocka_unit_test(test_damaged_archives),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_integers_that_do_not_fit),
        cmocka_unit_test(test_bf16_is_refused),
    };
    return cmocka_run_group_tests_name("npy", tests, NULL, NULL);
}
