/* softmax and log_softmax on the last axis and on another one, against the formulas in double. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/level.h"
#include "ops/calls.h"
#include "support.h"
#include "tensor/tensor.h"

/* The lines of a case: both halves are more than a strip, and not a multiple of one. Strips of lines whose length is
 * LONG_STRIP are wide. */
enum { LINES = 268, LONGEST = 50257, LONG_STRIP = 2100 };

typedef struct softmax_case {
    tg_dtype dtype;
    int64_t lines, size;
    bool is_last; /* x is (lines,size), and else (2,size,lines/2) */
    bool is_log;
} softmax_case;

/* An input, its result and its gradient from dy. */
typedef struct tensors {
    tg_tensor *x, *dy, *y;
} tensors;

static int64_t index_of(const softmax_case *c, int64_t line, int64_t i)
{
    int64_t half = c->lines / 2;
    return c->is_last ? line * c->size + i : (line / half * c->size + i) * half + line % half;
}

/* The values are the same on both axes. */
static tg_tensor *filled(const softmax_case *c, uint64_t seed)
{
    tg_rng *rng = tg_rng_new(seed);
    tg_tensor *drawn = tg_tensor_new(c->dtype, TG_SHAPE(c->lines, c->size), NULL);
    tg_shape shape = c->is_last ? TG_SHAPE(c->lines, c->size) : TG_SHAPE(2, c->size, c->lines / 2);
    tg_tensor *x = tg_tensor_new(c->dtype, shape, NULL);
    assert_true(tg_tensor_fill_normal(drawn, rng, 0, 2, NULL));
    for (int64_t k = 0; k < c->lines * c->size; k++) {
        tg_put(x, index_of(c, k / c->size, k % c->size), tg_get(drawn, k));
    }
    tg_release(drawn);
    tg_rng_free(rng);
    return x;
}

/* Computes the result and, `passes` times, the gradient. The first pass overwrites, the others accumulate. */
static void run(const softmax_case *c, tensors *v, int passes)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *y = c->is_log ? tg_log_softmax(t, v->x, 1) : tg_softmax(t, v->x, 1);
    tg_backward_config config = tg_backward_config_default();
    config.gradient = v->dy;
    config.retain_graph = true;
    for (int pass = 0; pass < passes; pass++) {
        assert_true(tg_backward(t, y, &config));
    }
    v->y = tg_tensor_new_copy(y, NULL);
    tg_tape_free(t);
}

static void release(tensors *v)
{
    tg_release(v->x);
    tg_release(v->dy);
    tg_release(v->y);
}

static void check(const softmax_case *c, const char *what, int64_t line, int64_t i, double found, double expected,
                  double size)
{
    double allowed = (c->dtype == TG_F32 ? (double)FLT_EPSILON : 1e-13) * size;
    if (!(fabs(found - expected) <= allowed)) {
        fail_msg("%s of %ssoftmax, %s, %s axis, line %lld of %lld values: value %lld is %.17g, not %.17g", what,
                 c->is_log ? "log_" : "", c->dtype == TG_F32 ? "f32" : "f64", c->is_last ? "last" : "middle",
                 (long long)line, (long long)c->size, (long long)i, found, expected);
    }
}

/* The allowed errors are roundings of the numbers that are added, and in f64 those of long sums too. */
static void check_line(const softmax_case *c, const tensors *v, int64_t line, int passes)
{
    double most = -INFINITY, sum = 0, dot = 0, of_dot = 0, dy_sum = 0;
    for (int64_t i = 0; i < c->size; i++) {
        double x = tg_get(v->x, index_of(c, line, i));
        most = x > most ? x : most; /* of fmax, gcc 12 for Arm makes vectors that it then cannot compile */
    }
    for (int64_t i = 0; i < c->size; i++) {
        sum += exp(tg_get(v->x, index_of(c, line, i)) - most);
    }
    for (int64_t i = 0; i < c->size; i++) {
        int64_t k = index_of(c, line, i);
        dot += tg_get(v->dy, k) * exp(tg_get(v->x, k) - most) / sum;
        of_dot += fabs(tg_get(v->dy, k)) * exp(tg_get(v->x, k) - most) / sum;
        dy_sum += tg_get(v->dy, k);
    }
    for (int64_t i = 0; i < c->size; i++) {
        int64_t k = index_of(c, line, i);
        double dy = tg_get(v->dy, k), below = tg_get(v->x, k) - most, p = exp(below) / sum;
        double y = c->is_log ? below - log(sum) : p;
        double dx = c->is_log ? dy - p * dy_sum : p * (dy - dot);
        double of_y = c->is_log ? 1 - below + log(sum) : p * (4 - below);
        double of_dx = (c->is_log ? fabs(dy) + p * fabs(dy_sum) : p * (fabs(dy) + of_dot)) * (4 - below + log(sum));
        check(c, "the result", line, i, tg_get(v->y, k), y, of_y);
        check(c, "the gradient", line, i, tg_get(tg_tensor_grad(v->x), k), passes * dx, passes * of_dx);
    }
}

/* Calls `body` with both functions and dtypes on both axes. */
static void each_case(int64_t lines, int64_t size, void (*body)(const softmax_case *c))
{
    for (int k = 0; k < 8; k++) {
        body(&(softmax_case){k & 1 ? TG_F64 : TG_F32, lines, size, k & 2, k & 4});
    }
}

static void check_values(const softmax_case *c)
{
    for (int passes = 1; passes < 3; passes++) {
        tensors v = {leaf(filled(c, 1)), filled(c, 2), NULL};
        run(c, &v, passes);
        for (int64_t line = 0; line < c->lines; line++) {
            check_line(c, &v, line, passes);
        }
        release(&v);
    }
}

static void test_values(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 2, 15, 16, 17, 33, 256, 257};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        each_case(LINES, sizes[i], check_values);
    }
    each_case(4, LONGEST, check_values);
    each_case(150, LONG_STRIP, check_values);
}

/* Writes a NaN whose bits are all set. */
static void put_nan(tg_tensor *x, int64_t i)
{
    size_t size = tg_size_of(x->dtype);
    memset((char *)tg_values(x) + (size_t)i * size, 0xff, size);
}

/* By l % 4, line l has a NaN, has an inf, is all -inf, or has one -inf and is finite otherwise. The value is at an
 * index that depends on l. */
static void check_not_finite(const softmax_case *c)
{
    tensors v = {leaf(filled(c, 1)), filled(c, 2), NULL};
    for (int64_t line = 0; line < c->lines; line++) {
        int64_t at = line % c->size;
        if (line % 4 == 0) {
            put_nan(v.x, index_of(c, line, at));
        } else {
            tg_put(v.x, index_of(c, line, at), line % 4 == 1 ? INFINITY : -INFINITY);
        }
        for (int64_t i = 0; i < c->size && line % 4 == 2; i++) {
            tg_put(v.x, index_of(c, line, i), -INFINITY);
        }
    }
    run(c, &v, 1);
    for (int64_t line = 0; line < c->lines; line++) {
        for (int64_t i = 0; i < c->size; i++) {
            int64_t k = index_of(c, line, i);
            double y = tg_get(v.y, k), dx = tg_get(tg_tensor_grad(v.x), k);
            if (line % 4 < 3) {
                assert_true(isnan(y) && isnan(dx));
            } else if (i == line % c->size) {
                assert_true(y == (c->is_log ? -INFINITY : 0));
                assert_true(dx == (c->is_log ? tg_get(v.dy, k) : 0));
            } else {
                assert_true(isfinite(y) && isfinite(dx));
            }
        }
    }
    release(&v);
}

static void test_not_finite(void **state)
{
    (void)state;
    each_case(LINES, 17, check_not_finite);
    each_case(LINES, 40, check_not_finite);
}

/* The bits are the same at each level of the processor and for each number of threads. */
static void check_bits(const softmax_case *c)
{
    tg_cpu_level first = tg_get_cpu_level();
    int threads = tg_threads();
    tensors base = {leaf(filled(c, 1)), filled(c, 2), NULL};
    assert_true(tg_set_cpu_level(TG_CPU_BASELINE, NULL) && tg_set_threads(1, NULL));
    run(c, &base, 1);
    for (int level = 0; level <= tg_level_highest(); level++) {
        tensors v = {leaf(filled(c, 1)), filled(c, 2), NULL};
        assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL) && tg_set_threads(level == 0 ? 3 : 1, NULL));
        run(c, &v, 1);
        assert_memory_equal(tg_values(v.y), tg_values(base.y), tg_bytes_of(v.y));
        assert_memory_equal(tg_values(tg_tensor_grad(v.x)), tg_values(tg_tensor_grad(base.x)), tg_bytes_of(v.x));
        release(&v);
    }
    release(&base);
    assert_true(tg_set_cpu_level(first, NULL) && tg_set_threads(threads, NULL));
}

static void test_bits(void **state)
{
    (void)state;
    each_case(LINES, 17, check_bits);
    each_case(LINES, 601, check_bits);
    each_case(150, LONG_STRIP, check_bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests_name("softmax", tests, NULL, NULL);
}
