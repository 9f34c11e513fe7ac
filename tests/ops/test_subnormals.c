/* No subnormal numbers come out of softmax and the functions like it, whose results matrix products read next: on many
 * processors arithmetic with them takes a hundred times as long. */
#include <float.h>
#include <math.h>

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

/* Asserts that neither y nor the gradients of the inputs, from a dy of ones, hold a subnormal. */
static void check(tg_tape *t, const char *what, tg_tensor *y, tg_tensor *const *inputs, int count)
{
    if (!y) {
        fail_msg("%s: %s", what, tg_tape_error(t)->text);
    }
    tg_tensor *ones = tg_tensor_new_full(tg_tensor_dtype(y), tg_tensor_shape(y), 1, NULL);
    tg_backward_config config = tg_backward_config_default();
    config.gradient = ones;
    assert_true(tg_backward(t, y, &config));
    if (subnormals_in(y) > 0) {
        fail_msg("%s: the result has %lld subnormals", what, (long long)subnormals_in(y));
    }
    for (int i = 0; i < count; i++) {
        if (subnormals_in(tg_tensor_grad(inputs[i])) > 0) {
            fail_msg("%s: the gradient of input %d has %lld subnormals", what, i,
                     (long long)subnormals_in(tg_tensor_grad(inputs[i])));
        }
        tg_tensor_zero_grad(inputs[i]);
    }
    tg_release(ones);
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

static void test_softmax(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int k = 0; k < 2; k++) {
        tg_tensor *x = falling(k ? TG_F64 : TG_F32, 3, 1000),
                  *targets = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 5, 999});
        check(t, "softmax", tg_softmax(t, x, -1), &x, 1);
        check(t, "softmax, first axis", tg_softmax(t, tg_transpose(t, x, 0, 1), 0), &x, 1);
        check(t, "log_softmax", tg_log_softmax(t, x, -1), &x, 1);
        check(t, "cross_entropy", tg_cross_entropy(t, x, targets, NULL), &x, 1);
        tg_release(x);
        tg_release(targets);
    }
    tg_tape_free(t);
}

static void test_functions(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *(*const functions[])(tg_tape *, tg_tensor *) = {tg_sigmoid, tg_silu, tg_gelu, tg_gelu_tanh};
    static const char *const names[] = {"sigmoid", "silu", "gelu", "gelu_tanh"};
    for (int k = 0; k < 2; k++) {
        tg_tensor *x = falling(k ? TG_F64 : TG_F32, 1, 4001);
        for (int i = 0; i < 4; i++) {
            check(t, names[i], functions[i](t, x), &x, 1);
        }
        tg_release(x);
    }
    tg_tape_free(t);
}

/* Attention whose scores fall with the distance: q k is -i j over the keys, and the bias falls as well. */
static void test_attention(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    enum { T = 200, D = 16 };
    for (int k = 0; k < 8; k++) {
        tg_dtype dtype = k & 1 ? TG_F64 : TG_F32;
        tg_tensor *x[4];
        for (int i = 0; i < 3; i++) {
            x[i] = leaf(tg_tensor_new_full(dtype, TG_SHAPE(1, T, D), i < 2 ? 0 : 1, NULL));
            for (int64_t row = 0; row < T && i < 2; row++) {
                tg_put(x[i], row * D, i == 0 ? 2 : 2 * edge_of(dtype) * (double)row / T);
            }
        }
        x[3] = falling(dtype, T, T);
        tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
        config.is_causal = k & 2;
        config.path = k & 4 ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED;
        config.bias = x[3];
        tg_tensor *y = tg_scaled_dot_product_attention(t, x[0], x[1], x[2], &config);
        check(t, k & 4 ? "elementary attention" : "attention", y, x, 3);
        tg_tensor_zero_grad(x[3]);
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
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_exp_keeps_subnormals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
