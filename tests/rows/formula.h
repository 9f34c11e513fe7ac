/* formula: the value of an elementwise function and its slopes, in plain C over doubles, or where an op finds the
 * values that it moves; and the functions of which the formulas in elementwise.c and moves.c are made. */
#ifndef TG_TESTS_ROWS_FORMULA_H
#define TG_TESTS_ROWS_FORMULA_H

#include <math.h>
#include <stdbool.h>

#include <tapegrad.h>

enum { FORMULA_INPUTS = 3, FORMULA_NUMBERS = 2 };

/* A number of a formula, and the sum of its absolute terms, to which its error is compared: of `plain`, the number
 * itself. It is larger than the number if that is a difference of terms. */
typedef struct quantity {
    double value, terms;
} quantity;

typedef struct formula {
    quantity (*value)(const double in[FORMULA_INPUTS], const double number[FORMULA_NUMBERS]);
    quantity (*slope)(int k, const double in[FORMULA_INPUTS], const double number[FORMULA_NUMBERS]); /* for input k */
} formula;

/* An op whose result values are values of x, of any dtype. */
typedef struct movement {
    bool (*shape)(const double *number, tg_shape x, tg_shape *y); /* of the result; false: the op refuses the call */
    /* writes the index in x of the value that the result has at an index */
    void (*source)(const double *number, tg_shape x, const int64_t *index, int64_t *from);
} movement;

/* Whether an axis, negative or not, is one of `rank`. Converts a valid negative axis to one from the front. */
bool is_axis(int axis, int rank);
int axis_from_front(int axis, int rank);

quantity plain(double value);

/* -1, 0 or 1; 0 for NaN. */
double sign_of(double x);

/* What a factor that is below the normal numbers of f32, and so counts as 0 (math/exp.h), adds to the terms of a
 * product with x. */
double flushed(double x);

/* 1 in the tails of the normal distribution that count as 0 for f32 (math/normal_tail.h), else 0. */
double in_tail(double x);

/* An intermediate result that overflows in f32 is a term, so that any result is right there. */
double overflowing(double x);

/* alpha e^x. An infinite alpha shows whether e^x is 0, which is earlier in f32: there any result is right. */
quantity scaled_power_of_e(double alpha, double x);

/* The standard normal distribution function, and its density. */
double distribution(double x);
double density(double x);

double sigmoid(double x);

/* d/dx (x s), s = sigmoid(u), where u has this slope. */
double slope_of_gate(double x, double s, double slope);

/* 2 sqrt(2/pi) (x + 0.044715 x^3), of which tg_gelu_tanh takes the sigmoid, and its slope. */
double gelu_u(double x);
double gelu_u_slope(double x);

/* p x^(p - 1), where `power` is x^(p - 1). The rounding of p - 1, which is as large as p - 1, counts log |x| times. */
quantity slope_of_power(double power, double x, double p);

/* x to the power of a number, and its slope: as in torch, the powers 0.5 and -0.5 are square roots, which differ for
 * -inf and -0. */
quantity power_of_number(double x, double p);
quantity slope_of_power_of_number(double x, double p);

/* a^b log a, the slope of a power by its exponent. */
quantity slope_by_exponent(double a, double b);

/* The remainder with the sign of b, exact. */
double remainder_of(double a, double b);

/* floor(a / b), without the rounding of the quotient. */
double floor_of_quotient(double a, double b);

/* The share of dy that a gets in a maximum of a and b. Beside a NaN each gets all of it. */
double share(double a, double b);

/* NaN if one of them is. */
double max_or_nan(double a, double b);
double min_or_nan(double a, double b);

#endif
