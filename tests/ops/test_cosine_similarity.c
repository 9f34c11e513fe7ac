/* Cosine similarity along the first axis, whose lines are side by side in memory, has the bits of that along the last
 * axis of the transposed inputs: values and gradients, of one consumer and of two. */
#include <math.h>
#include <string.h>

#include "base/level.h"
#include "support.h"
#include "tensor/tensor.h"

/* Rows x columns; row 2 is 0, and column 3 has a value that is not finite. */
static tg_tensor *leaf_of(tg_dtype dtype, int64_t rows, int64_t columns, double phase, bool transposed)
{
    tg_tensor *x = tg_tensor_new(dtype, transposed ? TG_SHAPE(columns, rows) : TG_SHAPE(rows, columns), NULL);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            double value = c == 2 ? 0 : c == 3 && r == 1 ? INFINITY : sin(phase + (double)(r * 37 + c));
            tg_put(x, transposed ? c * rows + r : r * columns + c, value);
        }
    }
    tg_tensor_set_requires_grad(x, true, NULL);
    return x;
}

typedef struct result {
    double y[200], gradient[2][40 * 200];
} result;

static void compute(tg_dtype dtype, int64_t rows, int64_t columns, bool transposed, bool twice, result *out)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x[2] = {leaf_of(dtype, rows, columns, 0.3, transposed), leaf_of(dtype, rows, columns, 1.7, transposed)};
    tg_tensor *weight = tg_tensor_new(dtype, TG_SHAPE(columns), NULL);
    for (int64_t c = 0; c < columns; c++) {
        tg_put(weight, c, (double)(c % 5) - 1.5);
    }
    tg_tensor *y = tg_cosine_similarity(t, x[0], x[1], transposed ? 1 : 0, 1e-8);
    tg_tensor *loss = tg_sum(t, tg_mul(t, y, weight), TG_ALL_AXES, false);
    if (twice) {
        tg_tensor *other = tg_cosine_similarity(t, x[1], x[0], transposed ? 1 : 0, 1e-8);
        loss = tg_add(t, loss, tg_sum(t, other, TG_ALL_AXES, false));
    }
    assert_true(tg_backward(t, loss, NULL));
    for (int64_t c = 0; c < columns; c++) {
        out->y[c] = tg_tensor_value_at(y, c);
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t c = 0; c < columns; c++) {
                out->gradient[side][r * columns + c] =
                    tg_tensor_value_at(tg_tensor_grad(x[side]), transposed ? c * rows + r : r * columns + c);
            }
        }
        tg_release(x[side]);
    }
    tg_release(weight);
    tg_tape_free(t);
}

static bool same(double a, double b)
{
    return a == b || (a != a && b != b);
}

static void test_first_axis(void **state)
{
    (void)state;
    static result first, last;
    static const int64_t widths[] = {1, 2, 4, 15, 16, 17, 31, 33, 100, 199};
    tg_cpu_level before = tg_get_cpu_level();
    for (int level = 0; level <= tg_level_highest(); level++) {
        assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL));
        for (size_t w = 0; w < 4 * sizeof widths / sizeof *widths; w++) {
            int64_t columns = widths[w / 4];
            tg_dtype dtype = w % 2 ? TG_F64 : TG_F32;
            bool twice = w % 4 > 1;
            compute(dtype, 40, columns, false, twice, &first);
            compute(dtype, 40, columns, true, twice, &last);
            for (int64_t c = 0; c < columns; c++) {
                assert_true(same(first.y[c], last.y[c]));
                assert_true(isfinite(first.y[c]) == (c != 3));
            }
            for (int64_t i = 0; i < 40 * columns; i++) {
                assert_true(same(first.gradient[0][i], last.gradient[0][i]));
                assert_true(same(first.gradient[1][i], last.gradient[1][i]));
            }
        }
    }
    assert_true(tg_set_cpu_level(before, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_axis)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
