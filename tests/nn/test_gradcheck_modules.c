/* The gradients of every module, and of a whole GPT, in f64 against finite differences, with respect to the input and
 * to each parameter. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tg_run *run;
static tg_params *params;

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(31);
    params = tg_params_new(run, TG_F64);
    return params ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_params_free(params);
    tg_run_free(run);
    return 0;
}

static tg_tensor *call_attention(tg_tape *t, tg_tensor *const *in, int count, void *attention)
{
    (void)count;
    return tg_nn_multihead_attention_forward(t, attention, in[0], NULL);
}

/* Rotary positions of two texts in a row, and of a text after two positions of padding. */
static tg_tensor *call_packed_attention(tg_tape *t, tg_tensor *const *in, int count, void *attention)
{
    (void)count;
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.positions = tg_constant_i32(t, TG_SHAPE(2, 5), (const int32_t[]){0, 1, 0, 1, 2, 0, 0, 0, 1, 2});
    config.first_keys = tg_constant_i32(t, TG_SHAPE(2, 5), (const int32_t[]){0, 0, 2, 2, 2, 2, 2, 2, 2, 2});
    return tg_nn_multihead_attention_forward(t, attention, in[0], &config);
}

static tg_tensor *call_norm(tg_tape *t, tg_tensor *const *in, int count, void *norm)
{
    (void)count;
    return tg_nn_norm_forward(t, norm, in[0]);
}

static tg_tensor *call_feed_forward(tg_tape *t, tg_tensor *const *in, int count, void *feed_forward)
{
    (void)count;
    return tg_nn_feed_forward_forward(t, feed_forward, in[0]);
}

static tg_tensor *call_block(tg_tape *t, tg_tensor *const *in, int count, void *block)
{
    (void)count;
    return tg_nn_transformer_block_forward(t, block, in[0], NULL);
}

static tg_tensor *call_rmsnorm(tg_tape *t, tg_tensor *const *in, int count, void *norm)
{
    (void)count;
    return tg_nn_rms_norm_forward(t, norm, in[0]);
}

/* Zeros and ones of norms and biases would hide a wrong factor. */
static void fill_vectors(void)
{
    assert_string_equal(tg_params_error(params)->text, "");
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *x = tg_params_at(params, i).tensor;
        if (tg_tensor_rank(x) == 1) {
            tg_tensor_fill_uniform(x, tg_run_rng(run), 0.5, 1.5, NULL);
        }
    }
}

/* Checks the gradients of an input (2,5,width) and of all parameters. */
static void check(tg_gradcheck_function call, void *module, int64_t width)
{
    tg_tensor *input = leaf(tg_tensor_new(TG_F64, TG_SHAPE(2, 5, width), NULL));
    tg_tensor_fill_normal(input, tg_run_rng(run), 0, 1, NULL);
    fill_vectors();
    assert_resizes_are_seen(params, call, module, &input, 1, "ff.fc3.weight att.out_proj.weight");
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.rng = tg_run_rng(run);
    tg_gradcheck_report report;
    bool passed = tg_gradcheck_params(params, call, module, &input, 1, &config, &report, NULL);
    tg_release(input);
    if (!passed) {
        fail_msg("%s", report.text);
    }
    assert_true(report.compared > 100);
}

/* The course's attention. */
static tg_nn_multihead_attention_config separate(void)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = TG_ATTENTION_SEPARATE;
    config.bias = false;
    config.is_causal = true;
    return config;
}

static void check_attention(int64_t in, int64_t out, int64_t heads, const tg_nn_multihead_attention_config *config)
{
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "att", in, out, heads, config);
    check(call_attention, &attention, in);
    attention.config.path = TG_ATTENTION_ELEMENTARY;
    check(call_attention, &attention, in);
}

static void test_attention(void **state)
{
    (void)state;
    tg_nn_multihead_attention_config config = separate();
    config.dropout = 0.2;
    config.bias = true;
    check_attention(3, 4, 2, &config);
}

/* Groups of heads, a width of heads of its own, norms, a scale, a window and positions. */
static void test_attention_in_groups(void **state)
{
    (void)state;
    tg_nn_positional_config rotary = tg_nn_positional_config_default();
    rotary.heads = 4;
    tg_nn_positional positions = tg_nn_positional_make(params, "positions", TG_POSITION_ROTARY, 5, 24, &rotary);
    tg_nn_multihead_attention_config config = separate();
    config.key_heads = 2;
    config.head_width = 6;
    config.out_bias = false;
    config.query_key_norm = TG_NORM_RMS;
    config.scale = 0.3;
    config.window = 3;
    config.positional = &positions;
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "att", 3, 5, 4, &config);
    assert_true(tg_shape_equal(tg_tensor_shape(attention.query.weight), TG_SHAPE(24, 3)));
    assert_true(tg_shape_equal(tg_tensor_shape(attention.value.weight), TG_SHAPE(12, 3)));
    assert_true(tg_shape_equal(tg_tensor_shape(attention.out.weight), TG_SHAPE(5, 24)));
    check(call_packed_attention, &attention, 3);
    attention.config.path = TG_ATTENTION_ELEMENTARY;
    check(call_packed_attention, &attention, 3);
}

/* torch's layout has norms, a scale and a window, too. */
static void test_attention_in_proj_with_norms(void **state)
{
    (void)state;
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.is_causal = true;
    config.query_key_norm = TG_NORM_LAYER;
    config.scale = 0.3;
    config.window = 2;
    check_attention(6, 6, 3, &config);
    assert_string_equal(tg_params_at(params, 4).name, "att.q_norm.scale");
    assert_string_equal(tg_params_at(params, 7).name, "att.k_norm.shift");
    assert_int_equal(tg_params_count(params), 8);
}

static void test_attention_in_both_directions(void **state)
{
    (void)state;
    tg_nn_multihead_attention_config config = separate();
    config.is_causal = false;
    check_attention(4, 6, 3, &config);
}

/* torch's layout, with the default config: both directions, with biases. */
static void test_attention_in_proj(void **state)
{
    (void)state;
    check_attention(4, 4, 2, NULL);
}

static void test_attention_in_proj_causal(void **state)
{
    (void)state;
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.bias = false;
    config.is_causal = true;
    config.dropout = 0.2;
    check_attention(6, 6, 3, &config);
}

/* DeBERTa 2: buckets, a table with a norm, and distances that the attention projects. */
static void check_deberta(const tg_nn_multihead_attention_config *given)
{
    tg_nn_multihead_attention_config config = *given;
    tg_nn_embedding distances = tg_nn_embedding_make(params, "distances", 6, 4, NULL);
    tg_nn_layer_norm norm = tg_nn_layer_norm_make(params, "norm", 4, NULL);
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = 2;
    positions.shared_projections = true;
    positions.position_buckets = 3;
    positions.distances = distances.weight;
    positions.distances_norm = &norm;
    tg_nn_positional positional = tg_nn_positional_make(params, "deberta", TG_POSITION_DEBERTA, 4, 4, &positions);
    config.positional = &positional;
    check_attention(4, 4, 2, &config);
}

static void test_deberta_in_proj(void **state)
{
    (void)state;
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    check_deberta(&config);
}

static void test_deberta_separate(void **state)
{
    (void)state;
    tg_nn_multihead_attention_config config = separate();
    check_deberta(&config);
}

static void test_feed_forward(void **state)
{
    (void)state;
    tg_nn_feed_forward gelu = tg_nn_feed_forward_make(params, "ff", 3, 5, TG_FEED_FORWARD_GELU, NULL);
    check(call_feed_forward, &gelu, 3);
}

static void test_swiglu(void **state)
{
    (void)state;
    tg_nn_feed_forward swiglu = tg_nn_feed_forward_make(params, "ff", 3, 5, TG_FEED_FORWARD_SWIGLU, NULL);
    assert_string_equal(tg_params_at(params, 2).name, "ff.fc3.weight");
    check(call_feed_forward, &swiglu, 3);
}

/* Gated with biases, and GELU without. */
static void test_biases_of_feed_forward(void **state)
{
    (void)state;
    tg_nn_feed_forward_config config = tg_nn_feed_forward_config_default();
    config.bias = TG_BIAS;
    tg_nn_feed_forward geglu = tg_nn_feed_forward_make(params, "gate", 3, 5, TG_FEED_FORWARD_GEGLU, &config);
    assert_string_equal(tg_params_at(params, 5).name, "gate.fc3.bias");
    check(call_feed_forward, &geglu, 3);
    config.bias = TG_NO_BIAS;
    tg_nn_feed_forward gelu = tg_nn_feed_forward_make(params, "plain", 3, 5, TG_FEED_FORWARD_GELU, &config);
    assert_string_equal(tg_params_at(params, 7).name, "plain.layers.2.weight");
    assert_int_equal(tg_params_count(params), 8);
    assert_non_null(gelu.up.weight);
}

static void test_block_with_norms_after(void **state)
{
    (void)state;
    tg_nn_transformer_block_config config = tg_nn_transformer_block_config_default();
    config.norm = TG_NORM_RMS_PLUS_ONE;
    config.norm_after = true;
    config.hidden = 5;
    config.feed_forward = TG_FEED_FORWARD_GEGLU;
    config.attention.query_key_norm = TG_NORM_RMS_PLUS_ONE;
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "block", 4, 2, &config);
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry e = tg_params_at(params, i); /* a weight that is added to 1 starts as zeros */
        assert_true(!strstr(e.name, "scale") || tg_tensor_value_at(e.tensor, 0) == 0);
    }
    assert_string_equal(tg_params_at(params, tg_params_count(params) - 1).name, "block.norm2_after.scale");
    check(call_block, &block, 4);
}

static void test_block(void **state)
{
    (void)state;
    tg_nn_transformer_block_config config = tg_nn_transformer_block_config_default();
    config.dropout = 0.1;
    config.attention.dropout = 0.1;
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "block", 4, 2, &config);
    check(call_block, &block, 4);
    block.attention.config.path = TG_ATTENTION_ELEMENTARY;
    check(call_block, &block, 4);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    tg_nn_rms_norm_config config = tg_nn_rms_norm_config_default();
    config.eps = 1e-5;
    tg_nn_rms_norm norm = tg_nn_rms_norm_make(params, "norm", 11, &config);
    check(call_rmsnorm, &norm, 11);
}

static void test_kinds_of_norm(void **state)
{
    for (int kind = TG_NORM_NONE; kind <= TG_NORM_RMS_PLUS_ONE; kind++) {
        tear_down(state);
        set_up(state);
        tg_nn_norm norm = tg_nn_norm_make(params, "norm", 11, (tg_norm_kind)kind, 1e-5);
        assert_int_equal(!!norm.weight + !!norm.bias, kind == TG_NORM_NONE ? 0 : kind == TG_NORM_LAYER ? 2 : 1);
        assert_true(!norm.weight || tg_tensor_value_at(norm.weight, 0) == (kind != TG_NORM_RMS_PLUS_ONE));
        if (kind != TG_NORM_NONE) {
            check(call_norm, &norm, 11);
        }
    }
    tg_nn_norm none = tg_nn_norm_make(params, "none", 11, TG_NORM_NONE, TG_EPS_OF_DTYPE);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *x = tg_constant_f64(t, TG_SHAPE(2), (const double[]){3, 4});
    assert_ptr_equal(tg_nn_norm_forward(t, &none, x), x);
    /* without a weight the factor is 1 */
    tg_nn_rms_norm_config config = tg_nn_rms_norm_config_default();
    config.no_weight = true;
    int64_t count = tg_params_count(params);
    for (int i = 0; i < 2; i++) {
        config.plus_one = i == 1;
        tg_nn_rms_norm bare = tg_nn_rms_norm_make(params, "bare", 2, &config);
        assert_int_equal(tg_params_count(params), count);
        assert_values(tg_nn_rms_norm_forward(t, &bare, x), (const double[]){3 / sqrt(12.5), 4 / sqrt(12.5)}, 2, 0,
                      1e-15);
    }
    tg_tape_free(t);
}

/* ---- a whole GPT ---- */

typedef struct task {
    const tg_gpt *model;
    tg_tensor *ids, *targets;
} task;

static tg_tensor *loss_of(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)in;
    (void)count;
    const task *k = context;
    return tg_cross_entropy(t, tg_gpt_forward(t, k->model, k->ids, NULL), k->targets, NULL);
}

static void check_gpt(const tg_gpt_config *config)
{
    tg_gpt *model = tg_gpt_new(params, config);
    assert_non_null(model);
    tg_tape *t = tg_tape_new(run, NULL);
    task k = {model, tensor_i32(TG_SHAPE(2, 3), (int32_t[]){3, 0, 3, 1, 4, 2}),
              tensor_i32(TG_SHAPE(2, 3), (int32_t[]){0, 3, 2, 4, 2, 1})};
    fill_vectors();
    tg_gradcheck_config exact = tg_gradcheck_config_default();
    exact.eps = 1e-5;
    exact.atol = 1e-8;
    exact.rtol = 1e-6;
    exact.rng = tg_run_rng(run);
    tg_gradcheck_report report;
    if (!tg_gradcheck_params(params, loss_of, &k, NULL, 0, &exact, &report, NULL)) {
        fail_msg("%s", report.text);
    }
    assert_int_equal(report.compared, tg_params_value_count(params));
    /* no parameter is without an effect, which would hide its gradient */
    assert_true(tg_backward(t, loss_of(t, NULL, 0, &k), NULL));
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        tg_tensor *gradient = tg_tensor_new_dense_grad(entry.tensor, NULL);
        double largest = 0;
        for (int64_t at = 0; at < tg_tensor_count(gradient); at++) {
            largest = fmax(largest, fabs(tg_tensor_value_at(gradient, at)));
        }
        /* the bias of keys shifts the scores of a row alike: zero */
        assert_true(largest > 1e-4 || strstr(entry.name, "W_key.bias"));
        tg_release(gradient);
    }
    tg_release(k.ids);
    tg_release(k.targets);
    tg_tape_free(t);
    tg_gpt_free(model);
}

static tg_gpt_config with_dropout(void)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 5;
    config.context = 4;
    config.width = 6;
    config.heads = 3;
    config.layers = 2;
    config.dropout = 0.2;
    config.qkv_bias = true;
    return config;
}

static tg_gpt_config tied(void)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 5;
    config.context = 3;
    config.width = 4;
    config.heads = 2;
    config.layers = 2;
    config.tied_head = true;
    return config;
}

static void test_gpt(void **state)
{
    (void)state;
    tg_gpt_config config = with_dropout();
    check_gpt(&config);
}

static void test_gpt_elementary(void **state)
{
    (void)state;
    tg_gpt_config config = with_dropout();
    config.path = TG_ATTENTION_ELEMENTARY;
    check_gpt(&config);
}

static void test_gpt_tied(void **state)
{
    (void)state;
    tg_gpt_config config = tied();
    check_gpt(&config);
}

static void test_gpt_tied_elementary(void **state)
{
    (void)state;
    tg_gpt_config config = tied();
    config.path = TG_ATTENTION_ELEMENTARY;
    check_gpt(&config);
}

/* ---- what is refused ---- */

static void refused_attention(int64_t in, int64_t out, int64_t heads, tg_attention_layout layout, double dropout,
                              tg_attention_path path)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = layout;
    config.dropout = dropout;
    config.path = path;
    tg_nn_multihead_attention made = tg_nn_multihead_attention_make(params, "a", in, out, heads, &config);
    assert_true(!made.module.is_made && !made.out.weight && !made.in_proj_weight && !made.query.weight);
}

static void refused_heads(tg_attention_layout layout, int64_t key_heads, int64_t head_width, bool out_bias)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = layout;
    config.key_heads = key_heads;
    config.head_width = head_width;
    config.out_bias = out_bias;
    assert_false(tg_nn_multihead_attention_make(params, "a", 4, 4, 2, &config).module.is_made);
}

static void refused_scores(double scale, int64_t window, bool is_causal, tg_norm_kind norm, double eps)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.scale = scale;
    config.window = window;
    config.is_causal = is_causal;
    config.query_key_norm = norm;
    config.query_key_eps = eps;
    assert_false(tg_nn_multihead_attention_make(params, "a", 4, 4, 2, &config).module.is_made);
}

static void make_refused(int i)
{
    tg_attention_layout separate_layout = TG_ATTENTION_SEPARATE;
    tg_nn_feed_forward_config feed_forward = tg_nn_feed_forward_config_default();
    tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
    tg_nn_rms_norm_config norm = tg_nn_rms_norm_config_default();
    switch (i) {
    case 0: refused_attention(4, 4, 3, separate_layout, 0, 0); break;
    case 1: refused_attention(4, 4, 2, separate_layout, 1.5, 0); break;
    case 2: refused_attention(4, 4, 2, separate_layout, (double)NAN, 0); break;
    case 3: refused_attention(4, 4, 0, separate_layout, 0, 0); break;
    case 4: refused_attention(4, 0, 1, separate_layout, 0, 0); break;
    case 5: refused_attention(0, 4, 2, separate_layout, 0, 0); break;
    case 6: tg_nn_multihead_attention_make(params, NULL, 4, 4, 2, NULL); break;
    case 7: tg_nn_feed_forward_make(params, "f", 4, 4, (tg_feed_forward_kind)7, NULL); break;
    case 8: tg_nn_feed_forward_make(params, "f", 4, 0, TG_FEED_FORWARD_SWIGLU, NULL); break;
    case 9:
        norm.eps = 1;
        tg_nn_rms_norm_make(params, "n", 0, &norm);
        break;
    case 10:
        block.dropout = 2;
        tg_nn_transformer_block_make(params, "b", 4, 2, &block);
        break;
    case 11: tg_nn_transformer_block_make(params, "b", INT64_MAX / 2, 1, NULL); break;
    case 12: refused_attention(4, 6, 2, TG_ATTENTION_IN_PROJ, 0, 0); break;
    case 13: refused_attention(4, 4, 2, (tg_attention_layout)2, 0, 0); break;
    case 14: refused_attention(4, 4, 2, TG_ATTENTION_IN_PROJ, 0, (tg_attention_path)2); break;
    case 15: refused_attention(4, 4, 2, TG_ATTENTION_IN_PROJ, 1, 0); break;
    case 16:
        block.attention = (tg_nn_multihead_attention_config){.layout = TG_ATTENTION_SEPARATE};
        tg_nn_transformer_block_make(params, "b", 4, 2, &block);
        break;
    case 17: tg_nn_transformer_block_make(params, "b", 4, 3, NULL); break;
    case 18:
        norm.eps = 0;
        tg_nn_rms_norm_make(params, "n", 3, &norm);
        break;
    case 19: refused_heads(separate_layout, 3, 0, true); break;
    case 20: refused_heads(separate_layout, -1, 0, true); break;
    case 21: refused_heads(separate_layout, 4, 0, true); break;
    case 22: refused_heads(separate_layout, 0, -2, true); break;
    case 23: refused_heads(separate_layout, 0, INT64_MAX / 2 + 1, true); break;
    case 24: refused_heads(TG_ATTENTION_IN_PROJ, 1, 0, true); break;
    case 25: refused_heads(TG_ATTENTION_IN_PROJ, 0, 3, true); break;
    case 26: refused_heads(TG_ATTENTION_IN_PROJ, 0, 0, false); break;
    case 27: refused_scores(-2, 0, true, TG_NORM_NONE, 1e-6); break;
    case 28: refused_scores((double)INFINITY, 0, true, TG_NORM_NONE, 1e-6); break;
    case 29: refused_scores(1, -1, true, TG_NORM_NONE, 1e-6); break;
    case 30: refused_scores(1, 1, false, TG_NORM_NONE, 1e-6); break;
    case 31: refused_scores(1, 0, true, (tg_norm_kind)4, 1e-6); break;
    case 32: refused_scores(1, 0, true, TG_NORM_RMS, 0); break;
    case 33: tg_nn_norm_make(params, "n", 0, TG_NORM_NONE, 1); break;
    case 34: tg_nn_norm_make(params, "n", 1, (tg_norm_kind)-1, 1); break;
    case 35: tg_nn_norm_make(params, "n", 1, TG_NORM_LAYER, (double)NAN); break;
    case 36:
        feed_forward.bias = (tg_bias)3;
        tg_nn_feed_forward_make(params, "f", 4, 4, TG_FEED_FORWARD_GELU, &feed_forward);
        break;
    case 37:
        block.hidden = -1;
        tg_nn_transformer_block_make(params, "b", 4, 2, &block);
        break;
    case 38:
        block.norm_after = true;
        block.norm = (tg_norm_kind)9;
        tg_nn_transformer_block_make(params, "b", 4, 2, &block);
        break;
    case 39: tg_nn_linear_make(params, "l", 4, 4, TG_BIAS_OF_KIND); break;
    default: tg_nn_rms_norm_make(params, "n", 3, &(tg_nn_rms_norm_config){.eps = 1});
    }
}

static void test_refuses(void **state)
{
    (void)state;
    const struct {
        tg_code code;
        const char *text;
    } cases[] = {
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 3 heads, which do not divide width 4"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has dropout 1.5, outside [0,1)"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has dropout nan, outside [0,1)"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 0 heads, which do not divide width 4"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 1 heads, which do not divide width 0"},
        {TG_ERROR_SHAPE, "nn_linear_make: 'a.W_query' has 0 inputs and 4 outputs; both must be at least 1"},
        {TG_ERROR_STATE, "nn_multihead_attention_make: the name is NULL"},
        {TG_ERROR_VALUE, "nn_feed_forward_make: 'f' has kind 7, which does not exist"},
        {TG_ERROR_SHAPE, "nn_linear_make: 'f.fc1' has 4 inputs and 0 outputs; both must be at least 1"},
        {TG_ERROR_VALUE, "nn_rms_norm_make: 'n' has width 0 and eps 1;"},
        {TG_ERROR_VALUE, "nn_transformer_block_make: 'b' has dropout 2, outside [0,1]"},
        {TG_ERROR_SHAPE, "nn_transformer_block_make: 'b' has width 4611686018427387903; 4 times that is "
                         "more than 2^63 - 1"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' goes from width 4 to 6;"},
        {TG_ERROR_VALUE,
         "nn_multihead_attention_make: 'a' has layout 2, which does not exist; it must be 0 (in_proj) or 1 (separate)"},
        {TG_ERROR_VALUE,
         "nn_multihead_attention_make: 'a' has path 2, which does not exist; it must be 0 (fused) or 1 (elementary)"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has dropout 1, outside [0,1)"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: the config does not come from "
                         "tg_nn_multihead_attention_config_default()"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'b.att' has 3 heads, which do not divide width 4"},
        {TG_ERROR_VALUE, "nn_rms_norm_make: 'n' has width 3 and eps 0;"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 2 heads, 3 key heads, head width 2 and out_bias 1; key "
                         "heads must divide the heads, the width be at least 1, and with TG_ATTENTION_IN_PROJ all must "
                         "be as by default"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 2 heads, -1 key heads,"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 2 heads, 4 key heads,"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 2 heads, 2 key heads, head width -2 "},
        {TG_ERROR_SHAPE, "nn_multihead_attention_make: 'a' has head width 4611686018427387904; 2 times that is "},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 2 heads, 1 key heads,"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 2 heads, 2 key heads, head width 3 "},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has 2 heads, 2 key heads, head width 2 and out_bias 0;"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has scale -2 and window 0; the scale must be finite and at "
                         "least 0, or TG_SCALE_OF_WIDTH, and the window at least 1, with is_causal, or 0"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has scale inf and window 0;"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has scale 1 and window -1;"},
        {TG_ERROR_VALUE, "nn_multihead_attention_make: 'a' has scale 1 and window 1;"},
        {TG_ERROR_VALUE, "nn_norm_make: 'a.q_norm' has kind 4, which does not exist; it must be 0 to 3"},
        {TG_ERROR_VALUE, "nn_norm_make: 'a.q_norm' has width 2 and eps 0; width must be at least 1, eps above 0 or "
                         "TG_EPS_OF_DTYPE"},
        {TG_ERROR_VALUE, "nn_norm_make: 'n' has width 0 and eps 1;"},
        {TG_ERROR_VALUE, "nn_norm_make: 'n' has kind -1,"},
        {TG_ERROR_VALUE, "nn_norm_make: 'n' has width 1 and eps nan;"},
        {TG_ERROR_VALUE, "nn_linear_make: bias 3 of 'f.layers.0'; it must be TG_BIAS or TG_NO_BIAS"},
        {TG_ERROR_SHAPE, "nn_linear_make: 'b.ff.layers.0' has 4 inputs and -1 outputs;"},
        {TG_ERROR_VALUE, "nn_norm_make: 'b.norm1' has kind 9,"},
        {TG_ERROR_VALUE, "nn_linear_make: bias 2 of 'l'; it must be TG_BIAS or TG_NO_BIAS"},
        {TG_ERROR_VALUE, "nn_rms_norm_make: the config does not come from tg_nn_rms_norm_config_default()"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        make_refused(i);
        if (strncmp(tg_params_error(params)->text, cases[i].text, strlen(cases[i].text)) != 0) {
            fail_msg("expected \"%s\", found \"%s\"", cases[i].text, tg_params_error(params)->text);
        }
        assert_params_error(params, cases[i].code, cases[i].text);
        assert_int_equal(tg_params_count(params), 0);
        assert_true(tg_rng_position(tg_run_rng(run)) == 0);
    }
}

/* Inputs that do not fit, and a module that could not be made: an error of the tape. */
static void test_refuses_inputs(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(run, NULL);
    tg_nn_multihead_attention_config config = separate();
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "att", 4, 4, 2, &config);
    tg_nn_multihead_attention packed = tg_nn_multihead_attention_make(params, "packed", 4, 4, 2, NULL);
    tg_tensor *flat = tg_tensor_new(TG_F64, TG_SHAPE(3, 4), NULL),
              *wide = tg_tensor_new(TG_F64, TG_SHAPE(1, 3, 5), NULL);
    tg_nn_multihead_attention *both[] = {&attention, &packed};
    for (int i = 0; i < 2; i++) {
        assert_null(tg_nn_multihead_attention_forward(t, both[i], flat, NULL));
        assert_tape_error(t, TG_ERROR_SHAPE,
                          "nn_multihead_attention_forward: the input has shape (3,4); it must be (B,T,C)");
        assert_null(tg_nn_multihead_attention_forward(t, both[i], wide, NULL));
        assert_tape_error(t, TG_ERROR_SHAPE,
                          i == 0 ? "linear: x is (1,3,5), the weight (4,4)"
                                 : "linear: x is (1,3,5), the weight (12,4)");
        assert_null(tg_nn_multihead_attention_forward(t, both[i], NULL, NULL));
        assert_tape_error(t, TG_ERROR_STATE, "nn_multihead_attention_forward: argument 'x' is NULL");
    }
    tg_nn_multihead_attention_forward_config memory = tg_nn_multihead_attention_forward_config_default();
    memory.memory = flat;
    assert_null(tg_nn_multihead_attention_forward(t, &attention, wide, &memory));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      "nn_multihead_attention_forward: the memory has shape (3,4); it must be (B,T,C)");
    tg_nn_multihead_attention_forward_config bare = {.layer = 0};
    assert_null(tg_nn_multihead_attention_forward(t, &attention, wide, &bare));
    assert_tape_error(t, TG_ERROR_VALUE,
                      "nn_multihead_attention_forward: the config does not come from "
                      "tg_nn_multihead_attention_forward_config_default()");
    tg_nn_multihead_attention unmade = tg_nn_multihead_attention_make(params, "odd", 4, 4, 3, NULL);
    assert_null(tg_nn_multihead_attention_forward(t, &unmade, wide, NULL));
    assert_tape_error(t, TG_ERROR_VALUE, "nn_multihead_attention_make: 'odd' has 3 heads, which do not divide width 4");
    clear_params_error(params);
    assert_null(tg_nn_multihead_attention_forward(t, &unmade, wide, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "nn_multihead_attention_forward: the module is NULL, or was not made");
    assert_null(tg_nn_multihead_attention_forward(t, NULL, wide, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "nn_multihead_attention_forward: the module is NULL, or was not made");
    assert_null(tg_nn_transformer_block_forward(t, NULL, wide, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "nn_transformer_block_forward: the module is NULL, or was not made");
    tg_release(flat);
    tg_release(wide);
    tg_tape_free(t);
}

/* The Taylor mode on a whole model, in both dtypes; and with a loss that is added to another one, detached, so that a
 * part of the gradient is missing. */
static tg_tensor *half_detached(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    tg_tensor *loss = loss_of(t, in, count, context);
    return tg_add(t, loss, tg_detach(t, loss));
}

static void test_taylor_of_a_model(void **state)
{
    (void)state;
    for (int dtype = TG_F32; dtype <= TG_F64; dtype++) {
        tg_params *own = tg_params_new(run, (tg_dtype)dtype);
        tg_gpt_config sizes = with_dropout();
        tg_gpt *model = tg_gpt_new(own, &sizes);
        task k = {model, tensor_i32(TG_SHAPE(2, 3), (int32_t[]){3, 0, 3, 1, 4, 2}),
                  tensor_i32(TG_SHAPE(2, 3), (int32_t[]){0, 3, 2, 4, 2, 1})};
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = TG_GRADCHECK_TAYLOR;
        config.dtype = (tg_dtype)dtype;
        config.rng = tg_run_rng(run);
        tg_gradcheck_report report;
        if (!tg_gradcheck_params(own, loss_of, &k, NULL, 0, &config, &report, NULL)) {
            fail_msg("%s\n%s", report.text, report.verdict);
        }
        assert_false(tg_gradcheck_params(own, half_detached, &k, NULL, 0, &config, &report, NULL));
        assert_non_null(strstr(report.text, "falls as h^1."));
        tg_release(k.ids);
        tg_release(k.targets);
        tg_gpt_free(model);
        tg_params_free(own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_attention, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention_in_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention_in_proj_with_norms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention_in_both_directions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention_in_proj, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention_in_proj_causal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deberta_in_proj, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deberta_separate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_feed_forward, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_swiglu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_biases_of_feed_forward, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_block_with_norms_after, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kinds_of_norm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rmsnorm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt_elementary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt_tied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt_tied_elementary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_taylor_of_a_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_inputs, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
