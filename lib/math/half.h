/* half (private): the two 16-bit floats, F16 (IEEE 754 binary16) and BF16 (the upper half of an f32). Conversions to
 * them round to nearest, ties to even, as torch's do. NaN stays NaN, and what is too large becomes an infinity. */
#ifndef TG_MATH_HALF_H
#define TG_MATH_HALF_H

#include "math/exp.h"

static inline float tg_from_bf16(uint16_t half)
{
    return tg_float_of((uint32_t)half << 16);
}

static inline uint16_t tg_to_bf16(float x)
{
    uint32_t bits = tg_bits_of(x);
    return x != x ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* F16 has 5 bits of exponent with bias 15, and 10 bits of mantissa; f32 has 8 with bias 127, and 23. */
static inline float tg_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 0) {
        /* zero and subnormals: multiples of 2^-24 */
        return tg_float_of(sign | tg_bits_of((float)mantissa * 0x1p-24f));
    }
    return tg_float_of(sign | (exponent == 31 ? 0x7f800000 : (exponent + 127 - 15) << 23) | mantissa << 13);
}

static inline uint16_t tg_to_f16(float x)
{
    uint32_t bits = tg_bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00);
    }
    /* 65520 lies between the largest F16 and 2^16, and rounds to the even one */
    if (magnitude >= tg_bits_of(65520.0f)) {
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < tg_bits_of(0x1p-14f)) {
        /* subnormal: one unit of 0.5's last bit is 2^-24, so the addition rounds */
        return (uint16_t)(sign | (tg_bits_of(tg_float_of(magnitude) + 0.5f) - tg_bits_of(0.5f)));
    }
    uint32_t scaled = magnitude - ((127 - 15) << 23);
    return (uint16_t)(sign | (scaled + 0xfff + (scaled >> 13 & 1)) >> 13);
}

#endif
