/* mask (private): the product with a mask of dropout, which has one bit per value. */
#ifndef TG_OPS_MASK_H
#define TG_OPS_MASK_H

#include "ops/kernel.h"

/* Computes out[i] = x[i] * factor where bit number first + i is set, else x[i] * 0; out may be x. Eight values at a
 * time take their bits from two bytes. The bits may begin anywhere, and one byte follows those of the last value. */
static inline void mask_values(const uint8_t *bits, int64_t first, real factor, const real *x, int64_t n, real *out)
{
    static const int32_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint8_t *bytes = bits + (first + i) / 8;
        int32_t eight = (bytes[0] | bytes[1] << 8) >> (first + i) % 8;
        for (int k = 0; k < 8; k++) {
            out[i + k] = x[i + k] * (eight & bit[k] ? factor : 0);
        }
    }
    for (; i < n; i++) {
        out[i] = x[i] * (bits[(first + i) / 8] >> ((first + i) % 8) & 1 ? factor : 0);
    }
}

#endif
