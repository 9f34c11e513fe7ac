/* No subnormal numbers come out of softmax and the functions like it, whose results matrix products read next: on many
 * processors arithmetic with them takes a hundred times as long. */
#include <float.h>
#include <math.h>

#include "rows/rows.h"
#include "support.h"
#include "tensor/tensor.h"

/* The number of subnormal values; those of a dtype's results depend on its smallest normal number. */
static int64_t subnormals_in(const tg_tensor *x)
{
    int64_t found = 0;
    double least = tg_tensor_dtype(x) == TG_F32 ? (double)FLT_MIN : DBL_MIN;
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double value = fabs(tg_tensor_value_at(x, i));
        found += value > 0 && value < least;
    }
    return found;
}

/* Asserts that neither y nor the gradients of the inputs, from a gradient whose values are all dy, hold a subnormal. */
static void check(tg_tape *t, const char *what, double dy, tg_tensor *y, tg_tensor *const *inputs, int count)
{
    if (!y) {
        fail_msg("%s: %s", what, tg_tape_error(t)->text);
    }
    tg_tensor *gradient = tg_tensor_new_full(tg_tensor_dtype(y), tg_tensor_shape(y), dy, NULL);
    tg_backward_config config = tg_backward_config_default();
    config.gradient = gradient;
    assert_true(tg_backward(t, y, &config));
    if (subnormals_in(y) > 0) {
        fail_msg("%s: the result has %lld subnormals", what, (long long)subnormals_in(y));
    }
    for (int i = 0; i < count; i++) {
        if (subnormals_in(tg_tensor_grad(inputs[i])) > 0) {
            fail_msg("%s: with dy = %g the gradient of input %d has %lld subnormals", what, dy, i,
                     (long long)subnormals_in(tg_tensor_grad(inputs[i])));
        }
        tg_tensor_zero_grad(inputs[i]);
    }
    tg_release(gradient);
    tg_tape_reset(t);
}

/* Returns the largest power of e, negated, that is still a number of the dtype, and a little more. */
static double edge_of(tg_dtype dtype)
{
    return dtype == TG_F32 ? 110 : 760;
}

/* Returns a leaf (rows,columns) whose rows fall from 0 to -edge in small steps, so that exp gives normal numbers,
 * subnormals and zeros. */
static tg_tensor *falling(tg_dtype dtype, int64_t rows, int64_t columns)
{
    tg_tensor *x = leaf(tg_tensor_new(dtype, TG_SHAPE(rows, columns), NULL));
    for (int64_t i = 0; i < rows * columns; i++) {
        tg_put(x, i, -edge_of(dtype) * (double)(i % columns) / (double)(columns - 1));
    }
    return x;
}

/* A probability times a dy below 1 may be subnormal although both are normal. */
static const double gradients[] = {1, 1e-3, 1e-6};

static void test_softmax(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int k = 0; k < 6; k++) {
        double dy = gradients[k / 2];
        tg_tensor *x = falling(k % 2 ? TG_F64 : TG_F32, 3, 1000),
                  *targets = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 5, 999});
        check(t, "softmax", dy, tg_softmax(t, x, -1), &x, 1);
        check(t, "softmax, first axis", dy, tg_softmax(t, tg_transpose(t, x, 0, 1), 0), &x, 1);
        check(t, "log_softmax", dy, tg_log_softmax(t, x, -1), &x, 1);
        check(t, "cross_entropy", dy, tg_cross_entropy(t, x, targets, NULL), &x, 1);
        tg_release(x);
        tg_release(targets);
    }
    tg_tape_free(t);
}

/* Most classes have the probability 0, so that their gradients are as small as the softmax. */
static void test_cross_entropy_with_probabilities(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int k = 0; k < 6; k++) {
        tg_dtype dtype = k % 2 ? TG_F64 : TG_F32;
        tg_tensor *x = falling(dtype, 3, 1000), *targets = tg_tensor_new_full(dtype, TG_SHAPE(3, 1000), 0, NULL);
        for (int64_t row = 0; row < 3; row++) {
            tg_put(targets, row * 1000 + row, 0.25);
            tg_put(targets, row * 1000 + 999, 0.75);
        }
        check(t, "cross_entropy with probabilities", gradients[k / 2], tg_cross_entropy(t, x, targets, NULL), &x, 1);
        tg_release(x);
        tg_release(targets);
    }
    tg_tape_free(t);
}

/* The loss of logits that agree with their targets: 1 where x > 0, else 0. */
static tg_tensor *binary_cross_entropy(tg_tape *t, tg_tensor *x)
{
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.reduction = TG_REDUCTION_NONE;
    return tg_binary_cross_entropy_with_logits(t, x, tg_clamp(t, tg_sign(t, x), 0, 1), &config);
}

/* A function at x and at -x, from each gradient. */
static void check_function(const test_row *row, const double *number)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int k = 0; k < 6; k++) {
        tg_tensor *x = falling(k % 2 ? TG_F64 : TG_F32, 1, 4001), *negative = NULL;
        check(t, row->op, gradients[k / 2], row_call(row, t, &x, number), &x, 1);
        negative = tg_neg(t, x);
        check(t, row->op, gradients[k / 2], row_call(row, t, &negative, number), &x, 1);
        tg_release(x);
    }
    tg_tape_free(t);
}

static void test_functions(void **state)
{
    (void)state;
    int count = 0;
    for (int i = 0; i < row_count(); i++) {
        double number[FORMULA_NUMBERS];
        for (int k = 0; row_at(i)->is_never_subnormal && row_options(row_at(i), false, k, number); k++, count++) {
            check_function(row_at(i), number);
        }
    }
    assert_true(count >= 7);
    check_function(&(test_row){.op = "tg_binary_cross_entropy_with_logits", .of_one = binary_cross_entropy},
                   (double[FORMULA_NUMBERS]){0});
}

/* Attention whose scores fall with the key: the products of queries and keys fall from 0 to -edge, and so does the
 * bias. With a small dy only the gradient of the bias is checked. The others are sums of products, which may be
 * subnormal although no factor is. */
static void test_attention(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    enum { T = 200, D = 16 };
    for (int k = 0; k < 8; k++) {
        tg_dtype dtype = k & 1 ? TG_F64 : TG_F32;
        tg_tensor *x[4];
        for (int i = 0; i < 3; i++) {
            x[i] = leaf(tg_tensor_new_full(dtype, TG_SHAPE(1, T, D), 0, NULL));
            for (int64_t row = 0; row < T; row++) {
                tg_put(x[i], row * D, i == 0 ? -2 : i == 1 ? 2 * edge_of(dtype) * (double)row / T : (double)(row % 3));
            }
        }
        x[3] = falling(dtype, T, T);
        tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
        config.is_causal = k & 2;
        config.path = k & 4 ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED;
        config.bias = x[3];
        const char *what = k & 4 ? "elementary attention" : "attention";
        check(t, what, 1, tg_scaled_dot_product_attention(t, x[0], x[1], x[2], &config), x, 4);
        what = k & 4 ? "elementary attention, the bias alone" : "attention, the bias alone";
        check(t, what, 1e-4, tg_scaled_dot_product_attention(t, x[0], x[1], x[2], &config), x + 3, 1);
        for (int i = 0; i < 4; i++) {
            tg_release(x[i]);
        }
    }
    tg_tape_free(t);
}

/* exp itself has PyTorch's values. */
static void test_exp_keeps_subnormals(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = falling(TG_F32, 1, 1000);
    assert_true(subnormals_in(tg_exp(t, x)) > 100);
    tg_release(x);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_cross_entropy_with_probabilities),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_exp_keeps_subnormals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
