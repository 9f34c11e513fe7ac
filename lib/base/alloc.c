#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/poison.h"

static void *default_allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    /* aligned_alloc needs a multiple of the alignment. */
    size_t rounded;
    if (!tg_checked_add(bytes, alignment - 1, &rounded)) {
        return NULL;
    }
    rounded &= ~(alignment - 1);
    char *block = aligned_alloc(alignment, rounded);
    if (block) {
        tg_poison(block + bytes, rounded - bytes);
    }
    return block;
}

static void default_release(void *context, void *block)
{
    (void)context;
    free(block);
}

static const tg_allocator default_allocator = {default_allocate, default_release, NULL};
static tg_allocator allocator = {default_allocate, default_release, NULL};

void tg_set_allocator(const tg_allocator *replacement)
{
    allocator = replacement ? *replacement : default_allocator;
}

void *tg_alloc(uint64_t count, size_t size)
{
    size_t bytes = 0;
    if (!tg_checked_mul(count, size, &bytes) || bytes == 0 || bytes > PTRDIFF_MAX) {
        return NULL;
    }
    return allocator.allocate(allocator.context, bytes, TG_ALIGNMENT);
}

void *tg_alloc_zeroed(uint64_t count, size_t size)
{
    void *block = tg_alloc(count, size);
    if (block) {
        memset(block, 0, (size_t)count * size);
    }
    return block;
}

void tg_free(void *block)
{
    if (block) {
        allocator.release(allocator.context, block);
    }
}

bool tg_grow_now(void **array, size_t *capacity, size_t used, size_t needed, size_t size)
{
    size_t larger = *capacity < 8 ? 8 : *capacity;
    while (larger < needed) {
        if (!tg_checked_mul(larger, 2, &larger)) {
            return false;
        }
    }
    void *moved = tg_alloc(larger, size);
    if (!moved) {
        return false;
    }
    if (used > 0) {
        memcpy(moved, *array, used * size);
    }
    tg_free(*array);
    *array = moved;
    *capacity = larger;
    return true;
}
