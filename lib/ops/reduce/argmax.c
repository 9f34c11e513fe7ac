/* argmax and argmin: the i32 index of the first maximum or minimum along an axis, of values of any dtype. A NaN counts
 * as the largest and the smallest value. No gradient, because an index is an integer. Follows torch.argmax and
 * torch.argmin. */
#include "ops/elementwise/integers.h"
#include "ops/kernel.h"

typedef struct argmax_attributes {
    int axis;
    bool keep;
    bool smallest;
} argmax_attributes;

TG_DECLARE_KERNEL(tg_argmax_forward);

void KERNEL(tg_argmax_forward)(const tg_op_call *call)
{
    const argmax_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    axis_split split = split_at_axis(x, a->axis);
    int32_t *index = tg_values(call->outputs[0]);
    for (int64_t line = 0; line < call->outputs[0]->count; line++) {
        int64_t start = line_offset(&split, line), best = 0;
        double sign = a->smallest ? -1 : 1, most = sign * tg_any_value(x, start);
        for (int64_t i = 1; i < split.size && most == most; i++) { /* a NaN ends the search */
            double value = sign * tg_any_value(x, start + i * split.inner);
            if (value > most || value != value) {
                most = value;
                best = i;
            }
        }
        index[line] = (int32_t)best;
    }
}

#ifdef TG_ONCE

static bool argmax_shape(tg_op_call *call)
{
    const argmax_attributes *a = call->attributes;
    tg_shape x = tg_shape_of(call->inputs[0]), shape = {0};
    char text[TG_SHAPE_TEXT];
    if (x.rank > 0 && (x.size[a->axis] < 1 || x.size[a->axis] > INT32_MAX)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "axis %d of %s; its size must be 1 to %d", a->axis,
                          tg_shape_format(x, text), INT32_MAX);
    }
    for (int i = 0; i < x.rank; i++) {
        if (i != a->axis || a->keep) {
            shape.size[shape.rank++] = i == a->axis ? 1 : x.size[i];
        }
    }
    return tg_op_output(call, 0, TG_I32, shape);
}

static const tg_op argmax_op = {
    .name = "argmax", .shape = argmax_shape, .input_names = {"x"}, TG_KERNELS(tg_argmax_forward, TG_NO_KERNEL)};

static const tg_op argmin_op = {
    .name = "argmin",
    .shape = argmax_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_argmax_forward, TG_NO_KERNEL),
};

static tg_tensor *apply(tg_tape *t, const tg_op *op, tg_tensor *x, int axis, tg_keep_axes keep, bool smallest)
{
    if (!tg_tape_expect_axis(t, op->name, x, &axis)) {
        return NULL;
    }
    argmax_attributes attributes = {axis, keep == TG_KEEP_AXES, smallest};
    return tg_apply(t, op, &x, 1, &attributes, sizeof attributes, NULL);
}

tg_tensor *tg_argmax(tg_tape *t, tg_tensor *x, int axis, tg_keep_axes keep)
{
    return apply(t, &argmax_op, x, axis, keep, false);
}

tg_tensor *tg_argmin(tg_tape *t, tg_tensor *x, int axis, tg_keep_axes keep)
{
    return apply(t, &argmin_op, x, axis, keep, true);
}

#endif
