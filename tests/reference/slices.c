/* slices: some values of a tensor, an axis more or less, copies, and triangles. */
#include "layout.h"

#include <string.h>

/* ---- slice ---- */

/* A bound: inside of the axis from either end, near it, or far away. */
static int64_t draw_bound(trial *t, int64_t size)
{
    return draw_chance(t, 10) ? DRAW_ONE_OF(t, INT64_MIN, INT64_MAX, INT64_MIN + 1, 0)
                              : draw_integer(t, -size - 2, size + 2);
}

static int64_t size_of_axis(tg_shape x, int axis)
{
    return is_axis(axis, x.rank) ? x.size[axis_from_front(axis, x.rank)] : 0;
}

static void draw_slice(trial *t, layout_options *o, tg_shape x)
{
    o->axis = (int)note_integer(t, "axis", draw_axis(t, x.rank));
    int64_t size = size_of_axis(x, o->axis);
    int64_t step = draw_chance(t, 8) ? DRAW_ONE_OF(t, 0, -1, INT64_MIN, INT64_MAX) : draw_integer(t, 1, 4);
    o->begin = note_integer(t, "begin", draw_bound(t, size));
    o->end = note_integer(t, "end", draw_chance(t, 30) ? INT64_MAX : draw_bound(t, size));
    o->step = note_integer(t, "step", step);
}

/* As in Python: a negative bound counts from the end, and the result is clipped to [0,size]. */
static int64_t clipped(int64_t bound, int64_t size)
{
    long double from_front = (long double)bound + (bound < 0 ? (long double)size : 0);
    return from_front < 0 ? 0 : from_front > (long double)size ? size : (int64_t)from_front;
}

static bool slice_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    *y = x;
    if (!is_axis(o->axis, x.rank) || o->step < 1) {
        return false;
    }
    int axis = axis_from_front(o->axis, x.rank);
    int64_t begin = clipped(o->begin, x.size[axis]), end = clipped(o->end, x.size[axis]);
    y->size[axis] = end > begin ? (end - begin - 1) / o->step + 1 : 0;
    return true;
}

static int64_t slice_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    int64_t at[TG_MAX_RANK];
    int axis = axis_from_front(o->axis, x.rank);
    memcpy(at, index, (size_t)x.rank * sizeof *at);
    at[axis] = clipped(o->begin, x.size[axis]) + index[axis] * o->step;
    return flat_index(x, at);
}

static tg_tensor *call_slice(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_slice(tape, x, o->axis, o->begin, o->end, o->step);
}

/* The shape without an axis, and an index with this one more. */
static tg_shape without_axis(tg_shape x, int axis)
{
    tg_shape y = x;
    y.rank = x.rank - 1;
    for (int k = axis; k < y.rank; k++) {
        y.size[k] = x.size[k + 1];
    }
    return y;
}

static void insert_index(tg_shape x, int axis, int64_t value, const int64_t *index, int64_t *at)
{
    for (int k = 0; k < x.rank; k++) {
        at[k] = k < axis ? index[k] : k == axis ? value : index[k - 1];
    }
}

/* ---- one axis more or less ---- */

static void draw_unsqueeze(trial *t, layout_options *o, tg_shape x)
{
    o->axis = (int)note_integer(t, "axis", draw_axis(t, x.rank + 1));
}

static bool unsqueeze_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    if (x.rank == TG_MAX_RANK || !is_axis(o->axis, x.rank + 1)) {
        return false;
    }
    int axis = axis_from_front(o->axis, x.rank + 1);
    *y = x;
    y->rank = x.rank + 1;
    for (int k = 0; k < y->rank; k++) {
        y->size[k] = k < axis ? x.size[k] : k == axis ? 1 : x.size[k - 1];
    }
    return true;
}

/* A size of 1 does not change the number of a value. */
static int64_t unsqueeze_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    tg_shape y;
    unsqueeze_shape(o, x, &y);
    return flat_index(y, index);
}

static tg_tensor *call_unsqueeze(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_unsqueeze(tape, x, o->axis);
}

static void draw_squeeze(trial *t, layout_options *o, tg_shape x)
{
    int axis = draw_axis(t, x.rank);
    for (int k = 0; k < x.rank && draw_chance(t, 90); k++) {
        axis = x.size[k] == 1 ? (draw_chance(t, 50) ? k : k - x.rank) : axis;
    }
    o->axis = (int)note_integer(t, "axis", axis);
}

static bool squeeze_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    if (!is_axis(o->axis, x.rank)) {
        return false;
    }
    *y = without_axis(x, axis_from_front(o->axis, x.rank));
    return x.size[axis_from_front(o->axis, x.rank)] == 1;
}

static int64_t squeeze_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    int64_t at[TG_MAX_RANK];
    insert_index(x, axis_from_front(o->axis, x.rank), 0, index, at);
    return flat_index(x, at);
}

static tg_tensor *call_squeeze(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_squeeze(tape, x, o->axis);
}

/* ---- the same shape ---- */

static bool same_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    (void)o;
    *y = x;
    return true;
}

static int64_t same_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    (void)o;
    return flat_index(x, index);
}

static tg_tensor *call_contiguous(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    (void)o;
    return tg_contiguous(tape, x);
}

static tg_tensor *call_detach(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    (void)o;
    return tg_detach(tape, x);
}

static void draw_triangle(trial *t, layout_options *o, tg_shape x)
{
    int64_t size = x.rank >= 2 ? x.size[x.rank - 1] + x.size[x.rank - 2] : 0;
    int64_t diagonal =
        draw_chance(t, 8) ? DRAW_ONE_OF(t, INT64_MIN, INT64_MAX, INT64_MIN + 1) : draw_integer(t, -size, size);
    o->number = note_integer(t, "diagonal", diagonal);
}

static bool triangle_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    (void)o;
    *y = x;
    return x.rank >= 2;
}

static int64_t tril_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    return index[x.rank - 1] - index[x.rank - 2] <= o->number ? flat_index(x, index) : NOTHING;
}

static int64_t triu_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    return index[x.rank - 1] - index[x.rank - 2] >= o->number ? flat_index(x, index) : NOTHING;
}

static tg_tensor *call_tril(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_tril(tape, x, o->number);
}

static tg_tensor *call_triu(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_triu(tape, x, o->number);
}

static const layout slice = {draw_slice, slice_shape, call_slice, slice_source, 1, false, NULL};
static const layout unsqueeze = {draw_unsqueeze, unsqueeze_shape, call_unsqueeze, unsqueeze_source, 0, false, NULL};
static const layout squeeze = {draw_squeeze, squeeze_shape, call_squeeze, squeeze_source, 1, false, NULL};
static const layout contiguous = {NULL, same_shape, call_contiguous, same_source, 0, false, NULL};
static const layout detach = {NULL, same_shape, call_detach, same_source, 0, false, NULL};
static const layout tril = {draw_triangle, triangle_shape, call_tril, tril_source, 2, true, NULL};
static const layout triu = {draw_triangle, triangle_shape, call_triu, triu_source, 2, true, NULL};

static const reference references[] = {
    LAYOUT_REFERENCE("tg_slice", false, &slice),     LAYOUT_REFERENCE("tg_unsqueeze", false, &unsqueeze),
    LAYOUT_REFERENCE("tg_squeeze", false, &squeeze), LAYOUT_REFERENCE("tg_contiguous", false, &contiguous),
    LAYOUT_REFERENCE("tg_detach", true, &detach),    LAYOUT_REFERENCE("tg_tril", false, &tril),
    LAYOUT_REFERENCE("tg_triu", false, &triu),
};

reference_family slices = {"slices", references, sizeof references / sizeof *references, 40000, NULL};
