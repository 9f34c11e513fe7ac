/* elementwise: functions of one, two or three values, with broadcasting. They are the rows of tests/rows that have a
 * formula. */
#include "reference.h"

#include <assert.h>
#include <string.h>

#include "rows/rows.h"

typedef struct numbers_of_call {
    double given[FORMULA_NUMBERS], rounded[FORMULA_NUMBERS]; /* to the dtype, as the op does */
} numbers_of_call;

/* Seldom a shape of more values than a chunk of the kernels (TG_ELEMENTWISE_CHUNK). */
static tg_shape draw_inputs_shape(trial *t)
{
    return draw_chance(t, 4) ? TG_SHAPE(draw_integer(t, 10, 70), draw_integer(t, 10, 40))
                             : draw_shape(t, 0, TG_MAX_RANK);
}

static void draw_function(trial *t)
{
    const test_row *row = t->reference->data;
    numbers_of_call *numbers = OPTIONS(t, numbers_of_call);
    static const char *const names[] = {"first number", "second number"};
    for (int k = 0; k < (row->with_numbers ? 2 : row->with_number ? 1 : 0); k++) {
        double number = draw_chance(t, 50)
                            ? draw_uniform(t, -3, 3)
                            : DRAW_DOUBLE_OF(t, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 20, 1e-3, INFINITY, -INFINITY, NAN);
        numbers->given[k] = note_double(t, names[k], number);
        numbers->rounded[k] = converted(t->dtype, number);
    }
    static const char *const inputs[] = {"first", "second", "third"};
    tg_shape shape = draw_inputs_shape(t);
    int absent =
        strcmp(t->reference->op, "tg_clamp_tensor") == 0 && draw_chance(t, 50) ? (int)draw_integer(t, 1, 2) : -1;
    int count = row_input_count(row);
    for (int k = 0; k < count; k++) {
        if (k == absent) {
            draw_absent(t, inputs[k]);
        } else {
            draw_input(t, inputs[k], count == 1 ? shape : draw_broadcastable(t, shape));
        }
    }
    numbers->rounded[1] =
        strcmp(t->reference->op, "tg_clamp_tensor") == 0 ? t->inputs[2].is_present : numbers->rounded[1];
}

/* The broadcast shape of all inputs; false if they do not match. */
static bool shape_of_result(const trial *t, tg_shape *shape)
{
    *shape = t->inputs[0].x.shape;
    bool matches = true;
    for (int k = 1; k < t->input_count; k++) {
        if (t->inputs[k].is_present) {
            matches = matches && broadcast_shapes(*shape, t->inputs[k].x.shape, shape);
        }
    }
    return matches;
}

static bool is_valid_function(const trial *t)
{
    const test_row *row = t->reference->data;
    tg_shape shape;
    return shape_of_result(t, &shape) && (!row->accepts || row->accepts(OPTIONS(t, numbers_of_call)->given));
}

static tg_tensor *call_function(trial *t)
{
    tg_tensor *x[FORMULA_INPUTS] = {t->inputs[0].tensor, t->inputs[1].tensor, t->inputs[2].tensor};
    return row_call(t->reference->data, t->tape, x, OPTIONS(t, numbers_of_call)->given);
}

/* Reads the values of the inputs that belong to an index of the result, and their numbers. An absent bound is
 * infinite. */
static void read_inputs(const trial *t, tg_shape shape, const int64_t *index, double *values, int64_t *at)
{
    for (int k = 0; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        at[k] = in->is_present ? broadcast_index(in->x.shape, shape.rank, index) : 0;
        values[k] = in->is_present ? in->x.values[at[k]] : k == 1 ? -INFINITY : INFINITY;
    }
}

static void function_forward(trial *t)
{
    const test_row *row = t->reference->data;
    tg_shape shape;
    shape_of_result(t, &shape);
    array *y = output_new(t, 0, shape);
    int64_t index[TG_MAX_RANK], at[FORMULA_INPUTS];
    double in[FORMULA_INPUTS] = {0};
    for (int64_t i = 0; i < y->count; i++) {
        split_index(shape, i, index);
        read_inputs(t, shape, index, in, at);
        quantity value = row->formula->value(in, OPTIONS(t, numbers_of_call)->rounded);
        put_terms(y, i, value.value, value.terms);
    }
}

static void function_backward(trial *t)
{
    const test_row *row = t->reference->data;
    const array *dy = &t->outputs[0].dy;
    int64_t index[TG_MAX_RANK], at[FORMULA_INPUTS];
    double in[FORMULA_INPUTS] = {0};
    for (int64_t i = 0; i < dy->count; i++) {
        split_index(dy->shape, i, index);
        read_inputs(t, dy->shape, index, in, at);
        for (int k = 0; k < t->input_count; k++) {
            quantity slope = row->formula->slope(k, in, OPTIONS(t, numbers_of_call)->rounded);
            if (t->inputs[k].is_present) {
                add_terms(&t->inputs[k].dx, at[k], dy->values[i] * slope.value,
                          fabs(dy->values[i]) * slope.terms + overflowing(slope.terms));
            }
        }
    }
}

/* ---- the family ---- */

enum { MOST_FUNCTIONS = 100 };
static reference references[MOST_FUNCTIONS];

static void read_rows(reference_family *family)
{
    for (int i = 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        if (row->formula && row == row_of(row->op)) {
            assert(family->count < MOST_FUNCTIONS);
            references[family->count++] = (reference){
                .op = row->op,
                .draw = draw_function,
                .is_valid = is_valid_function,
                .call = call_function,
                .forward = function_forward,
                .backward = function_backward,
                .roundings = 8,
                .gradient_roundings = 16,
                .data = row,
            };
        }
    }
}

reference_family elementwise = {"elementwise", references, 0, 40000, read_rows};
