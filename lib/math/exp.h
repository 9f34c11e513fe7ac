/* exp: e^x, e^x - 1 and tanh for floats, written so that compilers vectorize a loop that calls them.
 *
 *   n = round(x / ln 2)     r = x - n ln 2, |r| <= ln 2 / 2     e^x = 2^n e^r     e^r = 1 + r + r^2 P(r)
 *
 * ln 2 is the sum of two constants. The first has so few bits that its product with n is exact (Cody and Waite 1980).
 * P has the coefficients of Moshier's Cephes library, expf.c. 2^n is built from exponent bits as a product of two
 * factors, so that subnormal results are rounded once and results above the largest float are infinite.
 *
 * The error is at most 1 ulp for every float, and 2.5 ulp for tanh (tests/math/test_exp.c). The code has no branch, no
 * fma and no table, so any vector width gives the same bits.
 *
 * Subnormal numbers. Arithmetic with them takes up to a hundred times as long on many processors, and the next op is
 * often a large matrix product. So results that are not normal numbers are 0 in softmax, attention, cross-entropy,
 * sigmoid, SiLU, GELU, softplus, log_sigmoid and the binary cross-entropy of logits, and so are their gradients and
 * that of ELU. tg_exp keeps PyTorch's values. No floating-point mode of the processor is changed.
 *
 * The tanh form of GELU uses exp, too: (1 + tanh u) / 2 is a sigmoid. The other form has a density and a tail of its
 * own (math/normal_tail.h), which need fewer operations.
 */
#ifndef TG_MATH_EXP_H
#define TG_MATH_EXP_H

#include <math.h>
#include <stdint.h>

typedef union tg_float_bits {
    float value;
    uint32_t bits;
} tg_float_bits;

typedef union tg_double_bits {
    double value;
    uint64_t bits;
} tg_double_bits;

static inline uint32_t tg_bits_of(float x)
{
    return ((tg_float_bits){.value = x}).bits;
}

static inline float tg_float_of(uint32_t bits)
{
    return ((tg_float_bits){.bits = bits}).value;
}

/* Returns e^r - 1, and sets n, for x in [-105, 89]. */
static inline float tg_exp_rest(float x, uint32_t *n)
{
    /* Adding `shift` leaves the nearest integer in the low bits. The bits are unsigned, because those of a NaN are
     * arbitrary and their difference may wrap. */
    tg_float_bits rounded, shift = {.value = 0x1.8p23F};
    rounded.value = x * 1.44269504F + shift.value;
    *n = rounded.bits - shift.bits;
    float whole = rounded.value - shift.value;
    float r = x - whole * 0.693359375F + whole * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    return p * (r * r) + r;
}

static inline float tg_power_of_two(int32_t n)
{
    tg_float_bits power = {.bits = ((uint32_t)n + 127) << 23};
    return power.value;
}

static inline float tg_exp_f32(float x)
{
    x = x > 89 ? 89 : x;
    x = x < -105 ? -105 : x;
    uint32_t bits;
    float p = tg_exp_rest(x, &bits) + 1;
    int32_t n = (int32_t)bits;
    return p * tg_power_of_two(n >> 1) * tg_power_of_two(n - (n >> 1));
}

/* Returns e^x for x <= 88, and 0 where it is below 1.2e-38, the smallest normal float: on many processors arithmetic
 * with subnormal numbers takes a hundred times as long. For softmax and the functions like it. */
static inline float tg_exp_or_zero_f32(float x)
{
    const float least = -87.33F;
    uint32_t n;
    /* The result is normal, and so is 2^n. A product keeps a NaN, whose bits are arbitrary in n. */
    float e = (tg_exp_rest(x < least ? least : x, &n) + 1) * tg_power_of_two((int32_t)n);
    return x < least ? 0 : e;
}

/* Returns e^x - 1 for x <= 0, with the sign of x: with x = n ln 2 + r it is 2^n (e^r - 1) + (2^n - 1). */
static inline float tg_expm1_f32(float x)
{
    const float minus_one = -18; /* from here on e^x - 1 is rounded to -1 */
    uint32_t n;
    float rest = tg_exp_rest(x < minus_one ? minus_one : x, &n);
    float power = tg_power_of_two((int32_t)n);
    return copysignf(power * rest + (power - 1), x);
}

/* Returns tanh x as m / (m + 2) with m = e^2|x| - 1 and the sign of x, the form of FreeBSD's s_tanh.c: no numbers that
 * are almost equal are subtracted. With 2|x| = n ln 2 + r, m is 2^n (e^r - 1) + (2^n - 1). */
static inline float tg_tanh_f32(float x)
{
    const float one = 9.02F; /* from here on tanh x is rounded to 1 */
    float a = fabsf(x);
    uint32_t n;
    float rest = tg_exp_rest(2 * (a > one ? one : a), &n);
    float power = tg_power_of_two((int32_t)n);
    float m = power * rest + (power - 1);
    return copysignf(m / (m + 2), x);
}

#endif
