/* Deferred steps: whatever happens during a training, the values are those of the dense optimizer, and a step allocates
 * nothing. */
#include "deferred.h"

#define PATH "test_deferred.safetensors"

typedef void event(training *t);

/* Trains 60 steps with the event after 30, dense and deferred, and compares. */
static void check_event(const deferred_method *m, event *happens)
{
    const void *configs[] = {&m->dense, &m->deferred};
    training t[2];
    for (int k = 0; k < 2; k++) {
        uint64_t sequence = 7;
        t[k] = training_make(TG_F64, 40, m->make, configs[k]);
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

/* Resizes the table between two steps, when it has no gradient: a resize drops it. */
static void resize(training *t, int64_t rows)
{
    tg_optim_zero_grad(t->optim);
    tg_tape_reset(t->tape);
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_tensor_resize_rows(t->table, rows, NULL));
}

static void grow(training *t)
{
    resize(t, 90);
}

static void shrink(training *t)
{
    resize(t, 10);
}

static void save_and_load(training *t)
{
    const tg_checkpoint_part parts[] = {tg_checkpoint_params("params", t->params),
                                        tg_checkpoint_optim("optim", t->optim)};
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_checkpoint_save(PATH, parts, 2, NULL));
    uint64_t sequence = 5;
    make_step(t, 1, false, &sequence);
    assert_true(tg_optim_flush(t->optim));
    tg_tape_reset(t->tape);
    assert_true(tg_checkpoint_load(PATH, parts, 2, NULL));
    remove(PATH);
}

static void change_steps(training *t)
{
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_optim_set_steps(t->optim, "tok_emb.weight", 3));
}

/* The first step has factors of its own. */
static void begin_again(training *t)
{
    assert_true(tg_optim_flush(t->optim));
    assert_true(tg_optim_set_steps(t->optim, "tok_emb.weight", 0));
}

static void change_options(training *t)
{
    assert_true(tg_optim_add_to_group(t->optim, "tables", "*"));
    assert_true(tg_optim_set_lr(t->optim, "tables", 0.02));
    assert_true(tg_optim_set_weight_decay(t->optim, "tables", 0.3));
}

static void stop_decay(training *t)
{
    assert_true(tg_optim_set_weight_decay(t->optim, NULL, 0));
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
    event *const events[] = {dense_step,  freeze,         freeze_and_unfreeze, save_and_load, change_steps,
                             begin_again, change_options, stop_decay,          limit_norms,   step_without_rows,
                             grow,        shrink};
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    for (size_t i = 0; i < DEFERRED_METHODS * sizeof events / sizeof *events; i++) {
        check_event(&methods[i % DEFERRED_METHODS], events[i / DEFERRED_METHODS]);
    }
}

/* ---- lookups ---- */

/* A recorded lookup reads the dense optimizer's values, of repeated ids, and of more rows than are made up at once; the
 * backward of a bag with weights reads the table again, after another lookup. */
static void check_lookups(const deferred_method *m)
{
    const void *configs[] = {&m->dense, &m->deferred};
    const int64_t rows = 3000;
    training t[2];
    tg_tensor *values[2], *bags[2], *gradients[2];
    tg_tensor *all = tg_tensor_new_arange(TG_I32, 0, (double)rows, 1, NULL);
    const int32_t few[] = {2999, 4, 2999, 17};
    const double weights[] = {1, -2, 0.5, 3};
    tg_tensor *bag = tensor_i32(TG_SHAPE(2, 2), few), *weight = leaf(tensor_f64(TG_SHAPE(2, 2), weights));
    for (int k = 0; k < 2; k++) {
        uint64_t sequence = 3;
        t[k] = training_make(TG_F64, rows, m->make, configs[k]);
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

static void test_lookups(void **state)
{
    (void)state;
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    for (int i = 0; i < DEFERRED_METHODS; i++) {
        check_lookups(&methods[i]);
    }
}

/* Trains a table in f32, and returns a copy of it. With `resumes` another training continues halfway, from a file. */
static tg_tensor *train_copy(const deferred_method *m, int threads, bool resumes)
{
    uint64_t sequence = 3;
    assert_true(tg_set_threads(threads, NULL));
    training t = training_make(TG_F32, 20000, m->make, &m->deferred);
    for (int64_t step = 0; step < 20; step++) {
        if (step == 10) {
            assert_true(tg_optim_flush(t.optim));
        }
        if (step == 10 && resumes) {
            const tg_checkpoint_part parts[] = {tg_checkpoint_params("params", t.params),
                                                tg_checkpoint_optim("optim", t.optim)};
            assert_true(tg_checkpoint_save(PATH, parts, 2, NULL));
            training_free(&t);
            t = training_make(TG_F32, 20000, m->make, &m->deferred);
            const tg_checkpoint_part again[] = {tg_checkpoint_params("params", t.params),
                                                tg_checkpoint_optim("optim", t.optim)};
            assert_true(tg_checkpoint_load(PATH, again, 2, NULL));
            remove(PATH);
        }
        make_step(&t, step, false, &sequence);
    }
    assert_true(tg_optim_flush(t.optim));
    tg_tensor *copy = tg_tensor_new_copy(t.table, NULL);
    training_free(&t);
    return copy;
}

/* The bits depend neither on the number of threads, nor on the level of the processor, nor on a pause after a flush. */
static void test_threads_and_levels(void **state)
{
    (void)state;
    int threads = tg_threads();
    tg_cpu_level before = tg_get_cpu_level();
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    for (int i = 0; i < DEFERRED_METHODS; i++) {
        assert_true(tg_set_cpu_level(TG_CPU_BASELINE, NULL));
        tg_tensor *expected = train_copy(&methods[i], 1, false);
        for (int level = TG_CPU_BASELINE; level <= TG_CPU_AVX512; level++) {
            if (tg_set_cpu_level((tg_cpu_level)level, NULL)) {
                tg_tensor *copy = train_copy(&methods[i], 3, level == TG_CPU_BASELINE);
                assert_memory_equal(tg_tensor_data(copy), tg_tensor_data(expected),
                                    20000 * TABLE_WIDTH * sizeof(float));
                tg_release(copy);
            }
        }
        tg_release(expected);
    }
    assert_true(tg_set_cpu_level(before, NULL));
    assert_true(tg_set_threads(threads, NULL));
}

/* ---- memory, and the end ---- */

/* Without weight decay the momentum of a row does not read its value, as in the dense optimizer. */
static void test_infinite_value(void **state)
{
    (void)state;
    deferred_method m = deferred_sgd(0.1, 0.9, 0, 0, false);
    training t = training_make(TG_F32, 40, m.make, &m.deferred);
    set_value(t.table, 39 * TABLE_WIDTH, (double)INFINITY);
    give_step(&t, (int32_t[]){0, 1, 2, 3, 4}, &(uint64_t){3});
    assert_true(tg_optim_step(t.optim));
    assert_true(tg_optim_flush(t.optim));
    assert_true(tg_tensor_value_at(t.table, 39 * TABLE_WIDTH) == (double)INFINITY);
    assert_true(tg_tensor_value_at(tg_optim_state_at(t.optim, 0).tensor, 39 * TABLE_WIDTH) == 0);
    training_free(&t);
}

/* A table without columns has no steps to defer. */
static void test_empty_table(void **state)
{
    (void)state;
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    for (int i = 0; i < DEFERRED_METHODS; i++) {
        tg_params *params = tg_params_new(NULL, TG_F32);
        tg_tensor *table = tg_params_add(params, "w", TG_SHAPE(4, 0));
        tg_optim *optim = methods[i].make(params, &methods[i].deferred);
        assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){2}, (float[]){0}, 1, NULL));
        assert_true(tg_optim_step(optim));
        assert_non_null(tg_tensor_data(table));
        tg_optim_free(optim);
        tg_params_free(params);
    }
}

enum { WIDE = 300, WIDE_ROWS = 1100, WIDE_STEPS = 2200 };

/* Trains two rows of a table for more steps than its log holds: the first in every tenth step. */
static tg_tensor *train_wide(const deferred_method *m, const void *config, int64_t rows)
{
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *table = tg_params_add(params, "w", TG_SHAPE(rows, WIDE));
    for (int64_t i = 0; i < tg_tensor_count(table); i++) {
        set_value(table, i, (double)(i % 17) / 8 - 1);
    }
    tg_optim *optim = m->make(params, config);
    uint64_t sequence = 3;
    for (int step = 0; step < WIDE_STEPS; step++) {
        double gradient[WIDE];
        for (int i = 0; i < WIDE; i++) {
            gradient[i] = draw(&sequence) - 0.5;
        }
        int32_t row = step % 10 == 0 ? 0 : 1;
        tg_optim_zero_grad(optim);
        assert_true(tg_tensor_add_grad_rows(table, &row, gradient, 1, NULL));
        assert_true(tg_optim_step(optim));
    }
    assert_true(tg_optim_flush(optim));
    tg_retain(table);
    tg_optim_free(optim);
    tg_params_free(params);
    return table;
}

/* One wide row has its turn in a step. The rows of a dense table do not depend on how many it has. */
static void test_wide_rows(void **state)
{
    (void)state;
    const deferred_method methods[] = {deferred_adamw(0.9, 0.999, 1e-8, 0.1), deferred_sgd(0.1, 0.9, 0, 0.01, false)};
    for (int i = 0; i < 2; i++) {
        tg_tensor *expected = train_wide(&methods[i], &methods[i].dense, 17);
        tg_tensor *table = train_wide(&methods[i], &methods[i].deferred, WIDE_ROWS);
        for (int64_t row = 0; row < WIDE_ROWS; row++) {
            /* rows without a gradient begin alike if their numbers differ by 17 */
            int64_t same = row < 2 ? row : row % 17 < 2 ? -1 : row % 17;
            for (int64_t column = 0; same >= 0 && column < WIDE; column++) {
                double is = tg_tensor_value_at(table, row * WIDE + column);
                assert_true(fabs(is - tg_tensor_value_at(expected, same * WIDE + column)) <= 1e-11);
            }
        }
        tg_release(expected);
        tg_release(table);
    }
}

/* tg_optim_free flushes. */
static void test_freeing(void **state)
{
    (void)state;
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    for (int i = 0; i < DEFERRED_METHODS; i++) {
        training t[2];
        for (int k = 0; k < 2; k++) {
            uint64_t sequence = 3;
            t[k] = training_make(TG_F64, 40, methods[i].make, &methods[i].deferred);
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
}

static void check_memory(const deferred_method *m)
{
    counting_allocator counting;
    allocator_install(&counting);
    uint64_t sequence = 3;
    training t = training_make(TG_F32, 400, m->make, &m->deferred);
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
        second = m->make(t.params, &m->deferred);
        assert_true(second || counting.live == live);
        assert_true(second || tg_params_error(t.params)->code == TG_ERROR_MEMORY);
        clear_params_error(t.params);
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
        assert_true(done || optim_error(t.optim)->code == TG_ERROR_MEMORY);
        assert_int_equal(tg_optim_steps(t.optim, "tok_emb.weight"), 20 + done);
        clear_optim_error(t.optim);
    }
    allocator_arm(&counting, 0, false);
    training_free(&t);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

static void test_memory(void **state)
{
    (void)state;
    deferred_method methods[DEFERRED_METHODS];
    list_deferred_methods(methods);
    for (int i = 0; i < DEFERRED_METHODS; i++) {
        check_memory(&methods[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_threads_and_levels),
        cmocka_unit_test(test_infinite_value),
        cmocka_unit_test(test_empty_table),
        cmocka_unit_test(test_wide_rows),
        cmocka_unit_test(test_freeing),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
