/* pool: blocks of memory that are used again.
 *
 * A training step asks for the same sizes each time. A pool keeps the blocks that were given back, in one list a size
 * class, so that a step whose shapes were seen before allocates nothing. Classes are multiples of 64 bytes up to 1 KiB
 * and then eight to each doubling, so at most an eighth of a block is unused.
 *
 * One pool belongs to one tape, and so to one thread. Blocks are ordinary allocations: a block taken from a pool may be
 * freed with tg_pool_give(NULL, block) after the pool is gone, and by another thread.
 */
#ifndef TG_TENSOR_POOL_H
#define TG_TENSOR_POOL_H

#include "base/alloc.h"

/* Stands before the memory that callers see, 32 bytes: a storage puts a head of its own behind it, and has its values
 * on a cache line. */
typedef struct tg_block {
    struct tg_block *next; /* while in a list */
    size_t size;           /* bytes, this head included */
    int size_class;
} tg_block;

#define TG_BLOCK_HEAD ((size_t)32)
_Static_assert(sizeof(tg_block) <= TG_BLOCK_HEAD, "the head must fit before the memory");

/* 16 small classes of 64 bytes a step, then 8 to a doubling from 1 KiB to 2^63. */
#define TG_SMALL_CLASSES 16
#define TG_POOL_CLASSES (TG_SMALL_CLASSES + 8 * 53)

typedef struct tg_pool {
    bool recycle, held;
    tg_block *waiting[TG_POOL_CLASSES];
} tg_pool;

tg_pool *tg_pool_new(bool recycle); /* recycle false: every block really goes back, for sanitizers */
void tg_pool_free(tg_pool *pool);

/* For the one below: any size, whether or not a block waits. */
void *tg_pool_take_any(tg_pool *pool, size_t bytes);

/* At least `bytes` (0 is fine), aligned to 32 and not initialised; NULL when out of memory. Without a pool: from the
 * allocator. The common case, a small block that waits, is here, to be inlined: a recorded op takes three. */
static inline void *tg_pool_take(tg_pool *pool, size_t bytes)
{
    size_t small = (bytes + TG_BLOCK_HEAD - 1) / 64;
    if (pool && bytes < 64 * TG_SMALL_CLASSES - TG_BLOCK_HEAD && pool->waiting[small]) {
        tg_block *taken = pool->waiting[small];
        pool->waiting[small] = taken->next;
        return (char *)taken + TG_BLOCK_HEAD;
    }
    return tg_pool_take_any(pool, bytes);
}

/* NULL is fine. Without a pool: back to the allocator. */
static inline void tg_pool_give(tg_pool *pool, void *memory)
{
    if (!memory) {
        return;
    }
    tg_block *given = (tg_block *)((char *)memory - TG_BLOCK_HEAD);
    if (pool && (pool->recycle || pool->held)) {
        given->next = pool->waiting[given->size_class];
        pool->waiting[given->size_class] = given;
    } else {
        tg_free(given);
    }
}

/* While held, a pool keeps what it is given even if it does not recycle: a plan may give blocks back, and so lay others
 * over them, before it is carried out. */
void tg_pool_hold(tg_pool *pool, bool held);

/* Bytes in lists, waiting: counts them. */
size_t tg_pool_idle(const tg_pool *pool);

/* Gives all waiting blocks back to the allocator. */
void tg_pool_trim(tg_pool *pool);

#endif
