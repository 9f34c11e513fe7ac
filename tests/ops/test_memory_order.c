/* Draws into tensors that are not contiguous, in the order of torch: see make_memory_order.py. */
#include "ops/calls.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

static int64_t next_number(FILE *goldens)
{
    long long number;
    assert_int_equal(fscanf(goldens, "%lld", &number), 1);
    return number;
}

/* Reads a view of a base of ones, which is set to *base. */
static tg_tensor *read_view(FILE *goldens, tg_tape *t, tg_tensor **base)
{
    tg_shape shape = {.rank = (int)next_number(goldens)};
    assert_in_range(shape.rank, 1, TG_MAX_RANK);
    for (int i = 0; i < shape.rank; i++) {
        shape.size[i] = next_number(goldens);
    }
    int64_t step = next_number(goldens), expanded = next_number(goldens);
    tg_axes permutation = {.count = shape.rank};
    for (int i = 0; i < shape.rank; i++) {
        permutation.axis[i] = (int)next_number(goldens);
    }
    *base = leaf(tg_tensor_new_full(TG_F32, shape, 1, NULL));
    tg_tensor *view = tg_slice(t, *base, -1, 0, INT64_MAX, step);
    if (expanded > 0) {
        shape = tg_tensor_shape(view);
        shape.size[1] = expanded;
        view = tg_expand(t, view, shape);
    }
    return tg_permute(t, view, permutation);
}

static void test_draws_of_torch(void **state)
{
    (void)state;
    FILE *goldens = fopen(TG_TEST_GOLDENS "/memory_order.txt", "r");
    assert_non_null(goldens);
    tg_run *run = tg_run_new(7);
    tg_tape *t = tg_tape_new(run, NULL);
    char method[16];
    int lines = 0;
    for (; fscanf(goldens, "%15s", method) == 1; lines++) {
        tg_tensor *base, *view = read_view(goldens, t, &base), *result = view;
        tg_rng_seed(tg_run_rng(run), 7);
        bool is_normal = strcmp(method, "normal") == 0;
        if (strcmp(method, "dropout") == 0) {
            result = tg_dropout(t, view, 0.3);
            assert_true(tg_backward(t, tg_sum(t, tg_mul(t, result, result), TG_ALL_AXES, TG_DROP_AXES), NULL));
        } else {
            assert_true(is_normal                        ? tg_tensor_fill_normal(view, tg_run_rng(run), 0.5, 2, NULL)
                        : strcmp(method, "uniform") == 0 ? tg_tensor_fill_uniform(view, tg_run_rng(run), -1, 2, NULL)
                        : strcmp(method, "bernoulli") == 0
                            ? tg_tensor_fill_bernoulli(view, tg_run_rng(run), 0.3, NULL)
                            : tg_tensor_fill_randint(view, tg_run_rng(run), 0, 100, NULL));
        }
        double squares = 0, gradients = 0;
        for (int64_t i = 0; i < tg_tensor_count(result); i++) {
            double expected, found = tg_tensor_value_at(result, i);
            assert_int_equal(fscanf(goldens, "%lf", &expected), 1);
            squares += 2 * expected * expected;
            if (is_normal ? fabs(found - expected) > 1e-6 : found != expected) {
                fail_msg("line %d, %s: value %lld is %.9g, torch's %.9g", lines + 1, method, (long long)i, found,
                         expected);
            }
        }
        if (result != view) { /* y = x m, so the gradient of sum y^2 at 1 is 2 m^2 */
            for (int64_t i = 0; i < tg_tensor_count(base); i++) {
                gradients += tg_tensor_value_at(tg_tensor_grad(base), i);
            }
            assert_true(fabs(squares - gradients) < 1e-4 * squares);
        }
        tg_tape_reset(t);
        tg_release(base);
    }
    assert_int_equal(lines, 4 * 8 + 11);
    fclose(goldens);
    tg_tape_free(t);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_draws_of_torch)};
    return cmocka_run_group_tests_name("memory_order", tests, NULL, NULL);
}
