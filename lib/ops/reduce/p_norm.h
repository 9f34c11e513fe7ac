/* p_norm (private): the p-norm |x|_p = (sum |x_i|^p)^(1/p) value by value, for p > 0 and p = INFINITY (the maximum of
 * |x_i|). In double.
 *
 *   gradient    d|x|_p / dx_i = sign(x_i) (|x_i| / |x|_p)^(p-1);    for INFINITY sign(x_i) / k where |x_i| = |x|_p
 *
 * k values are equal to the maximum. Where the norm is 0, the gradient is 0 except for p = 1, as in torch.
 */
#ifndef TG_OPS_REDUCE_P_NORM_H
#define TG_OPS_REDUCE_P_NORM_H

#include <math.h>

#include "math/power.h"

/* Returns the sum, or for INFINITY the maximum, with another value. A NaN stays. */
static inline double tg_p_norm_add(double sum, double x, double p)
{
    double size = fabs(x);
    if (p == 2) {
        return sum + x * x;
    }
    if (p == (double)INFINITY) {
        return size > sum || size != size ? size : sum;
    }
    return sum + (p == 1 ? size : p == 3 ? size * size * size : tg_pow_f64(size, p));
}

/* Returns the norm of the values that were added up. */
static inline double tg_p_norm_root(double sum, double p)
{
    return p == 2 ? sqrt(sum) : p == 1 || p == (double)INFINITY ? sum : tg_pow_f64(sum, 1 / p);
}

/* Returns the derivative of `norm` by one of its values. `ties` is k, for INFINITY only. */
static inline double tg_p_norm_gradient(double x, double norm, double p, int64_t ties)
{
    double sign = (double)((x > 0) - (x < 0));
    if (p == 1) {
        return sign;
    }
    if (norm == 0) {
        return 0;
    }
    if (p == 2) {
        return x / norm;
    }
    if (p == 3) {
        return sign * (x / norm) * (x / norm);
    }
    if (p == (double)INFINITY) {
        return fabs(x) == norm ? sign / (double)ties : 0;
    }
    if (x == 0) {
        /* 0^(p-1) is infinite for p < 1, and so is the norm's power: 0 norm^(1-p) */
        return norm == norm && !(p < 1 && isinf(norm)) ? 0 : (double)NAN;
    }
    return sign * tg_pow_f64(fabs(x) / norm, p - 1);
}

#endif
