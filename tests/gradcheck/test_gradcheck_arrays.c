/* tg_gradcheck_arrays: two functions of arrays, right and wrong, in f64 and f32. */
#include "support.h"

#include <string.h>

/* What the kernels do wrong. */
typedef enum fault { RIGHT, ASSIGNS, WRITES_BEYOND, WRONG_FACTOR } fault;

static int id_count;

/* y[i,:] = 2 table[id[i],:] for ids (id_count) and a table (4,2). */
static void lookup(void *context, const void *const *inputs, void *y)
{
    const int32_t *ids = inputs[0];
    const double *table = inputs[1];
    for (int i = 0; i < 2 * id_count; i++) {
        ((double *)y)[i] = 2 * table[ids[i / 2] * 2 + i % 2];
    }
    (void)context;
}

static void lookup_backward(void *context, const void *const *inputs, const void *dy, void *const *gradients)
{
    const fault *wrong = context;
    const int32_t *ids = inputs[0];
    double *dtable = gradients[1];
    for (int i = 0; i < 2 * id_count; i++) {
        double *at = dtable + ids[i / 2] * 2 + i % 2, step = 2 * ((const double *)dy)[i];
        *at = (*wrong == ASSIGNS ? 0 : *at) + (*wrong == WRONG_FACTOR ? 1.01 * step : step);
    }
    if (*wrong == WRITES_BEYOND) {
        dtable[8] = 1;
    }
}

static tg_tensor *inputs[2];

static int set_up(void **state)
{
    (void)state;
    id_count = 3;
    inputs[0] = tensor_i32(TG_SHAPE(3), (int32_t[]){2, 0, 2});
    inputs[1] = leaf(tensor_f64(TG_SHAPE(4, 2), (double[]){1, 2, 3, 4, 5, 6, 7, 8}));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tg_release(inputs[0]);
    tg_release(inputs[1]);
    return 0;
}

static void expect(fault wrong, const char *part)
{
    tg_error error = TG_NO_ERROR;
    tg_gradcheck_report report;
    tg_gradcheck_kernels kernels = {lookup, lookup_backward, &wrong, TG_SHAPE(id_count, 2)};
    bool passed = tg_gradcheck_arrays(&kernels, inputs, 2, NULL, &report, &error);
    assert_int_equal(passed, wrong == RIGHT);
    assert_int_equal(passed, report.passed);
    if (!strstr(report.text, part)) {
        fail_msg("\"%s\" has no \"%s\"", report.text, part);
    }
    assert_true(passed || strcmp(report.text, error.text) == 0);
}

static void test_lookup(void **state)
{
    (void)state;
    expect(RIGHT, "gradcheck: passed, 48 compared");
    expect(ASSIGNS,
           "[0,0] must become 1, and becomes 0: backward must add to the gradient that exists (+=, not =); for "
           "example, id 2 is at [0] and [2] of input 0 of 'the kernels', so its row gets the sum of both");
    expect(WRITES_BEYOND,
           "the backward kernel of 'the kernels' writes value 8 of the gradient of input 1, which has 8");
    expect(WRONG_FACTOR, "analytic 2.02, numeric 2");
    /* of two ids that are repeated, that of the wrong row */
    tg_release(inputs[0]);
    id_count = 4;
    inputs[0] = tensor_i32(TG_SHAPE(4), (int32_t[]){2, 2, 0, 0});
    expect(ASSIGNS,
           "[0,0] must become 1, and becomes 0: backward must add to the gradient that exists (+=, not =); id 0 "
           "is at [2] and [3] of input 0 of 'the kernels', so its row gets the sum of both");
}

/* In floats, with a reference; the array of x is one of floats. */
static void cube(void *context, const void *const *given, void *y)
{
    (void)context;
    for (int i = 0; i < 2; i++) {
        float x = ((const float *)given[0])[i];
        ((float *)y)[i] = x * x * x;
    }
}

static void cube_backward(void *context, const void *const *given, const void *dy, void *const *gradients)
{
    (void)context;
    for (int i = 0; i < 2; i++) {
        float x = ((const float *)given[0])[i];
        ((float *)gradients[0])[i] += 3 * x * x * ((const float *)dy)[i];
    }
}

static void cube_reference(void *context, const double *const *given, double *y)
{
    (void)context;
    for (int i = 0; i < 2; i++) {
        y[i] = given[0][i] * given[0][i] * given[0][i];
    }
}

static void test_floats(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_gradcheck_kernels kernels = {cube, cube_backward, NULL, TG_SHAPE(2)};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.dtype = TG_F32;
    config.reference = cube_reference;
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(2), (float[]){0.5f, -2}));
    assert_true(tg_gradcheck_arrays(&kernels, &x, 1, &config, NULL, &error));
    config.numeric_in_f64 = true;
    assert_false(tg_gradcheck_arrays(&kernels, &x, 1, &config, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "gradcheck: numeric_in_f64 is not for kernels of arrays, which are of one dtype");
    config.numeric_in_f64 = false;
    config.reference = NULL;
    config.eps = 1e-9;
    assert_false(tg_gradcheck_arrays(&kernels, &x, 1, &config, NULL, &error));
    assert_null(strstr(error.text, "numeric_in_f64"));
    assert_error(&error, TG_ERROR_VALUE, "set config.reference");
    tg_release(x);
}

static void test_errors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_gradcheck_report report;
    fault right = RIGHT;
    tg_gradcheck_kernels kernels = {lookup, lookup_backward, &right, TG_SHAPE(id_count, 2)};
    assert_false(tg_gradcheck_arrays(NULL, inputs, 2, NULL, &report, &error));
    assert_string_equal(report.text, "gradcheck_arrays: the argument 'kernels' is NULL");
    assert_error(&error, TG_ERROR_STATE, "gradcheck_arrays: the argument 'kernels' is NULL");
    kernels.forward = NULL;
    assert_false(tg_gradcheck_arrays(&kernels, inputs, 2, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "kernels.forward is NULL");
    kernels.forward = lookup;
    kernels.backward = NULL;
    assert_false(tg_gradcheck_arrays(&kernels, inputs, 2, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "kernels.backward is NULL");
    kernels.backward = lookup_backward;
    assert_false(tg_gradcheck_arrays(&kernels, inputs, 17, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "gradcheck_arrays: 17 inputs; it must be at most 16");
    kernels.shape.size[0] = -3;
    assert_false(tg_gradcheck_arrays(&kernels, inputs, 2, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_SHAPE, "size -3 of axis 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lookup, set_up, tear_down),
        cmocka_unit_test(test_floats),
        cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("gradcheck_arrays", tests, NULL, NULL);
}
