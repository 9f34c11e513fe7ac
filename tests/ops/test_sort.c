/* sort and topk, beside a plain merge sort: lines of all lengths around those where another method begins, along any
 * axis, with ties, NaN, infinities, subnormals and both zeros, in each order, at each level and on threads; and
 * cumsum. */
#include "ops/calls.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

/* The kinds of values of a line. */
typedef enum content { MIXED, TIES, ASCENDING, DESCENDING, EQUAL, NEIGHBORS, SPECIAL, CONTENTS } content;

static double content_at(content kind, tg_dtype dtype, int64_t i, int64_t size, uint64_t *state)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40, 1, -1, 3e38, -NAN, 0x1p-126};
    int64_t drawn = draw_number(state, 1 << 24);
    switch (kind) {
    case MIXED: return ldexp((double)(drawn - (1 << 23)), (int)(drawn % 21) - 10);
    case TIES: return (double)(drawn % 5 - 2);
    case ASCENDING: return (double)(i - size / 2);
    case DESCENDING: return (double)(size / 2 - i);
    case EQUAL: return 7;
    case NEIGHBORS: return 1 + (double)(drawn % 64) * (dtype == TG_F32 ? 0x1p-23 : 0x1p-52);
    default: return special[drawn % (int64_t)(sizeof special / sizeof *special)];
    }
}

/* Whether a comes before b, by the header: NaN counts as the largest number. */
static bool is_before(double a, double b, bool largest)
{
    if (isnan(a) || isnan(b)) {
        return largest ? isnan(a) && !isnan(b) : !isnan(a) && isnan(b);
    }
    return largest ? a > b : a < b;
}

/* Merge sorts positions, stably. */
static void merge_sort(const double *x, int64_t step, bool largest, int32_t *positions, int32_t *other, int64_t n)
{
    if (n < 2) {
        return;
    }
    int64_t half = n / 2, a = 0, b = half;
    merge_sort(x, step, largest, positions, other, half);
    merge_sort(x, step, largest, positions + half, other, n - half);
    for (int64_t i = 0; i < n; i++) {
        bool from_b = a == half || (b < n && is_before(x[positions[b] * step], x[positions[a] * step], largest));
        other[i] = from_b ? positions[b++] : positions[a++];
    }
    memcpy(positions, other, (size_t)n * sizeof *positions);
}

typedef struct lines {
    int64_t outer, size, inner;
} lines;

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Compares the first k values, and the gradient of 1, 2, .. */
static void check_call(tg_dtype dtype, lines n, content kind, int64_t k, bool largest)
{
    const int64_t count = n.outer * n.size * n.inner, kept = n.outer * k * n.inner;
    uint64_t state = 5;
    double *x = malloc((size_t)count * sizeof *x), *dx = calloc((size_t)count, sizeof *dx);
    int32_t *positions = malloc((size_t)n.size * 2 * sizeof *positions);
    assert_true(x && dx && positions);
    tg_tensor *input = leaf(tg_tensor_new(dtype, TG_SHAPE(n.outer, n.size, n.inner), NULL));
    for (int64_t i = 0; i < count; i++) {
        x[i] = content_at(kind, dtype, i / n.inner % n.size, n.size, &state);
        if (dtype == TG_F32) {
            x[i] = (double)(float)x[i];
        }
        tg_put(input, i, x[i]);
    }
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *dy = tg_tensor_new(dtype, TG_SHAPE(n.outer, k, n.inner), NULL), *index;
    for (int64_t i = 0; i < kept; i++) {
        tg_put(dy, i, (double)(i + 1));
    }
    tg_order order = largest ? TG_LARGEST_FIRST : TG_SMALLEST_FIRST;
    tg_tensor *y = k == n.size ? tg_sort(t, input, 1, order, &index) : tg_topk(t, input, k, 1, order, &index);
    assert_non_null(y);
    for (int64_t line = 0; line < n.outer * n.inner; line++) {
        const int64_t first = line / n.inner * n.size * n.inner + line % n.inner;
        const int64_t result = line / n.inner * k * n.inner + line % n.inner;
        for (int64_t i = 0; i < n.size; i++) {
            positions[i] = (int32_t)i;
        }
        merge_sort(x + first, n.inner, largest, positions, positions + n.size, n.size);
        for (int64_t i = 0; i < k; i++) {
            const int64_t at = result + i * n.inner, from = first + positions[i] * n.inner;
            const int32_t found = ((const int32_t *)tg_values(index))[at];
            if (found != positions[i] || !same_bits(tg_get(y, at), x[from])) {
                fail_msg("(%lld,%lld,%lld), content %d, k %lld, largest %d: value %lld of line %lld is %g at %d, not "
                         "%g at %d",
                         (long long)n.outer, (long long)n.size, (long long)n.inner, (int)kind, (long long)k, largest,
                         (long long)i, (long long)line, tg_get(y, at), found, x[from], positions[i]);
            }
            dx[from] = (double)(at + 1);
        }
    }
    for (int times = 1; times <= 2; times++) { /* the second gradient is added */
        tg_tensor *again = tg_topk(t, input, k, 1, order, NULL);
        assert_true(again && backward_from(t, again, dy));
        for (int64_t i = 0; i < count; i++) {
            if (tg_get(tg_tensor_grad(input), i) != times * dx[i]) {
                fail_msg("(%lld,%lld,%lld), k %lld: gradient %lld is %g, not %g", (long long)n.outer, (long long)n.size,
                         (long long)n.inner, (long long)k, (long long)i, tg_get(tg_tensor_grad(input), i),
                         times * dx[i]);
            }
        }
    }
    tg_tape_free(t);
    tg_release(input);
    tg_release(dy);
    free(x);
    free(dx);
    free(positions);
}

static void check_lines(void *context, bool first)
{
    (void)first;
    static const lines cases[] = {{1, 1, 1},   {3, 2, 1},   {2, 31, 17},  {1, 64, 33},  {5, 65, 1},  {2, 66, 16},
                                  {1, 67, 3},  {2, 127, 1}, {1, 128, 2},  {3, 129, 1},  {1, 130, 8}, {1, 256, 19},
                                  {2, 300, 1}, {1, 999, 4}, {7, 1021, 1}, {1, 5000, 3}, {40, 40, 40}};
    const tg_dtype dtype = *(const tg_dtype *)context;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t size = cases[i].size, some[] = {1, 2, 9, 33, size / 9, size / 2, size};
        for (content kind = 0; kind < CONTENTS; kind++) {
            for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
                if (some[k] > 0 && some[k] <= size && (i + k + kind) % 3 != 0) {
                    check_call(dtype, cases[i], kind, some[k], (i + k + kind) % 3 == 1);
                }
            }
        }
    }
}

static void test_floats(void **state)
{
    (void)state;
    over_settings(check_lines, &(tg_dtype){TG_F32});
}

static void test_doubles(void **state)
{
    (void)state;
    over_settings(check_lines, &(tg_dtype){TG_F64});
}

/* Every key of a float, by its bits: the order of neighbors in a list of all exponents, signs and some significands. */
static void test_all_exponents(void **state)
{
    (void)state;
    enum { COUNT = 512 * 4 };
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(COUNT), NULL), *index;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bits = i / 4 * 2654435769U << 23 | i % 4 * 0x2aaaaaU;
        memcpy((float *)tg_values(x) + i, &bits, sizeof bits);
    }
    tg_tensor *y = tg_sort(t, x, 0, TG_SMALLEST_FIRST, &index);
    const float *sorted = tg_values(y);
    const int32_t *positions = tg_values(index);
    for (int64_t i = 1; i < COUNT; i++) {
        bool tie = sorted[i - 1] == sorted[i] || (isnan(sorted[i - 1]) && isnan(sorted[i]));
        assert_true(tie ? positions[i - 1] < positions[i] : is_before((double)sorted[i - 1], (double)sorted[i], false));
    }
    tg_tape_free(t);
    tg_release(x);
}

/* Sums in double from the first value on, and of the gradient from the last on. */
static void check_sums(void *context, bool first)
{
    (void)context;
    (void)first;
    static const lines cases[] = {{1, 7, 1},    {3, 1021, 1}, {4, 500, 1}, {9, 4001, 1}, {70, 300, 1},
                                  {2, 300, 65}, {1, 40, 700}, {1, 1, 1},   {5, 1, 1}};
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        const lines n = cases[k / 2];
        const tg_dtype dtype = k % 2 ? TG_F64 : TG_F32;
        const tg_shape shape = TG_SHAPE(n.outer, n.size, n.inner);
        uint64_t state = 3;
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(tg_tensor_new(dtype, shape, NULL)), *dy = tg_tensor_new(dtype, shape, NULL);
        for (int64_t i = 0; i < tg_tensor_count(x); i++) {
            tg_put(x, i, i % 997 == 996 ? INFINITY : (double)draw_number(&state, 1 << 20) / 1000 - 500);
            tg_put(dy, i, (double)draw_number(&state, 1 << 20) / 1000 - 500);
        }
        tg_tensor *y = tg_cumsum(t, x, 1);
        assert_true(y && backward_from(t, y, dy));
        for (int64_t line = 0; line < n.outer * n.inner; line++) {
            const int64_t start = line / n.inner * n.size * n.inner + line % n.inner;
            double sum = 0, gradient = 0;
            for (int64_t i = 0; i < n.size; i++) {
                const int64_t at = start + i * n.inner, back = start + (n.size - 1 - i) * n.inner;
                sum += tg_get(x, at);
                gradient += tg_get(dy, back);
                assert_true(tg_get(y, at) == (dtype == TG_F32 ? (double)(float)sum : sum));
                assert_true(tg_get(tg_tensor_grad(x), back) == (dtype == TG_F32 ? (double)(float)gradient : gradient));
            }
        }
        tg_tape_free(t);
        tg_release(x);
        tg_release(dy);
    }
}

static void test_running_sums(void **state)
{
    (void)state;
    over_settings(check_sums, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_floats), cmocka_unit_test(test_doubles),
                                       cmocka_unit_test(test_all_exponents), cmocka_unit_test(test_running_sums)};
    return cmocka_run_group_tests_name("sort", tests, NULL, NULL);
}
