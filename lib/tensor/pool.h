/* pool (private): blocks of memory that are reused.
 *
 * A training step needs the same sizes each time. A pool keeps the blocks that are returned to it in one list per
 * size class, so a step whose shapes were used before allocates nothing. Up to 1 KiB the size classes are the multiples
 * of 64 bytes. Above that there are eight per doubling, so less than an eighth of a block is unused.
 *
 * A pool belongs to one tape, and so to one thread. Blocks are ordinary allocations: another thread may free a block
 * from a pool with tg_pool_give(NULL, block), also after the pool was freed.
 *
 * Under AddressSanitizer an access is reported if it touches an idle block, the bytes of a block behind those that the
 * caller asked for, or the last 8 bytes before them.
 */
#ifndef TG_TENSOR_POOL_H
#define TG_TENSOR_POOL_H

#include "base/alloc.h"
#include "base/poison.h"

/* The header of a block, 32 bytes, before the memory that callers get. The header of a storage comes next, so that its
 * values begin on a cache line. */
typedef struct tg_block {
    struct tg_block *next; /* the next block in the pool's list */
    size_t size;           /* bytes, this header included */
    int size_class;        /* TG_NO_CLASS: of no pool */
    int users;             /* a count for the owner of the memory (tg_block_users) */
} tg_block;

#define TG_BLOCK_HEAD ((size_t)32)
_Static_assert(sizeof(tg_block) <= TG_BLOCK_HEAD, "the header of a block must fit into TG_BLOCK_HEAD");

/* 16 small classes in steps of 64 bytes, then 8 per doubling from 1 KiB to 2^63. */
#define TG_SMALL_CLASSES 16
#define TG_POOL_CLASSES (TG_SMALL_CLASSES + 8 * 53)
#define TG_NO_CLASS (-1)

typedef struct tg_pool {
    /* whether returned blocks are kept: always, and until tg_pool_hold(pool, false) */
    bool recycle, held;
    tg_block *waiting[TG_POOL_CLASSES]; /* idle blocks, one list per size class */
} tg_pool;

/* Returns a pool, or NULL when memory is exhausted. With `recycle` false, returned blocks go back to the allocator at
 * once, so that sanitizers detect a use after free. */
tg_pool *tg_pool_new(bool recycle);
void tg_pool_free(tg_pool *pool);

/* tg_pool_take for any size and state of the pool. */
void *tg_pool_take_any(tg_pool *pool, size_t bytes);

/* Returns the memory of a block that was idle or is new: under AddressSanitizer, `bytes` of it may be used. */
static inline void *tg_block_open(tg_block *block, size_t bytes)
{
    char *memory = (char *)block + TG_BLOCK_HEAD;
    if (TG_HAS_POISON) {
        tg_poison(block + 1, block->size - sizeof *block);
        tg_unpoison(memory, bytes);
    }
    return memory;
}

/* Returns a block to the allocator. */
static inline void tg_block_free(tg_block *block)
{
    tg_unpoison(block, block->size);
    tg_free(block);
}

/* Returns at least `bytes` (0 is allowed), uninitialized, aligned to 32; NULL when memory is exhausted. If the pool is
 * NULL, they come from the allocator. The common case, an idle small block, is inlined, because each recorded op takes
 * three blocks. */
static inline void *tg_pool_take(tg_pool *pool, size_t bytes)
{
    size_t small = (bytes + TG_BLOCK_HEAD - 1) / 64;
    if (pool && bytes < 64 * TG_SMALL_CLASSES - TG_BLOCK_HEAD && pool->waiting[small]) {
        tg_block *taken = pool->waiting[small];
        pool->waiting[small] = taken->next;
        return tg_block_open(taken, bytes);
    }
    return tg_pool_take_any(pool, bytes);
}

/* Returns `bytes` zeros, which come from the allocator; NULL when memory is exhausted. */
void *tg_block_new_zeroed(size_t bytes);

/* Returns a block to the pool, or to the allocator if the pool is NULL, or if no pool gave it: the tensors of a program
 * that a tape releases last, one per step, would fill the pool. `memory` may be NULL. */
static inline void tg_pool_give(tg_pool *pool, void *memory)
{
    if (!memory) {
        return;
    }
    tg_block *given = (tg_block *)((char *)memory - TG_BLOCK_HEAD);
    if (pool && given->size_class != TG_NO_CLASS && (pool->recycle || pool->held)) {
        given->next = pool->waiting[given->size_class];
        pool->waiting[given->size_class] = given;
        tg_poison(memory, given->size - TG_BLOCK_HEAD);
    } else {
        tg_block_free(given);
    }
}

/* Returns a counter in the header of a block, which the owner of the memory may use. */
static inline int *tg_block_users(void *memory)
{
    return &((tg_block *)((char *)memory - TG_BLOCK_HEAD))->users;
}

/* Returns the bytes of a block that its owner may use. */
static inline size_t tg_block_bytes(void *memory)
{
    return ((tg_block *)((char *)memory - TG_BLOCK_HEAD))->size - TG_BLOCK_HEAD;
}

/* Holds the pool, or ends that. A pool that is held keeps returned blocks even if it does not recycle: the first pass
 * of backward returns blocks that its second pass uses. */
void tg_pool_hold(tg_pool *pool, bool held);

/* Returns all idle blocks to the allocator. */
void tg_pool_trim(tg_pool *pool);

#endif
