#include "tensor/pool.h"

/* 16 small classes of 64 bytes a step, then 8 to a doubling from 1 KiB to 2^63. */
#define SMALL_CLASSES 16
#define CLASSES (SMALL_CLASSES + 8 * 53)

/* Stands before the memory that callers see. */
typedef struct block {
    struct block *next; /* while in a list */
    size_t size;        /* bytes, this head included */
    int size_class;
} block;

_Static_assert(sizeof(block) <= TG_BLOCK_HEAD, "the head must fit before the memory");

struct tg_pool {
    bool recycle, held;
    size_t idle;
    block *waiting[CLASSES];
};

/* The class that holds `bytes`, and how many bytes its blocks have. */
static int class_of(size_t bytes, size_t *size)
{
    if (bytes <= 64 * SMALL_CLASSES) {
        int small = (int)((bytes - 1) / 64);
        *size = 64 * ((size_t)small + 1);
        return small;
    }
    int exponent = 63 - __builtin_clzll((unsigned long long)(bytes - 1)); /* 2^exponent < bytes <= 2^(exponent + 1) */
    size_t step = (size_t)1 << (exponent - 3);
    size_t eighth = (bytes - 1 - ((size_t)1 << exponent)) / step; /* 0 .. 7 */
    *size = ((size_t)1 << exponent) + (eighth + 1) * step;
    return SMALL_CLASSES + 8 * (exponent - 10) + (int)eighth;
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
    for (int i = 0; i < CLASSES; i++) {
        while (pool->waiting[i]) {
            block *first = pool->waiting[i];
            pool->waiting[i] = first->next;
            tg_free(first);
        }
    }
    pool->idle = 0;
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

size_t tg_pool_idle(const tg_pool *pool)
{
    return pool->idle;
}

void *tg_pool_take(tg_pool *pool, size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 2) {
        return NULL;
    }
    size_t size;
    int size_class = class_of(bytes + TG_BLOCK_HEAD, &size);
    block *taken = pool ? pool->waiting[size_class] : NULL;
    if (taken) {
        pool->waiting[size_class] = taken->next;
        pool->idle -= size;
    } else {
        taken = tg_alloc(1, size);
        if (!taken) {
            return NULL;
        }
        taken->size = size;
        taken->size_class = size_class;
    }
    return (char *)taken + TG_BLOCK_HEAD;
}

void tg_pool_give(tg_pool *pool, void *memory)
{
    if (!memory) {
        return;
    }
    block *given = (block *)((char *)memory - TG_BLOCK_HEAD);
    if (pool && (pool->recycle || pool->held)) {
        given->next = pool->waiting[given->size_class];
        pool->waiting[given->size_class] = given;
        pool->idle += given->size;
    } else {
        tg_free(given);
    }
}
