/* Printing, character for character as PyTorch prints. The figures are torch's: goldens/make_print.py, which also
 * describes the format of goldens/print.txt. */
#include "support.h"

#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the goldens --------------------------------------------------------------------------------------------- */

typedef struct golden {
    char name[64];
    tg_dtype dtype;
    tg_shape shape;
    tg_axes permutation; /* none: the tensor as it was made */
    tg_print_options options;
    int64_t given; /* values in the file, repeated over the tensor */
    double values[4096];
    size_t length;
    char text[1 << 16];
} golden;

/* The fields of one case, a line at a time. False at the end of the file, which says how many cases there are. */
static bool read_golden(FILE *file, golden *g, int64_t *cases)
{
    char line[2048];
    memset(g, 0, sizeof *g);
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
            g->options.precision = (int)strtol(at, &at, 10);
            g->options.threshold = strtoll(at, &at, 10);
            g->options.edge_items = (int)strtol(at, &at, 10);
            g->options.line_width = (int)strtol(at, &at, 10);
        } else if (!strncmp(line, "values ", 7)) {
            while (*at) {
                assert_true(g->given < (int64_t)(sizeof g->values / sizeof g->values[0]));
                char *before = at;
                g->values[g->given++] = strtod(before, &at);
                assert_ptr_not_equal(at, before);
            }
        } else if (!strcmp(line, "end")) {
            assert_true(g->length > 0);
            g->text[--g->length] = '\0'; /* the last newline is the file's */
            return true;
        } else {
            assert_int_equal(sscanf(line, "cases %" SCNd64, cases), 1);
        }
    }
    return false;
}

static tg_tensor *make_tensor(const golden *g)
{
    tg_tensor *values = tg_tensor_new(TG_F64, g->shape, NULL);
    assert_non_null(values);
    double *to = tg_data_mut(values);
    for (int64_t i = 0; i < tg_count(values); i++) {
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
    tg_tape *tape = tg_tape_new(NULL);
    int64_t cases = -1, read = 0;
    for (; read_golden(file, &g, &cases); read++) {
        tg_tensor *x = make_tensor(&g);
        const tg_tensor *printed = g.permutation.count > 0 ? tg_permute(tape, x, g.permutation) : x;
        assert_non_null(printed);
        int64_t length = tg_format(printed, &g.options, text, sizeof text);
        if (strcmp(text, g.text) != 0) {
            fail_msg("%s: torch prints\n%s\nand tg_format gives\n%s", g.name, g.text, text);
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

static void test_default_options(void **state)
{
    (void)state;
    tg_print_options options = tg_print_options_default();
    assert_int_equal(options.precision, 4);
    assert_int_equal(options.threshold, 1000);
    assert_int_equal(options.edge_items, 3);
    assert_int_equal(options.line_width, 80);
    char text[100];
    tg_tensor *x = example();
    assert_int_equal(tg_format(x, NULL, text, sizeof text), strlen(TEXT));
    assert_string_equal(text, TEXT);
    tg_release(x);
}

/* Every size from nothing to more than enough: what fits, a NUL, and not one byte further. */
static void test_cut_like_snprintf(void **state)
{
    (void)state;
    tg_tensor *x = example();
    for (size_t size = 0; size <= strlen(TEXT) + 3; size++) {
        char text[100], wanted[100];
        memset(text, '#', sizeof text);
        memset(wanted, '#', sizeof wanted);
        snprintf(wanted, size, "%s", TEXT);
        assert_int_equal(tg_format(x, NULL, text, size), strlen(TEXT));
        assert_memory_equal(text, wanted, sizeof text);
    }
    char text[100];
    assert_int_equal(tg_format(x, NULL, text, SIZE_MAX), strlen(TEXT));
    assert_string_equal(text, TEXT);
    assert_int_equal(tg_format(x, NULL, NULL, 0), strlen(TEXT));
    tg_release(x);
}

/* Python refuses these; here a negative number counts as 0, and digits end where doubles do. */
static void test_strange_options(void **state)
{
    (void)state;
    tg_tensor *x = example();
    char text[4096], wanted[4096];
    tg_print_options strange = {-1, 1000, -7, INT_MIN, false}, zero = {0, 1000, 0, INT_MIN, false};
    tg_format(x, &zero, wanted, sizeof wanted);
    assert_int_equal(tg_format(x, &strange, text, sizeof text), strlen(wanted));
    assert_string_equal(text, wanted);
    tg_print_options large = {INT_MAX, INT64_MIN, INT_MAX, INT_MAX, false}, largest = {1074, 1000, 3, INT_MAX, false};
    tg_tensor *tiny = tensor_f64(TG_SHAPE(1), (double[]){0x1p-1074});
    tg_format(tiny, &largest, wanted, sizeof wanted);
    assert_int_equal(tg_format(tiny, &large, text, sizeof text), strlen(wanted));
    assert_string_equal(text, wanted);
    tg_release(tiny);
    tg_release(x);
}

static void test_no_tensor(void **state)
{
    (void)state;
    char text[4] = "old";
    assert_int_equal(tg_format(NULL, NULL, text, sizeof text), -1);
    assert_string_equal(text, "");
    assert_int_equal(tg_format(NULL, NULL, NULL, 0), -1);
    assert_false(tg_print(stderr, NULL));
}

/* What torch says about autograd is left out, and the values are printed as they are. */
static void test_gradient_is_not_mentioned(void **state)
{
    (void)state;
    char text[100];
    tg_tensor *x = leaf(example());
    tg_format(x, NULL, text, sizeof text);
    assert_string_equal(text, TEXT);
    tg_release(x);
}

static void test_print(void **state)
{
    (void)state;
    tg_tensor *x = example();
    char text[200] = {0};
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(tg_print(file, x));
    assert_true(tg_print(file, x));
    rewind(file);
    assert_int_equal(fread(text, 1, sizeof text - 1, file), 2 * strlen(TEXT "\n"));
    assert_string_equal(text, TEXT "\n" TEXT "\n");
    fclose(file);

    FILE *for_reading = fopen(TG_TEST_GOLDENS "/print.txt", "r");
    assert_non_null(for_reading);
    assert_false(tg_print(for_reading, x));
    fclose(for_reading);
    assert_false(tg_print(NULL, x));
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

    allocator_arm(&counting, 1, true);
    char text[100];
    assert_int_equal(tg_format(x, NULL, text, sizeof text), strlen(TEXT));
    assert_int_equal(counting.calls, 0);
    assert_false(tg_print(file, x));
    assert_int_equal(ftell(file), 0);

    allocator_arm(&counting, 0, false);
    assert_true(tg_print(file, x));
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
        tg_format(x, NULL, fixed, sizeof fixed);
        tg_format(tiny, NULL, scientific, sizeof scientific);
        tg_format(two, NULL, whole, sizeof whole);
        setlocale(LC_NUMERIC, "C");
        assert_string_equal(fixed, TEXT);
        assert_string_equal(scientific, "tensor(-1.5000e-09)");
        assert_string_equal(whole, "tensor(2.)");
    }
    tg_release(x);
    tg_release(tiny);
    tg_release(two);
    if (found == 0) {
        skip(); /* none of them is installed */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_default_options),
        cmocka_unit_test(test_cut_like_snprintf),
        cmocka_unit_test(test_strange_options),
        cmocka_unit_test(test_no_tensor),
        cmocka_unit_test(test_gradient_is_not_mentioned),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_locales_with_a_comma),
    };
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
