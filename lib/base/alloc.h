/* alloc (private): memory. The library allocates and frees all of its memory through these functions. */
#ifndef TG_BASE_ALLOC_H
#define TG_BASE_ALLOC_H

#include <tapegrad/base.h>

/* In bytes: a cache line, and the width of an AVX-512 register. */
#define TG_ALIGNMENT 64

/* Returns count * size uninitialized bytes, aligned to TG_ALIGNMENT; NULL when memory is exhausted, when the product
 * exceeds PTRDIFF_MAX, and for 0 bytes. `count` has 64 bits everywhere, because a size_t of 32 bits would cut it. */
void *tg_alloc(uint64_t count, size_t size);

/* The same, filled with zero bytes. */
void *tg_alloc_zeroed(uint64_t count, size_t size);

/* Frees a block. NULL is allowed. */
void tg_free(void *block);

/* Moves an array to a capacity of at least `needed` elements of `size` bytes, and keeps its first `used` elements. The
 * capacity is doubled until it suffices. Returns false and changes nothing when memory is exhausted. */
bool tg_grow_now(void **array, size_t *capacity, size_t used, size_t needed, size_t size);

/* The same, but does nothing if the capacity suffices. */
static inline bool tg_grow(void **array, size_t *capacity, size_t used, size_t needed, size_t size)
{
    return needed <= *capacity || tg_grow_now(array, capacity, used, needed, size);
}

/* Arithmetic on sizes. Returns false and leaves *result unchanged on overflow. */
static inline bool tg_checked_mul(uint64_t a, uint64_t b, size_t *result)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *result = product;
    return true;
}

static inline bool tg_checked_add(size_t a, size_t b, size_t *result)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *result = sum;
    return true;
}

#endif
