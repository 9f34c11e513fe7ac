/* real: how one file becomes kernels for float and for double.
 *
 * The build compiles every file of lib/ops and lib/optim twice, with TG_REAL_F32 and with TG_REAL_F64. Kernels are
 * written once over `real`, and named through KERNEL(name), which becomes name_f32 or name_f64, so that both can
 * stand in one program and even in one file. What exists once (shape rules, descriptors, public functions) stands
 * below `#ifdef TG_ONCE`, which only the first pass compiles.
 *
 *     static real KERNEL(square)(real x) { return x * x; }
 *
 * Functions that the TG_ONCE part needs from both passes are not static, and are declared for both.
 */
#ifndef TG_BASE_REAL_H
#define TG_BASE_REAL_H

#include <math.h>
#include <string.h>

#include "base/exp.h"

#if defined TG_REAL_F32
typedef float real;
#define KERNEL(name) name##_f32
#define REAL(function) function##f /* the C library's: REAL(exp) is expf or exp */
#define EXP(x) tg_exp_f32(x)       /* e^x in loops */
#define TG_ONCE
#elif defined TG_REAL_F64
typedef double real;
#define KERNEL(name) name##_f64
#define REAL(function) function
#define EXP(x) exp(x)
#else
#error "compile with TG_REAL_F32 or with TG_REAL_F64"
#endif

#endif
