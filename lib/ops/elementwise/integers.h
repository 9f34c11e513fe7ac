/* integers (private): the ops on i32 and u8 that floats have other kernels for. They have no gradient. */
#ifndef TG_OPS_ELEMENTWISE_INTEGERS_H
#define TG_OPS_ELEMENTWISE_INTEGERS_H

#include <tapegrad/ops.h>

#include "tape/tape.h"
#include "tensor/walk.h"

/* where with i32 or u8 values, and masked_fill of them. */
extern const tg_op tg_where_integers_op, tg_masked_fill_integers_op;

/* Checks the mask of masked_fill: u8, and broadcast to input 0 (where.c). */
bool tg_masked_fill_check(tg_op_call *call);

/* Returns a value of any dtype, `at` values from the first. */
static inline double tg_any_value(const tg_tensor *x, int64_t at)
{
    switch (tg_dtype_of(x)) {
    case TG_F32: return (double)((const float *)tg_values(x))[at];
    case TG_F64: return ((const double *)tg_values(x))[at];
    case TG_I32: return (double)((const int32_t *)tg_values(x))[at];
    default: return (double)((const uint8_t *)tg_values(x))[at];
    }
}

#endif
