/* The remainders of test_remainder.c in double. */
#define TG_REAL_F64
#include "ops/elementwise/remainder.h"

void remainders_f64(const double *a, const double *b, int64_t n, double *out);

void remainders_f64(const double *a, const double *b, int64_t n, double *out)
{
    remainders(a, b, n, out);
}
