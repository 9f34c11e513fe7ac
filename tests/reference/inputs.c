/* inputs: tensors with random values, in random layouts. */
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- layouts ---- */

/* Value i of axis a of a view is value begin + i * step of axis `from` of the leaf, or value 0 if the axis is
 * expanded. */
typedef struct axis_view {
    int64_t leaf_size, begin, step;
    bool is_expanded;
    int from;
} axis_view;

static void *positions_of(trial *t, tg_shape shape, const axis_view *views, tg_shape leaf)
{
    int64_t count = count_of(shape);
    int64_t *positions = trial_memory(t, (size_t)(count + 1) * sizeof *positions);
    int64_t index[TG_MAX_RANK], at[TG_MAX_RANK];
    for (int64_t i = 0; i < count; i++) {
        split_index(shape, i, index);
        for (int axis = 0; axis < shape.rank; axis++) {
            const axis_view *view = &views[axis];
            at[view->from] = view->is_expanded ? 0 : view->begin + index[axis] * view->step;
        }
        positions[i] = flat_index(leaf, at);
    }
    return positions;
}

/* Draws the view of each axis and the order of the axes in the leaf. */
static void draw_views(trial *t, tg_shape shape, bool may_expand, axis_view *views)
{
    bool is_sliced = draw_chance(t, 40), is_permuted = draw_chance(t, 40),
         is_expanded = may_expand && draw_chance(t, 15);
    for (int axis = 0; axis < shape.rank; axis++) {
        int64_t size = shape.size[axis];
        views[axis] = (axis_view){size, 0, 1, false, axis};
        if (is_expanded && draw_chance(t, 50)) {
            views[axis] = (axis_view){1, 0, 0, true, axis};
        } else if (is_sliced && draw_chance(t, 60)) {
            int64_t begin = draw_integer(t, 0, 2), step = draw_integer(t, 1, 3), behind = draw_integer(t, 0, 2);
            views[axis].leaf_size = begin + size * step + behind;
            views[axis].begin = begin;
            views[axis].step = step;
        } else if (size > 0 && draw_chance(t, 10)) {
            views[axis].begin = size - 1;
            views[axis].step = -1;
        }
    }
    for (int axis = shape.rank - 1; is_permuted && axis > 0; axis--) {
        int other = (int)draw_integer(t, 0, axis), from = views[axis].from;
        views[axis].from = views[other].from;
        views[other].from = from;
    }
}

/* Creates the view of the leaf by ops of the tape. They are recorded if recording is on and the leaf requires a
 * gradient. */
static tg_tensor *view_of(trial *t, tg_tensor *leaf, tg_shape shape, const axis_view *views)
{
    tg_axes order = {shape.rank, {0}}, flipped = {0, {0}};
    bool is_permuted = false, is_expanded = false;
    for (int axis = 0; axis < shape.rank; axis++) {
        order.axis[axis] = views[axis].from;
        is_permuted = is_permuted || views[axis].from != axis;
        is_expanded = is_expanded || views[axis].is_expanded;
        if (views[axis].step < 0) {
            flipped.axis[flipped.count++] = axis;
        }
    }
    tg_tensor *x = is_permuted ? tg_permute(t->tape, leaf, order) : leaf;
    for (int axis = 0; axis < shape.rank; axis++) {
        const axis_view *view = &views[axis];
        if (view->step > 0 && view->leaf_size != shape.size[axis]) {
            x = tg_slice(t->tape, x, axis, view->begin, view->begin + shape.size[axis] * view->step, view->step);
        }
    }
    x = flipped.count > 0 ? tg_flip(t->tape, x, flipped) : x;
    return is_expanded ? tg_expand(t->tape, x, shape) : x;
}

static void describe_layout(input *in, tg_shape shape, const axis_view *views, bool is_recorded)
{
    int used = snprintf(in->layout, sizeof in->layout, is_recorded ? "recorded view" : "leaf");
    for (int axis = 0; axis < shape.rank && used < (int)sizeof in->layout; axis++) {
        const axis_view *view = &views[axis];
        if (view->is_expanded) {
            used += snprintf(in->layout + used, sizeof in->layout - (size_t)used, ", axis %d expanded from axis %d",
                             axis, view->from);
        } else if (view->from != axis || view->step != 1 || view->leaf_size != shape.size[axis]) {
            used += snprintf(in->layout + used, sizeof in->layout - (size_t)used,
                             ", axis %d from axis %d (%lld) at %lld step %lld", axis, view->from,
                             (long long)view->leaf_size, (long long)view->begin, (long long)view->step);
        }
    }
}

static input *next_input(trial *t, const char *name)
{
    if (t->input_count == MAX_INPUTS) {
        fprintf(stderr, "reference: more than %d inputs\n", MAX_INPUTS);
        exit(2);
    }
    input *in = &t->inputs[t->input_count++];
    in->name = name;
    return in;
}

static void write_leaf(tg_tensor *leaf, int64_t i, double value)
{
    void *data = tg_tensor_data_mut(leaf);
    switch (tg_tensor_dtype(leaf)) {
    case TG_F32: ((float *)data)[i] = (float)value; break;
    case TG_F64: ((double *)data)[i] = value; break;
    case TG_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    case TG_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    }
}

/* Adds an input with these values. If axes may be expanded, each value becomes that of the first with its position. */
static input *input_new(trial *t, const char *name, tg_dtype dtype, tg_shape shape, const double *values,
                        bool may_expand)
{
    input *in = next_input(t, name);
    in->is_present = true;
    in->dtype = dtype;
    in->x = array_new(t, shape);
    in->dx = array_new(t, shape);
    axis_view views[TG_MAX_RANK];
    draw_views(t, shape, may_expand, views);
    tg_shape leaf_shape = shape;
    for (int axis = 0; axis < shape.rank; axis++) {
        leaf_shape.size[views[axis].from] = views[axis].leaf_size;
    }
    in->positions = positions_of(t, shape, views, leaf_shape);
    in->leaf = tg_tensor_new(dtype, leaf_shape, NULL);
    if (is_float(dtype)) { /* what no view shows must not count */
        tg_tensor_fill(in->leaf, NAN, NULL);
    }
    for (int64_t i = in->x.count - 1; i >= 0; i--) {
        write_leaf(in->leaf, in->positions[i], values[i]);
    }
    in->requires_grad = is_float(dtype) && !t->draws_constants && draw_chance(t, 65);
    bool is_recorded = in->requires_grad && t->is_recording && draw_chance(t, 50);
    if (is_recorded) {
        tg_tensor_set_requires_grad(in->leaf, true, NULL);
        in->tensor = view_of(t, in->leaf, shape, views);
    } else {
        /* Without recording the view is a leaf itself. */
        bool was_recording = tg_tape_is_recording(t->tape);
        tg_tape_set_recording(t->tape, false);
        in->tensor = view_of(t, in->leaf, shape, views);
        tg_tape_set_recording(t->tape, was_recording);
        tg_tensor_set_requires_grad(in->tensor, in->requires_grad, NULL);
    }
    in->has_recorded_view = is_recorded;
    describe_layout(in, shape, views, is_recorded);
    for (int64_t i = 0; i < in->x.count; i++) {
        in->x.values[i] = tg_tensor_value_at(in->leaf, in->positions[i]);
    }
    return in;
}

/* Returns an input before that has this shape and dtype, or NULL. */
static const input *equal_input(const trial *t, tg_dtype dtype, tg_shape shape)
{
    for (int k = 0; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        if (in->is_present && in->dtype == dtype && tg_shape_equal(in->x.shape, shape)) {
            return in;
        }
    }
    return NULL;
}

static input *input_of_values(trial *t, const char *name, tg_shape shape, const double *values, bool may_repeat)
{
    tg_dtype dtype = t->dtype;
    if (t->input_count > 0 && !t->reference->may_mix_dtypes && draw_chance(t, 1)) {
        dtype = dtype == TG_F32 ? TG_F64 : TG_F32;
    }
    for (int k = 0; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        bool differs = in->is_present && is_float(in->dtype) && in->dtype != dtype;
        t->mixes_dtypes = t->mixes_dtypes || (differs && !t->reference->may_mix_dtypes);
    }
    const input *same = may_repeat && !t->draws_constants && draw_chance(t, 12) ? equal_input(t, dtype, shape) : NULL;
    if (!same) {
        return input_new(t, name, dtype, shape, values, may_repeat);
    }
    input *in = next_input(t, name);
    *in = *same;
    in->name = name;
    in->dx = array_new(t, shape);
    snprintf(in->layout, sizeof in->layout, "the same tensor as %s", same->name);
    return in;
}

input *draw_input(trial *t, const char *name, tg_shape shape)
{
    double *values = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        values[i] = draw_value(t);
    }
    return input_of_values(t, name, shape, values, true);
}

input *draw_input_within(trial *t, const char *name, tg_shape shape, double low, double high)
{
    double *values = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        values[i] = converted(t->dtype, draw_uniform(t, low, high));
    }
    return input_of_values(t, name, shape, values, false);
}

input *draw_integers(trial *t, const char *name, tg_dtype dtype, tg_shape shape, int64_t low, int64_t high)
{
    double *values = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        values[i] = (double)draw_integer(t, low, high);
    }
    return input_new(t, name, dtype, shape, values, true);
}

input *draw_any(trial *t, const char *name, tg_shape shape)
{
    switch (draw_integer(t, 0, 5)) {
    case 0: return draw_integers(t, name, TG_I32, shape, -3, 3);
    case 1: return draw_integers(t, name, TG_U8, shape, 0, draw_chance(t, 80) ? 3 : 255);
    case 2:
        if (draw_chance(t, 30)) {
            return draw_integers(t, name, TG_I32, shape, INT32_MIN, INT32_MAX);
        }
        break;
    default: break;
    }
    return draw_input(t, name, shape);
}

input *draw_layout(trial *t, const char *name, tg_dtype dtype, tg_shape shape, const double *values)
{
    return input_new(t, name, dtype, shape, values, false);
}

input *draw_absent(trial *t, const char *name)
{
    return next_input(t, name);
}

input *draw_parameter(trial *t, const char *name)
{
    tg_tensor *parameter = tg_params_find(t->params, name);
    input *in = next_input(t, name);
    if (!parameter) {
        return in;
    }
    tg_shape shape = tg_tensor_shape(parameter);
    in->is_present = true;
    in->dtype = tg_tensor_dtype(parameter);
    in->x = array_new(t, shape);
    in->dx = array_new(t, shape);
    for (int64_t i = 0; i < in->x.count; i++) {
        in->x.values[i] = converted(in->dtype, draw_value(t));
        write_leaf(parameter, i, in->x.values[i]);
    }
    in->requires_grad = tg_params_set_frozen(t->params, name, draw_chance(t, 20)) && tg_tensor_requires_grad(parameter);
    in->leaf = in->tensor = tg_retain(parameter);
    snprintf(in->layout, sizeof in->layout, "parameter");
    return in;
}
