/* statistics: logsumexp, norms and variances of a line. */
#include "reductions.h"

#include <float.h>

/* ---- logsumexp ---- */

reduced logsumexp_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    double largest = n > 0 ? extreme_of(1, v, n) : -INFINITY;
    if (!isfinite(largest)) {
        return (reduced){largest, fabs(largest), 0};
    }
    exact_sum e = {0, 0};
    for (int64_t k = 0; k < n; k++) {
        add_exactly(&e, exp(v[k] - largest));
    }
    double sum = exact_result(&e);
    return (reduced){largest + log(sum), fabs(largest) + log(sum) + 1, 1};
}

/* e^(x - y): the roundings of x - y and of y count as often as they are large. */
void logsumexp_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    double y = logsumexp_value(o, TG_F64, v, n).value;
    for (int64_t k = 0; k < n; k++) {
        double e = exp(v[k] - y);
        slope[k] = (quantity){e, e * (2 + fabs(v[k]) + fabs(y))};
    }
}

/* ---- norms ---- */

static double log_or_zero(double x)
{
    return x == 0 || !isfinite(x) ? 0 : fabs(log(fabs(x)));
}

/* A term so large that every result is right, where a power overflows or vanishes in f32. */
static double out_of_range(double x)
{
    return fabs(x) > FLT_MAX || (x != 0 && fabs(x) < FLT_MIN / FLT_EPSILON) ? 10.0 * FLT_MAX : 0;
}

/* sum |x|^p, and for p = inf the maximum; how many roundings it has, and whether it fits into f32. */
typedef struct power_sum {
    double sum, roundings, out_of_range;
} power_sum;

static power_sum power_sum_of(double p, const double *v, int64_t n)
{
    power_sum s = {0, 1, 0};
    exact_sum e = {0, 0};
    for (int64_t k = 0; k < n; k++) {
        double power = isinf(p) ? fabs(v[k]) : pow(fabs(v[k]), p);
        add_exactly(&e, power);
        s.sum = isnan(s.sum) || isnan(power) ? NAN : fmax(s.sum, power);
        s.roundings = fmax(s.roundings, isinf(p) ? 0 : 1 + p * log_or_zero(v[k]));
        s.out_of_range += isfinite(v[k]) && isfinite(p) ? out_of_range(power) : 0;
    }
    s.sum = isinf(p) ? s.sum : exact_result(&e);
    return s;
}

reduced norm_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    power_sum s = power_sum_of(o->p, v, n);
    if (isinf(o->p)) {
        return (reduced){s.sum, s.sum, 0};
    }
    double y = pow(s.sum, 1 / o->p), lost = 1 + (s.roundings + log_or_zero(s.sum)) / o->p;
    return (reduced){y, y * lost + (dtype == TG_F32 ? s.out_of_range : 0), y / o->p};
}

/* sign(x) (|x| / y)^(p - 1), and 0 where the norm y is 0. For p = inf as for a maximum. As in torch, a NaN has sign 0
 * for p = 1 and p = inf, and is NaN otherwise. */
void norm_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    power_sum s = power_sum_of(o->p, v, n);
    double y = isinf(o->p) ? s.sum : pow(s.sum, 1 / o->p), ties = 0;
    double lost = 1 + (isinf(o->p) ? 0 : (s.roundings + log_or_zero(s.sum)) / o->p);
    for (int64_t k = 0; k < n; k++) {
        ties += fabs(v[k]) == y;
    }
    for (int64_t k = 0; k < n; k++) {
        double x = v[k], p = o->p;
        if (y == 0) {
            slope[k] = (quantity){0, 0};
        } else if (p == 1) {
            slope[k] = (quantity){sign_of(x), 1};
        } else if (isinf(p)) {
            slope[k] = (quantity){fabs(x) == y ? sign_of(x) / ties : 0, 1};
        } else {
            double numerator = x == 0     ? 0
                               : isnan(x) ? NAN
                                          : sign_of(x) * pow(fabs(x), p - 1),
                   denominator = pow(y, p - 1);
            double value = numerator / denominator;
            double terms = fabs(value) * (2 + p * (log_or_zero(x) + log_or_zero(y)) + fabs(p - 1) * lost);
            bool is_finite = isfinite(x) && isfinite(y);
            slope[k] = (quantity){
                value, terms + (is_finite ? s.out_of_range + out_of_range(numerator) + out_of_range(denominator) : 0)};
        }
    }
}

/* ---- variances ---- */

/* The mean of equal values is exact. */
static double mean_of(const double *v, int64_t n)
{
    bool differ = false;
    for (int64_t k = 1; k < n; k++) {
        differ = differ || v[k] != v[0];
    }
    return n > 0 && !differ ? v[0] : sum_of(v, n).value / (double)n;
}

/* The divisor of the value is at least 0, and that of the slopes is not clamped, as in torch. */
reduced var_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)dtype;
    double mean = mean_of(v, n), terms = 0, count = fmax(0, (double)n - o->correction);
    exact_sum e = {0, 0};
    if (n == 0) {
        return (reduced){NAN, 0, 0};
    }
    for (int64_t k = 0; k < n; k++) {
        double d = v[k] - mean;
        add_exactly(&e, d * d);
        terms += d * d + fabs(d) * (fabs(v[k]) + fabs(mean)) + DBL_EPSILON * (v[k] * v[k] + mean * mean);
    }
    return (reduced){exact_result(&e) / count, terms / count, exact_result(&e) / count};
}

void var_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    double mean = mean_of(v, n), count = (double)n - o->correction;
    double mean_size = sum_of(v, n).of_sum / (double)n; /* the mean has the roundings of the sum */
    for (int64_t k = 0; k < n; k++) {
        double difference = v[k] - mean, size = fabs(v[k]) + mean_size;
        slope[k] = (quantity){2 / count * difference, fabs(2 / count) * size};
        if (count == 0 && fabs(difference) <= 64 * DBL_EPSILON * size) { /* the sign is that of a rounding */
            slope[k] = (quantity){0, INFINITY};
        }
    }
}

reduced std_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    reduced var = var_value(o, dtype, v, n);
    double y = sqrt(var.value);
    return (reduced){y, y == 0 ? sqrt(var.terms) : y + var.terms / y, y / 2};
}

/* The slope of the variance / (2 std). A standard deviation below the normal numbers of f32 has few digits. */
void std_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    reduced std = std_value(o, TG_F64, v, n);
    var_slopes(o, v, n, slope);
    for (int64_t k = 0; k < n; k++) {
        double lost = std.terms / std.value + FLT_MIN / std.value;
        slope[k] = std.value == 0
                       ? (quantity){0, 0}
                       : (quantity){slope[k].value / (2 * std.value), slope[k].terms / (2 * std.value) * lost};
    }
}
