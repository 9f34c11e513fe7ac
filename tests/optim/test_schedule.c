/* Schedules against torch.optim.lr_scheduler. */
#include "problem.h"

static void check(const char *name, const tg_schedule_config *schedule)
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
        double rate = tg_schedule_lr(step, schedule, NULL);
        if (!(fabs(rate - rates[step]) <= 1e-14)) {
            fail_msg("%s: step %d has the rate %.17g, not %.17g", name, step, rate, rates[step]);
        }
    }
}

static tg_schedule_config schedule_of(tg_schedule_kind kind, double lr)
{
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = kind;
    schedule.lr = lr;
    return schedule;
}

/* The rate of a schedule that is valid. */
static double rate_at(int64_t step, const tg_schedule_config *schedule)
{
    tg_error error = TG_NO_ERROR;
    double rate = tg_schedule_lr(step, schedule, &error);
    assert_int_equal(error.code, TG_OK);
    return rate;
}

static void test_goldens(void **state)
{
    (void)state;
    tg_schedule_config schedule = schedule_of(TG_SCHEDULE_CONSTANT, 0.01);
    check("constant", &schedule);
    schedule = schedule_of(TG_SCHEDULE_COSINE, 0.01);
    schedule.minimum_lr = 1e-3;
    schedule.total_steps = 30;
    check("cosine", &schedule);
    schedule.initial_lr = 1e-3;
    schedule.minimum_lr = 1e-4;
    schedule.warmup_steps = 10;
    check("warm_cosine", &schedule);
    schedule = schedule_of(TG_SCHEDULE_LINEAR, 0.01);
    schedule.minimum_lr = 2e-3;
    schedule.total_steps = 25;
    check("linear", &schedule);
    schedule = schedule_of(TG_SCHEDULE_STEP, 0.01);
    schedule.step_size = 7;
    schedule.gamma = 0.5;
    check("step", &schedule);
    schedule = schedule_of(TG_SCHEDULE_POLYNOMIAL, 0.01);
    schedule.total_steps = 25;
    schedule.power = 2.5;
    check("polynomial", &schedule);
    schedule = schedule_of(TG_SCHEDULE_TRAPEZOID, 0.01);
    schedule.initial_lr = 1e-3;
    schedule.warmup_steps = 5;
    schedule.decay_steps = 10;
    schedule.total_steps = 30;
    schedule.minimum_lr = 5e-4;
    check("trapezoid", &schedule);
    schedule = schedule_of(TG_SCHEDULE_ONE_CYCLE, 0.01);
    schedule.initial_lr = 0.01 / 25;
    schedule.minimum_lr = 0.01 / 25e4;
    schedule.total_steps = 33;
    check("one_cycle", &schedule);
    schedule.initial_lr = 0.01 / 5;
    schedule.minimum_lr = 0.01 / 5e4;
    schedule.total_steps = 9;
    schedule.warmup_part = 0.05;
    check("one_cycle_short", &schedule);
}

static void test_past_the_end(void **state)
{
    (void)state;
    tg_schedule_config cosine = schedule_of(TG_SCHEDULE_COSINE, 1);
    cosine.minimum_lr = 0.25;
    cosine.total_steps = 10;
    assert_true(rate_at(10, &cosine) == 0.25);
    assert_true(rate_at(1000000, &cosine) == 0.25);
    tg_schedule_config linear = cosine;
    linear.kind = TG_SCHEDULE_LINEAR;
    assert_true(rate_at(1000000, &linear) == 0.25);
    cosine.warmup_steps = linear.warmup_steps = 10; /* no step is left for the decay */
    assert_true(rate_at(9, &cosine) == 0.9 && rate_at(10, &cosine) == 0.25 && rate_at(11, &cosine) == 0.25);
    assert_true(rate_at(9, &linear) == 0.9 && rate_at(10, &linear) == 0.25 && rate_at(11, &linear) == 0.25);
    tg_schedule_config late = cosine;
    late.kind = TG_SCHEDULE_TRAPEZOID;
    late.warmup_steps = 0;
    assert_true(rate_at(9, &late) == 1 && rate_at(10, &late) == 0.25); /* without an end */
    late.decay_steps = 10;
    assert_true(rate_at(0, &late) == 1 && rate_at(5, &late) == 0.625 && rate_at(INT64_MAX, &late) == 0.25);
    tg_schedule_config cycle = schedule_of(TG_SCHEDULE_ONE_CYCLE, 1);
    cycle.minimum_lr = 0.25;
    cycle.total_steps = 10;
    for (int i = 0; i < 3; i++) {
        cycle.warmup_part = i / 2.0;
        assert_true(rate_at(9, &cycle) == (i < 2 ? 0.25 : 1)); /* 1 is torch's with pct_start=1 */
        assert_true(rate_at(10, &cycle) == 0.25 && rate_at(INT64_MAX, &cycle) == 0.25);
    }
    tg_schedule_config warm = schedule_of(TG_SCHEDULE_CONSTANT, 1);
    warm.warmup_steps = 4;
    assert_true(rate_at(0, &warm) == 0 && rate_at(3, &warm) == 0.75);
    assert_true(rate_at(4, &warm) == 1 && rate_at(INT64_MAX, &warm) == 1);
    tg_schedule_config steps = schedule_of(TG_SCHEDULE_STEP, 8);
    steps.warmup_steps = 2;
    steps.step_size = 3;
    steps.gamma = 0.5;
    assert_true(rate_at(4, &steps) == 8 && rate_at(5, &steps) == 4 && rate_at(8, &steps) == 2);
}

/* NULL is the default config. */
static void test_defaults(void **state)
{
    (void)state;
    tg_schedule_config schedule = tg_schedule_config_default();
    assert_true(rate_at(0, &schedule) == 1e-3 && rate_at(99, &schedule) == 1e-3);
    assert_true(rate_at(0, NULL) == 1e-3 && rate_at(99, NULL) == 1e-3);
    assert_true(schedule.kind == TG_SCHEDULE_CONSTANT && schedule.initial_lr == 0 && schedule.warmup_steps == 0);
    assert_true(schedule.minimum_lr == 0 && schedule.total_steps == 0);
    assert_true(schedule.step_size == 1 && schedule.gamma == 0.1);
    assert_true(schedule.power == 1 && schedule.decay_steps == 0 && schedule.warmup_part == 0.3);
}

static void refuse(int64_t step, const tg_schedule_config *schedule, const char *part)
{
    tg_error error = TG_NO_ERROR;
    assert_true(isnan(tg_schedule_lr(step, schedule, &error)));
    assert_error(&error, TG_ERROR_VALUE, part);
    assert_true(isnan(tg_schedule_lr(step, schedule, NULL)));
}

/* Invalid arguments give NaN, and an optimizer refuses it. */
static void test_bad_input(void **state)
{
    (void)state;
    tg_schedule_config good = schedule_of(TG_SCHEDULE_COSINE, 1);
    good.warmup_steps = 2;
    good.total_steps = 10;
    assert_false(isnan(rate_at(0, &good)));
    refuse(-1, &good, "schedule_lr: step -1; it must be 0 or more");
    refuse(-1, NULL, "schedule_lr: step -1");
    tg_schedule_config bad = good;
    bad.warmup_steps = -1;
    refuse(5, &bad, "schedule_lr: warmup_steps -1; it must be 0 or more");
    bad = good;
    bad.total_steps = 1;
    refuse(0, &bad, "schedule_lr: total_steps 1; it must be at least 1, and at least warmup_steps 2");
    bad.kind = TG_SCHEDULE_LINEAR;
    refuse(0, &bad, "schedule_lr: total_steps 1");
    bad.total_steps = INT64_MIN;
    refuse(0, &bad, "schedule_lr: total_steps -9223372036854775808");
    bad = schedule_of(TG_SCHEDULE_COSINE, 1);
    refuse(0, &bad, "schedule_lr: total_steps 0; it must be at least 1, and at least warmup_steps 0");
    bad = schedule_of(TG_SCHEDULE_STEP, 0);
    bad.gamma = 1e300;
    refuse(2, &bad, "schedule_lr: gamma 1e+300; the rate of step 2 is not finite");
    bad = good;
    bad.lr = -1;
    refuse(0, &bad, "schedule_lr: lr -1; it must be finite and at least 0");
    bad = good;
    bad.initial_lr = (double)NAN;
    refuse(0, &bad, "schedule_lr: initial_lr nan");
    bad = good;
    bad.minimum_lr = (double)INFINITY;
    refuse(0, &bad, "schedule_lr: minimum_lr inf");
    bad = good;
    bad.gamma = -0.5;
    refuse(0, &bad, "schedule_lr: gamma -0.5");
    const tg_schedule_config unmarked = {.lr = 0.1};
    refuse(0, &unmarked, "schedule_lr: the config does not come from tg_schedule_config_default()");
    bad = good;
    bad.kind = (tg_schedule_kind)17;
    refuse(0, &bad, "schedule_lr: kind 17 does not exist; it must be 0 to 6");
    bad.kind = TG_SCHEDULE_STEP;
    bad.step_size = 0;
    refuse(0, &bad, "schedule_lr: step_size 0; it must be 1 or more");
    bad = schedule_of(TG_SCHEDULE_POLYNOMIAL, 1);
    refuse(0, &bad, "schedule_lr: total_steps 0");
    bad.power = -1;
    refuse(0, &bad, "schedule_lr: power -1; it must be finite and at least 0");
    bad = good;
    bad.kind = TG_SCHEDULE_TRAPEZOID;
    bad.decay_steps = 9;
    refuse(0, &bad, "schedule_lr: decay_steps 9; total_steps 10 and warmup_steps 2 leave 0 to 8");
    bad.decay_steps = -1;
    refuse(0, &bad, "schedule_lr: decay_steps -1");
    bad.kind = TG_SCHEDULE_ONE_CYCLE;
    refuse(0, &bad, "schedule_lr: warmup_steps 2; one cycle has none");
    bad.warmup_steps = 0;
    bad.warmup_part = 1.5;
    refuse(0, &bad, "schedule_lr: warmup_part 1.5 is outside [0,1]");
    problem p = problem_make(TG_F32);
    tg_optim *optim = tg_sgd_new(p.params, NULL);
    assert_false(tg_optim_set_lr(optim, NULL, tg_schedule_lr(0, &bad, NULL)));
    assert_optim_error(optim, TG_ERROR_VALUE, "optim_set_lr: nan; it must be finite and at least 0");
    tg_optim_free(optim);
    tg_params_free(p.params);
}

/* Kinds that do not read total_steps accept any number there. */
static void test_member_that_is_not_read(void **state)
{
    (void)state;
    static const tg_schedule_kind kinds[] = {TG_SCHEDULE_CONSTANT, TG_SCHEDULE_STEP};
    for (int i = 0; i < 2; i++) {
        tg_schedule_config schedule = schedule_of(kinds[i], 0.01);
        schedule.warmup_steps = 5;
        schedule.step_size = 10;
        schedule.total_steps = INT64_MIN;
        assert_true(rate_at(5, &schedule) == 0.01);
        assert_true(rate_at(4, &schedule) < 0.01);
        schedule.total_steps = INT64_MAX;
        assert_true(rate_at(6, &schedule) == 0.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_that_is_not_read),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_past_the_end),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
