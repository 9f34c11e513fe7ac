/* random: what the files behind tapegrad/random.h share: the generator, its outputs in bulk, and how a loop full of
 * fma() is compiled for processors with and without that instruction. */
#ifndef TG_BASE_RANDOM_H
#define TG_BASE_RANDOM_H

#include <tapegrad/random.h>

#define TG_RNG_WORDS 624

/* Invariant: `used` outputs of the words as they stand were drawn, 1 .. 624; or it is 0, and then the words are what
 * seeding left, which give no outputs before they have advanced. */
struct tg_rng {
    uint32_t words[TG_RNG_WORDS];
    int32_t used;
    tg_rng_profile profile;
    uint64_t seed; /* all 64 bits: PyTorch's saved state holds them */
    uint64_t position;
    bool has_normal; /* the second normal of a pair waits, mean and std not yet applied */
    double normal;
};

/* The next `count` outputs. */
void tg_rng_draw(tg_rng *rng, uint32_t *out, int64_t count);

/* tg_rng_bernoulli as bits, the first in the lowest bit of bits[0]; those beyond `count` in the last byte become 0. */
void tg_rng_bernoulli_bits(tg_rng *rng, uint8_t *bits, int64_t count, double p);

/* Loops over arrays draw so many outputs at a time: they stay in the first cache. A multiple of 16. */
#define TG_RNG_CHUNK 1024

static inline int64_t tg_rng_portion(int64_t count, int64_t most)
{
    return count < most ? count : most;
}

/* PyTorch's 64 bits from two outputs. */
static inline uint64_t tg_rng_joined(uint32_t first, uint32_t second)
{
    return (uint64_t)first << 32 | second;
}

/* Uniform in [0,1). Exact: the low 24 or 53 bits fit the significand. */
static inline float tg_rng_unit_f32(uint32_t output)
{
    return (float)(int32_t)(output & 0xffffff) * 0x1p-24F;
}

static inline double tg_rng_unit_f64(uint32_t first, uint32_t second)
{
    return (double)(int64_t)(tg_rng_joined(first, second) & 0x1fffffffffffff) * 0x1p-53;
}

/* The two versions of a loop, which only a test calls by name. uniform: outputs become low + (high - low) * unit;
 * normal: `count` units, a multiple of 16, become normals of the AVX2 profile in place. */
void tg_uniform_portable(const uint32_t *outputs, float *out, int64_t count, float low, float high);
void tg_uniform_fma(const uint32_t *outputs, float *out, int64_t count, float low, float high);
void tg_normal_portable(float *values, int64_t count, float mean, float std);
void tg_normal_fma(float *values, int64_t count, float mean, float std);

#endif
