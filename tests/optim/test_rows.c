/* Gradients by rows give the bits of dense gradients, and the cost depends only on the listed rows where the method
 * allows it. */
#include "problem.h"

typedef struct table {
    tg_params *params;
    tg_tensor *weight;
    tg_optim *optim;
} table;

/* A table large enough to be cut among threads, with its values a function of the index. */
static table table_make(tg_dtype dtype, int64_t rows, int64_t width, make_optim *make, const void *config)
{
    table t = {.params = tg_params_new(NULL, dtype)};
    t.weight = tg_params_add(t.params, "w", TG_SHAPE(rows, width));
    assert_non_null(t.weight);
    for (int64_t i = 0; i < rows * width; i++) {
        set_value(t.weight, i, (double)((i * 31) % 17) / 8 - 1);
    }
    t.optim = make(t.params, config);
    assert_non_null(t.optim);
    return t;
}

static void table_free(table *t)
{
    tg_optim_free(t->optim);
    tg_params_free(t->params);
}

/* The last row and every stride-th before it, from the last on. */
static void give(table *t, int64_t stride, int salt)
{
    int64_t rows = tg_tensor_size(t->weight, 0), width = tg_tensor_size(t->weight, 1);
    assert_true(tg_gradient_reserve(t->weight, TG_GRAD_ROWS, rows));
    for (int64_t id = rows - 1; id >= 0; id -= stride) {
        int64_t slot = tg_gradient_row(t->weight, (int32_t)id);
        for (int64_t c = 0; c < width; c++) {
            double value = (double)((id * 13 + c * 5 + salt) % 11) / 4 - 1;
            void *values = t->weight->gradient->values;
            if (tg_tensor_dtype(t->weight) == TG_F32) {
                ((float *)values)[slot * width + c] = (float)value;
            } else {
                ((double *)values)[slot * width + c] = value;
            }
        }
    }
}

static void make_dense(table *t)
{
    assert_true(tg_gradient_reserve(t->weight, TG_GRAD_DENSE, 0));
    tg_gradient_write(t->weight, NULL);
}

static void assert_same_bits(const tg_tensor *a, const tg_tensor *b)
{
    assert_memory_equal(tg_tensor_data(a), tg_tensor_data(b),
                        (size_t)tg_tensor_count(a) * tg_dtype_size(tg_tensor_dtype(a)));
}

static void check_same_as_dense(make_optim *make, const void *config, int64_t rows, int64_t width)
{
    for (int dtype = TG_F32; dtype <= TG_F64; dtype++) {
        table by_rows = table_make((tg_dtype)dtype, rows, width, make, config);
        table dense = table_make((tg_dtype)dtype, rows, width, make, config);
        for (int step = 0; step < 5; step++) {
            tg_optim_zero_grad(by_rows.optim);
            tg_optim_zero_grad(dense.optim);
            give(&by_rows, 3 + step, step);
            give(&dense, 3 + step, step);
            make_dense(&dense);
            assert_true(tg_set_threads(1 + step % 3, NULL));
            assert_true(tg_optim_step(by_rows.optim));
            assert_true(tg_set_threads(1, NULL));
            assert_true(tg_optim_step(dense.optim));
            assert_int_equal(tg_tensor_grad_kind(by_rows.weight), TG_GRAD_ROWS);
            /* no V x C gradient was created */
            assert_null(by_rows.weight->gradient->dense);
        }
        assert_same_bits(by_rows.weight, dense.weight);
        for (int64_t i = 0; i < count_states(dense.optim); i++) {
            assert_same_bits(tg_optim_state_at(by_rows.optim, i).tensor, tg_optim_state_at(dense.optim, i).tensor);
        }
        table_free(&by_rows);
        table_free(&dense);
    }
}

static void test_same_bits_as_dense(void **state)
{
    (void)state;
    int before = tg_threads();
    const tg_sgd_config decay = sgd_config(0.1, 0, 0, 0.1, false), momentum = sgd_config(0.1, 0.9, 0.1, 0, false);
    const tg_adamw_config adamw = adamw_config(0.1, 0.9, 0.9, 1e-8, 0.1, true);
    const int64_t shapes[][2] = {{1000, 70}, {40, 1500}, {5000, 1}, {1, 9}};
    for (int i = 0; i < 4; i++) {
        int64_t rows = shapes[i][0], width = shapes[i][1];
        check_same_as_dense(make_sgd, NULL, rows, width);
        check_same_as_dense(make_sgd, &decay, rows, width);
        check_same_as_dense(make_sgd, &momentum, rows, width);
        check_same_as_dense(make_adam, NULL, rows, width);
        check_same_as_dense(make_adamw, &adamw, rows, width);
    }
    assert_true(tg_set_threads(before, NULL));
}

/* Plain SGD must not read or write other rows: NaN in them does not matter, and they keep their bits. Momentum would
 * change them. */
static void test_plain_sgd_touches_rows_only(void **state)
{
    (void)state;
    problem p = problem_make(TG_F64);
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 1;
    tg_optim *optim = tg_sgd_new(p.params, &config);
    double before[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        before[i] = tg_tensor_value_at(p.table, i);
    }
    give_gradients(&p, 0, true);
    uint64_t version = tg_storage_version(p.table), bias_version = tg_storage_version(p.bias);
    assert_true(tg_optim_step(optim));
    const step_gradient *s = &gradients()[0];
    for (int k = 0; k < s->count * WIDTH; k++) {
        before[s->ids[k / WIDTH] * WIDTH + k % WIDTH] -= s->rows[k];
    }
    assert_values(p.table, before, ROWS * WIDTH, 0, 0);
    /* a backward that saved the table notices the step; the bias has no gradient, and not even its version changes */
    assert_true(tg_storage_version(p.table) > version);
    assert_true(tg_storage_version(p.bias) == bias_version);
    tg_optim_free(optim);
    tg_params_free(p.params);
}

/* A table without columns, and rows that were all zeroed again, are no special case. */
static void test_empty(void **state)
{
    (void)state;
    table t = table_make(TG_F32, 4, 0, make_adam, NULL);
    assert_true(tg_gradient_reserve(t.weight, TG_GRAD_ROWS, 4));
    tg_gradient_row(t.weight, 2);
    assert_true(tg_optim_step(t.optim));
    assert_int_equal(tg_optim_steps(t.optim, "w"), 1);
    tg_optim_zero_grad(t.optim);
    assert_true(tg_optim_step(t.optim));
    assert_int_equal(tg_optim_steps(t.optim, "w"), 1);
    table_free(&t);
}

/* A step in which no id counts: torch 2.13's steps with zeros, of Adam, AdamW (decay 0.5) and SGD (momentum 0.9), all
 * with lr 0.1, after a first step with the gradients (1,2), (-3,0.5) of rows 0 and 1. */
static void test_lookup_of_no_row(void **state)
{
    (void)state;
    static const double expected[3][6] = {
        {0.8329941765341887, -2.1670058244397326, 0.6670058247643731, 2.832994178482031, -1.0, 4.0},
        {0.7404941764841887, -1.9670058244647324, 0.6132558247810396, 2.5454941783820306, -0.9025, 3.61},
        {0.81, -2.3800000000000003, 1.07, 2.9050000000000002, -1.0, 4.0}};
    tg_tensor *ids[] = {tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1}), tensor_i32(TG_SHAPE(0), NULL),
                        tensor_i32(TG_SHAPE(1), (int32_t[]){2})};
    tg_tensor *factors = tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, -3, 0.5});
    for (int method = 0; method < 6; method++) {
        tg_params *params = tg_params_new(NULL, TG_F64);
        tg_tensor *w = tg_params_add(params, "w", TG_SHAPE(3, 2));
        assert_true(tg_tensor_fill_from(w, (double[]){1, -2, 0.5, 3, -1, 4}, NULL));
        tg_adam_config adam = tg_adam_config_default();
        tg_adamw_config adamw = tg_adamw_config_default();
        tg_sgd_config sgd = tg_sgd_config_default();
        adam.lr = adamw.lr = sgd.lr = 0.1;
        adamw.weight_decay = 0.5;
        sgd.momentum = 0.9;
        adam.deferred = adamw.deferred = sgd.deferred = method >= 3;
        tg_optim *optim = method % 3 == 0   ? tg_adam_new(params, &adam)
                          : method % 3 == 1 ? tg_adamw_new(params, &adamw)
                                            : tg_sgd_new(params, &sgd);
        tg_tape *t = tg_tape_new(NULL, NULL);
        for (int step = 0; step < 2; step++) {
            tg_embedding_config config = tg_embedding_config_default();
            config.padding_index = method % 2 ? 2 : TG_NO_PADDING;
            tg_tensor *y = tg_embedding(t, ids[step == 0 ? 0 : method % 2 ? 2 : 1], w, &config);
            tg_optim_zero_grad(optim);
            tg_tensor *loss = tg_sum(t, step == 0 ? tg_mul(t, y, factors) : y, TG_ALL_AXES, TG_DROP_AXES);
            assert_true(tg_backward(t, loss, NULL));
            assert_true(tg_optim_step(optim));
            tg_tape_reset(t);
        }
        assert_true(tg_optim_flush(optim));
        assert_values(w, expected[method % 3], 6, 1e-14, 0);
        tg_tape_free(t);
        tg_optim_free(optim);
        tg_params_free(params);
    }
    for (int i = 0; i < 3; i++) {
        tg_release(ids[i]);
    }
    tg_release(factors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_as_dense),
        cmocka_unit_test(test_plain_sgd_touches_rows_only),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_lookup_of_no_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
