/* exp: e^x for floats, written so that compilers vectorize a loop that calls it.
 *
 *   n = round(x / ln 2)     r = x - n ln 2, |r| <= ln 2 / 2     e^x = 2^n e^r     e^r = 1 + r + r^2 P(r)
 *
 * ln 2 is the sum of two constants. The first has so few bits that its product with n is exact (Cody and Waite 1980).
 * P has the coefficients of Moshier's Cephes library, expf.c. 2^n is built from exponent bits as a product of two
 * factors, so that subnormal results are rounded once and results above the largest float are infinite.
 *
 * The error is at most 1 ulp for every float (tests/base/test_exp.c). The code has no branch, no fma and no table, so
 * any vector width gives the same bits.
 */
#ifndef TG_BASE_EXP_H
#define TG_BASE_EXP_H

#include <stdint.h>

static inline float tg_power_of_two(int32_t n)
{
    union {
        uint32_t bits;
        float value;
    } power = {.bits = ((uint32_t)n + 127) << 23};
    return power.value;
}

static inline float tg_exp_f32(float x)
{
    /* Adding `shift` leaves the nearest integer in the low bits. The bits are unsigned, because those of a NaN are
     * arbitrary and their difference may wrap. */
    union {
        float value;
        uint32_t bits;
    } rounded, shift = {.value = 0x1.8p23F};
    x = x > 89 ? 89 : x;
    x = x < -105 ? -105 : x;
    rounded.value = x * 1.44269504F + shift.value;
    int32_t n = (int32_t)(rounded.bits - shift.bits);
    float whole = rounded.value - shift.value;
    float r = x - whole * 0.693359375F + whole * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1;
    return p * tg_power_of_two(n >> 1) * tg_power_of_two(n - (n >> 1));
}

#endif
