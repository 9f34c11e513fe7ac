/* Printing, character for character as PyTorch prints. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[1 << 20], expected[1 << 18], found[1 << 18];

static tg_tensor *read_case(char *at)
{
    char dtype_name[4];
    int rank, used;
    assert_int_equal(sscanf(at, "case %3s %d%n", dtype_name, &rank, &used), 2);
    at += used;
    tg_shape shape = {.rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        shape.size[axis] = strtoll(at, &at, 10);
    }
    int64_t count = strtoll(at, &at, 10);
    tg_tensor *values = tg_tensor_new(TG_F64, shape, NULL);
    assert_non_null(values);
    assert_int_equal(tg_count(values), count);
    for (int64_t i = 0; i < count; i++) {
        ((double *)tg_data_mut(values))[i] = strtod(at, &at);
    }
    tg_dtype dtype = TG_F32;
    while (strcmp(tg_dtype_name(dtype), dtype_name)) {
        dtype++;
    }
    tg_tensor *x = tg_tensor_new_cast(values, dtype, NULL);
    tg_release(values);
    return x;
}

static void compare(const tg_tensor *x, int number)
{
    int64_t length = tg_format(x, NULL, found, sizeof found);
    if (strcmp(found, expected)) {
        fail_msg("case %d: torch prints\n%s\nand we print\n%s", number, expected, found);
    }
    assert_int_equal(length, strlen(expected));
    char small[8];
    assert_int_equal(tg_format(x, NULL, small, sizeof small), length); /* as snprintf: cut, and the whole length */
    assert_memory_equal(small, expected, sizeof small - 1);
    assert_int_equal(small[7], '\0');
}

static void test_cases(void **state)
{
    (void)state;
    FILE *goldens = fopen(TG_TEST_GOLDENS "/print.txt", "r");
    assert_non_null(goldens);
    int number = 0;
    size_t used = 0;
    tg_tensor *x = NULL;
    for (bool more = true; more;) {
        more = fgets(line, sizeof line, goldens) != NULL;
        if (more && line[0] == '|') {
            used += (size_t)snprintf(expected + used, sizeof expected - used, "%s", line + 1);
            continue;
        }
        if (x) {
            expected[used - 1] = '\0'; /* the last newline is the file's */
            compare(x, number++);
            tg_release(x);
        }
        used = 0;
        x = more ? read_case(line) : NULL;
    }
    fclose(goldens);
    assert_int_equal(number, 66);
}

static void test_views_and_files(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL);
    tg_tensor *x = tensor_f32(TG_SHAPE(2, 2), (float[]){1, 2, 3, 4.5f});
    tg_format(tg_transpose(t, x, 0, 1), NULL, found, sizeof found);
    assert_string_equal(found, "tensor([[1.0000, 3.0000],\n        [2.0000, 4.5000]])");
    tg_print_options options = tg_print_options_default();
    options.precision = 2;
    tg_format(x, &options, found, sizeof found);
    assert_string_equal(found, "tensor([[1.00, 2.00],\n        [3.00, 4.50]])");
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(tg_print(file, x));
    rewind(file);
    assert_non_null(fgets(found, sizeof found, file));
    assert_string_equal(found, "tensor([[1.0000, 2.0000],\n");
    fclose(file);
    tg_release(x);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_views_and_files),
    };
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
