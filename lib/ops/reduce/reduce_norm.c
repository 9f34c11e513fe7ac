/* reduce_norm: log-sum-exp and p-norms over some axes.
 *
 *   logsumexp   y = m + log sum e^(x - m)      dx += dy e^(x - y)                 m the maximum; if it is infinite, y
 *   norm        y = (sum |x|^p)^(1/p)          dx += dy sign(x) (|x| / y)^(p-1)   (p_norm.h)
 *
 * Sums are in double. The backward pass of a norm reduces x again, because it needs the norm in double. Follows
 * torch.logsumexp and torch.linalg.vector_norm.
 */
#include "ops/reduce/p_norm.h"
#include "ops/reduce/spread.h"
#include "ops/reduce/sums.h"

TG_DECLARE_KERNEL(tg_logsumexp_forward);
TG_DECLARE_KERNEL(tg_logsumexp_backward);
TG_DECLARE_KERNEL(tg_norm_forward);
TG_DECLARE_KERNEL(tg_norm_backward);

/* ---- logsumexp ---- */

/* What is not a normal number is nothing beside the largest term, which is 1. */
static inline double exp_term(real x, double most, double p)
{
    (void)p;
    return (double)EXP_OR_ZERO(x - (real)most);
}

/* The sum is not read if the maximum is not finite, except that of a block of -inf, which is 0. */
static void visit_exponentials(const tg_panel *p, tg_columns *columns)
{
    double most[PANEL];
    panel_max(p, value_key, false, columns->center);
    for (int64_t c = 0; c < p->width; c++) {
        most[c] = isfinite(columns->center[c]) ? columns->center[c] : 0;
    }
    panel_sum(p, false, exp_term, 0, most, columns->sum);
}

static void join_exponentials(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    double before = sofar->center;
    join_max(sofar, count, block, more);
    sofar->sum =
        sofar->sum * tg_exp_f64(before - sofar->center) + block->sum * tg_exp_f64(block->center - sofar->center);
}

static void finish_exponentials(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    real *y = (real *)r->y + at;
    for (int64_t c = 0; c < width; c++) {
        double most = columns->center[c];
        y[c] = (real)(isfinite(most) ? most + tg_log_f64(columns->sum[c]) : most);
    }
}

static const tg_reducer exponentials_reducer = {visit_exponentials, join_exponentials, finish_exponentials};

void KERNEL(tg_logsumexp_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &exponentials_reducer);
}

static inline real exp_slope(real x, const tg_slope_at *o)
{
    return o->scale * EXP(x - o->y);
}

/* The forward pass computed y = log sum e^x. */
static void spread_exponentials(const tg_panel *p)
{
    tg_slopes s = {.scale = p->r->dy + p->output, .y = (const real *)p->r->y + p->output};
    panel_spread(p, exp_slope, true, &s, 0);
}

void KERNEL(tg_logsumexp_backward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_backward)(call, NULL, spread_exponentials);
}

/* ---- norm ---- */

/* The powers that are summed; the loops for p = 1, 2 and 3 have a constant p. */
static inline double power_term(real x, double center, double p)
{
    (void)center;
    return tg_p_norm_add(0, (double)x, p);
}

static inline real size_key(real x)
{
    return REAL(fabs)(x);
}

static inline double tie_term(real x, double center, double p)
{
    (void)p;
    return REAL(fabs)(x) == (real)center;
}

/* For INFINITY the maximum is in `center`, and its ties in `sum`. */
static void visit_norm(const tg_panel *p, tg_columns *columns)
{
    double power = p->r->attributes->p;
    if (power == 1) {
        panel_sum(p, true, power_term, 1, NULL, columns->sum);
    } else if (power == 2) {
        panel_sum(p, true, power_term, 2, NULL, columns->sum);
    } else if (power == 3) {
        panel_sum(p, true, power_term, 3, NULL, columns->sum);
    } else if (power < (double)INFINITY) {
        panel_sum(p, false, power_term, power, NULL, columns->sum);
    } else {
        panel_max(p, size_key, false, columns->center);
        if (p->r->results) {
            panel_sum(p, false, tie_term, 0, columns->center, columns->sum);
        }
    }
}

/* Joins maxima and their ties. */
static void join_largest(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    double before = sofar->center;
    join_max(sofar, count, block, more);
    sofar->sum = (before == sofar->center ? sofar->sum : 0) + (block->center == sofar->center ? block->sum : 0);
}

static inline double norm_of(const tg_reduce_call *r, double center, double sum)
{
    double p = r->attributes->p;
    return p < (double)INFINITY ? tg_p_norm_root(sum, p) : center;
}

static void finish_norm(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    real *y = (real *)r->y + at;
    for (int64_t c = 0; c < width; c++) {
        y[c] = (real)norm_of(r, columns->center[c], columns->sum[c]);
    }
}

static const tg_reducer norm_reducer[2] = {{visit_norm, join_sum, finish_norm},
                                           {visit_norm, join_largest, finish_norm}};
static const tg_reducer norm_results[2] = {{visit_norm, join_sum, keep_columns},
                                           {visit_norm, join_largest, keep_columns}};

/* Returns whether the call is for p = INFINITY, as an index. */
static inline int is_largest(const tg_op_call *call)
{
    return ((const tg_reduce_attributes *)call->attributes)->p == (double)INFINITY;
}

void KERNEL(tg_norm_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &norm_reducer[is_largest(call)]);
}

/* The exponent is a constant in the loops for p = 1, for 3 and for INFINITY. */
static inline real norm_slope(real x, const tg_slope_at *o)
{
    return (real)(o->wide_scale * tg_p_norm_gradient((double)x, o->center, o->p, 1));
}

static inline real scaled_slope(real x, const tg_slope_at *o)
{
    return (real)(o->wide_scale * (double)x);
}

/* The forward pass computed y = (sum |x|^p)^(1/p). */
static void spread_norm(const tg_panel *p)
{
    double scale[PANEL], center[PANEL];
    const tg_slopes s = {.wide_scale = scale, .center = center};
    double power = p->r->attributes->p;
    const real *dy = p->r->dy + p->output;
    for (int64_t c = 0; c < p->width; c++) {
        const tg_partial *result = &p->r->results[p->output + c];
        double norm = norm_of(p->r, result->center, result->sum);
        center[c] = norm;
        scale[c] = (double)dy[c];
        if (power == 2) {
            scale[c] = norm == 0 ? 0 : (double)dy[c] / norm;
        } else if (power == (double)INFINITY) {
            scale[c] = result->sum > 0 ? (double)dy[c] / result->sum : (double)dy[c]; /* no ties with a NaN */
        }
    }
    if (power == 1) {
        panel_spread(p, norm_slope, true, &s, 1);
    } else if (power == 2) {
        panel_spread(p, scaled_slope, true, &s, 2);
    } else if (power == 3) {
        panel_spread(p, norm_slope, true, &s, 3);
    } else if (power < (double)INFINITY) {
        panel_spread(p, norm_slope, true, &s, power);
    } else {
        panel_spread(p, norm_slope, true, &s, (double)INFINITY);
    }
}

void KERNEL(tg_norm_backward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_backward)(call, &norm_results[is_largest(call)], spread_norm);
}

#ifdef TG_ONCE

static const tg_op logsumexp_op = {
    .name = "logsumexp",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_logsumexp_forward, tg_logsumexp_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
};

static bool norm_shape(tg_op_call *call)
{
    double p = ((const tg_reduce_attributes *)call->attributes)->p;
    return (p > 0 || tg_op_fail(call, TG_ERROR_VALUE, "p %g; it must be above 0, or INFINITY", p)) &&
           (p < (double)INFINITY || tg_reduce_expect_values(call, "maximum")) && tg_reduce_twice_shape(call);
}

static const tg_op norm_op = {
    .name = "norm",
    .shape = norm_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_norm_forward, tg_norm_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
    .backward_ignores_outputs = TG_OP_ALL,
};

tg_tensor *tg_logsumexp(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &logsumexp_op, x, axes, keep, (tg_reduce_attributes){.keep = false});
}

tg_tensor *tg_norm(tg_tape *t, tg_tensor *x, double p, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &norm_op, x, axes, keep, (tg_reduce_attributes){.p = p});
}

#endif
