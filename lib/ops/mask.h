/* mask (private): the product with a mask of dropout, which has one bit per value. */
#ifndef TG_OPS_MASK_H
#define TG_OPS_MASK_H

#include "ops/kernel.h"

/* Computes out[i] = x[i] * factor where bit number first + i is set, else x[i] * 0; out may be x. Eight values take
 * their bits from two bytes, because the bits may begin anywhere; one byte follows those of the last value. */
static inline void mask_values(const uint8_t *bits, int64_t first, real factor, const real *x, int64_t n, real *out)
{
    enum { PART = 64 };
    int64_t i = 0;
    for (; i + PART <= n; i += PART) {
        const uint8_t *bytes = bits + (first + i) / 8;
        real mask[PART];
        for (int group = 0; group < PART / 8; group++) {
            int eight = (bytes[group] | bytes[group + 1] << 8) >> (first + i) % 8;
            for (int k = 0; k < 8; k++) {
                mask[8 * group + k] = eight >> k & 1 ? factor : 0;
            }
        }
        for (int k = 0; k < PART; k++) {
            out[i + k] = x[i + k] * mask[k];
        }
    }
    for (; i < n; i++) {
        out[i] = x[i] * (bits[(first + i) / 8] >> ((first + i) % 8) & 1 ? factor : 0);
    }
}

#endif
