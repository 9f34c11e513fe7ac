/* The ledger: PyTorch's run of a small GPT and ours are equal op by op, and a difference is named where it begins. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A forward pass of the model of tests/goldens/make_ledger.py, its ledger in a temporary file at its beginning. */
static FILE *ledger_of_run(uint64_t seed, double dropout, int64_t length)
{
    const int32_t input_ids[] = {1, 5, 12, 0, 3, 3, 7, 8, 2, 11}, target_ids[] = {5, 12, 0, 3, 4, 7, 8, 2, 11, 6};
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_gpt_config config = {13, 6, 8, 2, 1, dropout, TG_NO_BIAS, false, TG_ATTENTION_FUSED, TG_POSITION_LEARNED};
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_tape *t = tg_tape_new(rng);
    tg_tensor *inputs = tensor_i32(TG_SHAPE(2, length), input_ids),
              *targets = tensor_i32(TG_SHAPE(2, length), target_ids);
    tg_rng_seed(rng, seed);
    FILE *file = tmpfile();
    tg_ledger *ledger = tg_ledger_new(file, t, NULL);
    tg_cross_entropy(t, tg_gpt_forward(t, model, inputs), targets);
    assert_string_equal(tg_tape_error(t), "");
    assert_true(tg_ledger_free(ledger));
    tg_add_scalar(t, inputs, 1); /* no longer observed: an error, and no line */
    tg_release(inputs);
    tg_release(targets);
    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_rng_free(rng);
    rewind(file);
    return file;
}

static void assert_verdict(FILE *a, FILE *b, double tolerance, tg_ledger_verdict verdict, const char *text)
{
    char found[400];
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(tg_ledger_compare(a, b, tolerance, found, sizeof found), verdict);
    if (!strstr(found, text)) {
        fail_msg("expected \"%s\" in \"%s\"", text, found);
    }
    fclose(a);
    fclose(b);
}

static FILE *golden(void)
{
    return fopen(TG_TEST_GOLDENS "/ledger.txt", "r");
}

static void test_equals_torchs(void **state)
{
    (void)state;
    assert_verdict(ledger_of_run(7, 0.1, 5), golden(), 1e-6, TG_LEDGER_EQUAL, "21 ops are equal");
    assert_verdict(ledger_of_run(7, 0.1, 5), ledger_of_run(7, 0.1, 5), 0, TG_LEDGER_EQUAL, "21 ops are equal");
}

static void test_names_the_first_difference(void **state)
{
    (void)state;
    assert_verdict(ledger_of_run(8, 0.1, 5), golden(), 1e-6, TG_LEDGER_DIFFERENT, "op 3, dropout of shape 2,5,8: s");
    assert_verdict(ledger_of_run(7, 0, 5), golden(), 1e-6, TG_LEDGER_DIFFERENT,
                   "op 3, layer_norm of shape 2,5,8: op is layer_norm in the first ledger and dropout in the second");
    assert_verdict(ledger_of_run(7, 0.1, 4), golden(), 1e-6, TG_LEDGER_DIFFERENT,
                   "op 1, embedding of shape 2,4,8: shape is 2,4,8 in the first ledger and 2,5,8 in the second");
    assert_verdict(ledger_of_run(7, 0.1, 5), golden(), 0, TG_LEDGER_DIFFERENT, "is");
}

/* The golden with one piece of text exchanged. */
static FILE *altered(const char *from, const char *to)
{
    size_t length;
    char *text = tg_text_read(TG_TEST_GOLDENS "/ledger.txt", &length, NULL), *at = strstr(text, from);
    assert_non_null(at);
    FILE *file = tmpfile();
    fprintf(file, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    tg_text_free(text);
    rewind(file);
    return file;
}

static void test_sees_every_field(void **state)
{
    (void)state;
    const char *const changes[][3] = {
        {"4\tlayer_norm\tf32", "5\tlayer_norm\tf32", "number is 5"},
        {"attention", "attentive", "op 8, attentive"},
        {"cross_entropy\tf32", "cross_entropy\tf64", "op 21, cross_entropy of shape -: dtype is f64"},
        {"2,5,32", "2,5,33", "op 14, linear of shape 2,5,33: shape is 2,5,33"},
        {"\t200\t360\t", "\t201\t360\t", "op 8, attention of shape 2,2,5,4: draws is 201"},
        {"\t200\t360\t", "\t200\t361\t", "op 8, attention of shape 2,2,5,4: position is 361"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        assert_verdict(altered(changes[i][0], changes[i][1]), golden(), 1e-6, TG_LEDGER_DIFFERENT, changes[i][2]);
    }
    /* sums and sizes, just inside and just outside of the tolerance */
    assert_verdict(altered("1\tembedding", "1\tembedding"), golden(), 0, TG_LEDGER_EQUAL, "21");
    assert_verdict(altered("67.615", "67.616"), golden(), 1e-4, TG_LEDGER_EQUAL, "21");
    assert_verdict(altered("67.615", "67.616"), golden(), 1e-5, TG_LEDGER_DIFFERENT,
                   "op 1, embedding of shape 2,5,8: size");
    assert_verdict(altered("-8.887", "-8.889"), golden(), 1e-5, TG_LEDGER_DIFFERENT,
                   "op 1, embedding of shape 2,5,8: sum");
}

static void test_refuses_what_is_no_ledger(void **state)
{
    (void)state;
    assert_verdict(altered("tapegrad ledger 1", "tapegrad ledger 2"), golden(), 1, TG_LEDGER_BAD,
                   "line 1 of the first");
    assert_verdict(golden(), tmpfile(), 1, TG_LEDGER_BAD, "line 1 of the second file");
    assert_verdict(altered("3\tdropout", "3 dropout"), golden(), 1, TG_LEDGER_BAD, "line 4 of the first");
    assert_verdict(altered("\tf32\t", "\tf32\t\t"), golden(), 1, TG_LEDGER_BAD, "line 2 of the first");
    assert_verdict(altered("67.6", "sixty67.6"), golden(), 1, TG_LEDGER_BAD, "line 2 of the first");
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_verdict(altered("embedding", longer), golden(), 1, TG_LEDGER_BAD, "line 2 of the first");
    FILE *shorter = altered("1\tembedding", "1\tembedding");
    char line[400];
    FILE *first_lines = tmpfile();
    for (int i = 0; i < 4 && fgets(line, sizeof line, shorter); i++) {
        fputs(line, first_lines);
    }
    fclose(shorter);
    rewind(first_lines);
    assert_verdict(golden(), first_lines, 1, TG_LEDGER_DIFFERENT, "the second ledger ends after 3 ops");

    tg_error error = TG_NO_ERROR;
    assert_null(tg_ledger_new(NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "ledger: the file is NULL");
    assert_true(tg_ledger_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_torchs),
        cmocka_unit_test(test_names_the_first_difference),
        cmocka_unit_test(test_sees_every_field),
        cmocka_unit_test(test_refuses_what_is_no_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
