/* repeated (private): the gradient of values that broadcasting repeated, as a sum over the axes along which it did.
 *
 * Sums are in double, and their order depends on the shapes alone: not on the level of the processor, nor on the number
 * of threads (fold.h).
 */
#ifndef TG_OPS_REDUCE_REPEATED_H
#define TG_OPS_REDUCE_REPEATED_H

#include "ops/kernel.h"

/* Computes the gradients of n values of y from `begin` on, at most FOLD (fold.h), as reals. */
typedef void tg_gradient_part(const void *context, int64_t begin, int64_t n, void *out);

/* Sums the gradients of y, of this shape, into dx. The strides of the axes of y in dx are 0 where x was repeated; the
 * other axes are those of dx, which is contiguous, in order. Without a `part` function, the context is dy, and the
 * gradients are its values. */
typedef void tg_sum_repeated(const tg_shape *shape, const int64_t *strides, tg_gradient_part *part, const void *context,
                             bool overwrite, void *dx);
tg_sum_repeated TG_EACH_LEVEL(avx2, tg_sum_repeated_f32), TG_EACH_LEVEL(avx2, tg_sum_repeated_f64);

#endif
