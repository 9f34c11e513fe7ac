/* level (private): kernels in several versions, one per vector extension of the processor.
 *
 * A file with kernels is plain C. The build compiles it once per level, with the compiler's flags for longer vectors
 * (lib/meson.build); the names of external functions carry the level:
 *
 *     tg_cpu_level       flags                          LEVEL(tg_sums)
 *     TG_CPU_BASELINE    none                           tg_sums
 *     TG_CPU_AVX2        -mavx2 -mfma                   tg_sums_avx2
 *     TG_CPU_AVX512      -mavx512f -mavx512bw ...       tg_sums_avx512, of some lists of lib/meson.build
 *
 * Programs gain from AVX-512 where they multiply matrices and draw numbers, and, in f32, where they update parameters,
 * or compute functions of single values, reductions, a softmax, a cross-entropy or a recurrent layer
 * (tests/bench/special_cases.md). All other kernels end with AVX2, and TG_CPU_AVX512 uses these.
 *
 * TG_EACH_LEVEL(avx2, tg_sums) lists a name for each level up to the highest that the file has, which serves those
 * above it. So it declares the versions, and initializes a constant table, which a caller indexes by tg_level():
 *
 *     typedef void sums(const float *x, int64_t n);
 *     sums TG_EACH_LEVEL(avx2, tg_sums);
 *     static sums *const versions[] = {TG_EACH_LEVEL(avx2, tg_sums)};
 *     versions[tg_level()](x, n);
 *
 * All versions give the same bits: a compiler neither fuses nor reorders floating-point operations (meson.build), and
 * sums have a fixed number of lanes. On other processors the baseline is the only level, and each table has one entry.
 *
 * The kernels use no intrinsics: plain loops vectorize if neighboring values are independent. FMA instructions are used
 * only for `fma` in the source, because fused products would have other bits at the baseline. ifunc and target_clones
 * do not exist on musl and macOS, and a version of the whole shared library per level would not serve a static library.
 */
#ifndef TG_BASE_LEVEL_H
#define TG_BASE_LEVEL_H

#include <tapegrad/base.h>

#include <stdatomic.h>

#if defined TG_LEVEL_AVX2
#define LEVEL(name) name##_avx2
#elif defined TG_LEVEL_AVX512
#define LEVEL(name) name##_avx512
#else
#define LEVEL(name) name
#endif

#if defined TG_ALL_LEVELS
#define TG_LEVELS 3
#define TG_EACH_LEVEL(highest, name) name, name##_avx2, name##_##highest
#else
#define TG_LEVELS 1
#define TG_EACH_LEVEL(highest, name) name
#endif

/* The level in use, or -1 before the first call that needs it. */
extern atomic_int tg_level_in_use;

/* Returns the highest level of the processor that the build has. */
int tg_level_highest(void);

/* Chooses the first level: that of TG_CPU_LEVEL, or the highest of the processor if the variable names none that the
 * processor has. */
int tg_level_choose(void);

/* Returns the level in use, as an index. */
static inline int tg_level(void)
{
    int level = atomic_load_explicit(&tg_level_in_use, memory_order_relaxed);
    return level < 0 ? tg_level_choose() : level;
}

/* Counts a new tape: the level must not change until tg_level_end_tape. False if TG_CPU_LEVEL is invalid and no call
 * has set the level. */
bool tg_level_begin_tape(tg_error *error);
void tg_level_end_tape(void);

#endif
