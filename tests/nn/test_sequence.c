/* Convolutions, pooling and recurrent layers against torch (make_sequence.py), and their errors. */
#include "ops/goldens.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tg_tensor *conv1d(tg_tape *t, tg_tensor **in, tg_tensor *bias, const double *options)
{
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = (int64_t)options[0];
    config.padding = (int64_t)options[1];
    config.dilation = (int64_t)options[2];
    config.groups = (int64_t)options[3];
    return tg_conv1d(t, in[0], in[1], bias, &config);
}

static tg_tensor *conv1d_plain(tg_tape *t, tg_tensor **in, const double *options)
{
    return conv1d(t, in, NULL, options);
}

static tg_tensor *conv1d_bias(tg_tape *t, tg_tensor **in, const double *options)
{
    return conv1d(t, in, in[2], options);
}

static tg_pool1d_config pool_config(const double *options)
{
    tg_pool1d_config config = tg_pool1d_config_default();
    config.stride = (int64_t)options[1];
    config.padding = (int64_t)options[2];
    config.dilation = (int64_t)options[3];
    return config;
}

static tg_tensor *max_pool1d(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_pool1d_config config = pool_config(options);
    return tg_max_pool1d(t, in[0], (int64_t)options[0], &config);
}

static tg_tensor *avg_pool1d(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_pool1d_config config = pool_config(options);
    return tg_avg_pool1d(t, in[0], (int64_t)options[0], &config);
}

static const golden_call calls[] = {
    {"conv1d", conv1d_plain},
    {"conv1d_bias", conv1d_bias},
    {"max_pool1d", max_pool1d},
    {"avg_pool1d", avg_pool1d},
};

static void test_convolutions_are_torchs(void **state)
{
    (void)state;
    int cases = check_goldens_with_options(TG_TEST_GOLDENS "/conv.txt", calls, 4, 5e-13, 5e-6);
    assert_int_equal(cases, 57);
}

/* ---- recurrent layers: 50 steps beside torch ---- */

static double next_number(FILE *goldens)
{
    double value;
    assert_int_equal(fscanf(goldens, "%lf", &value), 1);
    return value;
}

typedef struct net {
    bool is_lstm;
    tg_nn_gru gru;
    tg_nn_lstm lstm;
    tg_tensor *x, *target, *mask;
} net;

static tg_tensor *loss_of(tg_tape *t, const net *n)
{
    tg_nn_recurrent_forward_config config = tg_nn_recurrent_forward_config_default();
    tg_tensor *state, *cell = NULL;
    config.mask = n->mask;
    tg_tensor *y = n->is_lstm ? tg_nn_lstm_forward(t, &n->lstm, n->x, &state, &cell, &config)
                              : tg_nn_gru_forward(t, &n->gru, n->x, &state, &config);
    tg_tensor *loss = tg_mse_loss(t, y, n->target, TG_REDUCTION_MEAN);
    loss = tg_add(t, loss, tg_sum(t, tg_mul(t, state, state), TG_ALL_AXES, TG_DROP_AXES));
    return cell ? tg_add(t, loss, tg_sum(t, tg_mul(t, cell, cell), TG_ALL_AXES, TG_DROP_AXES)) : loss;
}

static void train(FILE *goldens, int kind)
{
    tg_run *run = tg_run_new((uint64_t)next_number(goldens));
    int64_t in = (int64_t)next_number(goldens), width = (int64_t)next_number(goldens);
    tg_nn_recurrent_config config = tg_nn_recurrent_config_default();
    config.layers = (int)next_number(goldens);
    config.bidirectional = next_number(goldens) != 0;
    config.bias = next_number(goldens) != 0;
    bool masked = next_number(goldens) != 0;
    config.dropout = next_number(goldens);
    tg_params *params = tg_params_new(run, TG_F64);
    net n = {.is_lstm = kind == 1};
    if (n.is_lstm) {
        n.lstm = tg_nn_lstm_make(params, "net", in, width, &config);
    } else {
        n.gru = tg_nn_gru_make(params, "net", in, width, &config);
    }
    n.x = tg_tensor_new(TG_F64, TG_SHAPE(3, 4, in), NULL);
    n.target = tg_tensor_new(TG_F64, TG_SHAPE(3, 4, width * (1 + config.bidirectional)), NULL);
    assert_true(tg_tensor_fill_normal(n.x, tg_run_rng(run), 0, 1, NULL) &&
                tg_tensor_fill_normal(n.target, tg_run_rng(run), 0, 1, NULL));
    const uint8_t mask[] = {1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0}; /* lengths 4, 1 and 3 */
    n.mask = masked ? tg_tensor_new_from(TG_U8, TG_SHAPE(3, 4), mask, NULL) : NULL;
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.01;
    tg_optim *optim = tg_adam_new(params, &adam);
    tg_tape *t = tg_tape_new(run, NULL);
    for (int step = 0; step < 50; step++) {
        tg_tape_reset(t);
        tg_tensor *loss = loss_of(t, &n);
        tg_optim_zero_grad(optim);
        if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
            fail_msg("%s", tg_tape_error(t)->text);
        }
        double expected = next_number(goldens), found = tg_tensor_item(loss, NULL);
        if (!(fabs(found - expected) <= 1e-11 * (1 + fabs(expected)))) {
            fail_msg("kind %d, step %d: the loss is %.17g, torch's %.17g", kind, step, found, expected);
        }
    }
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *p = tg_params_at(params, i).tensor;
        double squares = 0, expected = next_number(goldens);
        for (int64_t k = 0; k < tg_tensor_count(p); k++) {
            squares += tg_tensor_value_at(p, k) * tg_tensor_value_at(p, k);
        }
        assert_true(fabs(squares - expected) <= 1e-11 * (1 + expected));
    }
    tg_tape_free(t);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_release(n.x);
    tg_release(n.target);
    tg_release(n.mask);
    tg_run_free(run);
}

static void test_training_is_torchs(void **state)
{
    (void)state;
    FILE *goldens = fopen(TG_TEST_GOLDENS "/recurrent.txt", "r");
    assert_non_null(goldens);
    int kind, cases = 0;
    for (; fscanf(goldens, "%d", &kind) == 1; cases++) {
        train(goldens, kind);
    }
    fclose(goldens);
    assert_int_equal(cases, 16);
}

/* The names of PyTorch; and two halves of a sequence, with the state of the first passed to the second, give the
 * results of the whole. */
static void test_states_continue(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(4);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_nn_recurrent_config config = tg_nn_recurrent_config_default();
    config.layers = 2;
    tg_nn_lstm lstm = tg_nn_lstm_make(params, "lstm", 2, 3, &config);
    assert_string_equal(tg_params_at(params, 0).name, "lstm.weight_ih_l0");
    assert_string_equal(tg_params_at(params, 7).name, "lstm.bias_hh_l1");
    config.bidirectional = true;
    tg_nn_gru gru = tg_nn_gru_make(params, "gru", 2, 3, &config);
    assert_true(gru.module.is_made);
    assert_string_equal(tg_params_at(params, 8 + 12).name, "gru.weight_ih_l1_reverse");
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(2, 6, 2), NULL), *ends[4], *whole[2];
    assert_true(tg_tensor_fill_normal(x, tg_run_rng(run), 0, 1, NULL));
    tg_tensor *y = tg_nn_lstm_forward(t, &lstm, x, &whole[0], &whole[1], NULL);
    tg_nn_recurrent_forward_config forward = tg_nn_recurrent_forward_config_default();
    tg_nn_lstm_forward(t, &lstm, tg_slice(t, x, 1, 0, 3, 1), &ends[0], &ends[1], NULL);
    forward.state = ends[0];
    forward.cell = ends[1];
    tg_tensor *second = tg_nn_lstm_forward(t, &lstm, tg_slice(t, x, 1, 3, 6, 1), &ends[2], &ends[3], &forward);
    tg_tensor *gaps[] = {tg_sub(t, tg_slice(t, y, 1, 3, 6, 1), second), tg_sub(t, whole[0], ends[2]),
                         tg_sub(t, whole[1], ends[3])};
    for (int i = 0; i < 3; i++) {
        assert_non_null(gaps[i]);
        assert_true(tg_tensor_item(tg_norm(t, gaps[i], INFINITY, TG_ALL_AXES, TG_DROP_AXES), NULL) < 1e-15);
    }
    tg_release(x);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}

static void test_errors(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(4);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_nn_recurrent_config config = tg_nn_recurrent_config_default();
    config.layers = 9;
    assert_false(tg_nn_gru_make(params, "gru", 2, 3, &config).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE,
                        "nn_gru_make: 'gru' has 2 inputs, width 3 and 9 layers; all must be at least 1, and the layers "
                        "at most 8");
    tg_nn_recurrent_config dropping = tg_nn_recurrent_config_default();
    dropping.dropout = 1.5;
    assert_false(tg_nn_gru_make(params, "gru", 2, 3, &dropping).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "nn_gru_make: 'gru' has dropout 1.5, outside [0,1]");
    assert_false(tg_nn_lstm_make(params, "lstm", 0, 3, NULL).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "nn_lstm_make: 'lstm' has 0 inputs");
    assert_int_equal(tg_params_count(params), 0);
    tg_nn_gru gru = tg_nn_gru_make(params, "gru", 2, 3, NULL);
    tg_nn_recurrent_forward_config forward = tg_nn_recurrent_forward_config_default();
    tg_tensor *x = tg_full(t, TG_F32, TG_SHAPE(2, 4, 2), 1), *final = x;
    assert_null(tg_nn_gru_forward(t, &gru, tg_full(t, TG_F32, TG_SHAPE(2, 4, 3), 1), &final, NULL));
    assert_ptr_equal(final, x);
    assert_tape_error(t, TG_ERROR_SHAPE, "nn_gru_forward: the input has shape (2,4,3); it must be (B,T,2) with T >= 1");
    assert_null(tg_nn_gru_forward(t, &gru, NULL, NULL, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "nn_gru_forward: argument 'x' is NULL");
    forward.mask = tg_full(t, TG_U8, TG_SHAPE(2, 3), 1);
    assert_null(tg_nn_gru_forward(t, &gru, x, NULL, &forward));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      "nn_gru_forward: the mask is u8 (2,3) for an input (2,4,2); it must be u8 (B,T)");
    forward.mask = NULL;
    forward.state = x;
    assert_null(tg_nn_gru_forward(t, &gru, x, NULL, &forward));
    assert_tape_error(t, TG_ERROR_SHAPE, "nn_gru_forward: the state is f32 (2,4,2); it must be f32 (1,2,3)");
    forward.state = tg_full(t, TG_I32, TG_SHAPE(1, 2, 3), 1);
    assert_null(tg_nn_gru_forward(t, &gru, x, NULL, &forward));
    assert_tape_error(t, TG_ERROR_SHAPE, "nn_gru_forward: the state is i32 (1,2,3); it must be f32 (1,2,3)");
    tg_nn_lstm lstm = tg_nn_lstm_make(params, "lstm", 2, 3, NULL);
    forward.state = NULL;
    forward.cell = tg_full(t, TG_F32, TG_SHAPE(1, 2, 3), 1);
    assert_null(tg_nn_gru_forward(t, &gru, x, &final, &forward));
    assert_tape_error(t, TG_ERROR_VALUE, "nn_gru_forward: a cell is given; a GRU has none, so it must be NULL");
    assert_ptr_equal(final, x);
    forward.cell = tg_full(t, TG_F64, TG_SHAPE(1, 2, 3), 1);
    assert_null(tg_nn_lstm_forward(t, &lstm, x, NULL, NULL, &forward));
    assert_tape_error(t, TG_ERROR_SHAPE, "nn_lstm_forward: the cell is f64 (1,2,3); it must be f32 (1,2,3)");
    /* a module that was changed, and so passes the checks of its own sizes */
    gru.recurrent.width = lstm.recurrent.width = 4;
    assert_null(tg_nn_gru_forward(t, &gru, x, NULL, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      "nn_gru_forward: the state of a layer is (2,4); it must be (B,H) = (2,3). A state that is used "
                      "after tg_tape_reset must be kept with tg_retain");
    assert_null(tg_nn_lstm_forward(t, &lstm, x, NULL, NULL, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "nn_lstm_forward: the state of a layer is (2,4); it must be (B,H) = (2,3)");
    tg_nn_conv1d_config conv = tg_nn_conv1d_config_default();
    conv.conv.groups = 2;
    assert_false(tg_nn_conv1d_make(params, "conv", 3, 4, 3, &conv).module.is_made);
    assert_params_error(params, TG_ERROR_SHAPE, "nn_conv1d_make: 'conv' has 3 inputs, 4 outputs, a kernel of 3 and 2");
    tg_tensor *w = tg_full(t, TG_F32, TG_SHAPE(5, 4, 3), 1);
    assert_null(tg_conv1d(t, x, w, NULL, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      "conv1d: a kernel of 3 with dilation 1 does not fit into 2 positions with padding 0");
    conv.conv.padding = 1;
    assert_null(tg_conv1d(t, x, w, NULL, &conv.conv));
    assert_tape_error(t, TG_ERROR_SHAPE, "conv1d: x is (2,4,2), the weight (5,4,3), no the bias and 2 the groups");
    conv.conv.stride = 0;
    assert_null(tg_conv1d(t, x, w, NULL, &conv.conv));
    assert_tape_error(t, TG_ERROR_VALUE,
                      "conv1d: stride 0, padding 1, dilation 1 and groups 2; padding must be 0 or more");
    assert_null(tg_conv1d(t, x, tg_select(t, w, 0, 0), NULL, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "conv1d: argument 'weight' has shape (4,3); it must have rank 3");
    tg_pool1d_config pool = tg_pool1d_config_default();
    assert_null(tg_max_pool1d(t, x, 3, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      "max_pool1d: a window of 3 with dilation 1 does not fit into (2,4,2) with padding 0");
    pool.padding = 2;
    assert_null(tg_max_pool1d(t, x, 3, &pool));
    assert_tape_error(t, TG_ERROR_VALUE,
                      "max_pool1d: kernel 3, stride 3, padding 2 and dilation 1; padding must be in");
    pool.padding = 0;
    pool.dilation = 2;
    assert_null(tg_avg_pool1d(t, x, 2, &pool));
    assert_tape_error(t, TG_ERROR_VALUE, "avg_pool1d: dilation 2; a mean has none, so it must be 1");
    assert_null(tg_avg_pool1d(t, tg_full(t, TG_I32, TG_SHAPE(4), 1), 2, NULL));
    assert_tape_error(t, TG_ERROR_DTYPE, "avg_pool1d: argument 'x' is i32");
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}

/* torch.manual_seed(0); torch.nn.Conv1d(2, 2, 2, dtype=torch.float64): the sums of weight and bias. */
static void test_conv1d_draws_what_torch_draws(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(0);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_nn_conv1d conv = tg_nn_conv1d_make(params, "conv", 2, 2, 2, NULL);
    double weight = tg_tensor_item(tg_sum(t, conv.weight, TG_ALL_AXES, TG_DROP_AXES), NULL);
    double bias = tg_tensor_item(tg_sum(t, conv.bias, TG_ALL_AXES, TG_DROP_AXES), NULL);
    assert_true(fabs(weight - 1.0238893053534999) < 1e-14 && fabs(bias - -0.13042318805627529) < 1e-14);
    tg_tensor *y = tg_nn_conv1d_forward(t, &conv, tg_full(t, TG_F64, TG_SHAPE(1, 2, 3), 1));
    assert_true(tg_shape_equal(tg_tensor_shape(y), TG_SHAPE(1, 2, 2)));
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions_are_torchs),
        cmocka_unit_test(test_training_is_torchs),
        cmocka_unit_test(test_states_continue),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_conv1d_draws_what_torch_draws),
    };
    return cmocka_run_group_tests_name("sequence", tests, NULL, NULL);
}
