/* Schedules against torch.optim.lr_scheduler. */
#include "problem.h"

static void check(const char *name, tg_schedule schedule)
{
    FILE *file = golden_file("schedules.txt");
    char case_name[64];
    int count = 0;
    double rates[64];
    bool found = false;
    while (!found && fscanf(file, "%63s %d", case_name, &count) == 2) {
        assert_in_range(count, 1, 64);
        read_doubles(file, rates, count);
        found = strcmp(case_name, name) == 0;
    }
    fclose(file);
    assert_true(found);
    for (int step = 0; step < count; step++) {
        double rate = tg_schedule_lr(&schedule, step);
        if (!(fabs(rate - rates[step]) <= 1e-14)) {
            fail_msg("%s: step %d has the rate %.17g, not %.17g", name, step, rate, rates[step]);
        }
    }
}

static void test_goldens(void **state)
{
    (void)state;
    check("constant", (tg_schedule){.lr = 0.01});
    check("cosine", (tg_schedule){.kind = TG_SCHEDULE_COSINE, .lr = 0.01, .minimum_lr = 1e-3, .total_steps = 30});
    check("warm_cosine", (tg_schedule){.kind = TG_SCHEDULE_COSINE,
                                       .lr = 0.01,
                                       .initial_lr = 1e-3,
                                       .minimum_lr = 1e-4,
                                       .warmup_steps = 10,
                                       .total_steps = 30});
    check("linear", (tg_schedule){.kind = TG_SCHEDULE_LINEAR, .lr = 0.01, .minimum_lr = 2e-3, .total_steps = 25});
    check("step", (tg_schedule){.kind = TG_SCHEDULE_STEP, .lr = 0.01, .step_size = 7, .gamma = 0.5});
}

static void test_past_the_end(void **state)
{
    (void)state;
    tg_schedule cosine = {.kind = TG_SCHEDULE_COSINE, .lr = 1, .minimum_lr = 0.25, .total_steps = 10};
    assert_true(tg_schedule_lr(&cosine, 10) == 0.25);
    assert_true(tg_schedule_lr(&cosine, 1000000) == 0.25);
    tg_schedule linear = cosine;
    linear.kind = TG_SCHEDULE_LINEAR;
    assert_true(tg_schedule_lr(&linear, 1000000) == 0.25);
    tg_schedule warm = {.kind = TG_SCHEDULE_CONSTANT, .lr = 1, .warmup_steps = 4};
    assert_true(tg_schedule_lr(&warm, 0) == 0 && tg_schedule_lr(&warm, 3) == 0.75);
    assert_true(tg_schedule_lr(&warm, 4) == 1 && tg_schedule_lr(&warm, INT64_MAX) == 1);
    tg_schedule steps = {.kind = TG_SCHEDULE_STEP, .lr = 8, .warmup_steps = 2, .step_size = 3, .gamma = 0.5};
    assert_true(tg_schedule_lr(&steps, 4) == 8 && tg_schedule_lr(&steps, 5) == 4 && tg_schedule_lr(&steps, 8) == 2);
}

static void test_defaults(void **state)
{
    (void)state;
    tg_schedule schedule = tg_schedule_default();
    assert_true(tg_schedule_lr(&schedule, 0) == 1e-3 && tg_schedule_lr(&schedule, 99) == 1e-3);
}

/* What means nothing is NaN, and an optimizer refuses it. */
static void test_bad_input(void **state)
{
    (void)state;
    assert_true(isnan(tg_schedule_lr(NULL, 0)));
    tg_schedule good = {.kind = TG_SCHEDULE_COSINE, .lr = 1, .warmup_steps = 2, .total_steps = 10, .step_size = 1};
    assert_false(isnan(tg_schedule_lr(&good, 0)));
    assert_true(isnan(tg_schedule_lr(&good, -1)));
    tg_schedule bad = good;
    bad.warmup_steps = -1;
    assert_true(isnan(tg_schedule_lr(&bad, 5)));
    bad = good;
    bad.total_steps = 2;
    assert_true(isnan(tg_schedule_lr(&bad, 0)));
    bad = good;
    bad.kind = TG_SCHEDULE_STEP;
    bad.step_size = 0;
    assert_true(isnan(tg_schedule_lr(&bad, 0)));
    bad.kind = (tg_schedule_kind)17;
    assert_true(isnan(tg_schedule_lr(&bad, 0)));
    problem p = problem_make(TG_F32);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    assert_false(tg_optim_set_lr(optim, tg_schedule_lr(&bad, 0)));
    assert_int_equal(tg_optim_error_code(optim), TG_ERROR_VALUE);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_past_the_end),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
