/* tg_grad and tg_hvp as calls: which tensors they serve, what they leave as it was, and what they refuse. That the
 * derivatives are right is shown by test_second.c and by the suite ops. */
#include <math.h>
#include <string.h>

#include "support.h"
#include "tensor/tensor.h"

#include <tapegrad/op.h>

static tg_run *run;
static tg_tape *tape;
static tg_tensor *x, *w; /* leaves of 3 values */

static const double xs[] = {0.5, -1, 2}, ws[] = {3, 0.25, -1.5};

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(5);
    tape = tg_tape_new(run, NULL);
    x = leaf(tensor_f64(TG_SHAPE(3), xs));
    w = leaf(tensor_f64(TG_SHAPE(3), ws));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_release(x);
    tg_release(w);
    tg_run_free(run);
    return 0;
}

static tg_tensor *total(tg_tensor *y)
{
    return tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES);
}

/* sum w x^3 */
static tg_tensor *cubic(void)
{
    return total(tg_mul(tape, w, tg_pow_scalar(tape, x, 3)));
}

static tg_grad_config graph(bool create_graph)
{
    tg_grad_config config = tg_grad_config_default();
    config.create_graph = create_graph;
    return config;
}

/* Returns the gradient of one output with respect to one input. */
static tg_tensor *grad(tg_tensor *y, tg_tensor *of, bool create_graph)
{
    tg_tensor *gradient;
    tg_grad_config config = graph(create_graph);
    if (!tg_grad(tape, &y, 1, &of, 1, &gradient, &config)) {
        fail_msg("%s", tg_tape_error(tape)->text);
    }
    return gradient;
}

/* w x^3 has the derivatives 3 w x^2, 6 w x, 6 w and 0, and the mixed one 3 x^2; the last pass runs the kernels. */
static void test_higher_orders(void **state)
{
    (void)state;
    double first[3], second[3], third[3], mixed[3];
    for (int i = 0; i < 3; i++) {
        first[i] = 3 * ws[i] * xs[i] * xs[i];
        second[i] = 6 * ws[i] * xs[i];
        third[i] = 6 * ws[i];
        mixed[i] = 3 * xs[i] * xs[i];
    }
    tg_tensor *g = grad(cubic(), x, true);
    assert_values(g, first, 3, 1e-14, 0);
    tg_tensor *h = grad(total(g), x, true);
    assert_values(h, second, 3, 1e-14, 0);
    assert_values(grad(total(g), w, true), mixed, 3, 1e-14, 0);
    assert_values(grad(total(h), x, true), third, 3, 1e-14, 0);
    assert_values(grad(total(h), x, false), third, 3, 1e-14, 0);
    assert_true(tg_backward(tape, total(g), NULL));
    assert_values(tg_tensor_grad(x), second, 3, 1e-14, 0);
    assert_values(tg_tensor_grad(w), mixed, 3, 1e-14, 0);
}

/* Neither kind of pass touches a gradient, also that of a result, and the tape goes on. */
static void test_no_gradient_changes(void **state)
{
    (void)state;
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        tg_tape_reset(tape);
        tg_tensor_zero_grad(x);
        tg_tensor_zero_grad(w);
        assert_true(tg_backward(tape, cubic(), NULL));
        double before = tg_tensor_value_at(tg_tensor_grad(x), 2);
        tg_tensor *middle = tg_mul(tape, x, w), *y = total(tg_mul(tape, middle, middle));
        assert_true(tg_retain_grad(tape, middle));
        tg_tensor *inputs[] = {x, middle, x}, *gradients[3];
        tg_grad_config config = graph(create_graph);
        config.retain_graph = true;
        assert_true(tg_grad(tape, &y, 1, inputs, 3, gradients, &config));
        for (int i = 0; i < 3; i++) {
            double product = xs[i] * ws[i];
            assert_float_equal(tg_tensor_value_at(gradients[0], i), 2 * product * ws[i], 1e-14);
            assert_float_equal(tg_tensor_value_at(gradients[1], i), 2 * product, 1e-14);
        }
        assert_ptr_equal(gradients[2], gradients[0]);
        assert_int_equal(tg_tensor_requires_grad(gradients[0]), create_graph);
        assert_true(tg_tensor_value_at(tg_tensor_grad(x), 2) == before);
        assert_int_equal(tg_tensor_grad_kind(middle), TG_GRAD_NONE);
        assert_true(tg_backward(tape, y, NULL));
        assert_true(tg_tensor_value_at(tg_tensor_grad(middle), 0) == 2 * xs[0] * ws[0]);
    }
}

/* Several outputs, a leaf and an input among them, with gradients of their own and without. */
static void test_several_outputs(void **state)
{
    (void)state;
    const double dys[] = {1, 10, 100};
    tg_tensor *dy = tensor_f64(TG_SHAPE(3), dys);
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        tg_tape_reset(tape);
        tg_tensor *outputs[] = {tg_mul(tape, x, w), total(x), x}, *inputs[] = {x, w}, *gradients[2];
        tg_tensor *given[] = {dy, NULL, dy};
        tg_grad_config config = graph(create_graph);
        config.output_gradients = given;
        config.output_gradient_count = 3;
        assert_true(tg_grad(tape, outputs, 3, inputs, 2, gradients, &config));
        for (int i = 0; i < 3; i++) {
            assert_float_equal(tg_tensor_value_at(gradients[0], i), dys[i] * ws[i] + 1 + dys[i], 1e-13);
            assert_float_equal(tg_tensor_value_at(gradients[1], i), dys[i] * xs[i], 1e-13);
        }
    }
    tg_release(dy);
}

/* A gradient is the caller's: changing it changes neither dy nor another one. */
static void test_results_are_independent(void **state)
{
    (void)state;
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        tg_tape_reset(tape);
        tg_tensor *dy = tensor_f64(TG_SHAPE(3), ws), *y = tg_add(tape, x, w), *inputs[] = {x, w}, *gradients[2];
        tg_grad_config config = graph(create_graph);
        config.output_gradients = &dy;
        config.output_gradient_count = 1;
        assert_true(tg_grad(tape, &y, 1, inputs, 2, gradients, &config));
        ((double *)tg_tensor_data_mut(gradients[0]))[0] = 99;
        assert_values(gradients[1], ws, 3, 0, 0);
        assert_values(dy, ws, 3, 0, 0);
        tg_release(dy);
    }
}

/* A table's gradient is dense; that of frozen rows is zero, and so is their second derivative. */
static void test_tables(void **state)
{
    (void)state;
    const int32_t ids[] = {1, 3, 1};
    const double values[] = {1, 2, 3, 4, 5, 6, 7, 8}, first[] = {0, 0, 12, 16, 0, 0, 0, 0};
    tg_tensor *rows = tensor_i32(TG_SHAPE(3), ids), *table = leaf(tensor_f64(TG_SHAPE(4, 2), values));
    assert_true(tg_tensor_set_rows_frozen(table, 3, 1, true, NULL));
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        tg_tape_reset(tape);
        tg_tensor *looked_up = tg_embedding(tape, rows, table, NULL);
        tg_tensor *g = grad(total(tg_mul(tape, looked_up, looked_up)), table, create_graph);
        assert_values(g, first, 8, 1e-15, 0);
        if (create_graph) {
            const double second[] = {0, 0, 4, 4, 0, 0, 0, 0};
            assert_values(grad(total(g), table, false), second, 8, 1e-15, 0);
        }
        assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_NONE);
    }
    tg_release(rows);
    tg_release(table);
}

static bool fails(tg_tensor *const *outputs, int output_count, tg_tensor *const *inputs, int input_count,
                  const tg_grad_config *config, tg_code code, const char *part)
{
    tg_tensor *gradients[] = {x, x, x};
    bool failed = !tg_grad(tape, outputs, output_count, inputs, input_count, gradients, config);
    for (int i = 0; i < input_count; i++) {
        assert_null(gradients[i]);
    }
    assert_tape_error(tape, code, part);
    return failed;
}

static bool no_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F64, tg_tensor_shape(call->inputs[0]));
}

static void no_kernel(const tg_op_call *call)
{
    memset(call->outputs[0] ? tg_tensor_data_mut(call->outputs[0]) : call->input_gradients[0], 0, 3 * sizeof(double));
}

/* The gradient in ops of a user's op that has the wrong shape. */
static void wrong_shape(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    (void)call;
    dx[0] = tg_slice(t, dy[0], 0, 0, 2, 1);
}

static void test_bad_input(void **state)
{
    (void)state;
    static const tg_op once = {.name = "once", .shape = no_shape, .f64 = {no_kernel, no_kernel}};
    static const tg_op wrong = {
        .name = "wrong", .shape = no_shape, .f64 = {no_kernel, no_kernel}, .differentiate = wrong_shape};
    tg_grad_config plain = graph(false), ops = graph(true);
    tg_tensor *y = cubic(), *vector = tg_mul(tape, x, w);
    tg_tensor *constant = tensor_f64(TG_SHAPE(3), xs), *scalar = tensor_f64(TG_SCALAR, xs);
    for (int k = 0; k < 2; k++) {
        tg_grad_config *config = k == 0 ? &plain : &ops;
        assert_true(fails(NULL, 1, &x, 1, config, TG_ERROR_STATE, "grad: the outputs are NULL"));
        assert_true(fails(&y, 1, NULL, 0, config, TG_ERROR_STATE, "grad: the inputs are NULL"));
        assert_true(fails(&y, 0, &x, 1, config, TG_ERROR_VALUE, "grad: 0 outputs and 1 inputs; there must be"));
        assert_true(fails(&vector, 1, &x, 1, config, TG_ERROR_SHAPE, "grad: output 0 has shape (3,)"));
        assert_true(fails(&y, 1, &constant, 1, config, TG_ERROR_STATE, "grad: input 0 does not require a gradient"));
        assert_true(fails(&constant, 1, &x, 1, config, TG_ERROR_STATE, "grad: output 0 does not require a gradient"));
        tg_tensor *inputs[] = {x, leaf(scalar)};
        assert_true(fails(&y, 1, inputs, 2, config, TG_ERROR_STATE, "grad: no output depends on input 1"));
        config->output_gradients = &constant;
        config->output_gradient_count = 1;
        assert_true(fails(&y, 1, &x, 1, config, TG_ERROR_SHAPE, "output gradient 0 has shape (3,), and output 0 ()"));
        config->output_gradient_count = 2;
        assert_true(fails(&y, 1, &x, 1, config, TG_ERROR_VALUE, "grad: 2 output_gradients for 1 outputs"));
        config->output_gradients = NULL;
        assert_true(fails(&y, 1, &x, 1, config, TG_ERROR_VALUE, "grad: output_gradient_count is 2, but"));
        config->output_gradient_count = 0;
        tg_tape *other = tg_tape_new(run, NULL);
        tg_tensor *foreign = tg_sum(other, x, TG_ALL_AXES, TG_DROP_AXES);
        assert_true(fails(&foreign, 1, &x, 1, config, TG_ERROR_STATE, "grad: output 0 was recorded on another tape"));
        tg_tape_free(other);
        assert_true(tg_activation_checkpoint_begin(tape));
        assert_true(fails(&y, 1, &x, 1, config, TG_ERROR_STATE, "grad: a span is open"));
        tg_tensor *dropped = tg_activation_checkpoint_end(tape, tg_exp(tape, tg_tanh(tape, tg_sin(tape, x))));
        tg_tensor *end = total(dropped);
        if (k == 1) {
            assert_true(fails(&end, 1, &x, 1, config, TG_ERROR_STATE, "activation_checkpoint_end has dropped values"));
        }
    }
    tg_tensor *unknown = tg_apply(tape, &once, &x, 1, NULL, 0, NULL), *sum = total(tg_mul(tape, unknown, x));
    assert_true(fails(&sum, 1, &x, 1, &ops, TG_ERROR_VALUE, "grad: 'once' has no second derivative"));
    grad(sum, x, false);
    sum = total(tg_apply(tape, &wrong, &x, 1, NULL, 0, NULL));
    assert_true(fails(&sum, 1, &x, 1, &ops, TG_ERROR_SHAPE, "differentiate of 'wrong' gives f64 (2,) for an input"));
    /* an earlier pass has freed the records, and a value is changed in place */
    sum = total(tg_mul(tape, x, w));
    grad(sum, x, false);
    assert_true(fails(&sum, 1, &x, 1, &plain, TG_ERROR_STATE, "grad: an earlier backward has freed"));
    assert_true(fails(&sum, 1, &x, 1, &ops, TG_ERROR_STATE, "grad: an earlier backward has freed"));
    sum = total(tg_mul(tape, x, w));
    tg_tensor_data_mut(w);
    assert_true(fails(&sum, 1, &x, 1, &plain, TG_ERROR_STATE, "grad: input 1 of 'mul' was changed in place"));
    assert_true(fails(&sum, 1, &x, 1, &ops, TG_ERROR_STATE, "grad: input 1 of 'mul' was changed in place"));
    tg_release(constant);
    tg_release(scalar);
}

/* An input on which nothing depends, if that is allowed. */
static void test_unused(void **state)
{
    (void)state;
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        tg_tape_reset(tape);
        tg_tensor *y = total(tg_mul(tape, x, x)), *inputs[] = {w, x}, *gradients[2];
        tg_grad_config config = graph(create_graph);
        config.allow_unused = true;
        assert_true(tg_grad(tape, &y, 1, inputs, 2, gradients, &config));
        assert_null(gradients[0]);
        assert_float_equal(tg_tensor_value_at(gradients[1], 2), 2 * xs[2], 0);
        /* an op without a slope is another thing */
        assert_values(grad(total(tg_floor(tape, x)), x, create_graph), (double[]){0, 0, 0}, 3, 0, 0);
    }
}

/* Memory that runs out at each allocation: an error, no leak, and the tape works afterwards. */
static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator memory;
    tg_tape_free(tape);
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        bool done = false;
        for (size_t at = 1; !done; at++) {
            assert_true(at < 1000);
            allocator_install(&memory);
            tg_run *own = tg_run_new(1);
            tg_tape_config config = tg_tape_config_default();
            config.recycle = false;
            tape = tg_tape_new(own, &config);
            tg_tensor *a = leaf(tensor_f64(TG_SHAPE(3), xs)), *y = total(tg_mul(tape, tg_tanh(tape, a), a));
            tg_tensor *outputs[] = {y, y}, *gradient = a;
            tg_grad_config how = graph(create_graph);
            how.retain_graph = true;
            allocator_arm(&memory, at, false);
            done = tg_grad(tape, outputs, 2, &a, 1, &gradient, &how);
            allocator_arm(&memory, 0, false);
            if (!done) {
                assert_null(gradient);
                assert_null(tg_tensor_grad(a));
                assert_tape_error(tape, TG_ERROR_MEMORY, "out of memory");
                assert_true(tg_grad(tape, outputs, 2, &a, 1, &gradient, &how));
            }
            double tanh_of = tanh(xs[0]);
            assert_float_equal(tg_tensor_value_at(gradient, 0), 2 * (tanh_of + xs[0] * (1 - tanh_of * tanh_of)), 1e-14);
            tg_tape_free(tape);
            tg_release(a);
            tg_run_free(own);
            assert_int_equal(memory.live, 0);
            allocator_restore();
        }
    }
    tape = tg_tape_new(run, NULL);
}

/* ---- products of a Hessian and a vector ---- */

typedef struct loss {
    int calls;
    double factor;
} loss;

/* sum w sin x + factor w^2, whose Hessian has the blocks -w sin x, cos x and 2 factor. */
static tg_tensor *waves(tg_tape *t, void *context)
{
    loss *l = context;
    l->calls++;
    tg_tensor *terms = tg_add(t, tg_mul(t, w, tg_sin(t, x)), tg_mul_scalar(t, tg_mul(t, w, w), l->factor));
    return tg_sum(t, terms, TG_ALL_AXES, TG_DROP_AXES);
}

static tg_tensor *line(tg_tape *t, void *context)
{
    (void)context;
    return tg_sum(t, x, TG_ALL_AXES, TG_DROP_AXES);
}

static tg_tensor *noise(tg_tape *t, void *context)
{
    (void)context;
    tg_tensor *dropped = tg_dropout(t, x, 0.5);
    return tg_sum(t, tg_mul(t, dropped, dropped), TG_ALL_AXES, TG_DROP_AXES);
}

static void test_hvp(void **state)
{
    (void)state;
    const double vs[] = {1, -2, 0.5}, us[] = {0.25, 3, -1};
    tg_tensor *v = tensor_f64(TG_SHAPE(3), vs), *u = tensor_f64(TG_SHAPE(3), us);
    tg_tensor *inputs[] = {x, w}, *vectors[] = {v, u}, *products[2];
    for (int by_differences = 0; by_differences < 2; by_differences++) {
        loss l = {0, 1.5};
        tg_hvp_config config = tg_hvp_config_default();
        config.step = by_differences ? 1e-5 : 0;
        assert_true(tg_hvp(tape, waves, &l, inputs, 2, vectors, products, &config));
        assert_int_equal(l.calls, 1 + by_differences);
        for (int i = 0; i < 3; i++) {
            double of_x = -ws[i] * sin(xs[i]) * vs[i] + cos(xs[i]) * us[i], of_w = cos(xs[i]) * vs[i] + 3 * us[i];
            assert_float_equal(tg_tensor_value_at(products[0], i), of_x, by_differences ? 1e-8 : 1e-14);
            assert_float_equal(tg_tensor_value_at(products[1], i), of_w, by_differences ? 1e-8 : 1e-14);
        }
        assert_values(x, xs, 3, 0, 0);
        assert_values(w, ws, 3, 0, 0);
        assert_null(tg_tensor_grad(x));
        /* a line has no second derivative, and does not depend on w */
        assert_true(tg_hvp(tape, line, NULL, inputs, 2, vectors, products, &config));
        assert_values(products[0], (const double[]){0, 0, 0}, 3, 0, 1e-10);
        assert_values(products[1], (const double[]){0, 0, 0}, 3, 0, 0);
        /* both calls draw the same numbers, so the quotient exists: 2 or 8 where x is kept */
        assert_true(tg_hvp(tape, noise, NULL, inputs, 1, vectors, products, &config));
        int kept = 0;
        for (int i = 0; i < 3; i++) {
            double product = fabs(tg_tensor_value_at(products[0], i) / vs[i]);
            assert_true(product < 1e-9 || fabs(product - 8) < 1e-4);
            kept += product > 1;
        }
        assert_true(kept > 0);
    }
    for (int i = 0; i < 1100; i++) { /* more than max_backwards: a product keeps no records */
        assert_true(tg_hvp(tape, line, NULL, inputs, 1, vectors, products, NULL));
    }
    tg_hvp_config config = tg_hvp_config_default();
    config.step = -1;
    assert_false(tg_hvp(tape, line, NULL, inputs, 2, vectors, products, &config));
    assert_tape_error(tape, TG_ERROR_VALUE, "hvp: step -1; it must be finite");
    config.step = 0;
    tg_tensor *result = tg_exp(tape, x);
    assert_false(tg_hvp(tape, line, NULL, &result, 1, vectors, products, &config));
    assert_tape_error(tape, TG_ERROR_STATE, "hvp: input 0 is no leaf");
    assert_null(products[0]);
    tg_release(v);
    tg_release(u);
}

/* ---- tg_gradgradcheck ---- */

static tg_tensor *smooth(tg_tape *t, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count, (void)context;
    return tg_mul(t, tg_tanh(t, inputs[0]), tg_exp(t, inputs[1]));
}

static void wrong_factor(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_mul(t, dy[0], tg_mul_scalar(t, call->inputs[0], 2.1));
}

static void square_forward(const tg_op_call *call)
{
    const double *in = tg_tensor_data(call->inputs[0]);
    double *out = tg_tensor_data_mut(call->outputs[0]);
    for (int i = 0; i < 3; i++) {
        out[i] = in[i] * in[i];
    }
}

static void square_backward(const tg_op_call *call)
{
    const double *in = tg_tensor_data(call->inputs[0]), *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0];
    for (int i = 0; i < 3; i++) {
        dx[i] += 2 * in[i] * dy[i];
    }
}

static tg_tensor *squares(tg_tape *t, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count;
    return tg_apply(t, context, inputs, 1, NULL, 0, NULL);
}

static void test_gradgradcheck(void **state)
{
    (void)state;
    tg_tensor *inputs[] = {x, w};
    tg_gradcheck_report report;
    tg_gradcheck_config config = tg_gradcheck_config_default();
    tg_error error = TG_NO_ERROR;
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        config.mode = (tg_gradcheck_mode)mode;
        assert_true(tg_gradgradcheck(smooth, NULL, inputs, 2, &config, &report, &error));
        assert_true(report.compared > 0);
    }
    /* 2.1 x instead of 2 x is right by its own differences */
    static tg_op square = {
        .name = "square", .shape = no_shape, .f64 = {square_forward, square_backward}, .differentiate = wrong_factor};
    assert_true(tg_gradcheck(squares, &square, &x, 1, NULL, NULL, &error));
    assert_false(tg_gradgradcheck(squares, &square, &x, 1, NULL, &report, &error));
    assert_error(&error, TG_ERROR_VALUE, "grad: the gradient of input 0 at [0], from 1 dy, is ");
    square.differentiate = NULL;
    assert_false(tg_gradgradcheck(squares, &square, &x, 1, NULL, &report, &error));
    assert_error(&error, TG_ERROR_VALUE, "'square' has no second derivative");
    assert_false(tg_gradgradcheck(NULL, NULL, inputs, 2, NULL, &report, &error));
    assert_error(&error, TG_ERROR_STATE, "gradgradcheck: the function is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_higher_orders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_gradient_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several_outputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_results_are_independent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_input, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_out_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hvp, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gradgradcheck, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
