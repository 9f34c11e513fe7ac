/* reduce_axes: the list of axes of a reduction, the shape of its result, and the scratch of its blocks. */
#include <tapegrad/ops.h>

#include "ops/reduce/reduce.h"

tg_axes tg_axes_make(int count, const int *axes)
{
    tg_axes made = {.count = axes || count <= 0 ? count : TG_NULL_AXES};
    for (int i = 0; axes && i < count && i < TG_MAX_RANK; i++) {
        made.axis[i] = axes[i];
    }
    return made;
}

/* Returns the number of kept axes' values. */
static int64_t outputs_of(const tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    int64_t outputs = 1;
    for (int axis = 0; axis < x->rank; axis++) {
        outputs *= a->reduced >> axis & 1 ? 1 : x->shape[axis];
    }
    return outputs;
}

/* Returns the number of blocks whose results are joined: 0 if each output is one block. */
static int64_t partials_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    if (x->count <= TG_REDUCE_BLOCK) {
        return 0;
    }
    int64_t outputs = outputs_of(call), blocks = tg_reduce_blocks(x->count / outputs);
    return blocks > 1 ? outputs * blocks : 0;
}

bool tg_reduce_output(tg_op_call *call, tg_dtype dtype)
{
    const tg_reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape shape = {0};
    for (int axis = 0; axis < x->rank; axis++) {
        if (!(a->reduced >> axis & 1)) {
            shape.size[shape.rank++] = x->shape[axis];
        } else if (a->keep) {
            shape.size[shape.rank++] = 1;
        }
    }
    return tg_op_output(call, 0, dtype, shape) && tg_op_scratch(call, partials_of(call), sizeof(tg_partial));
}

bool tg_reduce_shape(tg_op_call *call)
{
    return tg_op_expect_float(call, 0) && tg_reduce_output(call, tg_dtype_of(call->inputs[0]));
}

bool tg_reduce_twice_shape(tg_op_call *call)
{
    return tg_reduce_shape(call) &&
           tg_op_backward_scratch(call, outputs_of(call) + partials_of(call), sizeof(tg_partial));
}

bool tg_reduce_expect_values(tg_op_call *call, const char *name)
{
    const tg_reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    for (int axis = 0; axis < x->rank; axis++) {
        if ((a->reduced >> axis & 1) && x->shape[axis] == 0) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "axis %d of %s is empty, and has no %s", axis,
                              tg_shape_text_of(x).text, name);
        }
    }
    return true;
}

tg_tensor *tg_reduce(tg_tape *t, const tg_op *op, tg_tensor *x, tg_axes axes, tg_keep_axes keep, tg_reduce_attributes a)
{
    if (!tg_tape_expect_input(t, op->name, "x", x) || !tg_expect_axes(t, op->name, axes)) {
        return NULL;
    }
    a.reduced = axes.count < 0 ? ~0u : 0;
    a.keep = keep == TG_KEEP_AXES;
    for (int i = 0; i < axes.count; i++) {
        int axis = axes.axis[i];
        if (!tg_tape_expect_axis(t, op->name, x, &axis)) {
            return NULL;
        }
        if (a.reduced >> axis & 1) {
            tg_tape_fail(t, TG_ERROR_RANGE, op->name, "axis %d is listed twice", axis);
            return NULL;
        }
        a.reduced |= 1u << axis;
    }
    return tg_apply(t, op, &x, 1, &a, sizeof a, NULL);
}

/* ---- gradients in ops ---- */

tg_tensor *tg_reduce_kept(tg_tape *t, const tg_op_call *call, tg_tensor *y)
{
    const tg_reduce_attributes *a = call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    for (int axis = 0; axis < shape.rank; axis++) {
        shape.size[axis] = a->reduced >> axis & 1 ? 1 : shape.size[axis];
    }
    return tg_reshape(t, y, shape);
}

tg_tensor *tg_reduce_sum(tg_tape *t, const tg_op_call *call, tg_tensor *x)
{
    const tg_reduce_attributes *a = call->attributes;
    tg_axes axes = {0};
    for (int axis = 0; axis < call->inputs[0]->rank; axis++) {
        if (a->reduced >> axis & 1) {
            axes.axis[axes.count++] = axis;
        }
    }
    return tg_sum(t, x, axes.count > 0 ? axes : TG_ALL_AXES, TG_KEEP_AXES);
}
