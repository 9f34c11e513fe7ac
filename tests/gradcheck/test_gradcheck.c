/* The gradient checker: correct gradients pass, wrong ones are detected in both modes, and a check that cannot detect
 * an error is refused.
 *
 * The op under test is y_i = x_i s with s = sum_j x_j, so dx_i = dy_i s + sum_j dy_j x_j. All usual mistakes are
 * possible in it.
 */
#include "support.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

typedef enum mistake {
    NONE,
    WRONG_SIGN,
    MISSING_TERM,
    /* where it has to add */
    ASSIGNS,
    /* the neighbor's dy */
    WRONG_INDEX,
    /* uses the mean of dy: no test with a plain sum can see it */
    RIGHT_FOR_SUM_ONLY,
    WRONG_FACTOR,
    NOT_REENTRANT,
    NOT_LINEAR /* something even for dy = 0 */
} mistake;

static int calls;

static bool scaled_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, tg_tensor_dtype(call->inputs[0]), tg_tensor_shape(call->inputs[0]));
}

static void scaled_forward(const tg_op_call *call)
{
    const double *x = tg_tensor_data(call->inputs[0]);
    double *y = tg_tensor_data_mut(call->outputs[0]), s = 0;
    int64_t n = tg_tensor_count(call->inputs[0]);
    for (int64_t i = 0; i < n; i++) {
        s += x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * s;
    }
}

static void scaled_backward(const tg_op_call *call)
{
    const mistake made = *(const mistake *)call->attributes;
    const double *x = tg_tensor_data(call->inputs[0]), *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0], s = 0, dot = 0, mean = 0;
    int64_t n = tg_tensor_count(call->inputs[0]);
    for (int64_t i = 0; i < n; i++) {
        s += x[i];
        dot += dy[i] * x[i];
        mean += dy[i] / (double)n;
    }
    calls++;
    for (int64_t i = 0; i < n; i++) {
        double gradient = dy[i] * s + dot;
        gradient = made == WRONG_SIGN           ? -gradient
                   : made == MISSING_TERM       ? dy[i] * s
                   : made == WRONG_INDEX        ? dy[(i + 1) % n] * s + dot
                   : made == RIGHT_FOR_SUM_ONLY ? mean * s + mean * s
                   : made == WRONG_FACTOR       ? dy[i] * s + 0.99 * dot
                   : made == NOT_REENTRANT      ? gradient * (1 + 1e-15 * calls)
                   : made == NOT_LINEAR         ? gradient + 1e-7
                                                : gradient;
        dx[i] = made == ASSIGNS ? gradient : dx[i] + gradient;
    }
}

static const tg_op scaled_op = {.name = "scaled",
                                .shape = scaled_shape,
                                .f64 = {scaled_forward, scaled_backward},
                                .backward_ignores_outputs = TG_OP_ALL};

static tg_tensor *scaled(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return tg_apply(tape, &scaled_op, inputs, 1, context, sizeof(mistake), NULL);
}

static tg_tensor *some_values(void)
{
    return leaf(tensor_f64(TG_SHAPE(2, 3), (double[]){0.5, -1.25, 2, 0.75, -0.5, 1.5}));
}

static bool check_scaled(mistake made, tg_gradcheck_mode mode, tg_gradcheck_report *report, tg_error *error)
{
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.name = "scaled";
    config.mode = mode;
    tg_tensor *x = some_values();
    bool passed = tg_gradcheck(scaled, &made, &x, 1, &config, report, error);
    tg_release(x);
    assert_int_equal(passed, report->passed);
    assert_int_equal(passed, error->code == TG_OK);
    if (!passed) {
        assert_string_equal(report->text, error->text);
    }
    return passed;
}

static void test_right_gradient_passes(void **state)
{
    (void)state;
    tg_gradcheck_report report;
    tg_error error = TG_NO_ERROR;
    assert_true(check_scaled(NONE, TG_GRADCHECK_SLOW, &report, &error));
    assert_int_equal(report.compared, 36);
    assert_true(report.max_relative_error < 1e-8);
    assert_non_null(strstr(report.text, "scaled: passed, 36 compared"));
    assert_true(check_scaled(NONE, TG_GRADCHECK_FAST, &report, &error));
    /* two directions, each with two projections */
    assert_int_equal(report.compared, 4);
    assert_true(report.max_relative_error < 1e-8);
}

static void test_mistakes_are_detected(void **state)
{
    (void)state;
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        for (int made = WRONG_SIGN; made <= NOT_LINEAR; made++) {
            tg_gradcheck_report report;
            tg_error error = TG_NO_ERROR;
            if (check_scaled((mistake)made, (tg_gradcheck_mode)mode, &report, &error)) {
                fail_msg("mistake %d passed in mode %d: %s", made, mode, report.text);
            }
            const char *part = made == ASSIGNS         ? "backward must add to the gradient"
                               : made == NOT_REENTRANT ? "not reentrant"
                               : made == NOT_LINEAR    ? "a zero gradient of the result gives"
                                                       : "d output [";
            assert_error(&error, TG_ERROR_VALUE, part);
        }
    }
}

/* x = (a, b), y = (a^2 + ab, ab + b^2): dy_1/da = b. Without the second term it is 0. */
static void test_report_names_the_entry(void **state)
{
    (void)state;
    mistake made = MISSING_TERM;
    tg_gradcheck_report report;
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.name = "lost";
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 3}));
    tg_error error = TG_NO_ERROR;
    assert_false(tg_gradcheck(scaled, &made, &x, 1, &config, &report, &error));
    assert_int_equal(report.input, 0);
    assert_int_equal(report.output_index, 1);
    assert_string_equal(report.input_position, report.input_index == 0 ? "[0]" : "[1]");
    assert_true(report.analytic == (report.input_index == 0 ? 0 : 4));
    assert_true(fabs(report.numeric - report.analytic - 3) < 1e-8);
    assert_true(fabs(report.tolerance - (1e-5 + 1e-3 * report.numeric)) < 1e-9);
    assert_true(fabs(report.max_absolute_error - 3) < 1e-8);
    assert_non_null(strstr(report.text, "lost: d output [1] / d input 0 ["));
    assert_error(&error, TG_ERROR_VALUE, report.text);
    /* neither the report nor the error is needed */
    assert_false(tg_gradcheck(scaled, &made, &x, 1, &config, NULL, NULL));
    tg_release(x);
}

/* The checker only reads: values, gradients and versions of the inputs stay. */
static void test_inputs_are_left_alone(void **state)
{
    (void)state;
    mistake made = NONE;
    tg_run *run = tg_run_new(0);
    tg_tape *tape = tg_tape_new(run, NULL);
    tg_tensor *x = some_values();
    assert_true(tg_backward(tape, tg_sum(tape, tg_mul_scalar(tape, x, 7), TG_ALL_AXES, TG_DROP_AXES), NULL));
    uint64_t version = tg_storage_version(x);
    assert_true(tg_gradcheck(scaled, &made, &x, 1, NULL, NULL, NULL));
    assert_true(tg_tensor_value_at(x, 1) == -1.25);
    assert_true(tg_storage_version(x) == version);
    assert_values(tg_tensor_grad(x), (double[]){7, 7, 7, 7, 7, 7}, 6, 0, 0);
    tg_tape_free(tape);
    tg_run_free(run);
    tg_release(x);
}

/* ---- layouts ---- */

static tg_tensor *strides_seen(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    int64_t *strides = context;
    strides[0] = tg_tensor_stride(inputs[0], 0);
    strides[1] = tg_tensor_stride(inputs[0], 1);
    return tg_mul(tape, inputs[0], inputs[0]);
}

/* Ignores the strides: reads the storage as if it had no gaps. */
static tg_tensor *reads_gaps(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    tg_tensor *copy = tg_tensor_new_from(TG_F64, tg_tensor_shape(inputs[0]), tg_tensor_data(inputs[0]), NULL);
    tg_tensor *y = tg_mul(tape, inputs[0], copy);
    tg_release(copy);
    return y;
}

static void test_strided_input_stays_strided(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(0);
    tg_tape *tape = tg_tape_new(run, NULL);
    double values[24];
    for (int i = 0; i < 24; i++) {
        values[i] = 0.25 * i - 2;
    }
    tg_tensor *whole = tensor_f64(TG_SHAPE(4, 6), values);
    /* (3,2) */
    tg_tensor *x = tg_slice(tape, tg_slice(tape, tg_transpose(tape, whole, 0, 1), 0, 0, 6, 2), 1, 1, 3, 1);
    leaf(x);
    int64_t strides[2];
    tg_gradcheck_report report;
    assert_true(tg_gradcheck(strides_seen, strides, &x, 1, NULL, &report, NULL));
    assert_int_equal(strides[0], 2);
    assert_int_equal(strides[1], 6);
    assert_int_equal(report.compared, 36);
    assert_false(tg_gradcheck(reads_gaps, NULL, &x, 1, NULL, &report, NULL));
    tg_tape_free(tape);
    tg_release(whole);
    tg_run_free(run);
}

/* ---- rows without a gradient ---- */

static tg_tensor *padded(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = *(const int *)context;
    return tg_embedding(tape, inputs[1], inputs[0], &config);
}

static void test_padding_rows(void **state)
{
    (void)state;
    tg_tensor *inputs[] = {leaf(tensor_f64(TG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6})),
                           tensor_i32(TG_SHAPE(4), (int32_t[]){1, 0, 1, 2})};
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        int padding = 1, other = 2;
        tg_gradcheck_report report;
        tg_gradcheck_row row = {0, 1}, outside = {0, 3};
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        /* differences see the row */
        assert_false(tg_gradcheck(padded, &padding, inputs, 2, &config, &report, NULL));
        config.rows_without_gradient = &row;
        config.row_count = 1;
        assert_true(tg_gradcheck(padded, &padding, inputs, 2, &config, &report, NULL));
        /* row 1 gets a gradient there */
        assert_false(tg_gradcheck(padded, &other, inputs, 2, &config, &report, NULL));
        assert_non_null(strstr(report.text, "its row must have none"));
        config.rows_without_gradient = &outside;
        tg_error error = TG_NO_ERROR;
        assert_false(tg_gradcheck(padded, &padding, inputs, 2, &config, &report, &error));
        assert_error(&error, TG_ERROR_RANGE, "rows_without_gradient lists row 3 of input 0, which does not exist");
    }
    tg_release(inputs[0]);
    tg_release(inputs[1]);
}

/* ---- random numbers and switches ---- */

static tg_tensor *dropped(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    tg_tensor *y = tg_dropout(tape, inputs[0], 0.5);
    if (context && y) {
        for (int i = 0; i < 6; i++) {
            ((double *)context)[i] = tg_tensor_value_at(y, i);
        }
    }
    return y;
}

static void test_every_call_draws_the_same(void **state)
{
    (void)state;
    tg_tensor *x = some_values();
    tg_rng *rng = tg_rng_new(7);
    tg_gradcheck_report report;
    tg_gradcheck_config config = tg_gradcheck_config_default();
    double with_seven[6], with_zero[6];
    config.rng = rng;
    assert_true(tg_gradcheck(dropped, with_seven, &x, 1, &config, &report, NULL));
    assert_int_equal(tg_rng_position(rng), 0);
    config.rng = NULL;
    assert_true(tg_gradcheck(dropped, with_zero, &x, 1, &config, &report, NULL));
    /* seed 7 and seed 0 differ in these six */
    assert_memory_not_equal(with_seven, with_zero, sizeof with_zero);
    config.training = false;
    /* x itself */
    assert_true(tg_gradcheck(dropped, with_zero, &x, 1, &config, &report, NULL));
    assert_int_equal(report.compared, 36);
    tg_rng_free(rng);
    tg_release(x);
}

/* ---- floats ---- */

static tg_tensor *smooth(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    tg_tensor *y = tg_tanh(tape, tg_mul(tape, inputs[0], inputs[0]));
    return context ? tg_detach(tape, y) : y;
}

static tg_tensor *twice(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul_scalar(tape, inputs[0], 2);
}

/* Floats near 1000 are 6e-5 apart, so a step of 1e-3 that were not measured as it was made would be 3 percent off. */
static void test_steps_of_floats(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(2), (float[]){1000.3f, -1003}));
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.dtype = TG_F32;
        config.eps = 1e-3;
        config.rtol = config.atol = 1e-6;
        config.mode = (tg_gradcheck_mode)mode;
        assert_true(tg_gradcheck(twice, NULL, &x, 1, &config, NULL, NULL));
    }
    tg_release(x);
}

static void test_floats(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(4), (float[]){0.5f, -0.75f, 1, 0.25f}));
    tg_gradcheck_report report;
    tg_error error = TG_NO_ERROR;
    assert_false(tg_gradcheck(smooth, NULL, &x, 1, NULL, &report, &error));
    assert_error(&error, TG_ERROR_DTYPE, "input 0 is f32, but config.dtype is f64");
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.dtype = TG_F32;
        config.eps = 1e-2;
        config.relative_eps = true;
        config.atol = 1e-3;
        config.rtol = 1e-2;
        config.mode = (tg_gradcheck_mode)mode;
        assert_true(tg_gradcheck(smooth, NULL, &x, 1, &config, &report, NULL));
        /* or it did not compute in floats */
        assert_true(report.max_relative_error > 1e-7);
        /* detached: analytic 0 */
        assert_false(tg_gradcheck(smooth, &x, &x, 1, &config, &report, NULL));
        config.numeric_in_f64 = true;
        config.relative_eps = false;
        config.eps = 1e-6;
        assert_true(tg_gradcheck(smooth, NULL, &x, 1, &config, &report, NULL));
        assert_true(report.max_relative_error < 1e-6);
    }
    tg_release(x);
}

/* ---- refusals ---- */

static tg_tensor *returns_null(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)tape;
    (void)inputs;
    (void)count;
    (void)context;
    return NULL;
}

static tg_tensor *wrong_axis(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_softmax(tape, inputs[0], 5);
}

static tg_tensor *times_zero(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul_scalar(tape, inputs[0], 0);
}

static tg_tensor *compares(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_gt(tape, inputs[0], inputs[0]);
}

static tg_tensor *writes(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    tg_tensor_fill(inputs[0], 1, NULL);
    return tg_exp(tape, inputs[0]);
}

static tg_tensor *grows(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    int64_t *size = context;
    return tg_expand(tape, inputs[0], TG_SHAPE(++*size, 2, 3));
}

static tg_tensor *sorts(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    return count == 1 && !context ? tg_sort(tape, inputs[0], -1, TG_SMALLEST_FIRST, NULL) : NULL;
}

static void expect_refusal(tg_gradcheck_function function, void *context, tg_tensor *x, tg_code code, const char *part)
{
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        tg_gradcheck_report report;
        tg_error error = TG_NO_ERROR;
        assert_false(tg_gradcheck(function, context, &x, 1, &config, &report, &error));
        assert_false(report.passed);
        assert_string_equal(report.text, error.text);
        assert_error(&error, code, part);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    mistake made = NONE;
    int64_t size = 0;
    tg_tensor *x = some_values();
    tg_tensor *constant = tensor_f64(TG_SHAPE(2), (double[]){1, 2});
    expect_refusal(scaled, &made, NULL, TG_ERROR_STATE, "input 0 is NULL");
    expect_refusal(scaled, &made, constant, TG_ERROR_STATE, "no input requires a gradient");
    expect_refusal(returns_null, NULL, x, TG_ERROR_STATE, "NULL without an error");
    expect_refusal(wrong_axis, NULL, x, TG_ERROR_RANGE, "softmax: axis 5 is outside [-2,2)");
    expect_refusal(times_zero, NULL, x, TG_ERROR_VALUE, "this check cannot fail");
    expect_refusal(compares, NULL, x, TG_ERROR_DTYPE, "returned u8");
    expect_refusal(writes, NULL, x, TG_ERROR_STATE, "writes to input 0");
    expect_refusal(grows, &size, x, TG_ERROR_SHAPE, "shape changes between calls");
    assert_true(tg_tensor_value_at(x, 0) == 0.5);
    /* two rows with a value at three places: the tie is the one in the row. A wrong gradient is none. */
    tg_tensor *ties = leaf(tensor_f64(TG_SHAPE(2, 4), (double[]){0.5, 1, 0.25, 0.75, 0.3, 0.5, 0.1, 0.5}));
    expect_refusal(sorts, NULL, ties, TG_ERROR_VALUE,
                   "d output [1,2] / d input 0 [1,1]: analytic 1, numeric 0.5; the slope is 1 "
                   "below the value 0.5 and 0 above it, so the function has no derivative there: the value is also at "
                   "[1,3], a tie");
    made = WRONG_FACTOR;
    tg_error error = TG_NO_ERROR;
    assert_false(tg_gradcheck(scaled, &made, &ties, 1, NULL, NULL, &error));
    assert_null(strstr(error.text, "slope"));
    tg_release(constant);
    tg_release(ties);
    tg_release(x);
}

static void refuse_arguments(tg_gradcheck_function function, tg_tensor *const *inputs, int count,
                             const tg_gradcheck_config *config, tg_code code, const char *part)
{
    mistake made = NONE;
    tg_error error = TG_NO_ERROR;
    assert_false(tg_gradcheck(function, &made, inputs, count, config, NULL, &error));
    assert_error(&error, code, part);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    tg_tensor *x = some_values();
    refuse_arguments(NULL, &x, 1, NULL, TG_ERROR_STATE, "gradcheck: the function is NULL");
    refuse_arguments(scaled, NULL, 1, NULL, TG_ERROR_STATE, "gradcheck: the inputs are NULL");
    refuse_arguments(scaled, &x, -1, NULL, TG_ERROR_STATE, "gradcheck: the inputs are NULL");
    tg_gradcheck_config config = {.eps = 1e-6, .dtype = TG_F64};
    refuse_arguments(scaled, &x, 1, &config, TG_ERROR_VALUE, "does not come from tg_gradcheck_config_default()");
    config = tg_gradcheck_config_default();
    config.eps = 0;
    refuse_arguments(scaled, &x, 1, &config, TG_ERROR_VALUE, "it must be finite and above 0");
    config.eps = (double)NAN;
    refuse_arguments(scaled, &x, 1, &config, TG_ERROR_VALUE, "it must be finite and above 0");
    config.eps = (double)INFINITY;
    refuse_arguments(scaled, &x, 1, &config, TG_ERROR_VALUE, "gradcheck: eps inf; it must be finite and above 0");
    config = tg_gradcheck_config_default();
    config.row_count = 2;
    refuse_arguments(scaled, &x, 1, &config, TG_ERROR_VALUE,
                     "gradcheck: row_count is 2, but rows_without_gradient is NULL");
    /* a step that is lost in rounding */
    config = tg_gradcheck_config_default();
    config.eps = 1e-300;
    refuse_arguments(scaled, &x, 1, &config, TG_ERROR_VALUE, "eps 1e-300 does not move the value 0.5 of input 0");
    tg_release(x);
}

static void test_empty_is_refused_unless_allowed(void **state)
{
    (void)state;
    mistake made = NONE;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(0, 3), NULL));
    expect_refusal(scaled, &made, x, TG_ERROR_SHAPE, "nothing to compare");
    tg_gradcheck_report report;
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.allow_empty = true;
    assert_true(tg_gradcheck(scaled, &made, &x, 1, &config, &report, NULL));
    config.mode = TG_GRADCHECK_FAST;
    assert_true(tg_gradcheck(scaled, &made, &x, 1, &config, &report, NULL));
    assert_int_equal(report.compared, 0);
    tg_release(x);
}

static void test_overlap_is_refused(void **state)
{
    (void)state;
    mistake made = NONE;
    tg_run *run = tg_run_new(0);
    tg_tape *tape = tg_tape_new(run, NULL);
    tg_tensor *x = tensor_f64(TG_SHAPE(3), (double[]){1, 2, 3});
    expect_refusal(scaled, &made, leaf(tg_expand(tape, x, TG_SHAPE(2, 3))), TG_ERROR_STATE, "overlaps itself");
    tg_tape_free(tape);
    tg_run_free(run);
    tg_release(x);
}

/* Allocation number k fails, for every k: a report and no leak. */
static void test_out_of_memory(void **state)
{
    (void)state;
    mistake made = NONE;
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        counting_allocator counting;
        allocator_install(&counting);
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        tg_tensor *x = some_values();
        size_t before = counting.live, failures = 0;
        bool passed = false;
        for (size_t k = 1; !passed; k++) {
            tg_gradcheck_report report;
            allocator_arm(&counting, k, false);
            tg_error error = TG_NO_ERROR;
            passed = tg_gradcheck(scaled, &made, &x, 1, &config, &report, &error);
            assert_int_equal(error.code, passed ? TG_OK : TG_ERROR_MEMORY);
            assert_int_equal(counting.live, before);
            failures += !passed;
        }
        assert_true(failures > 15);
        tg_release(x);
        allocator_restore();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_gradient_passes),
        cmocka_unit_test(test_mistakes_are_detected),
        cmocka_unit_test(test_report_names_the_entry),
        cmocka_unit_test(test_inputs_are_left_alone),
        cmocka_unit_test(test_strided_input_stays_strided),
        cmocka_unit_test(test_padding_rows),
        cmocka_unit_test(test_every_call_draws_the_same),
        cmocka_unit_test(test_steps_of_floats),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_empty_is_refused_unless_allowed),
        cmocka_unit_test(test_overlap_is_refused),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
