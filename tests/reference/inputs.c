/* inputs: tensors with random values, in random layouts. In some trials inputs share storage: a later one is the same
 * tensor as one before, or a view of it or of its leaf. */
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- layouts ---- */

/* Value i of axis a of a view is value begin + i * step of axis `from` of the base, which has `base_size` of them; the
 * step of an axis that is repeated is 0. An axis that is not of the base (from -1) is repeated, too. */
typedef struct axis_view {
    int64_t base_size, begin, step;
    int from;
} axis_view;

/* A view of a base: of the leaf, or of another input. */
typedef struct view {
    tg_shape shape, base;
    axis_view axes[TG_MAX_RANK];
    axis_view dropped[TG_MAX_RANK]; /* axes of the base of which the view has one value, and no axis */
    int dropped_count;
} view;

/* The number in the base of each value of the view. */
static int64_t *positions_of(trial *t, const view *v)
{
    int64_t count = count_of(v->shape);
    int64_t *positions = trial_memory(t, (size_t)(count + 1) * sizeof *positions);
    int64_t index[TG_MAX_RANK], at[TG_MAX_RANK];
    for (int64_t i = 0; i < count; i++) {
        split_index(v->shape, i, index);
        for (int k = 0; k < v->dropped_count; k++) {
            at[v->dropped[k].from] = v->dropped[k].begin;
        }
        for (int axis = 0; axis < v->shape.rank; axis++) {
            const axis_view *a = &v->axes[axis];
            if (a->from >= 0) {
                at[a->from] = a->begin + index[axis] * a->step;
            }
        }
        positions[i] = flat_index(v->base, at);
    }
    return positions;
}

/* Draws the view of each axis and the order of the axes in a base that has what the view needs. In a trial that shares,
 * the base has what an input of the whole shape needs (trial.whole), if that is not much. */
static view draw_view(trial *t, tg_shape shape, bool may_expand)
{
    view v = {.shape = shape, .base = shape};
    int64_t of_base = count_of(shape); /* about how many values the base has */
    bool is_sliced = draw_chance(t, 40), is_permuted = draw_chance(t, 40),
         is_expanded = may_expand && draw_chance(t, 15), is_whole = t->shares && draw_chance(t, 50);
    for (int axis = 0; axis < shape.rank; axis++) {
        int64_t size = shape.size[axis];
        int in_whole = axis + t->whole.rank - shape.rank;
        v.axes[axis] = (axis_view){size, 0, 1, axis};
        if (is_expanded && draw_chance(t, 50)) {
            v.axes[axis] = (axis_view){1, 0, 0, axis};
        } else if (is_whole && size == 1 && in_whole >= 0 && t->whole.size[in_whole] > 1) {
            v.axes[axis].base_size = t->whole.size[in_whole];
        } else if (is_sliced && of_base < 20000 && draw_chance(t, 60)) {
            int64_t begin = draw_integer(t, 0, 2), step = draw_integer(t, 1, size > 40 ? 2 : 3),
                    behind = draw_integer(t, 0, 2);
            v.axes[axis] = (axis_view){begin + size * step + behind, begin, step, axis};
            of_base *= size > 0 ? 1 + (begin + behind) / size + step : 1;
        } else if (size > 0 && draw_chance(t, 10)) {
            v.axes[axis].begin = size - 1;
            v.axes[axis].step = -1;
        }
    }
    for (int axis = shape.rank - 1; is_permuted && axis > 0; axis--) {
        int other = (int)draw_integer(t, 0, axis), from = v.axes[axis].from;
        v.axes[axis].from = v.axes[other].from;
        v.axes[other].from = from;
    }
    for (int axis = 0; axis < shape.rank; axis++) {
        v.base.size[v.axes[axis].from] = v.axes[axis].base_size;
    }
    return v;
}

/* Draws a view of this shape of a base that is given, and has values: a slice, the first row or column, a transpose, a
 * flip. Axes are repeated where the base is too small. Most views begin where the base does. */
static view draw_view_of(trial *t, tg_shape shape, tg_shape base)
{
    view v = {.shape = shape, .base = base};
    int order[TG_MAX_RANK], of_base = shape.rank < base.rank ? shape.rank : base.rank;
    for (int axis = 0; axis < base.rank; axis++) {
        order[axis] = axis;
    }
    bool is_permuted = draw_chance(t, 30), begins_there = draw_chance(t, 70), is_expanded = draw_chance(t, 15);
    for (int axis = base.rank - 1; is_permuted && axis > 0; axis--) {
        int other = (int)draw_integer(t, 0, axis), from = order[axis];
        order[axis] = order[other];
        order[other] = from;
    }
    v.dropped_count = base.rank - of_base;
    for (int k = 0; k < v.dropped_count; k++) {
        int64_t size = base.size[order[k]];
        v.dropped[k] = (axis_view){size, begins_there ? 0 : draw_integer(t, 0, size - 1), 0, order[k]};
    }
    for (int axis = 0; axis < shape.rank; axis++) {
        int own = axis - (shape.rank - of_base), from = own < 0 ? -1 : order[v.dropped_count + own];
        int64_t size = shape.size[axis], of_axis = from < 0 ? 1 : base.size[from], step = 1;
        if (from < 0 || size > of_axis || (is_expanded && draw_chance(t, 50))) {
            v.axes[axis] = (axis_view){of_axis, begins_there ? 0 : draw_integer(t, 0, of_axis - 1), 0, from};
            continue;
        }
        while (size > 1 && (size - 1) * (step + 1) < of_axis && draw_chance(t, 30)) {
            step++;
        }
        int64_t length = size > 0 ? (size - 1) * step + 1 : 0;
        int64_t begin = begins_there ? 0 : draw_integer(t, 0, of_axis - length);
        bool is_flipped = size > 1 && draw_chance(t, 10);
        v.axes[axis] = is_flipped ? (axis_view){of_axis, begin + length - 1, -step, from}
                                  : (axis_view){of_axis, begin, step, from};
    }
    return v;
}

/* Creates the view of the base by ops of the tape. They are recorded if recording is on and the base requires a
 * gradient. */
static tg_tensor *view_of(trial *t, tg_tensor *base, const view *v)
{
    tg_axes order = {0, {0}}, flipped = {0, {0}};
    bool is_permuted = false, is_expanded = false;
    for (int k = 0; k < v->dropped_count; k++) {
        order.axis[order.count++] = v->dropped[k].from;
    }
    for (int axis = 0; axis < v->shape.rank; axis++) {
        if (v->axes[axis].from >= 0) {
            order.axis[order.count++] = v->axes[axis].from;
        }
    }
    for (int axis = 0; axis < order.count; axis++) {
        is_permuted = is_permuted || order.axis[axis] != axis;
    }
    tg_tensor *x = is_permuted ? tg_permute(t->tape, base, order) : base;
    for (int k = 0; k < v->dropped_count; k++) {
        x = tg_select(t->tape, x, 0, v->dropped[k].begin);
    }
    for (int axis = 0, own = 0; axis < v->shape.rank; axis++) {
        const axis_view *a = &v->axes[axis];
        is_expanded = is_expanded || a->step == 0;
        if (a->from < 0) {
            continue;
        }
        int64_t taken = a->step == 0 ? 1 : v->shape.size[axis], last = a->begin + (taken - 1) * a->step;
        int64_t first = a->step < 0 ? last : a->begin, end = taken == 0 ? first : a->step < 0 ? a->begin + 1 : last + 1;
        if (taken != a->base_size) {
            x = tg_slice(t->tape, x, own, first, end, a->step == 0 ? 1 : a->step < 0 ? -a->step : a->step);
        }
        if (a->step < 0) {
            flipped.axis[flipped.count++] = own;
        }
        own++;
    }
    x = flipped.count > 0 ? tg_flip(t->tape, x, flipped) : x;
    return is_expanded ? tg_expand(t->tape, x, v->shape) : x;
}

static void describe_view(input *in, const char *what, const view *v)
{
    int used = snprintf(in->layout, sizeof in->layout, "%s", what);
    for (int axis = 0; axis < v->shape.rank && used < (int)sizeof in->layout; axis++) {
        const axis_view *a = &v->axes[axis];
        if (a->from != axis || a->step != 1 || a->base_size != v->shape.size[axis]) {
            used += snprintf(in->layout + used, sizeof in->layout - (size_t)used,
                             ", axis %d from axis %d (%lld) at %lld step %lld", axis, a->from, (long long)a->base_size,
                             (long long)a->begin, (long long)a->step);
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
    in->flavor = t->flavor;
    return in;
}

static input *present_input(trial *t, const char *name, tg_dtype dtype, tg_shape shape)
{
    input *in = next_input(t, name);
    in->is_present = true;
    in->dtype = dtype;
    in->x = array_new(t, shape);
    in->dx = array_new(t, shape);
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
    case TG_BF16: break; /* no op of the sweep takes it */
    }
}

/* Writes to the leaf what no input before has shown; each value becomes that of the first with its position. */
static void show_values(input *in, const double *values)
{
    for (int64_t i = 0; i < in->x.count; i++) {
        int64_t at = in->positions[i];
        if (!in->shown[at]) {
            write_leaf(in->leaf, at, values[i]);
        }
        in->shown[at] = true;
        in->x.values[i] = tg_tensor_value_at(in->leaf, at);
    }
}

/* The numbers 0, 1, .. of values that are in order. */
static int64_t *row_major(trial *t, int64_t count)
{
    int64_t *at = trial_memory(t, (size_t)(count + 1) * sizeof *at);
    for (int64_t i = 0; i < count; i++) {
        at[i] = i;
    }
    return at;
}

/* Creates a view of the base without recording; it is a leaf itself. */
static tg_tensor *constant_view_of(trial *t, tg_tensor *base, const view *v)
{
    bool was_recording = tg_tape_is_recording(t->tape);
    tg_tape_set_recording(t->tape, false);
    tg_tensor *x = view_of(t, base, v);
    tg_tape_set_recording(t->tape, was_recording);
    return x;
}

/* The range of the values of an input that is drawn. */
typedef struct range {
    double low, high;
    bool is_any; /* also NaN */
} range;

static const range any_value = {-INFINITY, INFINITY, true};

/* Chooses an input before, of this dtype and flavor, whose storage is shared; NULL if there is none. */
static const input *draw_other(trial *t, tg_dtype dtype)
{
    const input *others[MAX_INPUTS];
    int count = 0;
    for (int k = 0; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        if (in->is_present && in->dtype == dtype && in->flavor == t->flavor && in->x.count > 0) {
            others[count++] = in;
        }
    }
    return count > 0 ? others[draw_integer(t, 0, count - 1)] : NULL;
}

/* Adds an input that shares the storage of one before, if its values are in the range: the same tensor, a view of it,
 * or a view of its leaf, which may show values that no input has shown yet. These become `values`. NULL: it has to be
 * a tensor of its own. Without may_expand, no two of its values are the same one. */
static input *draw_sharing(trial *t, const char *name, tg_dtype dtype, tg_shape shape, const double *values,
                           range allowed, bool may_expand)
{
    const input *other = t->shares && !t->changes_inputs && draw_chance(t, 75) ? draw_other(t, dtype) : NULL;
    if (!other) {
        return NULL;
    }
    bool is_same = tg_shape_equal(other->x.shape, shape) && draw_chance(t, 40);
    bool is_of_leaf = !is_same && draw_chance(t, 40);
    tg_shape base = is_of_leaf ? tg_tensor_shape(other->leaf) : other->x.shape;
    view v = draw_view_of(t, shape, base);
    for (int axis = 0; axis < shape.rank && is_same; axis++) {
        v.axes[axis] = (axis_view){shape.size[axis], 0, 1, axis};
    }
    int64_t count = count_of(shape), *in_base = positions_of(t, &v), *positions = in_base;
    if (!is_of_leaf) {
        positions = trial_memory(t, (size_t)(count + 1) * sizeof *positions);
        for (int64_t i = 0; i < count; i++) {
            positions[i] = other->positions[in_base[i]];
        }
    }
    bool *occurs = trial_memory(t, (size_t)tg_tensor_count(other->leaf));
    for (int64_t i = 0; i < count; i++) {
        double value = tg_tensor_value_at(other->leaf, positions[i]);
        bool is_allowed = allowed.is_any || (value >= allowed.low && value <= allowed.high);
        if ((other->shown[positions[i]] && !is_allowed) || (occurs[positions[i]] && !may_expand)) {
            return NULL;
        }
        occurs[positions[i]] = true;
    }
    tg_tensor *of = is_of_leaf ? other->leaf : other->tensor;
    bool is_recorded = t->is_recording && !t->draws_constants && tg_tensor_requires_grad(of) && draw_chance(t, 65);
    tg_tensor *x = is_recorded ? view_of(t, of, &v) : constant_view_of(t, of, &v);
    if (x == of && t->draws_constants && tg_tensor_requires_grad(of)) {
        return NULL;
    }
    input *in = present_input(t, name, dtype, shape);
    in->leaf = other->leaf;
    in->positions = positions;
    in->shown = other->shown;
    in->tensor = x;
    if (is_recorded || x == of) {
        in->owner = is_of_leaf ? of : other->owner;
        in->requires_grad = tg_tensor_requires_grad(in->tensor);
        in->in_owner = trial_memory(t, (size_t)(count + 1) * sizeof *in->in_owner);
        for (int64_t i = 0; i < count; i++) {
            in->in_owner[i] = is_of_leaf ? in_base[i] : other->in_owner[in_base[i]];
        }
    } else {
        in->owner = in->tensor;
        in->in_owner = row_major(t, count);
        in->requires_grad = is_float(dtype) && !t->draws_constants && draw_chance(t, 65);
        tg_tensor_set_requires_grad(in->tensor, in->requires_grad, NULL);
    }
    show_values(in, values);
    char what[LAYOUT_BYTES / 2];
    snprintf(what, sizeof what, "%s of %s%s", is_recorded ? "recorded view" : "view", is_of_leaf ? "the leaf of " : "",
             other->name);
    describe_view(in, in->tensor == other->tensor ? "the same tensor" : what, &v);
    return in;
}

/* Adds an input with these values, or one that shares the storage of another. */
static input *input_new(trial *t, const char *name, tg_dtype dtype, tg_shape shape, const double *values, range allowed,
                        bool may_expand)
{
    input *in = draw_sharing(t, name, dtype, shape, values, allowed, may_expand);
    if (in) {
        return in;
    }
    in = present_input(t, name, dtype, shape);
    view v = draw_view(t, shape, may_expand);
    in->positions = positions_of(t, &v);
    in->leaf = tg_tensor_new(dtype, v.base, NULL);
    in->shown = trial_memory(t, (size_t)(count_of(v.base) + 1));
    if (is_float(dtype)) { /* what no view shows must not count */
        tg_tensor_fill(in->leaf, NAN, NULL);
    }
    show_values(in, values);
    in->requires_grad = is_float(dtype) && !t->draws_constants && draw_chance(t, 65);
    bool is_recorded = in->requires_grad && t->is_recording && draw_chance(t, 50);
    if (is_recorded) {
        tg_tensor_set_requires_grad(in->leaf, true, NULL);
        in->tensor = view_of(t, in->leaf, &v);
        in->owner = in->leaf;
        in->in_owner = in->positions;
    } else {
        in->owner = in->tensor = constant_view_of(t, in->leaf, &v);
        tg_tensor_set_requires_grad(in->tensor, in->requires_grad, NULL);
        in->in_owner = row_major(t, in->x.count);
    }
    describe_view(in, is_recorded ? "recorded view" : "leaf", &v);
    return in;
}

static input *input_of_values(trial *t, const char *name, tg_shape shape, const double *values, range allowed,
                              bool may_expand)
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
    return input_new(t, name, dtype, shape, values, allowed, may_expand);
}

input *draw_input(trial *t, const char *name, tg_shape shape)
{
    double *values = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        values[i] = draw_value(t);
    }
    return input_of_values(t, name, shape, values, any_value, true);
}

input *draw_input_within(trial *t, const char *name, tg_shape shape, double low, double high)
{
    double *values = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        values[i] = converted(t->dtype, draw_uniform(t, low, high));
    }
    return input_of_values(t, name, shape, values, (range){low, high, false}, false);
}

input *draw_integers(trial *t, const char *name, tg_dtype dtype, tg_shape shape, int64_t low, int64_t high)
{
    double *values = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        values[i] = (double)draw_integer(t, low, high);
    }
    return input_new(t, name, dtype, shape, values, (range){(double)low, (double)high, false}, true);
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
    bool shares = t->shares;
    t->shares = false;
    input *in = input_new(t, name, dtype, shape, values, any_value, false);
    t->shares = shares;
    return in;
}

input *draw_absent(trial *t, const char *name)
{
    return next_input(t, name);
}

input *draw_parameter(trial *t, const char *name)
{
    tg_tensor *parameter = tg_params_find(t->params, name);
    if (!parameter) {
        return draw_absent(t, name);
    }
    input *in = present_input(t, name, tg_tensor_dtype(parameter), tg_tensor_shape(parameter));
    for (int64_t i = 0; i < in->x.count; i++) {
        in->x.values[i] = converted(in->dtype, draw_value(t));
        write_leaf(parameter, i, in->x.values[i]);
    }
    in->requires_grad = tg_params_set_frozen(t->params, name, draw_chance(t, 20)) && tg_tensor_requires_grad(parameter);
    in->leaf = in->owner = in->tensor = tg_retain(parameter);
    in->positions = in->in_owner = row_major(t, in->x.count);
    in->shown = trial_memory(t, (size_t)(in->x.count + 1));
    memset(in->shown, 1, (size_t)in->x.count);
    snprintf(in->layout, sizeof in->layout, "parameter");
    return in;
}
