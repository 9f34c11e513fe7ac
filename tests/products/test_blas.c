/* BLAS: what the library reports of it, its number of threads, and sizes that do not fit its 32-bit integers. */
#include "support.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/conv.h>

#include "base/level.h"
#include "products/gemm.h"
#include "tensor/tensor.h"

static void test_report(void **state)
{
    (void)state;
    tg_blas blas = tg_get_blas(), again = tg_get_blas();
    print_message("%s %s (%s), at most %d threads\n", blas.library, blas.version, blas.kernels, blas.most_threads);
    assert_true(isalpha((unsigned char)blas.library[0]) || tg_get_matmul_backend() == TG_BACKEND_BUILTIN);
    assert_in_range(blas.most_threads, 0, 100000);
    assert_memory_equal(&blas, &again, sizeof blas);
    if (strcmp(blas.library, "OpenBLAS") == 0) {
        assert_true(isdigit((unsigned char)blas.version[0]));
        assert_true(isalpha((unsigned char)blas.kernels[0]));
        assert_true(blas.most_threads > 0);
    }
}

/* Returns a (rows,columns) tensor of small whole numbers, whose products are exact in floats. */
static tg_tensor *whole_numbers(int64_t rows, int64_t columns, int factor)
{
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(rows, columns), NULL);
    assert_non_null(x);
    float *values = tg_tensor_data_mut(x);
    for (int64_t i = 0; i < rows * columns; i++) {
        values[i] = (float)(i * factor % 7 - 3);
    }
    return x;
}

/* Products are right with any number of threads, also with more than BLAS has, and around the size above which BLAS may
 * divide them. */
static void test_any_number_of_threads(void **state)
{
    (void)state;
    int before = tg_threads();
    const int64_t sizes[] = {63, 64, 65, 300};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t n = sizes[s];
        tg_tensor *a = whole_numbers(n, n, 3), *b = whole_numbers(n, n, 5);
        const float *x = tg_tensor_data(a), *y = tg_tensor_data(b);
        double *expected = calloc((size_t)(n * n), sizeof *expected);
        assert_non_null(expected);
        for (int64_t i = 0; i < n * n * n; i++) {
            int64_t row = i / (n * n), k = i / n % n, column = i % n;
            expected[row * n + column] += (double)x[row * n + k] * (double)y[k * n + column];
        }
        for (int threads = 1; threads <= 256; threads *= 4) {
            assert_true(tg_set_threads(threads, NULL));
            tg_tape *t = tg_tape_new(NULL, NULL);
            assert_values(tg_matmul(t, a, b), expected, n * n, 0, 0);
            tg_tape_free(t);
        }
        free(expected);
        tg_release(a);
        tg_release(b);
    }
    assert_true(tg_set_threads(before, NULL));
}

/* All transpositions, with gaps between rows, and vectors, which BLAS computes by other functions. C holds NaN unless
 * the product is added to it. */
static void test_all_forms(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{1, 1, 1},  {1, 70, 9},  {70, 1, 9}, {1, 70, 1},
                                {70, 1, 1}, {9, 70, 30}, {1, 1, 40}, {3, 2, 0}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int kind = 0; kind < 8; kind++) {
            tg_gemm g = {.m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2]};
            g.transpose_a = kind & 1;
            g.b_layout = kind & 2 ? TG_TRANSPOSED : TG_ROW_MAJOR;
            g.add = kind & 4;
            g.lda = (g.transpose_a ? g.m : g.k) + 2;
            g.ldb = (g.b_layout == TG_TRANSPOSED ? g.k : g.n) + 3;
            g.ldc = g.n + 1;
            tg_tensor *a = whole_numbers(100, 110, 3), *b = whole_numbers(100, 110, 5);
            float c[80 * 80];
            for (int64_t i = 0; i < g.m * g.ldc; i++) {
                c[i] = g.add ? (float)(i % 5) : NAN;
            }
            const float *x = tg_tensor_data(a), *y = tg_tensor_data(b);
            tg_gemm_f32(&g, x, y, c);
            for (int64_t i = 0; i < g.m * g.n; i++) {
                int64_t row = i / g.n, column = i % g.n, at = row * g.ldc + column;
                float expected = g.add ? (float)(at % 5) : 0;
                for (int64_t k = 0; k < g.k; k++) {
                    expected += x[g.transpose_a ? k * g.lda + row : row * g.lda + k] *
                                y[g.b_layout == TG_TRANSPOSED ? column * g.ldb + k : k * g.ldb + column];
                }
                assert_true(c[at] == expected);
            }
            tg_release(a);
            tg_release(b);
        }
    }
}

#define MOST_ROWS 18

/* Products of few rows do not go to BLAS: the same results below and above that number of rows. */
static void test_few_rows(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 31, 32, 33, 100, 769}, columns = 70;
    for (int64_t i = 0; i < 6 * MOST_ROWS; i++) {
        int64_t n = sizes[i / MOST_ROWS], rows = 1 + i % MOST_ROWS;
        tg_tensor *x = whole_numbers(rows, n, 3), *weight = whole_numbers(columns, n, 5);
        tg_tensor *bias = tg_tensor_new_full(TG_F32, TG_SHAPE(columns), 2, NULL);
        double expected[MOST_ROWS * 70];
        for (int64_t k = 0; k < rows * columns; k++) {
            const float *a = (const float *)tg_tensor_data(x) + k / columns * n;
            const float *b = (const float *)tg_tensor_data(weight) + k % columns * n;
            expected[k] = 2;
            for (int64_t l = 0; l < n; l++) {
                expected[k] += (double)a[l] * (double)b[l];
            }
        }
        tg_tape *t = tg_tape_new(NULL, NULL);
        assert_values(tg_linear(t, x, weight, bias), expected, rows * columns, 0, 0);
        tg_tape_free(t);
        tg_release(x);
        tg_release(weight);
        tg_release(bias);
    }
}

/* Computes the product of `count` rows of x with W^T, at a level of the processor and with some threads. */
static tg_tensor *linear_with(tg_tensor *x, int64_t first, int64_t count, tg_tensor *weight, int level, int threads)
{
    const int64_t width = tg_tensor_size(x, 1);
    tg_tensor *rows = tg_tensor_new(tg_tensor_dtype(x), TG_SHAPE(count, width), NULL);
    const size_t bytes = tg_bytes_of(x) / (size_t)tg_tensor_size(x, 0);
    memcpy(tg_tensor_data_mut(rows), (const char *)tg_tensor_data(x) + (size_t)first * bytes, (size_t)count * bytes);
    assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL) && tg_set_threads(threads, NULL));
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *y = tg_retain(tg_linear(t, rows, weight, NULL));
    assert_non_null(y);
    tg_tape_free(t);
    tg_release(rows);
    return y;
}

#define ROWS 16

/* Each of a few rows has the bits of a product of its own, at every level and with every number of threads. */
static void test_bits_of_few_rows(void **state)
{
    (void)state;
    const int64_t sizes[] = {32, 33, 100, 769, 3072}, counts[] = {1, 2, 3, 5, 7, 8, 11, ROWS};
    const int threads = tg_threads(), level = (int)tg_get_cpu_level();
    tg_rng *rng = tg_rng_new(1);
    for (int i = 0; i < 10 && tg_get_matmul_backend() == TG_BACKEND_BLAS; i++) {
        const int64_t size = sizes[i / 2], columns = 131072 / size + 301; /* a large B: up to ROWS are few */
        tg_dtype dtype = i % 2 ? TG_F64 : TG_F32;
        tg_tensor *x = tg_tensor_new(dtype, TG_SHAPE(ROWS, size), NULL);
        tg_tensor *weight = tg_tensor_new(dtype, TG_SHAPE(columns, size), NULL);
        assert_true(tg_tensor_fill_normal(x, rng, 0, 1, NULL) && tg_tensor_fill_normal(weight, rng, 0, 1, NULL));
        tg_tensor *alone[ROWS];
        for (int64_t row = 0; row < ROWS; row++) {
            alone[row] = linear_with(x, row, 1, weight, 0, 1);
        }
        for (int k = 0; k < 8 * 2 * (1 + tg_level_highest()); k++) {
            tg_tensor *y = linear_with(x, 0, counts[k % 8], weight, k / 16, 1 + k / 8 % 2);
            for (int64_t row = 0; row < counts[k % 8]; row++) {
                size_t bytes = tg_bytes_of(alone[row]);
                assert_memory_equal((const char *)tg_tensor_data(y) + (size_t)row * bytes, tg_tensor_data(alone[row]),
                                    bytes);
            }
            tg_release(y);
        }
        for (int64_t row = 0; row < ROWS; row++) {
            tg_release(alone[row]);
        }
        tg_release(x);
        tg_release(weight);
    }
    tg_rng_free(rng);
    assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL) && tg_set_threads(threads, NULL));
}

#define SIDE 64
#define PRODUCTS 200

typedef struct products {
    const float *a, *b; /* product i begins at row i of a */
    float *c;           /* (PRODUCTS,SIDE,SIDE) */
} products;

static void multiply_some(void *context, int64_t begin, int64_t end)
{
    const products *p = context;
    const tg_gemm product = {SIDE, SIDE, SIDE, .b_layout = TG_TRANSPOSED, .lda = SIDE, .ldb = SIDE, .ldc = SIDE};
    for (int64_t i = begin; i < end; i++) {
        tg_gemm_f32(&product, p->a + i * SIDE, p->b, p->c + i * SIDE * SIDE);
    }
}

/* Products of several threads at the same time are right, also by an OpenBLAS without threads, which has no locks: it
 * copies a transposed B of this size to a buffer. */
static void test_products_at_the_same_time(void **state)
{
    (void)state;
    int before = tg_threads();
    tg_tensor *a = whole_numbers(SIDE + PRODUCTS, SIDE, 3), *b = whole_numbers(SIDE, SIDE, 5);
    tg_tensor *alone = whole_numbers(PRODUCTS, SIDE * SIDE, 1), *together = whole_numbers(PRODUCTS, SIDE * SIDE, 1);
    products p = {tg_tensor_data(a), tg_tensor_data(b), tg_tensor_data_mut(alone)};
    multiply_some(&p, 0, PRODUCTS);
    p.c = tg_tensor_data_mut(together);
    assert_true(tg_set_threads(4, NULL));
    for (int round = 0; round < 400; round++) {
        tg_parallel_for(PRODUCTS, 1, multiply_some, &p);
        assert_memory_equal(p.c, tg_tensor_data(alone), PRODUCTS * SIDE * SIDE * sizeof(float));
    }
    tg_tensor *all[] = {a, b, alone, together};
    for (int i = 0; i < 4; i++) {
        tg_release(all[i]);
    }
    assert_true(tg_set_threads(before, NULL));
}

/* ---- sizes ---- */

#define TOO_LARGE ((int64_t)INT32_MAX + 1)
#define LIMIT "BLAS takes sizes up to 2147483647"

/* Returns a tensor of this shape with the memory of one value. An op that refuses the shape does not read it. */
static tg_tensor *pretend(tg_dtype dtype, tg_shape shape)
{
    tg_shape ones = shape;
    for (int axis = 0; axis < shape.rank; axis++) {
        ones.size[axis] = 1;
    }
    tg_tensor *x = tg_tensor_new(dtype, ones, NULL);
    assert_non_null(x);
    x->count = 1;
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        x->shape[axis] = shape.size[axis];
        x->strides[axis] = x->count;
        x->count *= shape.size[axis];
    }
    return x;
}

static void test_sizes_beyond_32_bits(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *one = pretend(TG_F32, TG_SHAPE(1, 1)), *one_image = pretend(TG_F32, TG_SHAPE(1, 1, 1));
    tg_tensor *tall = pretend(TG_F32, TG_SHAPE(TOO_LARGE, 1)), *wide = pretend(TG_F32, TG_SHAPE(1, TOO_LARGE));
    tg_tensor *target = pretend(TG_I32, TG_SHAPE(1)), *filters = pretend(TG_F32, TG_SHAPE(TOO_LARGE, 1, 1));
    tg_tensor *deep = pretend(TG_F32, TG_SHAPE(1, TOO_LARGE / 2, 2));
    assert_null(tg_matmul(t, tall, one));
    assert_tape_error(t, TG_ERROR_SHAPE, "matmul: (2147483648,1) x (1,1): " LIMIT);
    assert_null(tg_matmul(t, one, wide));
    assert_tape_error(t, TG_ERROR_SHAPE, "matmul: (1,1) x (1,2147483648): " LIMIT);
    assert_null(tg_matmul(t, wide, tall));
    assert_tape_error(t, TG_ERROR_SHAPE, "matmul: (1,2147483648) x (2147483648,1): " LIMIT);
    assert_null(tg_linear(t, tall, one, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear: x is (2147483648,1), the weight (1,1); " LIMIT);
    assert_null(tg_linear(t, one, tall, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear: x is (1,1), the weight (2147483648,1); " LIMIT);
    assert_null(tg_linear(t, wide, wide, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear: x is (1,2147483648), the weight (1,2147483648); " LIMIT);
    assert_null(tg_linear_cross_entropy(t, one, tall, target, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear_cross_entropy: the weight is (2147483648,1); " LIMIT);
    assert_null(tg_linear_cross_entropy(t, wide, wide, target, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "linear_cross_entropy: the weight is (1,2147483648); " LIMIT);
    assert_null(tg_conv1d(t, one_image, filters, NULL, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "conv1d: the weight is (2147483648,1,1); BLAS takes O / groups");
    assert_null(tg_conv1d(t, deep, deep, NULL, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "conv1d: the weight is (1,1073741824,2); BLAS takes O / groups");
    assert_null(tg_scaled_dot_product_attention(t, one, tall, tall, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "scaled_dot_product_attention: queries (1,1), keys (2147483648,1)");
    assert_null(tg_scaled_dot_product_attention(t, wide, wide, wide, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE, "scaled_dot_product_attention: queries (1,2147483648)");
    tg_tensor *all[] = {one, one_image, tall, wide, target, filters, deep};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tg_release(all[i]);
    }
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_report),
                                       cmocka_unit_test(test_any_number_of_threads),
                                       cmocka_unit_test(test_all_forms),
                                       cmocka_unit_test(test_few_rows),
                                       cmocka_unit_test(test_bits_of_few_rows),
                                       cmocka_unit_test(test_products_at_the_same_time),
                                       cmocka_unit_test(test_sizes_beyond_32_bits)};
    return cmocka_run_group_tests_name("blas", tests, NULL, NULL);
}
