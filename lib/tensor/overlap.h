/* overlap (private): values that share memory, within a tensor or between two.
 *
 * A call that writes the values of a given tensor refuses one in which two indices have the same address: the result
 * would depend on the order of the writes. If the source shares memory with the target, the call writes a copy of the
 * source. The test for two tensors compares their ranges of addresses, so it also finds two that only interleave; these
 * cost a copy, too.
 */
#ifndef TG_TENSOR_OVERLAP_H
#define TG_TENSOR_OVERLAP_H

#include "tensor/tensor.h"

/* tg_tensor_check for a call that writes the values of x: also refuses a tensor in which two indices may have the same
 * address, as after tg_expand. Exception: a call that writes the same number to all of them. */
bool tg_tensor_check_target(const char *call, const char *name, const tg_tensor *x, tg_error *error);

/* Returns an axis along which two indices of x may have the same address; -1 if there is none. */
int tg_overlapping_axis(const tg_tensor *x);

/* Returns whether two ranges of addresses have a byte in common. */
static inline bool tg_ranges_meet(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

/* The same for the range of x's values and another one. */
bool tg_overlaps_memory(const tg_tensor *x, const void *begin, uint64_t bytes);
bool tg_overlaps(const tg_tensor *a, const tg_tensor *b);

/* Computes the lowest and the highest offset of a value of x from its first one, in values; 0 without values. */
void tg_memory_extent(const tg_tensor *x, int64_t *low, int64_t *high);

#endif
