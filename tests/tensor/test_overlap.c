/* Calls that write into a tensor whose values share memory, or from a source that shares memory with it: an error, or
 * the right result. tests/lint/api compares the calls with the headers. */
#include <string.h>

#include "support.h"
#include "tensor/tensor.h"

enum { SIDE = 40 };

typedef struct layout {
    int64_t stride[2], offset;
} layout;

static tg_error error;
static tg_rng *rng;
static tg_tensor *base;
static float before[SIDE * SIDE];
static uint8_t states[2][TG_RNG_TORCH_STATE_SIZE];

static tg_tensor *view(tg_tensor *of, int64_t rows, int64_t columns, layout l)
{
    tg_shape shape = TG_SHAPE(rows, columns);
    return tg_tensor_make_view(NULL, of, &shape, l.stride, l.offset);
}

/* `part` is that of the error, or NULL. After an error the values and the generator must be as before. */
static void expect(const char *call, bool passed, const char *part)
{
    if (passed != !part || (part && !strstr(error.text, part)) || (part && !strstr(error.text, call + strlen("tg_")))) {
        fail_msg("%s: %d, \"%s\"; expected \"%s\"", call, passed, error.text, part ? part : "");
    }
    tg_rng_save_torch_state(rng, states[1], NULL);
    assert_true(!part || memcmp(states[1], states[0], sizeof *states) == 0);
    assert_true(!part || memcmp(tg_tensor_data(base), before, sizeof before) == 0);
    tg_rng_save_torch_state(rng, states[0], NULL);
    memcpy(before, tg_tensor_data(base), sizeof before);
    tg_error_clear(&error);
}

static void test_targets(void **state)
{
    (void)state;
    const layout layouts[] = {{{0, 1}, 0}, {{1, 0}, 0}, {{1, 1}, 2}, {{-1, 0}, 9}, {{1, 3}, 0}, {{3, -1}, 2}};
    tg_tensor *counts = tg_tensor_new(TG_I32, TG_SHAPE(10), NULL), *targets = tg_tensor_new(TG_I32, TG_SHAPE(3), NULL);
    tg_tensor *zeros = tg_tensor_new(TG_F32, TG_SHAPE(3, 3), NULL);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const char *share = i < 4 ? "share memory" : NULL;
        tg_tensor *x = view(base, 3, 3, layouts[i]), *matrix = view(counts, 3, 3, layouts[i]);
        expect("tg_tensor_fill", tg_tensor_fill(x, 5, &error), NULL);
        assert_values(x, (double[]){5, 5, 5, 5, 5, 5, 5, 5, 5}, 9, 0, 0);
        expect("tg_tensor_fill_from", tg_tensor_fill_from(x, before, &error), share);
        expect("tg_tensor_copy_from", tg_tensor_copy_from(x, zeros, &error), share);
        expect("tg_tensor_fill_uniform", tg_tensor_fill_uniform(x, rng, 0, 1, &error), share);
        expect("tg_tensor_fill_normal", tg_tensor_fill_normal(x, rng, 0, 1, &error), share);
        expect("tg_tensor_fill_bernoulli", tg_tensor_fill_bernoulli(x, rng, 0.5, &error), share);
        expect("tg_tensor_fill_randint", tg_tensor_fill_randint(x, rng, 0, 9, &error), share);
        expect("tg_init_xavier_uniform", tg_init_xavier_uniform(x, rng, 1, &error), share);
        expect("tg_init_xavier_normal", tg_init_xavier_normal(x, rng, 1, &error), share);
        expect("tg_init_kaiming_uniform", tg_init_kaiming_uniform(x, rng, 1, TG_FAN_IN, &error), share);
        expect("tg_init_kaiming_normal", tg_init_kaiming_normal(x, rng, 1, TG_FAN_IN, &error), share);
        expect("tg_init_trunc_normal", tg_init_trunc_normal(x, rng, 0, 1, -2, 2, &error), share ? share : "with gaps");
        expect("tg_confusion_add", tg_confusion_add(matrix, zeros, targets, NULL, &error), share);
        /* The state of the rows, and the gradient, are no values of x. */
        expect("tg_tensor_set_rows_frozen", tg_tensor_set_rows_frozen(x, 2, 1, true, &error), NULL);
        expect("tg_tensor_set_rows_watched", tg_tensor_set_rows_watched(x, true, &error), NULL);
        expect("tg_tensor_resize_rows", tg_tensor_resize_rows(x, 4, &error), "another tensor shares");
        expect("tg_tensor_set_shard", tg_tensor_set_shard(x, 0, 4, &error), NULL);
        expect("tg_tensor_set_requires_grad", tg_tensor_set_requires_grad(x, true, &error), NULL);
        expect("tg_tensor_reserve_grad", tg_tensor_reserve_grad(x, TG_GRAD_ROWS, 1, &error), NULL);
        const float *values = (const float[]){1, 2, 3, 4, 5, 6};
        expect("tg_tensor_add_grad_rows", tg_tensor_add_grad_rows(x, (int32_t[]){1, 0}, values, 2, &error), NULL);
        values = tg_tensor_grad_rows(x).values;
        expect("tg_tensor_add_grad_rows", tg_tensor_add_grad_rows(x, (int32_t[]){0, 1}, values, 2, &error), NULL);
        expect("tg_tensor_make_grad_dense", tg_tensor_make_grad_dense(x, &error), NULL);
        assert_values(tg_tensor_grad(x), (double[]){5, 7, 9, 5, 7, 9, 0, 0, 0}, 9, 0, 0);
        tg_release(x);
        tg_release(matrix);
    }
    /* Two parameters that share values would be trained twice, and loaded twice. */
    tg_params *params = tg_params_new(NULL, TG_F32);
    for (int i = 0; i < 3; i++) {
        tg_tensor *part = view(base, 2, 3, (layout){{3, 1}, (const int[]){6, 0, 3}[i]});
        assert_int_equal(tg_params_add_existing(params, (const char *const[]){"a", "b", "c"}[i], part) != NULL, i < 2);
        tg_release(part);
    }
    assert_params_error(params, TG_ERROR_STATE, "params: the tensor for 'c' shares memory with 'a'");
    tg_params_free(params);
    tg_release(counts);
    tg_release(zeros);
    tg_release(targets);
}

/* All pairs of views of one matrix, and arrays inside of it, beside a copy of the source. */
static void test_sources(void **state)
{
    (void)state;
    const layout layouts[] = {{{40, 1}, 0},   {{1, 40}, 0},    {{40, 1}, 41}, {{1, 40}, 1},     {{-40, -1}, 999},
                              {{-1, 40}, 20}, {{40, -1}, 820}, {{80, 2}, 3},  {{2, -80}, 1523}, {{20, 1}, 7},
                              {{0, 1}, 400},  {{40, 0}, 5},    {{0, 0}, 123}};
    for (int trial = 0; trial < 10 * 13 * 4; trial++) {
        int64_t rows = trial % 2 ? 20 : 3, columns = trial % 4 < 2 ? 20 : 5;
        layout to = layouts[trial / 4 % 10], from = layouts[trial / 40];
        float *values = tg_tensor_data_mut(base);
        for (int i = 0; i < SIDE * SIDE; i++) {
            before[i] = values[i] = (float)i;
        }
        for (int64_t i = 0, row, column; i < rows * columns; i++) {
            row = i / columns, column = i % columns;
            before[to.offset + row * to.stride[0] + column * to.stride[1]] =
                values[from.offset + row * from.stride[0] + column * from.stride[1]];
        }
        tg_tensor *x = view(base, rows, columns, to), *y = view(base, rows, columns, from);
        values += from.offset;
        assert_true(y->contiguous ? tg_tensor_fill_from(x, values, &error) : tg_tensor_copy_from(x, y, &error));
        assert_memory_equal(tg_tensor_data(base), before, sizeof before);
        tg_release(x);
        tg_release(y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_targets), cmocka_unit_test(test_sources)};
    rng = tg_rng_new(1);
    base = tg_tensor_new(TG_F32, TG_SHAPE(SIDE, SIDE), NULL);
    tg_rng_save_torch_state(rng, states[0], NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
