/* Every option of tg_embedding, alone and in bags, through 50 steps of each kind of optimizer, beside torch's: see
 * make_embedding.py. And tables that are resized. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

enum { ROWS = 12, WIDTH = 5, ENTRIES = 8, VALUES = ROWS * WIDTH + WIDTH + ENTRIES, STEPS = 50, PADDING = 7 };

/* ---- torch's trajectories ---- */

typedef struct trained {
    tg_params *params;
    tg_embedding embedding;
    tg_tensor *bias, *weights;
} trained;

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static tg_embedding_config options_of(const char *name)
{
    tg_embedding_config config = tg_embedding_config_default();
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

static trained make(const char *name, tg_dtype dtype)
{
    trained m = {.params = tg_params_new(dtype, NULL)};
    tg_embedding_config config = options_of(name);
    double values[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        values[i] = i / WIDTH == config.padding_index ? 0 : fmod(i * 0.25 * 7, 3) - 1.5;
    }
    tg_tensor *table = tensor_f64(TG_SHAPE(ROWS, WIDTH), values);
    config.from = tg_tensor_new_cast(table, dtype, NULL);
    m.embedding = tg_embedding_make(m.params, "table", ROWS, WIDTH, &config);
    m.bias = tg_params_add(m.params, "bias", TG_SHAPE(WIDTH));
    m.weights = tg_params_add(m.params, "weights", TG_SHAPE(ENTRIES));
    assert_int_equal(tg_params_error_code(m.params), TG_OK);
    tg_tensor *bias = tensor_f64(TG_SHAPE(WIDTH), (double[]){0.5, -0.25, 1, 0, -1});
    tg_tensor *weights = tg_tensor_new_arange(TG_F64, 0.5, 2.5, 0.25, NULL);
    tg_tensor *starts[] = {tg_tensor_new_cast(bias, dtype, NULL), tg_tensor_new_cast(weights, dtype, NULL)};
    assert_true(tg_fill_copy(m.bias, starts[0], NULL) && tg_fill_copy(m.weights, starts[1], NULL));
    tg_tensor *made[] = {table, config.from, bias, weights, starts[0], starts[1]};
    for (int i = 0; i < 6; i++) {
        tg_release(made[i]);
    }
    return m;
}

static tg_optim *optimizer(const char *name, tg_params *params)
{
    tg_adam_config adam = tg_adam_config_default(), adamw = tg_adamw_config_default();
    tg_adagrad_config adagrad = tg_adagrad_config_default();
    adam.lr = adamw.lr = 0.02;
    adamw.weight_decay = 0.1;
    adagrad.lr = 0.05;
    return is(name, "sgd")     ? tg_sgd_new(params, &(tg_sgd_config){.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01})
           : is(name, "adam")  ? tg_adam_new(params, &adam)
           : is(name, "adamw") ? tg_adamw_new(params, &adamw)
           : is(name, "sparse_sgd")     ? tg_sgd_new(params, &(tg_sgd_config){.lr = 0.1})
           : is(name, "sparse_adagrad") ? tg_adagrad_new(params, &adagrad)
                                        : tg_sparse_adam_new(params, &(tg_sparse_adam_config){0.02, 0.9, 0.999, 1e-8});
}

/* The rows of a step: (8,5), or those of 2 or 4 bags. */
static tg_tensor *forward(tg_tape *t, const trained *m, const char *name, const int32_t *drawn)
{
    bool max = strncmp(name, "max_mode", 8) == 0 || is(name, "max_padded");
    bool bags = max || strncmp(name, "bag", 3) == 0 || is(name, "mean_frequency");
    bool ends = is(name, "bag_last_offset");
    bool flat = strstr(name, "offset") || is(name, "max_padded") || is(name, "mean_frequency");
    tg_tensor *ids = tensor_i32(bags && !flat ? TG_SHAPE(2, 4) : TG_SHAPE(8), drawn);
    tg_tensor *offsets = tensor_i32(TG_SHAPE(4 + ends), (int32_t[]){0, 3, 3, 7, 8});
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    bool sum = is(name, "bag_sum") || ends || strstr(name, "weighted") || is(name, "bag_frequency");
    config.mode = max ? TG_BAG_MAX : sum ? TG_BAG_SUM : TG_BAG_MEAN;
    config.offsets = flat ? offsets : NULL;
    config.last_offset = ends;
    config.weights = !strstr(name, "weighted") ? NULL : flat ? m->weights : tg_reshape(t, m->weights, TG_SHAPE(2, 4));
    tg_tensor *y =
        bags ? tg_embedding_bag_forward(t, &m->embedding, ids, &config) : tg_embedding_forward(t, &m->embedding, ids);
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
    tg_tensor *y = forward(t, m, name, ids), *table = m->embedding.weight;
    y = is(name, "tied") ? tg_linear_map(t, y, table) : tg_add(t, y, m->bias);
    tg_tensor *wanted = tensor_i32(TG_SHAPE(y ? tg_size(y, 0) : 0), targets);
    tg_tensor *loss = tg_cross_entropy(t, y, wanted);
    if (dense) { /* a contribution of zeros, but to every row */
        loss = tg_add(t, loss, tg_mul_scalar(t, tg_sum(t, table, TG_ALL_AXES, TG_DROP_AXES), 0));
    }
    assert_true(tg_backward(t, loss));
    tg_release(wanted);
    assert_int_equal(tg_gradient_kind_of(table), is(name, "frozen")          ? TG_GRADIENT_NONE
                                                 : dense || is(name, "tied") ? TG_GRADIENT_DENSE
                                                                             : TG_GRADIENT_ROWS);
}

static void check_case(const char *name, const char *method, tg_dtype dtype, const double *want, bool dense)
{
    trained m = make(name, dtype);
    tg_optim *optim = optimizer(method, m.params);
    tg_tape *t = tg_tape_new(NULL);
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
        double value = i < ROWS * WIDTH         ? tg_value_at(m.embedding.weight, i)
                       : i < (ROWS + 1) * WIDTH ? tg_value_at(m.bias, i - ROWS * WIDTH)
                                                : tg_value_at(m.weights, i - (ROWS + 1) * WIDTH);
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
    tg_rng *rng = tg_rng_new(5);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = -1; /* row 3, and row 3 it stays */
    config.mean = 1;
    config.std = 0.5;
    tg_embedding embedding = tg_embedding_make(params, "e", 4, 3, &config);
    tg_tensor *handle = embedding.weight, *before = tg_tensor_new_copy(embedding.weight, NULL);
    tg_rng *twin = tg_rng_new(0);
    tg_rng_copy(twin, rng);
    tg_error error = TG_NO_ERROR;
    assert_true(tg_embedding_resize(&embedding, 9, &error));
    assert_ptr_equal(embedding.weight, handle);
    assert_memory_equal(tg_data(handle), tg_data(before), 12 * sizeof(float));
    tg_tensor *added = tg_tensor_new(TG_F32, TG_SHAPE(5, 3), NULL);
    assert_true(tg_fill_normal(added, twin, 1, 0.5, NULL)); /* as a table of 5 rows would begin */
    assert_memory_equal((const float *)tg_data(handle) + 12, tg_data(added), 15 * sizeof(float));

    tg_tape *t = tg_tape_new(NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){3, 8, 3});
    assert_true(tg_backward(t, tg_sum(t, tg_embedding_forward(t, &embedding, ids), TG_ALL_AXES, TG_DROP_AXES)));
    assert_int_equal(tg_grad_rows(handle).count, 1);
    assert_int_equal(tg_grad_rows(handle).ids[0], 8);
    tg_tape_reset(t);

    assert_false(tg_embedding_resize(&embedding, 12, &error));
    assert_error(&error, TG_ERROR_STATE, "the table has a gradient");
    tg_zero_grad(handle);
    assert_false(tg_embedding_resize(&embedding, 3, &error));
    assert_error(&error, TG_ERROR_STATE, "row 3 is frozen (a padding row?)");
    assert_false(tg_embedding_resize(&embedding, 0, &error));
    assert_error(&error, TG_ERROR_SHAPE, "0 rows");
    uint64_t position = tg_rng_position(rng);
    assert_true(tg_embedding_resize(&embedding, 4, &error));
    assert_memory_equal(tg_data(handle), tg_data(before), 12 * sizeof(float));
    assert_int_equal(tg_rng_position(rng), position); /* nothing drawn for fewer rows */
    assert_null(tg_embedding_forward(t, &embedding, ids));
    assert_tape_error(t, TG_ERROR_RANGE, "id 8 at [1] is outside [0,4)");

    assert_false(tg_embedding_resize(NULL, 4, &error));
    assert_error(&error, TG_ERROR_STATE, "embedding_resize: the embedding has no table");
    tg_params *still = tg_params_new(TG_F32, NULL);
    config.from = before;
    tg_embedding given = tg_embedding_make(still, "g", 4, 3, &config);
    assert_false(tg_embedding_resize(&given, 5, &error));
    assert_error(&error, TG_ERROR_STATE, "new rows need the params' generator");
    assert_int_equal(tg_size(given.weight, 0), 4);
    tg_params_free(still);
    tg_release(ids);
    tg_release(added);
    tg_release(before);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(twin);
    tg_rng_free(rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
        cmocka_unit_test(test_resize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
