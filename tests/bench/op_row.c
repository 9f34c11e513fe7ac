#include "bench/op_row.h"

#include <stdio.h>

enum { MOST_FUNCTIONS = 100 };

/* Returns the rows of tests/rows. */
static const op_row *functions(void)
{
    static op_row list[MOST_FUNCTIONS + 1];
    int count = 0;
    for (int i = 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        if (row->bench && count < MOST_FUNCTIONS) {
            list[count++] = (op_row){.op = row->op, .what = row->variant, .inputs = row->bench, .row = row};
        }
    }
    return list;
}

const op_row *const *op_all_rows(void)
{
    static const op_row *all[] = {NULL,        op_arithmetic, op_masks,  op_reductions, op_layouts, op_indexing,
                                  op_products, op_norms,      op_losses, op_sequences,  NULL};
    all[0] = functions();
    return all;
}

const char *op_name(const op_row *row, char name[OP_NAME])
{
    snprintf(name, OP_NAME, "%s%s%s", row->op + 3, *row->what ? ", " : "", row->what);
    return name;
}

tg_axes op_axes(int axis)
{
    return axis == OP_ALL_AXES ? TG_ALL_AXES : TG_AXES(axis);
}

tg_tensor *op_call(const op_row *row, tg_tape *t, tg_tensor *const *x)
{
    double number[FORMULA_NUMBERS];
    if (row->row) {
        row_options(row->row, false, 0, number);
        return row_call(row->row, t, x, number);
    }
    return row->call     ? row->call(t, x)
           : row->unary  ? row->unary(t, x[0])
           : row->binary ? row->binary(t, x[0], x[1])
           : row->scalar ? row->scalar(t, x[0], row->value)
           : row->along  ? row->along(t, x[0], row->axis)
           : row->reduce ? row->reduce(t, x[0], op_axes(row->axis), TG_DROP_AXES)
           : row->arg    ? row->arg(t, x[0], row->axis, TG_DROP_AXES)
                         : row->loss(t, x[0], x[1], TG_REDUCTION_MEAN);
}

void op_read(const tg_tensor *x)
{
    static volatile double value;
    value = tg_tensor_count(x) > 0 ? tg_tensor_value_at(x, 0) : 0;
    (void)value;
}
