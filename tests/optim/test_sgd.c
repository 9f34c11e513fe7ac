/* SGD against torch's trajectories, and the options that it refuses. */
#include "problem.h"

static void test_trajectories(void **state)
{
    (void)state;
    check_trajectory("sgd_plain", make_sgd, &(tg_sgd_config){.lr = 0.1});
    check_trajectory("sgd_decay", make_sgd, &(tg_sgd_config){.lr = 0.1, .weight_decay = 0.05});
    check_trajectory("sgd_momentum", make_sgd, &(tg_sgd_config){.lr = 0.05, .momentum = 0.9});
    check_trajectory("sgd_dampening", make_sgd,
                     &(tg_sgd_config){.lr = 0.05, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.01});
    check_trajectory("sgd_nesterov", make_sgd,
                     &(tg_sgd_config){.lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.02});
}

static void test_defaults_are_torchs(void **state)
{
    (void)state;
    tg_sgd_config config = tg_sgd_config_default();
    assert_true(config.lr == 1e-3 && config.momentum == 0 && config.dampening == 0 && config.weight_decay == 0);
    assert_false(config.nesterov);
    problem p = problem_make(TG_F64);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    assert_true(tg_optim_lr(optim) == 1e-3);
    assert_string_equal(tg_optim_method_name(optim), "sgd");
    assert_int_equal(tg_optim_state_count(optim), 0); /* no momentum, no buffers */
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void test_bad_options(void **state)
{
    (void)state;
    check_refused(make_sgd, &(tg_sgd_config){.lr = -0.1}, "sgd: learning rate -0.1; allowed");
    check_refused(make_sgd, &(tg_sgd_config){.lr = (double)NAN}, "sgd: learning rate ");
    check_refused(make_sgd, &(tg_sgd_config){.lr = (double)INFINITY}, "sgd: learning rate inf");
    check_refused(make_sgd, &(tg_sgd_config){.momentum = -0.5}, "sgd: momentum -0.5");
    check_refused(make_sgd, &(tg_sgd_config){.momentum = (double)NAN}, "sgd: momentum ");
    check_refused(make_sgd, &(tg_sgd_config){.weight_decay = -1}, "sgd: weight decay -1");
    check_refused(make_sgd, &(tg_sgd_config){.dampening = (double)NAN}, "sgd: dampening ");
    check_refused(make_sgd, &(tg_sgd_config){.nesterov = true}, "sgd: nesterov with momentum 0");
    check_refused(make_sgd, &(tg_sgd_config){.nesterov = true, .momentum = 0.9, .dampening = 0.1}, "dampening 0.1");
    assert_null(tg_sgd_new(NULL, NULL));
    assert_null(tg_sgd_new(NULL, &(tg_sgd_config){.lr = -1}));
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
    assert_true(isinf(tg_value_at(p.bias, 0)));
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
