/* normal_tail: the upper tail of the normal distribution for floats, written so that compilers vectorize a loop that
 * calls it.
 *
 *   1 - Phi(a) = e^(-a^2/2) t P(t),   t = 1 / (1 + 0.26 a)
 *
 * The form is that of Hastings (Approximations for Digital Computers, 1955; Abramowitz and Stegun 26.2.17), with the
 * coefficients of a least-maximum fit of degree 9 for a in [0, 13.3], relative error 3e-8. Rounding adds more: the
 * result is within 5e-7 of the tail, relative to it, times the error of e^(-a^2/2) (tests/base/test_exp.c). There is no
 * difference of almost equal numbers, so the tail keeps its digits where 1 + erf(-a / sqrt 2) would lose them.
 */
#ifndef TG_BASE_NORMAL_TAIL_H
#define TG_BASE_NORMAL_TAIL_H

#include <math.h>

/* Returns 1 - Phi(a) for a >= 0; `density` is e^(-a^2/2). */
static inline float tg_normal_tail_f32(float a, float density)
{
    float t = 1 / (1 + 0.26F * a);
    float p = 0.030896118F;
    p = p * t - 0.15474035F;
    p = p * t + 0.25546691F;
    p = p * t - 0.15553622F;
    p = p * t + 0.16415267F;
    p = p * t + 0.049642395F;
    p = p * t + 0.10339136F;
    p = p * t + 0.10296493F;
    p = p * t + 0.10376219F;
    return p * t * density;
}

/* The same for double, by libm; 0 where the density is 0. */
static inline double tg_normal_tail_f64(double a, double density)
{
    return density == 0 ? 0 : 0.5 * erfc(a * 0.70710678118654752440);
}

#endif
