/* Texts for people: UTF-8, and the escape of names that others have chosen. */
#include "support.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "base/text.h"

static void assert_escaped(const char *text, const char *expected)
{
    char copy[64];
    assert_int_equal(tg_escape(copy, sizeof copy, text), strlen(expected));
    assert_string_equal(copy, expected);
    /* what was escaped stays */
    char again[64];
    tg_escape(again, sizeof again, copy);
    assert_string_equal(again, expected);
}

static void test_escape(void **state)
{
    (void)state;
    assert_escaped("", "");
    assert_escaped("layers.0.weight", "layers.0.weight");
    assert_escaped("a\\b 'c' \"d\" %s", "a\\b 'c' \"d\" %s");
    assert_escaped("\x1b]0;title\x07", "\\x1b]0;title\\x07");
    assert_escaped("one\ntwo\r\tthree\x7f", "one\\ntwo\\x0d\\x09three\\x7f");
    /* U+0080, U+009B (the terminal's CSI), U+009F; U+00A0 is none */
    assert_escaped("\xc2\x80|\xc2\x9b|\xc2\x9f|\xc2\xa0", "\\xc2\\x80|\\xc2\\x9b|\\xc2\\x9f|\xc2\xa0");
    assert_escaped("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    /* alone, overlong, a surrogate, above U+10FFFF, cut off */
    assert_escaped("\x9b|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80",
                   "\\x9b|\\xc0\\xaf|\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80");
    assert_escaped("\xe2\x82", "\\xe2\\x82");
    assert_escaped("\xff\xe2\x28\xa1", "\\xff\\xe2(\\xa1");
}

/* Every size: the copy ends with a NUL and with a whole character or escape. */
static void test_cut(void **state)
{
    (void)state;
    const char text[] = "a\xc3\xa9\n\033b";
    const char *const expected[] = {"",
                                    "",
                                    "a",
                                    "a",
                                    "a\xc3\xa9",
                                    "a\xc3\xa9",
                                    "a\xc3\xa9\\n",
                                    "a\xc3\xa9\\n",
                                    "a\xc3\xa9\\n",
                                    "a\xc3\xa9\\n",
                                    "a\xc3\xa9\\n\\x1b",
                                    "a\xc3\xa9\\n\\x1bb"};
    for (size_t size = 1; size < sizeof expected / sizeof *expected; size++) {
        char copy[32];
        memset(copy, '#', sizeof copy);
        assert_int_equal(tg_escape(copy, size, text), strlen(expected[size]));
        assert_string_equal(copy, expected[size]);
        assert_true(copy[size] == '#');
    }
    char untouched = '#';
    assert_int_equal(tg_escape(&untouched, 0, text), 0);
    assert_true(untouched == '#');
}

/* Lengths around the size of an error's text, of characters of 1 to 4 bytes, with and without text before them. */
static void test_long_errors(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\n", "\xff"};
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++) {
        for (int before = 0; before < 5; before++) {
            char name[1200] = "";
            for (size_t used = 0; used + 5 < sizeof name; used += strlen(characters[i])) {
                strcpy(name + used, characters[i]);
            }
            tg_error error = TG_NO_ERROR;
            tg_error_set(&error, TG_ERROR_VALUE, "%.*s%s", before, "call", name);
            size_t length = strlen(error.text);
            assert_true(length > TG_ERROR_TEXT - 6 && length < TG_ERROR_TEXT);
            assert_int_equal(tg_utf8_check(error.text, length), length);
            assert_null(strchr(error.text, '\n'));
            assert_true(i < 4 ? !strchr(error.text, '\\') : strchr(error.text, '\\') != NULL);
        }
    }
}

/* A precision is smaller by the bytes of a character that it would cut, and by nothing else. What is not UTF-8 counts
 * by bytes. */
static void test_precision(void **state)
{
    (void)state;
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    static const int expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    for (int most = 0; most < 12; most++) {
        assert_int_equal(tg_cut(text, most), expected[most]);
        assert_int_equal(tg_cut_bytes(text, strlen(text), most), expected[most]);
        assert_int_equal(tg_cut("abcdefghij", most), most < 10 ? most : 10);
        assert_int_equal(tg_cut("\xff\xe2\x28\xa1\x80\x80\x80\x80\x80\xe2", most), most < 10 ? most : 10);
    }
    assert_int_equal(tg_cut_bytes("\xc3\xa9", 1, 5), 1); /* the end of the bytes is no cut */
    assert_int_equal(tg_cut(NULL, 5), 5);
}

/* A message that quotes a long name cuts it between characters, whether these begin at even bytes or at odd ones. */
static void test_messages_with_long_names(void **state)
{
    (void)state;
    char name[602], *whole = name + 1;
    name[0] = 'a';
    for (int i = 0; i < 300; i++) {
        memcpy(whole + 2 * i, "\xc3\xa9", 3);
    }
    for (int shift = 0; shift < 2; shift++) {
        tg_params *params = tg_params_new(NULL, TG_F32);
        assert_null(tg_params_add_alias(params, "alias", name + shift));
        const tg_error *error = tg_params_error(params);
        assert_int_equal(error->code, TG_ERROR_RANGE);
        assert_null(strchr(error->text, '\\'));
        assert_non_null(strstr(error->text, "\xc3\xa9' exists"));
        tg_params_free(params);
    }
}

static void test_format_line(void **state)
{
    (void)state;
    char line[20];
    assert_int_equal(tg_format_line(line, sizeof line, "%s is %d", "a\nb", 7), 9);
    assert_string_equal(line, "a\\nb is 7");
    assert_int_equal(tg_format_line(line, 8, "%s is %d", "a\nb", 7), 7);
    assert_string_equal(line, "a\\nb is");
}

/* printf writes the sign of a NaN, which means nothing. A name that looks like it stays as it is. */
static void test_nans(void **state)
{
    (void)state;
    char line[60];
    double minus = copysign((double)NAN, -1);
    tg_format_line(line, sizeof line, "%g", minus);
    assert_string_equal(line, "nan");
    tg_format_line(line, sizeof line, "eps %g; (%g, %g) and %.3g: [%g] %g", minus, minus, minus, minus, minus, -1.0);
    assert_string_equal(line, "eps nan; (nan, nan) and nan: [nan] -1");
    tg_format_line(line, sizeof line, "'-nan' a-nan -nano --nan -nan %g", (double)NAN);
    assert_string_equal(line, "'-nan' a-nan -nano --nan nan nan");
    tg_error error = TG_NO_ERROR;
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.lr = minus;
    tg_schedule_lr(0, &schedule, &error);
    assert_error(&error, TG_ERROR_VALUE, "schedule_lr: lr nan; it must be finite");
}

static void assert_number(double value, int digits, const char *expected)
{
    char text[TG_NUMBER_TEXT];
    assert_ptr_equal(tg_format_number(value, digits, text), text);
    assert_string_equal(text, expected);
}

/* The decimal point of de_DE is a comma, and that of ps_AF has two bytes. CI has both locales. */
static void test_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"C", "de_DE.UTF-8", "ps_AF.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_NUMERIC, names[i])) {
            continue;
        }
        assert_number(0.5, 9, "0.5");
        assert_number(-1234.5, 17, "-1234.5");
        assert_number((double)0.1f, 9, "0.100000001");
        assert_number(-DBL_MAX, 17, "-1.7976931348623157e+308");
        assert_number(1e-300, 3, "1e-300");
        assert_number(-0.0, 9, "-0");
        assert_number(12, 17, "12");
        assert_number((double)INFINITY, 9, "inf");
        assert_number(-(double)INFINITY, 9, "-inf");
        double value;
        char text[TG_NUMBER_TEXT];
        assert_true(tg_parse_number(tg_format_number(0.1, 17, text), &value) && value == 0.1);
        setlocale(LC_NUMERIC, "C");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),      cmocka_unit_test(test_cut),
        cmocka_unit_test(test_long_errors), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_precision),   cmocka_unit_test(test_nans),
        cmocka_unit_test(test_format_line), cmocka_unit_test(test_messages_with_long_names),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
