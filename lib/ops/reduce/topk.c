/* topk and sort: the k largest or smallest values along an axis, or all values, in order, and their indices.
 *
 *   forward     y[.., i] = x[.., index[.., i]]
 *   gradient    dx[.., index[.., i]] += dy[.., i]
 *
 * Order: larger values first, and NaN before all numbers; for the smallest values the reverse. The smaller index comes
 * first on a tie. (PyTorch's topk leaves the order of ties open; its stable sort has this one.) The values along the
 * axis are a line; neighboring lines are copied side by side, a vector of each at a time, sorted (sort.h), and copied
 * back. Threads divide the groups of lines. The indices are a second output, i32, without a gradient; backward reads
 * them. Follows torch.topk with sorted=True, and torch.sort with stable=True.
 */
#include "ops/reduce/sort.h"

typedef struct topk_attributes {
    int64_t k;
    int axis, threads;
    bool largest;
} topk_attributes;

TG_DECLARE_KERNELS(tg_topk_forward, tg_topk_backward);

/* The lines of a call. */
typedef struct topk_lines {
    axis_split x;
    int64_t k;
    int64_t width, groups; /* of an outer index: the lines of a group, of which the last one has fewer, and groups */
    int64_t parts;         /* of all groups, which have scratch memory of their own */
} topk_lines;

/* Returns the lines of an input with values of `size` bytes, which is not empty. */
static inline topk_lines lines_of(const tg_op_call *call, size_t size)
{
    const topk_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    topk_lines n = {.x = split_at_axis(x, a->axis), .k = a->k};
    int64_t most = SORT_ROW_BYTES / (int64_t)size, busy = 1 + x->count / (TG_GRAIN / 4);
    n.width = n.x.inner < most ? n.x.inner : most;
    n.groups = (n.x.inner - 1) / n.width + 1;
    n.parts = n.x.outer * n.groups < a->threads ? n.x.outer * n.groups : a->threads;
    n.parts = n.parts < busy ? n.parts : busy;
    return n;
}

/* Returns the scratch memory of a part: two buffers of entries and, if lines are not contiguous, a copy of them and
 * their positions. */
static inline int64_t part_bytes(const topk_lines *n, size_t size)
{
    int64_t entries = 2 * sort_capacity(n->x.size, n->k), entry = 2 * (int64_t)size;
    int64_t copied = n->width * n->x.size * (int64_t)size, positions = (n->width * n->k + 1) / 2 * 8;
    return entries * entry + (n->x.inner > 1 ? copied + positions : 0);
}

typedef struct topk_loop {
    const tg_op_call *call;
    topk_lines n;
} topk_loop;

/* A group: the positions of its first value in x and in y, and its lines. */
typedef struct topk_group {
    int64_t x, y, lines;
} topk_group;

static topk_group group_at(const topk_lines *n, int64_t group)
{
    int64_t outer = group / n->groups, column = group % n->groups * n->width, rest = n->x.inner - column;
    return (topk_group){outer * n->x.size * n->x.inner + column, outer * n->k * n->x.inner + column,
                        rest < n->width ? rest : n->width};
}

/* Writes the values and the indices of a group, `lines` side by side, from those of each line. */
static inline void write_rows(const topk_lines *n, const real *x, const int32_t *positions, int64_t lines, real *y,
                              int32_t *index)
{
    for (int64_t i = 0; i < n->k; i++) {
        for (int64_t c = 0; c < lines; c++) {
            int32_t position = positions[c * n->k + i];
            index[i * n->x.inner + c] = position;
            y[i * n->x.inner + c] = x[c * n->x.size + position];
        }
    }
}

static void sort_group(const topk_loop *loop, topk_group g, void *scratch)
{
    const topk_lines *n = &loop->n;
    const int64_t size = n->x.size, inner = n->x.inner, k = n->k, capacity = sort_capacity(size, k);
    const sort_key order = ((const topk_attributes *)loop->call->attributes)->largest ? ~(sort_key)0 : 0;
    const real *x = (const real *)tg_values(loop->call->inputs[0]) + g.x;
    real *y = (real *)tg_values(loop->call->outputs[0]) + g.y;
    int32_t *index = (int32_t *)tg_values(loop->call->outputs[1]) + g.y;
    sort_entry *entries = scratch;
    real *copy = (real *)(entries + 2 * capacity);
    int32_t *positions = inner > 1 ? (int32_t *)(copy + n->width * size) : index;
    for (int64_t i = 0; inner > 1 && i < size; i++) {
        for (int64_t c = 0; c < g.lines; c++) {
            copy[c * size + i] = x[i * inner + c];
        }
    }
    for (int64_t c = 0; c < g.lines; c++) {
        const real *line = inner > 1 ? copy + c * size : x;
        const sort_entry *first = sort_line(line, size, k, order, entries, entries + capacity);
        for (int64_t i = 0; i < k; i++) {
            positions[c * k + i] = first[i].index;
        }
    }
    write_rows(n, inner > 1 ? copy : x, positions, g.lines, y, index);
}

static void sort_parts(void *context, int64_t begin, int64_t end)
{
    const topk_loop *loop = context;
    const topk_lines *n = &loop->n;
    const int64_t groups = n->x.outer * n->groups;
    for (int64_t group = begin * groups / n->parts; group < end * groups / n->parts; group++) {
        sort_group(loop, group_at(n, group), (char *)loop->call->scratch + begin * part_bytes(n, sizeof(real)));
    }
}

void KERNEL(tg_topk_forward)(const tg_op_call *call)
{
    topk_loop loop = {call, lines_of(call, sizeof(real))};
    tg_parallel_for(loop.n.parts, 1, sort_parts, &loop);
}

/* In the forward pass y[i] was x[index[i]]. */
static void spread_groups(void *context, int64_t begin, int64_t end)
{
    const topk_loop *loop = context;
    const topk_lines *n = &loop->n;
    const int64_t inner = n->x.inner, zeroed = writes_gradient(loop->call, 0) ? n->x.size : 0;
    for (int64_t group = begin; group < end; group++) {
        const topk_group g = group_at(n, group);
        real *dx = (real *)loop->call->input_gradients[0] + g.x;
        const real *dy = (const real *)loop->call->output_gradients[0] + g.y;
        const int32_t *index = (const int32_t *)tg_values(loop->call->outputs[1]) + g.y;
        for (int64_t i = 0; i < zeroed; i++) {
            for (int64_t c = 0; c < g.lines; c++) {
                dx[i * inner + c] = 0;
            }
        }
        for (int64_t i = 0; i < n->k; i++) {
            for (int64_t c = 0; c < g.lines; c++) {
                dx[index[i * inner + c] * inner + c] += dy[i * inner + c];
            }
        }
    }
}

void KERNEL(tg_topk_backward)(const tg_op_call *call)
{
    topk_loop loop = {call, lines_of(call, sizeof(real))};
    tg_parallel_for(loop.n.x.outer * loop.n.groups, 1 + TG_GRAIN / 4 / (loop.n.width * loop.n.x.size), spread_groups,
                    &loop);
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_topk(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0];
    const int axis = ((const topk_attributes *)call->attributes)->axis;
    dx[0] = x->rank == 0 ? dy[0] : tg_scatter_add(t, tg_zeros_like(t, x), axis, call->outputs[1], dy[0]);
}

/* ---- the ops ---- */

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
    if (attributes->k < 0 || attributes->k > size) {
        return tg_op_fail(call, TG_ERROR_RANGE, "k %lld is outside [0,%lld], the size of axis %d",
                          (long long)attributes->k, (long long)size, attributes->axis);
    }
    if (shape.rank > 0) {
        shape.size[attributes->axis] = attributes->k;
    }
    if (!tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape) || !tg_op_output(call, 1, TG_I32, shape)) {
        return false;
    }
    if (tg_shape_count(shape) == 0) {
        return true;
    }
    size_t value = tg_size_of(call->inputs[0]->dtype);
    topk_lines n = lines_of(call, value);
    return tg_op_scratch(call, n.parts, (size_t)part_bytes(&n, value));
}

static const tg_op topk_op = {
    .name = "topk",
    .shape = topk_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_topk_forward, tg_topk_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = 1u << 0,
    .can_overwrite = true,
    .differentiate = differentiate_topk,
};

static const tg_op sort_op = {
    .name = "sort",
    .shape = topk_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_topk_forward, tg_topk_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = 1u << 0,
    .can_overwrite = true,
    .differentiate = differentiate_topk,
};

/* Keeps all values of a line for `all`, else k; as in torch, a scalar gives its value for a k of 0, too. */
static tg_tensor *apply(tg_tape *t, const tg_op *op, tg_tensor *x, int64_t k, bool all, int axis, tg_order order,
                        tg_tensor **indices)
{
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS] = {NULL};
    if (tg_tape_expect_axis(t, op->name, x, &axis)) {
        k = x->rank == 0 ? (all || k == 0 ? 1 : k) : all ? x->shape[axis] : k;
        topk_attributes attributes = {k, axis, tg_threads(), order == TG_LARGEST_FIRST};
        tg_apply(t, op, &x, 1, &attributes, sizeof attributes, outputs);
    }
    if (indices) {
        *indices = outputs[1];
    }
    return outputs[0];
}

tg_tensor *tg_topk(tg_tape *t, tg_tensor *x, int64_t k, int axis, tg_order order, tg_tensor **indices)
{
    return apply(t, &topk_op, x, k, false, axis, order, indices);
}

tg_tensor *tg_sort(tg_tape *t, tg_tensor *x, int axis, tg_order order, tg_tensor **indices)
{
    return apply(t, &sort_op, x, 0, true, axis, order, indices);
}

#endif
