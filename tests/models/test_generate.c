/* Generation: the same tokens with and without a cache, also beyond the context; how it ends; the state after it. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "tape_stats.h"

#define V 40
#define CONTEXT 9

static tg_run *run;
static tg_params *params;
static tg_gpt *model;
static tg_tape *tape;
static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

/* The model of most tests; some change its positions or its path. */
static tg_gpt_config small_config(void)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = CONTEXT;
    config.width = 12;
    config.heads = 3;
    config.layers = 2;
    config.dropout = 0.1;
    config.qkv_bias = true;
    config.tied_head = true;
    return config;
}

static int set_up(void **state)
{
    (void)state;
    const tg_gpt_config config = small_config();
    run = tg_run_new(4);
    params = tg_params_new(run, TG_F64);
    model = tg_gpt_new(params, &config);
    tape = tg_tape_new(run, NULL);
    return model && tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
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
                config.sample.greedy = !sampled;
                config.sample.temperature = sampled ? 2 : 1;
                config.use_cache = true;
                tg_rng_seed(tg_run_rng(run), seed);
                assert_int_equal(tg_gpt_generate(tape, model, prompt, length, cached, &config), wanted);
                uint64_t position = tg_rng_position(tg_run_rng(run));
                assert_int_equal(position, sampled ? 2 * V * wanted : 0);
                config.use_cache = false;
                tg_rng_seed(tg_run_rng(run), seed);
                assert_int_equal(tg_gpt_generate(tape, model, prompt, length, plain, &config), wanted);
                assert_memory_equal(cached, plain, sizeof plain);
            }
        }
    }
}

/* The same for every kind of positions and both paths of attention. With rotary positions the cache has rotated
 * keys. */
static void test_cache_changes_nothing_for_any_position(void **state)
{
    (void)state;
    for (int kind = 0; kind <= TG_POSITION_NONE; kind++) {
        for (int path = 0; path < 2; path++) {
            tg_gpt_config c = small_config();
            c.qkv_bias = false;
            c.tied_head = false;
            c.path = (tg_attention_path)path;
            c.position = (tg_position)kind;
            tg_params *own = tg_params_new(run, TG_F64);
            tg_gpt *other = tg_gpt_new(own, &c);
            assert_non_null(other);
            int32_t ids[2][14];
            tg_generate_config config = tg_generate_config_default();
            config.max_new_tokens = 14;
            config.sample.greedy = false;
            for (int cached = 0; cached < 2; cached++) {
                config.use_cache = cached;
                tg_rng_seed(tg_run_rng(run), 6);
                assert_int_equal(tg_gpt_generate(tape, other, prompt, 3, ids[cached], &config), 14);
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
        tg_tape *fresh = tg_tape_new(NULL, NULL);
        config.use_cache = cached;
        assert_int_equal(tg_gpt_generate(fresh, model, prompt, 1, ids, &config), CONTEXT);
        bytes[cached] = tape_stats_of(fresh).idle_bytes;
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
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 4, ids, &config), 12);
    assert_int_equal(tape_stats_of(tape).results, 0);
    tg_tape_set_training(tape, false);
    for (int64_t i = 0; i < 12; i++) {
        int64_t length = 4 + i, begin = length > CONTEXT ? length - CONTEXT : 0;
        tg_tape_reset(tape);
        tg_tensor *x = tensor_i32(TG_SHAPE(1, length - begin), text + begin);
        tg_tensor *logits = tg_gpt_forward(tape, model, x, NULL);
        tg_tensor *last = tg_select(tape, tg_select(tape, logits, 0, 0), 0, length - begin - 1);
        text[length] = (int32_t)tg_tensor_item(tg_argmax(tape, last, 0, TG_DROP_AXES), NULL);
        tg_release(x);
    }
    assert_string_equal(tg_tape_error(tape)->text, "");
    assert_memory_equal(text + 4, ids, sizeof ids);
}

/* NULL is the default config: 50 tokens, greedy, with a cache. */
static void test_default_config(void **state)
{
    (void)state;
    int32_t ids[50], expected[50];
    tg_generate_config config = tg_generate_config_default();
    assert_true(config.max_new_tokens == 50 && config.use_cache && !config.end_tokens && config.sample.greedy);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 4, expected, &config), 50);
    uint64_t position = tg_rng_position(tg_run_rng(run));
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 4, ids, NULL), 50);
    assert_memory_equal(ids, expected, sizeof ids);
    assert_true(tg_rng_position(tg_run_rng(run)) == position);
}

static int32_t heard[20];
static int heard_count, heard_most;

static bool listen(void *context, int64_t text, int32_t id)
{
    assert_int_equal(text, 0);
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
    config.sample.greedy = false;
    tg_rng_seed(tg_run_rng(run), 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, ids, &config), 10);

    /* where ids[4] comes for the first time: generation ends before it */
    int64_t first = 0;
    while (ids[first] != ids[4]) {
        first++;
    }
    config.end_tokens = &ids[4];
    config.end_token_count = 1;
    tg_rng_seed(tg_run_rng(run), 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, again, &config), first);
    assert_memory_equal(again, ids, (size_t)first * sizeof *ids);

    config.on_token = listen;
    config.context = heard;
    heard_count = 0;
    heard_most = 3;
    /* at once: nothing is new, and nobody hears of it */
    config.end_tokens = ids;
    again[0] = -7;
    tg_rng_seed(tg_run_rng(run), 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, again, &config), 0);
    assert_true(again[0] == -7 && heard_count == 0 && tg_rng_position(tg_run_rng(run)) == 2 * V);

    config.end_tokens = NULL;
    config.end_token_count = 0;
    tg_rng_seed(tg_run_rng(run), 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, again, &config), 3);
    assert_int_equal(heard_count, 3);
    assert_memory_equal(heard, ids, 3 * sizeof *ids);
}

/* The third step meets weights that have become NaN: the ids until then are not returned, and the draws are undone. */
static bool spoil(void *context, int64_t text, int32_t id)
{
    (void)(text + id);
    if (++*(int *)context == 2) {
        tg_tensor_fill(tg_params_find(params, "final_norm.scale"), (double)NAN, NULL);
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
    config.sample.greedy = false;
    config.on_token = spoil;
    config.context = &steps;
    tg_rng_seed(tg_run_rng(run), 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 3, ids, &config), -1);
    assert_tape_error(tape, TG_ERROR_VALUE, "gpt_generate: sample: logit nan of token 0;");
    assert_int_equal(steps, 2);
    assert_true(ids[0] == -7 && tg_rng_position(tg_run_rng(run)) == 0 && tg_tape_is_recording(tape) &&
                tg_tape_is_training(tape));
    assert_int_equal(tape_stats_of(tape).results, 0);
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
        assert_int_equal(tg_gpt_generate(tape, model, prompt, 2, ids, &config), 2);
        config.sample.greedy = false;
        config.sample.temperature = 0;
        assert_int_equal(tg_gpt_generate(tape, model, prompt, 2, ids, &config), -1);
        assert_tape_error(tape, TG_ERROR_VALUE, "gpt_generate: sample: temperature 0;");
        config.sample = tg_sample_config_default();
        assert_int_equal(tg_tape_is_recording(tape), i & 1);
        assert_int_equal(tg_tape_is_training(tape), (i & 2) != 0);
    }
}

static void assert_refused(const int32_t *text, int64_t count, const tg_generate_config *config, tg_code code,
                           const char *message)
{
    int32_t ids[4] = {-7, -7, -7, -7};
    uint64_t position = tg_rng_position(tg_run_rng(run));
    assert_int_equal(tg_gpt_generate(tape, model, text, count, ids, config), -1);
    assert_tape_error(tape, code, message);
    assert_int_equal(ids[0], -7);
    assert_true(tg_rng_position(tg_run_rng(run)) == position);
}

static void test_refuses(void **state)
{
    (void)state;
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 4;
    assert_refused(prompt, 0, &config, TG_ERROR_SHAPE,
                   "gpt_generate: the prompt is empty; it needs at least one token");
    assert_refused(prompt, 10, &config, TG_ERROR_RANGE,
                   "gpt_generate: the prompt has 10 tokens; the model's context is 9");
    assert_refused((int32_t[]){1, 40}, 2, &config, TG_ERROR_RANGE,
                   "gpt_generate: id 40 at [1] of the prompt is outside [0,40)");
    assert_refused((int32_t[]){-1}, 1, &config, TG_ERROR_RANGE, "gpt_generate: id -1 at [0]");
    assert_refused(NULL, 1, &config, TG_ERROR_STATE, "gpt_generate: the prompt is NULL");
    tg_generate_config bare = {.max_new_tokens = 4}, inner = tg_generate_config_default();
    assert_refused(prompt, 1, &bare, TG_ERROR_VALUE,
                   "gpt_generate: the config does not come from tg_generate_config_default()");
    inner.max_new_tokens = 4;
    inner.sample = (tg_sample_config){.greedy = true, .temperature = 1, .top_k = TG_NO_TOP_K, .top_p = 1};
    assert_refused(prompt, 1, &inner, TG_ERROR_VALUE,
                   "gpt_generate: the config does not come from tg_sample_config_default()");
    assert_int_equal(tg_gpt_generate(tape, NULL, prompt, 1, heard, &config), -1);
    assert_tape_error(tape, TG_ERROR_STATE, "gpt_generate: the model is NULL");
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 1, NULL, &config), -1);
    assert_tape_error(tape, TG_ERROR_STATE, "gpt_generate: the array for the new ids is NULL");
    config.max_new_tokens = 0;
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 1, NULL, &config), 0);
    config.max_new_tokens = 4;
    config.sample.top_k = 5;
    assert_refused(prompt, 1, &config, TG_ERROR_VALUE, "gpt_generate: sample: greedy ignores top_k 5; set greedy to");
    config.sample.greedy = false;
    config.sample.top_k = V + 1;
    assert_refused(prompt, 1, &config, TG_ERROR_RANGE, "gpt_generate: sample: top_k 41 is outside [1,40]");
    config.sample.top_k = V;
    tg_tape *dry = tg_tape_new(NULL, NULL);
    assert_int_equal(tg_gpt_generate(dry, model, prompt, 1, heard, &config), -1);
    assert_tape_error(dry, TG_ERROR_STATE,
                      "gpt_generate: sample: the generator is NULL; it is optional only with greedy");
    tg_tape_free(dry);
    config.max_new_tokens = -1;
    assert_refused(prompt, 1, &config, TG_ERROR_VALUE, "gpt_generate: max_new_tokens -1; it must be at least 0");
    config.max_new_tokens = INT64_MAX;
    assert_refused(prompt, 1, &config, TG_ERROR_MEMORY, "gpt_generate: out of memory");
    assert_int_equal(tg_gpt_generate(NULL, model, prompt, 1, NULL, &config), -1);
}

static void test_without_memory(void **state)
{
    (void)state;
    int32_t expected[6], ids[6];
    double log_probs[6];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 6;
    config.log_probs = log_probs;
    config.sample.greedy = false;
    tg_rng_seed(tg_run_rng(run), 1);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 5, expected, &config), 6);
    /* one allocation fails, or all from the k-th on */
    for (int way = 0; way < 4; way++) {
        bool finished = false;
        config.use_cache = way / 2;
        for (size_t k = 1; !finished; k++) {
            counting_allocator counting;
            allocator_install(&counting);
            tg_tape *fresh = tg_tape_new(run, NULL);
            tg_rng_seed(tg_run_rng(run), 1);
            ids[0] = -7;
            log_probs[0] = 7;
            allocator_arm(&counting, k, way % 2);
            finished = tg_gpt_generate(fresh, model, prompt, 5, ids, &config) == 6;
            allocator_arm(&counting, 0, false);
            if (!finished) {
                assert_int_equal(tg_tape_error(fresh)->code, TG_ERROR_MEMORY);
                assert_int_equal(tape_stats_of(fresh).results, 0);
                assert_true(ids[0] == -7 && log_probs[0] == 7 && tg_rng_position(tg_run_rng(run)) == 0);
                assert_true(tg_tape_is_recording(fresh) && tg_tape_is_training(fresh));
                clear_tape_error(fresh);
                assert_int_equal(tg_gpt_generate(fresh, model, prompt, 5, ids, &config), 6);
            }
            assert_memory_equal(ids, expected, sizeof ids);
            tg_tape_free(fresh);
            assert_int_equal(counting.live, 0);
            allocator_restore();
        }
    }
}

/* ---- several texts ---- */

#define TEXTS 4

/* Prompts of different lengths, one after the other. */
static const int32_t prompts[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
static const int64_t prompt_counts[TEXTS] = {3, 1, 4, 2};

/* Each of them is the text that is generated alone, with a cache and without, also beyond the context. */
static void test_texts_are_those_of_single_calls(void **state)
{
    (void)state;
    tg_generate_config config = tg_generate_config_default();
    for (int cached = 0; cached < 2; cached++) {
        for (int64_t wanted = 0; wanted <= 14; wanted += 7) {
            int32_t ids[TEXTS][14], alone[14];
            int64_t counts[TEXTS] = {-1, -1, -1, -1};
            const int32_t *own = prompts;
            memset(ids, 0xff, sizeof ids);
            config.use_cache = cached;
            config.max_new_tokens = wanted;
            assert_true(tg_gpt_generate_batch(tape, model, prompts, prompt_counts, TEXTS, ids[0], counts, &config));
            for (int i = 0; i < TEXTS; i++) {
                assert_int_equal(counts[i], wanted);
                assert_int_equal(tg_gpt_generate(tape, model, own, prompt_counts[i], alone, &config), wanted);
                assert_memory_equal(ids[0] + i * wanted, alone, (size_t)wanted * sizeof *alone);
                own += prompt_counts[i];
            }
            assert_true(wanted == 14 || (&ids[0][0])[TEXTS * wanted] == -1);
        }
    }
}

/* Returns log_softmax(logits)[id] after `count` ids, from the logits alone. */
static double log_prob_of(const int32_t *ids, int64_t count, int32_t id)
{
    int64_t begin = count > CONTEXT ? count - CONTEXT : 0;
    tg_tape_reset(tape);
    tg_tensor *x = tg_constant_i32(tape, TG_SHAPE(1, count - begin), ids + begin);
    const double *logits = tg_tensor_data(tg_gpt_last_logits(tape, model, x, NULL));
    double sum = 0;
    for (int i = 0; i < V; i++) {
        sum += exp(logits[i]);
    }
    return logits[id] - log(sum);
}

/* They are those of the model, whatever chooses the tokens, also beyond the context; what follows an end stays. */
static void test_log_probabilities(void **state)
{
    (void)state;
    enum { WANTED = 8 };
    int32_t ids[TEXTS][WANTED];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = WANTED;
    tg_evaluation before = tg_evaluation_begin(tape);
    for (int kind = 0; kind < 4; kind++) {
        int32_t text[4 + WANTED], end = kind == 3 ? ids[1][3] : -1;
        int64_t counts[TEXTS], written = 0;
        double log_probs[TEXTS][WANTED];
        config.log_probs = log_probs[0];
        config.use_cache = kind != 1;
        config.sample = tg_sample_config_default();
        config.sample.greedy = kind >= 2;
        config.sample.temperature = kind == 1 ? 0.5 : 1;
        config.sample.top_k = kind == 1 ? 3 : TG_NO_TOP_K;
        config.sample.repetition_penalty = kind == 1 ? 1.5 : 1;
        config.end_tokens = kind == 3 ? &end : NULL;
        config.end_token_count = kind == 3;
        tg_rng_seed(tg_run_rng(run), 8);
        for (int i = 0; i < TEXTS * WANTED; i++) {
            log_probs[i / WANTED][i % WANTED] = 7;
        }
        assert_true(tg_gpt_generate_batch(tape, model, prompts, prompt_counts, TEXTS, ids[0], counts, &config));
        const int32_t *own = prompts;
        for (int i = 0; i < TEXTS; i++) {
            memcpy(text, own, (size_t)prompt_counts[i] * sizeof *own);
            for (int64_t k = 0; k < WANTED; k++) {
                if (k >= counts[i]) {
                    assert_true(log_probs[i][k] == 7);
                    continue;
                }
                double expected = log_prob_of(text, prompt_counts[i] + k, ids[i][k]);
                assert_true(fabs(log_probs[i][k] - expected) < 1e-12);
                text[prompt_counts[i] + k] = ids[i][k];
                written++;
            }
            own += prompt_counts[i];
        }
        assert_true(kind == 3 ? written < TEXTS * WANTED : written == TEXTS * WANTED);
    }
    tg_evaluation_end(tape, before);
}

/* The number of tokens that texts have got, in all and each. */
typedef struct turns {
    int64_t all, of_text[TEXTS];
} turns;

/* All prompts are one pass, however long they are: each text gets its next token before any gets another. */
static bool take_turn(void *context, int64_t text, int32_t id)
{
    turns *taken = context;
    (void)id;
    assert_true(text == taken->all % TEXTS && taken->of_text[text] == taken->all / TEXTS);
    taken->all++;
    taken->of_text[text]++;
    return true;
}

/* With every kind of positions, both paths of attention, windows and groups, texts are those of single calls. */
static void test_padding_changes_nothing(void **state)
{
    (void)state;
    for (int way = 0; way < 8 * (TG_POSITION_NONE + 1); way++) {
        int32_t ids[TEXTS][12], alone[12];
        int64_t counts[TEXTS];
        const int32_t *begin = prompts;
        turns taken = {0};
        tg_gpt_config c = small_config();
        c.position = (tg_position)(way / 8);
        c.path = (tg_attention_path)(way / 4 % 2);
        if (c.position == TG_POSITION_ROTARY && c.path == TG_ATTENTION_FUSED) {
            c.key_heads = 1;
            c.period = 2;
            c.layers_of_period[0].window = 3;
        }
        c.qkv_bias = false;
        tg_params *own = tg_params_new(run, TG_F64);
        tg_gpt *other = tg_gpt_new(own, &c);
        tg_generate_config config = tg_generate_config_default();
        config.use_cache = way % 2;
        config.max_new_tokens = way / 2 % 2 ? 4 : 12; /* 12 leave the context */
        config.on_token = take_turn;
        config.context = &taken;
        assert_true(tg_gpt_generate_batch(tape, other, prompts, prompt_counts, TEXTS, ids[0], counts, &config));
        assert_int_equal(taken.all, TEXTS * config.max_new_tokens);
        config.on_token = NULL;
        for (int i = 0; i < TEXTS; begin += prompt_counts[i++]) {
            assert_int_equal(tg_gpt_generate(tape, other, begin, prompt_counts[i], alone, &config), counts[i]);
            assert_memory_equal(ids[0] + i * config.max_new_tokens, alone, (size_t)counts[i] * sizeof *alone);
        }
        tg_gpt_free(other);
        tg_params_free(own);
    }
}

/* A text ends at its own end_token, and the others go on. With one text the draws are those of tg_gpt_generate. */
static void test_texts_end_one_by_one(void **state)
{
    (void)state;
    int32_t ids[TEXTS][9], again[TEXTS][9];
    int64_t counts[TEXTS];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 9;
    config.sample.greedy = false;
    tg_rng_seed(tg_run_rng(run), 5);
    assert_true(tg_gpt_generate_batch(tape, model, prompts, prompt_counts, TEXTS, ids[0], counts, &config));
    const int32_t end = ids[1][0];
    config.end_tokens = &end;
    config.end_token_count = 1; /* prompt 1 is the shortest, so this is the first draw */
    memset(again, 0xff, sizeof again);
    tg_rng_seed(tg_run_rng(run), 5);
    assert_true(tg_gpt_generate_batch(tape, model, prompts, prompt_counts, TEXTS, again[0], counts, &config));
    assert_int_equal(counts[1], 0);
    bool goes_on = false;
    for (int i = 0; i < TEXTS; i++) {
        goes_on = goes_on || counts[i] > 0;
        for (int64_t k = 0; k < 9; k++) {
            assert_true(k < counts[i] ? again[i][k] >= 0 && again[i][k] != end : again[i][k] == -1);
        }
    }
    assert_true(goes_on);
    config.end_tokens = NULL;
    config.end_token_count = 0;
    tg_rng_seed(tg_run_rng(run), 6);
    assert_true(tg_gpt_generate_batch(tape, model, prompts, prompt_counts, 1, ids[0], counts, &config));
    uint64_t position = tg_rng_position(tg_run_rng(run));
    tg_rng_seed(tg_run_rng(run), 6);
    assert_int_equal(tg_gpt_generate(tape, model, prompts, prompt_counts[0], again[0], &config), 9);
    assert_memory_equal(ids[0], again[0], sizeof ids[0]);
    assert_true(tg_rng_position(tg_run_rng(run)) == position);
}

static void assert_batch_refused(const int64_t *counts, int64_t texts, const tg_generate_config *config, tg_code code,
                                 const char *message)
{
    int32_t ids[4 * TEXTS] = {-7};
    int64_t new_counts[TEXTS] = {-7};
    uint64_t position = tg_rng_position(tg_run_rng(run));
    assert_false(tg_gpt_generate_batch(tape, model, prompts, counts, texts, ids, new_counts, config));
    assert_tape_error(tape, code, message);
    assert_true(ids[0] == -7 && new_counts[0] == -7 && tg_rng_position(tg_run_rng(run)) == position);
    assert_int_equal(tape_stats_of(tape).results, 0);
}

static void test_batch_refuses(void **state)
{
    (void)state;
    int32_t ids[4];
    int64_t counts[1], one = 1;
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 4;
    assert_batch_refused(prompt_counts, 0, &config, TG_ERROR_VALUE, "gpt_generate_batch: 0 texts; it must be 1 to");
    assert_batch_refused(prompt_counts, -1, &config, TG_ERROR_VALUE, "gpt_generate_batch: -1 texts; it must be 1 to");
    assert_batch_refused((int64_t[]){3, 0}, 2, &config, TG_ERROR_SHAPE,
                         "gpt_generate_batch: the prompt 1 is empty; it needs at least one token");
    assert_batch_refused((int64_t[]){1, INT64_MAX, 1}, 3, &config, TG_ERROR_RANGE,
                         "gpt_generate_batch: the prompt 1 has 9223372036854775807 tokens; the model's context is 9");
    assert_batch_refused(&one, 1, &(tg_generate_config){.max_new_tokens = 4}, TG_ERROR_VALUE,
                         "gpt_generate_batch: the config does not come from tg_generate_config_default()");
    config.max_new_tokens = -1;
    assert_batch_refused(&one, 1, &config, TG_ERROR_VALUE, "gpt_generate_batch: max_new_tokens -1; it must be");
    config.max_new_tokens = INT64_MAX;
    assert_batch_refused(prompt_counts, 2, &config, TG_ERROR_MEMORY, "gpt_generate_batch: out of memory");
    config.max_new_tokens = 4;
    config.sample.greedy = false;
    config.sample.top_k = V + 1;
    assert_batch_refused(prompt_counts, 2, &config, TG_ERROR_RANGE, "gpt_generate_batch: sample: top_k 41 is outside");
    config.sample.top_k = V;
    assert_false(tg_gpt_generate_batch(tape, model, (int32_t[]){1, 2, 40}, (int64_t[]){1, 2}, 2, ids, counts, &config));
    assert_tape_error(tape, TG_ERROR_RANGE, "gpt_generate_batch: id 40 at [1] of the prompt 1 is outside [0,40)");
    assert_false(tg_gpt_generate_batch(tape, model, NULL, &one, 1, ids, counts, &config));
    assert_tape_error(tape, TG_ERROR_STATE, "gpt_generate_batch: the array of the prompts is NULL");
    assert_false(tg_gpt_generate_batch(tape, model, prompts, NULL, 1, ids, counts, &config));
    assert_tape_error(tape, TG_ERROR_STATE, "gpt_generate_batch: the array counts is NULL");
    assert_false(tg_gpt_generate_batch(tape, model, prompts, &one, 1, NULL, counts, &config));
    assert_tape_error(tape, TG_ERROR_STATE, "gpt_generate_batch: the array for the new ids is NULL");
    assert_false(tg_gpt_generate_batch(tape, model, prompts, &one, 1, ids, NULL, &config));
    assert_tape_error(tape, TG_ERROR_STATE, "gpt_generate_batch: the array new_counts is NULL");
    assert_false(tg_gpt_generate_batch(tape, NULL, prompts, &one, 1, ids, counts, &config));
    assert_tape_error(tape, TG_ERROR_STATE, "gpt_generate_batch: the model is NULL");
    tg_tensor_fill(tg_params_find(params, "final_norm.scale"), (double)NAN, NULL);
    assert_batch_refused(prompt_counts, 2, &config, TG_ERROR_VALUE,
                         "gpt_generate_batch: sample: logit nan of token 0;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cache_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cache_changes_nothing_for_any_position, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cache_is_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_is_the_courses_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_default_config, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fails_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_switches_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log_probabilities, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts_are_those_of_single_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_padding_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts_end_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_batch_refuses, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
