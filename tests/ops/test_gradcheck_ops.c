/* The gradients of all ops in the table of tests/rows against finite differences: slow and fast mode; contiguous,
 * transposed and sliced inputs; broadcasting, sizes of 1 and 0; each input alone and all together. The same for the
 * second derivatives of the ops that have them. Also the f32 kernels
 * against the f64 kernels, and each op in a span, which backward computes again. Every op that the header declares must
 * be in the table. */
#include "base/random.h"
#include "levels.h"
#include "ops/calls.h"
#include "support.h"
#include "tape/no_values.h"
#include "tensor/tensor.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/gradcheck.h>

#include "rows/rows.h"

#define MOST_VALUES 513

typedef enum layout { CONTIGUOUS, TRANSPOSED, SLICED, LAYOUTS } layout;

static const char *const layout_names[] = {"contiguous", "transposed", "sliced"};

static counting_allocator memory; /* fills blocks with 0xcd: uninitialized memory changes results */
static tg_tape *tape;             /* creates views */
static tg_run *run;

static int set_up(void **state)
{
    (void)state;
    allocator_install(&memory);
    run = tg_run_new(0);
    tape = tg_tape_new(run, NULL);
    tg_tape_set_recording(tape, false);
    return tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_run_free(run);
    allocator_restore();
    return memory.live == 0 ? 0 : -1;
}

/* ---- drawing inputs ---- */

/* "2,3 3": reads one shape and moves on. */
static tg_shape next_shape(const char **text)
{
    tg_shape shape = TG_SCALAR;
    while (**text == ' ') {
        ++*text;
    }
    if (**text == '-') {
        ++*text;
        return shape;
    }
    while (isdigit((unsigned char)**text)) {
        char *end;
        shape.size[shape.rank++] = strtoll(*text, &end, 10);
        *text = *end == ',' ? end + 1 : end;
    }
    return shape;
}

static double uniform(double low, double high)
{
    float value;
    tg_rng_uniform_f32(tg_run_rng(run), &value, 1, low, high);
    return (double)value;
}

/* Values are floats, so that both dtypes begin with the same numbers. */
static void draw(double *values, int64_t count, row_input how, int64_t bound, int input)
{
    int64_t order[MOST_VALUES];
    assert_true(count <= MOST_VALUES);
    tg_rng_randperm(tg_run_rng(run), order, count);
    for (int64_t i = 0; i < count; i++) {
        switch (how) {
        case ABSENT: fail(); break;
        case REAL: values[i] = uniform(-2, 2); break;
        case POSITIVE: values[i] = uniform(0.5, 2); break;
        case NONZERO: values[i] = uniform(0.5, 2) * (uniform(0, 1) < 0.5 ? -1 : 1); break;
        case DISTINCT: values[i] = (double)(float)(0.25 * (double)(order[i] - count / 2) + 0.06 * (1 + input)); break;
        case IDS: values[i] = i == 1 ? values[0] : (double)(tg_rng_u32(tg_run_rng(run)) % (uint32_t)bound); break;
        case TARGETS: values[i] = i % 3 == 1 ? -100 : (double)(tg_rng_u32(tg_run_rng(run)) % (uint32_t)bound); break;
        case MASK: values[i] = (double)((i + input) % 2); break;
        }
    }
}

/* The values in storage of the given layout; yours. */
static tg_tensor *lay_out(const tg_tensor *values, layout how)
{
    tg_shape shape = tg_tensor_shape(values), stored = shape;
    int rank = shape.rank, reversed[TG_MAX_RANK];
    if (rank == 0 || how == CONTIGUOUS) {
        return tg_tensor_new_copy(values, NULL);
    }
    for (int axis = 0; axis < rank; axis++) {
        reversed[axis] = rank - 1 - axis;
        stored.size[axis] = how == TRANSPOSED ? shape.size[rank - 1 - axis] : shape.size[axis];
    }
    int64_t last = shape.size[rank - 1];
    stored.size[rank - 1] = how == SLICED ? 2 * last + 1 : stored.size[rank - 1];
    tg_tensor *base = tg_tensor_new(tg_tensor_dtype(values), stored, NULL);
    tg_tensor *view = how == TRANSPOSED ? tg_permute(tape, base, tg_axes_make(rank, reversed))
                                        : tg_slice(tape, base, -1, 1, 2 * last + 1, 2);
    if (!view) {
        fail_msg("%s", tg_tape_error(tape)->text);
    }
    tg_retain(view);
    tg_tape_reset(tape);
    tg_release(base);
    assert_true(tg_tensor_copy_from(view, values, NULL));
    return view;
}

/* Draws the inputs of one case; returns how many. Integers keep their dtype. */
static int make_inputs(const sample *s, const char *shapes, layout how, tg_dtype dtype, tg_tensor **inputs)
{
    int count = 0;
    tg_rng_seed(tg_run_rng(run), 5);
    for (; count < ROW_INPUTS && s->row->inputs[count] != ABSENT; count++) {
        double values[MOST_VALUES];
        tg_shape shape = next_shape(&shapes);
        row_input drawn = s->row->inputs[count];
        tg_dtype kept = drawn == MASK ? TG_U8 : drawn == IDS || drawn == TARGETS ? TG_I32 : dtype;
        draw(values, tg_shape_count(shape), drawn, s->row->bound, count);
        tg_tensor *drawn_values = tensor_f64(shape, values);
        tg_tensor *converted = tg_tensor_new_cast(drawn_values, kept, NULL);
        inputs[count] = lay_out(converted, how);
        tg_release(converted);
        tg_release(drawn_values);
    }
    if (*shapes) {
        fail_msg("%s %s: more shapes than inputs: \"%s\" is left", s->row->op, s->variant, shapes);
    }
    return count;
}

static bool is_float(const tg_tensor *x)
{
    return tg_tensor_dtype(x) == TG_F32 || tg_tensor_dtype(x) == TG_F64;
}

static void release_inputs(tg_tensor **inputs, int count)
{
    for (int i = 0; i < count; i++) {
        tg_release(inputs[i]);
    }
}

/* ---- against differences ---- */

static tg_tensor *call_sample(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return sample_call(context, t, inputs);
}

/* `alone`: the only input that requires a gradient, or -1 for all. Returns the largest relative error. */
static double check_case(const sample *s, const char *shapes, layout how, tg_gradcheck_mode mode, int alone)
{
    tg_tensor *inputs[ROW_INPUTS];
    int count = make_inputs(s, shapes, how, TG_F64, inputs);
    bool any = false, empty = s->row->empty;
    for (int i = 0; i < count; i++) {
        empty |= tg_tensor_count(inputs[i]) == 0;
        if (is_float(inputs[i]) && (alone < 0 || alone == i)) {
            leaf(inputs[i]);
            any = true;
        }
    }
    tg_gradcheck_row row = {0, 1};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    char name[120];
    snprintf(name, sizeof name, "%s %s (%s, %s, %s)", s->row->op, s->variant, shapes, layout_names[how],
             mode == TG_GRADCHECK_SLOW ? "slow" : "fast");
    config.name = name;
    config.mode = mode;
    config.eps = s->row->eps > 0 ? s->row->eps : config.eps;
    config.allow_empty = empty;
    config.rows_without_gradient = s->row->padded ? &row : NULL;
    config.row_count = s->row->padded;
    tg_gradcheck_report report = {.max_relative_error = 0};
    tg_error error = TG_NO_ERROR;
    if (any && !tg_gradcheck(call_sample, (void *)(uintptr_t)s, inputs, count, &config, &report, &error)) {
        fail_msg("%s", error.text);
    }
    release_inputs(inputs, count);
    return report.max_relative_error;
}

static void test_gradients(void **state)
{
    (void)state;
    int precise = 0;
    printf("%-32s %-20s %10s\n", "op", "variant", "error");
    for (int k = 0; k < sample_count(); k++) {
        const sample *s = sample_at(k);
        double worst = 0;
        for (int i = 0; i < ROW_SHAPES && s->shapes[i]; i++) {
            for (int how = CONTIGUOUS; how < LAYOUTS; how++) {
                worst = fmax(worst, check_case(s, s->shapes[i], (layout)how, TG_GRADCHECK_SLOW, -1));
                check_case(s, s->shapes[i], (layout)how, TG_GRADCHECK_FAST, -1);
            }
            for (int alone = 0;
                 i < 2 && alone < ROW_INPUTS && s->row->inputs[1] != ABSENT && s->row->inputs[alone] != ABSENT;
                 alone++) {
                check_case(s, s->shapes[i], CONTIGUOUS, TG_GRADCHECK_SLOW, alone);
            }
        }
        printf("%-32s %-20s %10.1e\n", s->row->op, s->variant, worst);
        precise += worst < 1e-7;
    }
    printf("%d of %d samples are below 1e-7\n", precise, sample_count());
    assert_true(100 * precise >= 95 * sample_count());
}

/* ---- second derivatives ---- */

/* Checks the second derivatives of one case. Returns false if an op of it has none. */
static bool check_second(const sample *s, const char *shapes, layout how, tg_gradcheck_mode mode)
{
    tg_tensor *inputs[ROW_INPUTS];
    int count = make_inputs(s, shapes, how, TG_F64, inputs);
    bool any = false;
    tg_gradcheck_row row = {0, 1};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    bool is_empty = s->row->empty;
    for (int i = 0; i < count; i++) {
        is_empty |= tg_tensor_count(inputs[i]) == 0;
        any |= is_float(inputs[i]) && leaf(inputs[i]);
    }
    char name[120];
    snprintf(name, sizeof name, "second %s %s (%s, %s)", s->row->op, s->variant, shapes, layout_names[how]);
    config.name = name;
    config.mode = mode;
    config.rows_without_gradient = s->row->padded ? &row : NULL;
    config.row_count = s->row->padded;
    tg_error error = TG_NO_ERROR;
    bool passed =
        !any || is_empty || tg_gradgradcheck(call_sample, (void *)(uintptr_t)s, inputs, count, &config, NULL, &error);
    bool has_none = !passed && strstr(error.text, "no second derivative");
    if (!passed && !has_none) {
        fail_msg("%s", error.text);
    }
    release_inputs(inputs, count);
    return !has_none;
}

static void test_second_derivatives(void **state)
{
    (void)state;
    int checked = 0;
    for (int k = 0; k < sample_count(); k++) {
        const sample *s = sample_at(k);
        /* the gradient of a cast to f32 is a float, of which there are no differences */
        bool is_skipped = s->row->has_no_gradient || strcmp(s->row->op, "tg_cast") == 0;
        for (int i = 0; i < ROW_SHAPES && s->shapes[i] && !is_skipped; i++) {
            if (!check_second(s, s->shapes[i], CONTIGUOUS, TG_GRADCHECK_SLOW)) {
                break;
            }
            checked += i == 0;
            check_second(s, s->shapes[i], (layout)(k % LAYOUTS), TG_GRADCHECK_FAST);
        }
    }
    printf("%d of %d samples have second derivatives\n", checked, sample_count());
    assert_true(checked >= 188);
}

/* ---- floats against doubles ---- */

typedef struct outcome {
    int input_count;
    tg_tensor *values[1 + ROW_INPUTS]; /* the result, then the gradients (NULL for ids) */
} outcome;

/* How a sample is called: in a span, with inputs that are results of this span or leaves; with reproducible products */
enum { IN_A_SPAN = 1, OF_RESULTS = 2, REPRODUCIBLE = 4 };

static outcome compute(const sample *s, const char *shapes, layout how, tg_dtype dtype, int flags)
{
    tg_tensor *inputs[ROW_INPUTS], *given[ROW_INPUTS] = {NULL};
    outcome out = {.input_count = make_inputs(s, shapes, how, dtype, inputs)};
    for (int i = 0; i < out.input_count; i++) {
        if (is_float(inputs[i])) {
            leaf(inputs[i]);
        }
    }
    tg_run *drops = tg_run_new(3);
    tg_tape *t = tg_tape_new(drops, NULL);
    assert_true(!(flags & IN_A_SPAN) || tg_activation_checkpoint_begin(t));
    tg_tape_set_reproducible(t, flags & REPRODUCIBLE);
    for (int i = 0; i < out.input_count; i++) {
        given[i] = (flags & OF_RESULTS) && is_float(inputs[i]) ? tg_mul_scalar(t, inputs[i], 1) : inputs[i];
    }
    tg_tensor *y = tg_mul_scalar(t, sample_call(s, t, given), 1); /* recorded, even when the op returned its input */
    if (!y) {
        fail_msg("%s %s (%s): %s", s->row->op, s->variant, shapes, tg_tape_error(t)->text);
    }
    if (flags & IN_A_SPAN) {
        assert_ptr_equal(tg_activation_checkpoint_end(t, y), y);
        for (int i = 0; i < out.input_count; i++) {
            assert_int_equal(tg_is_dropped(given[i]), given[i] != inputs[i]);
        }
    }
    tg_tensor *normal = tg_tensor_new(TG_F32, tg_tensor_shape(y), NULL);
    assert_true(tg_tensor_fill_normal(normal, tg_run_rng(drops), 0, 1, NULL));
    tg_tensor *seed = tg_tensor_new_cast(normal, tg_tensor_dtype(y), NULL);
    assert_true(backward_from(t, y, seed));
    out.values[0] = tg_tensor_new_copy(y, NULL);
    for (int i = 0; i < out.input_count; i++) {
        out.values[i + 1] = is_float(inputs[i]) ? tg_tensor_new_dense_grad(inputs[i], NULL) : NULL;
    }
    tg_release(seed);
    tg_release(normal);
    tg_tape_free(t);
    tg_run_free(drops);
    release_inputs(inputs, out.input_count);
    return out;
}

static void test_floats_agree_with_doubles(void **state)
{
    (void)state;
    for (int k = 0; k < sample_count(); k++) {
        const sample *s = sample_at(k);
        for (int i = 0; i < ROW_SHAPES * LAYOUTS && s->shapes[i / LAYOUTS]; i++) {
            outcome f = compute(s, s->shapes[i / LAYOUTS], (layout)(i % LAYOUTS), TG_F32, 0);
            outcome d = compute(s, s->shapes[i / LAYOUTS], (layout)(i % LAYOUTS), TG_F64, 0);
            for (int v = 0; v <= f.input_count; v++) {
                double largest = 0, error = 0;
                int64_t count = f.values[v] ? tg_tensor_count(f.values[v]) : 0;
                for (int64_t j = 0; j < count; j++) {
                    double a = tg_tensor_value_at(f.values[v], j), b = tg_tensor_value_at(d.values[v], j);
                    largest = fmax(largest, fabs(b));
                    error = isnan(a) && isnan(b) ? error : !(fabs(a - b) <= error) ? fabs(a - b) : error;
                }
                if (!(error <= 1e-4 * largest)) {
                    fail_msg("%s %s (%s, %s): %s %d differs by %g between f32 and f64, of %g", s->row->op, s->variant,
                             s->shapes[i / LAYOUTS], layout_names[i % LAYOUTS], v ? "the gradient of input" : "result",
                             v ? v - 1 : 0, error, largest);
                }
                tg_release(f.values[v]);
                tg_release(d.values[v]);
            }
        }
    }
}

/* ---- the levels of the processor ---- */

/* Sets the level, which no tape may outlive. */
static void set_level(int level)
{
    tg_error error = TG_NO_ERROR;
    tg_tape_free(tape);
    if (!tg_set_cpu_level((tg_cpu_level)level, &error)) {
        fail_msg("%s", error.text);
    }
    tape = tg_tape_new(run, NULL);
    tg_tape_set_recording(tape, false);
}

/* Every op gives the same bits at each level that the processor has. */
static void check_levels(int flags)
{
    int first = (int)tg_get_cpu_level();
    for (int k = 0; k < sample_count() * ROW_SHAPES * 2; k++) {
        const sample *s = sample_at(k / ROW_SHAPES / 2);
        const char *shapes = s->shapes[k / 2 % ROW_SHAPES];
        tg_dtype dtype = k % 2 ? TG_F64 : TG_F32;
        int lowest = flags & REPRODUCIBLE ? TG_CPU_BASELINE : lowest_fused_level();
        outcome base = {.input_count = 0};
        for (int level = lowest; shapes && level <= tg_level_highest(); level++) {
            set_level(level);
            tg_rng_seed(tg_run_rng(run), (uint64_t)k);
            outcome other = compute(s, shapes, CONTIGUOUS, dtype, flags);
            base = level == lowest ? other : base;
            for (int v = 0; level > lowest && v <= other.input_count; v++) {
                size_t bytes = other.values[v] ? tg_bytes_of(other.values[v]) : 0;
                if (bytes > 0 && memcmp(tg_values(base.values[v]), tg_values(other.values[v]), bytes) != 0) {
                    fail_msg("%s %s (%s): %s differs between levels %d and %d", s->row->op, s->variant, shapes,
                             v ? "a gradient" : "the result", lowest, level);
                }
                tg_release(other.values[v]);
            }
        }
        for (int v = 0; shapes && v <= base.input_count; v++) {
            tg_release(base.values[v]);
        }
    }
    set_level(first);
}

static void test_levels_agree(void **state)
{
    (void)state;
    check_levels(0);
}

/* In the reproducible mode the lowest level agrees, too. */
static void test_reproducible_levels_agree(void **state)
{
    (void)state;
    check_levels(REPRODUCIBLE);
}

/* ---- spans that backward computes again ---- */

/* Every op has the same result and gradients in a span: on leaves of any layout, and on results whose values the span
 * drops. */
static void test_spans_agree(void **state)
{
    (void)state;
    for (int k = 0; k < sample_count() * ROW_SHAPES * 8; k++) {
        const sample *s = sample_at(k / ROW_SHAPES / 8);
        const char *shapes = s->shapes[k / 8 % ROW_SHAPES];
        tg_dtype dtype = k % 2 ? TG_F64 : TG_F32;
        layout how = (layout)(k / 2 % 4 % LAYOUTS);
        int flags = k / 2 % 4 == LAYOUTS ? OF_RESULTS : 0;
        if (!shapes) {
            continue;
        }
        outcome plain = compute(s, shapes, how, dtype, flags), span = compute(s, shapes, how, dtype, flags | IN_A_SPAN);
        for (int v = 0; v <= plain.input_count; v++) {
            size_t bytes = plain.values[v] ? tg_bytes_of(plain.values[v]) : 0;
            if (bytes > 0 && memcmp(tg_values(plain.values[v]), tg_values(span.values[v]), bytes) != 0) {
                fail_msg("%s %s (%s, %s): %s %d differs in a span", s->row->op, s->variant, shapes, layout_names[how],
                         v ? "the gradient of input" : "the result", v ? v - 1 : 0);
            }
            tg_release(plain.values[v]);
            tg_release(span.values[v]);
        }
    }
}

/* ---- the registry ---- */

static bool is_listed(const char *op)
{
    if (row_of(op)) {
        return true;
    }
    for (int k = 0; k < without_gradient_count; k++) {
        if (strcmp(without_gradients[k].op, op) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the number of ops that a header declares. */
static int check_header(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    static const char start[] = "TG_API tg_tensor *";
    char line[400];
    int found = 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, start, sizeof start - 1) == 0) {
            char *op = line + sizeof start - 1;
            op[strcspn(op, "(")] = '\0';
            found++;
            if (!is_listed(op)) {
                fail_msg("%s has no sample in tests/ops/tests/rows, and no reason to have no gradient", op);
            }
        }
    }
    fclose(file);
    return found;
}

static void test_every_op_has_a_sample(void **state)
{
    (void)state;
    assert_true(check_header(TG_TEST_GOLDENS "/../../include/tapegrad/ops.h") > 50);
    assert_true(check_header(TG_TEST_GOLDENS "/../../include/tapegrad/losses.h") > 10);
    assert_int_equal(check_header(TG_TEST_GOLDENS "/../../include/tapegrad/conv.h"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_a_sample), cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_second_derivatives),    cmocka_unit_test(test_floats_agree_with_doubles),
        cmocka_unit_test(test_levels_agree),          cmocka_unit_test(test_reproducible_levels_agree),
        cmocka_unit_test(test_spans_agree),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
