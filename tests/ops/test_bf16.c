/* Tensors of bf16 in the ops that accept them: the values and gradients of the same table or weight in f32; and errors,
 * besides those of every op with an input of bf16 (test_input_names.c). */
#include "ops/calls.h"
#include "support.h"
#include "tape_stats.h"

#include <math.h>
#include <string.h>

/* A tensor of bf16 with drawn values, and one of f32 with the same values. */
typedef struct pair {
    tg_tensor *bf16, *f32;
} pair;

static pair pair_new(tg_rng *rng, tg_shape shape)
{
    tg_tensor *drawn = tg_tensor_new(TG_F32, shape, NULL);
    assert_true(tg_tensor_fill_normal(drawn, rng, 0, 1, NULL));
    pair made = {.bf16 = tg_tensor_new_cast(drawn, TG_BF16, NULL)};
    made.f32 = tg_tensor_new_cast(made.bf16, TG_F32, NULL);
    tg_release(drawn);
    return made;
}

static void pair_free(pair *p)
{
    tg_release(p->bf16);
    tg_release(p->f32);
}

/* Both have the same bits, or, for a product of BLAS whose blocks differ, nearly the same values. */
static void expect_same(const tg_tensor *x, const tg_tensor *y, bool nearly)
{
    assert_non_null(x);
    assert_int_equal(tg_tensor_dtype(x), TG_F32);
    assert_true(tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(y)));
    if (!nearly) {
        assert_memory_equal(tg_tensor_data(x), tg_tensor_data(y), (size_t)tg_tensor_count(x) * sizeof(float));
    }
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double a = tg_tensor_value_at(x, i), b = tg_tensor_value_at(y, i);
        assert_true(fabs(a - b) <= 1e-4 * (1 + fabs(b)));
    }
}

/* The values, and the gradients of x and of the bias. Of few rows and of many, of a weight in one block and in several,
 * and in the reproducible mode. */
static void test_linear(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 48, 70}, {2, 20, 3},     {3, 33, 1},      {9, 300, 500},
                                       {16, 64, 7}, {40, 100, 300}, {20, 1500, 400}, {1, 1500, 400}};
    tg_rng *rng = tg_rng_new(1);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const int64_t rows = sizes[i / 2][0], in = sizes[i / 2][1], out = sizes[i / 2][2];
        pair weight = pair_new(rng, TG_SHAPE(out, in)), bias = pair_new(rng, TG_SHAPE(out));
        pair x = pair_new(rng, TG_SHAPE(1, rows, in)), seed = pair_new(rng, TG_SHAPE(1, rows, out));
        tg_tensor *kept[2][3];
        leaf(x.f32);
        leaf(bias.f32);
        for (int k = 0; k < 2; k++) {
            tg_tape *t = tg_tape_new(NULL, NULL);
            tg_tape_set_reproducible(t, i % 2);
            tg_tensor_zero_grad(x.f32);
            tg_tensor_zero_grad(bias.f32);
            tg_tensor *y = tg_linear(t, x.f32, k ? weight.f32 : weight.bf16, bias.f32);
            assert_non_null(y);
            assert_true(backward_from(t, y, seed.f32));
            kept[k][0] = tg_tensor_new_copy(y, NULL);
            kept[k][1] = tg_tensor_new_dense_grad(x.f32, NULL);
            kept[k][2] = tg_tensor_new_dense_grad(bias.f32, NULL);
            tg_tape_free(t);
        }
        assert_false(tg_tensor_requires_grad(weight.bf16));
        assert_int_equal(tg_tensor_grad_kind(weight.bf16), TG_GRAD_NONE);
        for (int k = 0; k < 3; k++) {
            /* a whole weight in one block, or the same order of sums */
            expect_same(kept[0][k], kept[1][k], i % 2 == 0 && in * out > 262144);
            tg_release(kept[0][k]);
            tg_release(kept[1][k]);
        }
        pair_free(&weight);
        pair_free(&bias);
        pair_free(&x);
        pair_free(&seed);
    }
    tg_rng_free(rng);
}

/* The logits of one chunk, which are kept, and of several. */
static void test_linear_cross_entropy(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(2);
    for (int i = 0; i < 2; i++) {
        const int64_t rows = i ? 150 : 20, classes = i ? 131072 : 70, width = 2;
        pair weight = pair_new(rng, TG_SHAPE(classes, width)), x = pair_new(rng, TG_SHAPE(rows, width));
        tg_tensor *targets = tg_tensor_new(TG_I32, TG_SHAPE(rows), NULL), *kept[2][2];
        assert_true(tg_tensor_fill_randint(targets, rng, 0, classes, NULL));
        leaf(x.f32);
        for (int k = 0; k < 2; k++) {
            tg_tape *t = tg_tape_new(NULL, NULL);
            tg_tensor_zero_grad(x.f32);
            tg_tensor *loss = tg_linear_cross_entropy(t, x.f32, k ? weight.f32 : weight.bf16, targets, NULL);
            assert_non_null(loss);
            assert_true(tg_backward(t, loss, NULL));
            kept[k][0] = tg_tensor_new_copy(loss, NULL);
            kept[k][1] = tg_tensor_new_dense_grad(x.f32, NULL);
            tg_tape_free(t);
        }
        for (int k = 0; k < 2; k++) {
            expect_same(kept[0][k], kept[1][k], i);
            tg_release(kept[0][k]);
            tg_release(kept[1][k]);
        }
        pair_free(&weight);
        pair_free(&x);
        tg_release(targets);
    }
    tg_rng_free(rng);
}

/* A table is read as f32, and a head that is tied to it, too. No gradient reaches it. */
static void test_embedding(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(3);
    pair table = pair_new(rng, TG_SHAPE(50, 37));
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 3), (int32_t[]){0, 49, 3, 3, 7, 0});
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = 3;
    config.scale_by_frequency = true;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *y = tg_embedding(t, ids, table.bf16, &config);
    assert_false(tg_tensor_requires_grad(y));
    expect_same(y, tg_embedding(t, ids, table.f32, NULL), false);
    expect_same(tg_linear(t, y, table.bf16, NULL), tg_linear(t, y, table.f32, NULL), false);
    tg_tape_free(t);
    pair_free(&table);
    tg_release(ids);
    tg_rng_free(rng);
}

static tg_tensor *head(tg_tape *t, tg_tensor *const *inputs, int count, void *targets)
{
    (void)count;
    tg_tensor *x = tg_linear(t, inputs[0], inputs[1], NULL);
    return tg_linear_cross_entropy(t, x, inputs[2], targets, NULL);
}

/* Beside differences in f64, for which the weights are converted. */
static void test_gradient_check(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(4);
    tg_error error = TG_NO_ERROR;
    pair weight = pair_new(rng, TG_SHAPE(5, 3)), classes = pair_new(rng, TG_SHAPE(7, 5));
    pair x = pair_new(rng, TG_SHAPE(4, 3));
    tg_tensor *targets = tensor_i32(TG_SHAPE(4), (int32_t[]){0, 6, 3, 1});
    tg_tensor *inputs[] = {leaf(x.f32), weight.bf16, classes.bf16};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.dtype = TG_F32;
    config.numeric_in_f64 = true;
    if (!tg_gradcheck(head, targets, inputs, 3, &config, NULL, &error)) {
        fail_msg("%s", error.text);
    }
    pair_free(&weight);
    pair_free(&classes);
    pair_free(&x);
    tg_release(targets);
    tg_rng_free(rng);
}

static void test_errors(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 3), NULL), *doubles = tg_tensor_new(TG_F64, TG_SHAPE(2, 3), NULL);
    tg_tensor *weight = tg_tensor_new(TG_BF16, TG_SHAPE(4, 3), NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 3});
    assert_null(tg_linear(t, doubles, weight, NULL));
    assert_tape_error(t, TG_ERROR_DTYPE, "linear: argument 'weight' is bf16, and another input f64; it must be f32");
    assert_null(tg_linear_cross_entropy(t, doubles, weight, ids, NULL));
    assert_tape_error(t, TG_ERROR_DTYPE, "linear_cross_entropy: argument 'weight' is bf16, and another input f64");
    assert_null(tg_matmul(t, x, weight));
    assert_tape_error(t, TG_ERROR_DTYPE,
                      "matmul: argument 'b' is bf16; only the table of tg_embedding and the weight of tg_linear and "
                      "tg_linear_cross_entropy may be (tg_tensor_new_cast converts)");
    assert_null(tg_linear(t, weight, x, NULL));
    assert_tape_error(t, TG_ERROR_DTYPE, "linear: argument 'x' is bf16; only the table");
    assert_null(tg_linear(t, x, weight, tg_full(t, TG_F32, TG_SHAPE(3), 0)));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear: x is (2,3), the weight (4,3), the bias (3,)");
    assert_null(tg_full(t, TG_BF16, TG_SHAPE(3), 0));
    assert_tape_error(t, TG_ERROR_DTYPE, "a result of bf16; it must be f32, f64, i32 or u8");
    assert_null(tg_cast(t, x, TG_BF16));
    assert_tape_error(t, TG_ERROR_DTYPE, "a result of bf16; it must be f32, f64, i32 or u8");
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = 1;
    assert_null(tg_embedding(t, ids, weight, &config));
    assert_tape_error(t, TG_ERROR_DTYPE, "embedding: max_norm 1, and the table is bf16; it must be f32 or f64");
    tg_tape_free(t);
    tg_tensor *all[] = {x, doubles, weight, ids};
    for (int i = 0; i < 4; i++) {
        tg_release(all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),    cmocka_unit_test(test_linear_cross_entropy),
        cmocka_unit_test(test_embedding), cmocka_unit_test(test_gradient_check),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests_name("bf16", tests, NULL, NULL);
}
