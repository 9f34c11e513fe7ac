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
 * J. Pommier's sse_mathfun and G. Garberoglio's avx_mathfun (normal_loop.c). TG_RNG_GENERIC uses libm's functions of
 * the dtype. In double both use libm, as PyTorch does, and TG_RNG_PORTABLE, otherwise TG_RNG_AVX2, the library's own
 * functions. The last step, z * std + mean, rounds once in large fills of both profiles (PyTorch 1.13: twice in generic
 * ones), and in small fills of TG_RNG_AVX2.
 */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "math/trigonometry.h"

static tg_normal_loop *const normal[] = {TG_EACH_LEVEL(avx512, tg_normal_values)};

static double log_of(const tg_rng *rng, double x)
{
    return rng->profile == TG_RNG_PORTABLE ? tg_log_f64(x) : log(x);
}

static double sine(const tg_rng *rng, double x)
{
    return rng->profile == TG_RNG_PORTABLE ? tg_sin_f64(x) : sin(x);
}

static double cosine(const tg_rng *rng, double x)
{
    return rng->profile == TG_RNG_PORTABLE ? tg_cos_f64(x) : cos(x);
}

/* ---- blocks of 16 -------------------------------------------------------------------------------------------- */

static void generic_f32(float *values, int64_t count, float mean, float std)
{
    for (float *x = values; x < values + count; x += 16) {
        for (int j = 0; j < 8; j++) {
            float radius = sqrtf(-2.0F * logf(1.0F - x[j]));
            float theta = (float)(2 * TG_PI * (double)x[j + 8]);
            x[j] = tg_fma_f32(radius * cosf(theta), std, mean);
            x[j + 8] = tg_fma_f32(radius * sinf(theta), std, mean);
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
        } else {
            normal[tg_level()](out, portion, mean, std);
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
            double radius = sqrt(-2.0 * log_of(rng, u1)), theta = 2 * TG_PI * u2;
            x[j] = tg_fma_f64(radius * cosine(rng, theta), std, mean);
            x[j + 8] = tg_fma_f64(radius * sine(rng, theta), std, mean);
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
        double theta = 2 * TG_PI * tg_rng_unit_f64(outputs[0], outputs[1]);
        double radius = sqrt(-2.0 * tg_rng_log1p(rng, -tg_rng_unit_f64(outputs[2], outputs[3])));
        rng->normal = radius * sine(rng, theta);
        z = radius * cosine(rng, theta);
    }
    rng->has_normal = !rng->has_normal;
    return rng->profile == TG_RNG_GENERIC ? z * std + mean : tg_fma_f64(z, std, mean);
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
