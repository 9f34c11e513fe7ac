/* Matrix products by the built-in loops (lib/products/tile_gemm.c, row_gemm.c): their values, their order of additions,
 * the same bits for each level and number of threads, and without memory; and the choice of the backend. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/fma.h"
#include "math/half.h"
#include "products/kernels.h"

/* Those of mingw-w64 10 round twice. base/test_fma compares the library's with those of other systems. */
#if defined _WIN32
#define fmaf tg_exact_fma_f32
#define fma tg_exact_fma_f64
#endif

/* This function replaces the library's, so that a test can refuse the memory. */
static bool has_memory = true;

void *tg_builtin_memory(void)
{
    static _Thread_local _Alignas(64) char memory[TG_BUILTIN_MEMORY + TG_BUILTIN_PANEL + TG_BUILTIN_BLOCK];
    return has_memory ? memory : NULL;
}

/* Behind the levels are the products of the reproducible mode at the baseline, whose multiply-adds are computed by
 * other means where it has none. */
enum { EXACT = TG_LEVELS };

static int highest; /* of the process, at the begin */

/* Sets the level of the next products. */
static void use_level(int level)
{
    assert_true(tg_set_cpu_level(level == EXACT ? TG_CPU_BASELINE : (tg_cpu_level)level, NULL));
    tg_products_set_reproducible(level == EXACT);
}

static int after(int level)
{
    return level == highest ? EXACT : level + 1;
}

/* ---- a product, in both dtypes ---- */

enum { GAP = 3 }; /* between the rows of a matrix */

typedef struct matrices {
    tg_gemm g;
    int64_t a_count, b_count, c_count;
    float *a, *b, *c, *old;
    double *wide_a, *wide_b, *wide_c, *wide_old;
} matrices;

static void *must(void *memory)
{
    assert_non_null(memory);
    return memory;
}

/* A value in [-1,1), the same in both dtypes. */
static float next_value(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) * 0x1p-23f - 1;
}

static void fill(float *values, double *wide, int64_t count, uint32_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = next_value(&seed);
        wide[i] = (double)values[i] + (double)next_value(&seed) * 0x1p-30;
    }
}

static matrices matrices_new(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b)
{
    matrices x = {.g = {m, n, k, transpose_a, transpose_b ? TG_TRANSPOSED : TG_ROW_MAJOR, .ldc = n + GAP}};
    x.g.lda = (transpose_a ? m : k) + GAP;
    x.g.ldb = (transpose_b ? k : n) + GAP;
    x.a_count = (transpose_a ? k : m) * x.g.lda + 1;
    x.b_count = (transpose_b ? n : k) * x.g.ldb + 1;
    x.c_count = m * x.g.ldc + 1;
    x.a = must(malloc((size_t)x.a_count * sizeof *x.a));
    x.b = must(malloc((size_t)x.b_count * sizeof *x.b));
    x.c = must(malloc((size_t)x.c_count * sizeof *x.c));
    x.old = must(malloc((size_t)x.c_count * sizeof *x.old));
    x.wide_a = must(malloc((size_t)x.a_count * sizeof *x.wide_a));
    x.wide_b = must(malloc((size_t)x.b_count * sizeof *x.wide_b));
    x.wide_c = must(malloc((size_t)x.c_count * sizeof *x.wide_c));
    x.wide_old = must(malloc((size_t)x.c_count * sizeof *x.wide_old));
    fill(x.a, x.wide_a, x.a_count, 1);
    fill(x.b, x.wide_b, x.b_count, 2);
    fill(x.old, x.wide_old, x.c_count, 3);
    return x;
}

static void matrices_free(matrices *x)
{
    void *const all[] = {x->a, x->b, x->c, x->old, x->wide_a, x->wide_b, x->wide_c, x->wide_old};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static int64_t index_a(const tg_gemm *g, int64_t row, int64_t k)
{
    return g->transpose_a ? k * g->lda + row : row * g->lda + k;
}

static int64_t index_b(const tg_gemm *g, int64_t k, int64_t column)
{
    return g->b_layout == TG_TRANSPOSED ? column * g->ldb + k : k * g->ldb + column;
}

/* ---- the documented order ---- */

/* The value of C as base.h describes it; `fused`: by fused multiply-adds. The volatile product is rounded. */
static float value_f32(const matrices *x, int64_t row, int64_t column, bool add, bool fused)
{
    float c = x->old[row * x->g.ldc + column];
    for (int64_t first = 0; first == 0 || first < x->g.k; first += 384) {
        float sum = 0;
        for (int64_t k = first; k < x->g.k && k < first + 384; k++) {
            float a = x->a[index_a(&x->g, row, k)], b = x->b[index_b(&x->g, k, column)];
            volatile float product = a * b;
            sum = fused ? fmaf(a, b, sum) : sum + product;
        }
        c = add || first > 0 ? c + sum : sum;
    }
    return c;
}

static double value_f64(const matrices *x, int64_t row, int64_t column, bool add, bool fused)
{
    double c = x->wide_old[row * x->g.ldc + column];
    for (int64_t first = 0; first == 0 || first < x->g.k; first += 384) {
        double sum = 0;
        for (int64_t k = first; k < x->g.k && k < first + 384; k++) {
            double a = x->wide_a[index_a(&x->g, row, k)], b = x->wide_b[index_b(&x->g, k, column)];
            volatile double product = a * b;
            sum = fused ? fma(a, b, sum) : sum + product;
        }
        c = add || first > 0 ? c + sum : sum;
    }
    return c;
}

/* Whether this level has fused multiply-adds. Other processors than x86-64 have one level, with them or without. */
static bool is_fused(int level)
{
    if (level == EXACT) {
        return true;
    }
#if defined __x86_64__ && !defined __FMA__
    return level > TG_CPU_BASELINE;
#elif defined __FP_FAST_FMA || defined __ARM_FEATURE_FMA || defined __FMA__
    (void)level;
    return true;
#else
    (void)level;
    return false;
#endif
}

/* Compares all values of C with those in the documented order, and the gaps with what was there. */
static void expect_order(const matrices *x, int level, bool add)
{
    for (int64_t i = 0; i < x->c_count; i++) {
        int64_t row = i / x->g.ldc, column = i % x->g.ldc;
        bool is_value = row < x->g.m && column < x->g.n;
        float expected = is_value ? value_f32(x, row, column, add, is_fused(level)) : x->old[i];
        double wide = is_value ? value_f64(x, row, column, add, is_fused(level)) : x->wide_old[i];
        if (x->c[i] != expected || x->wide_c[i] != wide) {
            fail_msg("level %d, m %d, n %d, k %d, transposed %d %d, add %d: C(%d,%d) is %.9g and %.17g, expected %.9g "
                     "and %.17g",
                     level, (int)x->g.m, (int)x->g.n, (int)x->g.k, x->g.transpose_a, x->g.b_layout, add, (int)row,
                     (int)column, (double)x->c[i], x->wide_c[i], (double)expected, wide);
        }
    }
}

static void multiply(matrices *x, int level, bool add)
{
    memcpy(x->c, x->old, (size_t)x->c_count * sizeof *x->c);
    memcpy(x->wide_c, x->wide_old, (size_t)x->c_count * sizeof *x->wide_c);
    use_level(level);
    x->g.add = add;
    x->g.in_thread = true;
    tg_gemm_f32(&x->g, x->a, x->b, x->c);
    tg_gemm_f64(&x->g, x->wide_a, x->wide_b, x->wide_c);
    use_level(highest);
}

/* ---- tests ---- */

/* Sizes around those of small products (64), of tiles (4, 12; 6, 12, 16, 24, 32), of blocks of terms (384), of rows
 * that are copied, and of columns of one row (4, 16, 1024). */
static void test_order(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{1, 1, 1},    {64, 64, 1},   {7, 64, 9},    {1, 65, 3},    {1, 33, 385},  {3, 31, 5},
                                {4, 32, 384}, {5, 48, 383},  {11, 47, 400}, {12, 24, 769}, {13, 25, 2},   {24, 97, 64},
                                {25, 65, 7},  {26, 100, 33}, {64, 64, 64},  {130, 257, 9}, {241, 260, 3}, {481, 260, 2},
                                {1, 1100, 7}, {1, 87, 803},  {2, 70, 65},   {3, 1030, 9}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int kind = 0; kind < 4; kind++) {
            matrices x = matrices_new(sizes[s][0], sizes[s][1], sizes[s][2], kind & 1, kind & 2);
            for (int level = 0; level <= EXACT; level = after(level)) {
                for (int add = 0; add < 2; add++) {
                    multiply(&x, level, add);
                    expect_order(&x, level, add);
                    has_memory = false;
                    multiply(&x, level, add);
                    has_memory = true;
                    expect_order(&x, level, add);
                }
            }
            matrices_free(&x);
        }
    }
}

/* With B in bf16, the bits of the product of the same values in f32: for one block of B and for several, of columns and
 * of terms, and without memory. */
static void test_bf16(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{0, 5, 7},    {5, 0, 7},      {20, 0, 7},     {5, 7, 0},      {1, 1, 1},
                                {40, 1, 5},   {7, 64, 9},     {3, 70, 65},    {17, 97, 2500}, {17, 400, 2500},
                                {1, 40, 900}, {16, 300, 999}, {1, 20, 17000}, {1, 87, 803}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int kind = 0; kind < 4; kind++) {
            matrices x = matrices_new(sizes[s][0], sizes[s][1], sizes[s][2], kind & 1, kind & 2);
            uint16_t *halves = must(malloc((size_t)x.b_count * sizeof *halves));
            float *c = must(malloc((size_t)x.c_count * sizeof *c));
            for (int64_t i = 0; i < x.b_count; i++) {
                halves[i] = tg_to_bf16(x.b[i]);
                x.b[i] = tg_from_bf16(halves[i]);
            }
            for (int i = 0; i < 4 * (EXACT + 1); i++) {
                const int level = i / 4;
                if (level > highest && level != EXACT) {
                    continue;
                }
                multiply(&x, level, i & 1);
                use_level(level);
                memcpy(c, x.old, (size_t)x.c_count * sizeof *c);
                has_memory = !(i & 2);
                x.g.in_thread = i & 4;
                tg_gemm_bf16(&x.g, x.a, halves, c);
                has_memory = true;
                use_level(highest);
                assert_memory_equal(c, x.c, (size_t)x.c_count * sizeof *c);
            }
            free(halves);
            free(c);
            matrices_free(&x);
        }
    }
}

/* Exact multiply-adds of values with few bits, whose sums are often ties, and of tiny and huge ones, which are infinite
 * in f32. Those of doubles beyond 2^450 are not exact (math/fma.h). */
static void test_exact_values(void **state)
{
    (void)state;
    static const double scales[] = {1, 0x1p-20, 0x1p-70, 0x1p-75, 0x1p60, 0x1p-300, 0x1p-400, 0x1p300, 0x1p440};
    uint32_t seed = 9;
    for (int round = 0; round < 72; round++) {
        const double scale = scales[round / 2 % 9];
        matrices x = matrices_new(13, 28, round % 3 ? 60 : 400, round & 1, round & 2);
        for (int64_t i = 0; i < x.a_count; i++) {
            double value = (double)(floorf(next_value(&seed) * 8) + floorf(next_value(&seed) * 4) * 0x1p-20f);
            x.a[i] = (float)(value * scale);
            x.wide_a[i] = (value + (double)floorf(next_value(&seed) * 4) * 0x1p-49) * scale;
        }
        for (int64_t i = 0; i < x.b_count; i++) {
            double value = (double)(floorf(next_value(&seed) * 8) + floorf(next_value(&seed) * 4) * 0x1p-20f);
            x.b[i] = (float)(value * scale);
            x.wide_b[i] = (value + (double)floorf(next_value(&seed) * 4) * 0x1p-49) * scale;
        }
        multiply(&x, EXACT, false);
        for (int64_t i = 0; i < x.g.m * x.g.n; i++) {
            int64_t row = i / x.g.n, column = i % x.g.n, at = row * x.g.ldc + column;
            float expected = value_f32(&x, row, column, false, true);
            double wide = value_f64(&x, row, column, false, true);
            assert_true(isnan(expected) ? isnan(x.c[at]) : x.c[at] == expected);
            assert_true(isnan(wide) ? isnan(x.wide_c[at]) : x.wide_c[at] == wide);
        }
        matrices_free(&x);
    }
}

static void test_no_values(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{0, 5, 7}, {5, 0, 7}, {5, 7, 0}, {0, 0, 0}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        matrices x = matrices_new(sizes[s][0], sizes[s][1], sizes[s][2], false, s % 2);
        for (int level = 0; level <= EXACT; level = after(level)) {
            for (int add = 0; add < 2; add++) {
                multiply(&x, level, add);
                expect_order(&x, level, add);
            }
        }
        matrices_free(&x);
    }
}

/* A NaN or an infinity reaches the values of its row and column alone; the old values of C are not read. */
static void test_special_values(void **state)
{
    (void)state;
    const int64_t m = 30, n = 70, k = 20;
    for (int kind = 0; kind < 4; kind++) {
        matrices x = matrices_new(m, n, k, kind & 1, kind & 2);
        x.a[index_a(&x.g, 7, 3)] = NAN;
        x.b[index_b(&x.g, 5, 69)] = INFINITY;
        x.wide_a[index_a(&x.g, 7, 3)] = (double)NAN;
        x.wide_b[index_b(&x.g, 5, 69)] = (double)INFINITY;
        for (int64_t i = 0; i < x.c_count; i++) {
            x.old[i] = NAN;
            x.wide_old[i] = (double)NAN;
        }
        for (int level = 0; level <= EXACT; level = after(level)) {
            multiply(&x, level, false);
            for (int64_t i = 0; i < m * n; i++) {
                int64_t row = i / n, column = i % n, at = row * x.g.ldc + column;
                assert_int_equal(isnan(x.c[at]) != 0, row == 7);
                assert_int_equal(isnan(x.wide_c[at]) != 0, row == 7);
                assert_int_equal(isinf(x.c[at]) != 0, row != 7 && column == 69);
                assert_int_equal(isinf(x.wide_c[at]) != 0, row != 7 && column == 69);
            }
        }
        matrices_free(&x);
    }
}

/* Sums over factors that share memory, and a row that is repeated (distance 0). */
static void test_shared_factors(void **state)
{
    (void)state;
    enum { SIDE = 50 };
    float values[SIDE * SIDE], c[SIDE * SIDE];
    uint32_t seed = 4;
    for (int i = 0; i < SIDE * SIDE; i++) {
        values[i] = floorf(next_value(&seed) * 8);
    }
    const tg_gemm square = {SIDE, SIDE, SIDE, .b_layout = TG_TRANSPOSED, .ldb = SIDE, .ldc = SIDE};
    for (int level = 0; level <= EXACT; level = after(level)) {
        use_level(level);
        tg_gemm_f32(&square, values, values, c);
        for (int i = 0; i < SIDE * SIDE; i++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++) {
                sum += values[k] * values[i % SIDE * SIDE + k];
            }
            assert_true(c[i] == sum);
        }
    }
}

/* The backend is set before the first product, once. */
static void test_backend(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_false(tg_set_matmul_backend((tg_matmul_backend)7, &error));
    assert_int_equal(error.code, TG_ERROR_VALUE);
    assert_string_equal(error.text, "set_matmul_backend: 7 is no backend");
    assert_true(tg_set_matmul_backend(TG_BACKEND_AUTO, NULL));
    if (!*tg_get_blas().library) {
        error = (tg_error)TG_NO_ERROR;
        assert_false(tg_set_matmul_backend(TG_BACKEND_BLAS, &error));
        assert_string_equal(error.text, "set_matmul_backend: BLAS; this build has none (-Dblas=builtin)");
    }
    assert_true(tg_set_matmul_backend(TG_BACKEND_BUILTIN, NULL));
    assert_int_equal(tg_get_matmul_backend(), TG_BACKEND_BUILTIN);
    assert_true(tg_set_matmul_backend(TG_BACKEND_BUILTIN, NULL));
    error = (tg_error)TG_NO_ERROR;
    assert_false(tg_set_matmul_backend(TG_BACKEND_AUTO, &error));
    assert_int_equal(error.code, TG_ERROR_STATE);
    assert_string_equal(error.text, "set_matmul_backend: it is the built-in loops since the first product or query");
    assert_int_equal(tg_get_matmul_backend(), TG_BACKEND_BUILTIN);
}

/* The blocks of the threads: the same bits for any number of them, and as of the kernel alone. */
static void test_threads(void **state)
{
    (void)state;
    int before = tg_threads();
    const int64_t sizes[][3] = {{300, 400, 50}, {1, 3000, 200}, {1000, 5, 100}, {97, 97, 97}, {48, 1000, 385}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        matrices x = matrices_new(sizes[s][0], sizes[s][1], sizes[s][2], s % 2, s % 3 == 0);
        multiply(&x, highest, false);
        x.g.in_thread = false;
        float *c = must(malloc((size_t)x.c_count * sizeof *c));
        double *wide = must(malloc((size_t)x.c_count * sizeof *wide));
        for (int threads = 1; threads <= 64; threads = threads * 3 - 1 + (threads == 1)) {
            assert_true(tg_set_threads(threads, NULL));
            memcpy(c, x.old, (size_t)x.c_count * sizeof *c);
            memcpy(wide, x.wide_old, (size_t)x.c_count * sizeof *wide);
            tg_gemm_f32(&x.g, x.a, x.b, c);
            tg_gemm_f64(&x.g, x.wide_a, x.wide_b, wide);
            assert_memory_equal(c, x.c, (size_t)x.c_count * sizeof *c);
            assert_memory_equal(wide, x.wide_c, (size_t)x.c_count * sizeof *wide);
        }
        free(c);
        free(wide);
        matrices_free(&x);
    }
    assert_true(tg_set_threads(before, NULL));
}

int main(void)
{
    highest = tg_level_highest();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_backend), /* first: it sets the backend of the others */
                                       cmocka_unit_test(test_order),          cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_exact_values),   cmocka_unit_test(test_no_values),
                                       cmocka_unit_test(test_special_values), cmocka_unit_test(test_shared_factors),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests_name("gemm", tests, NULL, NULL);
}
