/* Blocks of Llama, Qwen 3 and Gemma 3 against transformers, with padding on the left and packed texts; the same with a
 * cache, in passes of any length. The goldens are from tests/goldens/make_decoder_blocks.py.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "transformers.h"

enum { B = 2, T = 9, LEFT = 3, LONG = 41 };

static const char goldens[] = "decoder_blocks.txt";

typedef struct family {
    const char *name;
    int64_t width, heads, key_heads, head_width, hidden;
    tg_norm_kind norm, query_key_norm;
    double eps, scale;
    bool has_biases, norm_after;
    tg_feed_forward_kind feed_forward;
    /* of the two layers */
    int64_t windows[2];
    double bases[2];
} family;

static const family families[] = {
    {"llama", 12, 4, 2, 6, 14, TG_NORM_RMS, TG_NORM_NONE, 1e-5, TG_SCALE_OF_WIDTH, true, false, TG_FEED_FORWARD_SWIGLU,
     .bases = {500, 500}},
    {"qwen3", 8, 3, 1, 4, 6, TG_NORM_RMS, TG_NORM_RMS, 1e-6, TG_SCALE_OF_WIDTH, false, false, TG_FEED_FORWARD_SWIGLU,
     .bases = {1000, 1000}},
    {"gemma3", 12, 4, 2, 8, 12, TG_NORM_RMS_PLUS_ONE, TG_NORM_RMS_PLUS_ONE, 1e-6, 0.4472135954999579, false, true,
     TG_FEED_FORWARD_GEGLU, .windows = {3, 0}, .bases = {10, 1000}},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

typedef struct model {
    const family *of;
    tg_run *run;
    tg_params *params;
    tg_tape *tape;
    tg_nn_positional positions[2];
    tg_nn_transformer_block blocks[2];
    tg_nn_norm final_norm;
} model;

static void make_block(model *m, int i, tg_attention_path path)
{
    const family *f = m->of;
    char name[40];
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = f->heads;
    positions.rotary.base = f->bases[i];
    snprintf(name, sizeof name, "positions.%d", i);
    m->positions[i] =
        tg_nn_positional_make(m->params, name, TG_POSITION_ROTARY, LONG, f->heads * f->head_width, &positions);
    tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
    block.norm = f->norm;
    block.eps = f->eps;
    block.norm_after = f->norm_after;
    block.hidden = f->hidden;
    block.feed_forward = f->feed_forward;
    block.feed_forward_bias = f->has_biases ? TG_BIAS : TG_BIAS_OF_KIND;
    block.attention.positional = &m->positions[i];
    block.attention.key_heads = f->key_heads;
    block.attention.head_width = f->head_width;
    block.attention.bias = f->has_biases;
    block.attention.out_bias = f->has_biases;
    block.attention.query_key_norm = f->query_key_norm;
    block.attention.query_key_eps = f->eps;
    block.attention.scale = f->scale;
    block.attention.window = f->windows[i];
    block.attention.path = path;
    snprintf(name, sizeof name, "blocks.%d", i);
    m->blocks[i] = tg_nn_transformer_block_make(m->params, name, f->width, f->heads, &block);
}

static model model_make(const family *f, tg_dtype dtype, tg_attention_path path)
{
    model m = {.of = f, .run = tg_run_new(1)};
    m.params = tg_params_new(m.run, dtype);
    m.tape = tg_tape_new(m.run, NULL);
    for (int i = 0; i < 2; i++) {
        make_block(&m, i, path);
    }
    m.final_norm = tg_nn_norm_make(m.params, "final_norm", f->width, f->norm, f->eps);
    assert_string_equal(tg_params_error(m.params)->text, "");
    for (int64_t i = 0; i < tg_params_count(m.params); i++) {
        tg_entry e = tg_params_at(m.params, i);
        bool is_sharp = strstr(e.name, "W_query.weight") || strstr(e.name, "W_key.weight");
        bool is_one = strstr(e.name, "scale") && f->norm == TG_NORM_RMS;
        double plus = is_one + 2 * (strstr(e.name, "q_norm") || strstr(e.name, "k_norm"));
        fill_part(e.tensor, 0, tg_tensor_count(e.tensor), (double)i + 1, is_sharp ? 4 : 1, plus);
    }
    return m;
}

static void model_free(model *m)
{
    tg_tape_free(m->tape);
    tg_params_free(m->params);
    tg_run_free(m->run);
}

/* Runs x through both blocks and the norm. `config` has the layer's number set. */
static tg_tensor *forward(model *m, tg_tensor *x, const tg_nn_multihead_attention_forward_config *given)
{
    tg_nn_multihead_attention_forward_config config = *given;
    for (int i = 0; i < 2; i++) {
        config.layer = i;
        x = tg_nn_transformer_block_forward(m->tape, &m->blocks[i], x, &config);
    }
    return tg_nn_norm_forward(m->tape, &m->final_norm, x);
}

static tg_tensor *filled_tensor(tg_dtype dtype, int64_t rows, int64_t steps, int64_t width, double salt, double factor)
{
    tg_tensor *x = tg_tensor_new(dtype, TG_SHAPE(rows, steps, width), NULL);
    fill_part(x, 0, tg_tensor_count(x), salt, factor, 0);
    return x;
}

/* The positions and first keys of an input of make_decoder_blocks.py, or NULL for plain. */
typedef struct input {
    tg_tensor *positions, *first_keys;
} input;

static input input_make(const char *kind, int64_t steps)
{
    static const int64_t cuts[] = {4, 6};
    input in = {0};
    if (strcmp(kind, "plain") == 0) {
        return in;
    }
    in.positions = tg_tensor_new(TG_I32, TG_SHAPE(B, steps), NULL);
    in.first_keys = tg_tensor_new(TG_I32, TG_SHAPE(B, steps), NULL);
    int32_t *positions = tg_tensor_data_mut(in.positions), *first_keys = tg_tensor_data_mut(in.first_keys);
    for (int64_t i = 0; i < B * steps; i++) {
        int64_t b = i / steps, t = i % steps, start = b == 1 ? LEFT : 0;
        if (strcmp(kind, "packed") == 0) {
            start = t < cuts[b] ? 0 : cuts[b];
        }
        first_keys[i] = (int32_t)(start > t ? t + 1 : start); /* padding sees no key */
        positions[i] = (int32_t)(t > start ? t - start : 0);
    }
    return in;
}

static void input_free(input *in)
{
    tg_release(in->positions);
    tg_release(in->first_keys);
}

static tg_nn_multihead_attention_forward_config config_of(const input *in)
{
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.positions = in->positions;
    config.first_keys = in->first_keys;
    return config;
}

static void clear_padding(tg_tensor *x)
{
    for (int64_t i = 0; i < LEFT * tg_tensor_size(x, 2); i++) {
        put(x, tg_tensor_count(x) / B + i, 0);
    }
}

static void check_numbers(const family *f, const char *kind, tg_dtype dtype, tg_attention_path path)
{
    const double allowed = dtype == TG_F64 ? 1e-10 : 2e-4;
    char name[40];
    snprintf(name, sizeof name, "%s_%s", f->name, kind);
    model m = model_make(f, dtype, path);
    input in = input_make(kind, T);
    tg_nn_multihead_attention_forward_config config = config_of(&in);
    tg_tensor *x = leaf(filled_tensor(dtype, B, T, f->width, 0.25, 4));
    tg_tensor *weight = filled_tensor(dtype, B, T, f->width, 0.5, 1);
    tg_tensor *y = forward(&m, x, &config);
    assert_string_equal(tg_tape_error(m.tape)->text, "");
    bool is_padded = strcmp(kind, "padded") == 0;
    tg_tensor *shown = tg_tensor_new_copy(y, NULL);
    if (is_padded) {
        clear_padding(shown);
        clear_padding(weight);
    }
    compare_golden(goldens, name, "y", shown, 0, tg_tensor_count(y), allowed);
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = weight;
    assert_true(tg_backward(m.tape, y, &backward));
    compare_golden_gradient(goldens, name, "dx", x, 0, -1, allowed);
    for (int64_t i = 0; strcmp(kind, "plain") == 0 && i < tg_params_count(m.params); i++) {
        tg_entry e = tg_params_at(m.params, i);
        compare_golden_gradient(goldens, name, e.name, e.tensor, 0, -1, allowed);
    }
    input_free(&in);
    tg_release(shown);
    tg_release(x);
    tg_release(weight);
    model_free(&m);
}

static void test_numbers_of_transformers(void **state)
{
    (void)state;
    static const char *const kinds[] = {"plain", "padded", "packed"};
    for (int i = 0; i < FAMILIES; i++) {
        for (int k = 0; k < 3; k++) {
            check_numbers(&families[i], kinds[k], TG_F64, TG_ATTENTION_FUSED);
            check_numbers(&families[i], kinds[k], TG_F64, TG_ATTENTION_ELEMENTARY);
            check_numbers(&families[i], kinds[k], TG_F32, TG_ATTENTION_FUSED);
        }
    }
}

/* ---- with a cache ---- */

static tg_tensor *part_of(tg_tape *t, tg_tensor *x, int64_t begin, int64_t end)
{
    return x ? tg_contiguous(t, tg_slice(t, x, 1, begin, end, 1)) : NULL;
}

/* Runs the positions begin .. end - 1 through the cache. */
static tg_tensor *pass(model *m, tg_tensor *x, const input *in, tg_kv_cache *cache, int64_t begin, int64_t end)
{
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.cache = cache;
    config.positions = part_of(m->tape, in->positions, begin, end);
    config.first_keys = part_of(m->tape, in->first_keys, begin, end);
    return forward(m, part_of(m->tape, x, begin, end), &config);
}

/* Passes of the given lengths, in turn, equal the whole. Before each one, passes of other lengths are abandoned: they
 * equal the whole, too, and leave no trace. */
static void check_passes(const family *f, const char *kind, tg_attention_path path, const int64_t *lengths, int count)
{
    model m = model_make(f, TG_F64, path);
    tg_tape_set_recording(m.tape, false);
    input in = input_make(kind, LONG);
    tg_nn_multihead_attention_forward_config config = config_of(&in);
    tg_tensor *x = filled_tensor(TG_F64, B, LONG, f->width, 0.25, 4);
    tg_tensor *whole = forward(&m, x, &config);
    tg_kv_cache_config windows = tg_kv_cache_config_default();
    windows.windows = f->windows;
    windows.window_count = 2;
    tg_kv_cache *cache =
        tg_kv_cache_new(TG_F64, 2, B, f->key_heads, LONG, f->key_heads * f->head_width, &windows, NULL);
    for (int64_t i = 0, begin = 0; begin < LONG; i++) {
        int64_t end = begin + lengths[i % count] < LONG ? begin + lengths[i % count] : LONG;
        for (int64_t other = 1; begin + other <= LONG; other += 7) {
            tg_tensor *abandoned = pass(&m, x, &in, cache, begin, begin + other);
            tg_tensor *expected = part_of(m.tape, whole, begin, begin + other);
            assert_string_equal(tg_tape_error(m.tape)->text, "");
            assert_values(abandoned, tg_tensor_data(expected), tg_tensor_count(expected), 0, 1e-12);
        }
        tg_tensor *y = pass(&m, x, &in, cache, begin, end), *expected = part_of(m.tape, whole, begin, end);
        assert_string_equal(tg_tape_error(m.tape)->text, "");
        assert_values(y, tg_tensor_data(expected), tg_tensor_count(expected), 0, 1e-12);
        assert_true(tg_kv_cache_commit(cache, NULL));
        assert_int_equal(tg_kv_cache_length(cache), end);
        begin = end;
    }
    tg_kv_cache_free(cache);
    input_free(&in);
    tg_release(x);
    model_free(&m);
}

static void test_passes(void **state)
{
    (void)state;
    static const char *const kinds[] = {"plain", "padded", "packed"};
    static const int64_t lengths[][4] = {{1, 1, 1, 1}, {41, 1, 1, 1}, {7, 1, 2, 3}, {6, 4, 3, 1}, {2, 5, 12, 1}};
    for (int i = 0; i < FAMILIES; i++) {
        for (int k = 0; k < 3; k++) {
            for (int l = 0; l < 5; l++) {
                check_passes(&families[i], kinds[k], l % 2 ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED, lengths[l],
                             4);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_transformers),
        cmocka_unit_test(test_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
