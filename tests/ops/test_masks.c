/* Comparisons, logical ops and casts beside plain loops: every pair of dtypes, special values, sizes around those of
 * chunks and of shares of threads, three layouts, at each level. */
#include <math.h>
#include <string.h>

#include "base/level.h"
#include "support.h"
#include "tensor/tensor.h"

static const double specials[] = {0,    -0.0, 1,   2,    255, -1,   0.5, 1e-42, -1e-310, 3e9,
                                  -3e9, 256,  300, 1e30, NAN, -NAN, 7,   0,     0,       128};
static const int64_t sizes[] = {0, 1, 2, 15, 16, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1025, 33000, 140000};

typedef enum layout { PLAIN, BACKWARDS, ONE_VALUE, LAYOUTS } layout;

/* What a tensor of this dtype holds after this number was put into it. */
static double stored(tg_dtype dtype, double value)
{
    switch (dtype) {
    case TG_F32: return (double)(float)value;
    case TG_F64: return value;
    case TG_I32:
        return value != value ? 0 : value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : trunc(value);
    default: return value != value ? 0 : value < 0 ? 0 : value > 255 ? 255 : trunc(value);
    }
}

/* Number i of an operand in row-major order. */
static double number(int operand, int64_t i)
{
    uint64_t mixed = (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> (operand ? 40 : 17);
    return specials[mixed % (sizeof specials / sizeof *specials)];
}

static double operand_value(int operand, tg_dtype dtype, layout of, int64_t n, int64_t i)
{
    return stored(dtype, number(operand, of == PLAIN ? i : of == BACKWARDS ? n - 1 - i : 0));
}

static tg_tensor *operand_new(tg_tape *t, int operand, tg_dtype dtype, layout of, int64_t n)
{
    int64_t own = of == ONE_VALUE && n > 0 ? 1 : n;
    tg_tensor *x = tg_tensor_new(dtype, TG_SHAPE(own), NULL);
    for (int64_t i = 0; i < own; i++) {
        double value = stored(dtype, number(operand, i));
        tg_convert((char *)tg_values(x) + i * (int64_t)tg_size_of((int)dtype), dtype, &value, TG_F64, 1);
    }
    if (of != BACKWARDS) {
        return x;
    }
    tg_tensor *y = tg_retain(tg_flip(t, x, TG_AXES(0)));
    tg_release(x);
    return y;
}

static bool eq(double a, double b)
{
    return a == b;
}
static bool ne(double a, double b)
{
    return a != b;
}
static bool lt(double a, double b)
{
    return a < b;
}
static bool le(double a, double b)
{
    return a <= b;
}
static bool gt(double a, double b)
{
    return a > b;
}
static bool ge(double a, double b)
{
    return a >= b;
}
static bool both(double a, double b)
{
    return a != 0 && b != 0;
}
static bool either(double a, double b)
{
    return a != 0 || b != 0;
}

static const struct comparison {
    const char *name;
    tg_tensor *(*call)(tg_tape *t, tg_tensor *a, tg_tensor *b);
    bool (*want)(double a, double b);
} comparisons[] = {{"eq", tg_eq, eq},
                   {"ne", tg_ne, ne},
                   {"lt", tg_lt, lt},
                   {"le", tg_le, le},
                   {"gt", tg_gt, gt},
                   {"ge", tg_ge, ge},
                   {"logical_and", tg_logical_and, both},
                   {"logical_or", tg_logical_or, either}};

/* A mask in a comparison counts as 0 or 1, and an integer beside a f32 is rounded to it. */
static double compared(tg_dtype dtype, tg_dtype other, double value)
{
    value = dtype == TG_U8 ? value != 0 : value;
    return other == TG_F32 ? (double)(float)value : value;
}

static void check_comparison(const struct comparison *c, tg_dtype a_dtype, tg_dtype b_dtype, layout a_layout,
                             layout b_layout, int64_t n)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *a = operand_new(t, 0, a_dtype, a_layout, n), *b = operand_new(t, 1, b_dtype, b_layout, n);
    tg_tensor *y = c->call(t, a, b);
    assert_non_null(y);
    assert_int_equal(tg_tensor_dtype(y), TG_U8);
    const uint8_t *mask = tg_tensor_data(y);
    for (int64_t i = 0; i < y->count; i++) {
        double p = compared(a_dtype, b_dtype, operand_value(0, a_dtype, a_layout, n, i)),
               q = compared(b_dtype, a_dtype, operand_value(1, b_dtype, b_layout, n, i));
        if (mask[i] != c->want(p, q)) {
            fail_msg("%s of %g (%s) and %g (%s) is %d; value %lld of %lld, layouts %d and %d", c->name, p,
                     tg_dtype_name(a_dtype), q, tg_dtype_name(b_dtype), mask[i], (long long)i, (long long)n,
                     (int)a_layout, (int)b_layout);
        }
    }
    tg_release(a);
    tg_release(b);
    tg_tape_free(t);
}

static bool may_meet(tg_dtype a, tg_dtype b)
{
    bool floats = (a == TG_F32 || a == TG_F64) && (b == TG_F32 || b == TG_F64);
    return !floats || a == b;
}

static void at_each_level(void (*check)(void))
{
    tg_cpu_level first = tg_get_cpu_level();
    for (int level = 0; level <= tg_level_highest(); level++) {
        assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL));
        check();
    }
    assert_true(tg_set_cpu_level(first, NULL));
}

static void check_comparisons(void)
{
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    for (size_t k = 0; k < sizeof comparisons / sizeof *comparisons; k++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int pair = 0; pair < 16; pair++) {
                tg_dtype a = dtypes[pair / 4], b = dtypes[pair % 4];
                for (int l = 0; may_meet(a, b) && sizes[s] < 2000 && l < LAYOUTS * LAYOUTS; l++) {
                    check_comparison(&comparisons[k], a, b, (layout)(l / LAYOUTS), (layout)(l % LAYOUTS), sizes[s]);
                }
                if (sizes[s] >= 2000 && a == b) {
                    check_comparison(&comparisons[k], a, b, PLAIN, PLAIN, sizes[s]);
                }
            }
        }
    }
}

static void test_comparisons(void **state)
{
    (void)state;
    at_each_level(check_comparisons);
}

static void check_not(void)
{
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int k = 0; k < 8; k++) {
            layout of = k % 2 ? BACKWARDS : PLAIN;
            tg_tape *t = tg_tape_new(NULL, NULL);
            tg_tensor *x = operand_new(t, 0, dtypes[k / 2], of, sizes[s]), *y = tg_logical_not(t, x);
            for (int64_t i = 0; i < sizes[s]; i++) {
                assert_int_equal(((const uint8_t *)tg_tensor_data(y))[i],
                                 operand_value(0, dtypes[k / 2], of, sizes[s], i) == 0);
            }
            tg_release(x);
            tg_tape_free(t);
        }
    }
}

static void test_not(void **state)
{
    (void)state;
    at_each_level(check_not);
}

/* A cast converts each value as if it were alone. */
static void check_casts(void)
{
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int pair = 0; pair < 16; pair++) {
            tg_dtype from = dtypes[pair / 4], to = dtypes[pair % 4];
            tg_tape *t = tg_tape_new(NULL, NULL);
            tg_tensor *x = operand_new(t, 0, from, PLAIN, sizes[s]), *y = tg_cast(t, x, to);
            for (int64_t i = 0; i < sizes[s]; i++) {
                double want = stored(to, operand_value(0, from, PLAIN, sizes[s], i)), got;
                tg_convert(&got, TG_F64, (const char *)tg_tensor_data(y) + i * (int64_t)tg_size_of((int)to), to, 1);
                if (got != want && (got == got || want == want)) {
                    fail_msg("%s to %s: value %lld of %lld is %g and not %g", tg_dtype_name(from), tg_dtype_name(to),
                             (long long)i, (long long)sizes[s], got, want);
                }
            }
            tg_release(x);
            tg_tape_free(t);
        }
    }
}

static void test_casts(void **state)
{
    (void)state;
    at_each_level(check_casts);
}

/* The gradient of two casts is the sum of both: the first is written, the second added. */
static void test_gradient_of_casts(void **state)
{
    (void)state;
    for (size_t s = 1; s < sizeof sizes / sizeof *sizes; s++) {
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(sizes[s]), NULL);
        tg_tensor_set_requires_grad(x, true, NULL);
        tg_tensor *weights[2], *loss = NULL;
        for (int k = 0; k < 2; k++) {
            weights[k] = tg_tensor_new(TG_F64, TG_SHAPE(sizes[s]), NULL);
            for (int64_t i = 0; i < sizes[s]; i++) {
                ((double *)tg_values(weights[k]))[i] = (double)(i % 13) + 100 * k;
            }
            tg_tensor *part = tg_sum(t, tg_mul(t, tg_cast(t, x, TG_F64), weights[k]), TG_ALL_AXES, false);
            loss = loss ? tg_add(t, loss, part) : part;
        }
        assert_true(tg_backward(t, loss, NULL));
        for (int64_t i = 0; i < sizes[s]; i++) {
            assert_true(((const float *)tg_values(tg_tensor_grad(x)))[i] == (float)(2 * (i % 13) + 100));
        }
        tg_release(weights[0]);
        tg_release(weights[1]);
        tg_release(x);
        tg_tape_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_not),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_gradient_of_casts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
