/* Products in bf16, by oneDNN and by BLAS: against sums in double of factors that the test rounds itself. And all that
 * a user can notice of them: errors, changed parameters, threads, memory. */
#include "support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tape/tape.h"

static tg_rng *rng;

static int set_up(void **state)
{
    (void)state;
    rng = tg_rng_new(7);
    return rng ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_rng_free(rng);
    return tg_set_threads(2, NULL) ? 0 : -1;
}

/* Returns a tape with products in bf16, by oneDNN where it is fast, or else by BLAS. */
static tg_tape *new_tape(bool by_blas)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    assert_true(tg_tape_set_matmul_precision(t, TG_MATMUL_BF16));
    if (by_blas) {
        tg_onednn_free(t->onednn);
        t->onednn = NULL;
    }
    return t;
}

/* ---- rounding ---- */

/* x rounded to 8 significant bits, ties to even, by the arithmetic of double. */
static double round_to_bf16(double x)
{
    int exponent;
    if (fabs(x) < FLT_MIN || isnan(x) || isinf(x)) {
        return isnan(x) || isinf(x) ? x : copysign(0, x);
    }
    double fraction = frexp(x, &exponent), rounded = ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
    return fabs(rounded) >= ldexp(1, 128) ? copysign(INFINITY, x) : rounded;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void assert_rounded(float x, double to)
{
    double want = round_to_bf16((double)x);
    if (isnan(want) ? !isnan(to) : to != want || !signbit(to) != !signbit(want)) {
        fail_msg("%a is rounded to %a and not to %a", (double)x, to, want);
    }
}

/* Every upper half, with the lower halves around a tie, in both kinds and at each level. */
static void test_rounding(void **state)
{
    (void)state;
    static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    static tg_round_loop *const to_bf16[] = {TG_EACH_LEVEL(tg_round_to_bf16)};
    static tg_round_loop *const to_float[] = {TG_EACH_LEVEL(tg_round_to_float)};
    enum { COUNT = 6 * 1024 };
    static float from[2 * COUNT], floats[COUNT];
    static uint16_t halves[COUNT];
    for (int level = 0; level <= tg_level_highest(); level++) {
        for (uint32_t upper = 0; upper < 0x10000; upper += 1024) {
            for (uint32_t i = 0; i < COUNT; i++) {
                from[2 * i] = float_of((upper + i / 6) << 16 | lower[i % 6]);
                from[2 * i + 1] = NAN;
            }
            to_bf16[level](from, 2, COUNT, halves);
            to_float[level](from, 2, COUNT, floats);
            for (int i = 0; i < COUNT; i++) {
                assert_rounded(from[2 * i], (double)float_of((uint32_t)halves[i] << 16));
                assert_rounded(from[2 * i], (double)floats[i]);
                from[i] = from[2 * i];
            }
            to_bf16[level](from, 1, COUNT, halves);
            to_float[level](from, 1, COUNT, floats);
            for (int i = 0; i < COUNT; i++) {
                assert_rounded(from[i], (double)float_of((uint32_t)halves[i] << 16));
                assert_rounded(from[i], (double)floats[i]);
            }
        }
    }
}

/* ---- matmul ---- */

/* The rounded values of a batch of matrices. */
typedef struct matrices {
    int64_t size[4]; /* two batch axes, rows, columns */
    double *value;
} matrices;

static matrices rounded_matrices(const tg_tensor *x)
{
    matrices m = {.size = {1, 1, 1, 1}, .value = calloc((size_t)tg_tensor_count(x) + 1, sizeof(double))};
    for (int axis = 0; axis < tg_tensor_rank(x); axis++) {
        m.size[4 - tg_tensor_rank(x) + axis] = tg_tensor_size(x, axis);
    }
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        m.value[i] = round_to_bf16(tg_tensor_value_at(x, i));
    }
    return m;
}

/* The index of a value; a batch axis of size 1 is repeated. */
static int64_t at(const matrices *m, int64_t b0, int64_t b1, int64_t row, int64_t column)
{
    return (((m->size[0] == 1 ? 0 : b0) * m->size[1] + (m->size[1] == 1 ? 0 : b1)) * m->size[2] + row) * m->size[3] +
           column;
}

/* Sums in double, with the sums of the absolute values and the numbers of products. */
typedef struct sums {
    double *sum, *magnitude, *products;
} sums;

static sums sums_new(int64_t count)
{
    size_t n = (size_t)count + 1;
    return (sums){calloc(n, sizeof(double)), calloc(n, sizeof(double)), calloc(n, sizeof(double))};
}

static void add(sums *s, int64_t i, double product)
{
    s->sum[i] += product;
    s->magnitude[i] += fabs(product);
    s->products[i] += 1;
}

/* Asserts that the values of x are `times` the sums, up to the rounding of f32, and frees the sums. */
static void assert_sums(const tg_tensor *x, sums *s, int times, const char *what)
{
    assert_non_null(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double want = times * s->sum[i], got = tg_tensor_value_at(x, i);
        double bound = times * (4 * (s->products[i] + 1) * ldexp(1, -24) * s->magnitude[i] +
                                (s->products[i] + 1) * (double)FLT_MIN);
        if (!(fabs(got - want) <= bound)) {
            fail_msg("%s: value %lld is %.9g and not %.9g, with an error of at most %.2g", what, (long long)i, got,
                     want, bound);
        }
    }
    free(s->sum);
    free(s->magnitude);
    free(s->products);
}

/* Runs two backward passes, so that the second one adds. Returns dy. */
static tg_tensor *run_backward(tg_tape *t, tg_tensor *y)
{
    tg_tensor *dy = tg_tensor_new(TG_F32, tg_tensor_shape(y), NULL);
    tg_tensor_fill_normal(dy, rng, 0, 1, NULL);
    tg_backward_config config = tg_backward_config_default();
    config.gradient = dy;
    config.retain_graph = true;
    if (!tg_backward(t, y, &config) || !tg_backward(t, y, &config)) {
        fail_msg("%s", tg_tape_error(t)->text);
    }
    return dy;
}

static void check_matmul(tg_tape *t, tg_tensor *a, tg_tensor *b, const char *what)
{
    tg_tensor *c = tg_matmul(t, a, b);
    if (!c) {
        fail_msg("%s: %s", what, tg_tape_error(t)->text);
    }
    tg_tensor *dc = run_backward(t, c);
    matrices A = rounded_matrices(a), B = rounded_matrices(b), D = rounded_matrices(dc);
    sums y = sums_new(tg_tensor_count(c)), da = sums_new(tg_tensor_count(a)), db = sums_new(tg_tensor_count(b));
    for (int64_t b0 = 0; b0 < D.size[0]; b0++) {
        for (int64_t b1 = 0; b1 < D.size[1]; b1++) {
            for (int64_t i = 0; i < D.size[2]; i++) {
                for (int64_t j = 0; j < D.size[3]; j++) {
                    for (int64_t k = 0; k < A.size[3]; k++) {
                        int64_t in_a = at(&A, b0, b1, i, k), in_b = at(&B, b0, b1, k, j), in_c = at(&D, b0, b1, i, j);
                        add(&y, in_c, A.value[in_a] * B.value[in_b]);
                        add(&da, in_a, D.value[in_c] * B.value[in_b]);
                        add(&db, in_b, A.value[in_a] * D.value[in_c]);
                    }
                }
            }
        }
    }
    assert_sums(c, &y, 1, what);
    assert_sums(tg_tensor_grad(a), &da, 2, what);
    assert_sums(tg_tensor_grad(b), &db, 2, what);
    free(A.value);
    free(B.value);
    free(D.value);
    tg_release(dc);
}

typedef enum input_form { PLAIN, TRANSPOSED, GAPS, TRANSPOSED_GAPS, EXPANDED, FORMS } input_form;

/* Returns an input of a shape in a form, and in *owned the leaf. NULL if the form does not exist. */
static tg_tensor *new_input(tg_tape *t, tg_shape shape, input_form form, tg_tensor **owned)
{
    tg_shape stored = shape;
    int last = shape.rank - 1;
    bool is_transposed = form == TRANSPOSED || form == TRANSPOSED_GAPS,
         has_gaps = form == GAPS || form == TRANSPOSED_GAPS;
    *owned = NULL;
    if (form == EXPANDED && (shape.rank < 3 || shape.size[0] == 1)) {
        return NULL;
    }
    if (is_transposed) {
        stored.size[last] = shape.size[last - 1];
        stored.size[last - 1] = shape.size[last];
    }
    stored.size[last] += has_gaps ? 3 : 0;
    stored.size[0] = form == EXPANDED ? 1 : stored.size[0];
    tg_tensor *x = *owned = leaf(tg_tensor_new(TG_F32, stored, NULL));
    tg_tensor_fill_normal(x, rng, 0, 1, NULL);
    x = has_gaps ? tg_slice(t, x, -1, 2, stored.size[last] - 1, 1) : x;
    x = is_transposed ? tg_transpose(t, x, -1, -2) : x;
    x = form == EXPANDED ? tg_expand(t, x, shape) : x;
    assert_true(x && (x == *owned || tg_retain_grad(t, x)));
    return x;
}

static void check_forms(tg_tape *t, tg_shape a_shape, tg_shape b_shape)
{
    for (int i = 0; i < FORMS * FORMS; i++) {
        tg_tensor *owned[2], *a = new_input(t, a_shape, (input_form)(i / FORMS), &owned[0]);
        tg_tensor *b = new_input(t, b_shape, (input_form)(i % FORMS), &owned[1]);
        char what[200], text[2][TG_SHAPE_TEXT];
        snprintf(what, sizeof what, "%s x %s, forms %d and %d, %s", tg_shape_format(a_shape, text[0]),
                 tg_shape_format(b_shape, text[1]), i / FORMS, i % FORMS, t->onednn ? "oneDNN" : "BLAS");
        if (a && b) {
            check_matmul(t, a, b, what);
        }
        tg_tape_reset(t);
        tg_release(owned[0]);
        tg_release(owned[1]);
    }
}

static void test_matmul(void **state)
{
    (void)state;
    for (int by_blas = 0; by_blas < 2; by_blas++) {
        tg_set_threads(by_blas ? 1 : 3, NULL); /* oneDNN computes parts */
        tg_tape *t = new_tape(by_blas);
        check_forms(t, TG_SHAPE(1, 1), TG_SHAPE(1, 1));
        check_forms(t, TG_SHAPE(2, 3), TG_SHAPE(3, 4));
        check_forms(t, TG_SHAPE(0, 5), TG_SHAPE(5, 3));
        check_forms(t, TG_SHAPE(5, 0), TG_SHAPE(0, 7));
        check_forms(t, TG_SHAPE(2, 3, 4, 5), TG_SHAPE(3, 5, 2));
        int64_t before = tg_onednn_count(t->onednn);
        assert_int_equal(before, 0); /* BLAS computes small products */
        check_forms(t, TG_SHAPE(1, 600), TG_SHAPE(600, 500));
        check_forms(t, TG_SHAPE(500, 600), TG_SHAPE(600, 1));
        check_forms(t, TG_SHAPE(600, 1), TG_SHAPE(1, 500));
        check_forms(t, TG_SHAPE(64, 64), TG_SHAPE(64, 64));
        check_forms(t, TG_SHAPE(65, 67), TG_SHAPE(67, 71));
        check_forms(t, TG_SHAPE(3, 1001), TG_SHAPE(1001, 131));
        check_forms(t, TG_SHAPE(2, 3, 40, 50), TG_SHAPE(50, 60));
        check_forms(t, TG_SHAPE(3, 1, 64, 65), TG_SHAPE(2, 65, 66));
        check_forms(t, TG_SHAPE(2, 2, 70, 64), TG_SHAPE(2, 2, 64, 70));
        assert_true(!t->onednn || tg_onednn_count(t->onednn) > before);
        tg_tape_free(t);
    }
}

/* ---- linear ---- */

/* linear is matmul with a transposed weight, and a bias in f32. */
static void check_linear(tg_tape *t, int64_t rows, int64_t in, int64_t out, bool has_bias)
{
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(rows, in), NULL));
    tg_tensor *w = leaf(tg_tensor_new(TG_F32, TG_SHAPE(out, in), NULL));
    tg_tensor *b = has_bias ? leaf(tg_tensor_new(TG_F32, TG_SHAPE(out), NULL)) : NULL;
    tg_tensor_fill_normal(x, rng, 0, 1, NULL);
    tg_tensor_fill_normal(w, rng, 0, 1, NULL);
    tg_tensor_fill_normal(b, rng, 0, 1, NULL);
    tg_tensor *y = tg_linear(t, x, w, b), *dy = run_backward(t, y);
    matrices X = rounded_matrices(x), W = rounded_matrices(w), D = rounded_matrices(dy);
    sums sy = sums_new(rows * out), dx = sums_new(rows * in), dw = sums_new(out * in);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < out; j++) {
            int64_t in_y = i * out + j;
            for (int64_t k = 0; k < in; k++) {
                add(&sy, in_y, X.value[i * in + k] * W.value[j * in + k]);
                add(&dx, i * in + k, D.value[in_y] * W.value[j * in + k]);
                add(&dw, j * in + k, D.value[in_y] * X.value[i * in + k]);
            }
            if (b) {
                add(&sy, in_y, tg_tensor_value_at(b, j));
            }
        }
    }
    assert_sums(y, &sy, 1, "linear");
    assert_sums(tg_tensor_grad(x), &dx, 2, "linear, dx");
    assert_sums(tg_tensor_grad(w), &dw, 2, "linear, dW");
    free(X.value);
    free(W.value);
    free(D.value);
    tg_tape_reset(t);
    tg_release(dy);
    tg_release(x);
    tg_release(w);
    tg_release(b);
}

static void test_linear(void **state)
{
    (void)state;
    for (int by_blas = 0; by_blas < 2; by_blas++) {
        tg_set_threads(by_blas ? 1 : 3, NULL);
        tg_tape *t = new_tape(by_blas);
        for (int has_bias = 0; has_bias < 2; has_bias++) {
            check_linear(t, 3, 5, 4, has_bias);
            check_linear(t, 1, 1, 1, has_bias);
            check_linear(t, 1, 768, 500, has_bias);
            check_linear(t, 65, 129, 67, has_bias);
            check_linear(t, 300, 7, 300, has_bias);
            check_linear(t, 2000, 70, 130, has_bias);
        }
        tg_tape_free(t);
    }
}

/* ---- special values ---- */

static float product_of(tg_tape *t, float x, float w)
{
    /* the other values are 0, so the sum is one product */
    enum { N = 64 };
    static float left[N * N], right[N * N];
    memset(left, 0, sizeof left);
    memset(right, 0, sizeof right);
    left[3 * N + 5] = x;
    right[5 * N + 7] = w;
    tg_tensor *a = tensor_f32(TG_SHAPE(N, N), left), *b = tensor_f32(TG_SHAPE(N, N), right);
    float c = (float)tg_tensor_value_at(tg_matmul(t, a, b), 3 * N + 7);
    tg_release(a);
    tg_release(b);
    return c;
}

static void test_special_values(void **state)
{
    (void)state;
    for (int by_blas = 0; by_blas < 2; by_blas++) {
        tg_tape *t = new_tape(by_blas);
        assert_true(isnan(product_of(t, NAN, 2)));
        assert_true(isnan(product_of(t, float_of(0x7f800001), 2))); /* the upper half alone would be infinite */
        assert_true(isnan(product_of(t, INFINITY, 0)));
        assert_true(product_of(t, -INFINITY, 2) == -INFINITY);
        assert_true(product_of(t, FLT_MAX, 1) == INFINITY);
        assert_true(product_of(t, 0x1.fep127f, 1) == 0x1.fep127f); /* the largest bf16 */
        assert_true(product_of(t, 0x1.fep127f, 2) == INFINITY);
        assert_true(product_of(t, FLT_MIN, 1) == FLT_MIN);
        assert_true(product_of(t, FLT_MIN / 2, 0x1p100f) == 0); /* not a normal number */
        assert_true(product_of(t, 1 + 0x1p-8f, 1) == 1);        /* a tie */
        assert_true(product_of(t, 1 + 0x3p-8f, 1) == 1 + 0x4p-8f);
        tg_tape_free(t);
    }
}

/* ---- what a user can notice ---- */

static void test_errors(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    assert_int_equal(t->precision, TG_MATMUL_F32);
    assert_false(tg_tape_set_matmul_precision(t, (tg_matmul_precision)4));
    assert_tape_error(t, TG_ERROR_VALUE,
                      "tape_set_matmul_precision: 4 is not a precision; it must be TG_MATMUL_F32, TG_MATMUL_BF16, "
                      "TG_MATMUL_BF16_FAST or TG_MATMUL_REPRODUCIBLE");
    assert_false(tg_tape_set_matmul_precision(t, (tg_matmul_precision)-1));
    assert_tape_error(t, TG_ERROR_VALUE, "-1 is not a precision");
    const char *missing = tg_onednn_missing();
    assert_int_equal(tg_tape_set_matmul_precision(t, TG_MATMUL_BF16_FAST), !missing);
    assert_int_equal(t->precision, missing ? TG_MATMUL_F32 : TG_MATMUL_BF16_FAST);
    if (missing) {
        assert_tape_error(t, TG_ERROR_STATE, missing);
    }
    assert_true(tg_tape_set_matmul_precision(t, TG_MATMUL_BF16));
    assert_int_equal(t->precision, TG_MATMUL_BF16);
    tg_tensor *wrong = tg_tensor_new(TG_F32, TG_SHAPE(2, 3), NULL);
    assert_null(tg_matmul(t, wrong, wrong));
    assert_false(tg_tape_set_matmul_precision(t, TG_MATMUL_F32)); /* the first error stays */
    assert_tape_error(t, TG_ERROR_SHAPE, "inner sizes 3 and 2 differ");
    assert_int_equal(t->precision, TG_MATMUL_BF16);
    tg_release(wrong);
    tg_tape_free(t);
}

/* Returns a leaf (80,80) whose values are not bf16. */
static tg_tensor *new_leaf(tg_dtype dtype)
{
    tg_tensor *x = tg_tensor_new(dtype, TG_SHAPE(80, 80), NULL);
    tg_tensor_fill_normal(x, rng, 0, 1, NULL);
    return leaf(x);
}

static bool same_bits(const tg_tensor *a, const tg_tensor *b)
{
    size_t size = tg_dtype_size(tg_tensor_dtype(a));
    return memcmp(tg_tensor_data(a), tg_tensor_data(b), (size_t)tg_tensor_count(a) * size) == 0;
}

static void test_f64_is_unchanged(void **state)
{
    (void)state;
    tg_tape *t = new_tape(false), *plain = tg_tape_new(NULL, NULL);
    tg_tensor *x = new_leaf(TG_F64);
    assert_true(same_bits(tg_linear(t, x, x, NULL), tg_linear(plain, x, x, NULL)));
    assert_true(same_bits(tg_matmul(t, x, x), tg_matmul(plain, x, x)));
    tg_tape_free(t);
    tg_tape_free(plain);
    tg_release(x);
}

/* The gradient of x after a forward in one precision, and with another precision set in backward. */
static tg_tensor *gradient_with(tg_tensor *x, tg_tensor *w, tg_matmul_precision forward, tg_matmul_precision backward)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    assert_true(tg_tape_set_matmul_precision(t, forward));
    tg_tensor *loss = tg_sum(t, tg_linear(t, x, w, NULL), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_tape_set_matmul_precision(t, backward));
    assert_true(tg_backward(t, loss, NULL));
    tg_tensor *gradient = tg_tensor_new_copy(tg_tensor_grad(x), NULL);
    tg_tensor_zero_grad(x);
    tg_tensor_zero_grad(w);
    tg_tape_free(t);
    return gradient;
}

static void test_backward_has_the_precision_of_forward(void **state)
{
    (void)state;
    tg_tensor *x = new_leaf(TG_F32), *w = new_leaf(TG_F32), *g[4];
    for (int i = 0; i < 4; i++) {
        g[i] = gradient_with(x, w, i / 2 ? TG_MATMUL_BF16 : TG_MATMUL_F32, i % 2 ? TG_MATMUL_BF16 : TG_MATMUL_F32);
    }
    assert_true(same_bits(g[0], g[1]));
    assert_true(same_bits(g[2], g[3]));
    assert_false(same_bits(g[0], g[2]));
    for (int i = 0; i < 4; i++) {
        tg_release(g[i]);
    }
    tg_release(x);
    tg_release(w);
}

/* A parameter that changes between two forward passes of a step, in its values or in its number of rows. */
static void test_changed_parameters(void **state)
{
    (void)state;
    for (int by_blas = 0; by_blas < 2; by_blas++) {
        tg_tape *t = new_tape(by_blas), *other = new_tape(by_blas);
        tg_tensor *x = new_leaf(TG_F32), *w = new_leaf(TG_F32);
        for (int change = 0; change < 3; change++) {
            tg_tape_set_recording(t, false);
            tg_tensor *y = tg_linear(t, x, w, NULL), *want = tg_linear(other, x, w, NULL);
            assert_int_equal(tg_tensor_count(y), tg_tensor_count(want));
            assert_true(same_bits(y, want));
            tg_tape_reset(other);
            if (change == 0) {
                tg_tensor_fill_normal(w, rng, 0, 1, NULL);
            } else {
                assert_true(tg_tensor_resize_rows(w, 100, NULL));
            }
        }
        tg_tape_free(other);
        tg_release(w); /* the tape holds it until the reset */
        tg_tape_reset(t);
        tg_tape_free(t);
        tg_release(x);
    }
}

/* A parameter that needs no gradient in backward any more keeps the copy of forward. */
static void test_frozen_after_forward(void **state)
{
    (void)state;
    tg_tape *t = new_tape(false);
    tg_tensor *x = new_leaf(TG_F32), *w = new_leaf(TG_F32);
    tg_tensor *y = tg_sum(t, tg_linear(t, x, w, NULL), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_tensor_set_requires_grad(w, false, NULL));
    assert_true(tg_backward(t, y, NULL));
    tg_tensor *want = gradient_with(x, w, TG_MATMUL_BF16, TG_MATMUL_BF16);
    assert_true(tg_tensor_grad(x) == NULL || same_bits(tg_tensor_grad(x), want));
    tg_tape_free(t);
    tg_release(want);
    tg_release(x);
    tg_release(w);
}

/* Returns the gradient of w in a step with other numbers of threads in forward and in backward. */
static tg_tensor *gradient_with_threads(tg_tape *t, tg_tensor *x, tg_tensor *w, int forward, int backward)
{
    tg_tape_reset(t);
    tg_tensor_zero_grad(w);
    assert_true(tg_set_threads(forward, NULL));
    tg_tensor *y = tg_linear(t, x, w, NULL), *loss = tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_set_threads(backward, NULL) && tg_backward(t, loss, NULL));
    return tg_tensor_new_copy(tg_tensor_grad(w), NULL);
}

/* The same bits each time, as long as the number of threads is the same; backward keeps the parts of its forward. */
static void test_threads(void **state)
{
    (void)state;
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(300, 700), NULL);
    tg_tensor *w = leaf(tg_tensor_new(TG_F32, TG_SHAPE(900, 700), NULL));
    tg_tensor_fill_normal(x, rng, 0, 1, NULL);
    tg_tensor_fill_normal(w, rng, 0, 1, NULL);
    tg_tape *t = new_tape(false), *other = new_tape(false);
    static const int threads[] = {1, 2, 3, 7, 64};
    for (size_t i = 0; t->onednn && i < sizeof threads / sizeof *threads; i++) {
        tg_tensor *first = gradient_with_threads(t, x, w, threads[i], 2);
        tg_tensor *second = gradient_with_threads(other, x, w, threads[i], 5);
        assert_true(same_bits(first, second));
        tg_release(first);
        tg_release(second);
    }
    tg_tape_free(t);
    tg_tape_free(other);
    tg_release(x);
    tg_release(w);
}

/* Steps with the same shapes allocate nothing; steps with ever new shapes keep a limited number of products. */
static void test_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    for (int by_blas = 0; by_blas < 2; by_blas++) {
        tg_tape *t = new_tape(by_blas);
        tg_tensor *x = new_leaf(TG_F32), *w = new_leaf(TG_F32);
        for (int step = 0; step < 4; step++) {
            if (step == 2) {
                allocator_install(&counting);
            }
            tg_tape_reset(t);
            tg_tensor *y = tg_matmul(t, tg_linear(t, x, w, NULL), tg_transpose(t, w, 0, 1));
            assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
            tg_tensor_data_mut(w);
        }
        assert_int_equal(counting.calls, 0);
        allocator_restore();
        for (int64_t rows = 50; t->onednn && rows < 450; rows++) {
            tg_tape_reset(t);
            assert_non_null(tg_linear(t, tg_expand(t, tg_slice(t, x, 0, 0, 1, 1), TG_SHAPE(rows, 80)), w, NULL));
            assert_in_range(tg_onednn_count(t->onednn), 1, TG_ONEDNN_KEPT + 10);
        }
        tg_tape_free(t);
        tg_release(x);
        tg_release(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_f64_is_unchanged),
        cmocka_unit_test(test_backward_has_the_precision_of_forward),
        cmocka_unit_test(test_changed_parameters),
        cmocka_unit_test(test_frozen_after_forward),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
