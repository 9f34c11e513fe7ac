/* differentiate (private): what the gradients in ops share (tg_op.differentiate). */
#ifndef TG_OPS_DIFFERENTIATE_H
#define TG_OPS_DIFFERENTIATE_H

#include <tapegrad/ops.h>

#include "tape/tape.h"

/* Returns whether the gradient of an input is wanted. */
static inline bool tg_wants(const tg_op_call *call, int input)
{
    return call->gradient_modes[input] != TG_GRADIENT_NONE;
}

/* Sets the gradient of the only input of an op that is linear between its kinks: dy times the slope, which the backward
 * kernel computes of ones. The slope is a constant: the kernel must work value by value. */
void tg_differentiate_linear(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx);

/* Returns the number of rows of x, which may have no columns. */
static inline int64_t tg_row_count(const tg_tensor *x)
{
    int64_t rows = 1;
    for (int axis = 0; axis < x->rank - 1; axis++) {
        rows *= x->shape[axis];
    }
    return rows;
}

/* Returns x, of rank 1 or more, as a matrix of its rows. NULL is allowed. */
static inline tg_tensor *tg_as_rows(tg_tape *t, tg_tensor *x)
{
    return x ? tg_reshape(t, x, (tg_shape){2, {tg_row_count(x), x->shape[x->rank - 1]}}) : NULL;
}

/* Returns zeros of the shape and dtype of x. */
static inline tg_tensor *tg_zeros_like(tg_tape *t, const tg_tensor *x)
{
    return tg_full(t, tg_dtype_of(x), tg_shape_of(x), 0);
}

/* Returns number - x. */
static inline tg_tensor *tg_number_minus(tg_tape *t, double number, tg_tensor *x)
{
    return tg_add_scalar(t, tg_neg(t, x), number);
}

/* Returns `kept` where the mask is true, and zeros elsewhere; where it is false. */
static inline tg_tensor *tg_where_true(tg_tape *t, tg_tensor *mask, tg_tensor *kept)
{
    return tg_where(t, mask, kept, kept ? tg_full(t, tg_dtype_of(kept), TG_SCALAR, 0) : NULL);
}

/* Sets the gradients of y = n w, or n w + b, over the last axis, where n = x / sqrt(mean(x^2) + eps): rms_norm, or, if
 * x is centered first, layer_norm. The attribute is eps. */
void tg_differentiate_rms(tg_tape *t, const tg_op_call *call, bool is_centered, tg_tensor *const *dy, tg_tensor **dx);

#endif
