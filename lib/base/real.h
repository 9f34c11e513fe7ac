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
typedef uint32_t real_bits;
#elif defined TG_REAL_F64
#define TYPED(name) name##_f64
#define REAL(function) function
typedef double real;
typedef uint64_t real_bits;
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

/* Whether `real` is float. */
#define IS_FLOAT (sizeof(real) == sizeof(float))

static const real smallest_normal = IS_FLOAT ? (real)FLT_MIN : (real)DBL_MIN;

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

/* Returns e^x - 1 for x <= 0, with the sign of x: with x = n ln 2 + r it is 2^n (e^r - 1) + (2^n - 1). At most 1.5 ulp
 * from the exact value, and 1 for floats (tests/math). */
static inline real real_expm1(real x)
{
    const real minus_one = IS_FLOAT ? -18 : -38; /* from here on e^x - 1 is rounded to -1 */
    real_bits n;
    real rest = TYPED(tg_exp_rest)(x < minus_one ? minus_one : x, &n), power = TYPED(tg_power_of_two)(n);
    return REAL(copysign)(power * rest + (power - 1), x);
}

/* Returns tanh x as m / (m + 2) with m = e^2|x| - 1 and the sign of x, the form of FreeBSD's s_tanh.c: no numbers that
 * are almost equal are subtracted. With 2|x| = n ln 2 + r, m is 2^n (e^r - 1) + (2^n - 1). At most 2.5 ulp from the
 * exact value. */
static inline real real_tanh(real x)
{
    const real one = (real)(IS_FLOAT ? 9.02 : 19.1); /* from here on tanh x is rounded to 1 */
    real a = real_fabs(x);
    real_bits n;
    real rest = TYPED(tg_exp_rest)(2 * (a > one ? one : a), &n), power = TYPED(tg_power_of_two)(n);
    real m = power * rest + (power - 1);
    return REAL(copysign)(m / (m + 2), x);
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

/* Returns e^x for x <= 88, or 709 for doubles, and 0 where it is no normal number: on many processors arithmetic with
 * subnormal numbers takes a hundred times as long. For softmax and the functions like it. */
static inline real real_exp_or_zero(real x)
{
    const real least = (real)(IS_FLOAT ? -87.33 : -708.39);
    real_bits n;
    /* The result is normal, and so is 2^n. A product keeps a NaN, whose bits are arbitrary in n. */
    real e = (TYPED(tg_exp_rest)(x < least ? least : x, &n) + 1) * TYPED(tg_power_of_two)(n);
    return x < least ? 0 : e;
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
