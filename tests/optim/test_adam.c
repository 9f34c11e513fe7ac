/* Adam, AdamW and AMSGrad against torch's trajectories, and invalid options. */
#include "optim/optim.h"
#include "problem.h"

static void test_adam(void **state)
{
    (void)state;
    tg_adam_config config = tg_adam_config_default();
    config.lr = 0.02;
    check_trajectory("adam_plain", make_adam, &config);
    config = adam_config(0.02, 0.8, 0.95, 1e-6, 0.1, false);
    check_trajectory("adam_decay", make_adam, &config);
    config = adam_config(0.02, 0.9, 0.9, 1e-8, 0, true);
    check_trajectory("adam_amsgrad", make_adam, &config);
    config.weight_decay = 0.1;
    check_trajectory("adam_amsgrad_decay", make_adam, &config);
}

static void test_adamw(void **state)
{
    (void)state;
    check_trajectory("adamw_default", make_adamw, NULL);
    tg_adamw_config config = adamw_config(0.02, 0.9, 0.95, 1e-8, 0.5, false);
    check_trajectory("adamw_decay", make_adamw, &config);
    config = adamw_config(0.02, 0.9, 0.9, 1e-8, 0.1, true);
    check_trajectory("adamw_amsgrad", make_adamw, &config);
    /* the field decides, not the call */
    tg_adam_config adam = adam_config(0.02, 0.9, 0.9, 1e-8, 0.1, true);
    adam.decoupled = true;
    check_trajectory("adamw_amsgrad", make_adam, &adam);
    config.decoupled = false;
    check_trajectory("adam_amsgrad_decay", make_adamw, &config);
}

static void test_defaults_are_torchs(void **state)
{
    (void)state;
    tg_adam_config adam = tg_adam_config_default();
    assert_true(adam.lr == 1e-3 && adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.eps == 1e-8);
    assert_true(adam.weight_decay == 0 && !adam.amsgrad && !adam.decoupled);
    tg_adamw_config adamw = tg_adamw_config_default();
    assert_true(adamw.lr == 1e-3 && adamw.beta1 == 0.9 && adamw.beta2 == 0.999 && adamw.eps == 1e-8);
    assert_true(adamw.weight_decay == 1e-2 && !adamw.amsgrad && adamw.decoupled);
}

static void refuse_both(double lr, double beta1, double beta2, double eps, double weight_decay, const char *part)
{
    tg_adam_config adam = adam_config(lr, beta1, beta2, eps, weight_decay, false);
    check_refused(make_adam, &adam, part);
    tg_adamw_config adamw = adamw_config(lr, beta1, beta2, eps, weight_decay, false);
    check_refused(make_adamw, &adamw, part);
}

static void test_bad_options(void **state)
{
    (void)state;
    const double nan = (double)NAN;
    refuse_both(-1, 0.9, 0.9, 1e-8, 0, ": learning rate -1; it must be finite and at least 0");
    refuse_both(nan, 0.9, 0.9, 1e-8, 0, ": learning rate nan");
    refuse_both(1, 1, 0.9, 1e-8, 0, ": beta1 1 is outside [0,1)");
    refuse_both(1, -0.1, 0.9, 1e-8, 0, ": beta1 -0.1 is outside [0,1)");
    refuse_both(1, 0.9, 1.5, 1e-8, 0, ": beta2 1.5 is outside [0,1)");
    refuse_both(1, 0.9, nan, 1e-8, 0, ": beta2 nan");
    refuse_both(1, 0.9, 0.9, -1e-8, 0, ": eps -1e-08");
    refuse_both(1, 0.9, 0.9, nan, 0, ": eps nan");
    refuse_both(1, 0.9, 0.9, 1e-8, -0.1, ": weight decay -0.1");
    assert_null(tg_adam_new(NULL, NULL));
    assert_null(tg_adamw_new(NULL, NULL));
}

/* The state tensors are those of torch's state_dict, and each parameter counts its own steps. */
static void test_state(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    tg_adam_config config = tg_adam_config_default();
    config.amsgrad = true;
    tg_optim *optim = tg_adam_new(p.params, &config);
    assert_int_equal(count_states(optim), 6);
    assert_string_equal(tg_optim_state_at(optim, 0).kind, "exp_avg");
    assert_string_equal(tg_optim_state_at(optim, 1).kind, "exp_avg_sq");
    assert_string_equal(tg_optim_state_at(optim, 5).kind, "max_exp_avg_sq");
    assert_string_equal(tg_optim_state_at(optim, 2).name, "table.weight");
    assert_string_equal(tg_optim_state_at(optim, 3).name, "head.bias");
    assert_true(tg_shape_equal(tg_tensor_shape(tg_optim_state_at(optim, 0).tensor), TG_SHAPE(ROWS, WIDTH)));
    assert_null(tg_optim_state_at(optim, 6).tensor);
    assert_null(tg_optim_state_at(optim, -1).tensor);
    /* the bias has its first gradient at the last of these steps */
    for (int step = 0; step < 4; step++) {
        tg_optim_zero_grad(optim);
        give_gradients(&p, step, true);
        assert_true(tg_optim_step(optim));
        assert_int_equal(tg_optim_steps(optim, "table.weight"), step + 1);
        assert_int_equal(tg_optim_steps(optim, "head.bias"), step == 3);
    }
    const step_gradient *last = &gradients()[3];
    double m[WIDTH], v[WIDTH];
    for (int c = 0; c < WIDTH; c++) {
        m[c] = (1 - 0.9) * last->bias[c];
        v[c] = (1 - 0.999) * last->bias[c] * last->bias[c];
    }
    assert_values(tg_optim_state_at(optim, 3).tensor, m, WIDTH, 1e-14, 0);
    assert_values(tg_optim_state_at(optim, 4).tensor, v, WIDTH, 1e-14, 0);
    assert_values(tg_optim_state_at(optim, 5).tensor, v, WIDTH, 1e-14, 0);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

/* Copying values, state tensors and numbers of steps into a new pair continues with the same bits. */
static void test_continuing(void **state)
{
    (void)state;
    problem one = problem_make(TG_F32), two = problem_make(TG_F32);
    tg_optim *first = tg_adamw_new(one.params, NULL), *second = tg_adamw_new(two.params, NULL);
    for (int step = 0; step < 40; step++) {
        if (step == 20) {
            assert_true(tg_tensor_copy_from(two.table, one.table, NULL));
            assert_true(tg_tensor_copy_from(two.bias, one.bias, NULL));
            for (int64_t i = 0; i < count_states(first); i++) {
                assert_true(
                    tg_tensor_copy_from(tg_optim_state_at(second, i).tensor, tg_optim_state_at(first, i).tensor, NULL));
            }
            assert_true(tg_optim_set_steps(second, "table.weight", tg_optim_steps(first, "table.weight")));
            assert_true(tg_optim_set_steps(second, "head.bias", tg_optim_steps(first, "head.bias")));
        }
        tg_optim_zero_grad(first);
        tg_optim_zero_grad(second);
        give_gradients(&one, step, true);
        assert_true(tg_optim_step(first));
        if (step >= 20) {
            give_gradients(&two, step, true);
            assert_true(tg_optim_step(second));
        }
    }
    for (int i = 0; i < VALUES; i++) {
        assert_true(value_of(&one, i) == value_of(&two, i));
    }
    assert_false(tg_optim_set_steps(second, "nobody", 1));
    assert_optim_error(second, TG_ERROR_RANGE, "optim_set_steps: no parameter 'nobody' exists");
    assert_false(tg_optim_set_steps(second, NULL, 1));
    assert_optim_error(second, TG_ERROR_STATE, "optim_set_steps: the name is NULL");
    assert_false(tg_optim_set_steps(second, "head.bias", -1));
    assert_optim_error(second, TG_ERROR_VALUE, "optim_set_steps: -1 steps of 'head.bias'; it must be 0 or more");
    assert_int_equal(tg_optim_steps(second, "nobody"), 0);
    assert_int_equal(tg_optim_steps(second, NULL), 0);
    tg_optim_free(first);
    tg_optim_free(second);
    tg_params_free(one.params);
    tg_params_free(two.params);
}

/* The loop gives the same bits at each level. */
static void test_versions_agree(void **state)
{
    (void)state;
    static tg_optim_kernel *const update_f32[] = {TG_EACH_LEVEL(avx2, tg_adam_update_f32)};
    static tg_optim_kernel *const update_f64[] = {TG_EACH_LEVEL(avx2, tg_adam_update_f64)};
    enum { COUNT = 1003 };
    const tg_optim_config config = {.adam = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8}};
    const tg_optim_factors factors = {
        .config = &config, .decay_factor = 0.999, .weight_decay = 0.01, .root_correction = 0.3, .step_size = 0.02};
    static float f32[TG_LEVELS][5][COUNT];
    static double f64[TG_LEVELS][5][COUNT];
    for (int i = 0; i < 5 * COUNT; i++) {
        /* squares are not negative */
        double value = (i / COUNT < 2 ? -0.5 : 0) + (double)((i * 7919) % 1013) / 1013;
        for (int k = 0; k < TG_LEVELS; k++) {
            f64[k][i / COUNT][i % COUNT] = value;
            f32[k][i / COUNT][i % COUNT] = (float)value;
        }
    }
    for (int k = 0; k <= tg_level_highest(); k++) {
        void *state32[] = {f32[k][2], f32[k][3], f32[k][4]}, *state64[] = {f64[k][2], f64[k][3], f64[k][4]};
        update_f32[k](&factors, f32[k][0], f32[k][1], state32, COUNT);
        update_f64[k](&factors, f64[k][0], f64[k][1], state64, COUNT);
        assert_memory_equal(f32[0], f32[k], sizeof f32[0]);
        assert_memory_equal(f64[0], f64[k], sizeof f64[0]);
    }
    /* something was computed */
    assert_true((double)f32[0][0][7] != (double)((7 * 7919) % 1013) / 1013 - 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam),           cmocka_unit_test(test_adamw), cmocka_unit_test(test_defaults_are_torchs),
        cmocka_unit_test(test_bad_options),    cmocka_unit_test(test_state), cmocka_unit_test(test_continuing),
        cmocka_unit_test(test_versions_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
