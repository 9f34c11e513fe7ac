/* What a step does to frozen, watched and resized rows, for every method: dense and by rows. */
#include "problem.h"

typedef struct method {
    const char *name;
    make_optim *make;
} method;

/* Options under which a row moves although its gradient is zero: decay, momentum. */
static tg_optim *sgd(tg_params *params, const void *config)
{
    (void)config;
    return tg_sgd_new(params, &(tg_sgd_config){.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
}

static tg_optim *plain_sgd(tg_params *params, const void *config)
{
    (void)config;
    return tg_sgd_new(params, &(tg_sgd_config){.lr = 0.1});
}

static tg_optim *adam(tg_params *params, const void *config)
{
    (void)config;
    return tg_adam_new(params, &(tg_adam_config){0.1, 0.9, 0.99, 1e-8, 0.1, true});
}

static tg_optim *adamw(tg_params *params, const void *config)
{
    (void)config;
    return tg_adamw_new(params, &(tg_adamw_config){0.1, 0.9, 0.99, 1e-8, 0.1, false});
}

static tg_optim *sparse_adam(tg_params *params, const void *config)
{
    return tg_sparse_adam_new(params, config);
}

static tg_optim *adagrad(tg_params *params, const void *config)
{
    (void)config;
    return tg_adagrad_new(params, &(tg_adagrad_config){0.1, 0, 0.1, 0.5, 1e-10});
}

static tg_optim *rmsprop(tg_params *params, const void *config)
{
    (void)config;
    return tg_rmsprop_new(params, &(tg_rmsprop_config){0.1, 0.9, 1e-8, 0.1, 0.5, false});
}

static tg_optim *lion(tg_params *params, const void *config)
{
    (void)config;
    return tg_lion_new(params, &(tg_lion_config){0.1, 0.9, 0.9, 0.1});
}

static const method methods[] = {
    {"sgd", sgd},         {"plain sgd", plain_sgd}, {"adam", adam}, {"adamw", adamw}, {"sparse_adam", sparse_adam},
    {"adagrad", adagrad}, {"rmsprop", rmsprop},     {"lion", lion}};
#define METHODS (int)(sizeof methods / sizeof *methods)

typedef struct run {
    problem p;
    tg_optim *optim;
} run;

static run begin(const method *m, tg_dtype dtype)
{
    run r = {.p = problem_make(dtype)};
    r.optim = m->make(r.p.params, NULL);
    assert_non_null(r.optim);
    return r;
}

static void end(run *r)
{
    tg_optim_free(r->optim);
    tg_params_free(r->p.params);
}

static void step(run *r, int number, bool by_rows)
{
    tg_optim_zero_grad(r->optim);
    give_gradients(&r->p, number, by_rows);
    tg_gradient_drop_frozen(r->p.table); /* what backward does */
    assert_true(tg_optim_step(r->optim));
}

/* The rows of x in [first,last) have the same bits in y. */
static bool same_rows(const tg_tensor *x, const tg_tensor *y, int64_t first, int64_t last)
{
    size_t row = WIDTH * tg_dtype_size(tg_dtype_of(x));
    return memcmp((const char *)tg_data(x) + (size_t)first * row, (const char *)tg_data(y) + (size_t)first * row,
                  (size_t)(last - first) * row) == 0;
}

/* Frozen after some steps, so that there is momentum to move it: nothing of it changes, and the other rows, and all
 * buffers of theirs, take the same steps as without. */
static void test_frozen_rows_rest(void **state)
{
    (void)state;
    for (int m = 0; m < METHODS; m++) {
        for (int variant = 0; variant < 4; variant++) {
            tg_dtype dtype = variant % 2 ? TG_F32 : TG_F64;
            run free_run = begin(&methods[m], dtype), frozen = begin(&methods[m], dtype);
            for (int i = 0; i < 5; i++) {
                step(&free_run, i, variant / 2);
                step(&frozen, i, variant / 2);
            }
            assert_true(tg_set_rows_frozen(frozen.p.table, 1, 2, true, NULL));
            assert_true(tg_set_rows_frozen(frozen.p.table, ROWS - 1, 1, true, NULL));
            tg_tensor *before = tg_tensor_new_copy(frozen.p.table, NULL);
            tg_optim_state buffer = tg_optim_state_at(frozen.optim, 0);
            tg_tensor *buffer_before = buffer.tensor ? tg_tensor_new_copy(buffer.tensor, NULL) : NULL;
            for (int i = 5; i < 20; i++) {
                step(&free_run, i, variant / 2);
                step(&frozen, i, variant / 2);
            }
            const int64_t rests[][2] = {{1, 3}, {ROWS - 1, ROWS}}, moves[][2] = {{0, 1}, {3, ROWS - 1}};
            for (int k = 0; k < 2; k++) {
                if (!same_rows(frozen.p.table, before, rests[k][0], rests[k][1]) ||
                    (buffer.tensor && !same_rows(buffer.tensor, buffer_before, rests[k][0], rests[k][1]))) {
                    fail_msg("%s, variant %d: a frozen row moved", methods[m].name, variant);
                }
                if (!same_rows(frozen.p.table, free_run.p.table, moves[k][0], moves[k][1])) {
                    fail_msg("%s, variant %d: a free row took another step", methods[m].name, variant);
                }
            }
            assert_false(same_rows(free_run.p.table, before, 1, 3)); /* it would have moved */
            assert_int_equal(tg_optim_steps(frozen.optim, "table.weight"), 20);
            tg_release(before);
            tg_release(buffer_before);
            end(&free_run);
            end(&frozen);
        }
    }
}

/* After a resize the old rows, and their buffers, go on as if nothing had been; a new row begins as in a new table,
 * but for the number of the step. */
static void test_optimizers_follow_a_resize(void **state)
{
    (void)state;
    for (int m = 0; m < METHODS; m++) {
        for (int variant = 0; variant < 4; variant++) {
            tg_dtype dtype = variant % 2 ? TG_F32 : TG_F64;
            run same = begin(&methods[m], dtype), larger = begin(&methods[m], dtype);
            for (int i = 0; i < 5; i++) {
                step(&same, i, variant / 2);
                step(&larger, i, variant / 2);
            }
            tg_zero_grad(larger.p.table);
            tg_tensor *handle = larger.p.table, *buffer = tg_optim_state_at(larger.optim, 0).tensor;
            assert_true(tg_resize_rows(larger.p.table, ROWS + 3, NULL));
            for (int i = 5; i < 20; i++) {
                step(&same, i, variant / 2);
                step(&larger, i, variant / 2);
            }
            assert_ptr_equal(handle, tg_params_find(larger.p.params, "table.weight"));
            assert_true(same_rows(same.p.table, larger.p.table, 0, ROWS));
            assert_values(larger.p.bias,
                          (double[]){value_of(&same.p, ROWS * WIDTH), value_of(&same.p, ROWS * WIDTH + 1),
                                     value_of(&same.p, ROWS * WIDTH + 2), value_of(&same.p, ROWS * WIDTH + 3),
                                     value_of(&same.p, ROWS * WIDTH + 4)},
                          WIDTH, 0, 0);
            for (int i = ROWS * WIDTH; i < (ROWS + 3) * WIDTH; i++) { /* zeros that no gradient reached */
                assert_true(tg_value_at(larger.p.table, i) == 0);
            }
            if (buffer) {
                assert_ptr_equal(tg_optim_state_at(larger.optim, 0).tensor, buffer);
                assert_int_equal(tg_size(buffer, 0), ROWS + 3);
                bool begins_at_half = strcmp(methods[m].name, "adagrad") == 0;
                assert_true(tg_value_at(buffer, (ROWS + 2) * WIDTH) == (begins_at_half ? 0.5 : 0));
            }
            end(&same);
            end(&larger);
        }
    }
}

/* Rows that went and came again are new ones: they do not inherit. */
static void test_fewer_rows_and_more(void **state)
{
    (void)state;
    for (int m = 0; m < METHODS; m++) {
        run r = begin(&methods[m], TG_F64);
        for (int i = 0; i < 5; i++) {
            step(&r, i, true);
        }
        tg_zero_grad(r.p.table);
        tg_error error = TG_NO_ERROR;
        const int64_t sizes[] = {9, 3, 7, 5, ROWS}; /* 3 is what all of them had */
        for (int i = 0; i < 5; i++) {
            assert_true(tg_resize_rows(r.p.table, sizes[i], &error));
        }
        give_gradients(&r.p, 5, true);
        for (int64_t id = 3; id < ROWS; id++) { /* no gradient for what is new */
            assert_true(tg_set_rows_frozen(r.p.table, id, 1, true, &error));
        }
        assert_true(tg_set_rows_frozen(r.p.table, 3, ROWS - 3, false, &error));
        assert_true(tg_optim_step(r.optim));
        for (int i = 3 * WIDTH; i < ROWS * WIDTH; i++) {
            if (tg_value_at(r.p.table, i) != 0) {
                fail_msg("%s: value %d of a new row moved without a gradient", methods[m].name, i);
            }
        }
        tg_optim_state buffer = tg_optim_state_at(r.optim, 0);
        bool begins_at_half = strcmp(methods[m].name, "adagrad") == 0;
        for (int i = 3 * WIDTH; buffer.tensor && i < ROWS * WIDTH; i++) {
            assert_true(tg_value_at(buffer.tensor, i) == (begins_at_half ? 0.5 : 0));
        }
        end(&r);
    }
}

/* A new row trains like one that never had a gradient. */
static void test_new_rows_train(void **state)
{
    (void)state;
    run r = begin(&methods[2], TG_F64);
    step(&r, 0, true);
    tg_zero_grad(r.p.table);
    assert_true(tg_resize_rows(r.p.table, ROWS + 1, NULL));
    assert_true(tg_gradient_reserve_rows(r.p.table, 1));
    ((double *)r.p.table->gradient->values)[tg_gradient_row(r.p.table, ROWS) * WIDTH] = 0;
    double *slope = (double *)tg_grad_rows(r.p.table).values;
    for (int c = 0; c < WIDTH; c++) {
        slope[c] = c - 2;
    }
    assert_true(tg_optim_step(r.optim));
    for (int c = 0; c < WIDTH;
         c++) { /* Adam's second step with no first: m = 0.1 g, v = 0.01 g^2, g nothing but slope */
        double g = c - 2, m = 0.1 * g / (1 - 0.81), v = 0.01 * g * g / (1 - 0.9801);
        assert_float_equal(tg_value_at(r.p.table, ROWS * WIDTH + c), -0.1 * m / (sqrt(v) + 1e-8), 1e-12);
    }
    end(&r);
}

static void test_watched_rows(void **state)
{
    (void)state;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        run r = begin(&methods[3], TG_F32);
        assert_int_equal(tg_rows_never_updated(r.p.table, NULL, 0), -1);
        assert_int_equal(tg_row_updates_of(r.p.table, 0).count, 0);
        step(&r, 0, by_rows);
        assert_true(tg_watch_rows(r.p.table, true, NULL));
        int64_t counts[ROWS] = {0}, lasts[ROWS] = {0};
        for (int i = 1; i < 4; i++) {
            step(&r, i, by_rows);
            for (int k = 0; k < gradients()[i].count; k++) {
                counts[gradients()[i].ids[k]]++;
                lasts[gradients()[i].ids[k]] = i + 1; /* the watch began at the second step */
            }
        }
        int32_t never[ROWS], expected[ROWS];
        int count = 0;
        for (int row = 0; row < ROWS; row++) {
            assert_int_equal(tg_row_updates_of(r.p.table, row).count, counts[row]);
            assert_int_equal(tg_row_updates_of(r.p.table, row).last_step, lasts[row]);
            if (counts[row] == 0) {
                expected[count++] = row;
            }
        }
        assert_true(count > 1 && count < ROWS);
        assert_int_equal(tg_rows_never_updated(r.p.table, never, ROWS), count);
        assert_memory_equal(never, expected, (size_t)count * sizeof *never);
        never[1] = -7;
        assert_int_equal(tg_rows_never_updated(r.p.table, never, 1), count);
        assert_int_equal(never[1], -7);

        /* a row in use is not cut off by mistake */
        tg_error error = TG_NO_ERROR;
        tg_zero_grad(r.p.table);
        int last = ROWS - 1;
        while (counts[last] == 0) {
            last--;
        }
        char text[100];
        snprintf(text, sizeof text, "row %d would go with %d rows, but was updated %d times, last in step %d", last,
                 last, (int)counts[last], (int)lasts[last]);
        assert_false(tg_resize_rows(r.p.table, last, &error));
        assert_error(&error, TG_ERROR_STATE, text);
        assert_true(tg_resize_rows(r.p.table, ROWS + 2, &error));
        assert_int_equal(tg_row_updates_of(r.p.table, last).count, counts[last]);
        assert_int_equal(tg_row_updates_of(r.p.table, ROWS + 1).count, 0);
        assert_true(tg_watch_rows(r.p.table, false, &error));
        assert_true(tg_resize_rows(r.p.table, last, &error));
        end(&r);
    }
}

/* Room for the buffers' new rows cannot be had: the step moves nothing, and a later one does. */
static void test_no_memory_for_the_buffers(void **state)
{
    (void)state;
    counting_allocator counting = {0};
    allocator_install(&counting);
    run r = begin(&methods[2], TG_F64);
    for (size_t k = 1; k <= 3; k++) { /* adam with amsgrad has three */
        assert_true(tg_resize_rows(r.p.table, ROWS + (int64_t)k, NULL));
        give_gradients(&r.p, 0, true);
        tg_tensor *before = tg_tensor_new_copy(r.p.table, NULL);
        allocator_arm(&counting, k, true);
        assert_false(tg_optim_step(r.optim));
        allocator_arm(&counting, 0, false);
        assert_int_equal(tg_optim_error_code(r.optim), TG_ERROR_MEMORY);
        assert_true(same_rows(r.p.table, before, 0, ROWS));
        tg_optim_clear_error(r.optim);
        assert_true(tg_optim_step(r.optim));
        assert_false(same_rows(r.p.table, before, 0, ROWS));
        tg_release(before);
        tg_zero_grad(r.p.table);
    }
    end(&r);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen_rows_rest),    cmocka_unit_test(test_optimizers_follow_a_resize),
        cmocka_unit_test(test_fewer_rows_and_more), cmocka_unit_test(test_new_rows_train),
        cmocka_unit_test(test_watched_rows),        cmocka_unit_test(test_no_memory_for_the_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
