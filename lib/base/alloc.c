/* alloc: all memory of the library, from the allocator of the program.
 *
 * Large blocks ask the system for huge pages. The ids of a batch name rows on as many pages of 4 KiB, and the processor
 * looks up the address of each. Smaller blocks would gain less, and lose memory at their ends. Blocks of zeros come
 * from calloc: the system's pages are zeros already, and take no memory before they are touched, so the moments of a
 * table of which few rows are used cost little.
 */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/poison.h"
#include "system/system.h"

/* Blocks of at least this many bytes ask for huge pages. */
#define LARGE ((size_t)16 << 20)

/* Returns an aligned block of malloc or calloc. What they returned stands before it, for free. */
static void *allocate_aligned(size_t bytes, size_t alignment, bool zeroed)
{
    size_t before = alignment + sizeof(void *), whole;
    char *given = tg_checked_add(bytes, before, &whole) ? (zeroed ? calloc(1, whole) : malloc(whole)) : NULL;
    if (!given) {
        return NULL;
    }
    char *block = given + before - (uintptr_t)(given + before) % alignment;
    memcpy(block - sizeof(void *), &given, sizeof given);
    if (bytes >= LARGE) {
        tg_system_ask_for_huge_pages(block, bytes);
    }
    tg_poison(block + bytes, (size_t)(given + whole - (block + bytes)));
    return block;
}

static void *default_allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    return allocate_aligned(bytes, alignment, false);
}

static void default_release(void *context, void *block)
{
    (void)context;
    void *given;
    memcpy(&given, (char *)block - sizeof given, sizeof given);
    free(given);
}

static const tg_allocator default_allocator = {default_allocate, default_release, NULL};
static tg_allocator allocator = {default_allocate, default_release, NULL};

void tg_set_allocator(const tg_allocator *replacement)
{
    allocator = replacement ? *replacement : default_allocator;
}

/* Returns count * size, or 0 if that is too large. */
static size_t bytes_of(uint64_t count, size_t size)
{
    size_t bytes = 0;
    return tg_checked_mul(count, size, &bytes) && bytes <= PTRDIFF_MAX ? bytes : 0;
}

void *tg_alloc(uint64_t count, size_t size)
{
    size_t bytes = bytes_of(count, size);
    return bytes > 0 ? allocator.allocate(allocator.context, bytes, TG_ALIGNMENT) : NULL;
}

void *tg_alloc_zeroed(uint64_t count, size_t size)
{
    size_t bytes = bytes_of(count, size);
    if (allocator.allocate == default_allocate) {
        return bytes > 0 ? allocate_aligned(bytes, TG_ALIGNMENT, true) : NULL;
    }
    void *block = tg_alloc(count, size);
    if (block) {
        memset(block, 0, bytes);
    }
    return block;
}

void tg_free(void *block)
{
    if (block) {
        allocator.release(allocator.context, block);
    }
}

bool tg_grow(void *array, size_t *capacity, size_t used, size_t needed, size_t size)
{
    if (needed <= *capacity) {
        return true;
    }
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
