/* lanes (private): maxima and sums over a contiguous row, in sixteen lanes.
 *
 * In a sum with one variable each addition waits for the one before it; sixteen independent sums can be vectorized. The
 * number of lanes is the same for every vector width of a CPU, and so are the bits of the result. Sums are in double.
 * A row with fewer values than lanes is read one by one: to set up the lanes would take longer than to sum it.
 */
#ifndef TG_OPS_LANES_H
#define TG_OPS_LANES_H

#include "ops/kernel_real.h"
#include "ops/lane_sums.h"

/* Returns the maximum of a row; -inf for an empty row. A NaN is skipped. */
static inline real row_max(const real *x, int64_t n)
{
    enum { MANY = 2 * LANES }; /* compilers unroll a loop over sixteen, and compare one value after the other */
    real lane[MANY], most = -(real)INFINITY;
    int64_t i = 0;
    for (int k = 0; k < MANY; k++) {
        lane[k] = most;
    }
    for (; n >= MANY && i < n; i += MANY) {
        const real *row = x + (i + MANY < n ? i : n - MANY); /* at the end some values twice */
        for (int k = 0; k < MANY; k++) {
            lane[k] = row[k] > lane[k] ? row[k] : lane[k];
        }
    }
    for (int half = LANES; i > 0 && half > 0; half /= 2) {
        for (int k = 0; k < half; k++) {
            lane[k] = lane[half + k] > lane[k] ? lane[half + k] : lane[k];
        }
    }
    most = lane[0];
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

static inline void add_four_values(const real *x, tg_four_lanes *lanes)
{
    *lanes += (tg_four_lanes){(double)x[0], (double)x[1], (double)x[2], (double)x[3]};
}

/* Returns sum_i x_i. */
static inline double row_sum(const real *x, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    if (n >= LANES) {
        tg_four_lanes a = {0}, b = {0}, c = {0}, d = {0};
        for (; i + LANES <= n; i += LANES) {
            add_four_values(x + i, &a);
            add_four_values(x + i + 4, &b);
            add_four_values(x + i + 8, &c);
            add_four_values(x + i + 12, &d);
        }
        a = (a + c) + (b + d);
        sum = (a[0] + a[1]) + (a[2] + a[3]);
    }
    for (; i < n; i++) {
        sum += (double)x[i];
    }
    return sum;
}

/* Adds n values to as many sums. A loop that also computes the values would have vectors of two lengths. */
static inline void add_to_sums(const real *x, int64_t n, double *restrict sum)
{
    for (int64_t i = 0; i < n; i++) {
        sum[i] += (double)x[i];
    }
}

static inline void add_four_products(const real *a, const real *b, tg_four_lanes *lanes)
{
    const tg_four_lanes left = {(double)a[0], (double)a[1], (double)a[2], (double)a[3]},
                        right = {(double)b[0], (double)b[1], (double)b[2], (double)b[3]};
    *lanes += left * right;
}

/* Returns sum_i a_i b_i. */
static inline double row_dot(const real *a, const real *b, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    if (n >= LANES) {
        tg_four_lanes p = {0}, q = {0}, r = {0}, s = {0};
        for (; i + LANES <= n; i += LANES) {
            add_four_products(a + i, b + i, &p);
            add_four_products(a + i + 4, b + i + 4, &q);
            add_four_products(a + i + 8, b + i + 8, &r);
            add_four_products(a + i + 12, b + i + 12, &s);
        }
        p = (p + r) + (q + s);
        sum = (p[0] + p[1]) + (p[2] + p[3]);
    }
    for (; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

/* Returns sum_i (x_i - mean) dy_i w_i. */
static inline double row_weighted_dot(const real *x, double mean, const real *dy, const real *w, int64_t n)
{
    double sum = 0;
    int64_t c = 0;
    if (n >= LANES) {
        double lane[LANES] = {0};
        for (; c + LANES <= n; c += LANES) {
            for (int k = 0; k < LANES; k++) {
                lane[k] += (double)dy[c + k] * (double)w[c + k] * ((double)x[c + k] - mean);
            }
        }
        sum = sum_of_lanes(lane);
    }
    for (; c < n; c++) {
        sum += (double)dy[c] * (double)w[c] * ((double)x[c] - mean);
    }
    return sum;
}

/* Returns sum_i (a_i - b_i + eps)^2. */
static inline double row_squared_distance(const real *a, const real *b, double eps, int64_t n)
{
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const double u = (double)a[i + k] - (double)b[i + k] + eps;
            lane[k] += u * u;
        }
    }
    double sum = sum_of_lanes(lane);
    for (; i < n; i++) {
        const double u = (double)a[i] - (double)b[i] + eps;
        sum += u * u;
    }
    return sum;
}

/* Computes out_i = exp(x_i - shift), for a shift >= x_i; out may be x. Subnormal results are 0. */
static inline void row_exp(const real *x, int64_t n, real shift, real *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = real_exp_or_zero(x[i] - shift);
    }
}

/* Returns m and z of a row. The exponentials are computed 256 at a time, and written to out if it is not NULL. */
static inline tg_softmax_row softmax_row(const real *x, int64_t n, real *out)
{
    real most = row_max(x, n), part[256];
    double sum = 0;
    for (int64_t i = 0; i < n; i += 256) {
        int64_t length = n - i < 256 ? n - i : 256;
        real *e = out ? out + i : part;
        row_exp(x + i, length, most, e);
        sum += row_sum(e, length);
    }
    return (tg_softmax_row){(double)most, sum};
}

/* Divides positive values by their sum. A quotient that is not a normal number is 0. */
static inline void row_normalize(real *x, int64_t n, double sum)
{
    const real inverse = (real)(1 / sum), least = (real)(1.01 * smallest_normal * sum);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (x[i] < least ? 0 : x[i]) * inverse;
    }
}

#endif
