/* Gradient clipping against torch, with gradients dense and by rows. */
#include "problem.h"

#define GOLDEN_STEP 4

typedef struct clip_golden {
    double norm, values[VALUES];
} clip_golden;

static clip_golden read_golden(const char *name, tg_dtype dtype)
{
    FILE *file = golden_file("clip.txt");
    char case_name[64], case_dtype[8];
    clip_golden g = {0};
    bool found = false;
    while (!found && fscanf(file, "%63s %7s %lf", case_name, case_dtype, &g.norm) == 3) {
        read_doubles(file, g.values, VALUES);
        found = strcmp(case_name, name) == 0 && strcmp(case_dtype, tg_dtype_name(dtype)) == 0;
    }
    fclose(file);
    assert_true(found);
    return g;
}

static void check(const char *name, double max_norm, double limit)
{
    for (int variant = 0; variant < 4; variant++) {
        tg_dtype dtype = variant % 2 ? TG_F32 : TG_F64;
        double tolerance = dtype == TG_F64 ? 1e-14 : 1e-6;
        problem p = problem_make(dtype);
        /* a tied name must not count twice */
        assert_non_null(tg_params_add_alias(p.params, "head.weight", "table.weight"));
        give_gradients(&p, GOLDEN_STEP, variant >= 2);
        clip_golden want = read_golden(name, dtype);
        if (isnan(limit)) {
            double norm = tg_clip_grad_norm(p.params, max_norm);
            assert_true(fabs(norm - want.norm) <= tolerance * want.norm);
        } else {
            assert_true(tg_clip_grad_value(p.params, limit));
        }
        assert_int_equal(tg_tensor_grad_kind(p.table), variant >= 2 ? TG_GRAD_ROWS : TG_GRAD_DENSE);
        tg_tensor *dense = tg_tensor_new_dense_grad(p.table, NULL);
        assert_values(dense, want.values, ROWS * WIDTH, tolerance, 0);
        assert_values(tg_tensor_grad(p.bias), want.values + ROWS * WIDTH, WIDTH, tolerance, 0);
        tg_release(dense);
        tg_params_free(p.params);
    }
}

static void test_goldens(void **state)
{
    (void)state;
    check("norm_half", 0.5, (double)NAN);
    check("norm_zero", 0, (double)NAN);
    check("norm_huge", 1000, (double)NAN);
    check("value", 0, 0.75);
}

static void test_no_gradients(void **state)
{
    (void)state;
    problem p = problem_make(TG_F32);
    assert_true(tg_clip_grad_norm(p.params, 1) == 0);
    assert_true(tg_clip_grad_value(p.params, 1));
    assert_true(tg_scale_grad(p.params, 0.5));
    assert_int_equal(tg_tensor_grad_kind(p.table), TG_GRAD_NONE);
    tg_params_free(p.params);
}

/* The gradients (3,g,0) of torch.nn.utils.clip_grad_norm_ in torch 2.13, for a g that is not finite. */
static void test_against_torch_where_not_finite(void **state)
{
    (void)state;
    const double g[] = {INFINITY, INFINITY, NAN, NAN, 4}, limits[] = {1, INFINITY, 1, INFINITY, INFINITY};
    const double expected[][3] = {{0, NAN, 0}, {NAN, NAN, NAN}, {NAN, NAN, NAN}, {NAN, NAN, NAN}, {3, 4, 0}};
    const double norms[] = {INFINITY, INFINITY, NAN, NAN, 5};
    for (int i = 0; i < 5; i++) {
        tg_params *params = tg_params_new(NULL, TG_F64);
        tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(3));
        memcpy(tg_tensor_data_mut(dense_gradient(x)), (double[]){3, g[i], 0}, 3 * sizeof *g);
        double norm = tg_clip_grad_norm(params, limits[i]);
        assert_true(isnan(norms[i]) ? isnan(norm) : norm == norms[i]);
        for (int k = 0; k < 3; k++) {
            double found = tg_tensor_value_at(tg_tensor_grad(x), k);
            assert_true(isnan(expected[i][k]) ? isnan(found) : found == expected[i][k]);
        }
        tg_params_free(params);
    }
}

/* If the norm is NaN, the gradients become NaN. A maximum norm of infinity does not change them. */
static void test_not_finite(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    give_gradients(&p, GOLDEN_STEP, true);
    double before = tg_tensor_value_at(tg_tensor_grad(p.bias), 1);
    double norm = tg_clip_grad_norm(p.params, (double)INFINITY);
    assert_true(norm > 1 && tg_tensor_value_at(tg_tensor_grad(p.bias), 1) == before);
    set_value(tg_tensor_grad(p.bias), 0, (double)NAN);
    assert_true(tg_clip_grad_value(p.params, 0.001));
    assert_true(isnan(tg_tensor_value_at(tg_tensor_grad(p.bias), 0)));
    assert_true(isnan(tg_clip_grad_norm(p.params, 1)));
    assert_true(isnan(tg_tensor_value_at(tg_tensor_grad(p.bias), 1)));
    assert_true(isnan(((const double *)tg_tensor_grad_rows(p.table).values)[0]));
    tg_params_free(p.params);
}

static void test_scale(void **state)
{
    (void)state;
    problem p = problem_make(TG_F32);
    give_gradients(&p, GOLDEN_STEP, true);
    double row = (double)((const float *)tg_tensor_grad_rows(p.table).values)[3];
    double bias = tg_tensor_value_at(tg_tensor_grad(p.bias), 2);
    assert_true(tg_scale_grad(p.params, 0.25));
    assert_true((double)((const float *)tg_tensor_grad_rows(p.table).values)[3] == 0.25 * row);
    assert_true(tg_tensor_value_at(tg_tensor_grad(p.bias), 2) == 0.25 * bias);
    tg_params_free(p.params);
}

static void test_bad_limits(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    give_gradients(&p, GOLDEN_STEP, false);
    double before = tg_tensor_value_at(tg_tensor_grad(p.bias), 0);
    assert_true(isnan(tg_clip_grad_norm(p.params, -1)));
    assert_params_error(p.params, TG_ERROR_VALUE, "clip_grad_norm: max_norm -1; it must be at least 0");
    assert_true(isnan(tg_clip_grad_norm(p.params, (double)NAN)));
    assert_params_error(p.params, TG_ERROR_VALUE, "clip_grad_norm: max_norm nan");
    assert_false(tg_clip_grad_value(p.params, -0.5));
    assert_params_error(p.params, TG_ERROR_VALUE, "clip_grad_value: limit -0.5; it must be at least 0");
    assert_false(tg_clip_grad_value(p.params, (double)NAN));
    assert_params_error(p.params, TG_ERROR_VALUE, "clip_grad_value: limit nan");
    assert_false(tg_scale_grad(p.params, (double)INFINITY));
    assert_params_error(p.params, TG_ERROR_VALUE, "scale_grad: factor inf; it must be finite");
    assert_true(tg_tensor_value_at(tg_tensor_grad(p.bias), 0) == before);
    assert_true(isnan(tg_clip_grad_norm(NULL, 1)));
    assert_false(tg_clip_grad_value(NULL, 1));
    assert_false(tg_scale_grad(NULL, 1));
    tg_params_free(p.params);
}

/* Params with an error refuse all three calls until it is cleared; the first error stays. */
static void test_params_with_an_error(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    give_gradients(&p, GOLDEN_STEP, false);
    double before = tg_tensor_value_at(tg_tensor_grad(p.bias), 0);
    assert_null(tg_params_add(p.params, "", TG_SHAPE(1)));
    assert_true(isnan(tg_clip_grad_norm(p.params, 1e-3)));
    assert_false(tg_clip_grad_value(p.params, 1e-3));
    assert_false(tg_scale_grad(p.params, 2));
    assert_true(tg_tensor_value_at(tg_tensor_grad(p.bias), 0) == before);
    assert_params_error(p.params, TG_ERROR_VALUE, "a name of 0 characters");
    assert_true(tg_scale_grad(p.params, 2));
    assert_true(tg_tensor_value_at(tg_tensor_grad(p.bias), 0) == 2 * before);
    tg_params_free(p.params);
}

/* The norm and the scaled values have the same bits for any number of threads, and every value counts once. */
static void test_threads(void **state)
{
    (void)state;
    const int64_t count = 300007;
    double norms[3], lasts[3], expected = 0;
    int before = tg_threads();
    for (int k = 0; k < 3; k++) {
        assert_true(tg_set_threads(k + 1, NULL));
        tg_params *params = tg_params_new(NULL, TG_F32);
        tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(count));
        float *values = tg_tensor_data_mut(dense_gradient(x));
        expected = 0;
        for (int64_t i = 0; i < count; i++) {
            values[i] = (float)((i * 7919) % 1009) / 509 - 1;
            expected += (double)values[i] * (double)values[i];
        }
        norms[k] = tg_clip_grad_norm(params, 0.5);
        lasts[k] = (double)values[count - 1] + 3 * (double)values[count / 2];
        tg_params_free(params);
    }
    assert_true(tg_set_threads(before, NULL));
    assert_true(fabs(norms[0] - sqrt(expected)) < 1e-12 * norms[0]);
    assert_true(norms[0] == norms[1] && norms[1] == norms[2]);
    assert_true(lasts[0] == lasts[1] && lasts[1] == lasts[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),    cmocka_unit_test(test_no_gradients),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_scale),
        cmocka_unit_test(test_bad_limits), cmocka_unit_test(test_params_with_an_error),
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_against_torch_where_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
