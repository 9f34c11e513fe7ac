/* reduce_norm: log-sum-exp and p-norms over some axes.
 *
 *   logsumexp   y = m + log sum e^(x - m)      dx += dy e^(x - y)                 m the maximum; if it is infinite, y
 *   norm        y = (sum |x|^p)^(1/p)          dx += dy sign(x) (|x| / y)^(p-1)   (p_norm.h)
 *
 * Sums are in double. The backward pass of a norm reduces x again, because it needs the norm in double. Follows
 * torch.logsumexp and torch.linalg.vector_norm.
 */
#include "ops/differentiate.h"
#include "ops/reduce/fold.h"
#include "ops/reduce/p_norm.h"

/* ---- logsumexp ---- */

/* What is not a normal number is nothing beside the largest term, which is 1. */
TG_ADD_TERMS(add_exponentials, exp_term, (double)real_exp_or_zero(x - (real)center));

/* The sum is not read if the maximum is not finite, except that of a block of -inf, which is 0. */
static void reduce_exponentials(tg_outputs *o)
{
    double most[FOLD];
    KERNEL(tg_fold)(o, KERNEL(tg_find_extremes), -(double)INFINITY, most);
    for (int64_t c = 0; c < o->count; c++) {
        o->center[c] = isfinite(most[c]) ? most[c] : 0;
    }
    KERNEL(tg_fold_sums)(o, add_exponentials, o->sum);
    memcpy(o->center, most, (size_t)o->count * sizeof *most);
}

static void combine_exponentials(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    double before = sofar->center;
    combine_maxima(sofar, count, block, more);
    sofar->sum =
        sofar->sum * tg_exp_f64(before - sofar->center) + block->sum * tg_exp_f64(block->center - sofar->center);
}

static void project_exponentials(const tg_outputs *o)
{
    real *y = (real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        double most = o->center[c];
        y[c] = (real)(isfinite(most) ? most + tg_log_f64(o->sum[c]) : most);
    }
}

/* The forward pass computed y = log sum e^x. */
static void prepare_exponentials(tg_outputs *o, double *scale)
{
    const real *y = (const real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        scale[c] = (double)dy_of(o)[c];
        o->center[c] = (double)y[c];
    }
}

static inline real exp_slope(real x, double scale, double y, const tg_reduce_attributes *a)
{
    (void)a;
    return (real)scale * real_exp(x - (real)y);
}

static void differentiate_exponentials(const tg_tile *tile, real *dx)
{
    write_slopes(tile, exp_slope, dx);
}

#ifdef TG_ONCE

/* ---- gradients in ops ---- */

static void differentiate_logsumexp(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *y = tg_reduce_kept(t, call, call->outputs[0]);
    dx[0] = tg_mul(t, tg_reduce_kept(t, call, dy[0]), tg_exp(t, tg_sub(t, call->inputs[0], y)));
}

#endif

static const tg_reducer exponentials_reducer = {
    .reduce = reduce_exponentials, .combine = combine_exponentials, .project = project_exponentials};
static const tg_reducer exponentials_gradient = {
    .prepare = prepare_exponentials, .differentiate = differentiate_exponentials, .reads_x = true};
TG_REDUCE_OP(tg_logsumexp_op, &exponentials_reducer, &exponentials_gradient, .op.name = "logsumexp",
             .op.differentiate = differentiate_logsumexp, .op.shape = tg_reduce_shape);

/* ---- norm ---- */

/* The powers that are summed: the loops for p = 1 and 2 have a constant p. */
TG_ADD_TERMS(add_any_powers, power_term, tg_p_norm_add(0, (double)x, a->p));
TG_ADD_TERMS(add_sizes, size_term, tg_p_norm_add(0, (double)x, 1));
TG_ADD_TERMS(add_squares, square_term, tg_p_norm_add(0, (double)x, 2));

static inline real size_key(real x, const tg_reduce_attributes *a)
{
    (void)a;
    return real_fabs(x);
}

static void find_largest_size(const tg_tile *tile, double *most)
{
    find_largest(tile, size_key, most);
}

TG_ADD_TERMS(add_ties, tie_term, real_fabs(x) == (real)center);

/* For INFINITY the maximum is in `center`, and its ties in `sum`. */
static void reduce_norm(tg_outputs *o)
{
    const double p = o->r->attributes->p;
    if (p < (double)INFINITY) {
        KERNEL(tg_fold_sums)(o, p == 1 ? add_sizes : p == 2 ? add_squares : add_any_powers, o->sum);
        return;
    }
    KERNEL(tg_fold)(o, find_largest_size, -(double)INFINITY, o->center);
    if (o->r->results) {
        KERNEL(tg_fold_sums)(o, add_ties, o->sum);
    }
}

/* Combines maxima and their ties. */
static void combine_largest(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    double before = sofar->center;
    combine_maxima(sofar, count, block, more);
    sofar->sum = (before == sofar->center ? sofar->sum : 0) + (block->center == sofar->center ? block->sum : 0);
}

static inline double norm_of(const tg_reduce_call *r, double center, double sum)
{
    double p = r->attributes->p;
    return p < (double)INFINITY ? tg_p_norm_root(sum, p) : center;
}

static void project_norm(const tg_outputs *o)
{
    real *y = (real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        y[c] = (real)norm_of(o->r, o->center[c], o->sum[c]);
    }
}

/* The forward pass computed y = (sum |x|^p)^(1/p). */
static void prepare_norm(tg_outputs *o, double *scale)
{
    const double p = o->r->attributes->p;
    for (int64_t c = 0; c < o->count; c++) {
        const tg_partial *result = &o->r->results[o->begin + c];
        const double norm = norm_of(o->r, result->center, result->sum);
        o->center[c] = norm;
        scale[c] = (double)dy_of(o)[c];
        if (p == 2) {
            scale[c] = norm == 0 ? 0 : (double)dy_of(o)[c] / norm;
        } else if (p == (double)INFINITY) {
            scale[c] =
                result->sum > 0 ? (double)dy_of(o)[c] / result->sum : (double)dy_of(o)[c]; /* no ties with a NaN */
        }
    }
}

static inline real power_slope(real x, double scale, double norm, const tg_reduce_attributes *a)
{
    return (real)(scale * tg_p_norm_gradient((double)x, norm, a->p, 1));
}

static inline real scaled_slope(real x, double scale, double norm, const tg_reduce_attributes *a)
{
    (void)norm, (void)a;
    return (real)(scale * (double)x);
}

static void differentiate_norm(const tg_tile *tile, real *dx)
{
    if (tile->attributes->p == 2) {
        write_slopes(tile, scaled_slope, dx);
    } else {
        write_slopes(tile, power_slope, dx);
    }
}

#ifdef TG_ONCE
static bool norm_shape(tg_op_call *call)
{
    double p = ((const tg_reduce_attributes *)call->attributes)->p;
    return (p > 0 || tg_op_fail(call, TG_ERROR_VALUE, "p %g; it must be above 0, or INFINITY", p)) &&
           (p < (double)INFINITY || tg_reduce_expect_values(call, "maximum")) && tg_reduce_twice_shape(call);
}

/* ---- gradients in ops: backward ignores y, so it is computed again ---- */

static tg_tensor *norm_again(tg_tape *t, const tg_op_call *call)
{
    tg_reduce_attributes a = *(const tg_reduce_attributes *)call->attributes;
    a.keep = true;
    return tg_apply(t, call->op, call->inputs, 1, &a, sizeof a, NULL);
}

/* An even power of x / y needs no sign, and has all derivatives. Any other power is taken of |x| / y, with 1 for the
 * values that are 0, whose slope is a constant 0. */
static void differentiate_norm_op(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const double p = ((const tg_reduce_attributes *)call->attributes)->p;
    const bool is_even = fmod(p, 2) == 0;
    tg_tensor *x = call->inputs[0], *y = norm_again(t, call), *size = is_even ? x : tg_abs(t, x);
    y = tg_masked_fill(t, y, tg_logical_not(t, y), is_even ? (double)INFINITY : 1);
    size = is_even ? size : tg_masked_fill(t, size, tg_logical_not(t, x), 1);
    tg_tensor *slope = tg_pow_scalar(t, tg_div(t, size, y), p - 1);
    slope = is_even ? slope : tg_mul(t, tg_sign(t, x), slope);
    dx[0] = tg_mul(t, tg_reduce_kept(t, call, dy[0]), slope);
}

static void differentiate_largest_norm(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *is_largest = tg_eq(t, tg_abs(t, x), norm_again(t, call));
    tg_tensor *ties = tg_reduce_sum(t, call, tg_cast(t, is_largest, tg_dtype_of(x)));
    tg_tensor *share = tg_div(t, tg_reduce_kept(t, call, dy[0]), ties);
    dx[0] = tg_where_true(t, is_largest, tg_mul(t, tg_sign(t, x), share));
}
#endif

static const tg_reducer norm_reducer = {.reduce = reduce_norm, .combine = combine_sums, .project = project_norm};
static const tg_reducer norm_gradient = {.reduce = reduce_norm,
                                         .combine = combine_sums,
                                         .prepare = prepare_norm,
                                         .differentiate = differentiate_norm,
                                         .reads_x = true};
TG_REDUCE_OP(tg_norm_op, &norm_reducer, &norm_gradient, .op.name = "norm", .op.differentiate = differentiate_norm_op,
             .op.shape = norm_shape, .op.backward_ignores_outputs = TG_OP_ALL);

/* The same for p = INFINITY. */
static const tg_reducer largest_reducer = {.reduce = reduce_norm, .combine = combine_largest, .project = project_norm};
static const tg_reducer largest_gradient = {.reduce = reduce_norm,
                                            .combine = combine_largest,
                                            .prepare = prepare_norm,
                                            .differentiate = differentiate_norm,
                                            .reads_x = true};
TG_REDUCE_OP(tg_largest_norm_op, &largest_reducer, &largest_gradient, .op.name = "norm",
             .op.differentiate = differentiate_largest_norm, .op.shape = norm_shape,
             .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE

tg_tensor *tg_logsumexp(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_logsumexp_op.op, x, axes, keep, (tg_reduce_attributes){.sign = 1});
}

tg_tensor *tg_norm(tg_tape *t, tg_tensor *x, double p, tg_axes axes, tg_keep_axes keep)
{
    const tg_reduce_op *op = p < (double)INFINITY ? &tg_norm_op : &tg_largest_norm_op;
    return tg_reduce(t, &op->op, x, axes, keep, (tg_reduce_attributes){.p = p});
}

#endif
