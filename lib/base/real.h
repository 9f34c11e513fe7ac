/* real (private): how one file becomes kernels for float and for double.
 *
 * The build compiles every file with kernels for each dtype, with TG_REAL_F32 and with TG_REAL_F64, and for each level
 * of the processor (base/level.h). Kernels use the type `real`. A static function needs nothing else. The name of an
 * external function is KERNEL(name), which becomes name_f32 or name_f64, with the level behind it:
 *
 *     void KERNEL(tg_square_forward)(const tg_op_call *call);
 *
 * Code that must exist only once (shape rules, descriptors, public functions) is below `#ifdef TG_ONCE`, which is
 * defined in the first pass only.
 *
 * So the formula, the kernels and the public function of an op are in one file. No formula is in a macro: macros write
 * tables, and the loops of elementwise ops.
 */
#ifndef TG_BASE_REAL_H
#define TG_BASE_REAL_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/level.h"
#include "math/doubles.h"
#include "math/exp.h"
#include "math/log.h"

#if defined TG_REAL_F32
/* The name of a function that exists for each dtype, but not for each level. */
#define TYPED(name) name##_f32
#define KERNEL(name) LEVEL(name##_f32)
typedef float real;
/* A function of the C library: REAL(sqrt) is sqrtf or sqrt. */
#define REAL(function) function##f
/* e^x, e^x - 1 for x <= 0, tanh x, log x and, for x in [0,1], log(1 + x), for loops that the compiler vectorizes. */
#define EXP(x) tg_exp_f32(x)
#define EXPM1(x) tg_expm1_f32(x)
#define TANH(x) tg_tanh_f32(x)
#define LOG(x) tg_log_f32(x)
#define LOG1P(x) tg_log1p_f32(x)
/* The smallest normal number. */
#define SMALLEST FLT_MIN
#define REAL_DTYPE TG_F32
#elif defined TG_REAL_F64
#define TYPED(name) name##_f64
#define KERNEL(name) LEVEL(name##_f64)
typedef double real;
#define REAL(function) function
#define EXP(x) tg_exp_f64(x)
#define EXPM1(x) tg_expm1_f64(x)
#define TANH(x) tg_tanh_f64(x)
#define LOG(x) tg_log_f64(x)
#define LOG1P(x) tg_log1p_f64(x)
#define SMALLEST DBL_MIN
#define REAL_DTYPE TG_F64
#else
#error "compile with TG_REAL_F32 or with TG_REAL_F64"
#endif

/* e^x, or 0 where that is not a normal number. */
#define EXP_OR_ZERO(x) TYPED(tg_exp_or_zero)(x)

/* Returns e^x / (1 + e^x), for negative x as it stands, else divided by e^x: so no power of e overflows. */
static inline real sigmoid_of(real x)
{
    real e = EXP_OR_ZERO(-REAL(fabs)(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* Returns log(1 + e^-|x|). */
static inline real softplus_tail(real x)
{
    return LOG1P(EXP_OR_ZERO(-REAL(fabs)(x)));
}

/* Returns x, or 0 if it is subnormal: for values that a matrix product reads next. */
static inline real normal_or_zero(real x)
{
    return REAL(fabs)(x) < SMALLEST ? 0 : x;
}

#if defined TG_REAL_F32 && !defined TG_LEVEL_AVX2 && !defined TG_LEVEL_AVX512
#define TG_ONCE
#endif

#endif
