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
 * x may have any strides. Its axes are divided into kept and reduced ones, and each output is computed in a walk over
 * the reduced axes (tensor/walk.h). Sums are in double, in the order of x, and one thread computes each output; so the
 * bits are always the same. If neighboring outputs are closer to each other in x than the values of one output (the
 * reduced axis comes before the kept one, as in the gradient of a bias), a tile of outputs is summed side by side, so
 * that memory is read in order.
 *
 * Follows torch.sum, mean, amax, amin, var and std.
 */
#include "ops/reduce/reduce.h"

#include "ops/elementwise/integers.h"

TG_DECLARE_KERNEL(tg_sum_forward);
TG_DECLARE_KERNEL(tg_sum_backward);
TG_DECLARE_KERNEL(tg_mean_forward);
TG_DECLARE_KERNEL(tg_mean_backward);
TG_DECLARE_KERNEL(tg_amax_forward);
TG_DECLARE_KERNEL(tg_amax_backward);
TG_DECLARE_KERNEL(tg_var_forward);
TG_DECLARE_KERNEL(tg_var_backward);

/* ---- sum and mean ---- */

#define TILE 64

/* Computes the sums of `width` neighboring outputs, which are `stride` apart in x. */
static void sum_tile(const reduction *r, const real *x, int64_t stride, int64_t width, double *sums)
{
    const tg_walk *walk = &r->reduced;
    tg_cursor at = tg_walk_begin(walk, 0);
    int64_t step = tg_walk_stride(walk);
    for (int64_t c = 0; c < width; c++) {
        sums[c] = 0;
    }
    for (int64_t done = 0, run; done < walk->count; done += run) {
        run = tg_walk_run(walk, &at, walk->count);
        const real *from = x + at.offset;
        if (width == 1) {
            for (int64_t i = 0; i < run; i++) {
                sums[0] += (double)from[i * step];
            }
        } else {
            for (int64_t i = 0; i < run; i++) {
                for (int64_t c = 0; c < width; c++) {
                    sums[c] += (double)from[i * step + c * stride];
                }
            }
        }
        tg_walk_advance(walk, &at, run);
    }
}

static void sum_outputs(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    int64_t stride = tg_walk_stride(&r->kept);
    int64_t widest = stride < tg_walk_stride(&r->reduced) ? TILE : 1;
    double sums[TILE], divisor = r->mean ? (double)r->reduced.count : 1;
    for (int64_t at = begin, width; at < end; at += width) {
        width = tg_walk_run(&r->kept, &kept, end - at < widest ? end - at : widest);
        sum_tile(r, r->x + kept.offset, stride, width, sums);
        for (int64_t c = 0; c < width; c++) {
            r->out[at + c] = (real)(sums[c] / divisor);
        }
        tg_walk_advance(&r->kept, &kept, width);
    }
}

void KERNEL(tg_sum_forward)(const tg_op_call *call)
{
    reduce_forward(call, false, sum_outputs);
}

void KERNEL(tg_mean_forward)(const tg_op_call *call)
{
    reduce_forward(call, true, sum_outputs);
}

/* The forward pass computed y = sum x, or y = sum x / n. */
static void spread_gradient(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    const tg_walk *walk = &r->reduced;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    int64_t step = tg_walk_other_stride(walk);
    real divisor = r->mean ? (real)walk->count : 1;
    for (int64_t at = begin; at < end; at++) {
        real gradient = r->dy[at] / divisor;
        tg_cursor inner = tg_walk_begin(walk, 0);
        for (int64_t done = 0, run; done < walk->count; done += run) {
            run = tg_walk_run(walk, &inner, walk->count);
            real *dx = r->out + kept.other_offset + inner.other_offset;
            for (int64_t i = 0; i < run; i++) {
                dx[i * step] += gradient;
            }
            tg_walk_advance(walk, &inner, run);
        }
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

void KERNEL(tg_sum_backward)(const tg_op_call *call)
{
    reduce_backward(call, false, spread_gradient);
}

void KERNEL(tg_mean_backward)(const tg_op_call *call)
{
    reduce_backward(call, true, spread_gradient);
}

/* ---- amax ---- */

static void max_outputs(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    const tg_walk *walk = &r->reduced;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    int64_t step = tg_walk_stride(walk);
    for (int64_t at = begin; at < end; at++) {
        tg_cursor inner = tg_walk_begin(walk, 0);
        real most = r->x[kept.offset], sign = r->attributes->smallest ? -1 : 1;
        for (int64_t done = 0, run; done < walk->count; done += run) {
            run = tg_walk_run(walk, &inner, walk->count);
            const real *x = r->x + kept.offset + inner.offset;
            for (int64_t i = 0; i < run; i++) {
                real value = x[i * step];
                most = sign * value > sign * most || value != value ? value : most;
            }
            tg_walk_advance(walk, &inner, run);
        }
        r->out[at] = most;
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

void KERNEL(tg_amax_forward)(const tg_op_call *call)
{
    reduce_forward(call, false, max_outputs);
}

/* Returns the number of values that are equal to the maximum `most`; if it is NaN, of all values. Adds *gradient to the
 * gradient of each of them, unless it is NULL. */
static int64_t visit_ties(const reduction *r, const tg_cursor *kept, real most, const real *gradient)
{
    const tg_walk *walk = &r->reduced;
    tg_cursor inner = tg_walk_begin(walk, 0);
    int64_t step = tg_walk_stride(walk), gradient_step = tg_walk_other_stride(walk), ties = 0;
    for (int64_t done = 0, run; done < walk->count; done += run) {
        run = tg_walk_run(walk, &inner, walk->count);
        const real *x = r->x + kept->offset + inner.offset;
        real *dx = r->out + kept->other_offset + inner.other_offset;
        for (int64_t i = 0; i < run; i++) {
            bool ties_here = x[i * step] == most || most != most;
            ties += ties_here;
            if (ties_here && gradient) {
                dx[i * gradient_step] += *gradient;
            }
        }
        tg_walk_advance(walk, &inner, run);
    }
    return ties;
}

/* The forward pass computed y = max x. */
static void share_gradient(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    for (int64_t at = begin; at < end; at++) {
        real most = r->y[at];
        int64_t ties = visit_ties(r, &kept, most, NULL);
        real gradient = most == most ? r->dy[at] / (real)ties : most;
        visit_ties(r, &kept, most, &gradient);
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

void KERNEL(tg_amax_backward)(const tg_op_call *call)
{
    reduce_backward(call, false, share_gradient);
}

/* ---- var ---- */

static double mean_at(const reduction *r, const tg_cursor *kept)
{
    double sum;
    sum_tile(r, r->x + kept->offset, 0, 1, &sum);
    return sum / (double)r->reduced.count;
}

static void var_outputs(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    const tg_walk *walk = &r->reduced;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    int64_t step = tg_walk_stride(walk);
    double degrees = (double)walk->count - (double)r->attributes->correction;
    for (int64_t at = begin; at < end; at++) {
        tg_cursor inner = tg_walk_begin(walk, 0);
        double mean = mean_at(r, &kept), squares = 0;
        for (int64_t done = 0, run; done < walk->count; done += run) {
            run = tg_walk_run(walk, &inner, walk->count);
            const real *x = r->x + kept.offset + inner.offset;
            for (int64_t i = 0; i < run; i++) {
                double deviation = (double)x[i * step] - mean;
                squares += deviation * deviation;
            }
            tg_walk_advance(walk, &inner, run);
        }
        double var = walk->count > 0 ? squares / (degrees > 0 ? degrees : 0) : (double)NAN;
        r->out[at] = (real)(r->attributes->root ? sqrt(var) : var);
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

void KERNEL(tg_var_forward)(const tg_op_call *call)
{
    reduce_forward(call, false, var_outputs);
}

/* The forward pass computed y = sum (x - m)^2 / (n - c), or its root. The gradient through m is 0, because
 * sum (x - m) = 0. As in torch, n - c is not clamped here. */
static void spread_var_gradient(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    const tg_walk *walk = &r->reduced;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    int64_t step = tg_walk_stride(walk), gradient_step = tg_walk_other_stride(walk);
    double degrees = (double)walk->count - (double)r->attributes->correction;
    for (int64_t at = begin; at < end; at++) {
        tg_cursor inner = tg_walk_begin(walk, 0);
        double mean = mean_at(r, &kept), scale = 2 * (double)r->dy[at] / degrees;
        if (r->attributes->root) {
            scale = r->y[at] == 0 ? 0 : scale / (2 * (double)r->y[at]);
        }
        for (int64_t done = 0, run; done < walk->count; done += run) {
            run = tg_walk_run(walk, &inner, walk->count);
            const real *x = r->x + kept.offset + inner.offset;
            real *dx = r->out + kept.other_offset + inner.other_offset;
            for (int64_t i = 0; i < run; i++) {
                dx[i * gradient_step] += (real)(scale * ((double)x[i * step] - mean));
            }
            tg_walk_advance(walk, &inner, run);
        }
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

void KERNEL(tg_var_backward)(const tg_op_call *call)
{
    reduce_backward(call, false, spread_var_gradient);
}

#ifdef TG_ONCE

tg_axes tg_axes_make(int count, const int *axes)
{
    tg_axes made = {.count = axes || count <= 0 ? count : TG_NULL_AXES};
    for (int i = 0; axes && i < count && i < TG_MAX_RANK; i++) {
        made.axis[i] = axes[i];
    }
    return made;
}

bool tg_reduce_output(tg_op_call *call, tg_dtype dtype)
{
    const tg_reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape shape = {0};
    for (int axis = 0; axis < x->rank; axis++) {
        if (!(a->reduced >> axis & 1)) {
            shape.size[shape.rank++] = x->shape[axis];
        } else if (a->keep) {
            shape.size[shape.rank++] = 1;
        }
    }
    return tg_op_output(call, 0, dtype, shape);
}

bool tg_reduce_shape(tg_op_call *call)
{
    return tg_op_expect_float(call, 0) && tg_reduce_output(call, tg_dtype_of(call->inputs[0]));
}

bool tg_reduce_expect_values(tg_op_call *call, const char *name)
{
    const tg_reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    for (int axis = 0; axis < x->rank; axis++) {
        if ((a->reduced >> axis & 1) && x->shape[axis] == 0) {
            char text[TG_SHAPE_TEXT];
            return tg_op_fail(call, TG_ERROR_SHAPE, "axis %d of %s is empty, and has no %s", axis,
                              tg_shape_format(tg_shape_of(x), text), name);
        }
    }
    return true;
}

static bool extreme_shape(tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    return tg_reduce_expect_values(call, a->smallest ? "minimum" : "maximum") && tg_reduce_shape(call);
}

static const tg_op sum_op = {
    .name = "sum",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_sum_forward, tg_sum_backward),
    .accepts_layout = tg_any_layout,
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op mean_op = {
    .name = "mean",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_mean_forward, tg_mean_backward),
    .accepts_layout = tg_any_layout,
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op amax_op = {
    .name = "amax",
    .shape = extreme_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_amax_forward, tg_amax_backward),
    .accepts_layout = tg_any_layout,
};

static const tg_op amin_op = {
    .name = "amin",
    .shape = extreme_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_amax_forward, tg_amax_backward),
    .accepts_layout = tg_any_layout,
};

static const tg_op var_op = {
    .name = "var",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_var_forward, tg_var_backward),
    .accepts_layout = tg_any_layout,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op std_op = {
    .name = "std",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_var_forward, tg_var_backward),
    .accepts_layout = tg_any_layout,
};

tg_tensor *tg_reduce(tg_tape *t, const tg_op *op, tg_tensor *x, tg_axes axes, tg_keep_axes keep, tg_reduce_attributes a)
{
    if (!tg_tape_expect_input(t, op->name, "x", x) || !tg_expect_axes(t, op->name, axes)) {
        return NULL;
    }
    a.reduced = axes.count < 0 ? ~0u : 0;
    a.keep = keep == TG_KEEP_AXES;
    for (int i = 0; i < axes.count; i++) {
        int axis = axes.axis[i];
        if (!tg_tape_expect_axis(t, op->name, x, &axis)) {
            return NULL;
        }
        if (a.reduced >> axis & 1) {
            tg_tape_fail(t, TG_ERROR_RANGE, op->name, "axis %d is listed twice", axis);
            return NULL;
        }
        a.reduced |= 1u << axis;
    }
    return tg_apply(t, op, &x, 1, &a, sizeof a, NULL);
}

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
