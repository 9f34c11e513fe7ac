/* What all optimizers share: groups, errors, memory, frozen and tied parameters. */
#include "problem.h"

static void assert_optim_error(tg_optim *optim, tg_code code, const char *part)
{
    assert_int_equal(tg_optim_error_code(optim), code);
    if (!strstr(tg_optim_error(optim), part)) {
        fail_msg("the error is \"%s\", without \"%s\"", tg_optim_error(optim), part);
    }
    tg_optim_clear_error(optim);
    assert_int_equal(tg_optim_error_code(optim), TG_OK);
    assert_string_equal(tg_optim_error(optim), "");
}

/* One step with a gradient of ones; returns by how much each parameter's first value fell. */
static void step_with_ones(tg_params *params, tg_optim *optim, double *fell)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *x = tg_params_at(params, i).tensor;
        tg_fill(x, 1, NULL);
        tg_fill(dense_gradient(x), 1, NULL);
    }
    assert_true(tg_optim_step(optim));
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        fell[i] = 1 - tg_value_at(tg_params_at(params, i).tensor, 0);
    }
}

static void test_groups(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(TG_F64, NULL);
    const char *names[] = {"block.0.weight", "block.0.bias", "block.1.weight", "norm.bias"};
    for (int i = 0; i < 4; i++) {
        assert_non_null(tg_params_add(params, names[i], TG_SHAPE(2)));
    }
    tg_optim *optim = tg_sgd_new(params, &(tg_sgd_config){.lr = 0.5, .weight_decay = 1});
    assert_true(tg_optim_add_to_group(optim, "no_decay", "*.bias"));
    assert_true(tg_optim_set_weight_decay(optim, "no_decay", 0));
    assert_true(tg_optim_add_to_group(optim, "slow", "block.*.w*t"));
    assert_true(tg_optim_set_group_lr(optim, "slow", 0.125));
    double fell[4];
    step_with_ones(params, optim, fell);
    assert_true(fell[0] == 0.25 && fell[1] == 0.5 && fell[2] == 0.25 && fell[3] == 0.5);
    assert_true(tg_optim_set_lr(optim, 0.25)); /* of all groups */
    assert_true(tg_optim_group_lr(optim, "slow") == 0.25 && tg_optim_lr(optim) == 0.25);
    assert_true(tg_optim_set_group_lr(optim, "default", 0.75));
    assert_true(tg_optim_add_to_group(optim, "no_decay", "block.0.weight")); /* joins the group that exists */
    assert_true(tg_optim_add_to_group(optim, "default", "norm.bias"));       /* and back */
    step_with_ones(params, optim, fell);
    assert_true(fell[0] == 0.25 && fell[1] == 0.25 && fell[2] == 0.5 && fell[3] == 1.5);
    tg_optim_free(optim);
    tg_params_free(params);
}

static void test_group_errors(void **state)
{
    (void)state;
    problem p = problem_make(TG_F32);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    assert_false(tg_optim_set_group_lr(optim, "nobody", 1));
    assert_optim_error(optim, TG_ERROR_RANGE, "optim_set_group_lr: there is no group 'nobody'");
    assert_false(tg_optim_set_weight_decay(optim, NULL, 1));
    assert_optim_error(optim, TG_ERROR_RANGE, "there is no group '(null)'");
    assert_false(tg_optim_set_weight_decay(optim, "default", -1));
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_set_weight_decay: -1; allowed");
    assert_false(tg_optim_set_lr(optim, -0.5));
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_set_lr: -0.5; allowed");
    assert_true(tg_optim_lr(optim) == 1e-3);
    const char *unmatched[] = {"*.weigh", "able.weight", "table.weight.*", "", NULL, "*x*"};
    for (int i = 0; i < 6; i++) {
        assert_false(tg_optim_add_to_group(optim, "g", unmatched[i]));
        assert_optim_error(optim, TG_ERROR_RANGE, "optim_add_to_group: no parameter matches '");
    }
    assert_true(isnan(tg_optim_group_lr(optim, "g"))); /* a failed call makes no group */
    assert_false(tg_optim_add_to_group(optim, "", "*"));
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_add_to_group: a name of 0 characters");
    assert_false(tg_optim_add_to_group(optim, NULL, "*"));
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_add_to_group: a name of 0 characters");
    char longest[400] = {0};
    memset(longest, 'g', 256);
    assert_false(tg_optim_add_to_group(optim, longest, "*"));
    assert_optim_error(optim, TG_ERROR_VALUE, "a name of 256 characters; allowed are 1 to 255");
    longest[255] = 0;
    assert_true(tg_optim_add_to_group(optim, longest, "*"));
    const char *matched[] = {"*", "**", "t*e.weight", "table.weight", "*weight*", "*t*t*"};
    for (int i = 0; i < 6; i++) {
        assert_true(tg_optim_add_to_group(optim, "default", matched[i]));
    }
    tg_optim_free(optim);
    tg_params_free(p.params);
}

/* An error holds every step back until it is cleared. */
static void test_sticky(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    tg_optim *optim = tg_adam_new(p.params, NULL);
    give_gradients(&p, 3, false);
    double before = tg_value_at(p.bias, 0);
    tg_optim_set_lr(optim, (double)NAN);
    tg_optim_set_group_lr(optim, "nobody", 1); /* the first error stays */
    assert_false(tg_optim_step(optim));
    assert_true(tg_value_at(p.bias, 0) == before);
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_set_lr: ");
    assert_true(tg_optim_step(optim));
    assert_true(tg_value_at(p.bias, 0) != before);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void test_added_parameter(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    assert_non_null(tg_params_add_buffer(p.params, "mask", TG_SHAPE(3)));
    assert_non_null(tg_params_add_alias(p.params, "out.weight", "table.weight"));
    give_gradients(&p, 3, false);
    assert_true(tg_optim_step(optim)); /* buffers and second names are no business of an optimizer */
    assert_non_null(tg_params_add(p.params, "late.weight", TG_SHAPE(3)));
    double before = tg_value_at(p.bias, 0);
    for (int i = 0; i < 2; i++) { /* again after the error was cleared */
        assert_false(tg_optim_step(optim));
        assert_optim_error(optim, TG_ERROR_STATE, "the parameter 'late.weight' was added after the optimizer was made");
    }
    assert_true(tg_value_at(p.bias, 0) == before);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void test_tied_and_frozen(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    assert_non_null(tg_params_add_alias(p.params, "out.weight", "table.weight"));
    tg_optim *optim = tg_sgd_new(p.params, &(tg_sgd_config){.lr = 1});
    assert_int_equal(tg_optim_steps(optim, "out.weight"), -1);
    give_gradients(&p, 3, false);
    double row = tg_value_at(tg_grad(p.table), 0), first = tg_value_at(p.table, 0), bias = tg_value_at(p.bias, 0);
    assert_true(tg_params_set_frozen(p.params, "head.bias", true));
    assert_true(tg_optim_step(optim));
    assert_true(tg_value_at(p.table, 0) == first - row); /* once, not twice */
    assert_true(tg_value_at(p.bias, 0) == bias);
    assert_int_equal(tg_optim_steps(optim, "head.bias"), 0);
    tg_optim_zero_grad(optim);
    assert_int_equal(tg_gradient_kind_of(p.table), TG_GRADIENT_NONE);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void test_null(void **state)
{
    (void)state;
    tg_optim_free(NULL);
    tg_optim_zero_grad(NULL);
    tg_optim_clear_error(NULL);
    assert_false(tg_optim_step(NULL));
    assert_int_equal(tg_optim_error_code(NULL), TG_ERROR_STATE);
    assert_non_null(strstr(tg_optim_error(NULL), "NULL"));
    assert_false(tg_optim_set_lr(NULL, 1));
    assert_false(tg_optim_set_group_lr(NULL, "default", 1));
    assert_false(tg_optim_set_weight_decay(NULL, "default", 1));
    assert_false(tg_optim_add_to_group(NULL, "g", "*"));
    assert_false(tg_optim_set_steps(NULL, "w", 1));
    assert_true(isnan(tg_optim_lr(NULL)));
    assert_int_equal(tg_optim_steps(NULL, "w"), -1);
    assert_int_equal(tg_optim_state_count(NULL), 0);
    assert_null(tg_optim_state_at(NULL, 0).tensor);
    assert_string_equal(tg_optim_method_name(NULL), "none");
}

/* Params that could not be built give no optimizer, and keep their own error. */
static void test_failed_params(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(TG_F32, NULL);
    assert_null(tg_params_add(params, "", TG_SHAPE(1)));
    assert_null(tg_sgd_new(params, NULL));
    assert_non_null(strstr(tg_params_error(params), "a name of 0 characters"));
    tg_params_free(params);
    params = tg_params_new(TG_F32, NULL); /* no parameters at all is fine */
    tg_optim *optim = tg_adam_new(params, NULL);
    assert_non_null(optim);
    assert_true(tg_optim_step(optim));
    tg_optim_free(optim);
    tg_params_free(params);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    make_optim *makes[] = {make_sgd, make_adam, make_adamw};
    const tg_sgd_config sgd = {.lr = 0.1, .momentum = 0.9};
    const tg_adam_config adam = {0.1, 0.9, 0.9, 1e-8, 0.1, true};
    for (int kind = 0; kind < 3; kind++) {
        const void *config = kind == 0 ? (const void *)&sgd : &adam;
        problem p = problem_make(TG_F32);
        size_t live = counting.live;
        tg_optim *optim = NULL;
        size_t failures = 0;
        for (size_t k = 1; !optim; k++) {
            allocator_arm(&counting, k, false);
            optim = makes[kind](p.params, config);
            if (!optim) {
                failures++;
                assert_int_equal(tg_params_error_code(p.params), TG_ERROR_MEMORY);
                assert_non_null(strstr(tg_params_error(p.params), "out of memory"));
                tg_params_clear_error(p.params);
                assert_int_equal(counting.live, live);
            }
        }
        assert_true(failures >= (kind == 0 ? 5 : 9)); /* itself, groups, slots and the buffers of two parameters */
        assert_true(tg_optim_add_to_group(optim, "a", "*"));
        for (int i = 0; i < 40; i++) { /* until the list of groups has to grow */
            char name[8];
            snprintf(name, sizeof name, "g%d", i);
            allocator_arm(&counting, 1, false);
            if (!tg_optim_add_to_group(optim, name, "*.bias")) {
                assert_optim_error(optim, TG_ERROR_MEMORY, "optim_add_to_group: out of memory");
                assert_true(isnan(tg_optim_group_lr(optim, name)));
                break;
            }
            assert_in_range(i, 0, 38);
        }
        allocator_arm(&counting, 0, false);
        tg_optim_free(optim);
        tg_params_free(p.params);
        assert_int_equal(counting.live, 0);
    }
    allocator_restore();
}

/* Steps, clipping and new rates allocate nothing. */
static void test_no_allocation(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    problem p = problem_make(TG_F32);
    tg_optim *optim = tg_adamw_new(p.params, NULL);
    assert_non_null(optim);
    for (int step = 0; step < 20; step++) {
        tg_optim_zero_grad(optim);
        give_gradients(&p, step, step % 2);
        allocator_arm(&counting, 1, true);
        assert_true(tg_optim_set_lr(optim, 0.01 * step));
        assert_true(tg_clip_grad_norm(p.params, 1) > 0);
        assert_true(tg_optim_step(optim));
        assert_int_equal(counting.calls, 0);
        allocator_arm(&counting, 0, false);
    }
    tg_optim_free(optim);
    tg_params_free(p.params);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),          cmocka_unit_test(test_group_errors),
        cmocka_unit_test(test_sticky),          cmocka_unit_test(test_added_parameter),
        cmocka_unit_test(test_tied_and_frozen), cmocka_unit_test(test_null),
        cmocka_unit_test(test_failed_params),   cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
