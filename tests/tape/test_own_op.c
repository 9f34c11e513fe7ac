/* An op written from outside of the library, from the first line to its gradient check: only public headers are used.
 *
 *   squareplus   y = (x + sqrt(x^2 + b)) / 2        a smooth relu, b >= 0 a constant
 *   gradient     dx += dy (1 + x / sqrt(x^2 + b)) / 2
 *
 * Barron, "Squareplus: A Softplus-Like Algebraic Rectifier" (2021). An op is: kernels, a shape rule, a descriptor, and
 * a function that applies it.
 */
#include "support.h"

#include <math.h>
#include <string.h>

#include <tapegrad/gradcheck.h>
#include <tapegrad/op.h>

/* What the call needs besides its tensors. tg_apply copies it. */
typedef struct squareplus_attributes {
    double b;
} squareplus_attributes;

/* 1. The kernels, one pair for each dtype. Inputs are contiguous, because the descriptor says nothing else; the outputs
 * are there, and not initialised. Forward keeps the root for backward, in the bytes that the shape rule asked for. */
static void squareplus_forward_f32(const tg_op_call *call)
{
    const squareplus_attributes *a = call->attributes;
    const float *x = tg_data(call->inputs[0]);
    float *y = tg_data_mut(call->outputs[0]), *root = call->saved;
    for (int64_t i = 0; i < tg_count(call->inputs[0]); i++) {
        root[i] = sqrtf(x[i] * x[i] + (float)a->b);
        y[i] = (x[i] + root[i]) / 2;
    }
}

static void squareplus_forward_f64(const tg_op_call *call)
{
    const squareplus_attributes *a = call->attributes;
    const double *x = tg_data(call->inputs[0]);
    double *y = tg_data_mut(call->outputs[0]), *root = call->saved;
    for (int64_t i = 0; i < tg_count(call->inputs[0]); i++) {
        root[i] = sqrt(x[i] * x[i] + a->b);
        y[i] = (x[i] + root[i]) / 2;
    }
}

/* In the forward pass this was: y = (x + root) / 2. Backward adds: x may have been used elsewhere too. It is called
 * only when its one input needs a gradient; with several inputs input_gradients[i] can be NULL. */
static void squareplus_backward_f32(const tg_op_call *call)
{
    const float *x = tg_data(call->inputs[0]), *dy = call->output_gradients[0], *root = call->saved;
    float *dx = call->input_gradients[0];
    for (int64_t i = 0; i < tg_count(call->inputs[0]); i++) {
        dx[i] += dy[i] * (1 + x[i] / root[i]) / 2;
    }
}

static void squareplus_backward_f64(const tg_op_call *call)
{
    const double *x = tg_data(call->inputs[0]), *dy = call->output_gradients[0], *root = call->saved;
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < tg_count(call->inputs[0]); i++) {
        dx[i] += dy[i] * (1 + x[i] / root[i]) / 2;
    }
}

/* 2. The shape rule: checks what the kernels take for granted, and declares what they need. A chain of calls that are
 * false after an error. */
static bool squareplus_shape(tg_op_call *call)
{
    const squareplus_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    if (!(a->b >= 0)) {
        return tg_op_fail(call, TG_ERROR_VALUE, "b is %g; it must be at least 0", a->b);
    }
    return tg_op_expect_float(call, 0) && tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) &&
           tg_op_save(call, tg_count(x), tg_dtype_size(tg_dtype_of(x)));
}

/* 3. The descriptor. backward_reads_inputs: bit 0, because backward reads x. So a backward after x was overwritten is
 * an error, and never a wrong gradient. */
static const tg_op squareplus_op = {
    .name = "squareplus",
    .shape = squareplus_shape,
    .f32 = {squareplus_forward_f32, squareplus_backward_f32},
    .f64 = {squareplus_forward_f64, squareplus_backward_f64},
    .backward_reads_inputs = 1u << 0,
};

/* 4. The function: an op like any other from here on. */
static tg_tensor *squareplus(tg_tape *tape, tg_tensor *x, double b)
{
    squareplus_attributes attributes = {.b = b};
    return tg_apply(tape, &squareplus_op, &x, 1, &attributes, sizeof attributes);
}

/* 5. The check. */
static tg_tensor *function(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count;
    return squareplus(tape, inputs[0], *(const double *)context);
}

static void test_gradient(void **state)
{
    (void)state;
    double b = 0.25;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2, 3), (double[]){-2, -0.5, 0, 0.25, 1, 3}));
    tg_gradcheck_report report;
    if (!tg_gradcheck(function, &b, &x, 1, NULL, &report)) {
        fail_msg("%s", report.text);
    }
    assert_true(report.max_relative_error < 1e-7);
    tg_release(x);
}

static void test_gradient_in_floats(void **state)
{
    (void)state;
    double b = 0.25;
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(6), (float[]){-2, -0.5f, 0, 0.25f, 1, 3}));
    tg_gradcheck_report report;
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.dtype = TG_F32;
    config.numeric_in_f64 = true;
    if (!tg_gradcheck(function, &b, &x, 1, &config, &report)) {
        fail_msg("%s", report.text);
    }
    tg_release(x);
}

/* (0.75 + sqrt(0.5625 + 1)) / 2 = (0.75 + 1.25) / 2 = 1, exactly; and the slope there is (1 + 0.75 / 1.25) / 2 = 0.8.
 * */
static void test_value(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), (double[]){0.75}));
    tg_tensor *y = squareplus(tape, x, 1);
    assert_non_null(y);
    assert_true(tg_value_at(y, 0) == 1);
    assert_true(tg_backward(tape, y));
    assert_true(fabs(tg_value_at(tg_grad(x), 0) - 0.8) < 1e-15);
    tg_tape_free(tape);
    tg_release(x);
}

/* What the library does for an op that only says the truth in its descriptor. */
static void test_refusals(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), (double[]){0.75})), *ids = tensor_i32(TG_SHAPE(1), (int32_t[]){3});
    assert_null(squareplus(tape, x, -1));
    assert_tape_error(tape, TG_ERROR_VALUE, "squareplus: b is -1; it must be at least 0");
    assert_null(squareplus(tape, ids, 1));
    assert_tape_error(tape, TG_ERROR_DTYPE, "squareplus: input 0 is i32");
    assert_null(squareplus(tape, NULL, 1));
    assert_tape_error(tape, TG_ERROR_STATE, "squareplus: input 0 is NULL");
    tg_tensor *y = squareplus(tape, x, 1);
    assert_true(tg_fill(x, 2, NULL));
    assert_false(tg_backward(tape, y));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'squareplus' was changed in place");
    tg_tape_free(tape);
    tg_release(x);
    tg_release(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_gradient_in_floats),
        cmocka_unit_test(test_value),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
