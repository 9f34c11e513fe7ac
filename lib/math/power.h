/* power: x to the power of y for floats, written so that compilers vectorize a loop that calls it.
 *
 *   |x|^y = 2^(y log2 |x|)
 *   |x| = 2^e m,  m in [sqrt(1/2), sqrt(2))     log2 |x| = e + s P(s^2),   s = (m - 1) / (m + 1)
 *   y log2 |x| = n + f,   |f| <= 1/2            2^(n + f) = 2^n Q(f)
 *
 * The logarithm and the power are computed in double, and the result is rounded once. P and Q are least-maximum fits
 * with the relative errors 4.2e-12 and 1.9e-9. The error is at most 0.54 ulp (tests/math/test_power.c). Signs, zeros,
 * infinities and NaN are those of C's powf. The code has no branch, no fma and no table, so any vector width gives the
 * same bits.
 *
 * Doubles: below.
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

/* ---- doubles ---- */

/* A number as a sum of two, of which the upper one may have few bits. */
typedef struct tg_log_parts {
    double upper, lower;
} tg_log_parts;

/* Returns log x for a positive, finite x = 2^n m. The upper part has 26 bits, and the error is about 2^-66 of log x:
 *
 *   log m = log c + 2/3 s (3 + s^2 + s^4 Q(s^2)),   s = (m - c) / (m + c),   c = 51/64, 1 or 5/4,   |s| < 0.062
 *
 * Q is a least-maximum fit with an error of 1.7e-22 of the sum. Products of upper parts are exact, because these have
 * 26 bits, and so are sums of the upper parts of ln 2 and log c, which are multiples of 2^-32. The method is that of
 * FreeBSD's pow. */
static inline tg_log_parts tg_log_pair(double x)
{
    double m, n = tg_log_reduce(x, &m);
    double center = m < 0.8928 ? 0.796875 : 1, of_center = m < 0.8928 ? -0x1.d1037f28p-3 : 0;
    double center_lower = m < 0.8928 ? 4.844138023690714e-11 : 0;
    center = m > 1.118 ? 1.25 : center;
    of_center = m > 1.118 ? 0x1.c8ff7c78p-3 : of_center;
    center_lower = m > 1.118 ? 4.838889490356316e-11 : center_lower;
    double f = m - center, inverse = 1 / (m + center), s = f * inverse, square = s * s, s_upper = tg_upper_bits(s);
    double below = tg_upper_bits(m + center), below_lower = m - (below - center);
    double s_lower = inverse * ((f - s_upper * below) - s_upper * below_lower);
    double fourth = square * square, q = 0.2332831556040956 * fourth;
    q += 0.2727152621389873 * square + 0.33333336037487116;
    q = q * fourth + (0.42857142854319497 * square + 0.6000000000000106);
    double rest = fourth * q + s_lower * (s_upper + s), exact = s_upper * s_upper;
    double sum = tg_upper_bits(3 + exact + rest), sum_lower = rest - ((sum - 3) - exact);
    double product = s_upper * sum, product_lower = s_lower * sum + sum_lower * s;
    double p = tg_upper_bits(product + product_lower), p_lower = product_lower - (p - product);
    const double third = 0x1.555555p-1, third_lower = 9.934107462565104e-09; /* of two */
    double upper = third * p, lower = third_lower * p + p_lower * (2.0 / 3);
    lower += n * 1.90821492927058770002e-10 + center_lower;
    double whole = n * 6.93147180369123816490e-01 + of_center;
    tg_log_parts log = {.upper = tg_upper_bits(whole + (upper + lower))};
    log.lower = lower - ((log.upper - whole) - upper);
    return log;
}

/* Returns x^y. */
static inline double tg_pow_f64(double x, double y)
{
    const double whole_from = 0x1p52; /* as in tg_pow_f32 */
    double size = fabs(x), exponent = fabs(y);
    double shift = exponent < whole_from ? whole_from : 0;
    tg_double_bits rounded = {.value = exponent + shift}, sign = {.value = x}, power;
    bool is_whole = rounded.value - shift == exponent, can_be_odd = is_whole && exponent < 2 * whole_from;
    bool has_log = size > 0 && size <= DBL_MAX;
    tg_log_parts log = tg_log_pair(has_log ? size : 1);
    double edge = size == 0 ? -(double)INFINITY : size; /* infinity and NaN, too */
    double estimate = y * (has_log ? log.upper : edge), y_upper = tg_upper_bits(y);
    double upper = y_upper * log.upper, lower = (y - y_upper) * log.upper + y * log.lower, sum = upper + lower;
    bool is_near = fabs(estimate) < 1000; /* elsewhere a power is 0, infinite or NaN, and the sum may overflow */
    power.value = tg_exp_of_sum(is_near ? sum : estimate, is_near ? lower - (sum - upper) : 0);
    power.value = x < 0 && size <= DBL_MAX && !is_whole ? (double)NAN : power.value;
    power.bits |= can_be_odd ? sign.bits & rounded.bits << 63 : 0;
    return y == 0 || x == 1 || (x == -1 && exponent > DBL_MAX) ? 1 : power.value;
}

#endif
