/* distributions: uniform, integers, permutations, bernoulli and exponential. They draw the same values as PyTorch 2.13
 * on CPU (ATen/core/DistributionsHelper.h, TransformationHelper.h, native/TensorFactories.cpp).
 *
 *   uniform      unit * (high - low) + low. `unit` is a fraction: the low 24 bits of one output (float), or the low 53
 *                bits of two (double). It rounds once in TG_RNG_AVX2 and twice in TG_RNG_GENERIC. A value that rounds
 *                up to high becomes low, so that the interval stays half open (PyTorch 1.13 does not do this).
 *   randint      bits mod (high - low), plus low. A value takes 32 bits, or 64 if high - low >= 2^28 (1.13: 2^32).
 *   randperm     the shuffle of Fisher and Yates, from the front, with one output per step. From 2^32 / 20 numbers on,
 *                where 32 bits are too few, its inside-out form with two outputs per step.
 *   bernoulli    u < p, where u is a double uniform for both dtypes.
 *   exponential  -1/lambda * log1p(-u), where u is a double uniform for both dtypes.
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "base/random.h"
#include "math/fma.h"

/* ---- uniform ------------------------------------------------------------------------------------------------- */

static tg_uniform_loop *const uniform[] = {TG_EACH_LEVEL(avx512, tg_uniform_values)};

static void uniform_generic(const uint32_t *outputs, float *out, int64_t count, float low, float high)
{
    float width = high - low;
    for (int64_t i = 0; i < count; i++) {
        float value = tg_rng_unit_f32(outputs[i]) * width + low;
        out[i] = value == high ? low : value;
    }
}

void tg_rng_uniform_f32(tg_rng *rng, float *out, int64_t count, double low, double high)
{
    uint32_t outputs[TG_RNG_CHUNK];
    for (int64_t portion; count > 0; out += portion, count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK);
        tg_rng_draw(rng, outputs, portion);
        if (rng->profile == TG_RNG_GENERIC) {
            uniform_generic(outputs, out, portion, (float)low, (float)high);
        } else {
            uniform[tg_level()](outputs, out, portion, (float)low, (float)high);
        }
    }
}

void tg_rng_uniform_f64(tg_rng *rng, double *out, int64_t count, double low, double high)
{
    double width = high - low;
    uint32_t outputs[TG_RNG_CHUNK];
    for (int64_t portion; count > 0; out += portion, count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK / 2);
        tg_rng_draw(rng, outputs, 2 * portion);
        for (int64_t i = 0; i < portion; i++) {
            double unit = tg_rng_unit_f64(outputs[2 * i], outputs[2 * i + 1]);
            double value = rng->profile == TG_RNG_GENERIC ? unit * width + low : tg_fma_f64(unit, width, low);
            out[i] = value == high ? low : value;
        }
    }
}

/* ---- integers ------------------------------------------------------------------------------------------------ */

void tg_rng_integers(tg_rng *rng, int64_t *out, int64_t count, int64_t low, int64_t high)
{
    /* Computed mod 2^64, because high - low may exceed INT64_MAX. */
    uint64_t base = (uint64_t)low, range = (uint64_t)high - base;
    int width = range < (uint64_t)1 << 28 ? 1 : 2;
    uint32_t outputs[TG_RNG_CHUNK];
    for (int64_t portion; count > 0; out += portion, count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK / 2);
        tg_rng_draw(rng, outputs, width * portion);
        for (int64_t i = 0; i < portion; i++) {
            uint64_t bits = width == 1 ? outputs[i] : tg_rng_joined(outputs[2 * i], outputs[2 * i + 1]);
            out[i] = (int64_t)(bits % range + base);
        }
    }
}

void tg_rng_randperm(tg_rng *rng, int64_t *out, int64_t count)
{
    if (count >= UINT32_MAX / 20) {
        for (int64_t i = 0; i < count; i++) {
            int64_t j = (int64_t)(tg_rng_u64(rng) % (uint64_t)(i + 1));
            out[i] = i;
            out[i] = out[j];
            out[j] = i;
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = i;
    }
    for (int64_t i = 0; i < count - 1; i++) {
        int64_t j = i + tg_rng_u32(rng) % (uint32_t)(count - i);
        int64_t swapped = out[i];
        out[i] = out[j];
        out[j] = swapped;
    }
}

/* ---- bernoulli and exponential ------------------------------------------------------------------------------- */

static tg_bernoulli_loop *const bernoulli[] = {TG_EACH_LEVEL(avx512, tg_bernoulli_values)};

void tg_rng_bernoulli(tg_rng *rng, uint8_t *out, int64_t count, double p)
{
    uint32_t outputs[TG_RNG_CHUNK];
    for (int64_t portion; count > 0; out += portion, count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK / 2);
        tg_rng_draw(rng, outputs, 2 * portion);
        bernoulli[tg_level()](outputs, out, portion, p);
    }
}

/* Returns 8 values of 0 or 1 as the bits of a byte, the first in the lowest bit. The product adds value k, which is at
 * bit 8 k, or 56 - 8 k, to bit 56 + k; no other two of its terms meet there. */
static uint8_t packed(const uint8_t values[8])
{
    uint64_t joined;
    memcpy(&joined, values, sizeof joined);
    joined *= __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? UINT64_C(0x0102040810204080) : UINT64_C(0x8040201008040201);
    return (uint8_t)(joined >> 56);
}

static void draw_bits(tg_rng *rng, uint8_t *bits, int64_t count, double p)
{
    uint8_t drawn[TG_RNG_CHUNK / 2];
    for (int64_t portion; count > 0; count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK / 2);
        memset(drawn + portion / 8 * 8, 0, portion % 8 ? 8 : 0);
        tg_rng_bernoulli(rng, drawn, portion, p);
        for (int64_t i = 0; i < portion; i += 8, bits++) {
            *bits = packed(drawn + i);
        }
    }
}

typedef struct bits_draw {
    const tg_rng *rng;
    tg_rng after;
    uint8_t *bits;
    int64_t count;
    double p;
} bits_draw;

/* Draws the bytes begin .. end - 1 of the bits, by a copy of the generator that skips those before them. */
static void draw_range(void *context, int64_t begin, int64_t end)
{
    bits_draw *d = context;
    tg_rng own = *d->rng;
    tg_rng_draw(&own, NULL, 16 * begin);
    draw_bits(&own, d->bits + begin, tg_rng_portion(d->count, 8 * end) - 8 * begin, d->p);
    if (8 * end >= d->count) {
        d->after = own;
    }
}

/* A quarter of the time of a draw is that of the words, which each thread computes from the first one on. */
void tg_rng_bernoulli_bits(tg_rng *rng, uint8_t *bits, int64_t count, double p)
{
    bits_draw d = {.rng = rng, .after = *rng, .bits = bits, .count = count, .p = p};
    tg_parallel_for((count + 7) / 8, TG_GRAIN / 8, draw_range, &d);
    *rng = d.after;
}

void tg_rng_exponential_f64(tg_rng *rng, double *out, int64_t count, double lambda)
{
    uint32_t outputs[TG_RNG_CHUNK];
    for (int64_t portion; count > 0; out += portion, count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK / 2);
        tg_rng_draw(rng, outputs, 2 * portion);
        for (int64_t i = 0; i < portion; i++) {
            out[i] = -1.0 / lambda * tg_rng_log1p(rng, -tg_rng_unit_f64(outputs[2 * i], outputs[2 * i + 1]));
        }
    }
}
