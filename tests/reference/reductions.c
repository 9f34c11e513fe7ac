/* reductions: functions of all values on a line, which are those over a list of axes.
 *
 * A reduction states its value and its slopes for the values v[0], v[1], .. v[n - 1] of one line.
 */
#include "reductions.h"

#include <float.h>

/* ---- sums ---- */

void add_exactly(exact_sum *e, double value)
{
    double next = e->sum + value;
    e->lost += fabs(e->sum) >= fabs(value) ? (e->sum - next) + value : (value - next) + e->sum;
    e->sum = next;
}

double exact_result(const exact_sum *e)
{
    return isfinite(e->sum) ? e->sum + e->lost : e->sum;
}

reduced sum_of(const double *v, int64_t n)
{
    exact_sum e = {0, 0};
    double sizes = 0;
    for (int64_t k = 0; k < n; k++) {
        add_exactly(&e, v[k]);
        sizes += isfinite(v[k]) ? fabs(v[k]) : 0;
    }
    double sum = exact_result(&e);
    return (reduced){sum, fabs(sum), sizes};
}

/* How many roundings of the dtype a sum of n values in double may be off by, times the sum of their sizes. An addition
 * is off by half of a rounding of its result at most, which is no larger than that sum; so the number of additions
 * that a value passes is what counts (Higham 2002, section 4.2). Those are nearly all of them in a sum of 128 values:
 * rows are added one after the other where strides part them, and the errors do not cancel where the axes are expanded,
 * because equal values are often rounded to the same side. Longer sums are sums of 128 rows each, or those of 32 lanes
 * in pieces of 64 values or more (lib/ops/reduce/fold.c), with at most n / 32 further additions. */
static double roundings_of_sum(tg_dtype dtype, int64_t n)
{
    double additions = n <= 128 ? (double)n : 128 + (double)n / 32;
    return additions / 2 * DBL_EPSILON / eps_of(dtype);
}

static reduced sum_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o;
    if (is_float(dtype)) {
        return sum_of(v, n);
    }
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += dtype == TG_U8 ? v[k] != 0 : v[k];
    }
    return (reduced){fmax(INT32_MIN, fmin(INT32_MAX, sum)), 0, 0};
}

static void sum_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    (void)o, (void)v;
    for (int64_t k = 0; k < n; k++) {
        slope[k] = (quantity){1, 1};
    }
}

static reduced mean_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    reduced sum = sum_of(v, n);
    return (reduced){sum.value / (double)n, sum.terms / (double)n, sum.of_sum / (double)n};
}

static void mean_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    (void)o, (void)v;
    for (int64_t k = 0; k < n; k++) {
        slope[k] = (quantity){1 / (double)n, 1 / (double)n};
    }
}

/* ---- the largest and the smallest value ---- */

double extreme_of(double sign, const double *v, int64_t n)
{
    double best = v[0];
    for (int64_t k = 1; k < n; k++) {
        best = isnan(best) || isnan(v[k]) ? NAN : sign * v[k] > sign * best ? v[k] : best;
    }
    return best;
}

static reduced amax_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    return (reduced){extreme_of(1, v, n), 0, 0};
}

static reduced amin_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    return (reduced){extreme_of(-1, v, n), 0, 0};
}

/* Values that tie share; beside a NaN nobody has a share, which is 0 / 0. */
static void share_among_equal(double extreme, const double *v, int64_t n, quantity *slope)
{
    double ties = 0;
    for (int64_t k = 0; k < n; k++) {
        ties += v[k] == extreme;
    }
    for (int64_t k = 0; k < n; k++) {
        double share = (v[k] == extreme) / ties;
        slope[k] = (quantity){share, share};
    }
}

static void amax_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    (void)o;
    share_among_equal(extreme_of(1, v, n), v, n, slope);
}

static void amin_slopes(const reduction_options *o, const double *v, int64_t n, quantity *slope)
{
    (void)o;
    share_among_equal(extreme_of(-1, v, n), v, n, slope);
}

static reduced any_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    bool any = false;
    for (int64_t k = 0; k < n; k++) {
        any = any || v[k] != 0;
    }
    return (reduced){any, 0, 0};
}

static reduced all_value(const reduction_options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    bool all = true;
    for (int64_t k = 0; k < n; k++) {
        all = all && v[k] != 0;
    }
    return (reduced){all, 0, 0};
}

/* ---- a call ---- */

/* As in torch, a scalar is one value along axis 0. */
static bool reduced_axes(const trial *t, bool is_along[TG_MAX_RANK])
{
    int rank = t->inputs[0].x.shape.rank;
    return axes_along(OPTIONS(t, const reduction_options)->axes, rank > 0 ? rank : 1, is_along);
}

static void draw_reduction(trial *t)
{
    const reduction *r = t->reference->data;
    reduction_options *o = OPTIONS(t, reduction_options);
    bool has_floats = r->dtypes == FLOATS && !draw_chance(t, 2);
    tg_shape shape = draw_shape(t, 0, TG_MAX_RANK);
    input *x = has_floats ? draw_input(t, "x", shape) : draw_any(t, "x", shape);
    o->axes = draw_axes(t, x->x.shape.rank);
    o->keep = note_bool(t, "keep", draw_chance(t, 50)) ? TG_KEEP_AXES : TG_DROP_AXES;
    if (r->has_p) {
        double p = draw_chance(t, 25)  ? draw_uniform(t, 0.3, 5)
                   : draw_chance(t, 4) ? DRAW_DOUBLE_OF(t, 0, -1, -INFINITY, NAN)
                                       : DRAW_DOUBLE_OF(t, 0.5, 1, 1.5, 2, 2, 3, 4, INFINITY);
        o->p = note_double(t, "p", p);
    }
    if (r->has_correction) {
        int correction =
            draw_chance(t, 5) ? (int)DRAW_ONE_OF(t, INT32_MAX, INT32_MIN, 60) : (int)draw_integer(t, -2, 4);
        o->correction = (int)note_integer(t, "correction", correction);
    }
}

static bool is_valid_reduction(const trial *t)
{
    const reduction *r = t->reference->data;
    const reduction_options *o = OPTIONS(t, const reduction_options);
    const input *x = &t->inputs[0];
    bool is_along[TG_MAX_RANK];
    if (!reduced_axes(t, is_along) || (!is_float(x->dtype) && r->dtypes == FLOATS)) {
        return false;
    }
    for (int axis = 0; axis < x->x.shape.rank; axis++) {
        if ((r->refuses_empty || (r->has_p && isinf(o->p))) && is_along[axis] && x->x.shape.size[axis] == 0) {
            return false;
        }
    }
    return !r->has_p || o->p > 0;
}

static tg_tensor *call_reduction(trial *t)
{
    const reduction *r = t->reference->data;
    return r->call(t->tape, t->inputs[0].tensor, OPTIONS(t, reduction_options));
}

static tg_shape shape_of_result(const trial *t, bool is_along[TG_MAX_RANK])
{
    const reduction_options *o = OPTIONS(t, const reduction_options);
    tg_shape x = t->inputs[0].x.shape, shape = TG_SCALAR;
    reduced_axes(t, is_along);
    for (int axis = 0; axis < x.rank; axis++) {
        if (!is_along[axis] || o->keep == TG_KEEP_AXES) {
            shape.size[shape.rank++] = is_along[axis] ? 1 : x.size[axis];
        }
    }
    return shape;
}

static double *values_of(trial *t, const line *l)
{
    double *v = numbers(t, l->count);
    for (int64_t k = 0; k < l->count; k++) {
        v[k] = t->inputs[0].x.values[l->at[k]];
    }
    return v;
}

static void reduction_forward(trial *t)
{
    const reduction *r = t->reference->data;
    const input *x = &t->inputs[0];
    bool is_along[TG_MAX_RANK];
    tg_shape shape = shape_of_result(t, is_along);
    tg_dtype dtype = r->dtypes == ALL_DTYPES ? TG_U8 : is_float(x->dtype) ? x->dtype : TG_I32;
    array *y = output_of_dtype(t, 0, shape, dtype);
    int64_t count;
    const line *lines = lines_along(t, x->x.shape, is_along, &count);
    for (int64_t i = 0; i < count; i++) {
        int64_t n = lines[i].count;
        reduced value = r->value(OPTIONS(t, reduction_options), x->dtype, values_of(t, &lines[i]), n);
        double lost = value.of_sum > 0 ? roundings_of_sum(x->dtype, n) * value.of_sum / t->reference->roundings : 0;
        put_terms(y, i, value.value, value.terms + lost);
    }
}

static void reduction_backward(trial *t)
{
    const reduction *r = t->reference->data;
    input *x = &t->inputs[0];
    bool is_along[TG_MAX_RANK];
    shape_of_result(t, is_along);
    int64_t count;
    const line *lines = lines_along(t, x->x.shape, is_along, &count);
    for (int64_t i = 0; i < count; i++) {
        int64_t n = lines[i].count;
        double dy = t->outputs[0].dy.values[i];
        quantity *slope = trial_memory(t, (size_t)n * sizeof *slope);
        r->slopes(OPTIONS(t, reduction_options), values_of(t, &lines[i]), n, slope);
        for (int64_t k = 0; k < n; k++) {
            add_terms(&x->dx, lines[i].at[k], dy * slope[k].value, fabs(dy) * slope[k].terms);
        }
    }
}

#define REDUCTION(op, call_of_op, ...)                                                   \
    static tg_tensor *op##_call(tg_tape *tape, tg_tensor *x, const reduction_options *o) \
    {                                                                                    \
        return call_of_op;                                                               \
    }                                                                                    \
    static const reduction op##_reduction = {.call = op##_call, .value = op##_value, __VA_ARGS__};

REDUCTION(sum, tg_sum(tape, x, o->axes, o->keep), .slopes = sum_slopes, .dtypes = SUMMED_DTYPES)
REDUCTION(mean, tg_mean(tape, x, o->axes, o->keep), .slopes = mean_slopes)
REDUCTION(amax, tg_amax(tape, x, o->axes, o->keep), .slopes = amax_slopes, .refuses_empty = true)
REDUCTION(amin, tg_amin(tape, x, o->axes, o->keep), .slopes = amin_slopes, .refuses_empty = true)
REDUCTION(any, tg_any(tape, x, o->axes, o->keep), .dtypes = ALL_DTYPES)
REDUCTION(all, tg_all(tape, x, o->axes, o->keep), .dtypes = ALL_DTYPES)
REDUCTION(logsumexp, tg_logsumexp(tape, x, o->axes, o->keep), .slopes = logsumexp_slopes)
REDUCTION(norm, tg_norm(tape, x, o->p, o->axes, o->keep), .slopes = norm_slopes, .has_p = true)
REDUCTION(var, tg_var(tape, x, o->axes, o->correction, o->keep), .slopes = var_slopes, .has_correction = true)
REDUCTION(std, tg_std(tape, x, o->axes, o->correction, o->keep), .slopes = std_slopes, .has_correction = true)

#define REFERENCE(reduction, of_value, of_gradient, ...)                                                         \
    {                                                                                                            \
        .op = "tg_" #reduction, .draw = draw_reduction, .is_valid = is_valid_reduction, .call = call_reduction,  \
        .forward = reduction_forward, .backward = reduction_backward, .roundings = of_value,                     \
        .gradient_roundings = of_gradient, .counts_additions = true, .data = &reduction##_reduction, __VA_ARGS__ \
    }

/* The roundings of values are those beside the additions (roundings_of_sum). */
static const reference references[] = {
    REFERENCE(sum, 1, 2, ),
    REFERENCE(mean, 1, 4, ),
    REFERENCE(amax, 0, 4, ),
    REFERENCE(amin, 0, 4, ),
    REFERENCE(any, 0, 0, .has_no_gradient = true),
    REFERENCE(all, 0, 0, .has_no_gradient = true),
    REFERENCE(logsumexp, 8, 16, ),
    REFERENCE(norm, 8, 16, ),
    REFERENCE(var, 4, 8, ),
    REFERENCE(std, 4, 8, ),
};

reference_family reductions = {"reductions", references, sizeof references / sizeof *references, 20000, NULL};
