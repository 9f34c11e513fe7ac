/* doubles: functions of doubles with the same bits on every machine. The C libraries differ in last digits.
 *
 *   e^x          2^n e^r with x = n ln 2 + r, and Taylor's polynomial of e^r of degree 13
 *   log x        n ln 2 + log m with x = 2^n m, m in [sqrt(1/2), sqrt(2)), and the polynomial of FreeBSD's e_log.c
 *   tanh x       m / (m + 2) with m = e^2|x| - 1, as in math/exp.h
 *
 * Those in this file have no branch, no fma and no table, so that compilers vectorize loops that call them; the others
 * are in doubles.c. A sum or product in two parts is exact, so it is the same with and without fused multiply-adds. The
 * largest errors that tests/math/test_doubles.c finds are stated there.
 */
#ifndef TG_MATH_DOUBLES_H
#define TG_MATH_DOUBLES_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "math/fma.h"

/* Returns the sum of the terms of e^r from r^2 / 2 on, for |r| <= ln 2 / 2. */
static inline double tg_exp_tail(double r)
{
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    return p * (r * r);
}

/* Returns n, and r in two parts, for |x| < 2^20. The first part of ln 2 has 32 bits, so that its product with n is
 * exact. The bits of n are the lowest of `rounded`. */
static inline double tg_exp_reduce(double x, double *rest, double *rest_low)
{
    const double shift = 0x1.8p52;
    double n = x * 1.4426950408889634 + shift - shift;
    double upper = x - n * 6.93147180369123816490e-01, lower = n * 1.90821492927058770002e-10;
    *rest = upper - lower;
    *rest_low = (upper - *rest) - lower;
    return n;
}

static inline double tg_power_of_two_f64(double n)
{
    /* The lowest bits of the rounded number are those of n + 1023, and so, once shifted, those of 2^n. */
    tg_double_bits power = {.value = n + (0x1.8p52 + 1023)};
    power.bits <<= 52;
    return power.value;
}

/* Returns e^(x + low), where |low| is at most 1 ulp of x. */
static inline double tg_exp_of_sum(double x, double low)
{
    x = x > 710 ? 710 : x;
    x = x < -746 ? -746 : x;
    double rest, rest_low, n = tg_exp_reduce(x, &rest, &rest_low);
    double sum = 1 + rest, sum_low = (1 - sum) + rest;
    double tail = tg_exp_tail(rest), e = sum + (sum_low + (tail + (rest_low + low) * (sum + tail)));
    /* two factors: 2^n may be subnormal or too large */
    const double shift = 0x1.8p52;
    double half = n * 0.5 + shift - shift;
    return e * tg_power_of_two_f64(half) * tg_power_of_two_f64(n - half);
}

static inline double tg_exp_f64(double x)
{
    return tg_exp_of_sum(x, 0);
}

/* As tg_exp_or_zero_f32 (math/exp.h). */
static inline double tg_exp_or_zero_f64(double x)
{
    double e = tg_exp_f64(x);
    return x < -708.39 ? 0 : e;
}

/* Returns e^x - 1 for x in [-746, 710]. */
static inline double tg_exp_minus_one(double x)
{
    double rest, rest_low, n = tg_exp_reduce(x, &rest, &rest_low), power = tg_power_of_two_f64(n);
    double e = rest + (rest_low + tg_exp_tail(rest));
    return power * e + (power - 1);
}

/* Returns e^x - 1 for x <= 0, with the sign of x. */
static inline double tg_expm1_f64(double x)
{
    const double minus_one = -38; /* from here on e^x - 1 is rounded to -1 */
    double least = x < minus_one ? minus_one : x;
    return copysign(tg_exp_minus_one(least > 0 ? 0 : least), x);
}

static inline double tg_tanh_f64(double x)
{
    const double one = 19.1; /* from here on tanh x is rounded to 1 */
    double a = fabs(x), m = tg_exp_minus_one(2 * (a > one ? one : a));
    return copysign(m / (m + 2), x);
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

/* Return sin x and cos x; above 2^20 by libm. */
double tg_sin_f64(double x);
double tg_cos_f64(double x);

/* Returns x^y, with the signs, zeros, infinities and NaN of C's pow. */
double tg_pow_f64(double x, double y);

/* Returns 1 - erf x for x >= 0. */
double tg_erfc_f64(double x);

#endif
