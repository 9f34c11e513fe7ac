/* A program's own model, generated from by tg_generate: a Llama of grouped queries, written with ops, with a cache of
 * its own. Its texts are those of a plain loop, alone and together, with padding and without, with a cache and without,
 * also beyond the context. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tape_stats.h"

#define V 40
#define CONTEXT 24
#define WIDTH 16
#define HEADS 4
#define KEY_HEADS 2
#define HEAD (WIDTH / HEADS)
#define HIDDEN 24
#define LAYERS 2
#define TEXTS 4
#define NEW 30 /* longer than the context */

typedef struct layer {
    tg_tensor *norm1, *query, *key, *value, *out, *norm2, *gate, *up, *down;
    tg_tensor *keys, *values; /* (B,KEY_HEADS,S,HEAD) of earlier passes */
} layer;

typedef struct llama {
    tg_tensor *table, *norm, *cosines, *sines;
    layer layers[LAYERS];
    int passes;
    int64_t columns; /* of all passes together */
    bool is_padded;  /* whether a pass had padding */
} llama;

static tg_run *run;
static tg_tape *tape;
static llama model;
static const int32_t prompts[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4};
static const int64_t prompt_counts[TEXTS] = {3, 11, 1, 5};

static tg_tensor *weight(int64_t rows, int64_t columns)
{
    tg_tensor *w = tg_tensor_new(TG_F64, TG_SHAPE(rows, columns), NULL);
    tg_tensor_fill_normal(w, tg_run_rng(run), 0, 0.6, NULL);
    return w;
}

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(4);
    tape = tg_tape_new(run, NULL);
    model = (llama){.table = weight(V, WIDTH)};
    model.norm = tg_tensor_new_full(TG_F64, TG_SHAPE(WIDTH), 1, NULL);
    model.cosines = tg_tensor_new(TG_F64, TG_SHAPE(CONTEXT, HEAD / 2), NULL);
    model.sines = tg_tensor_new(TG_F64, TG_SHAPE(CONTEXT, HEAD / 2), NULL);
    for (int i = 0; i < CONTEXT * HEAD / 2; i++) {
        double angle = i / (HEAD / 2) * pow(10000, -2.0 * (i % (HEAD / 2)) / HEAD);
        ((double *)tg_tensor_data_mut(model.cosines))[i] = cos(angle);
        ((double *)tg_tensor_data_mut(model.sines))[i] = sin(angle);
    }
    for (layer *l = model.layers; l < model.layers + LAYERS; l++) {
        *l = (layer){.norm1 = tg_retain(model.norm),
                     .query = weight(WIDTH, WIDTH),
                     .key = weight(KEY_HEADS * HEAD, WIDTH),
                     .value = weight(KEY_HEADS * HEAD, WIDTH),
                     .out = weight(WIDTH, WIDTH),
                     .norm2 = tg_retain(model.norm),
                     .gate = weight(HIDDEN, WIDTH),
                     .up = weight(HIDDEN, WIDTH),
                     .down = weight(WIDTH, HIDDEN)};
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (layer *l = model.layers; l < model.layers + LAYERS; l++) {
        tg_tensor *all[] = {l->norm1, l->query, l->key, l->value, l->out, l->norm2, l->gate, l->up, l->down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            tg_release(all[i]);
        }
        tg_release(l->keys);
        tg_release(l->values);
    }
    tg_release(model.table);
    tg_release(model.norm);
    tg_release(model.cosines);
    tg_release(model.sines);
    tg_tape_free(tape);
    tg_run_free(run);
    return 0;
}

/* Rotates x (B,H,T,HEAD) by the angles of the positions (B,T). */
static tg_tensor *rotate(tg_tape *t, tg_tensor *x, tg_tensor *positions)
{
    tg_tensor *c = tg_unsqueeze(t, tg_embedding(t, positions, model.cosines, NULL), 1);
    tg_tensor *s = tg_unsqueeze(t, tg_embedding(t, positions, model.sines, NULL), 1);
    tg_tensor *a = tg_slice(t, x, -1, 0, HEAD / 2, 1), *b = tg_slice(t, x, -1, HEAD / 2, HEAD, 1);
    tg_tensor *halves[] = {tg_sub(t, tg_mul(t, a, c), tg_mul(t, b, s)), tg_add(t, tg_mul(t, b, c), tg_mul(t, a, s))};
    return tg_cat(t, halves, 2, -1);
}

static tg_tensor *heads_of(tg_tape *t, tg_tensor *x, tg_tensor *w, tg_tensor *positions)
{
    tg_shape shape = tg_tensor_shape(x);
    tg_tensor *y = tg_linear(t, x, w, NULL);
    y = tg_reshape(t, y, TG_SHAPE(shape.size[0], shape.size[1], tg_tensor_shape(w).size[0] / HEAD, HEAD));
    y = tg_transpose(t, y, 1, 2);
    return positions ? rotate(t, y, positions) : y;
}

/* Appends new keys or values to those of earlier passes, and keeps all of them. */
static tg_tensor *append(tg_tape *t, tg_tensor **kept, tg_tensor *x, const tg_generate_pass *pass)
{
    if (pass->start > 0) {
        x = tg_cat(t, (tg_tensor *[]){*kept, x}, 2, 2);
    }
    tg_release(*kept);
    *kept = pass->start > 0 || pass->cache_context > 0 ? tg_tensor_new_copy(x, NULL) : NULL;
    return x;
}

static tg_tensor *next_logits(tg_tape *t, const tg_generate_pass *pass, void *context)
{
    llama *m = context;
    const int64_t texts = tg_tensor_shape(pass->ids).size[0], columns = tg_tensor_shape(pass->ids).size[1];
    tg_tensor *positions = pass->positions;
    m->passes++;
    m->columns += columns;
    m->is_padded = m->is_padded || positions;
    assert_true(!positions == !pass->first_keys);
    for (int64_t i = 0; positions && i < texts * columns; i++) {
        double key = (double)(pass->start + i % columns) - tg_tensor_value_at(pass->first_keys, i);
        assert_true(tg_tensor_value_at(positions, i) == (key > 0 ? key : 0));
    }
    int32_t counted[TEXTS * CONTEXT];
    for (int64_t i = 0; i < texts * columns; i++) {
        counted[i] = (int32_t)(pass->start + i % columns);
    }
    if (!positions) {
        positions = tg_constant(t, TG_I32, TG_SHAPE(texts, columns), counted);
    }
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = config.enable_gqa = true;
    if (pass->first_keys) {
        uint8_t is_key[TEXTS * CONTEXT];
        const int64_t keys = pass->start + columns;
        for (int64_t i = 0; i < texts * keys; i++) {
            is_key[i] = i % keys >= (int64_t)tg_tensor_value_at(pass->first_keys, i / keys * columns);
        }
        config.key_mask = tg_constant(t, TG_U8, TG_SHAPE(texts, keys), is_key);
    }
    tg_tensor *x = tg_embedding(t, pass->ids, m->table, NULL);
    for (layer *l = m->layers; l < m->layers + LAYERS; l++) {
        tg_tensor *y = tg_rms_norm(t, x, l->norm1, 1e-6);
        tg_tensor *q = heads_of(t, y, l->query, positions);
        tg_tensor *k = append(t, &l->keys, heads_of(t, y, l->key, positions), pass);
        tg_tensor *v = append(t, &l->values, heads_of(t, y, l->value, NULL), pass);
        y = tg_transpose(t, tg_scaled_dot_product_attention(t, q, k, v, &config), 1, 2);
        x = tg_add(t, x, tg_linear(t, tg_reshape(t, y, TG_SHAPE(texts, columns, WIDTH)), l->out, NULL));
        y = tg_rms_norm(t, x, l->norm2, 1e-6);
        y = tg_mul(t, tg_silu(t, tg_linear(t, y, l->gate, NULL)), tg_linear(t, y, l->up, NULL));
        x = tg_add(t, x, tg_linear(t, y, l->down, NULL));
    }
    return tg_linear(t, tg_select(t, tg_rms_norm(t, x, m->norm, 1e-6), 1, -1), m->table, NULL);
}

static tg_language_model language_model(bool takes_padding)
{
    return (tg_language_model){next_logits, &model, V, CONTEXT, takes_padding};
}

/* By hand: the likeliest token after the last CONTEXT ones, in a pass of its own. */
static void loop(const int32_t *prompt, int64_t count, int32_t *ids)
{
    int32_t text[CONTEXT + NEW];
    tg_evaluation before = tg_evaluation_begin(tape);
    memcpy(text, prompt, (size_t)count * sizeof *text);
    for (int64_t i = 0; i < NEW; i++, count++) {
        int64_t begin = count > CONTEXT ? count - CONTEXT : 0;
        tg_tape_reset(tape);
        tg_generate_pass pass = {.ids = tg_constant(tape, TG_I32, TG_SHAPE(1, count - begin), text + begin)};
        tg_tensor *logits = next_logits(tape, &pass, &model);
        ids[i] = text[count] = (int32_t)tg_tensor_item(tg_argmax(tape, logits, 1, TG_DROP_AXES), NULL);
        assert_string_equal(tg_tape_error(tape)->text, "");
    }
    tg_evaluation_end(tape, before);
    tg_tape_reset(tape);
}

static void test_texts_are_those_of_a_loop(void **state)
{
    (void)state;
    int32_t expected[TEXTS][NEW];
    const int32_t *prompt = prompts;
    for (int i = 0; i < TEXTS; prompt += prompt_counts[i++]) {
        loop(prompt, prompt_counts[i], expected[i]);
    }
    /* the texts are none that a broken model could give, such as one token again and again */
    int changes = 0;
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 1; k < NEW; k++) {
            changes += expected[i][k] != expected[i][k - 1];
        }
    }
    assert_true(changes > TEXTS * NEW / 2);
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = NEW;
    for (int way = 0; way < 4; way++) {
        tg_language_model any = language_model(way % 2);
        int32_t ids[TEXTS][NEW];
        int64_t counts[TEXTS];
        config.use_cache = way / 2;
        model.passes = 0;
        model.columns = 0;
        model.is_padded = false;
        assert_true(tg_generate(tape, &any, prompts, prompt_counts, TEXTS, ids[0], counts, &config));
        for (int i = 0; i < TEXTS; i++) {
            assert_int_equal(counts[i], NEW);
        }
        assert_memory_equal(ids, expected, sizeof ids);
        assert_int_equal(model.is_padded, way % 2);
        assert_int_equal(model.passes, way % 2 ? NEW : NEW + 11 - 1);
        assert_int_equal(tape_stats_of(tape).results, 0);
        prompt = prompts;
        for (int i = 0; i < TEXTS; prompt += prompt_counts[i++]) {
            int32_t alone[NEW];
            assert_true(tg_generate(tape, &any, prompt, &prompt_counts[i], 1, alone, counts, &config));
            assert_memory_equal(alone, expected[i], sizeof alone);
        }
    }
    /* with a cache only new columns go through the model, until the context is full */
    model.columns = 0;
    tg_language_model any = language_model(false);
    int64_t made;
    config.max_new_tokens = 1 + CONTEXT - prompt_counts[0];
    int32_t ids[NEW];
    assert_true(tg_generate(tape, &any, prompts, prompt_counts, 1, ids, &made, &config));
    assert_int_equal(model.columns, CONTEXT);
}

/* What each text has heard. */
typedef struct listener {
    int32_t ids[TEXTS][NEW];
    int64_t counts[TEXTS], most[TEXTS];
} listener;

static bool listen(void *context, int64_t text, int32_t id)
{
    listener *l = context;
    l->ids[text][l->counts[text]++] = id;
    return l->counts[text] < l->most[text];
}

/* Each text ends for itself: at a stop token, or because its listener has enough. */
static void test_stream_and_stop_tokens(void **state)
{
    (void)state;
    int32_t all[TEXTS][NEW], ids[TEXTS][NEW];
    int64_t counts[TEXTS], expected[TEXTS];
    listener heard = {.most = {NEW, 4, NEW, NEW}};
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = NEW;
    for (int pads = 0; pads < 2; pads++) {
        tg_language_model any = language_model(pads);
        config.end_token_count = 0;
        config.end_tokens = NULL;
        config.on_token = NULL;
        assert_true(tg_generate(tape, &any, prompts, prompt_counts, TEXTS, all[0], counts, &config));
        const int32_t ends[] = {-1, all[0][9], all[3][6]};
        config.end_tokens = ends;
        config.end_token_count = 3;
        config.on_token = listen;
        config.context = &heard;
        memset(heard.counts, 0, sizeof heard.counts);
        memset(ids, 0xff, sizeof ids);
        assert_true(tg_generate(tape, &any, prompts, prompt_counts, TEXTS, ids[0], counts, &config));
        for (int i = 0; i < TEXTS; i++) {
            for (expected[i] = 0; expected[i] < heard.most[i]; expected[i]++) {
                if (all[i][expected[i]] == ends[1] || all[i][expected[i]] == ends[2]) {
                    break;
                }
            }
            assert_int_equal(counts[i], expected[i]);
            assert_int_equal(heard.counts[i], expected[i]);
            assert_memory_equal(ids[i], all[i], (size_t)expected[i] * sizeof(int32_t));
            assert_memory_equal(heard.ids[i], all[i], (size_t)expected[i] * sizeof(int32_t));
            assert_true(expected[i] == NEW || ids[i][expected[i]] == -1);
        }
        assert_true(expected[0] <= 9 && expected[3] <= 6);
    }
}

/* The penalty reads each text, but neither its padding nor the other texts: those of one call are those of calls for
 * each. */
static void test_penalty_reads_the_text(void **state)
{
    (void)state;
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = NEW;
    int32_t plain[TEXTS][NEW], ids[TEXTS][NEW], alone[NEW];
    int64_t counts[TEXTS];
    tg_language_model any = language_model(true);
    assert_true(tg_generate(tape, &any, prompts, prompt_counts, TEXTS, plain[0], counts, &config));
    config.sample.repetition_penalty = 1.4;
    assert_true(tg_generate(tape, &any, prompts, prompt_counts, TEXTS, ids[0], counts, &config));
    assert_memory_not_equal(ids, plain, sizeof ids);
    const int32_t *prompt = prompts;
    for (int i = 0; i < TEXTS; prompt += prompt_counts[i++]) {
        assert_true(tg_generate(tape, &any, prompt, &prompt_counts[i], 1, alone, counts, &config));
        assert_memory_equal(ids[i], alone, sizeof alone);
    }
}

/* ---- errors ---- */

static tg_tensor *fixed;

static tg_tensor *same_logits(tg_tape *t, const tg_generate_pass *pass, void *context)
{
    (void)pass;
    return context ? tg_add(t, context, context) : fixed;
}

static void assert_refused(const tg_language_model *any, const tg_generate_config *config, tg_code code,
                           const char *message)
{
    int32_t ids[2 * 50] = {-7};
    int64_t counts[2] = {-7};
    uint64_t position = tg_rng_position(tg_run_rng(run));
    assert_false(tg_generate(tape, any, prompts, prompt_counts, 2, ids, counts, config));
    assert_tape_error(tape, code, message);
    assert_true(ids[0] == -7 && counts[0] == -7 && tg_rng_position(tg_run_rng(run)) == position);
    assert_true(tg_tape_is_recording(tape) && tg_tape_is_training(tape));
    assert_int_equal(tape_stats_of(tape).results, 0);
}

static void test_refuses(void **state)
{
    (void)state;
    tg_generate_config config = tg_generate_config_default();
    tg_language_model any = language_model(true);
    any.step = NULL;
    assert_refused(&any, NULL, TG_ERROR_VALUE,
                   "generate: the model has no step, vocabulary 40 and context_length 24; all must be set, the");
    any = language_model(true);
    any.vocabulary = 0;
    assert_refused(&any, NULL, TG_ERROR_VALUE, "generate: the model has a step, vocabulary 0 and context_length 24;");
    any.vocabulary = (int64_t)INT32_MAX + 1;
    assert_refused(&any, NULL, TG_ERROR_VALUE, "generate: the model has a step, vocabulary 2147483648 and");
    any = language_model(true);
    any.context_length = 0;
    assert_refused(&any, NULL, TG_ERROR_VALUE, "generate: the model has a step, vocabulary 40 and context_length 0;");
    any.context_length = 10;
    assert_refused(&any, NULL, TG_ERROR_RANGE, "generate: the prompt 1 has 11 tokens; the model's context is 10");
    assert_refused(NULL, NULL, TG_ERROR_STATE, "generate: the model is NULL");
    any = language_model(true);
    config.end_token_count = 1;
    assert_refused(&any, &config, TG_ERROR_VALUE,
                   "generate: end_token_count is 1, but end_tokens is NULL; set both or neither");
    config.end_token_count = 0;
    config.sample.text = prompts;
    assert_refused(&any, &config, TG_ERROR_VALUE,
                   "generate: sample.text is set; it must be NULL, each text is its own");
    any = (tg_language_model){same_logits, NULL, V, CONTEXT, false};
    assert_refused(&any, NULL, TG_ERROR_STATE, "generate: the step has returned NULL without an error");
    static const int64_t wrong[][2] = {{1, V}, {2, V + 1}, {2, V - 1}};
    for (int i = 0; i < 3; i++) {
        char text[100];
        fixed = tg_tensor_new(TG_F32, tg_shape_make(2, wrong[i]), NULL);
        snprintf(text, sizeof text, "generate: the step has returned logits (%d,%d); they must be (2,40)",
                 (int)wrong[i][0], (int)wrong[i][1]);
        assert_refused(&any, NULL, TG_ERROR_SHAPE, text);
        tg_release(fixed);
    }
    fixed = tg_tensor_new(TG_I32, TG_SHAPE(2, V), NULL);
    assert_refused(&any, NULL, TG_ERROR_SHAPE, "generate: sample: the logits are i32 (40,); they must be f32 or f64");
    /* the error of the step stays */
    any.context = fixed;
    fixed = tg_tensor_new(TG_F32, TG_SHAPE(2, V), NULL);
    assert_refused(&any, NULL, TG_ERROR_DTYPE, "add: ");
    tg_release(any.context);
    tg_release(fixed);
    fixed = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_texts_are_those_of_a_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stream_and_stop_tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_penalty_reads_the_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
