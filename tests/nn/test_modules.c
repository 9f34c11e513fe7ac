/* Modules: PyTorch's names and initial values, results, errors, a `_make` that fails adds no parameter, and a training
 * step with failing allocations. */
#include "support.h"

#include <stdio.h>
#include <string.h>

static tg_run *run;
static tg_params *params;
static tg_tape *tape;

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(123);
    params = tg_params_new(run, TG_F64);
    tape = tg_tape_new(run, NULL);
    return params && tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_params_free(params);
    tg_run_free(run);
    return 0;
}

/* The course prints these weights: seed 123, Linear(4, 5) without a bias. */
static void test_linear_is_torchs(void **state)
{
    (void)state;
    tg_params *single = tg_params_new(run, TG_F32);
    tg_rng_seed(tg_run_rng(run), 123);
    tg_nn_linear linear = tg_nn_linear_make(single, "linear", 4, 5, TG_NO_BIAS);
    assert_null(linear.bias);
    assert_int_equal(tg_params_count(single), 1);
    assert_values(linear.weight,
                  (double[]){-0.2039, 0.0166, -0.2483, 0.1886,  -0.4260, 0.3665,  -0.3634, -0.3975, -0.3159, 0.2264,
                             -0.1847, 0.1871, -0.4244, -0.3034, -0.1836, -0.0983, -0.3814, 0.3274,  -0.1179, 0.1605},
                  20, 0, 0.5e-4);
    assert_string_equal(tg_params_at(single, 0).name, "linear.weight");
    tg_params_free(single);
}

static void test_linear_computes_a_product_and_a_sum(void **state)
{
    (void)state;
    tg_nn_linear linear = tg_nn_linear_make(params, "l", 2, 3, TG_BIAS);
    tg_tensor_fill_from(linear.weight, (double[]){1, 2, 3, 4, 5, 6}, NULL);
    tg_tensor_fill_from(linear.bias, (double[]){10, 20, 30}, NULL);
    tg_tensor *x = tensor_f64(TG_SHAPE(1, 2), (double[]){1, -1});
    assert_values(tg_nn_linear_forward(tape, &linear, x), (double[]){9, 19, 29}, 3, 0, 0);
    tg_release(x);
}

static void test_embedding_options(void **state)
{
    (void)state;
    tg_nn_embedding_config config = tg_nn_embedding_config_default();
    config.padding_index = -1;
    tg_nn_embedding padded = tg_nn_embedding_make(params, "padded", 4, 2, &config);
    assert_true(tg_tensor_value_at(padded.weight, 6) == 0 && tg_tensor_value_at(padded.weight, 7) == 0);
    assert_true(tg_tensor_value_at(padded.weight, 5) != 0);
    tg_tensor *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){3, 0, 3});
    tg_tensor *y = tg_nn_embedding_forward(tape, &padded, ids);
    assert_true(tg_backward(tape, tg_sum(tape, tg_mul(tape, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_int_equal(tg_tensor_grad_rows(padded.weight).count, 1);
    assert_int_equal(tg_tensor_grad_rows(padded.weight).ids[0], 0);

    tg_tensor *table = tensor_f64(TG_SHAPE(4, 2), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    config = tg_nn_embedding_config_default();
    config.from = table;
    config.frozen = true;
    uint64_t position = tg_rng_position(tg_run_rng(run));
    tg_nn_embedding given = tg_nn_embedding_make(params, "given", 4, 2, &config);
    assert_ptr_equal(given.weight, table);
    assert_false(tg_tensor_requires_grad(given.weight));
    assert_int_equal(tg_rng_position(tg_run_rng(run)), position);

    config.padding_index = 4;
    assert_null(tg_nn_embedding_make(params, "wrong", 4, 2, &config).weight);
    assert_params_error(params, TG_ERROR_RANGE, "nn_embedding_make: 'wrong' has padding_index 4, outside [-4,4)");
    config.padding_index = TG_NO_PADDING;
    assert_null(tg_nn_embedding_make(params, "wrong", 5, 2, &config).weight);
    assert_params_error(params, TG_ERROR_SHAPE, "table of shape (4,2); it must be (5,2)");
    tg_nn_embedding broken = tg_nn_embedding_make(params, "wrong", 0, 2, NULL);
    assert_int_equal(tg_params_error(params)->code, TG_ERROR_SHAPE);
    assert_null(tg_nn_embedding_forward(tape, &broken, ids));
    assert_tape_error(tape, TG_ERROR_SHAPE, "'wrong' has 0 rows of width 2");
    assert_null(tg_nn_embedding_make(params, "given", 4, 2, NULL).weight);
    assert_params_error(params, TG_ERROR_VALUE, "'given.weight' is in use");
    char long_name[301];
    memset(long_name, 'n', 300);
    long_name[300] = '\0';
    assert_null(tg_nn_embedding_make(params, long_name, 4, 2, NULL).weight);
    assert_params_error(params, TG_ERROR_VALUE, "nnnn...' has 307 characters; it must have at most 255");
    assert_int_equal(tg_params_count(params), 2);
    tg_release(ids);
    tg_release(table);
}

static void test_positions(void **state)
{
    (void)state;
    tg_nn_positional learned = tg_nn_positional_make(params, "learned", TG_POSITION_LEARNED, 5, 2, NULL);
    tg_nn_positional waves = tg_nn_positional_make(params, "waves", TG_POSITION_SINUSOIDAL, 5, 4, NULL);
    /* sin and cos of p and of p / 100: Vaswani et al. 2017 */
    assert_values(waves.weight,
                  (double[]){0,
                             1,
                             0,
                             1,
                             0.8414709848078965,
                             0.5403023058681398,
                             0.009999833334166664,
                             0.9999500004166653,
                             0.9092974268256817,
                             -0.4161468365471424,
                             0.01999866669333308,
                             0.9998000066665778,
                             0.1411200080598672,
                             -0.9899924966004454,
                             0.02999550020249566,
                             0.9995500337489875,
                             -0.7568024953079282,
                             -0.6536436208636119,
                             0.03998933418663416,
                             0.9992001066609779},
                  20, 1e-15, 1e-15);
    assert_false(tg_tensor_requires_grad(waves.weight));

    tg_tensor *x = leaf(tg_tensor_new(TG_F64, TG_SHAPE(3, 2, 2), NULL));
    tg_tensor *y = tg_nn_positional_forward(tape, &learned, x, 3);
    for (int i = 0; i < 12; i++) {
        assert_true(tg_tensor_value_at(y, i) == tg_tensor_value_at(learned.weight, 6 + i % 4));
    }
    assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    /* summed over the batch of 3 */
    tg_tensor *gradient = tg_tensor_new_dense_grad(learned.weight, NULL);
    assert_values(gradient, (double[]){0, 0, 0, 0, 0, 0, 3, 3, 3, 3}, 10, 0, 0);
    tg_release(gradient);

    assert_null(tg_nn_positional_forward(tape, &learned, x, 4));
    assert_tape_error(tape, TG_ERROR_RANGE, "nn_positional_forward: 2 positions from 4 on; the context is 5");
    assert_null(tg_nn_positional_forward(tape, &learned, x, -1));
    assert_tape_error(tape, TG_ERROR_RANGE, "from -1 on");
    assert_null(tg_nn_positional_forward(tape, &waves, x, 0));
    assert_tape_error(tape, TG_ERROR_SHAPE, "(3,2,2); it must be (..,T,4)");
    tg_nn_positional_make(params, "unknown", (tg_position)77, 5, 2, NULL);
    assert_params_error(params, TG_ERROR_VALUE, "'unknown' has kind 77, which does not exist");
    tg_release(x);
}

static void test_layernorm(void **state)
{
    (void)state;
    tg_nn_layer_norm norm = tg_nn_layer_norm_make(params, "norm", 2, NULL);
    tg_tensor *x = tensor_f64(TG_SHAPE(1, 2), (double[]){1, 3});
    /* 1 / sqrt(1 + 1e-5) */
    double n = 1 / 1.0000049999875001;
    assert_values(tg_nn_layer_norm_forward(tape, &norm, x), (double[]){-n, n}, 2, 1e-12, 0);
    assert_string_equal(tg_params_at(params, 1).name, "norm.bias");
    tg_nn_layer_norm_config config = tg_nn_layer_norm_config_default();
    assert_true(config.eps == 1e-5 && norm.eps == 1e-5);
    config.eps = 0;
    tg_nn_layer_norm_make(params, "bad", 2, &config);
    assert_params_error(params, TG_ERROR_VALUE, "nn_layer_norm_make: 'bad' has width 2 and eps 0;");
    tg_release(x);
}

/* The default eps is the machine epsilon of the params' dtype. */
static void test_rms_norm(void **state)
{
    (void)state;
    tg_params *single = tg_params_new(NULL, TG_F32);
    assert_true(tg_nn_rms_norm_config_default().eps == TG_EPS_OF_DTYPE);
    assert_true(tg_nn_rms_norm_make(single, "norm", 2, NULL).eps == 0x1p-23);
    tg_nn_rms_norm norm = tg_nn_rms_norm_make(params, "norm", 2, NULL);
    assert_true(norm.eps == 0x1p-52);
    tg_nn_rms_norm_config config = tg_nn_rms_norm_config_default();
    config.eps = 0.25;
    tg_nn_rms_norm other = tg_nn_rms_norm_make(params, "other", 2, &config);
    tg_tensor *x = tensor_f64(TG_SHAPE(1, 2), (double[]){1, -1});
    assert_values(tg_nn_rms_norm_forward(tape, &norm, x), (double[]){1, -1}, 2, 1e-15, 0);
    /* 1 / sqrt(1 + 0.25) */
    double n = 1 / 1.118033988749895;
    assert_values(tg_nn_rms_norm_forward(tape, &other, x), (double[]){n, -n}, 2, 1e-14, 0);
    assert_string_equal(tg_params_at(params, 0).name, "norm.weight");
    tg_release(x);
    tg_params_free(single);
}

/* ---- a `_make` adds everything or nothing ---- */

/* Creates one module. Returns false on failure. */
typedef bool maker(tg_params *in, const char *name);

static bool make_linear(tg_params *in, const char *name)
{
    return tg_nn_linear_make(in, name, 3, 4, TG_BIAS).module.is_made;
}

static bool make_padded_embedding(tg_params *in, const char *name)
{
    tg_nn_embedding_config config = tg_nn_embedding_config_default();
    config.padding_index = 1;
    return tg_nn_embedding_make(in, name, 3, 5, &config).module.is_made;
}

static bool make_padded_bag(tg_params *in, const char *name)
{
    tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
    config.padding_index = 1;
    return tg_nn_embedding_bag_make(in, name, 3, 5, &config).module.is_made;
}

static bool make_shaw(tg_params *in, const char *name)
{
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = 2;
    return tg_nn_positional_make(in, name, TG_POSITION_SHAW, 8, 6, &config).module.is_made;
}

static bool make_transformer_xl(tg_params *in, const char *name)
{
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = 2;
    return tg_nn_positional_make(in, name, TG_POSITION_TRANSFORMER_XL, 8, 6, &config).module.is_made;
}

static bool make_deberta(tg_params *in, const char *name)
{
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = 2;
    return tg_nn_positional_make(in, name, TG_POSITION_DEBERTA, 8, 6, &config).module.is_made;
}

static bool make_in_proj(tg_params *in, const char *name)
{
    return tg_nn_multihead_attention_make(in, name, 6, 6, 2, NULL).module.is_made;
}

static bool make_separate(tg_params *in, const char *name)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = TG_ATTENTION_SEPARATE;
    return tg_nn_multihead_attention_make(in, name, 3, 6, 2, &config).module.is_made;
}

static bool make_swiglu(tg_params *in, const char *name)
{
    return tg_nn_feed_forward_make(in, name, 3, 5, TG_FEED_FORWARD_SWIGLU, NULL).module.is_made;
}

static bool make_block(tg_params *in, const char *name)
{
    return tg_nn_transformer_block_make(in, name, 6, 2, NULL).module.is_made;
}

static bool make_gpt(tg_params *in, tg_position position, bool is_tied)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 5;
    config.context = 4;
    config.width = 6;
    config.heads = 2;
    config.layers = 2;
    config.tied_head = is_tied;
    config.position = position;
    tg_gpt *model = tg_gpt_new(in, &config);
    tg_gpt_free(model);
    return model != NULL;
}

static bool make_untied_gpt(tg_params *in, const char *name)
{
    (void)name;
    return make_gpt(in, TG_POSITION_LEARNED, false);
}

static bool make_tied_gpt(tg_params *in, const char *name)
{
    (void)name;
    return make_gpt(in, TG_POSITION_SHAW, true);
}

static const struct {
    maker *make;
    /* the name is not used */
    bool has_own_names;
} makers[] = {{make_linear, false},  {make_padded_embedding, false}, {make_padded_bag, false},
              {make_shaw, false},    {make_transformer_xl, false},   {make_deberta, false},
              {make_in_proj, false}, {make_separate, false},         {make_swiglu, false},
              {make_block, false},   {make_untied_gpt, true},        {make_tied_gpt, true}};

#define MAKERS (sizeof makers / sizeof makers[0])

/* A generator in the middle of its stream, with a cached normal value. */
static tg_run *started(void)
{
    tg_run *started = tg_run_new(9);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(3), NULL);
    assert_true(tg_tensor_fill_normal(x, tg_run_rng(started), 0, 1, NULL));
    tg_release(x);
    return started;
}

static void assert_unmoved(const tg_rng *moved)
{
    uint8_t before[TG_RNG_TORCH_STATE_SIZE], after[TG_RNG_TORCH_STATE_SIZE];
    tg_run *fresh = started();
    assert_true(tg_rng_position(moved) == tg_rng_position(tg_run_rng(fresh)));
    assert_true(tg_rng_save_torch_state(tg_run_rng(fresh), before, NULL) &&
                tg_rng_save_torch_state(moved, after, NULL));
    assert_memory_equal(before, after, sizeof before);
    tg_run_free(fresh);
}

/* Each name of the module in turn is in use. Afterwards the module under another name has the draws of a first one. */
static void test_make_with_a_name_in_use(void **state)
{
    (void)state;
    for (size_t m = 0; m < MAKERS; m++) {
        tg_run *first = started();
        tg_params *made = tg_params_new(first, TG_F64);
        assert_true(makers[m].make(made, "m"));
        for (int64_t k = 0; k < tg_params_count(made); k++) {
            tg_run *own = started();
            tg_params *used = tg_params_new(own, TG_F64);
            const char *name = tg_params_at(made, k).name;
            tg_tensor *user = tg_params_add(used, name, TG_SHAPE(1));
            char text[200];
            snprintf(text, sizeof text, "params: the name '%s' is in use", name);
            for (int again = 0; again < 2; again++) {
                assert_false(makers[m].make(used, "m"));
                assert_string_equal(tg_params_error(used)->text, text);
                assert_int_equal(tg_params_count(used), 1);
                assert_ptr_equal(tg_params_at(used, 0).tensor, user);
                assert_unmoved(tg_run_rng(own));
            }
            assert_params_error(used, TG_ERROR_VALUE, text);
            if (!makers[m].has_own_names) {
                assert_true(makers[m].make(used, "n"));
                assert_int_equal(tg_params_count(used), tg_params_count(made) + 1);
                for (int64_t i = 0; i < tg_params_count(made); i++) {
                    tg_tensor *a = tg_params_at(made, i).tensor, *b = tg_params_at(used, i + 1).tensor;
                    assert_true(tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b)));
                    assert_memory_equal(tg_tensor_data(a), tg_tensor_data(b),
                                        (size_t)tg_tensor_count(a) * sizeof(double));
                }
                assert_true(tg_rng_position(tg_run_rng(own)) == tg_rng_position(tg_run_rng(first)));
            }
            tg_params_free(used);
            tg_run_free(own);
        }
        tg_params_free(made);
        tg_run_free(first);
    }
}

static void test_make_without_a_generator(void **state)
{
    (void)state;
    for (size_t m = 0; m < MAKERS; m++) {
        tg_params *dry = tg_params_new(NULL, TG_F32);
        assert_false(makers[m].make(dry, "m"));
        assert_int_equal(tg_params_count(dry), 0);
        assert_params_error(dry, TG_ERROR_STATE, "needs a generator");
        tg_params_free(dry);
        assert_false(makers[m].make(NULL, "m"));
    }
    tg_nn_linear none = tg_nn_linear_make(NULL, "l", 2, 2, TG_BIAS);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 2), NULL);
    assert_null(tg_nn_linear_forward(tape, &none, x));
    assert_tape_error(tape, TG_ERROR_STATE, "nn_linear_forward: the module is NULL, or was not made");
    assert_null(tg_nn_linear_forward(tape, NULL, x));
    assert_tape_error(tape, TG_ERROR_STATE, "nn_linear_forward: the module is NULL, or was not made");
    tg_release(x);
}

/* Allocation k fails, or all from the k-th on. */
static void test_make_without_memory(void **state)
{
    (void)state;
    for (size_t m = 0; m < MAKERS; m++) {
        for (int on = 0; on < 2; on++) {
            bool finished = false;
            for (size_t k = 1; !finished; k++) {
                counting_allocator counting;
                allocator_install(&counting);
                tg_run *own = started();
                tg_params *tight = tg_params_new(own, TG_F64);
                allocator_arm(&counting, k, on);
                finished = makers[m].make(tight, "m");
                allocator_arm(&counting, 0, false);
                if (!finished) {
                    assert_int_equal(tg_params_count(tight), 0);
                    assert_unmoved(tg_run_rng(own));
                    assert_params_error(tight, TG_ERROR_MEMORY, "memory");
                }
                tg_params_free(tight);
                tg_run_free(own);
                assert_int_equal(counting.live, 0);
                allocator_restore();
            }
        }
    }
}

/* A table that was given is what it was. */
static void test_make_of_a_table_without_memory(void **state)
{
    (void)state;
    for (int bags = 0; bags < 2; bags++) {
        bool finished = false;
        for (size_t k = 1; !finished; k++) {
            counting_allocator counting;
            allocator_install(&counting);
            tg_params *tight = tg_params_new(NULL, TG_F64);
            tg_tensor *table = tg_tensor_new_full(TG_F64, TG_SHAPE(4, 2), 3, NULL);
            tg_nn_embedding_config config = tg_nn_embedding_config_default();
            tg_nn_embedding_bag_config bag = tg_nn_embedding_bag_config_default();
            config.from = bag.from = table;
            config.padding_index = bag.padding_index = 2;
            allocator_arm(&counting, k, false);
            finished = bags ? tg_nn_embedding_bag_make(tight, "e", 4, 2, &bag).module.is_made
                            : tg_nn_embedding_make(tight, "e", 4, 2, &config).module.is_made;
            allocator_arm(&counting, 0, false);
            assert_true(tg_tensor_requires_grad(table) == finished);
            assert_true(tg_tensor_row_is_frozen(table, 2) == finished);
            assert_int_equal(tg_params_count(tight), finished);
            assert_true(tg_tensor_value_at(table, 4) == 3);
            tg_params_free(tight);
            tg_release(table);
            assert_int_equal(counting.live, 0);
            allocator_restore();
        }
    }
}

/* ---- a whole training step, with allocation k failing ---- */

typedef struct training {
    tg_run *run;
    tg_rng *saved;
    tg_params *params;
    tg_tape *tape;
    tg_nn_embedding token;
    tg_nn_positional position;
    tg_nn_linear head;
    tg_nn_layer_norm norm;
    tg_optim *adam;
    tg_tensor *ids, *targets;
} training;

static void training_make(training *m)
{
    m->run = tg_run_new(5);
    m->saved = tg_rng_new(5);
    m->params = tg_params_new(m->run, TG_F32);
    m->token = tg_nn_embedding_make(m->params, "tok_emb", 20, 6, NULL);
    m->position = tg_nn_positional_make(m->params, "pos_emb", TG_POSITION_LEARNED, 4, 6, NULL);
    m->norm = tg_nn_layer_norm_make(m->params, "norm", 6, NULL);
    m->head = tg_nn_linear_make(m->params, "head", 6, 20, TG_BIAS);
    m->adam = tg_adamw_new(m->params, NULL);
    m->tape = tg_tape_new(m->run, NULL);
    m->ids = tensor_i32(TG_SHAPE(2, 4), (int32_t[]){1, 2, 3, 1, 7, 7, 0, 19});
    m->targets = tensor_i32(TG_SHAPE(2, 4), (int32_t[]){2, 3, 1, 7, 7, 0, 19, 4});
    tg_rng_copy(m->saved, tg_run_rng(m->run));
}

static void training_free(training *m)
{
    tg_release(m->ids);
    tg_release(m->targets);
    tg_tape_free(m->tape);
    tg_optim_free(m->adam);
    tg_params_free(m->params);
    tg_run_free(m->run);
    tg_rng_free(m->saved);
}

static bool training_step(training *m)
{
    tg_tape_reset(m->tape);
    tg_optim_zero_grad(m->adam);
    tg_tensor *x = tg_nn_embedding_forward(m->tape, &m->token, m->ids);
    x = tg_nn_positional_forward(m->tape, &m->position, x, 0);
    x = tg_dropout(m->tape, tg_nn_layer_norm_forward(m->tape, &m->norm, x), 0.2);
    x = tg_nn_linear_forward(m->tape, &m->head, tg_gelu(m->tape, x));
    tg_tensor *loss = tg_cross_entropy(m->tape, x, m->targets, NULL);
    return tg_backward(m->tape, loss, NULL) && tg_optim_step(m->adam);
}

static void copy_values(const training *m, float *out)
{
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        tg_tensor *x = tg_params_at(m->params, i).tensor;
        memcpy(out, tg_tensor_data(x), (size_t)tg_tensor_count(x) * sizeof *out);
        out += tg_tensor_count(x);
    }
}

static void test_step_without_memory(void **state)
{
    (void)state;
    training m;
    float before[400], expected[400], values[400];
    training_make(&m);
    assert_true(tg_params_value_count(m.params) == 296);
    copy_values(&m, before);
    assert_true(training_step(&m));
    copy_values(&m, expected);
    training_free(&m);
    assert_memory_not_equal(before, expected, 296 * sizeof(float));

    /* one allocation fails, or all from the k-th on */
    for (int on = 0; on < 2; on++) {
        bool finished = false;
        for (size_t k = 1; !finished; k++) {
            counting_allocator counting;
            allocator_install(&counting);
            training_make(&m);
            allocator_arm(&counting, k, on);
            finished = training_step(&m);
            allocator_arm(&counting, 0, false);
            if (!finished) {
                assert_int_equal(tg_tape_error(m.tape)->code, TG_ERROR_MEMORY);
                copy_values(&m, values);
                assert_memory_equal(values, before, 296 * sizeof(float));
                clear_tape_error(m.tape);
                tg_rng_copy(tg_run_rng(m.run), m.saved);
                assert_true(training_step(&m));
            }
            copy_values(&m, values);
            assert_memory_equal(values, expected, 296 * sizeof(float));
            training_free(&m);
            assert_int_equal(counting.live, 0);
            allocator_restore();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_linear_is_torchs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_linear_computes_a_product_and_a_sum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_embedding_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_positions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layernorm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rms_norm, set_up, tear_down),
        cmocka_unit_test(test_make_with_a_name_in_use),
        cmocka_unit_test_setup_teardown(test_make_without_a_generator, set_up, tear_down),
        cmocka_unit_test(test_make_without_memory),
        cmocka_unit_test(test_make_of_a_table_without_memory),
        cmocka_unit_test(test_step_without_memory),
    };
    return cmocka_run_group_tests_name("modules", tests, NULL, NULL);
}
