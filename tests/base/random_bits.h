/* Random bits for tests that run loops without the library and its generator. */
#ifndef TG_TESTS_RANDOM_BITS_H
#define TG_TESTS_RANDOM_BITS_H

#include <stdint.h>

/* Returns the next 64 bits of a fixed sequence: xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift
 * generators, scrambled, 2016). */
static inline uint64_t random_bits(void)
{
    static uint64_t seed = 1;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(0x2545f4914f6cdd1d);
}

#endif
