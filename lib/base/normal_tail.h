/* normal_tail: the upper tail of the normal distribution for floats, written so that compilers vectorize a loop that
 * calls it.
 *
 *   1 - Phi(a) = e^(-a^2/2) t P(t),   t = 1 / (1 + 0.26 a)
 *
 * The form is that of Hastings (Approximations for Digital Computers, 1955; Abramowitz and Stegun 26.2.17). The
 * coefficients of P, of degree 8, are a least-maximum fit for a in [0, 13.3], with a relative error of 3e-8. Rounding
 * adds to that: the result is within 6e-7 of e^(-a^2/2) t P(t), relative to it (tests/base/test_exp.c). No numbers that
 * are almost equal are subtracted, so a small tail keeps its digits, unlike 1 + erf(-a / sqrt 2).
 */
#ifndef TG_BASE_NORMAL_TAIL_H
#define TG_BASE_NORMAL_TAIL_H

#include <math.h>

/* Returns 1 - Phi(a) for a >= 0; `density` is e^(-a^2/2). */
static inline float tg_normal_tail_f32(float a, float density)
{
    float t = 1 / (1 + 0.26F * a);
    float square = t * t;
    float even = 0.030896118F, odd = -0.15474035F; /* coefficients of even and odd powers: two shorter chains */
    even = even * square + 0.25546691F;
    odd = odd * square - 0.15553622F;
    even = even * square + 0.16415267F;
    odd = odd * square + 0.049642395F;
    even = even * square + 0.10339136F;
    odd = odd * square + 0.10296493F;
    even = even * square + 0.10376219F;
    float p = even + odd * t;
    return p * t * density;
}

/* The same for double, by libm; 0 where the density is 0. */
static inline double tg_normal_tail_f64(double a, double density)
{
    return density == 0 ? 0 : 0.5 * erfc(a * 0.70710678118654752440);
}

#endif
