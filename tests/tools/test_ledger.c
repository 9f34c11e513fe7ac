/* The ledger, a trace of operations: runs of a small GPT by PyTorch and by the library are equal op by op, and the
 * first difference of two runs is reported. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* A forward pass of the model of tests/goldens/make_ledger.py, its ledger in a temporary file at its beginning. */
static FILE *ledger_of_path(tg_attention_path path, uint64_t seed, double dropout, int64_t length)
{
    const int32_t input_ids[] = {1, 5, 12, 0, 3, 3, 7, 8, 2, 11}, target_ids[] = {5, 12, 0, 3, 4, 7, 8, 2, 11, 6};
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 13;
    config.context = 6;
    config.width = 8;
    config.heads = 2;
    config.layers = 1;
    config.dropout = dropout;
    config.path = path;
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *inputs = tensor_i32(TG_SHAPE(2, length), input_ids),
              *targets = tensor_i32(TG_SHAPE(2, length), target_ids);
    tg_rng_seed(tg_run_rng(run), seed);
    FILE *file = tmpfile();
    tg_ledger *ledger = tg_ledger_open(t, file);
    tg_cross_entropy(t, tg_gpt_forward(t, model, inputs, NULL), targets, NULL);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_true(tg_ledger_close(ledger, NULL));
    /* after closing: neither an error nor an op writes a line */
    assert_null(tg_add_scalar(t, inputs, 1));
    clear_tape_error(t);
    assert_non_null(tg_cast(t, inputs, TG_F32));
    tg_release(inputs);
    tg_release(targets);
    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    rewind(file);
    return file;
}

static FILE *ledger_of_run(uint64_t seed, double dropout, int64_t length)
{
    return ledger_of_path(TG_ATTENTION_FUSED, seed, dropout, length);
}

typedef enum verdict { EQUAL, DIFFERENT, INVALID, REFUSED } verdict;

/* The text names the line behind those that were equal. */
static void assert_equal_lines(const tg_ledger_difference *found)
{
    char text[60];
    snprintf(text, sizeof text, "%lld ops are equal", (long long)found->equal_lines);
    if (found->is_equal) {
        assert_string_equal(found->text, text);
    } else if (strncmp(found->text, "op ", 3) == 0) {
        assert_int_equal(strtoll(found->text + 3, NULL, 10), found->equal_lines + 1);
    } else {
        snprintf(text, sizeof text, "ledger ends after %lld ops", (long long)found->equal_lines);
        assert_non_null(strstr(found->text, text));
    }
}

/* Compares two ledgers, and closes them. For an invalid line or a refused tolerance the text is the error's, and no
 * difference is written. */
static void assert_verdict(FILE *a, FILE *b, double tolerance, verdict expected, const char *text)
{
    tg_ledger_difference found = {.is_equal = true, .equal_lines = -7, .text = "untouched"};
    tg_error error = TG_NO_ERROR;
    assert_non_null(a);
    assert_non_null(b);
    bool compared = tg_ledger_compare(a, b, tolerance, &found, &error);
    assert_int_equal(compared, expected == EQUAL || expected == DIFFERENT);
    const char *seen = compared ? found.text : error.text;
    if (!strstr(seen, text)) {
        fail_msg("expected \"%s\" in \"%s\"", text, seen);
    }
    if (compared) {
        assert_int_equal(error.code, TG_OK);
        assert_int_equal(found.is_equal, expected == EQUAL);
        assert_equal_lines(&found);
    } else {
        assert_int_equal(error.code, expected == INVALID ? TG_ERROR_FORMAT : TG_ERROR_VALUE);
        assert_int_equal(found.equal_lines, -7);
        assert_string_equal(found.text, "untouched");
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
    assert_verdict(ledger_of_run(7, 0.1, 5), golden(), 1e-6, EQUAL, "21 ops are equal");
    assert_verdict(ledger_of_run(7, 0.1, 5), ledger_of_run(7, 0.1, 5), 0, EQUAL, "21 ops are equal");
    assert_verdict(ledger_of_path(TG_ATTENTION_ELEMENTARY, 7, 0.1, 5),
                   fopen(TG_TEST_GOLDENS "/ledger_elementary.txt", "r"), 1e-6, EQUAL, "27 ops are equal");
}

/* After the first line the file has exactly these, each beginning as given. */
static void assert_lines(FILE *file, const char *const *lines, size_t count)
{
    char line[400];
    rewind(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "tapegrad ledger 1\n");
    for (size_t i = 0; i < count; i++) {
        assert_non_null(fgets(line, sizeof line, file));
        if (strncmp(line, lines[i], strlen(lines[i])) != 0) {
            fail_msg("expected \"%s\" in \"%s\"", lines[i], line);
        }
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

/* An op of two outputs that draws a number. */
static bool two_scalars(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F32, TG_SCALAR) && tg_op_output(call, 1, TG_F32, TG_SCALAR);
}

static void draw_one(const tg_op_call *call)
{
    tg_rng_u32(call->rng);
    *(float *)tg_tensor_data_mut(call->outputs[0]) = 2;
    *(float *)tg_tensor_data_mut(call->outputs[1]) = 3;
}

static const tg_op two = {.name = "two", .shape = two_scalars, .f32 = {.forward = draw_one}};

/* A dropout's draws are its own, whatever happens to the generator between two ops. */
static void test_counts_draws_by_op(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(2), (float[]){3, 1})), *indices;
    FILE *file = tmpfile();
    tg_rng_u32(tg_run_rng(run));
    tg_ledger *ledger = tg_ledger_open(t, file);
    tg_dropout(t, x, 0.5);
    tg_rng_seed(tg_run_rng(run), 1);
    tg_dropout(t, x, 0.5);
    tg_rng_u64(tg_run_rng(run));
    tg_dropout(t, x, 0.5);
    /* a view: no line */
    tg_transpose(t, x, 0, 0);
    tg_topk(t, x, 2, 0, TG_LARGEST_FIRST, &indices);
    tg_apply(t, &two, &x, 1, NULL, 0, NULL);
    assert_true(tg_ledger_close(ledger, NULL));
    const char *const lines[] = {"1\tdropout\tf32\t2\t4\t5\t",        "2\tdropout\tf32\t2\t4\t4\t",
                                 "3\tdropout\tf32\t2\t4\t10\t",       "4\ttopk\tf32\t2\t0\t10\t4\t4\t",
                                 "5\ttopk[1]\ti32\t2\t0\t10\t1\t1\t", "6\ttwo\tf32\t-\t1\t11\t2\t2\t",
                                 "7\ttwo[1]\tf32\t-\t0\t11\t3\t3\t"};
    assert_lines(file, lines, sizeof lines / sizeof lines[0]);
    tg_release(x);
    tg_tape_free(t);
    tg_run_free(run);
}

static void test_checksum_is_of_the_bytes(void **state)
{
    (void)state;
    /* no generator: no draws, position 0 */
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tensor_f32(TG_SHAPE(1, 2), (float[]){-1, 0.5F}), *wide = tensor_f64(TG_SHAPE(1), (double[]){1});
    tg_tensor *bytes = tensor_f32(TG_SHAPE(1), (float[]){0});
    FILE *file = tmpfile(), *other = tmpfile();
    tg_ledger *first = tg_ledger_open(t, other), *ledger = tg_ledger_open(t, file);
    /* the second one has replaced it, and stays */
    assert_true(tg_ledger_close(first, NULL));
    tg_abs(t, x);
    tg_neg(t, wide);
    /* -0: other bits than 0, the same value */
    tg_neg(t, bytes);
    assert_true(tg_ledger_close(ledger, NULL));
    assert_lines(other, NULL, 0);
    /* FNV-1a by ten lines of Python over struct.pack('<ff', 1, 0.5), ('<d', -1) and ('<f', -0.0) */
    const char *const lines[] = {"1\tabs\tf32\t1,2\t0\t0\t1.5\t1.5\t097a58ee2da2e4f5\n",
                                 "2\tneg\tf64\t1\t0\t0\t-1\t1\taab1e93229baf738\n",
                                 "3\tneg\tf32\t1\t0\t0\t0\t0\t4d24f67f9dcd3a75\n"};
    assert_lines(file, lines, sizeof lines / sizeof lines[0]);
    tg_release(x);
    tg_release(wide);
    tg_release(bytes);
    tg_tape_free(t);
}

static void test_names_the_first_difference(void **state)
{
    (void)state;
    assert_verdict(ledger_of_run(8, 0.1, 5), golden(), 1e-6, DIFFERENT, "op 3, dropout of shape 2,5,8: s");
    assert_verdict(ledger_of_run(7, 0, 5), golden(), 1e-6, DIFFERENT,
                   "op 3, layer_norm of shape 2,5,8: op is layer_norm in the first ledger and dropout in the second");
    assert_verdict(ledger_of_run(7, 0.1, 4), golden(), 1e-6, DIFFERENT,
                   "op 1, embedding of shape 2,4,8: shape is 2,4,8 in the first ledger and 2,5,8 in the second");
    assert_verdict(ledger_of_run(7, 0.1, 5), golden(), 0, DIFFERENT, "is");
}

/* The golden with one piece of text replaced. */
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
        {"scaled_dot_product_attention", "attentive", "op 8, attentive"},
        {"cross_entropy\tf32", "cross_entropy\tf64", "op 21, cross_entropy of shape -: dtype is f64"},
        {"2,5,32", "2,5,33", "op 14, linear of shape 2,5,33: shape is 2,5,33"},
        {"\t200\t360\t", "\t201\t360\t", "op 8, scaled_dot_product_attention of shape 2,2,5,4: draws is 201"},
        {"\t200\t360\t", "\t200\t361\t", "op 8, scaled_dot_product_attention of shape 2,2,5,4: position is 361"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        assert_verdict(altered(changes[i][0], changes[i][1]), golden(), 1e-6, DIFFERENT, changes[i][2]);
    }
    /* an overflow is a difference, though no tolerance of it is finite */
    assert_verdict(altered("67.615098509937525", "inf"), golden(), 1e-6, DIFFERENT,
                   "op 1, embedding of shape 2,5,8: size is inf");
    assert_verdict(altered("67.615098509937525", "nan"), golden(), 1e-6, DIFFERENT,
                   "op 1, embedding of shape 2,5,8: size is nan");
    assert_verdict(altered("-8.8879534713923931\t67.615098509937525", "inf\tinf"),
                   altered("-8.8879534713923931\t67.615098509937525", "-inf\tinf"), 1e-6, DIFFERENT,
                   "op 1, embedding of shape 2,5,8: sum is inf");
    assert_verdict(altered("-8.8879534713923931\t67.615098509937525", "nan\tnan"),
                   altered("-8.8879534713923931\t67.615098509937525", "nan\tnan"), 1e-6, EQUAL, "21");
    /* the larger size counts: 0.4 of it is 40 */
    assert_verdict(altered("67.615098509937525", "100"), golden(), 0.4, EQUAL, "21");
    assert_verdict(golden(), altered("67.615098509937525", "100"), 0.4, EQUAL, "21");
    assert_verdict(golden(), altered("67.615098509937525", "100"), 0.3, DIFFERENT, "size");
    /* sums and sizes, just inside and just outside of the tolerance */
    assert_verdict(altered("1\tembedding", "1\tembedding"), golden(), 0, EQUAL, "21");
    assert_verdict(altered("67.615", "67.616"), golden(), 1e-4, EQUAL, "21");
    assert_verdict(altered("67.615", "67.616"), golden(), 1e-5, DIFFERENT, "op 1, embedding of shape 2,5,8: size");
    assert_verdict(altered("-8.887", "-8.889"), golden(), 1e-5, DIFFERENT, "op 1, embedding of shape 2,5,8: sum");
}

static void test_refuses_invalid_ledgers(void **state)
{
    (void)state;
    assert_verdict(altered("tapegrad ledger 1", "tapegrad ledger 2"), golden(), 1, INVALID, "line 1 of the first");
    assert_verdict(golden(), tmpfile(), 1, INVALID, "line 1 of the second file");
    assert_verdict(altered("3\tdropout", "3 dropout"), golden(), 1, INVALID, "line 4 of the first");
    assert_verdict(altered("\tf32\t", "\tf32\t\t"), golden(), 1, INVALID, "line 2 of the first");
    const char *const fields[][3] = {
        {"4\tlayer_norm", "5\tlayer_norm", "line 5 of the first file is invalid: number \"5\""},
        {"embedding", "", "line 2 of the first file is invalid: op \"\""},
        {"embedding", "embed\033[2Jding", "line 2 of the first file is invalid: op \"embed\\x1b[2Jding\""},
        {"embedding", "embed\177ding", "line 2 of the first file is invalid: op \"embed\\x7fding\""},
        {"f32", "f33", "line 2 of the first file is invalid: dtype \"f33\""},
        {"2,5,8", "2x5", "line 2 of the first file is invalid: shape"},
        {"\t160\t160", "\t-160\t160", "line 4 of the first file is invalid: draws"},
        {"\t160\t160", "\t160\t", "line 4 of the first file is invalid: position"},
        {"-8.887", "eight", "line 2 of the first file is invalid: sum \"eight"},
        {"67.6", "sixty67.6", "line 2 of the first file is invalid: size"},
        {"67.6", "-67.6", "line 2 of the first file is invalid: size"},
        {"\t-\n", "\t0123\n", "line 2 of the first file is invalid: checksum"},
        {"\t-\n", "\t-\t\n", "line 2 of the first file is invalid: it must have nine fields with a tab between two"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_verdict(altered(fields[i][0], fields[i][1]), golden(), 1, INVALID, fields[i][2]);
    }
    const double tolerances[] = {-1, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof tolerances / sizeof tolerances[0]; i++) {
        assert_verdict(golden(), golden(), tolerances[i], REFUSED, "must be finite and at least 0");
    }
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_verdict(altered("embedding", longer), golden(), 1, INVALID, "line 2 of the first");
    FILE *shorter = altered("1\tembedding", "1\tembedding");
    char line[400];
    FILE *first_lines = tmpfile();
    for (int i = 0; i < 4 && fgets(line, sizeof line, shorter); i++) {
        fputs(line, first_lines);
    }
    fclose(shorter);
    rewind(first_lines);
    assert_verdict(golden(), first_lines, 1, DIFFERENT, "the second ledger ends after 3 ops");

    tg_error error = TG_NO_ERROR;
    tg_ledger_difference found;
    FILE *file = golden();
    assert_false(tg_ledger_compare(NULL, file, 0, &found, &error));
    assert_error(&error, TG_ERROR_STATE, "ledger_compare: the first file is NULL");
    assert_false(tg_ledger_compare(file, NULL, 0, &found, &error));
    assert_error(&error, TG_ERROR_STATE, "ledger_compare: the second file is NULL");
    assert_false(tg_ledger_compare(file, file, 0, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "ledger_compare: the difference is NULL");
    assert_int_equal(ftell(file), 0);
    fclose(file);
}

static void test_cut_off_inside_a_line(void **state)
{
    (void)state;
    assert_verdict(golden(), altered("\t16.757905900478363\t95.485949277877808\t-\n", "\t16.75"), 1, INVALID,
                   "line 3 of the second file is invalid");
    FILE *cut = tmpfile();
    fputs("tapegrad ledger 1\n1\tembedding\tf32\t2,5,8\t0\t0\t-8.8", cut);
    rewind(cut);
    assert_verdict(golden(), cut, 10, INVALID, "it is too long, has a NUL, or is cut off");
}

static void test_a_file_that_cannot_be_written(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_error error = TG_NO_ERROR;
    FILE *readable = golden();
    assert_null(tg_ledger_open(t, readable));
    assert_tape_error(t, TG_ERROR_FILE, "ledger_open: the file cannot be written");
    assert_null(tg_ledger_open(t, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "ledger_open: the file is NULL");
    assert_null(tg_ledger_open(NULL, readable));
    assert_true(tg_ledger_close(NULL, &error));
    fclose(readable);
#if defined __GLIBC__ /* elsewhere such a file may not report that it is full */
    /* space for the first line, but not for an op's; without a buffer, so that only the write can fail */
    char space[40];
    FILE *small = fmemopen(space, sizeof space, "w");
    assert_non_null(small);
    setvbuf(small, NULL, _IONBF, 0);
    tg_ledger *cut = tg_ledger_open(t, small);
    assert_non_null(cut);
    tg_tensor *x = tensor_f32(TG_SHAPE(2), (float[]){0.1F, 0.2F});
    tg_exp(t, x);
    tg_release(x);
    assert_false(tg_ledger_close(cut, &error));
    assert_error(&error, TG_ERROR_FILE, "ledger_close: the file cannot be written");
    fclose(small);
#endif
    /* Linux: every write fails, once the buffer is passed on */
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        tg_ledger *ledger = tg_ledger_open(t, full);
        assert_non_null(ledger);
        assert_false(tg_ledger_close(ledger, &error));
        assert_error(&error, TG_ERROR_FILE, "ledger_close: the file cannot be written");
        fclose(full);
    }
    counting_allocator counting;
    FILE *file = tmpfile();
    allocator_install(&counting);
    allocator_arm(&counting, 1, false);
    assert_null(tg_ledger_open(t, file));
    allocator_restore();
    assert_tape_error(t, TG_ERROR_MEMORY, "ledger_open: out of memory");
    assert_int_equal(ftell(file), 0);
    /* a tape with an error refuses */
    assert_null(tg_exp(t, NULL));
    assert_null(tg_ledger_open(t, file));
    assert_tape_error(t, TG_ERROR_STATE, "exp: argument 'x' is NULL");
    assert_int_equal(ftell(file), 0);
    fclose(file);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_torchs),         cmocka_unit_test(test_names_the_first_difference),
        cmocka_unit_test(test_sees_every_field),      cmocka_unit_test(test_refuses_invalid_ledgers),
        cmocka_unit_test(test_counts_draws_by_op),    cmocka_unit_test(test_checksum_is_of_the_bytes),
        cmocka_unit_test(test_cut_off_inside_a_line), cmocka_unit_test(test_a_file_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
