/* normal_tail: the bell curve and the upper tail of the normal distribution for floats, written so that compilers
 * vectorize a loop that calls them.
 *
 *   e^(-x^2/2) = 2^-q = 2^f 2^-n       q = x^2 / (2 ln 2),   n = round(q),   f = n - q,   |f| <= 1/2
 *   1 - Phi(a) = e^(-a^2/2) N(a)/D(a)
 *
 * 2^f is a polynomial of degree 5 with a relative error of 9e-8, and N / D a quotient of polynomials of the degrees 3
 * and 4, as in Cody (Rational Chebyshev Approximations for the Error Function, 1969). Their coefficients are
 * least-maximum fits, those of N and D for a in [0, 12.8]. They are positive, and no numbers that are almost equal are
 * subtracted: a small tail keeps its digits, unlike 1 + erf(-a / sqrt 2). The tail is within 7e-7 of that of its
 * density, and the density, whose exponent q is rounded twice, within 2e-7 (1 + q) of the exact one, relative to them
 * (tests/base/test_exp.c).
 */
#ifndef TG_BASE_NORMAL_TAIL_H
#define TG_BASE_NORMAL_TAIL_H

#include "base/exp.h"

/* Returns e^(-x^2/2), or 0 where the tail is not a normal number: for |x| above 12.8. */
static inline float tg_normal_density_f32(float x)
{
    float q = x * x * 0.72134752F;
    /* The nearest integer, as in tg_exp_rest. For a q that does not fit, n and f have no meaning, and are not used. */
    tg_float_bits rounded, density, shift = {.value = 0x1.8p23F};
    rounded.value = q + shift.value;
    uint32_t n = rounded.bits - shift.bits;
    float f = rounded.value - shift.value - q;
    float p = 1.3264727e-3F;
    p = p * f + 9.6715126e-3F;
    p = p * f + 5.5507337e-2F;
    p = p * f + 2.4022242e-1F;
    p = p * f + 6.9314698e-1F;
    density.value = p * f + 1;
    density.bits -= n << 23;
    return q > 118.2F ? 0 : density.value;
}

/* Returns 1 - Phi(a) for a >= 0; `density` is e^(-a^2/2). */
static inline float tg_normal_tail_f32(float a, float density)
{
    a = a > 13 ? 13 : a; /* the density is 0 there, and 0 times infinity is not */
    float upper = 0.016723456F, lower = 0.041925281F;
    upper = upper * a + 0.11815915F;
    lower = lower * a + 0.29595658F;
    upper = upper * a + 0.35957393F;
    lower = lower * a + 0.94685525F;
    upper = upper * a + 0.49999982F;
    lower = lower * a + 1.5170158F;
    return density * upper / (lower * a + 1);
}

/* The same for double, by libm. */
static inline double tg_normal_density_f64(double x)
{
    return x * x > 1400 ? 0 : tg_exp_or_zero_f64(-0.5 * x * x);
}

/* 0 where the density is 0. */
static inline double tg_normal_tail_f64(double a, double density)
{
    return density == 0 ? 0 : 0.5 * erfc(a * 0.70710678118654752440);
}

#endif
