/* Normalizations, variances, softmax and norms of rows of equal values, of rows with a mean far from 0, and of one
 * value: values and gradients are torch's (make_constant_rows.py), and what is 0 for equal values is exactly 0. */
#include "ops/goldens.h"
#include "support.h"

#define CALL(name, expression)                                                \
    static tg_tensor *name(tg_tape *t, tg_tensor **in, const double *options) \
    {                                                                         \
        (void)options;                                                        \
        return expression;                                                    \
    }

CALL(layer_norm, tg_layer_norm(t, in[0], in[1], in[2], 1e-5))
CALL(rms_norm, tg_rms_norm(t, in[0], in[1], 1e-5))
CALL(softmax, tg_softmax(t, in[0], -1))
CALL(log_softmax, tg_log_softmax(t, in[0], -1))
CALL(logsumexp, tg_logsumexp(t, in[0], TG_AXES(-1), TG_DROP_AXES))
CALL(cross_entropy, tg_cross_entropy(t, in[0], in[1], NULL))
CALL(norm, tg_norm(t, in[0], 2, TG_AXES(-1), TG_DROP_AXES))
CALL(cosine_similarity, tg_cosine_similarity(t, in[0], in[1], -1, 1e-8))
CALL(var, tg_var(t, in[0], TG_AXES(-1), (int)options[0], TG_DROP_AXES))
CALL(std, tg_std(t, in[0], TG_AXES(-1), (int)options[0], TG_DROP_AXES))

static const golden_call calls[] = {
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"logsumexp", logsumexp},
    {"cross_entropy", cross_entropy},
    {"norm", norm},
    {"cosine_similarity", cosine_similarity},
    {"var", var},
    {"std", std},
};

static void test_against_torch(void **state)
{
    (void)state;
    int cases = check_goldens_with_options(TG_TEST_GOLDENS "/constant_rows.txt", calls, sizeof calls / sizeof *calls,
                                           1e-11, 5e-6);
    assert_int_equal(cases, 58);
}

static void assert_zeros(const tg_tensor *x, double value, const char *what)
{
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        if (tg_tensor_value_at(x, i) != 0) {
            fail_msg("%s of %lld times %.9g is %g at %lld", what, (long long)tg_tensor_size(x, -1), value,
                     tg_tensor_value_at(x, i), (long long)i);
        }
    }
}

/* Every width up to 1100, in both dtypes: the result, the gradient of the weight, the variance and its root, and the
 * gradient of x where that of the result is the same for all values. */
static void test_zeros(void **state)
{
    (void)state;
    static const double values[] = {0.1, -100.3, 10000.0 / 3, 1e7 + 1, 1e-3, 1e12};
    for (int dtype = TG_F32; dtype <= TG_F64; dtype++) {
        tg_tape *t = tg_tape_new(NULL, NULL);
        for (int64_t width = 1, step = 0; width <= 1100; width++, step++) {
            double value = values[step % 6];
            tg_shape rows = TG_SHAPE(3, width), row = TG_SHAPE(width);
            tg_tensor *x = leaf(tg_tensor_new((tg_dtype)dtype, rows, NULL));
            tg_tensor *weight = leaf(tg_tensor_new((tg_dtype)dtype, row, NULL));
            assert_true(tg_tensor_fill(x, value, NULL) && tg_tensor_fill(weight, 1, NULL));
            tg_tensor *y = tg_layer_norm(t, x, weight, NULL, 1e-5),
                      *spread = tg_var(t, x, TG_AXES(-1), 0, TG_KEEP_AXES);
            assert_zeros(y, value, "layer_norm");
            assert_zeros(spread, value, "var");
            assert_zeros(tg_std(t, x, TG_AXES(-1), 0, TG_KEEP_AXES), value, "std");
            y = tg_add(t, tg_add(t, y, spread), tg_std(t, x, TG_AXES(-1), 0, TG_KEEP_AXES));
            assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
            for (int i = 0; i < 2; i++) {
                tg_tensor *gradient = tg_tensor_new_dense_grad(i ? weight : x, NULL);
                assert_zeros(gradient, value, i ? "the weight's gradient" : "the gradient");
                tg_release(gradient);
            }
            tg_tape_reset(t);
            tg_release(x);
            tg_release(weight);
        }
        tg_tape_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
        cmocka_unit_test(test_zeros),
    };
    return cmocka_run_group_tests_name("constant rows", tests, NULL, NULL);
}
