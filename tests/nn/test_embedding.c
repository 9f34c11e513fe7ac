/* Every option of tg_nn_embedding and tg_nn_embedding_bag in 50 steps of each kind of optimizer, against torch (see
 * make_embedding.py). The bag module against tg_embedding_bag, its errors, and resized tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

enum { ROWS = 12, WIDTH = 5, ENTRIES = 8, VALUES = ROWS * WIDTH + WIDTH + ENTRIES, STEPS = 50, PADDING = 7 };

/* ---- torch's trajectories ---- */

typedef struct trained {
    tg_params *params;
    bool bags;
    tg_nn_embedding embedding;
    tg_nn_embedding_bag bag;
    tg_tensor *table, *bias, *weights;
} trained;

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool is_max(const char *name)
{
    return strncmp(name, "max_mode", 8) == 0 || is(name, "max_padded");
}

static tg_nn_embedding_config options_of(const char *name)
{
    tg_nn_embedding_config config = tg_nn_embedding_config_default();
    if (strstr(name, "padded") || is(name, "tied") || is(name, "all_options")) {
        config.padding_index = PADDING;
    }
    config.scale_by_frequency = strstr(name, "frequency") || is(name, "all_options");
    config.max_norm = is(name, "max_norm_1") ? 2 : is(name, "max_norm_inf") ? 0.6 : strstr(name, "max_norm") ? 1 : 0;
    config.max_norm = is(name, "all_options") ? 1 : config.max_norm;
    config.norm_type = is(name, "max_norm_1") ? 1 : is(name, "max_norm_inf") ? (double)INFINITY : 2;
    config.frozen = is(name, "frozen");
    return config;
}

static tg_nn_embedding_bag_config bag_options_of(const char *name, const tg_nn_embedding_config *options)
{
    tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
    config.padding_index = options->padding_index;
    config.scale_by_frequency = options->scale_by_frequency;
    config.max_norm = options->max_norm;
    config.norm_type = options->norm_type;
    config.frozen = options->frozen;
    config.from = options->from;
    config.last_offset = is(name, "bag_last_offset");
    bool sum = is(name, "bag_sum") || config.last_offset || strstr(name, "weighted") || is(name, "bag_frequency");
    config.mode = is_max(name) ? TG_BAG_MAX : sum ? TG_BAG_SUM : TG_BAG_MEAN;
    return config;
}

static trained make(const char *name, tg_dtype dtype)
{
    trained m = {.params = tg_params_new(NULL, dtype),
                 .bags = is_max(name) || strncmp(name, "bag", 3) == 0 || is(name, "mean_frequency")};
    tg_nn_embedding_config config = options_of(name);
    double values[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        values[i] = i / WIDTH == config.padding_index ? 0 : fmod(i * 0.25 * 7, 3) - 1.5;
    }
    tg_tensor *table = tensor_f64(TG_SHAPE(ROWS, WIDTH), values);
    config.from = tg_tensor_new_cast(table, dtype, NULL);
    if (m.bags) {
        tg_nn_embedding_bag_config bags = bag_options_of(name, &config);
        m.bag = tg_nn_embedding_bag_make(m.params, "table", ROWS, WIDTH, &bags);
    } else {
        m.embedding = tg_nn_embedding_make(m.params, "table", ROWS, WIDTH, &config);
    }
    m.table = m.bags ? m.bag.weight : m.embedding.weight;
    assert_ptr_equal(m.table, config.from);
    assert_string_equal(tg_params_at(m.params, 0).name, "table.weight");
    m.bias = tg_params_add(m.params, "bias", TG_SHAPE(WIDTH));
    m.weights = tg_params_add(m.params, "weights", TG_SHAPE(ENTRIES));
    assert_int_equal(tg_params_error(m.params)->code, TG_OK);
    tg_tensor *bias = tensor_f64(TG_SHAPE(WIDTH), (double[]){0.5, -0.25, 1, 0, -1});
    tg_tensor *weights = tg_tensor_new_arange(TG_F64, 0.5, 2.5, 0.25, NULL);
    tg_tensor *starts[] = {tg_tensor_new_cast(bias, dtype, NULL), tg_tensor_new_cast(weights, dtype, NULL)};
    assert_true(tg_tensor_copy_from(m.bias, starts[0], NULL) && tg_tensor_copy_from(m.weights, starts[1], NULL));
    tg_tensor *made[] = {table, config.from, bias, weights, starts[0], starts[1]};
    for (int i = 0; i < 6; i++) {
        tg_release(made[i]);
    }
    return m;
}

static tg_optim *optimizer(const char *name, tg_params *params)
{
    tg_sgd_config sgd = tg_sgd_config_default(), sparse_sgd = sgd;
    tg_adam_config adam = tg_adam_config_default();
    tg_adamw_config adamw = tg_adamw_config_default();
    tg_adagrad_config adagrad = tg_adagrad_config_default();
    tg_sparse_adam_config sparse_adam = tg_sparse_adam_config_default();
    sgd.lr = 0.05;
    sgd.momentum = 0.9;
    sgd.weight_decay = 0.01;
    sparse_sgd.lr = 0.1;
    adam.lr = adamw.lr = sparse_adam.lr = 0.02;
    adamw.weight_decay = 0.1;
    adagrad.lr = 0.05;
    return is(name, "sgd")              ? tg_sgd_new(params, &sgd)
           : is(name, "adam")           ? tg_adam_new(params, &adam)
           : is(name, "adamw")          ? tg_adamw_new(params, &adamw)
           : is(name, "sparse_sgd")     ? tg_sgd_new(params, &sparse_sgd)
           : is(name, "sparse_adagrad") ? tg_adagrad_new(params, &adagrad)
                                        : tg_sparse_adam_new(params, &sparse_adam);
}

/* The rows of a step: (8,5), or those of 2 or 4 bags. */
static tg_tensor *forward(tg_tape *t, const trained *m, const char *name, const int32_t *drawn)
{
    bool ends = is(name, "bag_last_offset");
    bool flat = strstr(name, "offset") || is(name, "max_padded") || is(name, "mean_frequency");
    tg_tensor *ids = tensor_i32(m->bags && !flat ? TG_SHAPE(2, 4) : TG_SHAPE(8), drawn);
    tg_tensor *offsets = tensor_i32(TG_SHAPE(4 + ends), (int32_t[]){0, 3, 3, 7, 8});
    tg_tensor *weights = !strstr(name, "weighted") ? NULL
                         : flat                    ? m->weights
                                                   : tg_reshape(t, m->weights, TG_SHAPE(2, 4));
    tg_tensor *y = m->bags ? tg_nn_embedding_bag_forward(t, &m->bag, ids, flat ? offsets : NULL, weights)
                           : tg_nn_embedding_forward(t, &m->embedding, ids);
    tg_release(ids);
    tg_release(offsets);
    return y;
}

static void step(tg_tape *t, const trained *m, const char *name, int number, bool dense)
{
    const int32_t draw[] = {0, 1, 2, 4, 5, 7, 8, 9, 11};
    int32_t ids[ENTRIES], targets[ENTRIES];
    for (int k = 0; k < ENTRIES; k++) {
        ids[k] = draw[(number * 5 + k * k * 3) % 9];
        targets[k] = (number + 2 * k) % WIDTH;
    }
    tg_tape_reset(t);
    tg_tensor *y = forward(t, m, name, ids), *table = m->table;
    y = is(name, "tied") ? tg_linear(t, y, table, NULL) : tg_add(t, y, m->bias);
    tg_tensor *wanted = tensor_i32(TG_SHAPE(y ? tg_tensor_size(y, 0) : 0), targets);
    tg_tensor *loss = tg_cross_entropy(t, y, wanted, NULL);
    if (dense) {
        /* a contribution of zeros, but to every row */
        loss = tg_add(t, loss, tg_mul_scalar(t, tg_sum(t, table, TG_ALL_AXES, TG_DROP_AXES), 0));
    }
    assert_true(tg_backward(t, loss, NULL));
    tg_release(wanted);
    assert_int_equal(tg_tensor_grad_kind(table), is(name, "frozen")          ? TG_GRAD_NONE
                                                 : dense || is(name, "tied") ? TG_GRAD_DENSE
                                                                             : TG_GRAD_ROWS);
}

static void check_case(const char *name, const char *method, tg_dtype dtype, const double *want, bool dense)
{
    trained m = make(name, dtype);
    tg_optim *optim = optimizer(method, m.params);
    assert_non_null(optim);
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int number = 0; number < STEPS; number++) {
        tg_optim_zero_grad(optim);
        step(t, &m, name, number, dense);
        assert_true(tg_optim_step(optim));
    }
    double largest = 0;
    for (int i = 0; i < VALUES; i++) {
        largest = fmax(largest, fabs(want[i]));
    }
    for (int i = 0; i < VALUES; i++) {
        double value = i < ROWS * WIDTH         ? tg_tensor_value_at(m.table, i)
                       : i < (ROWS + 1) * WIDTH ? tg_tensor_value_at(m.bias, i - ROWS * WIDTH)
                                                : tg_tensor_value_at(m.weights, i - (ROWS + 1) * WIDTH);
        if (!(fabs(value - want[i]) <= (dtype == TG_F64 ? 1e-12 : 1e-5 * largest))) {
            fail_msg("%s, %s, %s, %s: value %d is %.17g, not %.17g", name, method, tg_dtype_name(dtype),
                     dense ? "dense" : "by rows", i, value, want[i]);
        }
    }
    tg_tape_free(t);
    tg_optim_free(optim);
    tg_params_free(m.params);
}

static void test_against_torch(void **state)
{
    (void)state;
    FILE *file = fopen(TG_TEST_GOLDENS "/embedding.txt", "r");
    assert_non_null(file);
    char name[64], method[64], dtype[8];
    int cases = 0;
    while (fscanf(file, "%63s %63s %7s", name, method, dtype) == 3) {
        double want[VALUES];
        for (int i = 0; i < VALUES; i++) {
            assert_int_equal(fscanf(file, "%lf", &want[i]), 1);
        }
        tg_dtype type = is(dtype, "f64") ? TG_F64 : TG_F32;
        check_case(name, method, type, want, false);
        if (strncmp(method, "sparse", 6) != 0 && !is(name, "frozen")) {
            check_case(name, method, type, want, true);
        }
        cases++;
    }
    assert_true(feof(file));
    assert_int_equal(cases, 204);
    fclose(file);
}

/* ---- a resized table ---- */

static void test_resize(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(5);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding_config config = tg_nn_embedding_config_default();
    /* row 3, and row 3 it stays */
    config.padding_index = -1;
    config.mean = 1;
    config.std = 0.5;
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "e", 4, 3, &config);
    tg_tensor *handle = embedding.weight, *before = tg_tensor_new_copy(embedding.weight, NULL);
    tg_rng *twin = tg_rng_new(0);
    tg_rng_copy(twin, tg_run_rng(run));
    assert_true(tg_nn_embedding_resize(&embedding, 9));
    assert_ptr_equal(embedding.weight, handle);
    assert_memory_equal(tg_tensor_data(handle), tg_tensor_data(before), 12 * sizeof(float));
    tg_tensor *added = tg_tensor_new(TG_F32, TG_SHAPE(5, 3), NULL);
    /* as a table of 5 rows would begin */
    assert_true(tg_tensor_fill_normal(added, twin, 1, 0.5, NULL));
    assert_memory_equal((const float *)tg_tensor_data(handle) + 12, tg_tensor_data(added), 15 * sizeof(float));

    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){3, 8, 3});
    tg_tensor *y = tg_nn_embedding_forward(t, &embedding, ids);
    assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_int_equal(tg_tensor_grad_rows(handle).count, 1);
    assert_int_equal(tg_tensor_grad_rows(handle).ids[0], 8);
    tg_tape_reset(t);

    assert_false(tg_nn_embedding_resize(&embedding, 12));
    assert_params_error(params, TG_ERROR_STATE, "the table has a gradient");
    tg_tensor_zero_grad(handle);
    assert_false(tg_nn_embedding_resize(&embedding, 3));
    assert_params_error(params, TG_ERROR_STATE, "row 3, which is frozen (a padding row?)");
    assert_false(tg_nn_embedding_resize(&embedding, 0));
    assert_params_error(params, TG_ERROR_SHAPE, "0 rows");
    uint64_t position = tg_rng_position(tg_run_rng(run));
    assert_true(tg_nn_embedding_resize(&embedding, 4));
    assert_memory_equal(tg_tensor_data(handle), tg_tensor_data(before), 12 * sizeof(float));
    /* nothing is drawn for fewer rows */
    assert_int_equal(tg_rng_position(tg_run_rng(run)), position);
    assert_null(tg_nn_embedding_forward(t, &embedding, ids));
    assert_tape_error(t, TG_ERROR_RANGE, "id 8 at [1] is outside [0,4)");

    assert_false(tg_nn_embedding_resize(NULL, 4));
    tg_params *still = tg_params_new(NULL, TG_F32);
    config.from = before;
    tg_nn_embedding given = tg_nn_embedding_make(still, "g", 4, 3, &config);
    assert_false(tg_nn_embedding_resize(&given, 5));
    assert_params_error(still, TG_ERROR_STATE,
                        "nn_embedding_resize: new rows are drawn, but the params have no generator");
    assert_int_equal(tg_tensor_size(given.weight, 0), 4);
    tg_params_free(still);
    tg_release(ids);
    tg_release(added);
    tg_release(before);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(twin);
    tg_run_free(run);
}

/* ---- bags as a module ---- */

static void assert_same(const tg_tensor *a, const tg_tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_true(tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b)));
    assert_memory_equal(tg_tensor_data(a), tg_tensor_data(b), (size_t)tg_tensor_count(a) * sizeof(double));
}

/* The module and tg_embedding_bag on a copy of its table: the same bits, results and gradients, in each mode. */
static void check_bag(tg_bag_mode mode, bool with_offsets, bool with_weights)
{
    tg_run *run = tg_run_new(11);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
    config.mode = mode;
    config.last_offset = with_offsets;
    config.padding_index = -2;
    config.mean = 0.5;
    config.std = 2;
    config.max_norm = 3;
    config.norm_type = 1;
    config.scale_by_frequency = mode != TG_BAG_MAX;
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", 6, 3, &config);
    assert_true(bag.module.is_made);
    assert_string_equal(tg_params_at(params, 0).name, "bag.weight");
    assert_ptr_equal(tg_params_at(params, 0).tensor, bag.weight);
    tg_rng *twin = tg_rng_new(11);
    tg_tensor *start = tg_tensor_new(TG_F64, TG_SHAPE(6, 3), NULL);
    assert_true(tg_tensor_fill_normal(start, twin, 0.5, 2, NULL));
    assert_true(tg_rng_position(tg_run_rng(run)) == tg_rng_position(twin));
    memset((double *)tg_tensor_data_mut(start) + 4 * 3, 0, 3 * sizeof(double));
    assert_same(bag.weight, start);

    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *copy = leaf(start);
    tg_tensor *ids = tensor_i32(with_offsets ? TG_SHAPE(6) : TG_SHAPE(2, 3), (int32_t[]){0, 4, 2, 2, 5, 0});
    tg_tensor *offsets = with_offsets ? tensor_i32(TG_SHAPE(4), (int32_t[]){0, 2, 2, 6}) : NULL;
    tg_tensor *weights = NULL;
    if (with_weights) {
        weights = leaf(tensor_f64(tg_tensor_shape(ids), (double[]){0.5, 2, -1, 3, 0.25, 1}));
    }
    tg_embedding_bag_config plain = tg_embedding_bag_config_default();
    plain.mode = mode;
    plain.offsets = offsets;
    plain.last_offset = with_offsets;
    plain.weights = weights;
    plain.padding_index = 4;
    plain.max_norm = 3;
    plain.norm_type = 1;
    plain.scale_by_frequency = mode != TG_BAG_MAX;
    tg_tensor *expected = tg_embedding_bag(t, ids, copy, &plain);
    tg_tensor *y = tg_nn_embedding_bag_forward(t, &bag, ids, offsets, weights);
    assert_same(y, expected);
    assert_true(tg_shape_equal(tg_tensor_shape(y), TG_SHAPE(with_offsets ? 3 : 2, 3)));
    /* max_norm has scaled the same rows */
    assert_same(bag.weight, copy);
    assert_true(tg_backward(t, tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_true(tg_backward(t, tg_sum(t, tg_mul(t, expected, expected), TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_int_equal(tg_tensor_grad_kind(bag.weight), TG_GRAD_ROWS);
    tg_tensor *gradient = tg_tensor_new_dense_grad(bag.weight, NULL), *same = tg_tensor_new_dense_grad(copy, NULL);
    assert_same(gradient, same);
    tg_tensor *made[] = {gradient, same, ids, offsets, weights, start};
    for (int i = 0; i < 6; i++) {
        tg_release(made[i]);
    }
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(twin);
    tg_run_free(run);
}

static void test_bag_is_the_op(void **state)
{
    (void)state;
    for (int with_offsets = 0; with_offsets < 2; with_offsets++) {
        check_bag(TG_BAG_SUM, with_offsets, false);
        check_bag(TG_BAG_SUM, with_offsets, true);
        check_bag(TG_BAG_MEAN, with_offsets, false);
        check_bag(TG_BAG_MAX, with_offsets, false);
    }
}

/* Neither bags nor another use of the table, nor weight decay, change the padding row. */
static void test_bag_padding_is_frozen(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(2);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
    config.padding_index = 1;
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", 4, 3, &config);
    assert_true(tg_tensor_row_is_frozen(bag.weight, 1) && !tg_tensor_row_is_frozen(bag.weight, 0));
    tg_tensor *before = tg_tensor_new_copy(bag.weight, NULL);
    tg_adamw_config decay = tg_adamw_config_default();
    decay.weight_decay = 0.5;
    tg_optim *optim = tg_adamw_new(params, &decay);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){1, 0, 3, 1});
    for (int i = 0; i < 3; i++) {
        tg_tape_reset(t);
        tg_optim_zero_grad(optim);
        tg_tensor *y = tg_linear(t, tg_nn_embedding_bag_forward(t, &bag, ids, NULL, NULL), bag.weight, NULL);
        assert_true(tg_backward(t, tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
        assert_true(tg_optim_step(optim));
    }
    for (int i = 0; i < 12; i++) {
        bool is_padding = i / 3 == 1;
        assert_true((tg_tensor_value_at(bag.weight, i) == tg_tensor_value_at(before, i)) == is_padding);
        assert_true(!is_padding || tg_tensor_value_at(bag.weight, i) == 0);
    }
    tg_release(ids);
    tg_release(before);
    tg_tape_free(t);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_run_free(run);
}

/* A padding index that counts from the end means the row that it named when the module was made. */
static void test_bag_padding_stays(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *table = tensor_f64(TG_SHAPE(2, 1), (double[]){1, 2});
    tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
    config.mode = TG_BAG_SUM;
    config.from = table;
    config.padding_index = -1;
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", 2, 1, &config);
    assert_true(tg_tensor_resize_rows(table, 3, NULL));
    assert_true(tg_tensor_fill_from(table, (double[]){1, 2, 4}, NULL));
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){0, 1, 2});
    double sum = tg_tensor_item(tg_nn_embedding_bag_forward(t, &bag, ids, NULL, NULL), NULL);
    tg_release(ids);
    tg_release(table);
    tg_tape_free(t);
    tg_params_free(params);
    assert_float_equal(sum, 5, 0);
}

/* A table that is given is shared as it is; it may be frozen as a whole. */
static void test_bag_of_a_given_table(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *table = tensor_f64(TG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6});
    tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
    config.from = table;
    config.padding_index = 0;
    config.frozen = true;
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", 3, 2, &config);
    assert_ptr_equal(bag.weight, table);
    assert_false(tg_tensor_requires_grad(table));
    assert_true(tg_tensor_value_at(table, 0) == 1 && tg_tensor_row_is_frozen(table, 0));
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){0, 1, 2});
    assert_values(tg_nn_embedding_bag_forward(t, &bag, ids, NULL, NULL), (double[]){4, 5}, 2, 0, 0);
    tg_release(ids);
    tg_release(table);
    tg_tape_free(t);
    tg_params_free(params);
}

/* A name may have a *, which patterns of names know. The frozen table is this one alone. */
static void test_frozen_table_with_a_star(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(2);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding plain = tg_nn_embedding_make(params, "words", 3, 2, NULL);
    tg_nn_embedding_config config = tg_nn_embedding_config_default();
    config.frozen = true;
    tg_nn_embedding star = tg_nn_embedding_make(params, "*", 3, 2, &config);
    assert_false(tg_tensor_requires_grad(star.weight));
    assert_true(tg_tensor_requires_grad(plain.weight));
    tg_params_free(params);
    tg_run_free(run);
}

static void test_bag_refuses(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(2);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *table = tg_tensor_new(TG_F64, TG_SHAPE(4, 2), NULL),
              *single = tg_tensor_new(TG_F32, TG_SHAPE(4, 3), NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 2), (int32_t[]){0, 1});
    tg_nn_embedding_bag_config usual = tg_nn_embedding_bag_config_default();
    const struct {
        int64_t rows, width, padding_index;
        double mean, std, max_norm, norm_type;
        tg_tensor *from;
        int mode;
        bool scale_by_frequency;
        tg_code code;
        const char *text;
    } cases[] = {
        {0, 3, TG_NO_PADDING, 0, 1, 0, 2, NULL, 0, false, TG_ERROR_SHAPE,
         "'bag' has 0 rows of width 3; it must have 1 to 2147483647 rows, and a width of at least 1"},
        {4, -1, TG_NO_PADDING, 0, 1, 0, 2, NULL, 0, false, TG_ERROR_SHAPE, "'bag' has 4 rows of width -1;"},
        {4, 3, 4, 0, 1, 0, 2, NULL, 0, false, TG_ERROR_RANGE, "'bag' has padding_index 4, outside [-4,4)"},
        {4, 3, -5, 0, 1, 0, 2, NULL, 0, false, TG_ERROR_RANGE, "'bag' has padding_index -5, outside [-4,4)"},
        {4, 3, TG_NO_PADDING, (double)NAN, 1, 0, 2, NULL, 0, false, TG_ERROR_VALUE,
         "'bag' has mean nan and std 1; both must be finite, and std at least 0"},
        {4, 3, TG_NO_PADDING, 0, -1, 0, 2, NULL, 0, false, TG_ERROR_VALUE, "'bag' has mean 0 and std -1;"},
        {4, 3, TG_NO_PADDING, 0, 1, -2, 2, NULL, 0, false, TG_ERROR_VALUE,
         "'bag' has max_norm -2 and norm_type 2; max_norm must be at least 0 (0: no limit), norm_type above 0"},
        {4, 3, TG_NO_PADDING, 0, 1, 1, 0, NULL, 0, false, TG_ERROR_VALUE, "'bag' has max_norm 1 and norm_type 0;"},
        {4, 3, TG_NO_PADDING, 0, 1, 0, 2, table, 0, false, TG_ERROR_SHAPE, "table of shape (4,2); it must be (4,3)"},
        {4, 3, TG_NO_PADDING, 0, 1, 0, 2, single, 0, false, TG_ERROR_DTYPE, "'bag.weight' is f32;"},
        {4, 3, TG_NO_PADDING, 0, 1, 0, 2, NULL, 3, false, TG_ERROR_VALUE,
         "mode 3 does not exist; it must be TG_BAG_SUM, "
         "TG_BAG_MEAN or TG_BAG_MAX"},
        {4, 3, TG_NO_PADDING, 0, 1, 0, 2, NULL, -1, false, TG_ERROR_VALUE, "mode -1"},
        {4, 3, TG_NO_PADDING, 0, 1, 0, 2, NULL, TG_BAG_MAX, true, TG_ERROR_VALUE,
         "scale_by_frequency is not allowed with TG_BAG_MAX"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_nn_embedding_bag_config config = usual;
        config.padding_index = cases[i].padding_index;
        config.mean = cases[i].mean;
        config.std = cases[i].std;
        config.max_norm = cases[i].max_norm;
        config.norm_type = cases[i].norm_type;
        config.from = cases[i].from;
        config.mode = (tg_bag_mode)cases[i].mode;
        config.scale_by_frequency = cases[i].scale_by_frequency;
        tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", cases[i].rows, cases[i].width, &config);
        assert_true(!bag.module.is_made && !bag.weight);
        /* a forward reports the same */
        assert_null(tg_nn_embedding_bag_forward(t, &bag, ids, NULL, NULL));
        assert_tape_error(t, cases[i].code, cases[i].text);
        assert_params_error(params, cases[i].code, cases[i].text);
        assert_int_equal(tg_params_count(params), 0);
        assert_true(tg_rng_position(tg_run_rng(run)) == 0);
    }
    tg_nn_embedding_bag_config bare = {.mode = TG_BAG_SUM, .padding_index = TG_NO_PADDING, .std = 1, .norm_type = 2};
    tg_nn_embedding_bag_make(params, "bag", 4, 3, &bare);
    assert_params_error(params, TG_ERROR_VALUE, "does not come from tg_nn_embedding_bag_config_default()");
    tg_nn_embedding_bag_make(params, NULL, 4, 3, NULL);
    assert_params_error(params, TG_ERROR_STATE, "nn_embedding_bag_make: the name is NULL");
    assert_false(tg_nn_embedding_bag_make(NULL, "bag", 4, 3, NULL).module.is_made);
    assert_null(tg_nn_embedding_bag_forward(t, NULL, ids, NULL, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "nn_embedding_bag_forward: the module is NULL, or was not made");

    /* what a forward pass refuses is what tg_embedding_bag refuses */
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", 4, 3, NULL);
    tg_tensor *weights = tg_tensor_new(TG_F64, TG_SHAPE(1, 2), NULL),
              *flat = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1});
    tg_tensor *far = tensor_i32(TG_SHAPE(1, 2), (int32_t[]){0, 4}), *begin = tensor_i32(TG_SHAPE(1), (int32_t[]){1});
    assert_null(tg_nn_embedding_bag_forward(t, &bag, ids, NULL, weights));
    assert_tape_error(t, TG_ERROR_VALUE, "embedding_bag: weights need TG_BAG_SUM");
    assert_null(tg_nn_embedding_bag_forward(t, &bag, far, NULL, NULL));
    assert_tape_error(t, TG_ERROR_RANGE, "embedding_bag: id 4 at [0,1] is outside [0,4)");
    assert_null(tg_nn_embedding_bag_forward(t, &bag, flat, begin, NULL));
    assert_tape_error(t, TG_ERROR_RANGE, "embedding_bag: offset 1 at [0]; the first must be 0");
    assert_null(tg_nn_embedding_bag_forward(t, &bag, flat, NULL, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "embedding_bag: ");
    assert_null(tg_nn_embedding_bag_forward(t, &bag, NULL, NULL, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "embedding_bag: ");
    tg_tensor *made[] = {weights, flat, far, begin, ids, table, single};
    for (int i = 0; i < 7; i++) {
        tg_release(made[i]);
    }
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),     cmocka_unit_test(test_resize),
        cmocka_unit_test(test_bag_is_the_op),     cmocka_unit_test(test_bag_padding_is_frozen),
        cmocka_unit_test(test_bag_padding_stays), cmocka_unit_test(test_bag_of_a_given_table),
        cmocka_unit_test(test_bag_refuses),       cmocka_unit_test(test_frozen_table_with_a_star),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
