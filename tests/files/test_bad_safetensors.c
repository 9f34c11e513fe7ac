/* Bad safetensors files: each breaks one rule of the format, and the error names the rule and the byte. No file needs
 * more memory than 16 times its size and 1 MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/safetensors.h"
#include "support.h"

static const char path[] = "test_bad.safetensors";

static void write_file(const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Writes a header, with its length in front, and some bytes of values. */
static void write_header(const char *header, size_t length, size_t values)
{
    char *bytes = calloc(1, 8 + length + values);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (char)((uint64_t)length >> (8 * i));
    }
    memcpy(bytes + 8, header, length);
    write_file(path, bytes, 8 + length + values);
    free(bytes);
}

/* Opens the file at `path`, which must fail with this text after the path, within the bound of memory. */
static void assert_refused(const char *expected, size_t file_size)
{
    tg_error error = TG_NO_ERROR;
    metered_allocator m;
    char text[TG_ERROR_TEXT];
    allocator_measure(&m);
    tg_safetensors *f = tg_safetensors_open("test", path, TG_SAFETENSORS_HEADER, &error);
    allocator_restore();
    snprintf(text, sizeof text, "test: 'test_bad.safetensors', byte %s", expected);
    if (f || strcmp(error.text, text) != 0) {
        fail_msg("expected \"%s\", found \"%s\"", text, f ? "no error" : error.text);
    }
    assert_int_equal(error.code, TG_ERROR_FORMAT);
    assert_int_equal(m.now, 0);
    assert_true(m.most <= 16 * file_size + (1 << 20));
}

/* ---- headers ---- */

typedef struct bad_header {
    const char *header;
    size_t values; /* the bytes after the header */
    const char *error;
} bad_header;

/* A tensor "a" of one float, with one part replaced. */
#define A "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
#define DTYPE(dtype) "{\"a\":{\"dtype\":" dtype ",\"shape\":[1],\"data_offsets\":[0,4]}}"
#define SHAPE(shape) "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[0,4]}}"
#define OFFSETS(offsets) "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" offsets "}}"
#define NAME(name) "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
#define TWO(first, second)                                                                                        \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" first "},\"b\":{\"dtype\":\"F32\",\"shape\":[1]," \
    "\"data_offsets\":" second "}}"
#define METADATA(metadata) "{\"__metadata__\":" metadata "}"

static const bad_header bad_headers[] = {
    /* the object */
    {"", 0, "8: expected '{', found the end"},
    {"[]", 0, "8: expected '{', found '['"},
    {"\xef\xbb\xbf{}", 0, "8: expected '{', found byte 0xef"},
    {"{", 0, "9: expected '\"', found the end"},
    {"{}}", 0, "10: expected the end, found '}'"},
    {"{} x", 0, "11: expected the end, found 'x'"},
    {"{,}", 0, "9: expected '\"', found ','"},
    {"{a:1}", 0, "9: expected '\"', found 'a'"},
    {"{'a':1}", 0, "9: expected '\"', found '''"},
    {"{\"a\"}", 0, "12: expected ':' after the name, found '}'"},
    {"{\"a\":}", 0, "13: expected '{', found '}'"},
    {"{\"a\":null}", 0, "13: expected '{', found 'n'"},
    {"{\"a\":[]}", 0, "13: expected '{', found '['"},
    {"{\"a\":{}", 0, "9: 'a' has no dtype"},
    {"{\"a\":{\"dtype\":\"F32\"", 0, "27: expected ',' or '}', found the end"},
    {"{\"a\":{\"dtype\":\"F32\",}}", 0, "28: expected '\"', found '}'"},
    {"{\"a\":{\"dtype\":\"F32\";}}", 0, "27: expected ',' or '}', found ';'"},
    {"{} \x01", 0, "11: expected the end, found byte 0x01"},
    /* names */
    {NAME("a\xff"), 4, "11: byte 0xff is not UTF-8"},
    {NAME("\xc0\x80"), 4, "10: byte 0xc0 is not UTF-8"},
    {NAME("\xed\xa0\x80"), 4, "10: byte 0xed is not UTF-8"},
    {NAME("\xf4\x90\x80\x80"), 4, "10: byte 0xf4 is not UTF-8"},
    {NAME("a\\u0000"), 4, "11: a string contains a NUL"},
    {NAME("a\\ud800"), 4, "11: the escape is not a Unicode character"},
    {NAME("a\\ud800\\u0041"), 4, "11: the escape is not a Unicode character"},
    {NAME("a\\ud800\\ud800"), 4, "11: the escape is not a Unicode character"},
    {NAME("a\\udc00"), 4, "11: the escape is not a Unicode character"},
    {NAME("a\\u00g1"), 4, "11: the escape is not a Unicode character"},
    {NAME("a\\u00"), 4, "11: the escape is not a Unicode character"},
    {NAME("a\\x41"), 4, "12: an unknown escape"},
    {NAME("a\nb"), 4, "11: a string contains the control character 0x0a"},
    {"{\"a", 0, "9: the string does not end"},
    {"{\"a\\", 0, "11: an unknown escape"},
    {TWO("[0,4],\"dtype\":\"F32\"", "[4,8]"), 8, "61: 'dtype' is given twice"},
    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"\\u0062\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[4,8]}}",
     8, "62: two tensors have the name 'b'"},
    /* dtypes */
    {DTYPE("\"F33\""), 4, "22: unknown dtype 'F33'"},
    {DTYPE("\"f32\""), 4, "22: unknown dtype 'f32'"},
    {DTYPE("\"\""), 4, "22: unknown dtype ''"},
    {DTYPE("32"), 4, "22: expected '\"', found '3'"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "9: 'a' has no dtype"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
     "9: 'a' has 12 bits, which is not a multiple of 8"},
    {"{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "9: 'a' has 4 bytes between its data_offsets; I64 (1,) needs 8"},
    /* shapes */
    {SHAPE("1"), 4, "36: expected '[', found '1'"},
    {SHAPE("[1"), 4, "39: expected a whole number, found '\"'"},
    {SHAPE("[1,]"), 4, "39: expected a whole number, found ']'"},
    {SHAPE("[1 1]"), 4, "39: expected ',' or ']', found '1'"},
    {SHAPE("[-1]"), 4, "37: expected a whole number, found '-'"},
    {SHAPE("[+1]"), 4, "37: expected a whole number, found '+'"},
    {SHAPE("[1.0]"), 4, "38: expected ',' or ']', found '.'"},
    {SHAPE("[1e0]"), 4, "38: expected ',' or ']', found 'e'"},
    {SHAPE("[01]"), 4, "37: the number begins with a 0"},
    {SHAPE("[0x1]"), 4, "38: expected ',' or ']', found 'x'"},
    {SHAPE("[\"1\"]"), 4, "37: expected a whole number, found '\"'"},
    {SHAPE("[true]"), 4, "37: expected a whole number, found 't'"},
    {SHAPE("[9223372036854775808]"), 4, "37: the number is larger than 2^63 - 1"},
    {SHAPE("[18446744073709551617]"), 4, "37: the number is larger than 2^63 - 1"},
    {SHAPE("[4294967296,4294967296]"), 4,
     "9: 'a' has the shape (4294967296,4294967296), which is larger than any file"},
    {SHAPE("[4294967296,4294967296,0]"), 4,
     "9: 'a' has the shape (4294967296,4294967296,0), which is larger than any file"},
    {SHAPE("[4611686018427387904]"), 4, "9: 'a' has the shape (4611686018427387904,), which is larger than any file"},
    {SHAPE("[2305843009213693952,2]"), 4,
     "9: 'a' has the shape (2305843009213693952,2), which is larger than any file"},
    {SHAPE("[1,1,1,1,1,1,1,1,1]"), 4, "36: a rank above 8"},
    {SHAPE("[2]"), 4, "9: 'a' has 4 bytes between its data_offsets; F32 (2,) needs 8"},
    {SHAPE("[0]"), 4, "9: 'a' has 4 bytes between its data_offsets; F32 (0,) needs 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "9: 'a' has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "40: 'shape' is given twice"},
    /* offsets */
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "9: 'a' has no data_offsets"},
    {OFFSETS("[0,4],\"data_offsets\":[0,4]"), 4, "61: 'data_offsets' is given twice"},
    {OFFSETS("4"), 4, "55: expected '[', found '4'"},
    {OFFSETS("[]"), 4, "55: data_offsets must be two numbers"},
    {OFFSETS("[0]"), 4, "55: data_offsets must be two numbers"},
    {OFFSETS("[0,4,4]"), 4, "55: data_offsets must be two numbers"},
    {OFFSETS("[4,0]"), 4, "55: data_offsets [4,0] end before they begin"},
    {OFFSETS("[-4,0]"), 4, "56: expected a whole number, found '-'"},
    {OFFSETS("[0,9223372036854775808]"), 4, "58: the number is larger than 2^63 - 1"},
    {OFFSETS("[0,8]"), 8, "9: 'a' has 8 bytes between its data_offsets; F32 (1,) needs 4"},
    {OFFSETS("[4,8]"), 8, "9: 'a' begins at offset 4 of the data; the first tensor begins at 0"},
    {OFFSETS("[9223372036854775803,9223372036854775807]"), 8,
     "9: 'a' begins at offset 9223372036854775803 of the data; the first tensor begins at 0"},
    {TWO("[0,4]", "[0,4]"), 4, "62: 'b' begins at offset 0 of the data; the tensor before it ends at 4"},
    {TWO("[0,4]", "[2,6]"), 6, "62: 'b' begins at offset 2 of the data; the tensor before it ends at 4"},
    {TWO("[0,4]", "[8,12]"), 12, "62: 'b' begins at offset 8 of the data; the tensor before it ends at 4"},
    {TWO("[8,12]", "[0,4]"), 12, "9: 'a' begins at offset 8 of the data; the tensor before it ends at 4"},
    {A, 0, "9: 'a' ends at offset 4 of the data; the file has 0 bytes of data"},
    {A, 3, "9: 'a' ends at offset 4 of the data; the file has 3 bytes of data"},
    {TWO("[0,4]", "[4,8]"), 7, "62: 'b' ends at offset 8 of the data; the file has 7 bytes of data"},
    {A, 5, "66: 1 bytes follow the last tensor"},
    {"{}", 4, "10: 4 bytes of data, but no tensor"},
    /* metadata */
    {METADATA("[]"), 0, "24: expected '{', found '['"},
    {METADATA("{\"a\":1}"), 0, "29: expected '\"', found '1'"},
    {METADATA("{\"a\":null}"), 0, "29: expected '\"', found 'n'"},
    {METADATA("{\"a\":{}}"), 0, "29: expected '\"', found '{'"},
    {METADATA("{\"a\":\"\\u0000\"}"), 0, "30: a string contains a NUL"},
    {METADATA("{\"a\":\"x\",\"a\":\"y\"}"), 0, "33: two metadata have the key 'a'"},
    {METADATA("{},\"__metadata__\":{}"), 0, "27: '__metadata__' is given twice"},
    /* other members, which are skipped, must be JSON, too */
    {SHAPE("[1],\"x\":"), 4, "44: expected a value, found ','"},
    {SHAPE("[1],\"x\":tru"), 4, "44: expected a value, found 't'"},
    {SHAPE("[1],\"x\":-"), 4, "45: expected a digit, found ','"},
    {SHAPE("[1],\"x\":1."), 4, "46: expected a digit, found ','"},
    {SHAPE("[1],\"x\":1e+"), 4, "47: expected a digit, found ','"},
    {SHAPE("[1],\"x\":[1,]"), 4, "47: expected a value, found ']'"},
    {SHAPE("[1],\"x\":{\"y\"}"), 4, "48: expected ':' after the name, found '}'"},
};

static void test_bad_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++) {
        size_t length = strlen(bad_headers[i].header);
        write_header(bad_headers[i].header, length, bad_headers[i].values);
        assert_refused(bad_headers[i].error, 8 + length + bad_headers[i].values);
    }
    print_message("%zu bad headers\n", sizeof bad_headers / sizeof *bad_headers);
    remove(path);
}

/* A name that is found twice, a zero byte, and objects that are too deep. */
static void test_bad_bytes(void **state)
{
    (void)state;
    static const char zero[] = "{\"a\0b\":{}}";
    write_header(zero, sizeof zero - 1, 0);
    assert_refused("11: a string contains the control character 0x00", 8 + sizeof zero);
    static const char padded[] = "{}\0\0\0\0\0\0";
    write_header(padded, sizeof padded - 1, 0);
    assert_refused("10: expected the end, found byte 0x00", 8 + sizeof padded);
    char deep[1024] = "{\"a\":{\"x\":";
    memset(deep + 10, '[', 65);
    write_header(deep, 75, 0);
    assert_refused("82: more than 64 objects and arrays inside of each other", 83);
    remove(path);
}

/* ---- the length of the header ---- */

static void test_bad_lengths(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[8];
        size_t length;
        const char *error;
    } cases[] = {
        {{0}, 0, "0: this is not a safetensors file: the file has 0 bytes; a header has at least 8"},
        {{2}, 7, "0: this is not a safetensors file: the file has 7 bytes; a header has at least 8"},
        {{1}, 8, "0: this is not a safetensors file: a header of 1 bytes; the file has 0 after its length"},
        {{0, 0, 0, 1},
         8,
         "0: this is not a safetensors file: a header of 16777216 bytes; the file has 0 after its length"},
        {{1, 0, 0, 1},
         8,
         "0: this is not a safetensors file: a header of 16777217 bytes; the file has 0 after its length"},
        {{1, 0xe1, 0xf5, 5},
         8,
         "0: this is not a safetensors file: a header of 100000001 bytes; the file has 0 after its length"},
        {{0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
         8,
         "0: this is not a safetensors file: a header of 18446744073709551608 bytes; the file has 0 after its length"},
        /* "A story." */
        {{'A', ' ', 's', 't', 'o', 'r', 'y', '.'},
         8,
         "0: this is not a safetensors file: a header of 3348833620947312705 bytes; the file has 0 after its length"},
        {{0, 0, 0, 0, 0, 0, 0, 0x80},
         8,
         "0: this is not a safetensors file: a header of 9223372036854775808 bytes; the file has 0 after its length"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(path, cases[i].bytes, cases[i].length);
        assert_refused(cases[i].error, cases[i].length);
    }
    remove(path);
}

/* ---- hostile headers ---- */

/* Fills a header with `text` again and again, and opens it. Returns nothing: assert_refused has the bound of memory. */
static void assert_bounded(const char *before, const char *text, const char *error)
{
    size_t size = (size_t)1 << 20, used = strlen(before), length = strlen(text);
    char *header = malloc(size);
    memcpy(header, before, used);
    for (; used + length <= size; used += length) {
        memcpy(header + used, text, length);
    }
    write_header(header, used, 0);
    assert_refused(error, 8 + used);
    free(header);
}

static void test_hostile_headers(void **state)
{
    (void)state;
    assert_bounded("{", "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},",
                   "1048537: expected '\"', found the end");
    assert_bounded("{\"__metadata__\":{", "\"\":\"\",", "1048579: expected '\"', found the end");
    assert_bounded("{\"a\":{\"x\":", "[", "82: more than 64 objects and arrays inside of each other");
    assert_bounded("{\"a\":{\"x\":[", "1,", "1048583: expected a value, found the end");
    assert_bounded("{\"", "\\u0061", "9: the string does not end");
    assert_bounded("{\"a\":{\"shape\":[", "1,", "22: a rank above 8");
    remove(path);
}

/* ---- the index of a sharded model ---- */

static void assert_index_refused(const char *index, const char *expected)
{
    tg_error error = TG_NO_ERROR;
    const char *name = "test_bad.safetensors.index.json";
    write_file(name, index, strlen(index));
    tg_safetensors *f = tg_safetensors_open("test", name, TG_SAFETENSORS_HEADER, &error);
    assert_null(f);
    if (!strstr(error.text, expected)) {
        fail_msg("expected \"%s\", found \"%s\"", expected, error.text);
    }
    remove(name);
}

static void test_bad_indices(void **state)
{
    (void)state;
    write_header(A, strlen(A), 4);
    write_file("test_bad2.safetensors", "\x02\0\0\0\0\0\0\0{}", 10);
    assert_index_refused("", "byte 0: expected '{', found the end");
    assert_index_refused("{}", "byte 0: the index has no 'weight_map'");
    assert_index_refused("{\"weight_map\":{}} x", "byte 18: expected the end, found 'x'");
    assert_index_refused("{\"weight_map\":{},\"weight_map\":{}}", "byte 17: 'weight_map' is given twice");
    assert_index_refused("{\"weight_map\":[]}", "byte 14: expected '{', found '['");
    assert_index_refused("{\"weight_map\":{\"a\":1}}", "byte 19: expected '\"', found '1'");
    assert_index_refused("{\"weight_map\":{\"a\":\"\"}}", "byte 19: '' is not the name of a file in the same folder");
    assert_index_refused("{\"weight_map\":{\"a\":\"..\"}}", "byte 19: '..' is not the name of a file");
    assert_index_refused("{\"weight_map\":{\"a\":\"../test_bad.safetensors\"}}",
                         "byte 19: '../test_bad.safetensors' is not");
    assert_index_refused("{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
                         "byte 19: '/etc/passwd' is not the name of a file");
    assert_index_refused("{\"weight_map\":{\"a\":\"test_none.safetensors\"}}",
                         "open 'test_none.safetensors': No such file or directory");
    assert_index_refused("{\"weight_map\":{\"b\":\"test_bad.safetensors\"}}",
                         "byte 15: 'b' is not in 'test_bad.safetensors'");
    assert_index_refused("{\"weight_map\":{\"a\":\"test_bad.safetensors\",\"a\":\"test_bad2.safetensors\"}}",
                         "byte 42: 'a' is not in 'test_bad2.safetensors'");
    assert_index_refused("{\"weight_map\":{\"a\":\"test_bad.safetensors.index.json\"}}",
                         "byte 0: this is not a safetensors file: a header of");
    write_header(A, strlen(A), 4);
    rename(path, "test_bad2.safetensors");
    write_header(A, strlen(A), 4);
    assert_index_refused("{\"weight_map\":{\"a\":\"test_bad.safetensors\",\"b\":\"test_bad2.safetensors\"}}",
                         "'a' is in two files, 'test_bad.safetensors' and 'test_bad2.safetensors'");
    remove("test_bad2.safetensors");
    remove(path);
}

/* ---- values ---- */

static void test_integers_that_do_not_fit(void **state)
{
    (void)state;
    static const char header[] = "{\"ids\":{\"dtype\":\"I64\",\"shape\":[2,3],\"data_offsets\":[0,48]}}";
    int64_t bytes[8 + 6] = {0};
    size_t length = sizeof header - 1;
    unsigned char file[8 + sizeof header - 1 + 48] = {(unsigned char)length};
    tg_error error = TG_NO_ERROR;
    for (int k = 0; k < 3; k++) {
        static const int64_t values[] = {2147483648, -2147483649, INT64_MIN};
        bytes[4] = values[k];
        memcpy(file + 8, header, length);
        memcpy(file + 8 + length, bytes, 48);
        write_file(path, file, sizeof file);
        assert_null(tg_tensor_new_from_safetensors(path, "ids", &error));
        char expected[120];
        snprintf(expected, sizeof expected, "value %lld of 'ids' at [1,1] is outside of i32", (long long)values[k]);
        assert_error(&error, TG_ERROR_RANGE, expected);
    }
    bytes[4] = INT32_MIN;
    memcpy(file + 8 + length, bytes, 48);
    write_file(path, file, sizeof file);
    tg_tensor *x = tg_tensor_new_from_safetensors(path, "ids", &error);
    assert_true(tg_tensor_value_at(x, 4) == INT32_MIN);
    tg_release(x);
    assert_null(tg_tensor_new_from_safetensors(path, "id", &error));
    assert_error(&error, TG_ERROR_RANGE, "tensor_new_from_safetensors: 'test_bad.safetensors' has no tensor 'id'");
    remove(path);
}

/* Strange, but valid: an empty object, spaces at the end, tensors in another order than their values, other members,
 * and tensors without values that share an offset. */
static void test_valid_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t values;
        int64_t count;
    } cases[] = {
        {"{}", 0, 0},
        {"{} \t\r\n  ", 0, 0},
        {"{ \"__metadata__\" : { } }", 0, 0},
        {TWO("[4,8]", "[0,4]"), 8, 2},
        {SHAPE("[1],\"x\":{\"y\":[-1.5e+3,true,false,null,\"\\u00e9\",{}]},\"z\":0"), 4, 1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},\"c\":{\"dtype\":\"U8\",\"shape\":[0],"
         "\"data_offsets\":[4,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
         4, 3},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, 1},
        {NAME(""), 4, 1},
        {NAME("\\ud83d\\ude42\\\"\\/\\b\\f\\n\\r\\t"), 4, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_error error = TG_NO_ERROR;
        write_header(cases[i].header, strlen(cases[i].header), cases[i].values);
        tg_safetensors *f = tg_safetensors_open("test", path, TG_SAFETENSORS_HEADER, &error);
        if (!f) {
            fail_msg("%s", error.text);
        }
        assert_int_equal(tg_safetensors_count(f), cases[i].count);
        if (i + 1 == sizeof cases / sizeof *cases) {
            assert_string_equal(tg_safetensors_at(f, 0)->name, "\xf0\x9f\x99\x82\"/\b\f\n\r\t");
        }
        tg_safetensors_close(f);
    }
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_headers),   cmocka_unit_test(test_bad_bytes),
        cmocka_unit_test(test_bad_lengths),   cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_bad_indices),   cmocka_unit_test(test_integers_that_do_not_fit),
        cmocka_unit_test(test_valid_headers),
    };
    return cmocka_run_group_tests_name("bad_safetensors", tests, NULL, NULL);
}
