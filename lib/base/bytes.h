/* bytes (private): whole numbers in files, whose first byte is the lowest. */
#ifndef TG_BASE_BYTES_H
#define TG_BASE_BYTES_H

#include <stdint.h>

/* Returns the number in `width` bytes, at most 8. */
static inline uint64_t tg_number_of_bytes(const void *bytes, int width)
{
    const unsigned char *from = bytes;
    uint64_t number = 0;
    while (width-- > 0) {
        number = number << 8 | from[width];
    }
    return number;
}

static inline void tg_number_to_bytes(uint64_t number, void *bytes, int width)
{
    unsigned char *to = bytes;
    for (int i = 0; i < width; i++) {
        to[i] = (unsigned char)(number >> 8 * i);
    }
}

#endif
