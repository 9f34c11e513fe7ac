/* rms_norm, besides samples and goldens: extreme rows, the number of threads, and errors; layer_norm without gradients
 * of its weights. */
#include "base/level.h"
#include "ops/calls.h"
#include "support.h"
#include "tape_stats.h"

#include <math.h>
#include <string.h>

static void test_extreme_rows(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    /* squares that no float holds; all zeros, where eps alone is under the root; a NaN, which stays in its row */
    tg_tensor *x = tensor_f32(TG_SHAPE(4, 2), (float[]){3e30f, 4e30f, 0, 0, NAN, 1, 1e-30f, 1e-30f});
    tg_tensor *weight = tensor_f32(TG_SHAPE(2), (float[]){1, -2});
    double rms = sqrt(12.5), small = 1e-30 / sqrt(1e-5);
    tg_tensor *y = tg_rms_norm(t, x, weight, 1e-5);
    const double expected[] = {3 / rms, -8 / rms, 0, 0, NAN, NAN, small, -2 * small};
    assert_values(y, expected, 8, 1e-6, 0);
    tg_tape_free(t);
    tg_release(x);
    tg_release(weight);
}

/* Rows and columns are divided among threads; no sum is. */
static void test_threads_change_no_bit(void **state)
{
    (void)state;
    enum { ROWS = 61, WIDTH = 517 };
    int threads = tg_threads();
    tg_rng *rng = tg_rng_new(3);
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(ROWS, WIDTH), NULL));
    tg_tensor *weight = leaf(tg_tensor_new(TG_F32, TG_SHAPE(WIDTH), NULL));
    tg_tensor *seed = tg_tensor_new(TG_F32, TG_SHAPE(ROWS, WIDTH), NULL), *kept[2][3];
    tg_tensor_fill_normal(x, rng, 0, 1, NULL);
    tg_tensor_fill_normal(weight, rng, 1, 1, NULL);
    tg_tensor_fill_normal(seed, rng, 0, 1, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(tg_set_threads(i == 0 ? 1 : 5, NULL));
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor_zero_grad(x);
        tg_tensor_zero_grad(weight);
        tg_tensor *y = tg_rms_norm(t, x, weight, 1e-5);
        assert_true(backward_from(t, y, seed));
        kept[i][0] = tg_tensor_new_copy(y, NULL);
        kept[i][1] = tg_tensor_new_dense_grad(x, NULL);
        kept[i][2] = tg_tensor_new_dense_grad(weight, NULL);
        tg_tape_free(t);
    }
    assert_true(tg_set_threads(threads, NULL));
    for (int k = 0; k < 3; k++) {
        assert_memory_equal(tg_tensor_data(kept[0][k]), tg_tensor_data(kept[1][k]),
                            (size_t)tg_tensor_count(kept[0][k]) * sizeof(float));
        tg_release(kept[0][k]);
        tg_release(kept[1][k]);
    }
    tg_release(x);
    tg_release(weight);
    tg_release(seed);
    tg_rng_free(rng);
}

/* Backward has a loop of its own for weights without gradients: that of x has the same bits, at each level. */
static void test_layer_norm_without_weights(void **state)
{
    (void)state;
    enum { ROWS = 9, WIDTH = 213 };
    tg_rng *rng = tg_rng_new(3);
    const tg_cpu_level level = tg_get_cpu_level();
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(ROWS, WIDTH), NULL));
    tg_tensor *dy = tg_tensor_new(TG_F32, TG_SHAPE(ROWS, WIDTH), NULL);
    tg_tensor *ones = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(WIDTH), 1, NULL));
    tg_tensor *zeros = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(WIDTH), 0, NULL));
    tg_tensor_fill_normal(x, rng, 0, 1, NULL);
    tg_tensor_fill_normal(dy, rng, 0, 1, NULL);
    ((float *)tg_tensor_data_mut(x))[WIDTH + 5] = NAN;
    ((float *)tg_tensor_data_mut(x))[2 * WIDTH + 5] = 1e-42F;
    for (int l = 0; l <= tg_level_highest(); l++) {
        tg_tensor *dx[2];
        assert_true(tg_set_cpu_level((tg_cpu_level)l, NULL));
        for (int weighted = 0; weighted < 2; weighted++) {
            tg_tape *t = tg_tape_new(NULL, NULL);
            tg_tensor_zero_grad(x);
            assert_true(
                backward_from(t, tg_layer_norm(t, x, weighted ? ones : NULL, weighted ? zeros : NULL, 1e-5), dy));
            dx[weighted] = tg_tensor_new_dense_grad(x, NULL);
            tg_tape_free(t);
        }
        const float *a = tg_tensor_data(dx[0]), *b = tg_tensor_data(dx[1]);
        for (int i = 0; i < ROWS * WIDTH; i++) {
            assert_true(i / WIDTH == 1 ? isnan(a[i]) : memcmp(&a[i], &b[i], sizeof *a) == 0);
        }
        tg_release(dx[0]);
        tg_release(dx[1]);
    }
    assert_true(tg_set_cpu_level(level, NULL));
    tg_release(x);
    tg_release(dy);
    tg_release(ones);
    tg_release(zeros);
    tg_rng_free(rng);
}

static void test_refuses(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 3), NULL), *weight = tg_tensor_new(TG_F32, TG_SHAPE(3), NULL);
    tg_tensor *longer = tg_tensor_new(TG_F32, TG_SHAPE(4), NULL),
              *scalar = tg_tensor_new(TG_F32, (tg_shape){.rank = 0}, NULL);
    tg_tensor *wide = tg_tensor_new(TG_F64, TG_SHAPE(3), NULL), *ids = tg_tensor_new(TG_I32, TG_SHAPE(3), NULL);
    tg_tensor *empty = tg_tensor_new(TG_F32, TG_SHAPE(2, 0), NULL);
    const struct {
        tg_tensor *x, *weight;
        double eps;
        tg_code code;
        const char *text;
    } cases[] = {
        {x, longer, 1, TG_ERROR_SHAPE, "rms_norm: x is (2,3) and the weight (4,); they must be (..,C) and (C)"},
        {x, x, 1, TG_ERROR_SHAPE, "rms_norm: x is (2,3) and the weight (2,3)"},
        {scalar, weight, 1, TG_ERROR_SHAPE, "rms_norm: x is () and the weight (3,)"},
        {empty, weight, 1, TG_ERROR_SHAPE, "with C >= 1"},
        {x, weight, 0, TG_ERROR_VALUE, "rms_norm: eps is 0; it must be above 0"},
        {x, weight, (double)NAN, TG_ERROR_VALUE, "rms_norm: eps is nan"},
        {x, wide, 1, TG_ERROR_DTYPE, "rms_norm: "},
        {ids, weight, 1, TG_ERROR_DTYPE, "rms_norm: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_null(tg_rms_norm(t, cases[i].x, cases[i].weight, cases[i].eps));
        assert_tape_error(t, cases[i].code, cases[i].text);
    }
    assert_int_equal(tape_stats_of(t).results, 0);
    tg_tape_free(t);
    tg_tensor *all[] = {x, weight, longer, scalar, wide, ids, empty};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tg_release(all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extreme_rows),
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_layer_norm_without_weights),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
