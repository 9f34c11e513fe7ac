/* Properties of all optimizers: groups, errors, memory, frozen and tied parameters. */
#include "problem.h"

/* One step with a gradient of ones; returns by how much each parameter's first value decreased. */
static void step_with_ones(tg_params *params, tg_optim *optim, double *decrease)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *x = tg_params_at(params, i).tensor;
        tg_tensor_fill(x, 1, NULL);
        tg_tensor_fill(dense_gradient(x), 1, NULL);
    }
    assert_true(tg_optim_step(optim));
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        decrease[i] = 1 - tg_tensor_value_at(tg_params_at(params, i).tensor, 0);
    }
}

static void test_groups(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F64);
    const char *names[] = {"block.0.weight", "block.0.bias", "block.1.weight", "norm.bias"};
    for (int i = 0; i < 4; i++) {
        assert_non_null(tg_params_add(params, names[i], TG_SHAPE(2)));
    }
    tg_sgd_config config = sgd_config(0.5, 0, 0, 1, false);
    tg_optim *optim = tg_sgd_new(params, &config);
    assert_true(tg_optim_add_to_group(optim, "no_decay", "*.bias"));
    assert_true(tg_optim_set_weight_decay(optim, "no_decay", 0));
    assert_true(tg_optim_add_to_group(optim, "slow", "block.*.w*t"));
    assert_true(tg_optim_set_lr(optim, "slow", 0.125));
    double decrease[4];
    step_with_ones(params, optim, decrease);
    assert_true(decrease[0] == 0.25 && decrease[1] == 0.5 && decrease[2] == 0.25 && decrease[3] == 0.5);
    /* of all groups */
    assert_true(tg_optim_set_lr(optim, NULL, 0.25));
    assert_true(tg_optim_lr(optim, "slow") == 0.25 && tg_optim_lr(optim, "no_decay") == 0.25);
    assert_true(tg_optim_lr(optim, NULL) == 0.25 && tg_optim_lr(optim, "default") == 0.25);
    assert_true(tg_optim_set_lr(optim, "default", 0.75));
    assert_true(tg_optim_lr(optim, NULL) == 0.75 && tg_optim_lr(optim, "slow") == 0.25);
    /* joins the group that exists */
    assert_true(tg_optim_add_to_group(optim, "no_decay", "block.0.weight"));
    /* and back */
    assert_true(tg_optim_add_to_group(optim, "default", "norm.bias"));
    step_with_ones(params, optim, decrease);
    assert_true(decrease[0] == 0.25 && decrease[1] == 0.25 && decrease[2] == 0.5 && decrease[3] == 1.5);
    tg_optim_free(optim);
    tg_params_free(params);
}

/* A NULL sets the weight decay of all groups, and reads that of "default"; a new group begins with the values that
 * "default" has then. */
static void test_weight_decay_of_groups(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    tg_sgd_config config = sgd_config(0.5, 0, 0, 1, false);
    tg_optim *optim = tg_sgd_new(p.params, &config);
    assert_true(tg_optim_weight_decay(optim, NULL) == 1 && tg_optim_weight_decay(optim, "default") == 1);
    assert_true(tg_optim_add_to_group(optim, "a", "*.bias"));
    assert_true(tg_optim_weight_decay(optim, "a") == 1 && tg_optim_lr(optim, "a") == 0.5);
    assert_true(tg_optim_set_weight_decay(optim, "a", 0.25));
    assert_true(tg_optim_weight_decay(optim, "a") == 0.25 && tg_optim_weight_decay(optim, NULL) == 1);
    double decrease[2];
    step_with_ones(p.params, optim, decrease);
    assert_true(decrease[0] == 0.5 * 2 && decrease[1] == 0.5 * 1.25);
    assert_true(tg_optim_set_weight_decay(optim, NULL, 0.5));
    assert_true(tg_optim_weight_decay(optim, "a") == 0.5 && tg_optim_weight_decay(optim, "default") == 0.5);
    step_with_ones(p.params, optim, decrease);
    assert_true(decrease[0] == 0.5 * 1.5 && decrease[1] == 0.5 * 1.5);
    assert_true(tg_optim_set_lr(optim, "default", 2));
    assert_true(tg_optim_add_to_group(optim, "b", "table.*"));
    assert_true(tg_optim_lr(optim, "b") == 2 && tg_optim_weight_decay(optim, "b") == 0.5);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void test_group_errors(void **state)
{
    (void)state;
    problem p = problem_make(TG_F32);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    assert_false(tg_optim_set_lr(optim, "nobody", 1));
    assert_optim_error(optim, TG_ERROR_RANGE, "optim_set_lr: no group 'nobody' exists");
    assert_false(tg_optim_set_weight_decay(optim, "nobody", 1));
    assert_optim_error(optim, TG_ERROR_RANGE, "optim_set_weight_decay: no group 'nobody' exists");
    assert_false(tg_optim_set_lr(optim, "", 1));
    assert_optim_error(optim, TG_ERROR_RANGE, "optim_set_lr: no group '' exists");
    const char *const groups[] = {NULL, "default"};
    const struct {
        double value;
        const char *lr, *weight_decay;
    } bad[] = {
        {-0.5, "optim_set_lr: -0.5; it must be finite", "optim_set_weight_decay: -0.5; it must be finite"},
        {-1, "optim_set_lr: -1; it must be finite", "optim_set_weight_decay: -1; it must be finite"},
        {(double)NAN, "optim_set_lr: nan; it must be finite", "optim_set_weight_decay: nan; it must be finite"},
        {copysign((double)NAN, -1), "optim_set_lr: nan; it must be finite",
         "optim_set_weight_decay: nan; it must be finite"},
        {(double)INFINITY, "optim_set_lr: inf; it must be finite", "optim_set_weight_decay: inf; it must be finite"},
        {-(double)INFINITY, "optim_set_lr: -inf; it must be finite",
         "optim_set_weight_decay: -inf; it must be finite"}};
    for (int i = 0; i < 12; i++) {
        assert_false(tg_optim_set_lr(optim, groups[i % 2], bad[i / 2].value));
        assert_optim_error(optim, TG_ERROR_VALUE, bad[i / 2].lr);
        assert_false(tg_optim_set_weight_decay(optim, groups[i % 2], bad[i / 2].value));
        assert_optim_error(optim, TG_ERROR_VALUE, bad[i / 2].weight_decay);
    }
    assert_true(tg_optim_lr(optim, NULL) == 1e-3 && tg_optim_weight_decay(optim, NULL) == 0);
    const char *unmatched[] = {"*.weigh", "able.weight", "table.weight.*", "", "*x*"};
    for (int i = 0; i < 5; i++) {
        assert_false(tg_optim_add_to_group(optim, "g", unmatched[i]));
        assert_optim_error(optim, TG_ERROR_RANGE, "optim_add_to_group: no parameter matches '");
    }
    assert_false(tg_optim_add_to_group(optim, "g", NULL));
    assert_optim_error(optim, TG_ERROR_STATE, "optim_add_to_group: the pattern is NULL");
    /* a call that fails creates no group */
    assert_false(tg_optim_set_lr(optim, "g", 1));
    assert_optim_error(optim, TG_ERROR_RANGE, "optim_set_lr: no group 'g' exists");
    /* a getter of an unknown group returns 0, and reports nothing */
    assert_true(tg_optim_set_weight_decay(optim, NULL, 0.5));
    assert_true(tg_optim_lr(optim, "g") == 0 && tg_optim_weight_decay(optim, "g") == 0);
    assert_int_equal(optim_error(optim)->code, TG_OK);
    assert_string_equal(optim_error(optim)->text, "");
    assert_false(tg_optim_add_to_group(optim, "", "*"));
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_add_to_group: a name of 0 characters");
    assert_false(tg_optim_add_to_group(optim, NULL, "*"));
    assert_optim_error(optim, TG_ERROR_STATE, "optim_add_to_group: the group is NULL");
    char longest[400] = {0};
    memset(longest, 'g', 256);
    assert_false(tg_optim_add_to_group(optim, longest, "*"));
    assert_optim_error(optim, TG_ERROR_VALUE, "a name of 256 characters; it must have 1 to 255");
    longest[255] = 0;
    assert_true(tg_optim_add_to_group(optim, longest, "*"));
    const char *matched[] = {"*", "**", "t*e.weight", "table.weight", "*weight*", "*t*t*"};
    for (int i = 0; i < 6; i++) {
        assert_true(tg_optim_add_to_group(optim, "default", matched[i]));
    }
    tg_optim_free(optim);
    tg_params_free(p.params);
}

/* An error refuses every further call until it is cleared; the first error stays, and getters still answer. */
static void test_refuses_until_cleared(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    tg_optim *optim = tg_adam_new(p.params, NULL);
    give_gradients(&p, 3, false);
    double before = tg_tensor_value_at(p.bias, 0);
    assert_false(tg_optim_set_lr(optim, NULL, (double)NAN));
    assert_false(tg_optim_set_lr(optim, "nobody", 1));
    assert_false(tg_optim_set_lr(optim, NULL, 1));
    assert_false(tg_optim_set_weight_decay(optim, "default", 1));
    assert_false(tg_optim_add_to_group(optim, "g", "*"));
    assert_false(tg_optim_set_steps(optim, "head.bias", 7));
    assert_false(tg_optim_step(optim));
    assert_true(tg_tensor_value_at(p.bias, 0) == before);
    assert_true(tg_optim_lr(optim, NULL) == 1e-3 && tg_optim_weight_decay(optim, NULL) == 0);
    assert_true(tg_optim_lr(optim, "g") == 0);
    assert_int_equal(tg_optim_steps(optim, "head.bias"), 0);
    assert_int_equal(count_states(optim), 4);
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_set_lr: nan");
    assert_int_equal(optim_error(optim)->code, TG_OK);
    assert_string_equal(optim_error(optim)->text, "");
    assert_true(tg_optim_step(optim));
    assert_true(tg_tensor_value_at(p.bias, 0) != before);
    assert_int_equal(tg_optim_steps(optim, "head.bias"), 1);
    assert_true(tg_optim_add_to_group(optim, "g", "*"));
    assert_true(tg_optim_set_lr(optim, "g", 1) && tg_optim_set_weight_decay(optim, "g", 1));
    assert_true(tg_optim_set_steps(optim, "head.bias", 7));
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
    /* buffers and second names do not concern an optimizer */
    assert_true(tg_optim_step(optim));
    assert_non_null(tg_params_add(p.params, "late.weight", TG_SHAPE(3)));
    double before = tg_tensor_value_at(p.bias, 0);
    /* again after the error was cleared */
    for (int i = 0; i < 2; i++) {
        assert_false(tg_optim_step(optim));
        assert_optim_error(optim, TG_ERROR_STATE,
                           "optim_step: the parameter 'late.weight' was added after the optimizer was created");
    }
    assert_true(tg_tensor_value_at(p.bias, 0) == before);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void test_tied_and_frozen(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    assert_non_null(tg_params_add_alias(p.params, "out.weight", "table.weight"));
    tg_sgd_config config = sgd_config(1, 0, 0, 0, false);
    tg_optim *optim = tg_sgd_new(p.params, &config);
    /* an alias is no name of an optimizer */
    assert_int_equal(tg_optim_steps(optim, "out.weight"), 0);
    assert_false(tg_optim_set_steps(optim, "out.weight", 1));
    assert_optim_error(optim, TG_ERROR_RANGE, "no parameter 'out.weight' exists");
    give_gradients(&p, 3, false);
    double row = tg_tensor_value_at(tg_tensor_grad(p.table), 0), first = tg_tensor_value_at(p.table, 0),
           bias = tg_tensor_value_at(p.bias, 0);
    assert_true(tg_params_set_frozen(p.params, "head.bias", true));
    assert_true(tg_optim_step(optim));
    /* once, not twice */
    assert_true(tg_tensor_value_at(p.table, 0) == first - row);
    assert_int_equal(tg_optim_steps(optim, "table.weight"), 1);
    assert_int_equal(tg_optim_steps(optim, "out.weight"), 0);
    assert_true(tg_tensor_value_at(p.bias, 0) == bias);
    assert_int_equal(tg_optim_steps(optim, "head.bias"), 0);
    tg_optim_zero_grad(optim);
    assert_int_equal(tg_tensor_grad_kind(p.table), TG_GRAD_NONE);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

static void test_null(void **state)
{
    (void)state;
    tg_optim_free(NULL);
    tg_optim_zero_grad(NULL);
    assert_false(tg_optim_step(NULL));
    assert_false(tg_optim_set_lr(NULL, NULL, 1));
    assert_false(tg_optim_set_lr(NULL, "default", 1));
    assert_false(tg_optim_set_weight_decay(NULL, NULL, 1));
    assert_false(tg_optim_set_weight_decay(NULL, "default", 1));
    assert_false(tg_optim_add_to_group(NULL, "g", "*"));
    assert_false(tg_optim_set_steps(NULL, "w", 1));
    assert_true(tg_optim_lr(NULL, NULL) == 0 && tg_optim_lr(NULL, "default") == 0);
    assert_true(tg_optim_weight_decay(NULL, NULL) == 0 && tg_optim_weight_decay(NULL, "default") == 0);
    assert_int_equal(tg_optim_steps(NULL, "w"), 0);
    assert_int_equal(count_states(NULL), 0);
}

/* Params that could not be built give no optimizer, and keep their own error. */
static void test_failed_params(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    assert_null(tg_params_add(params, "", TG_SHAPE(1)));
    assert_null(tg_sgd_new(params, NULL));
    assert_null(tg_adam_new(params, NULL));
    assert_params_error(params, TG_ERROR_VALUE, "a name of 0 characters");
    tg_optim *later = tg_sgd_new(params, NULL);
    assert_non_null(later);
    tg_optim_free(later);
    tg_params_free(params);
    /* no parameters at all is fine */
    params = tg_params_new(NULL, TG_F32);
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
    make_optim *constructors[] = {make_sgd, make_adam, make_adamw};
    const tg_sgd_config sgd = sgd_config(0.1, 0.9, 0, 0, false);
    const tg_adam_config adam = adam_config(0.1, 0.9, 0.9, 1e-8, 0.1, true);
    const tg_adamw_config adamw = adamw_config(0.1, 0.9, 0.9, 1e-8, 0.1, true);
    const void *const configs[] = {&sgd, &adam, &adamw};
    for (int kind = 0; kind < 3; kind++) {
        problem p = problem_make(TG_F32);
        size_t live = counting.live;
        tg_optim *optim = NULL;
        size_t failures = 0;
        for (size_t k = 1; !optim; k++) {
            allocator_arm(&counting, k, false);
            optim = constructors[kind](p.params, configs[kind]);
            if (!optim) {
                failures++;
                assert_params_error(p.params, TG_ERROR_MEMORY, "out of memory");
                assert_int_equal(counting.live, live);
                /* the table does not wait for an optimizer that was never created */
                assert_int_equal(followers(p.table), 0);
            }
        }
        /* itself, groups, slots and the state of two parameters */
        assert_true(failures >= (kind == 0 ? 5 : 9));
        assert_true(tg_optim_add_to_group(optim, "a", "*"));
        /* until the list of groups has to grow */
        for (int i = 0; i < 40; i++) {
            char name[16];
            snprintf(name, sizeof name, "g%d", i);
            allocator_arm(&counting, 1, false);
            if (!tg_optim_add_to_group(optim, name, "*.bias")) {
                assert_optim_error(optim, TG_ERROR_MEMORY, "optim_add_to_group: out of memory");
                assert_true(tg_optim_lr(optim, name) == 0);
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

/* The params may be freed before the optimizer, which retains its tensors; only its names are then invalid. */
static void test_params_freed_first(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    make_optim *constructors[] = {make_sgd, make_adam, make_adamw};
    for (int kind = 0; kind < 3; kind++) {
        problem p = problem_make(TG_F64);
        tg_optim *optim = constructors[kind](p.params, NULL);
        give_gradients(&p, 3, kind == 1);
        assert_true(tg_optim_step(optim));
        /* the last one also with state tensors that have not followed a resize */
        if (kind == 2) {
            tg_tensor_zero_grad(p.table);
            assert_true(tg_tensor_resize_rows(p.table, ROWS + 2, NULL));
        }
        tg_params_free(p.params);
        assert_int_equal(tg_tensor_size(p.table, 1), WIDTH);
        tg_optim_zero_grad(optim);
        assert_int_equal(tg_tensor_grad_kind(p.bias), TG_GRAD_NONE);
        tg_optim_free(optim);
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
        assert_true(tg_optim_set_lr(optim, NULL, 0.01 * step));
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
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_weight_decay_of_groups),
        cmocka_unit_test(test_group_errors),
        cmocka_unit_test(test_refuses_until_cleared),
        cmocka_unit_test(test_added_parameter),
        cmocka_unit_test(test_tied_and_frozen),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_failed_params),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_params_freed_first),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
