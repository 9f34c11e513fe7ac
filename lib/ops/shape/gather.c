/* gather and index_select: values along an axis, selected by ids.
 *
 *   gather         y[i,j,k] = x[i, ids[i,j,k], k]        dx[i, ids[i,j,k], k] += dy[i,j,k]       for axis 1 of 3
 *   index_select   y[i,j,k] = x[i, ids[j], k]            dx[i, ids[j], k] += dy[i,j,k]
 *
 * Values of any dtype are copied, as bytes. Ids that repeat add up in the gradient, in order. Follows torch.gather
 * and torch.index_select.
 */
#include "ops/shape/picks_real.h"

TG_DECLARE_KERNELS(tg_gather_forward, tg_gather_backward);
TG_DECLARE_KERNELS(tg_index_select_forward, tg_index_select_backward);

static picks picks_of_gather(const tg_op_call *call)
{
    tg_shape shape = tg_shape_of(call->outputs[0]);
    return picks_of_values(call, &shape);
}

static void copy_picks(const tg_op_call *call, picks p)
{
    const tg_tensor *y = call->outputs[0];
    pick(p, PICK_COPY, tg_values(call->inputs[0]), tg_values(y), tg_size_of(y->dtype));
}

void KERNEL(tg_gather_forward)(const tg_op_call *call)
{
    copy_picks(call, picks_of_gather(call));
}

void KERNEL(tg_gather_backward)(const tg_op_call *call)
{
    pick(picks_of_gather(call), PICK_ADD_TO_X, call->input_gradients[0], call->output_gradients[0], sizeof(real));
}

void KERNEL(tg_index_select_forward)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    copy_picks(call, x->contiguous ? picks_of_dense_slices(call) : picks_of_slices(call, x->strides));
}

void KERNEL(tg_index_select_backward)(const tg_op_call *call)
{
    pick(picks_of_dense_slices(call), PICK_ADD_TO_X, call->input_gradients[0], call->output_gradients[0], sizeof(real));
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_gather(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] =
        tg_scatter_add(t, tg_zeros_like(t, call->inputs[0]), *(const int *)call->attributes, call->inputs[1], dy[0]);
}

static void differentiate_index_select(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_index_add(t, tg_zeros_like(t, call->inputs[0]), *(const int *)call->attributes, call->inputs[1], dy[0]);
}

/* ---- the ops ---- */

static bool gather_shape(tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    const tg_tensor *x = call->inputs[0], *ids = call->inputs[1];
    bool fits = x->rank == ids->rank && x->rank > 0;
    for (int i = 0; fits && i < x->rank; i++) {
        fits = i == axis || ids->shape[i] <= x->shape[i];
    }
    if (!tg_op_expect_dtype(call, 1, TG_I32)) {
        return false;
    }
    if (!fits) {
        return tg_op_fail(
            call, TG_ERROR_SHAPE,
            "ids %s for an input %s; the ranks must be equal, and only on axis %d may ids be larger than the input",
            tg_shape_text_of(ids).text, tg_shape_text_of(x).text, axis);
    }
    return tg_op_expect_ids_below(call, 1, x->shape[axis]) && tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(ids));
}

static bool index_select_shape(tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    if (!tg_op_expect_dtype(call, 1, TG_I32) || !tg_op_expect_rank(call, 1, 1)) {
        return false;
    }
    if (shape.rank == 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "argument 'x' is a scalar, which has no axis");
    }
    if (!tg_op_expect_ids_below(call, 1, shape.size[axis])) {
        return false;
    }
    shape.size[axis] = call->inputs[1]->count;
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

static const tg_op gather_op = {.name = "gather",
                                .shape = gather_shape,
                                .input_names = {"x", "ids"},
                                TG_KERNELS(tg_gather_forward, tg_gather_backward),
                                .backward_ignores_inputs = 1u << 0,
                                .backward_ignores_outputs = TG_OP_ALL,
                                .differentiate = differentiate_gather};
/* Rows of a matrix are read where they are: a copy of a view would read those that no id names, too. Elsewhere ids name
 * single values, which are near each other only in a copy. */
static bool is_matrix(const tg_tensor *input, int i)
{
    return i == 0 && input->rank == 2;
}

#define INDEX_SELECT(accepts)                                                                     \
    {                                                                                             \
        .name = "index_select", .shape = index_select_shape, .input_names = {"x", "ids"},         \
        TG_KERNELS(tg_index_select_forward, tg_index_select_backward), .accepts_layout = accepts, \
        .backward_ignores_inputs = 1u << 0, .backward_ignores_outputs = TG_OP_ALL,                \
        .differentiate = differentiate_index_select                                               \
    }

static const tg_op index_select_op = INDEX_SELECT(NULL), index_rows_op = INDEX_SELECT(is_matrix);

static tg_tensor *apply(tg_tape *t, const tg_op *op, tg_tensor *x, int axis, tg_tensor *ids)
{
    tg_tensor *inputs[] = {x, ids};
    return tg_apply(t, op, inputs, 2, &axis, sizeof axis, NULL);
}

tg_tensor *tg_gather(tg_tape *t, tg_tensor *x, int axis, tg_tensor *ids)
{
    return tg_tape_expect_axis(t, "gather", x, &axis) ? apply(t, &gather_op, x, axis, ids) : NULL;
}

tg_tensor *tg_index_select(tg_tape *t, tg_tensor *x, int axis, tg_tensor *ids)
{
    if (!tg_tape_expect_axis(t, "index_select", x, &axis)) {
        return NULL;
    }
    return apply(t, axis == 0 ? &index_rows_op : &index_select_op, x, axis, ids);
}

#endif
