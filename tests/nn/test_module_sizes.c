/* Each size of each module, model, cache and loader in turn, and each two sizes together, at numbers whose products
 * wrap around: a call creates what was asked for, or fails with an error and changes nothing. The test's allocator
 * refuses what would fit into memory. tests/lint/sizes requires that every module of the headers is in the table. */
#include "support.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/conv.h>
#include <tapegrad/gpt.h>
#include <tapegrad/sequence.h>
#include <tapegrad/transformer.h>

/* The last ones wrap to small numbers when they are multiplied by 2, 3 and 4. */
static const int64_t extremes[] = {
    INT32_MAX,         (int64_t)1 << 31, (int64_t)1 << 32, (int64_t)1 << 62, ((int64_t)1 << 62) + 4,
    INT64_MAX / 3 + 2, INT64_MAX - 1,    INT64_MAX};

#define EXTREMES (sizeof extremes / sizeof *extremes)
#define MAX_SIZES 8

static void *allocate_some(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    return bytes > 1 << 20 ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *context, void *block)
{
    (void)context;
    aligned_free(block);
}

/* ---- the calls: each returns whether it made something ---- */

static bool make_embedding(tg_params *p, const int64_t *s)
{
    tg_nn_embedding_config config = tg_nn_embedding_config_default();
    config.padding_index = s[2];
    return tg_nn_embedding_make(p, "m", s[0], s[1], &config).module.is_made;
}

static bool make_embedding_bag(tg_params *p, const int64_t *s)
{
    tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
    config.padding_index = s[2];
    return tg_nn_embedding_bag_make(p, "m", s[0], s[1], &config).module.is_made;
}

static bool make_linear(tg_params *p, const int64_t *s)
{
    return tg_nn_linear_make(p, "m", s[0], s[1], TG_BIAS).module.is_made;
}

static bool make_layer_norm(tg_params *p, const int64_t *s)
{
    return tg_nn_layer_norm_make(p, "m", s[0], NULL).module.is_made;
}

static bool make_norm(tg_params *p, const int64_t *s)
{
    return tg_nn_norm_make(p, "m", s[0], TG_NORM_LAYER, 1e-5).module.is_made;
}

static bool make_batch_norm(tg_params *p, const int64_t *s)
{
    return tg_nn_batch_norm_make(p, "m", s[0], NULL).module.is_made;
}

static bool make_rms_norm(tg_params *p, const int64_t *s)
{
    return tg_nn_rms_norm_make(p, "m", s[0], NULL).module.is_made;
}

static bool make_positional(tg_params *p, const int64_t *s, tg_position kind)
{
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = s[2];
    config.buckets = s[3];
    config.max_distance = s[4];
    config.clip = s[5];
    config.position_buckets = s[6];
    config.max_relative_positions = s[7];
    return tg_nn_positional_make(p, "m", kind, s[0], s[1], &config).module.is_made;
}

#define POSITIONAL(name, kind)                              \
    static bool make_##name(tg_params *p, const int64_t *s) \
    {                                                       \
        return make_positional(p, s, kind);                 \
    }

POSITIONAL(learned, TG_POSITION_LEARNED)
POSITIONAL(sinusoidal, TG_POSITION_SINUSOIDAL)
POSITIONAL(rotary, TG_POSITION_ROTARY)
POSITIONAL(alibi, TG_POSITION_ALIBI)
POSITIONAL(t5, TG_POSITION_T5)
POSITIONAL(shaw, TG_POSITION_SHAW)
POSITIONAL(transformer_xl, TG_POSITION_TRANSFORMER_XL)
POSITIONAL(relative_key, TG_POSITION_RELATIVE_KEY)
POSITIONAL(deberta, TG_POSITION_DEBERTA)

static bool make_attention(tg_params *p, const int64_t *s)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = TG_ATTENTION_SEPARATE;
    return tg_nn_multihead_attention_make(p, "m", s[0], s[1], s[2], &config).module.is_made;
}

static bool make_in_proj(tg_params *p, const int64_t *s)
{
    return tg_nn_multihead_attention_make(p, "m", s[0], s[0], s[1], NULL).module.is_made;
}

static bool make_feed_forward(tg_params *p, const int64_t *s)
{
    return tg_nn_feed_forward_make(p, "m", s[0], s[1], TG_FEED_FORWARD_SWIGLU, NULL).module.is_made;
}

static bool make_block(tg_params *p, const int64_t *s)
{
    return tg_nn_transformer_block_make(p, "m", s[0], s[1], NULL).module.is_made;
}

/* One layer has one direction, and several have two. */
static tg_nn_recurrent_config recurrent(const int64_t *s)
{
    tg_nn_recurrent_config config = tg_nn_recurrent_config_default();
    config.layers = s[2] > INT32_MAX ? INT32_MAX : (int)s[2];
    config.bidirectional = s[2] > 1;
    return config;
}

static bool make_gru(tg_params *p, const int64_t *s)
{
    tg_nn_recurrent_config config = recurrent(s);
    return tg_nn_gru_make(p, "m", s[0], s[1], &config).module.is_made;
}

static bool make_lstm(tg_params *p, const int64_t *s)
{
    tg_nn_recurrent_config config = recurrent(s);
    return tg_nn_lstm_make(p, "m", s[0], s[1], &config).module.is_made;
}

static bool make_conv1d(tg_params *p, const int64_t *s)
{
    tg_nn_conv1d_config config = tg_nn_conv1d_config_default();
    config.conv.groups = s[3];
    config.conv.stride = s[4];
    config.conv.padding = s[5];
    config.conv.dilation = s[6];
    return tg_nn_conv1d_make(p, "m", s[0], s[1], s[2], &config).module.is_made;
}

static bool make_encoder_layer(tg_params *p, const int64_t *s)
{
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = s[2];
    return tg_nn_transformer_encoder_layer_make(p, "m", s[0], s[1], &config).module.is_made;
}

static bool make_decoder_layer(tg_params *p, const int64_t *s)
{
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = s[2];
    return tg_nn_transformer_decoder_layer_make(p, "m", s[0], s[1], &config).module.is_made;
}

static bool new_gpt(tg_params *p, const int64_t *s)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = s[0];
    config.context = s[1];
    config.width = s[2];
    config.heads = s[3];
    config.layers = s[4];
    tg_gpt *model = tg_gpt_new(p, &config);
    tg_gpt_free(model);
    return model != NULL;
}

/* The sizes of the modules' parameters, all small, and each valid with the others. */
static const struct module {
    const char *name;
    bool (*make)(tg_params *params, const int64_t *sizes);
    int count;
    int64_t sizes[MAX_SIZES];
} modules[] = {
    {"tg_nn_embedding_make", make_embedding, 3, {8, 4, 1}},
    {"tg_nn_embedding_bag_make", make_embedding_bag, 3, {8, 4, 1}},
    {"tg_nn_linear_make", make_linear, 2, {4, 8}},
    {"tg_nn_layer_norm_make", make_layer_norm, 1, {4}},
    {"tg_nn_batch_norm_make", make_batch_norm, 1, {4}},
    {"tg_nn_rms_norm_make", make_rms_norm, 1, {4}},
    {"tg_nn_norm_make", make_norm, 1, {4}},
    {"tg_nn_positional_make", make_learned, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_sinusoidal, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_rotary, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_alibi, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_t5, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_shaw, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_transformer_xl, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_relative_key, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_positional_make", make_deberta, 8, {8, 4, 2, 8, 16, 4, 4, 8}},
    {"tg_nn_multihead_attention_make", make_attention, 3, {4, 4, 2}},
    {"tg_nn_multihead_attention_make", make_in_proj, 2, {4, 2}},
    {"tg_nn_feed_forward_make", make_feed_forward, 2, {4, 8}},
    {"tg_nn_transformer_block_make", make_block, 2, {4, 2}},
    {"tg_nn_gru_make", make_gru, 3, {4, 4, 1}},
    {"tg_nn_gru_make", make_gru, 3, {4, 4, 2}},
    {"tg_nn_lstm_make", make_lstm, 3, {4, 4, 1}},
    {"tg_nn_lstm_make", make_lstm, 3, {4, 4, 2}},
    {"tg_nn_conv1d_make", make_conv1d, 7, {4, 4, 3, 2, 1, 0, 1}},
    {"tg_nn_transformer_encoder_layer_make", make_encoder_layer, 3, {4, 2, 8}},
    {"tg_nn_transformer_decoder_layer_make", make_decoder_layer, 3, {4, 2, 8}},
    {"tg_gpt_new", new_gpt, 5, {8, 8, 4, 2, 2}},
};

/* Creates a module, and requires that it is whole, or that nothing has changed. Returns whether it was made. */
static bool make(const struct module *m, const int64_t *sizes)
{
    tg_run *run = tg_run_new(3);
    tg_rng *before = tg_rng_new(3);
    tg_params *params = tg_params_new(run, TG_F32);
    bool is_made = m->make(params, sizes);
    tg_code code = tg_params_error(params)->code;
    if (is_made != (code == TG_OK)) {
        fail_msg("%s: made %d with the error \"%s\"", m->name, is_made, tg_params_error(params)->text);
    }
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (!is_made || tg_tensor_count(entry.tensor) < 1) {
            fail_msg("%s (%" PRId64 ",%" PRId64 ",%" PRId64 ",..): '%s' has %" PRId64 " values", m->name, sizes[0],
                     sizes[1], sizes[2], entry.name, tg_tensor_count(entry.tensor));
        }
    }
    if (!is_made && tg_rng_position(tg_run_rng(run)) != tg_rng_position(before)) {
        fail_msg("%s: the generator has drawn", m->name);
    }
    tg_params_free(params);
    tg_run_free(run);
    tg_rng_free(before);
    return is_made;
}

static void test_modules(void **state)
{
    (void)state;
    int refused = 0;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        const struct module *m = &modules[i];
        assert_true(make(m, m->sizes));
        for (int first = 0; first < m->count; first++) {
            for (int second = first; second < m->count; second++) {
                for (size_t k = 0; k < EXTREMES * EXTREMES; k++) {
                    int64_t sizes[MAX_SIZES];
                    memcpy(sizes, m->sizes, sizeof sizes);
                    sizes[first] = extremes[k / EXTREMES];
                    sizes[second] = extremes[k % EXTREMES];
                    refused += !make(m, sizes);
                }
            }
        }
    }
    print_message("%d calls are refused\n", refused);
    assert_true(refused > 5000);
}

/* ---- forward passes ---- */

/* A batch of no sequences, which may be of any length, and one of any number of empty sequences. */
static void test_forwards(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_nn_multihead_attention attentions[TG_POSITION_NONE];
    tg_nn_positional positions[TG_POSITION_NONE];
    int attention_count = 0;
    for (int kind = TG_POSITION_ROTARY; kind < TG_POSITION_NONE; kind++) {
        char name[32];
        tg_nn_positional_config config = tg_nn_positional_config_default();
        config.heads = 1;
        snprintf(name, sizeof name, "position%d", kind);
        positions[kind] = tg_nn_positional_make(params, name, (tg_position)kind, 8, 2, &config);
        tg_nn_multihead_attention_config attention = tg_nn_multihead_attention_config_default();
        attention.positional = &positions[kind];
        snprintf(name, sizeof name, "attention%d", kind);
        attentions[attention_count++] = tg_nn_multihead_attention_make(params, name, 2, 2, 1, &attention);
    }
    tg_nn_positional learned = tg_nn_positional_make(params, "learned", TG_POSITION_LEARNED, 8, 2, NULL);
    tg_nn_lstm lstm = tg_nn_lstm_make(params, "lstm", 2, 4, NULL);
    tg_nn_gru gru = tg_nn_gru_make(params, "gru", 2, 4, NULL);
    tg_nn_conv1d conv = tg_nn_conv1d_make(params, "conv", 2, 4, 3, NULL);
    tg_nn_transformer_encoder_layer layer = tg_nn_transformer_encoder_layer_make(params, "layer", 2, 1, NULL);
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "block", 2, 1, NULL);
    tg_nn_embedding table = tg_nn_embedding_make(params, "table", 4, 4, NULL);
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", 4, 4, NULL);
    assert_string_equal(tg_params_error(params)->text, "");
    for (size_t k = 0; k < 2 * EXTREMES; k++) {
        int64_t n = extremes[k / 2] / 4; /* sizes up to 2^62 - 1 in all */
        tg_tensor *x = tg_tensor_new(TG_F32, k % 2 ? TG_SHAPE(n, 0, 2) : TG_SHAPE(0, n, 2), NULL);
        tg_tensor *channels = tg_tensor_new(TG_F32, k % 2 ? TG_SHAPE(n, 2, 0) : TG_SHAPE(0, 2, n), NULL);
        tg_tensor *ids = tg_tensor_new(TG_I32, k % 2 ? TG_SHAPE(n, 0) : TG_SHAPE(0, n), NULL);
        assert_true(x && channels && ids);
        for (int i = 0; i < 8 + attention_count; i++) {
            tg_tensor *y = i == 0   ? tg_nn_positional_forward(t, &learned, x, n)
                           : i == 1 ? tg_nn_lstm_forward(t, &lstm, x, NULL, NULL, NULL)
                           : i == 2 ? tg_nn_gru_forward(t, &gru, x, NULL, NULL)
                           : i == 3 ? tg_nn_conv1d_forward(t, &conv, channels)
                           : i == 4 ? tg_nn_transformer_encoder_layer_forward(t, &layer, x, NULL)
                           : i == 5 ? tg_nn_transformer_block_forward(t, &block, x, NULL)
                           : i == 6 ? tg_nn_embedding_forward(t, &table, ids)
                           : i == 7 ? tg_nn_embedding_bag_forward(t, &bag, ids, NULL, NULL)
                                    : tg_nn_multihead_attention_forward(t, &attentions[i - 8], x, NULL);
            if (y) {
                tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL);
            }
            assert_true(y || tg_tape_error(t)->code != TG_OK);
            clear_tape_error(t);
            tg_tape_reset(t);
        }
        tg_release(x);
        tg_release(channels);
        tg_release(ids);
    }
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}

/* ---- caches, loaders, and tables that are resized ---- */

static void test_caches(void **state)
{
    (void)state;
    for (int first = 0; first < 5; first++) {
        for (size_t k = 0; k < EXTREMES; k++) {
            tg_error error = TG_NO_ERROR;
            int64_t s[] = {2, 2, 2, 4, 4};
            s[first] = extremes[k];
            assert_null(tg_kv_cache_new(TG_F64, s[0], s[1], s[2], s[3], s[4], NULL, &error));
            assert_true(error.code != TG_OK);
        }
    }
}

static void test_loaders(void **state)
{
    (void)state;
    const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    tg_tensor *column = tg_tensor_new(TG_F32, TG_SHAPE(9), NULL);
    tg_run *run = tg_run_new(1);
    int loaders = 0;
    for (int first = 0; first < 5; first++) {
        for (size_t k = 0; k < EXTREMES; k++) {
            tg_loader_config config = tg_loader_config_default();
            int64_t *sizes[] = {&config.context, &config.stride, &config.batch_size, &config.parts, &config.part};
            config.context = config.stride = config.batch_size = 2;
            *sizes[first] = extremes[k];
            tg_loader *loader = tg_loader_new(run, ids, 9, &config);
            assert_non_null(loader);
            int batches = 0;
            for (tg_batch batch; batches < 10 && tg_loader_next(loader, &batch); batches++) {
                assert_true(tg_tensor_count(batch.inputs) >= 1 && tg_tensor_count(batch.inputs) <= 8);
            }
            assert_true(batches < 10);
            assert_int_equal(batches, tg_loader_error(loader)->code == TG_OK ? tg_loader_batches(loader) : 0);
            loaders += batches > 0;
            clear_loader_error(loader);
            tg_loader_free(loader);
        }
    }
    for (size_t k = 0; k < EXTREMES; k++) {
        tg_loader_config config = tg_loader_config_default();
        config.batch_size = extremes[k];
        config.drop_last = true;
        tg_loader *loader = tg_loader_new_from_tensors(run, &column, 1, &config);
        assert_int_equal(tg_loader_batches(loader), 0);
        clear_loader_error(loader);
        tg_loader_free(loader);
        config.drop_last = false;
        loader = tg_loader_new_from_tensors(run, &column, 1, &config);
        assert_true(tg_loader_batches(loader) == (tg_loader_error(loader)->code == TG_OK));
        clear_loader_error(loader);
        tg_loader_free(loader);
    }
    /* a stride and a batch of any size work, so this sweep does not only meet errors */
    assert_true(loaders > 0);
    tg_release(column);
    tg_run_free(run);
}

static void test_resizes(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = config.context = 8;
    config.width = 4;
    config.heads = config.layers = 1;
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_nn_embedding table = tg_nn_embedding_make(params, "table", 8, 4, NULL);
    tg_nn_positional positions = tg_nn_positional_make(params, "p", TG_POSITION_SINUSOIDAL, 8, 4, NULL);
    int64_t values = tg_params_value_count(params);
    for (size_t k = 0; k < EXTREMES; k++) {
        tg_error error = TG_NO_ERROR;
        for (int i = 0; i < 4; i++) {
            assert_false(i == 0   ? tg_gpt_resize_vocabulary(model, extremes[k])
                         : i == 1 ? tg_gpt_extend_context(model, extremes[k])
                         : i == 2 ? tg_nn_embedding_resize(&table, extremes[k])
                                  : tg_nn_positional_extend(&positions, extremes[k]));
            assert_true(tg_run_error(run)->code != TG_OK);
            tg_run_clear_error(run);
        }
        assert_false(tg_tensor_resize_rows(table.weight, extremes[k], &error));
        assert_true(error.code != TG_OK);
        assert_int_equal(tg_params_value_count(params), values);
        assert_int_equal(tg_gpt_get_config(model)->vocabulary, 8);
        assert_int_equal(tg_gpt_get_config(model)->context, 8);
        assert_int_equal(tg_tensor_size(positions.weight, 0), 8);
    }
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
}

int main(void)
{
    const tg_allocator allocator = {allocate_some, release, NULL};
    tg_set_allocator(&allocator);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_modules), cmocka_unit_test(test_forwards),
                                       cmocka_unit_test(test_caches), cmocka_unit_test(test_loaders),
                                       cmocka_unit_test(test_resizes)};
    return cmocka_run_group_tests_name("module_sizes", tests, NULL, NULL);
}
