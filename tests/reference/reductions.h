/* reductions: functions of the values v[0], v[1], .. v[n - 1] of one line, with their slopes. */
#ifndef TG_TESTS_REFERENCE_REDUCTIONS_H
#define TG_TESTS_REFERENCE_REDUCTIONS_H

#include "reference.h"

typedef struct reduction_options {
    tg_axes axes;
    tg_keep_axes keep;
    double p;       /* of a norm */
    int correction; /* of a variance */
} reduction_options;

/* The value of a line, with the terms of all roundings but those of its sum; and how far the value moves if the sum
 * moves by that of the sizes of its terms. */
typedef struct reduced {
    double value, terms, of_sum;
} reduced;

typedef struct reduction {
    tg_tensor *(*call)(tg_tape *tape, tg_tensor *x, const reduction_options *o);
    reduced (*value)(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n);
    void (*slopes)(const reduction_options *o, const double *v, int64_t n, quantity *slope); /* NULL: none */
    enum { FLOATS, SUMMED_DTYPES, ALL_DTYPES } dtypes;
    bool refuses_empty, has_p, has_correction;
} reduction;

/* A sum with what each addition has lost (Neumaier 1974): an op may add in any order. */
typedef struct exact_sum {
    double sum, lost;
} exact_sum;

void add_exactly(exact_sum *e, double value);
double exact_result(const exact_sum *e);

/* The sum; of_sum is that of the sizes. */
reduced sum_of(const double *v, int64_t n);

/* sign 1: the maximum; sign -1: the minimum. NaN if a value is NaN. */
double extreme_of(double sign, const double *v, int64_t n);

/* ---- formulas of statistics.c ---- */

reduced logsumexp_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n);
void logsumexp_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope);
reduced norm_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n);
void norm_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope);
reduced var_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n);
void var_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope);
reduced std_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n);
void std_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope);

#endif
