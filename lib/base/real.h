/* real (private): how one file becomes kernels for float and for double.
 *
 * The build compiles every file with kernels for each dtype, with TG_REAL_F32 and with TG_REAL_F64, and for each level
 * of the processor (base/level.h). Kernels use the type `real`. A static function needs nothing else. The name of an
 * external function is KERNEL(name), which becomes name_f32 or name_f64, with the level behind it:
 *
 *     void KERNEL(tg_square_forward)(const tg_op_call *call);
 *
 * A function that exists for each dtype, but not for each level, is TYPED(name). Functions of numbers begin with
 * `real_`: real_sqrt is sqrtf or sqrt.
 *
 * Code that must exist only once (shape rules, descriptors, public functions) is below `#ifdef TG_ONCE`, which is
 * defined in the first pass only.
 *
 * So the formula, the kernels and the public function of an op are in one file. No formula is in a macro: macros write
 * tables, and loops over a formula that they are given.
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
#define TYPED(name) name##_f32
#define REAL(function) function##f
typedef float real;
#elif defined TG_REAL_F64
#define TYPED(name) name##_f64
#define REAL(function) function
typedef double real;
#else
#error "compile with TG_REAL_F32 or with TG_REAL_F64"
#endif

#if defined TG_LEVEL_AVX2 && defined TG_REAL_F32
#define KERNEL(name) name##_f32_avx2
#elif defined TG_LEVEL_AVX2
#define KERNEL(name) name##_f64_avx2
#elif defined TG_LEVEL_AVX512 && defined TG_REAL_F32
#define KERNEL(name) name##_f32_avx512
#elif defined TG_LEVEL_AVX512
#define KERNEL(name) name##_f64_avx512
#elif defined TG_REAL_F32
#define KERNEL(name) name##_f32
#else
#define KERNEL(name) name##_f64
#endif

static const real smallest_normal = sizeof(real) == sizeof(float) ? (real)FLT_MIN : (real)DBL_MIN;

/* ---- functions of the C library ---- */

static inline real real_fabs(real x)
{
    return REAL(fabs)(x);
}

static inline real real_sqrt(real x)
{
    return REAL(sqrt)(x);
}

static inline real real_floor(real x)
{
    return REAL(floor)(x);
}

static inline real real_nearbyint(real x)
{
    return REAL(nearbyint)(x);
}

static inline real real_fma(real a, real b, real c)
{
    return REAL(fma)(a, b, c);
}

/* ---- functions for loops that the compiler vectorizes (math/exp.h, math/log.h) ---- */

static inline real real_exp(real x)
{
    return TYPED(tg_exp)(x);
}

/* Returns e^x - 1 for x <= 0. */
static inline real real_expm1(real x)
{
    return TYPED(tg_expm1)(x);
}

static inline real real_tanh(real x)
{
    return TYPED(tg_tanh)(x);
}

static inline real real_log(real x)
{
    return TYPED(tg_log)(x);
}

/* Returns log(1 + x) for x in [0,1]. */
static inline real real_log1p(real x)
{
    return TYPED(tg_log1p)(x);
}

/* Returns e^x, or 0 where that is not a normal number. */
static inline real real_exp_or_zero(real x)
{
    return TYPED(tg_exp_or_zero)(x);
}

/* Returns e^x / (1 + e^x), for negative x as it stands, else divided by e^x: so no power of e overflows. */
static inline real sigmoid_of(real x)
{
    real e = real_exp_or_zero(-real_fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* Returns log(1 + e^-|x|). */
static inline real softplus_tail(real x)
{
    return real_log1p(real_exp_or_zero(-real_fabs(x)));
}

/* Returns x, or 0 if it is subnormal: for values that a matrix product reads next. */
static inline real normal_or_zero(real x)
{
    return real_fabs(x) < smallest_normal ? 0 : x;
}

#if defined TG_REAL_F32 && !defined TG_LEVEL_AVX2 && !defined TG_LEVEL_AVX512
#define TG_ONCE
#endif

#endif
