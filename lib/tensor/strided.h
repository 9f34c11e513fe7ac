/* strided (private): copies and adds values from one layout to another.
 *
 * The axes are put into the order of the target's memory, so that it is written row by row; if the last one is short,
 * it changes places with the longest. Large blocks are divided among the library's threads.
 */
#ifndef TG_TENSOR_STRIDED_H
#define TG_TENSOR_STRIDED_H

#include "base/level.h"
#include "tensor/walk.h"

/* Values of one shape in two layouts. */
typedef struct tg_strided {
    tg_walk walk;     /* the strides of the target; the other ones are those of the source */
    int64_t to, from; /* the offsets of the first values */
} tg_strided;

/* Returns the values of this shape with the strides of the target and of the source. A value of the target that its
 * strides repeat (0) takes the last one of its values. */
tg_strided tg_strided_of(const tg_shape *shape, const int64_t *to, const int64_t *from);

/* Writes target = source, with values of `size` bytes. They do not overlap. */
void tg_strided_copy(const tg_strided *s, size_t size, void *to, const void *from);

/* Adds target += source, for floats of this dtype. They do not overlap. */
void tg_strided_add(const tg_strided *s, tg_dtype dtype, void *to, const void *from);

/* The same for `count` contiguous values. */
void tg_copy_values(void *to, const void *from, int64_t count, size_t size);
void tg_add_values(void *to, const void *from, int64_t count, tg_dtype dtype);

/* Writes `count` zeros of `size` bytes. */
void tg_zero_values(void *to, int64_t count, size_t size);

/* The kernels of floats and doubles: copy values of their size, or add them. */
typedef void tg_strided_kernel(const tg_strided *s, void *to, const void *from);
tg_strided_kernel TG_EACH_LEVEL(avx2, tg_strided_copy_f32), TG_EACH_LEVEL(avx2, tg_strided_copy_f64);
tg_strided_kernel TG_EACH_LEVEL(avx2, tg_strided_add_f32), TG_EACH_LEVEL(avx2, tg_strided_add_f64);

#endif
