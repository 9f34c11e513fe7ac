/* The loss of word2vec besides what all ops are tested for: bits, rows, tables that change, and deferred optimizers. */
#include "base/level.h"
#include "support.h"
#include "tensor/tensor.h"

#include <string.h>

/* The pairs of a few centers, each with several contexts, and negatives of which some are the target. */
enum { PAIRS = 1500, K = 4, ROWS = 90 };

typedef struct problem {
    tg_tensor *centers, *targets;
} problem;

static problem problem_make(uint64_t seed)
{
    tg_rng *rng = tg_rng_new(seed);
    problem p = {tg_tensor_new(TG_I32, TG_SHAPE(PAIRS), NULL), tg_tensor_new(TG_I32, TG_SHAPE(PAIRS, K), NULL)};
    assert_true(tg_tensor_fill_randint(p.targets, rng, 0, ROWS, NULL));
    int32_t *centers = tg_tensor_data_mut(p.centers), *targets = tg_tensor_data_mut(p.targets);
    for (int i = 0; i < PAIRS; i++) {
        centers[i] = i / 10 * 7 % ROWS;
        targets[i * K] = i % 3 ? i % 5 : targets[i * K];
        targets[i * K + 1] = i % 11 ? targets[i * K + 1] : targets[i * K];
    }
    tg_rng_free(rng);
    return p;
}

static void problem_free(problem *p)
{
    tg_release(p->centers);
    tg_release(p->targets);
}

static tg_tensor *table_of(tg_dtype dtype, int64_t width, uint64_t seed)
{
    tg_rng *rng = tg_rng_new(seed);
    tg_tensor *table = tg_tensor_new(dtype, TG_SHAPE(ROWS, width), NULL);
    assert_true(tg_tensor_fill_normal(table, rng, 0, 0.5, NULL));
    tg_rng_free(rng);
    return leaf(table);
}

/* The losses, and the gradients of both tables. */
typedef struct result {
    tg_tensor *parts[3];
} result;

static result compute(const problem *p, tg_dtype dtype, int64_t width, tg_reduction reduction, bool dense)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *tables[2] = {table_of(dtype, width, 1), table_of(dtype, width, 2)};
    tg_tensor *loss = tg_skip_gram_loss(t, p->centers, tables[0], p->targets, tables[1], reduction);
    assert_non_null(loss);
    result r = {{tg_tensor_new_copy(loss, NULL)}};
    for (int k = 0; k < 2 && dense; k++) {
        assert_true(tg_tensor_make_grad_dense(tables[k], NULL));
    }
    assert_true(tg_backward(t, reduction == TG_REDUCTION_NONE ? tg_sum_all(t, loss) : loss, NULL));
    for (int k = 0; k < 2; k++) {
        assert_int_equal(tg_tensor_grad_kind(tables[k]), dense ? TG_GRAD_DENSE : TG_GRAD_ROWS);
        r.parts[1 + k] = tg_tensor_new_dense_grad(tables[k], NULL);
        tg_release(tables[k]);
    }
    tg_tape_free(t);
    return r;
}

static void result_free(result *r)
{
    for (int i = 0; i < 3; i++) {
        tg_release(r->parts[i]);
    }
}

static void assert_same_bits(const result *a, const result *b, const char *what)
{
    for (int i = 0; i < 3; i++) {
        if (memcmp(tg_values(a->parts[i]), tg_values(b->parts[i]), tg_bytes_of(a->parts[i]))) {
            fail_msg("%s: other bits in part %d", what, i);
        }
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    static const int64_t widths[] = {1, 15, 16, 17, 33, 100, 300};
    problem p = problem_make(1);
    const int threads_before = tg_threads();
    const tg_cpu_level before = tg_get_cpu_level();
    for (size_t i = 0; i < 4 * sizeof widths / sizeof *widths; i++) {
        const tg_dtype dtype = i % 2 ? TG_F64 : TG_F32;
        const tg_reduction reduction = i / 2 % 2 ? TG_REDUCTION_NONE : TG_REDUCTION_SUM;
        assert_true(tg_set_cpu_level(TG_CPU_BASELINE, NULL) && tg_set_threads(1, NULL));
        result first = compute(&p, dtype, widths[i / 4], reduction, false);
        for (int level = 0; level <= tg_level_highest(); level++) {
            for (int threads = 1; threads <= 3; threads++) {
                for (int dense = 0; dense < 2; dense++) {
                    char what[100];
                    snprintf(what, sizeof what, "width %d, level %d, %d threads", (int)widths[i / 4], level, threads);
                    assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL) && tg_set_threads(threads, NULL));
                    result other = compute(&p, dtype, widths[i / 4], reduction, dense);
                    assert_same_bits(&first, &other, what);
                    result_free(&other);
                }
            }
        }
        result_free(&first);
    }
    assert_true(tg_set_cpu_level(before, NULL) && tg_set_threads(threads_before, NULL));
    problem_free(&p);
}

/* Tables that are views, with rows that are copied in several parts: the bits are those of contiguous tables. */
static void test_views(void **state)
{
    (void)state;
    enum { WIDTH = 600 };
    problem p = problem_make(4);
    for (int layout = 0; layout < 3; layout++) {
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *wide = tg_tensor_new(TG_F32, layout == 2 ? TG_SHAPE(WIDTH, ROWS) : TG_SHAPE(ROWS, 2 * WIDTH), NULL);
        tg_tensor *losses[2], *gradients[2];
        tg_rng *rng = tg_rng_new(5);
        assert_true(tg_tensor_fill_normal(wide, rng, 0, 0.5, NULL) && tg_tensor_set_requires_grad(wide, true, NULL));
        for (int copied = 0; copied < 2; copied++) {
            tg_tensor *view = layout == 0   ? tg_slice(t, wide, 1, 0, INT64_MAX, 2)
                              : layout == 1 ? tg_slice(t, wide, 1, WIDTH - 1, 2 * WIDTH - 1, 1)
                                            : tg_transpose(t, wide, 0, 1);
            tg_tensor *table = copied ? tg_contiguous(t, view) : view;
            tg_tensor *loss = tg_skip_gram_loss(t, p.centers, table, p.targets, table, TG_REDUCTION_SUM);
            assert_true(loss && tg_backward(t, loss, NULL));
            losses[copied] = tg_tensor_new_copy(loss, NULL);
            gradients[copied] = tg_tensor_new_dense_grad(wide, NULL);
            tg_tensor_zero_grad(wide);
        }
        assert_memory_equal(tg_values(losses[0]), tg_values(losses[1]), tg_bytes_of(losses[0]));
        assert_memory_equal(tg_values(gradients[0]), tg_values(gradients[1]), tg_bytes_of(gradients[0]));
        for (int i = 0; i < 2; i++) {
            tg_release(losses[i]);
            tg_release(gradients[i]);
        }
        tg_release(wide);
        tg_rng_free(rng);
        tg_tape_free(t);
    }
    problem_free(&p);
}

/* A sum, and the sum of losses that are outputs, whose groups have one pair. */
static void test_groups(void **state)
{
    (void)state;
    problem p = problem_make(2);
    result whole = compute(&p, TG_F64, 20, TG_REDUCTION_SUM, false);
    result each = compute(&p, TG_F64, 20, TG_REDUCTION_NONE, false);
    double sum = 0;
    for (int64_t i = 0; i < PAIRS; i++) {
        sum += tg_tensor_value_at(each.parts[0], i);
    }
    assert_values(whole.parts[0], &sum, 1, 1e-13, 0);
    for (int k = 1; k < 3; k++) {
        assert_values(whole.parts[k], tg_tensor_data(each.parts[k]), ROWS * 20, 1e-12, 1e-12);
    }
    result_free(&whole);
    result_free(&each);
    problem_free(&p);
}

/* Backward gives the gradient at the values of the call, also if both tables have changed since then. */
static void test_changed_tables(void **state)
{
    (void)state;
    problem p = problem_make(3);
    tg_tape *t = tg_tape_new(NULL, NULL);
    result expected = compute(&p, TG_F32, 12, TG_REDUCTION_SUM, false);
    tg_tensor *tables[2] = {table_of(TG_F32, 12, 1), table_of(TG_F32, 12, 2)};
    tg_tensor *loss = tg_skip_gram_loss(t, p.centers, tables[0], p.targets, tables[1], TG_REDUCTION_SUM);
    result r = {{tg_tensor_new_copy(loss, NULL)}};
    for (int k = 0; k < 2; k++) {
        assert_true(tg_tensor_fill(tables[k], 7, NULL));
    }
    assert_true(tg_backward(t, loss, NULL));
    for (int k = 0; k < 2; k++) {
        r.parts[1 + k] = tg_tensor_new_dense_grad(tables[k], NULL);
        tg_release(tables[k]);
    }
    assert_same_bits(&r, &expected, "changed tables");
    result_free(&r);
    result_free(&expected);
    tg_tape_free(t);
    problem_free(&p);
}

/* Only named rows have a gradient, each once; and a step of SGD changes these rows alone. */
static void test_rows(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *table = tg_params_add(params, "words", TG_SHAPE(ROWS, 2));
    tg_tensor *contexts = tg_params_add(params, "contexts", TG_SHAPE(ROWS, 2));
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 1;
    tg_optim *optim = tg_sgd_new(params, &config);
    assert_true(tg_tensor_fill(table, 1, NULL) && tg_tensor_fill(contexts, 0, NULL));
    tg_tensor *centers = tensor_i32(TG_SHAPE(2), (int32_t[]){5, 5});
    tg_tensor *targets = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){80, 3, 3, 3});
    tg_tensor *loss = tg_skip_gram_loss(t, centers, table, targets, contexts, TG_REDUCTION_SUM);
    assert_true(tg_backward(t, loss, NULL));
    assert_values(loss, (double[]){3 * 0.69314718055994531}, 1, 1e-6, 0);
    tg_grad_rows of_table = tg_tensor_grad_rows(table), of_contexts = tg_tensor_grad_rows(contexts);
    assert_int_equal(of_table.count, 1);
    assert_int_equal(of_table.ids[0], 5);
    assert_int_equal(of_contexts.count, 2);
    assert_int_equal(of_contexts.ids[0], 80);
    assert_int_equal(of_contexts.ids[1], 3);
    assert_true(tg_optim_step(optim));
    for (int64_t row = 0; row < ROWS; row++) {
        /* 3 is a negative of the first pair and the target of the second; the second negative is left out */
        double expected = row == 80 ? 0.5 : row == 3 ? 0.5 - 0.5 : 0;
        assert_true(tg_tensor_value_at(contexts, row * 2 + 1) == expected);
        assert_true(tg_tensor_value_at(table, row * 2) == 1);
    }
    tg_release(centers);
    tg_release(targets);
    tg_optim_free(optim);
    tg_tape_free(t);
    tg_params_free(params);
}

/* Both tables are looked up, so an optimizer that defers steps makes up those of the named rows. */
static void test_deferred(void **state)
{
    (void)state;
    problem p = problem_make(4);
    int32_t *few = tg_tensor_data_mut(p.targets);
    double losses[2][6];
    for (int deferred = 0; deferred < 2; deferred++) {
        tg_params *params = tg_params_new(NULL, TG_F64);
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *table = tg_params_add(params, "words", TG_SHAPE(ROWS, 5));
        tg_tensor *contexts = tg_params_add(params, "contexts", TG_SHAPE(ROWS, 5));
        for (int64_t i = 0; i < ROWS * 5; i++) {
            ((double *)tg_tensor_data_mut(table))[i] = (double)(i % 7) / 8;
            ((double *)tg_tensor_data_mut(contexts))[i] = (double)(i % 5) / 8;
        }
        tg_adamw_config config = tg_adamw_config_default();
        config.deferred = deferred;
        config.lr = 0.1;
        tg_optim *optim = tg_adamw_new(params, &config);
        for (int step = 0; step < 6; step++) {
            tg_tape_reset(t);
            tg_optim_zero_grad(optim);
            tg_tensor *centers = tg_constant_i32(t, TG_SHAPE(3), (int32_t[]){step, step, 3 * step});
            tg_tensor *targets = tg_constant_i32(t, TG_SHAPE(3, K), few + step % 3 * 12);
            tg_tensor *loss = tg_skip_gram_loss(t, centers, table, targets, contexts, TG_REDUCTION_SUM);
            assert_true(tg_backward(t, loss, NULL));
            assert_true(tg_optim_step(optim));
            losses[deferred][step] = tg_tensor_item(loss, NULL);
        }
        assert_true(tg_optim_flush(optim));
        tg_optim_free(optim);
        tg_tape_free(t);
        tg_params_free(params);
    }
    for (int step = 0; step < 6; step++) {
        assert_float_equal(losses[1][step], losses[0][step], 1e-10);
    }
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_views),          cmocka_unit_test(test_groups),
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_changed_tables), cmocka_unit_test(test_deferred),
    };
    return cmocka_run_group_tests_name("skip-gram", tests, NULL, NULL);
}
