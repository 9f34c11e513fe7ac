/* tg_find_nan: finds the op that computed the first NaN of a loss, or the input that contains one. */
#include "support.h"

#include <math.h>
#include <string.h>

static tg_tape *tape;
static tg_tensor *x;

static int set_up(void **state)
{
    (void)state;
    tape = tg_tape_new(NULL, NULL);
    x = leaf(tensor_f32(TG_SHAPE(2, 2), (float[]){1, 4, -2, 3}));
    return tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_release(x);
    tg_tape_free(tape);
    return 0;
}

/* The report names this record (from 0), this input (-1: the op computed the NaN) and this index, and has the text. */
static void assert_found(int64_t record, int input, int64_t index, const char *text)
{
    tg_nan_report found;
    assert_true(tg_find_nan(tape, NULL));
    assert_true(tg_find_nan(tape, &found));
    if (!strstr(found.text, text)) {
        fail_msg("expected \"%s\" in \"%s\"", text, found.text);
    }
    assert_int_equal(found.record, record);
    assert_int_equal(found.input, input);
    assert_int_equal(found.index, index);
}

static void test_an_op_computed_it(void **state)
{
    (void)state;
    tg_tensor *y = tg_log(tape, tg_mul_scalar(tape, x, 2));
    tg_sum(tape, tg_exp(tape, y), TG_ALL_AXES, TG_DROP_AXES);
    assert_found(
        1, -1, 2,
        "'log' (op 2 of 4) computed a NaN at [1,0] of (2,2), from inputs without one (largest absolute value 8)");
}

/* Runs a block of a transformer, in which the weight that leads back to the width has this first value, and returns
 * what is found. The product with the weight, and its dropout, have given their values back. */
static tg_nan_report find_in_block(double value)
{
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *own = tg_tape_new(run, NULL);
    tg_nn_transformer_block_config config = tg_nn_transformer_block_config_default();
    config.dropout = 0.1;
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "block", 4, 1, &config);
    float *weight = tg_tensor_data_mut(tg_params_find(params, "block.ff.layers.2.weight"));
    for (int i = 0; i < 64; i++) {
        weight[i] = (float)value;
    }
    weight[1] = -(float)value;
    tg_tensor *y = tg_constant(own, TG_F32, TG_SHAPE(1, 2, 4), (float[]){1, 2, -1, 0, 3, 1, 1, -2});
    assert_non_null(tg_nn_transformer_block_forward(own, &block, y, NULL));
    tg_nan_report found;
    assert_true(tg_find_nan(own, &found));
    tg_tape_free(own);
    tg_params_free(params);
    tg_run_free(run);
    return found;
}

static void test_results_without_values(void **state)
{
    (void)state;
    tg_nan_report found = find_in_block((double)NAN);
    assert_non_null(strstr(found.text, "input 1 of 'linear' (op"));
    assert_non_null(strstr(found.text, "(4,16), has a NaN at [0,0] that no recorded op computed"));
    assert_int_equal(found.input, 1);
    /* the weight has no NaN, but its product with a value and one of the other sign */
    found = find_in_block((double)INFINITY);
    assert_non_null(strstr(found.text, "'add' (op"));
    assert_non_null(strstr(found.text, " has a NaN at [0,0,0] of (1,2,4); 'linear' (op"));
    assert_non_null(strstr(found.text, " or an op between them computed it, from inputs without one (largest absolute "
                                       "value inf)"));
    assert_int_equal(found.input, -1);
}

/* A span has dropped the values of the op that computed the NaN. */
static void test_span(void **state)
{
    (void)state;
    assert_true(tg_activation_checkpoint_begin(tape));
    tg_tensor *y = tg_log(tape, tg_mul_scalar(tape, x, -1));
    assert_non_null(tg_activation_checkpoint_end(tape, tg_exp(tape, y)));
    tg_nan_report found;
    assert_true(tg_find_nan(tape, &found));
    assert_int_equal(found.record, 2);
    assert_non_null(strstr(found.text, "'exp' (op 3 of 3) has a NaN at [0,0] of (2,2); 'mul' (op 1 of 3) or an op "
                                       "between them computed it, from inputs without one"));
}

static void test_infinities_that_meet(void **state)
{
    (void)state;
    /* inf, but no NaN */
    tg_tensor *large = tg_exp(tape, tg_mul_scalar(tape, tg_transpose(tape, x, 0, 1), 100));
    tg_sub(tape, large, large);
    assert_found(
        3, -1, 0,
        "'sub' (op 4 of 4) computed a NaN at [0,0] of (2,2), from inputs without one (largest absolute value inf)");
}

static void test_an_input_had_it(void **state)
{
    (void)state;
    tg_tensor *bad = tensor_f32(TG_SHAPE(2), (float[]){0, NAN});
    tg_tensor *y = tg_exp(tape, x);
    tg_mul(tape, y, bad);
    tg_release(bad);
    assert_found(1, 1, 1, "input 1 of 'mul' (op 2 of 2), (2,), has a NaN at [1] that no recorded op computed");
}

static void test_an_op_that_was_not_recorded_computed_it(void **state)
{
    (void)state;
    tg_tensor *plain = tensor_f32(TG_SHAPE(2), (float[]){1, -1});
    /* the log needs no gradient */
    tg_mul(tape, x, tg_log(tape, plain));
    tg_release(plain);
    assert_found(0, 1, 1, "input 1 of 'mul' (op 1 of 1), (2,), has a NaN at [1] that no recorded op computed");
}

static void test_zero_by_zero_in_f64(void **state)
{
    (void)state;
    tg_tensor *wide = leaf(tensor_f64(TG_SHAPE(3), (double[]){3, 0, 1e300}));
    tg_sum(tape, tg_div(tape, wide, wide), TG_ALL_AXES, TG_DROP_AXES);
    tg_release(wide);
    assert_found(
        0, -1, 1,
        "'div' (op 1 of 2) computed a NaN at [1] of (3,), from inputs without one (largest absolute value 1e+300)");
}

/* Only the output determines whether a NaN counts: the table has one in a row that is asked for second. */
static void test_a_table_is_blamed_for_rows_that_were_asked_for(void **state)
{
    (void)state;
    tg_tensor *table = leaf(tensor_f32(TG_SHAPE(3, 2), (float[]){-1, -2, 1, NAN, 3, 4}));
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 2}), *others = tensor_i32(TG_SHAPE(2), (int32_t[]){2, 1});
    tg_tensor *rows = tg_embedding(tape, ids, table, NULL);
    assert_found(0, 1, 3,
                 "input 1 of 'embedding' (op 1 of 1), (3,2), has a NaN at [1,1]; no recorded op's output has one");
    tg_log(tape, rows);
    assert_found(
        1, -1, 0,
        "'log' (op 2 of 2) computed a NaN at [0,0] of (2,2), from inputs without one (largest absolute value 4)");
    tg_tape_reset(tape);
    tg_embedding(tape, others, table, NULL);
    assert_found(0, 1, 3, "input 1 of 'embedding' (op 1 of 1), (3,2), has a NaN at [1,1] that no recorded op computed");
    tg_release(table);
    tg_release(ids);
    tg_release(others);
}

static bool scalar_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F32, TG_SCALAR);
}

static void write_not_a_number(const tg_op_call *call)
{
    *(float *)tg_tensor_data_mut(call->outputs[0]) = NAN;
}

static const tg_op not_a_number = {
    .name = "not_a_number", .shape = scalar_shape, .f32 = {.forward = write_not_a_number}};

static void test_ids_are_no_magnitude(void **state)
{
    (void)state;
    tg_tensor *logits = leaf(tensor_f32(TG_SHAPE(1, 3), (float[]){-INFINITY, -INFINITY, -INFINITY}));
    tg_tensor *row = leaf(tensor_f32(TG_SHAPE(1, 2), (float[]){0.5F, 0}));
    tg_tensor *id = tensor_i32(TG_SHAPE(1, 1), (int32_t[]){1});
    tg_softmax(tape, logits, -1);
    assert_found(
        0, -1, 0,
        "'softmax' (op 1 of 1) computed a NaN at [0,0] of (1,3), from inputs without one (largest absolute value "
        "inf)");
    tg_tape_reset(tape);
    tg_apply(tape, &not_a_number, (tg_tensor *[]){row, id}, 2, NULL, 0, NULL);
    assert_found(
        0, -1, 0,
        "'not_a_number' (op 1 of 1) computed a NaN at [] of (), from inputs without one (largest absolute value "
        "0.5)");
    /* nor can it have had a NaN */
    assert_true(tg_tensor_fill(id, 0, NULL));
    assert_found(0, -1, 0, "from inputs without one (largest absolute value 0.5)");
    tg_release(logits);
    tg_release(row);
    tg_release(id);
}

/* A view's NaN is at the index in the view, and the op that computed it is the one before. */
static void test_views(void **state)
{
    (void)state;
    /* 1 -2 | 4 3 */
    tg_tensor *y = tg_transpose(tape, x, 0, 1);
    tg_log(tape, y);
    assert_found(1, -1, 1, "computed a NaN at [0,1] of (2,2), from inputs without one (largest absolute value 4)");
    tg_tape_reset(tape);
    assert_true(tg_tensor_fill_from(x, (float[]){1, 4, NAN, 3}, NULL));
    tg_transpose(tape, x, 0, 1);
    assert_found(0, 0, 2, "input 0 of 'transpose' (op 1 of 1), (2,2), has a NaN at [1,0] that no recorded op computed");
}

/* The loss is NaN, and is only looked at after the step: the parameter is NaN as well by then. */
static void test_after_a_step(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tensor *weight = tg_nn_linear_make(params, "linear", 2, 2, TG_NO_BIAS).weight;
    tg_optim *optim = tg_sgd_new(params, NULL);
    tg_tensor *zero = tg_mul_scalar(tape, weight, 0);
    tg_tensor *loss = tg_sum(tape, tg_div(tape, zero, zero), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_backward(tape, loss, NULL));
    assert_true(tg_optim_step(optim));
    assert_true(isnan(tg_tensor_value_at(weight, 0)));
    assert_found(
        1, -1, 0,
        "'div' (op 2 of 3) computed a NaN at [0,0] of (2,2), from inputs without one (largest absolute value 0)");

    /* a NaN parameter that was changed again: its old values are unknown */
    tg_tape_reset(tape);
    tg_exp(tape, weight);
    assert_true(tg_tensor_fill(weight, 1, NULL));
    assert_found(0, -1, 0,
                 "'exp' (op 1 of 1) has a NaN at [0,0] of (2,2); input 0 of 'exp' (op 1 of 1) was changed "
                 "in place since, and may have had one");
    /* and one that became NaN after the only op */
    tg_tape_reset(tape);
    tg_exp(tape, weight);
    assert_true(tg_tensor_fill(weight, (double)NAN, NULL));
    assert_found(0, 0, 0, "input 0 of 'exp' (op 1 of 1), (2,2), has a NaN at [0,0]; no recorded op's output has one");
    tg_tape_reset(tape);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_run_free(run);
}

static void test_a_result_that_was_changed(void **state)
{
    (void)state;
    tg_tensor *y = tg_exp(tape, x);
    tg_mul_scalar(tape, y, 2);
    /* by the user, not by exp */
    ((float *)tg_tensor_data_mut(y))[3] = NAN;
    assert_found(1, 0, 3, "input 0 of 'mul' (op 2 of 2), (2,2), has a NaN at [1,1]; no recorded op's output has one");
    tg_mul_scalar(tape, y, 3);
    assert_found(2, 0, 3, "input 0 of 'mul' (op 3 of 3), (2,2), has a NaN at [1,1] that no recorded op computed");
}

static void test_a_large_tensor(void **state)
{
    (void)state;
    tg_tensor *large = tg_tensor_new_full(TG_F32, TG_SHAPE(700, 3, 500), 2, NULL);
    assert_non_null(large);
    leaf(large);
    ((float *)tg_tensor_data_mut(large))[(699 * 3 + 2) * 500 + 499] = -1;
    tg_log(tape, large);
    tg_release(large);
    assert_found(0, -1, 1049999, "'log' (op 1 of 1) computed a NaN at [699,2,499] of (700,3,500)");
}

static void test_nothing_to_find(void **state)
{
    (void)state;
    tg_nan_report found = {.record = -7, .input = -7, .index = -7, .text = "untouched"};
    tg_exp(tape, x);
    assert_false(tg_find_nan(tape, &found));
    assert_int_equal(found.record, -7);
    assert_string_equal(found.text, "untouched");
    tg_log(tape, x);
    tg_tape_reset(tape);
    assert_false(tg_find_nan(tape, &found));
    assert_false(tg_find_nan(NULL, &found));
}

/* An expanded tensor has one value 2^60 times. */
static void test_expanded(void **state)
{
    (void)state;
    tg_tensor *one = tg_slice(tape, tg_slice(tape, x, 1, 0, 1, 1), 0, 0, 1, 1);
    tg_expand(tape, one, TG_SHAPE(INT64_C(1) << 30, INT64_C(1) << 30));
    assert_false(tg_find_nan(tape, NULL));
    tg_tape_reset(tape);
    tg_tensor *column = tg_slice(tape, tg_log(tape, x), 1, 0, 1, 1);
    tg_expand(tape, column, TG_SHAPE(2, INT64_C(1) << 40));
    assert_found(0, -1, 2, "'log' (op 1 of 3) computed a NaN at [1,0] of (2,2)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_op_computed_it, set_up, tear_down),
        cmocka_unit_test(test_results_without_values),
        cmocka_unit_test_setup_teardown(test_infinities_that_meet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_span, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_input_had_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_op_that_was_not_recorded_computed_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_zero_by_zero_in_f64, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_table_is_blamed_for_rows_that_were_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ids_are_no_magnitude, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_views, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_expanded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_after_a_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_result_that_was_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_large_tensor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_to_find, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
