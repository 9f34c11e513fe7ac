/* Ops that move values, with sizes around those of tiles and shares of threads, beside plain loops: gather,
 * index_select, scatter_add and index_add with ids that repeat, views and their gradients, full, where and masked_fill
 * of integers, triangles, cat and stack. Numbers have a few bits, so that every sum is exact. */
#include "ops/calls.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

static double number_at(int64_t i)
{
    return (double)(i * 7919 % 61 - 30);
}

static tg_tensor *numbers(tg_dtype dtype, tg_shape shape, int64_t first)
{
    tg_tensor *x = tg_tensor_new(dtype, shape, NULL);
    assert_non_null(x);
    for (int64_t i = 0; i < x->count; i++) {
        double value = number_at(first + i);
        tg_convert((char *)tg_values(x) + (size_t)i * tg_dtype_size(dtype), dtype, &value, TG_F64, 1);
    }
    return x;
}

static double value_at(const tg_tensor *x, int64_t i)
{
    double value;
    size_t size = tg_dtype_size(tg_dtype_of(x));
    tg_convert(&value, TG_F64, (const char *)tg_values(x) + (size_t)i * size, tg_dtype_of(x), 1);
    return value;
}

static void assert_equal(const char *what, size_t k, const tg_tensor *found, const double *expected)
{
    for (int64_t i = 0; i < found->count; i++) {
        if (value_at(found, i) != expected[i]) {
            fail_msg("%s of case %zu: value %lld is %g, not %g", what, k, (long long)i, value_at(found, i),
                     expected[i]);
        }
    }
}

/* ---- ids ---- */

typedef struct selection {
    tg_shape x, ids, source; /* the source: that of scatter_add */
    int axis;
} selection;

static const selection selections[] = {
    {{2, {61, 1021}}, {2, {61, 1021}}, {2, {61, 1021}}, 1},
    {{2, {61, 1021}}, {2, {300, 1021}}, {2, {300, 1030}}, 0},
    {{2, {50, 7}}, {2, {20000, 7}}, {2, {20000, 7}}, 0},
    {{2, {1, 900}}, {2, {1, 50000}}, {2, {2, 50000}}, 1},
    {{1, {100}}, {1, {70000}}, {1, {70000}}, 0},
    {{3, {9, 40, 200}}, {3, {8, 60, 190}}, {3, {9, 60, 200}}, 1},
    {{3, {9, 40, 200}}, {3, {30, 40, 200}}, {3, {30, 41, 201}}, 0},
    {{3, {40, 1, 900}}, {3, {40, 1, 900}}, {3, {40, 1, 900}}, 2},
    {{4, {3, 5, 7, 2}}, {4, {3, 5, 9, 1}}, {4, {3, 6, 9, 2}}, 2},
    {{2, {0, 5}}, {2, {0, 5}}, {2, {0, 5}}, 1},
    {{2, {4, 5}}, {2, {4, 0}}, {2, {4, 3}}, 1},
};

static tg_tensor *draw_ids(tg_shape shape, int64_t below)
{
    uint64_t state = 17;
    tg_tensor *ids = tg_tensor_new(TG_I32, shape, NULL);
    assert_non_null(ids);
    for (int64_t i = 0; i < ids->count; i++) {
        ((int32_t *)tg_values(ids))[i] = (int32_t)draw_number(&state, below);
    }
    return ids;
}

/* The positions in x and in the source for position `at` of the ids. */
static void positions_of(const selection *s, const int32_t *ids, int64_t at, int64_t *in_x, int64_t *in_source)
{
    int64_t left = at, stride = 1, source_stride = 1;
    *in_x = *in_source = 0;
    for (int axis = s->x.rank - 1; axis >= 0; axis--) {
        int64_t index = left % s->ids.size[axis];
        left /= s->ids.size[axis];
        *in_x += (axis == s->axis ? ids[at] : index) * stride;
        *in_source += index * source_stride;
        stride *= s->x.size[axis];
        source_stride *= s->source.size[axis];
    }
}

static double *zeros(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

static void check_gather(const selection *s, size_t k, tg_dtype dtype)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = numbers(dtype, s->x, 3), *ids = draw_ids(s->ids, s->x.size[s->axis]), *dy = NULL;
    bool is_float = dtype == TG_F32 || dtype == TG_F64;
    tg_tensor *y = tg_gather(t, is_float ? leaf(x) : x, s->axis, ids);
    assert_non_null(y);
    double *expected = zeros(y->count), *dx = zeros(x->count);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t from, unused;
        positions_of(s, tg_values(ids), i, &from, &unused);
        expected[i] = value_at(x, from);
        dx[from] += number_at(5 + i);
    }
    assert_equal("gather", k, y, expected);
    if (is_float) {
        dy = numbers(dtype, s->ids, 5);
        assert_true(backward_from(t, y, dy));
        assert_equal("gradient of gather", k, tg_tensor_grad(x), dx);
    }
    free(expected);
    free(dx);
    tg_tape_free(t);
    tg_release(x);
    tg_release(ids);
    tg_release(dy);
}

static void check_scatter(const selection *s, size_t k, tg_dtype dtype)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(numbers(dtype, s->x, 3)), *ids = draw_ids(s->ids, s->x.size[s->axis]);
    tg_tensor *source = leaf(numbers(dtype, s->source, 1)), *dy = numbers(dtype, s->x, 5);
    tg_tensor *y = tg_scatter_add(t, x, s->axis, ids, source);
    assert_non_null(y);
    double *expected = zeros(y->count), *dx = zeros(y->count), *ds = zeros(source->count);
    for (int64_t i = 0; i < y->count; i++) {
        expected[i] = number_at(3 + i);
        dx[i] = number_at(5 + i);
    }
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t to, from;
        positions_of(s, tg_values(ids), i, &to, &from);
        expected[to] += number_at(1 + from);
        ds[from] += dx[to];
    }
    assert_equal("scatter_add", k, y, expected);
    for (int times = 1; times <= 2; times++) { /* the second gradient is added */
        assert_true(backward_from(t, times == 1 ? y : tg_scatter_add(t, x, s->axis, ids, source), dy));
        for (int64_t i = 0; times == 2 && i < x->count; i++) {
            dx[i] *= 2;
        }
        for (int64_t i = 0; times == 2 && i < source->count; i++) {
            ds[i] *= 2;
        }
        assert_equal("gradient of scatter_add", k, tg_tensor_grad(x), dx);
        assert_equal("gradient of scatter_add's source", k, tg_tensor_grad(source), ds);
    }
    free(expected);
    free(dx);
    free(ds);
    tg_tape_free(t);
    tg_release(x);
    tg_release(ids);
    tg_release(source);
    tg_release(dy);
}

static void check_selections(void *context, bool first)
{
    (void)context;
    (void)first;
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    for (size_t k = 0; k < sizeof selections / sizeof *selections; k++) {
        for (int d = 0; d < 4; d++) {
            check_gather(&selections[k], k, dtypes[d]);
        }
        check_scatter(&selections[k], k, TG_F32);
        check_scatter(&selections[k], k, TG_F64);
    }
}

static void test_selections(void **state)
{
    (void)state;
    over_settings(check_selections, NULL);
}

/* Slices: (outer,size,inner) at an axis, and a list of ids. */
typedef struct slices {
    int64_t outer, size, inner, selected;
} slices;

static const slices slice_cases[] = {
    {1, 61, 1021, 40}, {1, 50, 3, 20000}, {61, 1021, 1, 1021}, {1, 9, 1, 40000}, {40, 30, 65, 31},
    {3, 5, 9000, 7},   {2, 4, 8, 0},      {70, 3, 200, 5},     {1, 1, 1, 1},
};

static void check_slices(void *context, bool first)
{
    (void)context;
    (void)first;
    for (size_t k = 0; k < sizeof slice_cases / sizeof *slice_cases; k++) {
        slices s = slice_cases[k];
        tg_dtype dtype = k % 2 ? TG_F64 : TG_F32;
        tg_shape shape = TG_SHAPE(s.outer, s.size, s.inner), selected = TG_SHAPE(s.outer, s.selected, s.inner);
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(numbers(dtype, shape, 3)), *source = leaf(numbers(dtype, selected, 1));
        tg_tensor *ids = draw_ids(TG_SHAPE(s.selected), s.size);
        tg_tensor *dy = numbers(dtype, selected, 5), *dsum = numbers(dtype, shape, 9);
        tg_tensor *y = tg_index_select(t, x, 1, ids), *sum = tg_index_add(t, x, 1, ids, source);
        assert_true(y && sum && backward_from(t, y, dy) && backward_from(t, sum, dsum));
        double *selects = zeros(y->count), *sums = zeros(x->count), *dx = zeros(x->count), *ds = zeros(y->count);
        for (int64_t i = 0; i < x->count; i++) {
            sums[i] = number_at(3 + i);
            dx[i] = number_at(9 + i);
        }
        for (int64_t i = 0; i < y->count; i++) {
            int64_t outer = i / s.inner / s.selected, id = ((int32_t *)tg_values(ids))[i / s.inner % s.selected];
            int64_t at = (outer * s.size + id) * s.inner + i % s.inner;
            selects[i] = number_at(3 + at);
            sums[at] += number_at(1 + i);
            dx[at] += number_at(5 + i);
            ds[i] = number_at(9 + at);
        }
        assert_equal("index_select", k, y, selects);
        assert_equal("index_add", k, sum, sums);
        assert_equal("gradients of index_select and index_add", k, tg_tensor_grad(x), dx);
        assert_equal("gradient of index_add's source", k, tg_tensor_grad(source), ds);
        free(selects);
        free(sums);
        free(dx);
        free(ds);
        tg_tape_free(t);
        tg_release(x);
        tg_release(source);
        tg_release(ids);
        tg_release(dy);
        tg_release(dsum);
    }
}

static void test_slices(void **state)
{
    (void)state;
    over_settings(check_slices, NULL);
}

/* Of several bad ids among many, the first is named, whichever thread finds it. */
static void check_bad_ids(void *context, bool first)
{
    (void)context;
    (void)first;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = numbers(TG_F32, TG_SHAPE(9, 4), 0), *ids = draw_ids(TG_SHAPE(100000), 9);
    ((int32_t *)tg_values(ids))[99999] = 9;
    assert_null(tg_index_select(t, x, 0, ids));
    assert_tape_error(t, TG_ERROR_RANGE, "index_select: id 9 at [99999] is outside [0,9)");
    ((int32_t *)tg_values(ids))[60001] = INT32_MIN;
    assert_null(tg_index_select(t, x, 0, ids));
    assert_tape_error(t, TG_ERROR_RANGE, "index_select: id -2147483648 at [60001] is outside [0,9)");
    tg_tape_free(t);
    tg_release(x);
    tg_release(ids);
}

static void test_bad_ids(void **state)
{
    (void)state;
    over_settings(check_bad_ids, NULL);
}

/* ---- views ---- */

enum { VIEWS = 16 };

static tg_tensor *every_second(tg_tape *t, tg_tensor *x)
{
    return tg_slice(t, tg_reshape(t, x, TG_SHAPE(-1)), 0, 0, INT64_MAX, 2);
}

static tg_tensor *view_of(tg_tape *t, int kind, tg_tensor *x)
{
    switch (kind) {
    case 0: return tg_transpose(t, x, 1, 2);
    case 1: return tg_permute(t, x, tg_axes_make(3, (int[]){2, 0, 1}));
    case 2: return tg_flip(t, x, tg_axes_make(1, (int[]){2}));
    case 3: return tg_flip(t, x, tg_axes_make(2, (int[]){0, 1}));
    case 4: return tg_slice(t, x, 2, 1, INT64_MAX, 2);
    case 5: return tg_transpose(t, tg_slice(t, x, 1, 3, 60, 1), 1, 2);
    case 6: return tg_expand(t, tg_select(t, x, 0, 1), tg_tensor_shape(x));
    case 7: return tg_expand(t, tg_unsqueeze(t, x, 2), TG_SHAPE(3, 70, 5, 131));
    case 8: return tg_expand(t, tg_unsqueeze(t, x, 3), TG_SHAPE(3, 70, 131, 6));
    case 9: return tg_slice(t, x, 0, 1, INT64_MAX, 1);
    case 10: return tg_slice(t, x, 0, 0, INT64_MAX, 2);
    case 11: return tg_slice(t, x, 1, 3, 60, 4);
    case 12: return tg_select(t, x, 2, 130);
    case 13: return tg_slice(t, x, 2, 0, INT64_MAX, 131);
    case 14: return tg_reshape(t, every_second(t, x), TG_SHAPE(5, -1));
    default: return tg_reshape(t, tg_flip(t, every_second(t, x), TG_AXES(0)), TG_SHAPE(5, -1));
    }
}

/* The gradient follows from where the values of the view come from: the same view of the positions. */
static void check_views(void *context, bool first)
{
    (void)context;
    (void)first;
    const tg_shape shape = TG_SHAPE(3, 70, 131);
    for (int kind = 0; kind < VIEWS; kind++) {
        tg_dtype dtype = kind % 2 ? TG_F32 : TG_F64;
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(numbers(dtype, shape, 3)), *positions = tg_tensor_new(TG_I32, shape, NULL);
        for (int64_t i = 0; i < positions->count; i++) {
            ((int32_t *)tg_values(positions))[i] = (int32_t)i;
        }
        tg_tensor *from = tg_contiguous(t, view_of(t, kind, positions));
        tg_tensor *y = tg_contiguous(t, view_of(t, kind, x));
        tg_tensor *dy = numbers(dtype, tg_tensor_shape(y), 5);
        double *expected = zeros(y->count), *dx = zeros(x->count);
        for (int64_t i = 0; i < y->count; i++) {
            int32_t at = ((int32_t *)tg_values(from))[i];
            expected[i] = number_at(3 + at);
            dx[at] += number_at(5 + i);
        }
        assert_equal("view", (size_t)kind, y, expected);
        assert_true(backward_from(t, y, dy));
        assert_equal("gradient of view", (size_t)kind, tg_tensor_grad(x), dx);
        /* a second contribution is added */
        assert_true(backward_from(t, tg_contiguous(t, view_of(t, kind, x)), dy));
        for (int64_t i = 0; i < x->count; i++) {
            dx[i] *= 2;
        }
        assert_equal("second gradient of view", (size_t)kind, tg_tensor_grad(x), dx);
        free(expected);
        free(dx);
        tg_tape_free(t);
        tg_release(x);
        tg_release(positions);
        tg_release(dy);
    }
}

static void test_views(void **state)
{
    (void)state;
    over_settings(check_views, NULL);
    /* a reshape of values that are equally far apart shares their memory, unlike that of columns */
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = numbers(TG_F32, TG_SHAPE(4, 6), 0);
    const float *values = tg_tensor_data(x);
    assert_ptr_equal(tg_tensor_data(tg_reshape(t, tg_slice(t, x, 1, 1, INT64_MAX, 2), TG_SHAPE(2, -1))), values + 1);
    assert_ptr_not_equal(tg_tensor_data(tg_reshape(t, tg_slice(t, x, 1, 0, 4, 1), TG_SHAPE(2, -1))), values);
    tg_tape_free(t);
    tg_release(x);
}

/* ---- one value ---- */

static void check_full(void *context, bool first)
{
    (void)context;
    (void)first;
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    static const tg_shape shapes[] = {{0, {0}}, {1, {1}}, {2, {3, 5}}, {1, {70001}}, {3, {2, 0, 4}}};
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (size_t k = 0; k < 4 * sizeof shapes / sizeof *shapes; k++) {
        for (double value = 0; value < 256; value += 51) {
            tg_tensor *y = tg_full(t, dtypes[k % 4], shapes[k / 4], value);
            assert_true(y && tg_tensor_dtype(y) == dtypes[k % 4]);
            for (int64_t i = 0; i < y->count; i++) {
                assert_true(value_at(y, i) == value);
            }
        }
    }
    assert_true(isnan(value_at(tg_full(t, TG_F32, TG_SHAPE(100), NAN), 99)));
    tg_tape_free(t);
}

static void test_full(void **state)
{
    (void)state;
    over_settings(check_full, NULL);
}

/* ---- masks ---- */

/* The mask, a and b have the shape of the case where their bit is set on an axis, else size 1 on it. */
typedef struct masking {
    tg_shape shape;
    unsigned axes[3];
} masking;

static const masking maskings[] = {
    {{2, {61, 1021}}, {3, 3, 3}}, {{2, {61, 1021}}, {2, 3, 1}},   {{2, {61, 1021}}, {1, 2, 3}},
    {{1, {70000}}, {1, 0, 1}},    {{3, {5, 70, 131}}, {6, 5, 7}}, {{3, {5, 0, 131}}, {7, 7, 7}},
    {{2, {3, 5}}, {0, 3, 3}},
};

static tg_tensor *part_of(const masking *m, int operand, tg_dtype dtype, int64_t first)
{
    tg_shape shape = m->shape;
    for (int axis = 0; axis < shape.rank; axis++) {
        shape.size[axis] = m->axes[operand] >> axis & 1 ? shape.size[axis] : 1;
    }
    tg_tensor *x = numbers(TG_I32, shape, first), *cast = tg_tensor_new_cast(x, dtype, NULL);
    tg_release(x);
    return cast;
}

static double operand_at(const tg_tensor *x, tg_shape shape, int64_t at)
{
    int64_t position = 0, stride = 1;
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        position += x->shape[axis] > 1 ? at % shape.size[axis] * stride : 0;
        stride *= x->shape[axis];
        at /= shape.size[axis];
    }
    return value_at(x, position);
}

static void check_masks(void *context, bool first)
{
    (void)context;
    (void)first;
    for (size_t k = 0; k < 2 * sizeof maskings / sizeof *maskings; k++) {
        const masking *m = &maskings[k / 2];
        const tg_dtype dtype = k % 2 ? TG_I32 : TG_U8;
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *a = part_of(m, 1, dtype, 3), *b = part_of(m, 2, dtype, 8), *number = part_of(m, 0, TG_I32, 11);
        tg_tensor *full = tg_tensor_new_full(dtype, m->shape, 5, NULL);
        tg_tensor *mask = tg_gt(t, number, tg_full(t, TG_I32, TG_SCALAR, 2));
        assert_true(a && b && number && full && mask);
        tg_tensor *y = tg_where(t, mask, a, tg_where(t, mask, b, full));
        tg_tensor *filled = tg_masked_fill(t, full, mask, 9);
        assert_true(y && filled && tg_shape_equal(tg_tensor_shape(filled), m->shape));
        tg_tensor *z = tg_where(t, mask, full, b);
        for (int64_t i = 0; i < full->count; i++) {
            bool is_true = operand_at(number, m->shape, i) > 2;
            assert_true(value_at(y, i) == (is_true ? operand_at(a, m->shape, i) : 5));
            assert_true(value_at(z, i) == (is_true ? 5 : operand_at(b, m->shape, i)));
            assert_true(value_at(filled, i) == (is_true ? 9 : 5));
        }
        tg_tape_free(t);
        tg_release(a);
        tg_release(b);
        tg_release(number);
        tg_release(full);
    }
}

static void test_masks_of_integers(void **state)
{
    (void)state;
    over_settings(check_masks, NULL);
}

/* ---- triangles ---- */

static void check_triangles(void *context, bool first)
{
    (void)context;
    (void)first;
    static const tg_shape shapes[] = {{2, {61, 1021}}, {2, {300, 70}}, {3, {40, 33, 33}}, {2, {3, 0}}, {2, {1, 1}}};
    static const int64_t diagonals[] = {0, 1, -1, 40, -40, 2000, -2000, INT64_MAX, INT64_MIN};
    for (size_t k = 0; k < 2 * 9 * sizeof shapes / sizeof *shapes; k++) {
        const tg_shape shape = shapes[k / 18];
        const int64_t diagonal = diagonals[k / 2 % 9], rows = shape.size[shape.rank - 2],
                      columns = shape.size[shape.rank - 1];
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(numbers(k % 3 ? TG_F32 : TG_F64, shape, 3)), *dy = numbers(x->dtype, shape, 5);
        double *expected = zeros(x->count), *dx = zeros(x->count);
        for (int pass = 1; pass <= 2; pass++) {
            /* the values are the same through two transpositions, and a copy in another layout */
            tg_tensor *swapped = tg_transpose(t, tg_contiguous(t, tg_transpose(t, x, -1, -2)), -1, -2);
            tg_tensor *y = (k % 2 ? tg_triu : tg_tril)(t, pass == 1 ? x : swapped, diagonal);
            assert_non_null(y);
            for (int64_t i = 0; i < x->count; i++) {
                int64_t row = i / columns % rows, column = i % columns;
                bool kept = k % 2 ? column - row >= diagonal : column - row <= diagonal;
                expected[i] = kept ? number_at(3 + i) : 0;
                dx[i] = kept ? pass * number_at(5 + i) : 0;
            }
            assert_equal("triangle", k, y, expected);
            assert_true(backward_from(t, y, dy));
            assert_equal("gradient of a triangle", k, tg_tensor_grad(x), dx);
        }
        free(expected);
        free(dx);
        tg_tape_free(t);
        tg_release(x);
        tg_release(dy);
    }
}

static void test_triangles(void **state)
{
    (void)state;
    over_settings(check_triangles, NULL);
}

/* Each axis has its values again and again, whatever the number of axes that are copied together. */
static void test_repeat(void **state)
{
    (void)state;
    static const struct {
        tg_shape shape, times;
    } cases[] = {{{1, {3}}, {1, {4}}},
                 {{2, {5, 7}}, {2, {2, 3}}},
                 {{2, {5, 7}}, {4, {3, 1, 2, 1}}},
                 {{3, {2, 3, 4}}, {3, {1, 0, 2}}},
                 {{3, {2, 0, 4}}, {3, {3, 5, 2}}},
                 {{5, {2, 3, 1, 2, 3}}, {5, {2, 3, 2, 2, 2}}},
                 {{8, {2, 1, 3, 1, 2, 2, 1, 2}}, {8, {2, 2, 2, 2, 2, 1, 2, 2}}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const tg_shape *shape = &cases[k].shape, *times = &cases[k].times;
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(numbers(TG_F32, *shape, 3)), *y = tg_repeat(t, x, *times);
        assert_non_null(y);
        tg_tensor *dy = numbers(TG_F32, tg_tensor_shape(y), 5);
        double *expected = zeros(y->count), *dx = zeros(x->count);
        for (int64_t i = 0; i < y->count; i++) {
            int64_t from = 0, stride = 1, rest = i;
            for (int axis = times->rank - 1; axis >= 0; axis--) {
                int own = axis - (times->rank - shape->rank);
                int64_t size = own < 0 ? 1 : shape->size[own];
                assert_int_equal(y->shape[axis], size * times->size[axis]);
                from += rest % y->shape[axis] % size * stride;
                rest /= y->shape[axis];
                stride *= size;
            }
            expected[i] = number_at(3 + from);
            dx[from] += number_at(5 + i);
        }
        assert_equal("repeat", k, y, expected);
        assert_true(backward_from(t, y, dy));
        assert_equal("gradient of repeat", k, tg_tensor_grad(x), dx);
        free(expected);
        free(dx);
        tg_tape_free(t);
        tg_release(x);
        tg_release(dy);
    }
}

/* ---- joins ---- */

/* Parts of (rows, .., columns) with these widths, which cat joins; stack joins three of the first width. */
typedef struct join {
    int64_t rows, widths[3];
} join;

static const join joins[] = {
    {61, {1021, 1, 40}}, {1, {20000, 0, 3}}, {9000, {1, 2, 1}}, {700, {96, 96, 96}}, {0, {2, 3, 4}}};

static void check_joins(void *context, bool first)
{
    (void)context;
    (void)first;
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    for (size_t k = 0; k < 4 * sizeof joins / sizeof *joins; k++) {
        const join *j = &joins[k / 4];
        tg_dtype dtype = dtypes[k % 4];
        bool is_float = k % 4 < 2;
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *parts[3], *same[3];
        int64_t width = j->widths[0] + j->widths[1] + j->widths[2];
        for (int p = 0; p < 3; p++) {
            parts[p] = numbers(dtype, TG_SHAPE(j->rows, j->widths[p]), 100 * p);
            same[p] = numbers(dtype, TG_SHAPE(j->rows, j->widths[0]), 100 * p);
            parts[p] = is_float ? leaf(parts[p]) : parts[p];
        }
        tg_tensor *y = tg_cat(t, parts, 3, 1), *stack = tg_stack(t, same, 3, 2),
                  *dy = numbers(dtype, TG_SHAPE(j->rows, width), 5);
        assert_true(y && stack);
        double *expected = zeros(y->count), *stacked = zeros(stack->count);
        for (int64_t row = 0, at = 0; row < j->rows; row++) {
            for (int p = 0; p < 3; p++) {
                for (int64_t i = 0; i < j->widths[p]; i++) {
                    expected[at++] = value_at(parts[p], row * j->widths[p] + i);
                }
            }
        }
        for (int64_t i = 0; i < stack->count; i++) {
            stacked[i] = value_at(same[i % 3], i / 3);
        }
        assert_equal("cat", k, y, expected);
        assert_equal("stack", k, stack, stacked);
        for (int pass = 1; is_float && pass <= 2; pass++) { /* the second time without the gradient of the first part */
            assert_true(tg_tensor_set_requires_grad(parts[0], pass == 1, NULL));
            assert_true(backward_from(t, pass == 1 ? y : tg_cat(t, parts, 3, 1), dy));
            for (int64_t p = 0, begin = 0; p < 3; begin += j->widths[p++]) {
                double *dx = zeros(parts[p]->count);
                for (int64_t i = 0; i < parts[p]->count; i++) {
                    dx[i] = pass * number_at(5 + i / j->widths[p] * width + begin + i % j->widths[p]);
                }
                if (pass == 1 || p > 0) {
                    assert_equal("gradient of cat", k, tg_tensor_grad(parts[p]), dx);
                }
                free(dx);
            }
        }
        free(expected);
        free(stacked);
        tg_tape_free(t);
        for (int p = 0; p < 3; p++) {
            tg_release(parts[p]);
            tg_release(same[p]);
        }
        tg_release(dy);
    }
}

static void test_joins(void **state)
{
    (void)state;
    over_settings(check_joins, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_selections), cmocka_unit_test(test_slices),
                                       cmocka_unit_test(test_bad_ids),    cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_repeat),     cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_triangles),  cmocka_unit_test(test_masks_of_integers),
                                       cmocka_unit_test(test_joins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
