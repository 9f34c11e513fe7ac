/* The quotient of test_quotient.c in double. */
#define TG_REAL_F64
#include "math/fma.h"
#define TG_HAS_FMA
#include "base/quotient.h"

double quotient_f64(double x, double c);

double quotient_f64(double x, double c)
{
    const divisor d = tg_divisor_of(c);
    return quotient(x, &d);
}
