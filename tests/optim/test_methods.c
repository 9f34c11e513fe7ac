/* Adagrad, RMSprop, Lion and SparseAdam: PyTorch's trajectories (Lion: its paper's), rows, and what is refused. */
#include "problem.h"

static tg_optim *make_adagrad(tg_params *params, const void *config)
{
    return tg_adagrad_new(params, config);
}

static tg_optim *make_rmsprop(tg_params *params, const void *config)
{
    return tg_rmsprop_new(params, config);
}

static tg_optim *make_lion(tg_params *params, const void *config)
{
    return tg_lion_new(params, config);
}

static tg_optim *make_sparse_adam(tg_params *params, const void *config)
{
    return tg_sparse_adam_new(params, config);
}

static void test_adagrad(void **state)
{
    (void)state;
    tg_adagrad_config config = tg_adagrad_config_default();
    config.lr = 0.05;
    check_trajectory("adagrad_plain", make_adagrad, &config);
    config = (tg_adagrad_config){0.05, 0.1, 0.02, 0.5, 1e-10};
    check_trajectory("adagrad_decay", make_adagrad, &config);
}

static void test_rmsprop(void **state)
{
    (void)state;
    check_trajectory("rmsprop_plain", make_rmsprop, NULL);
    check_trajectory("rmsprop_momentum", make_rmsprop, &(tg_rmsprop_config){0.005, 0.9, 1e-8, 0.01, 0.8, false});
    check_trajectory("rmsprop_centered", make_rmsprop, &(tg_rmsprop_config){0.005, 0.9, 1e-2, 0, 0, true});
}

static void test_lion(void **state)
{
    (void)state;
    check_trajectory("lion", make_lion, &(tg_lion_config){0.01, 0.9, 0.97, 0.1});
}

static void test_sparse_adam(void **state)
{
    (void)state;
    check_rows_trajectory("sparse_adam", make_sparse_adam, &(tg_sparse_adam_config){0.02, 0.8, 0.95, 1e-6});
}

/* Rows that are not listed are neither read nor written: NaN in them, and in their moments, does not matter. */
static void test_rows_are_left(void **state)
{
    (void)state;
    make_optim *const makes[] = {make_adagrad, make_sparse_adam};
    for (int i = 0; i < 2; i++) {
        problem p = problem_make(TG_F64);
        for (int row = 3; row < ROWS; row += row == 3 ? 3 : 4) { /* 3, 6 and 10 are never touched */
            set_value(p.table, row * WIDTH, (double)NAN);
        }
        tg_optim *optim = makes[i](p.params, NULL);
        for (int step = 0; step < STEPS; step++) {
            tg_optim_zero_grad(optim);
            give_gradients(&p, step, true);
            assert_true(tg_optim_step(optim));
        }
        int bad = 0;
        for (int k = 0; k < VALUES; k++) {
            bad += isnan(value_of(&p, k));
        }
        assert_int_equal(bad, 3);
        assert_true(tg_value_at(p.table, 3 * WIDTH + 1) == fmod((3 * WIDTH + 1) * 0.25 * 7, 3) - 1.5);
        assert_true(tg_value_at(tg_optim_state_at(optim, 0).tensor, 3 * WIDTH + 1) == 0);
        tg_optim_free(optim);
        tg_params_free(p.params);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    check_refused(make_adagrad, &(tg_adagrad_config){.lr = -1}, "adagrad: learning rate -1");
    check_refused(make_adagrad, &(tg_adagrad_config){.lr_decay = -1}, "adagrad: learning rate decay -1");
    check_refused(make_adagrad, &(tg_adagrad_config){.initial_accumulator = -2}, "adagrad: initial accumulator -2");
    check_refused(make_adagrad, &(tg_adagrad_config){.eps = (double)NAN}, "adagrad: eps nan");
    check_refused(make_rmsprop, &(tg_rmsprop_config){.alpha = 1}, "rmsprop: alpha 1 is outside [0,1)");
    check_refused(make_rmsprop, &(tg_rmsprop_config){.momentum = -0.5}, "rmsprop: momentum -0.5");
    check_refused(make_rmsprop, &(tg_rmsprop_config){.weight_decay = (double)INFINITY}, "rmsprop: weight decay inf");
    check_refused(make_lion, &(tg_lion_config){.beta1 = 1}, "lion: beta1 1 is outside [0,1)");
    check_refused(make_lion, &(tg_lion_config){.beta2 = -1}, "lion: beta2 -1 is outside [0,1)");
    check_refused(make_lion, &(tg_lion_config){.lr = (double)NAN}, "lion: learning rate nan");
    check_refused(make_sparse_adam, &(tg_sparse_adam_config){.eps = -1}, "sparse_adam: eps -1");
    check_refused(make_sparse_adam, &(tg_sparse_adam_config){.beta2 = 2}, "sparse_adam: beta2 2 is outside [0,1)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adagrad),     cmocka_unit_test(test_rmsprop),       cmocka_unit_test(test_lion),
        cmocka_unit_test(test_sparse_adam), cmocka_unit_test(test_rows_are_left), cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
