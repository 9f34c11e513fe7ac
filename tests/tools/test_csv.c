/* CSV files: tables of texts, numbers and categories, and their errors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats.h"

static tg_csv *csv_of(const char *text, size_t length, const tg_csv_config *config, tg_error *error)
{
    FILE *file = fopen("test.csv", "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    fclose(file);
    tg_csv *csv = tg_csv_open("test.csv", config, error);
    remove("test.csv");
    return csv;
}

static void test_csv(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_csv_config no_header = tg_csv_config_default();
    no_header.has_header = false;
    const char text[] = "\xEF\xBB\xBFname,\"a \"\"b\"\"\",count\r\n"
                        "\"Rome, \r\nIt\",-1.5e2,7\r\n"
                        "Oslo,,8\n"
                        "\"Rome, \r\nIt\",.25,-9";
    tg_csv *csv = csv_of(text, sizeof text - 1, NULL, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(tg_csv_rows(csv), 3);
    assert_int_equal(tg_csv_columns(csv), 3);
    assert_int_equal(tg_csv_find(csv, "a \"b\"", &error), 1);
    assert_int_equal(tg_csv_find(csv, "name", NULL), 0);
    assert_int_equal(error.code, TG_OK);
    assert_int_equal(tg_csv_find(csv, "Name", &error), -1);
    assert_error(&error, TG_ERROR_RANGE,
                 "csv_find: no column 'Name' exists; the columns are 'name', 'a \"b\"', 'count'");
    /* the first error stays, so the result may be passed on */
    assert_int_equal(tg_csv_find(csv, "Name", &error), -1);
    assert_null(tg_csv_new_numbers(csv, (int[]){-1}, 1, TG_F64, &error));
    assert_error(&error, TG_ERROR_RANGE, "csv_find: no column 'Name' exists");
    assert_string_equal(tg_csv_field(csv, 0, 0), "Rome, \r\nIt");
    assert_string_equal(tg_csv_field(csv, 1, 1), "");
    assert_null(tg_csv_field(csv, 3, 0));
    tg_tensor *x = tg_csv_new_numbers(csv, (int[]){2, 1}, 2, TG_F64, &error);
    assert_values(x, (double[]){7, -150, 8, NAN, -9, 0.25}, 6, 0, 0);
    tg_tensor *counts = tg_csv_new_numbers(csv, (int[]){2}, 1, TG_I32, &error);
    assert_values(counts, (double[]){7, 8, -9}, 3, 0, 0);
    int64_t categories[3], count;
    tg_tensor *ids = tg_csv_new_categories(csv, 0, categories, &count, &error);
    assert_values(ids, (double[]){0, 1, 0}, 3, 0, 0);
    assert_int_equal(count, 2);
    assert_int_equal(categories[1], 1);
    const char with_unknown[] = "count,name\n1,Oslo\n2,\"Rome, \r\nIt\"\n3,Bern\n";
    const char known[] = "Oslo\n\"Rome, \r\nIt\"\nOslo\n";
    tg_csv *test_set = csv_of(with_unknown, sizeof with_unknown - 1, NULL, &error);
    assert_string_equal(error.text, "");
    assert_null(tg_csv_new_known_categories(test_set, 1, csv, 0, &error));
    assert_error(&error, TG_ERROR_FORMAT,
                 "csv_new_known_categories: line 5, field 2: 'Bern' is none of the 2 known categories");
    assert_null(tg_csv_new_known_categories(test_set, 1, csv, 3, &error));
    assert_error(&error, TG_ERROR_RANGE, "csv_new_known_categories: column 3 is outside [0,3)");
    tg_csv_free(test_set);
    test_set = csv_of(known, sizeof known - 1, &no_header, &error);
    tg_tensor *known_ids = tg_csv_new_known_categories(test_set, 0, csv, 0, &error);
    assert_values(known_ids, (double[]){1, 0, 1}, 3, 0, 0);
    tg_release(known_ids);
    tg_csv_free(test_set);
    assert_null(tg_csv_new_numbers(csv, (int[]){1}, 1, TG_I32, &error));
    assert_error(&error, TG_ERROR_FORMAT, "csv_new_numbers: line 4, field 2: '' is not a number of i32");
    assert_null(tg_csv_new_numbers(csv, (int[]){0}, 1, TG_F32, &error));
    assert_error(&error, TG_ERROR_FORMAT,
                 "csv_new_numbers: line 2, field 1: 'Rome, \\x0d\\nIt' is not a number of f32");
    assert_null(tg_csv_new_numbers(csv, (int[]){2}, 1, TG_U8, &error));
    assert_error(&error, TG_ERROR_FORMAT, "csv_new_numbers: line 5, field 3: '-9' is not a number of u8");
    assert_null(tg_csv_new_numbers(csv, (int[]){3}, 1, TG_F32, &error));
    assert_error(&error, TG_ERROR_RANGE, "csv_new_numbers: column 3 is outside [0,3)");
    assert_null(tg_csv_new_categories(csv, -1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_RANGE, "csv_new_categories: column -1 is outside [0,3)");
    tg_release(x);
    tg_release(counts);
    tg_release(ids);
    tg_csv_free(csv);

    tg_csv_config config = tg_csv_config_default();
    config.separator = ';';
    config.has_header = false;
    csv = csv_of("1;2\n3;\n", 7, &config, &error);
    assert_int_equal(tg_csv_rows(csv), 2);
    assert_int_equal(tg_csv_find(csv, "1", &error), -1);
    assert_error(&error, TG_ERROR_STATE, "csv_find: the csv has no header");
    x = tg_csv_new_numbers(csv, (int[]){0, 1}, 2, TG_F32, &error);
    assert_values(x, (double[]){1, 2, 3, NAN}, 4, 0, 0);
    tg_release(x);
    tg_csv_free(csv);
}

static void test_csv_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "csv_open: 'test.csv' is empty"},
        {"\xEF\xBB\xBF", "csv_open: 'test.csv' is empty"},
        {"a,b\n1\n", "csv_open: 'test.csv', line 2: 1 fields; the first line has 2"},
        {"a,b\n\"1\n2\",3\n4,5,6\n", "csv_open: 'test.csv', line 4: 3 fields; the first line has 2"},
        {"a,b\r\"1\r2\r\n3\",4\r5\r", "csv_open: 'test.csv', line 5: 1 fields; the first line has 2"},
        {"a,b\n1,2\"3\n", "csv_open: 'test.csv', line 2, field 2: a quote in a field without quotes"},
        {"a,b\n1,\"2\"3\n", "csv_open: 'test.csv', line 2, field 2: text after the closing quote"},
        {"a,b\n\"1\n\n", "csv_open: 'test.csv', line 2, field 1: the closing quote is missing"},
    };
    tg_error error = TG_NO_ERROR;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(csv_of(cases[i].text, strlen(cases[i].text), NULL, &error));
        assert_int_equal(error.code, TG_ERROR_FORMAT);
        assert_string_equal(error.text, cases[i].error);
        tg_error_clear(&error);
    }
    assert_null(csv_of("a\0b", 3, NULL, &error));
    assert_error(&error, TG_ERROR_FORMAT, "csv_open: 'test.csv' has a NUL at byte 1");
    assert_null(tg_csv_open("no such file", NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "open 'no such file'");
    tg_csv_config config = tg_csv_config_default();
    config.loose_quotes = true; /* a quote at the beginning of a field takes the lines up to the next quote */
    assert_null(csv_of("a,b\nc,\"d\ne,f\n", 13, &config, &error));
    assert_error(&error, TG_ERROR_FORMAT, "csv_open: 'test.csv', line 2, field 2: the closing quote is missing");
    config = tg_csv_config_default();
    config.separator = '"';
    assert_null(tg_csv_open("test.csv", &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "csv_open: the separator must be no quote, line break or NUL");
    static const char *const no_numbers[] = {"1.2.3", "1,5", "0x10", " 1", "1 ", "--1", "1e", "e", "nan(1)", "1_0"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        char text[32];
        config = tg_csv_config_default();
        config.separator = ';';
        snprintf(text, sizeof text, "a\n%s\n", no_numbers[i]);
        tg_csv *csv = csv_of(text, strlen(text), &config, &error);
        assert_null(tg_csv_new_numbers(csv, (int[]){0}, 1, TG_F64, &error));
        assert_error(&error, TG_ERROR_FORMAT, "is not a number of f64");
        tg_csv_free(csv);
    }
}

/* Integers in every notation, and numbers that strtod rounds to an integer. */
static void test_csv_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } integers[] = {{"7", 7},
                    {"+7", 7},
                    {"-7", -7},
                    {"007", 7},
                    {"7.", 7},
                    {"7.000", 7},
                    {".7e1", 7},
                    {"0.07e2", 7},
                    {"700e-2", 7},
                    {"7E+2", 700},
                    {"-0", 0},
                    {"0e-400", 0},
                    {"0.000e400", 0},
                    {"2147483647", INT32_MAX},
                    {"1.20e1", 12},
                    {"120.0e-1", 12},
                    {"-2147483648.0", INT32_MIN}};
    static const char *const others[] = {"1e-400",
                                         "-1e-400",
                                         "1e-1",
                                         "0.5",
                                         "7.01",
                                         "70e-2",
                                         "1.25e1",
                                         "123e-1",
                                         "1.000000000000000000001",
                                         "0.99999999999999999999999",
                                         "1e-99999999999999999999",
                                         "2147483647.0000000000001",
                                         "2147483648",
                                         "inf",
                                         "-inf",
                                         "nan",
                                         "4e9"};
    tg_csv_config config = tg_csv_config_default();
    tg_error error = TG_NO_ERROR;
    config.has_header = false;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        tg_csv *csv = csv_of(integers[i].text, strlen(integers[i].text), &config, &error);
        tg_tensor *x = tg_csv_new_numbers(csv, (int[]){0}, 1, TG_I32, &error);
        if (!x || tg_tensor_value_at(x, 0) != integers[i].value) {
            fail_msg("%s: %s", integers[i].text, error.text);
        }
        tg_release(x);
        tg_csv_free(csv);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        tg_csv *csv = csv_of(others[i], strlen(others[i]), &config, &error);
        if (tg_csv_new_numbers(csv, (int[]){0}, 1, TG_I32, &error)) {
            fail_msg("%s is an integer", others[i]);
        }
        assert_error(&error, TG_ERROR_FORMAT, "is not a number of i32");
        tg_csv_free(csv);
    }
}

static bool read_table(const char *path, tg_text_buffer *content, tg_error *error)
{
    tg_csv_config config = tg_csv_config_default();
    config.has_header = false;
    if (strstr(path, "tsv")) {
        config.separator = '\t';
        config.loose_quotes = true;
    }
    tg_csv *csv = tg_csv_open(path, &config, error);
    const int columns = tg_csv_columns(csv);
    for (int64_t i = 0; i < tg_csv_rows(csv) * columns; i++) {
        tg_text_add(content, i % columns > 0 ? "," : i > 0 ? "|" : "");
        add_escaped(content, tg_csv_field(csv, i / columns, (int)(i % columns)));
    }
    tg_csv_free(csv);
    return csv != NULL;
}

static void test_variants(void **state)
{
    (void)state;
    check_format(TG_TEST_GOLDENS "/formats.txt", "csv", "test_variants.csv", read_table);
    check_format(TG_TEST_GOLDENS "/formats.txt", "tsv", "test_variants.tsv", read_table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_errors),
        cmocka_unit_test(test_csv_integers),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests_name("csv", tests, NULL, NULL);
}
