/* Generation: with a cache and without the same tokens, also beyond the context; how it ends; what it leaves behind. */
#include "support.h"

#include <math.h>
#include <string.h>

#define V 40
#define CONTEXT 9

static tg_rng *rng;
static tg_params *params;
static tg_gpt *model;
static tg_tape *tape;
static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

static int set_up(void **state)
{
    (void)state;
    const tg_gpt_config config = {V, CONTEXT, 12, 3, 2, 0.1, TG_BIAS, true, TG_ATTENTION_FUSED, TG_POSITION_LEARNED};
    rng = tg_rng_new(4);
    params = tg_params_new(TG_F64, rng);
    model = tg_gpt_new(params, &config);
    tape = tg_tape_new(rng);
    return model && tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

static void test_cache_changes_nothing(void **state)
{
    (void)state;
    tg_generate_config config = tg_generate_config_default();
    for (int64_t length = 1; length <= CONTEXT; length++) {
        for (int64_t wanted = 0; wanted <= 15; wanted += 5) {
            for (int sampled = 0; sampled < 2; sampled++) {
                int32_t cached[15] = {0}, plain[15] = {0};
                uint64_t seed = (uint64_t)(100 * length + wanted);
                config.max_new_tokens = wanted;
                config.sampling.greedy = !sampled;
                config.sampling.temperature = 2;
                config.use_cache = true;
                tg_rng_seed(rng, seed);
                assert_int_equal(tg_gpt_generate(tape, model, prompt, length, &config, cached), wanted);
                uint64_t position = tg_rng_position(rng);
                assert_int_equal(position, sampled ? 2 * V * wanted : 0);
                config.use_cache = false;
                tg_rng_seed(rng, seed);
                assert_int_equal(tg_gpt_generate(tape, model, prompt, length, &config, plain), wanted);
                assert_memory_equal(cached, plain, sizeof plain);
            }
        }
    }
}

/* The same where positions are seen by attention, of which the cache holds turned keys, and for both of its paths. */
static void test_cache_changes_nothing_for_any_position(void **state)
{
    (void)state;
    for (int kind = 0; kind <= TG_POSITION_NONE; kind++) {
        for (int path = 0; path < 2; path++) {
            const tg_gpt_config c = {
                V, CONTEXT, 12, 3, 2, 0.1, TG_NO_BIAS, false, (tg_attention_path)path, (tg_position)kind};
            tg_params *own = tg_params_new(TG_F64, rng);
            tg_gpt *other = tg_gpt_new(own, &c);
            assert_non_null(other);
            int32_t ids[2][14];
            tg_generate_config config = tg_generate_config_default();
            config.max_new_tokens = 14;
            config.sampling.greedy = false;
            for (int cached = 0; cached < 2; cached++) {
                config.use_cache = cached;
                tg_rng_seed(rng, 6);
                assert_int_equal(tg_gpt_generate(tape, other, prompt, 3, &config, ids[cached]), 14);
            }
            assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
            tg_gpt_free(other);
            tg_params_free(own);
        }
    }
}

/* What passes through the model shows in the memory that a tape holds: with a cache one token at a time. */
static void test_cache_is_used(void **state)
{
    (void)state;
    int32_t ids[CONTEXT];
    size_t bytes[2];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = CONTEXT;
    for (int cached = 0; cached < 2; cached++) {
        tg_tape *fresh = tg_tape_new(NULL);
        config.use_cache = cached;
        assert_int_equal(tg_gpt_generate(fresh, model, prompt, 1, &config, ids), CONTEXT);
        bytes[cached] = tg_tape_stats_of(fresh).idle_bytes;
        tg_tape_free(fresh);
    }
    assert_true(2 * bytes[1] < bytes[0]);
}

/* By hand: the likeliest token after the last nine, again and again. */
static void test_is_the_courses_loop(void **state)
{
    (void)state;
    int32_t text[4 + 12], ids[12];
    memcpy(text, prompt, 4 * sizeof *text);
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 12;
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 4, &config, ids), 12);
    assert_int_equal(tg_tape_stats_of(tape).results, 0);
    tg_tape_set_training(tape, false);
    for (int64_t i = 0; i < 12; i++) {
        int64_t length = 4 + i, begin = length > CONTEXT ? length - CONTEXT : 0;
        tg_tape_reset(tape);
        tg_tensor *x = tensor_i32(TG_SHAPE(1, length - begin), text + begin);
        tg_tensor *logits = tg_gpt_forward(tape, model, x);
        tg_tensor *last = tg_select(tape, tg_select(tape, logits, 0, 0), 0, length - begin - 1);
        text[length] = (int32_t)tg_item(tape, tg_argmax(tape, last, 0, TG_DROP_AXES));
        tg_release(x);
    }
    assert_string_equal(tg_tape_error(tape), "");
    assert_memory_equal(text + 4, ids, sizeof ids);
}

static int32_t heard[20];
static int heard_count, heard_most;

static bool listen(void *context, int32_t id)
{
    assert_ptr_equal(context, heard);
    heard[heard_count++] = id;
    return heard_count < heard_most;
}

static void test_ends(void **state)
{
    (void)state;
    int32_t ids[10], again[10];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 10;
    config.sampling.greedy = false;
    tg_rng_seed(rng, 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, &config, ids), 10);

    int64_t first = 0; /* where ids[4] comes for the first time: generation stops before it */
    while (ids[first] != ids[4]) {
        first++;
    }
    config.end_token = ids[4];
    tg_rng_seed(rng, 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, &config, again), first);
    assert_memory_equal(again, ids, (size_t)first * sizeof *ids);

    config.on_token = listen;
    config.context = heard;
    heard_count = 0;
    heard_most = 3;
    config.end_token = ids[0]; /* at once: nothing is new, and nobody hears of it */
    again[0] = -7;
    tg_rng_seed(rng, 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, &config, again), 0);
    assert_true(again[0] == -7 && heard_count == 0 && tg_rng_position(rng) == 2 * V);

    config.end_token = -1;
    tg_rng_seed(rng, 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, &config, again), 3);
    assert_int_equal(heard_count, 3);
    assert_memory_equal(heard, ids, 3 * sizeof *ids);
}

/* The third step meets weights that have become NaN: what was new until then is not handed over, and not drawn. */
static bool spoil(void *context, int32_t id)
{
    (void)id;
    if (++*(int *)context == 2) {
        tg_fill(tg_params_find(params, "final_norm.scale"), (double)NAN, NULL);
    }
    return true;
}

static void test_fails_in_the_middle(void **state)
{
    (void)state;
    int32_t ids[5] = {-7, -7, -7, -7, -7};
    int steps = 0;
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 5;
    config.sampling.greedy = false;
    config.on_token = spoil;
    config.context = &steps;
    tg_rng_seed(rng, 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, &config, ids), -1);
    assert_tape_error(tape, TG_ERROR_VALUE, "generate: sample: logit nan of token 0;");
    assert_int_equal(steps, 2);
    assert_true(ids[0] == -7 && tg_rng_position(rng) == 0 && tg_tape_recording(tape) && tg_tape_training(tape));
    assert_int_equal(tg_tape_stats_of(tape).results, 0);
}

static void test_switches_come_back(void **state)
{
    (void)state;
    int32_t ids[2];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 2;
    for (int i = 0; i < 4; i++) {
        tg_tape_set_recording(tape, i & 1);
        tg_tape_set_training(tape, i & 2);
        assert_int_equal(tg_gpt_generate(tape, model, prompt, 2, &config, ids), 2);
        config.sampling.greedy = false;
        config.sampling.temperature = 0;
        assert_int_equal(tg_gpt_generate(tape, model, prompt, 2, &config, ids), -1);
        assert_tape_error(tape, TG_ERROR_VALUE, "generate: sample: temperature 0;");
        config.sampling = tg_sampling_config_default();
        assert_int_equal(tg_tape_recording(tape), i & 1);
        assert_int_equal(tg_tape_training(tape), (i & 2) != 0);
    }
}

static void assert_refused(const int32_t *text, int64_t count, const tg_generate_config *config, tg_code code,
                           const char *message)
{
    int32_t ids[4] = {-7, -7, -7, -7};
    uint64_t position = tg_rng_position(rng);
    assert_int_equal(tg_gpt_generate(tape, model, text, count, config, ids), -1);
    assert_tape_error(tape, code, message);
    assert_int_equal(ids[0], -7);
    assert_true(tg_rng_position(rng) == position);
}

static void test_refuses(void **state)
{
    (void)state;
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 4;
    assert_refused(prompt, 0, &config, TG_ERROR_SHAPE, "generate: the prompt is empty; it needs at least one token");
    assert_refused(prompt, 10, &config, TG_ERROR_RANGE, "generate: the prompt has 10 tokens; the model's context is 9");
    assert_refused((int32_t[]){1, 40}, 2, &config, TG_ERROR_RANGE,
                   "generate: id 40 at [1] of the prompt is outside [0,40)");
    assert_refused((int32_t[]){-1}, 1, &config, TG_ERROR_RANGE, "generate: id -1 at [0]");
    assert_refused(NULL, 1, &config, TG_ERROR_STATE, "generate: the prompt is NULL");
    assert_refused(prompt, 1, NULL, TG_ERROR_STATE, "generate: the config is NULL");
    assert_int_equal(tg_gpt_generate(tape, NULL, prompt, 1, &config, heard), -1);
    assert_tape_error(tape, TG_ERROR_STATE, "generate: the model is NULL");
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 1, &config, NULL), -1);
    assert_tape_error(tape, TG_ERROR_STATE, "generate: the place for the new ids is NULL");
    config.max_new_tokens = 0;
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 1, &config, NULL), 0);
    config.max_new_tokens = 4;
    config.sampling.greedy = false;
    config.sampling.top_k = V + 1;
    assert_refused(prompt, 1, &config, TG_ERROR_RANGE, "generate: sample: top_k 41 is outside [1,40]");
    config.sampling.top_k = V;
    tg_tape *dry = tg_tape_new(NULL);
    assert_int_equal(tg_gpt_generate(dry, model, prompt, 1, &config, heard), -1);
    assert_tape_error(dry, TG_ERROR_STATE, "generate: sample: there is no generator; only greedy needs none");
    tg_tape_free(dry);
    config.max_new_tokens = -1;
    assert_refused(prompt, 1, &config, TG_ERROR_VALUE, "generate: max_new_tokens is -1");
    config.max_new_tokens = INT64_MAX;
    assert_refused(prompt, 1, &config, TG_ERROR_MEMORY, "generate: out of memory");
    assert_int_equal(tg_gpt_generate(NULL, model, prompt, 1, &config, NULL), -1);
}

static void test_without_memory(void **state)
{
    (void)state;
    int32_t expected[6], ids[6];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 6;
    config.sampling.greedy = false;
    tg_rng_seed(rng, 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 5, &config, expected), 6);
    for (int way = 0; way < 4; way++) { /* one allocation fails, or all from the k-th on */
        bool finished = false;
        config.use_cache = way / 2;
        for (size_t k = 1; !finished; k++) {
            counting_allocator counting;
            allocator_install(&counting);
            tg_tape *fresh = tg_tape_new(rng);
            tg_rng_seed(rng, 1);
            ids[0] = -7;
            allocator_arm(&counting, k, way % 2);
            finished = tg_gpt_generate(fresh, model, prompt, 5, &config, ids) == 6;
            allocator_arm(&counting, 0, false);
            if (!finished) {
                assert_int_equal(tg_tape_error_code(fresh), TG_ERROR_MEMORY);
                assert_int_equal(tg_tape_stats_of(fresh).results, 0);
                assert_true(ids[0] == -7 && tg_rng_position(rng) == 0);
                assert_true(tg_tape_recording(fresh) && tg_tape_training(fresh));
                tg_tape_clear_error(fresh);
                assert_int_equal(tg_gpt_generate(fresh, model, prompt, 5, &config, ids), 6);
            }
            assert_memory_equal(ids, expected, sizeof ids);
            tg_tape_free(fresh);
            assert_int_equal(counting.live, 0);
            allocator_restore();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cache_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cache_changes_nothing_for_any_position, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cache_is_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_is_the_courses_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fails_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_switches_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
