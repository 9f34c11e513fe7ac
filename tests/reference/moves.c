/* moves: ops whose result values are values of one input. They are the rows of tests/rows that have a movement. */
#include "layout.h"

#include <assert.h>

#include "rows/rows.h"

/* An integer: mostly near the size of the axis before it, now and then far away. */
static double draw_integer_option(trial *t, int64_t size)
{
    return draw_chance(t, 8)    ? DRAW_DOUBLE_OF(t, -0x1p63, -0x1p62, 0x1p62, 0x1p31)
           : draw_chance(t, 20) ? (double)draw_integer(t, -3 * size - 2, 3 * size + 2)
                                : (double)draw_integer(t, -size, size > 0 ? size - 1 : 0);
}

static void draw_move(trial *t, layout_options *o, tg_shape shape)
{
    const test_row *row = ((const layout *)t->reference->data)->row;
    int64_t size = 3;
    for (int k = 0; k < FORMULA_NUMBERS && row->kinds[k] != NUMBER; k++) {
        double *number = &o->row_options[k];
        *number = row->kinds[k] == AXIS ? draw_axis(t, shape.rank) : draw_integer_option(t, size);
        note_double(t, row->kinds[k] == AXIS ? "axis" : "integer", *number);
        bool has_size = row->kinds[k] == AXIS && is_axis((int)*number, shape.rank);
        size = has_size ? shape.size[axis_from_front((int)*number, shape.rank)] : size;
    }
}

enum { MOST_MOVES = 100 };
static layout layouts[MOST_MOVES];
static reference references[MOST_MOVES];

static void read_rows(reference_family *family)
{
    for (int i = 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        if (row->movement && row == row_of(row->op)) {
            int k = family->count++;
            assert(k < MOST_MOVES);
            layouts[k] = (layout){.draw = draw_move, .min_rank = 1, .row = row};
            references[k] = (reference)LAYOUT_REFERENCE(row->op, false, &layouts[k]);
        }
    }
}

reference_family moves = {"moves", references, 0, 10000, read_rows};
