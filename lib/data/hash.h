/* hash (private): the hash of a string of bytes, for tables with open addressing. */
#ifndef TG_DATA_HASH_H
#define TG_DATA_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a (Fowler, Noll and Vo), whose upper half is mixed into the lower one. */
static inline size_t tg_hash_bytes(const char *bytes, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    }
    return (size_t)(hash ^ hash >> 32);
}

#endif
