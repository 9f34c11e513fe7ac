/* 1,000 random products of each class of shapes in the reproducible mode: the same bits at each level and for 1 to 4
 * threads, and errors of at most K eps sum |a| |b|, where K is the number of terms. f32 is compared with sums in
 * double, f64 with sums of two doubles. */
#include "support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/doubles.h"
#include "base/level.h"
#include "products/gemm.h"

enum { PRODUCTS = 1000, MOST = 40000 };

typedef struct shape_class {
    const char *name;
    int m[2], n[2], k[2]; /* from .. to */
} shape_class;

static const shape_class classes[] = {
    {"small", {1, 12}, {1, 12}, {1, 12}},         {"square", {13, 50}, {13, 50}, {13, 50}},
    {"a row", {1, 1}, {1, 90}, {1, 400}},         {"few rows", {2, 6}, {1, 60}, {1, 100}},
    {"a column", {2, 90}, {1, 1}, {1, 400}},      {"many terms", {1, 9}, {1, 12}, {384, 800}},
    {"many columns", {2, 8}, {200, 500}, {1, 9}}, {"many rows", {200, 500}, {1, 9}, {1, 9}},
};

static uint32_t seed = 7;

static int draw(const int from_to[2])
{
    seed = seed * 1664525u + 1013904223u;
    return from_to[0] + (int)((seed >> 8) % (uint32_t)(from_to[1] - from_to[0] + 1));
}

/* A number in [-1,1), sometimes with few bits, and sometimes scaled. */
static double draw_value(void)
{
    double value = (double)draw((const int[]){-(1 << 22), 1 << 22}) * 0x1p-22;
    int kind = draw((const int[]){0, 15});
    return kind == 0 ? 0 : kind == 1 ? round(value * 4) / 4 : kind == 2 ? value * 0x1p-30 : value;
}

static float a[MOST], b[MOST], c[MOST], c_first[MOST];
static double wide_a[MOST], wide_b[MOST], wide_c[MOST], wide_first[MOST];

static tg_gemm draw_product(const shape_class *s)
{
    tg_gemm g = {draw(s->m), draw(s->n), draw(s->k), .transpose_a = draw((const int[]){0, 1})};
    g.b_layout = draw((const int[]){TG_ROW_MAJOR, TG_TRANSPOSED});
    g.lda = g.transpose_a ? g.m : g.k;
    g.ldb = g.b_layout ? g.k : g.n;
    g.ldc = g.n;
    assert_true(g.m * g.k <= MOST && g.n * g.k <= MOST && g.m * g.n <= MOST);
    for (int64_t i = 0; i < g.m * g.k; i++) {
        wide_a[i] = draw_value();
        a[i] = (float)wide_a[i];
        wide_a[i] += draw_value() * 0x1p-40;
    }
    for (int64_t i = 0; i < g.n * g.k; i++) {
        wide_b[i] = draw_value();
        b[i] = (float)wide_b[i];
        wide_b[i] += draw_value() * 0x1p-40;
    }
    return g;
}

/* Asserts the bound of the error of each value of the product. */
static void check_errors(const tg_gemm *g)
{
    for (int64_t i = 0; i < g->m * g->n; i++) {
        int64_t row = i / g->n, column = i % g->n;
        double sum = 0, sizes = 0, upper = 0, lower = 0, wide_sizes = 0;
        for (int64_t k = 0; k < g->k; k++) {
            int64_t of_a = g->transpose_a ? k * g->lda + row : row * g->lda + k;
            int64_t of_b = g->b_layout ? column * g->ldb + k : k * g->ldb + column;
            double product = (double)a[of_a] * (double)b[of_b], x = wide_a[of_a], y = wide_b[of_b], xy = x * y;
            double next = upper + xy;
            sum += product;
            sizes += fabs(product);
            lower += tg_error_of_sum(upper, xy, next) + tg_fma_f64(x, y, -xy);
            upper = next;
            wide_sizes += fabs(xy);
        }
        double K = (double)g->k;
        assert_true(fabs((double)c[i] - sum) <= K * (double)FLT_EPSILON * sizes);
        assert_true(fabs(wide_c[i] - upper - lower) <= K * DBL_EPSILON * wide_sizes);
    }
}

static void check_product(const tg_gemm *g, const char *name, int number)
{
    const size_t bytes = (size_t)(g->m * g->n) * sizeof *c;
    const int highest = tg_level_highest();
    for (int run = 0; run <= highest + 3; run++) { /* each level, and at the highest one 1 to 4 threads */
        int level = run < highest ? run : highest;
        assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL));
        assert_true(tg_set_threads(run < highest ? 1 + number % 4 : 1 + run - highest, NULL));
        tg_gemm_f32(g, a, b, c);
        tg_gemm_f64(g, wide_a, wide_b, wide_c);
        if (run == 0) {
            memcpy(c_first, c, bytes);
            memcpy(wide_first, wide_c, 2 * bytes);
            check_errors(g);
        } else if (memcmp(c, c_first, bytes) != 0 || memcmp(wide_c, wide_first, 2 * bytes) != 0) {
            fail_msg("%s, product %d (%d,%d) of %d terms differs at level %d with %d threads", name, number, (int)g->m,
                     (int)g->n, (int)g->k, level, tg_threads());
        }
    }
}

static void test_random_products(void **state)
{
    (void)state;
    const tg_cpu_level level = tg_get_cpu_level();
    const int threads = tg_threads();
    tg_products_set_reproducible(true);
    for (size_t s = 0; s < sizeof classes / sizeof *classes; s++) {
        for (int number = 0; number < PRODUCTS; number++) {
            tg_gemm g = draw_product(&classes[s]);
            check_product(&g, classes[s].name, number);
        }
    }
    tg_products_set_reproducible(false);
    assert_true(tg_set_cpu_level(level, NULL) && tg_set_threads(threads, NULL));
}

/* Threads divide only products of more than 64^3 terms. */
static void test_large_products(void **state)
{
    (void)state;
    static const shape_class large = {"large", {100, 150}, {100, 150}, {150, 250}};
    const tg_cpu_level level = tg_get_cpu_level();
    const int threads = tg_threads();
    tg_products_set_reproducible(true);
    for (int number = 0; number < 5; number++) {
        tg_gemm g = draw_product(&large);
        check_product(&g, large.name, number);
    }
    tg_products_set_reproducible(false);
    assert_true(tg_set_cpu_level(level, NULL) && tg_set_threads(threads, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_products), cmocka_unit_test(test_large_products)};
    return cmocka_run_group_tests_name("random_products", tests, NULL, NULL);
}
