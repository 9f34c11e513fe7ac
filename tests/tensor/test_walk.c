/* Walks over strided tensors and copies between layouts, against indices computed one by one. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/walk.h"

/* ---- layouts ---- */

/* A view of a line of storage: shape, strides and offset of the first value. */
typedef struct layout {
    const char *name;
    int rank;
    int64_t shape[TG_MAX_RANK], strides[TG_MAX_RANK], offset;
} layout;

/* Values that the line has. */
#define LINE 400

static const layout layouts[] = {
    {"scalar", 0, {0}, {0}, 0},
    {"scalar behind an offset", 0, {0}, {0}, 37},
    {"vector", 1, {7}, {1}, 3},
    {"one value", 1, {1}, {9}, 5},
    {"every third", 1, {5}, {3}, 1},
    {"reversed", 1, {6}, {-1}, 20},
    {"repeated", 1, {4}, {0}, 8},
    {"matrix", 2, {3, 5}, {5, 1}, 0},
    {"transposed", 2, {5, 3}, {1, 5}, 0},
    {"columns of a matrix", 2, {4, 3}, {10, 1}, 2},
    {"every second column", 2, {4, 3}, {10, 2}, 2},
    {"rows reversed", 2, {4, 3}, {-3, 1}, 9},
    {"both reversed", 2, {4, 3}, {-3, -1}, 11},
    {"row repeated", 2, {4, 3}, {0, 1}, 5},
    {"column repeated", 2, {4, 3}, {1, 0}, 5},
    {"all repeated", 2, {4, 3}, {0, 0}, 5},
    {"windows that overlap", 2, {5, 4}, {1, 1}, 0},
    {"cube", 3, {2, 3, 4}, {12, 4, 1}, 0},
    {"cube turned", 3, {4, 2, 3}, {1, 12, 4}, 0},
    {"cube, last axes swapped", 3, {2, 4, 3}, {12, 1, 4}, 0},
    {"cube with a gap after the first axis", 3, {2, 3, 4}, {50, 4, 1}, 0},
    {"cube with a gap after the second axis", 3, {2, 3, 4}, {30, 10, 1}, 0},
    {"axes of 1 with any stride", 4, {1, 3, 1, 4}, {77, 4, -5, 1}, 0},
    {"axes of 1 at both ends", 4, {1, 3, 4, 1}, {0, 4, 1, 99}, 0},
    {"axis of 1 between transposed ones", 3, {5, 1, 3}, {1, 1000, 5}, 0},
    {"ones alone", 3, {1, 1, 1}, {5, 6, 7}, 11},
    {"matrices repeated", 3, {3, 2, 5}, {0, 5, 1}, 0},
    {"middle repeated", 3, {3, 2, 5}, {5, 0, 1}, 0},
    {"eight axes", 8, {2, 1, 2, 3, 1, 2, 2, 2}, {48, 7, 24, 8, 7, 4, 2, 1}, 0},
    {"eight axes turned", 8, {2, 2, 2, 2, 3, 2, 1, 2}, {1, 2, 4, 8, 16, 48, 9, 96}, 0},
    {"empty", 1, {0}, {1}, 0},
    {"empty rows", 2, {3, 0}, {0, 1}, 0},
    {"no rows", 2, {0, 3}, {3, 1}, 0},
    {"no rows of two", 3, {2, 0, 3}, {3, 3, 1}, 0},
    {"empty and turned", 3, {3, 1, 0}, {1, 5, 7}, 0},
};

#define LAYOUTS ((int)(sizeof layouts / sizeof *layouts))

/* A line of storage whose value number i is i (mod 251 for bytes). */
static tg_tensor *new_line(tg_dtype dtype)
{
    tg_tensor *line = tg_tensor_new(dtype, TG_SHAPE(LINE), NULL);
    assert_non_null(line);
    for (int i = 0; i < LINE; i++) {
        double value = dtype == TG_U8 ? i % 251 : i;
        tg_convert((char *)tg_values(line) + (size_t)i * tg_dtype_size(dtype), dtype, &value, TG_F64, 1);
    }
    return line;
}

static tg_tensor *new_view(tg_tensor *line, const layout *l)
{
    tg_shape shape = tg_shape_make(l->rank, l->shape);
    tg_tensor *view = tg_tensor_make_view(NULL, line, &shape, l->strides, l->offset);
    assert_non_null(view);
    return view;
}

/* The reference: the offset of a row-major position from the first value, one division per axis. */
static int64_t offset_of(int rank, const int64_t *shape, const int64_t *strides, int64_t position)
{
    int64_t offset = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        offset += position % shape[axis] * strides[axis];
        position /= shape[axis];
    }
    return offset;
}

/* ---- walks ---- */

/* A walk over two tensors of one shape: the strides of both. */
typedef struct pair {
    int rank;
    int64_t count, shape[TG_MAX_RANK], strides[TG_MAX_RANK], other_strides[TG_MAX_RANK];
} pair;

/* Visits the positions [begin,end) in runs of at most `most`, and compares each offset with the reference. */
static void check_part(const char *name, const tg_walk *walk, const pair *p, int64_t begin, int64_t end, int64_t most)
{
    tg_cursor at = tg_walk_begin(walk, begin);
    int64_t position = begin;
    while (position < end) {
        int64_t left = end - position < most ? end - position : most, run = tg_walk_run(walk, &at, left);
        if (run < 1 || run > left) {
            fail_msg("%s: a run of %lld at %lld, with %lld left", name, (long long)run, (long long)position,
                     (long long)left);
        }
        for (int64_t i = 0; i < run; i++) {
            int64_t offset = at.offset + i * tg_walk_stride(walk),
                    other = at.other_offset + i * tg_walk_other_stride(walk);
            int64_t expected = offset_of(p->rank, p->shape, p->strides, position + i),
                    other_expected = offset_of(p->rank, p->shape, p->other_strides, position + i);
            if (offset != expected || other != other_expected) {
                fail_msg("%s: position %lld is at %lld and %lld, not at %lld and %lld", name, (long long)(position + i),
                         (long long)offset, (long long)other, (long long)expected, (long long)other_expected);
            }
        }
        tg_walk_advance(walk, &at, run);
        position += run;
    }
}

static void check_walk(const char *name, const tg_walk *walk, const pair *p)
{
    assert_int_equal(walk->count, p->count);
    assert_in_range(walk->rank, 1, TG_MAX_RANK);
    static const int64_t mosts[] = {INT64_MAX, 1, 2, 5};
    for (size_t m = 0; m < sizeof mosts / sizeof *mosts; m++) {
        check_part(name, walk, p, 0, p->count, mosts[m]);
    }
    for (int64_t begin = 0; begin < p->count; begin++) {
        check_part(name, walk, p, begin, p->count, INT64_MAX);
        check_part(name, walk, p, begin, begin + 1, INT64_MAX);
    }
}

static void test_walk_of(void **state)
{
    (void)state;
    tg_tensor *line = new_line(TG_F32);
    for (int i = 0; i < LAYOUTS; i++) {
        tg_tensor *x = new_view(line, &layouts[i]);
        tg_walk walk = tg_walk_of(x);
        pair p = {.rank = x->rank, .count = x->count};
        memcpy(p.shape, x->shape, sizeof p.shape);
        memcpy(p.strides, x->strides, sizeof p.strides);
        memcpy(p.other_strides, x->strides, sizeof p.other_strides);
        check_walk(layouts[i].name, &walk, &p);
        if (x->count > 0) {
            assert_int_equal(tg_walk_is_plain(&walk), x->contiguous);
        }
        tg_release(x);
    }
    tg_release(line);
}

/* Axes that one stride covers are one, axes of size 1 none. */
static void test_merged_axes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rank;
        int64_t size[3], stride[3];
    } expected[] = {
        {"scalar", 1, {1}, {1}},
        {"one value", 1, {1}, {1}},
        {"ones alone", 1, {1}, {1}},
        {"vector", 1, {7}, {1}},
        {"reversed", 1, {6}, {-1}},
        {"repeated", 1, {4}, {0}},
        {"matrix", 1, {15}, {1}},
        {"transposed", 2, {5, 3}, {1, 5}},
        {"columns of a matrix", 2, {4, 3}, {10, 1}},
        {"rows reversed", 2, {4, 3}, {-3, 1}},
        {"both reversed", 1, {12}, {-1}},
        {"row repeated", 2, {4, 3}, {0, 1}},
        {"all repeated", 1, {12}, {0}},
        {"windows that overlap", 2, {5, 4}, {1, 1}},
        {"cube", 1, {24}, {1}},
        {"cube turned", 2, {4, 6}, {1, 4}},
        {"cube with a gap after the first axis", 2, {2, 12}, {50, 1}},
        {"cube with a gap after the second axis", 2, {6, 4}, {10, 1}},
        {"axes of 1 with any stride", 1, {12}, {1}},
        {"axes of 1 at both ends", 1, {12}, {1}},
        {"axis of 1 between transposed ones", 2, {5, 3}, {1, 5}},
        {"matrices repeated", 2, {3, 10}, {0, 1}},
        {"middle repeated", 3, {3, 2, 5}, {5, 0, 1}},
        {"eight axes", 1, {96}, {1}},
    };
    tg_tensor *line = new_line(TG_F32);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int number = 0;
        while (strcmp(layouts[number].name, expected[i].name) != 0) {
            assert_true(++number < LAYOUTS);
        }
        tg_tensor *x = new_view(line, &layouts[number]);
        tg_walk walk = tg_walk_of(x);
        if (walk.rank != expected[i].rank) {
            fail_msg("%s: %d axes", expected[i].name, walk.rank);
        }
        /* a run is as long as the last axis, or what is left of it */
        int64_t length = expected[i].size[walk.rank - 1];
        tg_cursor first = tg_walk_begin(&walk, 0), last = tg_walk_begin(&walk, x->count - 1);
        assert_int_equal(tg_walk_run(&walk, &first, INT64_MAX), length);
        assert_int_equal(tg_walk_run(&walk, &last, INT64_MAX), 1);
        for (int axis = 0; axis < walk.rank; axis++) {
            assert_int_equal(walk.size[axis], expected[i].size[axis]);
            assert_int_equal(walk.stride[axis], expected[i].stride[axis]);
        }
        tg_release(x);
    }
    tg_release(line);
}

/* Two tensors: axes are merged only if one stride covers them in both. */
static void test_walk_of_two(void **state)
{
    (void)state;
    static const pair pairs[] = {
        {2, 15, {3, 5}, {5, 1}, {5, 1}},
        {2, 15, {3, 5}, {5, 1}, {1, 3}},
        {2, 15, {3, 5}, {1, 3}, {5, 1}},
        {2, 15, {3, 5}, {5, 1}, {0, 1}},
        {2, 15, {3, 5}, {0, 0}, {5, 1}},
        {3, 30, {3, 2, 5}, {10, 5, 1}, {10, 5, 1}},
        {3, 30, {3, 2, 5}, {10, 5, 1}, {20, 5, 1}},
        {3, 30, {3, 2, 5}, {10, 5, 1}, {-10, -5, -1}},
        {3, 30, {3, 2, 5}, {20, 10, 2}, {0, 5, 1}},
        {4, 12, {1, 3, 1, 4}, {9, 4, 9, 1}, {8, 8, 8, 2}},
        {4, 12, {1, 3, 1, 4}, {9, 4, 9, 1}, {8, 8, 8, 3}},
        {2, 0, {3, 0}, {1, 1}, {1, 1}},
    };
    static const int ranks[] = {1, 2, 2, 2, 1, 1, 2, 1, 2, 1, 2, 2};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        tg_walk walk = tg_walk_new();
        for (int axis = 0; axis < pairs[i].rank; axis++) {
            tg_walk_add_axis(&walk, pairs[i].shape[axis], pairs[i].strides[axis], pairs[i].other_strides[axis]);
        }
        char name[20];
        snprintf(name, sizeof name, "pair %zu", i);
        check_walk(name, &walk, &pairs[i]);
        if (walk.rank != ranks[i]) {
            fail_msg("%s: %d axes", name, walk.rank);
        }
    }
    tg_walk none = tg_walk_new();
    check_walk("no axes", &none, &(pair){.count = 1});
    assert_true(tg_walk_is_plain(&none));
}

/* x broadcast to a larger shape, with the offsets in a contiguous gradient of x's own shape. */
static void test_walk_broadcast(void **state)
{
    (void)state;
    static const struct {
        layout x;
        int rank;
        int64_t shape[TG_MAX_RANK];
    } cases[] = {
        {{"scalar", 0, {0}, {0}, 4}, 0, {0}},
        {{"scalar to a vector", 0, {0}, {0}, 4}, 1, {5}},
        {{"scalar to a cube", 0, {0}, {0}, 4}, 3, {2, 3, 4}},
        {{"row", 1, {4}, {1}, 0}, 3, {2, 3, 4}},
        {{"row of every third", 1, {4}, {3}, 0}, 3, {2, 3, 4}},
        {{"column", 2, {3, 1}, {1, 1}, 0}, 3, {2, 3, 4}},
        {{"column with any stride of its axis of 1", 2, {3, 1}, {7, 55}, 0}, 3, {2, 3, 4}},
        {{"first axis", 3, {2, 1, 1}, {9, 2, 3}, 0}, 3, {2, 3, 4}},
        {{"matrix turned", 2, {3, 4}, {1, 3}, 0}, 3, {2, 3, 4}},
        {{"outer axes", 3, {2, 1, 4}, {4, 4, 1}, 0}, 3, {2, 3, 4}},
        {{"same shape", 3, {2, 3, 4}, {12, 4, 1}, 0}, 3, {2, 3, 4}},
        {{"same shape turned", 3, {2, 3, 4}, {1, 2, 6}, 0}, 3, {2, 3, 4}},
        {{"reversed", 2, {3, 4}, {-4, -1}, 11}, 3, {2, 3, 4}},
        {{"no rows", 2, {1, 4}, {4, 1}, 0}, 3, {2, 0, 4}},
        {{"eight axes", 4, {2, 1, 3, 1}, {3, 3, 1, 1}, 0}, 8, {2, 1, 2, 1, 2, 2, 3, 2}},
    };
    tg_tensor *line = new_line(TG_F64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_tensor *x = new_view(line, &cases[i].x);
        tg_shape shape = tg_shape_make(cases[i].rank, cases[i].shape);
        tg_walk walk = tg_walk_broadcast(x, &shape);
        pair p = {.rank = shape.rank, .count = tg_shape_count(shape)};
        int64_t own = 1;
        for (int axis = shape.rank - 1; axis >= 0; axis--) {
            int from = axis - (shape.rank - x->rank);
            p.shape[axis] = shape.size[axis];
            if (from >= 0 && x->shape[from] != 1) {
                p.strides[axis] = x->strides[from];
                p.other_strides[axis] = own;
                own *= x->shape[from];
            }
        }
        check_walk(cases[i].x.name, &walk, &p);
        tg_release(x);
    }
    tg_release(line);
}

/* ---- copies ---- */

static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};

static bool overlaps(const layout *l)
{
    return strstr(l->name, "repeated") || strstr(l->name, "overlap");
}

static void test_copy_to_contiguous(void **state)
{
    (void)state;
    for (int d = 0; d < 4; d++) {
        tg_tensor *line = new_line(dtypes[d]);
        size_t size = tg_dtype_size(dtypes[d]);
        for (int i = 0; i < LAYOUTS; i++) {
            tg_tensor *x = new_view(line, &layouts[i]);
            size_t bytes = (size_t)x->count * size;
            /* with a byte on each side that must stay; aligned as the dtype needs it */
            unsigned char *out = malloc(bytes + 16);
            assert_non_null(out);
            memset(out, 0xab, bytes + 16);
            tg_copy_to_contiguous(x, out + 8);
            for (int64_t k = 0; k < x->count; k++) {
                int64_t from = layouts[i].offset + offset_of(x->rank, x->shape, x->strides, k);
                if (memcmp(out + 8 + (size_t)k * size, (char *)tg_values(line) + (size_t)from * size, size) != 0) {
                    fail_msg("%s of %s: value %lld is not that at %lld", layouts[i].name, tg_dtype_name(dtypes[d]),
                             (long long)k, (long long)from);
                }
            }
            for (int k = 0; k < 8; k++) {
                assert_int_equal(out[k], 0xab);
                assert_int_equal(out[8 + bytes + (size_t)k], 0xab);
            }
            free(out);
            tg_release(x);
        }
        tg_release(line);
    }
}

/* Writes to a view: its values change, and no others of the line. */
static void test_copy_from_contiguous(void **state)
{
    (void)state;
    for (int d = 0; d < 4; d++) {
        size_t size = tg_dtype_size(dtypes[d]);
        for (int i = 0; i < LAYOUTS; i++) {
            if (overlaps(&layouts[i])) {
                continue;
            }
            tg_tensor *line = new_line(dtypes[d]), *before = new_line(dtypes[d]), *x = new_view(line, &layouts[i]);
            unsigned char *in = malloc((size_t)x->count * size + 1);
            assert_non_null(in);
            for (size_t k = 0; k < (size_t)x->count * size; k++) {
                in[k] = (unsigned char)(k * 7 + 130);
            }
            tg_copy_from_contiguous(x, in);
            char *values = tg_values(line), *wanted = tg_values(before);
            for (int64_t k = 0; k < x->count; k++) {
                int64_t to = layouts[i].offset + offset_of(x->rank, x->shape, x->strides, k);
                memcpy(wanted + (size_t)to * size, in + (size_t)k * size, size);
            }
            if (memcmp(values, wanted, LINE * size) != 0) {
                fail_msg("%s of %s", layouts[i].name, tg_dtype_name(dtypes[d]));
            }
            free(in);
            tg_release(x);
            tg_release(line);
            tg_release(before);
        }
    }
}

/* Every layout as the source, broadcast into every layout as the target that it fits. */
static void test_copy_broadcast(void **state)
{
    (void)state;
    int64_t copies = 0;
    for (int d = 0; d < 4; d++) {
        size_t size = tg_dtype_size(dtypes[d]);
        for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
            const layout *to = &layouts[i / LAYOUTS], *source = &layouts[i % LAYOUTS];
            tg_shape own = tg_shape_make(to->rank, to->shape), shape = tg_shape_make(source->rank, source->shape), both;
            if (overlaps(to) || !tg_shape_broadcast(&own, &shape, &both) || !tg_shape_equal(own, both)) {
                continue;
            }
            copies++;
            tg_tensor *line = new_line(dtypes[d]), *before = new_line(dtypes[d]), *other = new_line(dtypes[d]);
            memset(tg_values(line), 0xee, LINE * size);
            memset(tg_values(before), 0xee, LINE * size);
            tg_tensor *x = new_view(line, to), *from = new_view(other, source);
            tg_copy_broadcast(x, from);
            for (int64_t k = 0; k < x->count; k++) {
                int64_t rest = k, at = source->offset;
                for (int axis = x->rank - 1; axis >= 0; axis--) {
                    int own_axis = axis - (x->rank - from->rank);
                    at += own_axis >= 0 && from->shape[own_axis] != 1 ? rest % x->shape[axis] * from->strides[own_axis]
                                                                      : 0;
                    rest /= x->shape[axis];
                }
                memcpy((char *)tg_values(before) +
                           (size_t)(to->offset + offset_of(x->rank, x->shape, x->strides, k)) * size,
                       (char *)tg_values(other) + (size_t)at * size, size);
            }
            if (memcmp(tg_values(line), tg_values(before), LINE * size) != 0) {
                fail_msg("%s into %s, %s", source->name, to->name, tg_dtype_name(dtypes[d]));
            }
            tg_release(x);
            tg_release(from);
            tg_release(line);
            tg_release(before);
            tg_release(other);
        }
    }
    /* or the shapes above fit nothing */
    assert_true(copies > 4 * 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_of),
        cmocka_unit_test(test_merged_axes),
        cmocka_unit_test(test_walk_of_two),
        cmocka_unit_test(test_walk_broadcast),
        cmocka_unit_test(test_copy_to_contiguous),
        cmocka_unit_test(test_copy_from_contiguous),
        cmocka_unit_test(test_copy_broadcast),
    };
    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
