/* scalar: numbers as operands. A number becomes a tensor of one value, and broadcasting does the rest. */
#include "ops/real.h"

#include <tapegrad/ops.h>

typedef struct scalar_attributes {
    double value;
    tg_dtype dtype;
} scalar_attributes;

TG_DECLARE_KERNEL(tg_scalar_forward);

void KERNEL(tg_scalar_forward)(const tg_op_call *call)
{
    *(real *)tg_values(call->outputs[0]) = (real)((const scalar_attributes *)call->attributes)->value;
}

#ifdef TG_ONCE

static bool scalar_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, ((const scalar_attributes *)call->attributes)->dtype, TG_SCALAR);
}

static const tg_op scalar_op = {
    .name = "scalar",
    .shape = scalar_shape,
    .f32 = {tg_scalar_forward_f32, NULL},
    .f64 = {tg_scalar_forward_f64, NULL},
};

static tg_tensor *number_like(tg_tape *t, const char *name, const tg_tensor *x, double value)
{
    int axis = 0;
    if (!tg_tape_axis(t, name, x, &axis)) {
        return NULL;
    }
    if (!tg_dtype_is_float((tg_dtype)x->dtype)) {
        return tg_tape_fail(t, TG_ERROR_DTYPE, name, "input 0 is %s; it must be f32 or f64 (tg_cast converts)",
                            tg_dtype_name((tg_dtype)x->dtype));
    }
    scalar_attributes attributes = {value, (tg_dtype)x->dtype};
    return tg_apply(t, &scalar_op, NULL, 0, &attributes, sizeof attributes);
}

tg_tensor *tg_scalar_like(tg_tape *t, const tg_tensor *x, double value)
{
    return number_like(t, "scalar_like", x, value);
}

tg_tensor *tg_add_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_add(t, x, number_like(t, "add_scalar", x, value));
}

tg_tensor *tg_mul_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_mul(t, x, number_like(t, "mul_scalar", x, value));
}

tg_tensor *tg_div_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_div(t, x, number_like(t, "div_scalar", x, value));
}

tg_tensor *tg_pow_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_pow(t, x, number_like(t, "pow_scalar", x, value));
}

#endif
