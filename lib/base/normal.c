/* normal: x.normal_(mean, std) of PyTorch 2.13 on CPU (ATen/native/cpu/DistributionTemplates.h).
 *
 * Box and Muller (1958): from uniforms u1 in (0,1] and u2 in [0,1)
 *     r = sqrt(-2 ln u1),  theta = 2 pi u2,  z1 = r cos(theta),  z2 = r sin(theta)
 * are two independent standard normals. PyTorch has two different schemes for it:
 *
 *   count < 16   one value at a time, in double for both dtypes. theta comes from the first uniform, and r from the
 *                second by log1p(-u). The generator caches z2 for the next small fill; other calls, other dtypes and
 *                large fills do not change it.
 *   count >= 16  first all values become uniforms of the dtype. Then, in each block of 16, value j < 8 gives
 *                u1 = 1 - x[j], value j + 8 gives u2, and z1 and z2 replace them. If count mod 16 values remain, 16 new
 *                uniforms overwrite the last 16 values, some of which are finished, and become one more block.
 *
 * Profiles. In TG_RNG_AVX2 a block of floats is computed by the polynomials of Cephes (S. Moshier), arranged as in
 * J. Pommier's sse_mathfun and G. Garberoglio's avx_mathfun. The products and sums that PyTorch's compiler fuses are
 * fmaf() here. TG_RNG_GENERIC uses libm's functions of the dtype. The last step, z * std + mean, rounds once in large
 * fills of both profiles (PyTorch 1.13: twice in generic ones), and in small fills of TG_RNG_AVX2.
 */
#include "base/fma.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* ---- the AVX2 profile's functions ---------------------------------------------------------------------------- */

TG_FMA_BODY uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

TG_FMA_BODY float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns ln(x) for x in [2^-24, 1]. x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1, and
 * ln(m) = f - f^2/2 + f^3 P(f). e ln 2 is added in two parts. The larger part comes last; its constant has few bits, so
 * that the product with e is exact. */
TG_FMA_BODY float natural_log(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t mantissa = (bits & 0x7fffff) | 0x3f000000; /* of m in [1/2, 1) */
    bool low = float_of(mantissa) < 0.707106781186547524F;
    float e = (float)((int32_t)(bits >> 23) - 126 - low);
    /* A mask instead of a branch, which would prevent vectorization. */
    float f = (float_of(mantissa) - 1.0F) + float_of(mantissa & -(uint32_t)low);

    float square = f * f;
    float p = 7.0376836292e-2F;
    p = fmaf(p, f, -1.1514610310e-1F);
    p = fmaf(p, f, 1.1676998740e-1F);
    p = fmaf(p, f, -1.2420140846e-1F);
    p = fmaf(p, f, 1.4249322787e-1F);
    p = fmaf(p, f, -1.6668057665e-1F);
    p = fmaf(p, f, 2.0000714765e-1F);
    p = fmaf(p, f, -2.4999993993e-1F);
    p = fmaf(p, f, 3.3333331174e-1F);
    p = fmaf(p * f, square, e * -2.12194440e-4F);
    p = fmaf(-square, 0.5F, p);
    return fmaf(e, 0.693359375F, f + p);
}

/* Computes sin(x) and cos(x) for x in [0, 2 pi). x = octant pi/4 + rest with an even octant and |rest| <= pi/4.
 * octant pi/4 is subtracted in three parts. */
TG_FMA_BODY void sine_cosine(float x, float *sine, float *cosine)
{
    int32_t octant = ((int32_t)(x * 1.27323954473516F) + 1) & ~1;
    float o = (float)octant;
    float rest = fmaf(o, -0.78515625F, x);
    rest = fmaf(o, -2.4187564849853515625e-4F, rest);
    rest = fmaf(o, -3.77489497744594108e-8F, rest);

    float square = rest * rest;
    float c = fmaf(2.443315711809948e-5F, square, -1.388731625493765e-3F);
    c = fmaf(c, square, 4.166664568298827e-2F);
    c = fmaf(c * square, square, -(square * 0.5F)) + 1.0F;
    float s = fmaf(-1.9515295891e-4F, square, 8.3321608736e-3F);
    s = fmaf(s, square, -1.6666654611e-1F);
    s = fmaf(s * square, rest, rest);

    bool swapped = octant & 2;
    float unsigned_sine = swapped ? c : s, unsigned_cosine = swapped ? s : c;
    *sine = octant & 4 ? -unsigned_sine : unsigned_sine;
    *cosine = (octant - 2) & 4 ? unsigned_cosine : -unsigned_cosine;
}

/* LANES pairs are computed at a time, gathered from LANES / 8 blocks, so that the length of every loop is a multiple of
 * the vector width. The square root has a loop of its own: sqrtf may set errno, which can prevent vectorization. */
#define LANES 64

TG_FMA_BODY void normal_body(float *values, int64_t count, float mean, float std)
{
    for (int64_t done = 0; done < count; done += 2 * LANES) {
        float *x = values + done;
        int pairs = (int)tg_rng_portion(count - done, 2 * LANES) / 2;
        float first[LANES] = {0}, second[LANES] = {0};
        for (int i = 0; i < pairs; i++) {
            int place = i / 8 * 16 + i % 8;
            first[i] = x[place];
            second[i] = x[place + 8];
        }
        float radius[LANES], sine[LANES], cosine[LANES];
        for (int i = 0; i < LANES; i++) {
            radius[i] = -2.0F * natural_log(1.0F - first[i]);
        }
        for (int i = 0; i < LANES; i++) {
            radius[i] = sqrtf(radius[i]);
        }
        for (int i = 0; i < LANES; i++) {
            sine_cosine((float)(2 * PI) * second[i], &sine[i], &cosine[i]);
        }
        for (int i = 0; i < LANES; i++) {
            first[i] = fmaf(radius[i] * cosine[i], std, mean);
            second[i] = fmaf(radius[i] * sine[i], std, mean);
        }
        for (int i = 0; i < pairs; i++) {
            int place = i / 8 * 16 + i % 8;
            x[place] = first[i];
            x[place + 8] = second[i];
        }
    }
}

void tg_normal_portable(float *values, int64_t count, float mean, float std)
{
    normal_body(values, count, mean, std);
}

TG_FMA_VERSION void tg_normal_fma(float *values, int64_t count, float mean, float std)
{
    normal_body(values, count, mean, std);
}

/* ---- blocks of 16 -------------------------------------------------------------------------------------------- */

static void generic_f32(float *values, int64_t count, float mean, float std)
{
    for (float *x = values; x < values + count; x += 16) {
        for (int j = 0; j < 8; j++) {
            float radius = sqrtf(-2.0F * logf(1.0F - x[j]));
            float theta = (float)(2 * PI * (double)x[j + 8]);
            x[j] = fmaf(radius * cosf(theta), std, mean);
            x[j + 8] = fmaf(radius * sinf(theta), std, mean);
        }
    }
}

/* Draws `count` normal values, a multiple of 16. */
static void fill_blocks_f32(tg_rng *rng, float *out, int64_t count, float mean, float std)
{
    uint32_t outputs[TG_RNG_CHUNK];
    for (int64_t portion; count > 0; out += portion, count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK);
        tg_rng_draw(rng, outputs, portion);
        for (int64_t i = 0; i < portion; i++) {
            out[i] = tg_rng_unit_f32(outputs[i]);
        }
        if (rng->profile == TG_RNG_GENERIC) {
            generic_f32(out, portion, mean, std);
        } else if (tg_has_fma()) {
            tg_normal_fma(out, portion, mean, std);
        } else {
            tg_normal_portable(out, portion, mean, std);
        }
    }
}

static void fill_blocks_f64(tg_rng *rng, double *out, int64_t count, double mean, double std)
{
    for (double *x = out; x < out + count; x += 16) {
        uint32_t outputs[32];
        tg_rng_draw(rng, outputs, 32);
        for (int j = 0; j < 8; j++) {
            double u1 = 1.0 - tg_rng_unit_f64(outputs[2 * j], outputs[2 * j + 1]);
            double u2 = tg_rng_unit_f64(outputs[2 * j + 16], outputs[2 * j + 17]);
            double radius = sqrt(-2.0 * log(u1)), theta = 2 * PI * u2;
            x[j] = fma(radius * cos(theta), std, mean);
            x[j + 8] = fma(radius * sin(theta), std, mean);
        }
    }
}

/* Draws outputs for the uniforms of an incomplete block, and drops them, because the last block overwrites them. */
static void skip(tg_rng *rng, int64_t outputs)
{
    uint32_t unused[32];
    tg_rng_draw(rng, unused, outputs);
}

/* ---- one at a time ------------------------------------------------------------------------------------------- */

static double small_normal(tg_rng *rng, double mean, double std)
{
    double z = rng->normal;
    if (!rng->has_normal) {
        uint32_t outputs[4];
        tg_rng_draw(rng, outputs, 4);
        double theta = 2 * PI * tg_rng_unit_f64(outputs[0], outputs[1]);
        double radius = sqrt(-2.0 * log1p(-tg_rng_unit_f64(outputs[2], outputs[3])));
        rng->normal = radius * sin(theta);
        z = radius * cos(theta);
    }
    rng->has_normal = !rng->has_normal;
    return rng->profile == TG_RNG_GENERIC ? z * std + mean : fma(z, std, mean);
}

/* ---- the two public calls ------------------------------------------------------------------------------------ */

void tg_rng_normal_f32(tg_rng *rng, float *out, int64_t count, double mean, double std)
{
    if (count < 16) {
        for (int64_t i = 0; i < count; i++) {
            out[i] = (float)small_normal(rng, mean, std);
        }
        return;
    }
    int64_t tail = count % 16;
    fill_blocks_f32(rng, out, count - tail, (float)mean, (float)std);
    if (tail > 0) {
        skip(rng, tail);
        fill_blocks_f32(rng, out + count - 16, 16, (float)mean, (float)std);
    }
}

void tg_rng_normal_f64(tg_rng *rng, double *out, int64_t count, double mean, double std)
{
    if (count < 16) {
        for (int64_t i = 0; i < count; i++) {
            out[i] = small_normal(rng, mean, std);
        }
        return;
    }
    int64_t tail = count % 16;
    fill_blocks_f64(rng, out, count - tail, mean, std);
    if (tail > 0) {
        skip(rng, 2 * tail);
        fill_blocks_f64(rng, out + count - 16, 16, mean, std);
    }
}
