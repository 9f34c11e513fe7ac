/* Elementwise ops with long rows that repeat: the values and gradients are those of a plain loop. */
#include "ops/calls.h"
#include "support.h"

#include <tapegrad.h>

#define MAX_VALUES 300000

static float values[3][MAX_VALUES], expected[MAX_VALUES];

/* A tensor of this shape, with known values: numbers of a few bits, so that every product and sum is exact. */
static tg_tensor *numbers(int which, tg_shape shape)
{
    tg_tensor *x = tg_tensor_new(TG_F32, shape, NULL);
    float *to = tg_tensor_data_mut(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        to[i] = values[which][i] = (float)((i * 7919 + which * 31) % 61 - 30);
    }
    return leaf(x);
}

static void assert_equal_floats(const float *found, const float *wanted, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++) {
        if (found[i] != wanted[i]) {
            fail_msg("%s %lld is %g, not %g", what, (long long)i, (double)found[i], (double)wanted[i]);
        }
    }
}

/* x * row, of rows x width values, with the row on either side; and both gradients. */
static void check_product(int64_t rows, int64_t width, bool row_first)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = numbers(0, TG_SHAPE(rows, width)), *row = numbers(1, TG_SHAPE(width));
    tg_tensor *dy = numbers(2, TG_SHAPE(rows, width));
    int64_t count = rows * width;
    tg_tensor *y = row_first ? tg_mul(t, row, x) : tg_mul(t, x, row);
    for (int64_t i = 0; i < count; i++) {
        expected[i] = values[0][i] * values[1][i % width];
    }
    assert_equal_floats(tg_tensor_data(y), expected, count, "value");
    assert_true(backward_from(t, y, dy));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = values[2][i] * values[1][i % width];
    }
    assert_equal_floats(tg_tensor_data(tg_tensor_grad(x)), expected, count, "gradient of x");
    for (int64_t i = 0; i < count; i++) {
        expected[i % width] = (i < width ? 0 : expected[i % width]) + values[2][i] * values[0][i];
    }
    assert_equal_floats(tg_tensor_data(tg_tensor_grad(row)), expected, width, "gradient of the row");
    tg_tape_free(t);
    tg_release(x);
    tg_release(row);
    tg_release(dy);
}

static void test_rows(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 200}, {2, 128}, {3, 127},   {7, 700},
                                       {2, 512}, {2, 513}, {300, 999}, {1500, 130}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_product(sizes[i][0], sizes[i][1], false);
        check_product(sizes[i][0], sizes[i][1], true);
    }
}

/* where(mask, x, row) + other: rows of two lengths, a mask that is copied, and (2,3,width) + (3,width). */
static void test_two_lengths(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    const int64_t width = 300;
    tg_tensor *x = numbers(0, TG_SHAPE(2, 3, width)), *row = numbers(1, TG_SHAPE(width));
    tg_tensor *matrix = numbers(2, TG_SHAPE(3, width));
    tg_tensor *mask = tg_gt(t, row, matrix), *chosen = tg_where(t, mask, x, row);
    for (int64_t i = 0; i < 6 * width; i++) {
        bool greater = values[1][i % width] > values[2][i % (3 * width)];
        expected[i] = greater ? values[0][i] : values[1][i % width];
    }
    assert_equal_floats(tg_tensor_data(chosen), expected, 6 * width, "value of where");
    tg_tensor *sum = tg_add(t, chosen, matrix);
    for (int64_t i = 0; i < 6 * width; i++) {
        expected[i] += values[2][i % (3 * width)];
    }
    assert_equal_floats(tg_tensor_data(sum), expected, 6 * width, "value of the sum");
    tg_tape_free(t);
    tg_release(x);
    tg_release(row);
    tg_release(matrix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_two_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
