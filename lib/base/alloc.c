/* alloc: all memory of the library, from the allocator of the program.
 *
 * Large blocks ask the system for huge pages. The ids of a batch name rows on as many pages of 4 KiB, and the processor
 * looks up the address of each. Smaller blocks would gain less, and lose memory at their ends.
 */
#if defined __linux__
#define _DEFAULT_SOURCE /* madvise */
#endif

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/poison.h"

#if defined __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

/* Asks the system to back a large block by huge pages. Rows of a table that ids name lie on different pages, and a
 * processor knows the addresses of only a few thousand pages at a time. A refusal is no error. */
static void ask_for_huge_pages(char *block, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    if (bytes >= (size_t)16 << 20) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)block % page;
        madvise(block + before, (bytes - before) / page * page, MADV_HUGEPAGE);
    }
#else
    (void)block, (void)bytes;
#endif
}

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
        ask_for_huge_pages(block, bytes);
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

bool tg_grow_now(void *array, size_t *capacity, size_t used, size_t needed, size_t size)
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
    void *old; /* all object pointers have one representation, but not one type: so no cast of `array` */
    memcpy(&old, array, sizeof old);
    if (used > 0) {
        memcpy(moved, old, used * size);
    }
    tg_free(old);
    memcpy(array, &moved, sizeof moved);
    *capacity = larger;
    return true;
}

void tg_text_free(char *text)
{
    tg_free(text);
}
