/* problem: shared by the tests of optimizers: the table and the bias of make_optim.py, its 50 steps of gradients, dense
 * or by rows, and the comparison with torch's trajectories. */
#ifndef TG_TESTS_PROBLEM_H
#define TG_TESTS_PROBLEM_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"
#include "tensor/gradient.h"

#define ROWS 12
#define WIDTH 5
#define VALUES (ROWS * WIDTH + WIDTH)
#define STEPS 50

typedef struct step_gradient {
    int count;
    int32_t ids[ROWS];
    double rows[ROWS * WIDTH];
    int has_bias;
    double bias[WIDTH];
} step_gradient;

typedef struct problem {
    tg_params *params;
    tg_tensor *table, *bias;
} problem;

static inline FILE *golden_file(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/optim/%s", TG_TEST_GOLDENS, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

static inline void read_doubles(FILE *file, double *values, int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(fscanf(file, "%lf", &values[i]), 1);
    }
}

static inline const step_gradient *gradients(void)
{
    static step_gradient steps[STEPS];
    static bool ready;
    if (!ready) {
        FILE *file = golden_file("gradients.txt");
        for (int i = 0; i < STEPS; i++) {
            step_gradient *s = &steps[i];
            assert_int_equal(fscanf(file, "%d", &s->count), 1);
            assert_in_range(s->count, 1, ROWS);
            for (int k = 0; k < s->count; k++) {
                assert_int_equal(fscanf(file, "%d", &s->ids[k]), 1);
            }
            assert_int_equal(fscanf(file, " :%*[ ]"), 0);
            read_doubles(file, s->rows, s->count * WIDTH);
            assert_int_equal(fscanf(file, " bias %d", &s->has_bias), 1);
            read_doubles(file, s->bias, s->has_bias ? WIDTH : 0);
        }
        fclose(file);
        ready = true;
    }
    return steps;
}

static inline void set_value(tg_tensor *x, int64_t i, double value)
{
    if (tg_tensor_dtype(x) == TG_F32) {
        ((float *)tg_tensor_data_mut(x))[i] = (float)value;
    } else {
        ((double *)tg_tensor_data_mut(x))[i] = value;
    }
}

static inline problem problem_make(tg_dtype dtype)
{
    problem p = {.params = tg_params_new(NULL, dtype)};
    assert_non_null(p.params);
    p.table = tg_params_add(p.params, "table.weight", TG_SHAPE(ROWS, WIDTH));
    p.bias = tg_params_add(p.params, "head.bias", TG_SHAPE(WIDTH));
    assert_non_null(p.table);
    assert_non_null(p.bias);
    const double bias[WIDTH] = {0.5, -0.25, 1.0, 0.0, -1.0};
    for (int i = 0; i < ROWS * WIDTH; i++) {
        set_value(p.table, i, fmod(i * 0.25 * 7, 3) - 1.5);
    }
    for (int i = 0; i < WIDTH; i++) {
        set_value(p.bias, i, bias[i]);
    }
    return p;
}

/* The number of optimizers that resize their state after x. */
static inline int followers(const tg_tensor *x)
{
    return x->rows ? x->rows->followers : 0;
}

/* A dense gradient of zeros for x. */
static inline tg_tensor *dense_gradient(tg_tensor *x)
{
    assert_true(tg_gradient_reserve(x, TG_GRAD_DENSE, 0));
    tg_gradient_write(x, NULL);
    return tg_tensor_grad(x);
}

static inline void give_rows(tg_tensor *table, const step_gradient *s)
{
    assert_true(tg_gradient_reserve(table, TG_GRAD_ROWS, s->count));
    for (int k = 0; k < s->count; k++) {
        int64_t slot = tg_gradient_row(table, s->ids[k]);
        for (int c = 0; c < WIDTH; c++) {
            void *values = tg_tensor_grad_rows(table).values;
            if (tg_tensor_dtype(table) == TG_F32) {
                ((float *)values)[slot * WIDTH + c] = (float)s->rows[k * WIDTH + c];
            } else {
                ((double *)values)[slot * WIDTH + c] = s->rows[k * WIDTH + c];
            }
        }
    }
}

/* Step number `step`'s gradients, from 0; by rows or dense. */
static inline void give_gradients(const problem *p, int step, bool by_rows)
{
    const step_gradient *s = &gradients()[step];
    if (by_rows) {
        give_rows(p->table, s);
    } else {
        tg_tensor *dense = dense_gradient(p->table);
        for (int k = 0; k < s->count * WIDTH; k++) {
            set_value(dense, s->ids[k / WIDTH] * WIDTH + k % WIDTH, s->rows[k]);
        }
    }
    if (s->has_bias) {
        tg_tensor *dense = dense_gradient(p->bias);
        for (int c = 0; c < WIDTH; c++) {
            set_value(dense, c, s->bias[c]);
        }
    }
}

static inline double value_of(const problem *p, int64_t i)
{
    return i < ROWS * WIDTH ? tg_tensor_value_at(p->table, i) : tg_tensor_value_at(p->bias, i - ROWS * WIDTH);
}

/* torch's values after `step` steps. */
static inline void read_trajectory(const char *from, const char *name, tg_dtype dtype, int step, double values[VALUES])
{
    FILE *file = golden_file(from);
    char case_name[64], case_dtype[8];
    int case_step = 0;
    bool found = false;
    while (!found && fscanf(file, "%63s %7s %d", case_name, case_dtype, &case_step) == 3) {
        read_doubles(file, values, VALUES);
        found = strcmp(case_name, name) == 0 && strcmp(case_dtype, tg_dtype_name(dtype)) == 0 && case_step == step;
    }
    fclose(file);
    if (!found) {
        fail_msg("no %s %s after step %d in %s", name, tg_dtype_name(dtype), step, from);
    }
}

/* Tolerances: f64 to 1e-12; f32 to 1e-5 of the largest value, since torch's vector code fuses additions. */
static inline void compare_trajectory(const problem *p, const char *from, const char *name, tg_dtype dtype, int step)
{
    double want[VALUES], largest = 0;
    read_trajectory(from, name, dtype, step, want);
    for (int i = 0; i < VALUES; i++) {
        largest = fmax(largest, fabs(want[i]));
    }
    for (int i = 0; i < VALUES; i++) {
        double tolerance = dtype == TG_F64 ? 1e-12 : 1e-5 * largest;
        if (!(fabs(value_of(p, i) - want[i]) <= tolerance)) {
            fail_msg("%s %s step %d: value %d is %.17g, not %.17g", name, tg_dtype_name(dtype), step, i, value_of(p, i),
                     want[i]);
        }
    }
}

typedef tg_optim *make_optim(tg_params *params, const void *config);

/* Gradients of our own, of make_optim.py's own problem. Through a lookup the table's come by rows, through a product
 * with one-hot rows dense. */
static inline void own_gradients(const problem *p, tg_tape *t, int step, bool by_rows)
{
    const int32_t draw[] = {0, 1, 2, 4, 5, 7, 8, 9, 11};
    int32_t ids[8], targets[8];
    for (int k = 0; k < 8; k++) {
        ids[k] = draw[(step * 5 + k * k * 3) % 9];
        targets[k] = (step + 2 * k) % WIDTH;
    }
    tg_tensor *at = tensor_i32(TG_SHAPE(8), ids), *wanted = tensor_i32(TG_SHAPE(8), targets);
    tg_tape_reset(t);
    tg_tensor *rows = by_rows ? tg_embedding(t, at, p->table, NULL)
                              : tg_matmul(t, tg_one_hot(t, at, ROWS, tg_tensor_dtype(p->table)), p->table);
    assert_true(tg_backward(t, tg_cross_entropy(t, tg_add(t, rows, p->bias), wanted, NULL), NULL));
    assert_int_equal(tg_tensor_grad_kind(p->table), by_rows ? TG_GRAD_ROWS : TG_GRAD_DENSE);
    tg_release(at);
    tg_release(wanted);
}

static inline void check_own_trajectory(const char *name, make_optim *make, const void *config)
{
    for (int variant = 0; variant < 4; variant++) {
        tg_dtype dtype = variant % 2 ? TG_F32 : TG_F64;
        problem p = problem_make(dtype);
        tg_optim *optim = make(p.params, config);
        tg_tape *t = tg_tape_new(NULL, NULL);
        for (int step = 0; step < STEPS; step++) {
            tg_optim_zero_grad(optim);
            own_gradients(&p, t, step, variant / 2 == 0);
            assert_true(tg_optim_step(optim));
        }
        compare_trajectory(&p, "own.txt", name, dtype, STEPS);
        tg_tape_free(t);
        tg_optim_free(optim);
        tg_params_free(p.params);
    }
}

/* torch's 50 steps, in both dtypes: fed torch's gradients, dense, by rows, and with the two in turns; then our own. */
static inline void check_trajectory(const char *name, make_optim *make, const void *config)
{
    for (int variant = 0; variant < 6; variant++) {
        tg_dtype dtype = variant % 2 ? TG_F32 : TG_F64;
        problem p = problem_make(dtype);
        tg_optim *optim = make(p.params, config);
        assert_non_null(optim);
        for (int step = 0; step < STEPS; step++) {
            tg_optim_zero_grad(optim);
            give_gradients(&p, step, variant / 2 == 1 || (variant / 2 == 2 && step % 3 == 0));
            assert_true(tg_optim_step(optim));
            if (step == 0 || step == 9 || step == STEPS - 1) {
                compare_trajectory(&p, "trajectories.txt", name, dtype, step + 1);
            }
        }
        tg_optim_free(optim);
        tg_params_free(p.params);
    }
    check_own_trajectory(name, make, config);
}

/* The same by rows alone, for methods that leave other rows as they are. */
static inline void check_rows_trajectory(const char *name, make_optim *make, const void *config)
{
    for (int dtype = TG_F32; dtype <= TG_F64; dtype++) {
        problem p = problem_make((tg_dtype)dtype);
        tg_optim *optim = make(p.params, config);
        for (int step = 0; step < STEPS; step++) {
            tg_optim_zero_grad(optim);
            give_gradients(&p, step, true);
            assert_true(tg_optim_step(optim));
            if (step == 0 || step == 9 || step == STEPS - 1) {
                compare_trajectory(&p, "rows.txt", name, (tg_dtype)dtype, step + 1);
            }
        }
        tg_optim_free(optim);
        tg_params_free(p.params);
    }
}

/* The config is refused with a message that contains `part`, and nothing refers to the table afterwards. */
static inline void check_refused(make_optim *make, const void *config, const char *part)
{
    problem p = problem_make(TG_F32);
    assert_null(make(p.params, config));
    assert_params_error(p.params, TG_ERROR_VALUE, part);
    assert_int_equal(followers(p.table), 0);
    tg_params_free(p.params);
}

static inline tg_sgd_config sgd_config(double lr, double momentum, double dampening, double weight_decay, bool nesterov)
{
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = lr;
    config.momentum = momentum;
    config.dampening = dampening;
    config.weight_decay = weight_decay;
    config.nesterov = nesterov;
    return config;
}

static inline tg_adam_config adam_config(double lr, double beta1, double beta2, double eps, double weight_decay,
                                         bool amsgrad)
{
    tg_adam_config config = tg_adam_config_default();
    config.lr = lr;
    config.beta1 = beta1;
    config.beta2 = beta2;
    config.eps = eps;
    config.weight_decay = weight_decay;
    config.amsgrad = amsgrad;
    return config;
}

static inline tg_adamw_config adamw_config(double lr, double beta1, double beta2, double eps, double weight_decay,
                                           bool amsgrad)
{
    tg_adamw_config config = adam_config(lr, beta1, beta2, eps, weight_decay, amsgrad);
    config.mark = tg_adamw_config_default().mark;
    config.decoupled = true;
    return config;
}

/* The number of state tensors: of calls of tg_optim_state_at until it returns NULLs. */
static inline int64_t count_states(const tg_optim *optim)
{
    int64_t count = 0;
    while (tg_optim_state_at(optim, count).tensor) {
        assert_non_null(tg_optim_state_at(optim, count).kind);
        assert_non_null(tg_optim_state_at(optim, count).name);
        count++;
    }
    const int64_t outside[] = {-1, count, count + 1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 5; i++) {
        tg_optim_state none = tg_optim_state_at(optim, outside[i]);
        assert_true(!none.kind && !none.name && !none.tensor);
    }
    return count;
}

static inline tg_optim *make_sgd(tg_params *params, const void *config)
{
    return tg_sgd_new(params, config);
}

static inline tg_optim *make_adam(tg_params *params, const void *config)
{
    return tg_adam_new(params, config);
}

static inline tg_optim *make_adamw(tg_params *params, const void *config)
{
    return tg_adamw_new(params, config);
}

#endif
