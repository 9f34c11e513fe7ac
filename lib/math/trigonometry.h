/* trigonometry: sin x and cos x of many numbers, in loops that compilers vectorize: no branch, no fma and no table, so
 * any vector width gives the same bits. libm computes the few numbers above 2^20.
 *
 * Floats:
 *
 *   sin x = (-1)^n sin r      n = round(x / pi)            r = x - n pi
 *   cos x = (-1)^n sin r      n = round(x / pi + 1/2)      r = x - (n - 1/2) pi
 *   sin r = r (1 + r^2 P(r^2)),   |r| <= pi / 2
 *
 * They are computed in double. P is a least-maximum fit with a relative error of sin r of 6.1e-9. pi is the sum of two
 * constants, of which the first has 33 bits, so that its product with n is exact (Cody and Waite 1980). The error is at
 * most 0.61 ulp for every float (tests/math/test_trigonometry.c).
 *
 * Doubles: n = round(x / (pi / 2)), r = x - n pi / 2 in two parts, and the polynomials of FreeBSD's k_sin.c and
 * k_cos.c. The error is at most 1 ulp (tests/math/test_doubles.c).
 */
#ifndef TG_MATH_TRIGONOMETRY_H
#define TG_MATH_TRIGONOMETRY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "math/exp.h"
#include "math/fma.h"

/* Above this the reduction would lose digits. */
#define TG_TURN_LIMIT 0x1p20

/* ---- floats ---- */

/* Returns sin x for |x| <= 2^20, or with a half of 1/2 cos x; NaN for an infinite x. */
static inline float tg_turn_f32(float x, double half)
{
    tg_double_bits rounded, shift = {.value = 0x1.8p52}, y;
    rounded.value = (double)x * 0.31830988618379067154 + half + shift.value;
    double n = rounded.value - shift.value - half;
    double r = (double)x - n * 0x1.921fb544p1 - n * 0x1.0b4611a626331p-33;
    double square = r * r;
    double p = 2.6057790675139627e-6;
    p = p * square - 1.9809602155593319e-4;
    p = p * square + 8.3330662356689063e-3;
    p = p * square - 1.6666659550083541e-1;
    y.value = r * (p * square + 1);
    y.bits ^= rounded.bits << 63;
    return (float)y.value;
}

/* Computes out_i = sin x_i, or cos x_i; out is not x. */
static inline void tg_turns_f32(const float *x, int64_t n, bool is_cos, float *out)
{
    const double half = is_cos ? 0.5 : 0;
    int large = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = tg_turn_f32(x[i], half);
        large |= fabsf(x[i]) > (float)TG_TURN_LIMIT;
    }
    for (int64_t i = 0; large && i < n; i++) {
        if (fabsf(x[i]) > (float)TG_TURN_LIMIT) {
            out[i] = is_cos ? cosf(x[i]) : sinf(x[i]);
        }
    }
}

/* ---- doubles ---- */

/* sin(x + low) and cos(x + low) for |x| <= pi / 4. */
static inline double tg_short_sine(double x, double low)
{
    double z = x * x, cube = z * x;
    double p = 1.58969099521155010221e-10;
    p = p * z - 2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z - 1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    return x - ((z * (0.5 * low - cube * p) - low) - cube * -1.66666666666666324348e-01);
}

static inline double tg_short_cosine(double x, double low)
{
    double z = x * x, half = 0.5 * z, w = 1 - half;
    double p = -1.13596475577881948265e-11;
    p = p * z + 2.08757232129817482790e-09;
    p = p * z - 2.75573143513906633035e-07;
    p = p * z + 2.48015872894767294178e-05;
    p = p * z - 1.38888888888741095749e-03;
    p = p * z + 4.16666666666666019037e-02;
    return w + (((1 - w) - half) + (z * (z * p) - x * low));
}

/* Returns sin(x + quarters pi / 2) for |x| <= 2^20. pi / 2 is the sum of four constants, of which the first three have
 * 33 bits. */
static inline double tg_turn_f64(double x, uint64_t quarters)
{
    static const double parts[] = {1.57079632673412561417e+00, 6.07710050630396597660e-11, 2.02226624871116645580e-21};
    tg_double_bits rounded, shift = {.value = 0x1.8p52}, sine, cosine, y;
    rounded.value = x * 6.36619772367581382433e-01 + shift.value;
    double n = rounded.value - shift.value, upper = x, lower = 0;
    for (int i = 0; i < 3; i++) {
        double part = -n * parts[i], sum = upper + part;
        lower += tg_error_of_sum(upper, part, sum);
        upper = sum;
    }
    lower -= n * 8.47842766036889956997e-32;
    double rest = upper + lower, low = (upper - rest) + lower;
    sine.value = x == 0 ? x : tg_short_sine(rest, low); /* -0 stays */
    cosine.value = tg_short_cosine(rest, low);
    quarters += rounded.bits;
    const uint64_t odd = 0 - (quarters & 1); /* all bits or none: vectors of 64 bits have few comparisons */
    y.bits = (cosine.bits & odd) | (sine.bits & ~odd);
    y.bits ^= (quarters & 2) << 62;
    return y.value;
}

/* Return sin x and cos x; above 2^20 by libm. */
static inline double tg_sin_f64(double x)
{
    return fabs(x) <= TG_TURN_LIMIT ? tg_turn_f64(x, 0) : sin(x);
}

static inline double tg_cos_f64(double x)
{
    return fabs(x) <= TG_TURN_LIMIT ? tg_turn_f64(x, 1) : cos(x);
}

/* Computes out_i = sin x_i, or cos x_i; out is not x. */
static inline void tg_turns_f64(const double *x, int64_t n, bool is_cos, double *out)
{
    const uint64_t quarters = is_cos;
    int large = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = tg_turn_f64(x[i], quarters);
        large |= !(fabs(x[i]) <= TG_TURN_LIMIT);
    }
    for (int64_t i = 0; large && i < n; i++) {
        if (!(fabs(x[i]) <= TG_TURN_LIMIT)) {
            out[i] = is_cos ? cos(x[i]) : sin(x[i]);
        }
    }
}

#endif
