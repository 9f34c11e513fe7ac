/* poison (private): memory that AddressSanitizer must report when it is read or written.
 *
 * The allocator's own blocks are known to AddressSanitizer. It does not know that a block in a pool is unused, nor that
 * a block is larger than the caller asked for. Without AddressSanitizer both calls do nothing.
 */
#ifndef TG_BASE_POISON_H
#define TG_BASE_POISON_H

#include <stddef.h>

#if defined __SANITIZE_ADDRESS__
#define TG_HAS_POISON 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define TG_HAS_POISON 1
#endif
#endif
#ifndef TG_HAS_POISON
#define TG_HAS_POISON 0
#endif

#if TG_HAS_POISON
#include <sanitizer/asan_interface.h>
#endif

/* Lets every later access to the bytes be reported. The first address must be a multiple of 8, or the end of bytes that
 * are in use. */
static inline void tg_poison(void *begin, size_t bytes)
{
#if TG_HAS_POISON
    __asan_poison_memory_region(begin, bytes);
#else
    (void)begin, (void)bytes;
#endif
}

/* Allows accesses to the bytes again. */
static inline void tg_unpoison(void *begin, size_t bytes)
{
#if TG_HAS_POISON
    __asan_unpoison_memory_region(begin, bytes);
#else
    (void)begin, (void)bytes;
#endif
}

#endif
