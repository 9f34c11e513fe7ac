/* vector (private): the longest vectors of the instructions that a pass is compiled for, for kernels that keep sums in
 * registers. What asks for instructions asks the compiler, not the level (base/level.h), so that a build for one
 * processor has its vectors, too. */
#ifndef TG_BASE_VECTOR_H
#define TG_BASE_VECTOR_H

#include "base/real.h"

#if defined __AVX512F__
#define VECTOR_BYTES 64
#elif defined __AVX2__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define VECTOR_LANES ((int)(VECTOR_BYTES / sizeof(real)))

typedef real vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

#endif
