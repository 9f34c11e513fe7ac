/* topk and sort: the k largest or smallest values along an axis, or all values, in order, and their indices.
 *
 *   forward     y[.., i] = x[.., index[.., i]]
 *   gradient    dx[.., index[.., i]] += dy[.., i]
 *
 * Order: larger values first, and NaN before all numbers; for the smallest values the reverse. The smaller index comes
 * first on a tie. (PyTorch's topk leaves the order of ties open; its stable sort has this one.) Selection keeps the
 * best k values in a heap with the worst of them on top: O(n log k) per line. A line is merge sorted if all its values
 * are needed. The indices are a second output, i32, without a gradient; backward reads them. Follows torch.topk with
 * sorted=True, and torch.sort with stable=True.
 */
#include "ops/kernel.h"

typedef struct topk_attributes {
    int64_t k;
    int axis;
    bool largest;
    bool all; /* k is the size of the axis */
} topk_attributes;

TG_DECLARE_KERNEL(tg_topk_forward);
TG_DECLARE_KERNEL(tg_topk_backward);

/* The axis of x, and of y and its indices, which have k values along it. */
typedef struct topk_lines {
    axis_split x, y;
    int64_t count, k; /* count: the number of lines */
    bool largest;
} topk_lines;

/* The values of a line, which are `stride` apart, and their order. */
typedef struct line {
    const real *x;
    int64_t stride;
    bool largest;
} line;

/* Returns how many values of a line the result has. As in torch, a scalar gives its value for a k of 0, too. */
static int64_t kept_values(const topk_attributes *attributes, int rank, int64_t size)
{
    return attributes->all || rank == 0 ? size : attributes->k;
}

static topk_lines lines_of(const tg_op_call *call)
{
    const topk_attributes *attributes = call->attributes;
    const tg_tensor *x = call->inputs[0];
    axis_split split = split_at_axis(x, attributes->axis);
    int64_t k = kept_values(attributes, x->rank, split.size);
    return (topk_lines){split, {split.outer, k, split.inner}, split.outer * split.inner, k, attributes->largest};
}

/* Returns whether index a comes before index b in the result. */
static bool before(const line *l, int32_t a, int32_t b)
{
    real x_a = l->x[a * l->stride], x_b = l->x[b * l->stride];
    bool nan_a = x_a != x_a, nan_b = x_b != x_b;
    if (nan_a != nan_b) {
        return nan_a == l->largest;
    }
    return nan_a || x_a == x_b ? a < b : (x_a > x_b) == l->largest;
}

/* Restores the heap below `at`. A parent comes after its children in the result, so the top comes last of all. */
static void sift_down(const line *l, int32_t *heap, int64_t at, int64_t n)
{
    for (;;) {
        int64_t last = at, child = 2 * at + 1;
        if (child < n && before(l, heap[last], heap[child])) {
            last = child;
        }
        if (child + 1 < n && before(l, heap[last], heap[child + 1])) {
            last = child + 1;
        }
        if (last == at) {
            return;
        }
        int32_t swapped = heap[at];
        heap[at] = heap[last];
        heap[last] = swapped;
        at = last;
    }
}

/* Merge sorts the indices of a line of n values. Returns the sorted array: `index` or `other`. */
static int32_t *sort_line(const line *l, int64_t n, int32_t *index, int32_t *other)
{
    for (int64_t i = 0; i < n; i++) {
        index[i] = (int32_t)i;
    }
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
            int64_t a = begin, b = middle;
            for (int64_t at = begin; at < end; at++) {
                bool from_a = b == end || (a < middle && before(l, index[a], index[b]));
                other[at] = from_a ? index[a++] : index[b++];
            }
        }
        int32_t *swapped = index;
        index = other;
        other = swapped;
    }
    return index;
}

static void select_line(const line *l, int64_t size, int32_t *heap, int64_t k)
{
    for (int64_t i = 0; i < k; i++) {
        heap[i] = (int32_t)i;
    }
    for (int64_t i = k / 2 - 1; i >= 0; i--) {
        sift_down(l, heap, i, k);
    }
    for (int64_t i = k; i < size; i++) {
        if (before(l, (int32_t)i, heap[0])) {
            heap[0] = (int32_t)i;
            sift_down(l, heap, 0, k);
        }
    }
    /* Heap sort: the top comes last of the remaining entries, and moves behind them. */
    for (int64_t n = k - 1; n > 0; n--) {
        int32_t last = heap[0];
        heap[0] = heap[n];
        heap[n] = last;
        sift_down(l, heap, 0, n);
    }
}

void KERNEL(tg_topk_forward)(const tg_op_call *call)
{
    topk_lines n = lines_of(call);
    int64_t size = n.x.size, stride = n.x.inner;
    for (int64_t number = 0; n.k > 0 && number < n.count; number++) {
        const real *x = tg_values(call->inputs[0]);
        line l = {x + line_offset(&n.x, number), stride, n.largest};
        int64_t start = line_offset(&n.y, number);
        real *y = (real *)tg_values(call->outputs[0]) + start;
        int32_t *index = (int32_t *)tg_values(call->outputs[1]) + start;
        int32_t *selected = call->scratch;
        if (n.k == size) {
            selected = sort_line(&l, size, selected, selected + size);
        } else {
            select_line(&l, size, selected, n.k);
        }
        for (int64_t i = 0; i < n.k; i++) {
            y[i * stride] = l.x[selected[i] * stride];
            index[i * stride] = selected[i];
        }
    }
}

void KERNEL(tg_topk_backward)(const tg_op_call *call)
{
    topk_lines n = lines_of(call);
    int64_t stride = n.x.inner;
    for (int64_t number = 0; number < n.count; number++) {
        real *dx = (real *)call->input_gradients[0] + line_offset(&n.x, number);
        int64_t start = line_offset(&n.y, number);
        const real *dy = (const real *)call->output_gradients[0] + start;
        const int32_t *index = (const int32_t *)tg_values(call->outputs[1]) + start;
        for (int64_t i = 0; i < n.k; i++) {
            dx[index[i * stride] * stride] += dy[i * stride];
        }
    }
}

#ifdef TG_ONCE

static bool topk_shape(tg_op_call *call)
{
    const topk_attributes *attributes = call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    int64_t size = shape.rank == 0 ? 1 : shape.size[attributes->axis];
    if (size > INT32_MAX) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "axis %d has %lld values; indices are i32, so it must have at most %d",
                          attributes->axis, (long long)size, INT32_MAX);
    }
    if (!attributes->all && (attributes->k < 0 || attributes->k > size)) {
        return tg_op_fail(call, TG_ERROR_RANGE, "k %lld is outside [0,%lld], the size of axis %d",
                          (long long)attributes->k, (long long)size, attributes->axis);
    }
    int64_t k = kept_values(attributes, shape.rank, size);
    if (shape.rank > 0) {
        shape.size[attributes->axis] = k;
    }
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape) && tg_op_output(call, 1, TG_I32, shape) &&
           tg_op_scratch(call, k, 2 * sizeof(int32_t));
}

static const tg_op topk_op = {
    .name = "topk",
    .shape = topk_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_topk_forward, tg_topk_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = 1u << 0,
};

static const tg_op sort_op = {
    .name = "sort",
    .shape = topk_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_topk_forward, tg_topk_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = 1u << 0,
};

static tg_tensor *apply(tg_tape *t, const tg_op *op, tg_tensor *x, topk_attributes attributes, tg_tensor **indices)
{
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS] = {NULL};
    if (tg_tape_expect_axis(t, op->name, x, &attributes.axis)) {
        tg_apply(t, op, &x, 1, &attributes, sizeof attributes, outputs);
    }
    if (indices) {
        *indices = outputs[1];
    }
    return outputs[0];
}

tg_tensor *tg_topk(tg_tape *t, tg_tensor *x, int64_t k, int axis, tg_order order, tg_tensor **indices)
{
    return apply(t, &topk_op, x, (topk_attributes){k, axis, order == TG_LARGEST_FIRST, false}, indices);
}

tg_tensor *tg_sort(tg_tape *t, tg_tensor *x, int axis, tg_order order, tg_tensor **indices)
{
    return apply(t, &sort_op, x, (topk_attributes){0, axis, order == TG_LARGEST_FIRST, true}, indices);
}

#endif
