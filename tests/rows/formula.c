#include "rows/formula.h"

#include <float.h>

bool is_axis(int axis, int rank)
{
    return axis >= -rank && axis < rank;
}

int axis_from_front(int axis, int rank)
{
    return axis < 0 ? axis + rank : axis;
}

quantity plain(double value)
{
    return (quantity){value, fabs(value)};
}

double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

double flushed(double x)
{
    return fabs(x) * FLT_MIN / FLT_EPSILON;
}

double in_tail(double x)
{
    return fabs(x) > 12.79;
}

double overflowing(double x)
{
    return fabs(x) > FLT_MAX ? fabs(x) : 0;
}

quantity scaled_power_of_e(double alpha, double x)
{
    return isinf(alpha) && exp(x) < FLT_MIN ? (quantity){0, INFINITY} : plain(alpha * exp(x));
}

double distribution(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

double density(double x)
{
    return 0.39894228040143267794 * exp(-0.5 * x * x);
}

double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double slope_of_gate(double x, double s, double slope)
{
    return s + x * s * (1 - s) * slope;
}

double gelu_u(double x)
{
    return 2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x);
}

double gelu_u_slope(double x)
{
    return 2 * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

static double power_value(double x, double p)
{
    return p == 0.5 ? sqrt(x) : p == -0.5 ? 1 / sqrt(x) : pow(x, p);
}

quantity slope_of_power(double power, double x, double p)
{
    double lost = x == 0 || !isfinite(x) ? 0 : fabs((p - 1) * log(fabs(x)));
    double terms = fabs(p * power) * (1 + lost) + flushed(power) + overflowing(power);
    return p == 0 ? (quantity){0, 0} : (quantity){p * power, terms};
}

/* The terms of x^-2 besides itself: it is 1 / x^2, whose divisor may be subnormal or infinite. */
static double of_square(double x, double p)
{
    return p != -2 ? 0 : x * x < FLT_MIN ? INFINITY : x * x > FLT_MAX ? flushed(1) : 0;
}

quantity power_of_number(double x, double p)
{
    return (quantity){power_value(x, p), fabs(power_value(x, p)) + of_square(x, p)};
}

quantity slope_of_power_of_number(double x, double p)
{
    quantity slope = slope_of_power(power_value(x, p - 1), x, p);
    return (quantity){slope.value, slope.terms + of_square(x, p - 1)};
}

quantity slope_by_exponent(double a, double b)
{
    double power = pow(a, b), slope = a == 0 && b >= 0 ? 0 : power * log(a);
    return (quantity){slope, fabs(slope) + overflowing(power) + overflowing(slope)};
}

double remainder_of(double a, double b)
{
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_of_quotient(double a, double b)
{
    return b == 0 ? a / b : nearbyint((a - fmod(a, b)) / b) - (fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0));
}

double share(double a, double b)
{
    return a == b ? 0.5 : a < b ? 0 : 1;
}

double max_or_nan(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
}

double min_or_nan(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
}
