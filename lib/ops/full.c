/* full: a tensor with one value everywhere; and arithmetic with a number, which becomes a constant of shape () and
 * broadcasts. Follows torch.full. */
#include "ops/kernel.h"

typedef struct full_attributes {
    double value;
    tg_dtype dtype;
    tg_shape shape;
} full_attributes;

TG_DECLARE_KERNEL(tg_full_forward);

void KERNEL(tg_full_forward)(const tg_op_call *call)
{
    const tg_tensor *y = call->outputs[0];
    double value = ((const full_attributes *)call->attributes)->value;
    size_t size = tg_size_of(y->dtype);
    for (int64_t i = 0; i < y->count; i++) {
        tg_convert((char *)tg_values(y) + (size_t)i * size, tg_dtype_of(y), &value, TG_F64, 1);
    }
}

#ifdef TG_ONCE

static bool full_shape(tg_op_call *call)
{
    const full_attributes *a = call->attributes;
    return tg_op_output(call, 0, a->dtype, a->shape);
}

static const tg_op full_op = {
    .name = "full",
    .shape = full_shape,
    TG_KERNELS(tg_full_forward, TG_NO_KERNEL),
};

tg_tensor *tg_full(tg_tape *t, tg_dtype dtype, tg_shape shape, double value)
{
    full_attributes a = {value, dtype, shape};
    return tg_apply(t, &full_op, NULL, 0, &a, sizeof a, NULL);
}

/* Returns `value` as a constant of x's dtype and shape (). */
static tg_tensor *number(tg_tape *t, const char *call, const tg_tensor *x, double value)
{
    if (!tg_tape_expect_tensor(t, call, "input", x)) {
        return NULL;
    }
    if (!tg_dtype_is_float(x->dtype)) {
        tg_tape_fail(t, TG_ERROR_DTYPE, call, "the input is %s; it must be f32 or f64 (tg_cast converts)",
                     tg_dtype_name(tg_dtype_of(x)));
        return NULL;
    }
    return tg_full(t, tg_dtype_of(x), TG_SCALAR, value);
}

tg_tensor *tg_add_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_add(t, x, number(t, "add_scalar", x, value));
}

tg_tensor *tg_mul_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_mul(t, x, number(t, "mul_scalar", x, value));
}

tg_tensor *tg_div_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_div(t, x, number(t, "div_scalar", x, value));
}

tg_tensor *tg_pow_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_pow(t, x, number(t, "pow_scalar", x, value));
}

#endif
