/* deferred: shared by the tests of deferred steps: the methods that have them, and a training of one table. */
#ifndef TG_TESTS_DEFERRED_H
#define TG_TESTS_DEFERRED_H

#include "problem.h"

#define TABLE_WIDTH 6
#define LOOKUPS 5
#define FLUSH_FIRST "rows of 'tok_emb.weight' have deferred steps that are not made up; call tg_optim_flush first"

/* ---- methods ---- */

typedef union any_config {
    tg_sgd_config sgd;
    tg_adam_config adam;
    tg_adamw_config adamw;
} any_config;

/* A method with the same options, dense and deferred. */
typedef struct deferred_method {
    const char *name;
    make_optim *make;
    any_config dense, deferred;
} deferred_method;

static inline deferred_method deferred_sgd(double lr, double momentum, double dampening, double weight_decay,
                                           bool nesterov)
{
    tg_sgd_config dense = sgd_config(lr, momentum, dampening, weight_decay, nesterov), deferred = dense;
    deferred.deferred = true;
    return (deferred_method){"sgd", make_sgd, {.sgd = dense}, {.sgd = deferred}};
}

static inline deferred_method deferred_adam(double weight_decay)
{
    tg_adam_config dense = adam_config(1e-3, 0.9, 0.999, 1e-8, weight_decay, false), deferred = dense;
    deferred.deferred = true;
    return (deferred_method){"adam", make_adam, {.adam = dense}, {.adam = deferred}};
}

static inline deferred_method deferred_adamw(double beta1, double beta2, double eps, double weight_decay)
{
    tg_adamw_config dense = adamw_config(1e-3, beta1, beta2, eps, weight_decay, false), deferred = dense;
    deferred.deferred = true;
    return (deferred_method){"adamw", make_adamw, {.adamw = dense}, {.adamw = deferred}};
}

#define DEFERRED_METHODS 7

/* Writes the methods that every behavior is tested with. */
static inline void list_deferred_methods(deferred_method methods[DEFERRED_METHODS])
{
    const deferred_method list[DEFERRED_METHODS] = {
        deferred_adamw(0.9, 0.999, 1e-8, 0.1),    deferred_adam(0),
        deferred_sgd(0.05, 0.9, 0, 0, false),     deferred_sgd(0.05, 0.9, 0, 0.1, false),
        deferred_sgd(0.05, 0.8, 0.3, 0.1, false), deferred_sgd(0.05, 0.9, 0, 0.1, true),
        deferred_sgd(0.05, 0, 0.3, 0.1, false),
    };
    memcpy(methods, list, sizeof list);
}

/* ---- a training ---- */

typedef struct training {
    tg_params *params;
    tg_tensor *table, *ids;
    tg_tape *tape;
    tg_optim *optim;
} training;

/* The next of a sequence of pseudo-random numbers in [0,1). */
static inline double draw(uint64_t *sequence)
{
    *sequence = *sequence * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*sequence >> 11) / 9007199254740992.0;
}

static inline training training_make(tg_dtype dtype, int64_t rows, make_optim *make, const void *config)
{
    training t = {.params = tg_params_new(NULL, dtype)};
    t.table = tg_params_add(t.params, "tok_emb.weight", TG_SHAPE(rows, TABLE_WIDTH));
    assert_non_null(t.table);
    for (int64_t i = 0; i < rows * TABLE_WIDTH; i++) {
        set_value(t.table, i, (double)((i * 31) % 17) / 8 - 1);
    }
    t.ids = tg_tensor_new(TG_I32, TG_SHAPE(LOOKUPS), NULL);
    t.tape = tg_tape_new(NULL, NULL);
    t.optim = make(t.params, config);
    assert_non_null(t.optim);
    return t;
}

static inline void training_free(training *t)
{
    tg_optim_free(t->optim);
    tg_tape_free(t->tape);
    tg_release(t->ids);
    tg_params_free(t->params);
}

/* Adds the gradient of a step, whose values are exact in float. Their sizes are from 1e-1 to 1e-11, so that eps is
 * small beside the root of v in the first columns, and large in the last ones. */
static inline void give_step(training *t, const int32_t *ids, uint64_t *sequence)
{
    double values[LOOKUPS * TABLE_WIDTH];
    float floats[LOOKUPS * TABLE_WIDTH];
    for (int i = 0; i < LOOKUPS * TABLE_WIDTH; i++) {
        floats[i] = (float)((draw(sequence) - 0.5) * pow(10, -2 * (i % TABLE_WIDTH)));
        values[i] = floats[i];
    }
    tg_optim_zero_grad(t->optim);
    bool is_f32 = tg_tensor_dtype(t->table) == TG_F32;
    assert_true(tg_tensor_add_grad_rows(t->table, ids, is_f32 ? (void *)floats : (void *)values, LOOKUPS, NULL));
}

/* One step: a recorded lookup, in two steps of three, then the gradient of its rows. */
static inline void make_step(training *t, int64_t step, bool zipf, uint64_t *sequence)
{
    int32_t *ids = tg_tensor_data_mut(t->ids);
    int64_t rows = tg_tensor_size(t->table, 0);
    for (int i = 0; i < LOOKUPS; i++) {
        double u = draw(sequence);
        ids[i] = (int32_t)(zipf ? pow((double)rows, u) - 1 : u * (double)rows);
    }
    if (step % 3 != 0) {
        tg_tape_reset(t->tape);
        assert_non_null(tg_embedding(t->tape, t->ids, t->table, NULL));
    }
    give_step(t, ids, sequence);
    assert_true(tg_optim_step(t->optim));
}

static inline void assert_near(const tg_tensor *x, const tg_tensor *y)
{
    assert_int_equal(tg_tensor_count(x), tg_tensor_count(y));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double a = tg_tensor_value_at(x, i), b = tg_tensor_value_at(y, i);
        if (!(fabs(a - b) <= 1e-11)) {
            fail_msg("value %lld is %.17g, not %.17g", (long long)i, a, b);
        }
    }
}

/* The deferred training d has the values of the dense one. */
static inline void assert_equal_trainings(training *d, training *dense)
{
    assert_true(tg_optim_flush(d->optim));
    assert_near(d->table, dense->table);
    for (int64_t k = 0; k < count_states(d->optim); k++) {
        assert_near(tg_optim_state_at(d->optim, k).tensor, tg_optim_state_at(dense->optim, k).tensor);
    }
}

#endif
