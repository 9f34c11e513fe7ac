/* The memory of kernels under the gradient checker: a write one value outside of any buffer that a kernel gets, a write
 * into what it may only read, and a read of what nothing has written.
 *
 * The op under test is y = 3 x + c, with a constant c, in f32 and in f64. It saves x and uses scratch memory in both
 * kernels, and is right without its mistake.
 */
#include "support.h"

#include <string.h>

#include <tapegrad/gradcheck.h>
#include <tapegrad/op.h>

typedef enum buffer { INPUT, CONSTANT, OUTPUT, DY, DX, SAVED, SCRATCH } buffer;

typedef enum mistake {
    NONE,
    WRITES, /* buffer[at] = 1 */
    ADDS,   /* buffer[at] += 1 */
    READS,  /* a result += buffer[at] */
} mistake;

typedef struct attributes {
    mistake made;
    bool backward; /* in which kernel */
    buffer where;
    int64_t at; /* -1: before; COUNT: behind */
} attributes;

#define COUNT 5

static double value_at(const void *values, tg_dtype dtype, int64_t i)
{
    return dtype == TG_F32 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

static void write_at(void *values, tg_dtype dtype, int64_t i, double value)
{
    if (dtype == TG_F32) {
        ((float *)values)[i] = (float)value;
    } else {
        ((double *)values)[i] = value;
    }
}

/* Commits the mistake, if it belongs to this kernel, with `result` for READS. */
static void err(const tg_op_call *call, tg_dtype dtype, bool backward, void *result)
{
    const attributes *a = call->attributes;
    void *const buffers[] = {
        [INPUT] = (void *)(uintptr_t)tg_tensor_data(call->inputs[0]),
        [CONSTANT] = (void *)(uintptr_t)tg_tensor_data(call->inputs[1]),
        [OUTPUT] = (void *)(uintptr_t)tg_tensor_data(call->outputs[0]),
        [DY] = backward ? (void *)(uintptr_t)call->output_gradients[0] : NULL,
        [DX] = backward ? call->input_gradients[0] : NULL,
        [SAVED] = call->saved,
        [SCRATCH] = call->scratch,
    };
    if (a->made == NONE || a->backward != backward) {
        return;
    }
    void *values = buffers[a->where];
    double there = value_at(values, dtype, a->at);
    if (a->made == READS) {
        write_at(result, dtype, 0, value_at(result, dtype, 0) + there);
    } else {
        write_at(values, dtype, a->at, a->made == ADDS ? there + 1 : 1);
    }
}

static bool shape(tg_op_call *call)
{
    tg_dtype dtype = tg_tensor_dtype(call->inputs[0]);
    size_t size = tg_dtype_size(dtype);
    return tg_op_output(call, 0, dtype, tg_tensor_shape(call->inputs[0])) && tg_op_save(call, COUNT, size) &&
           tg_op_scratch(call, COUNT, size) && tg_op_backward_scratch(call, COUNT, size);
}

static void forward(const tg_op_call *call, tg_dtype dtype)
{
    const void *x = tg_tensor_data(call->inputs[0]), *c = tg_tensor_data(call->inputs[1]);
    void *y = tg_tensor_data_mut(call->outputs[0]);
    for (int64_t i = 0; i < COUNT; i++) {
        write_at(call->saved, dtype, i, 3);
        write_at(call->scratch, dtype, i, 3 * value_at(x, dtype, i));
        write_at(y, dtype, i, value_at(call->scratch, dtype, i) + value_at(c, dtype, i));
    }
    err(call, dtype, false, y);
}

static void backward(const tg_op_call *call, tg_dtype dtype)
{
    void *dx = call->input_gradients[0];
    for (int64_t i = 0; i < COUNT; i++) {
        write_at(call->scratch, dtype, i,
                 value_at(call->saved, dtype, i) * value_at(call->output_gradients[0], dtype, i));
        write_at(dx, dtype, i, value_at(dx, dtype, i) + value_at(call->scratch, dtype, i));
    }
    err(call, dtype, true, dx);
}

static void forward_f32(const tg_op_call *call)
{
    forward(call, TG_F32);
}

static void backward_f32(const tg_op_call *call)
{
    backward(call, TG_F32);
}

static void forward_f64(const tg_op_call *call)
{
    forward(call, TG_F64);
}

static void backward_f64(const tg_op_call *call)
{
    backward(call, TG_F64);
}

static const tg_op op = {
    .name = "affine", .shape = shape, .f32 = {forward_f32, backward_f32}, .f64 = {forward_f64, backward_f64}};

static tg_tensor *affine(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    return tg_apply(tape, &op, inputs, count, context, sizeof(attributes), NULL);
}

static void reference(void *context, const double *const *inputs, double *result)
{
    (void)context;
    for (int i = 0; i < COUNT; i++) {
        result[i] = 3 * inputs[0][i] + inputs[1][i];
    }
}

/* Returns whether the check passes; f32 is checked against the reference. */
static bool check(attributes made, tg_dtype dtype, tg_error *error)
{
    const double values[] = {0.5, -1.25, 2, 0.75, -0.5};
    tg_tensor *wide = tensor_f64(TG_SHAPE(COUNT), values);
    tg_tensor *inputs[] = {leaf(tg_tensor_new_cast(wide, dtype, NULL)), tg_tensor_new_cast(wide, dtype, NULL)};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.dtype = dtype;
    config.reference = dtype == TG_F32 ? reference : NULL;
    bool passed = tg_gradcheck(affine, &made, inputs, 2, &config, NULL, error);
    config.mode = TG_GRADCHECK_FAST;
    assert_int_equal(tg_gradcheck(affine, &made, inputs, 2, &config, NULL, NULL), passed);
    tg_release(inputs[0]);
    tg_release(inputs[1]);
    tg_release(wide);
    return passed;
}

/* In forward: both inputs, the output, the saved and the scratch memory; in backward also dy and dx. */
static const struct place {
    bool backward;
    buffer where;
    const char *name;
} places[] = {
    {false, INPUT, "input 0"},          {false, CONSTANT, "input 1"},           {false, OUTPUT, "output 0"},
    {false, SAVED, "the saved memory"}, {false, SCRATCH, "the scratch memory"}, {true, INPUT, "input 0"},
    {true, OUTPUT, "output 0"},         {true, DY, "the gradient of output 0"}, {true, DX, "the gradient of input 0"},
    {true, SAVED, "the saved memory"},  {true, SCRATCH, "the scratch memory"},
};

enum { PLACES = sizeof places / sizeof *places };

static const tg_dtype dtypes[] = {TG_F32, TG_F64};

static void expect_refusal(const struct place *place, mistake made, tg_dtype dtype, int64_t at, const char *verb)
{
    char expected[200];
    bool typed = place->where != SAVED && place->where != SCRATCH;
    int64_t unit = typed ? 1 : dtype == TG_F32 ? 4 : 8;
    snprintf(expected, sizeof expected, "the %s kernel of 'affine' %s %s ", place->backward ? "backward" : "forward",
             verb, typed ? "value" : "byte");
    tg_error error = TG_NO_ERROR;
    if (check((attributes){made, place->backward, place->where, at}, dtype, &error)) {
        fail_msg("a mistake in the %s kernel, %s at %d, passes", place->backward ? "backward" : "forward", place->name,
                 (int)at);
    }
    assert_non_null(strstr(error.text, expected));
    snprintf(expected, sizeof expected, " of %s, which has %d", place->name, (int)(COUNT * unit));
    assert_error(&error, TG_ERROR_VALUE, expected);
}

static void test_right_kernels_pass(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_true(check((attributes){.made = NONE}, TG_F32, &error));
    assert_true(check((attributes){.made = NONE}, TG_F64, &error));
}

/* Twenty-two writes, one value before and one value behind each buffer, in two dtypes, by = and by +=. */
static void test_writes_outside(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES * 8; i++) {
        const struct place *place = &places[i / 8];
        expect_refusal(place, i & 1 ? WRITES : ADDS, dtypes[i >> 1 & 1], i & 4 ? -1 : COUNT, "writes");
    }
    tg_error error = TG_NO_ERROR;
    assert_false(check((attributes){WRITES, true, DX, -1}, TG_F32, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "gradcheck: the backward kernel of 'affine' writes value -1 of the gradient of input 0, which has 5");
    assert_false(check((attributes){WRITES, true, SAVED, COUNT}, TG_F64, &error));
    assert_error(&error, TG_ERROR_VALUE, "writes byte 40 of the saved memory, which has 40");
}

/* Forward may only read its inputs; backward also the output, dy, and what forward saved. */
static void test_changes_of_constants(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES * 2; i++) {
        const struct place *place = &places[i / 2];
        bool own = place->where == SCRATCH || place->where == DX ||
                   (!place->backward && (place->where == OUTPUT || place->where == SAVED));
        if (!own) {
            expect_refusal(place, ADDS, dtypes[i % 2], 3, "may only read, but changes");
        }
    }
}

/* What lies around a buffer is a NaN, or another number the next time. */
static void test_reads_outside(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES * 4; i++) {
        const struct place *place = &places[i / 4];
        tg_error error = TG_NO_ERROR;
        attributes made = {READS, place->backward, place->where, i & 1 ? -1 : COUNT};
        if (check(made, dtypes[i >> 1 & 1], &error)) {
            fail_msg("a read outside of %s passes", place->name);
        }
        assert_error(&error, TG_ERROR_VALUE, "gradcheck: ");
    }
}

/* ---- declarations that are not true ---- */

static tg_op declared; /* the op, declared otherwise */

static tg_tensor *affine_as_declared(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    return tg_apply(tape, &declared, inputs, count, context, sizeof(attributes), NULL);
}

/* Reads x, which has no values in backward if the op ignores it. */
static void reads_x(const tg_op_call *call)
{
    const double *x = tg_tensor_data(call->inputs[0]), *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < COUNT; i++) {
        dx[i] += dy[i] * (x[i] > 100 ? 0 : 3) + 0 * x[i];
    }
}

/* Adds to what it is to write, writes where it is to add, or leaves a value unwritten. */
static void adds_always(const tg_op_call *call)
{
    const double *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < COUNT; i++) {
        dx[i] += 3 * dy[i];
    }
}

static void writes_always(const tg_op_call *call)
{
    const double *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < COUNT; i++) {
        dx[i] = 3 * dy[i];
    }
}

static void leaves_the_last(const tg_op_call *call)
{
    const double *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < COUNT - 1; i++) {
        dx[i] = (call->gradient_modes[0] == TG_GRADIENT_WRITE ? 0 : dx[i]) + 3 * dy[i];
    }
    dx[COUNT - 1] += call->gradient_modes[0] == TG_GRADIENT_WRITE ? 0 : 3 * dy[COUNT - 1];
}

static void unwritten_output(const tg_op_call *call)
{
    forward_f64(call);
    ((double *)tg_tensor_data_mut(call->outputs[0]))[2] *= 1;
}

static void leaves_the_first_output(const tg_op_call *call)
{
    double *y = tg_tensor_data_mut(call->outputs[0]), before = y[0];
    unwritten_output(call);
    y[0] = before;
}

/* What forward left in its scratch memory. */
static void reads_scratch(const tg_op_call *call)
{
    const double *scratch = call->scratch, *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < COUNT; i++) {
        dx[i] += 3 * dy[i] * (scratch[i] > 0 ? 1 : 1 + 1e-9);
    }
}

static void expect_declared_refused(const char *part)
{
    tg_tensor *inputs[] = {leaf(tensor_f64(TG_SHAPE(COUNT), (double[]){0.5, -1.25, 2, 0.75, -0.5})),
                           tensor_f64(TG_SHAPE(COUNT), (double[]){1, 2, 3, 4, 5})};
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        attributes none = {.made = NONE};
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        tg_error error = TG_NO_ERROR;
        bool passed = tg_gradcheck(affine_as_declared, &none, inputs, 2, &config, NULL, &error);
        if (part) {
            assert_false(passed);
            assert_error(&error, TG_ERROR_VALUE, part);
        } else {
            assert_true(passed);
        }
    }
    tg_release(inputs[0]);
    tg_release(inputs[1]);
}

static void test_declarations(void **state)
{
    (void)state;
    declared = op;
    declared.f64.backward = reads_x;
    expect_declared_refused(NULL);
    declared.backward_ignores_inputs = TG_OP_ALL;
    expect_declared_refused("gives nan in input 0, and 0 when computed again: backward reads memory that nothing has "
                            "written, or an input that backward_ignores_inputs of 'affine' excludes");

    declared = op;
    declared.f64.backward = adds_always;
    expect_declared_refused(NULL);
    declared.can_overwrite = true;
    expect_declared_refused("when computed again: backward reads memory that nothing has written, or 'affine' has "
                            "can_overwrite and does not write all of a new gradient");
    declared.f64.backward = leaves_the_last;
    expect_declared_refused("gives nan in input 0");
    declared.f64.backward = writes_always;
    expect_declared_refused("backward must add to the gradient that exists; 'affine' has can_overwrite, and may write "
                            "instead only for TG_GRADIENT_WRITE");

    declared = op;
    declared.f64.forward = unwritten_output;
    expect_declared_refused(NULL);
    declared.f64.forward = leaves_the_first_output;
    expect_declared_refused("or a kernel reads past the end of an input");

    declared = op;
    declared.f64.backward = reads_scratch;
    expect_declared_refused("not reentrant, or reads memory that nothing has written");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_kernels_pass),   cmocka_unit_test(test_writes_outside),
        cmocka_unit_test(test_changes_of_constants), cmocka_unit_test(test_reads_outside),
        cmocka_unit_test(test_declarations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
