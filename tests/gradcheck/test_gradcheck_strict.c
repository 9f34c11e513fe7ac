/* What the gradient checker refuses besides a wrong derivative of one value: gradients that depend on dy otherwise than
 * linearly, that are not added, or that are wrong in one value of many; and numbers that are not finite.
 */
#include "support.h"

#include <math.h>
#include <string.h>

#include <tapegrad/gradcheck.h>
#include <tapegrad/op.h>

/* An op of one input, value by value, in f64: y = value(x). `step` writes the gradient of value i. */
typedef struct pointwise {
    double (*value)(double x);
    void (*step)(double *dx, const double *dy, double x, int64_t i, int64_t count);
} pointwise;

static bool shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F64, tg_tensor_shape(call->inputs[0]));
}

static void forward(const tg_op_call *call)
{
    const pointwise *f = call->attributes;
    const double *x = tg_tensor_data(call->inputs[0]);
    double *y = tg_tensor_data_mut(call->outputs[0]);
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        y[i] = f->value(x[i]);
    }
}

static void backward(const tg_op_call *call)
{
    const pointwise *f = call->attributes;
    const double *x = tg_tensor_data(call->inputs[0]);
    int64_t count = tg_tensor_count(call->inputs[0]);
    for (int64_t i = 0; i < count; i++) {
        f->step(call->input_gradients[0], call->output_gradients[0], x[i], i, count);
    }
}

static const tg_op op = {.name = "pointwise", .shape = shape, .f64 = {forward, backward}};

static tg_tensor *call_pointwise(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return tg_apply(tape, &op, inputs, 1, context, sizeof(pointwise), NULL);
}

/* Checks f at `count` values from 0.5 to 1.5 in the modes from `first` on. Without `part` it passes, else it is refused
 * with this text. */
static void expect(pointwise f, int64_t count, tg_gradcheck_mode first, const char *part)
{
    tg_tensor *x = leaf(tg_tensor_new(TG_F64, TG_SHAPE(count), NULL));
    tg_rng *rng = tg_rng_new(4);
    assert_true(tg_tensor_fill_uniform(x, rng, 0.5, 1.5, NULL));
    for (int mode = (int)first; mode <= TG_GRADCHECK_FAST; mode++) {
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        tg_error error = TG_NO_ERROR;
        bool passed = tg_gradcheck(call_pointwise, &f, &x, 1, &config, NULL, &error);
        if (passed == (part != NULL)) {
            fail_msg("mode %d: %s", mode, passed ? "passed" : error.text);
        }
        if (part) {
            assert_error(&error, TG_ERROR_VALUE, part);
        }
    }
    tg_rng_free(rng);
    tg_release(x);
}

static double three_times(double x)
{
    return 3 * x;
}

static double nearly_nothing(double x)
{
    return 1 + 1e-7 * x;
}

/* ---- linear in dy ---- */

static void right(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] += 3 * dy[i];
}

static void clipped_at_100(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] += 3 * fmax(-100, fmin(100, dy[i]));
}

static void small_is_nothing(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] += fabs(dy[i]) < 0.01 ? 0 : 3 * dy[i];
}

static void slightly_square(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] += 3 * dy[i] + 1e-4 * (dy[i] * dy[i] - fabs(dy[i]));
}

static void test_linear(void **state)
{
    (void)state;
    expect((pointwise){three_times, right}, 5, TG_GRADCHECK_SLOW, NULL);
    expect((pointwise){three_times, clipped_at_100}, 5, TG_GRADCHECK_SLOW, "must be linear");
    expect((pointwise){three_times, small_is_nothing}, 5, TG_GRADCHECK_SLOW, "must be linear");
    expect((pointwise){three_times, slightly_square}, 5, TG_GRADCHECK_SLOW, "must be linear");
}

/* ---- added ---- */

/* All gradients are below atol: the gradient that exists is not. */
static void tiny_assigned(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] = 1e-7 * dy[i];
}

static void tiny_added(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] += 1e-7 * dy[i];
}

static void test_added(void **state)
{
    (void)state;
    expect((pointwise){nearly_nothing, tiny_added}, 5, TG_GRADCHECK_SLOW, NULL);
    expect((pointwise){nearly_nothing, tiny_assigned}, 5, TG_GRADCHECK_SLOW, "backward must add to the gradient");
}

/* y[i,:] = table[id[i],:]. With an attribute a dense gradient is assigned; if that is 2, one by rows, too. */
static bool lookup_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F64, TG_SHAPE(2, 2)) && tg_op_reserve_rows(call, 2) &&
           tg_op_backward_scratch(call, 2, sizeof(int32_t));
}

static void lookup_forward(const tg_op_call *call)
{
    const int32_t *ids = tg_tensor_data(call->inputs[0]);
    const double *table = tg_tensor_data(call->inputs[1]);
    double *y = tg_tensor_data_mut(call->outputs[0]);
    for (int i = 0; i < 4; i++) {
        y[i] = table[ids[i / 2] * 2 + i % 2];
    }
}

static void lookup_backward(const tg_op_call *call)
{
    const double *dy = call->output_gradients[0];
    int32_t *slots = call->scratch;
    double *values = tg_op_grad_rows(call, 1, tg_tensor_data(call->inputs[0]), 2, slots);
    const int *wrong = call->attributes;
    bool assigns = wrong && (*wrong == 2 || call->input_gradients[1]);
    for (int i = 0; values && i < 4; i++) {
        double *row = values + slots[i / 2] * 2;
        row[i % 2] = (assigns ? 0 : row[i % 2]) + dy[i];
    }
}

static const tg_op lookup_op = {
    .name = "lookup", .shape = lookup_shape, .f64 = {lookup_forward, lookup_backward}, .row_inputs = 1u << 1};

static tg_tensor *call_lookup(tg_tape *tape, tg_tensor *const *inputs, int count, void *wrong)
{
    return tg_apply(tape, &lookup_op, inputs, count, wrong, wrong ? sizeof(int) : 0, NULL);
}

static void test_rows_of_a_dense_gradient(void **state)
{
    (void)state;
    int wrong = 1;
    tg_error error = TG_NO_ERROR;
    tg_tensor *inputs[] = {tensor_i32(TG_SHAPE(2), (int32_t[]){2, 0}),
                           leaf(tensor_f64(TG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6}))};
    assert_true(tg_gradcheck(call_lookup, NULL, inputs, 2, NULL, NULL, &error));
    assert_false(tg_gradcheck(call_lookup, &wrong, inputs, 2, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "backward must add to the gradient");
    tg_release(inputs[0]);
    tg_release(inputs[1]);
}

/* The message about an assignment names what is repeated: an id, or the input itself. */
static void expect_named(const int32_t ids[2], const char *part)
{
    int wrong = 2;
    tg_error error = TG_NO_ERROR;
    tg_tensor *inputs[] = {tensor_i32(TG_SHAPE(2), ids),
                           leaf(tensor_f64(TG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6}))};
    assert_false(tg_gradcheck(call_lookup, &wrong, inputs, 2, NULL, NULL, &error));
    assert_true((strstr(error.text, "; id") != NULL) == (*part == ';'));
    assert_error(&error, TG_ERROR_VALUE, part);
    tg_release(inputs[0]);
    tg_release(inputs[1]);
}

static double half(double x)
{
    return x / 2;
}

static void half_assigned(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] = dy[i] / 2;
}

static tg_tensor *call_twice(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    return tg_add(tape, call_pointwise(tape, inputs, count, context), call_pointwise(tape, inputs, count, context));
}

static void test_what_is_repeated(void **state)
{
    (void)state;
    expect_named((int32_t[]){2, 2}, "; id 2 is at [0] and [1] of input 0 of 'lookup', so its row gets the sum of both");
    expect_named((int32_t[]){2, 0}, "backward must add to the gradient that exists (+=, not =)");
    pointwise f = {half, half_assigned};
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2}));
    assert_false(tg_gradcheck(call_twice, &f, &x, 1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "(+=, not =); input 0 is used 2 times, and gets the sum of all");
    assert_false(tg_gradcheck(call_pointwise, &f, &x, 1, NULL, NULL, &error));
    tg_release(x);
}

/* ---- one value of many ---- */

static void one_is_missing(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    dx[i] += i == count / 3 ? 0 : 3 * dy[i];
}

static void one_is_off(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    dx[i] += (i == count / 3 ? 1.01 : 1) * 3 * dy[i];
}

/* The slow mode names the value: 2000 rows of a Jacobian with 2000 columns. */
static void test_one_of_many(void **state)
{
    (void)state;
    expect((pointwise){three_times, right}, 50000, TG_GRADCHECK_FAST, NULL);
    expect((pointwise){three_times, one_is_missing}, 2000, TG_GRADCHECK_FAST,
           "d output [666] / d input 0 [666]: analytic 0");
    /* 1 % in one value of 2000 is below the fast mode's 5 rtol sqrt(n) = 22 %, and in one of 3 above its 0.9 % */
    pointwise off = {three_times, one_is_off};
    expect(off, 3, TG_GRADCHECK_SLOW, "d output [1] / d input 0 [1]: analytic 3.03, numeric 3");
    tg_gradcheck_config config = tg_gradcheck_config_default();
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F64, TG_SHAPE(2000), 1, NULL));
    assert_false(tg_gradcheck(call_pointwise, &off, &x, 1, &config, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "d output [666] / d input 0 [666]: analytic 3.03, numeric 3");
    config.mode = TG_GRADCHECK_FAST;
    assert_true(tg_gradcheck(call_pointwise, &off, &x, 1, &config, NULL, &error));
    tg_release(x);
}

/* ---- one tensor, two inputs ---- */

static tg_tensor *product(tg_tape *tape, tg_tensor *const *inputs, int count, void *is_twice)
{
    (void)count;
    *(bool *)is_twice = inputs[0] == inputs[1];
    return tg_mul(tape, inputs[0], inputs[1]);
}

/* d(x x)/dx = 2 x, and not x, for both inputs. */
static void test_one_tensor_twice(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 5})), *inputs[] = {x, x};
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        bool is_twice = false;
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        assert_true(tg_gradcheck(product, &is_twice, inputs, 2, &config, NULL, NULL));
        assert_true(is_twice);
    }
    tg_release(x);
}

/* ---- numbers that are not finite ---- */

static double steep(double x)
{
    return 1e308 * sin(4 * x);
}

static double undefined(double x)
{
    return sqrt(-x);
}

static void infinite(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)count;
    dx[i] += dy[i] == 0 ? 0 : 4 * 1e308 * cos(4 * x) * 1e6 * dy[i];
}

static void not_a_number(double *dx, const double *dy, double x, int64_t i, int64_t count)
{
    (void)x;
    (void)count;
    dx[i] += dy[i] == 0 ? 0 : -(double)NAN;
}

/* torch.allclose: an infinite derivative agrees with itself, and NaN with nothing. */
static void test_not_finite(void **state)
{
    (void)state;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), (double[]){0}));
    assert_true(tg_gradcheck(call_pointwise, &(pointwise){steep, infinite}, &x, 1, NULL, NULL, NULL));
    tg_release(x);
    expect((pointwise){steep, right}, 1, TG_GRADCHECK_SLOW, "the difference must be finite");
    expect((pointwise){steep, not_a_number}, 1, TG_GRADCHECK_SLOW, "analytic nan, numeric -inf");
    expect((pointwise){three_times, not_a_number}, 1, TG_GRADCHECK_SLOW,
           "analytic nan, numeric 3; the gradient must be");
    expect((pointwise){undefined, not_a_number}, 1, TG_GRADCHECK_SLOW, "analytic nan, numeric nan");
}

/* ---- a function that remembers ---- */

static tg_tensor *grows(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return tg_mul_scalar(tape, inputs[0], 3 + 1e-12 * ++*(int *)context);
}

static void test_results_that_change(void **state)
{
    (void)state;
    int calls = 0;
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 5}));
    assert_false(tg_gradcheck(grows, &calls, &x, 1, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "gradcheck: the result at [0] is 9.0000000");
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_added),
        cmocka_unit_test(test_rows_of_a_dense_gradient),
        cmocka_unit_test(test_what_is_repeated),
        cmocka_unit_test(test_one_of_many),
        cmocka_unit_test(test_one_tensor_twice),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_results_that_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
