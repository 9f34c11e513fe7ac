/* scatter_add and index_add: values added to a copy of x, at ids along an axis.
 *
 *   scatter_add   y = x, then y[i, ids[i,j,k], k] += s[i,j,k]        ds[i,j,k] += dy[i, ids[i,j,k], k]      for axis 1
 * of 3
 *   index_add     y = x, then y[i, ids[j], k] += s[i,j,k]            ds[i,j,k] += dy[i, ids[j], k]
 *   both                                                             dx += dy
 *
 * Ids that repeat add up, in order. They are gather and index_select with forward and backward exchanged. Follows
 * torch.scatter_add and torch.index_add.
 */
#include "ops/shape/slices.h"

TG_DECLARE_KERNEL(tg_scatter_add_forward);
TG_DECLARE_KERNEL(tg_scatter_add_backward);
TG_DECLARE_KERNEL(tg_index_add_forward);
TG_DECLARE_KERNEL(tg_index_add_backward);

static void add_all(real *to, const real *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

/* Copies x to y. */
static void copy_input(const tg_op_call *call)
{
    memcpy(tg_values(call->outputs[0]), tg_values(call->inputs[0]), tg_bytes_of(call->outputs[0]));
}

/* Adds dy to dx. */
static void input_gradient(const tg_op_call *call)
{
    if (call->input_gradients[0]) {
        add_all(call->input_gradients[0], call->output_gradients[0], call->outputs[0]->count);
    }
}

/* Returns the flat index in y for the id at the flat index `at`, and writes the flat index in the source. All are
 * contiguous; the source may be larger than the ids. */
static int64_t target_of(const tg_op_call *call, int64_t at, int64_t *in_source)
{
    const tg_tensor *ids = call->inputs[1], *source = call->inputs[2], *y = call->outputs[0];
    int axis = *(const int *)call->attributes;
    int64_t target = 0, stride = 1, source_stride = 1, left = at;
    *in_source = 0;
    for (int i = ids->rank - 1; i >= 0; i--) {
        int64_t index = left % ids->shape[i];
        target += (i == axis ? ((const int32_t *)tg_values(ids))[at] : index) * stride;
        *in_source += index * source_stride;
        left /= ids->shape[i];
        stride *= y->shape[i];
        source_stride *= source->shape[i];
    }
    return target;
}

void KERNEL(tg_scatter_add_forward)(const tg_op_call *call)
{
    const real *source = tg_values(call->inputs[2]);
    real *y = tg_values(call->outputs[0]);
    copy_input(call);
    for (int64_t i = 0; i < call->inputs[1]->count; i++) {
        int64_t from, to = target_of(call, i, &from);
        y[to] += source[from];
    }
}

/* The forward pass computed y[target_of(i)] += source[i]. */
void KERNEL(tg_scatter_add_backward)(const tg_op_call *call)
{
    const real *dy = call->output_gradients[0];
    real *dsource = call->input_gradients[2];
    input_gradient(call);
    for (int64_t i = 0; dsource && i < call->inputs[1]->count; i++) {
        int64_t from, to = target_of(call, i, &from);
        dsource[from] += dy[to];
    }
}

void KERNEL(tg_index_add_forward)(const tg_op_call *call)
{
    slices s = slices_of(call);
    const real *source = tg_values(call->inputs[2]);
    real *y = tg_values(call->outputs[0]);
    copy_input(call);
    for (int64_t run = 0; run < s.axis.outer * s.selected; run++) {
        add_all(y + slice_offset(&s, run), source + run * s.axis.inner, s.axis.inner);
    }
}

/* The forward pass computed y[slice_offset(run)] += source[run]. */
void KERNEL(tg_index_add_backward)(const tg_op_call *call)
{
    slices s = slices_of(call);
    const real *dy = call->output_gradients[0];
    real *dsource = call->input_gradients[2];
    input_gradient(call);
    for (int64_t run = 0; dsource && run < s.axis.outer * s.selected; run++) {
        add_all(dsource + run * s.axis.inner, dy + slice_offset(&s, run), s.axis.inner);
    }
}

#ifdef TG_ONCE

static bool scatter_add_shape(tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    const tg_tensor *x = call->inputs[0], *ids = call->inputs[1], *source = call->inputs[2];
    char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT], c[TG_SHAPE_TEXT];
    bool fits = x->rank == ids->rank && x->rank == source->rank && x->rank > 0;
    for (int i = 0; fits && i < x->rank; i++) {
        fits = (i == axis || ids->shape[i] <= x->shape[i]) && ids->shape[i] <= source->shape[i];
    }
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_dtype(call, 1, TG_I32) || !tg_op_expect_float(call, 2)) {
        return false;
    }
    if (!fits) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "ids %s, a source %s and an input %s; the ranks must be equal, the ids no larger than the "
                          "source, and only on axis %d larger than the input",
                          tg_shape_format(tg_shape_of(ids), a), tg_shape_format(tg_shape_of(source), b),
                          tg_shape_format(tg_shape_of(x), c), axis);
    }
    return tg_op_expect_ids_below(call, 1, x->shape[axis]) && tg_op_output_like(call, tg_dtype_of(x), 0);
}

static bool index_add_shape(tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape needed = tg_shape_of(x);
    char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_dtype(call, 1, TG_I32) || !tg_op_expect_rank(call, 1, 1) ||
        !tg_op_expect_float(call, 2)) {
        return false;
    }
    if (x->rank == 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "argument 'x' is a scalar, which has no axis");
    }
    needed.size[axis] = call->inputs[1]->count;
    if (!tg_shape_equal(needed, tg_shape_of(call->inputs[2]))) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "the source has shape %s; it must be %s, the input's with one slice per id",
                          tg_shape_format(tg_shape_of(call->inputs[2]), a), tg_shape_format(needed, b));
    }
    return tg_op_expect_ids_below(call, 1, x->shape[axis]) && tg_op_output_like(call, tg_dtype_of(x), 0);
}

static const tg_op scatter_add_op = {
    .name = "scatter_add",
    .shape = scatter_add_shape,
    .input_names = {"x", "ids", "source"},
    TG_KERNELS(tg_scatter_add_forward, tg_scatter_add_backward),
    .backward_ignores_inputs = 1u << 0 | 1u << 2,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op index_add_op = {
    .name = "index_add",
    .shape = index_add_shape,
    .input_names = {"x", "ids", "source"},
    TG_KERNELS(tg_index_add_forward, tg_index_add_backward),
    .backward_ignores_inputs = 1u << 0 | 1u << 2,
    .backward_ignores_outputs = TG_OP_ALL,
};

static tg_tensor *apply(tg_tape *t, const tg_op *op, tg_tensor *x, int axis, tg_tensor *ids, tg_tensor *source)
{
    tg_tensor *inputs[] = {x, ids, source};
    return tg_tape_expect_axis(t, op->name, x, &axis) ? tg_apply(t, op, inputs, 3, &axis, sizeof axis, NULL) : NULL;
}

tg_tensor *tg_scatter_add(tg_tape *t, tg_tensor *x, int axis, tg_tensor *ids, tg_tensor *source)
{
    return apply(t, &scatter_add_op, x, axis, ids, source);
}

tg_tensor *tg_index_add(tg_tape *t, tg_tensor *x, int axis, tg_tensor *ids, tg_tensor *source)
{
    return apply(t, &index_add_op, x, axis, ids, source);
}

#endif
