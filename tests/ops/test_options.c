/* Ops against torch's over their options (make_more_ops.py). */
#include "ops/goldens.h"
#include "settings.h"

#include "tape_stats.h"

#include <math.h>

#define CALL(name, expression)                                                \
    static tg_tensor *name(tg_tape *t, tg_tensor **in, const double *options) \
    {                                                                         \
        (void)options;                                                        \
        return expression;                                                    \
    }

/* The axes and whether they are kept: options 0 and 1. */
static tg_axes axes_of(const double *options)
{
    int axis = (int)options[0];
    return axis == 9 ? TG_ALL_AXES : tg_axes_make(1, &axis);
}

static tg_keep_axes keep_of(const double *options)
{
    return options[0] != 9 && options[1] != 0 ? TG_KEEP_AXES : TG_DROP_AXES;
}

static tg_order order_of(double smallest)
{
    return smallest != 0 ? TG_SMALLEST_FIRST : TG_LARGEST_FIRST;
}

CALL(clamp_both, tg_clamp_tensor(t, in[0], in[1], in[2]))
CALL(clamp_low, tg_clamp_tensor(t, in[0], in[1], NULL))
CALL(clamp_high, tg_clamp_tensor(t, in[0], NULL, in[1]))
CALL(logical_and, tg_logical_and(t, in[0], in[1]))
CALL(logical_or, tg_logical_or(t, in[0], in[1]))
CALL(logical_not, tg_logical_not(t, in[0]))
CALL(amin, tg_amin(t, in[0], axes_of(options), keep_of(options)))
CALL(logsumexp, tg_logsumexp(t, in[0], axes_of(options), keep_of(options)))
CALL(std_, tg_std(t, in[0], axes_of(options), (int)options[2], keep_of(options)))
CALL(norm, tg_norm(t, in[0], options[2], axes_of(options), keep_of(options)))
CALL(any, tg_any(t, in[0], axes_of(options), keep_of(options)))
CALL(all, tg_all(t, in[0], axes_of(options), keep_of(options)))
CALL(sum_integers, tg_sum(t, in[0], axes_of(options), keep_of(options)))
CALL(argmin, tg_argmin(t, in[0], (int)options[0], keep_of(options)))
CALL(argmax, tg_argmax(t, in[0], (int)options[0], keep_of(options)))
CALL(sort, tg_sort(t, in[0], (int)options[0], order_of(options[1]), NULL))
CALL(topk, tg_topk(t, in[0], (int64_t)options[0], (int)options[1], order_of(options[2]), NULL))
CALL(cumsum, tg_cumsum(t, in[0], (int)options[0]))
CALL(flip, tg_flip(t, in[0], axes_of(options)))
CALL(flip_all, tg_flip(t, in[0], TG_ALL_AXES))
CALL(scatter_add, tg_scatter_add(t, in[0], (int)options[0], in[1], in[2]))
CALL(index_add, tg_index_add(t, in[0], (int)options[0], in[1], in[2]))
CALL(gather, tg_gather(t, in[0], (int)options[0], in[1]))
CALL(index_select, tg_index_select(t, in[0], (int)options[0], in[1]))
CALL(where, tg_where(t, in[0], in[1], in[2]))
CALL(cat, tg_cat(t, in, 2, 1))
CALL(masked_fill, tg_masked_fill(t, in[0], in[1], options[0]))
CALL(layer_norm, tg_layer_norm(t, in[0], NULL, NULL, 1e-5))
CALL(layer_norm_weight, tg_layer_norm(t, in[0], in[1], NULL, 1e-5))
CALL(layer_norm_bias, tg_layer_norm(t, in[0], NULL, in[1], 1e-5))

static tg_tensor *sort_ids(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_tensor *ids;
    tg_sort(t, in[0], (int)options[0], order_of(options[1]), &ids);
    return ids;
}

static tg_tensor *repeat(tg_tape *t, tg_tensor **in, const double *options)
{
    int64_t times[TG_MAX_RANK];
    for (int i = 0; i < (int)options[0]; i++) {
        times[i] = (int64_t)options[1 + i];
    }
    return tg_repeat(t, in[0], tg_shape_make((int)options[0], times));
}

static const golden_call calls[] = {
    {"clamp_both", clamp_both},
    {"clamp_low", clamp_low},
    {"clamp_high", clamp_high},
    {"logical_and", logical_and},
    {"logical_or", logical_or},
    {"logical_not", logical_not},
    {"amin", amin},
    {"logsumexp", logsumexp},
    {"std", std_},
    {"norm", norm},
    {"any", any},
    {"all", all},
    {"any_float", any},
    {"all_float", all},
    {"sum_integers", sum_integers},
    {"argmin", argmin},
    {"argmax", argmax},
    {"sort", sort},
    {"sort_ids", sort_ids},
    {"topk", topk},
    {"cumsum", cumsum},
    {"flip", flip},
    {"flip_all", flip_all},
    {"repeat", repeat},
    {"scatter_add", scatter_add},
    {"index_add", index_add},
    {"gather", gather},
    {"index_select", index_select},
    {"where", where},
    {"cat", cat},
    {"masked_fill", masked_fill},
    {"layer_norm", layer_norm},
    {"layer_norm_weight", layer_norm_weight},
    {"layer_norm_bias", layer_norm_bias},
};

static void test_against_torch(void **state)
{
    (void)state;
    int cases =
        check_goldens_with_options(TG_TEST_GOLDENS "/more_ops.txt", calls, sizeof calls / sizeof *calls, 5e-13, 5e-6);
    assert_int_equal(cases, 275);
}

/* torch.manual_seed(3); torch.bernoulli(torch.arange(10) / 9), in float and, with the same seed, in double. */
static void test_bernoulli_draws_what_torch_draws(void **state)
{
    (void)state;
    static const double expected[2][10] = {{0, 1, 0, 1, 0, 1, 0, 1, 1, 1}, {0, 0, 0, 1, 0, 0, 1, 1, 1, 1}};
    for (int k = 0; k < 2; k++) {
        tg_run *run = tg_run_new(3);
        tg_tape *t = tg_tape_new(run, NULL);
        tg_tensor *p = leaf(tg_tensor_new_arange(k ? TG_F64 : TG_F32, 0, 10, 1, NULL));
        tg_tensor *y = tg_bernoulli(t, tg_div_scalar(t, p, 9));
        assert_values(y, expected[k], 10, 0, 0);
        assert_int_equal(tg_rng_position(tg_run_rng(run)), k ? 20 : 10);
        assert_false(tg_tensor_requires_grad(y));
        tg_release(p);
        tg_tape_free(t);
        tg_run_free(run);
    }
}

/* Uniform numbers of the same generator, one per value, for more values than are drawn at a time. */
static void check_many_draws(void *context, bool first)
{
    (void)context;
    (void)first;
    for (int dtype = 0; dtype < 2; dtype++) {
        tg_run *run = tg_run_new(9);
        tg_rng *same = tg_rng_new(9);
        tg_tape *t = tg_tape_new(run, NULL);
        tg_tensor *p = tg_tensor_new(dtype ? TG_F64 : TG_F32, TG_SHAPE(3, 1111), NULL);
        tg_tensor *uniform = tg_tensor_new(dtype ? TG_F64 : TG_F32, TG_SHAPE(3, 1111), NULL);
        assert_true(tg_tensor_fill_uniform(uniform, same, 0, 1, NULL));
        for (int64_t i = 0; i < tg_tensor_count(p); i++) {
            tg_put(p, i, (double)(i % 11) / 10);
        }
        tg_tensor *y = tg_bernoulli(t, p);
        assert_non_null(y);
        for (int64_t i = 0; i < tg_tensor_count(p); i++) {
            assert_true(tg_get(y, i) == (tg_get(uniform, i) < tg_get(p, i)));
        }
        assert_int_equal(tg_rng_position(tg_run_rng(run)), tg_rng_position(same));
        tg_put(p, 3000, NAN);
        tg_put(p, 3001, 2);
        assert_null(tg_bernoulli(t, p));
        assert_tape_error(t, TG_ERROR_VALUE, "bernoulli: probability nan at [2,778] is outside [0,1]");
        assert_int_equal(tg_rng_position(tg_run_rng(run)), tg_rng_position(same));
        tg_tape_free(t);
        tg_release(p);
        tg_release(uniform);
        tg_run_free(run);
        tg_rng_free(same);
    }
}

static void test_many_draws_of_bernoulli(void **state)
{
    (void)state;
    over_settings(check_many_draws, NULL);
}

/* torch.manual_seed(7); w = (torch.arange(15.).reshape(3, 5) * 7) % 11; torch.multinomial(w, draws, replacement), and
 * then torch.multinomial(w[1], draws, replacement): in float and in double, from weights without gaps and from a
 * transposed view. */
static void test_multinomial_draws_what_torch_draws(void **state)
{
    (void)state;
    static const struct {
        int64_t draws;
        bool replacement;
        double rows[9], second_row[3];
    } cases[] = {
        {1, false, {1, 1, 3}, {1}},
        {1, true, {1, 1, 3}, {1}},
        {3, false, {1, 3, 4, 1, 2, 4, 3, 4, 0}, {1, 3, 2}},
        {3, true, {2, 2, 4, 3, 4, 4, 2, 3, 4}, {4, 0, 0}},
    };
    double values[15];
    for (int j = 0; j < 15; j++) {
        values[j] = j * 7 % 11;
    }
    tg_run *run = tg_run_new(7);
    tg_tape *t = tg_tape_new(run, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; k < 4; k++) {
            tg_tensor *w = tg_tensor_new_from_f64(TG_SHAPE(3, 5), values, NULL);
            tg_tensor *cast = tg_cast(t, w, k & 1 ? TG_F64 : TG_F32);
            tg_tensor *weights = k & 2 ? tg_transpose(t, tg_contiguous(t, tg_transpose(t, cast, 0, 1)), 0, 1) : cast;
            tg_rng_seed(tg_run_rng(run), 7);
            tg_tensor *ids = tg_multinomial(t, weights, cases[i].draws, cases[i].replacement);
            assert_int_equal(tg_tensor_dtype(ids), TG_I32);
            assert_true(tg_shape_equal(tg_tensor_shape(ids), TG_SHAPE(3, cases[i].draws)));
            assert_values(ids, cases[i].rows, 3 * cases[i].draws, 0, 0);
            ids = tg_multinomial(t, tg_select(t, weights, 0, 1), cases[i].draws, cases[i].replacement);
            assert_values(ids, cases[i].second_row, cases[i].draws, 0, 0);
            tg_tape_reset(t);
            tg_release(w);
        }
    }
    tg_tape_free(t);
    tg_run_free(run);
}

/* Nothing is drawn and no result is left if a row of many is invalid. */
static void test_multinomial_refuses(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(7);
    tg_tape *t = tg_tape_new(run, NULL), *plain = tg_tape_new(NULL, NULL);
    tg_tensor *good = tensor_f32(TG_SHAPE(2, 2), (float[]){1, 2, 3, 4});
    tg_tensor *negative = tensor_f32(TG_SHAPE(2, 2), (float[]){1, 2, 3, -4});
    tg_tensor *zero = tensor_f32(TG_SHAPE(2, 2), (float[]){1, 2, 0, 0});
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[4]){0}), *scalar = tensor_f32(TG_SCALAR, (float[]){1});
    tg_tensor *no_rows = tensor_f32(TG_SHAPE(0, 3), NULL);
    const struct {
        tg_tensor *weights;
        int64_t draws;
        tg_code code;
        const char *text;
    } cases[] = {
        {negative, 1, TG_ERROR_VALUE, "multinomial: row 1: weight -4 at [1] is not a finite number >= 0"},
        {zero, 2, TG_ERROR_VALUE, "multinomial: row 1: none of the 2 weights is above 0"},
        {good, 3, TG_ERROR_VALUE, "multinomial: row 0: 3 draws without replacement from 2 weights above 0"},
        {good, 0, TG_ERROR_VALUE, "multinomial: 0 draws; it must be at least 1"},
        {no_rows, 4, TG_ERROR_VALUE, "multinomial: 4 draws without replacement from 3 categories"},
        {good, INT64_MAX, TG_ERROR_SHAPE, "multinomial"},
        {ids, 1, TG_ERROR_DTYPE, "multinomial: the weights are i32; they must be f32 or f64"},
        {scalar, 1, TG_ERROR_SHAPE, "multinomial: the weights have shape (); it must be (V) or (B,V)"},
        {NULL, 1, TG_ERROR_STATE, "multinomial: argument 'weights' is NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(tg_multinomial(t, cases[i].weights, cases[i].draws, false));
        assert_tape_error(t, cases[i].code, cases[i].text);
        assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
        assert_int_equal(tape_stats_of(t).results, 0);
    }
    tg_tensor *none = tg_multinomial(t, tg_slice(t, good, 0, 0, 0, 1), 3, true);
    assert_true(tg_shape_equal(tg_tensor_shape(none), TG_SHAPE(0, 3)));
    assert_null(tg_multinomial(plain, good, 1, false));
    assert_tape_error(plain, TG_ERROR_STATE, "multinomial: the tape has no generator; it needs a run (tg_run_new)");
    tg_tensor *all[] = {good, negative, zero, ids, scalar, no_rows};
    for (int i = 0; i < 6; i++) {
        tg_release(all[i]);
    }
    tg_tape_free(t);
    tg_tape_free(plain);
    tg_run_free(run);
}

static void test_sums_of_all_values(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 9}));
    tg_tensor *sum = tg_sum_all(t, x), *mean = tg_mean_all(t, x);
    assert_int_equal(tg_tensor_rank(sum) + tg_tensor_rank(mean), 0);
    assert_values(sum, (double[]){24}, 1, 0, 0);
    assert_values(mean, (double[]){4}, 1, 0, 0);
    assert_true(tg_backward(t, sum, NULL));
    assert_values(tg_tensor_grad(x), (double[]){1, 1, 1, 1, 1, 1}, 6, 0, 0);
    tg_release(x);
    tg_tape_free(t);
}

/* A sum of integers outside of i32's range is clamped. */
static void test_large_sums_of_integers(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tensor_i32(TG_SHAPE(3), (int32_t[]){INT32_MAX, INT32_MAX, -5});
    assert_values(tg_sum(t, x, TG_ALL_AXES, TG_DROP_AXES), (double[]){INT32_MAX}, 1, 0, 0);
    assert_int_equal(tg_tensor_dtype(tg_sum(t, x, TG_ALL_AXES, TG_DROP_AXES)), TG_I32);
    tg_release(x);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),           cmocka_unit_test(test_bernoulli_draws_what_torch_draws),
        cmocka_unit_test(test_many_draws_of_bernoulli), cmocka_unit_test(test_multinomial_draws_what_torch_draws),
        cmocka_unit_test(test_multinomial_refuses),     cmocka_unit_test(test_sums_of_all_values),
        cmocka_unit_test(test_large_sums_of_integers),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
