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

typedef struct tg_pool tg_pool;

tg_pool *tg_pool_new(bool recycle); /* recycle false: every block really goes back, for sanitizers */
void tg_pool_free(tg_pool *pool);

/* At least `bytes` (0 is fine), aligned to 32 and not initialised; NULL when out of memory. Without a pool: from the
 * allocator. Memory begins 32 bytes into its block: a storage puts a head of its own there, and has its values on a
 * cache line. */
#define TG_BLOCK_HEAD ((size_t)32)

void *tg_pool_take(tg_pool *pool, size_t bytes);

/* NULL is fine. Without a pool: back to the allocator. */
void tg_pool_give(tg_pool *pool, void *block);

/* While held, a pool keeps what it is given even if it does not recycle: a plan may give blocks back, and so lay others
 * over them, before it is carried out. */
void tg_pool_hold(tg_pool *pool, bool held);

/* Bytes in lists, waiting. */
size_t tg_pool_idle(const tg_pool *pool);

/* Gives all waiting blocks back to the allocator. */
void tg_pool_trim(tg_pool *pool);

#endif
