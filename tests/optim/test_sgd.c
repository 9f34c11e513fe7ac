/* SGD against torch's trajectories, and invalid options. */
#include "problem.h"

static void check_with(const char *name, double lr, double momentum, double dampening, double weight_decay,
                       bool nesterov)
{
    tg_sgd_config config = sgd_config(lr, momentum, dampening, weight_decay, nesterov);
    check_trajectory(name, make_sgd, &config);
}

static void test_trajectories(void **state)
{
    (void)state;
    check_with("sgd_plain", 0.1, 0, 0, 0, false);
    check_with("sgd_decay", 0.1, 0, 0, 0.05, false);
    check_with("sgd_momentum", 0.05, 0.9, 0, 0, false);
    check_with("sgd_dampening", 0.05, 0.8, 0.3, 0.01, false);
    check_with("sgd_nesterov", 0.05, 0.9, 0, 0.02, true);
}

static void test_defaults_are_torchs(void **state)
{
    (void)state;
    tg_sgd_config config = tg_sgd_config_default();
    assert_true(config.lr == 1e-3 && config.momentum == 0 && config.dampening == 0 && config.weight_decay == 0);
    assert_false(config.nesterov);
    problem p = problem_make(TG_F64);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    assert_true(tg_optim_lr(optim, NULL) == 1e-3);
    /* no momentum, no state */
    assert_int_equal(count_states(optim), 0);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void refuse(double lr, double momentum, double dampening, double weight_decay, bool nesterov, const char *part)
{
    tg_sgd_config config = sgd_config(lr, momentum, dampening, weight_decay, nesterov);
    check_refused(make_sgd, &config, part);
}

static void test_bad_options(void **state)
{
    (void)state;
    const double nan = (double)NAN;
    refuse(-0.1, 0, 0, 0, false, "sgd: learning rate -0.1; it must be finite and at least 0");
    refuse(nan, 0, 0, 0, false, "sgd: learning rate nan");
    refuse((double)INFINITY, 0, 0, 0, false, "sgd: learning rate inf");
    refuse(0, -0.5, 0, 0, false, "sgd: momentum -0.5");
    refuse(0, nan, 0, 0, false, "sgd: momentum nan");
    refuse(0, 0, 0, -1, false, "sgd: weight decay -1");
    refuse(0, 0, nan, 0, false, "sgd: dampening nan; it must be finite");
    refuse(0, 0, 0, 0, true, "sgd: nesterov with momentum 0");
    refuse(0, 0.9, 0.1, 0, true, "sgd: nesterov with momentum 0.9 and dampening 0.1");
    assert_null(tg_sgd_new(NULL, NULL));
    tg_sgd_config negative = sgd_config(-1, 0, 0, 0, false);
    assert_null(tg_sgd_new(NULL, &negative));
}

/* What is infinite or NaN spreads as in torch: weight decay 0 does not read the value. */
static void test_no_decay_leaves_infinity(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    set_value(p.bias, 0, (double)INFINITY);
    give_gradients(&p, 3, false);
    dense_gradient(p.bias);
    assert_true(tg_optim_step(optim));
    assert_true(isinf(tg_tensor_value_at(p.bias, 0)));
    tg_optim_free(optim);
    tg_params_free(p.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trajectories),
        cmocka_unit_test(test_defaults_are_torchs),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_no_decay_leaves_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
