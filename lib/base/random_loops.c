/* random_loops: the loops over the generator's words and outputs, a version per level (level.h).
 *
 * The words obey
 *     x[k+624] = x[k+397] ^ shifted(top bit of x[k], low 31 bits of x[k+1])
 * and an output is a tempered word (random.c). A new word depends on old words after it and on a new word 227 positions
 * before it. So neighbors are independent, and the loops below can be vectorized.
 */
#include "base/random.h"
#include "math/fma.h"

#define N TG_RNG_WORDS
#define M 397

static inline uint32_t shifted(uint32_t x, uint32_t next)
{
    uint32_t joined = (x & 0x80000000) | (next & 0x7fffffff);
    return joined >> 1 ^ (-(next & 1) & 0x9908b0df);
}

void LEVEL(tg_advance_words)(uint32_t x[TG_RNG_WORDS])
{
    for (int k = 0; k < N - M; k++) {
        x[k] = x[k + M] ^ shifted(x[k], x[k + 1]);
    }
    for (int k = N - M; k < N - 1; k++) {
        x[k] = x[k + M - N] ^ shifted(x[k], x[k + 1]);
    }
    x[N - 1] = x[M - 1] ^ shifted(x[N - 1], x[0]);
}

void LEVEL(tg_temper_words)(const uint32_t *words, uint32_t *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = tg_tempered(words[i]);
    }
}

void LEVEL(tg_uniform_values)(const uint32_t *outputs, float *out, int64_t count, float low, float high)
{
    float width = high - low;
    for (int64_t i = 0; i < count; i++) {
        float value = tg_fma_f32(tg_rng_unit_f32(outputs[i]), width, low);
        out[i] = value == high ? low : value;
    }
}

/* For an integer k, k 2^-53 < p is the same as k < ceil(p 2^53), which is faster. */
void LEVEL(tg_bernoulli_values)(const uint32_t *outputs, uint8_t *out, int64_t count, double p)
{
    int64_t bound = (int64_t)ceil(p * 0x1p53);
    for (int64_t i = 0; i < count; i++) {
        int64_t k = (int64_t)(tg_rng_joined(outputs[2 * i], outputs[2 * i + 1]) & 0x1fffffffffffff);
        out[i] = k < bound;
    }
}
