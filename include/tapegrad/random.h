/* random: torch.manual_seed's generator on CPU, bit for bit.
 *
 * A tg_rng is a value that you pass; there is no global one. After tg_rng_new(s) the calls below give what PyTorch 2.13
 * on x86-64 gives after torch.manual_seed(s), call for call: the engine is MT19937 (Matsumoto and Nishimura 1998), and
 * each function names the PyTorch call whose stream it follows. The results never depend on the number of threads.
 *
 * Profiles. PyTorch computes the normals of large float tensors with AVX2 polynomials where the processor has them and
 * with libm where not, and fuses multiply and add in some other streams; the two differ in the last bits. TG_RNG_AVX2
 * (the default) gives the former on every machine, TG_RNG_GENERIC the latter.
 */
#ifndef TAPEGRAD_RANDOM_H
#define TAPEGRAD_RANDOM_H

#include <tapegrad/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_rng tg_rng;

typedef enum tg_rng_profile { TG_RNG_AVX2, TG_RNG_GENERIC } tg_rng_profile;

/* A generator in the state of torch.manual_seed(seed); yours to free. As in PyTorch only the low 32 bits of the seed
 * count. NULL when out of memory. */
TG_API tg_rng *tg_rng_new(uint64_t seed);
TG_API void tg_rng_free(tg_rng *rng); /* NULL is fine */

/* Back to the state of torch.manual_seed(seed): a cached normal is forgotten too. The profile stays. */
TG_API void tg_rng_seed(tg_rng *rng, uint64_t seed);

/* Makes `to` continue exactly where `from` is (state, cached normal, profile). Saving a state before a step that may
 * have to be repeated is a copy into a second generator, restoring it a copy back. */
TG_API void tg_rng_copy(tg_rng *to, const tg_rng *from);

TG_API void tg_rng_set_profile(tg_rng *rng, tg_rng_profile profile);
TG_API tg_rng_profile tg_rng_profile_of(const tg_rng *rng);

/* How many 32-bit outputs were drawn since the last seeding or loaded state: the position in the stream. */
TG_API uint64_t tg_rng_position(const tg_rng *rng);

/* The raw outputs. The 64-bit one takes two of the 32-bit ones, the high half first. */
TG_API uint32_t tg_rng_u32(tg_rng *rng);
TG_API uint64_t tg_rng_u64(tg_rng *rng);

/* The seed that DataLoader and RandomSampler draw: torch.empty((), dtype=torch.int64).random_().item(), a number in
 * [0, 2^63). Two 32-bit outputs. */
TG_API uint64_t tg_rng_int64(tg_rng *rng);

/* ---- arrays -------------------------------------------------------------------------------------------------- */
/* Each fills out[0..count) in order; count 0 draws nothing. Finite arguments are the caller's duty: these are the
 * streams alone; tapegrad/tensor.h has the checked tg_fill_uniform and its friends. */

/* x.uniform_(low, high): [low, high). One output a float, two a double. */
TG_API void tg_rng_uniform_f32(tg_rng *rng, float *out, int64_t count, double low, double high);
TG_API void tg_rng_uniform_f64(tg_rng *rng, double *out, int64_t count, double low, double high);

/* x.normal_(mean, std). Fewer than 16 values: pairs of Box and Muller in double, the second of a pair cached for the
 * next call; 16 or more: blocks of 16 (see lib/base/normal.c). */
TG_API void tg_rng_normal_f32(tg_rng *rng, float *out, int64_t count, double mean, double std);
TG_API void tg_rng_normal_f64(tg_rng *rng, double *out, int64_t count, double mean, double std);

/* torch.randint(low, high, (count,)): integers in [low, high), low < high. */
TG_API void tg_rng_randint(tg_rng *rng, int64_t *out, int64_t count, int64_t low, int64_t high);

/* torch.randperm(count). */
TG_API void tg_rng_randperm(tg_rng *rng, int64_t *out, int64_t count);

/* x.bernoulli_(p): 1 with probability p in [0,1], else 0. Two outputs a value. Dropout(q) is bernoulli_(1 - q). */
TG_API void tg_rng_bernoulli(tg_rng *rng, uint8_t *out, int64_t count, double p);

/* x.exponential_(lambda), lambda > 0. Two outputs a value, for floats as well. */
TG_API void tg_rng_exponential_f32(tg_rng *rng, float *out, int64_t count, double lambda);
TG_API void tg_rng_exponential_f64(tg_rng *rng, double *out, int64_t count, double lambda);

/* torch.multinomial(weights, draws, replacement) of one row: `categories` weights >= 0 that need not sum to 1; the
 * chosen categories go to out[0..draws). Without replacement the draws come in torch's order (equal quotients: the
 * smaller category first), and at most as many as there are positive weights can be asked for. Returns false, sets
 * `error` and draws nothing when a weight is negative, NaN or infinite, when all are 0 or their sum overflows, when
 * `draws` is not possible, or when out of memory. */
TG_API bool tg_rng_multinomial_f32(tg_rng *rng, int64_t *out, int64_t draws, const float *weights, int64_t categories,
                                   bool replacement, tg_error *error);
TG_API bool tg_rng_multinomial_f64(tg_rng *rng, int64_t *out, int64_t draws, const double *weights, int64_t categories,
                                   bool replacement, tg_error *error);

/* Exact bytes of a state that came from, or goes to, torch.get_rng_state(): 5056 bytes, little-endian. Loading refuses
 * a blob whose counters cannot come from a generator. */
#define TG_RNG_TORCH_STATE_SIZE 5056
TG_API void tg_rng_save_torch_state(const tg_rng *rng, uint8_t state[TG_RNG_TORCH_STATE_SIZE]);
TG_API bool tg_rng_load_torch_state(tg_rng *rng, const uint8_t state[TG_RNG_TORCH_STATE_SIZE], tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
