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

#endif
