/* Relative position scores against their definitions, pair by pair, also with more rows than a block. */
#include <math.h>

#include "ops/calls.h"
#include "ops/attention/relative.h"
#include "support.h"

static tg_tape *tape;
static tg_run *run;

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(3);
    tape = tg_tape_new(run, NULL);
    return !tape;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_run_free(run);
    return 0;
}

static tg_tensor *draw(tg_shape shape)
{
    tg_tensor *x = tg_tensor_new(TG_F64, shape, NULL);
    assert_true(tg_tensor_fill_normal(x, tg_run_rng(run), 0, 1, NULL));
    return leaf(x);
}

static void assert_near(const tg_tensor *x, const tg_tensor *y)
{
    assert_true(tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(y)));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        if (!(fabs(tg_tensor_value_at(x, i) - tg_tensor_value_at(y, i)) <=
              1e-11 * (1 + fabs(tg_tensor_value_at(y, i))))) {
            fail_msg("value %lld is %.17g, not %.17g", (long long)i, tg_tensor_value_at(x, i),
                     tg_tensor_value_at(y, i));
        }
    }
}

/* The op is the shift of the whole product, and so are its gradients; with `causal` below the diagonal. */
static void test_scores(void **state)
{
    (void)state;
    const struct {
        int64_t queries, keys, width;
        bool causal;
    } sizes[] = {{1, 1, 1, true},     {1, 9, 3, true},     {5, 5, 3, true},     {128, 128, 2, true},
                 {129, 129, 5, true}, {150, 170, 3, true}, {300, 300, 1, true}, {1, 9, 3, false},
                 {5, 3, 3, false},    {128, 7, 2, false},  {1, 0, 2, false},    {129, 1, 5, false},
                 {150, 170, 3, false}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t T = sizes[i].queries, S = sizes[i].keys, L = sizes[i].causal ? S : T + S - 1;
        tg_tensor *q = draw(TG_SHAPE(2, 2, T, sizes[i].width)), *heads = draw(TG_SHAPE(L, 2, sizes[i].width));
        tg_tensor *r = tg_permute(tape, heads, TG_AXES(1, 0, 2)); /* as a projection's rows, cut into heads */
        tg_tensor *dy = draw(TG_SHAPE(2, 2, T, S)), *whole_gradients[2];
        tg_tensor *whole = tg_relative_shift(tape, tg_matmul(tape, q, tg_transpose(tape, r, -2, -1)), T, S);
        if (sizes[i].causal) {
            whole = tg_tril(tape, whole, S - T);
        }
        tg_backward_config config = tg_backward_config_default();
        config.gradient = dy;
        config.retain_graph = true;
        assert_true(tg_backward(tape, whole, &config));
        whole_gradients[0] = tg_tensor_new_dense_grad(q, NULL);
        whole_gradients[1] = tg_tensor_new_dense_grad(heads, NULL);
        tg_tensor_zero_grad(q);
        tg_tensor_zero_grad(heads);
        tg_tensor *scores = tg_relative_scores(tape, q, r, S, sizes[i].causal);
        assert_near(scores, whole);
        assert_true(backward_from(tape, scores, dy));
        assert_near(tg_tensor_grad(q), whole_gradients[0]);
        assert_near(tg_tensor_grad(heads), whole_gradients[1]);
        tg_release(whole_gradients[0]);
        tg_release(whole_gradients[1]);
        tg_release(q);
        tg_release(heads);
        tg_release(dy);
        tg_tape_reset(tape);
    }
}

/* The index in the clipped distances. */
static int64_t slot_of(int64_t queries, int64_t keys, int64_t clip, int64_t i, int64_t j)
{
    int64_t ahead = j - (keys - queries + i);
    return clip + (ahead < -clip ? -clip : ahead > clip ? clip : ahead);
}

static void test_clip(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{4, 4, 1}, {4, 4, 0}, {3, 7, 2}, {1, 9, 3}, {5, 2, 2}, {5, 5, 9}, {40, 30, 4}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t T = sizes[k][0], S = sizes[k][1], clip = sizes[k][2], slots = 2 * clip + 1;
        tg_tensor *x = draw(TG_SHAPE(2, T, slots)), *w = draw(TG_SHAPE(2, T, S));
        tg_tensor *square = tg_tensor_new(TG_F64, TG_SHAPE(2, T, S), NULL);
        tg_tensor *sums = tg_tensor_new(TG_F64, TG_SHAPE(2, T, slots), NULL);
        double *square_values = tg_tensor_data_mut(square), *sum_values = tg_tensor_data_mut(sums);
        for (int64_t row = 0; row < 2 * T; row++) {
            for (int64_t j = 0; j < S; j++) {
                int64_t p = slot_of(T, S, clip, row % T, j);
                square_values[row * S + j] = tg_tensor_value_at(x, row * slots + p);
                sum_values[row * slots + p] += tg_tensor_value_at(w, row * S + j);
            }
        }
        tg_tensor *spread = tg_relative_spread(tape, x, S), *collected = tg_relative_collect(tape, w, clip);
        assert_near(spread, square);
        assert_near(collected, sums);
        assert_true(backward_from(tape, spread, w)); /* each is the other's gradient */
        assert_near(tg_tensor_grad(x), sums);
        assert_true(backward_from(tape, collected, x));
        assert_near(tg_tensor_grad(w), square);
        tg_release(x);
        tg_release(w);
        tg_release(square);
        tg_release(sums);
        tg_tape_reset(tape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clip, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
