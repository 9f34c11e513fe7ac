/* trigonometry: sin x and cos x of many floats, in loops that compilers vectorize.
 *
 *   sin x = (-1)^n sin r      n = round(x / pi)            r = x - n pi
 *   cos x = (-1)^n sin r      n = round(x / pi + 1/2)      r = x - (n - 1/2) pi
 *   sin r = r (1 + r^2 P(r^2)),   |r| <= pi / 2
 *
 * They are computed in double. P is a least-maximum fit with a relative error of sin r of 6.1e-9. pi is the sum of two
 * constants, of which the first has 33 bits, so that its product with n is exact (Cody and Waite 1980). That is enough
 * for |x| <= 2^20; libm computes the few others. The error is at most 0.61 ulp for every float
 * (tests/base/test_trigonometry.c). The loop has no branch, no fma and no table, so any vector width gives the same
 * bits.
 */
#ifndef TG_BASE_TRIGONOMETRY_H
#define TG_BASE_TRIGONOMETRY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/doubles.h"
#include "base/exp.h"

/* Above this the reduction would lose digits. */
#define TG_TURN_LIMIT 0x1p20F

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
        large |= fabsf(x[i]) > TG_TURN_LIMIT;
    }
    for (int64_t i = 0; large && i < n; i++) {
        if (fabsf(x[i]) > TG_TURN_LIMIT) {
            out[i] = is_cos ? cosf(x[i]) : sinf(x[i]);
        }
    }
}

/* The same for double. */
static inline void tg_turns_f64(const double *x, int64_t n, bool is_cos, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = is_cos ? tg_cos_f64(x[i]) : tg_sin_f64(x[i]);
    }
}

#endif
