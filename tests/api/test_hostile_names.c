/* Names and paths that others have chosen, with terminal sequences, newlines and bytes that are not UTF-8: every
 * message and report is one line of UTF-8 without control characters, in which the name can be recognized. */
#include "support.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tapegrad/checkpoint.h>
#include <tapegrad/find_nan.h>
#include <tapegrad/gradcheck.h>
#include <tapegrad/ledger.h>
#include <tapegrad/op.h>
#include <tapegrad/profile.h>
#include <tapegrad/tensorboard.h>
#include <tapegrad/words.h>

/* It sets the title of a terminal, clears its line, ends the line, and ends with C1's CSI and a byte that is not UTF-8.
 */
#define HOSTILE "a\x1b]0;x\x07\x1b[2K\nb\xc2\x9b\x7f\xff"
#define ESCAPED "a\\x1b]0;x\\x07\\x1b[2K\\nb\\xc2\\x9b\\x7f\\xff"

/* The same in valid UTF-8, as safetensors and JSON need it, and how JSON has it. */
#define HOSTILE_UTF8 "a\x1b]0;x\x07\x1b[2K\nb\xc2\x9b\x7f"
#define ESCAPED_UTF8 "a\\x1b]0;x\\x07\\x1b[2K\\nb\\xc2\\x9b\\x7f"
#define HOSTILE_JSON "a\\u001b]0;x\\u0007\\u001b[2K\\nb\\u009b\\u007f"

/* Requires a text that a terminal shows as it is, in which a part occurs. With `lines` newlines are allowed, too. */
static void assert_clean(const char *text, const char *part, bool lines)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        bool is_control = *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0) || *s == 0xff;
        if (is_control && !(lines && *s == '\n')) {
            fail_msg("byte 0x%02x at %d of \"%s\"", *s, (int)((const char *)s - text), text);
        }
    }
    if (!strstr(text, part)) {
        fail_msg("\"%s\" has no \"%s\"", text, part);
    }
}

static void assert_clean_error(tg_error *error, tg_code code, const char *part)
{
    assert_int_equal(error->code, code);
    assert_clean(error->text, part, false);
    tg_error_clear(error);
}

static void write_file(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

/* ---- paths ---- */

static void test_paths(void **state)
{
    (void)state;
    static const char path[] = "nowhere/" HOSTILE;
    tg_error error = TG_NO_ERROR;
    tg_params *params = tg_params_new(NULL, TG_F32);
    int64_t step = 1;
    const tg_checkpoint_part part = tg_checkpoint_integer("step", &step);
    assert_null(tg_text_read(path, NULL, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_false(tg_params_load(params, path, NULL, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_false(tg_params_save(params, path, NULL, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_null(tg_checkpoint_folder_open(path, NULL, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_false(tg_checkpoint_load(path, &part, 1, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_null(tg_csv_open(path, NULL, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_null(tg_tokenizer_open(path, NULL, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_null(tg_words_open(path, NULL, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_null(tg_token_file_open(path, 2, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    assert_null(tg_tensor_new_from_npz(path, "x", &error));
    assert_clean_error(&error, TG_ERROR_FILE, "nowhere/" ESCAPED "'");
    write_text("hostile.file", "x");
    assert_null(tg_tensorboard_open("hostile.file/" HOSTILE, &error));
    assert_clean_error(&error, TG_ERROR_FILE, "hostile.file");
    remove("hostile.file");
    tg_params_free(params);
}

/* ---- names in files ---- */

/* Writes a safetensors file of one tensor with a hostile name. */
static void write_safetensors(const char *path, const char *dtype, int values)
{
    char header[400], bytes[500] = {0};
    int length = snprintf(header, sizeof header,
                          "{\"" HOSTILE_JSON "\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", dtype,
                          values, 4 * values);
    bytes[0] = (char)length;
    memcpy(bytes + 8, header, (size_t)length);
    write_file(path, bytes, 8 + (size_t)length + 4 * (size_t)values);
}

static void test_safetensors(void **state)
{
    (void)state;
    static const char path[] = "hostile.safetensors";
    tg_error error = TG_NO_ERROR;
    tg_load_report report;
    tg_params_load_config config = tg_params_load_config_default();
    config.report = &report;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_params_add(params, "first\nsecond", TG_SCALAR);
    write_safetensors(path, "F32", 3);
    assert_false(tg_params_load(params, path, &config, &error));
    assert_string_equal(report.text, "missing: first\\nsecond\nunexpected: " ESCAPED_UTF8);
    assert_clean_error(&error, TG_ERROR_VALUE, "missing: first\\nsecond; unexpected: " ESCAPED_UTF8);
    config.strict = false;
    assert_true(tg_params_load(params, path, &config, &error));
    assert_string_equal(report.text, "missing: first\\nsecond\nunexpected: " ESCAPED_UTF8);
    tg_params_free(params);
    params = tg_params_new(NULL, TG_F32);
    tg_params_add(params, HOSTILE_UTF8, TG_SHAPE(4));
    assert_false(tg_params_load(params, path, &config, &error));
    assert_string_equal(report.text, "mismatched: " ESCAPED_UTF8 " is F32 (3,) in the file and f32 (4,) here");
    assert_clean_error(&error, TG_ERROR_SHAPE, ESCAPED_UTF8 " is F32 (3,)");
    write_safetensors(path, "F32\\u001b[2J", 3);
    assert_false(tg_params_load(params, path, &config, &error));
    assert_clean_error(&error, TG_ERROR_FORMAT, "unknown dtype 'F32\\x1b[2J'");
    write_safetensors(path, "F64", 3);
    assert_false(tg_params_load(params, path, &config, &error));
    assert_clean_error(&error, TG_ERROR_FORMAT, "'" ESCAPED_UTF8 "' has");
    tg_params_free(params);
    remove(path);
}

static void test_vocabularies(void **state)
{
    (void)state;
    static const char path[] = "hostile.json";
    tg_error error = TG_NO_ERROR;
    /* STATE in a build without the tokenizer */
    tg_tokenizer *any = tg_tokenizer_train("a", 1, 257, NULL);
    tg_code expected = any ? TG_ERROR_FORMAT : TG_ERROR_STATE;
    tg_tokenizer_free(any);
    write_text(path, "{\"version\":\"1.0\",\"" HOSTILE_JSON "\":1}");
    assert_null(tg_tokenizer_open(path, NULL, &error));
    assert_clean_error(&error, expected, "");
    write_text(path, "{\"version\":\"1.0\",\"model\":{\"type\":\"" HOSTILE_JSON "\"}}");
    assert_null(tg_tokenizer_open(path, NULL, &error));
    assert_clean_error(&error, expected, "");
    write_text(path, HOSTILE "\n" HOSTILE "\n");
    assert_null(tg_tokenizer_open(path, NULL, &error));
    assert_clean_error(&error, expected, "");
    remove(path);
}

static void test_csv(void **state)
{
    (void)state;
    static const char path[] = "hostile.csv";
    tg_error error = TG_NO_ERROR;
    write_text(path, "x,y\n\"" HOSTILE "\",1\n");
    tg_csv *csv = tg_csv_open(path, NULL, &error), *known = NULL;
    assert_string_equal(tg_csv_field(csv, 0, 0), HOSTILE);
    assert_null(tg_csv_new_numbers(csv, (int[]){0}, 1, TG_F32, &error));
    assert_clean_error(&error, TG_ERROR_FORMAT, "'" ESCAPED "' is not a number");
    write_text(path, "x,y\na,1\n");
    known = tg_csv_open(path, NULL, &error);
    assert_null(tg_csv_new_known_categories(csv, 0, known, 0, &error));
    assert_clean_error(&error, TG_ERROR_FORMAT, "'" ESCAPED "' is none of");
    tg_csv_free(csv);
    tg_csv_free(known);
    remove(path);
}

static void test_words(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    static const char word[] = "a\x1b[2J\x7f";
    tg_words_config config = tg_words_config_default();
    config.unknown = NULL;
    tg_words *words = tg_words_new("b c", 3, &config, &error);
    tg_tokens tokens;
    assert_false(tg_words_encode(words, word, strlen(word), &tokens, &error));
    assert_clean_error(&error, TG_ERROR_RANGE, "\\x1b");
    tg_words_free(words);
    const char *special[] = {HOSTILE_UTF8};
    config.special = special;
    config.special_count = 1;
    assert_null(tg_words_new("b c", 3, &config, &error));
    assert_clean_error(&error, TG_ERROR_VALUE, ESCAPED_UTF8);
}

static void test_checkpoints(void **state)
{
    (void)state;
    static const char path[] = "hostile.safetensors";
    tg_error error = TG_NO_ERROR;
    int64_t number = 1;
    tg_checkpoint_part parts[] = {tg_checkpoint_expect_text(HOSTILE_UTF8, "x\n\x1b[2J"),
                                  tg_checkpoint_integer(HOSTILE_UTF8, &number)};
    assert_false(tg_checkpoint_save(path, parts, 2, &error));
    assert_clean_error(&error, TG_ERROR_VALUE, ESCAPED_UTF8);
    assert_true(tg_checkpoint_save(path, parts, 1, &error));
    parts[0] = tg_checkpoint_expect_text(HOSTILE_UTF8, "y");
    assert_false(tg_checkpoint_load(path, parts, 1, &error));
    assert_clean_error(&error, TG_ERROR_VALUE, "x\\n\\x1b[2J");
    parts[0] = tg_checkpoint_expect_text("z" HOSTILE_UTF8, "y");
    assert_false(tg_checkpoint_load(path, parts, 1, &error));
    assert_clean_error(&error, TG_ERROR_VALUE, "z" ESCAPED_UTF8);
    remove(path);
}

/* ---- names of the caller ---- */

static void test_params_and_modules(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_error error = TG_NO_ERROR;
    assert_non_null(tg_params_add(params, HOSTILE, TG_SCALAR));
    assert_null(tg_params_add(params, HOSTILE, TG_SCALAR));
    error = *tg_params_error(params);
    assert_clean_error(&error, TG_ERROR_VALUE, "'" ESCAPED "' is in use");
    clear_params_error(params);
    tg_nn_linear_make(params, HOSTILE, 0, 3, TG_BIAS);
    error = *tg_params_error(params);
    assert_clean_error(&error, TG_ERROR_SHAPE, "'" ESCAPED "'");
    clear_params_error(params);
    tg_optim *optim = tg_sgd_new(params, NULL);
    assert_false(tg_optim_add_to_group(optim, HOSTILE, HOSTILE "x"));
    error = *optim_error(optim);
    assert_clean_error(&error, TG_ERROR_RANGE, "'" ESCAPED "x'");
    tg_optim_free(optim);
    tg_params_free(params);
}

static void reciprocal(const tg_op_call *call)
{
    *(float *)tg_tensor_data_mut(call->outputs[0]) = 0.0f / *(const float *)tg_tensor_data(call->inputs[0]);
}

static bool scalar_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F32, TG_SCALAR);
}

static const tg_op hostile_op = {.name = HOSTILE "\t\"\\", .shape = scalar_shape, .f32 = {reciprocal, NULL}};

static tg_tensor *run(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &hostile_op, &x, 1, NULL, 0, NULL);
}

/* What `write` writes to a file. */
static const char *written(tg_tape *t, bool (*write)(tg_tape *t, FILE *file))
{
    static char text[4000];
    FILE *file = tmpfile();
    assert_true(write(t, file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static bool write_dot(tg_tape *t, FILE *file)
{
    return tg_tape_write_dot(t, file, NULL);
}

static bool write_profile(tg_tape *t, FILE *file)
{
    tg_profile *profile = tg_profile_new(t);
    tg_tensor *x = tensor_f32(TG_SCALAR, (float[]){1});
    run(t, x);
    tg_release(x);
    bool is_written = tg_profile_write(profile, file, NULL);
    tg_profile_free(profile);
    return is_written;
}

static FILE *ledger_of(float number)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tensor_f32(TG_SCALAR, &number);
    FILE *file = tmpfile();
    tg_ledger *ledger = tg_ledger_open(t, file);
    run(t, x);
    assert_true(tg_ledger_close(ledger, NULL));
    tg_release(x);
    tg_tape_free(t);
    rewind(file);
    return file;
}

static tg_tensor *fails(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)context, (void)count;
    return run(t, inputs[0]);
}

static void test_ops(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f32(TG_SCALAR, (float[]){0}));
    tg_nan_report found;
    run(t, x);
    assert_true(tg_find_nan(t, &found));
    assert_clean(found.text, "'" ESCAPED "\\x09\"\\' (op 1 of 1)", false);
    assert_false(tg_backward(t, run(t, x), NULL));
    tg_error error = *tg_tape_error(t);
    assert_clean_error(&error, TG_ERROR_DTYPE, "'" ESCAPED "\\x09\"\\'");
    clear_tape_error(t);
    /* in Graphviz's language a backslash before a backslash and a quotation mark */
    assert_clean(written(t, write_dot),
                 "[label=\"%1 a\\\\x1b]0;x\\\\x07\\\\x1b[2K\\\\nb\\\\xc2\\\\x9b\\\\x7f\\\\xff"
                 "\\\\x09\\\"\\\\\\nf32 ()\\n[",
                 true);
    assert_clean(written(t, write_profile), ESCAPED, true);
    tg_release(x);
    tg_tape_free(t);
    FILE *one = ledger_of(1), *two = ledger_of(0);
    tg_ledger_difference difference;
    if (!tg_ledger_compare(one, two, 0, &difference, &error)) {
        fail_msg("%s", error.text);
    }
    assert_clean(difference.text, "op 1, " ESCAPED "\\x09", false);
    fclose(one);
    fclose(two);
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.name = HOSTILE;
    tg_gradcheck_report report;
    x = leaf(tensor_f64(TG_SCALAR, (double[]){1}));
    assert_false(tg_gradcheck(fails, NULL, &x, 1, &config, &report, &error));
    assert_clean(report.text, ESCAPED ": ", false);
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_vocabularies),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_params_and_modules),
        cmocka_unit_test(test_ops),
    };
    return cmocka_run_group_tests_name("hostile_names", tests, NULL, NULL);
}
