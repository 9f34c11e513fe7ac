/* hash: tables with open addressing. */
#include <string.h>

#include "base/alloc.h"

bool tg_slots_reserve(int32_t **slots, size_t *count, size_t entries, bool *is_new)
{
    size_t size = *count ? *count : 64;
    while (size < entries + entries / 2 + 1) {
        size *= 2;
    }
    *is_new = size != *count;
    if (!*is_new) {
        return true;
    }
    int32_t *empty = tg_alloc(size, sizeof *empty);
    if (!empty) {
        *is_new = false;
        return false;
    }
    memset(empty, -1, size * sizeof *empty);
    tg_free(*slots);
    *slots = empty;
    *count = size;
    return true;
}

size_t tg_hash_bytes(const char *bytes, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    }
    return (size_t)(hash ^ hash >> 32);
}
