/* random (private): the generator, and distributions that draw the same values as PyTorch's. */
#ifndef TG_BASE_RANDOM_H
#define TG_BASE_RANDOM_H

#include <tapegrad/random.h>

#include "base/level.h"
#include "math/doubles.h"

#define TG_RNG_WORDS 624

#define TG_PI 3.14159265358979323846

/* Invariant: `used` is the number of outputs that were drawn from the current words, 1 to 624. It is 0 only after
 * seeding; then the words must advance before the first output. */
struct tg_rng {
    uint32_t words[TG_RNG_WORDS];
    int32_t used;
    tg_rng_profile profile;
    uint64_t seed;     /* all 64 bits, for PyTorch's saved state */
    uint64_t position; /* the number of outputs drawn since seeding or loading */
    bool has_normal;   /* whether `normal` is valid */
    double normal;     /* the second value of a pair, before mean and std are applied */
};

/* ---- outputs ---- */

/* Draws `count` 32-bit outputs; skips them if `out` is NULL. */
void tg_rng_draw(tg_rng *rng, uint32_t *out, int64_t count);

uint32_t tg_rng_u32(tg_rng *rng);

/* Returns 64 bits: two outputs, the high half first. */
uint64_t tg_rng_u64(tg_rng *rng);

/* Returns the seed that DataLoader and RandomSampler draw, in [0,2^63):
 * torch.empty((), dtype=torch.int64).random_().item(). */
uint64_t tg_rng_int64(tg_rng *rng);

/* ---- distributions ---- */

/* Check the generator and the parameters of a distribution; the error begins with `call`. */
bool tg_rng_check(const char *call, const tg_rng *rng, tg_error *error);
bool tg_rng_check_uniform(const char *call, double low, double high, tg_error *error);
bool tg_rng_check_normal(const char *call, double mean, double std, tg_error *error);

/* Each of the following fills out[0 .. count) in order. The caller has checked the arguments. */

/* x.uniform_(low, high): one output per float, two per double. */
void tg_rng_uniform_f32(tg_rng *rng, float *out, int64_t count, double low, double high);
void tg_rng_uniform_f64(tg_rng *rng, double *out, int64_t count, double low, double high);

/* x.normal_(mean, std): pairs in double for fewer than 16 values, blocks of 16 otherwise (normal.c). */
void tg_rng_normal_f32(tg_rng *rng, float *out, int64_t count, double mean, double std);
void tg_rng_normal_f64(tg_rng *rng, double *out, int64_t count, double mean, double std);

/* torch.randint(low, high, (count,)), low < high. */
void tg_rng_integers(tg_rng *rng, int64_t *out, int64_t count, int64_t low, int64_t high);

/* torch.randperm(count). */
void tg_rng_randperm(tg_rng *rng, int64_t *out, int64_t count);

/* x.bernoulli_(p): 1 with probability p in [0,1], else 0; two outputs per value. Dropout(q) is bernoulli_(1 - q). */
void tg_rng_bernoulli(tg_rng *rng, uint8_t *out, int64_t count, double p);

/* The same with one bit per value, the first in the lowest bit of bits[0]. Unused bits of the last byte become 0. */
void tg_rng_bernoulli_bits(tg_rng *rng, uint8_t *bits, int64_t count, double p);

/* x.exponential_(lambda), lambda > 0: two outputs per value. */
void tg_rng_exponential_f64(tg_rng *rng, double *out, int64_t count, double lambda);

/* torch.multinomial(weights, draws, replacement) for one row of `categories` weights >= 0, which need not sum to 1.
 * Without replacement the draws are in torch's order (multinomial.c), and `draws` is at most the number of positive
 * weights. Returns false and draws nothing for a weight that is negative, NaN or infinite, for weights that are all 0
 * or whose sum overflows, for an invalid number of draws, and when memory is exhausted. */
bool tg_rng_multinomial_f32(tg_rng *rng, int64_t *out, int64_t draws, const float *weights, int64_t categories,
                            bool replacement, tg_error *error);
bool tg_rng_multinomial_f64(tg_rng *rng, int64_t *out, int64_t draws, const double *weights, int64_t categories,
                            bool replacement, tg_error *error);

/* The same for `rows` rows of floats, or of doubles: out[i * draws .. (i + 1) * draws) are those of row i. All rows are
 * checked before anything is drawn, and the error names the row. */
bool tg_rng_multinomial_rows(tg_rng *rng, int64_t *out, int64_t draws, const void *weights, bool single, int64_t rows,
                             int64_t categories, bool replacement, tg_error *error);

/* ---- for the files that implement the distributions ---- */

/* The number of outputs that a loop over an array draws at a time: few enough for the first-level cache, and a multiple
 * of 16. */
#define TG_RNG_CHUNK 1024

static inline int64_t tg_rng_portion(int64_t count, int64_t most)
{
    return count < most ? count : most;
}

/* Returns 64 bits from two outputs, in PyTorch's order. */
static inline uint64_t tg_rng_joined(uint32_t first, uint32_t second)
{
    return (uint64_t)first << 32 | second;
}

/* Returns a uniform in [0,1). It is exact, because the low 24 or 53 bits fit the significand. */
static inline float tg_rng_unit_f32(uint32_t output)
{
    return (float)(int32_t)(output & 0xffffff) * 0x1p-24F;
}

static inline double tg_rng_unit_f64(uint32_t first, uint32_t second)
{
    return (double)(int64_t)(tg_rng_joined(first, second) & 0x1fffffffffffff) * 0x1p-53;
}

/* Returns log(1 + x) for x in [-1,1], by libm or by the library's own function. */
static inline double tg_rng_log1p(const tg_rng *rng, double x)
{
    return rng->profile == TG_RNG_PORTABLE ? tg_log1p_f64(x) : log1p(x);
}

static inline uint32_t tg_tempered(uint32_t x)
{
    x ^= x >> 11;
    x ^= x << 7 & 0x9d2c5680;
    x ^= x << 15 & 0xefc60000;
    return x ^ x >> 18;
}

/* ---- loops with a version per level (base/level.h) ---- */

/* Advances the words; tempers them; converts outputs to low + (high - low) * unit, or two outputs each to 1 with
 * probability p, else 0; converts `count` units, a multiple of 16, to normal values, in place. */
typedef void tg_advance_loop(uint32_t words[TG_RNG_WORDS]);
typedef void tg_temper_loop(const uint32_t *words, uint32_t *out, int64_t count);
typedef void tg_uniform_loop(const uint32_t *outputs, float *out, int64_t count, float low, float high);
typedef void tg_bernoulli_loop(const uint32_t *outputs, uint8_t *out, int64_t count, double p);
typedef void tg_normal_loop(float *values, int64_t count, float mean, float std);
tg_advance_loop TG_EACH_LEVEL(avx512, tg_advance_words);
tg_temper_loop TG_EACH_LEVEL(avx512, tg_temper_words);
tg_uniform_loop TG_EACH_LEVEL(avx512, tg_uniform_values);
tg_bernoulli_loop TG_EACH_LEVEL(avx512, tg_bernoulli_values);
tg_normal_loop TG_EACH_LEVEL(avx512, tg_normal_values);

#endif
