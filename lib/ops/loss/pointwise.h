/* pointwise (private): what all losses share: the reductions, and the loop of losses that are computed value by value.
 *
 * A pointwise loss is an elementwise op (elementwise.h) whose losses are reduced while they are computed: a chunk of
 * losses exists only on the stack, so a loss takes one pass over its inputs and no memory. With TG_REDUCTION_NONE it is
 * an ordinary elementwise op. Its loops are tg_loss_levels, and its attributes begin with a
 * tg_loss_attributes. The losses have the shape of input 0; the other inputs have it, or broadcast to it. An input that
 * broadcasts has no gradient.
 */
#ifndef TG_OPS_LOSS_POINTWISE_H
#define TG_OPS_LOSS_POINTWISE_H

#include "ops/elementwise/elementwise.h"

typedef struct tg_loss_attributes {
    tg_numbers numbers; /* p: beta, delta or margin */
    tg_reduction reduction;
} tg_loss_attributes;

TG_DECLARE_KERNELS(tg_loss_forward, tg_loss_backward);
extern const tg_op_kernels tg_loss_levels[TG_LEVELS][2];

/* Checks the reduction (VALUE), and that inputs 0 to `equal` - 1 are floats of one shape (DTYPE, SHAPE). Declares the
 * output, and the memory of the sums. For shape rules of pointwise losses. */
bool tg_loss_shape(tg_op_call *call, int equal);

/* Sets the error of an input whose shape differs from that of input 0: SHAPE, "they must be equal<rule>". Returns
 * false. */
bool tg_loss_report_shapes(tg_op_call *call, int input, const char *rule);

/* Checks that the reduction exists and is allowed for this loss (VALUE). */
bool tg_loss_check_reduction(tg_op_call *call, tg_reduction reduction, bool allows_batch_mean);

/* Checks that an input does not require a gradient (STATE). Without recording it may, as in torch: the contiguous copy
 * of an input requires none there, so a refusal would depend on the layout. */
bool tg_loss_expect_constant(tg_op_call *call, int input, const char *name);

/* Returns the gradient of each loss, for gradients in ops; it broadcasts with the losses. */
tg_tensor *tg_loss_gradient(tg_tape *t, const tg_op_call *call, tg_tensor *dy);

/* Returns the divisor of the summed losses: `count` for the mean, `batch` for the mean per batch entry, else 1. */
static inline double tg_loss_divisor(tg_reduction reduction, int64_t count, int64_t batch)
{
    return reduction == TG_REDUCTION_MEAN ? (double)count : reduction == TG_REDUCTION_BATCH_MEAN ? (double)batch : 1;
}

#endif
