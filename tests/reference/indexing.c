/* indexing: values of x that ids select along an axis, and sums at ids. */
#include "reference.h"

#include <string.h>

/* The inputs: x and ids, then the source of those that add. */
typedef struct options {
    int axis;
    int64_t classes; /* of one_hot */
    tg_dtype dtype;
} options;

/* The rule of an op: how ids are given, and what happens with them. */
typedef struct index_rule {
    bool has_list;   /* ids (N) select whole slices, else each value has an id of its own */
    bool has_source; /* values of a source are added to x, else the result has values of x */
    tg_tensor *(*call)(tg_tape *tape, input *in, int axis);
} index_rule;

enum { X, IDS, SOURCE };

/* ids in [low,high], of which now and then one, or all, are the same, and seldom one is out of bounds. */
static void draw_ids(trial *t, tg_shape shape, int64_t size)
{
    int64_t low = 0, high = size > 0 ? size - 1 : 0;
    if (draw_chance(t, 30)) {
        low = draw_integer(t, 0, high);
        high = draw_chance(t, 50) ? low : high;
    }
    double *ids = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        ids[i] = (double)draw_integer(t, low, high);
    }
    if (count_of(shape) > 0 && draw_chance(t, 4)) {
        ids[draw_integer(t, 0, count_of(shape) - 1)] =
            (double)DRAW_ONE_OF(t, -1, size, -1 - high, INT32_MAX, INT32_MIN);
    }
    if (draw_chance(t, 98)) {
        draw_layout(t, "ids", TG_I32, shape, ids);
    } else {
        draw_layout(t, "ids", draw_chance(t, 50) ? TG_U8 : t->dtype, TG_SHAPE(2), (double[]){0, 0});
    }
}

static void draw_indexing(trial *t)
{
    const index_rule *op = t->reference->data;
    options *o = OPTIONS(t, options);
    tg_shape x = draw_shape(t, draw_chance(t, 4) ? 0 : 1, TG_MAX_RANK);
    if (draw_chance(t, op->has_source ? 2 : 40)) {
        x = draw_any(t, "x", x)->x.shape;
    } else {
        draw_input(t, "x", x);
    }
    o->axis = (int)note_integer(t, "axis", draw_axis(t, x.rank));
    bool has_axis = x.rank > 0 && is_axis(o->axis, x.rank);
    int axis = has_axis ? axis_from_front(o->axis, x.rank) : 0;
    int64_t size = has_axis ? x.size[axis] : 1, count = draw_chance(t, 12) ? draw_integer(t, 18, 90) : draw_size(t);
    tg_shape ids = x, source = x;
    if (count_of(x) * count > 1500 * (size > 0 ? size : 1)) { /* too many values */
        count = draw_integer(t, 1, 3);
    }
    if (size == 0 && draw_chance(t, 90)) { /* no id is valid */
        count = 0;
    }
    if (op->has_list) {
        ids = TG_SHAPE(count);
        ids.rank = draw_chance(t, 2) ? (int)draw_integer(t, 0, 2) : 1;
        ids.size[1] = 1;
        source.size[axis] = ids.size[0];
    } else {
        for (int k = 0; k < x.rank; k++) {
            ids.size[k] = k == axis ? count : draw_chance(t, 70) ? x.size[k] : draw_integer(t, 0, x.size[k]);
            source.size[k] = ids.size[k] + (draw_chance(t, 30) ? draw_integer(t, 0, 2) : 0);
        }
        if (x.rank > 0 && draw_chance(t, 2)) {
            ids.size[draw_integer(t, 0, x.rank - 1)] += 1;
        } else if (x.rank > 1 && draw_chance(t, 2)) {
            ids.rank--;
        }
    }
    if (x.rank > 0 && draw_chance(t, 3)) {
        source.size[draw_integer(t, 0, x.rank - 1)] = draw_integer(t, 0, 4);
    } else if (x.rank > 1 && draw_chance(t, 2)) {
        source.rank--;
    }
    draw_ids(t, ids, size);
    if (op->has_source) {
        draw_input(t, "source", source);
    }
}

static bool are_ids_inside(const input *ids, int64_t size)
{
    for (int64_t i = 0; i < ids->x.count; i++) {
        if (ids->x.values[i] < 0 || ids->x.values[i] >= (double)size) {
            return false;
        }
    }
    return ids->dtype == TG_I32;
}

static bool is_valid_indexing(const trial *t)
{
    const index_rule *op = t->reference->data;
    const options *o = OPTIONS(t, const options);
    tg_shape x = t->inputs[X].x.shape, ids = t->inputs[IDS].x.shape;
    if ((op->has_source && !is_float(t->inputs[X].dtype)) || !is_axis(o->axis, x.rank) ||
        ids.rank != (op->has_list ? 1 : x.rank)) {
        return false;
    }
    int axis = axis_from_front(o->axis, x.rank);
    tg_shape source = op->has_source ? t->inputs[SOURCE].x.shape : x;
    bool matches = source.rank == x.rank && are_ids_inside(&t->inputs[IDS], x.size[axis]);
    for (int k = 0; k < x.rank && matches; k++) {
        int64_t of_ids = op->has_list ? (k == axis ? ids.size[0] : x.size[k]) : ids.size[k];
        matches = (k == axis || of_ids <= x.size[k]) &&
                  (!op->has_source || (op->has_list ? source.size[k] == of_ids : source.size[k] >= of_ids));
    }
    return matches;
}

static tg_tensor *call_indexing(trial *t)
{
    return ((const index_rule *)t->reference->data)->call(t->tape, t->inputs, OPTIONS(t, options)->axis);
}

/* The sizes of what the ids select: those of the ids, or of x with the number of ids along the axis. */
static tg_shape selected_shape(const trial *t)
{
    const index_rule *op = t->reference->data;
    tg_shape shape = op->has_list ? t->inputs[X].x.shape : t->inputs[IDS].x.shape;
    if (op->has_list) {
        shape.size[axis_from_front(OPTIONS(t, const options)->axis, shape.rank)] = t->inputs[IDS].x.shape.size[0];
    }
    return shape;
}

/* Calls `visit` for each selected index: its number in the selected shape, or in the source, and the number of the
 * value of x that its id names. */
static void for_each_id(trial *t, void (*visit)(trial *t, int64_t selected, int64_t x))
{
    const index_rule *op = t->reference->data;
    tg_shape x = t->inputs[X].x.shape, shape = selected_shape(t);
    int axis = axis_from_front(OPTIONS(t, options)->axis, x.rank);
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; i < count_of(shape); i++) {
        split_index(shape, i, index);
        int64_t in_source = op->has_source ? flat_index(t->inputs[SOURCE].x.shape, index) : i;
        index[axis] = (int64_t)t->inputs[IDS].x.values[op->has_list ? index[axis] : i];
        visit(t, in_source, flat_index(x, index));
    }
}

/* ---- selected values ---- */

static void put_selected(trial *t, int64_t selected, int64_t x)
{
    put(&t->outputs[0].y, selected, t->inputs[X].x.values[x]);
}

static void add_to_selected(trial *t, int64_t selected, int64_t x)
{
    add(&t->inputs[X].dx, x, t->outputs[0].dy.values[selected]);
}

static void selection_forward(trial *t)
{
    output_of_dtype(t, 0, selected_shape(t), t->inputs[X].dtype);
    for_each_id(t, put_selected);
}

static void selection_backward(trial *t)
{
    for_each_id(t, add_to_selected);
}

/* ---- sums ---- */

static void add_source(trial *t, int64_t source, int64_t x)
{
    add(&t->outputs[0].y, x, t->inputs[SOURCE].x.values[source]);
}

static void add_to_source(trial *t, int64_t source, int64_t x)
{
    add(&t->inputs[SOURCE].dx, source, t->outputs[0].dy.values[x]);
}

static void sum_forward(trial *t)
{
    const array *x = &t->inputs[X].x;
    array *y = output_new(t, 0, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        add(y, i, x->values[i]);
    }
    for_each_id(t, add_source);
}

static void sum_backward(trial *t)
{
    for (int64_t i = 0; i < t->outputs[0].dy.count; i++) {
        add(&t->inputs[X].dx, i, t->outputs[0].dy.values[i]);
    }
    for_each_id(t, add_to_source);
}

/* ---- one_hot ---- */

static void draw_one_hot(trial *t)
{
    options *o = OPTIONS(t, options);
    int64_t classes = draw_chance(t, 3)    ? DRAW_ONE_OF(t, 0, -1, INT64_MIN)
                      : draw_chance(t, 15) ? draw_integer(t, 18, 70)
                                           : draw_integer(t, 1, 8);
    o->classes = note_integer(t, "classes", classes);
    o->dtype = (tg_dtype)note_integer(t, "dtype", draw_integer(t, TG_F32, TG_U8));
    draw_ids(t, draw_shape(t, 0, TG_MAX_RANK), classes);
}

static bool is_valid_one_hot(const trial *t)
{
    int64_t classes = OPTIONS(t, const options)->classes;
    return classes >= 1 && t->inputs[0].x.shape.rank < TG_MAX_RANK && are_ids_inside(&t->inputs[0], classes);
}

static tg_tensor *call_one_hot(trial *t)
{
    const options *o = OPTIONS(t, options);
    return tg_one_hot(t->tape, t->inputs[0].tensor, o->classes, o->dtype);
}

static void one_hot_forward(trial *t)
{
    const options *o = OPTIONS(t, options);
    const array *ids = &t->inputs[0].x;
    tg_shape shape = ids->shape;
    shape.size[shape.rank++] = o->classes;
    array *y = output_of_dtype(t, 0, shape, o->dtype);
    for (int64_t i = 0; i < ids->count; i++) {
        put(y, i * o->classes + (int64_t)ids->values[i], 1);
    }
}

static tg_tensor *gather_call(tg_tape *tape, input *in, int axis)
{
    return tg_gather(tape, in[X].tensor, axis, in[IDS].tensor);
}

static tg_tensor *index_select_call(tg_tape *tape, input *in, int axis)
{
    return tg_index_select(tape, in[X].tensor, axis, in[IDS].tensor);
}

static tg_tensor *scatter_add_call(tg_tape *tape, input *in, int axis)
{
    return tg_scatter_add(tape, in[X].tensor, axis, in[IDS].tensor, in[SOURCE].tensor);
}

static tg_tensor *index_add_call(tg_tape *tape, input *in, int axis)
{
    return tg_index_add(tape, in[X].tensor, axis, in[IDS].tensor, in[SOURCE].tensor);
}

static const index_rule gather = {false, false, gather_call}, index_select = {true, false, index_select_call},
                        scatter_add = {false, true, scatter_add_call}, index_add = {true, true, index_add_call};

#define SELECTION(of_op)                                                                                        \
    {                                                                                                           \
        .op = "tg_" #of_op, .draw = draw_indexing, .is_valid = is_valid_indexing, .call = call_indexing,        \
        .forward = selection_forward, .backward = selection_backward, .roundings = 0, .gradient_roundings = 40, \
        .data = &of_op,                                                                                         \
    }
#define SUM(of_op)                                                                                                  \
    {                                                                                                               \
        .op = "tg_" #of_op, .draw = draw_indexing, .is_valid = is_valid_indexing, .call = call_indexing,            \
        .forward = sum_forward, .backward = sum_backward, .roundings = 40, .gradient_roundings = 8, .data = &of_op, \
    }

static const reference references[] = {
    SELECTION(gather),
    SELECTION(index_select),
    SUM(scatter_add),
    SUM(index_add),
    {
        .op = "tg_one_hot",
        .draw = draw_one_hot,
        .is_valid = is_valid_one_hot,
        .call = call_one_hot,
        .forward = one_hot_forward,
        .has_no_gradient = true,
    },
};

reference_family indexing = {"indexing", references, sizeof references / sizeof *references, 25000, NULL};
