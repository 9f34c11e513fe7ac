/* batch_norm: torch's values, gradients and running statistics (tests/goldens/make_batch_norm.py); derivatives;
 * errors. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

typedef struct batch_case {
    const char *name;
    tg_shape shape;
    double momentum, eps;
    bool bare, by_batch; /* without affine, and without running statistics */
} batch_case;

static const batch_case cases[] = {
    {"rows", {2, {6, 3}}, 0.1, 1e-5, false, false},    {"lines", {3, {4, 3, 5}}, 0.3, 1e-3, false, false},
    {"bare", {2, {5, 2}}, 0.1, 1e-5, true, false},     {"batch", {2, {5, 2}}, 0.1, 1e-5, false, true},
    {"pair", {3, {1, 2, 2}}, 1.0, 1e-5, false, false},
};

static tg_tensor *filled(tg_dtype dtype, tg_shape shape, double (*value)(int64_t i, int s), int s)
{
    tg_tensor *x = tg_tensor_new(dtype, shape, NULL);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        if (dtype == TG_F32) {
            ((float *)tg_tensor_data_mut(x))[i] = (float)value(i, s);
        } else {
            ((double *)tg_tensor_data_mut(x))[i] = value(i, s);
        }
    }
    return x;
}

static double value_of_x(int64_t i, int s)
{
    return (double)((7 * i + 5 * s + i * i) % 19) / 8 - 1;
}

static double value_of_dy(int64_t i, int s)
{
    (void)s;
    return (double)(i % 5 - 2) / 2;
}

static double value_of_weight(int64_t i, int s)
{
    (void)s;
    return 1 + (double)i / 4;
}

static double value_of_bias(int64_t i, int s)
{
    (void)s;
    return (double)i / 2 - 1;
}

static void expect(const batch_case *c, int step, const char *what, const tg_tensor *have)
{
    FILE *file = fopen(TG_TEST_GOLDENS "/batch_norm.txt", "r");
    assert_non_null(file);
    char line[4096], name[32];
    int length = snprintf(name, sizeof name, "%s%d %s ", c->name, step, what);
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        found = strncmp(line, name, (size_t)length) == 0;
    }
    fclose(file);
    assert_true(found && have);
    char *at = line + length;
    for (int64_t i = 0; i < tg_tensor_count(have); i++) {
        double want = strtod(at, &at), value = tg_tensor_value_at(have, i);
        if (!(fabs(value - want) <= (tg_tensor_dtype(have) == TG_F64 ? 1e-12 : 1e-5))) {
            fail_msg("%s: value %lld is %.17g, not %.17g", name, (long long)i, value, want);
        }
    }
}

static void check_case(const batch_case *c, tg_dtype dtype)
{
    tg_params *params = tg_params_new(NULL, dtype);
    tg_tape *t = tg_tape_new(tg_params_run(params), NULL);
    tg_nn_batch_norm_config config = tg_nn_batch_norm_config_default();
    assert_true(config.eps == 1e-5 && config.momentum == 0.1 && config.affine && config.track_running_stats);
    config.momentum = c->momentum;
    config.eps = c->eps;
    config.affine = !c->bare;
    config.track_running_stats = !c->by_batch;
    tg_nn_batch_norm norm = tg_nn_batch_norm_make(params, "norm", c->shape.size[1], &config);
    assert_true(norm.module.is_made);
    assert_int_equal(tg_params_count(params), 2 * !c->bare + 2 * !c->by_batch);
    if (!c->bare) {
        tg_tensor *weight = filled(dtype, tg_tensor_shape(norm.weight), value_of_weight, 0);
        tg_tensor *bias = filled(dtype, tg_tensor_shape(norm.bias), value_of_bias, 0);
        assert_true(tg_tensor_copy_from(norm.weight, weight, NULL) && tg_tensor_copy_from(norm.bias, bias, NULL));
        tg_release(weight);
        tg_release(bias);
    }
    for (int step = 0; step < 4; step++) {
        tg_tape_set_training(t, step < 3);
        for (int64_t i = 0; i < tg_params_count(params); i++) {
            tg_tensor_zero_grad(tg_params_at(params, i).tensor);
        }
        tg_tensor *x = leaf(filled(dtype, c->shape, value_of_x, step)), *dy = filled(dtype, c->shape, value_of_dy, 0);
        tg_tensor *y = tg_nn_batch_norm_forward(t, &norm, x);
        tg_backward_config backward = tg_backward_config_default();
        backward.gradient = dy;
        assert_true(tg_backward(t, y, &backward));
        expect(c, step, "y", y);
        expect(c, step, "dx", tg_tensor_grad(x));
        if (!c->bare) {
            expect(c, step, "dweight", tg_tensor_grad(norm.weight));
            expect(c, step, "dbias", tg_tensor_grad(norm.bias));
        }
        if (!c->by_batch) {
            expect(c, step, "mean", norm.running_mean);
            expect(c, step, "var", norm.running_var);
        }
        tg_tape_reset(t);
        tg_release(x);
        tg_release(dy);
    }
    tg_tape_free(t);
    tg_params_free(params);
}

static void test_goldens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(&cases[i], TG_F64);
        check_case(&cases[i], TG_F32);
    }
}

/* A failed call leaves the running statistics. */
static void test_errors(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = filled(TG_F32, TG_SHAPE(4, 3), value_of_x, 0), *one = filled(TG_F32, TG_SHAPE(1, 3), value_of_x, 0);
    tg_tensor *mean = filled(TG_F32, TG_SHAPE(3), value_of_bias, 0),
              *var = filled(TG_F32, TG_SHAPE(3), value_of_weight, 0);
    tg_tensor *two = filled(TG_F32, TG_SHAPE(2), value_of_bias, 0),
              *f64 = filled(TG_F64, TG_SHAPE(3), value_of_bias, 0);
    tg_tensor *line = filled(TG_F32, TG_SHAPE(3), value_of_bias, 0),
              *none = filled(TG_F32, TG_SHAPE(4, 0), value_of_x, 0);
    tg_tensor *whole = tg_constant_i32(t, TG_SHAPE(2, 2), (int32_t[]){1, 2, 3, 4});
    tg_tensor *trained = leaf(filled(TG_F32, TG_SHAPE(3), value_of_weight, 0));
    const struct {
        tg_tensor *x, *mean, *var, *weight, *bias;
        double momentum, eps;
        tg_code code;
        const char *part;
    } bad[] = {
        {NULL, mean, var, NULL, NULL, 0.1, 1e-5, TG_ERROR_STATE, "batch_norm: argument 'x' is NULL"},
        {whole, NULL, NULL, NULL, NULL, 0.1, 1e-5, TG_ERROR_DTYPE,
         "batch_norm: argument 'x' is i32; it must be f32 or"},
        {line, mean, var, NULL, NULL, 0.1, 1e-5, TG_ERROR_SHAPE, "batch_norm: x is (3,); it must be (N,C,..)"},
        {none, NULL, NULL, NULL, NULL, 0.1, 1e-5, TG_ERROR_SHAPE, "batch_norm: x is (4,0)"},
        {x, mean, NULL, NULL, NULL, 0.1, 1e-5, TG_ERROR_VALUE, "only one of running_mean and running_var is NULL"},
        {x, NULL, var, NULL, NULL, 0.1, 1e-5, TG_ERROR_VALUE, "only one of running_mean and running_var is NULL"},
        {x, two, var, NULL, NULL, 0.1, 1e-5, TG_ERROR_SHAPE, "running_mean is f32 (2,); x has 3 channels of f32"},
        {x, mean, f64, NULL, NULL, 0.1, 1e-5, TG_ERROR_SHAPE, "running_var is f64 (3,); x has 3 channels of f32"},
        {x, mean, trained, NULL, NULL, 0.1, 1e-5, TG_ERROR_STATE, "running_var must be contiguous, and without a"},
        {x, mean, var, two, NULL, 0.1, 1e-5, TG_ERROR_SHAPE, "weight is f32 (2,)"},
        {x, mean, var, NULL, two, 0.1, 1e-5, TG_ERROR_SHAPE, "bias is f32 (2,)"},
        {x, mean, var, NULL, NULL, 1.5, 1e-5, TG_ERROR_VALUE, "momentum 1.5 and eps 1e-05"},
        {x, mean, var, NULL, NULL, (double)NAN, 1e-5, TG_ERROR_VALUE, "momentum nan"},
        {x, mean, var, NULL, NULL, 0.1, 0, TG_ERROR_VALUE, "eps 0; momentum must be in [0,1], and eps above 0"},
        {one, mean, var, NULL, NULL, 0.1, 1e-5, TG_ERROR_SHAPE,
         "x is (1,3); the statistics of a batch need 2 values per channel"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(tg_batch_norm(t, bad[i].x, bad[i].mean, bad[i].var, bad[i].weight, bad[i].bias, bad[i].momentum,
                                  bad[i].eps));
        assert_tape_error(t, bad[i].code, bad[i].part);
        for (int64_t c = 0; c < 3; c++) {
            assert_true(tg_tensor_value_at(mean, c) == (double)(float)value_of_bias(c, 0));
            assert_true(tg_tensor_value_at(var, c) == (double)(float)value_of_weight(c, 0));
        }
    }
    /* in evaluation one row suffices, and the statistics rest */
    tg_tape_set_training(t, false);
    assert_non_null(tg_batch_norm(t, one, mean, var, NULL, NULL, 0.1, 1e-5));
    assert_true(tg_tensor_value_at(mean, 1) == -0.5);
    tg_tensor *all[] = {x, one, mean, var, two, f64, line, none, trained};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tg_release(all[i]);
    }
    tg_tape_free(t);
}

static void test_bad_modules(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_nn_batch_norm_config config = tg_nn_batch_norm_config_default();
    assert_false(tg_nn_batch_norm_make(params, "n", 0, NULL).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "nn_batch_norm_make: 'n' has 0 channels, eps 1e-05 and momentum 0.1");
    config.eps = 0;
    assert_false(tg_nn_batch_norm_make(params, "n", 2, &config).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "eps 0 and momentum");
    config.eps = TG_EPS_OF_DTYPE;
    assert_true(tg_nn_batch_norm_make(params, "eps", 2, &config).eps == 0x1p-23);
    config.momentum = 2;
    assert_false(tg_nn_batch_norm_make(params, "n", 2, &config).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "momentum 2; channels must be at least 1");
    assert_int_equal(tg_params_count(params), 4);
    tg_params_free(params);
}

static tg_tensor *normalize(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_batch_norm(t, in[0], NULL, NULL, in[1], in[2], 0.1, 1e-5);
}

/* Gradients, and those of gradients. */
static void test_derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        int64_t channels = cases[i].shape.size[1];
        tg_tensor *in[] = {leaf(filled(TG_F64, cases[i].shape, value_of_x, 1)),
                           leaf(filled(TG_F64, TG_SHAPE(channels), value_of_weight, 0)),
                           leaf(filled(TG_F64, TG_SHAPE(channels), value_of_bias, 0))};
        tg_error error = TG_NO_ERROR;
        if (!tg_gradcheck(normalize, NULL, in, 3, NULL, NULL, &error) ||
            !tg_gradgradcheck(normalize, NULL, in, 3, NULL, NULL, &error)) {
            fail_msg("%s", error.text);
        }
        for (int k = 0; k < 3; k++) {
            tg_release(in[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_bad_modules),
        cmocka_unit_test(test_derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
