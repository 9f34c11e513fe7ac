/* The rows of tests/rows: torch's values and gradients (make_rows.py), and the exact messages of refused calls. */
#include "rows/rows.h"
#include "ops/goldens.h"
#include "ops/refused.h"

#include <math.h>

static void test_against_torch(void **state)
{
    (void)state;
    int cases = check_goldens_with_options(TG_TEST_GOLDENS "/rows.txt", NULL, 0, 7e-14, 1.4e-6), expected = 0;
    for (int i = 0; i < row_count(); i++) {
        double number[FORMULA_NUMBERS];
        for (int edges = 0; row_at(i)->torch && edges < 2; edges++) {
            for (int k = 0; row_options(row_at(i), edges, k, number); k++) {
                int shapes = 0;
                while (shapes < ROW_SHAPES && row_shapes(row_at(i))[shapes]) {
                    shapes++;
                }
                /* floats and integers of each shape, or six shapes and two lists of values */
                expected += row_at(i)->movement ? 2 * shapes : 8;
            }
        }
    }
    assert_int_equal(cases, expected);
}

/* Fails if an op with its first options does not refuse these inputs with this message. */
static void check_inputs(fixture *f, const test_row *row, tg_tensor *const *x, tg_code code, const char *text)
{
    double number[FORMULA_NUMBERS];
    row_options(row, false, 0, number);
    char message[200];
    snprintf(message, sizeof message, "%s: %s", row->op + 3, text);
    check_refused(f, row_call(row, f->tape, x, number), code, message, __LINE__);
}

/* Each input of a row is once NULL and once of each wrong dtype. Two inputs are of two float dtypes, and of shapes that
 * do not broadcast. */
static void test_inputs(void **state)
{
    fixture *f = *state;
    int calls = 0;
    for (int i = 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        int count = row_input_count(row);
        for (int k = 0; row->torch && k < count; k++) {
            const char *name = count == 1 ? "x" : k == 0 ? "a" : "b";
            char text[160];
            tg_tensor *x[ROW_INPUTS] = {f->x, f->x};
            x[k] = NULL;
            snprintf(text, sizeof text, "argument '%s' is NULL", name);
            check_inputs(f, row, x, TG_ERROR_STATE, text);
            for (int dtype = 0; row->formula && dtype < 2; dtype++) {
                x[k] = dtype ? f->mask : f->ids;
                snprintf(text, sizeof text, "argument '%s' is %s; it must be f32 or f64 (tg_cast converts)", name,
                         dtype ? "u8" : "i32");
                check_inputs(f, row, x, TG_ERROR_DTYPE, text);
            }
            calls += 3;
        }
        if (row->torch && count == 2) {
            check_inputs(f, row, (tg_tensor *[]){f->x, f->doubles}, TG_ERROR_DTYPE,
                         "inputs are f32 and f64; no dtype is promoted: convert one with tg_cast");
            check_inputs(f, row, (tg_tensor *[]){f->doubles, f->x}, TG_ERROR_DTYPE,
                         "inputs are f64 and f32; no dtype is promoted: convert one with tg_cast");
            check_inputs(f, row, (tg_tensor *[]){f->x, f->four}, TG_ERROR_SHAPE,
                         "shapes (2,3) and (4,) do not broadcast: sizes must be equal or 1");
            check_inputs(f, row, (tg_tensor *[]){NULL, NULL}, TG_ERROR_STATE, "argument 'a' is NULL");
            check_inputs(f, row, (tg_tensor *[]){f->mask, f->mask}, TG_ERROR_DTYPE,
                         "argument 'a' is u8; it must be f32 or f64 (tg_cast converts)");
            calls += 5;
        }
    }
    assert_true(calls > 150);
}

/* Writes the message for options that a row refuses: that of the first axis that does not exist, or the row's. Returns
 * false if the row has none, since it names more than the options. */
static bool write_refusal(const test_row *row, const double *number, char text[160])
{
    for (int k = 0; k < FORMULA_NUMBERS; k++) {
        if (row->kinds[k] == AXIS && !is_axis((int)number[k], 2)) {
            return snprintf(text, 160, "axis %g is outside [-2,2) for rank 2", number[k]) > 0;
        }
    }
    return row->refusal && snprintf(text, 160, row->refusal, number[0], number[1]) > 0;
}

/* Checks a call of an input (2,3). */
static void check_options(fixture *f, const test_row *row, const double *number)
{
    tg_shape shape;
    bool is_accepted = row->movement  ? row->movement->shape(number, TG_SHAPE(2, 3), &shape)
                       : row->accepts ? row->accepts(number)
                                      : true;
    tg_tensor *y = row_call(row, f->tape, &f->x, number);
    char rule[160] = "", message[200];
    if (is_accepted) {
        assert_non_null(y);
        f->records = tape_stats_of(f->tape).records;
        return;
    }
    bool has_message = write_refusal(row, number, rule);
    assert_true(has_message || row->movement);
    snprintf(message, sizeof message, "%s: %s", row->op + 3, rule);
    check_refused(f, y, row->movement ? TG_ERROR_RANGE : TG_ERROR_VALUE, has_message ? message : NULL, __LINE__);
}

/* Each pair of these numbers, or integers, is accepted, or refused with the row's message. */
static void test_options(void **state)
{
    fixture *f = *state;
    static const double numbers[] = {1, 0.5, 0, -0.0, -1, 20, INFINITY, -INFINITY, NAN},
                        integers[] = {0, 1, 2, 3, 7, -1, -2, -3, -4};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    for (int i = 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        const double *list = row->kinds[0] == NUMBER ? numbers : integers;
        for (int k = 0; row->torch && row->options[0] && k < COUNT * COUNT; k++) {
            check_options(f, row, (double[FORMULA_NUMBERS]){list[k % COUNT], list[k / COUNT]});
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
        cmocka_unit_test_setup_teardown(test_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_options, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
