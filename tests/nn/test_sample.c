/* The next token: PyTorch's draws (tests/goldens/make_sample.py), ties, edges, and what is refused. */
#include "support.h"

#include <math.h>
#include <stdio.h>

#define V 50

static tg_rng *rng;
static tg_error error;

static int set_up(void **state)
{
    (void)state;
    rng = tg_rng_new(123);
    error = (tg_error)TG_NO_ERROR;
    return rng ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_rng_free(rng);
    return 0;
}

/* (i 37 mod 50) / 8 - 3: all different, so that rounding ties play no part. */
static tg_tensor *logits(tg_dtype dtype)
{
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(V), NULL), *cast;
    for (int i = 0; i < V; i++) {
        ((float *)tg_data_mut(x))[i] = (float)((i * 37) % V) * 0.125f - 3;
    }
    cast = tg_tensor_new_cast(x, dtype, NULL);
    tg_release(x);
    return cast;
}

static void test_draws_as_torch(void **state)
{
    (void)state;
    FILE *file = fopen(TG_TEST_GOLDENS "/sample.txt", "r");
    assert_non_null(file);
    tg_tensor *single = logits(TG_F32), *wide = logits(TG_F64);
    tg_sampling_config config = {.greedy = false};
    long long k;
    int lines = 0;
    for (; fscanf(file, "%lf %lld %lf", &config.temperature, &k, &config.top_p) == 3; lines++) {
        config.top_k = k;
        tg_rng_seed(rng, 123);
        tg_rng *again = tg_rng_new(123);
        for (int i = 0; i < 40; i++) {
            int expected;
            assert_int_equal(fscanf(file, "%d", &expected), 1);
            assert_int_equal(tg_sample(single, &config, rng, &error), expected);
            assert_int_equal(tg_sample(wide, &config, again, &error), expected);
        }
        tg_rng_free(again);
    }
    assert_int_equal(lines, 10);
    fclose(file);
    tg_release(single);
    tg_release(wide);
}

static void test_greedy(void **state)
{
    (void)state;
    tg_sampling_config config = tg_sampling_config_default();
    tg_tensor *x = tensor_f32(TG_SHAPE(5), (float[]){1, 3, -INFINITY, 3, 2});
    assert_int_equal(tg_sample(x, &config, NULL, &error), 1); /* of a tie the first */
    config.temperature = -1;                                  /* not looked at */
    assert_int_equal(tg_sample(x, &config, rng, &error), 1);
    assert_true(tg_rng_position(rng) == 0);
    tg_release(x);
}

/* How many different ids come out of many draws. */
static int kinds(const tg_tensor *x, const tg_sampling_config *config)
{
    bool seen[8] = {false};
    int count = 0;
    for (int i = 0; i < 2000; i++) {
        int32_t id = tg_sample(x, config, rng, &error);
        assert_true(id >= 0 && id < 8);
        count += !seen[id];
        seen[id] = true;
    }
    return count;
}

static void test_ties_and_edges(void **state)
{
    (void)state;
    tg_sampling_config config = {.temperature = 1, .top_k = 2, .top_p = 1};
    tg_tensor *ties = tensor_f32(TG_SHAPE(5), (float[]){1, 2, 1, 1, 0}),
              *even = tensor_f32(TG_SHAPE(4), (float[]){0, 0, 0, 0});
    assert_int_equal(kinds(ties, &config), 4); /* what ties with the second stays */
    config.top_k = 1;
    assert_int_equal(kinds(ties, &config), 1);
    config.top_k = TG_NO_TOP_K;
    config.top_p = 0.5; /* two of four equal ones reach it exactly, and the third is left out */
    assert_int_equal(kinds(even, &config), 2);
    config.top_p = 0.51;
    assert_int_equal(kinds(even, &config), 3);
    config.top_p = 1e-300; /* never less than one */
    assert_int_equal(kinds(even, &config), 1);
    config.top_p = 1;
    assert_int_equal(kinds(even, &config), 4);
    tg_release(ties);
    tg_release(even);
}

static void test_refuses(void **state)
{
    (void)state;
    const struct {
        tg_sampling_config config;
        tg_code code;
        const char *text;
    } cases[] = {
        {{false, 0, -1, 1}, TG_ERROR_VALUE, "sample: temperature 0; it must be finite and above 0 (greedy takes the"},
        {{false, -1, -1, 1}, TG_ERROR_VALUE, "sample: temperature -1;"},
        {{false, (double)NAN, -1, 1}, TG_ERROR_VALUE, "sample: temperature nan;"},
        {{false, (double)INFINITY, -1, 1}, TG_ERROR_VALUE, "sample: temperature inf;"},
        {{false, 1, 0, 1}, TG_ERROR_RANGE, "sample: top_k 0 is outside [1,50]"},
        {{false, 1, 51, 1}, TG_ERROR_RANGE, "sample: top_k 51 is outside [1,50]"},
        {{false, 1, -2, 1}, TG_ERROR_RANGE, "sample: top_k -2 is outside"},
        {{false, 1, -1, 0}, TG_ERROR_RANGE, "sample: top_p 0 is outside (0,1]"},
        {{false, 1, -1, 1.5}, TG_ERROR_RANGE, "sample: top_p 1.5 is outside (0,1]"},
        {{false, 1, -1, (double)NAN}, TG_ERROR_RANGE, "sample: top_p nan is outside (0,1]"},
    };
    tg_tensor *x = logits(TG_F32);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tg_sample(x, &cases[i].config, rng, &error), -1);
        assert_error(&error, cases[i].code, cases[i].text);
    }
    tg_sampling_config good = {false, 1, -1, 1};
    assert_int_equal(tg_sample(x, &good, NULL, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "sample: there is no generator; only greedy needs none");
    ((float *)tg_data_mut(x))[7] = NAN;
    assert_int_equal(tg_sample(x, &good, rng, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: logit nan of token 7;");
    ((float *)tg_data_mut(x))[7] = INFINITY;
    assert_int_equal(tg_sample(x, &good, rng, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: logit inf of token 7;");
    tg_fill(x, -INFINITY, NULL);
    assert_int_equal(tg_sample(x, &good, rng, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: all logits are -inf");
    tg_tensor *matrix = tg_tensor_new(TG_F32, TG_SHAPE(2, 2), NULL), *ids = tg_tensor_new(TG_I32, TG_SHAPE(3), NULL);
    const tg_tensor *wrong[] = {matrix, ids, NULL};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tg_sample(wrong[i], &good, rng, &error), -1);
        assert_error(&error, TG_ERROR_SHAPE, "sample: the logits must be f32 or f64 of shape (V) with V >= 1");
    }
    tg_fill(x, 0, NULL);
    for (size_t k = 1; k <= 2; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        allocator_arm(&counting, k, false);
        assert_int_equal(tg_sample(x, &good, rng, &error), -1);
        assert_error(&error, TG_ERROR_MEMORY, "sample: out of memory");
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
    assert_true(tg_rng_position(rng) == 0);
    tg_release(matrix);
    tg_release(ids);
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_draws_as_torch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_greedy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ties_and_edges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
