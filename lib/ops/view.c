/* view: other shapes over the same storage.
 *
 *   forward     y is x's storage with another shape, other strides, another first value
 *   gradient    dx[the place that y's value i has in x] += dy[i]
 *
 * One backward serves all: the attributes keep the view's strides and offset as they would be if x were contiguous,
 * because gradients always are. A value that a view repeats (expand) collects from all its places, in order.
 *
 * Follows torch.reshape, transpose, permute, select, expand, squeeze, unsqueeze and Python's slices.
 */
#include "ops/real.h"

#include <tapegrad/ops.h>

/* What the view is of a contiguous x. */
typedef struct view {
    int64_t strides[TG_MAX_RANK];
    int64_t offset;
} view;

TG_DECLARE_KERNEL(tg_view_backward);

/* In the forward pass y[i] was x[place], with i running over y's shape. */
void KERNEL(tg_view_backward)(const tg_op_call *call)
{
    const view *v = call->attributes;
    const tg_tensor *y = call->outputs[0];
    const real *dy = call->output_gradients[0];
    real *dx = (real *)call->input_gradients[0] + v->offset;
    int last = y->rank - 1;
    int64_t line = last >= 0 ? y->shape[last] : 1, stride = last >= 0 ? v->strides[last] : 1;
    int64_t index[TG_MAX_RANK] = {0}, place = 0;
    for (int64_t done = 0; done < y->count; done += line) {
        if (stride == 1) {
            for (int64_t i = 0; i < line; i++) {
                dx[place + i] += dy[done + i];
            }
        } else {
            for (int64_t i = 0; i < line; i++) {
                dx[place + i * stride] += dy[done + i];
            }
        }
        for (int axis = last - 1; axis >= 0; axis--) {
            place += v->strides[axis];
            if (++index[axis] < y->shape[axis]) {
                break;
            }
            place -= v->strides[axis] * y->shape[axis];
            index[axis] = 0;
        }
    }
}

#ifdef TG_ONCE

/* A view being made: its shape, and where each of its axes comes from. The strides follow from that, for x as it is and
 * for a contiguous x alike. */
typedef struct plan {
    tg_shape shape;
    int axis[TG_MAX_RANK];      /* x's axis that this one walks, or -1: a new axis, which stands still */
    int64_t step[TG_MAX_RANK];  /* how many values of that axis at a time; 0 repeats */
    int64_t start[TG_MAX_RANK]; /* where x's axes begin, for x's rank */
} plan;

typedef struct view_attributes {
    view gradient; /* first: backward reads it */
    tg_shape shape;
    int64_t strides[TG_MAX_RANK];
    int64_t offset;
} view_attributes;

static bool view_shape(tg_op_call *call)
{
    const view_attributes *a = call->attributes;
    return tg_op_output_view(call, 0, 0, a->shape, a->strides, a->offset);
}

#define VIEW_OP(op_name)                                                           \
    {                                                                              \
        .name = op_name, .shape = view_shape, .f32 = {NULL, tg_view_backward_f32}, \
        .f64 = {NULL, tg_view_backward_f64}, .accepts_layout = any_layout          \
    }

static bool any_layout(const tg_tensor *input, int i)
{
    (void)input;
    (void)i;
    return true;
}

static const tg_op transpose_op = VIEW_OP("transpose"), permute_op = VIEW_OP("permute"), slice_op = VIEW_OP("slice"),
                   select_op = VIEW_OP("select"), expand_op = VIEW_OP("expand"), unsqueeze_op = VIEW_OP("unsqueeze"),
                   squeeze_op = VIEW_OP("squeeze"), reshape_op = VIEW_OP("reshape");

/* x itself, axis for axis: what every view starts from. */
static plan plan_of(const tg_tensor *x)
{
    plan p = {.shape = tg_shape_of(x)};
    for (int i = 0; i < x->rank; i++) {
        p.axis[i] = i;
        p.step[i] = 1;
    }
    return p;
}

static void drop_axis(plan *p, int axis)
{
    p->shape.rank--;
    for (int i = axis; i < p->shape.rank; i++) {
        p->shape.size[i] = p->shape.size[i + 1];
        p->axis[i] = p->axis[i + 1];
        p->step[i] = p->step[i + 1];
    }
}

static void insert_axis(plan *p, int axis)
{
    for (int i = p->shape.rank++; i > axis; i--) {
        p->shape.size[i] = p->shape.size[i - 1];
        p->axis[i] = p->axis[i - 1];
        p->step[i] = p->step[i - 1];
    }
    p->shape.size[axis] = 1;
    p->axis[axis] = -1;
    p->step[axis] = 0;
}

static void strides_of(const plan *p, const int64_t *of_x, int rank, int64_t *strides, int64_t *offset)
{
    *offset = 0;
    for (int i = 0; i < rank; i++) {
        *offset += p->start[i] * of_x[i];
    }
    for (int i = 0; i < p->shape.rank; i++) {
        strides[i] = p->axis[i] < 0 ? 0 : p->step[i] * of_x[p->axis[i]];
    }
}

static tg_tensor *apply_plan(tg_tape *t, const tg_op *op, tg_tensor *x, const plan *p)
{
    view_attributes a = {.shape = p->shape};
    int64_t contiguous[TG_MAX_RANK];
    tg_shape shape = tg_shape_of(x);
    tg_contiguous_strides(&shape, contiguous);
    strides_of(p, x->strides, x->rank, a.strides, &a.offset);
    strides_of(p, contiguous, x->rank, a.gradient.strides, &a.gradient.offset);
    return tg_apply(t, op, &x, 1, &a, sizeof a);
}

/* False, with the tape's error, for no tape, no tensor, or no such axis of a tensor that has axes. */
static bool check_axis(tg_tape *t, const char *name, const tg_tensor *x, int *axis)
{
    if (!tg_tape_axis(t, name, x, axis)) {
        return false;
    }
    if (x->rank == 0) {
        tg_tape_fail(t, TG_ERROR_RANGE, name, "axis %d of a scalar, which has none", *axis);
        return false;
    }
    return true;
}

static bool check_tensor(tg_tape *t, const char *name, const tg_tensor *x)
{
    int axis = 0;
    return tg_tape_axis(t, name, x, &axis);
}

tg_tensor *tg_transpose(tg_tape *t, tg_tensor *x, int axis, int other)
{
    if (!check_axis(t, "transpose", x, &axis) || !check_axis(t, "transpose", x, &other)) {
        return NULL;
    }
    plan p = plan_of(x);
    p.axis[axis] = other;
    p.axis[other] = axis;
    p.shape.size[axis] = x->shape[other];
    p.shape.size[other] = x->shape[axis];
    return apply_plan(t, &transpose_op, x, &p);
}

tg_tensor *tg_permute(tg_tape *t, tg_tensor *x, tg_axes axes)
{
    if (!check_tensor(t, "permute", x)) {
        return NULL;
    }
    if (axes.count != x->rank) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "permute", "%d axes for rank %d; every axis must be named once",
                            axes.count, x->rank);
    }
    plan p = plan_of(x);
    unsigned seen = 0;
    for (int i = 0; i < axes.count; i++) {
        int axis = axes.axis[i];
        if (!check_axis(t, "permute", x, &axis)) {
            return NULL;
        }
        if (seen >> axis & 1) {
            return tg_tape_fail(t, TG_ERROR_RANGE, "permute", "axis %d is named twice", axis);
        }
        seen |= 1u << axis;
        p.axis[i] = axis;
        p.shape.size[i] = x->shape[axis];
    }
    return apply_plan(t, &permute_op, x, &p);
}

/* Python's rule for a bound of a slice. */
static int64_t bound(int64_t at, int64_t size)
{
    at = at < 0 ? at + size : at;
    return at < 0 ? 0 : at > size ? size : at;
}

tg_tensor *tg_slice(tg_tape *t, tg_tensor *x, int axis, int64_t begin, int64_t end, int64_t step)
{
    if (!check_axis(t, "slice", x, &axis)) {
        return NULL;
    }
    if (step < 1) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "slice", "step %lld; it must be at least 1", (long long)step);
    }
    plan p = plan_of(x);
    begin = bound(begin, x->shape[axis]);
    end = bound(end, x->shape[axis]);
    p.shape.size[axis] = end > begin ? (end - begin - 1) / step + 1 : 0;
    p.start[axis] = p.shape.size[axis] > 0 ? begin : 0;
    p.step[axis] = step;
    return apply_plan(t, &slice_op, x, &p);
}

tg_tensor *tg_select(tg_tape *t, tg_tensor *x, int axis, int64_t index)
{
    if (!check_axis(t, "select", x, &axis)) {
        return NULL;
    }
    int64_t size = x->shape[axis];
    if (index < -size || index >= size) {
        return tg_tape_fail(t, TG_ERROR_RANGE, "select", "index %lld is outside [%lld,%lld), axis %d", (long long)index,
                            (long long)-size, (long long)size, axis);
    }
    plan p = plan_of(x);
    p.start[axis] = index < 0 ? index + size : index;
    drop_axis(&p, axis);
    return apply_plan(t, &select_op, x, &p);
}

tg_tensor *tg_expand(tg_tape *t, tg_tensor *x, tg_shape shape)
{
    if (!check_tensor(t, "expand", x)) {
        return NULL;
    }
    char from[TG_SHAPE_TEXT], to[TG_SHAPE_TEXT];
    int added = shape.rank - x->rank;
    plan p = plan_of(x);
    bool fits = added >= 0 && shape.rank <= TG_MAX_RANK;
    for (int i = 0; fits && i < added; i++) {
        insert_axis(&p, 0);
    }
    for (int i = 0; fits && i < shape.rank; i++) {
        int64_t size = shape.size[i] == -1 && i >= added ? p.shape.size[i] : shape.size[i];
        fits = size >= 0 && (size == p.shape.size[i] || p.shape.size[i] == 1);
        if (fits && size != p.shape.size[i]) {
            p.shape.size[i] = size;
            p.step[i] = 0;
        }
    }
    if (!fits) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "expand",
                            "shape %s to %s; sizes must be equal, or 1 before, new axes in front",
                            tg_shape_format(tg_shape_of(x), from), tg_shape_format(shape, to));
    }
    return apply_plan(t, &expand_op, x, &p);
}

tg_tensor *tg_unsqueeze(tg_tape *t, tg_tensor *x, int axis)
{
    if (!check_tensor(t, "unsqueeze", x)) {
        return NULL;
    }
    int asked = axis;
    if (!tg_axis_normalize(x->rank + 1, &axis) || x->rank == TG_MAX_RANK) {
        return tg_tape_fail(t, TG_ERROR_RANGE, "unsqueeze",
                            "axis %d for rank %d; allowed are [%d,%d], and %d axes in all", asked, x->rank,
                            -x->rank - 1, x->rank, TG_MAX_RANK);
    }
    plan p = plan_of(x);
    insert_axis(&p, axis);
    return apply_plan(t, &unsqueeze_op, x, &p);
}

tg_tensor *tg_squeeze(tg_tape *t, tg_tensor *x, int axis)
{
    if (!check_axis(t, "squeeze", x, &axis)) {
        return NULL;
    }
    if (x->shape[axis] != 1) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "squeeze", "axis %d has size %lld; it must be 1", axis,
                            (long long)x->shape[axis]);
    }
    plan p = plan_of(x);
    drop_axis(&p, axis);
    return apply_plan(t, &squeeze_op, x, &p);
}

/* Fills in a -1; false when the counts differ. */
static bool complete_shape(tg_shape *shape, int64_t count)
{
    int open = -1;
    int64_t known = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->size[i] == -1 && open < 0) {
            open = i;
        } else if (shape->size[i] < 0 || __builtin_mul_overflow(known, shape->size[i], &known)) {
            return false;
        }
    }
    if (open >= 0 && known > 0 && count % known == 0) {
        shape->size[open] = count / known;
        known = count;
    }
    return known == count && (open < 0 || shape->size[open] >= 0);
}

tg_tensor *tg_reshape(tg_tape *t, tg_tensor *x, tg_shape shape)
{
    if (!check_tensor(t, "reshape", x)) {
        return NULL;
    }
    view_attributes a = {.shape = shape};
    if (shape.rank < 0 || shape.rank > TG_MAX_RANK || !complete_shape(&a.shape, x->count)) {
        char from[TG_SHAPE_TEXT], to[TG_SHAPE_TEXT];
        return tg_tape_fail(t, TG_ERROR_SHAPE, "reshape",
                            "shape %s to %s; both must have %lld values, and one size may be -1",
                            tg_shape_format(tg_shape_of(x), from), tg_shape_format(shape, to), (long long)x->count);
    }
    tg_tensor *base = tg_contiguous(t, x);
    tg_contiguous_strides(&a.shape, a.strides);
    memcpy(a.gradient.strides, a.strides, sizeof a.strides);
    return base ? tg_apply(t, &reshape_op, &base, 1, &a, sizeof a) : NULL;
}

int64_t tg_split(tg_tape *t, tg_tensor *x, int64_t size, int axis, tg_tensor **parts, int64_t capacity)
{
    if (!check_axis(t, "split", x, &axis)) {
        return -1;
    }
    if (size < 1) {
        tg_tape_fail(t, TG_ERROR_VALUE, "split", "parts of size %lld; it must be at least 1", (long long)size);
        return -1;
    }
    int64_t total = x->shape[axis], count = total == 0 ? 1 : (total - 1) / size + 1;
    if (count > capacity) {
        tg_tape_fail(t, TG_ERROR_RANGE, "split", "%lld parts; there is room for %lld", (long long)count,
                     (long long)capacity);
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        parts[i] = tg_slice(t, x, axis, i * size, size > total - i * size ? total : (i + 1) * size, 1);
        if (!parts[i]) {
            return -1;
        }
    }
    return count;
}

#endif
