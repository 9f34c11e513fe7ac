/* remainder: a - b floor(a / b) of many floats, in loops that compilers vectorize.
 *
 *   rest = a - b trunc(a / b)
 *   remainder = rest, or rest + b where the rest is not 0 and does not have the sign of b
 *
 * The rest is exact, as that of C's fmodf. For |a / b| < 2^29 the truncated quotient has at most 29 bits and b has 24,
 * so that a double holds their product. The rounding of the quotient does not change its whole part, because one that
 * is not whole is at least 2^-24 below the next whole number. libm computes the few others. The loop has no branch, no
 * fma and no table, so any vector width gives the same bits. Doubles are computed by libm.
 */
#ifndef TG_MATH_REMAINDER_H
#define TG_MATH_REMAINDER_H

#include <math.h>
#include <stdint.h>

/* Returns the remainder for a rest, with the sign of b. */
static inline float tg_remainder_of_rest_f32(float rest, float b)
{
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline double tg_remainder_of_rest_f64(double rest, double b)
{
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Returns |a / b|. */
static inline double tg_quotient_f32(float a, float b)
{
    return fabs((double)a) / fabs((double)b);
}

/* From this quotient on the product is not exact. */
#define TG_QUOTIENT_LIMIT 0x1p29

/* Returns the rest for a smaller quotient. */
static inline float tg_rest_f32(float a, float b)
{
    const double shift = 0x1p52;
    double quotient = tg_quotient_f32(a, b), whole = quotient + shift - shift;
    whole -= whole > quotient ? 1 : 0;
    double size = fabs((double)a), rest = size - whole * fabs((double)b);
    return copysignf((float)(whole == 0 ? size : rest), a); /* with an infinite b, too */
}

/* Computes the remainders of n values; out is neither a nor b. */
static inline void tg_remainders_f32(const float *a, const float *b, int64_t n, float *out)
{
    int large = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = tg_remainder_of_rest_f32(tg_rest_f32(a[i], b[i]), b[i]);
        large |= tg_quotient_f32(a[i], b[i]) >= TG_QUOTIENT_LIMIT;
    }
    for (int64_t i = 0; large && i < n; i++) {
        if (tg_quotient_f32(a[i], b[i]) >= TG_QUOTIENT_LIMIT) {
            out[i] = tg_remainder_of_rest_f32(fmodf(a[i], b[i]), b[i]);
        }
    }
}

/* The same for double, by libm. */
static inline void tg_remainders_f64(const double *a, const double *b, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = tg_remainder_of_rest_f64(fmod(a[i], b[i]), b[i]);
    }
}

#endif
