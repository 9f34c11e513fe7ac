/* A GPT whose vocabulary or context is resized: its results for old tokens and positions stay the same. */
#include <math.h>
#include <string.h>

#include "support.h"

typedef struct job {
    tg_run *run;
    tg_params *params;
    tg_gpt *model;
    tg_optim *optim;
    tg_tape *tape;
} job;

static tg_gpt_config config_of(int64_t vocabulary, int64_t context, int64_t width, bool tied, tg_position position)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = vocabulary;
    config.context = context;
    config.width = width;
    config.heads = 2;
    config.layers = 1;
    config.tied_head = tied;
    config.position = position;
    return config;
}

static job begin(tg_gpt_config config)
{
    job j = {.run = tg_run_new(3)};
    j.params = tg_params_new(j.run, TG_F64);
    j.model = tg_gpt_new(j.params, &config);
    j.optim = tg_adam_new(j.params, NULL);
    j.tape = tg_tape_new(j.run, NULL);
    assert_non_null(j.model);
    assert_non_null(j.optim);
    return j;
}

static void end(job *j)
{
    tg_optim_free(j->optim);
    tg_tape_free(j->tape);
    tg_gpt_free(j->model);
    tg_params_free(j->params);
    tg_run_free(j->run);
}

static tg_tensor *logits(job *j, int64_t length, const int32_t *ids)
{
    tg_tensor *at = tensor_i32(TG_SHAPE(1, length), ids);
    tg_tensor *y = tg_gpt_forward(j->tape, j->model, at, NULL);
    tg_release(at);
    return y;
}

static void step(job *j, const int32_t *ids)
{
    tg_tensor *targets = tensor_i32(TG_SHAPE(1, 3), ids);
    tg_optim_zero_grad(j->optim);
    assert_true(tg_backward(j->tape, tg_cross_entropy(j->tape, logits(j, 3, ids), targets, NULL), NULL));
    assert_true(tg_optim_step(j->optim));
    tg_optim_zero_grad(j->optim);
    tg_tape_reset(j->tape);
    tg_release(targets);
}

static void test_vocabulary(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        job j = begin(config_of(5, 4, 6, tied, TG_POSITION_LEARNED));
        step(&j, (int32_t[]){4, 1, 0});
        tg_tensor *before = tg_tensor_new_copy(logits(&j, 3, (int32_t[]){4, 1, 0}), NULL);
        tg_tape_reset(j.tape);
        tg_rng *twin = tg_rng_new(0);
        tg_rng_copy(twin, tg_run_rng(j.run));
        assert_true(tg_gpt_resize_vocabulary(j.model, 8));
        assert_int_equal(tg_gpt_get_config(j.model)->vocabulary, 8);
        tg_tensor *after = logits(&j, 3, (int32_t[]){4, 1, 0});
        assert_true(tg_shape_equal(tg_tensor_shape(after), TG_SHAPE(1, 3, 8)));
        /* old tokens: the same logits */
        for (int i = 0; i < 15; i++) {
            assert_float_equal(tg_tensor_value_at(after, i / 5 * 8 + i % 5), tg_tensor_value_at(before, i), 1e-14);
        }
        /* new rows: the table's first, then the head's, if it has its own */
        tg_tensor *rows = tg_tensor_new(TG_F64, TG_SHAPE(3, 6), NULL);
        const double *table = tg_tensor_data(tg_params_find(j.params, "tok_emb.weight"));
        const double *head = tg_tensor_data(tg_params_find(j.params, "out_head.weight"));
        assert_true(tg_tensor_fill_normal(rows, twin, 0, 1, NULL));
        assert_memory_equal(table + 30, tg_tensor_data(rows), 18 * sizeof(double));
        if (!tied) {
            assert_true(tg_tensor_fill_uniform(rows, twin, -1 / sqrt(6), 1 / sqrt(6), NULL));
        }
        assert_memory_equal(head + 30, tg_tensor_data(rows), 18 * sizeof(double));
        tg_tape_reset(j.tape);
        /* until the optimizer follows, the tables cannot change again */
        assert_false(tg_gpt_resize_vocabulary(j.model, 9));
        assert_params_error(j.params, TG_ERROR_STATE, "an optimizer that holds it has made no step since");
        assert_int_equal(tg_gpt_get_config(j.model)->vocabulary, 8);
        step(&j, (int32_t[]){7, 1, 6});
        assert_int_equal(tg_optim_steps(j.optim, "tok_emb.weight"), 2);
        assert_true(tg_gpt_resize_vocabulary(j.model, 5));
        assert_null(logits(&j, 3, (int32_t[]){7, 1, 6}));
        assert_tape_error(j.tape, TG_ERROR_RANGE, "id 7 at [0,0] is outside [0,5)");
        assert_false(tg_gpt_resize_vocabulary(j.model, 0));
        assert_params_error(j.params, TG_ERROR_SHAPE, "0 rows");
        assert_int_equal(tg_gpt_get_config(j.model)->vocabulary, 5);
        tg_release(rows);
        tg_release(before);
        tg_rng_free(twin);
        end(&j);
    }
}

/* Tables that were given different sizes one by one: each keeps its own rows. */
static void test_vocabulary_of_uneven_tables(void **state)
{
    (void)state;
    job j = begin(config_of(8, 4, 6, false, TG_POSITION_LEARNED));
    tg_error error = TG_NO_ERROR;
    tg_tensor *head = tg_params_find(j.params, "out_head.weight"), *table = tg_params_find(j.params, "tok_emb.weight");
    tg_tensor_fill(head, 1, NULL);
    assert_true(tg_tensor_resize_rows(table, 4, &error));
    /* the optimizer has not followed yet: neither table changes, and nothing is drawn */
    uint64_t position = tg_rng_position(tg_run_rng(j.run));
    assert_false(tg_gpt_resize_vocabulary(j.model, 10));
    assert_params_error(j.params, TG_ERROR_STATE, "an optimizer that holds it has made no step since");
    assert_true(tg_tensor_size(table, 0) == 4 && tg_tensor_size(head, 0) == 8 &&
                tg_rng_position(tg_run_rng(j.run)) == position);
    tg_optim_free(j.optim);
    j.optim = NULL;
    assert_true(tg_gpt_resize_vocabulary(j.model, 10));
    for (int i = 0; i < 60; i++) {
        assert_true((tg_tensor_value_at(head, i) == 1) == (i < 48));
        assert_true(tg_tensor_value_at(table, i) != 0);
    }
    int64_t sizes[] = {INT64_MIN, 0, INT64_C(3000000000), INT64_MAX};
    for (int i = 0; i < 4; i++) {
        assert_false(tg_gpt_resize_vocabulary(j.model, sizes[i]));
        assert_params_error(j.params, TG_ERROR_SHAPE, "it must be 1 to 2147483647");
    }
    end(&j);
}

/* Either both tables have the new size or none, and the generator has not moved: every allocation fails once. */
static void test_vocabulary_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting = {0};
    allocator_install(&counting);
    job j = begin(config_of(5, 4, 6, false, TG_POSITION_LEARNED));
    assert_true(tg_tensor_set_rows_watched(tg_params_find(j.params, "out_head.weight"), true, NULL));
    bool done = false;
    size_t k = 0;
    while (!done) {
        uint64_t position = tg_rng_position(tg_run_rng(j.run));
        allocator_arm(&counting, ++k, false);
        done = tg_gpt_resize_vocabulary(j.model, 9);
        allocator_arm(&counting, 0, false);
        int64_t rows = done ? 9 : 5;
        assert_int_equal(tg_params_error(j.params)->code, done ? TG_OK : TG_ERROR_MEMORY);
        clear_params_error(j.params);
        assert_int_equal(tg_tensor_size(tg_params_find(j.params, "tok_emb.weight"), 0), rows);
        assert_int_equal(tg_tensor_size(tg_params_find(j.params, "out_head.weight"), 0), rows);
        assert_int_equal(tg_gpt_get_config(j.model)->vocabulary, rows);
        assert_true((tg_rng_position(tg_run_rng(j.run)) == position) == !done);
    }
    assert_true(k > 5);
    end(&j);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

static void test_context(void **state)
{
    (void)state;
    for (tg_position kind = TG_POSITION_LEARNED; kind <= TG_POSITION_NONE; kind++) {
        job j = begin(config_of(5, 3, 8, true, kind));
        const int32_t ids[] = {4, 1, 0, 2, 3};
        tg_tensor *before = tg_tensor_new_copy(logits(&j, 3, ids), NULL);
        assert_null(logits(&j, 5, ids));
        assert_tape_error(j.tape, TG_ERROR_RANGE, "gpt_forward: 5 positions from 0 on; the context is 3");
        tg_tape_reset(j.tape);
        tg_tensor *table = tg_params_find(j.params, "pos_emb.weight");
        double last = table ? tg_tensor_value_at(table, 2 * 8 + 5) : 0;
        if (kind == TG_POSITION_RELATIVE_KEY || kind == TG_POSITION_RELATIVE_KEY_QUERY) {
            /* their tables have a row for each distance */
            assert_false(tg_gpt_extend_context(j.model, 5));
            assert_params_error(j.params, TG_ERROR_VALUE, "context");
            assert_int_equal(tg_gpt_get_config(j.model)->context, 3);
            tg_release(before);
            end(&j);
            continue;
        }
        assert_true(tg_gpt_extend_context(j.model, 5));
        assert_non_null(logits(&j, 5, ids));
        if (kind == TG_POSITION_LEARNED) {
            /* stretched: the last position is still the last one */
            assert_float_equal(tg_tensor_value_at(table, 4 * 8 + 5), last, 1e-15);
            assert_int_equal(tg_tensor_size(table, 0), 5);
        } else {
            /* the others only continue */
            tg_tensor *after = logits(&j, 3, ids);
            for (int i = 0; i < 15; i++) {
                assert_float_equal(tg_tensor_value_at(after, i), tg_tensor_value_at(before, i), 1e-14);
            }
        }
        if (kind == TG_POSITION_SINUSOIDAL) {
            assert_float_equal(tg_tensor_value_at(table, 4 * 8), sin(4), 1e-14);
            assert_float_equal(tg_tensor_value_at(table, 4 * 8 + 7), cos(4 / 1000.0), 1e-14);
        }
        tg_tape_reset(j.tape);
        assert_false(tg_gpt_extend_context(j.model, 4));
        assert_params_error(j.params, TG_ERROR_RANGE,
                            "gpt_extend_context: context 4; the context is 5 and cannot shrink");
        assert_int_equal(tg_gpt_get_config(j.model)->context, 5);
        tg_release(before);
        end(&j);
    }
    assert_false(tg_gpt_extend_context(NULL, 4));
    assert_false(tg_gpt_resize_vocabulary(NULL, 4));
}

/* One position is repeated; frozen ones are not overwritten; what is long enough stays as it is. */
static void test_context_of_one(void **state)
{
    (void)state;
    job j = begin(config_of(5, 1, 8, true, TG_POSITION_LEARNED));
    tg_error error = TG_NO_ERROR;
    tg_tensor *table = tg_params_find(j.params, "pos_emb.weight");
    assert_true(tg_gpt_extend_context(j.model, 3));
    for (int i = 0; i < 24; i++) {
        assert_true(tg_tensor_value_at(table, i) == tg_tensor_value_at(table, i % 8));
    }
    assert_true(tg_tensor_set_rows_frozen(table, 1, 1, true, &error));
    assert_false(tg_gpt_extend_context(j.model, 4));
    assert_params_error(j.params, TG_ERROR_STATE, "rows of the table are frozen");
    assert_int_equal(tg_gpt_get_config(j.model)->context, 3);
    tg_tensor *targets = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){1, 2, 3});
    tg_tensor *y = logits(&j, 3, (int32_t[]){1, 2, 3});
    assert_true(tg_backward(j.tape, tg_cross_entropy(j.tape, y, targets, NULL), NULL));
    /* with a gradient, but nothing to do */
    assert_true(tg_gpt_extend_context(j.model, 3));
    tg_release(targets);
    end(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_vocabulary_of_uneven_tables),
        cmocka_unit_test(test_vocabulary_out_of_memory),
        cmocka_unit_test(test_context_of_one),
        cmocka_unit_test(test_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
