/* The values of a long training with deferred steps are those of the dense optimizer, in f64 and in f32, and those of a
 * short one are torch's. */
#include "deferred.h"

/* ---- the values of the dense optimizer ---- */

/* A row misses at most TABLE_ROWS steps. */
#define TABLE_ROWS 1000
#define TABLE_VALUES (TABLE_ROWS * TABLE_WIDTH)
#define TRAINING 2000

/* A table and up to two moments, after a training. */
typedef double values[3][TABLE_VALUES];

typedef struct rates {
    double highest, lowest;
} rates;

static double learning_rate(int64_t step, rates lr)
{
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.warmup_steps = 50;
    schedule.lr = lr.highest;
    schedule.minimum_lr = lr.lowest;
    schedule.total_steps = TRAINING;
    return tg_schedule_lr(step, &schedule, NULL);
}

/* Trains one table, and writes its values and its moments. Returns the number of tensors. */
static int train(tg_dtype dtype, make_optim *make, const any_config *config, rates lr, bool zipf, values result)
{
    uint64_t sequence = 1;
    training t = training_make(dtype, TABLE_ROWS, make, config);
    for (int64_t step = 0; step < TRAINING; step++) {
        assert_true(tg_optim_set_lr(t.optim, NULL, learning_rate(step, lr)));
        make_step(&t, step, zipf, &sequence);
    }
    assert_true(tg_optim_flush(t.optim));
    int tensors = 1 + (int)count_states(t.optim);
    for (int k = 0; k < tensors; k++) {
        const tg_tensor *x = k == 0 ? t.table : tg_optim_state_at(t.optim, k - 1).tensor;
        for (int64_t i = 0; i < TABLE_VALUES; i++) {
            result[k][i] = tg_tensor_value_at(x, i);
        }
    }
    training_free(&t);
    return tensors;
}

static double distance(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < TABLE_VALUES; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return sqrt(sum / TABLE_VALUES);
}

/* The error that is allowed for value i of tensor k: for a moment relative, since it may be tiny. SGD's momentum may
 * swing around 0, and is measured together with the value. */
static double allowed_error(const deferred_method *m, values exact, int k, int i)
{
    double other = m->make == make_sgd ? fabs(exact[0][i]) : 0;
    return k == 0 ? 1e-11 : 1e-11 * (fabs(exact[k][i]) + other) + 1e-300;
}

/* After a training and a flush: in f64 within 1e-11 of the dense optimizer; in f32 at most 1.25 times as far from its
 * f64 values as the dense optimizer in f32 is. */
static void check(deferred_method m, rates lr)
{
    static values exact, f64, plain, f32;
    for (int zipf = 0; zipf < 2; zipf++) {
        int tensors = train(TG_F64, m.make, &m.dense, lr, zipf, exact);
        train(TG_F64, m.make, &m.deferred, lr, zipf, f64);
        train(TG_F32, m.make, &m.dense, lr, zipf, plain);
        train(TG_F32, m.make, &m.deferred, lr, zipf, f32);
        for (int k = 0; k < tensors; k++) {
            for (int i = 0; i < TABLE_VALUES; i++) {
                if (!(fabs(f64[k][i] - exact[k][i]) <= allowed_error(&m, exact, k, i))) {
                    fail_msg("%s, ids %d, tensor %d, value %d is %.17g, not %.17g", m.name, zipf, k, i, f64[k][i],
                             exact[k][i]);
                }
            }
        }
        double far = distance(f32[0], exact[0]), allowed = 1.25 * distance(plain[0], exact[0]);
        if (!(far <= allowed)) {
            fail_msg("%s, ids %d: f32 is %g from the values in f64, allowed are %g", m.name, zipf, far, allowed);
        }
    }
}

static void test_adam(void **state)
{
    (void)state;
    const rates lr = {1e-3, 1e-5};
    check(deferred_adam(0), lr);
    check(deferred_adamw(0.9, 0.999, 1e-8, 0.1), lr);
    check(deferred_adamw(0.9, 0.95, 1e-8, 0.1), lr);
}

static void test_extreme_options_of_adam(void **state)
{
    (void)state;
    const rates lr = {1e-3, 1e-5};
    /* A row misses more steps than the window has. While lr * weight_decay is above 1/2, no step is deferred. */
    check(deferred_adamw(0.5, 0.9, 1e-6, 1000), lr);
    /* The product of the decay factors falls below the smallest double. */
    check(deferred_adamw(0.9, 0.999, 1e-8, 480), (rates){1e-3, 1e-3});
    /* The sums fit neither into a float nor into a double. */
    check(deferred_adamw(1e-3, 1e-5, 1e-6, 0.1), lr);
    check(deferred_adamw(0, 0.999, 1e-3, 0), lr);
}

static void test_sgd(void **state)
{
    (void)state;
    const rates lr = {0.1, 1e-3};
    check(deferred_sgd(0.1, 0.9, 0, 0, false), lr);
    check(deferred_sgd(0.1, 0.9, 0, 1e-3, false), lr);
    check(deferred_sgd(0.1, 0.9, 0, 0.1, true), lr);
    check(deferred_sgd(0.1, 0.8, 0.3, 0.1, false), lr);
    check(deferred_sgd(0.1, 0, 0, 0.1, false), lr);
}

static void test_extreme_options_of_sgd(void **state)
{
    (void)state;
    /* The powers of the momentum and the decay fall below the smallest double. */
    check(deferred_sgd(0.1, 1e-3, 0, 1, false), (rates){0.4, 0.4});
    /* hardly damped: the pair of value and buffer swings around 0 */
    check(deferred_sgd(0.1, 0.999, 0, 0.5, false), (rates){0.1, 1e-3});
    /* While a step takes more than half of a value, no step is deferred; nor any that adds to it. */
    check(deferred_sgd(0.1, 0.9, 0, 10, true), (rates){0.1, 1e-3});
    check(deferred_sgd(0.1, 0.5, 1.5, 0.01, false), (rates){0.1, 1e-3});
    /* A learning rate of 0 changes the buffer alone. */
    check(deferred_sgd(0.1, 0.9, 0, 0.1, false), (rates){0, 0});
}

/* Elements that are 0 stay 0, although products of steps that reflect x, or that add to it, would be infinite. */
static void test_zeros_stay_zeros(void **state)
{
    (void)state;
    const deferred_method methods[] = {deferred_sgd(1, 0.9, 0, 1e3, false), deferred_sgd(1, 0.9, 3, 1e3, false),
                                       deferred_adamw(0.9, 0.999, 1e-8, 1e6)};
    for (int i = 0; i < 3; i++) {
        training t = training_make(TG_F64, TABLE_ROWS, methods[i].make, &methods[i].deferred);
        assert_true(tg_tensor_fill(t.table, 0, NULL));
        for (int step = 0; step < 300; step++) {
            tg_optim_zero_grad(t.optim);
            assert_true(tg_tensor_add_grad_rows(t.table, (int32_t[]){1}, (double[TABLE_WIDTH]){0}, 1, NULL));
            assert_true(tg_optim_step(t.optim));
        }
        assert_true(tg_optim_flush(t.optim));
        for (int k = 0; k < TABLE_VALUES; k++) {
            assert_true(tg_tensor_value_at(t.table, k) == 0);
        }
        training_free(&t);
    }
}

/* ---- torch's values ---- */

#define GOLDEN_ROWS 200
#define GOLDEN_VALUES (2 * GOLDEN_ROWS)
#define GOLDEN_STEPS 60

/* The steps of make_optim.py's deferred.txt, in which a row misses up to 25 steps. */
static void check_golden(FILE *file, const char *name, deferred_method m, double lr)
{
    char case_name[64];
    double want[GOLDEN_VALUES], gradient[6];
    assert_int_equal(fscanf(file, "%63s", case_name), 1);
    assert_string_equal(case_name, name);
    read_doubles(file, want, GOLDEN_VALUES);
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *table = tg_params_add(params, "table", TG_SHAPE(GOLDEN_ROWS, 2));
    for (int i = 0; i < GOLDEN_VALUES; i++) {
        set_value(table, i, (double)(i * 31 % 17) / 8 - 1);
    }
    tg_optim *optim = m.make(params, &m.deferred);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        int32_t ids[3];
        for (int i = 0; i < 6; i++) {
            ids[i / 2] = (step * 37 + i / 2 * 61) % GOLDEN_ROWS;
            gradient[i] = ((step * 7 + i / 2 * 5 + i % 2 * 3) % 16 - 8) / 16.0;
        }
        assert_true(tg_optim_set_lr(optim, NULL, lr * (1 - step / (double)GOLDEN_STEPS)));
        tg_optim_zero_grad(optim);
        assert_true(tg_tensor_add_grad_rows(table, ids, gradient, 3, NULL));
        assert_true(tg_optim_step(optim));
    }
    assert_null(tg_tensor_data(table));
    clear_optim_error(optim);
    assert_true(tg_optim_flush(optim));
    for (int i = 0; i < GOLDEN_VALUES; i++) {
        double value = tg_tensor_value_at(table, i);
        if (!(fabs(value - want[i]) <= 1e-12)) {
            fail_msg("%s: value %d is %.17g, not %.17g", name, i, value, want[i]);
        }
    }
    tg_optim_free(optim);
    tg_params_free(params);
}

static void test_values_of_torch(void **state)
{
    (void)state;
    FILE *file = golden_file("deferred.txt");
    check_golden(file, "sgd_momentum", deferred_sgd(0.05, 0.9, 0, 0, false), 0.05);
    check_golden(file, "sgd_dampening", deferred_sgd(0.05, 0.8, 0.3, 0.01, false), 0.05);
    check_golden(file, "sgd_nesterov", deferred_sgd(0.05, 0.9, 0, 0.02, true), 0.05);
    check_golden(file, "adam_plain", deferred_adam(0), 0.02);
    check_golden(file, "adamw_decay", deferred_adamw(0.9, 0.95, 1e-8, 0.5), 0.02);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_torch),         cmocka_unit_test(test_adam),
        cmocka_unit_test(test_extreme_options_of_adam), cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_extreme_options_of_sgd),  cmocka_unit_test(test_zeros_stay_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
