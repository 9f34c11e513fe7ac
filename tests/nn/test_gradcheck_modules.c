/* Every module's gradients in f64 against differences, with respect to its input and to each of its parameters; and
 * those of a whole GPT. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tg_rng *rng;
static tg_params *params;

static int set_up(void **state)
{
    (void)state;
    rng = tg_rng_new(31);
    params = tg_params_new(TG_F64, rng);
    return params ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

/* tg_gradcheck hands over copies of the inputs, so a module is copied, and gets the copies for its tensors:
 * `replace_...` takes them in the order of their making. */
#define MOST 32

static void replace_linear(tg_linear *linear, tg_tensor *const **parameters)
{
    linear->weight = *(*parameters)++;
    if (linear->has_bias) {
        linear->bias = *(*parameters)++;
    }
}

static tg_tensor *const *replace_attention(tg_multi_head_attention *a, tg_tensor *const *p)
{
    replace_linear(&a->query, &p);
    replace_linear(&a->key, &p);
    replace_linear(&a->value, &p);
    replace_linear(&a->out, &p);
    return p;
}

static tg_tensor *const *replace_feed_forward(tg_feed_forward *f, tg_tensor *const *p)
{
    if (f->kind == TG_FEED_FORWARD_SWIGLU) {
        replace_linear(&f->gate, &p);
    }
    replace_linear(&f->up, &p);
    replace_linear(&f->down, &p);
    return p;
}

static tg_tensor *const *replace_norm(tg_layernorm *n, tg_tensor *const *p)
{
    n->weight = *p++;
    n->bias = *p++;
    return p;
}

static tg_tensor *call_attention(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    tg_multi_head_attention a = *(tg_multi_head_attention *)context;
    replace_attention(&a, in + 1);
    return tg_multi_head_attention_forward(t, &a, in[0]);
}

static tg_tensor *call_feed_forward(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    tg_feed_forward f = *(tg_feed_forward *)context;
    replace_feed_forward(&f, in + 1);
    return tg_feed_forward_forward(t, &f, in[0]);
}

static tg_tensor *call_block(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    tg_transformer_block b = *(tg_transformer_block *)context;
    tg_tensor *const *p = replace_feed_forward(&b.feed_forward, replace_attention(&b.attention, in + 1));
    replace_norm(&b.norm2, replace_norm(&b.norm1, p));
    return tg_transformer_block_forward(t, &b, in[0]);
}

static tg_tensor *call_rmsnorm(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    tg_rmsnorm n = *(tg_rmsnorm *)context;
    n.weight = in[1];
    return tg_rmsnorm_forward(t, &n, in[0]);
}

/* The input (2,5,width) and all parameters, in the order of their making. */
static void check(tg_gradcheck_function call, void *module, int64_t width)
{
    assert_string_equal(tg_params_error(params), "");
    tg_tensor *inputs[MOST] = {leaf(tg_tensor_new(TG_F64, TG_SHAPE(2, 5, width), NULL))};
    tg_fill_normal(inputs[0], rng, 0, 1, NULL);
    int count = 1;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        inputs[count] = tg_params_at(params, i).tensor;
        if (tg_rank(inputs[count]) == 1) { /* zeros and ones of norms and biases would hide a wrong factor */
            tg_fill_uniform(inputs[count], rng, 0.5, 1.5, NULL);
        }
        count++;
    }
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.rng = rng;
    tg_gradcheck_report report;
    bool passed = tg_gradcheck(call, module, inputs, count, &config, &report);
    tg_release(inputs[0]);
    if (!passed) {
        fail_msg("%s", report.text);
    }
    assert_true(report.compared > 100);
}

static void test_attention(void **state)
{
    (void)state;
    tg_multi_head_attention_config config = {.dropout = 0.2, .qkv_bias = TG_BIAS, .path = TG_ATTENTION_FUSED};
    tg_multi_head_attention attention = tg_multi_head_attention_make(params, "att", 3, 4, 2, &config);
    check(call_attention, &attention, 3);
    attention.config.path = TG_ATTENTION_ELEMENTARY;
    check(call_attention, &attention, 3);
}

static void test_attention_in_both_directions(void **state)
{
    (void)state;
    tg_multi_head_attention_config config = {.both_directions = true};
    tg_multi_head_attention attention = tg_multi_head_attention_make(params, "att", 4, 6, 3, &config);
    check(call_attention, &attention, 4);
    attention.config.path = TG_ATTENTION_ELEMENTARY;
    check(call_attention, &attention, 4);
}

static void test_feed_forward(void **state)
{
    (void)state;
    tg_feed_forward gelu = tg_feed_forward_make(params, "ff", 3, 5, TG_FEED_FORWARD_GELU);
    check(call_feed_forward, &gelu, 3);
}

static void test_swiglu(void **state)
{
    (void)state;
    tg_feed_forward swiglu = tg_feed_forward_make(params, "ff", 3, 5, TG_FEED_FORWARD_SWIGLU);
    assert_string_equal(tg_params_at(params, 2).name, "ff.fc3.weight");
    check(call_feed_forward, &swiglu, 3);
}

static void test_block(void **state)
{
    (void)state;
    tg_multi_head_attention_config config = {.dropout = 0.1};
    tg_transformer_block block = tg_transformer_block_make(params, "block", 4, 2, 0.1, &config);
    check(call_block, &block, 4);
    block.attention.config.path = TG_ATTENTION_ELEMENTARY;
    check(call_block, &block, 4);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    tg_rmsnorm norm = tg_rmsnorm_make(params, "norm", 11, 1e-5);
    check(call_rmsnorm, &norm, 11);
}

/* ---- a whole GPT ---- */

/* A model keeps its tensors to itself, so tg_gradcheck cannot hand it copies: differences are taken here, of the loss,
 * in every value of every parameter. */
static double loss_of(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_tensor *targets, bool backward)
{
    tg_rng_seed(rng, 17); /* dropout drops the same */
    tg_tape_reset(t);
    tg_tensor *loss = tg_cross_entropy(t, tg_gpt_forward(t, model, ids), targets);
    assert_string_equal(tg_tape_error(t), "");
    assert_true(!backward || tg_backward(t, loss));
    return tg_value_at(loss, 0);
}

static void check_gpt(const tg_gpt_config *config)
{
    const double step = 1e-5;
    tg_gpt *model = tg_gpt_new(params, config);
    assert_non_null(model);
    tg_tape *t = tg_tape_new(rng);
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 3), (int32_t[]){3, 0, 3, 1, 4, 2});
    tg_tensor *targets = tensor_i32(TG_SHAPE(2, 3), (int32_t[]){0, 3, 2, 4, 2, 1});
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *x = tg_params_at(params, i).tensor;
        if (tg_rank(x) == 1) { /* zeros and ones of norms and biases would hide a wrong factor */
            tg_fill_uniform(x, rng, 0.5, 1.5, NULL);
        }
    }
    loss_of(t, model, ids, targets, true);
    int64_t compared = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_ALIAS) {
            continue;
        }
        tg_tensor *gradient = tg_grad_new_dense(entry.tensor, NULL);
        assert_non_null(gradient);
        double largest = 0;
        for (int64_t k = 0; k < tg_count(entry.tensor); k++) {
            double *value = (double *)tg_data_mut(entry.tensor) + k, own = *value, analytic = tg_value_at(gradient, k);
            *value = own + step;
            double above = loss_of(t, model, ids, targets, false);
            *value = own - step;
            double numeric = (above - loss_of(t, model, ids, targets, false)) / (2 * step);
            *value = own;
            largest = fmax(largest, fabs(numeric));
            if (!(fabs(analytic - numeric) < 1e-8 + 1e-6 * fabs(numeric))) {
                fail_msg("%s, value %d: analytic %.12g, numeric %.12g", entry.name, (int)k, analytic, numeric);
            }
            compared++;
        }
        assert_true(largest > 1e-4 || strstr(entry.name, "W_key.bias")); /* which shifts a row's scores alike: zero */
        tg_release(gradient);
    }
    assert_int_equal(compared, tg_params_values(params));
    tg_release(ids);
    tg_release(targets);
    tg_tape_free(t);
    tg_gpt_free(model);
}

static void test_gpt(void **state)
{
    (void)state;
    check_gpt(&(tg_gpt_config){5, 4, 6, 3, 2, 0.2, TG_BIAS, false, TG_ATTENTION_FUSED, TG_POSITION_LEARNED});
}

static void test_gpt_elementary(void **state)
{
    (void)state;
    check_gpt(&(tg_gpt_config){5, 4, 6, 3, 2, 0.2, TG_BIAS, false, TG_ATTENTION_ELEMENTARY, TG_POSITION_LEARNED});
}

static void test_gpt_tied(void **state)
{
    (void)state;
    check_gpt(&(tg_gpt_config){5, 3, 4, 2, 2, 0, TG_NO_BIAS, true, TG_ATTENTION_FUSED, TG_POSITION_LEARNED});
}

static void test_gpt_tied_elementary(void **state)
{
    (void)state;
    check_gpt(&(tg_gpt_config){5, 3, 4, 2, 2, 0, TG_NO_BIAS, true, TG_ATTENTION_ELEMENTARY, TG_POSITION_LEARNED});
}

static void make_refused(int i)
{
    tg_multi_head_attention_config config = {.dropout = i == 1 ? 1.5 : (double)NAN};
    switch (i) {
    case 0: tg_multi_head_attention_make(params, "a", 4, 4, 3, NULL); break;
    case 1:
    case 2: tg_multi_head_attention_make(params, "a", 4, 4, 2, &config); break;
    case 3: tg_multi_head_attention_make(params, "a", 4, 4, 0, NULL); break;
    case 4: tg_multi_head_attention_make(params, "a", 4, 0, 1, NULL); break;
    case 5: tg_multi_head_attention_make(params, "a", 0, 4, 2, NULL); break;
    case 6: tg_multi_head_attention_make(params, NULL, 4, 4, 2, NULL); break;
    case 7: tg_feed_forward_make(params, "f", 4, 4, (tg_feed_forward_kind)7); break;
    case 8: tg_feed_forward_make(params, "f", 4, 0, TG_FEED_FORWARD_SWIGLU); break;
    case 9: tg_rmsnorm_make(params, "n", 0, 1); break;
    case 10: tg_transformer_block_make(params, "b", 4, 2, 2, NULL); break;
    default: tg_transformer_block_make(params, "b", INT64_MAX / 2, 1, 0, NULL);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    const char *texts[] = {"attention a: 3 heads do not divide a width of 4",
                           "attention a: dropout 1.5 is outside [0,1)",
                           "attention a: dropout nan is outside [0,1)",
                           "attention a: 0 heads do not divide a width of 4",
                           "attention a: 1 heads do not divide a width of 0",
                           "linear a.W_query: 0 inputs and 4 outputs; both must be at least 1",
                           "a module's name is NULL",
                           "feed_forward f: 7 is not a kind of feed-forward",
                           "linear f.fc1: 4 inputs and 0 outputs; both must be at least 1",
                           "rmsnorm n: a width of 0 and an eps of 1",
                           "block b: dropout 2 is outside [0,1]",
                           "block b: a width of 4611686018427387903 is outside [1,2305843009213693951]"};
    for (int i = 0; i < 12; i++) {
        make_refused(i);
        if (strncmp(tg_params_error(params), texts[i], strlen(texts[i])) != 0) {
            fail_msg("expected \"%s\", found \"%s\"", texts[i], tg_params_error(params));
        }
        assert_int_equal(tg_params_count(params), 0);
        tg_params_clear_error(params);
    }
}

/* Inputs that do not fit, and a module that could not be made: an error of the tape. */
static void test_refuses_inputs(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(rng);
    tg_multi_head_attention attention = tg_multi_head_attention_make(params, "att", 4, 4, 2, NULL);
    tg_tensor *flat = tg_tensor_new(TG_F64, TG_SHAPE(3, 4), NULL),
              *wide = tg_tensor_new(TG_F64, TG_SHAPE(1, 3, 5), NULL);
    assert_null(tg_multi_head_attention_forward(t, &attention, flat));
    assert_tape_error(t, TG_ERROR_SHAPE, "attention: the input has shape (3,4); it must be (B,T,C)");
    assert_null(tg_multi_head_attention_forward(t, &attention, wide));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear: x is (1,3,5), the weight (4,4)");
    assert_null(tg_multi_head_attention_forward(t, &attention, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "linear: input 0 is NULL");
    tg_multi_head_attention unmade = tg_multi_head_attention_make(params, "odd", 4, 4, 3, NULL);
    assert_null(tg_multi_head_attention_forward(t, &unmade, wide));
    assert_tape_error(t, TG_ERROR_VALUE, "linear: attention odd: 3 heads do not divide a width of 4");
    tg_params_clear_error(params);
    assert_null(tg_multi_head_attention_forward(t, &unmade, wide));
    assert_tape_error(t, TG_ERROR_STATE, "linear: the module was not made");
    tg_release(flat);
    tg_release(wide);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_attention, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention_in_both_directions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_feed_forward, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_swiglu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rmsnorm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt_elementary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt_tied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpt_tied_elementary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_inputs, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
