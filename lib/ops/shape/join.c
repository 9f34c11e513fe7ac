/* join: cat and stack.
 *
 *   forward     y holds the inputs one after the other along an axis
 *   gradient    dx of each input += its part of dy
 *
 * The axes before the joined one are the rows of y. Each input contributes a run of values to each row; runs of any
 * dtype are copied. stack joins along a new axis, which the inputs do not have. Follows torch.cat and torch.stack.
 */
#include <stdio.h>

#include "ops/kernel_real.h"
#include "tensor/strided.h"

TG_DECLARE_KERNELS(tg_cat_forward, tg_cat_backward);

typedef struct join_attributes {
    int axis;
    bool is_new; /* the inputs do not have the axis */
} join_attributes;

/* Copies each input to its part of y; or copies the part of dy to its gradient, or adds it. */
static void join(const tg_op_call *call, bool backward)
{
    const join_attributes *a = call->attributes;
    const tg_tensor *y = call->outputs[0];
    const tg_shape whole = tg_shape_of(y);
    const size_t size = tg_size_of(y->dtype);
    int64_t y_strides[TG_MAX_RANK], own_strides[TG_MAX_RANK];
    char *part = backward ? (char *)call->output_gradients[0] : tg_values(y);
    tg_contiguous_strides(&whole, y_strides);
    const size_t step = (size_t)y_strides[a->axis] * size;
    for (int i = a->axis; a->is_new && i + 1 < y->rank; i++) {
        y_strides[i] = y_strides[i + 1];
    }
    for (int k = 0; k < call->input_count; k++) {
        const tg_tensor *x = call->inputs[k];
        const tg_shape shape = tg_shape_of(x);
        tg_contiguous_strides(&shape, own_strides);
        const tg_strided to_y = tg_strided_of(&shape, y_strides, x->strides),
                         to_dx = tg_strided_of(&shape, own_strides, y_strides);
        if (!backward) {
            tg_strided_copy(&to_y, size, part, tg_values(x));
        } else if (call->input_gradients[k] && writes_gradient(call, k)) {
            tg_strided_copy(&to_dx, size, call->input_gradients[k], part);
        } else if (call->input_gradients[k]) {
            tg_strided_add(&to_dx, real_dtype, call->input_gradients[k], part);
        }
        part += (size_t)(a->is_new ? 1 : x->shape[a->axis]) * step;
    }
}

void KERNEL(tg_cat_forward)(const tg_op_call *call)
{
    join(call, false);
}

void KERNEL(tg_cat_backward)(const tg_op_call *call)
{
    join(call, true);
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_join(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const join_attributes *a = call->attributes;
    int64_t begin = 0;
    for (int k = 0; k < call->input_count; k++) {
        const int64_t end = begin + (a->is_new ? 1 : call->inputs[k]->shape[a->axis]);
        if (tg_wants(call, k)) {
            dx[k] = a->is_new ? tg_select(t, dy[0], a->axis, begin) : tg_slice(t, dy[0], a->axis, begin, end, 1);
        }
        begin = end;
    }
}

/* ---- the ops ---- */

static bool cat_shape(tg_op_call *call)
{
    const int axis = ((const join_attributes *)call->attributes)->axis;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    for (int k = 1; k < call->input_count; k++) {
        tg_shape own = tg_shape_of(call->inputs[k]), same = own;
        if (own.rank == shape.rank) {
            same.size[axis] = shape.size[axis];
        }
        if (!tg_shape_equal(same, shape) || !tg_op_expect_dtype(call, k, tg_dtype_of(call->inputs[0]))) {
            return tg_op_fail(call, TG_ERROR_SHAPE,
                              "input %d has shape %s, and the inputs before it give %s; all sizes except that of axis "
                              "%d must be equal",
                              k, tg_shape_text(own).text, tg_shape_text(shape).text, axis);
        }
        if (__builtin_add_overflow(shape.size[axis], own.size[axis], &shape.size[axis])) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "the sizes along axis %d do not fit into 64 bits", axis);
        }
    }
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

static bool stack_shape(tg_op_call *call)
{
    const int axis = ((const join_attributes *)call->attributes)->axis;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    for (int k = 1; k < call->input_count; k++) {
        const tg_shape own = tg_shape_of(call->inputs[k]);
        if (!tg_shape_equal(own, shape) || !tg_op_expect_dtype(call, k, tg_dtype_of(call->inputs[0]))) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "input %d has shape %s and input 0 %s; they must be equal", k,
                              tg_shape_text(own).text, tg_shape_text(shape).text);
        }
    }
    for (int i = shape.rank++; i > axis; i--) {
        shape.size[i] = shape.size[i - 1];
    }
    shape.size[axis] = call->input_count;
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

#define JOIN_OP(op_name, rule)                                                                                        \
    {                                                                                                                 \
        .name = op_name, .shape = rule, TG_KERNELS(tg_cat_forward, tg_cat_backward), .accepts_layout = tg_any_layout, \
        TG_IGNORES_VALUES, .can_overwrite = true, .differentiate = differentiate_join                                 \
    }

static const tg_op cat_op = JOIN_OP("cat", cat_shape), stack_op = JOIN_OP("stack", stack_shape);

static bool check_list(tg_tape *t, const char *call, tg_tensor *const *tensors, int count)
{
    if (!tensors || count < 1) {
        return tg_tape_fail(t, tensors ? TG_ERROR_VALUE : TG_ERROR_STATE, call,
                            tensors ? "%d tensors; at least 1 is needed" : "the array of %d tensors is NULL", count);
    }
    char name[32] = "tensors[0]";
    int k = 0;
    while (k < count && tensors[k] && !tensors[k]->is_freed) {
        k++;
    }
    if (k < count) {
        snprintf(name, sizeof name, "tensors[%d]", k);
    }
    return tg_tape_expect_input(t, call, name, tensors[k < count ? k : 0]);
}

tg_tensor *tg_cat(tg_tape *t, tg_tensor *const *tensors, int count, int axis)
{
    if (!check_list(t, "cat", tensors, count) || !tg_tape_expect_axis(t, "cat", tensors[0], &axis)) {
        return NULL;
    }
    if (tensors[0]->rank == 0) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "cat", "input 0 is a scalar; tg_stack joins scalars");
        return NULL;
    }
    const join_attributes a = {.axis = axis};
    return tg_apply(t, &cat_op, tensors, count, &a, sizeof a, NULL);
}

tg_tensor *tg_stack(tg_tape *t, tg_tensor *const *tensors, int count, int axis)
{
    if (!check_list(t, "stack", tensors, count)) {
        return NULL;
    }
    int rank = tensors[0]->rank + 1, asked = axis;
    if (!tg_axis_normalize(rank, &axis) || rank > TG_MAX_RANK) {
        tg_tape_fail(t, TG_ERROR_RANGE, "stack", "axis %d is outside [%d,%d), or the result has more than %d axes",
                     asked, -rank, rank, TG_MAX_RANK);
        return NULL;
    }
    const join_attributes a = {axis, true};
    return tg_apply(t, &stack_op, tensors, count, &a, sizeof a, NULL);
}

#endif
