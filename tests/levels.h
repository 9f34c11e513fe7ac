/* levels: which levels of the processor must give the same bits. */
#ifndef TG_TESTS_LEVELS_H
#define TG_TESTS_LEVELS_H

#include "base/level.h"

/* Returns the lowest level whose matrix products have the bits of the highest one. With the built-in loops, which every
 * backend has for some products, this is not the baseline of x86-64, which has no fused multiply-adds
 * (tg_matmul_backend). */
static inline int lowest_fused_level(void)
{
    return tg_level_highest() > TG_CPU_BASELINE ? TG_CPU_AVX2 : TG_CPU_BASELINE;
}

#endif
