/* quotient: many numbers divided by one, with the bits of divisions, in a few multiply-adds.
 *
 * `inverse` + `rest` is 1 / c to almost twice the precision. So `near`, their rounded product with x, is less than one
 * unit in the last place from x / c. Then the remainder x - c near is exact, and near + remainder inverse is rounded to
 * x / c (Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990). Without fused
 * multiply-adds a division takes less time.
 */
#ifndef TG_BASE_QUOTIENT_H
#define TG_BASE_QUOTIENT_H

#include "base/real.h"
#include "math/fma.h"

/* A number c by which many are divided. */
typedef struct divisor {
    real value, inverse, rest;
} divisor;

/* 2^-40 <= c <= 2^40. */
static inline divisor tg_divisor_of(real c)
{
    const real inverse = 1 / c;
    return (divisor){c, inverse, TYPED(tg_fma)(-c, inverse, 1) * inverse};
}

/* Returns x / c. x is NaN, infinity, 0, or at least 2^-80; the quotient does not overflow. */
static inline real quotient(real x, const divisor *c)
{
#if defined TG_HAS_FMA
    const real near = TYPED(tg_fma)(x, c->inverse, x * c->rest), remainder = TYPED(tg_fma)(-c->value, near, x);
    return x < (real)INFINITY ? TYPED(tg_fma)(remainder, c->inverse, near) : x;
#else
    return x / c->value;
#endif
}

#endif
