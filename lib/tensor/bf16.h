/* bf16 (private): floats rounded to bf16, for the factors of matrix products.
 *
 * A bf16 is the upper half of a float: its sign, its exponent and 8 significant bits. Values are rounded to the nearest
 * bf16, ties to even. Values beyond the largest bf16 become infinite, and NaN stays NaN. Values that are not normal
 * numbers become 0, because the instructions of processors for bf16 read them as 0 (AVX512_BF16, AMX).
 */
#ifndef TG_TENSOR_BF16_H
#define TG_TENSOR_BF16_H

#include "base/level.h"
#include "tensor/walk.h"

/* How rounded values are stored; the number is the size of one. */
typedef enum tg_rounded {
    TG_NOT_ROUNDED = 0,
    TG_ROUNDED_BF16 = 2,  /* for oneDNN */
    TG_ROUNDED_FLOAT = 4, /* as floats whose lower half is 0, for BLAS; their products are exact */
} tg_rounded;

/* Writes `count` rounded values of from[0], from[stride], ... to `to`: uint16_t or float (bf16_loops.c). */
typedef void tg_round_loop(const float *from, int64_t stride, int64_t count, void *to);
tg_round_loop TG_EACH_WIDE_LEVEL(tg_round_to_bf16), TG_EACH_WIDE_LEVEL(tg_round_to_float);

/* Writes the rounded values of a walk over `from`, without gaps. Threads divide them. */
void tg_round_walk(const tg_walk *walk, const float *from, tg_rounded kind, void *to);

/* Writes `count` rounded values. */
void tg_round_values(const float *from, int64_t count, tg_rounded kind, void *to);

#endif
