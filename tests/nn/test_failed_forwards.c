/* Forwards of several ops, with allocation k failing: the records, the results, the generator and the cache do not
 * change, nothing leaks, and a retry gives the bits of a call that did not fail. */
#include "support.h"

#include <string.h>

#include "base/random.h"
#include "nn/kv_cache.h"
#include "tape_stats.h"
#include "with_cache.h"

enum { B = 2, T = 3, C = 8, HEADS = 2, V = 11 };

typedef struct fixture {
    tg_run *run;
    tg_params *params;
    tg_tape *tape;
    tg_tensor *x, *row, *permuted; /* (B,T,C), (C) and (C,T,B): leaves */
    tg_tensor *rows;               /* (B,1,T,C / HEADS): keys of the cache with windows */
    tg_tensor *ids, *first_keys;
    tg_kv_cache *cache, *windowed;
    tg_nn_positional positional;
    tg_nn_multihead_attention attention, elementary;
    tg_nn_transformer_block block, modern;
    tg_nn_feed_forward gated;
    tg_gpt *model;
} fixture;

static tg_tensor *drawn_leaf(tg_rng *rng, tg_shape shape)
{
    tg_tensor *x = tg_tensor_new(TG_F32, shape, NULL);
    assert_true(tg_tensor_fill_normal(x, rng, 0, 1, NULL));
    return leaf(x);
}

static void make_modules(fixture *f, tg_position kind)
{
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = HEADS;
    positions.shared_projections = true;
    positions.position_buckets = 3;
    f->positional = tg_nn_positional_make(f->params, "own_positions", kind, 2 * T, C, &positions);
    tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
    block.dropout = block.attention.dropout = 0.25;
    bool is_added = kind == TG_POSITION_LEARNED || kind == TG_POSITION_SINUSOIDAL;
    block.attention.positional = is_added ? NULL : &f->positional;
    f->block = tg_nn_transformer_block_make(f->params, "block", C, HEADS, &block);
    f->attention = tg_nn_multihead_attention_make(f->params, "attention", C, C, HEADS, &block.attention);
    block.attention.path = TG_ATTENTION_ELEMENTARY;
    f->elementary = tg_nn_multihead_attention_make(f->params, "elementary", C, C, HEADS, &block.attention);
    tg_nn_transformer_block_config modern = tg_nn_transformer_block_config_default();
    modern.norm = modern.attention.query_key_norm = TG_NORM_RMS_PLUS_ONE;
    modern.norm_after = true;
    modern.feed_forward = TG_FEED_FORWARD_GEGLU;
    modern.attention.key_heads = 1;
    modern.attention.window = 1;
    f->modern = tg_nn_transformer_block_make(f->params, "modern", C, HEADS, &modern);
    f->gated = tg_nn_feed_forward_make(f->params, "gated", C, C, TG_FEED_FORWARD_SWIGLU, NULL);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = 2 * T;
    config.width = C;
    config.heads = HEADS;
    config.layers = 2;
    config.dropout = 0.1;
    config.position = kind;
    f->model = tg_gpt_new(f->params, &config);
    assert_string_equal(tg_params_error(f->params)->text, "");
}

static fixture fixture_make(tg_position kind)
{
    fixture f = {.run = tg_run_new(123)};
    f.params = tg_params_new(f.run, TG_F32);
    f.tape = tg_tape_new(f.run, NULL);
    f.x = drawn_leaf(tg_run_rng(f.run), TG_SHAPE(B, T, C));
    f.row = drawn_leaf(tg_run_rng(f.run), TG_SHAPE(C));
    f.permuted = drawn_leaf(tg_run_rng(f.run), TG_SHAPE(C, T, B));
    f.rows = drawn_leaf(tg_run_rng(f.run), TG_SHAPE(B, 1, T, C / HEADS));
    f.ids = tensor_i32(TG_SHAPE(B, T), (int32_t[]){1, 5, 3, 0, 10, 1});
    f.cache = tg_kv_cache_new(TG_F32, 2, B, HEADS, 2 * T, C, NULL, NULL);
    f.first_keys = tensor_i32(TG_SHAPE(T), (int32_t[]){0, 0, 1});
    tg_kv_cache_config windows = tg_kv_cache_config_default();
    windows.windows = &(const int64_t){1};
    windows.window_count = 1;
    f.windowed = tg_kv_cache_new(TG_F32, 1, B, 1, 2 * T, C / HEADS, &windows, NULL);
    make_modules(&f, kind);
    return f;
}

static void fixture_free(fixture *f)
{
    tg_gpt_free(f->model);
    tg_kv_cache_free(f->cache);
    tg_kv_cache_free(f->windowed);
    tg_release(f->ids);
    tg_release(f->first_keys);
    tg_release(f->permuted);
    tg_release(f->rows);
    tg_release(f->row);
    tg_release(f->x);
    tg_tape_free(f->tape);
    tg_params_free(f->params);
    tg_run_free(f->run);
}

/* ---- the calls ---- */

static tg_tensor *add_positions(fixture *f)
{
    return tg_nn_positional_forward(f->tape, &f->positional, f->x, 1);
}

static tg_tensor *attend(fixture *f)
{
    return tg_nn_multihead_attention_forward(f->tape, &f->attention, f->x, NULL);
}

static tg_tensor *attend_elementary(fixture *f)
{
    return tg_nn_multihead_attention_forward(f->tape, &f->elementary, f->x, NULL);
}

static tg_tensor *attend_with_memory(fixture *f)
{
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.memory = f->x;
    return tg_nn_multihead_attention_forward(f->tape, &f->attention, f->x, &config);
}

/* With the cache, which a pass of another layer has already written to. */
static tg_tensor *block_with_cache(fixture *f)
{
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.cache = f->cache;
    config.layer = 1;
    tg_tape_set_recording(f->tape, false);
    tg_tensor *y = tg_nn_transformer_block_forward(f->tape, &f->block, f->x, &config);
    tg_tape_set_recording(f->tape, true);
    return y;
}

static tg_tensor *block(fixture *f)
{
    return tg_nn_transformer_block_forward(f->tape, &f->block, f->x, NULL);
}

/* A pass that is longer than what the cache keeps. */
static tg_tensor *modern_with_cache(fixture *f)
{
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.cache = f->windowed;
    config.first_keys = f->first_keys;
    tg_tape_set_recording(f->tape, false);
    tg_tensor *y = tg_nn_transformer_block_forward(f->tape, &f->modern, f->x, &config);
    tg_tape_set_recording(f->tape, true);
    return y;
}

/* More positions than the cache keeps, which are joined; after a failure keys and values are unchanged. */
static tg_tensor *append(fixture *f)
{
    tg_tensor *keys = f->rows, *values = f->rows;
    tg_tape_set_recording(f->tape, false);
    bool is_done = tg_kv_cache_append(f->tape, f->windowed, 0, &keys, &values);
    tg_tape_set_recording(f->tape, true);
    assert_true(is_done || (keys == f->rows && values == f->rows));
    return is_done ? values : NULL;
}

static tg_tensor *modern(fixture *f)
{
    return tg_nn_transformer_block_forward(f->tape, &f->modern, f->x, NULL);
}

static tg_tensor *gated(fixture *f)
{
    return tg_nn_feed_forward_forward(f->tape, &f->gated, f->x);
}

static tg_tensor *gpt(fixture *f)
{
    return tg_gpt_forward(f->tape, f->model, f->ids, NULL);
}

static tg_tensor *gpt_with_cache(fixture *f)
{
    tg_tape_set_recording(f->tape, false);
    tg_tensor *y = tg_gpt_forward(f->tape, f->model, f->ids, with_cache(f->cache));
    tg_tape_set_recording(f->tape, true);
    return y;
}

static tg_tensor *multiply_by_number(fixture *f)
{
    return tg_mul_scalar(f->tape, f->x, 3);
}

static tg_tensor *product_of_rows(fixture *f)
{
    return tg_matmul(f->tape, f->row, f->row);
}

static tg_tensor *product_with_row(fixture *f)
{
    return tg_matmul(f->tape, f->x, f->row);
}

static tg_tensor *stack(fixture *f)
{
    return tg_stack(f->tape, (tg_tensor *[]){f->row, f->row, f->row}, 3, 0);
}

/* The array is unchanged after a failure. */
static tg_tensor *split(fixture *f)
{
    tg_tensor *parts[T] = {f->row, f->row, f->row};
    if (tg_split(f->tape, f->x, 1, 1, parts, T) == T) {
        return parts[T - 1];
    }
    for (int i = 0; i < T; i++) {
        assert_ptr_equal(parts[i], f->row);
    }
    return NULL;
}

static const struct {
    const char *name;
    tg_tensor *(*call)(fixture *f);
} calls[] = {
    {"positional", add_positions},
    {"attention", attend},
    {"elementary attention", attend_elementary},
    {"attention with memory", attend_with_memory},
    {"block with cache", block_with_cache},
    {"block", block},
    {"tg_kv_cache_append", append},
    {"modern block", modern},
    {"modern block with cache", modern_with_cache},
    {"gated", gated},
    {"gpt", gpt},
    {"gpt with cache", gpt_with_cache},
    {"mul_scalar", multiply_by_number},
    {"matmul of rows", product_of_rows},
    {"matmul with a row", product_with_row},
    {"stack", stack},
    {"split", split},
};

/* ---- the sweep ---- */

/* What a failed call must not change. */
typedef struct observed {
    tape_stats stats;
    tg_rng rng;
    int64_t pending[3];
} observed;

static observed observe(const fixture *f)
{
    observed now;
    memset(&now, 0, sizeof now);
    now.stats = tape_stats_of(f->tape);
    now.stats.idle_bytes = 0; /* a failed call may leave memory in the pool */
    tg_rng_copy(&now.rng, tg_run_rng(f->run));
    for (int layer = 0; layer < 2; layer++) {
        now.pending[layer] = tg_kv_cache_pending(f->cache, layer);
    }
    now.pending[2] = tg_kv_cache_pending(f->windowed, 0);
    return now;
}

static void assert_unchanged(const char *call, const observed *before, const observed *after)
{
    if (before->stats.records != after->stats.records || before->stats.results != after->stats.results) {
        fail_msg("%s: %lld records and %lld results more", call,
                 (long long)(after->stats.records - before->stats.records),
                 (long long)(after->stats.results - before->stats.results));
    }
    if (memcmp(&before->rng, &after->rng, sizeof before->rng) != 0) {
        fail_msg("%s: the generator has moved", call);
    }
    if (memcmp(before->pending, after->pending, sizeof before->pending) != 0) {
        fail_msg("%s: the cache has changed", call);
    }
}

/* Returns a copy of a result's values; yours. */
static tg_tensor *values_of(const char *call, const fixture *f, const tg_tensor *y)
{
    if (!y) {
        fail_msg("%s: %s", call, tg_tape_error(f->tape)->text);
    }
    return tg_tensor_new_copy(y, NULL);
}

static void assert_same_bits(const char *call, const tg_tensor *y, const tg_tensor *expected)
{
    assert_int_equal(tg_tensor_count(y), tg_tensor_count(expected));
    if (memcmp(tg_tensor_data(y), tg_tensor_data(expected), (size_t)tg_tensor_count(y) * sizeof(float)) != 0) {
        fail_msg("%s: a retry gives other values", call);
    }
}

/* Returns whether allocation k was the last one. */
static bool fail_at(size_t c, tg_position kind, size_t k, bool detect, const tg_tensor *expected)
{
    counting_allocator counting;
    allocator_install(&counting);
    fixture f = fixture_make(kind);
    if (detect) {
        tg_tape_config config = tg_tape_config_default();
        config.detect_freed_results = true;
        tg_tape_free(f.tape);
        f.tape = tg_tape_new(f.run, &config);
    }
    observed before = observe(&f);
    allocator_arm(&counting, k, false);
    tg_tensor *y = calls[c].call(&f);
    allocator_arm(&counting, 0, false);
    bool is_last = y;
    if (!y) {
        observed after = observe(&f);
        assert_unchanged(calls[c].name, &before, &after);
        assert_tape_error(f.tape, TG_ERROR_MEMORY, "memory");
        y = calls[c].call(&f);
    }
    tg_tensor *values = values_of(calls[c].name, &f, y);
    assert_same_bits(calls[c].name, values, expected);
    tg_release(values);
    fixture_free(&f);
    assert_int_equal(counting.live, 0);
    allocator_restore();
    return is_last;
}

static void check_kind(tg_position kind)
{
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        fixture f = fixture_make(kind);
        tg_tensor *expected = values_of(calls[c].name, &f, calls[c].call(&f));
        fixture_free(&f);
        size_t k = 1;
        while (!fail_at(c, kind, k, k % 2 == 0, expected)) {
            k++;
        }
        /* a call of several ops allocates more than twice; adding no positions is no op */
        assert_true(k > 2 || c == 0);
        tg_release(expected);
    }
}

static void test_forwards_without_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind <= TG_POSITION_NONE; kind++) {
        check_kind((tg_position)kind);
    }
}

/* ---- errors in the middle of a call ---- */

/* The bias of the second half has a wrong shape, so the call fails after the attention has drawn its dropout. */
static void test_late_error(void **state)
{
    (void)state;
    fixture f = fixture_make(TG_POSITION_NONE);
    tg_tensor *usual = values_of("block", &f, block(&f));
    tg_tape_reset(f.tape);
    tg_rng_seed(tg_run_rng(f.run), 5);
    tg_tensor *bias = f.block.feed_forward.down.bias;
    f.block.feed_forward.down.bias = f.x;
    observed before = observe(&f);
    assert_null(block(&f));
    observed after = observe(&f);
    assert_unchanged("block", &before, &after);
    assert_tape_error(f.tape, TG_ERROR_SHAPE, "linear");
    f.block.feed_forward.down.bias = bias;
    assert_non_null(block(&f));
    tg_release(usual);
    fixture_free(&f);
}

/* Earlier records and results stay, and can be differentiated after the error. */
static void test_earlier_records_stay(void **state)
{
    (void)state;
    fixture f = fixture_make(TG_POSITION_NONE);
    tg_tensor *y = tg_sum(f.tape, tg_mul(f.tape, f.row, f.row), TG_ALL_AXES, TG_DROP_AXES);
    f.block.norm2.weight = f.x;
    assert_null(block(&f));
    assert_tape_error(f.tape, TG_ERROR_SHAPE, "layer_norm");
    assert_true(tg_backward(f.tape, y, NULL));
    const float *x = tg_tensor_data(f.row), *gradient = tg_tensor_data(tg_tensor_grad(f.row));
    for (int i = 0; i < C; i++) {
        assert_true(gradient[i] == 2 * x[i]);
    }
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forwards_without_memory),
        cmocka_unit_test(test_late_error),
        cmocka_unit_test(test_earlier_records_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
