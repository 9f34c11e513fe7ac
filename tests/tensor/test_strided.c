/* Copies and sums between two layouts, against a loop over the indices: permuted axes, steps, negative strides, values
 * that are repeated, sizes around those of tiles and pieces of work, and values of any bits. And zeros. */
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/strided.h"

typedef struct layouts {
    tg_shape shape;
    int64_t to[TG_MAX_RANK], from[TG_MAX_RANK], to_first, from_first, to_count, from_count;
} layouts;

static const tg_shape shapes[] = {
    {1, {1}},           {1, {7}},
    {1, {9001}},        {1, {40000}},
    {2, {8, 8}},        {2, {32, 32}},
    {2, {33, 31}},      {2, {61, 70}},
    {2, {5, 1000}},     {2, {1000, 5}},
    {2, {257, 300}},    {2, {129, 17}},
    {3, {9, 40, 7}},    {3, {40, 3, 65}},
    {3, {2, 130, 67}},  {4, {3, 4, 33, 35}},
    {4, {5, 2, 40, 9}}, {8, {2, 3, 2, 1, 5, 2, 3, 2}},
    {2, {1, 500}},      {2, {0, 5}},
    {3, {4, 0, 3}},     {0, {0}},
};

/* Writes strides whose axes are in a random order in memory, with a step and with some signs; returns the number of
 * values that they cover. With `repeats`, some strides are 0. */
static int64_t draw_strides(uint64_t *state, const tg_shape *shape, bool repeats, int64_t *strides, int64_t *first)
{
    int order[TG_MAX_RANK] = {0};
    int64_t next = 1;
    *first = 0;
    for (int i = 0; i < shape->rank; i++) {
        int at = (int)draw_number(state, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < shape->rank; i++) {
        int axis = order[i];
        int64_t size = shape->size[axis];
        if (repeats && draw_number(state, 3) == 0) {
            strides[axis] = 0;
            continue;
        }
        next *= draw_number(state, 5) == 0 ? 2 : 1;
        strides[axis] = next;
        next *= size > 0 ? size : 1;
        if (draw_number(state, 5) == 0 && size > 0) {
            *first += (size - 1) * strides[axis];
            strides[axis] = -strides[axis];
        }
    }
    return next;
}

static void draw_layouts(uint64_t *state, bool repeats_to, layouts *l)
{
    l->shape = shapes[draw_number(state, (int64_t)(sizeof shapes / sizeof *shapes))];
    l->to_count = draw_strides(state, &l->shape, repeats_to && draw_number(state, 4) == 0, l->to, &l->to_first);
    l->from_count = draw_strides(state, &l->shape, draw_number(state, 4) == 0, l->from, &l->from_first);
}

/* The offset of a row-major position. */
static int64_t offset_of(const tg_shape *shape, const int64_t *strides, int64_t position)
{
    int64_t offset = 0;
    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        offset += position % shape->size[axis] * strides[axis];
        position /= shape->size[axis];
    }
    return offset;
}

static void check_copies(void *context, bool first)
{
    (void)context;
    (void)first;
    static const size_t sizes[] = {1, 4, 8};
    uint64_t state = 11;
    for (int n = 0; n < 150; n++) {
        layouts l;
        draw_layouts(&state, true, &l);
        size_t size = sizes[n % 3];
        size_t to_bytes = (size_t)l.to_count * size, from_bytes = (size_t)l.from_count * size;
        unsigned char *from = malloc(from_bytes), *to = malloc(to_bytes), *expected = malloc(to_bytes);
        assert_true(from && to && expected);
        for (size_t i = 0; i < from_bytes; i++) {
            from[i] = (unsigned char)draw_number(&state, 256);
        }
        memset(to, 0xab, to_bytes);
        memset(expected, 0xab, to_bytes);
        for (int64_t i = 0; i < tg_shape_count(l.shape); i++) {
            memcpy(expected + (size_t)(l.to_first + offset_of(&l.shape, l.to, i)) * size,
                   from + (size_t)(l.from_first + offset_of(&l.shape, l.from, i)) * size, size);
        }
        tg_strided s = tg_strided_of(&l.shape, l.to, l.from);
        tg_strided_copy(&s, size, to + (size_t)l.to_first * size, from + (size_t)l.from_first * size);
        if (memcmp(to, expected, to_bytes) != 0) {
            fail_msg("copy %d of values of %zu bytes differs", n, size);
        }
        free(from);
        free(to);
        free(expected);
    }
}

/* Numbers of every kind. */
static float draw_float(uint64_t *state)
{
    static const float special[] = {0, -0.0f, 1e-40f, -1e-45f, INFINITY, -INFINITY, NAN, 3e38f};
    int64_t kind = draw_number(state, 40);
    return kind < 8 ? special[kind] : (float)draw_number(state, 1000) / 7 - 60;
}

static bool same_float(double a, double b)
{
    return (a != a && b != b) || (a == b && signbit(a) == signbit(b));
}

static void check_sums(void *context, bool first)
{
    (void)context;
    (void)first;
    uint64_t state = 5;
    for (int n = 0; n < 100; n++) {
        layouts l;
        draw_layouts(&state, false, &l);
        bool wide = n % 2 == 0;
        size_t size = wide ? sizeof(double) : sizeof(float);
        double *expected = malloc((size_t)l.to_count * sizeof *expected);
        void *to = malloc((size_t)l.to_count * size), *from = malloc((size_t)l.from_count * size);
        assert_true(expected && to && from);
        for (int64_t i = 0; i < l.from_count; i++) {
            double value = (double)draw_float(&state);
            tg_convert((char *)from + (size_t)i * size, wide ? TG_F64 : TG_F32, &value, TG_F64, 1);
        }
        for (int64_t i = 0; i < l.to_count; i++) {
            expected[i] = (double)draw_float(&state);
            tg_convert((char *)to + (size_t)i * size, wide ? TG_F64 : TG_F32, &expected[i], TG_F64, 1);
        }
        for (int64_t i = 0; i < tg_shape_count(l.shape); i++) {
            int64_t at = l.to_first + offset_of(&l.shape, l.to, i);
            int64_t source = l.from_first + offset_of(&l.shape, l.from, i);
            expected[at] = wide ? expected[at] + ((double *)from)[source]
                                : (double)((float)expected[at] + ((float *)from)[source]);
        }
        tg_strided s = tg_strided_of(&l.shape, l.to, l.from);
        tg_strided_add(&s, wide ? TG_F64 : TG_F32, (char *)to + (size_t)l.to_first * size,
                       (char *)from + (size_t)l.from_first * size);
        for (int64_t i = 0; i < l.to_count; i++) {
            double found = wide ? ((double *)to)[i] : (double)((float *)to)[i];
            if (!same_float(found, expected[i])) {
                fail_msg("sum %d: value %lld is %g, not %g", n, (long long)i, found, expected[i]);
            }
        }
        free(expected);
        free(to);
        free(from);
    }
}

/* All bytes of the values are zero, and those around them stay. */
static void check_zeros(void *context, bool first)
{
    (void)context;
    (void)first;
    enum { MOST = 400001, AROUND = 64 };
    static unsigned char bytes[MOST * 8 + 2 * AROUND], expected[sizeof bytes];
    static const int64_t counts[] = {0, 1000, 262144, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (size_t size = 1; size <= 8; size *= 2) {
            memset(bytes, 7, sizeof bytes);
            memset(expected, 7, sizeof expected);
            memset(expected + AROUND, 0, (size_t)counts[i] * size);
            tg_zero_values(bytes + AROUND, counts[i], size);
            assert_memory_equal(bytes, expected, sizeof bytes);
        }
    }
}

static void test_copies(void **state)
{
    (void)state;
    over_settings(check_copies, NULL);
}

static void test_sums(void **state)
{
    (void)state;
    over_settings(check_sums, NULL);
}

static void test_zeros(void **state)
{
    (void)state;
    over_settings(check_zeros, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies), cmocka_unit_test(test_sums),
                                       cmocka_unit_test(test_zeros)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
