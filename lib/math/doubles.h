/* doubles: functions of doubles with the same bits on every machine. The C libraries differ in last digits.
 *
 *   e^x          2^n e^r with x = n ln 2 + r, as in math/exp.h, and a least-maximum fit of e^r of degree 11 with a
 *                relative error of 6.2e-18
 *   log x        n ln 2 + log m with x = 2^n m, m in [sqrt(1/2), sqrt(2)), and the polynomial of FreeBSD's e_log.c
 *
 * They have no branch, no fma and no table, so that compilers vectorize loops that call them, and any vector width
 * gives the same bits. The largest errors that tests/math/test_doubles.c finds are stated there. Powers, sines and the
 * normal distribution are in math/power.h, trigonometry.h and normal_tail.h.
 */
#ifndef TG_MATH_DOUBLES_H
#define TG_MATH_DOUBLES_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "math/fma.h"

/* Returns e^r - 1 for x + low = n ln 2 + r, and sets n; |x| < 2^20, and |low| is small beside 1. The first part of ln 2
 * has 32 bits, so that its product with n is exact. */
static inline double tg_exp_rest_of_sum(double x, double low, uint64_t *n)
{
    /* as in tg_exp_rest_f32 */
    tg_double_bits rounded, shift = {.value = 0x1.8p52};
    rounded.value = x * 1.4426950408889634 + shift.value;
    *n = rounded.bits - shift.bits;
    double whole = rounded.value - shift.value;
    double r = (x - whole * 6.93147180369123816490e-01) - (whole * 1.90821492927058770002e-10 - low);
    double square = r * r, high = square * square; /* terms in pairs, which do not wait for each other */
    double p = (2.50091946292644125e-8 * r + 2.76239074457188775e-7) * square;
    p += 2.75575176741211728e-6 * r + 2.48015121579297074e-5;
    p = p * high + (1.98412696437009026e-4 * r + 1.38888889237628624e-3) * square;
    p += 8.33333333339171521e-3 * r + 4.16666666666123727e-2;
    p = p * square + (1.0 / 6 * r + 0.5);
    return p * square + r;
}

static inline double tg_exp_rest_f64(double x, uint64_t *n)
{
    return tg_exp_rest_of_sum(x, 0, n);
}

static inline double tg_power_of_two_f64(uint64_t n)
{
    tg_double_bits power = {.bits = (n + 1023) << 52};
    return power.value;
}

/* Returns e^(x + low), where |low| is small beside 1. */
static inline double tg_exp_of_sum(double x, double low)
{
    x = x > 710 ? 710 : x;
    x = x < -746 ? -746 : x;
    uint64_t n;
    double p = tg_exp_rest_of_sum(x, low, &n) + 1;
    uint64_t half = ((n + 2048) >> 1) - 1024; /* two factors: 2^n may be subnormal or too large */
    return p * tg_power_of_two_f64(half) * tg_power_of_two_f64(n - half);
}

static inline double tg_exp_f64(double x)
{
    return tg_exp_of_sum(x, 0);
}

/* Returns n and the bits of m, for a positive, finite x = 2^n m. */
static inline double tg_log_reduce(double x, double *m)
{
    bool subnormal = x < DBL_MIN;
    tg_double_bits bits = {.value = subnormal ? x * 0x1p54 : x}, exponent;
    /* Without the bits of sqrt(1/2) the exponent is n, and what remains is m. */
    uint64_t offset = bits.bits - UINT64_C(0x3fe6a09e667f3bcd) + ((uint64_t)2048 << 52); /* not below 0 */
    /* the bits of 2^52 + n + 2048 */
    exponent.bits = offset >> 52 | UINT64_C(0x4330000000000000);
    bits.bits -= (offset & UINT64_C(0xfff0000000000000)) - ((uint64_t)2048 << 52);
    *m = bits.value;
    return exponent.value - (0x1p52 + 2048) - (subnormal ? 54.0 : 0.0);
}

/* Returns log x: -inf for 0, and NaN below 0. */
static inline double tg_log_f64(double x)
{
    double m, n = tg_log_reduce(x, &m), f = m - 1, s = f / (2 + f), square = s * s, half = 0.5 * f * f;
    double p = 1.479819860511658591e-01;
    p = p * square + 1.531383769920937332e-01;
    p = p * square + 1.818357216161805012e-01;
    p = p * square + 2.222219843214978396e-01;
    p = p * square + 2.857142874366239149e-01;
    p = p * square + 3.999999999940941908e-01;
    p = p * square + 6.666666666666735130e-01;
    p = p * square;
    double y = n * 6.93147180369123816490e-01 - ((half - (s * (half + p) + n * 1.90821492927058770002e-10)) - f);
    y = x > 0 ? y : x == 0 ? -(double)INFINITY : (double)NAN;
    return x <= DBL_MAX ? y : x; /* infinity and NaN */
}

/* Returns log(1 + x) for x in [-1,1]. */
static inline double tg_log1p_f64(double x)
{
    double sum = 1 + x, lost = x - (sum - 1);
    double y = tg_log_f64(sum) + lost / sum;
    return sum == 1 ? x : sum == 0 ? -(double)INFINITY : y;
}

#endif
