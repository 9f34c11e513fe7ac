/* alloc: the one door to memory. Every allocation of the library goes through these three. */
#ifndef TG_BASE_ALLOC_H
#define TG_BASE_ALLOC_H

#include <tapegrad/base.h>

#define TG_ALIGNMENT 64 /* a cache line, and the widest vector register there is */

/* count * size bytes, aligned to TG_ALIGNMENT and not initialised; NULL when out of memory, when the product does not
 * fit, or for 0 bytes. */
void *tg_alloc(size_t count, size_t size);

/* The same, filled with zero bytes. */
void *tg_alloc_zeroed(size_t count, size_t size);

void tg_free(void *block); /* NULL is fine */

/* Makes room for at least `needed` elements of `size` bytes in a growing array whose first `used` elements matter:
 * *array and *capacity change together, or, out of memory, not at all (then false). Growth is geometric. */
bool tg_grow_now(void **array, size_t *capacity, size_t used, size_t needed, size_t size);

static inline bool tg_grow(void **array, size_t *capacity, size_t used, size_t needed, size_t size)
{
    return needed <= *capacity || tg_grow_now(array, capacity, used, needed, size);
}

/* Checked sizes: false, and *result as it was, when the result does not fit. */
static inline bool tg_checked_mul(size_t a, size_t b, size_t *result)
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
