#include "tensor/pool.h"

/* Returns the size class for `bytes`, and sets *size to the size of its blocks. */
static int class_of(size_t bytes, size_t *size)
{
    if (bytes <= 64 * TG_SMALL_CLASSES) {
        int small = (int)((bytes - 1) / 64);
        *size = 64 * ((size_t)small + 1);
        return small;
    }
    int exponent = 63 - __builtin_clzll((unsigned long long)(bytes - 1)); /* 2^exponent < bytes <= 2^(exponent + 1) */
    size_t step = (size_t)1 << (exponent - 3);
    size_t eighth = (bytes - 1 - ((size_t)1 << exponent)) / step; /* 0 .. 7 */
    *size = ((size_t)1 << exponent) + (eighth + 1) * step;
    return TG_SMALL_CLASSES + 8 * (exponent - 10) + (int)eighth;
}

tg_pool *tg_pool_new(bool recycle)
{
    tg_pool *pool = tg_alloc_zeroed(1, sizeof *pool);
    if (pool) {
        pool->recycle = recycle;
    }
    return pool;
}

void tg_pool_trim(tg_pool *pool)
{
    for (int i = 0; i < TG_POOL_CLASSES; i++) {
        while (pool->waiting[i]) {
            tg_block *first = pool->waiting[i];
            pool->waiting[i] = first->next;
            tg_block_free(first);
        }
    }
}

void tg_pool_free(tg_pool *pool)
{
    if (pool) {
        tg_pool_trim(pool);
        tg_free(pool);
    }
}

void tg_pool_hold(tg_pool *pool, bool held)
{
    pool->held = held;
    if (!held && !pool->recycle) {
        tg_pool_trim(pool);
    }
}

void *tg_block_new_zeroed(size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 2) {
        return NULL;
    }
    tg_block *block = tg_alloc_zeroed(1, bytes + TG_BLOCK_HEAD);
    if (!block) {
        return NULL;
    }
    block->size = bytes + TG_BLOCK_HEAD;
    block->size_class = TG_NO_CLASS;
    return tg_block_open(block, bytes);
}

void *tg_pool_take_any(tg_pool *pool, size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 2) {
        return NULL;
    }
    size_t size;
    int size_class = class_of(bytes + TG_BLOCK_HEAD, &size);
    tg_block *taken = pool ? pool->waiting[size_class] : NULL;
    if (taken) {
        pool->waiting[size_class] = taken->next;
    } else {
        taken = tg_alloc(1, size);
        if (!taken) {
            return NULL;
        }
        taken->size = size;
        taken->size_class = pool ? size_class : TG_NO_CLASS;
    }
    return tg_block_open(taken, bytes);
}
