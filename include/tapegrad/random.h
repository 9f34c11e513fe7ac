/* random: the generator of torch.manual_seed on a CPU, bit for bit.
 *
 * The library has no global generator: a tg_rng is passed to the calls that draw. After tg_rng_new(seed) such a call
 * draws the same numbers as the PyTorch function that it follows after torch.manual_seed(seed), in PyTorch 2.13 on
 * x86-64. Values that libm computes have the same bits with the same libm, and differ by at most 1 ulp with another.
 * The engine is MT19937 (Matsumoto and Nishimura 1998). The numbers do not depend on the number of threads.
 *
 * Profiles. On a processor with AVX2, PyTorch computes the normal values of large float tensors with polynomials, and
 * fuses multiplications with additions in some other streams. On other processors it calls libm, and rounds each
 * operation. The two differ in the last bits. TG_RNG_AVX2, the default, gives the bits of a processor with AVX2 on
 * every machine. TG_RNG_GENERIC gives the bits of a processor without it. TG_RNG_PORTABLE is TG_RNG_AVX2 without libm:
 * all values have the same bits on every machine. Those for which the others call libm differ from PyTorch's in the
 * last digits of a double: normal values in f64 or in fills of fewer than 16, and exponential ones.
 *
 * Threads. Two threads must not use the same generator at the same time.
 */
#ifndef TAPEGRAD_RANDOM_H
#define TAPEGRAD_RANDOM_H

#include <tapegrad/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_rng tg_rng;

typedef enum tg_rng_profile { TG_RNG_AVX2, TG_RNG_GENERIC, TG_RNG_PORTABLE } tg_rng_profile;

/* Returns a generator in the state of torch.manual_seed(seed). Yours to free. As in PyTorch, only the low 32 bits of
 * the seed determine the stream. NULL when memory is exhausted. */
TG_API tg_rng *tg_rng_new(uint64_t seed);
TG_API void tg_rng_free(tg_rng *rng);

/* Sets the state of torch.manual_seed(seed). This also drops the cached normal value: PyTorch draws normal values in
 * pairs, and keeps the second. The profile stays. */
TG_API void tg_rng_seed(tg_rng *rng, uint64_t seed);

/* Copies the state of `from` into `to`: the stream, the cached normal value, the position and the profile. To repeat a
 * step, copy the state into a second generator before the step, and back after it. */
TG_API void tg_rng_copy(tg_rng *to, const tg_rng *from);

/* Sets the profile of all later draws. */
TG_API void tg_rng_set_profile(tg_rng *rng, tg_rng_profile profile);

/* Returns the position in the stream: the number of 32-bit outputs that were drawn since the seed was set or a state
 * was loaded. */
TG_API uint64_t tg_rng_position(const tg_rng *rng);

/* ---- one number ---------------------------------------------------------------------------------------------- */
/* Each draws one f32 value, or one integer, as the PyTorch method does. tg_tensor_fill_uniform and its siblings fill
 * tensors. STATE without a generator, VALUE for invalid parameters; nothing is drawn then. */

/* Returns a number in [low,high): torch.empty(1).uniform_(low, high). The bounds are finite, low <= high. NaN after an
 * error. */
TG_API double tg_rng_uniform(tg_rng *rng, double low, double high, tg_error *error);

/* Returns a normal number: torch.empty(1).normal_(mean, std). Both are finite, std >= 0. NaN after an error. */
TG_API double tg_rng_normal(tg_rng *rng, double mean, double std, tg_error *error);

/* Returns an integer in [low,high), low < high: torch.randint(low, high, (1,)). 0 after an error. */
TG_API int64_t tg_rng_randint(tg_rng *rng, int64_t low, int64_t high, tg_error *error);

/* ---- PyTorch's saved state ----------------------------------------------------------------------------------- */

/* The size of torch.get_rng_state() in bytes. */
#define TG_RNG_TORCH_STATE_SIZE 5056

/* Writes the state in the format of torch.set_rng_state, little-endian. The format has no position and no profile. */
TG_API bool tg_rng_save_torch_state(const tg_rng *rng, uint8_t state[TG_RNG_TORCH_STATE_SIZE], tg_error *error);

/* Sets the state that torch.get_rng_state() returned; the position becomes 0, and the profile stays. FORMAT, with the
 * offset of the byte, for bytes that are not a valid state. */
TG_API bool tg_rng_load_torch_state(tg_rng *rng, const uint8_t state[TG_RNG_TORCH_STATE_SIZE], tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
