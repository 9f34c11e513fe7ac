/* remainder: a - b floor(a / b) of many values, in a loop that compilers vectorize.
 *
 *   rest = a - b trunc(a / b)
 *   remainder = rest, or rest + b where the rest is not 0 and does not have the sign of b
 *
 * The rest is exact, as that of C's fmod. b is a sum of two numbers, of which the upper one has 26 bits, as a float has
 * alone. For |a / b| < 2^26 the truncated quotient has at most 26 bits, so that its products with both are exact, and
 * so are their differences from a. A quotient that was rounded up to a whole number leaves a rest below 0, to which b
 * is added. libm computes the few others. The loop has no branch, no fma and no table, so any vector width gives the
 * same bits.
 */
#ifndef TG_OPS_ELEMENTWISE_REMAINDER_H
#define TG_OPS_ELEMENTWISE_REMAINDER_H

#include "base/real.h"
#include "math/fma.h"

/* Returns the remainder for a rest, with the sign of b. */
static inline real remainder_of_rest(real rest, real b)
{
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Returns |a / b|. */
static inline double quotient_of(real a, real b)
{
    return fabs((double)a) / fabs((double)b);
}

/* From this quotient on the products are not exact. */
#define TG_QUOTIENT_LIMIT 0x1p26

/* Returns the rest for a smaller quotient. */
static inline real rest_of(real a, real b)
{
    const double shift = 0x1p52;
    double quotient = quotient_of(a, b), whole = quotient + shift - shift;
    whole -= whole > quotient ? 1 : 0;
    double size = fabs((double)a), divisor = fabs((double)b), upper = IS_FLOAT ? divisor : tg_upper_bits(divisor);
    double rest = (size - whole * upper) - (IS_FLOAT ? 0 : whole * (divisor - upper));
    rest = !IS_FLOAT && rest < 0 ? rest + divisor : rest;
    return REAL(copysign)((real)(whole == 0 ? size : rest), a); /* with an infinite b, too */
}

/* Computes the remainders of n values; out is neither a nor b. */
static inline void remainders(const real *a, const real *b, int64_t n, real *out)
{
    int large = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = remainder_of_rest(rest_of(a[i], b[i]), b[i]);
        large |= quotient_of(a[i], b[i]) >= TG_QUOTIENT_LIMIT;
    }
    for (int64_t i = 0; large && i < n; i++) {
        if (quotient_of(a[i], b[i]) >= TG_QUOTIENT_LIMIT) {
            out[i] = remainder_of_rest(REAL(fmod)(a[i], b[i]), b[i]);
        }
    }
}

#endif
