/* The effect of a step on frozen, watched and resized rows, for every method, with gradients dense and by rows. */
#include "problem.h"

typedef struct method {
    const char *name;
    make_optim *make;
} method;

/* Options under which a row changes although its gradient is zero: decay, momentum. */
static tg_optim *sgd(tg_params *params, const void *unused)
{
    (void)unused;
    tg_sgd_config config = sgd_config(0.1, 0.9, 0, 0.1, false);
    return tg_sgd_new(params, &config);
}

static tg_optim *plain_sgd(tg_params *params, const void *unused)
{
    (void)unused;
    tg_sgd_config config = sgd_config(0.1, 0, 0, 0, false);
    return tg_sgd_new(params, &config);
}

static tg_optim *adam(tg_params *params, const void *unused)
{
    (void)unused;
    tg_adam_config config = adam_config(0.1, 0.9, 0.99, 1e-8, 0.1, true);
    return tg_adam_new(params, &config);
}

static tg_optim *adamw(tg_params *params, const void *unused)
{
    (void)unused;
    tg_adamw_config config = adamw_config(0.1, 0.9, 0.99, 1e-8, 0.1, false);
    return tg_adamw_new(params, &config);
}

static tg_optim *sparse_adam(tg_params *params, const void *unused)
{
    (void)unused;
    return tg_sparse_adam_new(params, NULL);
}

static tg_optim *adagrad(tg_params *params, const void *unused)
{
    (void)unused;
    tg_adagrad_config config = tg_adagrad_config_default();
    config.lr = 0.1;
    config.weight_decay = 0.1;
    config.initial_accumulator = 0.5;
    return tg_adagrad_new(params, &config);
}

static tg_optim *adagrad_by_rows(tg_params *params, const void *unused)
{
    (void)unused;
    tg_adagrad_config config = tg_adagrad_config_default();
    config.by_rows = true;
    config.lr = 0.1;
    config.initial_accumulator = 0.5;
    return tg_adagrad_new(params, &config);
}

static tg_optim *rmsprop(tg_params *params, const void *unused)
{
    (void)unused;
    tg_rmsprop_config config = tg_rmsprop_config_default();
    config.lr = 0.1;
    config.alpha = 0.9;
    config.weight_decay = 0.1;
    config.momentum = 0.5;
    return tg_rmsprop_new(params, &config);
}

static tg_optim *lion(tg_params *params, const void *unused)
{
    (void)unused;
    tg_lion_config config = tg_lion_config_default();
    config.lr = 0.1;
    config.beta2 = 0.9;
    config.weight_decay = 0.1;
    return tg_lion_new(params, &config);
}

static const method methods[] = {{"sgd", sgd},
                                 {"plain sgd", plain_sgd},
                                 {"adam", adam},
                                 {"adamw", adamw},
                                 {"sparse_adam", sparse_adam},
                                 {"adagrad", adagrad},
                                 {"adagrad by rows", adagrad_by_rows},
                                 {"rmsprop", rmsprop},
                                 {"lion", lion}};
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
    /* what backward does */
    tg_gradient_drop_frozen(r->p.table);
    assert_true(tg_optim_step(r->optim));
}

/* The rows of x in [first,last) have the same bits in y. */
static bool same_rows(const tg_tensor *x, const tg_tensor *y, int64_t first, int64_t last)
{
    size_t row = (size_t)(tg_tensor_count(x) / tg_tensor_size(x, 0)) * tg_dtype_size(tg_tensor_dtype(x));
    return memcmp((const char *)tg_tensor_data(x) + (size_t)first * row,
                  (const char *)tg_tensor_data(y) + (size_t)first * row, (size_t)(last - first) * row) == 0;
}

/* Frozen after some steps, so that momentum would change it: nothing of it changes, and the other rows and their
 * moments take the same steps as without. */
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
            assert_true(tg_tensor_set_rows_frozen(frozen.p.table, 1, 2, true, NULL));
            assert_true(tg_tensor_set_rows_frozen(frozen.p.table, ROWS - 1, 1, true, NULL));
            tg_tensor *before = tg_tensor_new_copy(frozen.p.table, NULL);
            tg_optim_state moments = tg_optim_state_at(frozen.optim, 0);
            tg_tensor *moments_before = moments.tensor ? tg_tensor_new_copy(moments.tensor, NULL) : NULL;
            for (int i = 5; i < 20; i++) {
                step(&free_run, i, variant / 2);
                step(&frozen, i, variant / 2);
            }
            const int64_t rests[][2] = {{1, 3}, {ROWS - 1, ROWS}}, moves[][2] = {{0, 1}, {3, ROWS - 1}};
            for (int k = 0; k < 2; k++) {
                if (!same_rows(frozen.p.table, before, rests[k][0], rests[k][1]) ||
                    (moments.tensor && !same_rows(moments.tensor, moments_before, rests[k][0], rests[k][1]))) {
                    fail_msg("%s, variant %d: a frozen row changed", methods[m].name, variant);
                }
                if (!same_rows(frozen.p.table, free_run.p.table, moves[k][0], moves[k][1])) {
                    fail_msg("%s, variant %d: a free row took another step", methods[m].name, variant);
                }
            }
            /* it would have changed */
            assert_false(same_rows(free_run.p.table, before, 1, 3));
            assert_int_equal(tg_optim_steps(frozen.optim, "table.weight"), 20);
            tg_release(before);
            tg_release(moments_before);
            end(&free_run);
            end(&frozen);
        }
    }
}

/* After a resize the old rows and their moments continue as without; a new row begins as in a new table, except for the
 * number of the step. */
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
            tg_tensor_zero_grad(larger.p.table);
            tg_tensor *handle = larger.p.table, *moments = tg_optim_state_at(larger.optim, 0).tensor;
            assert_true(tg_tensor_resize_rows(larger.p.table, ROWS + 3, NULL));
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
            /* zeros that no gradient reached */
            for (int i = ROWS * WIDTH; i < (ROWS + 3) * WIDTH; i++) {
                assert_true(tg_tensor_value_at(larger.p.table, i) == 0);
            }
            if (moments) {
                assert_ptr_equal(tg_optim_state_at(larger.optim, 0).tensor, moments);
                assert_int_equal(tg_tensor_size(moments, 0), ROWS + 3);
                bool begins_at_half = strncmp(methods[m].name, "adagrad", 7) == 0;
                assert_true(tg_tensor_value_at(moments, tg_tensor_count(moments) - 1) == (begins_at_half ? 0.5 : 0));
            }
            end(&same);
            end(&larger);
        }
    }
}

/* Rows that were removed and added again are new ones: they do not inherit. Between two resizes an optimizer with
 * moments has to follow, by a step, even one without a gradient. */
static void test_fewer_rows_and_more(void **state)
{
    (void)state;
    for (int m = 0; m < METHODS; m++) {
        run r = begin(&methods[m], TG_F64);
        for (int i = 0; i < 5; i++) {
            step(&r, i, true);
        }
        tg_tensor_zero_grad(r.p.table);
        tg_error error = TG_NO_ERROR;
        bool has_moments = tg_optim_state_at(r.optim, 0).tensor != NULL;
        tg_tensor_zero_grad(r.p.bias);
        /* 3 rows are in all of them */
        const int64_t sizes[] = {9, 3, 7, 5, ROWS};
        for (int i = 0; i < 5; i++) {
            assert_true(tg_tensor_resize_rows(r.p.table, sizes[i], &error));
            if (has_moments) {
                assert_false(tg_tensor_resize_rows(r.p.table, sizes[i] + 1, &error));
                assert_error(&error, TG_ERROR_STATE,
                             "tensor_resize_rows: the table was resized before, and an optimizer");
                assert_int_equal(tg_tensor_size(r.p.table, 0), sizes[i]);
                assert_true(tg_optim_step(r.optim));
                assert_int_equal(tg_tensor_size(tg_optim_state_at(r.optim, 0).tensor, 0), sizes[i]);
            }
        }
        assert_int_equal(tg_optim_steps(r.optim, "table.weight"), 5);
        give_gradients(&r.p, 5, true);
        /* no gradient for what is new */
        for (int64_t id = 3; id < ROWS; id++) {
            assert_true(tg_tensor_set_rows_frozen(r.p.table, id, 1, true, &error));
        }
        assert_true(tg_tensor_set_rows_frozen(r.p.table, 3, ROWS - 3, false, &error));
        assert_true(tg_optim_step(r.optim));
        for (int i = 3 * WIDTH; i < ROWS * WIDTH; i++) {
            if (tg_tensor_value_at(r.p.table, i) != 0) {
                fail_msg("%s: value %d of a new row changed without a gradient", methods[m].name, i);
            }
        }
        tg_optim_state moments = tg_optim_state_at(r.optim, 0);
        bool begins_at_half = strncmp(methods[m].name, "adagrad", 7) == 0;
        for (int64_t i = tg_tensor_count(moments.tensor) / ROWS * 3; i < tg_tensor_count(moments.tensor); i++) {
            assert_true(tg_tensor_value_at(moments.tensor, i) == (begins_at_half ? 0.5 : 0));
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
    tg_tensor_zero_grad(r.p.table);
    assert_true(tg_tensor_resize_rows(r.p.table, ROWS + 1, NULL));
    assert_true(tg_gradient_reserve(r.p.table, TG_GRAD_ROWS, 1));
    ((double *)r.p.table->gradient->values)[tg_gradient_row(r.p.table, ROWS) * WIDTH] = 0;
    double *slope = (double *)tg_tensor_grad_rows(r.p.table).values;
    for (int c = 0; c < WIDTH; c++) {
        slope[c] = c - 2;
    }
    assert_true(tg_optim_step(r.optim));
    /* Adam's second step without a first: m = 0.1 g, v = 0.01 g^2, where g is the slope alone */
    for (int c = 0; c < WIDTH; c++) {
        double g = c - 2, m = 0.1 * g / (1 - 0.81), v = 0.01 * g * g / (1 - 0.9801);
        assert_float_equal(tg_tensor_value_at(r.p.table, ROWS * WIDTH + c), -0.1 * m / (sqrt(v) + 1e-8), 1e-12);
    }
    end(&r);
}

static void test_watched_rows(void **state)
{
    (void)state;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        run r = begin(&methods[3], TG_F32);
        tg_error error = TG_NO_ERROR;
        assert_int_equal(tg_tensor_rows_never_updated(r.p.table, NULL, 0, &error), -1);
        assert_error(&error, TG_ERROR_STATE, "tensor_rows_never_updated: the tensor is not watched");
        assert_int_equal(tg_tensor_row_updates(r.p.table, 0).count, 0);
        step(&r, 0, by_rows);
        assert_true(tg_tensor_set_rows_watched(r.p.table, true, NULL));
        int64_t counts[ROWS] = {0}, lasts[ROWS] = {0};
        for (int i = 1; i < 4; i++) {
            step(&r, i, by_rows);
            for (int k = 0; k < gradients()[i].count; k++) {
                counts[gradients()[i].ids[k]]++;
                /* counting began at the second step */
                lasts[gradients()[i].ids[k]] = i + 1;
            }
        }
        int32_t never[ROWS], expected[ROWS];
        int count = 0;
        for (int row = 0; row < ROWS; row++) {
            assert_int_equal(tg_tensor_row_updates(r.p.table, row).count, counts[row]);
            assert_int_equal(tg_tensor_row_updates(r.p.table, row).last_step, lasts[row]);
            if (counts[row] == 0) {
                expected[count++] = row;
            }
        }
        assert_true(count > 1 && count < ROWS);
        assert_int_equal(tg_tensor_rows_never_updated(r.p.table, never, ROWS, &error), count);
        assert_memory_equal(never, expected, (size_t)count * sizeof *never);
        never[1] = -7;
        assert_int_equal(tg_tensor_rows_never_updated(r.p.table, never, 1, &error), count);
        assert_int_equal(never[1], -7);

        /* a row in use is not removed by mistake */
        tg_tensor_zero_grad(r.p.table);
        int last = ROWS - 1;
        while (counts[last] == 0) {
            last--;
        }
        char text[100];
        snprintf(text, sizeof text, "%d rows would remove row %d, which was updated %d times, last in step %d", last,
                 last, (int)counts[last], (int)lasts[last]);
        assert_false(tg_tensor_resize_rows(r.p.table, last, &error));
        assert_error(&error, TG_ERROR_STATE, text);
        assert_true(tg_tensor_resize_rows(r.p.table, ROWS + 2, &error));
        assert_int_equal(tg_tensor_row_updates(r.p.table, last).count, counts[last]);
        assert_int_equal(tg_tensor_row_updates(r.p.table, ROWS + 1).count, 0);
        /* AdamW follows before the next resize */
        assert_true(tg_optim_step(r.optim));
        assert_true(tg_tensor_set_rows_watched(r.p.table, false, &error));
        assert_true(tg_tensor_resize_rows(r.p.table, last, &error));
        end(&r);
    }
}

/* ---- several optimizers of one table ---- */

static const char behind[] = "the table was resized before, and an optimizer that holds it has made no step since";

/* A second resize is refused until every optimizer with moments has stepped or is freed. */
static void test_two_optimizers(void **state)
{
    (void)state;
    run r = begin(&methods[2], TG_F64);
    tg_optim *momentum = sgd(r.p.params, NULL), *plain = plain_sgd(r.p.params, NULL);
    tg_error error = TG_NO_ERROR;
    step(&r, 0, true);
    assert_true(tg_optim_step(momentum));
    tg_tensor_zero_grad(r.p.table);
    /* one of the two is not enough, whichever it is */
    for (int i = 0; i < 4; i++) {
        tg_optim *first = i % 2 ? momentum : r.optim, *second = i % 2 ? r.optim : momentum;
        int64_t rows = ROWS + 1 + i;
        assert_true(tg_tensor_resize_rows(r.p.table, rows, &error));
        assert_false(tg_tensor_resize_rows(r.p.table, rows + 1, &error));
        assert_error(&error, TG_ERROR_STATE, behind);
        assert_true(tg_optim_step(first));
        assert_int_equal(tg_tensor_size(tg_optim_state_at(first, 0).tensor, 0), rows);
        assert_int_equal(tg_tensor_size(tg_optim_state_at(second, 0).tensor, 0), rows - 1);
        /* a second step of the same optimizer changes nothing, nor does one without moments */
        assert_true(tg_optim_step(first) && tg_optim_step(plain));
        assert_false(tg_tensor_resize_rows(r.p.table, rows + 1, &error));
        assert_error(&error, TG_ERROR_STATE, behind);
        assert_int_equal(tg_tensor_size(r.p.table, 0), rows);
        assert_true(tg_optim_step(second));
        assert_int_equal(tg_tensor_size(tg_optim_state_at(second, 0).tensor, 0), rows);
    }
    /* an optimizer that is freed while it is behind does not block any more */
    assert_true(tg_tensor_resize_rows(r.p.table, 7, &error));
    assert_true(tg_optim_step(r.optim));
    tg_optim_free(momentum);
    assert_true(tg_tensor_resize_rows(r.p.table, 8, &error));
    /* a new optimizer is not behind, and does not help one that is */
    momentum = sgd(r.p.params, NULL);
    assert_true(tg_optim_step(momentum));
    assert_false(tg_tensor_resize_rows(r.p.table, 9, &error));
    assert_error(&error, TG_ERROR_STATE, behind);
    tg_optim_free(r.optim);
    assert_true(tg_tensor_resize_rows(r.p.table, 9, &error));
    /* an optimizer that has followed does not change what is known of others when it is freed */
    r.optim = methods[2].make(r.p.params, NULL);
    assert_true(tg_optim_step(momentum));
    assert_true(tg_tensor_resize_rows(r.p.table, ROWS, &error));
    assert_true(tg_optim_step(r.optim));
    tg_optim_free(r.optim);
    assert_false(tg_tensor_resize_rows(r.p.table, 9, &error));
    assert_error(&error, TG_ERROR_STATE, behind);
    tg_optim_free(momentum);
    /* without an optimizer any number of times; the optimizer without moments still steps */
    assert_true(tg_tensor_resize_rows(r.p.table, 9, &error) && tg_tensor_resize_rows(r.p.table, ROWS, &error));
    give_gradients(&r.p, 1, true);
    assert_true(tg_optim_step(plain));
    tg_optim_free(plain);
    tg_params_free(r.p.params);
}

/* An optimizer that holds an error does not follow, so the table waits for it until the error is cleared. */
static void test_behind_with_an_error(void **state)
{
    (void)state;
    run r = begin(&methods[2], TG_F64);
    tg_error error = TG_NO_ERROR;
    assert_true(tg_tensor_resize_rows(r.p.table, ROWS + 1, &error));
    assert_false(tg_optim_set_lr(r.optim, NULL, -1));
    assert_false(tg_optim_step(r.optim));
    assert_int_equal(tg_tensor_size(tg_optim_state_at(r.optim, 0).tensor, 0), ROWS);
    assert_false(tg_tensor_resize_rows(r.p.table, ROWS, &error));
    assert_error(&error, TG_ERROR_STATE, behind);
    assert_optim_error(r.optim, TG_ERROR_VALUE, "optim_set_lr: -1");
    assert_true(tg_optim_step(r.optim));
    assert_true(tg_tensor_resize_rows(r.p.table, ROWS, &error));
    assert_true(tg_optim_step(r.optim));
    /* a resize to the current number of rows changes nothing, so no step is necessary before the next resize */
    assert_true(tg_tensor_resize_rows(r.p.table, ROWS, &error) && tg_tensor_resize_rows(r.p.table, ROWS + 1, &error));
    end(&r);
}

/* ---- no memory for the moments ---- */

/* Everything that a step may change: values and state tensors with their sizes, and the numbers of steps. */
typedef struct snapshot {
    tg_tensor *tensors[16];
    int count;
    int64_t table_steps, bias_steps;
} snapshot;

static snapshot take(const run *r)
{
    snapshot s = {.table_steps = tg_optim_steps(r->optim, "table.weight"),
                  .bias_steps = tg_optim_steps(r->optim, "head.bias")};
    s.tensors[s.count++] = tg_tensor_new_copy(r->p.table, NULL);
    s.tensors[s.count++] = tg_tensor_new_copy(r->p.bias, NULL);
    for (int64_t i = 0; tg_optim_state_at(r->optim, i).tensor; i++) {
        s.tensors[s.count++] = tg_tensor_new_copy(tg_optim_state_at(r->optim, i).tensor, NULL);
    }
    assert_in_range(s.count, 2, 16);
    return s;
}

static bool same_bits(const tg_tensor *x, const tg_tensor *y)
{
    return tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(y)) &&
           memcmp(tg_tensor_data(x), tg_tensor_data(y),
                  (size_t)tg_tensor_count(x) * tg_dtype_size(tg_tensor_dtype(x))) == 0;
}

/* Compares two snapshots bit by bit, and frees them. */
static bool same_and_free(snapshot a, snapshot b)
{
    bool is_same = a.count == b.count && a.table_steps == b.table_steps && a.bias_steps == b.bias_steps;
    for (int i = 0; i < a.count; i++) {
        is_same = is_same && same_bits(a.tensors[i], b.tensors[i]);
        tg_release(a.tensors[i]);
    }
    for (int i = 0; i < b.count; i++) {
        tg_release(b.tensors[i]);
    }
    return is_same;
}

/* Steps with allocation 1, 2, .. failing until none does; returns the number of failures. A failure changes nothing. */
static size_t step_with_failures(counting_allocator *counting, run *r)
{
    size_t failures = 0;
    tg_grad_kind kind = tg_tensor_grad_kind(r->p.table);
    for (bool has_stepped = false; !has_stepped;) {
        snapshot before = take(r);
        size_t live = counting->live;
        allocator_arm(counting, failures + 1, failures % 2);
        has_stepped = tg_optim_step(r->optim);
        allocator_arm(counting, 0, false);
        if (!has_stepped) {
            failures++;
            assert_int_equal(counting->live, live);
            assert_optim_error(r->optim, TG_ERROR_MEMORY,
                               failures == 1 ? "optim_step: out of memory"
                                             : "of 'table.weight' cannot follow its table to ");
            assert_int_equal(tg_tensor_grad_kind(r->p.table), kind);
            /* the moments still have to follow */
            assert_int_equal(r->p.table->rows->followers_behind, 1);
        }
        assert_true(same_and_free(before, take(r)) == !has_stepped);
    }
    return failures;
}

/* Any allocation of the step that follows a resize fails: nothing has changed, and the step that is repeated, and those
 * after it, have the bits of a run without the failure. */
static void test_no_memory_for_the_moments(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    for (int m = 0; m < METHODS; m++) {
        for (int variant = 0; variant < 8; variant++) {
            tg_dtype dtype = variant % 2 ? TG_F32 : TG_F64;
            bool by_rows = variant / 2 % 2;
            /* the resize adds rows or removes some; the gradients name the first ROWS in both cases */
            int64_t before = variant / 4 ? ROWS : ROWS + 3, after = variant / 4 ? ROWS + 3 : ROWS;
            run same = begin(&methods[m], dtype), failing = begin(&methods[m], dtype);
            for (int i = 0; i < 2; i++) {
                run *r = i ? &failing : &same;
                assert_true(tg_tensor_resize_rows(r->p.table, before, NULL));
                for (int k = 0; k < 3; k++) {
                    step(r, k, by_rows);
                }
                tg_optim_zero_grad(r->optim);
                assert_true(tg_tensor_resize_rows(r->p.table, after, NULL));
                give_gradients(&r->p, 3, by_rows);
            }
            size_t failures = step_with_failures(&counting, &failing);
            /* the list, and each state tensor of the table; half of the state tensors are the bias's */
            size_t states = (size_t)count_states(failing.optim) / 2;
            assert_true(states == 0 ? failures == 0 : failures >= 1 + states);
            assert_true(tg_optim_step(same.optim));
            assert_true(same_and_free(take(&same), take(&failing)));
            for (int k = 4; k < 9; k++) {
                step(&same, k, by_rows);
                step(&failing, k, by_rows);
            }
            if (!same_and_free(take(&same), take(&failing))) {
                fail_msg("%s, variant %d: other bits after a failure", methods[m].name, variant);
            }
            end(&same);
            end(&failing);
        }
    }
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

/* Two tables were resized: if the second one's moments find no memory, the first one's do not follow either. */
static void test_all_tables_follow_or_none(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *tables[] = {tg_params_add(params, "a", TG_SHAPE(4, 3)), tg_params_add(params, "b", TG_SHAPE(5, 2))};
    tg_optim *optim = tg_adam_new(params, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(tg_tensor_fill(dense_gradient(tables[i]), 1, NULL));
    }
    assert_true(tg_optim_step(optim));
    tg_optim_zero_grad(optim);
    for (int i = 0; i < 2; i++) {
        assert_true(tg_tensor_resize_rows(tables[i], 7, NULL));
    }
    size_t failures = 0;
    for (allocator_arm(&counting, 1, false); !tg_optim_step(optim); allocator_arm(&counting, ++failures + 1, false)) {
        allocator_arm(&counting, 0, false);
        assert_optim_error(optim, TG_ERROR_MEMORY, "optim_step: ");
        for (int i = 0; i < 4; i++) {
            assert_int_equal(tg_tensor_size(tg_optim_state_at(optim, i).tensor, 0), i < 2 ? 4 : 5);
        }
        for (int i = 0; i < 2; i++) {
            tg_error error = TG_NO_ERROR;
            assert_false(tg_tensor_resize_rows(tables[i], 8, &error));
            assert_error(&error, TG_ERROR_STATE, behind);
        }
    }
    allocator_arm(&counting, 0, false);
    /* the list, and two state tensors of each table */
    assert_true(failures >= 5);
    for (int i = 0; i < 4; i++) {
        tg_tensor *moments = tg_optim_state_at(optim, i).tensor;
        int64_t old = i < 2 ? 4 * 3 : 5 * 2;
        assert_int_equal(tg_tensor_size(moments, 0), 7);
        for (int64_t k = 0; k < tg_tensor_count(moments); k++) {
            assert_true((tg_tensor_value_at(moments, k) != 0) == (k < old));
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_true(tg_tensor_resize_rows(tables[i], 8, NULL));
    }
    tg_optim_free(optim);
    tg_params_free(params);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen_rows_rest),
        cmocka_unit_test(test_optimizers_follow_a_resize),
        cmocka_unit_test(test_fewer_rows_and_more),
        cmocka_unit_test(test_new_rows_train),
        cmocka_unit_test(test_watched_rows),
        cmocka_unit_test(test_two_optimizers),
        cmocka_unit_test(test_behind_with_an_error),
        cmocka_unit_test(test_no_memory_for_the_moments),
        cmocka_unit_test(test_all_tables_follow_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
