/* Ops at the edges of their domains against torch (see make_values.py). */
#include "ops/calls.h"
#include "ops/goldens.h"
#include "ops/attention/relative.h"
#include "support.h"

#include <math.h>

/* Two denormals for what ends below the normal range; some roundings of 1 for the coarse ones. */
static const golden_rule rules[] = {
    {"exact", TG_F32, true, 3e-45, 1e-6},  {"exact", TG_F64, true, 1e-323, 2e-15},
    {"close", TG_F32, false, 3e-45, 1e-6}, {"close", TG_F64, false, 1e-323, 2e-15},
    {"coarse", TG_F32, false, 5e-7, 1e-6}, {"coarse", TG_F64, false, 1e-15, 2e-15},
};

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(check_goldens(TG_TEST_GOLDENS "/values.txt", rules, sizeof rules / sizeof *rules), 416);
}

/* Of equal values the one that comes first, where torch leaves it open; and NaN before all. */
static void test_topk_ties(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(7), (float[]){2, NAN, 2, NAN, 5, -INFINITY, 2})), *indices;
    tg_tensor *y = tg_topk(t, x, 5, 0, TG_LARGEST_FIRST, &indices);
    assert_values(y, (double[]){NAN, NAN, 5, 2, 2}, 5, 0, 0);
    assert_values(indices, (double[]){1, 3, 4, 0, 2}, 5, 0, 0);
    tg_tensor *dy = tensor_f32(TG_SHAPE(5), (float[]){1, 2, 3, 4, 5});
    assert_true(backward_from(t, y, dy));
    assert_values(tg_tensor_grad(x), (double[]){4, 1, 5, 2, 3, 0, 0}, 7, 0, 0);
    tg_release(dy);
    tg_release(x);
    tg_tape_free(t);
}

/* A triangle copies its part of the gradient, the sign of a zero too, and writes 0 elsewhere, whatever was there. */
static void test_triangle_gradient(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, 3, 4}));
    tg_tensor *dy = tensor_f64(TG_SHAPE(2, 2), (double[]){-0.0, NAN, INFINITY, -0.0});
    assert_true(backward_from(t, tg_tril(t, x, 0), dy));
    const double expected[] = {-0.0, 0, INFINITY, -0.0};
    assert_memory_equal(tg_tensor_data(tg_tensor_grad(x)), expected, sizeof expected);
    tg_release(dy);
    tg_release(x);
    tg_tape_free(t);
}

/* A float has steps of 1/1024 at 1e4: a softmax from a rounded log-sum-exp would miss 1 by as much. */
static void test_large_logits_sum_to_one(void **state)
{
    (void)state;
    float logits[257];
    for (int i = 0; i < 257; i++) {
        logits[i] = 1e4F + (float)((i * 37) % 64) / 64;
    }
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(1, 257), logits)), *target = tensor_i32(TG_SHAPE(1), (int32_t[]){256});
    tg_tensor *loss = tg_cross_entropy(t, x, target, NULL);
    assert_true(tg_backward(t, loss, NULL));
    double of_softmax = tg_tensor_item(tg_sum(t, tg_softmax(t, x, 1), TG_ALL_AXES, TG_DROP_AXES), NULL);
    double of_exp = tg_tensor_item(tg_sum(t, tg_exp(t, tg_log_softmax(t, x, 1)), TG_ALL_AXES, TG_DROP_AXES), NULL);
    double of_gradient = tg_tensor_item(tg_sum(t, tg_tensor_grad(x), TG_ALL_AXES, TG_DROP_AXES), NULL);
    assert_true(fabs(of_softmax - 1) < 3e-7);
    assert_true(fabs(of_exp - 1) < 1e-6);
    assert_true(fabs(of_gradient) < 3e-7);
    tg_release(x);
    tg_release(target);
    tg_tape_free(t);
}

/* No values at all, where torch has no function of the kind. */
static void test_empty(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(0, 4), NULL)), *parts[2];
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(0), NULL), *table = tg_tensor_new(TG_F32, TG_SHAPE(3, 2), NULL);
    tg_tensor *y = tg_relative_shift(t, x, 0, 4);
    y = tg_contiguous(t, tg_transpose(t, y, 0, 1));
    y = tg_cast(t, tg_dropout(t, y, 0.5), TG_F64);
    y = tg_squeeze(t, tg_unsqueeze(t, y, 0), 0);
    assert_int_equal(tg_split(t, y, 3, 1, parts, 2), 1);
    assert_int_equal(tg_split(t, y, 3, 0, parts, 2), 2);
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = 1;
    assert_true(tg_shape_equal(tg_tensor_shape(tg_embedding(t, ids, table, &config)), TG_SHAPE(0, 2)));
    assert_true(tg_tensor_copy_from(ids, ids, NULL));
    assert_true(tg_backward(t, tg_sum(t, parts[1], TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_true(tg_shape_equal(tg_tensor_shape(parts[1]), TG_SHAPE(1, 0)));
    assert_true(tg_shape_equal(tg_tensor_shape(tg_tensor_grad(x)), TG_SHAPE(0, 4)));
    assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
    tg_release(x);
    tg_release(ids);
    tg_release(table);
    tg_tape_free(t);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_topk_ties),
        cmocka_unit_test(test_triangle_gradient),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_large_logits_sum_to_one),
    };
    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}
