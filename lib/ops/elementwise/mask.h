/* mask (private): the product with a mask of dropout, which has one bit per value. */
#ifndef TG_OPS_ELEMENTWISE_MASK_H
#define TG_OPS_ELEMENTWISE_MASK_H

#include "ops/kernel_real.h"

/* An integer of the size of `real`, so that both fill the same vectors. */
#if defined TG_REAL_F32
typedef uint32_t mask_bits;
#else
typedef uint64_t mask_bits;
#endif

/* The powers of two in a table: not every level can shift each value of a vector by another number. */
static const mask_bits power_of_two[32] = {
    0x1,       0x2,       0x4,       0x8,       0x10,       0x20,       0x40,       0x80,
    0x100,     0x200,     0x400,     0x800,     0x1000,     0x2000,     0x4000,     0x8000,
    0x10000,   0x20000,   0x40000,   0x80000,   0x100000,   0x200000,   0x400000,   0x800000,
    0x1000000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80000000};

/* Computes out[i] = x[i] * factor where bit number first + i is set, else x[i] * 0; out may be x. 32 values take their
 * bits from five bytes, because the bits may begin anywhere; one byte follows those of the last value. */
static inline void mask_values(const uint8_t *bits, int64_t first, real factor, const real *x, int64_t n, real *out)
{
    enum { PART = 32 };
    int64_t i = 0;
    for (; i + PART <= n; i += PART) {
        const uint8_t *bytes = bits + (first + i) / 8;
        uint32_t four = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        mask_bits part = (uint32_t)((four | (uint64_t)bytes[4] << 32) >> (first + i) % 8);
        for (int k = 0; k < PART; k++) {
            out[i + k] = x[i + k] * (part & power_of_two[k] ? factor : 0);
        }
    }
    for (; i < n; i++) {
        out[i] = x[i] * (bits[(first + i) / 8] >> ((first + i) % 8) & 1 ? factor : 0);
    }
}

#endif
