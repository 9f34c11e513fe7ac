/* normal_loop: blocks of normal values in the profile TG_RNG_AVX2 (normal.c), a version per level (level.h).
 *
 * The products and sums that PyTorch's compiler fuses are tg_fma_f32 here, so all versions round alike.
 */
#include <math.h>

#include "base/random.h"
#include "math/fma.h"

/* Returns ln(x) for x in [2^-24, 1]. x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1, and
 * ln(m) = f - f^2/2 + f^3 P(f). e ln 2 is added in two parts. The larger part comes last; its constant has few bits, so
 * that the product with e is exact. */
static inline float natural_log(float x)
{
    uint32_t bits = tg_bits_of(x);
    uint32_t mantissa = (bits & 0x7fffff) | 0x3f000000; /* of m in [1/2, 1) */
    bool low = tg_float_of(mantissa) < 0.707106781186547524F;
    float e = (float)((int32_t)(bits >> 23) - 126 - low);
    /* A mask instead of a branch, which would prevent vectorization. */
    float f = (tg_float_of(mantissa) - 1.0F) + tg_float_of(mantissa & -(uint32_t)low);

    float square = f * f;
    float p = 7.0376836292e-2F;
    p = tg_fma_f32(p, f, -1.1514610310e-1F);
    p = tg_fma_f32(p, f, 1.1676998740e-1F);
    p = tg_fma_f32(p, f, -1.2420140846e-1F);
    p = tg_fma_f32(p, f, 1.4249322787e-1F);
    p = tg_fma_f32(p, f, -1.6668057665e-1F);
    p = tg_fma_f32(p, f, 2.0000714765e-1F);
    p = tg_fma_f32(p, f, -2.4999993993e-1F);
    p = tg_fma_f32(p, f, 3.3333331174e-1F);
    p = tg_fma_f32(p * f, square, e * -2.12194440e-4F);
    p = tg_fma_f32(-square, 0.5F, p);
    return tg_fma_f32(e, 0.693359375F, f + p);
}

/* Computes sin(x) and cos(x) for x in [0, 2 pi). x = octant pi/4 + rest with an even octant and |rest| <= pi/4.
 * octant pi/4 is subtracted in three parts. */
static inline void sine_cosine(float x, float *sine, float *cosine)
{
    int32_t octant = ((int32_t)(x * 1.27323954473516F) + 1) & ~1;
    float o = (float)octant;
    float rest = tg_fma_f32(o, -0.78515625F, x);
    rest = tg_fma_f32(o, -2.4187564849853515625e-4F, rest);
    rest = tg_fma_f32(o, -3.77489497744594108e-8F, rest);

    float square = rest * rest;
    float c = tg_fma_f32(2.443315711809948e-5F, square, -1.388731625493765e-3F);
    c = tg_fma_f32(c, square, 4.166664568298827e-2F);
    c = tg_fma_f32(c * square, square, -(square * 0.5F)) + 1.0F;
    float s = tg_fma_f32(-1.9515295891e-4F, square, 8.3321608736e-3F);
    s = tg_fma_f32(s, square, -1.6666654611e-1F);
    s = tg_fma_f32(s * square, rest, rest);

    bool swapped = octant & 2;
    float unsigned_sine = swapped ? c : s, unsigned_cosine = swapped ? s : c;
    *sine = octant & 4 ? -unsigned_sine : unsigned_sine;
    *cosine = (octant - 2) & 4 ? unsigned_cosine : -unsigned_cosine;
}

/* Each step has a loop of its own over the 8 pairs of a block. sqrtf may set errno, which can prevent vectorization. */
void LEVEL(tg_normal_values)(float *values, int64_t count, float mean, float std)
{
    for (float *x = values; x < values + count; x += 16) {
        float radius[8], sine[8], cosine[8];
        for (int i = 0; i < 8; i++) {
            radius[i] = -2.0F * natural_log(1.0F - x[i]);
        }
        for (int i = 0; i < 8; i++) {
            radius[i] = sqrtf(radius[i]);
        }
        for (int i = 0; i < 8; i++) {
            sine_cosine((float)(2 * TG_PI) * x[i + 8], &sine[i], &cosine[i]);
        }
        for (int i = 0; i < 8; i++) {
            x[i] = tg_fma_f32(radius[i] * cosine[i], std, mean);
            x[i + 8] = tg_fma_f32(radius[i] * sine[i], std, mean);
        }
    }
}
