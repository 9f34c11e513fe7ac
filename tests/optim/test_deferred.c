/* Deferred steps of Adam and AdamW: the values are those of the dense optimizer, a step allocates nothing, and only a
 * recorded lookup can read a table with missed steps. */
#include "problem.h"

/* A row misses at most TABLE_ROWS / 8 steps. */
#define TABLE_ROWS 1000
#define TABLE_WIDTH 6
#define TABLE_VALUES (TABLE_ROWS * TABLE_WIDTH)
#define LOOKUPS 5
#define TRAINING 2000
#define FLUSH_FIRST "rows of 'tok_emb.weight' have deferred steps that are not made up; call tg_optim_flush first"

/* ---- a training ---- */

typedef struct training {
    tg_params *params;
    tg_tensor *table, *ids;
    tg_tape *tape;
    tg_optim *optim;
} training;

/* The next of a sequence of pseudo-random numbers in [0,1). */
static double draw(uint64_t *sequence)
{
    *sequence = *sequence * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*sequence >> 11) / 9007199254740992.0;
}

static training training_make(tg_dtype dtype, int64_t rows, make_optim *make, const void *config)
{
    training t = {.params = tg_params_new(dtype, NULL)};
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

static void training_free(training *t)
{
    tg_optim_free(t->optim);
    tg_tape_free(t->tape);
    tg_release(t->ids);
    tg_params_free(t->params);
}

/* Adds the gradient of a step, whose values are exact in float. Their sizes are from 1e-1 to 1e-11, so that eps is
 * small beside the root of v in the first columns, and large in the last ones. */
static void give_step(training *t, const int32_t *ids, uint64_t *sequence)
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
static void make_step(training *t, int64_t step, bool zipf, uint64_t *sequence)
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

static double learning_rate(int64_t step, double minimum)
{
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.warmup_steps = 50;
    schedule.minimum_lr = minimum;
    schedule.total_steps = TRAINING;
    return tg_schedule_lr(step, &schedule, NULL);
}

static void train(training *t, double minimum_lr, bool zipf)
{
    uint64_t sequence = 1;
    for (int64_t step = 0; step < TRAINING; step++) {
        assert_true(tg_optim_set_lr(t->optim, NULL, learning_rate(step, minimum_lr)));
        make_step(t, step, zipf, &sequence);
    }
    assert_true(tg_optim_flush(t->optim));
}

/* ---- values ---- */

/* Trains one table, and writes its values and its moments. */
static void train_one(tg_dtype dtype, make_optim *make, const void *config, double minimum_lr, bool zipf,
                      double values[3][TABLE_VALUES])
{
    training t = training_make(dtype, TABLE_ROWS, make, config);
    train(&t, minimum_lr, zipf);
    for (int k = 0; k < 3; k++) {
        const tg_tensor *x = k == 0 ? t.table : tg_optim_state_at(t.optim, k - 1).tensor;
        for (int64_t i = 0; i < TABLE_VALUES; i++) {
            values[k][i] = tg_tensor_value_at(x, i);
        }
    }
    training_free(&t);
}

static double distance(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < TABLE_VALUES; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return sqrt(sum / TABLE_VALUES);
}

/* After a training and a flush: in f64 within 1e-11 of the dense optimizer; in f32 at most 1.25 times as far from its
 * f64 values as the dense optimizer in f32 is. */
static void check_values(make_optim *make, const void *dense, const void *deferred, double minimum_lr)
{
    static double exact[3][TABLE_VALUES], f64[3][TABLE_VALUES], plain[3][TABLE_VALUES], f32[3][TABLE_VALUES];
    for (int zipf = 0; zipf < 2; zipf++) {
        train_one(TG_F64, make, dense, minimum_lr, zipf, exact);
        train_one(TG_F64, make, deferred, minimum_lr, zipf, f64);
        train_one(TG_F32, make, dense, minimum_lr, zipf, plain);
        train_one(TG_F32, make, deferred, minimum_lr, zipf, f32);
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < TABLE_VALUES; i++) {
                double allowed = k == 0 ? 1e-11 : 1e-11 * fabs(exact[k][i]) + 1e-300;
                if (!(fabs(f64[k][i] - exact[k][i]) <= allowed)) {
                    fail_msg("ids %d, tensor %d, value %d is %.17g, not %.17g", zipf, k, i, f64[k][i], exact[k][i]);
                }
            }
        }
        double far = distance(f32[0], exact[0]), allowed = 1.25 * distance(plain[0], exact[0]);
        if (!(far <= allowed)) {
            fail_msg("ids %d: f32 is %g from the values in f64, allowed are %g", zipf, far, allowed);
        }
    }
}

static void check_adamw(double beta1, double beta2, double eps, double weight_decay, double minimum_lr)
{
    tg_adamw_config dense = adamw_config(1e-3, beta1, beta2, eps, weight_decay, false), deferred = dense;
    deferred.deferred = true;
    check_values(make_adamw, &dense, &deferred, minimum_lr);
}

static void test_adamw_is_dense_adamw(void **state)
{
    (void)state;
    check_adamw(0.9, 0.999, 1e-8, 0.1, 1e-5);
    check_adamw(0.9, 0.95, 1e-8, 0.1, 1e-5);
}

static void test_extreme_options(void **state)
{
    (void)state;
    /* A row misses more steps than the window has. While lr * weight_decay is above 1/2, no step is deferred. */
    check_adamw(0.5, 0.9, 1e-6, 1000, 1e-5);
    /* The product of the decay factors falls below the smallest double. */
    check_adamw(0.9, 0.999, 1e-8, 480, 1e-3);
    /* The sums fit neither into a float nor into a double. */
    check_adamw(1e-3, 1e-5, 1e-6, 0.1, 1e-5);
    check_adamw(0, 0.999, 1e-3, 0, 1e-5);
}

static void test_adam_is_dense_adam(void **state)
{
    (void)state;
    tg_adam_config dense = adam_config(1e-3, 0.9, 0.999, 1e-8, 0, false), deferred = dense;
    deferred.deferred = true;
    check_values(make_adam, &dense, &deferred, 1e-5);
}

/* ---- what can happen during a training ---- */

static tg_adamw_config deferred_adamw(void)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.weight_decay = 0.1;
    config.deferred = true;
    return config;
}

static void assert_near(const tg_tensor *x, const tg_tensor *y)
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
static void assert_equal_trainings(training *d, training *dense)
{
    assert_true(tg_optim_flush(d->optim));
    assert_near(d->table, dense->table);
    for (int k = 0; k < 2; k++) {
        assert_near(tg_optim_state_at(d->optim, k).tensor, tg_optim_state_at(dense->optim, k).tensor);
    }
}

typedef void event(training *t);

/* Trains 60 steps with the event after 30, dense and deferred, and compares. */
static void check_event(make_optim *make, const void *dense, const void *deferred, event *happens)
{
    const void *configs[] = {dense, deferred};
    training t[2];
    for (int k = 0; k < 2; k++) {
        uint64_t sequence = 7;
        t[k] = training_make(TG_F64, 40, make, configs[k]);
        for (int64_t step = 0; step < 60; step++) {
            if (step == 30) {
                happens(&t[k]);
            }
            make_step(&t[k], step, true, &sequence);
        }
    }
    assert_equal_trainings(&t[1], &t[0]);
    training_free(&t[0]);
    training_free(&t[1]);
}

static void dense_step(training *t)
{
    tg_optim_zero_grad(t->optim);
    int32_t ids[LOOKUPS] = {3, 3, 9, 39, 0};
    uint64_t sequence = 5;
    give_step(t, ids, &sequence);
    assert_true(tg_tensor_make_grad_dense(t->table, NULL));
    assert_true(tg_optim_step(t->optim));
    assert_non_null(tg_tensor_data(t->table));
}

static void freeze(training *t)
{
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_tensor_set_rows_frozen(t->table, 5, 20, true, NULL));
}

static void freeze_and_unfreeze(training *t)
{
    uint64_t sequence = 11;
    freeze(t);
    for (int64_t step = 0; step < 20; step++) {
        make_step(t, step, false, &sequence);
    }
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_tensor_set_rows_frozen(t->table, 5, 20, false, NULL));
}

static void grow(training *t)
{
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_tensor_resize_rows(t->table, 90, NULL));
}

static void shrink(training *t)
{
    assert_true(tg_optim_flush(t->optim));
    tg_optim_zero_grad(t->optim);
    assert_true(tg_tensor_resize_rows(t->table, 10, NULL));
}

static void change_steps(training *t)
{
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_optim_set_steps(t->optim, "tok_emb.weight", 3));
}

static void change_options(training *t)
{
    assert_true(tg_optim_add_to_group(t->optim, "tables", "*"));
    assert_true(tg_optim_set_lr(t->optim, "tables", 0.02));
    assert_true(tg_optim_set_weight_decay(t->optim, "tables", 0.3));
}

static void limit_norms(training *t)
{
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = 0.5;
    assert_non_null(tg_embedding(t->tape, t->ids, t->table, &config));
}

static void step_without_rows(training *t)
{
    tg_optim_zero_grad(t->optim);
    assert_true(tg_tensor_add_grad_rows(t->table, NULL, NULL, 0, NULL));
    assert_true(tg_optim_step(t->optim));
    tg_optim_zero_grad(t->optim);
    assert_true(tg_optim_step(t->optim));
}

static void test_events(void **state)
{
    (void)state;
    event *const events[] = {dense_step,     freeze,      freeze_and_unfreeze, change_steps,
                             change_options, limit_norms, step_without_rows};
    tg_adamw_config deferred = deferred_adamw(), dense = deferred;
    dense.deferred = false;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        check_event(make_adamw, &dense, &deferred, events[i]);
    }
}

/* With Adam's weight decay, which is a part of the gradient, every step moves all rows. */
static void test_weight_decay_of_adam(void **state)
{
    (void)state;
    tg_adam_config deferred = tg_adam_config_default(), dense = deferred;
    deferred.deferred = true;
    check_event(make_adam, &dense, &deferred, change_options);
}

/* The gradient of a resized table is dropped, so the two trainings differ from those of check_event. */
static void test_resize(void **state)
{
    (void)state;
    tg_adamw_config deferred = deferred_adamw(), dense = deferred;
    dense.deferred = false;
    event *const events[] = {grow, shrink};
    for (int i = 0; i < 2; i++) {
        const void *configs[] = {&dense, &deferred};
        training t[2];
        for (int k = 0; k < 2; k++) {
            uint64_t sequence = 7;
            t[k] = training_make(TG_F64, 40, make_adamw, configs[k]);
            for (int64_t step = 0; step < 30; step++) {
                make_step(&t[k], step, true, &sequence);
            }
            tg_optim_zero_grad(t[k].optim);
            tg_tape_reset(t[k].tape);
            events[i](&t[k]);
            for (int64_t step = 0; step < 30; step++) {
                make_step(&t[k], step, true, &sequence);
            }
        }
        assert_equal_trainings(&t[1], &t[0]);
        training_free(&t[0]);
        training_free(&t[1]);
    }
}

/* ---- lookups ---- */

/* A recorded lookup reads the dense optimizer's values, of repeated ids, and of more rows than are made up at once; the
 * backward of a bag with weights reads the table again, after another lookup. */
static void test_lookups(void **state)
{
    (void)state;
    tg_adamw_config deferred = deferred_adamw(), dense = deferred;
    dense.deferred = false;
    const void *configs[] = {&dense, &deferred};
    const int64_t rows = 3000;
    training t[2];
    tg_tensor *values[2], *bags[2], *gradients[2];
    tg_tensor *all = tg_tensor_new_arange(TG_I32, 0, (double)rows, 1, NULL);
    const int32_t few[] = {2999, 4, 2999, 17};
    const double weights[] = {1, -2, 0.5, 3};
    tg_tensor *bag = tensor_i32(TG_SHAPE(2, 2), few), *weight = leaf(tensor_f64(TG_SHAPE(2, 2), weights));
    for (int k = 0; k < 2; k++) {
        uint64_t sequence = 3;
        t[k] = training_make(TG_F64, rows, make_adamw, configs[k]);
        for (int64_t step = 0; step < 12; step++) {
            make_step(&t[k], step, false, &sequence);
        }
        tg_tape_reset(t[k].tape);
        tg_optim_zero_grad(t[k].optim);
        tg_tensor_zero_grad(weight);
        tg_embedding_bag_config config = tg_embedding_bag_config_default();
        config.mode = TG_BAG_SUM;
        config.weights = weight;
        bags[k] = tg_retain(tg_embedding_bag(t[k].tape, bag, t[k].table, &config));
        values[k] = tg_retain(tg_embedding(t[k].tape, all, t[k].table, NULL));
        assert_true(tg_backward(t[k].tape, tg_sum(t[k].tape, bags[k], TG_ALL_AXES, TG_DROP_AXES), NULL));
        gradients[k] = tg_tensor_new_copy(tg_tensor_grad(weight), NULL);
    }
    assert_near(bags[1], bags[0]);
    assert_near(values[1], values[0]);
    assert_near(gradients[1], gradients[0]);
    assert_equal_trainings(&t[1], &t[0]);
    for (int k = 0; k < 2; k++) {
        tg_release(bags[k]);
        tg_release(values[k]);
        tg_release(gradients[k]);
        training_free(&t[k]);
    }
    tg_release(all);
    tg_release(bag);
    tg_release(weight);
}

/* The bits do not depend on the number of threads. */
static void test_threads(void **state)
{
    (void)state;
    int before = tg_threads();
    tg_adamw_config config = deferred_adamw();
    training t[2];
    for (int k = 0; k < 2; k++) {
        uint64_t sequence = 3;
        assert_true(tg_set_threads(1 + 2 * k, NULL));
        t[k] = training_make(TG_F32, 20000, make_adamw, &config);
        for (int64_t step = 0; step < 20; step++) {
            make_step(&t[k], step, false, &sequence);
        }
        assert_true(tg_optim_flush(t[k].optim));
    }
    assert_memory_equal(tg_tensor_data(t[0].table), tg_tensor_data(t[1].table), 20000 * TABLE_WIDTH * sizeof(float));
    training_free(&t[0]);
    training_free(&t[1]);
    assert_true(tg_set_threads(before, NULL));
}

/* ---- reads of a table with missed steps ---- */

/* A training with missed steps, and a view of the table. */
typedef struct reader {
    training t;
    tg_tensor *view, *other;
    tg_error error;
} reader;

static reader reader_make(void)
{
    reader r = {.error = TG_NO_ERROR};
    tg_adamw_config config = deferred_adamw();
    uint64_t sequence = 3;
    r.t = training_make(TG_F32, 40, make_adamw, &config);
    r.view = tg_retain(tg_detach(r.t.tape, r.t.table));
    r.other = tg_tensor_new(TG_F32, TG_SHAPE(40, TABLE_WIDTH), NULL);
    for (int64_t step = 0; step < 3; step++) {
        make_step(&r.t, step, false, &sequence);
    }
    tg_tape_reset(r.t.tape);
    return r;
}

static void reader_free(reader *r)
{
    tg_release(r->view);
    tg_release(r->other);
    training_free(&r->t);
}

#define TABLE (r->t.table)
#define ERROR (&r->error)
#define PATH "test_deferred.safetensors"
#define MOMENT (tg_optim_state_at(r->t.optim, 1).tensor)

/* One call that needs the values of the table; returns whether it succeeded. */
#define READ(name, ...)                \
    static bool read_##name(reader *r) \
    {                                  \
        return __VA_ARGS__;            \
    }

static bool is_made(tg_tensor *made)
{
    tg_release(made);
    return made != NULL;
}

/* Returns whether a call on the tape succeeded, and moves the tape's error to the reader. */
static bool is_computed(reader *r, const tg_tensor *result)
{
    r->error = *tg_tape_error(r->t.tape);
    tg_tape_clear_error(r->t.tape);
    return result != NULL;
}

/* The same for a call of the optimizer. */
static bool is_done(reader *r, bool done)
{
    r->error = *tg_optim_error(r->t.optim);
    tg_optim_clear_error(r->t.optim);
    return done;
}

static bool read_without_recording(reader *r)
{
    tg_tape_set_recording(r->t.tape, false);
    bool done = is_computed(r, tg_embedding(r->t.tape, r->t.ids, TABLE, NULL));
    tg_tape_set_recording(r->t.tape, true);
    return done;
}

static tg_tensor *square(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul(t, inputs[0], inputs[0]);
}

static bool read_gradcheck(reader *r)
{
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.dtype = TG_F32;
    tg_gradcheck(square, NULL, &TABLE, 1, &config, NULL, ERROR);
    return ERROR->code == TG_OK || ERROR->code == TG_ERROR_VALUE;
}

static bool read_print(reader *r)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    bool done = tg_tensor_print(TABLE, file, NULL, ERROR);
    fclose(file);
    return done;
}

/* A step of another optimizer. */
static bool read_step(reader *r)
{
    tg_optim *sgd = tg_sgd_new(r->t.params, NULL);
    bool done = tg_optim_step(sgd);
    r->error = *tg_optim_error(sgd);
    tg_optim_free(sgd);
    return done;
}

READ(copy, is_made(tg_tensor_new_copy(TABLE, ERROR)))
READ(moment, is_made(tg_tensor_new_copy(MOMENT, ERROR)))
READ(view, is_made(tg_tensor_new_copy(r->view, ERROR)))
READ(cast, is_made(tg_tensor_new_cast(TABLE, TG_F64, ERROR)))
READ(copy_from, tg_tensor_copy_from(r->other, TABLE, ERROR))
READ(row_norm, !isnan(tg_tensor_row_norm(TABLE, 1, 2, ERROR)))
READ(row_neighbors, tg_tensor_row_neighbors(TABLE, 1, NULL, NULL, 0, ERROR) >= 0)
READ(freeze, tg_tensor_set_rows_frozen(TABLE, 0, 1, false, ERROR))
READ(save, tg_params_save(r->t.params, PATH, NULL, ERROR))
READ(load, tg_params_load(r->t.params, PATH, NULL, ERROR))
READ(npy, tg_tensor_save_npy(TABLE, PATH ".npy", ERROR))
READ(checkpoint, tg_checkpoint_save(PATH, &(tg_checkpoint_part){.name = "optim", .optim = r->t.optim}, 1, ERROR))
READ(mul, is_computed(r, tg_mul(r->t.tape, TABLE, TABLE)))
READ(embedding_of_view, is_computed(r, tg_embedding(r->t.tape, r->t.ids, r->view, NULL)))
READ(data, is_done(r, tg_tensor_data(TABLE) != NULL))
READ(data_mut, is_done(r, tg_tensor_data_mut(TABLE) != NULL))
READ(value_at, is_done(r, !isnan(tg_tensor_value_at(TABLE, 0))))
READ(set_steps, is_done(r, tg_optim_set_steps(r->t.optim, "tok_emb.weight", 3)))
READ(fill, tg_tensor_fill_from(TABLE, tg_tensor_data(r->other), ERROR))
READ(resize, tg_tensor_resize_rows(TABLE, 39, ERROR))

static void test_reads(void **state)
{
    (void)state;
    const struct {
        const char *call;
        bool (*read)(reader *r);
    } reads[] = {
        {"tensor_new_copy", read_copy},
        {"tensor_new_copy", read_moment},
        {"tensor_new_copy", read_view},
        {"tensor_new_cast", read_cast},
        {"tensor_copy_from", read_copy_from},
        {"tensor_row_norm", read_row_norm},
        {"tensor_row_neighbors", read_row_neighbors},
        {"tensor_set_rows_frozen", read_freeze},
        {"params_save", read_save},
        {"params_load", read_load},
        {"tensor_save_npy", read_npy},
        {"checkpoint_save", read_checkpoint},
        {"mul", read_mul},
        {"embedding", read_embedding_of_view},
        {"embedding", read_without_recording},
        {"tensor_print", read_print},
        {"optim_step", read_step},
        {"tensor_data", read_data},
        {"tensor_data_mut", read_data_mut},
        {"tensor_value_at", read_value_at},
        {"optim_set_steps", read_set_steps},
        {"gradcheck", read_gradcheck},
        {"tensor_fill_from", read_fill},
        {"tensor_resize_rows", read_resize},
    };
    const int count = sizeof reads / sizeof *reads;
    /* two equal trainings: the calls that fail change nothing */
    reader r = reader_make(), untouched = reader_make();
    /* the file that read_load would read */
    assert_true(tg_optim_flush(untouched.t.optim));
    assert_true(tg_params_save(untouched.t.params, PATH, NULL, NULL));
    for (int i = 0; i < count; i++) {
        char expected[300];
        uint64_t version = tg_storage_version(r.t.table);
        if (reads[i].read(&r)) {
            fail_msg("%s read the table (row %d)", reads[i].call, i);
        }
        bool is_named = strcmp(reads[i].call, "gradcheck") != 0;
        snprintf(expected, sizeof expected, "%s: %s", reads[i].call,
                 is_named ? FLUSH_FIRST : "input 0 has deferred steps; call tg_optim_flush first");
        assert_error(&r.error, TG_ERROR_STATE, expected);
        assert_true(tg_storage_version(r.t.table) == version);
    }
    assert_true(tg_optim_flush(r.t.optim));
    assert_memory_equal(tg_tensor_data(r.t.table), tg_tensor_data(untouched.t.table), 40 * TABLE_WIDTH * sizeof(float));
    for (int i = 0; i < count; i++) {
        tg_optim_zero_grad(r.t.optim);
        tg_tape_reset(r.t.tape);
        if (!reads[i].read(&r) && strcmp(reads[i].call, "tensor_resize_rows") != 0) {
            fail_msg("after the flush: %s", r.error.text);
        }
        tg_error_clear(&r.error);
    }
    reader_free(&r);
    reader_free(&untouched);
    remove(PATH);
    remove(PATH ".npy");
}

/* ---- errors, memory, and the end ---- */

static void test_refused(void **state)
{
    (void)state;
    tg_adamw_config config = deferred_adamw();
    config.amsgrad = true;
    check_refused(make_adamw, &config, "adamw: deferred with amsgrad; allowed is Adam without amsgrad");
    config = deferred_adamw();
    config.eps = 0;
    check_refused(make_adamw, &config, "adamw: deferred with eps 0; allowed are numbers above 0");
    config = deferred_adamw();
    config.beta2 = 0.9 * 0.9;
    check_refused(make_adamw, &config,
                  "adamw: deferred with beta1 0.9 and beta2 0.81; beta1 / sqrt(beta2) must be at most 0.9975");
    config.beta1 = config.beta2 = 0;
    check_refused(make_adamw, &config, "adamw: deferred with beta1 0 and beta2 0; beta1");
    tg_adam_config adam = tg_adam_config_default();
    adam.amsgrad = adam.deferred = true;
    check_refused(make_adam, &adam, "adam: deferred with amsgrad");
    problem p = problem_make(TG_F32);
    assert_true(tg_params_add_alias(p.params, "head.weight", "table.weight") != NULL);
    config = deferred_adamw();
    assert_null(tg_adamw_new(p.params, &config));
    assert_params_error(p.params, TG_ERROR_STATE,
                        "adamw: deferred, but 'head.weight' is tied to another name; a tied table is read as a whole");
    tg_params_free(p.params);
}

static void test_flush_without_deferred_steps(void **state)
{
    (void)state;
    assert_false(tg_optim_flush(NULL));
    tg_adamw_config config = deferred_adamw();
    training plain = training_make(TG_F32, 40, make_adamw, NULL), t = training_make(TG_F32, 40, make_adamw, &config);
    uint64_t sequence = 3;
    make_step(&plain, 0, false, &sequence);
    assert_true(tg_optim_flush(plain.optim));
    assert_true(tg_optim_flush(t.optim));
    make_step(&t, 0, false, &sequence);
    assert_null(tg_tensor_data(t.table));
    assert_false(tg_optim_flush(t.optim));
    assert_optim_error(t.optim, TG_ERROR_STATE, "tensor_data: " FLUSH_FIRST);
    assert_true(tg_optim_flush(t.optim));
    assert_true(tg_optim_flush(t.optim));
    training_free(&plain);
    training_free(&t);
}

/* A table without columns has no steps to defer. */
static void test_empty_table(void **state)
{
    (void)state;
    tg_adamw_config config = deferred_adamw();
    tg_params *params = tg_params_new(TG_F32, NULL);
    tg_tensor *table = tg_params_add(params, "w", TG_SHAPE(4, 0));
    tg_optim *optim = tg_adamw_new(params, &config);
    assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){2}, (float[]){0}, 1, NULL));
    assert_true(tg_optim_step(optim));
    assert_non_null(tg_tensor_data(table));
    tg_optim_free(optim);
    tg_params_free(params);
}

/* tg_optim_free flushes. */
static void test_freeing(void **state)
{
    (void)state;
    tg_adamw_config config = deferred_adamw();
    training t[2];
    for (int k = 0; k < 2; k++) {
        uint64_t sequence = 3;
        t[k] = training_make(TG_F64, 40, make_adamw, &config);
        for (int64_t step = 0; step < 3; step++) {
            make_step(&t[k], step, false, &sequence);
        }
    }
    assert_true(tg_optim_flush(t[0].optim));
    tg_optim_free(t[1].optim);
    t[1].optim = NULL;
    assert_memory_equal(tg_tensor_data(t[0].table), tg_tensor_data(t[1].table), 40 * TABLE_WIDTH * sizeof(double));
    training_free(&t[0]);
    training_free(&t[1]);
}

static void test_memory(void **state)
{
    (void)state;
    tg_adamw_config config = deferred_adamw();
    counting_allocator counting;
    allocator_install(&counting);
    uint64_t sequence = 3;
    training t = training_make(TG_F32, 400, make_adamw, &config);
    for (int64_t step = 0; step < 20; step++) {
        make_step(&t, step, false, &sequence);
        if (step == 5) {
            allocator_arm(&counting, 0, false);
        }
    }
    assert_true(tg_optim_flush(t.optim));
    assert_int_equal(counting.calls, 0);

    /* each allocation of a constructor fails, and nothing of it remains */
    size_t live = counting.live;
    tg_optim *second = NULL;
    for (size_t k = 1; !second; k++) {
        allocator_arm(&counting, k, false);
        second = tg_adamw_new(t.params, &config);
        assert_true(second || counting.live == live);
        assert_true(second || tg_params_error(t.params)->code == TG_ERROR_MEMORY);
        tg_params_clear_error(t.params);
    }
    assert_true(counting.calls > 6);
    allocator_arm(&counting, 0, false);
    tg_optim_free(second);
    assert_int_equal(counting.live, live);

    /* and each of a step after a resize; then the step succeeds */
    tg_optim_zero_grad(t.optim);
    tg_tape_reset(t.tape);
    assert_true(tg_tensor_resize_rows(t.table, 700, NULL));
    int32_t ids[LOOKUPS] = {699, 3, 3, 0, 1};
    give_step(&t, ids, &sequence);
    bool done = false;
    for (size_t k = 1; !done; k++) {
        allocator_arm(&counting, k, false);
        done = tg_optim_step(t.optim);
        assert_true(done || tg_optim_error(t.optim)->code == TG_ERROR_MEMORY);
        assert_int_equal(tg_optim_steps(t.optim, "tok_emb.weight"), 20 + done);
        tg_optim_clear_error(t.optim);
    }
    allocator_arm(&counting, 0, false);
    training_free(&t);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_is_dense_adamw),
        cmocka_unit_test(test_extreme_options),
        cmocka_unit_test(test_adam_is_dense_adam),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_weight_decay_of_adam),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_flush_without_deferred_steps),
        cmocka_unit_test(test_empty_table),
        cmocka_unit_test(test_freeing),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
