/* levels: which levels of the processor must give the same bits. */
#ifndef TG_TESTS_LEVELS_H
#define TG_TESTS_LEVELS_H

#include "base/level.h"

/* Returns the lowest level whose matrix products have the bits of the highest one. With the built-in products, which
 * recurrent layers always use, this is not the baseline of x86-64, which has no fused multiply-adds
 * (tg_matmul_backend). */
static inline int lowest_fused_level(bool is_recurrent)
{
    bool is_builtin = is_recurrent || tg_get_matmul_backend() == TG_BACKEND_BUILTIN;
    return is_builtin && tg_level_highest() > TG_CPU_BASELINE ? TG_CPU_AVX2 : TG_CPU_BASELINE;
}

#endif
