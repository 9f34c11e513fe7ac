/* What a gradient check says: a line for each input, what all wrong entries have in common, kinks, and the orders of
 * the Taylor mode. */
#include <math.h>
#include <string.h>

#include "support.h"

#include "gradcheck/planted_gradients.h"

enum { ROWS = 3, COLUMNS = 4, COUNT = ROWS * COLUMNS };

/* y = x^2 of a matrix, by kernels of arrays with a mistake. */
typedef enum mistake { NONE, FACTOR, SIGN, ZERO, TRANSPOSED, ONE_ROW, NO_PATTERN } mistake;

static void square(void *context, const void *const *inputs, void *y)
{
    const double *x = inputs[0], *bias = inputs[1];
    (void)context;
    for (int i = 0; i < COUNT; i++) {
        ((double *)y)[i] = x[i] * x[i] + bias[i % COLUMNS];
    }
}

static void square_backward(void *context, const void *const *inputs, const void *dy, void *const *gradients)
{
    const mistake *wrong = context;
    const double *x = inputs[0], *g = dy;
    double *dx = gradients[0], *dbias = gradients[1];
    for (int i = 0; i < COUNT; i++) {
        double right = 2 * x[i] * g[i];
        int row = i / COLUMNS, at = *wrong == TRANSPOSED ? i % COLUMNS * ROWS + row : i;
        bool is_wrong_row = *wrong == ONE_ROW && row == 1;
        dx[at] += *wrong == FACTOR                     ? 1.5 * right
                  : *wrong == SIGN                     ? -right
                  : *wrong == ZERO                     ? 0
                  : is_wrong_row                       ? 3 * right
                  : *wrong == NO_PATTERN && i % 5 == 2 ? right * (1 + 0.1 * i)
                                                       : right;
        dbias[i % COLUMNS] += g[i];
    }
}

static tg_gradcheck_report report;

/* Checks the kernels, and returns whether they passed. */
static bool check(mistake wrong, const tg_gradcheck_config *config, tg_error *error)
{
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = 0.3 + 0.17 * i;
    }
    tg_tensor *inputs[] = {leaf(tensor_f64(TG_SHAPE(ROWS, COLUMNS), values)),
                           leaf(tensor_f64(TG_SHAPE(COLUMNS), values))};
    tg_gradcheck_kernels kernels = {square, square_backward, &wrong, TG_SHAPE(ROWS, COLUMNS)};
    bool passed = tg_gradcheck_arrays(&kernels, inputs, 2, config, &report, error);
    tg_release(inputs[0]);
    tg_release(inputs[1]);
    return passed;
}

static void expect_verdict(mistake wrong, const char *first_line)
{
    static const char *const names[] = {"x", NULL};
    for (int mode = TG_GRADCHECK_SLOW; mode <= TG_GRADCHECK_FAST; mode++) {
        tg_error error = TG_NO_ERROR;
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.input_names = names;
        config.input_name_count = 2;
        config.mode = (tg_gradcheck_mode)mode;
        bool passed = check(wrong, &config, &error);
        assert_int_equal(passed, wrong == NONE);
        if (mode == TG_GRADCHECK_FAST && passed) {
            assert_string_equal(report.verdict, "");
            continue;
        }
        char expected[400];
        snprintf(expected, sizeof expected, "%s\ninput 1: 4 of 4 right", first_line);
        assert_string_equal(report.verdict, expected);
        if (!passed && wrong != NO_PATTERN) {
            assert_non_null(strstr(error.text, first_line)); /* whoever prints the error alone knows it, too */
        }
    }
}

static void test_patterns(void **state)
{
    (void)state;
    expect_verdict(NONE, "input 0 'x': 12 of 12 right");
    expect_verdict(
        FACTOR, "input 0 'x': 12 of 12 wrong (12 of 144 entries); analytic / numeric = 1.5 in all of them: a factor");
    expect_verdict(SIGN,
                   "input 0 'x': 12 of 12 wrong (12 of 144 entries); analytic / numeric = -1 in all of them: the sign");
    expect_verdict(ZERO, "input 0 'x': 12 of 12 wrong (12 of 144 entries); analytic is 0 in all of them");
    expect_verdict(TRANSPOSED, "input 0 'x': 10 of 12 wrong (20 of 144 entries); analytic is the "
                               "transpose of numeric in all of them");
    expect_verdict(
        ONE_ROW,
        "input 0 'x': 4 of 12 wrong, row 1 (4 of 144 entries); analytic / numeric = 3 in all of them: a factor");
    expect_verdict(NO_PATTERN, "input 0 'x': 2 of 12 wrong, rows 0, 1 (2 of 144 entries)");
}

/* ---- the callback ---- */

typedef struct map {
    char drawn[COUNT + 1];
    int pairs;
} map;

static void draw(void *context, const tg_gradcheck_pair *pair)
{
    map *m = context;
    m->pairs++;
    if (pair->input == 0 && pair->verdict != TG_GRADCHECK_RIGHT) {
        m->drawn[pair->input_index] = pair->verdict == TG_GRADCHECK_WRONG ? '#' : '?';
    }
}

static void test_pairs(void **state)
{
    (void)state;
    map m = {.drawn = "............"};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.on_pair = draw;
    config.pair_context = &m;
    assert_false(check(ONE_ROW, &config, NULL));
    assert_string_equal(m.drawn, "....####....");
    assert_int_equal(m.pairs, COUNT * (COUNT + COLUMNS));
    assert_int_equal(report.wrong, COLUMNS);
}

/* ---- kinks ---- */

typedef struct kink {
    const char *name;
    tg_tensor *(*call)(tg_tape *t, tg_tensor *x);
    double values[4];
    int at;           /* the first value that is at a kink */
    bool is_isolated; /* whether a small move leaves it */
} kink;

static tg_tensor *largest(tg_tape *t, tg_tensor *x)
{
    return tg_add(t, x, tg_amax(t, x, TG_ALL_AXES, TG_DROP_AXES));
}

static tg_tensor *smallest(tg_tape *t, tg_tensor *x)
{
    return tg_add(t, x, tg_amin(t, x, TG_ALL_AXES, TG_DROP_AXES));
}

static tg_tensor *top(tg_tape *t, tg_tensor *x)
{
    return tg_add(t, x, tg_topk(t, x, 1, 0, TG_LARGEST_FIRST, NULL));
}

static tg_tensor *sorted(tg_tape *t, tg_tensor *x)
{
    return tg_sort(t, x, 0, TG_SMALLEST_FIRST, NULL);
}

static tg_tensor *pooled(tg_tape *t, tg_tensor *x)
{
    return tg_max_pool1d(t, tg_reshape(t, x, TG_SHAPE(1, 1, 4)), 2, NULL);
}

static tg_tensor *leaky(tg_tape *t, tg_tensor *x)
{
    return tg_leaky_relu(t, x, 0.25);
}

static tg_tensor *clamped(tg_tape *t, tg_tensor *x)
{
    return tg_clamp(t, x, -1, 2);
}

static tg_tensor *steep_elu(tg_tape *t, tg_tensor *x)
{
    return tg_elu(t, x, 2);
}

static tg_tensor *clamped_by_tensor(tg_tape *t, tg_tensor *x)
{
    return tg_clamp_tensor(t, x, tg_full(t, TG_F64, TG_SCALAR, 1.5), NULL);
}

/* max(0, 1 - x) */
static tg_tensor *hinge(tg_tape *t, tg_tensor *x)
{
    return tg_hinge_embedding_loss(t, x, tg_full(t, TG_F64, TG_SHAPE(4), -1), NULL);
}

static const kink kinks[] = {
    {"relu", tg_relu, {0.5, 0, -1, 2}, 1, true},
    {"leaky_relu", leaky, {0, 3, -1, 2}, 0, true},
    {"elu", steep_elu, {1, 3, 0, 2}, 2, true},
    {"clamp", clamped, {0.5, 2, -2, 1}, 1, true},
    {"clamp at its low bound", clamped, {0.5, 3, -1, 1}, 2, true},
    {"clamp_tensor", clamped_by_tensor, {0.5, 2, 1.5, 1}, 2, true},
    {"hinge_embedding_loss", hinge, {0.5, 2, 1, -1}, 2, true},
    {"amax of three", largest, {2, 2, -1, 2}, 1, false},
    {"amin of three", smallest, {-1, -1, -1, 2}, 1, false},
    {"topk", top, {2, 1, 2, 0}, 0, true},
    {"sort", sorted, {0.5, 2, 0.5, 3}, 0, true},
    {"max_pool1d", pooled, {1, 1, 4, 3}, 0, true},
};

static tg_tensor *call_kink(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return ((const kink *)context)->call(t, inputs[0]);
}

static bool check_kink(const kink *k, bool skip, double move, tg_error *error)
{
    double values[4];
    memcpy(values, k->values, sizeof values);
    values[k->at] += move;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(4), values));
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.skip_kinks = skip;
    bool passed = tg_gradcheck(call_kink, (void *)(uintptr_t)k, &x, 1, &config, &report, error);
    tg_release(x);
    return passed;
}

/* Each is told as a kink, and fails or is skipped; beside it, within a step or farther, the gradient is right. */
static void test_kinks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinks / sizeof *kinks; i++) {
        tg_error error = TG_NO_ERROR;
        if (check_kink(&kinks[i], false, 0, &error)) {
            fail_msg("%s passed", kinks[i].name);
        }
        assert_error(&error, TG_ERROR_VALUE, "the function has no derivative there");
        assert_true(report.kinks > 0 && report.wrong == 0);
        assert_non_null(strstr(report.verdict, " at a kink"));
        if (!check_kink(&kinks[i], true, 0, &error)) {
            fail_msg("%s: %s", kinks[i].name, error.text);
        }
        assert_true(report.kinks > 0);
        static const double moves[] = {5e-7, -5e-7, 3e-8, -1e-7};
        for (int m = 0; kinks[i].is_isolated && m < 4; m++) {
            if (!check_kink(&kinks[i], false, moves[m], &error)) {
                fail_msg("%s, moved by %g: %s", kinks[i].name, moves[m], error.text);
            }
            assert_int_equal(report.kinks, 0);
        }
    }
}

/* A check that skips everything fails. */
static void test_all_skipped(void **state)
{
    (void)state;
    const kink all = {"relu", tg_relu, {0, 0, 0, 0}, 0, true};
    tg_error error = TG_NO_ERROR;
    double zero = 0;
    tg_tensor *x = leaf(tensor_f64(TG_SCALAR, &zero));
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.skip_kinks = true;
    assert_false(tg_gradcheck(call_kink, (void *)(uintptr_t)&all, &x, 1, &config, &report, &error));
    assert_error(&error, TG_ERROR_VALUE, "all 1 entries are at kinks, and were skipped");
    tg_release(x);
}

/* Twenty wrong gradients of functions with a kink, at the kink and beside it: |x| and max(x, 0) with these slopes on
 * the left and on the right. None of them lies between the right slopes, or is that of its side. */
typedef struct slopes {
    bool is_abs;
    double x, slope;
} slopes;

static void bent(void *context, const void *const *inputs, void *y)
{
    const slopes *s = context;
    const double *x = inputs[0];
    *(double *)y = s->is_abs ? fabs(*x) : *x > 0 ? *x : 0;
}

static void bent_backward(void *context, const void *const *inputs, const void *dy, void *const *gradients)
{
    (void)inputs;
    *(double *)gradients[0] += ((const slopes *)context)->slope * *(const double *)dy;
}

static void test_wrong_beside_kinks(void **state)
{
    (void)state;
    static const slopes wrong[] = {
        {true, 0, 1.5},      {true, 0, -2},    {true, 5e-7, -1},    {true, 5e-7, 0},    {true, -5e-7, 1},
        {true, -5e-7, 0.5},  {true, 1e-7, 0},  {true, -1e-7, 0.9},  {true, 1e-7, -1},   {true, 2e-7, 0.99},
        {false, 0, -0.5},    {false, 0, 1.2},  {false, 5e-7, 0},    {false, 5e-7, 0.5}, {false, -5e-7, 1},
        {false, -5e-7, 0.1}, {false, 1e-7, 0}, {false, -1e-7, 0.5}, {false, 1e-7, 2},   {false, 2e-7, 0.9},
    };
    assert_int_equal(sizeof wrong / sizeof *wrong, 20);
    for (size_t i = 0; i < 20; i++) {
        tg_error error = TG_NO_ERROR;
        slopes s = wrong[i];
        tg_tensor *x = leaf(tensor_f64(TG_SHAPE(1), &s.x));
        tg_gradcheck_kernels kernels = {bent, bent_backward, &s, TG_SHAPE(1)};
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.skip_kinks = true;
        if (tg_gradcheck_arrays(&kernels, &x, 1, &config, &report, &error) || report.kinks > 0 || report.wrong == 0) {
            fail_msg("number %d: %s", (int)i, report.verdict);
        }
        assert_int_equal(error.code, TG_ERROR_VALUE);
        tg_release(x);
    }
}

/* ---- the Taylor mode ---- */

/* Of the forty planted gradients it refuses at least 34; those that it misses are listed. */
static void test_taylor_planted(void **state)
{
    (void)state;
    int refused = 0;
    for (int i = 0; i < planted_count; i++) {
        const planted *op = &planted_ops[i];
        tg_rng *rng = tg_rng_new(1);
        tg_tensor *inputs[2] = {NULL, NULL};
        for (int k = 0; k < op->input_count; k++) {
            inputs[k] = planted_make_input(&op->inputs[k], rng);
        }
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.mode = TG_GRADCHECK_TAYLOR;
        bool passed =
            tg_gradcheck(planted_call, (void *)(uintptr_t)op, inputs, op->input_count, &config, &report, NULL);
        refused += !passed;
        if (passed) {
            print_message("Taylor misses %s: %s\n", op->name, op->wrong);
        }
        for (int k = 0; k < op->input_count; k++) {
            tg_release(inputs[k]);
        }
        tg_rng_free(rng);
    }
    print_message("Taylor refuses %d of %d\n", refused, planted_count);
    assert_true(refused >= 34);
}

static tg_tensor *smooth(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count, (void)context;
    return tg_mul(t, tg_exp(t, inputs[0]), tg_sin(t, inputs[0]));
}

static tg_tensor *linear(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count, (void)context;
    return tg_mul_scalar(t, inputs[0], 3);
}

/* 1e9 + sin x: the rounding of the sum hides the rest. */
static tg_tensor *hidden(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count, (void)context;
    return tg_add_scalar(t, tg_mul_scalar(t, tg_sin(t, inputs[0]), 1e-5), 1e9);
}

/* x sin y: x and y may be the same tensor. */
static tg_tensor *of_two(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count, (void)context;
    return tg_mul(t, inputs[0], tg_sin(t, inputs[1]));
}

static void test_taylor_orders(void **state)
{
    (void)state;
    const double values[] = {0.5, -1, 2};
    const float floats[] = {0.5f, -1, 2};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.mode = TG_GRADCHECK_TAYLOR;
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(3), values)), *f = leaf(tensor_f32(TG_SHAPE(3), floats));
    assert_true(tg_gradcheck(smooth, NULL, &x, 1, &config, &report, &error));
    assert_int_equal(report.compared, 2);
    assert_non_null(strstr(report.verdict, " 2.00"));
    assert_non_null(strstr(report.verdict, ": right"));
    assert_true(tg_gradcheck(linear, NULL, &x, 1, &config, &report, &error));
    assert_non_null(strstr(report.verdict, "none: exact"));
    assert_false(tg_gradcheck(hidden, NULL, &x, 1, &config, &report, &error));
    assert_error(&error, TG_ERROR_VALUE, "cannot tell: rounding hides the order");
    error = (tg_error)TG_NO_ERROR;
    assert_true(tg_gradcheck(of_two, NULL, (tg_tensor *[]){x, x}, 2, &config, &report, &error));
    config.dtype = TG_F32;
    assert_true(tg_gradcheck(smooth, NULL, &f, 1, &config, &report, &error));
    assert_true(tg_gradcheck(linear, NULL, &f, 1, &config, &report, &error));
    tg_release(x);
    tg_release(f);
    for (int wrong = NONE; wrong <= NO_PATTERN; wrong++) {
        tg_gradcheck_config plain = tg_gradcheck_config_default();
        plain.mode = TG_GRADCHECK_TAYLOR;
        assert_int_equal(check((mistake)wrong, &plain, &error), wrong == NONE);
        if (wrong != NONE) {
            assert_error(&error, TG_ERROR_VALUE, "along a random direction f(x + h d) - f(x) - h g.d falls as h^1.");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_kinks),
        cmocka_unit_test(test_all_skipped),
        cmocka_unit_test(test_wrong_beside_kinks),
        cmocka_unit_test(test_taylor_planted),
        cmocka_unit_test(test_taylor_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
