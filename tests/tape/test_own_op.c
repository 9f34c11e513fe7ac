/* An op defined outside of the library, with its gradient check. Only public headers are used.
 *
 *   squareplus   y = (x + sqrt(x^2 + b)) / 2        a smooth relu, b >= 0 a constant
 *   gradient     dx += dy (1 + x / sqrt(x^2 + b)) / 2
 *
 * Barron, "Squareplus: A Softplus-Like Algebraic Rectifier" (2021). An op consists of kernels, a shape rule,
 * a descriptor, and a function that applies it.
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

/* 1. The kernels, one pair per dtype. Inputs are contiguous, because the descriptor accepts nothing else; the outputs
 * exist, and are not initialized. Forward keeps the root for backward, in the bytes that the shape rule declared. */
static void squareplus_forward_f32(const tg_op_call *call)
{
    const squareplus_attributes *a = call->attributes;
    const float *x = tg_tensor_data(call->inputs[0]);
    float *y = tg_tensor_data_mut(call->outputs[0]), *root = call->saved;
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        root[i] = sqrtf(x[i] * x[i] + (float)a->b);
        y[i] = (x[i] + root[i]) / 2;
    }
}

static void squareplus_forward_f64(const tg_op_call *call)
{
    const squareplus_attributes *a = call->attributes;
    const double *x = tg_tensor_data(call->inputs[0]);
    double *y = tg_tensor_data_mut(call->outputs[0]), *root = call->saved;
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        root[i] = sqrt(x[i] * x[i] + a->b);
        y[i] = (x[i] + root[i]) / 2;
    }
}

/* In the forward pass this was: y = (x + root) / 2. Backward adds, because x may have been used elsewhere, too. It is
 * called only if its one input needs a gradient; with several inputs input_gradients[i] can be NULL. */
static void squareplus_backward_f32(const tg_op_call *call)
{
    const float *x = tg_tensor_data(call->inputs[0]), *dy = call->output_gradients[0], *root = call->saved;
    float *dx = call->input_gradients[0];
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        dx[i] += dy[i] * (1 + x[i] / root[i]) / 2;
    }
}

static void squareplus_backward_f64(const tg_op_call *call)
{
    const double *x = tg_tensor_data(call->inputs[0]), *dy = call->output_gradients[0], *root = call->saved;
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        dx[i] += dy[i] * (1 + x[i] / root[i]) / 2;
    }
}

/* 2. The shape rule: checks what the kernels rely on, and declares what they need. A chain of calls that return false
 * after an error. */
static bool squareplus_shape(tg_op_call *call)
{
    const squareplus_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    if (!(a->b >= 0)) {
        return tg_op_fail(call, TG_ERROR_VALUE, "b is %g; it must be at least 0", a->b);
    }
    size_t size = tg_dtype_size(tg_tensor_dtype(x));
    return tg_op_expect_float(call, 0) && tg_op_output(call, 0, tg_tensor_dtype(x), tg_tensor_shape(x)) &&
           tg_op_save(call, tg_tensor_count(x), size);
}

/* 3. The descriptor. Backward reads x, but not y, so y may be changed in place before it. A backward after x was
 * changed is an error, and never a wrong gradient. */
static const tg_op squareplus_op = {
    .name = "squareplus",
    .shape = squareplus_shape,
    .f32 = {squareplus_forward_f32, squareplus_backward_f32},
    .f64 = {squareplus_forward_f64, squareplus_backward_f64},
    .backward_ignores_outputs = TG_OP_ALL,
};

/* 4. The function: an op like any other from here on. */
static tg_tensor *squareplus(tg_tape *tape, tg_tensor *x, double b)
{
    squareplus_attributes attributes = {.b = b};
    return tg_apply(tape, &squareplus_op, &x, 1, &attributes, sizeof attributes, NULL);
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
    if (!tg_gradcheck(function, &b, &x, 1, NULL, &report, NULL)) {
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
    if (!tg_gradcheck(function, &b, &x, 1, &config, &report, NULL)) {
        fail_msg("%s", report.text);
    }
    tg_release(x);
}

/* (0.75 + sqrt(0.5625 + 1)) / 2 = (0.75 + 1.25) / 2 = 1, exactly; and the slope is (1 + 0.75 / 1.25) / 2 = 0.8. */
static void test_value(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), (double[]){0.75}));
    tg_tensor *y = squareplus(tape, x, 1);
    assert_non_null(y);
    assert_true(tg_tensor_value_at(y, 0) == 1);
    assert_true(tg_backward(tape, y, NULL));
    assert_true(fabs(tg_tensor_value_at(tg_tensor_grad(x), 0) - 0.8) < 1e-15);
    tg_tape_free(tape);
    tg_release(x);
}

/* What the library does for an op whose descriptor is correct. */
static void test_refusals(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), (double[]){0.75})), *ids = tensor_i32(TG_SHAPE(1), (int32_t[]){3});
    assert_null(squareplus(tape, x, -1));
    assert_tape_error(tape, TG_ERROR_VALUE, "squareplus: b is -1; it must be at least 0");
    assert_null(squareplus(tape, ids, 1));
    assert_tape_error(tape, TG_ERROR_DTYPE, "squareplus: input 0 is i32");
    assert_null(squareplus(tape, NULL, 1));
    assert_tape_error(tape, TG_ERROR_STATE, "squareplus: input 0 is NULL");
    tg_tensor *y = squareplus(tape, x, 1);
    assert_true(tg_tensor_fill(x, 2, NULL));
    assert_false(tg_backward(tape, y, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'squareplus' was changed in place");
    tg_tape_free(tape);
    tg_release(x);
    tg_release(ids);
}

/* ---- what a descriptor declares ---- */

/* y = x a, in f64 only: gradients dx += dy a, da += dy x. `modes` are those of the last backward. */
static tg_gradient_mode modes[2];

static bool product_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, tg_tensor_dtype(call->inputs[0]), tg_tensor_shape(call->inputs[0]));
}

static void product_forward(const tg_op_call *call)
{
    const double *x = tg_tensor_data(call->inputs[0]), *a = tg_tensor_data(call->inputs[1]);
    double *y = tg_tensor_data_mut(call->outputs[0]);
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        y[i] = x[i] * a[i];
    }
}

static void product_backward(const tg_op_call *call)
{
    const double *dy = call->output_gradients[0];
    for (int k = 0; k < 2; k++) {
        const double *other = tg_tensor_data(call->inputs[1 - k]);
        double *gradient = call->input_gradients[k];
        modes[k] = call->gradient_modes[k];
        for (int64_t i = 0; gradient && i < tg_tensor_count(call->inputs[0]); i++) {
            gradient[i] = (modes[k] == TG_GRADIENT_WRITE ? 0 : gradient[i]) + dy[i] * other[i];
        }
    }
}

static const tg_op product_op = {.name = "product", .shape = product_shape, .f64 = {product_forward, product_backward}};

static tg_tensor *product(tg_tape *tape, const tg_op *op, tg_tensor *x, tg_tensor *a)
{
    return tg_apply(tape, op, (tg_tensor *[]){x, a}, 2, NULL, 0, NULL);
}

static void test_missing_kernels(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(2), (float[]){1, 2})),
              *wide = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2}));
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 2});
    assert_null(product(tape, &product_op, x, x));
    assert_tape_error(tape, TG_ERROR_DTYPE, "product: the op has no forward kernel for f32");
    /* without a float f64 is used */
    const tg_op single = {.name = "single", .shape = product_shape, .f32 = {product_forward, product_backward}};
    assert_null(product(tape, &single, ids, ids));
    assert_tape_error(tape, TG_ERROR_DTYPE, "single: the op has no forward kernel for f64");
    assert_null(product(tape, &single, wide, wide));
    assert_tape_error(tape, TG_ERROR_DTYPE, "single: the op has no forward kernel for f64");
    /* no gradient is an error only if it is asked for */
    const tg_op constant = {.name = "constant", .shape = product_shape, .f64 = {.forward = product_forward}};
    tg_tensor *y = product(tape, &constant, wide, wide);
    assert_values(y, (double[]){1, 4}, 2, 0, 0);
    tg_backward_config config = tg_backward_config_default();
    config.gradient = wide;
    assert_false(tg_backward(tape, y, &config));
    assert_tape_error(tape, TG_ERROR_DTYPE, "'constant' has no gradient for f64");
    assert_int_equal(tg_tensor_grad_kind(wide), TG_GRAD_NONE);
    tg_tape_free(tape);
    tg_release(x);
    tg_release(wide);
    tg_release(ids);
}

/* Applies the op to x = 3 and a = 5, modifies an input (0 or 1) or the output (2), and tests what backward does. */
static void check_modified(const tg_op *op, int modified, const char *refusal)
{
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *inputs[] = {leaf(tensor_f64(TG_SHAPE(1), (double[]){3})), leaf(tensor_f64(TG_SHAPE(1), (double[]){5}))};
    tg_tensor *y = product(tape, op, inputs[0], inputs[1]);
    assert_true(tg_tensor_fill(modified < 2 ? inputs[modified] : y, 7, NULL));
    assert_int_equal(tg_backward(tape, y, NULL), refusal == NULL);
    if (refusal) {
        assert_tape_error(tape, TG_ERROR_STATE, refusal);
        assert_int_equal(tg_tensor_grad_kind(inputs[0]), TG_GRAD_NONE);
    } else {
        assert_true(tg_tensor_item(tg_tensor_grad(inputs[0]), NULL) == (modified == 1 ? 7 : 5));
    }
    tg_tape_free(tape);
    tg_release(inputs[0]);
    tg_release(inputs[1]);
}

static void test_modified_values(void **state)
{
    (void)state;
    tg_op op = product_op;
    check_modified(&op, 0, "input 0 of 'product' was changed in place after it was recorded");
    check_modified(&op, 1, "input 1 of 'product' was changed in place after it was recorded");
    check_modified(&op, 2, "output 0 of 'product' was changed in place after it was recorded");
    op.backward_ignores_inputs = 1u << 0;
    check_modified(&op, 0, NULL);
    check_modified(&op, 1, "input 1 of 'product' was changed in place");
    check_modified(&op, 2, "output 0 of 'product' was changed in place");
    op.backward_ignores_inputs = TG_OP_ALL;
    check_modified(&op, 0, NULL);
    check_modified(&op, 1, NULL);
    check_modified(&op, 2, "output 0 of 'product' was changed in place");
    op.backward_ignores_inputs = 0;
    op.backward_ignores_outputs = TG_OP_ALL;
    check_modified(&op, 0, "input 0 of 'product' was changed in place");
    check_modified(&op, 2, NULL);
    op.backward_ignores_inputs = TG_OP_ALL;
    check_modified(&op, 1, NULL);
    check_modified(&op, 2, NULL);
}

/* An input counts as modified through a view, too, and a write through data_mut counts. */
static void test_modified_through_a_view(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 4}));
    tg_tensor *first = tg_slice(tape, x, 0, 0, 1, 1), *y = product(tape, &product_op, first, first);
    ((double *)tg_tensor_data_mut(x))[1] = 9;
    assert_false(tg_backward(tape, y, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'product' was changed in place");
    tg_tape_free(tape);
    tg_release(x);
}

/* d (x a) / dx where the gradient of x is new, and where it exists; and x x, where both gradients share memory. */
static void test_overwrite(void **state)
{
    (void)state;
    tg_op op = product_op;
    op.can_overwrite = true;
    for (int can = 0; can < 2; can++) {
        const tg_op *used = can ? &op : &product_op;
        tg_tape *tape = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), (double[]){3})), *a = tensor_f64(TG_SHAPE(1), (double[]){5});
        assert_true(tg_backward(tape, product(tape, used, x, a), NULL));
        assert_int_equal(modes[0], can ? TG_GRADIENT_WRITE : TG_GRADIENT_ADD);
        assert_int_equal(modes[1], TG_GRADIENT_NONE);
        assert_true(tg_tensor_item(tg_tensor_grad(x), NULL) == 5);
        assert_int_equal(tg_tensor_grad_kind(a), TG_GRAD_NONE);
        assert_true(tg_backward(tape, product(tape, used, x, a), NULL));
        assert_int_equal(modes[0], TG_GRADIENT_ADD);
        assert_true(tg_tensor_item(tg_tensor_grad(x), NULL) == 10);
        tg_tensor_zero_grad(x);
        assert_true(tg_backward(tape, product(tape, used, x, x), NULL));
        assert_int_equal(modes[0], TG_GRADIENT_ADD);
        assert_int_equal(modes[1], TG_GRADIENT_ADD);
        assert_true(tg_tensor_item(tg_tensor_grad(x), NULL) == 6);
        tg_tape_free(tape);
        tg_release(x);
        tg_release(a);
    }
}

/* ---- several outputs ---- */

/* Quotient and remainder of two numbers; the test reads which gradients of outputs backward was given. */
static bool outputs_seen[2];

static bool division_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F64, TG_SCALAR) && tg_op_output(call, 1, TG_F64, TG_SCALAR);
}

static void division_forward(const tg_op_call *call)
{
    const double *x = tg_tensor_data(call->inputs[0]), *a = tg_tensor_data(call->inputs[1]);
    *(double *)tg_tensor_data_mut(call->outputs[0]) = trunc(x[0] / a[0]);
    *(double *)tg_tensor_data_mut(call->outputs[1]) = fmod(x[0], a[0]);
}

static void division_backward(const tg_op_call *call)
{
    outputs_seen[0] = call->output_gradients[0] != NULL;
    outputs_seen[1] = call->output_gradients[1] != NULL;
    if (call->output_gradients[1]) {
        *(double *)call->input_gradients[0] += *(const double *)call->output_gradients[1];
    }
}

static const tg_op division_op = {
    .name = "division", .shape = division_shape, .f64 = {division_forward, division_backward}};

static void test_two_outputs(void **state)
{
    (void)state;
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SCALAR, (double[]){17})), *a = tensor_f64(TG_SCALAR, (double[]){5});
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS];
    tg_tensor *first = tg_apply(tape, &division_op, (tg_tensor *[]){x, a}, 2, NULL, 0, outputs);
    assert_ptr_equal(first, outputs[0]);
    assert_true(tg_tensor_item(outputs[0], NULL) == 3);
    assert_true(tg_tensor_item(outputs[1], NULL) == 2);
    assert_true(tg_backward(tape, outputs[1], NULL));
    assert_false(outputs_seen[0]);
    assert_true(outputs_seen[1]);
    assert_true(tg_tensor_item(tg_tensor_grad(x), NULL) == 1);
    tg_tape_free(tape);
    tg_release(x);
    tg_release(a);
}

/* ---- mistakes in a descriptor or a call ---- */

static bool refuses_without_an_error(tg_op_call *call)
{
    (void)call;
    return false;
}

static bool declares_nothing(tg_op_call *call)
{
    (void)call;
    return true;
}

static bool declares_output_one(tg_op_call *call)
{
    return tg_op_output(call, 1, TG_F64, TG_SCALAR);
}

static bool declares_no_dtype(tg_op_call *call)
{
    return tg_op_output(call, 0, (tg_dtype)9, TG_SCALAR);
}

static bool declares_a_negative_size(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F64, TG_SHAPE(3, -2));
}

static bool declares_too_much(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F64, TG_SCALAR) && tg_op_save(call, INT64_MAX, 8);
}

static bool names_input_two(tg_op_call *call)
{
    return tg_op_expect_rank(call, 2, 1);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        bool (*shape)(tg_op_call *call);
        tg_code code;
        const char *text;
    } rules[] = {
        {refuses_without_an_error, TG_ERROR_STATE, "wrong: the shape rule refused the inputs without an error"},
        {declares_nothing, TG_ERROR_VALUE, "wrong: the shape rule declares no output"},
        {declares_output_one, TG_ERROR_VALUE, "wrong: output 1 is declared out of order"},
        {declares_no_dtype, TG_ERROR_DTYPE, "wrong: 9 is not a dtype"},
        {declares_a_negative_size, TG_ERROR_SHAPE, "wrong: size -2 of axis 1 in (3,-2) is negative"},
        {declares_too_much, TG_ERROR_MEMORY, "wrong: 9223372036854775807 times 8 bytes do not fit into memory"},
        {names_input_two, TG_ERROR_VALUE, "wrong: the shape rule uses input 2, but the call has 2 inputs"},
    };
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), (double[]){3}));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const tg_op op = {.name = "wrong", .shape = rules[i].shape, .f64 = {product_forward, product_backward}};
        assert_null(product(tape, &op, x, x));
        assert_tape_error(tape, rules[i].code, rules[i].text);
    }
    const tg_op nameless = {.shape = product_shape}, shapeless = {.name = "shapeless"};
    assert_null(product(tape, NULL, x, x));
    assert_tape_error(tape, TG_ERROR_STATE, "apply: the op is NULL");
    assert_null(product(tape, &nameless, x, x));
    assert_tape_error(tape, TG_ERROR_STATE, "apply: the op's name is NULL");
    assert_null(product(tape, &shapeless, x, x));
    assert_tape_error(tape, TG_ERROR_STATE, "apply: the op's shape rule is NULL");
    assert_null(tg_apply(tape, &product_op, NULL, 2, NULL, 0, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "apply: the inputs are NULL");
    assert_null(tg_apply(tape, &product_op, (tg_tensor *[]){x, x}, -1, NULL, 0, NULL));
    assert_tape_error(tape, TG_ERROR_VALUE, "product: -1 inputs; it must be 0 or more");
    assert_null(tg_apply(tape, &product_op, (tg_tensor *[]){x, x}, 2, NULL, 8, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "apply: the attributes are NULL");
    assert_false(tg_tape_fail(tape, TG_ERROR_VALUE, "own", "%d is odd", 7));
    assert_null(product(tape, &product_op, x, x));
    assert_tape_error(tape, TG_ERROR_VALUE, "own: 7 is odd");
    assert_non_null(product(tape, &product_op, x, x));
    tg_tape_free(tape);
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_gradient_in_floats),
        cmocka_unit_test(test_value),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_missing_kernels),
        cmocka_unit_test(test_modified_values),
        cmocka_unit_test(test_modified_through_a_view),
        cmocka_unit_test(test_overwrite),
        cmocka_unit_test(test_two_outputs),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
