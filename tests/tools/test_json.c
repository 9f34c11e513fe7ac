/* JSON files: the values of a tree, numbers, and errors with their lines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static tg_json_document *document_of(const char *text, size_t length, tg_error *error)
{
    FILE *file = fopen("test.json", "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    fclose(file);
    tg_json_document *document = tg_json_document_open("test.json", error);
    remove("test.json");
    return document;
}

static void test_values(void **state)
{
    (void)state;
    static const char text[] = "{\n"
                               "  \"name\": \"t\\u00e9st \\ud83d\\ude00\\n\\\"\",\n"
                               "  \"list\": [1, -2.5e3,\n"
                               "           true, false, null, {}, []],\n"
                               "  \"\": {\"inner\": \"\"}\n"
                               "}\n";
    tg_error error = TG_NO_ERROR;
    tg_json_document *document = document_of(text, sizeof text - 1, &error);
    assert_string_equal(error.text, "");
    const tg_json_value *root = tg_json_document_root(document);
    assert_int_equal(tg_json_value_kind(root), TG_JSON_OBJECT);
    assert_int_equal(tg_json_value_count(root), 3);
    assert_null(tg_json_value_name(root));
    assert_string_equal(tg_json_value_text(tg_json_value_find(root, "name", &error), &error),
                        "t\xc3\xa9st \xf0\x9f\x98\x80\n\"");
    const tg_json_value *list = tg_json_value_find(root, "list", &error);
    static const tg_json_kind kinds[] = {TG_JSON_NUMBER, TG_JSON_NUMBER, TG_JSON_TRUE, TG_JSON_FALSE,
                                         TG_JSON_NULL,   TG_JSON_OBJECT, TG_JSON_ARRAY};
    assert_int_equal(tg_json_value_count(list), 7);
    for (int64_t i = 0; i < 7; i++) {
        assert_int_equal(tg_json_value_kind(tg_json_value_at(list, i)), kinds[i]);
        assert_int_equal(tg_json_value_line(tg_json_value_at(list, i)), i < 2 ? 3 : 4);
    }
    assert_null(tg_json_value_at(list, 7));
    assert_null(tg_json_value_at(list, -1));
    assert_true(tg_json_value_number(tg_json_value_at(list, 1), &error) == -2500);
    assert_string_equal(tg_json_value_name(tg_json_value_at(root, 2)), "");
    assert_string_equal(
        tg_json_value_text(tg_json_value_find(tg_json_value_find(root, "", &error), "inner", &error), &error), "");
    assert_string_equal(error.text, "");
    assert_null(tg_json_value_text(tg_json_value_find(root, "missing", &error), &error));
    assert_error(&error, TG_ERROR_FORMAT, "json_value_find: 'test.json', line 1: the object has no 'missing'");
    assert_null(tg_json_value_text(list, &error));
    assert_error(&error, TG_ERROR_FORMAT,
                 "json_value_text: 'test.json', line 3: 'list' is an array; it must be a string");
    assert_true(isnan(tg_json_value_number(tg_json_value_at(list, 4), &error)));
    assert_error(&error, TG_ERROR_FORMAT,
                 "json_value_number: 'test.json', line 4: the value is null; it must be a number");
    assert_null(tg_json_value_find(list, "x", &error));
    assert_error(&error, TG_ERROR_FORMAT,
                 "json_value_find: 'test.json', line 3: 'list' is an array; it must be an object");
    tg_json_document_free(document);
}

static void test_integers(void **state)
{
    (void)state;
    static const char text[] = "[9223372036854775807, -9223372036854775808, 0, -0, 2.0, 1e3,\n"
                               "9223372036854775808, 2.5, 1e300, -9223372036854775809, \"1\"]";
    tg_error error = TG_NO_ERROR;
    tg_json_document *document = document_of(text, sizeof text - 1, &error);
    assert_string_equal(error.text, "");
    const tg_json_value *list = tg_json_document_root(document);
    static const int64_t expected[] = {INT64_MAX, INT64_MIN, 0, 0, 2, 1000};
    for (int64_t i = 0; i < 6; i++) {
        assert_true(tg_json_value_integer(tg_json_value_at(list, i), &error) == expected[i]);
    }
    assert_string_equal(error.text, "");
    for (int64_t i = 6; i < 10; i++) {
        assert_int_equal(tg_json_value_integer(tg_json_value_at(list, i), &error), 0);
        assert_error(&error, TG_ERROR_FORMAT, "is not a whole number of int64_t");
    }
    assert_int_equal(tg_json_value_integer(tg_json_value_at(list, 10), &error), 0);
    assert_error(&error, TG_ERROR_FORMAT,
                 "json_value_integer: 'test.json', line 2: the value is a string; it must be a number");
    tg_json_document_free(document);
}

static void test_errors(void **state)
{
    (void)state;
#define FILE_ "json_document_open: 'test.json', "
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", FILE_ "line 1: expected a value, found the end"},
        {"\xEF\xBB\xBF{}", FILE_ "line 1: expected a value, found byte 0xef"},
        {"{\"a\": 1,\n \"b\" 2}", FILE_ "line 2: expected ':' after the name, found '2'"},
        {"[1,\n2", FILE_ "line 2: expected ',' or ']', found the end"},
        {"[1,\n\n]", FILE_ "line 3: expected a value, found ']'"},
        {"{\"a\": {\n\"b\": 1,\n\"c\": 2,\n\"b\": 3}}", FILE_ "line 4: the object has the name 'b' twice"},
        {"[\"a\n\"]", FILE_ "line 1: a string contains the control character 0x0a"},
        {"\n[\"\xff\"]", FILE_ "line 2: byte 0xff is not UTF-8"},
        {"\n\n[\"abc", FILE_ "line 3: the string does not end"},
        {"[\"\\ud800\"]", FILE_ "line 1: the escape is not a Unicode character"},
        {"[\"\\u0000\"]", FILE_ "line 1: a string contains a NUL"},
        {"[01]", FILE_ "line 1: expected ',' or ']', found '1'"},
        {"[\n1e999]", FILE_ "line 2: a number is beyond the range of a double"},
        {"[-]", FILE_ "line 1: expected a digit, found ']'"},
        {"[1]\n\n2", FILE_ "line 3: expected the end, found '2'"},
        {"[nul]", FILE_ "line 1: expected a value, found 'n'"},
        {"[1111111111111111111111111111111111111111111111111111111111111]",
         FILE_ "line 1: a number of 61 characters; it must have at most 60"},
    };
    tg_error error = TG_NO_ERROR;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(document_of(cases[i].text, strlen(cases[i].text), &error));
        assert_int_equal(error.code, TG_ERROR_FORMAT);
        assert_string_equal(error.text, cases[i].error);
        tg_error_clear(&error);
    }
    /* every beginning of a document is refused, and nothing leaks */
    static const char text[] = "{\"a\": [1, \"b\", {\"c\": null}], \"d\": -1.5}";
    counting_allocator counting;
    allocator_install(&counting);
    for (size_t length = 0; length < sizeof text - 1; length++) {
        assert_null(document_of(text, length, &error));
        assert_error(&error, TG_ERROR_FORMAT, FILE_);
    }
    size_t allocations = counting.calls;
    for (size_t k = 1; k < allocations; k++) {
        allocator_arm(&counting, k, false);
        tg_json_document *document = document_of(text, sizeof text - 1, &error);
        bool is_read = document != NULL;
        tg_json_document_free(document);
        assert_int_equal(counting.live, 0);
        if (is_read) {
            assert_true(k > 3);
            break;
        }
        assert_error(&error, TG_ERROR_MEMORY, "out of memory");
    }
    allocator_restore();
    assert_null(tg_json_document_open("no such file", &error));
    assert_error(&error, TG_ERROR_FILE, "open 'no such file'");
}

static void test_depth(void **state)
{
    (void)state;
    char text[400];
    tg_error error = TG_NO_ERROR;
    for (size_t depth = 64; depth <= 65; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        tg_json_document *document = document_of(text, 2 * depth, &error);
        assert_true((document != NULL) == (depth == 64));
        tg_json_document_free(document);
    }
    assert_error(&error, TG_ERROR_FORMAT,
                 "json_document_open: 'test.json', line 1: more than 64 objects and arrays inside of each other");
}

static tg_json_document *lines_of(const char *text, tg_error *error)
{
    FILE *file = fopen("test.jsonl", "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
    tg_json_document *document = tg_json_document_open("test.jsonl", error);
    remove("test.jsonl");
    return document;
}

static void test_lines(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_json_document *document = lines_of("{\"a\": 1}\n\n{\"a\": [2]}\n3\n", &error);
    const tg_json_value *root = tg_json_document_root(document);
    assert_string_equal(error.text, "");
    assert_int_equal(tg_json_value_kind(root), TG_JSON_ARRAY);
    assert_int_equal(tg_json_value_count(root), 3);
    assert_int_equal(tg_json_value_line(tg_json_value_at(root, 1)), 3);
    assert_int_equal(tg_json_value_count(tg_json_value_find(tg_json_value_at(root, 1), "a", &error)), 1);
    assert_true(tg_json_value_number(tg_json_value_at(root, 2), &error) == 3);
    tg_json_document_free(document);
    document = lines_of("", &error);
    assert_int_equal(tg_json_value_kind(tg_json_document_root(document)), TG_JSON_ARRAY);
    tg_json_document_free(document);
    assert_string_equal(error.text, "");
    assert_null(lines_of("{\"a\": 1}\n{\"a\": }\n", &error));
    assert_error(&error, TG_ERROR_FORMAT, "json_document_open: 'test.jsonl', line 2: expected a value, found '}'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_integers), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_depth),  cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
