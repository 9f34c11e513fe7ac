/* topk: the k largest values along an axis, largest first, and their indices.
 *
 *   forward     y[.., i] = x[.., index[.., i]]
 *   gradient    dx[.., index[.., i]] += dy[.., i]
 *
 * Order: larger values first, NaN before all numbers, the smaller index first on a tie. (PyTorch leaves the order of
 * ties open.) Selection keeps the best k values in a heap with the worst of them on top: O(n log k) per line. The
 * indices are a second output, i32, without a gradient; backward reads them. Follows torch.topk with largest=True,
 * sorted=True.
 */
#include "ops/kernel.h"

typedef struct topk_attributes {
    int64_t k;
    int axis;
} topk_attributes;

TG_DECLARE_KERNEL(tg_topk_forward);
TG_DECLARE_KERNEL(tg_topk_backward);

/* x is (outer, size, inner), y and its indices are (outer, k, inner). */
typedef struct topk_lines {
    int64_t outer, size, inner, k;
} topk_lines;

static topk_lines lines_of(const tg_op_call *call)
{
    const topk_attributes *attributes = call->attributes;
    const tg_tensor *x = call->inputs[0];
    topk_lines lines = {1, 1, 1, attributes->k};
    for (int i = 0; i < x->rank; i++) {
        *(i < attributes->axis ? &lines.outer : i == attributes->axis ? &lines.size : &lines.inner) *= x->shape[i];
    }
    return lines;
}

/* Returns whether index a comes before index b in the result. */
static bool before(const real *x, int64_t stride, int32_t a, int32_t b)
{
    real x_a = x[a * stride], x_b = x[b * stride];
    bool nan_a = x_a != x_a, nan_b = x_b != x_b;
    if (nan_a != nan_b) {
        return nan_a;
    }
    return nan_a || x_a == x_b ? a < b : x_a > x_b;
}

/* Restores the heap below `at`. A parent comes after its children in the result, so the top comes last of all. */
static void sift_down(const real *x, int64_t stride, int32_t *heap, int64_t at, int64_t n)
{
    for (;;) {
        int64_t last = at, child = 2 * at + 1;
        if (child < n && before(x, stride, heap[last], heap[child])) {
            last = child;
        }
        if (child + 1 < n && before(x, stride, heap[last], heap[child + 1])) {
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

static void select_line(const real *x, int64_t stride, int64_t size, int32_t *heap, int64_t k)
{
    for (int64_t i = 0; i < k; i++) {
        heap[i] = (int32_t)i;
    }
    for (int64_t i = k / 2 - 1; i >= 0; i--) {
        sift_down(x, stride, heap, i, k);
    }
    for (int64_t i = k; i < size; i++) {
        if (before(x, stride, (int32_t)i, heap[0])) {
            heap[0] = (int32_t)i;
            sift_down(x, stride, heap, 0, k);
        }
    }
    /* Heap sort: the top comes last of the remaining entries, and moves behind them. */
    for (int64_t n = k - 1; n > 0; n--) {
        int32_t last = heap[0];
        heap[0] = heap[n];
        heap[n] = last;
        sift_down(x, stride, heap, 0, n);
    }
}

void KERNEL(tg_topk_forward)(const tg_op_call *call)
{
    topk_lines n = lines_of(call);
    int32_t *heap = call->scratch;
    for (int64_t line = 0; n.k > 0 && line < n.outer * n.inner; line++) {
        const real *x = (const real *)tg_values(call->inputs[0]) + line / n.inner * n.size * n.inner + line % n.inner;
        int64_t start = line / n.inner * n.k * n.inner + line % n.inner;
        real *y = (real *)tg_values(call->outputs[0]) + start;
        int32_t *index = (int32_t *)tg_values(call->outputs[1]) + start;
        select_line(x, n.inner, n.size, heap, n.k);
        for (int64_t i = 0; i < n.k; i++) {
            y[i * n.inner] = x[heap[i] * n.inner];
            index[i * n.inner] = heap[i];
        }
    }
}

void KERNEL(tg_topk_backward)(const tg_op_call *call)
{
    topk_lines n = lines_of(call);
    for (int64_t line = 0; line < n.outer * n.inner; line++) {
        real *dx = (real *)call->input_gradients[0] + line / n.inner * n.size * n.inner + line % n.inner;
        int64_t start = line / n.inner * n.k * n.inner + line % n.inner;
        const real *dy = (const real *)call->output_gradients[0] + start;
        const int32_t *index = (const int32_t *)tg_values(call->outputs[1]) + start;
        for (int64_t i = 0; i < n.k; i++) {
            dx[index[i * n.inner] * n.inner] += dy[i * n.inner];
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
        return tg_op_fail(call, TG_ERROR_SHAPE, "axis %d has %lld values; indices are i32, so at most %d are allowed",
                          attributes->axis, (long long)size, INT32_MAX);
    }
    if (attributes->k < 0 || attributes->k > size) {
        return tg_op_fail(call, TG_ERROR_RANGE, "k %lld is outside [0,%lld], the size of axis %d",
                          (long long)attributes->k, (long long)size, attributes->axis);
    }
    if (shape.rank > 0) {
        shape.size[attributes->axis] = attributes->k;
    }
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape) && tg_op_output(call, 1, TG_I32, shape) &&
           tg_op_scratch(call, attributes->k, sizeof(int32_t));
}

static const tg_op topk_op = {
    .name = "topk",
    .shape = topk_shape,
    TG_KERNELS(tg_topk_forward, tg_topk_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = 1u << 0,
};

tg_tensor *tg_topk(tg_tape *t, tg_tensor *x, int64_t k, int axis, tg_tensor **indices)
{
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS] = {NULL};
    if (tg_tape_expect_axis(t, "topk", x, &axis)) {
        topk_attributes attributes = {k, axis};
        tg_apply(t, &topk_op, &x, 1, &attributes, sizeof attributes, outputs);
    }
    if (indices) {
        *indices = outputs[1];
    }
    return outputs[0];
}

#endif
