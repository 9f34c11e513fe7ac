/* exp: e^x for floats, written so that compilers vectorize a loop that calls it. e^x - 1, tanh and what is built on
 * them are in base/real.h, for floats and doubles.
 *
 *   n = round(x / ln 2)     r = x - n ln 2, |r| <= ln 2 / 2     e^x = 2^n e^r     e^r = 1 + r + r^2 P(r)
 *
 * ln 2 is the sum of two constants. The first has so few bits that its product with n is exact (Cody and Waite 1980).
 * P has the coefficients of Moshier's Cephes library, expf.c. 2^n is built from exponent bits as a product of two
 * factors, so that subnormal results are rounded once and results above the largest float are infinite.
 *
 * The error is at most 1 ulp for every float (tests/math/test_exp.c). The code has no branch, no fma and no table, so
 * any vector width gives the same bits.
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
static inline float tg_exp_rest_f32(float x, uint32_t *n)
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

static inline float tg_power_of_two_f32(uint32_t n)
{
    return tg_float_of((n + 127) << 23);
}

static inline float tg_exp_f32(float x)
{
    x = x > 89 ? 89 : x;
    x = x < -105 ? -105 : x;
    uint32_t n;
    float p = tg_exp_rest_f32(x, &n) + 1;
    uint32_t half = ((n + 256) >> 1) - 128;
    return p * tg_power_of_two_f32(half) * tg_power_of_two_f32(n - half);
}

#endif
