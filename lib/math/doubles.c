/* doubles: the functions of math/doubles.h that no loop has to vectorize. */
#include "math/doubles.h"

#include "math/trigonometry.h"

/* ---- sin and cos ---- */

double tg_sin_f64(double x)
{
    return fabs(x) <= TG_TURN_LIMIT ? tg_turn_f64(x, 0) : sin(x);
}

double tg_cos_f64(double x)
{
    return fabs(x) <= TG_TURN_LIMIT ? tg_turn_f64(x, 1) : cos(x);
}

/* ---- x^y ---- */

/* A number as a sum of two. */
typedef struct pair {
    double upper, lower;
} pair;

/* a + b, where |a| >= |b| */
static pair ordered_sum(double a, double b)
{
    double sum = a + b;
    return (pair){sum, (a - sum) + b};
}

static pair product_of(double a, double b)
{
    double a_upper = tg_upper_half(a), a_lower = a - a_upper, b_upper = tg_upper_half(b), b_lower = b - b_upper;
    double product = a * b;
    return (pair){product, a_upper * b_upper - product + a_upper * b_lower + a_lower * b_upper + a_lower * b_lower};
}

static pair product_of_pairs(pair a, pair b)
{
    pair product = product_of(a.upper, b.upper);
    return ordered_sum(product.upper, product.lower + (a.upper * b.lower + a.lower * b.upper));
}

static pair sum_of_pairs(pair a, pair b)
{
    double sum = a.upper + b.upper, low = tg_error_of_sum(a.upper, b.upper, sum) + (a.lower + b.lower);
    return ordered_sum(sum, low);
}

/* Returns log x for a positive, finite x, with about 100 bits:
 *     log m = 2 s (1 + s^2 / 3 + s^4 / 5 + ...),   s = (m - 1) / (m + 1),   s^2 < 0.03
 * The terms from s^10 on are computed in double. */
static pair log_of(double x)
{
    static const pair thirds[] = {{1.0 / 9, 6.1679056923619804e-18},
                                  {1.0 / 7, 7.93016446160826e-18},
                                  {1.0 / 5, -1.1102230246251566e-17},
                                  {1.0 / 3, 1.850371707708594e-17},
                                  {1, 0}};
    double m, n = tg_log_reduce(x, &m), f = m - 1;
    pair g = ordered_sum(m > 1 ? m : 1, m > 1 ? 1 : m), s, ratio = {f / g.upper, 0};
    pair back = product_of(ratio.upper, g.upper);
    ratio.lower = (((f - back.upper) - back.lower) - ratio.upper * g.lower) / g.upper;
    s = ordered_sum(ratio.upper, ratio.lower);
    pair square = product_of_pairs(s, s), p = {0, 0};
    for (int i = 27; i >= 11; i -= 2) {
        p.upper = (p.upper + 1.0 / i) * square.upper;
    }
    for (int i = 0; i < 5; i++) {
        p = sum_of_pairs(p, thirds[i]);
        p = i < 4 ? product_of_pairs(p, square) : p;
    }
    p = product_of_pairs(p, (pair){2 * s.upper, 2 * s.lower});
    /* the first part of ln 2 has 32 bits */
    pair low = product_of(n, 1.90821492927058770002e-10);
    low.lower += n * 1.1612227229362532e-26;
    return sum_of_pairs(sum_of_pairs((pair){n * 6.93147180369123816490e-01, 0}, low), p);
}

/* Returns |x|^y for a positive, finite x and a finite y. */
static double power(double x, double y)
{
    pair log = log_of(x);
    double estimate = log.upper * y;
    if (!(fabs(estimate) < 800)) {
        return estimate > 0 ? (double)INFINITY : 0;
    }
    if (fabs(y) < 0x1p-900 || fabs(y) > 0x1p900) { /* x^y is 1, because log x is 0 or y so small */
        return 1;
    }
    pair exponent = product_of(log.upper, y);
    exponent = ordered_sum(exponent.upper, exponent.lower + log.lower * y);
    return tg_exp_of_sum(exponent.upper, exponent.lower);
}

double tg_pow_f64(double x, double y)
{
    double size = fabs(x), exponent = fabs(y);
    if (y == 0 || x == 1 || (x == -1 && exponent > DBL_MAX)) {
        return 1;
    }
    if (isnan(x) || isnan(y)) {
        return x + y;
    }
    bool is_whole = exponent >= 0x1p52 || floor(exponent) == exponent;
    bool is_odd = is_whole && exponent < 0x1p53 && fmod(exponent, 2) == 1;
    if (x < 0 && size <= DBL_MAX && exponent <= DBL_MAX && !is_whole) {
        return (double)NAN;
    }
    double result;
    if (size == 0 || size > DBL_MAX) {
        result = (size == 0) == (y > 0) ? 0 : (double)INFINITY;
    } else if (exponent > DBL_MAX) {
        result = (size > 1) == (y > 0) ? (double)INFINITY : 0;
    } else {
        result = power(size, y);
    }
    return is_odd && signbit(x) ? -result : result;
}

/* ---- erfc ---- */

/* Returns (a[0] x^n + ... + a[n]) / (b[0] x^n + ... + b[n]). */
static double ratio_of(const double *a, const double *b, int n, double x)
{
    double upper = a[0], lower = b[0];
    for (int i = 1; i <= n; i++) {
        upper = upper * x + a[i];
        lower = lower * x + b[i];
    }
    return upper / lower;
}

/* Returns e^(-x^2). */
static double bell(double x)
{
    pair square = product_of(x, x);
    return tg_exp_of_sum(-square.upper, -square.lower);
}

/* The quotients are those of Cody (Rational Chebyshev Approximations for the Error Function, 1969). */
double tg_erfc_f64(double x)
{
    static const double small_upper[] = {1.85777706184603153e-1, 3.16112374387056560e00, 1.13864154151050156e02,
                                         3.77485237685302021e02, 3.20937758913846947e03},
                        small_lower[] = {1, 2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03,
                                         2.84423683343917062e03};
    static const double upper[] = {2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
                                   6.61191906371416295e01, 2.98635138197400131e02, 8.81952221241769090e02,
                                   1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03},
                        lower[] = {1,
                                   1.57449261107098347e01,
                                   1.17693950891312499e02,
                                   5.37181101862009858e02,
                                   1.62138957456669019e03,
                                   3.29079923573345963e03,
                                   4.36261909014324716e03,
                                   3.43936767414372164e03,
                                   1.23033935480374942e03};
    static const double large_upper[] = {1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1,
                                         1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4},
                        large_lower[] = {1,
                                         2.56852019228982242e00,
                                         1.87295284992346725e00,
                                         5.27905102951428412e-1,
                                         6.05183413124413191e-2,
                                         2.33520497626869185e-3};
    if (x <= 0.46875) {
        return 1 - x * ratio_of(small_upper, small_lower, 4, x * x);
    }
    if (x <= 4) {
        return bell(x) * ratio_of(upper, lower, 8, x);
    }
    if (!(x < 27)) {
        return isnan(x) ? x : 0;
    }
    double inverse = 1 / (x * x), tail = inverse * ratio_of(large_upper, large_lower, 5, inverse);
    return bell(x) * (0.56418958354775628695 - tail) / x;
}
