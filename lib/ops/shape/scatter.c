/* scatter_add and index_add: values added to a copy of x, at ids along an axis.
 *
 *   scatter_add   y = x, then y[i, ids[i,j,k], k] += s[i,j,k]        ds[i,j,k] += dy[i, ids[i,j,k], k]
 *   index_add     y = x, then y[i, ids[j], k] += s[i,j,k]            ds[i,j,k] += dy[i, ids[j], k]
 *   both          for axis 1 of 3                                    dx += dy
 *
 * Ids that repeat add up, in order. They are gather and index_select with forward and backward exchanged. Follows
 * torch.scatter_add and torch.index_add.
 */
#include "ops/shape/picks_real.h"
#include "tensor/strided.h"

TG_DECLARE_KERNELS(tg_scatter_add_forward, tg_scatter_add_backward);
TG_DECLARE_KERNELS(tg_index_add_forward, tg_index_add_backward);

static picks picks_of_scatter(const tg_op_call *call)
{
    tg_shape shape = tg_shape_of(call->inputs[2]);
    return picks_of_values(call, &shape);
}

/* y = x, and the source is added to it. */
static void add_source(const tg_op_call *call, picks p)
{
    tg_tensor *y = call->outputs[0];
    tg_copy_values(tg_values(y), tg_values(call->inputs[0]), y->count, sizeof(real));
    pick(p, PICK_ADD_TO_X, tg_values(y), tg_values(call->inputs[2]), sizeof(real));
}

/* The values of the source that no id selects have the gradient 0. */
static void add_gradients(const tg_op_call *call, picks p)
{
    const real *dy = call->output_gradients[0];
    const tg_tensor *source = call->inputs[2];
    real *dx = call->input_gradients[0], *ds = call->input_gradients[2];
    if (dx && writes_gradient(call, 0)) {
        tg_copy_values(dx, dy, call->outputs[0]->count, sizeof(real));
    } else if (dx) {
        tg_add_values(dx, dy, call->outputs[0]->count, real_dtype);
    }
    if (ds && writes_gradient(call, 2)) {
        if (p.rows.count * p.length < source->count) {
            tg_zero_values(ds, source->count, sizeof *ds);
        }
        pick(p, PICK_COPY, dy, ds, sizeof(real));
    } else if (ds) {
        pick(p, PICK_ADD, dy, ds, sizeof(real));
    }
}

void KERNEL(tg_scatter_add_forward)(const tg_op_call *call)
{
    add_source(call, picks_of_scatter(call));
}

void KERNEL(tg_scatter_add_backward)(const tg_op_call *call)
{
    add_gradients(call, picks_of_scatter(call));
}

void KERNEL(tg_index_add_forward)(const tg_op_call *call)
{
    add_source(call, picks_of_dense_slices(call));
}

void KERNEL(tg_index_add_backward)(const tg_op_call *call)
{
    add_gradients(call, picks_of_dense_slices(call));
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

/* The values of the source that no id selects are behind the others: their gradient, zeros, is appended. */
static void differentiate_scatter_add(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const tg_tensor *source = call->inputs[2];
    tg_shape shape = tg_shape_of(call->inputs[1]);
    dx[0] = dy[0];
    if (!tg_wants(call, 2)) {
        return;
    }
    dx[2] = tg_gather(t, dy[0], *(const int *)call->attributes, call->inputs[1]);
    for (int axis = 0; axis < source->rank; axis++) {
        shape.size[axis] = source->shape[axis] - shape.size[axis];
        if (shape.size[axis] > 0) {
            dx[2] = tg_cat(t, (tg_tensor *[]){dx[2], tg_full(t, tg_dtype_of(source), shape, 0)}, 2, axis);
        }
        shape.size[axis] = source->shape[axis];
    }
}

static void differentiate_index_add(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = dy[0];
    dx[2] = tg_wants(call, 2) ? tg_index_select(t, dy[0], *(const int *)call->attributes, call->inputs[1]) : NULL;
}

/* ---- the ops ---- */

static bool scatter_add_shape(tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    const tg_tensor *x = call->inputs[0], *ids = call->inputs[1], *source = call->inputs[2];
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
                          tg_shape_text_of(ids).text, tg_shape_text_of(source).text, tg_shape_text_of(x).text, axis);
    }
    return tg_op_expect_ids_below(call, 1, x->shape[axis]) && tg_op_output_like(call, tg_dtype_of(x), 0);
}

static bool index_add_shape(tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape needed = tg_shape_of(x);
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
                          tg_shape_text_of(call->inputs[2]).text, tg_shape_text(needed).text);
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
    .can_overwrite = true,
    .differentiate = differentiate_scatter_add,
};

static const tg_op index_add_op = {
    .name = "index_add",
    .shape = index_add_shape,
    .input_names = {"x", "ids", "source"},
    TG_KERNELS(tg_index_add_forward, tg_index_add_backward),
    .backward_ignores_inputs = 1u << 0 | 1u << 2,
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_index_add,
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
