/* fma: loops of fused multiply-adds, with the processor's instruction where it has one. */
#ifndef TG_BASE_FMA_H
#define TG_BASE_FMA_H

#include <stdbool.h>

/* fma() rounds once everywhere, but without the instruction (x86-64's baseline lacks it) it is a slow function of libm.
 * A loop full of it is one always-inlined body, compiled a second time as a TG_FMA_VERSION and chosen by
 * tg_has_fma(). As fma() is written out and contraction is off, both versions give the same bits. */
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
