/* view: other shapes over the same storage.
 *
 *   forward     y is the storage of x with another shape, other strides and another first value
 *   gradient    dx[j] += dy[i], where value i of y is value j of x
 *
 * One backward serves all views. Gradients are contiguous, so the attributes keep the strides and the offset that the
 * view would have if x were contiguous. A value that the view repeats (expand) adds up the dy of its copies.
 *
 * Follows torch.reshape, transpose, permute, select, expand, squeeze, unsqueeze and Python's slices; and torch.flip,
 * which copies.
 */
#include "ops/reduce/repeated.h"
#include "ops/kernel_real.h"
#include "tensor/strided.h"

/* The strides and the offset that y would have if x were contiguous. */
typedef struct view {
    int64_t strides[TG_MAX_RANK];
    int64_t offset;
} view;

TG_DECLARE_KERNEL(tg_view_backward);
TG_DECLARE_KERNEL(tg_view_gradient);
TG_DECLARE_KERNEL(tg_view_gradient_backward);

/* In the forward pass y[i] was x[offset of i], for all indices i of y. Adds dy to dx, or writes it. */
static void add_view(const view *v, const tg_tensor *y, const void *dy, const tg_tensor *x, bool writes, real *dx)
{
    tg_shape shape = tg_shape_of(y);
    int64_t strides[TG_MAX_RANK];
    for (int axis = 0; axis < y->rank; axis++) {
        if (y->shape[axis] > 1 && v->strides[axis] == 0) {
            KERNEL(tg_sum_repeated)(&shape, v->strides, NULL, dy, writes, dx);
            return;
        }
    }
    tg_contiguous_strides(&shape, strides);
    tg_strided s = tg_strided_of(&shape, v->strides, strides);
    if (!writes) {
        tg_strided_add(&s, real_dtype, dx + v->offset, dy);
        return;
    }
    s.to += v->offset;
    if (y->count < x->count) {
        tg_zero_values(dx, x->count, sizeof *dx);
    }
    tg_strided_copy(&s, sizeof *dx, dx, dy);
}

void KERNEL(tg_view_backward)(const tg_op_call *call)
{
    add_view(call->attributes, call->outputs[0], call->output_gradients[0], call->inputs[0], writes_gradient(call, 0),
             call->input_gradients[0]);
}

/* ---- view_gradient: the gradient of a view, dx of dy, as an op; its gradient is the view ---- */

void KERNEL(tg_view_gradient)(const tg_op_call *call)
{
    tg_tensor *dy = call->inputs[0], *dx = call->outputs[0];
    add_view(call->attributes, dy, tg_values(dy), dx, true, tg_values(dx));
}

void KERNEL(tg_view_gradient_backward)(const tg_op_call *call)
{
    const view *v = call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    int64_t strides[TG_MAX_RANK];
    tg_contiguous_strides(&shape, strides);
    tg_strided s = tg_strided_of(&shape, strides, v->strides);
    const real *from = (const real *)call->output_gradients[0] + v->offset;
    if (writes_gradient(call, 0)) {
        tg_strided_copy(&s, sizeof *from, call->input_gradients[0], from);
    } else {
        tg_strided_add(&s, real_dtype, call->input_gradients[0], from);
    }
}

#ifdef TG_ONCE

/* A view under construction: its shape, and the axis of x to which each of its axes belongs. Its strides follow from
 * these, both for x as it is and for a contiguous x. */
typedef struct plan {
    tg_shape shape;
    int axis[TG_MAX_RANK];      /* of x; -1: a new axis, with stride 0 */
    int64_t step[TG_MAX_RANK];  /* between indices on that axis; 0: one index is repeated */
    int64_t start[TG_MAX_RANK]; /* the first index on each axis of x */
} plan;

typedef struct view_attributes {
    view gradient; /* first, because backward reads the attributes as a view */
    tg_shape shape;
    int64_t strides[TG_MAX_RANK];
    int64_t offset;
} view_attributes;

static bool view_shape(tg_op_call *call)
{
    const view_attributes *a = call->attributes;
    return tg_op_output_view(call, 0, 0, a->shape, a->strides, a->offset);
}

static bool view_gradient_shape(tg_op_call *call)
{
    const view_attributes *a = call->attributes;
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), a->shape);
}

static void differentiate_view_gradient(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx);

/* The attributes are those of the view, with the shape of x. */
static const tg_op view_gradient_op = {.name = "view_gradient",
                                       .shape = view_gradient_shape,
                                       TG_KERNELS(tg_view_gradient, tg_view_gradient_backward),
                                       TG_IGNORES_VALUES,
                                       .can_overwrite = true,
                                       .differentiate = differentiate_view_gradient};

static void differentiate_view(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    view_attributes a = *(const view_attributes *)call->attributes;
    a.shape = tg_shape_of(call->inputs[0]);
    dx[0] = tg_apply(t, &view_gradient_op, dy, 1, &a, sizeof a, NULL);
}

#define VIEW_OP(op_name)                                                                                               \
    {                                                                                                                  \
        .name = op_name, .shape = view_shape, .input_names = {"x"}, TG_KERNELS(TG_NO_KERNEL, tg_view_backward),        \
        .accepts_layout = tg_any_layout, TG_IGNORES_VALUES, .can_overwrite = true, .differentiate = differentiate_view \
    }

static const tg_op transpose_op = VIEW_OP("transpose"), permute_op = VIEW_OP("permute"), flip_op = VIEW_OP("flip"),
                   slice_op = VIEW_OP("slice"), select_op = VIEW_OP("select"), expand_op = VIEW_OP("expand"),
                   unsqueeze_op = VIEW_OP("unsqueeze"), squeeze_op = VIEW_OP("squeeze"),
                   reshape_op = VIEW_OP("reshape"), same_view_op = VIEW_OP("view");

static void differentiate_view_gradient(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const view_attributes *of_x = call->attributes;
    tg_tensor *ddx = tg_contiguous(t, dy[0]);
    view_attributes a = {
        .gradient = of_x->gradient, .shape = tg_shape_of(call->inputs[0]), .offset = of_x->gradient.offset};
    memcpy(a.strides, of_x->gradient.strides, sizeof a.strides);
    dx[0] = tg_apply(t, &same_view_op, &ddx, 1, &a, sizeof a, NULL);
}

/* Returns the plan of x itself. */
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
    return tg_apply(t, op, &x, 1, &a, sizeof a, NULL);
}

/* tg_tape_expect_axis, except that a scalar has no axis. */
static bool expect_axis(tg_tape *t, const char *call, const tg_tensor *x, int *axis)
{
    return tg_tape_expect_axis(t, call, x, axis) &&
           (x->rank > 0 || tg_tape_fail(t, TG_ERROR_RANGE, call, "axis %d of a scalar; a scalar has no axes", *axis));
}

tg_tensor *tg_transpose(tg_tape *t, tg_tensor *x, int axis, int other)
{
    if (!expect_axis(t, "transpose", x, &axis) || !expect_axis(t, "transpose", x, &other)) {
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
    if (!tg_tape_expect_input(t, "permute", "x", x) || !tg_expect_list(t, "permute", axes)) {
        return NULL;
    }
    if (axes.count != x->rank) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "permute", "%d axes for rank %d; every axis must be listed once", axes.count,
                     x->rank);
        return NULL;
    }
    plan p = plan_of(x);
    unsigned seen = 0;
    for (int i = 0; i < axes.count; i++) {
        int axis = axes.axis[i];
        if (!expect_axis(t, "permute", x, &axis)) {
            return NULL;
        }
        if (seen >> axis & 1) {
            tg_tape_fail(t, TG_ERROR_RANGE, "permute", "axis %d is listed twice", axis);
            return NULL;
        }
        seen |= 1u << axis;
        p.axis[i] = axis;
        p.shape.size[i] = x->shape[axis];
    }
    return apply_plan(t, &permute_op, x, &p);
}

/* Returns a bound of a slice by Python's rule: a negative one counts from the end, and all are clipped to the axis. */
static int64_t bound(int64_t at, int64_t size)
{
    at = at < 0 ? at + size : at;
    return at < 0 ? 0 : at > size ? size : at;
}

tg_tensor *tg_slice(tg_tape *t, tg_tensor *x, int axis, int64_t begin, int64_t end, int64_t step)
{
    if (!expect_axis(t, "slice", x, &axis)) {
        return NULL;
    }
    if (step < 1) {
        tg_tape_fail(t, TG_ERROR_VALUE, "slice", "step %lld; it must be at least 1", (long long)step);
        return NULL;
    }
    plan p = plan_of(x);
    begin = bound(begin, x->shape[axis]);
    end = bound(end, x->shape[axis]);
    p.shape.size[axis] = end > begin ? (end - begin - 1) / step + 1 : 0;
    p.start[axis] = p.shape.size[axis] > 0 ? begin : 0;
    /* A step that is never taken may be so large that the stride overflows. */
    p.step[axis] = p.shape.size[axis] > 1 ? step : 1;
    return apply_plan(t, &slice_op, x, &p);
}

tg_tensor *tg_flip(tg_tape *t, tg_tensor *x, tg_axes axes)
{
    if (!tg_tape_expect_input(t, "flip", "x", x) || !tg_expect_axes(t, "flip", axes)) {
        return NULL;
    }
    plan p = plan_of(x);
    int count = axes.count < 0 ? x->rank : axes.count;
    for (int i = 0; i < count; i++) {
        int axis = axes.count < 0 ? i : axes.axis[i];
        if (!expect_axis(t, "flip", x, &axis)) {
            return NULL;
        }
        if (p.step[axis] < 0) {
            tg_tape_fail(t, TG_ERROR_RANGE, "flip", "axis %d is listed twice", axis);
            return NULL;
        }
        p.step[axis] = -1;
        p.start[axis] = x->shape[axis] > 0 ? x->shape[axis] - 1 : 0;
    }
    return apply_plan(t, &flip_op, x, &p);
}

/* Returns whether an axis of this size has to be repeated. */
static bool is_repeated(const tg_shape *times, const tg_shape *shape, int axis)
{
    return times->size[axis] != 1 && shape->size[axis] != 0;
}

/* The repetitions are views until the reshape, which copies them. */
tg_tensor *tg_repeat(tg_tape *t, tg_tensor *x, tg_shape times)
{
    if (!tg_tape_expect_input(t, "repeat", "x", x)) {
        return NULL;
    }
    bool fits = times.rank >= x->rank && times.rank <= TG_MAX_RANK;
    tg_shape spread = {.rank = times.rank}, result = {.rank = times.rank};
    for (int i = 0; fits && i < times.rank; i++) {
        int axis = i - (times.rank - x->rank);
        spread.size[i] = axis < 0 ? 1 : x->shape[axis];
        fits = times.size[i] >= 0 && !__builtin_mul_overflow(spread.size[i], times.size[i], &result.size[i]);
    }
    if (!fits) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "repeat",
                     "%s times a shape %s; it must have one count, 0 or more, for each axis, and at most %d",
                     tg_shape_text(times).text, tg_shape_text_of(x).text, TG_MAX_RANK);
        return NULL;
    }
    size_t bytes;
    if (!tg_shape_bytes("repeat", tg_dtype_of(x), &result, &bytes, t->error)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    /* Three axes at once, the last ones first: (..,n,m) -> (..,1,n,1,m) -> (..,times,n,times,m), with the axes that are
     * not repeated now merged into those before them. */
    tg_tensor *y = x;
    for (int first = times.rank, last = times.rank - 1; last >= 0 && y; last = first - 1) {
        tg_shape one = {1, {1}}, many = {1, {1}};
        for (int repeated = 0; first > 0 && repeated < 3; repeated += is_repeated(&times, &spread, first)) {
            first--;
        }
        for (int i = 0; i < times.rank; i++) {
            if (i >= first && i <= last && is_repeated(&times, &spread, i)) {
                many.size[many.rank++] = times.size[i];
                one.size[one.rank++] = 1;
                one.size[one.rank++] = many.size[many.rank++] = 1;
            }
            int64_t *into = &one.size[one.rank - 1], size = i > last ? result.size[i] : spread.size[i];
            fits = fits && !__builtin_mul_overflow(*into, size, into);
            many.size[many.rank - 1] = *into;
        }
        if (!fits) {
            tg_tape_fail(t, TG_ERROR_SHAPE, "repeat", "%s times a shape %s: the sizes do not fit into 64 bits",
                         tg_shape_text(times).text, tg_shape_text_of(x).text);
            break;
        }
        y = one.rank > 1 ? tg_expand(t, tg_reshape(t, y, one), many) : y;
    }
    return tg_tape_end(t, &point, tg_reshape(t, y, result));
}

tg_tensor *tg_select(tg_tape *t, tg_tensor *x, int axis, int64_t index)
{
    if (!expect_axis(t, "select", x, &axis)) {
        return NULL;
    }
    int64_t size = x->shape[axis];
    if (index < -size || index >= size) {
        tg_tape_fail(t, TG_ERROR_RANGE, "select", "index %lld is outside [%lld,%lld), axis %d", (long long)index,
                     (long long)-size, (long long)size, axis);
        return NULL;
    }
    plan p = plan_of(x);
    p.start[axis] = index < 0 ? index + size : index;
    drop_axis(&p, axis);
    return apply_plan(t, &select_op, x, &p);
}

tg_tensor *tg_expand(tg_tape *t, tg_tensor *x, tg_shape shape)
{
    if (!tg_tape_expect_input(t, "expand", "x", x)) {
        return NULL;
    }
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
        tg_tape_fail(t, TG_ERROR_SHAPE, "expand",
                     "shape %s to %s; only axes of size 1 can get another size, and new axes come first",
                     tg_shape_text_of(x).text, tg_shape_text(shape).text);
        return NULL;
    }
    return apply_plan(t, &expand_op, x, &p);
}

tg_tensor *tg_unsqueeze(tg_tape *t, tg_tensor *x, int axis)
{
    if (!tg_tape_expect_input(t, "unsqueeze", "x", x)) {
        return NULL;
    }
    int asked = axis;
    if (!tg_axis_normalize(x->rank + 1, &axis) || x->rank == TG_MAX_RANK) {
        tg_tape_fail(t, TG_ERROR_RANGE, "unsqueeze",
                     "axis %d for rank %d; it must be in [%d,%d], and the result may have at most %d axes", asked,
                     x->rank, -x->rank - 1, x->rank, TG_MAX_RANK);
        return NULL;
    }
    plan p = plan_of(x);
    insert_axis(&p, axis);
    return apply_plan(t, &unsqueeze_op, x, &p);
}

tg_tensor *tg_squeeze(tg_tape *t, tg_tensor *x, int axis)
{
    if (!expect_axis(t, "squeeze", x, &axis)) {
        return NULL;
    }
    if (x->shape[axis] != 1) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "squeeze", "axis %d has size %lld; it must be 1", axis,
                     (long long)x->shape[axis]);
        return NULL;
    }
    plan p = plan_of(x);
    drop_axis(&p, axis);
    return apply_plan(t, &squeeze_op, x, &p);
}

/* Replaces a size of -1. False if the shape cannot have `count` values. */
static bool complete_shape(tg_shape *shape, int64_t count)
{
    int open = -1;
    for (int i = 0; i < shape->rank && open < 0; i++) {
        open = shape->size[i] == -1 ? i : -1;
    }
    if (open >= 0) {
        shape->size[open] = 1;
        int64_t known = tg_shape_count(*shape);
        if (known <= 0 || count % known != 0) {
            return false;
        }
        shape->size[open] = count / known;
    }
    return tg_shape_count(*shape) == count;
}

tg_tensor *tg_reshape(tg_tape *t, tg_tensor *x, tg_shape shape)
{
    if (!tg_tape_expect_input(t, "reshape", "x", x)) {
        return NULL;
    }
    view_attributes a = {.shape = shape};
    if (shape.rank < 0 || shape.rank > TG_MAX_RANK || !complete_shape(&a.shape, x->count)) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "reshape", "shape %s to %s; both must have %lld values, and one size may be -1",
                     tg_shape_text_of(x).text, tg_shape_text(shape).text, (long long)x->count);
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    const tg_walk walk = tg_walk_of(x);
    const bool is_run = walk.rank == 1 && tg_walk_stride(&walk) > 0; /* its values are equally far apart */
    tg_tensor *base = is_run ? x : tg_contiguous(t, x);
    tg_contiguous_strides(&a.shape, a.gradient.strides);
    for (int i = 0; i < a.shape.rank; i++) {
        a.strides[i] = a.gradient.strides[i] * (is_run ? tg_walk_stride(&walk) : 1);
    }
    return tg_tape_end(t, &point, base ? tg_apply(t, &reshape_op, &base, 1, &a, sizeof a, NULL) : NULL);
}

int64_t tg_split(tg_tape *t, tg_tensor *x, int64_t size, int axis, tg_tensor **parts, int64_t capacity)
{
    if (!expect_axis(t, "split", x, &axis)) {
        return 0;
    }
    if (size < 1) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "split", "parts of size %lld; it must be at least 1", (long long)size);
    }
    int64_t total = x->shape[axis], count = total == 0 ? 1 : (total - 1) / size + 1;
    if (!parts || count > capacity) {
        return tg_tape_fail(t, parts ? TG_ERROR_RANGE : TG_ERROR_STATE, "split", "%lld parts for an array %s %lld",
                            (long long)count, parts ? "with a capacity of" : "that is NULL; the capacity is",
                            (long long)capacity);
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    for (int64_t i = 0; i < count; i++) {
        int64_t begin = i * size;
        if (!tg_slice(t, x, axis, begin, size > total - begin ? total : begin + size, 1)) {
            tg_tape_end(t, &point, NULL);
            return 0;
        }
    }
    /* The array is written now, because a failed call changes nothing. A slice is one result. */
    for (int64_t i = 0; i < count; i++) {
        parts[i] = t->results[point.results + (size_t)i].tensor;
    }
    return count;
}

#endif
