/* Printing equals PyTorch's character for character. The goldens are from goldens/make_print.py, which also describes
 * the format of goldens/print.txt. */
#include "support.h"

#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

/* Writes a tensor's text to an array of `size` bytes. Returns its length. */
static int64_t format(const tg_tensor *x, char *out, size_t size, const tg_tensor_print_config *config)
{
    tg_text_buffer text = {0};
    tg_tensor_format(&text, x, config);
    assert_false(text.failed);
    assert_true(text.length < size);
    int64_t length = (int64_t)text.length;
    memcpy(out, text.bytes, text.length + 1);
    tg_free(text.bytes);
    return length;
}

/* ---- the goldens --------------------------------------------------------------------------------------------- */

typedef struct golden {
    char name[64];
    tg_dtype dtype;
    tg_shape shape;
    /* none: the tensor as it was created */
    tg_axes permutation;
    tg_tensor_print_config config;
    /* values in the file, repeated over the tensor */
    int64_t given;
    double values[4096];
    size_t length;
    char text[1 << 16];
} golden;

/* Reads the fields of one case, line by line. False at the end of the file, which gives the number of cases. */
static bool read_golden(FILE *file, golden *g, int64_t *cases)
{
    char line[2048];
    memset(g, 0, sizeof *g);
    g->config = tg_tensor_print_config_default();
    while (fgets(line, sizeof line, file)) {
        assert_non_null(strchr(line, '\n'));
        if (line[0] == '|') {
            assert_true(g->length + strlen(line) < sizeof g->text);
            g->length += (size_t)snprintf(g->text + g->length, sizeof g->text - g->length, "%s", line + 1);
            continue;
        }
        line[strlen(line) - 1] = '\0';
        char *at = line + strcspn(line, " ");
        if (!strncmp(line, "case ", 5)) {
            snprintf(g->name, sizeof g->name, "%s", at + 1);
        } else if (!strncmp(line, "dtype ", 6)) {
            while (strcmp(tg_dtype_name(g->dtype), at + 1) != 0) {
                assert_true(g->dtype < TG_U8);
                g->dtype++;
            }
        } else if (!strncmp(line, "shape", 5)) {
            while (*at) {
                assert_true(g->shape.rank < TG_MAX_RANK);
                g->shape.size[g->shape.rank++] = strtoll(at, &at, 10);
            }
        } else if (!strncmp(line, "permute ", 8)) {
            while (*at) {
                assert_true(g->permutation.count < g->shape.rank);
                g->permutation.axis[g->permutation.count++] = (int)strtol(at, &at, 10);
            }
        } else if (!strncmp(line, "options ", 8)) {
            g->config.precision = (int)strtol(at, &at, 10);
            g->config.threshold = strtoll(at, &at, 10);
            g->config.edge_items = (int)strtol(at, &at, 10);
            g->config.line_width = (int)strtol(at, &at, 10);
        } else if (!strncmp(line, "values ", 7)) {
            while (*at) {
                assert_true(g->given < (int64_t)(sizeof g->values / sizeof g->values[0]));
                char *before = at;
                g->values[g->given++] = strtod(before, &at);
                assert_ptr_not_equal(at, before);
            }
        } else if (!strcmp(line, "end")) {
            assert_true(g->length > 0);
            /* the last newline is the file's */
            g->text[--g->length] = '\0';
            return true;
        } else {
            assert_int_equal(sscanf(line, "cases %" SCNd64, cases), 1);
        }
    }
    return false;
}

static tg_tensor *new_tensor(const golden *g)
{
    tg_tensor *values = tg_tensor_new(TG_F64, g->shape, NULL);
    assert_non_null(values);
    double *to = tg_tensor_data_mut(values);
    for (int64_t i = 0; i < tg_tensor_count(values); i++) {
        to[i] = g->values[i % g->given];
    }
    tg_tensor *x = tg_tensor_new_cast(values, g->dtype, NULL);
    assert_non_null(x);
    tg_release(values);
    return x;
}

static void test_goldens(void **state)
{
    (void)state;
    static golden g;
    static char text[sizeof g.text];
    FILE *file = fopen(TG_TEST_GOLDENS "/print.txt", "r");
    assert_non_null(file);
    tg_tape *tape = tg_tape_new(NULL, NULL);
    int64_t cases = -1, read = 0;
    for (; read_golden(file, &g, &cases); read++) {
        tg_tensor *x = new_tensor(&g);
        const tg_tensor *printed = g.permutation.count > 0 ? tg_permute(tape, x, g.permutation) : x;
        assert_non_null(printed);
        int64_t length = format(printed, text, sizeof text, &g.config);
        if (strcmp(text, g.text) != 0) {
            fail_msg("%s: torch prints\n%s\nand tg_tensor_format gives\n%s", g.name, g.text, text);
        }
        assert_int_equal(length, g.length);
        tg_release(x);
    }
    assert_int_equal(read, cases);
    tg_tape_free(tape);
    fclose(file);
}

/* ---- the rest of the contract -------------------------------------------------------------------------------- */

#define TEXT "tensor([[ 1.0000, -2.5000],\n        [ 3.0000,  4.0000]])"

static tg_tensor *example(void)
{
    return tensor_f32(TG_SHAPE(2, 2), (float[]){1, -2.5f, 3, 4});
}

static void test_default_config(void **state)
{
    (void)state;
    tg_tensor_print_config config = tg_tensor_print_config_default();
    assert_int_equal(config.precision, 4);
    assert_int_equal(config.threshold, 1000);
    assert_int_equal(config.edge_items, 3);
    assert_int_equal(config.line_width, 80);
    assert_false(config.plain);
    char text[100];
    tg_tensor *x = example();
    assert_int_equal(format(x, text, sizeof text, NULL), strlen(TEXT));
    assert_string_equal(text, TEXT);
    assert_int_equal(format(x, text, sizeof text, &config), strlen(TEXT));
    assert_string_equal(text, TEXT);
    tg_release(x);
}

/* The width of a line counts from the end of what the text has already. */
static void test_the_text_is_added(void **state)
{
    (void)state;
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 0), NULL);
    tg_text_buffer text = {0};
    tg_text_add(&text, "0123456789012345678901234567890123456789012345678901234567890123456789\n");
    tg_tensor_format(&text, x, NULL);
    assert_false(text.failed);
    assert_string_equal(text.bytes + 71, "tensor([], size=(2, 0))");
    tg_free(text.bytes);
    tg_release(x);
}

/* The most and the least that a config allows. */
static void test_extreme_configs(void **state)
{
    (void)state;
    char text[4096], wanted[4096];
    tg_tensor *tiny = tensor_f64(TG_SHAPE(1), (double[]){0x1p-1074});
    tg_tensor_print_config largest = tg_tensor_print_config_default(), large;
    largest.precision = 1074;
    largest.line_width = INT_MAX;
    large = largest;
    large.threshold = 0;
    large.edge_items = INT_MAX;
    int64_t length = format(tiny, wanted, sizeof wanted, &largest);
    assert_int_equal(length, strlen(wanted));
    /* 1 digit, the point, all digits after it, and e-324 */
    assert_int_equal(length, strlen("tensor([])") + 2 + 1074 + 5);
    assert_non_null(strstr(wanted, "tensor([4.940656458412465441765687928682213723650598"));
    assert_int_equal(format(tiny, text, sizeof text, &large), length);
    assert_string_equal(text, wanted);
    tg_release(tiny);
    /* without digits, and a line for each number */
    tg_tensor *x = example();
    tg_tensor_print_config smallest = tg_tensor_print_config_default();
    smallest.precision = smallest.line_width = 0;
    format(x, text, sizeof text, &smallest);
    assert_string_equal(text, "tensor([[ 1,\n         -2],\n        [ 3,\n          4]])");
    tg_release(x);
}

/* 1.0000e-08 is scientific, and 0.0000 with torch's sci_mode=False. */
static void test_plain(void **state)
{
    (void)state;
    char text[100];
    tg_tensor *x = tensor_f32(TG_SHAPE(2), (float[]){1e-8F, 1});
    format(x, text, sizeof text, NULL);
    assert_string_equal(text, "tensor([1.0000e-08, 1.0000e+00])");
    tg_tensor_print_config config = tg_tensor_print_config_default();
    config.plain = true;
    format(x, text, sizeof text, &config);
    assert_string_equal(text, "tensor([0.0000, 1.0000])");
    tg_release(x);
}

static void refuse_config(const tg_tensor_print_config *config, const char *part)
{
    tg_tensor *x = example();
    tg_error error = TG_NO_ERROR;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_false(tg_tensor_print(x, file, config, &error));
    assert_error(&error, TG_ERROR_VALUE, part);
    assert_int_equal(ftell(file), 0);
    fclose(file);
    tg_release(x);
}

static void test_bad_configs(void **state)
{
    (void)state;
    const tg_tensor_print_config usual = tg_tensor_print_config_default();
    tg_tensor_print_config config = {.precision = 4, .threshold = 1000, .edge_items = 3, .line_width = 80};
    refuse_config(&config, "tensor_print: the config does not come from tg_tensor_print_config_default()");
    config = usual;
    config.precision = -1;
    refuse_config(&config, "tensor_print: precision -1, threshold 1000, edge_items 3, line_width 80; they must be 0 or "
                           "more, and the precision at most 1074");
    config.precision = 1075;
    refuse_config(&config, "precision 1075");
    config = usual;
    config.threshold = -2;
    refuse_config(&config, "threshold -2");
    config = usual;
    config.edge_items = -7;
    refuse_config(&config, "edge_items -7");
    config = usual;
    config.line_width = INT_MIN;
    refuse_config(&config, "line_width -2147483648");
}

static void test_no_tensor(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_false(tg_tensor_print(NULL, file, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_print: the tensor is NULL");
    assert_int_equal(ftell(file), 0);
    fclose(file);
}

/* torch's remarks on autograd are left out, and the values are printed as they are. */
static void test_gradient_is_not_mentioned(void **state)
{
    (void)state;
    char text[100];
    tg_tensor *x = leaf(example());
    format(x, text, sizeof text, NULL);
    assert_string_equal(text, TEXT);
    tg_release(x);
}

static void test_print(void **state)
{
    (void)state;
    tg_tensor *x = example();
    tg_error error = TG_NO_ERROR;
    char text[200] = {0};
    FILE *file = tmpfile();
    assert_non_null(file);
    tg_tensor_print_config config = tg_tensor_print_config_default();
    config.precision = 1;
    assert_true(tg_tensor_print(x, file, NULL, &error));
    assert_true(tg_tensor_print(x, file, &config, &error));
    assert_int_equal(error.code, TG_OK);
    rewind(file);
    const char *wanted = TEXT "\ntensor([[ 1.0, -2.5],\n        [ 3.0,  4.0]])\n";
    assert_int_equal(fread(text, 1, sizeof text - 1, file), strlen(wanted));
    assert_string_equal(text, wanted);
    fclose(file);

    FILE *for_reading = fopen(TG_TEST_GOLDENS "/print.txt", "r");
    assert_non_null(for_reading);
    assert_false(tg_tensor_print(x, for_reading, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "tensor_print: the file cannot be written");
    fclose(for_reading);
    assert_false(tg_tensor_print(x, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_print: the file is NULL");
    tg_release(x);
}

static void test_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_tensor *x = example();
    size_t before = counting.live;
    FILE *file = tmpfile();
    assert_non_null(file);

    bool is_printed = false;
    for (size_t k = 1; !is_printed; k++) {
        allocator_arm(&counting, k, true);
        tg_error error = TG_NO_ERROR;
        is_printed = tg_tensor_print(x, file, NULL, &error);
        if (!is_printed) {
            assert_error(&error, TG_ERROR_MEMORY, "tensor_print: out of memory");
            assert_int_equal(ftell(file), 0);
        }
        assert_int_equal(counting.live, before);
        assert_true(!is_printed || k > 2); /* the text has grown */
    }
    assert_int_equal(ftell(file), strlen(TEXT "\n"));
    assert_int_equal(counting.live, before);
    fclose(file);
    tg_release(x);
    allocator_restore();
}

/* snprintf writes the point that the program's locale asks for, in ps_AF one of two bytes; Python always a point. */
static void test_locales_with_a_comma(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "pl_PL.UTF-8", "ps_AF.UTF-8"};
    tg_tensor *x = example(), *tiny = tensor_f64(TG_SCALAR, (double[]){-1.5e-9}),
              *two = tensor_f64(TG_SCALAR, (double[]){2});
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!setlocale(LC_NUMERIC, names[i])) {
            continue;
        }
        found++;
        char fixed[100], scientific[100], whole[100];
        format(x, fixed, sizeof fixed, NULL);
        format(tiny, scientific, sizeof scientific, NULL);
        format(two, whole, sizeof whole, NULL);
        setlocale(LC_NUMERIC, "C");
        assert_string_equal(fixed, TEXT);
        assert_string_equal(scientific, "tensor(-1.5000e-09)");
        assert_string_equal(whole, "tensor(2.)");
    }
    tg_release(x);
    tg_release(tiny);
    tg_release(two);
    if (found == 0) {
        /* none of them is installed */
        skip();
    }
}

/* bf16 is printed as floats are. The text is torch's, without its dtype. */
static void test_bf16(void **state)
{
    (void)state;
    tg_tensor *x = tensor_f32(TG_SHAPE(2, 3), (float[]){0.1f, 2.5f, -3, 0.001f, 7, 1});
    tg_tensor *halves = tg_tensor_new_cast(x, TG_BF16, NULL);
    char text[300];
    format(halves, text, sizeof text, NULL);
    assert_string_equal(text, "tensor([[ 1.0010e-01,  2.5000e+00, -3.0000e+00],\n"
                              "        [ 9.9945e-04,  7.0000e+00,  1.0000e+00]])");
    tg_release(x);
    tg_release(halves);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_default_config),
        cmocka_unit_test(test_the_text_is_added),
        cmocka_unit_test(test_extreme_configs),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_no_tensor),
        cmocka_unit_test(test_gradient_is_not_mentioned),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_locales_with_a_comma),
    };
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
