/* Muon: torch's trajectories, what it refuses, and frozen rows. */
#include "problem.h"

#define MATRICES 3
static const int64_t shapes[MATRICES][2] = {{9, 4}, {3, 8}, {5, 5}};
#define MATRIX_VALUES (9 * 4 + 3 * 8 + 5 * 5)

/* muon_gradient() of make_optim.py. */
static void set_gradient(tg_tensor *x, int step)
{
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        set_value(x, i, (double)((i * i + 5 * i + 7 * step) % 23 - 11) / 16);
    }
}

static tg_params *make_matrices(tg_dtype dtype, tg_tensor *matrices[MATRICES])
{
    tg_params *params = tg_params_new(NULL, dtype);
    for (int i = 0; i < MATRICES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.weight", i);
        matrices[i] = tg_params_add(params, name, TG_SHAPE(shapes[i][0], shapes[i][1]));
        assert_non_null(matrices[i]);
        set_gradient(matrices[i], 99);
    }
    return params;
}

/* In f32 the order of additions may round a value of the iterations to the other neighbor in bf16: 2^-8 of a step. */
static void compare(const char *name, tg_dtype dtype, int step, tg_tensor *const matrices[MATRICES])
{
    FILE *file = golden_file("muon.txt");
    char case_name[64], case_dtype[8];
    double want[MATRIX_VALUES];
    int case_step = 0;
    bool found = false;
    while (!found && fscanf(file, "%63s %7s %d", case_name, case_dtype, &case_step) == 3) {
        read_doubles(file, want, MATRIX_VALUES);
        found = strcmp(case_name, name) == 0 && strcmp(case_dtype, tg_dtype_name(dtype)) == 0 && case_step == step;
    }
    fclose(file);
    assert_true(found);
    const double *next = want;
    for (int i = 0; i < MATRICES; i++) {
        for (int64_t k = 0; k < tg_tensor_count(matrices[i]); k++, next++) {
            double have = tg_tensor_value_at(matrices[i], k);
            if (!(fabs(have - *next) <= (dtype == TG_F64 ? 1e-12 : 1e-6))) {
                fail_msg("%s %s step %d: value %lld of matrix %d is %.17g, not %.17g", name, tg_dtype_name(dtype), step,
                         (long long)k, i, have, *next);
            }
        }
    }
}

static void check_muon(const char *name, const tg_muon_config *config)
{
    for (int variant = 0; variant < 2; variant++) {
        tg_dtype dtype = variant ? TG_F32 : TG_F64;
        tg_tensor *matrices[MATRICES];
        tg_params *params = make_matrices(dtype, matrices);
        tg_optim *optim = tg_muon_new(params, config);
        assert_non_null(optim);
        for (int step = 1; step <= 20; step++) {
            for (int i = 0; i < MATRICES; i++) {
                set_gradient(dense_gradient(matrices[i]), step);
            }
            assert_true(tg_optim_step(optim));
            if (step == 1 || step == 5 || step == 20) {
                compare(name, dtype, step, matrices);
            }
        }
        tg_optim_free(optim);
        tg_params_free(params);
    }
}

static void test_goldens(void **state)
{
    (void)state;
    check_muon("default", NULL);
    tg_muon_config plain = tg_muon_config_default(), rms = plain;
    check_muon("default", &plain);
    plain.lr = rms.lr = 0.02;
    plain.momentum = 0.8;
    plain.nesterov = false;
    plain.weight_decay = 0;
    check_muon("plain", &plain);
    rms.momentum = 0.3;
    rms.adjust_lr = TG_MUON_ADJUST_MATCH_RMS_ADAMW;
    rms.iterations = 3;
    rms.coefficients[0] = 3;
    rms.coefficients[1] = -4;
    rms.coefficients[2] = 1.5;
    check_muon("rms", &rms);
}

/* A parameter without a gradient rests. A gradient by rows is refused before anything changes, also that of the last
 * parameter. */
static void test_gradients(void **state)
{
    (void)state;
    tg_tensor *matrices[MATRICES];
    tg_params *params = make_matrices(TG_F32, matrices);
    tg_optim *optim = tg_muon_new(params, NULL);
    double first = tg_tensor_value_at(matrices[0], 1), last = tg_tensor_value_at(matrices[2], 1);
    set_gradient(dense_gradient(matrices[0]), 1);
    assert_true(tg_gradient_reserve(matrices[2], TG_GRAD_ROWS, 1));
    tg_gradient_row(matrices[2], 3);
    assert_false(tg_optim_step(optim));
    assert_optim_error(optim, TG_ERROR_STATE,
                       "optim_step: the gradient of '2.weight' is by rows, which muon cannot use");
    assert_true(tg_tensor_value_at(matrices[0], 1) == first && tg_optim_steps(optim, "0.weight") == 0);
    tg_tensor_zero_grad(matrices[2]);
    assert_true(tg_optim_step(optim));
    assert_true(tg_tensor_value_at(matrices[0], 1) != first && tg_tensor_value_at(matrices[2], 1) == last);
    tg_optim_free(optim);
    tg_params_free(params);
}

/* A frozen row neither moves nor takes part in the directions of the others. */
static void test_frozen_rows(void **state)
{
    (void)state;
    double moved[2];
    for (int variant = 0; variant < 2; variant++) {
        tg_tensor *matrices[MATRICES];
        tg_params *params = make_matrices(TG_F64, matrices);
        tg_optim *optim = tg_muon_new(params, NULL);
        double before = tg_tensor_value_at(matrices[0], 4 * 4 + 1);
        assert_true(tg_tensor_set_rows_frozen(matrices[0], 4, 1, true, NULL));
        tg_tensor *gradient = dense_gradient(matrices[0]);
        set_gradient(gradient, 1);
        for (int64_t k = 4 * 4; variant && k < 5 * 4; k++) {
            set_value(gradient, k, 1000);
        }
        assert_true(tg_optim_step(optim));
        assert_true(tg_tensor_value_at(matrices[0], 4 * 4 + 1) == before);
        moved[variant] = tg_tensor_value_at(matrices[0], 1);
        tg_optim_free(optim);
        tg_params_free(params);
    }
    assert_true(moved[0] == moved[1]);
}

static tg_optim *make_muon(tg_params *params, const void *config)
{
    return tg_muon_new(params, config);
}

static void test_bad_input(void **state)
{
    (void)state;
    tg_muon_config configs[9];
    for (int i = 0; i < 9; i++) {
        configs[i] = tg_muon_config_default();
    }
    configs[0].lr = -1;
    check_refused(make_muon, &configs[0], "muon: learning rate -1");
    configs[1].weight_decay = (double)NAN;
    check_refused(make_muon, &configs[1], "muon: weight decay nan");
    configs[2].momentum = -0.5;
    check_refused(make_muon, &configs[2], "muon: momentum -0.5");
    configs[3].eps = -1;
    check_refused(make_muon, &configs[3], "muon: eps -1");
    configs[4].coefficients[1] = (double)INFINITY;
    check_refused(make_muon, &configs[4], "muon: coefficient 1 is inf; it must be finite");
    configs[5].iterations = 100;
    check_refused(make_muon, &configs[5], "muon: 100 iterations; 0 to 99 are allowed");
    configs[6].iterations = -1;
    check_refused(make_muon, &configs[6], "muon: -1 iterations");
    configs[7].adjust_lr = (tg_muon_adjust_lr)7;
    check_refused(make_muon, &configs[7],
                  "muon: adjust_lr 7 does not exist; it must be 0 (original) or 1 (match_rms_adamw)");
    problem p = problem_make(TG_F32);
    assert_null(tg_muon_new(p.params, NULL));
    assert_params_error(p.params, TG_ERROR_SHAPE, "muon: the parameter 'head.bias' has 1 axes, and must have 2");
    tg_params_free(p.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_frozen_rows),
        cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
