/* Products of tensors that broadcast, in every arrangement of kept and repeated axes, beside a plain loop: values and
 * gradients. Sizes are around those of chunks, tiles and shares of threads. Numbers have a few bits, so that every sum
 * is exact; and other numbers give the same bits at each level and with any number of threads. */
#include "ops/calls.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

typedef struct pair {
    tg_shape a, b;
    bool turned; /* a is the transpose of a leaf, in its last two axes */
} pair;

static const pair pairs[] = {
    {{2, {61, 1021}}, {2, {61, 1}}, false},
    {{2, {61, 1021}}, {1, {1021}}, false},
    {{2, {61, 1021}}, {0, {0}}, false},
    {{2, {300, 700}}, {1, {1}}, false},
    {{2, {3, 5}}, {0, {0}}, false},
    {{2, {1, 1000}}, {2, {70, 1}}, false},
    {{2, {64, 1}}, {2, {1, 64}}, false},
    {{2, {20000, 8}}, {2, {20000, 1}}, false},
    {{2, {20000, 8}}, {1, {8}}, false},
    {{2, {7000, 3}}, {2, {7000, 1}}, false},
    {{2, {7000, 3}}, {1, {3}}, false},
    {{2, {500, 200}}, {1, {200}}, false},
    {{2, {500, 256}}, {1, {256}}, false},
    {{2, {500, 257}}, {1, {257}}, false},
    {{2, {4, 20000}}, {2, {4, 1}}, false},
    {{3, {4, 60, 130}}, {3, {4, 1, 130}}, false},
    {{3, {4, 60, 130}}, {3, {1, 60, 1}}, false},
    {{3, {40, 7, 90}}, {3, {40, 1, 90}}, false},
    {{3, {4, 600, 30}}, {3, {4, 1, 1}}, false},
    {{3, {600, 5, 31}}, {2, {5, 1}}, false},
    {{3, {4, 64, 192}}, {3, {4, 64, 1}}, false},
    {{2, {8, 4096}}, {2, {8, 1}}, false},
    {{4, {3, 4, 30, 64}}, {4, {3, 1, 30, 1}}, false},
    {{4, {3, 4, 30, 64}}, {4, {1, 4, 1, 64}}, false},
    {{4, {3, 4, 30, 64}}, {4, {3, 1, 1, 64}}, false},
    {{4, {3, 1, 30, 1}}, {4, {1, 40, 1, 20}}, false},
    {{3, {601, 5, 31}}, {2, {5, 1}}, false},
    {{3, {64, 100, 40}}, {2, {100, 1}}, false},
    {{4, {300, 3, 20, 5}}, {4, {300, 1, 20, 1}}, false},
    {{4, {3, 70, 2, 9}}, {4, {3, 1, 2, 1}}, false},
    {{3, {5, 30, 4500}}, {3, {5, 1, 4500}}, false},
    {{3, {2, 6000, 3}}, {3, {2, 1, 3}}, false},
    {{2, {0, 300}}, {1, {300}}, false},
    {{2, {300, 0}}, {2, {300, 1}}, false},
    {{2, {33, 600}}, {2, {33, 600}}, true},
    {{2, {16, 64}}, {2, {16, 64}}, true},
    {{2, {40, 65}}, {2, {40, 1}}, true},
    {{3, {3, 50, 100}}, {1, {100}}, true},
    {{3, {3, 15, 100}}, {3, {3, 15, 1}}, true},
    {{2, {1, 700}}, {2, {90, 700}}, true},
};

static double whole_number(int64_t i)
{
    return (double)(i * 7919 % 61 - 30);
}

static double any_number(int64_t i)
{
    return sin(1.3 * (double)i) + 1e-3;
}

static tg_tensor *filled(tg_dtype dtype, tg_shape shape, double (*number)(int64_t i), int64_t first)
{
    tg_tensor *x = leaf(tg_tensor_new(dtype, shape, NULL));
    for (int64_t i = 0; i < x->count; i++) {
        tg_put(x, i, number(first + i));
    }
    return x;
}

/* The same with a NaN, infinities of one sign in each column of some widths, and numbers near the smallest. */
static double strange_number(int64_t i)
{
    return i % 7919 == 100 ? (double)NAN : i % 3001 == 50 ? (double)INFINITY : i % 11 == 3 ? 1e-40 : any_number(i);
}

static double value_at(const void *values, tg_dtype dtype, int64_t i)
{
    return dtype == TG_F32 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

/* The position in an operand for position `at` of the result. */
static int64_t position_of(const tg_shape *operand, bool turned, const tg_shape *result, int64_t at)
{
    int64_t index[TG_MAX_RANK] = {0}, position = 0, stride = 1;
    tg_shape shape = *operand;
    for (int axis = result->rank - 1; axis >= 0; axis--) {
        int own = axis - (result->rank - shape.rank);
        if (own >= 0) {
            index[own] = at % result->size[axis] % shape.size[own];
        }
        at /= result->size[axis];
    }
    if (turned) {
        int last = shape.rank - 1;
        int64_t size = shape.size[last], i = index[last];
        shape.size[last] = shape.size[last - 1];
        shape.size[last - 1] = size;
        index[last] = index[last - 1];
        index[last - 1] = i;
    }
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        position += index[axis] * stride;
        stride *= shape.size[axis];
    }
    return position;
}

/* The product of a pair, and its gradients. */
typedef struct product {
    tg_tape *tape;
    tg_tensor *a, *b, *dy, *y; /* a: the leaf */
} product;

static product multiply(const pair *p, tg_dtype dtype, double (*number)(int64_t i))
{
    product r = {.tape = tg_tape_new(NULL, NULL)};
    tg_shape shape = p->a;
    int last = shape.rank - 1;
    if (p->turned) {
        shape.size[last] = p->a.size[last - 1];
        shape.size[last - 1] = p->a.size[last];
    }
    r.a = filled(dtype, shape, number, 0);
    r.b = filled(dtype, p->b, number, 7);
    tg_tensor *a = p->turned ? tg_transpose(r.tape, r.a, -1, -2) : r.a;
    r.y = tg_mul(r.tape, a, r.b);
    assert_non_null(r.y);
    r.dy = filled(dtype, tg_tensor_shape(r.y), number, 31);
    assert_true(backward_from(r.tape, r.y, r.dy));
    return r;
}

static void release(product *r)
{
    tg_tape_free(r->tape);
    tg_release(r->a);
    tg_release(r->b);
    tg_release(r->dy);
}

static void assert_equal(const char *what, const pair *p, const tg_tensor *found, const double *expected)
{
    char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
    for (int64_t i = 0; i < found->count; i++) {
        double value = value_at(tg_values(found), tg_dtype_of(found), i);
        if (value != expected[i]) {
            fail_msg("%s %s: %s %lld is %g, not %g", tg_shape_format(p->a, a), tg_shape_format(p->b, b), what,
                     (long long)i, value, expected[i]);
        }
    }
}

static void check_values(void *context, bool first)
{
    (void)context;
    (void)first;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        const pair *p = &pairs[k];
        tg_dtype dtype = k % 4 == 3 ? TG_F64 : TG_F32;
        product r = multiply(p, dtype, whole_number);
        tg_shape shape = tg_tensor_shape(r.y);
        double *y = calloc((size_t)r.y->count + 1, sizeof *y), *da = calloc((size_t)r.a->count + 1, sizeof *da),
               *db = calloc((size_t)r.b->count + 1, sizeof *db);
        assert_true(y && da && db);
        for (int64_t i = 0; i < r.y->count; i++) {
            int64_t at_a = position_of(&p->a, p->turned, &shape, i), at_b = position_of(&p->b, false, &shape, i);
            double a = whole_number(at_a), b = whole_number(7 + at_b), dy = whole_number(31 + i);
            y[i] = a * b;
            da[at_a] += dy * b;
            db[at_b] += dy * a;
        }
        assert_equal("value", p, r.y, y);
        assert_equal("gradient of a at", p, tg_tensor_grad(r.a), da);
        assert_equal("gradient of b at", p, tg_tensor_grad(r.b), db);
        free(y);
        free(da);
        free(db);
        release(&r);
    }
}

static void test_values(void **state)
{
    (void)state;
    over_settings(check_values, NULL);
}

/* Returns whether two values are NaN or have the same bits. */
static bool same_value(const void *a, const void *b, tg_dtype dtype, int64_t i)
{
    size_t size = tg_dtype_size(dtype);
    return memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size) == 0 ||
           (isnan(value_at(a, dtype, i)) && isnan(value_at(b, dtype, i)));
}

/* Compares the bits of a tensor with those of the first setting, which it keeps. */
static void compare_bits(void **kept, bool first, const tg_tensor *x, size_t k)
{
    if (first) {
        *kept = malloc(tg_bytes_of(x) + 1);
        assert_non_null(*kept);
        memcpy(*kept, tg_values(x), tg_bytes_of(x));
        return;
    }
    for (int64_t i = 0; i < x->count; i++) {
        if (!same_value(*kept, tg_values(x), tg_dtype_of(x), i)) {
            fail_msg("pair %zu has other bits in value %lld", k, (long long)i);
        }
    }
}

typedef struct bits {
    double (*number)(int64_t i);
    void *kept[3 * sizeof pairs / sizeof *pairs];
} bits;

static void check_bits(void *context, bool first)
{
    bits *b = context;
    void **kept = b->kept;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        product r = multiply(&pairs[k], k % 4 == 3 ? TG_F64 : TG_F32, b->number);
        compare_bits(&kept[3 * k], first, r.y, k);
        compare_bits(&kept[3 * k + 1], first, tg_tensor_grad(r.a), k);
        compare_bits(&kept[3 * k + 2], first, tg_tensor_grad(r.b), k);
        release(&r);
    }
}

static void test_bits(void **state)
{
    (void)state;
    double (*const numbers[])(int64_t) = {any_number, strange_number};
    for (int n = 0; n < 2; n++) {
        bits b = {.number = numbers[n]};
        over_settings(check_bits, &b);
        for (size_t k = 0; k < sizeof b.kept / sizeof *b.kept; k++) {
            free(b.kept[k]);
        }
    }
}

/* NaN and infinities go where the sums of a plain loop have them. */
static void check_specials(void *context, bool first)
{
    (void)context;
    (void)first;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        const pair *p = &pairs[k];
        product r = multiply(p, TG_F32, strange_number);
        tg_shape shape = tg_tensor_shape(r.y);
        double *db = calloc((size_t)r.b->count + 1, sizeof *db);
        assert_non_null(db);
        for (int64_t i = 0; i < r.y->count; i++) {
            int64_t at_a = position_of(&p->a, p->turned, &shape, i), at_b = position_of(&p->b, false, &shape, i);
            db[at_b] += (double)((float)strange_number(at_a) * (float)strange_number(31 + i));
        }
        for (int64_t i = 0; i < r.b->count; i++) {
            double found = value_at(tg_values(tg_tensor_grad(r.b)), TG_F32, i), wanted = db[i];
            bool equal = isfinite(wanted) ? fabs(found - wanted) <= 1e-5 * (fabs(wanted) + 1)
                                          : found == wanted || (isnan(found) && isnan(wanted));
            if (!equal) {
                fail_msg("pair %zu: gradient of b at %lld is %g, not %g", k, (long long)i, found, wanted);
            }
        }
        free(db);
        release(&r);
    }
}

static void test_specials(void **state)
{
    (void)state;
    over_settings(check_specials, NULL);
}

/* Sums of the gradients of f32 are in double: a column of 1 + 1e-7 loses no digit. */
static void test_long_sums(void **state)
{
    (void)state;
    enum { ROWS = 40000 };
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(ROWS, 2), 1, NULL));
    tg_tensor *number = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(1), 3, NULL));
    tg_tensor *dy = tg_tensor_new_full(TG_F32, TG_SHAPE(ROWS, 2), 1.0000001192092896, NULL);
    assert_true(backward_from(t, tg_mul(t, x, number), dy));
    assert_true(((const float *)tg_values(tg_tensor_grad(number)))[0] == (float)(2 * ROWS * 1.0000001192092896));
    tg_tape_free(t);
    tg_release(x);
    tg_release(number);
    tg_release(dy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_specials), cmocka_unit_test(test_long_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
