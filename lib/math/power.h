/* power: x to the power of y for floats, written so that compilers vectorize a loop that calls it.
 *
 *   |x|^y = 2^(y log2 |x|)
 *   |x| = 2^e m,  m in [sqrt(1/2), sqrt(2))     log2 |x| = e + s P(s^2),   s = (m - 1) / (m + 1)
 *   y log2 |x| = n + f,   |f| <= 1/2            2^(n + f) = 2^n Q(f)
 *
 * The logarithm and the power are computed in double, and the result is rounded once. P and Q are least-maximum fits
 * with the relative errors 4.2e-12 and 1.9e-9. The error is at most 0.54 ulp (tests/math/test_power.c). Signs, zeros,
 * infinities and NaN are those of C's powf. The code has no branch, no fma and no table, so any vector width gives the
 * same bits. tg_pow_f64 is in math/doubles.h.
 */
#ifndef TG_MATH_POWER_H
#define TG_MATH_POWER_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "math/doubles.h"
#include "math/exp.h"

/* Returns log2 x for a positive, finite x. */
static inline double tg_log2_of_f32(float x)
{
    /* As in tg_log_f32 (math/log.h). */
    bool subnormal = x < FLT_MIN;
    tg_float_bits bits = {.value = subnormal ? x * 0x1p24F : x};
    uint32_t offset = bits.bits - 0x3f3504f3U;
    int32_t exponent = (int32_t)offset >> 23;
    bits.bits -= (uint32_t)exponent << 23;
    exponent -= subnormal ? 24 : 0;
    double m = (double)bits.value, s = (m - 1) / (m + 1), square = s * s;
    double p = 0.34072821799644598;
    p = p * square + 0.41167281631283353;
    p = p * square + 0.57708358343002168;
    p = p * square + 0.96179667334933224;
    p = p * square + 2.8853900817900806;
    return p * s + (double)exponent;
}

/* Returns 2^x, rounded to a float. */
static inline float tg_exp2_f32(double x)
{
    x = x > 130 ? 130 : x;
    x = x < -160 ? -160 : x;
    /* The lowest bits of the rounded number are those of n + 1023, and so, once shifted, those of 2^n. */
    const double shift = 0x1.8p52 + 1023;
    tg_double_bits rounded, power;
    rounded.value = x + shift;
    double f = x - (rounded.value - shift);
    power.bits = rounded.bits << 52;
    double p = 1.5345827966045240e-4;
    p = p * f + 1.3399931670741377e-3;
    p = p * f + 9.6184888933987157e-3;
    p = p * f + 5.5503287759519618e-2;
    p = p * f + 2.4022646891345876e-1;
    p = p * f + 6.9314720573766750e-1;
    p = p * f + 1.0000000005539898;
    return (float)(p * power.value);
}

/* Returns x^y. */
static inline float tg_pow_f32(float x, float y)
{
    const float whole_from = 0x1p23F; /* floats from here on are whole, and those from twice that on are even */
    float size = fabsf(x), exponent = fabsf(y);
    float shift = exponent < whole_from ? whole_from : 0;
    tg_float_bits rounded = {.value = exponent + shift}, sign = {.value = x}, power;
    bool is_whole = rounded.value - shift == exponent, can_be_odd = is_whole && exponent < 2 * whole_from;
    double log = tg_log2_of_f32(size);
    log = size == 0 ? -(double)INFINITY : log;
    log = size <= FLT_MAX ? log : (double)size; /* infinity and NaN */
    power.value = tg_exp2_f32((double)y * log);
    power.value = x < 0 && size <= FLT_MAX && !is_whole ? NAN : power.value;
    power.bits |= can_be_odd ? sign.bits & rounded.bits << 31 : 0;
    return y == 0 || x == 1 || (x == -1 && exponent > FLT_MAX) ? 1 : power.value;
}

#endif
