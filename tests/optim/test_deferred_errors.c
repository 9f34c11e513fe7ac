/* Errors of deferred steps. A table with missed steps can be read by a recorded lookup alone: every other call reports
 * it, and changes nothing. Constructors refuse what cannot be deferred. */
#include "deferred.h"

/* A training with missed steps, and a view of the table. */
typedef struct reader {
    training t;
    tg_tensor *view, *other;
    tg_error error;
} reader;

static reader reader_make(const deferred_method *m)
{
    reader r = {.error = TG_NO_ERROR};
    uint64_t sequence = 3;
    r.t = training_make(TG_F32, 40, m->make, &m->deferred);
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
#define PATH "test_deferred_errors.safetensors"
#define MOMENT (tg_optim_state_at(r->t.optim, 0).tensor)

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
    clear_tape_error(r->t.tape);
    return result != NULL;
}

/* The same for a call of the optimizer. */
static bool is_done(reader *r, bool done)
{
    r->error = *optim_error(r->t.optim);
    clear_optim_error(r->t.optim);
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
    r->error = *optim_error(sgd);
    clear_optim_error(sgd);
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
READ(neighbors, tg_tensor_neighbors(TABLE, TABLE, TG_SIMILARITY_DOT, NULL, 0, (tg_row_neighbor[1]){{0, 0}}, ERROR))
READ(freeze, tg_tensor_set_rows_frozen(TABLE, 0, 1, false, ERROR))
READ(save, tg_params_save(r->t.params, PATH, NULL, ERROR))
READ(load, tg_params_load(r->t.params, PATH, NULL, ERROR))
READ(npy, tg_tensor_save_npy(TABLE, PATH ".npy", ERROR))
READ(checkpoint, tg_checkpoint_save(PATH, (tg_checkpoint_part[]){tg_checkpoint_optim("optim", r->t.optim)}, 1, ERROR))
READ(mul, is_computed(r, tg_mul(r->t.tape, TABLE, TABLE)))
READ(embedding_of_view, is_computed(r, tg_embedding(r->t.tape, r->t.ids, r->view, NULL)))
READ(data, is_done(r, tg_tensor_data(TABLE) != NULL))
READ(data_mut, is_done(r, tg_tensor_data_mut(TABLE) != NULL))
READ(value_at, is_done(r, !isnan(tg_tensor_value_at(TABLE, 0))))
READ(set_steps, is_done(r, tg_optim_set_steps(r->t.optim, "tok_emb.weight", 3)))
READ(fill, tg_tensor_fill_from(TABLE, tg_tensor_data(r->other), ERROR))
READ(resize, tg_tensor_resize_rows(TABLE, 39, ERROR))

static void check_reads(const deferred_method *m)
{
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
        {"tensor_neighbors", read_neighbors},
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
    reader r = reader_make(m), untouched = reader_make(m);
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

static void test_reads(void **state)
{
    (void)state;
    const deferred_method adamw = deferred_adamw(0.9, 0.999, 1e-8, 0.1), sgd = deferred_sgd(0.05, 0.9, 0, 0.1, false);
    check_reads(&adamw);
    check_reads(&sgd);
}

static void check_flush(const deferred_method *m)
{
    training plain = training_make(TG_F32, 40, m->make, &m->dense),
             t = training_make(TG_F32, 40, m->make, &m->deferred);
    uint64_t sequence = 3;
    make_step(&plain, 0, false, &sequence);
    assert_true(tg_optim_flush(plain.optim));
    assert_true(tg_optim_flush(t.optim));
    make_step(&t, 0, false, &sequence);
    /* the error of a read stops the optimizer until the flush that it names */
    assert_null(tg_tensor_data(t.table));
    assert_string_equal(optim_error(t.optim)->text, "tensor_data: " FLUSH_FIRST);
    assert_false(tg_optim_step(t.optim));
    assert_true(tg_optim_flush(t.optim));
    assert_int_equal(optim_error(t.optim)->code, TG_OK);
    assert_true(tg_optim_flush(t.optim));
    assert_non_null(tg_tensor_data(t.table));
    /* another error stays */
    make_step(&t, 0, false, &sequence);
    assert_false(tg_optim_set_lr(t.optim, "no such group", 1));
    assert_null(tg_tensor_data(t.table));
    assert_false(tg_optim_flush(t.optim));
    assert_optim_error(t.optim, TG_ERROR_RANGE, "optim_set_lr: no group 'no such group' exists");
    assert_true(tg_optim_flush(t.optim));
    assert_non_null(tg_tensor_data(t.table));
    training_free(&plain);
    training_free(&t);
}

static void test_flush(void **state)
{
    (void)state;
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    assert_false(tg_optim_flush(NULL));
    for (int i = 0; i < DEFERRED_METHODS; i++) {
        check_flush(&methods[i]);
    }
}

/* A second optimizer of the same table cannot step until the first one is flushed; its own flush does not help. */
static void test_two_optimizers(void **state)
{
    (void)state;
    deferred_method m = deferred_adamw(0.9, 0.999, 1e-8, 0.1);
    training t = training_make(TG_F32, 40, m.make, &m.deferred);
    tg_optim *second = tg_sgd_new(t.params, NULL);
    uint64_t sequence = 3;
    make_step(&t, 0, false, &sequence);
    assert_false(tg_optim_step(second));
    assert_string_equal(optim_error(second)->text, "optim_step: " FLUSH_FIRST);
    assert_false(tg_optim_flush(second));
    /* a step has failed: the flush makes up the steps, and the error stays */
    assert_false(tg_optim_flush(t.optim));
    assert_false(tg_optim_step(second));
    clear_optim_error(second);
    assert_true(tg_optim_step(second));
    tg_optim_free(second);
    training_free(&t);
}

/* SGD without momentum and weight decay moves no row without a gradient, so no step is deferred. */
static void test_nothing_to_defer(void **state)
{
    (void)state;
    deferred_method m = deferred_sgd(0.1, 0, 0, 0, false);
    training t = training_make(TG_F32, 40, m.make, &m.deferred);
    uint64_t sequence = 3;
    make_step(&t, 0, false, &sequence);
    assert_non_null(tg_tensor_data(t.table));
    training_free(&t);
}

/* ---- constructors ---- */

static void refuse_adamw(bool amsgrad, double beta1, double beta2, double eps, const char *part)
{
    tg_adamw_config config = adamw_config(1e-3, beta1, beta2, eps, 0.1, amsgrad);
    config.deferred = true;
    check_refused(make_adamw, &config, part);
}

static void test_refused_options(void **state)
{
    (void)state;
    refuse_adamw(true, 0.9, 0.999, 1e-8, "adamw: deferred with amsgrad; amsgrad must be false");
    refuse_adamw(false, 0.9, 0.999, 0, "adamw: deferred with eps 0; eps must be above 0");
    refuse_adamw(false, 0.9, 0.9 * 0.9, 1e-8,
                 "adamw: deferred with beta1 0.9 and beta2 0.81; beta1 / sqrt(beta2) must be at most 0.9975");
    refuse_adamw(false, 0, 0, 1e-8, "adamw: deferred with beta1 0 and beta2 0; beta1");
    tg_adam_config adam = tg_adam_config_default();
    adam.amsgrad = adam.deferred = true;
    check_refused(make_adam, &adam, "adam: deferred with amsgrad");
    deferred_method sgd = deferred_sgd(0.1, 1, 0, 0, false);
    check_refused(make_sgd, &sgd.deferred, "sgd: deferred with momentum 1; it must be below 1");
}

static void test_refused_alias(void **state)
{
    (void)state;
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    for (int i = 0; i < DEFERRED_METHODS; i++) {
        char expected[200];
        problem p = problem_make(TG_F32);
        assert_non_null(tg_params_add_alias(p.params, "head.weight", "table.weight"));
        assert_null(methods[i].make(p.params, &methods[i].deferred));
        snprintf(expected, sizeof expected,
                 "%s: deferred, but 'head.weight' is tied to another name; a tied table is read as a whole",
                 methods[i].name);
        assert_params_error(p.params, TG_ERROR_STATE, expected);
        tg_params_free(p.params);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),           cmocka_unit_test(test_flush),
        cmocka_unit_test(test_two_optimizers),  cmocka_unit_test(test_nothing_to_defer),
        cmocka_unit_test(test_refused_options), cmocka_unit_test(test_refused_alias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
