/* log: log x and log(1 + x) for floats, written so that compilers vectorize a loop that calls them.
 *
 *   x = 2^n m,  m in [sqrt(1/2), sqrt(2))     log x = n ln 2 + log m
 *   log(1 + f) = f - f^2 / 2 + f^3 P(f)       f = m - 1
 *
 * ln 2 is the sum of two constants, as in math/exp.h. P has the coefficients of Moshier's Cephes library, logf.c. The
 * errors are at most 0.8 and 1.1 ulp (tests/math/test_log.c). The code has no branch, no fma and no table, so any
 * vector width gives the same bits.
 */
#ifndef TG_MATH_LOG_H
#define TG_MATH_LOG_H

#include <float.h>
#include <stdbool.h>

#include "math/exp.h"

/* Returns log x: -inf for 0, and NaN below 0. */
static inline float tg_log_f32(float x)
{
    bool subnormal = x < FLT_MIN; /* it has no exponent of its own */
    tg_float_bits bits = {.value = subnormal ? x * 0x1p24F : x};
    /* Without the bits of sqrt(1/2) the exponent is n, and what remains is m. */
    uint32_t offset = bits.bits - 0x3f3504f3U;
    int32_t exponent = (int32_t)offset >> 23;
    bits.bits -= (uint32_t)exponent << 23;
    float n = (float)(exponent - (subnormal ? 24 : 0)), f = bits.value - 1, square = f * f;
    float p = 7.0376836292e-2F;
    p = p * f - 1.1514610310e-1F;
    p = p * f + 1.1676998740e-1F;
    p = p * f - 1.2420140846e-1F;
    p = p * f + 1.4249322787e-1F;
    p = p * f - 1.6668057665e-1F;
    p = p * f + 2.0000714765e-1F;
    p = p * f - 2.4999993993e-1F;
    p = p * f + 3.3333331174e-1F;
    float low = p * f * square - n * 2.12194440e-4F - 0.5F * square;
    float y = f + low + n * 0.693359375F;
    y = x > 0 ? y : x == 0 ? -INFINITY : NAN;
    return x <= FLT_MAX ? y : x; /* infinity and NaN */
}

/* Returns log(1 + x) for x in [0,1], as x - x^2 / 2 + x^3 Q(x - 1/2), where Q is a least-maximum fit on [0,1]: around
 * the middle of the interval its terms are small, and so are their rounding errors. */
static inline float tg_log1p_f32(float x)
{
    float t = x - 0.5F, square = x * x;
    float p = 2.27781688e-3F;
    p = p * t - 5.57803502e-3F;
    p = p * t + 8.84540472e-3F;
    p = p * t - 1.41701661e-2F;
    p = p * t + 2.38429196e-2F;
    p = p * t - 4.08761725e-2F;
    p = p * t + 7.15236217e-2F;
    p = p * t - 1.28991917e-1F;
    p = p * t + 2.43720859e-1F;
    return x - (0.5F * square - p * (square * x));
}

#endif
