/* moves: ops whose result values are values of one input. They are the rows of tests/rows that have a movement. */
#include "reference.h"

#include <assert.h>

#include "rows/rows.h"

typedef struct numbers_of_call {
    double number[FORMULA_NUMBERS];
} numbers_of_call;

static const double *numbers_of(const trial *t)
{
    return OPTIONS(t, const numbers_of_call)->number;
}

/* An integer: mostly near the size of the axis before it, now and then far away. */
static double draw_integer_option(trial *t, int64_t size)
{
    return draw_chance(t, 8)    ? DRAW_DOUBLE_OF(t, -0x1p63, -0x1p62, 0x1p62, 0x1p31)
           : draw_chance(t, 20) ? (double)draw_integer(t, -3 * size - 2, 3 * size + 2)
                                : (double)draw_integer(t, -size, size > 0 ? size - 1 : 0);
}

static void draw_move(trial *t)
{
    const test_row *row = t->reference->data;
    double *number = OPTIONS(t, numbers_of_call)->number;
    tg_shape shape = draw_any(t, "x", draw_shape(t, draw_chance(t, 95) ? 1 : 0, TG_MAX_RANK))->x.shape;
    int64_t size = 3;
    for (int k = 0; k < FORMULA_NUMBERS && row->kinds[k] != NUMBER; k++) {
        number[k] = row->kinds[k] == AXIS ? draw_axis(t, shape.rank) : draw_integer_option(t, size);
        note_double(t, row->kinds[k] == AXIS ? "axis" : "integer", number[k]);
        bool has_size = row->kinds[k] == AXIS && is_axis((int)number[k], shape.rank);
        size = has_size ? shape.size[axis_from_front((int)number[k], shape.rank)] : size;
    }
}

static bool is_valid_move(const trial *t)
{
    tg_shape shape;
    return ((const test_row *)t->reference->data)->movement->shape(numbers_of(t), t->inputs[0].x.shape, &shape);
}

static tg_tensor *call_move(trial *t)
{
    return row_call(t->reference->data, t->tape, &t->inputs[0].tensor, numbers_of(t));
}

/* The number of the value of x that the result has at its number i. */
static int64_t source_of(const trial *t, tg_shape result, int64_t i)
{
    int64_t index[TG_MAX_RANK], from[TG_MAX_RANK];
    tg_shape x = t->inputs[0].x.shape;
    split_index(result, i, index);
    ((const test_row *)t->reference->data)->movement->source(numbers_of(t), x, index, from);
    return flat_index(x, from);
}

static void move_forward(trial *t)
{
    const input *x = &t->inputs[0];
    tg_shape shape;
    ((const test_row *)t->reference->data)->movement->shape(numbers_of(t), x->x.shape, &shape);
    array *y = output_of_dtype(t, 0, shape, x->dtype);
    for (int64_t i = 0; i < y->count; i++) {
        put(y, i, x->x.values[source_of(t, shape, i)]);
    }
}

static void move_backward(trial *t)
{
    const array *dy = &t->outputs[0].dy;
    for (int64_t i = 0; i < dy->count; i++) {
        add(&t->inputs[0].dx, source_of(t, dy->shape, i), dy->values[i]);
    }
}

enum { MOST_MOVES = 100 };
static reference references[MOST_MOVES];

static void read_rows(reference_family *family)
{
    for (int i = 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        if (row->movement && row == row_of(row->op)) {
            assert(family->count < MOST_MOVES);
            references[family->count++] = (reference){
                .op = row->op,
                .draw = draw_move,
                .is_valid = is_valid_move,
                .call = call_move,
                .forward = move_forward,
                .backward = move_backward,
                .roundings = 0,
                .gradient_roundings = 8,
                .data = row,
            };
        }
    }
}

reference_family moves = {"moves", references, 0, 10000, read_rows};
