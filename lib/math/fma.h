/* fma: a b + c, rounded once, on every processor, but for doubles of extreme sizes.
 *
 * Where the compiler's target has fused multiply-adds, they are used. C's fma is not correctly rounded everywhere
 * (mingw-w64), and a call per value is slow. So elsewhere the sum is computed exactly by other means:
 *
 *   float    The product of two floats is exact in double. The sum of it and c is rounded to odd: an inexact sum
 *            becomes the neighbor whose last bit is 1. Rounded to a float, it is as if it had been rounded once.
 *   double   The product is a sum of two doubles (Veltkamp and Dekker 1971). It is added to c by the method of Boldo
 *            and Melquiond (Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd,
 *            2008). Factors other than 0 that are below 2^-450 or above 2^450, and sums above 2^1000, would lose
 *            parts of it: their product is rounded, too.
 *
 * Knuth's two-sum gives the error of each sum.
 */
#ifndef TG_MATH_FMA_H
#define TG_MATH_FMA_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "math/exp.h"

/* Whether the compiler fuses. It does on processors that always can, even if it does not say so. */
#if defined __FP_FAST_FMA || defined __FMA__ || defined __aarch64__ || defined __s390x__
#define TG_HAS_FMA
#endif

/* Returns the sum, whose error is known, rounded to odd. */
static inline double tg_rounded_to_odd(double sum, double error)
{
    tg_double_bits odd = {.value = sum};
    /* A NaN is neither above nor below 0: so infinities and NaN stay. */
    uint64_t is_inexact_and_even = (error > 0 || error < 0) & ~odd.bits & 1;
    odd.bits += (error > 0) == (sum > 0) ? is_inexact_and_even : 0 - is_inexact_and_even;
    return odd.value;
}

/* Returns the error of the sum of a and b: a + b = sum + error, unless the sum overflows. */
static inline double tg_error_of_sum(double a, double b, double sum)
{
    double of_b = sum - a;
    return (a - (sum - of_b)) + (b - of_b);
}

static inline float tg_exact_fma_f32(float a, float b, float c)
{
    double product = (double)a * (double)b, sum = product + (double)c;
    return (float)tg_rounded_to_odd(sum, tg_error_of_sum(product, (double)c, sum));
}

/* Returns the upper half of the bits of x, so that the lower half is x minus it; |x| < 2^996. */
static inline double tg_upper_half(double x)
{
    double scaled = 0x8000001p0 * x;
    return scaled - (scaled - x);
}

/* Returns x without its last 27 bits: products of such numbers are exact. */
static inline double tg_upper_bits(double x)
{
    tg_double_bits upper = {.value = x};
    upper.bits &= ~UINT64_C(0x7ffffff);
    return upper.value;
}

/* Returns a b + c for 2^-450 <= |a|, |b| <= 2^450 and |c| <= 2^1000. */
static inline double tg_plain_fma_f64(double a, double b, double c)
{
    double a_upper = tg_upper_half(a), a_lower = a - a_upper, b_upper = tg_upper_half(b), b_lower = b - b_upper;
    double product = a * b;
    double rest = a_upper * b_upper - product + a_upper * b_lower + a_lower * b_upper + a_lower * b_lower;
    double low = c + rest, low_error = tg_error_of_sum(c, rest, low);
    double sum = product + low, error = tg_error_of_sum(product, low, sum);
    double tail = error + low_error;
    return sum + tg_rounded_to_odd(tail, tg_error_of_sum(error, low_error, tail));
}

static inline bool tg_is_within(double x, double least, double most)
{
    return fabs(x) >= least && fabs(x) <= most;
}

static inline double tg_exact_fma_f64(double a, double b, double c)
{
    bool is_plain = tg_is_within(a, 0x1p-450, 0x1p450) && tg_is_within(b, 0x1p-450, 0x1p450) && fabs(c) <= 0x1p1000;
    return is_plain ? tg_plain_fma_f64(a, b, c) : a * b + c;
}

#if defined TG_HAS_FMA
static inline float tg_fma_f32(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static inline double tg_fma_f64(double a, double b, double c)
{
    return fma(a, b, c);
}
#else
static inline float tg_fma_f32(float a, float b, float c)
{
    return tg_exact_fma_f32(a, b, c);
}

static inline double tg_fma_f64(double a, double b, double c)
{
    return tg_exact_fma_f64(a, b, c);
}
#endif

#endif
