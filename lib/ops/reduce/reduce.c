/* reduce: sum, mean, maximum, minimum, variance and standard deviation over some axes.
 *
 *   sum     y = sum x                     dx += dy
 *   mean    y = sum x / n                 dx += dy / n
 *   amax    y = max x                     dx += dy / k where x = y           k values are equal to the maximum
 *   amin    y = min x                     the same
 *   var     y = sum (x - m)^2 / (n - c)   dx += dy 2 (x - m) / (n - c)       m the mean, c the correction; in y,
 *                                                                            n - c is at least 0
 *   std     y = var^(1/2)                 dx += dy (x - m) / (y (n - c))     0 where y = 0
 *
 * Sums are in double, in lanes and blocks (fold.h). The backward passes of the maximum and of the variance first
 * reduce x again, to k and to m. Follows torch.sum, mean, amax, amin, var and std.
 */
#include "ops/reduce/fold.h"

/* ---- sum and mean ---- */

static void project_sum(const tg_outputs *o)
{
    real *y = (real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        y[c] = (real)o->sum[c];
    }
}

static void project_mean(const tg_outputs *o)
{
    real *y = (real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        y[c] = (real)(o->sum[c] / (double)o->r->reduced.count);
    }
}

static void prepare_sum(tg_outputs *o, double *scale)
{
    for (int64_t c = 0; c < o->count; c++) {
        scale[c] = (double)dy_of(o)[c];
    }
}

static void prepare_mean(tg_outputs *o, double *scale)
{
    for (int64_t c = 0; c < o->count; c++) {
        scale[c] = (double)(dy_of(o)[c] / (real)o->r->reduced.count);
    }
}

/* Writes the scales: x is not there. */
static void differentiate_sum(const tg_tile *tile, real *dx)
{
    for (int64_t row = 0; row < tile->rows; row++, dx += tile->columns) {
        if (tile->by_columns && row > 0) {
            memcpy(dx, dx - tile->columns, (size_t)tile->columns * sizeof *dx);
            continue;
        }
        for (int64_t c = 0; c < tile->columns; c++) {
            dx[c] = (real)tile->scale[tile->by_columns ? c : row];
        }
    }
}

#ifdef TG_ONCE

/* ---- gradients in ops ---- */

static void differentiate_sum_op(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_expand(t, tg_reduce_kept(t, call, dy[0]), tg_shape_of(call->inputs[0]));
}

static void differentiate_mean(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const double count = (double)call->inputs[0]->count / (double)call->outputs[0]->count;
    differentiate_sum_op(t, call, (tg_tensor *[]){tg_div_scalar(t, dy[0], count)}, dx);
}

#endif

static const tg_reducer sum_reducer = {.reduce = reduce_sum, .combine = combine_sums, .project = project_sum};
static const tg_reducer sum_gradient = {.prepare = prepare_sum, .differentiate = differentiate_sum};
static const tg_reducer mean_reducer = {.reduce = reduce_sum, .combine = combine_sums, .project = project_mean};
static const tg_reducer mean_gradient = {.prepare = prepare_mean, .differentiate = differentiate_sum};
TG_REDUCE_OP(tg_sum_op, &sum_reducer, &sum_gradient, .op.name = "sum", .op.differentiate = differentiate_sum_op,
             .op.shape = tg_reduce_shape, .op.backward_ignores_inputs = TG_OP_ALL,
             .op.backward_ignores_outputs = TG_OP_ALL);
TG_REDUCE_OP(tg_mean_op, &mean_reducer, &mean_gradient, .op.name = "mean", .op.differentiate = differentiate_mean,
             .op.shape = tg_reduce_shape, .op.backward_ignores_inputs = TG_OP_ALL,
             .op.backward_ignores_outputs = TG_OP_ALL);

/* ---- amax and amin ---- */

static void reduce_extremes(tg_outputs *o)
{
    KERNEL(tg_fold)(o, KERNEL(tg_find_extremes), -(double)INFINITY, o->center);
}

static void project_extremes(const tg_outputs *o)
{
    real *y = (real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        y[c] = (real)(o->r->attributes->sign * o->center[c]);
    }
}

static inline void set_centers(tg_outputs *o)
{
    const real *y = (const real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        o->center[c] = (double)y[c];
    }
}

/* The forward pass computed y = max x. */
TG_ADD_TERMS(add_ties, tie_term, x == (real)center);

static void reduce_ties(tg_outputs *o)
{
    set_centers(o);
    KERNEL(tg_fold_sums)(o, add_ties, o->sum);
}

static void prepare_extremes(tg_outputs *o, double *scale)
{
    set_centers(o);
    for (int64_t c = 0; c < o->count; c++) {
        scale[c] = (double)(dy_of(o)[c] / (real)o->r->results[o->begin + c].sum);
    }
}

/* If the maximum is NaN, so are the gradients. */
static inline real extreme_slope(real x, double scale, double center, const tg_reduce_attributes *a)
{
    (void)a;
    const real y = (real)center;
    return x == y ? (real)scale : y == y ? 0 : y;
}

static void differentiate_extremes(const tg_tile *tile, real *dx)
{
    write_slopes(tile, extreme_slope, dx);
}

static const tg_reducer extremes_reducer = {
    .reduce = reduce_extremes, .combine = combine_maxima, .project = project_extremes};
static const tg_reducer extremes_gradient = {.reduce = reduce_ties,
                                             .combine = combine_sums,
                                             .prepare = prepare_extremes,
                                             .differentiate = differentiate_extremes,
                                             .reads_x = true};

#ifdef TG_ONCE
static bool extreme_shape(tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    return tg_reduce_expect_values(call, a->sign < 0 ? "minimum" : "maximum") && tg_reduce_twice_shape(call);
}

/* ---- gradients in ops ---- */

static void differentiate_extreme_op(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *most = tg_reduce_kept(t, call, call->outputs[0]);
    tg_tensor *ties = tg_cast(t, tg_eq(t, x, most), tg_dtype_of(x));
    dx[0] = tg_mul(t, tg_reduce_kept(t, call, dy[0]), tg_div(t, ties, tg_reduce_sum(t, call, ties)));
}
#endif

TG_REDUCE_OP(tg_amax_op, &extremes_reducer, &extremes_gradient, .op.name = "amax",
             .op.differentiate = differentiate_extreme_op, .op.shape = extreme_shape);
TG_REDUCE_OP(tg_amin_op, &extremes_reducer, &extremes_gradient, .op.name = "amin",
             .op.differentiate = differentiate_extreme_op, .op.shape = extreme_shape);

/* ---- var and std ---- */

/* The center is the mean. */
TG_ADD_TERMS(add_squared_distances, square_term, ((double)x - center) * ((double)x - center));
TG_ADD_TERMS(add_differences, difference_term, (double)x - center);

/* Finds the means. Each is corrected by the mean of the differences from it, so that that of equal values is exact. */
static void reduce_means(tg_outputs *o)
{
    reduce_sum(o);
    for (int64_t c = 0; c < o->count; c++) {
        o->center[c] = o->sum[c] / (double)o->length;
    }
    KERNEL(tg_fold_sums)(o, add_differences, o->sum);
    for (int64_t c = 0; c < o->count; c++) {
        o->center[c] += isfinite(o->center[c]) ? o->sum[c] / (double)o->length : 0;
    }
}

static void reduce_var(tg_outputs *o)
{
    reduce_means(o);
    KERNEL(tg_fold_sums)(o, add_squared_distances, o->sum);
}

/* Chan, Golub and LeVeque 1979: the mean and the sum of squared deviations of both parts. */
static void combine_var(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    double apart = block->center - sofar->center, share = more / (count + more);
    sofar->center += apart * share;
    sofar->sum += block->sum + apart * apart * count * share;
}

static void project_var(const tg_outputs *o)
{
    const tg_reduce_call *r = o->r;
    real *y = (real *)r->y + o->begin;
    double n = (double)r->reduced.count, degrees = n - (double)r->attributes->correction;
    for (int64_t c = 0; c < o->count; c++) {
        double var = n > 0 ? o->sum[c] / (degrees > 0 ? degrees : 0) : (double)NAN;
        y[c] = (real)(r->attributes->root ? sqrt(var) : var);
    }
}

/* The forward pass computed y = sum (x - m)^2 / (n - c), or its root. The gradient through m is 0, because
 * sum (x - m) = 0. As in torch, n - c is not clamped here. */
static void prepare_var(tg_outputs *o, double *scale)
{
    const tg_reduce_call *r = o->r;
    const real *y = (const real *)r->y + o->begin;
    double degrees = (double)r->reduced.count - (double)r->attributes->correction;
    for (int64_t c = 0; c < o->count; c++) {
        scale[c] = 2 * (double)dy_of(o)[c] / degrees;
        if (r->attributes->root) {
            scale[c] = y[c] == 0 ? 0 : scale[c] / (2 * (double)y[c]);
        }
        o->center[c] = r->results[o->begin + c].center;
    }
}

static inline real var_slope(real x, double scale, double mean, const tg_reduce_attributes *a)
{
    (void)a;
    return (real)(scale * ((double)x - mean));
}

static void differentiate_var(const tg_tile *tile, real *dx)
{
    write_slopes(tile, var_slope, dx);
}

#ifdef TG_ONCE

/* ---- gradients in ops ---- */

static void differentiate_var_op(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const tg_reduce_attributes *a = call->attributes;
    tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    const double count = (double)x->count / (double)y->count, degrees = count - (double)a->correction;
    tg_tensor *scale = tg_mul_scalar(t, dy[0], 2 / degrees);
    if (a->root) { /* 0, and so are its gradients, where y = 0 */
        scale = tg_div(t, scale, tg_masked_fill(t, tg_mul_scalar(t, y, 2), tg_logical_not(t, y), (double)INFINITY));
    }
    tg_tensor *mean = tg_div_scalar(t, tg_reduce_sum(t, call, x), count);
    dx[0] = tg_mul(t, tg_reduce_kept(t, call, scale), tg_sub(t, x, mean));
}

#endif

static const tg_reducer var_reducer = {.reduce = reduce_var, .combine = combine_var, .project = project_var};
static const tg_reducer var_gradient = {.reduce = reduce_means,
                                        .combine = combine_var,
                                        .prepare = prepare_var,
                                        .differentiate = differentiate_var,
                                        .reads_x = true};
TG_REDUCE_OP(tg_var_op, &var_reducer, &var_gradient, .op.name = "var", .op.differentiate = differentiate_var_op,
             .op.shape = tg_reduce_twice_shape, .op.backward_ignores_outputs = TG_OP_ALL);
TG_REDUCE_OP(tg_std_op, &var_reducer, &var_gradient, .op.name = "std", .op.differentiate = differentiate_var_op,
             .op.shape = tg_reduce_twice_shape);

#ifdef TG_ONCE

static const tg_reduce_attributes no_attributes;

tg_tensor *tg_sum(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    bool is_integer = x && !x->is_freed && !tg_dtype_is_float(x->dtype);
    return tg_reduce(t, is_integer ? tg_sum_integers_op : &tg_sum_op.op, x, axes, keep, no_attributes);
}

tg_tensor *tg_mean(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_mean_op.op, x, axes, keep, no_attributes);
}

tg_tensor *tg_amax(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_amax_op.op, x, axes, keep, (tg_reduce_attributes){.sign = 1});
}

tg_tensor *tg_amin(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_amin_op.op, x, axes, keep, (tg_reduce_attributes){.sign = -1});
}

tg_tensor *tg_var(tg_tape *t, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_var_op.op, x, axes, keep, (tg_reduce_attributes){.correction = correction});
}

tg_tensor *tg_std(tg_tape *t, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep)
{
    return tg_reduce(t, &tg_std_op.op, x, axes, keep, (tg_reduce_attributes){.correction = correction, .root = true});
}

#endif
