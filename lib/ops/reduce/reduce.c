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
 * Sums are in double, in lanes and blocks (panel.h). The backward passes of the maximum and of the variance first
 * reduce x again, to k and to m. Follows torch.sum, mean, amax, amin, var and std.
 */
#include "ops/reduce/spread.h"
#include "ops/reduce/sums.h"

TG_DECLARE_KERNEL(tg_sum_forward);
TG_DECLARE_KERNEL(tg_sum_backward);
TG_DECLARE_KERNEL(tg_mean_forward);
TG_DECLARE_KERNEL(tg_mean_backward);
TG_DECLARE_KERNEL(tg_amax_forward);
TG_DECLARE_KERNEL(tg_amax_backward);
TG_DECLARE_KERNEL(tg_var_forward);
TG_DECLARE_KERNEL(tg_var_backward);

/* ---- sum and mean ---- */

static void visit_sum(const tg_panel *p, tg_columns *columns)
{
    panel_sum(p, true, value_term, 0, NULL, columns->sum);
}

static void finish_sum(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    real *y = (real *)r->y + at;
    for (int64_t c = 0; c < width; c++) {
        y[c] = (real)columns->sum[c];
    }
}

static void finish_mean(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    real *y = (real *)r->y + at;
    const double n = (double)r->reduced.count, share = 1 / n;
    for (int64_t c = 0; c < width; c++) { /* a quotient takes much longer than a product, whose error a float hides */
        y[c] = (real)(sizeof *y == sizeof(float) ? columns->sum[c] * share : columns->sum[c] / n);
    }
}

static const tg_reducer sum_reducer = {visit_sum, join_sum, finish_sum};
static const tg_reducer mean_reducer = {visit_sum, join_sum, finish_mean};

void KERNEL(tg_sum_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &sum_reducer);
}

void KERNEL(tg_mean_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &mean_reducer);
}

static inline real sum_slope(real x, const tg_slope_at *o)
{
    (void)x;
    return o->scale;
}

static inline void spread_scaled(const tg_panel *p, real divisor)
{
    real scale[PANEL];
    const real *dy = p->r->dy + p->output;
    for (int64_t c = 0; c < p->width; c++) {
        scale[c] = dy[c] / divisor;
    }
    panel_spread(p, sum_slope, false, &(tg_slopes){.scale = scale}, 0);
}

/* The forward pass computed y = sum x. */
static void spread_sum(const tg_panel *p)
{
    spread_scaled(p, 1);
}

/* The forward pass computed y = sum x / n. */
static void spread_mean(const tg_panel *p)
{
    spread_scaled(p, (real)p->r->reduced.count);
}

void KERNEL(tg_sum_backward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_backward)(call, NULL, spread_sum);
}

void KERNEL(tg_mean_backward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_backward)(call, NULL, spread_mean);
}

/* ---- amax ---- */

static void visit_max(const tg_panel *p, tg_columns *columns)
{
    if (p->r->attributes->smallest) {
        panel_max(p, value_key, true, columns->center);
    } else {
        panel_max(p, value_key, false, columns->center);
    }
}

static void finish_max(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    real *y = (real *)r->y + at;
    for (int64_t c = 0; c < width; c++) {
        y[c] = (real)(r->attributes->smallest ? -columns->center[c] : columns->center[c]);
    }
}

static const tg_reducer max_reducer = {visit_max, join_max, finish_max};

void KERNEL(tg_amax_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &max_reducer);
}

static inline double tie_term(real x, double y, double p)
{
    (void)p;
    return x == (real)y;
}

static void visit_ties(const tg_panel *p, tg_columns *columns)
{
    const real *y = (const real *)p->r->y + p->output;
    for (int64_t c = 0; c < p->width; c++) {
        columns->center[c] = (double)y[c];
    }
    panel_sum(p, false, tie_term, 0, columns->center, columns->sum);
}

static const tg_reducer tie_reducer = {visit_ties, join_sum, keep_columns};

/* If the maximum is NaN, so are the gradients. */
static inline real max_slope(real x, const tg_slope_at *o)
{
    return x == o->y ? o->scale : o->y == o->y ? 0 : o->y;
}

/* The forward pass computed y = max x. */
static void spread_max(const tg_panel *p)
{
    real scale[PANEL];
    const real *dy = p->r->dy + p->output;
    const real *y = (const real *)p->r->y + p->output;
    for (int64_t c = 0; c < p->width; c++) {
        scale[c] = dy[c] / (real)p->r->results[p->output + c].sum;
    }
    panel_spread(p, max_slope, true, &(tg_slopes){.scale = scale, .y = y}, 0);
}

void KERNEL(tg_amax_backward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_backward)(call, &tie_reducer, spread_max);
}

/* ---- var ---- */

static inline double square_term(real x, double mean, double p)
{
    (void)p;
    return ((double)x - mean) * ((double)x - mean);
}

static inline double difference_term(real x, double mean, double p)
{
    (void)p;
    return (double)x - mean;
}

/* Finds the means. Each is corrected by the mean of the differences from it, so that that of equal values is exact. */
static void visit_means(const tg_panel *p, tg_columns *columns)
{
    panel_sum(p, true, value_term, 0, NULL, columns->center);
    for (int64_t c = 0; c < p->width; c++) {
        columns->center[c] /= (double)p->count;
    }
    panel_sum(p, true, difference_term, 0, columns->center, columns->sum);
    for (int64_t c = 0; c < p->width; c++) {
        columns->center[c] += isfinite(columns->center[c]) ? columns->sum[c] / (double)p->count : 0;
    }
}

static void visit_var(const tg_panel *p, tg_columns *columns)
{
    visit_means(p, columns);
    panel_sum(p, true, square_term, 0, columns->center, columns->sum);
}

/* Chan, Golub and LeVeque 1979: the mean and the sum of squared deviations of both parts. */
static void join_var(tg_partial *sofar, double count, const tg_partial *block, double more)
{
    double apart = block->center - sofar->center, share = more / (count + more);
    sofar->center += apart * share;
    sofar->sum += block->sum + apart * apart * count * share;
}

static void finish_var(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    real *y = (real *)r->y + at;
    double n = (double)r->reduced.count, degrees = n - (double)r->attributes->correction;
    for (int64_t c = 0; c < width; c++) {
        double var = n > 0 ? columns->sum[c] / (degrees > 0 ? degrees : 0) : (double)NAN;
        y[c] = (real)(r->attributes->root ? sqrt(var) : var);
    }
}

static const tg_reducer var_reducer = {visit_var, join_var, finish_var};

void KERNEL(tg_var_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &var_reducer);
}

static const tg_reducer mean_results = {visit_means, join_var, keep_columns};

static inline real var_slope(real x, const tg_slope_at *o)
{
    return (real)(o->wide_scale * ((double)x - o->center));
}

/* The forward pass computed y = sum (x - m)^2 / (n - c), or its root. The gradient through m is 0, because
 * sum (x - m) = 0. As in torch, n - c is not clamped here. */
static void spread_var(const tg_panel *p)
{
    const tg_reduce_call *r = p->r;
    double scale[PANEL], center[PANEL];
    const real *dy = r->dy + p->output;
    const real *y = (const real *)r->y + p->output;
    double degrees = (double)r->reduced.count - (double)r->attributes->correction;
    for (int64_t c = 0; c < p->width; c++) {
        scale[c] = 2 * (double)dy[c] / degrees;
        if (r->attributes->root) {
            scale[c] = y[c] == 0 ? 0 : scale[c] / (2 * (double)y[c]);
        }
        center[c] = r->results[p->output + c].center;
    }
    panel_spread(p, var_slope, true, &(tg_slopes){.wide_scale = scale, .center = center}, 0);
}

void KERNEL(tg_var_backward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_backward)(call, &mean_results, spread_var);
}

#ifdef TG_ONCE

static bool extreme_shape(tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    return tg_reduce_expect_values(call, a->smallest ? "minimum" : "maximum") && tg_reduce_twice_shape(call);
}

static const tg_op sum_op = {
    .name = "sum",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_sum_forward, tg_sum_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op mean_op = {
    .name = "mean",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_mean_forward, tg_mean_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op amax_op = {
    .name = "amax",
    .shape = extreme_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_amax_forward, tg_amax_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
};

static const tg_op amin_op = {
    .name = "amin",
    .shape = extreme_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_amax_forward, tg_amax_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
};

static const tg_op var_op = {
    .name = "var",
    .shape = tg_reduce_twice_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_var_forward, tg_var_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op std_op = {
    .name = "std",
    .shape = tg_reduce_twice_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_var_forward, tg_var_backward),
    .accepts_layout = tg_any_layout,
    .can_overwrite = true,
};

static const tg_reduce_attributes no_attributes;

tg_tensor *tg_sum(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    bool is_integer = x && !x->is_freed && !tg_dtype_is_float(x->dtype);
    return tg_reduce(t, is_integer ? &tg_sum_integers_op : &sum_op, x, axes, keep, no_attributes);
}

tg_tensor *tg_mean(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &mean_op, x, axes, keep, no_attributes);
}

tg_tensor *tg_amax(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &amax_op, x, axes, keep, no_attributes);
}

tg_tensor *tg_amin(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &amin_op, x, axes, keep, (tg_reduce_attributes){.smallest = true});
}

tg_tensor *tg_var(tg_tape *t, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep)
{
    return tg_reduce(t, &var_op, x, axes, keep, (tg_reduce_attributes){.correction = correction});
}

tg_tensor *tg_std(tg_tape *t, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep)
{
    return tg_reduce(t, &std_op, x, axes, keep, (tg_reduce_attributes){.correction = correction, .root = true});
}

#endif
