/* attention: inputs that are the same tensor, that require no gradient, that have unusual strides, or that are empty.
 * Its results are tested in test_attention.c. */
#include "ops/calls.h"
#include "support.h"

#include <math.h>
#include <string.h>

static const tg_attention_path both[] = {TG_ATTENTION_FUSED, TG_ATTENTION_ELEMENTARY};
static tg_run *shared_run;
static tg_tape *tape;

static int set_up(void **state)
{
    (void)state;
    shared_run = tg_run_new(21);
    tape = tg_tape_new(shared_run, NULL);
    return shared_run && tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_run_free(shared_run);
    return 0;
}

static tg_tensor *normal(tg_shape shape)
{
    tg_tensor *x = tg_tensor_new(TG_F64, shape, NULL);
    assert_true(tg_tensor_fill_normal(x, tg_run_rng(shared_run), 0, 1, NULL));
    return x;
}

static void assert_close(const tg_tensor *x, const tg_tensor *expected)
{
    assert_true(tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(expected)));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double want = tg_tensor_value_at(expected, i);
        assert_true(fabs(tg_tensor_value_at(x, i) - want) < 1e-13 * (1 + fabs(want)));
    }
}

/* The sum of y times its own index, so that every value of dy differs. */
static void backward(tg_tensor *y)
{
    assert_string_equal(tg_tape_error(tape)->text, "");
    tg_tensor *dy = tg_tensor_new(TG_F64, tg_tensor_shape(y), NULL);
    for (int64_t i = 0; i < tg_tensor_count(y); i++) {
        ((double *)tg_tensor_data_mut(dy))[i] = 0.01 * (double)(i % 37) - 0.1;
    }
    assert_true(backward_from(tape, y, dy));
    tg_release(dy);
}

enum { INPUTS = 4 }; /* queries, keys, values, bias */

static void make_inputs(tg_tensor *inputs[INPUTS])
{
    for (int i = 0; i < 3; i++) {
        inputs[i] = normal(TG_SHAPE(2, 130, 3)); /* two blocks of rows */
    }
    inputs[3] = normal(TG_SHAPE(130, 130));
}

static void free_inputs(tg_tensor *inputs[INPUTS])
{
    for (int i = 0; i < INPUTS; i++) {
        tg_release(inputs[i]);
    }
}

/* Each subset of the inputs gets the gradients that all get together, bit for bit, and no other input gets one. */
static void test_any_may_want_a_gradient(void **state)
{
    (void)state;
    tg_tensor *inputs[INPUTS], *expected[INPUTS];
    make_inputs(inputs);
    for (unsigned wanted = 15; wanted > 0; wanted--) {
        for (int i = 0; i < INPUTS; i++) {
            assert_true(tg_tensor_set_requires_grad(inputs[i], wanted >> i & 1, NULL));
        }
        const tg_scaled_dot_product_attention_config config = attention_config(true, 0.25, inputs[3]);
        tg_rng_seed(tg_run_rng(shared_run), 4);
        backward(tg_scaled_dot_product_attention(tape, inputs[0], inputs[1], inputs[2], &config));
        for (int i = 0; i < INPUTS; i++) {
            assert_int_equal(tg_tensor_grad_kind(inputs[i]) != TG_GRAD_NONE, wanted >> i & 1);
            tg_tensor *found = tg_tensor_new_dense_grad(inputs[i], NULL);
            if (wanted == 15) {
                expected[i] = found;
                continue;
            }
            if (wanted >> i & 1) {
                assert_memory_equal(tg_tensor_data(found), tg_tensor_data(expected[i]),
                                    (size_t)tg_tensor_count(found) * sizeof(double));
            }
            tg_release(found);
        }
        for (int i = 0; i < INPUTS; i++) {
            tg_tensor_zero_grad(inputs[i]);
        }
        tg_tape_reset(tape);
    }
    free_inputs(inputs);
    free_inputs(expected);
}

/* One tensor as queries, keys and values gets the sum of what three equal ones get; and a second call adds to it. */
static void test_one_tensor_thrice(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        const tg_scaled_dot_product_attention_config causal = attention_config(true, 0, NULL);
        tg_tensor *inputs[INPUTS], *sum = NULL;
        make_inputs(inputs);
        for (int i = 0; i < 3; i++) {
            assert_true(tg_tensor_copy_from(inputs[i], inputs[0], NULL));
            leaf(inputs[i]);
        }
        backward(attend(both[way], tape, inputs[0], inputs[1], inputs[2], causal));
        for (int i = 0; i < 3; i++) {
            tg_tensor *gradient = tg_tensor_new_dense_grad(inputs[i], NULL);
            sum = tg_add(tape, i == 0 ? tg_full(tape, TG_F64, TG_SCALAR, 0) : sum, gradient);
            tg_release(gradient);
        }
        tg_tensor *x = leaf(tg_tensor_new_copy(inputs[0], NULL));
        for (int times = 1; times <= 3; times++) {
            backward(attend(both[way], tape, x, x, x, causal));
            tg_tensor *gradient = tg_tensor_new_dense_grad(x, NULL);
            assert_close(gradient, tg_mul_scalar(tape, sum, times));
            tg_release(gradient);
        }
        tg_release(x);
        free_inputs(inputs);
        tg_tape_reset(tape);
    }
}

/* Queries with strided columns, keys that all heads share, every second row of the values, and a transposed bias: the
 * results are those of contiguous copies. */
static void test_views(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        tg_tensor *q = leaf(normal(TG_SHAPE(2, 3, 4, 70))), *k = leaf(normal(TG_SHAPE(2, 1, 90, 4)));
        tg_tensor *v = leaf(normal(TG_SHAPE(2, 3, 180, 4))), *bias = leaf(normal(TG_SHAPE(3, 90, 70)));
        tg_tensor *leaves[INPUTS] = {q, k, v, bias};
        tg_tensor *views[INPUTS] = {tg_transpose(tape, q, 2, 3), tg_expand(tape, k, TG_SHAPE(2, 3, 90, 4)),
                                    tg_slice(tape, v, 2, 0, 180, 2), tg_transpose(tape, bias, 1, 2)};
        tg_tensor *copies[INPUTS];
        for (int i = 0; i < INPUTS; i++) {
            assert_string_equal(tg_tape_error(tape)->text, "");
            copies[i] = leaf(tg_tensor_new_copy(views[i], NULL));
        }
        tg_scaled_dot_product_attention_config config = attention_config(true, 0.3, views[3]);
        tg_rng_seed(tg_run_rng(shared_run), 4);
        tg_tensor *y = attend(both[way], tape, views[0], views[1], views[2], config);
        backward(y);
        config.bias = copies[3];
        tg_rng_seed(tg_run_rng(shared_run), 4);
        tg_tensor *expected = attend(both[way], tape, copies[0], copies[1], copies[2], config);
        backward(expected);
        assert_close(y, expected);
        tg_tensor *of_copies[INPUTS];
        for (int i = 0; i < INPUTS; i++) {
            of_copies[i] = tg_tensor_new_dense_grad(copies[i], NULL);
        }
        tg_tensor *heads = tg_sum(tape, of_copies[1], TG_AXES(1), TG_KEEP_AXES);
        tg_tensor *moved[] = {tg_contiguous(tape, tg_transpose(tape, of_copies[0], 2, 3)), heads, NULL,
                              tg_contiguous(tape, tg_transpose(tape, of_copies[3], 1, 2))};
        for (int i = 0; i < INPUTS; i++) {
            tg_tensor *gradient = tg_tensor_new_dense_grad(leaves[i], NULL);
            if (i == 2) { /* rows 0, 2, ..: the others get nothing */
                tg_tensor *even = tg_contiguous(tape, tg_slice(tape, gradient, 2, 0, 180, 2));
                tg_tensor *odd = tg_contiguous(tape, tg_slice(tape, gradient, 2, 1, 180, 2));
                assert_close(even, of_copies[2]);
                for (int64_t n = 0; n < tg_tensor_count(odd); n++) {
                    assert_true(tg_tensor_value_at(odd, n) == 0);
                }
            } else {
                assert_close(gradient, moved[i]);
            }
            tg_release(gradient);
        }
        free_inputs(leaves);
        free_inputs(copies);
        free_inputs(of_copies);
        tg_tape_reset(tape);
    }
}

/* No queries, or no batch: nothing comes out, and keys and values get gradients of zero. */
static void test_empty(void **state)
{
    (void)state;
    const tg_shape queries[] = {TG_SHAPE(2, 0, 3), TG_SHAPE(0, 4, 3)}, keys[] = {TG_SHAPE(2, 5, 3), TG_SHAPE(0, 5, 3)};
    for (int i = 0; i < 4; i++) {
        tg_tensor *q = leaf(tg_tensor_new(TG_F64, queries[i % 2], NULL)), *k = leaf(normal(keys[i % 2]));
        const tg_scaled_dot_product_attention_config config = attention_config(true, i < 2 ? 0 : 0.5, NULL);
        uint64_t position = tg_rng_position(tg_run_rng(shared_run));
        tg_tensor *y = tg_scaled_dot_product_attention(tape, q, k, k, &config);
        backward(y);
        assert_true(tg_shape_equal(tg_tensor_shape(y), queries[i % 2]));
        tg_tensor *gradient = tg_tensor_new_dense_grad(k, NULL);
        assert_true(tg_shape_equal(tg_tensor_shape(gradient), keys[i % 2]));
        for (int64_t n = 0; n < tg_tensor_count(gradient); n++) {
            assert_true(tg_tensor_value_at(gradient, n) == 0);
        }
        assert_true(tg_rng_position(tg_run_rng(shared_run)) == position);
        tg_release(gradient);
        tg_release(q);
        tg_release(k);
        tg_tape_reset(tape);
    }
}

/* Without values in the result, both paths draw nothing, as torch.nn.functional.scaled_dot_product_attention of torch
 * 2.13: for heads of width 0, and for values without a batch, although the weights have values. The weights of the
 * elementary path are those of scores of 0, and are dropped if the caller asks for them. */
static void test_empty_results_with_weights(void **state)
{
    (void)state;
    const tg_shape shapes[2][3] = {{TG_SHAPE(2, 3, 0), TG_SHAPE(2, 5, 0), TG_SHAPE(2, 5, 0)},
                                   {TG_SHAPE(1, 3, 4), TG_SHAPE(1, 5, 4), TG_SHAPE(0, 5, 4)}};
    const tg_shape results[] = {TG_SHAPE(2, 3, 0), TG_SHAPE(0, 3, 4)};
    for (int number = 0; number < 12; number++) {
        const bool is_wide = number % 2, wants_weights = number / 4 == 2;
        const tg_attention_path path = wants_weights ? TG_ATTENTION_ELEMENTARY : both[number / 2 % 2];
        tg_tensor *in[3], *bias = leaf(normal(TG_SHAPE(3, 5))), *weights = NULL;
        for (int i = 0; i < 3; i++) {
            in[i] = leaf(normal(shapes[is_wide][i]));
        }
        const double dropout = number / 4 == 0 ? 0 : 0.5;
        tg_scaled_dot_product_attention_config config = attention_config(false, dropout, wants_weights ? NULL : bias);
        config.weights = wants_weights ? &weights : NULL;
        uint64_t position = tg_rng_position(tg_run_rng(shared_run));
        tg_tensor *y = attend(path, tape, in[0], in[1], in[2], config);
        backward(y);
        assert_true(tg_shape_equal(tg_tensor_shape(y), results[is_wide]));
        assert_int_equal(tg_rng_position(tg_run_rng(shared_run)) - position,
                         wants_weights ? 2 * tg_tensor_count(weights) : 0);
        tg_tensor *gradient = tg_tensor_new_dense_grad(wants_weights ? in[0] : bias, NULL);
        for (int64_t i = 0; i < tg_tensor_count(gradient); i++) {
            assert_true(tg_tensor_value_at(gradient, i) == 0);
        }
        for (int64_t i = 0; !is_wide && i < tg_tensor_count(weights); i++) {
            double weight = tg_tensor_value_at(weights, i);
            assert_true(weight == 0 || weight == 0.2 * 2);
        }
        tg_release(gradient);
        for (int i = 0; i < 3; i++) {
            tg_release(in[i]);
        }
        tg_release(bias);
        tg_tape_reset(tape);
    }
}

/* Queries that have no keys, which the mask of causal attention cannot give, get zeros, as in PyTorch. */
static void test_no_keys(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tg_tensor *q = leaf(normal(TG_SHAPE(2, 3, 4))), *k = leaf(tg_tensor_new(TG_F64, TG_SHAPE(2, 0, 4), NULL));
        tg_tensor *bias = leaf(tg_tensor_new(TG_F64, TG_SHAPE(3, 0), NULL));
        tg_tensor *y = attend(both[i % 2], tape, q, k, k, attention_config(false, i < 2 ? 0 : 0.5, bias));
        backward(y);
        tg_tensor *gradient = tg_tensor_new_dense_grad(q, NULL);
        const double zeros[24] = {0};
        assert_values(y, zeros, 24, 0, 0);
        assert_values(gradient, zeros, 24, 0, 0);
        tg_release(gradient);
        tg_release(q);
        tg_release(k);
        tg_release(bias);
        tg_tape_reset(tape);
    }
}

/* A query from which the bias takes every key has nothing to look at: its row is 0, as in PyTorch, and gets no
 * gradient. The other rows do not notice. */
static void test_query_without_keys(void **state)
{
    (void)state;
    tg_tensor *x = leaf(normal(TG_SHAPE(3, 4))), *bias = leaf(tg_tensor_new(TG_F64, TG_SHAPE(3, 3), NULL));
    for (int64_t j = 0; j < 3; j++) {
        ((double *)tg_tensor_data_mut(bias))[3 + j] = -INFINITY;
    }
    for (int way = 0; way < 2; way++) {
        tg_tensor *plain = attend(both[way], tape, x, x, x, attention_config(true, 0, NULL));
        tg_tensor *y = attend(both[way], tape, x, x, x, attention_config(true, 0, bias));
        backward(y);
        for (int64_t i = 0; i < 12; i++) {
            assert_true(tg_tensor_value_at(y, i) == (i / 4 == 1 ? 0 : tg_tensor_value_at(plain, i)));
            assert_true(isfinite(tg_tensor_value_at(tg_tensor_grad(x), i)));
        }
        for (int64_t i = 0; i < 9; i++) { /* row 0 has one key, and its weight is 1 */
            assert_true((fabs(tg_tensor_value_at(tg_tensor_grad(bias), i)) > 1e-12) == (i / 3 == 2));
        }
        tg_tape_reset(tape);
    }
    tg_release(x);
    tg_release(bias);
}

/* A call, and the gradient of the sum of its values. */
static bool run(tg_attention_path path, tg_tape *t, tg_rng *own, tg_tensor *x, tg_tensor *lengths)
{
    tg_scaled_dot_product_attention_config config = attention_config(true, 0.3, NULL);
    config.lengths = lengths;
    tg_rng_seed(own, 2);
    tg_tensor *y = attend(path, t, x, x, x, config);
    return tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL);
}

/* Allocation n of a call and its backward fails, or all from there on: an error, no gradient, nothing leaked, and a
 * retry gives the bits. */
static void test_without_memory(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++) {
        double expected[6];
        bool finished = false;
        for (size_t n = 0; !finished; n++) {
            counting_allocator counting;
            allocator_install(&counting);
            tg_run *own = tg_run_new(2);
            tg_tape *t = tg_tape_new(own, NULL);
            tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1, 3, 2), (double[]){1, -2, 0.5, 3, -1, 2}));
            tg_tensor *lengths = way / 4 ? tensor_i32(TG_SHAPE(1), (int32_t[]){2}) : NULL;
            allocator_arm(&counting, n, way / 2 % 2);
            bool good = run(both[way % 2], t, tg_run_rng(own), x, lengths);
            allocator_arm(&counting, 0, false);
            if (n == 0) {
                assert_true(good);
                memcpy(expected, tg_tensor_data(tg_tensor_grad(x)), sizeof expected);
            } else if (good) {
                finished = true;
                assert_true(n > 4); /* the forward pass was among what failed */
            } else {
                assert_int_equal(tg_tape_error(t)->code, TG_ERROR_MEMORY);
                assert_int_equal(tg_tensor_grad_kind(x), TG_GRAD_NONE);
                clear_tape_error(t);
                tg_tape_reset(t);
                assert_true(run(both[way % 2], t, tg_run_rng(own), x, lengths));
            }
            assert_memory_equal(tg_tensor_data(tg_tensor_grad(x)), expected, sizeof expected);
            tg_release(x);
            tg_release(lengths);
            tg_tape_free(t);
            tg_run_free(own);
            assert_int_equal(counting.live, 0);
            allocator_restore();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_may_want_a_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_tensor_thrice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_views, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty_results_with_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_query_without_keys, set_up, tear_down),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
