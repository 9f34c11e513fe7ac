/* joins: tensors along an axis (cat, stack), parts of one (split), and other dtypes (cast). */
#include "reference.h"

#include <string.h>

enum { MOST_TENSORS = 6 };

typedef struct options {
    int axis, count;
    int64_t size, capacity;
    tg_dtype dtype;
} options;

static bool is_stack(const trial *t)
{
    return strcmp(t->reference->op, "tg_stack") == 0;
}

/* ---- cat and stack ---- */

/* Floats, or now and then another dtype than that of most. */
static void draw_joined(trial *t, tg_dtype dtype, tg_shape shape)
{
    dtype = draw_chance(t, 1) ? (tg_dtype)draw_integer(t, TG_F32, TG_U8) : dtype;
    if (dtype == TG_I32 || dtype == TG_U8) {
        draw_integers(t, "tensor", dtype, shape, dtype == TG_U8 ? 0 : -5, 5);
    } else {
        draw_input(t, "tensor", shape);
    }
}

static void draw_join(trial *t)
{
    options *o = OPTIONS(t, options);
    tg_shape shape = draw_shape(t, is_stack(t) || draw_chance(t, 2) ? 0 : 1, TG_MAX_RANK);
    tg_dtype dtype = draw_chance(t, 70) ? t->dtype : draw_chance(t, 50) ? TG_I32 : TG_U8;
    o->axis = (int)note_integer(t, "axis", draw_axis(t, shape.rank + is_stack(t)));
    o->count = draw_chance(t, 25) ? 1 : (int)draw_integer(t, 2, MOST_TENSORS);
    for (int k = 0; k < o->count; k++) {
        tg_shape other = shape;
        if (!is_stack(t) && is_axis(o->axis, shape.rank)) {
            int axis = axis_from_front(o->axis, shape.rank);
            other.size[axis] = draw_chance(t, 50) ? other.size[axis] : draw_integer(t, 0, 4);
        }
        if (shape.rank > 0 && draw_chance(t, 1)) {
            other.size[draw_integer(t, 0, shape.rank - 1)] = draw_integer(t, 0, 3);
        } else if (shape.rank > 1 && draw_chance(t, 1)) {
            other.rank--;
        }
        draw_joined(t, dtype, other);
    }
    if (draw_chance(t, 2)) {
        o->count = (int)note_integer(t, "count", DRAW_ONE_OF(t, 0, -1, INT32_MIN));
    }
}

static bool is_valid_join(const trial *t)
{
    const options *o = OPTIONS(t, const options);
    const input *first = &t->inputs[0];
    int rank = first->x.shape.rank;
    if (o->count < 1 || !is_axis(o->axis, rank + is_stack(t)) || (is_stack(t) && rank == TG_MAX_RANK)) {
        return false;
    }
    int axis = axis_from_front(o->axis, rank + is_stack(t));
    for (int k = 1; k < o->count; k++) {
        const input *in = &t->inputs[k];
        tg_shape shape = in->x.shape;
        if (!is_stack(t) && shape.rank == rank) {
            shape.size[axis] = first->x.shape.size[axis];
        }
        if (in->dtype != first->dtype || !tg_shape_equal(shape, first->x.shape)) {
            return false;
        }
    }
    return true;
}

static tg_tensor *call_join(trial *t)
{
    const options *o = OPTIONS(t, options);
    tg_tensor *tensors[MOST_TENSORS];
    for (int k = 0; k < t->input_count; k++) {
        tensors[k] = t->inputs[k].tensor;
    }
    return (is_stack(t) ? tg_stack : tg_cat)(t->tape, tensors, o->count, o->axis);
}

static tg_shape joined_shape(const trial *t)
{
    const options *o = OPTIONS(t, const options);
    tg_shape x = t->inputs[0].x.shape, shape = x;
    int axis = axis_from_front(o->axis, x.rank + is_stack(t));
    shape.rank = x.rank + is_stack(t);
    for (int k = axis; k < x.rank && is_stack(t); k++) {
        shape.size[k + 1] = x.size[k];
    }
    shape.size[axis] = is_stack(t) ? o->count : 0;
    for (int k = 0; k < o->count && !is_stack(t); k++) {
        shape.size[axis] += t->inputs[k].x.shape.size[axis];
    }
    return shape;
}

/* The number in the result of value i of tensor k, where `before` values of the axis belong to those before. */
static int64_t joined_number(const trial *t, int k, int64_t before, int64_t i)
{
    tg_shape x = t->inputs[k].x.shape, y = joined_shape(t);
    int axis = axis_from_front(OPTIONS(t, const options)->axis, y.rank);
    int64_t at[TG_MAX_RANK], index[TG_MAX_RANK] = {0};
    split_index(x, i, at);
    for (int to = 0; to < y.rank; to++) {
        int from = is_stack(t) && to > axis ? to - 1 : to;
        index[to] = is_stack(t) && to == axis ? k : at[from] + (to == axis ? before : 0);
    }
    return flat_index(y, index);
}

static void for_each_joined(trial *t, void (*visit)(trial *t, int k, int64_t x, int64_t y))
{
    const options *o = OPTIONS(t, options);
    int64_t before = 0;
    for (int k = 0; k < o->count; k++) {
        const array *x = &t->inputs[k].x;
        for (int64_t i = 0; i < x->count; i++) {
            visit(t, k, i, joined_number(t, k, before, i));
        }
        before += is_stack(t) ? 1 : x->shape.size[axis_from_front(o->axis, x->shape.rank)];
    }
}

static void put_joined(trial *t, int k, int64_t x, int64_t y)
{
    put(&t->outputs[0].y, y, t->inputs[k].x.values[x]);
}

static void add_gradient_of_joined(trial *t, int k, int64_t x, int64_t y)
{
    add(&t->inputs[k].dx, x, t->outputs[0].dy.values[y]);
}

static void join_forward(trial *t)
{
    output_of_dtype(t, 0, joined_shape(t), t->inputs[0].dtype);
    for_each_joined(t, put_joined);
}

static void join_backward(trial *t)
{
    for_each_joined(t, add_gradient_of_joined);
}

/* ---- split ---- */

static int64_t size_along(const trial *t)
{
    tg_shape x = t->inputs[0].x.shape;
    return x.size[axis_from_front(OPTIONS(t, const options)->axis, x.rank)];
}

/* The number of parts. An axis of size 0 is one part. */
static int64_t part_count(const trial *t)
{
    int64_t length = size_along(t), size = OPTIONS(t, const options)->size;
    return length == 0 ? 1 : (length - 1) / size + 1;
}

static void draw_split(trial *t)
{
    options *o = OPTIONS(t, options);
    tg_shape shape = draw_any(t, "x", draw_shape(t, draw_chance(t, 3) ? 0 : 1, TG_MAX_RANK))->x.shape;
    o->axis = (int)note_integer(t, "axis", draw_axis(t, shape.rank));
    int64_t length = is_axis(o->axis, shape.rank) ? size_along(t) : 1;
    int64_t smallest = length / MAX_OUTPUTS + 1; /* that gives no more than MAX_OUTPUTS parts */
    int64_t size =
        draw_chance(t, 6) ? DRAW_ONE_OF(t, 0, -1, INT64_MAX, INT64_MIN) : draw_integer(t, smallest, length + 2);
    o->size = note_integer(t, "size", size);
    int64_t parts = is_axis(o->axis, shape.rank) && size >= 1 ? part_count(t) : 1;
    o->capacity = note_integer(t, "capacity",
                               draw_chance(t, 8)    ? DRAW_ONE_OF(t, parts - 1, 0, -1)
                               : draw_chance(t, 40) ? MAX_OUTPUTS
                                                    : parts);
}

static bool is_valid_split(const trial *t)
{
    const options *o = OPTIONS(t, const options);
    return is_axis(o->axis, t->inputs[0].x.shape.rank) && o->size >= 1 && o->capacity >= part_count(t);
}

static tg_tensor *call_split(trial *t)
{
    const options *o = OPTIONS(t, options);
    tg_tensor *parts[MAX_OUTPUTS] = {NULL};
    int64_t count = tg_split(t->tape, t->inputs[0].tensor, o->size, o->axis, parts, o->capacity);
    for (int64_t k = 0; k < count; k++) {
        t->outputs[k].result = parts[k];
    }
    if (count > 0 && count != part_count(t)) {
        trial_fail(t, "%lld parts, expected %lld", (long long)count, (long long)part_count(t));
    }
    return parts[0];
}

/* The number of the value of x that part k has at its number i. */
static int64_t number_of_part(const trial *t, int64_t k, tg_shape part, int64_t i)
{
    const options *o = OPTIONS(t, const options);
    tg_shape x = t->inputs[0].x.shape;
    int64_t index[TG_MAX_RANK];
    split_index(part, i, index);
    index[axis_from_front(o->axis, x.rank)] += k * o->size;
    return flat_index(x, index);
}

static void split_forward(trial *t)
{
    const options *o = OPTIONS(t, options);
    const input *x = &t->inputs[0];
    int64_t count = part_count(t);
    for (int64_t k = 0; k < count; k++) {
        tg_shape part = x->x.shape;
        int64_t rest = size_along(t) - (k == 0 ? 0 : k * o->size);
        part.size[axis_from_front(o->axis, part.rank)] = rest < o->size ? rest : o->size;
        array *y = output_of_dtype(t, (int)k, part, x->dtype);
        for (int64_t i = 0; i < y->count; i++) {
            put(y, i, x->x.values[number_of_part(t, k, part, i)]);
        }
    }
}

static void split_backward(trial *t)
{
    for (int k = 0; k < t->output_count; k++) {
        const array *dy = &t->outputs[k].dy;
        for (int64_t i = 0; i < dy->count; i++) {
            add(&t->inputs[0].dx, number_of_part(t, k, dy->shape, i), dy->values[i]);
        }
    }
}

/* ---- cast ---- */

/* Floats beyond the integers' range have no conversion that C defines, so those are drawn within it. */
static void draw_cast(trial *t)
{
    options *o = OPTIONS(t, options);
    o->dtype = (tg_dtype)note_integer(t, "dtype", draw_integer(t, TG_F32, TG_U8));
    tg_shape shape = draw_shape(t, 0, TG_MAX_RANK);
    switch (draw_integer(t, 0, 3)) {
    case 0:
        draw_integers(t, "x", TG_I32, shape, o->dtype == TG_U8 ? 0 : -100, o->dtype == TG_U8 ? 255 : 1 << 30);
        break;
    case 1: draw_integers(t, "x", TG_U8, shape, 0, 255); break;
    default:
        if (o->dtype == TG_I32 || o->dtype == TG_U8) {
            draw_input_within(t, "x", shape, o->dtype == TG_U8 ? 0 : -1000, 250);
        } else {
            draw_input(t, "x", shape);
        }
    }
}

static tg_tensor *call_cast(trial *t)
{
    return tg_cast(t->tape, t->inputs[0].tensor, OPTIONS(t, options)->dtype);
}

static void cast_forward(trial *t)
{
    tg_dtype dtype = OPTIONS(t, options)->dtype;
    const array *x = &t->inputs[0].x;
    array *y = output_of_dtype(t, 0, x->shape, dtype);
    for (int64_t i = 0; i < x->count; i++) {
        put(y, i, converted(dtype, x->values[i]));
    }
}

static void cast_backward(trial *t)
{
    for (int64_t i = 0; i < t->outputs[0].dy.count; i++) {
        add(&t->inputs[0].dx, i, t->outputs[0].dy.values[i]);
    }
}

#define JOIN(name)                                                                                            \
    {                                                                                                         \
        .op = name, .draw = draw_join, .is_valid = is_valid_join, .call = call_join, .forward = join_forward, \
        .backward = join_backward, .roundings = 0, .gradient_roundings = 8, .may_mix_dtypes = true,           \
    }

static const reference references[] = {
    JOIN("tg_cat"),
    JOIN("tg_stack"),
    {
        .op = "tg_split",
        .draw = draw_split,
        .is_valid = is_valid_split,
        .call = call_split,
        .forward = split_forward,
        .backward = split_backward,
        .roundings = 0,
        .gradient_roundings = 8,
    },
    {
        .op = "tg_cast",
        .draw = draw_cast,
        .call = call_cast,
        .forward = cast_forward,
        .backward = cast_backward,
        .roundings = 0,
        .gradient_roundings = 8,
    },
};

reference_family joins = {"joins", references, sizeof references / sizeof *references, 20000, NULL};
