/* kv_cache: cached positions are those of the whole sequence, however it is cut; what is refused; and a call that fails
 * leaves the cache as it was. */
#include "support.h"

#include <math.h>
#include <string.h>

#define CONTEXT 12
#define LENGTH 9

static const tg_gpt_config small = {31, CONTEXT, 12, 3, 2, 0, TG_BIAS, false, TG_ATTENTION_FUSED, TG_POSITION_LEARNED};

typedef struct fixture {
    tg_rng *rng;
    tg_params *params;
    tg_gpt *model;
    tg_tape *tape; /* does not record */
    tg_tensor *ids;
    tg_kv_cache *cache;
} fixture;

static fixture fixture_make(tg_attention_path path, tg_dtype dtype)
{
    int32_t ids[2 * LENGTH];
    for (int i = 0; i < 2 * LENGTH; i++) {
        ids[i] = (i * i * 7 + 3) % 31;
    }
    tg_gpt_config config = small;
    config.path = path;
    fixture f = {.rng = tg_rng_new(123)};
    f.params = tg_params_new(dtype, f.rng);
    f.model = tg_gpt_new(f.params, &config);
    f.tape = tg_tape_new(f.rng);
    tg_tape_set_recording(f.tape, false);
    f.ids = tensor_i32(TG_SHAPE(2, LENGTH), ids);
    f.cache = tg_kv_cache_new(dtype, 2, 2, 3, CONTEXT, 12, NULL);
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
    tg_rng_free(f->rng);
}

static tg_tensor *between(tg_tape *t, tg_tensor *x, int64_t begin, int64_t end)
{
    return tg_contiguous(t, tg_slice(t, x, 1, begin, end, 1));
}

/* Positions begin .. end - 1 of the ids through the cache are those of `whole`. */
static void check_part(fixture *f, tg_tensor *whole, int64_t begin, int64_t end, double allowed)
{
    assert_int_equal(tg_kv_cache_length(f->cache), begin);
    tg_tensor *part = tg_gpt_features(f->tape, f->model, between(f->tape, f->ids, begin, end), f->cache);
    tg_tensor *expected = between(f->tape, whole, begin, end);
    assert_string_equal(tg_tape_error(f->tape), "");
    assert_values(part, tg_data(expected), tg_count(expected), 0, allowed);
    assert_int_equal(tg_kv_cache_length(f->cache), end);
}

static void test_equals_the_whole(void **state)
{
    (void)state;
    const tg_attention_path paths[] = {TG_ATTENTION_FUSED, TG_ATTENTION_ELEMENTARY};
    for (int p = 0; p < 2; p++) {
        fixture f = fixture_make(paths[p], TG_F64);
        tg_tensor *whole = tg_gpt_features(f.tape, f.model, f.ids, NULL);
        for (int64_t cut = 0; cut < LENGTH; cut++) { /* in two; the first time at once */
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

/* One attention alone, whose cache has one layer. */
static void test_of_one_attention(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(4);
    tg_params *params = tg_params_new(TG_F64, rng);
    tg_tape *t = tg_tape_new(rng);
    tg_tape_set_recording(t, false);
    tg_multi_head_attention attention = tg_multi_head_attention_make(params, "att", 5, 6, 2, NULL);
    tg_kv_cache *cache = tg_kv_cache_new(TG_F64, 1, 1, 2, 7, 6, NULL);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 7, 5), NULL);
    tg_fill_normal(x, rng, 0, 1, NULL);
    tg_tensor *whole = tg_multi_head_attention_forward(t, &attention, x);
    for (int64_t at = 0; at < 7; at += at == 0 ? 4 : 3) { /* up to the last place */
        int64_t end = at == 0 ? 4 : 7;
        tg_tensor *part = tg_multi_head_attention_forward_cached(t, &attention, between(t, x, at, end), cache, 0);
        assert_string_equal(tg_tape_error(t), "");
        assert_values(part, tg_data(between(t, whole, at, end)), (end - at) * 6, 0, 1e-14);
    }
    assert_int_equal(tg_kv_cache_length(cache), 7);
    assert_null(tg_multi_head_attention_forward_cached(t, &attention, between(t, x, 0, 1), cache, 0));
    assert_tape_error(t, TG_ERROR_RANGE, "kv_cache: 1 positions after 7; there is room for 7 (the context)");
    for (int64_t layer = -1; layer < 2; layer += 2) {
        assert_null(tg_multi_head_attention_forward_cached(t, &attention, x, cache, layer));
        assert_tape_error(t, TG_ERROR_RANGE,
                          layer < 0 ? "kv_cache: layer -1 is outside [0,1)" : "kv_cache: layer 1 is outside [0,1)");
    }
    assert_null(tg_multi_head_attention_forward_cached(t, &attention, x, NULL, 0));
    assert_tape_error(t, TG_ERROR_STATE, "attention: the cache is NULL");
    assert_null(tg_multi_head_attention_forward_cached(t, &attention, NULL, cache, 0));
    assert_tape_error(t, TG_ERROR_STATE, "linear: input 0 is NULL");
    assert_int_equal(tg_kv_cache_length(cache), 7);
    tg_transformer_block block = tg_transformer_block_make(params, "block", 6, 2, 0, NULL);
    assert_null(tg_transformer_block_forward_cached(t, &block, whole, NULL, 0));
    assert_tape_error(t, TG_ERROR_STATE, "block: the cache is NULL");
    tg_kv_cache_free(cache);
    tg_release(x);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
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
        {TG_F32, 0, 2, 3, 5, 12, "0 layers, batch 2, 3 heads, context 5, width 12, f32"},
        {TG_F32, 1, 0, 3, 5, 12, "1 layers, batch 0, 3 heads, context 5, width 12, f32"},
        {TG_F32, 1, 2, 0, 5, 12, "1 layers, batch 2, 0 heads, context 5, width 12, f32"},
        {TG_F64, 1, 2, 3, -5, 12, "1 layers, batch 2, 3 heads, context -5, width 12, f64"},
        {TG_F64, 1, 2, 3, 5, 0, "1 layers, batch 2, 3 heads, context 5, width 0, f64"},
        {TG_F32, 1, 2, 5, 5, 12, "1 layers, batch 2, 5 heads, context 5, width 12, f32"},
        {TG_I32, 1, 2, 3, 5, 12, "1 layers, batch 2, 3 heads, context 5, width 12, i32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_error error = TG_NO_ERROR;
        assert_null(tg_kv_cache_new(cases[i].dtype, cases[i].layers, cases[i].batch, cases[i].heads, cases[i].context,
                                    cases[i].width, &error));
        assert_int_equal(error.code, TG_ERROR_VALUE);
        assert_ptr_equal(strstr(error.text, cases[i].text), error.text + strlen("kv_cache: "));
        assert_non_null(strstr(error.text, "; all must be at least 1, the heads divide the width, and the dtype is f32 "
                                           "or f64"));
    }
    assert_null(tg_kv_cache_new(TG_F32, 0, 1, 1, 1, 1, NULL));
    tg_kv_cache_free(NULL);
}

/* The call fails with the text, and the cache keeps its length. */
static void assert_refused(fixture *f, tg_kv_cache *cache, tg_tensor *ids, tg_code code, const char *text)
{
    int64_t before = tg_kv_cache_length(cache);
    assert_null(tg_gpt_features(f->tape, f->model, ids, cache));
    assert_string_equal(tg_tape_error(f->tape), text);
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
                   "kv_cache: recording is on; a cache is for generation, without gradients");
    tg_tape_set_recording(f.tape, false);
    assert_non_null(tg_gpt_features(f.tape, f.model, f.ids, f.cache));
    assert_refused(&f, f.cache, one, TG_ERROR_SHAPE,
                   "kv_cache: f32 (1,3,3,4) does not go into a cache of f32 (2,3,12,4) (B,H,context,D)");
    tg_tensor *outside = tensor_i32(TG_SHAPE(2, 1), (int32_t[]){0, 31});
    assert_refused(&f, f.cache, outside, TG_ERROR_RANGE, "embedding: id 31 at [1,0] is outside [0,31)");
    tg_release(outside);
    assert_non_null(tg_gpt_features(f.tape, f.model, three, f.cache)); /* full to the last place */
    assert_int_equal(tg_kv_cache_length(f.cache), CONTEXT);
    assert_refused(&f, f.cache, three, TG_ERROR_RANGE, "gpt: 3 positions from 12 on; the context is 12");
    tg_kv_cache *cache = tg_kv_cache_new(TG_F32, 2, 2, 3, 4, 12, NULL); /* shorter than the model's context */
    assert_non_null(tg_gpt_features(f.tape, f.model, three, cache));
    assert_refused(&f, cache, three, TG_ERROR_RANGE,
                   "kv_cache: 3 positions after 3; there is room for 4 (the context)");
    tg_kv_cache_free(cache);
    const struct {
        tg_dtype dtype;
        int64_t layers, heads, width;
        const char *text;
    } others[] = {
        {TG_F32, 1, 3, 12, "gpt: the cache has 1 layers; the model has 2"},
        {TG_F32, 3, 3, 12, "gpt: the cache has 3 layers; the model has 2"},
        {TG_F32, 2, 2, 12, "kv_cache: f32 (2,3,3,4) does not go into a cache of f32 (2,2,12,6) (B,H,context,D)"},
        {TG_F32, 2, 3, 15, "kv_cache: f32 (2,3,3,4) does not go into a cache of f32 (2,3,12,5) (B,H,context,D)"},
        {TG_F64, 2, 3, 12, "kv_cache: f32 (2,3,3,4) does not go into a cache of f64 (2,3,12,4) (B,H,context,D)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cache = tg_kv_cache_new(others[i].dtype, others[i].layers, 2, others[i].heads, CONTEXT, others[i].width, NULL);
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
    float expected[2 * 5 * 12];
    for (size_t k = 0; !finished; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        fixture f = fixture_make(TG_ATTENTION_FUSED, TG_F32);
        tg_tensor *rest = tensor_i32(TG_SHAPE(2, 5), (int32_t[]){3, 1, 4, 1, 5, 9, 2, 6, 5, 3});
        tg_scope_begin(f.tape);
        assert_non_null(tg_gpt_features(f.tape, f.model, between(f.tape, f.ids, 0, 4), f.cache));
        tg_scope_end(f.tape, NULL);
        allocator_arm(&counting, k, false);
        tg_tensor *y = tg_gpt_features(f.tape, f.model, rest, f.cache);
        allocator_arm(&counting, 0, false);
        if (k == 0) {
            assert_non_null(y);
            memcpy(expected, tg_data(y), sizeof expected);
        } else if (y) {
            finished = true;
            assert_true(k > 20); /* calls after the last layer's attention were among those that failed */
        } else {
            assert_int_equal(tg_tape_error_code(f.tape), TG_ERROR_MEMORY);
            assert_int_equal(tg_kv_cache_length(f.cache), 4);
            tg_tape_clear_error(f.tape);
            y = tg_gpt_features(f.tape, f.model, rest, f.cache);
            assert_non_null(y);
        }
        assert_int_equal(tg_kv_cache_length(f.cache), 9);
        assert_memory_equal(tg_data(y), expected, sizeof expected);
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
        cache = tg_kv_cache_new(TG_F32, 2, 1, 1, 4, 4, &error);
        if (cache) {
            assert_true(k > 6); /* the cache, its list and four tensors */
        } else {
            assert_int_equal(error.code, TG_ERROR_MEMORY);
        }
        tg_kv_cache_free(cache);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

/* What fails after the cache was written, in attention or behind it, leaves the length too. */
static void test_late_failures(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(1);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_transformer_block block = tg_transformer_block_make(params, "block", 4, 2, 0, NULL);
    tg_kv_cache *cache = tg_kv_cache_new(TG_F32, 1, 1, 2, 8, 4, NULL);
    tg_tape *t = tg_tape_new(rng);
    tg_tape_set_recording(t, false);
    tg_tensor *x = tg_tensor_new_full(TG_F32, TG_SHAPE(1, 3, 4), 1, NULL);
    tg_tensor *wrong = tg_tensor_new(TG_F32, TG_SHAPE(5, 5), NULL);
    tg_transformer_block broken = block;
    broken.attention.out.weight = wrong;
    assert_null(tg_multi_head_attention_forward_cached(t, &broken.attention, x, cache, 0));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear");
    assert_int_equal(tg_kv_cache_length(cache), 0);
    broken = block;
    broken.feed_forward.down.weight = wrong;
    assert_null(tg_transformer_block_forward_cached(t, &broken, x, cache, 0));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear");
    assert_int_equal(tg_kv_cache_length(cache), 0);
    assert_non_null(tg_transformer_block_forward_cached(t, &block, x, cache, 0));
    assert_int_equal(tg_kv_cache_length(cache), 3);
    tg_release(x);
    tg_release(wrong);
    tg_tape_free(t);
    tg_kv_cache_free(cache);
    tg_params_free(params);
    tg_rng_free(rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_whole),    cmocka_unit_test(test_of_one_attention),
        cmocka_unit_test(test_refuses_sizes),       cmocka_unit_test(test_refuses_inputs),
        cmocka_unit_test(test_call_without_memory), cmocka_unit_test(test_made_without_memory),
        cmocka_unit_test(test_late_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
