/* full: a tensor with one value everywhere; constant: a copy of an array; and arithmetic with a number, which becomes a
 * constant of shape () and broadcasts. Follows torch.full and torch.tensor. */
#include <tapegrad/ops.h>

#include "tape/tape.h"
#include "tensor/strided.h"

typedef struct full_attributes {
    double value;
    tg_dtype dtype;
    tg_shape shape;
} full_attributes;

static void full_forward(const tg_op_call *call)
{
    tg_fill_values(call->outputs[0], ((const full_attributes *)call->attributes)->value);
}

static bool full_shape(tg_op_call *call)
{
    const full_attributes *a = call->attributes;
    return tg_op_output(call, 0, a->dtype, a->shape);
}

static const tg_op full_op = {
    .name = "full",
    .shape = full_shape,
    .f32 = {full_forward, NULL},
    .f64 = {full_forward, NULL},
};

tg_tensor *tg_full(tg_tape *t, tg_dtype dtype, tg_shape shape, double value)
{
    full_attributes a = {value, dtype, shape};
    return tg_apply(t, &full_op, NULL, 0, &a, sizeof a, NULL);
}

tg_tensor *tg_constant(tg_tape *t, tg_dtype dtype, tg_shape shape, const void *values)
{
    if (!values && tg_tape_is_usable(t)) {
        tg_tape_fail(t, TG_ERROR_STATE, "constant", "the array of values is NULL");
        return NULL;
    }
    if (tg_dtype_size(dtype) == 0 && tg_tape_is_usable(t)) {
        tg_tape_fail(t, TG_ERROR_DTYPE, "constant", "%d is not a dtype", (int)dtype);
        return NULL;
    }
    tg_tensor *x = tg_tape_new_tensor(t, "constant", dtype, shape);
    if (x) {
        tg_copy_values(tg_values(x), values, x->count, tg_size_of(dtype));
    }
    return x;
}

/* Applies an op of two operands to x and a constant of x's dtype and shape (). */
static tg_tensor *with_number(tg_tape *t, const char *call, tg_tensor *(*op)(tg_tape *, tg_tensor *, tg_tensor *),
                              tg_tensor *x, double value)
{
    if (!tg_tape_expect_input(t, call, "x", x)) {
        return NULL;
    }
    if (!tg_dtype_is_float(x->dtype)) {
        tg_tape_fail(t, TG_ERROR_DTYPE, call, "argument 'x' is %s; it must be f32 or f64 (tg_cast converts)",
                     tg_dtype_name(tg_dtype_of(x)));
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    return tg_tape_end(t, &point, op(t, x, tg_full(t, tg_dtype_of(x), TG_SCALAR, value)));
}

tg_tensor *tg_add_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return with_number(t, "add_scalar", tg_add, x, value);
}

tg_tensor *tg_mul_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return with_number(t, "mul_scalar", tg_mul, x, value);
}

tg_tensor *tg_div_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return with_number(t, "div_scalar", tg_div, x, value);
}
