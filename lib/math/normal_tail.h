/* normal_tail: the density and the upper tail of the normal distribution, written so that compilers vectorize a loop
 * that calls them. For floats:
 *
 *   e^(-a^2/2) = 2^-q = 2^f 2^-n       q = a^2 / (2 ln 2),   n = round(q),   f = n - q,   |f| <= 1/2
 *   1 - Phi(a) = e^(-a^2/2) N(a)/D(a)
 *
 * 2^f is a polynomial of degree 5 with a relative error of 9e-8, and N / D a quotient of polynomials of the degrees 3
 * and 4, as in Cody (Rational Chebyshev Approximations for the Error Function, 1969). Their coefficients are
 * least-maximum fits, those of N and D for a in [0, 12.8]. They are positive, and no numbers that are almost equal are
 * subtracted: a small tail keeps its digits, unlike 1 + erf(-a / sqrt 2). The tail is within 7e-7 of that of its
 * density, and the density, whose exponent q is rounded twice, within 2e-7 (1 + q) of the exact one, relative to them
 * (tests/math/test_exp.c).
 *
 * A product with 1 needs no multiplication: 2^f and D are scaled so that their first coefficients are 1, and N, with
 * which they meet, has the inverse scale.
 */
#ifndef TG_MATH_NORMAL_TAIL_H
#define TG_MATH_NORMAL_TAIL_H

#include <stdbool.h>

#include "math/doubles.h"
#include "math/exp.h"

/* Returns 1 - Phi(a) for a >= 0, and sets the density e^(-a^2/2) / sqrt(2 pi). Both are 0 where the tail is not a
 * normal number: for a above 12.8. */
static inline float tg_normal_tail_f32(float a, float *density)
{
    const float scale = 753.87907F, one_over_sqrt_2pi = 0.39894228F;
    float q = a * a * 0.72134752F;
    bool is_zero = q > 118.2F; /* the other values have no meaning then */
    /* The nearest integer n, as in tg_exp_rest_f32. The lowest bits of the rounded number are those of 127 - n, and so,
     * once shifted, those of 2^-n. */
    const float shift = 0x1.8p23F + 127;
    tg_float_bits rounded, power;
    rounded.value = shift - q;
    float f = shift - rounded.value - q;
    power.bits = rounded.bits << 23;
    float p = f + 7.29115F;
    p = p * f + 41.845818F;
    p = p * f + 181.09865F;
    p = p * f + 522.549F;
    p = p * f + scale;
    float upper = 5.2911292e-4F, lower = a + 7.0591435F;
    upper = upper * a + 3.7384338e-3F;
    lower = lower * a + 22.584351F;
    upper = upper * a + 1.1376549e-2F;
    lower = lower * a + 36.183796F;
    upper = upper * a + 1.5819479e-2F;
    lower = lower * a + 23.851957F;
    p = p * power.value;
    float tail = p * upper / lower;
    *density = is_zero ? 0 : p * (one_over_sqrt_2pi / scale);
    return is_zero ? 0 : tail;
}

/* The same for double: the exponent is a sum of two, so that the square of a loses no digits, and N and D have the
 * degrees 9 and 10, with a relative error of 4.8e-17 for a in [0, 37.6]. */
static inline double tg_normal_tail_f64(double a, double *density)
{
    bool is_zero = a * a > 1400;
    uint64_t n;
    double a_upper = tg_upper_bits(a), sum = a + a_upper;
    double p = tg_exp_rest_of_sum(-0.5 * a_upper * a_upper, -0.5 * (a - a_upper) * sum, &n) + 1;
    p *= tg_power_of_two_f64(n);
    double upper = 0.3989422804000642869, lower = a + 26.935928184527096146;
    upper = upper * a + 10.745880614942439358;
    lower = lower * a + 356.14809455121221982;
    upper = upper * a + 141.68359069497568907;
    lower = lower * a + 2992.4052972581150917;
    upper = upper * a + 1183.0511139690000773;
    lower = lower * a + 17504.813424200847512;
    upper = upper * a + 6842.524426388000002;
    lower = lower * a + 73929.659789943014389;
    upper = upper * a + 28332.109154250453669;
    lower = lower * a + 226994.14268656481921;
    upper = upper * a + 83994.384529038533257;
    lower = lower * a + 498081.33922450885781;
    upper = upper * a + 172632.71828923080671;
    lower = lower * a + 744770.86670253650318;
    upper = upper * a + 225417.78775623780634;
    lower = lower * a + 683220.48323621663293;
    upper = upper * a + 145625.64507446301504;
    lower = lower * a + 291251.29014892604394;
    double tail = p * upper / lower;
    *density = is_zero ? 0 : p * 0.39894228040143267794;
    return is_zero ? 0 : tail;
}

#endif
