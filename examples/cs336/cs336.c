#include "cs336.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad_text.h>

#include "../common/command_line.h"
#include "../common/terminal.h"

static bool has_failed;

options options_read(unsigned program, const char *description, int argc, char **argv)
{
    options o = {.vocabulary = 500, .steps = 300, .prompt = "In the evening", .out = "out/cs336"};
    const unsigned all = TRAIN_BPE | TOKENIZER | LAYERS | TRAIN | GENERATE, tests = TRAIN_BPE | TOKENIZER | LAYERS;
    const command_line_option table[] = {
        {"cs336", "DIR", VALUE_TEXT, offsetof(options, cs336), NULL,
         "folder with the course's tests, fixtures and snapshots; without it, tests that need them are skipped", tests},
        {"twin", "FILE", VALUE_TEXT, offsetof(options, twin), NULL, "the figures of PyTorch, tests/goldens/cs336.npz",
         TOKENIZER | LAYERS | TRAIN},
        {"book", "DIR", VALUE_TEXT, offsetof(options, book), NULL, "folder with GPT-2's vocab.bpe", TOKENIZER},
        {"text", "FILE", VALUE_TEXT, offsetof(options, text), NULL, "the text to train on", TRAIN_BPE | TRAIN},
        {"special", "TOKEN", VALUE_TEXT, offsetof(options, special), NULL,
         "a token of --text that is neither split nor merged", TRAIN_BPE},
        {"vocab-size", "N", VALUE_INTEGER, offsetof(options, vocabulary), "[257,1000000]",
         "number of ids, the special token included", TRAIN_BPE},
        {"steps", "N", VALUE_INTEGER, offsetof(options, steps), "[1,1000000]", "number of training steps", TRAIN},
        {"out", "DIR", VALUE_TEXT, offsetof(options, out), NULL,
         "what is written: the folder of the model, or of the files of tests; of a vocabulary, its file", all},
        {"prompt", "TEXT", VALUE_TEXT, offsetof(options, prompt), NULL, "the beginning of the text", GENERATE},
    };
    char introduction[300];
    snprintf(introduction, sizeof introduction, "%s: %s\n", program_name, description);
    program_begin();
    int status = command_line_read(table, sizeof table / sizeof *table, program, introduction, &o, argc, argv);
    if (status >= 0) {
        exit(program_end(status));
    }
    return o;
}

/* ---- the course's files ---- */

const char *course_file(const options *o, const char *name)
{
    static char paths[4][PATH_BYTES];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_BYTES, "%s/%s", o->cs336, name);
    return path;
}

/* Returns the text of a test's file, and where in it the marker of the test ends; free it with tg_text_free. */
static char *read_test(const options *o, const char *file, const char *test, const char *marker, const char **at)
{
    tg_error error = TG_NO_ERROR;
    char *text = tg_text_read(course_file(o, file), NULL, &error), define[100];
    check(&error);
    snprintf(define, sizeof define, "def %s(", test);
    *at = strstr(text, define);
    *at = *at ? strstr(*at, marker) : NULL;
    if (!*at) {
        complain("%s: '%s' does not stand in %s: another version of the course's files", course_file(o, file), marker,
                 test);
        exit(program_end(1));
    }
    *at += strlen(marker);
    return text;
}

void course_numbers(const options *o, const char *file, const char *test, const char *marker, double *values, int count)
{
    const char *at;
    char *text = read_test(o, file, test, marker, &at), *end;
    int found = 0;
    for (; *(at += strspn(at, "[], \n")); found++, at = end) {
        double value = strtod(at, &end);
        if (end == at) {
            break;
        }
        if (found < count) {
            values[found] = value;
        }
    }
    tg_text_free(text);
    if (found != count) {
        complain("%s: %d numbers stand behind '%s' in %s; the version that this program knows has %d",
                 course_file(o, file), found, marker, test, count);
        exit(program_end(1));
    }
}

void course_text(const options *o, const char *file, const char *test, const char *marker, char *text, size_t size)
{
    const char *at;
    char *all = read_test(o, file, test, marker, &at);
    snprintf(text, size, "%.*s", (int)strcspn(at, "\""), at);
    tg_text_free(all);
}

tg_tensor *course_tensor(recipe *r, const options *o, const char *file, const char *test, const char *marker,
                         tg_shape shape)
{
    double values[64];
    tg_tensor *x = tg_full(r->data, TG_F32, shape, 0);
    int count = (int)tg_tensor_count(x);
    course_numbers(o, file, test, marker, values, count);
    float *data = tg_tensor_data_mut(x);
    for (int i = 0; i < count; i++) {
        data[i] = (float)values[i];
    }
    return x;
}

tg_tensor *seeded_randn(recipe *r, uint64_t seed, tg_shape shape)
{
    tg_rng_seed(tg_run_rng(r->run), seed);
    return recipe_randn(r, shape);
}

tg_tensor *seeded_randint(recipe *r, uint64_t seed, tg_shape shape, int64_t high)
{
    tg_rng_seed(tg_run_rng(r->run), seed);
    return recipe_randint(r, shape, 0, high);
}

/* ---- tests ---- */

static const char *const against[] = {"a snapshot", "a fixture", "a twin", "itself"};

bool test_begin(const options *o, const char *test, compared with)
{
    const char *missing = (with == SNAPSHOT || with == FIXTURE) && !o->cs336 ? "--cs336 DIR"
                          : with == TWIN && !o->twin                         ? "--twin FILE"
                                                                             : NULL;
    if (missing) {
        printf("%s: skipped: needs %s\n", test, missing);
    }
    return !missing;
}

void test_line(const char *test, compared with, bool passed, const char *format, ...)
{
    char detail[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    print_line(stdout, "%s: %s against %s: %s", test, passed ? "passed" : "FAILED", against[with], detail);
    has_failed = has_failed || !passed;
}

/* Returns the largest difference, or NaN if there is one, which is never near. Clears *is_near unless each is at most
 * atol + rtol |expected|. */
static double difference(const tg_tensor *y, const tg_tensor *expected, double rtol, double atol, bool *is_near)
{
    double largest = 0;
    for (int64_t i = 0; i < tg_tensor_count(y); i++) {
        double value = tg_tensor_value_at(expected, i), by = fabs(tg_tensor_value_at(y, i) - value);
        *is_near = *is_near && by <= atol + rtol * fabs(value);
        largest = isnan(by) || by > largest ? by : largest;
    }
    return largest;
}

void test_array(recipe *r, const options *o, const char *test, compared with, double rtol, double atol, tg_tensor *y,
                const char *op, tg_tensor *beside)
{
    char name[100], beside_text[100] = "";
    snprintf(name, sizeof name, "snapshots/%s.npz", test);
    const char *path = with == SNAPSHOT ? course_file(o, name) : o->twin;
    tg_tensor *expected = tg_tensor_new_from_npz(path, with == SNAPSHOT ? "array" : test, &r->error);
    recipe_check(r);
    if (!tg_shape_equal(tg_tensor_shape(y), tg_tensor_shape(expected))) {
        char has[TG_SHAPE_TEXT], gives[TG_SHAPE_TEXT];
        complain("%s: %s has the shape %s, and the test of the version that this program knows gives %s", path, test,
                 tg_shape_format(tg_tensor_shape(expected), has), tg_shape_format(tg_tensor_shape(y), gives));
        exit(program_end(1));
    }
    bool is_near = true;
    double largest = difference(y, expected, rtol, atol, &is_near);
    if (beside) {
        snprintf(beside_text, sizeof beside_text, ", that of %s %.1e", op,
                 difference(beside, expected, rtol, atol, &is_near));
    }
    test_line(test, with, is_near, "largest difference %.1e%s (allowed %g and %g of the value)", largest, beside_text,
              atol, rtol);
    tg_release(expected);
}

int tests_end(recipe *r)
{
    int status = recipe_end(r);
    return has_failed ? 1 : status;
}
