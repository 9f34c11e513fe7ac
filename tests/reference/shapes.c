/* shapes: all values of a tensor in another shape or order, of any dtype. */
#include "layout.h"

#include <string.h>

static void note_shape(trial *t, const char *name, tg_shape shape)
{
    note(t, "    %s =", name);
    for (int axis = 0; axis < shape.rank && axis < TG_MAX_RANK; axis++) {
        note(t, " %lld", (long long)shape.size[axis]);
    }
    note(t, " (rank %d)\n", shape.rank);
}

/* ---- reshape ---- */

static void draw_reshape(trial *t, layout_options *o, tg_shape x)
{
    tg_shape *shape = &o->shape;
    int64_t rest = count_of(x);
    *shape = TG_SCALAR;
    shape->rank = (int)draw_integer(t, rest == 1 ? 0 : 1, draw_chance(t, 10) ? TG_MAX_RANK : 4);
    for (int axis = 0; axis < shape->rank - 1; axis++) { /* divisors of the count, and the rest at the end */
        int64_t size = draw_integer(t, rest == 0 ? 0 : 1, 6);
        shape->size[axis] = rest == 0 || rest % size == 0 ? size : 1;
        rest = rest == 0 ? 0 : rest / shape->size[axis];
    }
    if (shape->rank > 0) {
        shape->size[shape->rank - 1] = rest;
    }
    for (int axis = 1; axis < shape->rank; axis++) {
        int other = (int)draw_integer(t, 0, axis);
        int64_t size = shape->size[axis];
        shape->size[axis] = shape->size[other];
        shape->size[other] = size;
    }
    if (shape->rank > 0 && draw_chance(t, 50)) {
        shape->size[draw_integer(t, 0, shape->rank - 1)] = -1;
    }
    if (shape->rank > 0 && draw_chance(t, 5)) {
        shape->size[draw_integer(t, 0, shape->rank - 1)] =
            DRAW_ONE_OF(t, -1, -2, 0, 2, 7, count_of(x) == 0 ? -2 : INT64_MAX, INT64_MIN);
    } else if (draw_chance(t, 1)) {
        shape->rank = (int)DRAW_ONE_OF(t, -1, TG_MAX_RANK + 1, INT32_MAX);
    }
    note_shape(t, "shape", *shape);
}

static bool reshape_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    *y = o->shape;
    if (y->rank < 0 || y->rank > TG_MAX_RANK) {
        return false;
    }
    int unknown = -1;
    long double known = 1, count = (long double)count_of(x);
    for (int axis = 0; axis < y->rank; axis++) {
        if (y->size[axis] == -1 && unknown < 0) {
            unknown = axis;
        } else if (y->size[axis] < 0) {
            return false;
        } else {
            known *= (long double)y->size[axis];
        }
    }
    if (unknown < 0) {
        return known == count;
    }
    if (known == 0 || fmodl(count, known) != 0) {
        return false;
    }
    y->size[unknown] = (int64_t)(count / known);
    return true;
}

static int64_t reshape_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    tg_shape y;
    reshape_shape(o, x, &y);
    return flat_index(y, index);
}

static tg_tensor *call_reshape(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_reshape(tape, x, o->shape);
}

/* ---- repeat and expand ---- */

/* A rank from x's on. */
static int draw_larger_rank(trial *t, tg_shape x)
{
    return x.rank + (x.rank < TG_MAX_RANK && draw_chance(t, 45) ? (int)draw_integer(t, 1, x.rank < 5 ? 3 : 1) : 0);
}

/* The size of x that belongs to an axis of a result of this rank. New axes are in front, with size 1. */
static int64_t size_behind(tg_shape x, int rank, int axis)
{
    return axis < rank - x.rank ? 1 : x.size[axis - (rank - x.rank)];
}

static void draw_repeat(trial *t, layout_options *o, tg_shape x)
{
    o->shape = TG_SCALAR;
    o->shape.rank = draw_larger_rank(t, x);
    for (int axis = 0; axis < o->shape.rank; axis++) {
        o->shape.size[axis] = draw_chance(t, 4) ? 0 : draw_chance(t, 40) ? draw_integer(t, 2, 3) : 1;
    }
    bool is_empty = count_of(x) == 0 || count_of(o->shape) == 0; /* of an empty result any count is right */
    if (o->shape.rank > 0 && draw_chance(t, 3)) {
        o->shape.size[draw_integer(t, 0, o->shape.rank - 1)] = DRAW_ONE_OF(t, -1, INT64_MIN, is_empty ? -2 : INT64_MAX);
    } else if (draw_chance(t, 3)) {
        o->shape.rank = (int)DRAW_ONE_OF(t, x.rank - 1, TG_MAX_RANK + 1, -1);
    }
    note_shape(t, "times", o->shape);
}

/* A result of more than 10^15 values is refused. */
static bool repeat_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    *y = o->shape;
    if (y->rank < x.rank || y->rank > TG_MAX_RANK) {
        return false;
    }
    long double count = 1;
    bool fits = true;
    for (int axis = 0; axis < y->rank; axis++) {
        long double size = (long double)o->shape.size[axis] * (long double)size_behind(x, y->rank, axis);
        fits = fits && o->shape.size[axis] >= 0 && size < 1e15L;
        y->size[axis] = fits ? (int64_t)size : 0;
        count *= size;
    }
    return fits && count < 1e15L;
}

/* The index modulo the sizes of x. */
static int64_t repeat_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    int64_t at[TG_MAX_RANK];
    for (int axis = 0; axis < x.rank; axis++) {
        at[axis] = index[axis + o->shape.rank - x.rank] % x.size[axis];
    }
    return flat_index(x, at);
}

static tg_tensor *call_repeat(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_repeat(tape, x, o->shape);
}

static void draw_expand(trial *t, layout_options *o, tg_shape x)
{
    o->shape = TG_SCALAR;
    o->shape.rank = draw_larger_rank(t, x);
    for (int axis = 0; axis < o->shape.rank; axis++) {
        bool is_new = axis < o->shape.rank - x.rank;
        int64_t size = size_behind(x, o->shape.rank, axis);
        if (size == 1 && draw_chance(t, 70)) {
            size = draw_integer(t, draw_chance(t, 10) ? 0 : 1, 4);
        } else if (!is_new && draw_chance(t, 40)) {
            size = -1;
        }
        o->shape.size[axis] = size;
    }
    if (o->shape.rank > 0 && draw_chance(t, 4)) {
        o->shape.size[draw_integer(t, 0, o->shape.rank - 1)] = DRAW_ONE_OF(t, -1, -2, INT64_MIN, 0, 1, 2);
    } else if (draw_chance(t, 2)) {
        o->shape.rank = (int)DRAW_ONE_OF(t, x.rank - 1, TG_MAX_RANK + 1, -1);
    }
    note_shape(t, "shape", o->shape);
}

static bool expand_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    *y = o->shape;
    if (y->rank < x.rank || y->rank > TG_MAX_RANK) {
        return false;
    }
    for (int axis = 0; axis < y->rank; axis++) {
        int64_t size = size_behind(x, y->rank, axis);
        if (y->size[axis] == -1 && axis >= y->rank - x.rank) {
            y->size[axis] = size;
        } else if (y->size[axis] < 0 || (size != 1 && size != y->size[axis])) {
            return false;
        }
    }
    return true;
}

static int64_t expand_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    return broadcast_index(x, o->shape.rank, index);
}

static tg_tensor *call_expand(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_expand(tape, x, o->shape);
}

/* ---- permute and flip ---- */

static void draw_permute(trial *t, layout_options *o, tg_shape x)
{
    o->axes = (tg_axes){x.rank, {0}};
    for (int k = 0; k < x.rank; k++) {
        int other = (int)draw_integer(t, 0, k);
        o->axes.axis[k] = o->axes.axis[other];
        o->axes.axis[other] = k;
    }
    for (int k = 0; k < x.rank; k++) {
        o->axes.axis[k] -= draw_chance(t, 40) ? x.rank : 0;
    }
    if (x.rank > 0 && draw_chance(t, 4)) {
        o->axes.axis[draw_integer(t, 0, x.rank - 1)] = draw_axis(t, x.rank);
    } else if (x.rank > 1 && draw_chance(t, 2)) {
        o->axes.count = (int)DRAW_ONE_OF(t, x.rank - 1, x.rank + 1, TG_MAX_RANK + 1, INT32_MAX);
    }
    note(t, "    axes = %d:", o->axes.count);
    for (int k = 0; k < o->axes.count && k < TG_MAX_RANK; k++) {
        note(t, " %d", o->axes.axis[k]);
    }
    note(t, "\n");
}

static bool permute_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    bool is_along[TG_MAX_RANK];
    *y = x;
    if (o->axes.count != x.rank || (x.rank > 0 && !axes_along(o->axes, x.rank, is_along))) {
        return false;
    }
    for (int axis = 0; axis < x.rank; axis++) {
        y->size[axis] = x.size[axis_from_front(o->axes.axis[axis], x.rank)];
    }
    return true;
}

static int64_t permute_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    int64_t at[TG_MAX_RANK];
    for (int axis = 0; axis < x.rank; axis++) {
        at[axis_from_front(o->axes.axis[axis], x.rank)] = index[axis];
    }
    return flat_index(x, at);
}

static tg_tensor *call_permute(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_permute(tape, x, o->axes);
}

static void draw_flip(trial *t, layout_options *o, tg_shape x)
{
    o->axes = draw_axes(t, x.rank);
}

static bool flip_shape(const layout_options *o, tg_shape x, tg_shape *y)
{
    bool is_along[TG_MAX_RANK];
    *y = x;
    return axes_along(o->axes, x.rank, is_along);
}

static int64_t flip_source(const layout_options *o, tg_shape x, const int64_t *index)
{
    bool is_along[TG_MAX_RANK];
    int64_t at[TG_MAX_RANK];
    axes_along(o->axes, x.rank, is_along);
    for (int axis = 0; axis < x.rank; axis++) {
        at[axis] = is_along[axis] ? x.size[axis] - 1 - index[axis] : index[axis];
    }
    return flat_index(x, at);
}

static tg_tensor *call_flip(tg_tape *tape, tg_tensor *x, const layout_options *o)
{
    return tg_flip(tape, x, o->axes);
}

static const layout reshape = {draw_reshape, reshape_shape, call_reshape, reshape_source, 0, false, NULL};
static const layout repeat = {draw_repeat, repeat_shape, call_repeat, repeat_source, 0, false, NULL};
static const layout expand = {draw_expand, expand_shape, call_expand, expand_source, 0, false, NULL};
static const layout permute = {draw_permute, permute_shape, call_permute, permute_source, 0, false, NULL};
static const layout flip = {draw_flip, flip_shape, call_flip, flip_source, 0, false, NULL};

static const reference references[] = {
    LAYOUT_REFERENCE("tg_reshape", false, &reshape), LAYOUT_REFERENCE("tg_repeat", false, &repeat),
    LAYOUT_REFERENCE("tg_expand", false, &expand),   LAYOUT_REFERENCE("tg_permute", false, &permute),
    LAYOUT_REFERENCE("tg_flip", false, &flip),
};

reference_family shapes = {"shapes", references, sizeof references / sizeof *references, 30000, NULL};
