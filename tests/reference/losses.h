/* losses: what the references of losses share: reductions, and inputs without a gradient. */
#ifndef TG_TESTS_REFERENCE_LOSSES_H
#define TG_TESTS_REFERENCE_LOSSES_H

#include "reference.h"

/* Draws a reduction, seldom one that the loss does not have. */
tg_reduction draw_reduction(trial *t);

/* Whether a loss has it; TG_REDUCTION_BATCH_MEAN is tg_kl_div's alone. */
bool is_reduction(const trial *t, tg_reduction reduction);

/* What a sum of losses (..) is divided by, where no weight counts. */
double divisor_of(tg_reduction reduction, tg_shape losses);

/* Writes result 0: the losses, or their sum divided by `divisor`. */
void put_reduced(trial *t, const array *losses, tg_reduction reduction, double divisor);

/* The gradient of loss i, by the gradient of result 0. */
double gradient_of_loss(const trial *t, tg_reduction reduction, double divisor, int64_t i);

/* Draws a number that a config takes: often one of the usual values, seldom an infinity or NaN. Notes it. */
double draw_number(trial *t, const char *name, double low, double high);

/* Draws an input that takes no gradient. Seldom it requires one, and the op refuses the call (refuses_gradient). A
 * finite one has no infinities and NaNs, which weights have no use for. */
input *draw_constant(trial *t, const char *name, tg_shape shape);
input *draw_finite_constant(trial *t, const char *name, tg_shape shape);
input *draw_constant_of(trial *t, const char *name, tg_shape shape, const double *values);
bool refuses_gradient(const trial *t, const input *in);

/* An intermediate result that overflows in the dtype is a term, so that any result is right there. */
double overflow_of(const trial *t, double x);

/* The terms of a slope that depends on the sign of u. If roundings of u's terms decide, it may be off by all of it. */
double terms_of_step(const trial *t, double slope, double u, double terms);

#endif
