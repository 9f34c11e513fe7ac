/* Sizes and numbers near the limits of 64 bits: each call returns a result or an error, soon, and without overflow
 * (the sanitizers watch). Tensors without values may have axes of any size. */
#include "support.h"

#include "base/random.h"
#include "ops/calls.h"
#include "rows/rows.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HUGE_SIZE ((int64_t)1 << 60)

static const char *running;

static void report_endless(int signal)
{
    (void)signal;
    static const char text[] = "no end: ";
    if (write(2, text, sizeof text - 1) < 0 || write(2, running, strlen(running)) < 0) {
        _exit(2);
    }
    _exit(1);
}

/* The sanitizers end a program that asks for more memory than any machine has. */
static void *allocate_some(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    return bytes > 1 << 28 ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *context, void *block)
{
    (void)context;
    aligned_free(block);
}

static tg_shape draw_shape(tg_rng *rng)
{
    static const struct {
        int rank;
        int64_t size[TG_MAX_RANK];
    } choices[] = {{1, {0}},
                   {1, {3}},
                   {2, {0, 3}},
                   {2, {3, 0}},
                   {2, {0, HUGE_SIZE}},
                   {2, {HUGE_SIZE, 0}},
                   {2, {3, 3}},
                   {3, {HUGE_SIZE, 0, 3}},
                   {3, {HUGE_SIZE, 3, 0}},
                   {3, {0, HUGE_SIZE, 3}},
                   {3, {3, 0, HUGE_SIZE}},
                   {3, {HUGE_SIZE / 1024, 1024, 0}},
                   {4, {HUGE_SIZE / 2, 2, 0, 2}},
                   {4, {HUGE_SIZE / 2, 2, 2, 0}},
                   {4, {2, 2, 0, 0}}};
    int64_t choice;
    tg_rng_integers(rng, &choice, 1, 0, (int64_t)(sizeof choices / sizeof *choices));
    return tg_shape_make(choices[choice].rank, choices[choice].size);
}

/* Every op, with inputs of drawn shapes: the first half of the trials gives all inputs the same shape. */
static void test_huge_axes(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tape *tape = tg_tape_new(run, NULL);
    signal(SIGALRM, report_endless);
    int64_t results = 0;
    for (int k = 0; k < sample_count(); k++) {
        const sample *s = sample_at(k);
        running = s->row->op;
        alarm(60);
        for (int trial = 0; trial < 400; trial++) {
            tg_tensor *inputs[ROW_INPUTS] = {NULL};
            tg_shape shape = draw_shape(tg_run_rng(run));
            for (int i = 0; i < ROW_INPUTS && s->row->inputs[i] != ABSENT; i++) {
                tg_dtype dtype = s->row->inputs[i] == MASK                                  ? TG_U8
                                 : s->row->inputs[i] == IDS || s->row->inputs[i] == TARGETS ? TG_I32
                                                                                            : TG_F32;
                inputs[i] = tg_tensor_new(dtype, trial % 2 == 0 ? shape : draw_shape(tg_run_rng(run)), NULL);
                assert_non_null(inputs[i]);
                if (dtype == TG_F32) {
                    leaf(inputs[i]);
                }
            }
            tg_tensor *y = sample_call(s, tape, inputs);
            if (y && tg_tensor_requires_grad(y)) {
                tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL);
            }
            results += y != NULL;
            assert_true(y || tg_tape_error(tape)->code != TG_OK);
            clear_tape_error(tape);
            tg_tape_reset(tape);
            for (int i = 0; i < ROW_INPUTS; i++) {
                tg_release(inputs[i]);
            }
        }
    }
    alarm(0);
    assert_true(results > sample_count() * 20);
    tg_tape_free(tape);
    tg_run_free(run);
}

/* ---- each size in turn ---- */

/* 2^62 - 1 is the largest size that a tensor without values may have. */
static const int64_t extremes[] = {INT32_MAX, (int64_t)1 << 31, INT64_MAX / 2, (int64_t)1 << 62, INT64_MAX};

#define EXTREMES (sizeof extremes / sizeof *extremes)

/* The shapes of a sample's inputs: "2,3 3", "-" is a scalar. Returns their number. */
static int parse_shapes(const char *text, tg_shape shapes[ROW_INPUTS])
{
    int count = 0;
    for (; *text; text += strspn(text, " ")) {
        tg_shape *shape = &shapes[count++];
        *shape = TG_SCALAR;
        if (*text == '-') {
            text++;
            continue;
        }
        char *end;
        do {
            shape->size[shape->rank++] = strtoll(text, &end, 10);
            text = end + (*end == ',');
        } while (*end == ',');
    }
    return count;
}

/* Replaces a size wherever it occurs, so that inputs that fit still do. */
static void replace(tg_shape *shapes, int count, int64_t size, int64_t replacement)
{
    for (int i = 0; i < count; i++) {
        for (int axis = 0; axis < shapes[i].rank; axis++) {
            shapes[i].size[axis] = shapes[i].size[axis] == size ? replacement : shapes[i].size[axis];
        }
    }
}

/* Calls an op with inputs of these shapes, and backward. Returns whether all inputs could be created, and the call gave
 * a result. */
static bool call_with(tg_tape *tape, const sample *s, const tg_shape *shapes, int count)
{
    tg_tensor *inputs[ROW_INPUTS] = {NULL}, *y = NULL;
    bool are_made = true;
    for (int i = 0; i < count && s->row->inputs[i] != ABSENT; i++) {
        tg_dtype dtype = s->row->inputs[i] == MASK                                  ? TG_U8
                         : s->row->inputs[i] == IDS || s->row->inputs[i] == TARGETS ? TG_I32
                                                                                    : TG_F32;
        inputs[i] = tg_tensor_new(dtype, shapes[i], NULL);
        are_made = are_made && inputs[i];
        if (inputs[i] && dtype == TG_F32) {
            leaf(inputs[i]);
        }
    }
    if (are_made) {
        y = sample_call(s, tape, inputs);
        if (!y && tg_tape_error(tape)->code == TG_OK) {
            fail_msg("%s %s: no result and no error", s->row->op, s->variant);
        }
    }
    bool has_result = y != NULL;
    if (y && tg_tensor_requires_grad(y)) {
        tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL);
    }
    clear_tape_error(tape);
    tg_tape_reset(tape);
    for (int i = 0; i < ROW_INPUTS; i++) {
        tg_release(inputs[i]);
    }
    return has_result;
}

/* Returns the number of results of all calls in which one size of a sample is extreme and another one is 0. */
static int64_t call_with_extremes(tg_tape *tape, const sample *s, const char *text)
{
    tg_shape shapes[ROW_INPUTS];
    int count = parse_shapes(text, shapes);
    int64_t results = 0;
    for (int64_t size = 0; size < 40; size++) {
        for (int64_t other = 0; other < 40; other++) {
            tg_shape changed[ROW_INPUTS];
            memcpy(changed, shapes, sizeof changed);
            replace(changed, count, size, -1);
            replace(changed, count, other, -2);
            bool occur = false, other_occurs = false;
            for (int i = 0; i < count; i++) {
                for (int axis = 0; axis < changed[i].rank; axis++) {
                    occur |= changed[i].size[axis] == -1;
                    other_occurs |= changed[i].size[axis] == -2;
                }
            }
            for (size_t k = 0; occur && other_occurs && k < EXTREMES; k++) {
                tg_shape extreme[ROW_INPUTS];
                memcpy(extreme, changed, sizeof extreme);
                replace(extreme, count, -1, extremes[k]);
                replace(extreme, count, -2, 0);
                results += call_with(tape, s, extreme, count);
            }
        }
    }
    return results;
}

static void test_each_size(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_tape *tape = tg_tape_new(run, NULL);
    signal(SIGALRM, report_endless);
    int64_t results = 0;
    for (int k = 0; k < sample_count(); k++) {
        running = sample_at(k)->row->op;
        alarm(60);
        for (int i = 0; i < ROW_SHAPES && sample_at(k)->shapes[i]; i++) {
            results += call_with_extremes(tape, sample_at(k), sample_at(k)->shapes[i]);
        }
    }
    alarm(0);
    assert_true(results > sample_count() * 4);
    tg_tape_free(tape);
    tg_run_free(run);
}

/* Options that are sizes, and inputs that are optional. */
static void test_options(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (size_t i = 0; i < EXTREMES; i++) {
        int64_t n = extremes[i];
        tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(0, n), NULL);
        if (n <= INT64_MAX / 2) {
            leaf(x);
        }
        tg_tensor *signal = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(1, 2, 8), 1, NULL));
        tg_tensor *weight = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(2, 2, 3), 1, NULL));
        tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(2), NULL);
        tg_pool1d_config pool[4];
        tg_conv1d_config conv[4];
        tg_tensor *results[32] = {
            tg_layer_norm(t, x, NULL, NULL, 1e-5),
            tg_rms_norm(t, x, NULL, 1e-5),
            tg_topk(t, x, n, 1, TG_LARGEST_FIRST, NULL),
            tg_softmax(t, x, 1),
            tg_one_hot(t, ids, n, TG_U8),
            tg_repeat(t, signal, TG_SHAPE(n, 1, 1)),
            tg_repeat(t, x, TG_SHAPE(n, n)),
            tg_expand(t, tg_slice(t, signal, 2, 0, 1, 1), TG_SHAPE(1, 2, n)),
            tg_max_pool1d(t, signal, n, NULL),
            tg_avg_pool1d(t, signal, n, NULL),
        };
        int count = 10;
        for (int k = 0; k < 4; k++) {
            pool[k] = tg_pool1d_config_default();
            conv[k] = tg_conv1d_config_default();
            int64_t *in_pool[] = {&pool[k].stride, &pool[k].padding, &pool[k].dilation, &pool[k].stride};
            int64_t *in_conv[] = {&conv[k].stride, &conv[k].padding, &conv[k].dilation, &conv[k].groups};
            *in_pool[k] = *in_conv[k] = n;
            results[count++] = tg_max_pool1d(t, signal, 2, &pool[k]);
            results[count++] = tg_avg_pool1d(t, signal, 2, &pool[k]);
            results[count++] = tg_max_pool1d(t, signal, n, &pool[k]);
            results[count++] = tg_conv1d(t, signal, weight, NULL, &conv[k]);
        }
        clear_tape_error(t);
        for (int k = 0; k < count; k++) {
            if (results[k] && tg_tensor_requires_grad(results[k])) {
                tg_backward(t, tg_sum(t, results[k], TG_ALL_AXES, TG_DROP_AXES), NULL);
                clear_tape_error(t);
            }
        }
        tg_tape_reset(t);
        tg_release(x);
        tg_release(signal);
        tg_release(weight);
        tg_release(ids);
    }
    tg_tape_free(t);
}

/* Products of sizes that overflow, before or after a size of 0. */
static void test_shapes(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *empty = tg_tensor_new(TG_F32, TG_SHAPE(0, 1, 1), NULL), *ids = tg_tensor_new(TG_I32, TG_SHAPE(0), NULL);
    const tg_shape shapes[] = {TG_SHAPE(0, INT64_MAX / 2, 5),
                               TG_SHAPE(INT64_MAX / 2, 5, 0),
                               TG_SHAPE(INT64_MAX / 2, 0, 5),
                               TG_SHAPE(0, INT64_MAX, INT64_MAX),
                               TG_SHAPE(INT64_MAX, 0, INT64_MAX, 2),
                               TG_SHAPE(0, INT64_MAX / 2, -1, 5),
                               TG_SHAPE(-1, 0),
                               TG_SHAPE(INT64_MAX, INT64_MAX, -1),
                               TG_SHAPE(0, INT64_MIN, INT64_MIN, -1),
                               TG_SHAPE(INT64_MAX / 2, 5),
                               TG_SHAPE(INT64_MAX / 2 + 1, 0),
                               TG_SHAPE(0, (int64_t)1 << 31, (int64_t)1 << 31)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tg_error error = TG_NO_ERROR;
        assert_null(tg_tensor_new(TG_U8, shapes[i], &error));
        assert_error(&error, TG_ERROR_SHAPE, "tensor_new: ");
        assert_null(tg_tensor_new_full(TG_F64, shapes[i], 1, NULL));
        assert_null(tg_tensor_new_from(TG_F64, shapes[i], &error, NULL));
        assert_null(tg_full(t, TG_F32, shapes[i], 1));
        assert_tape_error(t, TG_ERROR_SHAPE, "full: ");
        assert_null(tg_reshape(t, empty, shapes[i]));
        assert_tape_error(t, TG_ERROR_SHAPE, "reshape: ");
        assert_null(tg_expand(t, empty, shapes[i]));
        assert_tape_error(t, TG_ERROR_SHAPE, "expand: ");
    }
    assert_null(tg_tensor_new_arange(TG_F32, 0, 1e300, 1, NULL));
    tg_tensor *wide = tg_reshape(t, empty, TG_SHAPE(0, INT64_MAX / 10, 5));
    assert_int_equal(tg_tensor_count(tg_transpose(t, wide, 0, 2)), 0);
    assert_int_equal(tg_tensor_count(tg_reshape(t, wide, TG_SHAPE(INT64_MAX / 2, 0))), 0);
    assert_non_null(tg_one_hot(t, ids, INT64_MAX / 2, TG_U8));
    tg_tensor *long_axis = tg_tensor_new(TG_F32, TG_SHAPE(0, (int64_t)1 << 31), NULL);
    assert_null(tg_topk(t, long_axis, 1, 1, TG_LARGEST_FIRST, NULL));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      "topk: axis 1 has 2147483648 values; indices are i32, so it must have at most 2147483647");
    tg_release(long_axis);
    tg_release(empty);
    tg_release(ids);
    tg_tape_free(t);
}

/* Indices, steps and diagonals. */
static void test_numbers(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f32(TG_SHAPE(2, 4), (float[]){1, 2, 3, 4, 5, 6, 7, 8})), *parts[4];
    const int64_t numbers[] = {INT64_MIN, INT64_MIN + 1, -INT64_MAX / 2, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t n = numbers[i];
        tg_tensor *results[] = {tg_tril(t, x, n), tg_triu(t, x, n), tg_slice(t, x, 1, n, 9, 1),
                                tg_slice(t, x, 0, 0, n, 2),
                                n < 1 ? x : tg_slice(t, tg_transpose(t, x, 0, 1), 0, 1, INT64_MAX, n)};
        for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
            assert_non_null(results[k]);
            assert_true(tg_backward(t, tg_sum(t, results[k], TG_ALL_AXES, TG_DROP_AXES), NULL));
        }
        assert_null(tg_select(t, x, 0, n));
        assert_tape_error(t, TG_ERROR_RANGE, "select: ");
        assert_null(tg_topk(t, x, n, 0, TG_LARGEST_FIRST, NULL));
        assert_tape_error(t, TG_ERROR_RANGE, "topk: ");
        assert_null(tg_rotary(t, x, n, NULL));
        assert_tape_error(t, TG_ERROR_RANGE, "rotary: ");
        assert_int_equal(tg_split(t, x, n, 1, parts, 4), n < 1 ? 0 : 1);
        clear_tape_error(t);
        int axis = n < 0 ? INT32_MIN : INT32_MAX;
        assert_null(tg_sum(t, x, tg_axes_make(1, &axis), TG_DROP_AXES));
        assert_tape_error(t, TG_ERROR_RANGE, "sum: ");
        assert_null(tg_unsqueeze(t, x, axis));
        assert_tape_error(t, TG_ERROR_RANGE, "unsqueeze: ");
        assert_int_equal(tg_tensor_size(x, axis), 0);
        assert_true(tg_tensor_value_at(x, n) != tg_tensor_value_at(x, n));
    }
    tg_release(x);
    tg_tape_free(t);
}

int main(void)
{
    const tg_allocator allocator = {allocate_some, release, NULL};
    tg_set_allocator(&allocator);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_huge_axes), cmocka_unit_test(test_each_size),
                                       cmocka_unit_test(test_options), cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests_name("extreme_sizes", tests, NULL, NULL);
}
