/* reductions: functions of all values on a line, which are those over a list of axes.
 *
 * A reduction states its value and its slopes for the values v[0], v[1], .. v[n - 1] of one line.
 */
#include "reference.h"

#include <float.h>

typedef struct options {
    tg_axes axes;
    tg_keep_axes keep;
    double p;       /* of a norm */
    int correction; /* of a variance */
} options;

typedef struct result {
    double value, terms;
} result;

typedef struct reduction {
    tg_tensor *(*call)(tg_tape *tape, tg_tensor *x, const options *o);
    result (*value)(const options *o, tg_dtype dtype, const double *v, int64_t n);
    void (*slopes)(const options *o, const double *v, int64_t n, result *slope); /* NULL: none */
    enum { FLOATS, SUMMED_DTYPES, ALL_DTYPES } dtypes;
    bool refuses_empty, has_p, has_correction;
} reduction;

/* ---- sums ---- */

/* A sum in double is exact for f32, except for the rounding of the result. */
static result sum_in_double(tg_dtype dtype, const double *v, int64_t n)
{
    result sum = {0, 0};
    double terms = 0;
    for (int64_t k = 0; k < n; k++) {
        sum.value += v[k];
        terms += isfinite(v[k]) ? fabs(v[k]) : 0;
    }
    sum.terms = dtype == TG_F32 ? fabs(sum.value) + 1e-8 * terms : terms;
    return sum;
}

static result sum_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o;
    if (dtype == TG_F32 || dtype == TG_F64) {
        return sum_in_double(dtype, v, n);
    }
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += dtype == TG_U8 ? v[k] != 0 : v[k];
    }
    return (result){fmax(INT32_MIN, fmin(INT32_MAX, sum)), 0};
}

static void sum_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    (void)o, (void)v;
    for (int64_t k = 0; k < n; k++) {
        slope[k] = (result){1, 1};
    }
}

static result mean_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o;
    result sum = sum_in_double(dtype, v, n);
    return (result){sum.value / (double)n, sum.terms / (double)n};
}

static void mean_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    (void)o, (void)v;
    for (int64_t k = 0; k < n; k++) {
        slope[k] = (result){1 / (double)n, 1 / (double)n};
    }
}

/* ---- the largest and the smallest value ---- */

/* sign 1: the maximum; sign -1: the minimum. NaN if a value is NaN. */
static double extreme_of(double sign, const double *v, int64_t n)
{
    double best = v[0];
    for (int64_t k = 1; k < n; k++) {
        best = isnan(best) || isnan(v[k]) ? NAN : sign * v[k] > sign * best ? v[k] : best;
    }
    return best;
}

static result amax_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    return (result){extreme_of(1, v, n), 0};
}

static result amin_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    return (result){extreme_of(-1, v, n), 0};
}

/* Values that tie share; beside a NaN nobody has a share, which is 0 / 0. */
static void share_among_equal(double extreme, const double *v, int64_t n, result *slope)
{
    double ties = 0;
    for (int64_t k = 0; k < n; k++) {
        ties += v[k] == extreme;
    }
    for (int64_t k = 0; k < n; k++) {
        double share = (v[k] == extreme) / ties;
        slope[k] = (result){share, share};
    }
}

static void amax_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    (void)o;
    share_among_equal(extreme_of(1, v, n), v, n, slope);
}

static void amin_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    (void)o;
    share_among_equal(extreme_of(-1, v, n), v, n, slope);
}

static result any_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    bool any = false;
    for (int64_t k = 0; k < n; k++) {
        any = any || v[k] != 0;
    }
    return (result){any, 0};
}

static result all_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    bool all = true;
    for (int64_t k = 0; k < n; k++) {
        all = all && v[k] != 0;
    }
    return (result){all, 0};
}

/* ---- logsumexp ---- */

static result logsumexp_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)o, (void)dtype;
    double largest = n > 0 ? extreme_of(1, v, n) : -INFINITY;
    if (!isfinite(largest)) {
        return (result){largest, fabs(largest)};
    }
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += exp(v[k] - largest);
    }
    return (result){largest + log(sum), fabs(largest) + log(sum) + 1};
}

/* e^(x - y): the roundings of x - y and of y count as often as they are large. */
static void logsumexp_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    double y = logsumexp_value(o, TG_F64, v, n).value;
    for (int64_t k = 0; k < n; k++) {
        double e = exp(v[k] - y);
        slope[k] = (result){e, e * (2 + fabs(v[k]) + fabs(y))};
    }
}

/* ---- norms ---- */

static double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static double log_or_zero(double x)
{
    return x == 0 || !isfinite(x) ? 0 : fabs(log(fabs(x)));
}

/* What makes any result right: a term that overflows or vanishes in f32. */
static double out_of_range(double x)
{
    return fabs(x) > FLT_MAX || (x != 0 && fabs(x) < FLT_MIN / FLT_EPSILON) ? 10.0 * FLT_MAX : 0;
}

/* sum |x|^p, and for p = inf the maximum; how many roundings it has, and whether it fits into f32. */
typedef struct power_sum {
    double sum, roundings, out_of_range;
} power_sum;

static power_sum power_sum_of(double p, const double *v, int64_t n)
{
    power_sum s = {0, 1, 0};
    for (int64_t k = 0; k < n; k++) {
        double power = isinf(p) ? fabs(v[k]) : pow(fabs(v[k]), p);
        s.sum = isinf(p) ? (isnan(s.sum) || isnan(power) ? NAN : fmax(s.sum, power)) : s.sum + power;
        s.roundings = fmax(s.roundings, isinf(p) ? 0 : 1 + p * log_or_zero(v[k]));
        s.out_of_range += isfinite(v[k]) && isfinite(p) ? out_of_range(power) : 0;
    }
    return s;
}

static result norm_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    power_sum s = power_sum_of(o->p, v, n);
    if (isinf(o->p)) {
        return (result){s.sum, s.sum};
    }
    double y = pow(s.sum, 1 / o->p), lost = 1 + (s.roundings + log_or_zero(s.sum)) / o->p;
    return (result){y, y * lost + (dtype == TG_F32 ? s.out_of_range : 0)};
}

/* sign(x) (|x| / y)^(p - 1), and 0 where the norm y is 0. For p = inf as for a maximum. As in torch, a NaN has sign 0
 * for p = 1 and p = inf, and is NaN otherwise. */
static void norm_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    power_sum s = power_sum_of(o->p, v, n);
    double y = isinf(o->p) ? s.sum : pow(s.sum, 1 / o->p), ties = 0;
    double lost = 1 + (isinf(o->p) ? 0 : (s.roundings + log_or_zero(s.sum)) / o->p);
    for (int64_t k = 0; k < n; k++) {
        ties += fabs(v[k]) == y;
    }
    for (int64_t k = 0; k < n; k++) {
        double x = v[k], p = o->p;
        if (y == 0) {
            slope[k] = (result){0, 0};
        } else if (p == 1) {
            slope[k] = (result){sign_of(x), 1};
        } else if (isinf(p)) {
            slope[k] = (result){fabs(x) == y ? sign_of(x) / ties : 0, 1};
        } else {
            double numerator = x == 0     ? 0
                               : isnan(x) ? NAN
                                          : sign_of(x) * pow(fabs(x), p - 1),
                   denominator = pow(y, p - 1);
            double value = numerator / denominator;
            double terms = fabs(value) * (2 + p * (log_or_zero(x) + log_or_zero(y)) + fabs(p - 1) * lost);
            bool is_finite = isfinite(x) && isfinite(y);
            slope[k] = (result){
                value, terms + (is_finite ? s.out_of_range + out_of_range(numerator) + out_of_range(denominator) : 0)};
        }
    }
}

/* ---- variances ---- */

static double mean_of(const double *v, int64_t n)
{
    return sum_in_double(TG_F64, v, n).value / (double)n;
}

static result var_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    (void)dtype;
    double mean = mean_of(v, n), sum = 0, terms = 0, count = (double)n - o->correction;
    if (count <= 0) {
        return (result){NAN, 0};
    }
    for (int64_t k = 0; k < n; k++) {
        double d = v[k] - mean;
        sum += d * d;
        terms += d * d + fabs(d) * (fabs(v[k]) + fabs(mean)) + DBL_EPSILON * (v[k] * v[k] + mean * mean);
    }
    return (result){sum / count, terms / count};
}

static void var_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    double mean = mean_of(v, n), count = (double)n - o->correction;
    for (int64_t k = 0; k < n; k++) {
        slope[k] = (result){2 / count * (v[k] - mean), fabs(2 / count) * (fabs(v[k]) + fabs(mean))};
    }
}

static result std_value(const options *o, tg_dtype dtype, const double *v, int64_t n)
{
    result var = var_value(o, dtype, v, n);
    double y = sqrt(var.value);
    return (result){y, y == 0 ? sqrt(var.terms) : y + var.terms / y};
}

/* The slope of the variance / (2 std). */
static void std_slopes(const options *o, const double *v, int64_t n, result *slope)
{
    result std = std_value(o, TG_F64, v, n);
    var_slopes(o, v, n, slope);
    for (int64_t k = 0; k < n; k++) {
        double lost = std.terms / std.value;
        slope[k] = std.value == 0 ? (result){0, 0}
                                  : (result){slope[k].value / (2 * std.value), slope[k].terms / (2 * std.value) * lost};
    }
}

/* ---- a call ---- */

/* As in torch, a scalar is one value along axis 0. */
static bool reduced_axes(const trial *t, bool is_along[TG_MAX_RANK])
{
    int rank = t->inputs[0].x.shape.rank;
    return axes_along(OPTIONS(t, const options)->axes, rank > 0 ? rank : 1, is_along);
}

static void draw_reduction(trial *t)
{
    const reduction *r = t->reference->data;
    options *o = OPTIONS(t, options);
    bool has_floats = r->dtypes == FLOATS && !draw_chance(t, 2);
    tg_shape shape = draw_long_shape(t, 0, TG_MAX_RANK);
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
    const options *o = OPTIONS(t, const options);
    const input *x = &t->inputs[0];
    bool is_float = x->dtype == TG_F32 || x->dtype == TG_F64, is_along[TG_MAX_RANK];
    if (!reduced_axes(t, is_along) || (!is_float && r->dtypes == FLOATS)) {
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
    return r->call(t->tape, t->inputs[0].tensor, OPTIONS(t, options));
}

static tg_shape shape_of_result(const trial *t, bool is_along[TG_MAX_RANK])
{
    const options *o = OPTIONS(t, const options);
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
    bool is_along[TG_MAX_RANK], is_float = x->dtype == TG_F32 || x->dtype == TG_F64;
    tg_shape shape = shape_of_result(t, is_along);
    tg_dtype dtype = r->dtypes == ALL_DTYPES ? TG_U8 : is_float ? x->dtype : TG_I32;
    array *y = output_of_dtype(t, 0, shape, dtype);
    int64_t count;
    const line *lines = lines_along(t, x->x.shape, is_along, &count);
    for (int64_t i = 0; i < count; i++) {
        result value = r->value(OPTIONS(t, options), x->dtype, values_of(t, &lines[i]), lines[i].count);
        put_terms(y, i, value.value, value.terms);
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
        result *slope = trial_memory(t, (size_t)n * sizeof *slope);
        r->slopes(OPTIONS(t, options), values_of(t, &lines[i]), n, slope);
        for (int64_t k = 0; k < n; k++) {
            add_terms(&x->dx, lines[i].at[k], dy * slope[k].value, fabs(dy) * slope[k].terms);
        }
    }
}

#define REDUCTION(op, call_of_op, ...)                                         \
    static tg_tensor *op##_call(tg_tape *tape, tg_tensor *x, const options *o) \
    {                                                                          \
        return call_of_op;                                                     \
    }                                                                          \
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

#define REFERENCE(reduction, of_value, of_gradient, ...)                                                        \
    {                                                                                                           \
        .op = "tg_" #reduction, .draw = draw_reduction, .is_valid = is_valid_reduction, .call = call_reduction, \
        .forward = reduction_forward, .backward = reduction_backward, .roundings = of_value,                    \
        .gradient_roundings = of_gradient, .data = &reduction##_reduction, __VA_ARGS__                          \
    }

static const reference references[] = {
    REFERENCE(sum, 2, 2, ),
    REFERENCE(mean, 3, 4, ),
    REFERENCE(amax, 0, 4, ),
    REFERENCE(amin, 0, 4, ),
    REFERENCE(any, 0, 0, .has_no_gradient = true),
    REFERENCE(all, 0, 0, .has_no_gradient = true),
    REFERENCE(logsumexp, 8, 16, ),
    REFERENCE(norm, 8, 16, ),
    REFERENCE(var, 4, 8, ),
    REFERENCE(std, 4, 8, ),
};

const reference_family reductions = {"reductions", references, sizeof references / sizeof *references, 20000};
