/* Adagrad, RMSprop, Lion and SparseAdam: PyTorch's trajectories (for Lion, its paper's), rows, and invalid options. */
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
    config.lr_decay = 0.1;
    config.weight_decay = 0.02;
    config.initial_accumulator = 0.5;
    check_trajectory("adagrad_decay", make_adagrad, &config);
}

/* Both dtypes, dense and by rows; the bias, whose rows have one value; and the shape of the state. */
static void test_adagrad_by_rows(void **state)
{
    (void)state;
    tg_adagrad_config config = tg_adagrad_config_default();
    config.by_rows = true;
    config.lr = 0.05;
    config.eps = 1e-8;
    check_trajectory("adagrad_by_rows", make_adagrad, &config);
    config.eps = 0.01;
    config.initial_accumulator = 0.5;
    check_trajectory("adagrad_by_rows_initial", make_adagrad, &config);
    problem p = problem_make(TG_F32);
    tg_optim *optim = tg_adagrad_new(p.params, &config);
    assert_int_equal(count_states(optim), 2);
    for (int i = 0; i < 2; i++) {
        const tg_tensor *sums = tg_optim_state_at(optim, i).tensor;
        assert_int_equal(tg_tensor_rank(sums), 1);
        assert_int_equal(tg_tensor_count(sums), i == 0 ? ROWS : WIDTH);
    }
    tg_optim_free(optim);
    tg_params_free(p.params);
}

/* A row of any width, in the lanes of the sum and behind them, and weight decay, which only rows with a gradient have:
 * the formula in double. */
static void test_wide_rows(void **state)
{
    (void)state;
    for (int64_t width = 1; width < 70; width += width < 20 ? 1 : 7) {
        for (int variant = 0; variant < 4; variant++) {
            tg_dtype dtype = variant % 2 ? TG_F32 : TG_F64;
            double decay = variant / 2 ? 0.1 : 0, tolerance = dtype == TG_F64 ? 1e-14 : 2e-6, x[70], s = 0;
            tg_params *params = tg_params_new(NULL, dtype);
            tg_tensor *table = tg_params_add(params, "table", TG_SHAPE(5, width));
            tg_tensor_fill(table, 0.5, NULL);
            tg_adagrad_config config = tg_adagrad_config_default();
            config.by_rows = true;
            config.weight_decay = decay;
            config.lr = 0.1;
            config.lr_decay = 0.5;
            tg_optim *optim = tg_adagrad_new(params, &config);
            for (int c = 0; c < width; c++) {
                x[c] = 0.5;
            }
            for (int step = 0; step < 4; step++) {
                tg_tensor_zero_grad(table);
                assert_true(tg_tensor_reserve_grad(table, TG_GRAD_ROWS, 1, NULL));
                tg_gradient_row(table, 3);
                double squares = 0, g[70];
                for (int c = 0; c < width; c++) {
                    g[c] = (double)(float)sin(c + 3 * step);
                    void *values = tg_tensor_grad_rows(table).values;
                    if (dtype == TG_F32) {
                        ((float *)values)[c] = (float)g[c];
                    } else {
                        ((double *)values)[c] = g[c];
                    }
                    g[c] += decay * x[c];
                    squares += g[c] * g[c];
                }
                s += squares / (double)width;
                for (int c = 0; c < width; c++) {
                    x[c] -= 0.1 / (1 + step * 0.5) / (sqrt(s) + 1e-10) * g[c];
                }
                assert_true(tg_optim_step(optim));
            }
            for (int c = 0; c < 5 * width; c++) {
                double expected = c / width == 3 ? x[c % width] : 0.5;
                assert_true(fabs(tg_tensor_value_at(table, c) - expected) <= tolerance);
            }
            tg_optim_free(optim);
            tg_params_free(params);
        }
    }
}

static void test_rmsprop(void **state)
{
    (void)state;
    check_trajectory("rmsprop_plain", make_rmsprop, NULL);
    tg_rmsprop_config momentum = tg_rmsprop_config_default(), centered = tg_rmsprop_config_default();
    momentum.lr = 0.005;
    momentum.alpha = 0.9;
    momentum.weight_decay = 0.01;
    momentum.momentum = 0.8;
    check_trajectory("rmsprop_momentum", make_rmsprop, &momentum);
    centered.lr = 0.005;
    centered.alpha = 0.9;
    centered.eps = 1e-2;
    centered.centered = true;
    check_trajectory("rmsprop_centered", make_rmsprop, &centered);
}

static void test_lion(void **state)
{
    (void)state;
    tg_lion_config config = tg_lion_config_default();
    config.lr = 0.01;
    config.beta2 = 0.97;
    config.weight_decay = 0.1;
    check_trajectory("lion", make_lion, &config);
}

static void test_sparse_adam(void **state)
{
    (void)state;
    tg_sparse_adam_config config = tg_sparse_adam_config_default();
    config.lr = 0.02;
    config.beta1 = 0.8;
    config.beta2 = 0.95;
    config.eps = 1e-6;
    check_rows_trajectory("sparse_adam", make_sparse_adam, &config);
}

/* The options that a case above leaves alone have torch's defaults (Lion's are its paper's). */
static void test_defaults(void **state)
{
    (void)state;
    tg_adagrad_config adagrad = tg_adagrad_config_default();
    assert_true(adagrad.lr == 1e-2 && adagrad.lr_decay == 0 && adagrad.weight_decay == 0);
    assert_true(adagrad.initial_accumulator == 0 && adagrad.eps == 1e-10);
    tg_rmsprop_config rmsprop = tg_rmsprop_config_default();
    assert_true(rmsprop.lr == 1e-2 && rmsprop.alpha == 0.99 && rmsprop.eps == 1e-8 && rmsprop.weight_decay == 0);
    assert_true(rmsprop.momentum == 0 && !rmsprop.centered);
    tg_lion_config lion = tg_lion_config_default();
    assert_true(lion.lr == 1e-4 && lion.beta1 == 0.9 && lion.beta2 == 0.99 && lion.weight_decay == 0);
    tg_sparse_adam_config sparse_adam = tg_sparse_adam_config_default();
    assert_true(sparse_adam.lr == 1e-3 && sparse_adam.beta1 == 0.9 && sparse_adam.beta2 == 0.999);
    assert_true(sparse_adam.eps == 1e-8);
}

/* Rows that are not listed are neither read nor written: NaN in them does not matter, and their moments stay 0. */
static void test_rows_are_left(void **state)
{
    (void)state;
    make_optim *const constructors[] = {make_adagrad, make_sparse_adam};
    for (int i = 0; i < 2; i++) {
        problem p = problem_make(TG_F64);
        /* 3, 6 and 10 are never touched */
        for (int row = 3; row < ROWS; row += row == 3 ? 3 : 4) {
            set_value(p.table, row * WIDTH, (double)NAN);
        }
        tg_optim *optim = constructors[i](p.params, NULL);
        for (int step = 0; step < STEPS; step++) {
            tg_optim_zero_grad(optim);
            give_gradients(&p, step, true);
            assert_true(tg_optim_step(optim));
        }
        int bad = 0;
        for (int k = 0; k < VALUES; k++) {
            bad += isnan(value_of(&p, k)) ? 1 : 0;
        }
        assert_int_equal(bad, 3);
        assert_true(tg_tensor_value_at(p.table, 3 * WIDTH + 1) == fmod((3 * WIDTH + 1) * 0.25 * 7, 3) - 1.5);
        assert_true(tg_tensor_value_at(tg_optim_state_at(optim, 0).tensor, 3 * WIDTH + 1) == 0);
        tg_optim_free(optim);
        tg_params_free(p.params);
    }
}

/* The default config with one field changed, which begins `field` bytes after its start. */
static void refuse(make_optim *make, const void *defaults, size_t size, size_t field, double value, const char *part)
{
    union {
        tg_adagrad_config adagrad;
        tg_rmsprop_config rmsprop;
        tg_lion_config lion;
        tg_sparse_adam_config sparse_adam;
    } config;
    memcpy(&config, defaults, size);
    memcpy((char *)&config + field, &value, sizeof value);
    check_refused(make, &config, part);
}

#define REFUSE(method, field, value, part) \
    refuse(make_##method, &method, sizeof method, offsetof(tg_##method##_config, field), value, part)

static void test_refuses(void **state)
{
    (void)state;
    const tg_adagrad_config adagrad = tg_adagrad_config_default();
    REFUSE(adagrad, lr, -1, "adagrad: learning rate -1");
    REFUSE(adagrad, lr_decay, -1, "adagrad: learning rate decay -1");
    REFUSE(adagrad, weight_decay, -1, "adagrad: weight decay -1");
    REFUSE(adagrad, initial_accumulator, -2, "adagrad: initial accumulator -2");
    REFUSE(adagrad, eps, (double)NAN, "adagrad: eps nan");
    const tg_rmsprop_config rmsprop = tg_rmsprop_config_default();
    REFUSE(rmsprop, lr, -1, "rmsprop: learning rate -1");
    REFUSE(rmsprop, alpha, 1, "rmsprop: alpha 1 is outside [0,1)");
    REFUSE(rmsprop, momentum, -0.5, "rmsprop: momentum -0.5");
    REFUSE(rmsprop, weight_decay, (double)INFINITY, "rmsprop: weight decay inf");
    REFUSE(rmsprop, eps, -1, "rmsprop: eps -1");
    const tg_lion_config lion = tg_lion_config_default();
    REFUSE(lion, beta1, 1, "lion: beta1 1 is outside [0,1)");
    REFUSE(lion, beta2, -1, "lion: beta2 -1 is outside [0,1)");
    REFUSE(lion, lr, (double)NAN, "lion: learning rate nan");
    REFUSE(lion, weight_decay, -1, "lion: weight decay -1");
    const tg_sparse_adam_config sparse_adam = tg_sparse_adam_config_default();
    REFUSE(sparse_adam, lr, -1, "sparse_adam: learning rate -1");
    REFUSE(sparse_adam, eps, -1, "sparse_adam: eps -1");
    REFUSE(sparse_adam, beta1, -1, "sparse_adam: beta1 -1 is outside [0,1)");
    REFUSE(sparse_adam, beta2, 2, "sparse_adam: beta2 2 is outside [0,1)");
}

/* A config that does not come from the method's own default function is refused with the name of that function. */
static void test_refuses_other_configs(void **state)
{
    (void)state;
    const struct {
        make_optim *make;
        const char *part;
    } methods[] = {{make_sgd, "sgd: the config does not come from tg_sgd_config_default()"},
                   {make_adam, "adam: the config does not come from tg_adam_config_default()"},
                   {make_adamw, "adamw: the config does not come from tg_adamw_config_default()"},
                   {make_adagrad, "adagrad: the config does not come from tg_adagrad_config_default()"},
                   {make_rmsprop, "rmsprop: the config does not come from tg_rmsprop_config_default()"},
                   {make_lion, "lion: the config does not come from tg_lion_config_default()"},
                   {make_sparse_adam, "sparse_adam: the config does not come from tg_sparse_adam_config_default()"}};
    /* of another call, field by field, and zeroed; large enough for every method */
    const tg_schedule_config other = tg_schedule_config_default();
    const tg_adam_config adam = tg_adam_config_default(), unmarked = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.9};
    const tg_schedule_config zeroed = {0};
    for (int i = 0; i < 7; i++) {
        check_refused(methods[i].make, &other, methods[i].part);
        check_refused(methods[i].make, &unmarked, methods[i].part);
        check_refused(methods[i].make, &zeroed, methods[i].part);
        if (methods[i].make != make_adam) {
            check_refused(methods[i].make, &adam, methods[i].part);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adagrad),   cmocka_unit_test(test_adagrad_by_rows),
        cmocka_unit_test(test_wide_rows), cmocka_unit_test(test_rmsprop),
        cmocka_unit_test(test_lion),      cmocka_unit_test(test_sparse_adam),
        cmocka_unit_test(test_defaults),  cmocka_unit_test(test_rows_are_left),
        cmocka_unit_test(test_refuses),   cmocka_unit_test(test_refuses_other_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
