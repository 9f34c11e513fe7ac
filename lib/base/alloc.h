/* alloc (private): memory. The library allocates and frees all of its memory through tg_alloc, tg_grow and tg_free of
 * extend.h. */
#ifndef TG_BASE_ALLOC_H
#define TG_BASE_ALLOC_H

#include <tapegrad/extend.h>

/* In bytes: a cache line, and the width of an AVX-512 register. */
#define TG_ALIGNMENT 64

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
