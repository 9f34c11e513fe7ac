/* kv_cache: a sequence in parts of any size gives the results of the whole sequence; errors; a failed pass does not
 * change the length. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/gpt.h"
#include "nn/kv_cache.h"
#include "with_cache.h"

#define CONTEXT 12
#define LENGTH 9
#define V 31

static tg_gpt_config small(void)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = CONTEXT;
    config.width = 12;
    config.heads = 3;
    config.layers = 2;
    config.qkv_bias = true;
    return config;
}

typedef struct fixture {
    tg_run *run;
    tg_params *params;
    tg_gpt *model;
    /* does not record */
    tg_tape *tape;
    tg_tensor *ids;
    tg_kv_cache *cache;
} fixture;

static fixture fixture_make(tg_attention_path path, tg_dtype dtype)
{
    int32_t ids[2 * LENGTH];
    for (int i = 0; i < 2 * LENGTH; i++) {
        ids[i] = (i * i * 7 + 3) % V;
    }
    tg_gpt_config config = small();
    config.path = path;
    fixture f = {.run = tg_run_new(123)};
    f.params = tg_params_new(f.run, dtype);
    f.model = tg_gpt_new(f.params, &config);
    f.tape = tg_tape_new(f.run, NULL);
    tg_tape_set_recording(f.tape, false);
    f.ids = tensor_i32(TG_SHAPE(2, LENGTH), ids);
    f.cache = tg_kv_cache_new(dtype, 2, 2, 3, CONTEXT, 12, NULL, NULL);
    assert_non_null(f.model);
    assert_non_null(f.cache);
    return f;
}

static void fixture_free(fixture *f)
{
    tg_kv_cache_free(f->cache);
    tg_release(f->ids);
    tg_tape_free(f->tape);
    tg_gpt_free(f->model);
    tg_params_free(f->params);
    tg_run_free(f->run);
}

static tg_tensor *between(tg_tape *t, tg_tensor *x, int64_t begin, int64_t end)
{
    return tg_contiguous(t, tg_slice(t, x, 1, begin, end, 1));
}

/* Positions begin .. end - 1 of the ids through the cache are those of `whole`. */
static void check_part(fixture *f, tg_tensor *whole, int64_t begin, int64_t end, double allowed)
{
    assert_int_equal(tg_kv_cache_length(f->cache), begin);
    tg_tensor *part = tg_gpt_forward(f->tape, f->model, between(f->tape, f->ids, begin, end), with_cache(f->cache));
    tg_tensor *expected = between(f->tape, whole, begin, end);
    assert_string_equal(tg_tape_error(f->tape)->text, "");
    assert_values(part, tg_tensor_data(expected), tg_tensor_count(expected), 0, allowed);
    assert_int_equal(tg_kv_cache_length(f->cache), end);
}

static void test_equals_the_whole(void **state)
{
    (void)state;
    const tg_attention_path paths[] = {TG_ATTENTION_FUSED, TG_ATTENTION_ELEMENTARY};
    for (int p = 0; p < 2; p++) {
        fixture f = fixture_make(paths[p], TG_F64);
        tg_tensor *whole = tg_gpt_forward(f.tape, f.model, f.ids, NULL);
        /* in two; the first time at once */
        for (int64_t cut = 0; cut < LENGTH; cut++) {
            tg_kv_cache_clear(f.cache);
            if (cut > 0) {
                check_part(&f, whole, 0, cut, 1e-13);
            }
            check_part(&f, whole, cut, LENGTH, 1e-13);
        }
        tg_kv_cache_clear(f.cache);
        for (int64_t at = 0; at < LENGTH; at++) {
            check_part(&f, whole, at, at + 1, 1e-13);
        }
        tg_kv_cache_clear(f.cache);
        check_part(&f, whole, 0, 2, 1e-13);
        check_part(&f, whole, 2, 3, 1e-13);
        check_part(&f, whole, 3, 7, 1e-13);
        check_part(&f, whole, 7, LENGTH, 1e-13);
        fixture_free(&f);
    }
}

/* Text generation computes the head for the last position only, and commits the same. */
static void test_next_logits(void **state)
{
    (void)state;
    fixture f = fixture_make(TG_ATTENTION_FUSED, TG_F64);
    tg_tensor *text = tensor_i32(TG_SHAPE(1, LENGTH), tg_tensor_data(f.ids));
    tg_tensor *whole = tg_select(f.tape, tg_gpt_forward(f.tape, f.model, text, NULL), 0, 0);
    tg_kv_cache *cache = tg_kv_cache_new(TG_F64, 2, 1, 3, CONTEXT, 12, NULL, NULL);
    const int64_t ends[] = {4, 5, LENGTH};
    for (int i = 0; i < 3; i++) {
        int64_t begin = tg_kv_cache_length(cache);
        tg_tensor *last = tg_select(f.tape, whole, 0, ends[i] - 1);
        tg_tensor *ids = between(f.tape, text, 0, ends[i]);
        assert_values(tg_gpt_last_logits(f.tape, f.model, ids, NULL), tg_tensor_data(last), V, 0, 1e-13);
        assert_int_equal(tg_kv_cache_length(cache), begin);
        ids = between(f.tape, text, begin, ends[i]);
        assert_values(tg_gpt_last_logits(f.tape, f.model, ids, with_cache(cache)), tg_tensor_data(last), V, 0, 1e-13);
        assert_int_equal(tg_kv_cache_length(cache), ends[i]);
    }
    assert_null(tg_gpt_last_logits(f.tape, NULL, text, NULL));
    assert_tape_error(f.tape, TG_ERROR_STATE, "gpt_forward: the model is NULL");
    tg_kv_cache_free(cache);
    tg_release(text);
    fixture_free(&f);
}

/* ---- modules with a cache ---- */

/* One or two attentions, and a cache with a layer for each. */
typedef struct layers {
    tg_run *run;
    tg_params *params;
    /* does not record */
    tg_tape *tape;
    tg_nn_multihead_attention attention[2];
    tg_kv_cache *cache;
} layers;

static layers layers_make(int count, int64_t in, int64_t context, tg_attention_layout layout)
{
    layers l = {.run = tg_run_new(4)};
    l.params = tg_params_new(l.run, TG_F64);
    l.tape = tg_tape_new(l.run, NULL);
    tg_tape_set_recording(l.tape, false);
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = layout;
    config.bias = layout == TG_ATTENTION_IN_PROJ;
    config.is_causal = true;
    l.attention[0] = tg_nn_multihead_attention_make(l.params, "first", in, 6, 2, &config);
    l.attention[1] = tg_nn_multihead_attention_make(l.params, "second", 6, 6, 2, &config);
    assert_string_equal(tg_params_error(l.params)->text, "");
    l.cache = tg_kv_cache_new(TG_F64, count, 1, 2, context, 6, NULL, NULL);
    assert_non_null(l.cache);
    return l;
}

static void layers_free(layers *l)
{
    tg_kv_cache_free(l->cache);
    tg_tape_free(l->tape);
    tg_params_free(l->params);
    tg_run_free(l->run);
}

static tg_tensor *attend(layers *l, int number, tg_tensor *x, tg_kv_cache *cache, int64_t layer)
{
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.cache = cache;
    config.layer = layer;
    return tg_nn_multihead_attention_forward(l->tape, &l->attention[number], x, &config);
}

/* One attention alone, whose cache has one layer. */
static void check_one_attention(int64_t in, tg_attention_layout layout)
{
    layers l = layers_make(1, in, 7, layout);
    tg_tape *t = l.tape;
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 7, in), NULL);
    tg_tensor_fill_normal(x, tg_run_rng(l.run), 0, 1, NULL);
    tg_tensor *whole = attend(&l, 0, x, NULL, 0);
    /* up to the last position */
    for (int64_t at = 0; at < 7; at += at == 0 ? 4 : 3) {
        int64_t end = at == 0 ? 4 : 7;
        tg_tensor *part = attend(&l, 0, between(t, x, at, end), l.cache, 0);
        assert_string_equal(tg_tape_error(t)->text, "");
        assert_values(part, tg_tensor_data(between(t, whole, at, end)), (end - at) * 6, 0, 1e-14);
        assert_int_equal(tg_kv_cache_length(l.cache), at);
        assert_true(tg_kv_cache_commit(l.cache, NULL));
        assert_int_equal(tg_kv_cache_length(l.cache), end);
    }
    assert_null(attend(&l, 0, between(t, x, 0, 1), l.cache, 0));
    assert_tape_error(t, TG_ERROR_RANGE, "kv_cache_append: 1 positions after 7; the capacity is 7");
    for (int64_t layer = -1; layer < 2; layer += 2) {
        assert_null(attend(&l, 0, x, l.cache, layer));
        assert_tape_error(t, TG_ERROR_RANGE,
                          layer < 0 ? "kv_cache_append: layer -1 is outside [0,1)"
                                    : "kv_cache_append: layer 1 is outside [0,1)");
    }
    assert_null(attend(&l, 0, NULL, l.cache, 0));
    assert_tape_error(t, TG_ERROR_STATE, "nn_multihead_attention_forward: argument 'x' is NULL");
    tg_nn_multihead_attention_forward_config both = tg_nn_multihead_attention_forward_config_default();
    both.cache = l.cache;
    both.memory = x;
    assert_null(tg_nn_multihead_attention_forward(t, &l.attention[0], x, &both));
    assert_tape_error(t, TG_ERROR_VALUE, "nn_multihead_attention_forward: a memory and a cache are given;");
    /* none of these wrote to the layer */
    assert_true(tg_kv_cache_commit(l.cache, NULL));
    assert_int_equal(tg_kv_cache_length(l.cache), 7);
    tg_release(x);
    layers_free(&l);
}

static void test_of_one_attention(void **state)
{
    (void)state;
    check_one_attention(5, TG_ATTENTION_SEPARATE);
    check_one_attention(6, TG_ATTENTION_IN_PROJ);
}

/* ---- commit ---- */

static void test_commit(void **state)
{
    (void)state;
    layers l = layers_make(2, 6, 8, TG_ATTENTION_SEPARATE);
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 8, 6), NULL);
    tg_tensor_fill_normal(x, tg_run_rng(l.run), 0, 1, NULL);
    tg_tensor *three = between(l.tape, x, 0, 3), *two = between(l.tape, x, 3, 5);
    assert_false(tg_kv_cache_commit(NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "kv_cache_commit: the cache is NULL");
    assert_false(tg_kv_cache_commit(NULL, NULL));
    assert_int_equal(tg_kv_cache_length(NULL), 0);
    tg_kv_cache_clear(NULL);

    /* nothing written: nothing to add */
    assert_true(tg_kv_cache_commit(l.cache, &error));
    assert_int_equal(tg_kv_cache_length(l.cache), 0);

    /* layer 1 has written nothing, then fewer positions than layer 0 */
    tg_tensor *y = attend(&l, 0, three, l.cache, 0);
    assert_false(tg_kv_cache_commit(l.cache, &error));
    assert_error(&error, TG_ERROR_STATE, "kv_cache_commit: layer 1 has written 0 positions and layer 0 has written 3;");
    assert_non_null(attend(&l, 1, between(l.tape, y, 0, 2), l.cache, 1));
    assert_false(tg_kv_cache_commit(l.cache, &error));
    assert_error(&error, TG_ERROR_STATE, "kv_cache_commit: layer 1 has written 2 positions and layer 0 has written 3;");
    assert_int_equal(tg_kv_cache_length(l.cache), 0);
    assert_non_null(attend(&l, 1, y, l.cache, 1));
    assert_true(tg_kv_cache_commit(l.cache, &error));
    assert_int_equal(tg_kv_cache_length(l.cache), 3);
    /* once only */
    assert_true(tg_kv_cache_commit(l.cache, &error));
    assert_int_equal(tg_kv_cache_length(l.cache), 3);

    /* what was written and not committed does not survive a clear */
    y = attend(&l, 0, two, l.cache, 0);
    assert_non_null(attend(&l, 1, y, l.cache, 1));
    tg_kv_cache_clear(l.cache);
    assert_int_equal(tg_kv_cache_length(l.cache), 0);
    assert_true(tg_kv_cache_commit(l.cache, &error));
    assert_int_equal(tg_kv_cache_length(l.cache), 0);
    assert_string_equal(tg_tape_error(l.tape)->text, "");
    tg_release(x);
    layers_free(&l);
}

/* A pass of 4 positions that fails in its second layer, and one that is not committed: the passes after them overwrite
 * what they wrote. */
static void test_failed_pass_is_overwritten(void **state)
{
    (void)state;
    layers l = layers_make(2, 6, 8, TG_ATTENTION_SEPARATE);
    tg_tape *t = l.tape;
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 6, 6), NULL),
              *other = tg_tensor_new(TG_F64, TG_SHAPE(1, 4, 6), NULL);
    tg_tensor_fill_normal(x, tg_run_rng(l.run), 0, 1, NULL);
    tg_tensor_fill_normal(other, tg_run_rng(l.run), 0, 1, NULL);
    tg_tensor *whole = attend(&l, 1, attend(&l, 0, x, NULL, 0), NULL, 0);
    for (int64_t at = 0; at < 6; at += 3) {
        layers broken = l;
        tg_tensor *wrong = tg_tensor_new(TG_F64, TG_SHAPE(5, 5), NULL);
        broken.attention[1].key.weight = wrong;
        assert_null(attend(&broken, 1, attend(&l, 0, other, l.cache, 0), l.cache, 1));
        assert_tape_error(t, TG_ERROR_SHAPE, "linear: x is (1,4,6), the weight (5,5)");
        assert_int_equal(tg_kv_cache_length(l.cache), at);
        assert_false(tg_kv_cache_commit(l.cache, NULL));
        assert_int_equal(tg_kv_cache_length(l.cache), at);
        if (at > 0) {
            assert_non_null(attend(&l, 1, attend(&l, 0, other, l.cache, 0), l.cache, 1));
            assert_int_equal(tg_kv_cache_length(l.cache), at);
        }
        tg_tensor *y = attend(&l, 1, attend(&l, 0, between(t, x, at, at + 3), l.cache, 0), l.cache, 1);
        assert_values(y, tg_tensor_data(between(t, whole, at, at + 3)), 18, 0, 1e-14);
        assert_true(tg_kv_cache_commit(l.cache, NULL));
        assert_int_equal(tg_kv_cache_length(l.cache), at + 3);
        tg_release(wrong);
    }
    tg_release(x);
    tg_release(other);
    layers_free(&l);
}

/* ---- windows, and attention of one's own ---- */

static tg_kv_cache *cache_with_windows(int64_t count_of_layers, int64_t context, const int64_t *windows, int64_t count,
                                       tg_error *error)
{
    tg_kv_cache_config config = tg_kv_cache_config_default();
    config.windows = windows;
    config.window_count = count;
    return tg_kv_cache_new(TG_F64, count_of_layers, 1, 2, context, 6, &config, error);
}

/* The windows are repeated. A layer has rows for twice its window, and never for more than the context. */
static void test_rows_of_windows(void **state)
{
    (void)state;
    const int64_t windows[] = {3, 0, 6, 7, 12, 1000000}, rows[] = {6, 12, 12, 12, 12, 12};
    tg_kv_cache *cache = cache_with_windows(8, 12, windows, 6, NULL);
    for (int64_t i = 0; i < 8; i++) {
        const tg_kv_layer *layer = &cache->layer[i];
        assert_int_equal(layer->window, windows[i % 6]);
        assert_true(tg_shape_equal(tg_tensor_shape(layer->keys), TG_SHAPE(1, 2, rows[i % 6], 3)));
        assert_true(tg_shape_equal(tg_tensor_shape(layer->values), TG_SHAPE(1, 2, rows[i % 6], 3)));
    }
    tg_kv_cache_free(cache);
    tg_error error = TG_NO_ERROR;
    assert_null(cache_with_windows(2, 12, (const int64_t[]){3, -1}, 2, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "kv_cache_new: windows[1] is -1; it must be at least 1, or 0 for all positions");
    assert_null(cache_with_windows(2, 12, windows, -1, &error));
    assert_error(&error, TG_ERROR_VALUE, "kv_cache_new: window_count is -1; it must be at least 0");
}

/* Keys of the positions begin .. end - 1: a number that shows head, position and channel. */
static tg_tensor *numbered(tg_tape *t, int64_t begin, int64_t end, double plus)
{
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 2, end - begin, 3), NULL);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        int64_t head = i / 3 / (end - begin), position = begin + i / 3 % (end - begin);
        ((double *)tg_tensor_data_mut(x))[i] = plus + (double)(1000 * head + 10 * position + i % 3);
    }
    tg_tensor *kept = tg_mul_scalar(t, x, 1);
    tg_release(x);
    return kept;
}

/* Appends positions to layer 0 and checks the views, which begin at position `first`. */
static void append_and_check(tg_tape *t, tg_kv_cache *cache, int64_t begin, int64_t end, int64_t first)
{
    tg_tensor *keys = numbered(t, begin, end, 0), *values = numbered(t, begin, end, 0.5);
    assert_true(tg_kv_cache_append(t, cache, 0, &keys, &values));
    tg_tensor *all[] = {keys, values};
    for (int i = 0; i < 2; i++) {
        tg_tensor *expected = numbered(t, first, end, i * 0.5);
        assert_true(tg_shape_equal(tg_tensor_shape(all[i]), tg_tensor_shape(expected)));
        assert_values(tg_contiguous(t, all[i]), tg_tensor_data(expected), tg_tensor_count(expected), 0, 0);
    }
}

/* A window of 3 positions: each view begins 2 positions before the pass, whether its rows have moved or not, were
 * joined, or were written before and abandoned. */
static void test_append(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_recording(t, false);
    const int64_t windows[] = {3, 0};
    for (int64_t first = 1; first <= 12; first++) {
        for (int64_t step = 1; step <= 12; step++) {
            tg_kv_cache *cache = cache_with_windows(1, 60, windows, 1, NULL);
            tg_kv_cache *whole = cache_with_windows(1, 60, windows + 1, 1, NULL);
            for (int64_t begin = 0, end = first; end <= 60; begin = end, end += step) {
                int64_t seen = begin < 2 ? begin : 2, longest = 60 - begin < 13 ? 60 - begin : 13;
                append_and_check(t, cache, begin, begin + longest, begin - seen);
                append_and_check(t, cache, begin, begin + 1, begin - seen);
                append_and_check(t, cache, begin, end, begin - seen);
                append_and_check(t, whole, begin, end, 0);
                assert_true(tg_kv_cache_commit(cache, NULL) && tg_kv_cache_commit(whole, NULL));
                assert_int_equal(tg_kv_cache_length(cache), end);
                tg_tape_reset(t);
            }
            tg_kv_cache_clear(cache);
            append_and_check(t, cache, 0, 5, 0);
            tg_kv_cache_free(cache);
            tg_kv_cache_free(whole);
        }
    }
    tg_tape_free(t);
    tg_run_free(run);
}

static void test_refuses_to_append(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_kv_cache *cache = cache_with_windows(1, 8, NULL, 0, NULL);
    tg_tensor *keys = numbered(t, 0, 3, 0), *values = numbered(t, 0, 3, 0), *k = keys, *v = values;
    assert_false(tg_kv_cache_append(t, cache, 0, &k, &v));
    assert_tape_error(t, TG_ERROR_STATE, "kv_cache_append: recording is on; with a cache it must be off");
    tg_tape_set_recording(t, false);
    for (int i = 0; i < 3; i++) {
        assert_false(tg_kv_cache_append(t, i == 0 ? NULL : cache, 0, i == 1 ? NULL : &k, i == 2 ? NULL : &v));
        assert_tape_error(t, TG_ERROR_STATE, "kv_cache_append: the cache, the keys or the values are NULL");
    }
    k = NULL;
    assert_false(tg_kv_cache_append(t, cache, 0, &k, &v));
    assert_tape_error(t, TG_ERROR_STATE, "kv_cache_append: argument 'keys' is NULL");
    k = keys;
    v = numbered(t, 0, 2, 0);
    assert_false(tg_kv_cache_append(t, cache, 0, &k, &v));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      "kv_cache_append: values are f64 (1,2,2,3), which does not fit 3 positions of a "
                      "cache of f64 (1,2,8,3) (B,H,context,D)");
    k = tg_select(t, keys, 0, 0);
    v = values;
    assert_false(tg_kv_cache_append(t, cache, 0, &k, &v));
    assert_tape_error(t, TG_ERROR_SHAPE, "kv_cache_append: keys are f64 (2,3,3), which does not fit 3 positions of");
    k = keys;
    assert_true(tg_kv_cache_append(t, cache, 0, &k, &v) && tg_kv_cache_commit(cache, NULL));
    k = v = numbered(t, 0, 6, 0);
    assert_false(tg_kv_cache_append(t, cache, 0, &k, &v));
    assert_tape_error(t, TG_ERROR_RANGE, "kv_cache_append: 6 positions after 3; the capacity is 8");
    assert_true(tg_tensor_size(k, 2) == 6 && v == k);
    tg_kv_cache_free(cache);
    tg_tape_free(t);
    tg_run_free(run);
}

/* A cache must keep what the attention sees. Its lengths and masks count all positions, dropped ones too. */
static void test_windows_of_attention(void **state)
{
    (void)state;
    layers l = layers_make(1, 6, 8, TG_ATTENTION_SEPARATE);
    tg_tape *t = l.tape;
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 8, 6), NULL);
    tg_tensor_fill_normal(x, tg_run_rng(l.run), 0, 1, NULL);
    const struct {
        int64_t kept, window;
        bool fits;
    } cases[] = {{3, 3, true}, {3, 2, true}, {0, 2, true}, {3, 4, false}, {3, 0, false}, {7, 8, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_kv_cache *cache = cache_with_windows(1, 8, &cases[i].kept, 1, NULL);
        l.attention[0].config.window = cases[i].window;
        tg_tensor *whole = attend(&l, 0, x, NULL, 0);
        assert_non_null(whole);
        if (!cases[i].fits) {
            char text[160];
            snprintf(text, sizeof text,
                     "nn_multihead_attention_forward: layer 0 of the cache has a window of %d positions, and the "
                     "attention one of %d (0: none); the cache's must not be smaller",
                     (int)cases[i].kept, (int)cases[i].window);
            assert_null(attend(&l, 0, x, cache, 0));
            assert_tape_error(t, TG_ERROR_VALUE, text);
        }
        for (int64_t at = 0; cases[i].fits && at < 8; at++) {
            tg_tensor *part = attend(&l, 0, between(t, x, at, at + 1), cache, 0);
            assert_values(part, tg_tensor_data(between(t, whole, at, at + 1)), 6, 0, 1e-14);
            assert_true(tg_kv_cache_commit(cache, NULL));
        }
        tg_kv_cache_free(cache);
    }
    /* key 5 is hidden in three ways, and 7 by lengths, from the last pass of three */
    l.attention[0].config.window = 3;
    const uint8_t mask[] = {1, 1, 1, 1, 1, 0, 1, 1};
    for (int how = 0; how < 3; how++) {
        tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
        config.key_mask = how == 0 ? tg_constant_u8(t, TG_SHAPE(1, 8), mask) : NULL;
        config.lengths = how == 1 ? tg_constant_i32(t, TG_SHAPE(1), (const int32_t[]){7}) : NULL;
        config.first_keys =
            how == 2 ? tg_constant_i32(t, TG_SHAPE(1, 8), (const int32_t[]){0, 0, 0, 0, 0, 6, 6, 6}) : NULL;
        tg_tensor *whole = tg_nn_multihead_attention_forward(t, &l.attention[0], x, &config);
        config.cache = cache_with_windows(1, 8, &l.attention[0].config.window, 1, NULL);
        tg_tensor *usual = attend(&l, 0, between(t, x, 0, 5), config.cache, 0);
        assert_true(usual && tg_kv_cache_commit(config.cache, NULL));
        config.first_keys = config.first_keys ? between(t, config.first_keys, 5, 8) : NULL;
        tg_tensor *y = tg_nn_multihead_attention_forward(t, &l.attention[0], between(t, x, 5, 8), &config);
        assert_string_equal(tg_tape_error(t)->text, "");
        assert_values(y, tg_tensor_data(between(t, whole, 5, 8)), 18, 0, 1e-14);
        /* what is wrong is reported as without a window */
        config.key_mask = NULL;
        config.first_keys = NULL;
        config.lengths = between(t, x, 0, 1);
        assert_null(tg_nn_multihead_attention_forward(t, &l.attention[0], between(t, x, 5, 8), &config));
        assert_tape_error(t, TG_ERROR_SHAPE, "scaled_dot_product_attention: the lengths are f64 (1,1,6);");
        tg_kv_cache_free(config.cache);
    }
    tg_release(x);
    layers_free(&l);
}

/* Positions are for rotary ones, and not with a memory. */
static void test_refuses_positions(void **state)
{
    (void)state;
    layers l = layers_make(1, 6, 8, TG_ATTENTION_SEPARATE);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 3, 6), NULL);
    tg_nn_positional_config rotary = tg_nn_positional_config_default();
    rotary.heads = 3;
    tg_nn_positional positional = tg_nn_positional_make(l.params, "rotary", TG_POSITION_ROTARY, 8, 6, &rotary);
    tg_nn_multihead_attention_config with_rotary = tg_nn_multihead_attention_config_default();
    with_rotary.positional = &positional;
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(l.params, "a", 6, 6, 3, &with_rotary);
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.positions = tg_constant_i32(l.tape, TG_SHAPE(1, 3), (const int32_t[]){0, 1, 2});
    const char *text =
        "nn_multihead_attention_forward: positions are given; this needs rotary positions, and no memory";
    assert_null(tg_nn_multihead_attention_forward(l.tape, &l.attention[0], x, &config));
    assert_tape_error(l.tape, TG_ERROR_VALUE, text);
    assert_non_null(tg_nn_multihead_attention_forward(l.tape, &attention, x, &config));
    config.memory = x;
    assert_null(tg_nn_multihead_attention_forward(l.tape, &attention, x, &config));
    assert_tape_error(l.tape, TG_ERROR_VALUE, text);
    config.memory = NULL;
    config.positions = tg_constant_i32(l.tape, TG_SHAPE(1, 3), (const int32_t[]){0, -1, 2});
    assert_null(tg_nn_multihead_attention_forward(l.tape, &attention, x, &config));
    assert_tape_error(l.tape, TG_ERROR_RANGE, "rotary: position -1 at [0,1]");
    tg_release(x);
    layers_free(&l);
}

/* ---- what is refused ---- */

static void test_refuses_sizes(void **state)
{
    (void)state;
    const struct {
        tg_dtype dtype;
        int64_t layers, batch, heads, context, width;
        const char *text;
    } cases[] = {
        {TG_F32, 0, 2, 3, 5, 12, "kv_cache_new: layers 0; it must be 1 to 2147483647"},
        {TG_F32, 1, 0, 3, 5, 12, "kv_cache_new: batch 0; it must be 1 to 2147483647"},
        {TG_F32, 1, 2, 0, 5, 12, "kv_cache_new: heads 0; it must be 1 to 2147483647"},
        {TG_F64, 1, 2, 3, -5, 12, "kv_cache_new: context -5; it must be 1 to 2147483647"},
        {TG_F64, 1, 2, 3, 5, 0, "kv_cache_new: width 0; it must be 1 to 2147483647"},
        {TG_F32, 1, 2, 5, 5, 12, "kv_cache_new: heads 5 do not divide width 12"},
        {TG_I32, 1, 2, 3, 5, 12, "kv_cache_new: dtype i32; it must be f32 or f64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_error error = TG_NO_ERROR;
        assert_null(tg_kv_cache_new(cases[i].dtype, cases[i].layers, cases[i].batch, cases[i].heads, cases[i].context,
                                    cases[i].width, NULL, &error));
        assert_string_equal(error.text, cases[i].text);
        assert_error(&error, tg_dtype_name(cases[i].dtype)[0] == 'f' ? TG_ERROR_VALUE : TG_ERROR_DTYPE, cases[i].text);
    }
    assert_null(tg_kv_cache_new(TG_F32, 0, 1, 1, 1, 1, NULL, NULL));
    tg_kv_cache_free(NULL);
}

/* The call fails with the text, and the cache keeps its length. */
static void assert_refused(fixture *f, tg_kv_cache *cache, tg_tensor *ids, tg_code code, const char *text)
{
    int64_t before = tg_kv_cache_length(cache);
    assert_null(tg_gpt_forward(f->tape, f->model, ids, with_cache(cache)));
    assert_string_equal(tg_tape_error(f->tape)->text, text);
    assert_tape_error(f->tape, code, text);
    assert_int_equal(tg_kv_cache_length(cache), before);
}

static void test_refuses_inputs(void **state)
{
    (void)state;
    fixture f = fixture_make(TG_ATTENTION_FUSED, TG_F32);
    tg_tensor *three = between(f.tape, f.ids, 0, 3), *one = tg_contiguous(f.tape, tg_slice(f.tape, three, 0, 0, 1, 1));
    tg_tape_set_recording(f.tape, true);
    assert_refused(&f, f.cache, f.ids, TG_ERROR_STATE,
                   "kv_cache_append: recording is on; with a cache it must be off (tg_tape_set_recording)");
    tg_tape_set_recording(f.tape, false);
    assert_non_null(tg_gpt_forward(f.tape, f.model, f.ids, with_cache(f.cache)));
    assert_refused(&f, f.cache, one, TG_ERROR_SHAPE,
                   "kv_cache_append: keys are f32 (1,3,3,4), which does not fit 3 positions of a cache of f32 "
                   "(2,3,12,4) (B,H,context,D)");
    tg_tensor *outside = tensor_i32(TG_SHAPE(2, 1), (int32_t[]){0, 31});
    assert_refused(&f, f.cache, outside, TG_ERROR_RANGE, "embedding: id 31 at [1,0] is outside [0,31)");
    tg_release(outside);
    /* full to the last position */
    assert_non_null(tg_gpt_forward(f.tape, f.model, three, with_cache(f.cache)));
    assert_int_equal(tg_kv_cache_length(f.cache), CONTEXT);
    assert_refused(&f, f.cache, three, TG_ERROR_RANGE, "gpt_forward: 3 positions from 12 on; the context is 12");
    /* shorter than the model's context */
    tg_kv_cache *cache = tg_kv_cache_new(TG_F32, 2, 2, 3, 4, 12, NULL, NULL);
    assert_non_null(tg_gpt_forward(f.tape, f.model, three, with_cache(cache)));
    assert_refused(&f, cache, three, TG_ERROR_RANGE, "kv_cache_append: 3 positions after 3; the capacity is 4");
    tg_kv_cache_free(cache);
    const struct {
        tg_dtype dtype;
        int64_t layers, heads, width;
        const char *text;
    } others[] = {
        {TG_F32, 1, 3, 12, "gpt_forward: the cache has 1 layers; the model has 2"},
        {TG_F32, 3, 3, 12, "gpt_forward: the cache has 3 layers; the model has 2"},
        {TG_F32, 2, 2, 12,
         "kv_cache_append: keys are f32 (2,3,3,4), which does not fit 3 positions of a cache of f32 (2,2,12,6) "
         "(B,H,context,D)"},
        {TG_F32, 2, 3, 15,
         "kv_cache_append: keys are f32 (2,3,3,4), which does not fit 3 positions of a cache of f32 (2,3,12,5) "
         "(B,H,context,D)"},
        {TG_F64, 2, 3, 12,
         "kv_cache_append: keys are f32 (2,3,3,4), which does not fit 3 positions of a cache of f64 (2,3,12,4) "
         "(B,H,context,D)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cache = tg_kv_cache_new(others[i].dtype, others[i].layers, 2, others[i].heads, CONTEXT, others[i].width, NULL,
                                NULL);
        assert_refused(&f, cache, three, TG_ERROR_SHAPE, others[i].text);
        tg_kv_cache_free(cache);
    }
    fixture_free(&f);
}

/* ---- memory ---- */

/* Allocation k of a cached call fails, for every k: the length stays, and a retry gives the same numbers. */
static void test_call_without_memory(void **state)
{
    (void)state;
    bool finished = false;
    float expected[2 * 5 * V];
    for (size_t k = 0; !finished; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        fixture f = fixture_make(TG_ATTENTION_FUSED, TG_F32);
        tg_tensor *rest = tensor_i32(TG_SHAPE(2, 5), (int32_t[]){3, 1, 4, 1, 5, 9, 2, 6, 5, 3});
        tg_scope_begin(f.tape);
        assert_non_null(tg_gpt_forward(f.tape, f.model, between(f.tape, f.ids, 0, 4), with_cache(f.cache)));
        tg_scope_end(f.tape, NULL);
        allocator_arm(&counting, k, false);
        tg_tensor *y = tg_gpt_forward(f.tape, f.model, rest, with_cache(f.cache));
        allocator_arm(&counting, 0, false);
        if (k == 0) {
            assert_non_null(y);
            memcpy(expected, tg_tensor_data(y), sizeof expected);
        } else if (y) {
            finished = true;
            /* calls after the last layer's attention were among those that failed */
            assert_true(k > 20);
        } else {
            assert_int_equal(tg_tape_error(f.tape)->code, TG_ERROR_MEMORY);
            assert_int_equal(tg_kv_cache_length(f.cache), 4);
            clear_tape_error(f.tape);
            y = tg_gpt_forward(f.tape, f.model, rest, with_cache(f.cache));
            assert_non_null(y);
        }
        assert_int_equal(tg_kv_cache_length(f.cache), 9);
        assert_memory_equal(tg_tensor_data(y), expected, sizeof expected);
        tg_release(rest);
        fixture_free(&f);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

static void test_made_without_memory(void **state)
{
    (void)state;
    tg_kv_cache *cache = NULL;
    for (size_t k = 1; !cache; k++) {
        counting_allocator counting;
        tg_error error = TG_NO_ERROR;
        allocator_install(&counting);
        allocator_arm(&counting, k, false);
        cache = tg_kv_cache_new(TG_F32, 2, 1, 1, 4, 4, NULL, &error);
        if (cache) {
            /* the cache, its list and four tensors */
            assert_true(k > 6);
        } else {
            assert_int_equal(error.code, TG_ERROR_MEMORY);
        }
        tg_kv_cache_free(cache);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

/* What fails after the cache was written, in attention or behind it, leaves the length too, and so does a pass that is
 * not committed. */
static void test_late_failures(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "block", 4, 2, NULL);
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.cache = tg_kv_cache_new(TG_F32, 1, 1, 2, 8, 4, NULL, NULL);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_recording(t, false);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(1, 3, 4), NULL), *wrong = tg_tensor_new(TG_F32, TG_SHAPE(5, 5), NULL);
    tg_tensor_fill_normal(x, tg_run_rng(run), 0, 1, NULL);
    tg_nn_transformer_block broken = block;
    broken.attention.out.weight = wrong;
    assert_null(tg_nn_multihead_attention_forward(t, &broken.attention, x, &config));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear");
    assert_int_equal(tg_kv_cache_length(config.cache), 0);
    broken = block;
    broken.feed_forward.down.weight = wrong;
    assert_null(tg_nn_transformer_block_forward(t, &broken, x, &config));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear");
    assert_int_equal(tg_kv_cache_length(config.cache), 0);
    config.layer = 1;
    assert_null(tg_nn_transformer_block_forward(t, &block, x, &config));
    assert_tape_error(t, TG_ERROR_RANGE, "kv_cache_append: layer 1 is outside [0,1)");
    config.layer = 0;
    tg_tensor *y = tg_nn_transformer_block_forward(t, &block, x, &config);
    tg_tensor *expected = tg_nn_transformer_block_forward(t, &block, x, NULL);
    assert_non_null(y);
    assert_memory_equal(tg_tensor_data(y), tg_tensor_data(expected), 12 * sizeof(float));
    assert_int_equal(tg_kv_cache_length(config.cache), 0);
    assert_true(tg_kv_cache_commit(config.cache, NULL));
    assert_int_equal(tg_kv_cache_length(config.cache), 3);
    tg_release(x);
    tg_release(wrong);
    tg_tape_free(t);
    tg_kv_cache_free(config.cache);
    tg_params_free(params);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_whole),
        cmocka_unit_test(test_next_logits),
        cmocka_unit_test(test_of_one_attention),
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_failed_pass_is_overwritten),
        cmocka_unit_test(test_rows_of_windows),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_refuses_to_append),
        cmocka_unit_test(test_windows_of_attention),
        cmocka_unit_test(test_refuses_positions),
        cmocka_unit_test(test_refuses_sizes),
        cmocka_unit_test(test_refuses_inputs),
        cmocka_unit_test(test_call_without_memory),
        cmocka_unit_test(test_made_without_memory),
        cmocka_unit_test(test_late_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
