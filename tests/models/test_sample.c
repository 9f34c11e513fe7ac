/* Sampling the next token: PyTorch's draws (tests/goldens/make_sample.py) and the course's; ties, edge cases,
 * errors. */
#include "support.h"

#include <math.h>
#include <stdio.h>

#include "base/random.h"

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

static tg_sample_config drawing(double temperature, int64_t top_k, double top_p)
{
    tg_sample_config config = tg_sample_config_default();
    config.greedy = false;
    config.temperature = temperature;
    config.top_k = top_k;
    config.top_p = top_p;
    return config;
}

/* (i 37 mod v) s - 3: all different, so that rounding ties play no part. */
static tg_tensor *logits(int64_t vocabulary, tg_dtype dtype)
{
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(vocabulary), NULL), *cast;
    float scale = vocabulary == V ? 0x1p-3F : 0x1p-12F;
    for (int64_t i = 0; i < vocabulary; i++) {
        ((float *)tg_tensor_data_mut(x))[i] = (float)((i * 37) % vocabulary) * scale - 3;
    }
    cast = tg_tensor_new_cast(x, dtype, NULL);
    tg_release(x);
    return cast;
}

/* Each id that is drawn becomes a part of the text that repetition_penalty reads. */
static void test_draws_as_torch_and_transformers(void **state)
{
    (void)state;
    FILE *file = fopen(TG_TEST_GOLDENS "/sample.txt", "r");
    assert_non_null(file);
    tg_sample_config config = drawing(1, TG_NO_TOP_K, 1);
    double temperature;
    long long vocabulary, k;
    int lines = 0;
    for (; fscanf(file, "%lld %lf %lld %lf %lf %lf", &vocabulary, &temperature, &k, &config.top_p, &config.min_p,
                  &config.repetition_penalty) == 6;
         lines++) {
        int32_t text[44] = {7, 3, 49, 3};
        config.greedy = temperature == 0;
        config.temperature = config.greedy ? 1 : temperature;
        config.text = text;
        tg_tensor *single = logits(vocabulary, TG_F32), *wide = logits(vocabulary, TG_F64);
        config.top_k = k;
        tg_rng_seed(rng, 123);
        tg_rng *again = tg_rng_new(123);
        for (int i = 0; i < (vocabulary == V ? 40 : 8); i++) {
            int expected;
            assert_int_equal(fscanf(file, "%d", &expected), 1);
            config.text_count = 4 + i;
            assert_int_equal(tg_sample(single, rng, &config, &error), expected);
            assert_int_equal(tg_sample(wide, again, &config, &error), expected);
            text[4 + i] = expected;
        }
        tg_rng_free(again);
        tg_release(single);
        tg_release(wide);
    }
    assert_int_equal(lines, 26);
    fclose(file);
}

/* Chapter 5 of the course: how often each of nine words is drawn, in a thousand draws of seed 123. */
static void test_draws_of_the_course(void **state)
{
    (void)state;
    static const struct {
        double temperature;
        int counts[9];
    } cases[] = {{1, {73, 0, 0, 582, 2, 0, 0, 343, 0}},
                 {0.1, {0, 0, 0, 985, 0, 0, 0, 15, 0}},
                 {5, {165, 75, 42, 239, 71, 46, 32, 227, 103}}};
    const float values[] = {4.51f, 0.89f, -1.90f, 6.75f, 1.63f, -1.62f, -1.89f, 6.28f, 1.79f};
    tg_tensor *x = tensor_f32(TG_SHAPE(9), values);
    for (int i = 0; i < 3; i++) {
        tg_sample_config config = drawing(cases[i].temperature, TG_NO_TOP_K, 1);
        int counts[9] = {0};
        tg_rng_seed(rng, 123);
        for (int k = 0; k < 1000; k++) {
            int32_t id = tg_sample(x, rng, &config, &error);
            assert_in_range(id, 0, 8);
            counts[id]++;
        }
        assert_memory_equal(counts, cases[i].counts, sizeof counts);
    }
    tg_release(x);
}

/* The draws are those from tg_softmax's values, bit for bit: of logits of which many nearly tie, cut off by top_k. */
static void test_weights_are_softmaxs(void **state)
{
    (void)state;
    enum { COUNT = 3000, KEPT = 1700 };
    tg_rng *again = tg_rng_new(5);
    tg_tape *tape = tg_tape_new(NULL, NULL);
    for (int f64 = 0; f64 < 2; f64++) {
        tg_tensor *x = tg_tensor_new(f64 ? TG_F64 : TG_F32, TG_SHAPE(COUNT), NULL), *smallest = NULL;
        tg_tensor_fill_normal(x, rng, 0, 4, NULL);
        tg_rng_seed(rng, 5);
        tg_rng_seed(again, 5);
        tg_sample_config config = drawing(1.7, KEPT, 1);
        smallest = tg_select(tape, tg_topk(tape, x, KEPT, 0, TG_LARGEST_FIRST, NULL), 0, KEPT - 1);
        tg_tensor *kept = tg_masked_fill(tape, x, tg_lt(tape, x, smallest), -(double)INFINITY);
        tg_tensor *p = tg_softmax(tape, tg_div_scalar(tape, kept, config.temperature), 0);
        assert_string_equal(tg_tape_error(tape)->text, "");
        for (int i = 0; i < 300; i++) {
            int64_t id;
            assert_true(f64 ? tg_rng_multinomial_f64(again, &id, 1, tg_tensor_data(p), COUNT, false, NULL)
                            : tg_rng_multinomial_f32(again, &id, 1, tg_tensor_data(p), COUNT, false, NULL));
            assert_int_equal(tg_sample(x, rng, &config, &error), id);
        }
        tg_release(x);
    }
    tg_tape_free(tape);
    tg_rng_free(again);
}

/* A column of a matrix: its values do not lie side by side. */
static void test_strided_logits(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = tensor_f32(TG_SHAPE(4, 3), (float[]){9, 0, 9, 9, 1, 0, 9, 3, 0, 9, 2, 9});
    tg_tensor *column = tg_select(tape, x, 1, 1);
    tg_sample_config config = tg_sample_config_default();
    assert_int_equal(tg_sample(column, NULL, &config, &error), 2);
    config = drawing(0.01, TG_NO_TOP_K, 0.9);
    assert_int_equal(tg_sample(column, rng, &config, &error), 2);
    tg_tape_free(tape);
    tg_release(x);
}

static void test_greedy(void **state)
{
    (void)state;
    tg_sample_config config = tg_sample_config_default();
    tg_tensor *x = tensor_f32(TG_SHAPE(5), (float[]){1, 3, -INFINITY, 3, 2});
    /* of a tie the first */
    assert_int_equal(tg_sample(x, NULL, &config, &error), 1);
    assert_int_equal(tg_sample(x, NULL, NULL, &error), 1);
    assert_int_equal(tg_sample(x, rng, &config, &error), 1);
    assert_true(tg_rng_position(rng) == 0);
    tg_release(x);
}

/* An option that only a draw obeys is refused, not ignored. */
static void test_greedy_refuses_options(void **state)
{
    (void)state;
    const struct {
        double temperature;
        int64_t top_k;
        double top_p;
        const char *text;
    } cases[] = {
        {0.7, TG_NO_TOP_K, 1, "sample: greedy ignores temperature 0.7; set greedy to false"},
        {(double)NAN, TG_NO_TOP_K, 1, "sample: greedy ignores temperature nan; set greedy to false"},
        {1, 5, 1, "sample: greedy ignores top_k 5; set greedy to false"},
        {1, TG_NO_TOP_K, 0.9, "sample: greedy ignores top_p 0.9; set greedy to false"},
    };
    tg_tensor *x = logits(V, TG_F32);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_sample_config config = drawing(cases[i].temperature, cases[i].top_k, cases[i].top_p);
        config.greedy = true;
        assert_int_equal(tg_sample(x, rng, &config, &error), -1);
        assert_error(&error, TG_ERROR_VALUE, cases[i].text);
    }
    assert_true(tg_rng_position(rng) == 0);
    tg_release(x);
}

/* The ids that come out of many draws, as bits. */
static int drawn(const tg_tensor *x, const tg_sample_config *config)
{
    int ids = 0;
    for (int i = 0; i < 2000; i++) {
        int32_t id = tg_sample(x, rng, config, &error);
        assert_in_range(id, 0, 7);
        ids |= 1 << id;
    }
    return ids;
}

static void test_ties_and_edges(void **state)
{
    (void)state;
    tg_sample_config config = drawing(1, 2, 1);
    tg_tensor *ties = tensor_f32(TG_SHAPE(5), (float[]){0, 1, 1, 1, 2}),
              *even = tensor_f32(TG_SHAPE(4), (float[]){0, 0, 0, 0});
    /* what ties with the second stays */
    assert_int_equal(drawn(ties, &config), 0x1e);
    config.top_k = 1;
    assert_int_equal(drawn(ties, &config), 0x10);
    config.top_k = TG_NO_TOP_K;
    /* two of four equal ones, the first, reach it exactly */
    config.top_p = 0.5;
    assert_int_equal(drawn(even, &config), 0x3);
    config.top_p = 0.51;
    assert_int_equal(drawn(even, &config), 0x7);
    /* never less than one */
    config.top_p = 1e-300;
    assert_int_equal(drawn(even, &config), 0x1);
    config.top_p = 1;
    assert_int_equal(drawn(even, &config), 0xf);

    /* 1/2, 1/4, 1/8 and 1/8: 3/4 is reached by two of them exactly */
    tg_tensor *halves = tensor_f64(TG_SHAPE(4), (double[]){-3 * log(2), -log(2), -3 * log(2), -2 * log(2)});
    config.top_p = 0.7499;
    assert_int_equal(drawn(halves, &config), 0xa);
    config.top_p = 0.7501;
    assert_int_equal(drawn(halves, &config), 0xb);
    /* of the two that it leaves, 2/3 and 1/3 */
    config.top_k = 2;
    config.top_p = 0.66;
    assert_int_equal(drawn(halves, &config), 0x2);
    config.top_p = 0.67;
    assert_int_equal(drawn(halves, &config), 0xa);

    /* what is masked is never drawn, not even when top_k asks for more than exist */
    tg_tensor *masked = tensor_f32(TG_SHAPE(4), (float[]){-INFINITY, 0, -INFINITY, 0});
    config = drawing(30, 3, 0.999);
    assert_int_equal(drawn(masked, &config), 0xa);
    tg_release(ties);
    tg_release(even);
    tg_release(halves);
    tg_release(masked);
}

static void test_refuses(void **state)
{
    (void)state;
    const struct {
        double temperature;
        int64_t top_k;
        double top_p;
        tg_code code;
        const char *text;
    } cases[] = {
        {0, -1, 1, TG_ERROR_VALUE, "sample: temperature 0; it must be finite and above 0 (greedy takes the"},
        {-1, -1, 1, TG_ERROR_VALUE, "sample: temperature -1;"},
        {(double)NAN, -1, 1, TG_ERROR_VALUE, "sample: temperature nan;"},
        {(double)INFINITY, -1, 1, TG_ERROR_VALUE, "sample: temperature inf;"},
        {1, 0, 1, TG_ERROR_RANGE, "sample: top_k 0 is outside [1,50]"},
        {1, 51, 1, TG_ERROR_RANGE, "sample: top_k 51 is outside [1,50]"},
        {1, -2, 1, TG_ERROR_RANGE, "sample: top_k -2 is outside"},
        {1, -1, 0, TG_ERROR_RANGE, "sample: top_p 0 is outside (0,1]"},
        {1, -1, 1.5, TG_ERROR_RANGE, "sample: top_p 1.5 is outside (0,1]"},
        {1, -1, (double)NAN, TG_ERROR_RANGE, "sample: top_p nan is outside (0,1]"},
    };
    tg_tensor *x = logits(V, TG_F32);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_sample_config config = drawing(cases[i].temperature, cases[i].top_k, cases[i].top_p);
        assert_int_equal(tg_sample(x, rng, &config, &error), -1);
        assert_error(&error, cases[i].code, cases[i].text);
    }
    tg_sample_config good = drawing(1, -1, 1), greedy = tg_sample_config_default();
    assert_int_equal(tg_sample(x, NULL, &good, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "sample: the generator is NULL; it is optional only with greedy");
    ((float *)tg_tensor_data_mut(x))[7] = NAN;
    assert_int_equal(tg_sample(x, rng, &good, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: logit nan of token 7;");
    assert_int_equal(tg_sample(x, NULL, &greedy, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: logit nan of token 7;");
    ((float *)tg_tensor_data_mut(x))[7] = INFINITY;
    assert_int_equal(tg_sample(x, rng, &good, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: logit inf of token 7;");
    tg_tensor_fill(x, -INFINITY, NULL);
    assert_int_equal(tg_sample(x, rng, &good, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: all logits are -inf");
    assert_int_equal(tg_sample(x, NULL, &greedy, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: all logits are -inf");
    /* the error is optional */
    assert_int_equal(tg_sample(x, rng, &good, NULL), -1);
    tg_tensor *matrix = tg_tensor_new(TG_F32, TG_SHAPE(2, 2), NULL), *ids = tg_tensor_new(TG_I32, TG_SHAPE(3), NULL);
    assert_int_equal(tg_sample(matrix, rng, &good, &error), -1);
    assert_error(&error, TG_ERROR_SHAPE, "sample: the logits are f32 (2,2); they must be f32 or f64 (V), V at least 1");
    assert_int_equal(tg_sample(ids, rng, &good, &error), -1);
    assert_error(&error, TG_ERROR_SHAPE, "sample: the logits are i32 (3,); they must be f32 or f64 (V), V at least 1");
    tg_tensor *empty = tg_tensor_new(TG_F32, TG_SHAPE(0), NULL);
    assert_int_equal(tg_sample(empty, rng, &good, &error), -1);
    assert_error(&error, TG_ERROR_SHAPE, "sample: the logits are f32 (0,); they must be f32 or f64 (V), V at least 1");
    tg_release(empty);
    assert_int_equal(tg_sample(NULL, rng, &good, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "sample: the logits tensor is NULL");
    assert_int_equal(tg_sample(matrix, rng, NULL, &error), -1);
    assert_error(&error, TG_ERROR_SHAPE, "sample: the logits");
    tg_tensor_fill(x, -2, NULL);
    tg_sample_config bare = {.greedy = false, .temperature = 1, .top_k = TG_NO_TOP_K, .top_p = 1};
    assert_int_equal(tg_sample(x, rng, &bare, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: the config does not come from tg_sample_config_default()");
    /* NULL is the default config: greedy */
    assert_int_equal(tg_sample(x, rng, NULL, &error), 0);
    /* overflow, division by 0, inf: for floats */
    const double extreme[] = {1e-39, 1e-300, 1e300};
    tg_tensor *wide = tg_tensor_new_full(TG_F64, TG_SHAPE(V), -2, NULL);
    for (int i = 0; i < 3; i++) {
        char text[100];
        snprintf(text, sizeof text, "sample: temperature %g takes logit -2 out of the range of f32", extreme[i]);
        good.temperature = extreme[i];
        assert_int_equal(tg_sample(x, rng, &good, &error), -1);
        assert_error(&error, TG_ERROR_VALUE, text);
    }
    assert_true(tg_rng_position(rng) == 0);
    assert_in_range(tg_sample(wide, rng, &good, &error), 0, V - 1);
    tg_release(wide);
    tg_release(matrix);
    tg_release(ids);
    tg_release(x);
}

/* What min_p and repetition_penalty refuse, and what lies beside their limits. */
static void test_min_p_and_penalty(void **state)
{
    (void)state;
    const int32_t text[] = {1, 7}, outside[] = {1, 50}, negative[] = {-1};
    const struct {
        double min_p, penalty;
        const int32_t *text;
        int64_t count;
        tg_code code;
        const char *error;
    } cases[] = {
        {-0.1, 1, NULL, 0, TG_ERROR_RANGE, "sample: min_p -0.1 is outside [0,1]"},
        {1.01, 1, NULL, 0, TG_ERROR_RANGE, "sample: min_p 1.01 is outside [0,1]"},
        {(double)NAN, 1, NULL, 0, TG_ERROR_RANGE, "sample: min_p nan is outside [0,1]"},
        {0, 0, text, 2, TG_ERROR_VALUE, "sample: repetition_penalty 0; it must be finite and above 0"},
        {0, -1, text, 2, TG_ERROR_VALUE, "sample: repetition_penalty -1;"},
        {0, (double)NAN, text, 2, TG_ERROR_VALUE, "sample: repetition_penalty nan;"},
        {0, (double)INFINITY, text, 2, TG_ERROR_VALUE, "sample: repetition_penalty inf;"},
        {0, 1.3, NULL, 0, TG_ERROR_VALUE, "sample: repetition_penalty 1.3 needs the text so far; set text"},
        {0, 1.3, text, 0, TG_ERROR_VALUE, "sample: text_count is 0, but text is not NULL; set both or neither"},
        {0, 1.3, NULL, 2, TG_ERROR_VALUE, "sample: text_count is 2, but text is NULL; set both or neither"},
        {0, 1.3, text, -1, TG_ERROR_VALUE, "sample: text_count is -1; it must be at least 0"},
        {0, 1.3, outside, 2, TG_ERROR_RANGE, "sample: id 50 at [1] of the text is outside [0,50)"},
        {0, 1, negative, 1, TG_ERROR_RANGE, "sample: id -1 at [0] of the text is outside [0,50)"},
        {0, 1e-39, text, 2, TG_ERROR_VALUE,
         "sample: repetition_penalty 1e-39 takes logit 1.625 of token 1 out of the range of f32"},
    };
    tg_tensor *x = logits(V, TG_F32);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_sample_config config = drawing(1, TG_NO_TOP_K, 1);
        config.min_p = cases[i].min_p;
        config.repetition_penalty = cases[i].penalty;
        config.text = cases[i].text;
        config.text_count = cases[i].count;
        assert_int_equal(tg_sample(x, rng, &config, &error), -1);
        assert_error(&error, cases[i].code, cases[i].error);
    }
    tg_sample_config greedy = tg_sample_config_default();
    greedy.min_p = 0.1;
    assert_int_equal(tg_sample(x, rng, &greedy, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: greedy ignores min_p 0.1; set greedy to false");
    assert_true(tg_rng_position(rng) == 0);
    tg_release(x);

    /* 1/2, 1/4 and 1/8 twice: half of the largest is kept, and a little less than a half keeps no more */
    tg_tensor *halves = tensor_f64(TG_SHAPE(4), (double[]){-3, -1, -3, -2});
    tg_sample_config config = drawing(1 / log(2), TG_NO_TOP_K, 1);
    config.min_p = 0.499;
    assert_int_equal(drawn(halves, &config), 0xa);
    config.min_p = 0.501;
    assert_int_equal(drawn(halves, &config), 0x2);
    config.min_p = 0.249;
    assert_int_equal(drawn(halves, &config), 0xf);
    /* a token that the text has twice is divided once; what is masked stays so, and what NaN hides is found */
    const int32_t twice[] = {1, 0, 1};
    tg_tensor *scores = tensor_f32(TG_SHAPE(4), (float[]){-INFINITY, 4, 1.5f, 0});
    greedy = tg_sample_config_default();
    greedy.repetition_penalty = 2;
    greedy.text = twice;
    greedy.text_count = 3;
    assert_int_equal(tg_sample(scores, NULL, &greedy, &error), 1);
    greedy.repetition_penalty = 3;
    assert_int_equal(tg_sample(scores, NULL, &greedy, &error), 2);
    ((float *)tg_tensor_data_mut(scores))[1] = NAN;
    assert_int_equal(tg_sample(scores, NULL, &greedy, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "sample: logit nan of token 1;");
    tg_release(scores);
    tg_release(halves);
}

static void test_without_memory(void **state)
{
    (void)state;
    tg_tensor *x = logits(V, TG_F32);
    tg_sample_config config = drawing(1, 20, 0.9);
    int32_t id = -1, expected = tg_sample(x, rng, &config, &error);
    tg_rng_seed(rng, 123);
    size_t k = 1;
    for (; id < 0; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        allocator_arm(&counting, k, false);
        id = tg_sample(x, rng, &config, &error);
        if (id < 0) {
            assert_error(&error, TG_ERROR_MEMORY, "memory");
            assert_true(tg_rng_position(rng) == 0);
        }
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
    assert_true(k > 2);
    assert_int_equal(id, expected);
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_draws_as_torch_and_transformers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_draws_of_the_course, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_weights_are_softmaxs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_strided_logits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_greedy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_greedy_refuses_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ties_and_edges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_min_p_and_penalty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
