/* fma: loops of fused multiply-adds, which use the processor's instruction if it exists. */
#ifndef TG_BASE_FMA_H
#define TG_BASE_FMA_H

#include <stdbool.h>

/* Without the instruction, which x86-64's baseline lacks, fma() is a slow function of libm. So the body of such a loop
 * is an always-inlined TG_FMA_BODY that is compiled twice: for the baseline, and as a TG_FMA_VERSION, which is called
 * if tg_has_fma(). Both give the same bits, because fma() rounds once in each and contraction is off. */
#if defined __GNUC__
#define TG_FMA_BODY static inline __attribute__((always_inline))
#else
#define TG_FMA_BODY static inline
#endif

#if defined __GNUC__ && defined __x86_64__
#define TG_FMA_VERSION __attribute__((target("avx2,fma")))
static inline bool tg_has_fma(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define TG_FMA_VERSION
static inline bool tg_has_fma(void)
{
    return false;
}
#endif

#endif
