/* f32 gradient checks against a reference in double: twenty gradients with an error of 1 %, in all of their values or
 * in one, and the same gradients without it.
 */
#include "support.h"

#include <math.h>
#include <string.h>

#include <tapegrad/gradcheck.h>
#include <tapegrad/op.h>

/* The sizes of the inputs: a and b are (ROWS,COLUMNS), a row is (COLUMNS), and ids are (ROWS). */
enum { ROWS = 3, COLUMNS = 4, ALL = -1, RIGHT = -2 };

typedef struct function function;

/* Which input's gradient is wrong, and at which value: ALL, or its index. */
typedef struct attributes {
    const function *function;
    int input, at;
} attributes;

/* A function of inputs of these numbers of values, in three forms: forward and backward in f32, for dy and the result
 * y, and the reference in double. */
struct function {
    const char *name;
    int inputs, counts[2], outputs;
    void (*forward)(const float *const *x, float *y);
    void (*backward)(const float *const *x, const float *y, const float *dy, float *const *dx);
    void (*reference)(const double *const *x, double *y);
};

/* Both precisions of a forward are the same text. */
#define FORWARD(name, body)                                         \
    static void name##_forward(const float *const *x, float *y)     \
    {                                                               \
        typedef float real;                                         \
        body                                                        \
    }                                                               \
    static void name##_reference(const double *const *x, double *y) \
    {                                                               \
        typedef double real;                                        \
        body                                                        \
    }

enum { N = ROWS * COLUMNS };

/* ---- value by value ---- */

#define POINTWISE(name, value, slope)                                                                     \
    FORWARD(                                                                                              \
        name, for (int i = 0; i < N; i++) {                                                               \
            const real v = x[0][i];                                                                       \
            y[i] = (real)(value);                                                                         \
        })                                                                                                \
    static void name##_backward(const float *const *x, const float *y, const float *dy, float *const *dx) \
    {                                                                                                     \
        for (int i = 0; i < N; i++) {                                                                     \
            const float v = x[0][i], r = y[i];                                                            \
            (void)v;                                                                                      \
            (void)r;                                                                                      \
            dx[0][i] = dy[i] * (float)(slope);                                                            \
        }                                                                                                 \
    }

POINTWISE(square, v *v, 2 * v)
POINTWISE(sine, sin((double)v), cos((double)v))
POINTWISE(exponential, exp((double)v), r)
POINTWISE(reciprocal, 1 / v, -r *r)
POINTWISE(root, sqrt((double)v), 0.5f / r)

/* ---- two inputs ---- */

FORWARD(
    product, for (int i = 0; i < N; i++) { y[i] = (real)(x[0][i] * x[1][i]); })

static void product_backward(const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)y;
    for (int i = 0; i < N; i++) {
        dx[0][i] = dy[i] * x[1][i];
        dx[1][i] = dy[i] * x[0][i];
    }
}

/* A matrix times a row that all rows share. */
FORWARD(
    scaled, for (int i = 0; i < N; i++) { y[i] = (real)(x[0][i] * x[1][i % COLUMNS]); })

static void scaled_backward(const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)y;
    memset(dx[1], 0, COLUMNS * sizeof(float));
    for (int i = 0; i < N; i++) {
        dx[0][i] = dy[i] * x[1][i % COLUMNS];
        dx[1][i % COLUMNS] += dy[i] * x[0][i];
    }
}

/* a b^T, (ROWS,ROWS) */
FORWARD(
    matrices, for (int i = 0; i < ROWS * ROWS; i++) {
        real sum = 0;
        for (int c = 0; c < COLUMNS; c++) {
            sum += x[0][i / ROWS * COLUMNS + c] * x[1][i % ROWS * COLUMNS + c];
        }
        y[i] = sum;
    })

static void matrices_backward(const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)y;
    memset(dx[0], 0, N * sizeof(float));
    memset(dx[1], 0, N * sizeof(float));
    for (int i = 0; i < ROWS * ROWS; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            dx[0][i / ROWS * COLUMNS + c] += dy[i] * x[1][i % ROWS * COLUMNS + c];
            dx[1][i % ROWS * COLUMNS + c] += dy[i] * x[0][i / ROWS * COLUMNS + c];
        }
    }
}

/* ---- rows ---- */

FORWARD(
    softmax, for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < COLUMNS; c++) {
            sum += exp((double)x[0][r * COLUMNS + c]);
        }
        for (int c = 0; c < COLUMNS; c++) {
            y[r * COLUMNS + c] = (real)(exp((double)x[0][r * COLUMNS + c]) / sum);
        }
    })

static void softmax_backward(const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)x;
    for (int r = 0; r < ROWS; r++) {
        float dot = 0;
        for (int c = 0; c < COLUMNS; c++) {
            dot += y[r * COLUMNS + c] * dy[r * COLUMNS + c];
        }
        for (int c = 0; c < COLUMNS; c++) {
            dx[0][r * COLUMNS + c] = y[r * COLUMNS + c] * (dy[r * COLUMNS + c] - dot);
        }
    }
}

/* The length of each row, (ROWS). */
FORWARD(
    lengths, for (int r = 0; r < ROWS; r++) {
        real sum = 0;
        for (int c = 0; c < COLUMNS; c++) {
            sum += x[0][r * COLUMNS + c] * x[0][r * COLUMNS + c];
        }
        y[r] = (real)sqrt((double)sum);
    })

static void lengths_backward(const float *const *x, const float *y, const float *dy, float *const *dx)
{
    for (int i = 0; i < N; i++) {
        dx[0][i] = dy[i / COLUMNS] * x[0][i] / y[i / COLUMNS];
    }
}

/* The mean of (a - b)^2: one number. */
FORWARD(error, {
    real sum = 0;
    for (int i = 0; i < N; i++) {
        sum += (x[0][i] - x[1][i]) * (x[0][i] - x[1][i]);
    }
    y[0] = sum / N;
})

static void error_backward(const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)y;
    for (int i = 0; i < N; i++) {
        dx[0][i] = dy[0] * 2 * (x[0][i] - x[1][i]) / N;
        dx[1][i] = -dx[0][i];
    }
}

/* ---- the op: one for all functions ---- */

static bool shape(tg_op_call *call)
{
    const function *f = ((const attributes *)call->attributes)->function;
    return tg_op_output(call, 0, TG_F32, TG_SHAPE(f->outputs)) && tg_op_backward_scratch(call, 2 * N, sizeof(float));
}

static void forward(const tg_op_call *call)
{
    const attributes *a = call->attributes;
    const float *x[2] = {tg_tensor_data(call->inputs[0]),
                         a->function->inputs > 1 ? tg_tensor_data(call->inputs[1]) : NULL};
    a->function->forward(x, tg_tensor_data_mut(call->outputs[0]));
}

static void backward(const tg_op_call *call)
{
    const attributes *a = call->attributes;
    const float *x[2] = {tg_tensor_data(call->inputs[0]),
                         a->function->inputs > 1 ? tg_tensor_data(call->inputs[1]) : NULL};
    float *scratch = call->scratch, *dx[2] = {scratch, scratch + N};
    a->function->backward(x, tg_tensor_data(call->outputs[0]), call->output_gradients[0], dx);
    for (int k = 0; k < a->function->inputs; k++) {
        float *gradient = call->input_gradients[k];
        for (int i = 0; gradient && i < a->function->counts[k]; i++) {
            bool wrong = k == a->input && (a->at == ALL || a->at == i);
            gradient[i] += dx[k][i] * (wrong ? 1.01f : 1);
        }
    }
}

static const tg_op op = {.name = "own", .shape = shape, .f32 = {forward, backward}};

static tg_tensor *call_own(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    return tg_apply(tape, &op, inputs, count, context, sizeof(attributes), NULL);
}

static void call_reference(void *context, const double *const *inputs, double *result)
{
    ((const attributes *)context)->function->reference(inputs, result);
}

#define ONE(name, n)                                                            \
    {                                                                           \
#name, 1, {N, 0 }, n, name##_forward, name##_backward, name##_reference \
    }
#define TWO(name, m, n)                                                         \
    {                                                                           \
#name, 2, {N, m }, n, name##_forward, name##_backward, name##_reference \
    }

static const function functions[] = {
    ONE(square, N),   ONE(sine, N),       ONE(exponential, N), ONE(reciprocal, N),      ONE(root, N),
    ONE(softmax, N),  ONE(lengths, ROWS), TWO(product, N, N),  TWO(scaled, COLUMNS, N), TWO(matrices, N, ROWS *ROWS),
    TWO(error, N, 1),
};

enum { FUNCTIONS = sizeof functions / sizeof *functions };

static bool check(const function *f, int input, int at, tg_gradcheck_mode mode, tg_gradcheck_report *report)
{
    attributes a = {f, input, at};
    tg_tensor *inputs[2] = {NULL, NULL};
    tg_rng *rng = tg_rng_new(3);
    for (int k = 0; k < f->inputs; k++) {
        inputs[k] = leaf(tg_tensor_new(TG_F32, TG_SHAPE(f->counts[k]), NULL));
        tg_tensor_fill_uniform(inputs[k], rng, 0.5, 2, NULL);
    }
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.name = f->name;
    config.mode = mode;
    config.dtype = TG_F32;
    config.reference = call_reference;
    tg_error error = TG_NO_ERROR;
    bool passed = tg_gradcheck(call_own, &a, inputs, f->inputs, &config, report, &error);
    assert_int_equal(error.code, passed ? TG_OK : TG_ERROR_VALUE);
    tg_release(inputs[0]);
    tg_release(inputs[1]);
    tg_rng_free(rng);
    return passed;
}

static void test_right_gradients_pass(void **state)
{
    (void)state;
    for (int i = 0; i < FUNCTIONS; i++) {
        for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
            tg_gradcheck_report report;
            if (!check(&functions[i], 0, RIGHT, (tg_gradcheck_mode)mode, &report)) {
                fail_msg("%s", report.text);
            }
            /* ten times better than the tolerance */
            assert_true(report.max_relative_error < 1e-4);
        }
    }
}

/* The twenty errors: which function, which input, and ALL or one value. The fast mode misses an error of 1 % of one
 * small derivative among larger ones: gradcheck.h has the bound. */
static const struct planted {
    int function, input, at;
    bool is_missed_by_fast;
} planted[] = {
    {0, 0, ALL, false},         {0, 0, N - 1, false}, {1, 0, ALL, false}, {1, 0, 0, false},
    {2, 0, 5, false},           {3, 0, ALL, false},   {3, 0, 7, true},    {4, 0, 11, false},
    {5, 0, ALL, false},         {5, 0, 6, false},     {6, 0, 3, false},   {6, 0, ALL, false},
    {7, 0, ALL, false},         {7, 1, 2, false},     {8, 0, 4, false},   {8, 1, ALL, false},
    {8, 1, COLUMNS - 1, false}, {9, 0, 0, false},     {9, 1, ALL, false}, {10, 1, 9, false},
};

static void test_errors_of_one_percent(void **state)
{
    (void)state;
    _Static_assert(sizeof planted / sizeof *planted == 20, "twenty errors");
    for (int i = 0; i < 40; i++) {
        const struct planted *p = &planted[i / 2];
        const function *f = &functions[p->function];
        tg_gradcheck_mode mode = i % 2 ? TG_GRADCHECK_FAST : TG_GRADCHECK_SLOW;
        tg_gradcheck_report report;
        bool passed = check(f, p->input, p->at, mode, &report);
        if (passed != (p->is_missed_by_fast && mode == TG_GRADCHECK_FAST)) {
            fail_msg("1 %% in input %d of %s in mode %d: %s", p->input, f->name, (int)mode, report.text);
        }
        assert_int_equal(report.input, passed ? -1 : p->input);
        if (!passed && p->at != ALL) {
            assert_int_equal(report.input_index, p->at);
        }
    }
}

/* A reference of another function, of which the gradient is the same; and one that writes nothing. */
static void off_by_one(void *context, const double *const *inputs, double *result)
{
    call_reference(context, inputs, result);
    result[3] += 1;
}

static void silent(void *context, const double *const *inputs, double *result)
{
    (void)context;
    (void)inputs;
    (void)result;
}

static void test_another_reference(void **state)
{
    (void)state;
    attributes a = {&functions[0], 0, RIGHT};
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(N), 0.5, NULL));
    tg_gradcheck_config config = tg_gradcheck_config_default();
    tg_error error_found = TG_NO_ERROR;
    config.dtype = TG_F32;
    config.reference = off_by_one;
    assert_false(tg_gradcheck(call_own, &a, &x, 1, &config, NULL, &error_found));
    assert_error(&error_found, TG_ERROR_VALUE, "gradcheck: the result at [3] is 0.25, and 1.25 by the reference");
    config.reference = silent;
    assert_false(tg_gradcheck(call_own, &a, &x, 1, &config, NULL, &error_found));
    assert_error(&error_found, TG_ERROR_VALUE, "gradcheck: the result at [0] is 0.25, and nan by the reference");
    tg_release(x);
}

/* ---- without a reference ---- */

static tg_tensor *squared(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul(t, inputs[0], inputs[0]);
}

/* Half of the gradient is missing. */
static tg_tensor *half_detached(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul(t, inputs[0], tg_detach(t, inputs[0]));
}

/* Returns whether the message advises a reference. The check must fail. */
static bool advises(tg_gradcheck_function of, tg_dtype dtype, double value, const char *text)
{
    tg_tensor *x = leaf(tg_tensor_new_full(dtype, TG_SHAPE(4), value, NULL));
    bool found = true;
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        config.dtype = dtype;
        tg_error error_found = TG_NO_ERROR;
        tg_gradcheck_report report;
        assert_false(tg_gradcheck(of, NULL, &x, 1, &config, &report, &error_found));
        assert_error(&error_found, TG_ERROR_VALUE, text);
        bool advised = strstr(report.text, "; a difference of floats is no more exact: set config.reference");
        assert_true(mode == TG_GRADCHECK_SLOW || advised == found);
        found = advised;
    }
    tg_release(x);
    return found;
}

/* The advice comes if rounding explains the failure, and only then. */
static void test_advises_a_reference(void **state)
{
    (void)state;
    assert_true(advises(squared, TG_F32, 0.7, "analytic 1.39999998, numeric 1."));
    assert_true(advises(squared, TG_F32, 100, "eps 1e-06 does not move the value 100 of input 0"));
    assert_false(advises(half_detached, TG_F32, 0.5, "analytic 0.5, numeric "));
    assert_false(advises(half_detached, TG_F64, 0.5, "analytic 0.5, numeric "));
}

/* ---- parameters, ids and strides ---- */

/* weight[ids[i],:] x[i,:]: a parameter, which follows the inputs, and ids, which a reference gets as doubles. */
static tg_tensor *lookup(tg_tape *t, tg_tensor *const *inputs, int count, void *params)
{
    (void)count;
    return tg_mul(t, tg_embedding(t, inputs[0], tg_params_find(params, "weight"), NULL), inputs[1]);
}

static void lookup_reference(void *context, const double *const *inputs, double *result)
{
    (void)context;
    for (int i = 0; i < ROWS * 2; i++) {
        result[i] = inputs[2][(int)inputs[0][i / 2] * 2 + i % 2] * inputs[1][i];
    }
}

static void test_parameters(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(3);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_params_add_normal(params, "weight", TG_SHAPE(4, 2), 0, 1);
    tg_tape *views = tg_tape_new(NULL, NULL);
    tg_tensor *wide = tensor_f32(TG_SHAPE(2, ROWS), (float[]){1, 2, 3, 4, 5, 6});
    tg_tensor *inputs[] = {tensor_i32(TG_SHAPE(ROWS), (int32_t[]){3, 0, 3}), leaf(tg_transpose(views, wide, 0, 1))};
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = (tg_gradcheck_mode)mode;
        config.dtype = TG_F32;
        config.reference = lookup_reference;
        tg_gradcheck_report report;
        if (!tg_gradcheck_params(params, lookup, params, inputs, 2, &config, &report, NULL)) {
            fail_msg("%s", report.text);
        }
        assert_true(report.max_relative_error < 1e-6);
    }
    tg_tape_free(views);
    tg_release(wide);
    tg_release(inputs[0]);
    tg_params_free(params);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_gradients_pass), cmocka_unit_test(test_errors_of_one_percent),
        cmocka_unit_test(test_another_reference),    cmocka_unit_test(test_advises_a_reference),
        cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
