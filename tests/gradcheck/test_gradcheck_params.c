/* tg_gradcheck_params: gradients with respect to named parameters; the parameters keep their values, their gradients
 * and the history of their tapes. */
#include "support.h"

#include <string.h>

static tg_run *run;
static tg_params *params;

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(5);
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

static tg_tensor *ramp(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    tg_tensor *slope = tg_params_find(context, "slope"), *bend = tg_params_find(context, "bend");
    return tg_tanh(t, tg_add(t, tg_mul(t, in[0], slope), tg_mul(t, bend, bend)));
}

/* y = bend x, whose gradient of bend is too large by a factor of 1.5: a part of the product is hidden from backward */
static tg_tensor *wrong(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    tg_tensor *bend = tg_params_find(context, "bend");
    tg_tensor *hidden = tg_constant(t, TG_F64, tg_tensor_shape(bend), tg_tensor_data(bend));
    return tg_mul(t, in[0], tg_sub(t, tg_mul_scalar(t, bend, 1.5), tg_mul_scalar(t, hidden, 0.5)));
}

static tg_tensor *add_ramp(void)
{
    tg_params_add_normal(params, "slope", TG_SHAPE(3), 0, 1);
    tg_params_add_normal(params, "bend", TG_SHAPE(3), 0, 1);
    tg_tensor *x = leaf(tg_tensor_new(TG_F64, TG_SHAPE(2, 3), NULL));
    tg_tensor_fill_normal(x, tg_run_rng(run), 0, 1, NULL);
    return x;
}

static void test_named_parameters(void **state)
{
    (void)state;
    tg_tensor *x = add_ramp();
    tg_gradcheck_report report;
    assert_true(tg_gradcheck_params(params, ramp, params, &x, 1, NULL, &report, NULL));
    /* 6 results by 6 inputs and 6 parameters */
    assert_int_equal(report.compared, 6 * 12);
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.mode = TG_GRADCHECK_FAST;
    assert_true(tg_gradcheck_params(params, ramp, params, &x, 1, &config, &report, NULL));
    /* x, slope and bend: two directions, each with two projections */
    assert_int_equal(report.compared, 3 * 4);
    tg_release(x);
}

static void test_a_wrong_gradient_is_named(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = add_ramp();
    tg_gradcheck_report report;
    assert_false(tg_gradcheck_params(params, wrong, params, &x, 1, NULL, &report, &error));
    assert_non_null(strstr(error.text, "gradcheck: d output ["));
    assert_error(&error, TG_ERROR_VALUE, "] / d parameter 'bend' [");
    /* after the input and slope */
    assert_int_equal(report.input, 2);
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.mode = TG_GRADCHECK_FAST;
    assert_false(tg_gradcheck_params(params, wrong, params, &x, 1, &config, &report, &error));
    assert_error(&error, TG_ERROR_VALUE, "/ d parameter 'bend' [");
    tg_release(x);
}

/* A module in one line, and what a check leaves behind. */
static tg_tensor *forward(tg_tape *t, tg_tensor *const *in, int count, void *linear)
{
    (void)count;
    return tg_nn_linear_forward(t, linear, in[0]);
}

static void test_parameters_are_unchanged(void **state)
{
    (void)state;
    tg_nn_linear linear = tg_nn_linear_make(params, "head", 3, 2, TG_BIAS);
    tg_params_add_alias(params, "tied.weight", "head.weight");
    tg_tensor *x = tg_tensor_new_full(TG_F64, TG_SHAPE(4, 3), 0.5, NULL);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *loss = tg_sum(t, tg_nn_linear_forward(t, &linear, x), TG_ALL_AXES, TG_DROP_AXES);
    tg_backward_config twice = tg_backward_config_default();
    twice.retain_graph = true;
    assert_true(tg_backward(t, loss, &twice));
    tg_tensor *before = tg_tensor_new_copy(linear.weight, NULL);
    const double *values = tg_tensor_data(linear.weight);
    tg_gradcheck_report report;
    for (int i = 0; i < 2; i++) {
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.eps = i == 0 ? 1e-6 : 1e-300; /* the second check fails */
        assert_int_equal(tg_gradcheck_params(params, forward, &linear, &x, 1, &config, &report, NULL), i == 0);
        assert_ptr_equal(tg_tensor_data(linear.weight), values);
        assert_memory_equal(values, tg_tensor_data(before), 6 * sizeof *values);
        assert_values(tg_tensor_grad(linear.weight), (double[]){2, 2, 2, 2, 2, 2}, 6, 0, 0);
    }
    assert_non_null(strstr(report.text, "does not move the value"));
    assert_non_null(strstr(report.text, "of parameter 'head.weight'"));
    /* the recorded call still sees the values that it read */
    assert_true(tg_backward(t, loss, NULL));
    assert_values(tg_tensor_grad(linear.weight), (double[]){4, 4, 4, 4, 4, 4}, 6, 0, 0);
    tg_release(before);
    tg_release(x);
    tg_tape_free(t);
}

/* A frozen parameter and a frozen row are not moved; a table has its gradient by rows. */
static tg_tensor *lookup(tg_tape *t, tg_tensor *const *in, int count, void *table)
{
    (void)count;
    return tg_nn_embedding_forward(t, table, in[0]);
}

static void test_frozen(void **state)
{
    (void)state;
    tg_nn_embedding table = tg_nn_embedding_make(params, "table", 4, 2, NULL);
    tg_params_add_normal(params, "fixed", TG_SHAPE(3), 0, 1);
    assert_true(tg_params_set_frozen(params, "fixed", true));
    assert_true(tg_tensor_set_rows_frozen(table.weight, 1, 1, true, NULL));
    tg_tensor *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){1, 3, 3});
    tg_gradcheck_report report;
    assert_true(tg_gradcheck_params(params, lookup, &table, &ids, 1, NULL, &report, NULL));
    /* 6 results by the values of three rows */
    assert_int_equal(report.compared, 6 * 6);
    assert_int_equal(tg_tensor_grad_kind(table.weight), TG_GRAD_NONE);
    tg_release(ids);
}

static void test_refuses(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = add_ramp();
    assert_false(tg_gradcheck_params(NULL, ramp, NULL, &x, 1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "gradcheck: the params are NULL");
    assert_false(tg_gradcheck_params(params, NULL, params, &x, 1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "gradcheck: the function is NULL");
    assert_false(tg_gradcheck_params(params, ramp, params, NULL, 1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "gradcheck: the inputs are NULL");
    assert_false(tg_gradcheck_params(params, ramp, params, &x, -1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "gradcheck: the inputs are NULL");
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.numeric_in_f64 = true;
    assert_false(tg_gradcheck_params(params, ramp, params, &x, 1, &config, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "gradcheck: numeric_in_f64 is for inputs");
    config = tg_gradcheck_config_default();
    config.dtype = TG_F32;
    tg_tensor_set_requires_grad(x, false, NULL);
    assert_false(tg_gradcheck_params(params, ramp, params, &x, 1, &config, NULL, &error));
    assert_error(&error, TG_ERROR_DTYPE, "gradcheck: parameter 'slope' is f64, but config.dtype is f32");
    tg_params_add(params, "slope", TG_SHAPE(1));
    assert_false(tg_gradcheck_params(params, ramp, params, &x, 1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "params: the name 'slope' is in use");
    tg_release(x);
}

/* A function that changes the parameters in a way that a check cannot undo value by value. */
typedef struct change {
    tg_params *params;
    tg_optim *optim;
    int calls, at; /* the number of the call that changes the parameters */
} change;

static tg_tensor *changing(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    change *c = context;
    (void)count;
    tg_tensor *table = tg_params_find(c->params, "table"), *y = tg_mul(t, in[0], table);
    if (c->calls++ == c->at && c->optim) {
        assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){0}, (double[]){1, 1, 1}, 1, NULL));
        assert_true(tg_optim_step(c->optim));
    } else if (c->calls == c->at + 1) {
        tg_tensor_zero_grad(table);
        tg_tensor_zero_grad(in[0]);
        assert_false(tg_tensor_resize_rows(table, 1, NULL));
        assert_true(tg_tensor_resize_rows(in[0], c->at % 3 ? 1 : 3000, NULL));
    }
    return y;
}

static void test_function_that_resizes_or_trains(void **state)
{
    (void)state;
    tg_tensor *table = tg_params_add_normal(params, "table", TG_SHAPE(100, 3), 0, 1);
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F64, TG_SHAPE(100, 3), 2, NULL));
    tg_tensor *before = tg_tensor_new_copy(table, NULL);
    tg_adam_config adam = tg_adam_config_default();
    adam.deferred = true;
    for (int trains = 0; trains < 2; trains++) {
        for (int at = 0; at < 8; at++) {
            tg_optim *optim = trains ? tg_adam_new(params, &adam) : NULL;
            change c = {params, optim, 0, at};
            tg_gradcheck_config config = tg_gradcheck_config_default();
            config.mode = at % 2 ? TG_GRADCHECK_FAST : TG_GRADCHECK_SLOW;
            tg_error error = TG_NO_ERROR;
            if (tg_gradcheck_params(params, changing, &c, &x, 1, &config, NULL, &error)) {
                assert_true(c.calls <= at); /* the check needs fewer calls */
            } else {
                assert_error(&error, TG_ERROR_STATE, "the function writes to ");
            }
            assert_true(tg_shape_equal(tg_tensor_shape(table), TG_SHAPE(100, 3)));
            assert_memory_equal(tg_tensor_data(table), tg_tensor_data(before), 300 * sizeof(double));
            tg_optim_free(optim);
        }
    }
    tg_release(before);
    tg_release(x);
}

static tg_tensor *without_values(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    (void)context;
    tg_activation_checkpoint_begin(t);
    tg_tensor *y = tg_exp(t, in[0]);
    tg_activation_checkpoint_end(t, tg_exp(t, y));
    return y;
}

static void test_result_without_values(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F64, TG_SHAPE(1000), 2, NULL));
    tg_error error = TG_NO_ERROR;
    assert_false(tg_gradcheck(without_values, NULL, &x, 1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "the function returned a result without values");
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_named_parameters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wrong_gradient_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parameters_are_unchanged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frozen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_function_that_resizes_or_trains, set_up, tear_down),
        cmocka_unit_test(test_result_without_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
