/* A build with -Dtokenizer=disabled: the constructors of a tokenizer report the option; token files work. */
#include "support.h"

static void test_constructors_report_the_option(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_null(tg_tokenizer_train("a b a b", 7, 300, &error));
    assert_error(&error, TG_ERROR_STATE, "-Dtokenizer=disabled");
    assert_null(tg_tokenizer_open("missing.bpe", NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "missing.bpe");
    assert_true(tg_token_file_write("no_tokenizer.bin", 2, (const int32_t[]){1, 2}, 2, &error));
    tg_token_file *file = tg_token_file_open("no_tokenizer.bin", 2, &error);
    assert_int_equal(tg_token_file_count(file), 2);
    tg_token_file_free(file);
    remove("no_tokenizer.bin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constructors_report_the_option)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
