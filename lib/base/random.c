/* random: the engine, MT19937, and its state.
 *
 * M. Matsumoto and T. Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform pseudorandom number
 * generator", ACM TOMACS 8(1), 1998, seeded as in their init_genrand of 2002. The stream is that of std::mt19937 and of
 * NumPy's RandomState; 64-bit outputs and the format of a saved state follow PyTorch 2.13
 * (ATen/core/MT19937RNGEngine.h, ATen/CPUGeneratorImpl.cpp).
 *
 * An output is a tempered word. When all outputs have been drawn, all 624 words advance at once (random_loops.c). The
 * words are stored untempered, because PyTorch saves them like this.
 *
 * distributions.c and normal.c convert outputs to distributions.
 */
#include "base/random.h"

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "base/bytes.h"

#include <math.h>
#include <string.h>

static tg_advance_loop *const advance[] = {TG_EACH_LEVEL(avx512, tg_advance_words)};
static tg_temper_loop *const temper[] = {TG_EACH_LEVEL(avx512, tg_temper_words)};

static inline void advance_if_spent(tg_rng *rng)
{
    if (rng->used == 0 || rng->used == TG_RNG_WORDS) {
        advance[tg_level()](rng->words);
        rng->used = 0;
    }
}

void tg_rng_draw(tg_rng *rng, uint32_t *out, int64_t count)
{
    rng->position += (uint64_t)count;
    while (count > 0) {
        advance_if_spent(rng);
        int64_t portion = TG_RNG_WORDS - rng->used < count ? TG_RNG_WORDS - rng->used : count;
        if (out) {
            temper[tg_level()](rng->words + rng->used, out, portion);
            out += portion;
        }
        rng->used += (int32_t)portion;
        count -= portion;
    }
}

uint32_t tg_rng_u32(tg_rng *rng)
{
    advance_if_spent(rng);
    rng->position++;
    return tg_tempered(rng->words[rng->used++]);
}

uint64_t tg_rng_u64(tg_rng *rng)
{
    uint64_t high = tg_rng_u32(rng);
    return high << 32 | tg_rng_u32(rng);
}

uint64_t tg_rng_int64(tg_rng *rng)
{
    return tg_rng_u64(rng) & INT64_MAX;
}

/* ---- generators ---------------------------------------------------------------------------------------------- */

void tg_rng_seed(tg_rng *rng, uint64_t seed)
{
    if (!rng) {
        return;
    }
    rng->words[0] = (uint32_t)seed;
    for (uint32_t k = 1; k < TG_RNG_WORDS; k++) {
        rng->words[k] = 1812433253 * (rng->words[k - 1] ^ rng->words[k - 1] >> 30) + k;
    }
    rng->used = 0;
    rng->seed = seed;
    rng->position = 0;
    rng->has_normal = false;
    rng->normal = 0;
}

tg_rng *tg_rng_new(uint64_t seed)
{
    tg_rng *rng = tg_alloc(1, sizeof *rng);
    if (rng) {
        tg_rng_seed(rng, seed);
        rng->profile = TG_RNG_AVX2;
    }
    return rng;
}

void tg_rng_free(tg_rng *rng)
{
    tg_free(rng);
}

void tg_rng_copy(tg_rng *to, const tg_rng *from)
{
    if (to && from) {
        memmove(to, from, sizeof *to);
    }
}

void tg_rng_set_profile(tg_rng *rng, tg_rng_profile profile)
{
    if (rng) {
        rng->profile = profile;
    }
}

uint64_t tg_rng_position(const tg_rng *rng)
{
    return rng ? rng->position : 0;
}

/* ---- PyTorch's saved state ----------------------------------------------------------------------------------- */

/* The offsets of the fields, in bytes; all other bytes are 0. `left` and `next` both encode `used`: they are 625 - used
 * and used, but 1 and 0 in a new generator. */
enum {
    AT_SEED = 0,         /* 64 bits */
    AT_LEFT = 8,         /* 32 */
    AT_SEEDED = 12,      /* 32: always 1 */
    AT_NEXT = 16,        /* 64 */
    AT_WORDS = 24,       /* 624 times 64, of which the low 32 are used */
    AT_NORMAL = 5024,    /* double */
    AT_HAS_NORMAL = 5040 /* 32 */
};

bool tg_rng_save_torch_state(const tg_rng *rng, uint8_t state[TG_RNG_TORCH_STATE_SIZE], tg_error *error)
{
    if (!rng || !state) {
        return tg_error_set(error, TG_ERROR_STATE, "rng_save_torch_state: the %s is NULL", rng ? "state" : "generator");
    }
    memset(state, 0, TG_RNG_TORCH_STATE_SIZE);
    tg_number_to_bytes(rng->seed, state + AT_SEED, 8);
    tg_number_to_bytes(rng->used == 0 ? 1 : (uint64_t)(TG_RNG_WORDS + 1 - rng->used), state + AT_LEFT, 4);
    tg_number_to_bytes(1, state + AT_SEEDED, 4);
    tg_number_to_bytes((uint64_t)rng->used, state + AT_NEXT, 8);
    for (int k = 0; k < TG_RNG_WORDS; k++) {
        tg_number_to_bytes(rng->words[k], state + AT_WORDS + 8 * k, 4);
    }
    if (rng->has_normal) {
        uint64_t bits;
        memcpy(&bits, &rng->normal, sizeof bits);
        tg_number_to_bytes(bits, state + AT_NORMAL, 8);
        tg_number_to_bytes(1, state + AT_HAS_NORMAL, 4);
    }
    return true;
}

bool tg_rng_load_torch_state(tg_rng *rng, const uint8_t state[TG_RNG_TORCH_STATE_SIZE], tg_error *error)
{
    static const char name[] = "rng_load_torch_state";
    if (!rng || !state) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", name, rng ? "state" : "generator");
    }
    uint64_t seeded = tg_number_of_bytes(state + AT_SEEDED, 4),
             has_normal = tg_number_of_bytes(state + AT_HAS_NORMAL, 4);
    if (seeded != 1) {
        return tg_error_set_at(error, -1, AT_SEEDED, "%s: seeded is %u at byte %d; it must be 1", name,
                               (unsigned)seeded, AT_SEEDED);
    }
    uint64_t left = tg_number_of_bytes(state + AT_LEFT, 4), next = tg_number_of_bytes(state + AT_NEXT, 8);
    bool unused = next == 0 && left == 1;
    bool running = next >= 1 && next <= TG_RNG_WORDS && left == TG_RNG_WORDS + 1 - next;
    if (!unused && !running) {
        return tg_error_set_at(
            error, -1, AT_LEFT,
            "%s: left %llu and next %llu at bytes %d and %d; next must be 1 to 624 and left 625 - next, or "
            "next 0 and left 1 after seeding",
            name, (unsigned long long)left, (unsigned long long)next, AT_LEFT, AT_NEXT);
    }
    for (int k = 0; k < TG_RNG_WORDS; k++) {
        uint64_t word = tg_number_of_bytes(state + AT_WORDS + 8 * k, 8);
        if (word > UINT32_MAX) {
            return tg_error_set_at(error, -1, AT_WORDS + 8 * k, "%s: word 0x%llx at byte %d has more than 32 bits",
                                   name, (unsigned long long)word, AT_WORDS + 8 * k);
        }
    }
    uint64_t bits = tg_number_of_bytes(state + AT_NORMAL, 8);
    double normal;
    memcpy(&normal, &bits, sizeof normal);
    if (has_normal > 1 || (has_normal && !isfinite(normal))) {
        return tg_error_set_at(
            error, -1, AT_NORMAL,
            "%s: cached normal %g at byte %d with flag %u; the flag must be 0, or 1 with a finite normal", name, normal,
            AT_NORMAL, (unsigned)has_normal);
    }
    for (int k = 0; k < TG_RNG_WORDS; k++) {
        rng->words[k] = (uint32_t)tg_number_of_bytes(state + AT_WORDS + 8 * k, 4);
    }
    rng->used = (int32_t)next;
    rng->seed = tg_number_of_bytes(state + AT_SEED, 8);
    rng->position = 0;
    rng->has_normal = has_normal == 1;
    rng->normal = normal;
    return true;
}
