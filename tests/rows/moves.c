/* The rows of ops that move values of one input. A movement is the shape of the result, and which value of x it has at
 * each index. */
#include "rows/rows.h"

static tg_tensor *transpose(tg_tape *t, tg_tensor *const *x, const double *number)
{
    return tg_transpose(t, x[0], (int)number[0], (int)number[1]);
}

static bool transpose_shape(const double *number, tg_shape x, tg_shape *y)
{
    *y = x;
    if (!is_axis((int)number[0], x.rank) || !is_axis((int)number[1], x.rank)) {
        return false;
    }
    int axis = axis_from_front((int)number[0], x.rank), other = axis_from_front((int)number[1], x.rank);
    y->size[axis] = x.size[other];
    y->size[other] = x.size[axis];
    return true;
}

static void transpose_source(const double *number, tg_shape x, const int64_t *index, int64_t *from)
{
    int axis = axis_from_front((int)number[0], x.rank), other = axis_from_front((int)number[1], x.rank);
    for (int k = 0; k < x.rank; k++) {
        from[k] = index[k == axis ? other : k == other ? axis : k];
    }
}

static const movement transpose_movement = {transpose_shape, transpose_source};

static tg_tensor *select(tg_tape *t, tg_tensor *const *x, const double *number)
{
    return tg_select(t, x[0], (int)number[0], (int64_t)number[1]);
}

static bool select_shape(const double *number, tg_shape x, tg_shape *y)
{
    if (!is_axis((int)number[0], x.rank)) {
        return false;
    }
    int axis = axis_from_front((int)number[0], x.rank);
    *y = x;
    y->rank--;
    for (int k = axis; k < y->rank; k++) {
        y->size[k] = x.size[k + 1];
    }
    return number[1] >= -(double)x.size[axis] && number[1] < (double)x.size[axis];
}

static void select_source(const double *number, tg_shape x, const int64_t *index, int64_t *from)
{
    int axis = axis_from_front((int)number[0], x.rank);
    int64_t selected = (int64_t)number[1];
    for (int k = 0; k < x.rank; k++) {
        from[k] = k < axis ? index[k] : k > axis ? index[k - 1] : selected < 0 ? selected + x.size[axis] : selected;
    }
}

static const movement select_movement = {select_shape, select_source};

const test_row move_rows[] = {
    {"tg_transpose", "", .with_options = transpose, .inputs = {REAL}, .shapes = {"2,3", "4", "2,3,2", "1,1", "0,3"},
     .kinds = {AXIS, AXIS}, .options = {"0 -1", "-1 0", "0 0"}, .torch = "x.transpose(int(p), int(q))",
     .movement = &transpose_movement, .weight = 4},
    {"tg_select", "", .with_options = select, .inputs = {REAL}, .shapes = {"4,3", "3", "1", "2,2,3", "2,0"},
     .kinds = {AXIS, INTEGER}, .options = {"0 -1", "0 0"}, .torch = "x.select(int(p), int(q))",
     .movement = &select_movement, .weight = 2},
    {"tg_select", "last", .with_options = select, .inputs = {REAL}, .shapes = {"4,3", "3", "1", "2,2,3", "0,2"},
     .kinds = {AXIS, INTEGER}, .options = {"-1 0", "-1 -1"}, .torch = "x.select(int(p), int(q))",
     .movement = &select_movement},
    {.op = NULL},
};
