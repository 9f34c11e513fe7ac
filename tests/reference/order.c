/* order: ops along one axis: the index of an extreme value, sorted values, running sums. */
#include "reference.h"

#include <string.h>

typedef struct options {
    int axis;
    tg_keep_axes keep;
    tg_order order;
    int64_t k;
    bool has_indices; /* whether the optional result is asked for */
} options;

static bool is_op(const trial *t, const char *op)
{
    return strcmp(t->reference->op, op) == 0;
}

static int64_t length_of_lines(tg_shape shape, int axis)
{
    return shape.rank > 0 && is_axis(axis, shape.rank) ? shape.size[axis_from_front(axis, shape.rank)] : 1;
}

static const line *lines_of(trial *t, int64_t *count)
{
    return lines_along_axis(t, t->inputs[0].x.shape, OPTIONS(t, options)->axis, count);
}

/* ---- argmax and argmin ---- */

static void draw_argument(trial *t)
{
    options *o = OPTIONS(t, options);
    input *x = draw_any(t, "x", draw_shape(t, draw_chance(t, 2) ? 0 : 1, TG_MAX_RANK));
    o->axis = (int)note_integer(t, "axis", draw_axis(t, x->x.shape.rank));
    o->keep = note_bool(t, "keep", draw_chance(t, 50)) ? TG_KEEP_AXES : TG_DROP_AXES;
}

static bool is_valid_argument(const trial *t)
{
    tg_shape shape = t->inputs[0].x.shape;
    int axis = OPTIONS(t, const options)->axis;
    return is_axis_of_lines(axis, shape.rank) && length_of_lines(shape, axis) > 0;
}

static tg_tensor *call_argument(trial *t)
{
    const options *o = OPTIONS(t, options);
    return (is_op(t, "tg_argmax") ? tg_argmax : tg_argmin)(t->tape, t->inputs[0].tensor, o->axis, o->keep);
}

/* Whether a comes before b: the larger, or the smaller. A NaN comes before all numbers. */
static bool comes_first(bool is_largest, double a, double b)
{
    return isnan(a) ? !isnan(b) : is_largest ? a > b : a < b;
}

static void argument_forward(trial *t)
{
    const options *o = OPTIONS(t, options);
    const array *x = &t->inputs[0].x;
    int axis = axis_from_front(o->axis, x->shape.rank);
    tg_shape shape = TG_SCALAR;
    for (int k = 0; k < x->shape.rank; k++) {
        if (k != axis || o->keep == TG_KEEP_AXES) {
            shape.size[shape.rank++] = k == axis ? 1 : x->shape.size[k];
        }
    }
    array *y = output_of_dtype(t, 0, shape, TG_I32);
    int64_t count;
    const line *lines = lines_of(t, &count);
    for (int64_t i = 0; i < count; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < lines[i].count; k++) {
            bool is_better =
                comes_first(is_op(t, "tg_argmax"), x->values[lines[i].at[k]], x->values[lines[i].at[best]]);
            best = is_better ? k : best;
        }
        put(y, i, (double)best);
    }
}

/* ---- sort and topk ---- */

static void draw_sort(trial *t)
{
    options *o = OPTIONS(t, options);
    tg_shape shape = draw_shape(t, draw_chance(t, 2) ? 0 : 1, TG_MAX_RANK);
    shape = (draw_chance(t, 3) ? draw_any : draw_input)(t, "x", shape)->x.shape;
    o->axis = (int)note_integer(t, "axis", draw_axis(t, shape.rank));
    o->order = note_bool(t, "smallest first", draw_chance(t, 50)) ? TG_SMALLEST_FIRST : TG_LARGEST_FIRST;
    o->has_indices = note_bool(t, "has_indices", draw_chance(t, 70));
    int64_t size = length_of_lines(shape, o->axis);
    o->k = size;
    if (is_op(t, "tg_topk")) {
        bool is_outside = draw_chance(t, 4);
        o->k = note_integer(t, "k",
                            is_outside ? DRAW_ONE_OF(t, -1, size + 1, INT64_MAX, INT64_MIN) : draw_integer(t, 0, size));
    }
}

static bool is_valid_sort(const trial *t)
{
    const options *o = OPTIONS(t, const options);
    tg_shape shape = t->inputs[0].x.shape;
    return is_float(t->inputs[0].dtype) && is_axis_of_lines(o->axis, shape.rank) && o->k >= 0 &&
           o->k <= length_of_lines(shape, o->axis);
}

static tg_tensor *call_sort(trial *t)
{
    const options *o = OPTIONS(t, options);
    tg_tensor **indices = o->has_indices ? &t->outputs[1].result : NULL;
    return is_op(t, "tg_topk") ? tg_topk(t->tape, t->inputs[0].tensor, o->k, o->axis, o->order, indices)
                               : tg_sort(t->tape, t->inputs[0].tensor, o->axis, o->order, indices);
}

/* Writes the positions on a line in the order of their values: NaN is the largest, and ties stay in their order. */
static void sort_line(const trial *t, const line *l, int64_t *positions)
{
    const double *x = t->inputs[0].x.values;
    bool is_largest = OPTIONS(t, const options)->order == TG_LARGEST_FIRST;
    for (int64_t k = 0; k < l->count; k++) {
        int64_t at = k;
        for (; at > 0; at--) {
            double a = x[l->at[k]], b = x[l->at[positions[at - 1]]];
            bool is_before = is_largest ? comes_first(true, a, b) : isnan(b) ? !isnan(a) : a < b;
            if (!is_before) {
                break;
            }
            positions[at] = positions[at - 1];
        }
        positions[at] = k;
    }
}

/* The first values of a line that the result has. As in torch, the only value of a scalar even for k = 0. */
static int64_t kept_values(const trial *t)
{
    return t->inputs[0].x.shape.rank > 0 ? OPTIONS(t, const options)->k : 1;
}

/* Calls `visit` for each result: its number, that of its value in x, and its position on the line. */
static void for_each_sorted(trial *t, void (*visit)(trial *t, int64_t y, int64_t x, int64_t position))
{
    const options *o = OPTIONS(t, options);
    tg_shape shape = t->inputs[0].x.shape;
    int axis = shape.rank > 0 ? axis_from_front(o->axis, shape.rank) : 0;
    int64_t count, index[TG_MAX_RANK];
    const line *lines = lines_of(t, &count);
    tg_shape result = shape;
    result.size[axis] = kept_values(t);
    for (int64_t i = 0; i < count; i++) {
        int64_t *positions = trial_memory(t, (size_t)lines[i].count * sizeof *positions);
        sort_line(t, &lines[i], positions);
        for (int64_t k = 0; k < kept_values(t); k++) {
            split_index(shape, lines[i].at[0], index);
            index[axis] = k;
            visit(t, flat_index(result, index), lines[i].at[positions[k]], positions[k]);
        }
    }
}

static void put_sorted(trial *t, int64_t y, int64_t x, int64_t position)
{
    put(&t->outputs[0].y, y, t->inputs[0].x.values[x]);
    if (OPTIONS(t, options)->has_indices) {
        put(&t->outputs[1].y, y, (double)position);
    }
}

static void add_gradient_of_sorted(trial *t, int64_t y, int64_t x, int64_t position)
{
    (void)position;
    add(&t->inputs[0].dx, x, t->outputs[0].dy.values[y]);
}

static void sort_forward(trial *t)
{
    const options *o = OPTIONS(t, options);
    tg_shape shape = t->inputs[0].x.shape;
    shape.size[shape.rank > 0 ? axis_from_front(o->axis, shape.rank) : 0] = kept_values(t);
    output_new(t, 0, shape);
    if (o->has_indices) {
        output_of_dtype(t, 1, shape, TG_I32);
    }
    for_each_sorted(t, put_sorted);
}

static void sort_backward(trial *t)
{
    for_each_sorted(t, add_gradient_of_sorted);
}

/* ---- cumsum ---- */

static void draw_cumsum(trial *t)
{
    tg_shape shape = draw_shape(t, draw_chance(t, 2) ? 0 : 1, TG_MAX_RANK);
    shape = (draw_chance(t, 3) ? draw_any : draw_input)(t, "x", shape)->x.shape;
    OPTIONS(t, options)->axis = (int)note_integer(t, "axis", draw_axis(t, shape.rank));
}

static bool is_valid_cumsum(const trial *t)
{
    return is_float(t->inputs[0].dtype) && is_axis_of_lines(OPTIONS(t, const options)->axis, t->inputs[0].x.shape.rank);
}

static tg_tensor *call_cumsum(trial *t)
{
    return tg_cumsum(t->tape, t->inputs[0].tensor, OPTIONS(t, options)->axis);
}

/* A sum in double is exact for f32, except for the rounding of the result. */
static void put_sum(const trial *t, array *y, int64_t i, double sum, double terms)
{
    add_terms(y, i, sum, t->dtype == TG_F32 ? fabs(sum) + 1e-8 * terms : terms);
}

static void cumsum_forward(trial *t)
{
    const array *x = &t->inputs[0].x;
    array *y = output_new(t, 0, x->shape);
    int64_t count;
    const line *lines = lines_of(t, &count);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0, terms = 0;
        for (int64_t k = 0; k < lines[i].count; k++) {
            double value = x->values[lines[i].at[k]];
            sum += value;
            terms += isfinite(value) ? fabs(value) : 0;
            put_sum(t, y, lines[i].at[k], sum, terms);
        }
    }
}

static void cumsum_backward(trial *t)
{
    const array *dy = &t->outputs[0].dy;
    int64_t count;
    const line *lines = lines_of(t, &count);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0, terms = 0;
        for (int64_t k = lines[i].count - 1; k >= 0; k--) {
            sum += dy->values[lines[i].at[k]];
            terms += fabs(dy->values[lines[i].at[k]]);
            put_sum(t, &t->inputs[0].dx, lines[i].at[k], sum, terms);
        }
    }
}

#define ARGUMENT(name)                                                                           \
    {                                                                                            \
        .op = name, .draw = draw_argument, .is_valid = is_valid_argument, .call = call_argument, \
        .forward = argument_forward, .has_no_gradient = true,                                    \
    }
#define SORT(name)                                                                                            \
    {                                                                                                         \
        .op = name, .draw = draw_sort, .is_valid = is_valid_sort, .call = call_sort, .forward = sort_forward, \
        .backward = sort_backward, .roundings = 0, .gradient_roundings = 4,                                   \
    }

static const reference references[] = {
    ARGUMENT("tg_argmax"),
    ARGUMENT("tg_argmin"),
    SORT("tg_sort"),
    SORT("tg_topk"),
    {
        .op = "tg_cumsum",
        .draw = draw_cumsum,
        .is_valid = is_valid_cumsum,
        .call = call_cumsum,
        .forward = cumsum_forward,
        .backward = cumsum_backward,
        .roundings = 2,
        .gradient_roundings = 4,
    },
};

reference_family order = {"order", references, sizeof references / sizeof *references, 30000, NULL};
