/* gradcheck_taylor: what a gradient g leaves along a random direction d must fall as the square of the step.
 *
 *   F(x) = v.f(x), v random      r(h) = |F(x + h d) - F(x) - h g.d|      order = log4 (r(h) / r(h/4))
 *
 * A right gradient leaves r = h^2 d.H d / 2: the order is 2. A wrong one leaves a part of h g.d, and the order falls to
 * 1. Where r is not far above the rounding of F it says nothing. If it is that small for each step, as for a function
 * that is linear, g is right if h g.d is large beside it.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "gradcheck/gradcheck.h"

enum { STEPS = 8 };

/* Moves each value from `before` by h d. */
static void move(const tg_check *c, double h)
{
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        if (!v->checked || v->is_repeated) {
            continue;
        }
        for (int64_t j = 0; j < v->count; j++) {
            v->again[j] = v->before[j] + h * v->direction[j];
        }
        tg_check_write(c, k, v->again);
    }
}

/* Draws d, which is 0 for rows without a gradient. Returns g.d for a row of the Jacobians. */
static double draw(const tg_check *c, tg_rng *rng, int64_t row)
{
    double slope = 0;
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        if (!v->checked || v->is_repeated) { /* the gradient of a repeated input is that of the first */
            continue;
        }
        tg_check_read(c, k);
        for (int64_t j = 0; j < v->count; j++) {
            v->direction[j] = tg_check_without_gradient(c, k, j) ? 0 : tg_check_draw(rng, true);
            slope += v->jacobian[row * v->count + j] * v->direction[j];
        }
    }
    return slope;
}

/* Adds up v.f. *size becomes the sum of the absolute terms. */
static double project(const tg_check *c, int64_t row, const double *values, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t i = 0; i < c->outputs; i++) {
        double term = c->projections[row * c->outputs + i] * values[i];
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

/* Computes the residuals along one direction, and judges them. */
static bool judge(tg_check *c, tg_rng *rng, int64_t row)
{
    double size, slope = draw(c, rng, row), left[STEPS], h = 0.25, order = NAN, text_order;
    if (!tg_check_measure(c, c->center)) {
        return false;
    }
    const double at_x = project(c, row, c->center, &size);
    const double unit = tg_dtype_of(c->seed) == TG_F32 ? (double)FLT_EPSILON : DBL_EPSILON, rounding = 64 * unit * size;
    bool is_exact = fabs(slope) * h > 1e3 * rounding;
    size_t used = strlen(c->report->verdict);
    char *text = c->report->verdict;
    used += (size_t)snprintf(text + used, TG_GRADCHECK_TEXT - used, "%sdirection %d: orders", used > 0 ? "\n" : "",
                             (int)row);
    for (int m = 0; m < STEPS; m++, h /= 4) {
        double ignored;
        move(c, h);
        bool measured = tg_check_measure(c, c->plus);
        move(c, 0);
        if (!measured) {
            return false;
        }
        left[m] = fabs(project(c, row, c->plus, &ignored) - at_x - h * slope);
        is_exact &= left[m] <= rounding;
        if (m > 0 && left[m - 1] > rounding && isfinite(left[m - 1])) {
            text_order = log(left[m - 1] / fmax(left[m], rounding)) / log(4);
            /* a residual that has reached the rounding bounds the order from below */
            order = left[m] > rounding || text_order > 1.7 ? text_order : order;
            used += (size_t)snprintf(text + used, TG_GRADCHECK_TEXT - used, left[m] > rounding ? " %.2f" : " >%.2f",
                                     text_order);
        }
    }
    c->report->compared++;
    c->anything |= slope != 0 || !is_exact;
    if (is_exact || order > 1.7) {
        snprintf(text + used, TG_GRADCHECK_TEXT - used, is_exact ? " none: exact" : ": right");
        return true;
    }
    snprintf(text + used, TG_GRADCHECK_TEXT - used, isnan(order) ? ": cannot tell" : ": wrong");
    c->mismatch = true;
    return isnan(order) ? tg_check_fail(c, TG_ERROR_VALUE,
                                        "cannot tell: rounding hides the order in which f(x + h d) - f(x) - h g.d "
                                        "falls; use inputs at which the function is less flat, or the slow mode")
                        : tg_check_fail(c, TG_ERROR_VALUE,
                                        "along a random direction f(x + h d) - f(x) - h g.d falls as h^%.2f, and not "
                                        "as h^2: a gradient is wrong; the slow mode finds the entry",
                                        order);
}

bool tg_check_taylor(tg_check *c)
{
    tg_rng rng;
    tg_rng_seed(&rng, c->config.projection_seed);
    c->rows = TG_CHECK_DRAWS;
    c->is_projected = true;
    for (int64_t i = 0; i < c->rows * c->outputs; i++) {
        c->projections[i] = tg_check_draw(&rng, true);
    }
    if (!tg_check_make_jacobians(c) || !tg_check_analytic(c)) {
        return false;
    }
    for (int64_t row = 0; row < c->rows && c->outputs > 0; row++) {
        if (!judge(c, &rng, row)) {
            return false;
        }
    }
    return tg_check_linear(c);
}
