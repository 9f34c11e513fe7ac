/* Every window of pools and convolutions, beside a plain loop over its taps: kernels longer than the sequence, padding,
 * dilation and strides, also where no tap of a window is inside of the sequence. */
#include <tapegrad/conv.h>

#include "ops/calls.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>

#include "tensor/tensor.h"

typedef struct windows {
    int64_t length, kernel, stride, padding, dilation, outputs;
} windows;

/* Calls `check` for all small windows that fit into a padded sequence. */
static void over_windows(int64_t most_padding, bool half_padding, void (*check)(const windows *w))
{
    for (int64_t n = 0; n < 7 * 6 * 3 * 3 * (most_padding + 1); n++) {
        windows w = {.length = 1 + n % 7,
                     .kernel = 1 + n / 7 % 6,
                     .stride = 1 + n / 42 % 3,
                     .dilation = 1 + n / 126 % 3,
                     .padding = n / 378};
        int64_t span = (w.kernel - 1) * w.dilation + 1, padded = w.length + 2 * w.padding;
        if (padded >= span && (!half_padding || w.padding <= w.kernel / 2)) {
            w.outputs = (padded - span) / w.stride + 1;
            check(&w);
        }
    }
}

/* The position of tap k of a window, which may be outside. */
static int64_t tap(const windows *w, int64_t output, int64_t k)
{
    return output * w->stride + k * w->dilation - w->padding;
}

static bool is_inside(const windows *w, int64_t at)
{
    return at >= 0 && at < w->length;
}

static tg_tensor *filled(tg_shape shape, double phase)
{
    tg_tensor *x = leaf(tg_tensor_new(TG_F64, shape, NULL));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        ((double *)tg_tensor_data_mut(x))[i] = sin(1.7 * (double)i + phase);
    }
    return x;
}

/* Compares the result and the gradient of two sequences with the maxima, or the means, and runs backward from a
 * gradient of 1, 2, .. */
static void check_pool(const windows *w, bool is_maximum)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = filled(TG_SHAPE(2, w->length), 0);
    const double *value = tg_tensor_data(x);
    double y[64], dx[14] = {0};
    tg_tensor *dy = tg_tensor_new_arange(TG_F64, 1, (double)(2 * w->outputs) + 1, 1, NULL);
    for (int64_t i = 0; i < 2 * w->outputs; i++) {
        int64_t row = i / w->outputs * w->length, best = -1;
        double sum = 0;
        for (int64_t k = 0; k < w->kernel; k++) {
            int64_t at = tap(w, i % w->outputs, k);
            if (is_inside(w, at)) {
                best = best < 0 || value[row + at] > value[best] ? row + at : best;
                sum += value[row + at];
                dx[row + at] += is_maximum ? 0 : (double)(i + 1) / (double)w->kernel;
            }
        }
        y[i] = is_maximum ? (best < 0 ? -INFINITY : value[best]) : sum / (double)w->kernel;
        if (is_maximum && best >= 0) {
            dx[best] += (double)(i + 1);
        }
    }
    tg_pool1d_config config = tg_pool1d_config_default();
    config.stride = w->stride;
    config.padding = w->padding;
    config.dilation = w->dilation;
    tg_tensor *result = (is_maximum ? tg_max_pool1d : tg_avg_pool1d)(t, x, w->kernel, &config);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_true(tg_shape_equal(tg_tensor_shape(result), TG_SHAPE(2, w->outputs)));
    assert_values(result, y, 2 * w->outputs, 0, 1e-15);
    assert_true(backward_from(t, tg_reshape(t, result, TG_SHAPE(-1)), dy));
    assert_values(tg_tensor_grad(x), dx, 2 * w->length, 0, 1e-13);
    tg_release(dy);
    tg_release(x);
    tg_tape_free(t);
}

static void check_max(const windows *w)
{
    check_pool(w, true);
}

static void check_mean(const windows *w)
{
    if (w->dilation == 1) {
        check_pool(w, false);
    }
}

static void check_convolution(const windows *w)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = filled(TG_SHAPE(1, 1, w->length), 0), *weight = filled(TG_SHAPE(1, 1, w->kernel), 1);
    const double *value = tg_tensor_data(x), *factor = tg_tensor_data(weight);
    double y[64] = {0}, dx[7] = {0}, dweight[6] = {0};
    tg_tensor *dy = tg_tensor_new_arange(TG_F64, 1, (double)w->outputs + 1, 1, NULL);
    for (int64_t i = 0; i < w->outputs; i++) {
        for (int64_t k = 0; k < w->kernel; k++) {
            int64_t at = tap(w, i, k);
            if (is_inside(w, at)) {
                y[i] += factor[k] * value[at];
                dx[at] += factor[k] * (double)(i + 1);
                dweight[k] += value[at] * (double)(i + 1);
            }
        }
    }
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = w->stride;
    config.padding = w->padding;
    config.dilation = w->dilation;
    tg_tensor *result = tg_conv1d(t, x, weight, NULL, &config);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_values(result, y, w->outputs, 0, 1e-13);
    assert_true(backward_from(t, tg_reshape(t, result, TG_SHAPE(-1)), dy));
    assert_values(tg_tensor_grad(x), dx, w->length, 0, 1e-12);
    assert_values(tg_tensor_grad(weight), dweight, w->kernel, 0, 1e-12);
    tg_release(dy);
    tg_release(x);
    tg_release(weight);
    tg_tape_free(t);
}

static void test_maxima(void **state)
{
    (void)state;
    over_windows(3, true, check_max);
}

static void test_means(void **state)
{
    (void)state;
    over_windows(3, true, check_mean);
}

static void test_convolutions(void **state)
{
    (void)state;
    over_windows(6, false, check_convolution);
}

/* Rows that are longer than what is computed at once, with NaN, infinities and ties for the maximum. */
static const windows long_windows[] = {
    {600, 3, 1, 1, 1, 600},     {700, 2, 2, 0, 1, 350},   {1021, 5, 3, 2, 7, 333},
    {300, 300, 1, 150, 1, 301}, {2000, 3, 4, 0, 1, 500},  {257, 1, 1, 0, 1, 257},
    {5000, 2, 17, 1, 3, 295},   {900, 4, 2, 2, 200, 152}, {4, 2, 1, 1, 1, 5},
};

static double long_value(int64_t i, bool is_special)
{
    double number = (double)(i * 7919 % 13 - 6);
    return !is_special || i % 31 ? number : i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
}

static void check_long(const windows *w, tg_dtype dtype, bool is_maximum)
{
    enum { ROWS = 3 };
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tg_tensor_new(dtype, TG_SHAPE(ROWS, w->length), NULL)), *dy;
    double *values = calloc((size_t)(2 * ROWS * w->length), sizeof *values), *dx = values + ROWS * w->length;
    for (int64_t i = 0; i < ROWS * w->length; i++) {
        values[i] = long_value(i, is_maximum);
        tg_put(x, i, values[i]);
    }
    tg_pool1d_config config = tg_pool1d_config_default();
    config.stride = w->stride;
    config.padding = w->padding;
    config.dilation = w->dilation;
    tg_tensor *y = (is_maximum ? tg_max_pool1d : tg_avg_pool1d)(t, x, w->kernel, &config);
    assert_true(y && tg_shape_equal(tg_tensor_shape(y), TG_SHAPE(ROWS, w->outputs)));
    dy = tg_tensor_new(dtype, TG_SHAPE(ROWS, w->outputs), NULL);
    for (int64_t i = 0; i < ROWS * w->outputs; i++) {
        const double gradient = (double)((i % 5 + 1) * w->kernel), *row = values + i / w->outputs * w->length;
        double sum = 0, most = -INFINITY;
        int64_t best = -1;
        for (int64_t k = 0; k < w->kernel; k++) {
            int64_t at = tap(w, i % w->outputs, k);
            if (is_inside(w, at)) {
                sum += row[at];
                best = best < 0 || row[at] > row[best] || isnan(row[at]) ? at : best;
                most = row[best];
                dx[row - values + at] += is_maximum ? 0 : (double)(i % 5 + 1);
            }
        }
        if (is_maximum && best >= 0) {
            dx[row - values + best] += gradient;
        }
        tg_put(dy, i, gradient);
        double mean = dtype == TG_F32 ? (double)(float)(sum / (double)w->kernel) : sum / (double)w->kernel;
        double expected = is_maximum ? most : mean;
        assert_true(tg_get(y, i) == expected || (isnan(expected) && isnan(tg_get(y, i))));
    }
    assert_true(backward_from(t, y, dy));
    for (int64_t i = 0; i < ROWS * w->length; i++) {
        assert_true(tg_get(tg_tensor_grad(x), i) == dx[i]);
    }
    free(values);
    tg_release(dy);
    tg_release(x);
    tg_tape_free(t);
}

static void check_all_long(void *context, bool first)
{
    (void)context;
    (void)first;
    for (size_t i = 0; i < sizeof long_windows / sizeof *long_windows; i++) {
        for (int dtype = 0; dtype < 2; dtype++) {
            check_long(&long_windows[i], dtype ? TG_F64 : TG_F32, true);
            if (long_windows[i].dilation == 1) {
                check_long(&long_windows[i], dtype ? TG_F64 : TG_F32, false);
            }
        }
    }
}

static void test_long_rows(void **state)
{
    (void)state;
    over_settings(check_all_long, NULL);
}

/* Padding on both sides, and no tap inside: -inf, as in torch, and no gradient. */
static void test_window_without_a_value(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(tg_tensor_new_full(dtype ? TG_F64 : TG_F32, TG_SHAPE(1), 5, NULL));
        tg_pool1d_config config = tg_pool1d_config_default();
        config.padding = 1;
        config.dilation = 2;
        tg_tensor *y = tg_max_pool1d(t, x, 2, &config);
        assert_values(y, (double[]){-INFINITY}, 1, 0, 0);
        assert_true(tg_backward(t, y, NULL));
        assert_values(tg_tensor_grad(x), (double[]){0}, 1, 0, 0);
        tg_release(x);
        tg_tape_free(t);
    }
}

/* Strides and dilations may be the largest integer, and a kernel that is padded to fit may be as large: only the taps
 * inside of the sequence take time. */
static void test_large_options(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(3), (double[]){1, 3, 2}));
    tg_pool1d_config pool = tg_pool1d_config_default();
    pool.stride = pool.dilation = INT64_MAX;
    assert_values(tg_max_pool1d(t, x, 1, &pool), (double[]){1}, 1, 0, 0);
    pool = tg_pool1d_config_default();
    const int64_t kernel = INT64_C(1) << 61;
    pool.padding = kernel / 2;
    tg_tensor *y = tg_max_pool1d(t, x, kernel, &pool);
    assert_values(y, (double[]){3}, 1, 0, 0);
    assert_true(tg_backward(t, y, NULL));
    assert_values(tg_tensor_grad(x), (double[]){0, 1, 0}, 3, 0, 0);
    tg_tensor *mean = tg_avg_pool1d(t, x, kernel, &pool);
    assert_values(mean, (double[]){6 / (double)kernel}, 1, 0, 0);
    tg_tensor *channel = tg_reshape(t, x, TG_SHAPE(1, 1, 3)), *weight = tensor_f64(TG_SHAPE(1, 1, 2), (double[]){2, 5});
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = INT64_MAX;
    config.padding = 3;
    config.dilation = 4;
    assert_values(tg_conv1d(t, channel, weight, NULL, &config), (double[]){15}, 1, 0, 0);
    tg_release(weight);
    tg_release(x);
    tg_tape_free(t);
}

enum { CONVOLUTION_RESULTS = 4 };

/* Runs a convolution of x, weight and bias: the results are its values and the gradients of these. */
static void convolve(int64_t groups, int forward_threads, int backward_threads, tg_tensor *const inputs[3],
                     tg_tensor *results[CONVOLUTION_RESULTS])
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = 2;
    config.padding = 3;
    config.groups = groups;
    assert_true(tg_set_threads(forward_threads, NULL));
    tg_tensor *y = tg_conv1d(t, inputs[0], inputs[1], inputs[2], &config), *dy = filled(tg_tensor_shape(y), 2);
    assert_true(tg_set_threads(backward_threads, NULL));
    assert_true(backward_from(t, y, dy));
    results[0] = tg_tensor_new_copy(y, NULL);
    for (int i = 0; i < 3; i++) {
        results[1 + i] = tg_tensor_new_copy(tg_tensor_grad(inputs[i]), NULL);
        tg_tensor_zero_grad(inputs[i]);
    }
    tg_release(dy);
    tg_tape_free(t);
}

/* Threads divide sequences, pieces of the weight, and channels; a backward pass may have more of them than its forward
 * pass had. */
static void test_threads_change_no_bit_of_convolutions(void **state)
{
    (void)state;
    const int threads = tg_threads();
    for (int64_t groups = 1; groups <= 2; groups++) {
        tg_tensor *inputs[] = {filled(TG_SHAPE(5, 6, 5001), 0), filled(TG_SHAPE(8, 6 / groups, 9), 1),
                               filled(TG_SHAPE(8), 3)};
        tg_tensor *expected[CONVOLUTION_RESULTS], *found[CONVOLUTION_RESULTS];
        convolve(groups, 1, 1, inputs, expected);
        for (int i = 2; i <= 8; i++) {
            convolve(groups, i <= 4 ? i : i - 4, i <= 4 ? i : 9 - i, inputs, found);
            for (int k = 0; k < CONVOLUTION_RESULTS; k++) {
                assert_memory_equal(tg_tensor_data(found[k]), tg_tensor_data(expected[k]),
                                    (size_t)tg_tensor_count(expected[k]) * sizeof(double));
                tg_release(found[k]);
            }
        }
        for (int k = 0; k < CONVOLUTION_RESULTS; k++) {
            tg_release(expected[k]);
        }
        for (int i = 0; i < 3; i++) {
            tg_release(inputs[i]);
        }
    }
    assert_true(tg_set_threads(threads, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maxima),
        cmocka_unit_test(test_means),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_window_without_a_value),
        cmocka_unit_test(test_large_options),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_threads_change_no_bit_of_convolutions),
    };
    return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
