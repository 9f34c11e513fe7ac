/* reduce: sum, mean, maximum and variance over some axes.
 *
 *   sum     y = sum x                     dx += dy
 *   mean    y = sum x / n                 dx += dy / n
 *   max     y = max x                     dx += dy / ties where x = y        (torch.amax)
 *   var     y = sum (x - m)^2 / (n - c)   dx += dy 2 (x - m) / (n - c)       m the mean, c the correction
 *
 * x may have any strides: its axes are divided into kept and reduced ones, and each output value walks the reduced
 * axes. Sums are kept in double, in the order of x, and each output belongs to one thread; so the bits are always the
 * same. When all reduced axes come before the kept ones (the gradient of a bias, say) a tile of neighbouring outputs
 * is summed side by side, so that memory is read in order.
 *
 * Follows torch.sum, mean, amax and var.
 */
#include "ops/real.h"

#include <tapegrad/ops.h>

typedef struct reduce_attributes {
    uint32_t reduced; /* a bit an axis */
    int correction;   /* of var */
    bool keep;
} reduce_attributes;

TG_DECLARE_KERNEL(tg_sum_forward);
TG_DECLARE_KERNEL(tg_sum_backward);
TG_DECLARE_KERNEL(tg_mean_forward);
TG_DECLARE_KERNEL(tg_mean_backward);
TG_DECLARE_KERNEL(tg_max_forward);
TG_DECLARE_KERNEL(tg_max_backward);
TG_DECLARE_KERNEL(tg_var_forward);
TG_DECLARE_KERNEL(tg_var_backward);

/* Some axes of x, in order, with their strides in x's values and in its (contiguous) gradient's. */
typedef struct axes_walk {
    int rank;
    int64_t size[TG_MAX_RANK], stride[TG_MAX_RANK], gradient_stride[TG_MAX_RANK];
    int64_t count;
} axes_walk;

typedef struct KERNEL(reduction) {
    axes_walk kept, reduced;
    const real *x, *y, *dy;
    real *out; /* y or dx */
    int correction;
    bool mean; /* divide by the number of reduced values */
} KERNEL(reduction);

static axes_walk KERNEL(walk_of)(const tg_tensor *x, uint32_t axes)
{
    axes_walk walk = {.count = 1};
    tg_shape shape = tg_shape_of(x);
    int64_t contiguous[TG_MAX_RANK];
    tg_contiguous_strides(&shape, contiguous);
    for (int axis = 0; axis < x->rank; axis++) {
        if (axes >> axis & 1) {
            walk.size[walk.rank] = x->shape[axis];
            walk.stride[walk.rank] = x->strides[axis];
            walk.gradient_stride[walk.rank++] = contiguous[axis];
            walk.count *= x->shape[axis];
        }
    }
    return walk;
}

static KERNEL(reduction) KERNEL(reduction_of)(const tg_op_call *call)
{
    const reduce_attributes *attributes = call->attributes;
    const tg_tensor *x = call->inputs[0];
    KERNEL(reduction)
    r = {.kept = KERNEL(walk_of)(x, ~attributes->reduced),
         .reduced = KERNEL(walk_of)(x, attributes->reduced),
         .x = tg_values(x),
         .y = tg_values(call->outputs[0]),
         .correction = attributes->correction};
    return r;
}

/* Where position `at` of the walked axes lies. */
static int64_t KERNEL(place)(const axes_walk *walk, const int64_t *strides, int64_t at)
{
    int64_t place = 0;
    for (int axis = walk->rank - 1; axis >= 0; axis--) {
        place += at % walk->size[axis] * strides[axis];
        at /= walk->size[axis];
    }
    return place;
}

/* An odometer over the walked axes but the last, which callers run over themselves: moves both places on. */
static void KERNEL(next_line)(const axes_walk *walk, int64_t *index, int64_t *place, int64_t *gradient_place)
{
    for (int axis = walk->rank - 2; axis >= 0; axis--) {
        *place += walk->stride[axis];
        *gradient_place += walk->gradient_stride[axis];
        if (++index[axis] < walk->size[axis]) {
            return;
        }
        *place -= walk->stride[axis] * walk->size[axis];
        *gradient_place -= walk->gradient_stride[axis] * walk->size[axis];
        index[axis] = 0;
    }
}

static int64_t KERNEL(line_size)(const axes_walk *walk)
{
    return walk->rank > 0 ? walk->size[walk->rank - 1] : 1;
}

static int64_t KERNEL(line_stride)(const axes_walk *walk, const int64_t *strides)
{
    return walk->rank > 0 ? strides[walk->rank - 1] : 0;
}

#define TILE 64

/* Sums of `width` neighbouring outputs, x's kept axis between them having the given stride. */
static void KERNEL(sum_tile)(const KERNEL(reduction) * r, const real *x, int64_t stride, int64_t width, double *sums)
{
    const axes_walk *walk = &r->reduced;
    int64_t index[TG_MAX_RANK] = {0}, place = 0, unused = 0;
    int64_t line = KERNEL(line_size)(walk), step = KERNEL(line_stride)(walk, walk->stride);
    for (int64_t c = 0; c < width; c++) {
        sums[c] = 0;
    }
    for (int64_t done = 0; done < walk->count; done += line) {
        if (width == 1) {
            for (int64_t i = 0; i < line; i++) {
                sums[0] += (double)x[place + i * step];
            }
        } else {
            for (int64_t i = 0; i < line; i++) {
                const real *from = x + place + i * step;
                for (int64_t c = 0; c < width; c++) {
                    sums[c] += (double)from[c * stride];
                }
            }
        }
        KERNEL(next_line)(walk, index, &place, &unused);
    }
}

/* Outputs [begin, end): sums divided by n for a mean. */
static void KERNEL(sum_outputs)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(reduction) *r = context;
    int64_t line = KERNEL(line_size)(&r->kept), stride = KERNEL(line_stride)(&r->kept, r->kept.stride);
    int64_t reduced_stride = KERNEL(line_stride)(&r->reduced, r->reduced.stride);
    bool tiled = stride < reduced_stride;
    double sums[TILE], divisor = r->mean ? (double)r->reduced.count : 1;
    for (int64_t at = begin; at < end;) {
        int64_t width = tiled ? line - at % line : 1;
        width = width < TILE ? width : TILE;
        width = width < end - at ? width : end - at;
        KERNEL(sum_tile)(r, r->x + KERNEL(place)(&r->kept, r->kept.stride, at), stride, width, sums);
        for (int64_t c = 0; c < width; c++) {
            r->out[at + c] = (real)(sums[c] / divisor);
        }
        at += width;
    }
}

static void KERNEL(over_outputs)(KERNEL(reduction) * r, void (*body)(void *context, int64_t begin, int64_t end))
{
    int64_t grain = TG_GRAIN / (r->reduced.count + 1);
    tg_parallel_for(r->kept.count, grain < 1 ? 1 : grain, body, r);
}

void KERNEL(tg_sum_forward)(const tg_op_call *call)
{
    KERNEL(reduction) r = KERNEL(reduction_of)(call);
    r.out = tg_values(call->outputs[0]);
    KERNEL(over_outputs)(&r, KERNEL(sum_outputs));
}

void KERNEL(tg_mean_forward)(const tg_op_call *call)
{
    KERNEL(reduction) r = KERNEL(reduction_of)(call);
    r.out = tg_values(call->outputs[0]);
    r.mean = true;
    KERNEL(over_outputs)(&r, KERNEL(sum_outputs));
}

static void KERNEL(max_outputs)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(reduction) *r = context;
    int64_t line = KERNEL(line_size)(&r->reduced), step = KERNEL(line_stride)(&r->reduced, r->reduced.stride);
    for (int64_t at = begin; at < end; at++) {
        const real *x = r->x + KERNEL(place)(&r->kept, r->kept.stride, at);
        int64_t index[TG_MAX_RANK] = {0}, place = 0, unused = 0;
        real most = x[0];
        for (int64_t done = 0; done < r->reduced.count; done += line) {
            for (int64_t i = 0; i < line; i++) {
                real value = x[place + i * step];
                most = value > most || value != value ? value : most;
            }
            KERNEL(next_line)(&r->reduced, index, &place, &unused);
        }
        r->out[at] = most;
    }
}

void KERNEL(tg_max_forward)(const tg_op_call *call)
{
    KERNEL(reduction) r = KERNEL(reduction_of)(call);
    r.out = tg_values(call->outputs[0]);
    KERNEL(over_outputs)(&r, KERNEL(max_outputs));
}

static void KERNEL(var_outputs)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(reduction) *r = context;
    int64_t line = KERNEL(line_size)(&r->reduced), step = KERNEL(line_stride)(&r->reduced, r->reduced.stride);
    double degrees = (double)(r->reduced.count - r->correction);
    for (int64_t at = begin; at < end; at++) {
        const real *x = r->x + KERNEL(place)(&r->kept, r->kept.stride, at);
        int64_t index[TG_MAX_RANK] = {0}, place = 0, unused = 0;
        double mean, squares = 0;
        KERNEL(sum_tile)(r, x, 0, 1, &mean);
        mean /= (double)r->reduced.count;
        for (int64_t done = 0; done < r->reduced.count; done += line) {
            for (int64_t i = 0; i < line; i++) {
                double distance = (double)x[place + i * step] - mean;
                squares += distance * distance;
            }
            KERNEL(next_line)(&r->reduced, index, &place, &unused);
        }
        r->out[at] = degrees > 0 ? (real)(squares / degrees) : (real)NAN;
    }
}

void KERNEL(tg_var_forward)(const tg_op_call *call)
{
    KERNEL(reduction) r = KERNEL(reduction_of)(call);
    r.out = tg_values(call->outputs[0]);
    KERNEL(over_outputs)(&r, KERNEL(var_outputs));
}

/* ---- gradients: for each output, something is added to each of the values that it came from ---- */

/* dx += scale dy. In the forward pass this was: y = sum x, or y = sum x / n. */
static void KERNEL(spread)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(reduction) *r = context;
    const axes_walk *walk = &r->reduced;
    int64_t line = KERNEL(line_size)(walk), step = KERNEL(line_stride)(walk, walk->gradient_stride);
    real divisor = r->mean ? (real)walk->count : 1;
    for (int64_t at = begin; at < end; at++) {
        real *dx = r->out + KERNEL(place)(&r->kept, r->kept.gradient_stride, at);
        real gradient = r->dy[at] / divisor;
        int64_t index[TG_MAX_RANK] = {0}, unused = 0, place = 0;
        for (int64_t done = 0; done < walk->count; done += line) {
            for (int64_t i = 0; i < line; i++) {
                dx[place + i * step] += gradient;
            }
            KERNEL(next_line)(walk, index, &unused, &place);
        }
    }
}

static void KERNEL(backward)(const tg_op_call *call, bool mean, void (*body)(void *context, int64_t begin, int64_t end))
{
    KERNEL(reduction) r = KERNEL(reduction_of)(call);
    r.dy = call->output_gradients[0];
    r.out = call->input_gradients[0];
    r.mean = mean;
    KERNEL(over_outputs)(&r, body);
}

void KERNEL(tg_sum_backward)(const tg_op_call *call)
{
    KERNEL(backward)(call, false, KERNEL(spread));
}

void KERNEL(tg_mean_backward)(const tg_op_call *call)
{
    KERNEL(backward)(call, true, KERNEL(spread));
}

/* In the forward pass this was: y = max x. Values that tie share; a maximum that is NaN makes all gradients NaN. */
static void KERNEL(share)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(reduction) *r = context;
    const axes_walk *walk = &r->reduced;
    int64_t line = KERNEL(line_size)(walk), step = KERNEL(line_stride)(walk, walk->stride);
    int64_t gradient_step = KERNEL(line_stride)(walk, walk->gradient_stride);
    for (int64_t at = begin; at < end; at++) {
        const real *x = r->x + KERNEL(place)(&r->kept, r->kept.stride, at);
        real *dx = r->out + KERNEL(place)(&r->kept, r->kept.gradient_stride, at);
        int64_t ties = 0;
        real most = r->y[at], gradient = 0;
        for (int pass = 0; pass < 2; pass++) { /* count, then give */
            int64_t index[TG_MAX_RANK] = {0}, place = 0, gradient_place = 0;
            for (int64_t done = 0; done < walk->count; done += line) {
                for (int64_t i = 0; i < line; i++) {
                    bool largest = x[place + i * step] == most || most != most;
                    ties += pass == 0 && largest;
                    if (pass == 1 && largest) {
                        dx[gradient_place + i * gradient_step] += gradient;
                    }
                }
                KERNEL(next_line)(walk, index, &place, &gradient_place);
            }
            gradient = most == most ? r->dy[at] / (real)ties : most;
        }
    }
}

void KERNEL(tg_max_backward)(const tg_op_call *call)
{
    KERNEL(backward)(call, false, KERNEL(share));
}

/* In the forward pass this was: y = sum (x - m)^2 / (n - c); the mean's own gradient cancels, as sum (x - m) = 0. */
static void KERNEL(spread_var)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(reduction) *r = context;
    const axes_walk *walk = &r->reduced;
    int64_t line = KERNEL(line_size)(walk), step = KERNEL(line_stride)(walk, walk->stride);
    int64_t gradient_step = KERNEL(line_stride)(walk, walk->gradient_stride);
    double degrees = (double)(walk->count - r->correction);
    for (int64_t at = begin; at < end; at++) {
        const real *x = r->x + KERNEL(place)(&r->kept, r->kept.stride, at);
        real *dx = r->out + KERNEL(place)(&r->kept, r->kept.gradient_stride, at);
        int64_t index[TG_MAX_RANK] = {0}, place = 0, gradient_place = 0;
        double mean, scale = degrees > 0 ? 2 * (double)r->dy[at] / degrees : (double)NAN;
        KERNEL(sum_tile)(r, x, 0, 1, &mean);
        mean /= (double)walk->count;
        for (int64_t done = 0; done < walk->count; done += line) {
            for (int64_t i = 0; i < line; i++) {
                dx[gradient_place + i * gradient_step] += (real)(scale * ((double)x[place + i * step] - mean));
            }
            KERNEL(next_line)(walk, index, &place, &gradient_place);
        }
    }
}

void KERNEL(tg_var_backward)(const tg_op_call *call)
{
    KERNEL(backward)(call, false, KERNEL(spread_var));
}

#ifdef TG_ONCE

tg_axes tg_axes_make(int count, const int *axes)
{
    tg_axes made = {.count = count};
    for (int i = 0; i < count && i < TG_MAX_RANK; i++) {
        made.axis[i] = axes[i];
    }
    return made;
}

static bool reduce_shape(tg_op_call *call)
{
    const reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape shape = {0};
    for (int axis = 0; axis < x->rank; axis++) {
        if (!(a->reduced >> axis & 1)) {
            shape.size[shape.rank++] = x->shape[axis];
        } else if (a->keep) {
            shape.size[shape.rank++] = 1;
        }
    }
    return tg_op_expect_float(call, 0) && tg_op_output(call, 0, tg_dtype_of(x), shape);
}

static bool max_shape(tg_op_call *call)
{
    const reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    for (int axis = 0; axis < x->rank; axis++) {
        if ((a->reduced >> axis & 1) && x->shape[axis] == 0) {
            char text[TG_SHAPE_TEXT];
            return tg_op_fail(call, TG_ERROR_SHAPE, "the maximum over axis %d of %s, which is empty", axis,
                              tg_shape_format(tg_shape_of(x), text));
        }
    }
    return reduce_shape(call);
}

static bool any_layout(const tg_tensor *input, int i)
{
    (void)input;
    (void)i;
    return true;
}

static const tg_op sum_op = {.name = "sum",
                             .shape = reduce_shape,
                             .f32 = {tg_sum_forward_f32, tg_sum_backward_f32},
                             .f64 = {tg_sum_forward_f64, tg_sum_backward_f64},
                             .accepts_layout = any_layout};
static const tg_op mean_op = {.name = "mean",
                              .shape = reduce_shape,
                              .f32 = {tg_mean_forward_f32, tg_mean_backward_f32},
                              .f64 = {tg_mean_forward_f64, tg_mean_backward_f64},
                              .accepts_layout = any_layout};
static const tg_op max_op = {.name = "max",
                             .shape = max_shape,
                             .f32 = {tg_max_forward_f32, tg_max_backward_f32},
                             .f64 = {tg_max_forward_f64, tg_max_backward_f64},
                             .accepts_layout = any_layout,
                             .backward_reads_inputs = 1,
                             .backward_reads_outputs = 1};
static const tg_op var_op = {.name = "var",
                             .shape = reduce_shape,
                             .f32 = {tg_var_forward_f32, tg_var_backward_f32},
                             .f64 = {tg_var_forward_f64, tg_var_backward_f64},
                             .accepts_layout = any_layout,
                             .backward_reads_inputs = 1};

static tg_tensor *reduce(tg_tape *t, const tg_op *op, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep)
{
    int first = 0;
    if (!tg_tape_axis(t, op->name, x, &first)) {
        return NULL;
    }
    if (axes.count > TG_MAX_RANK) {
        return tg_tape_fail(t, TG_ERROR_RANGE, op->name, "%d axes; there are at most %d", axes.count, TG_MAX_RANK);
    }
    reduce_attributes attributes = {
        .reduced = axes.count < 0 ? ~0u : 0, .correction = correction, .keep = keep == TG_KEEP_AXES};
    for (int i = 0; i < axes.count; i++) {
        int axis = axes.axis[i];
        if (!tg_tape_axis(t, op->name, x, &axis)) {
            return NULL;
        }
        if (attributes.reduced >> axis & 1) {
            return tg_tape_fail(t, TG_ERROR_RANGE, op->name, "axis %d is named twice", axis);
        }
        attributes.reduced |= 1u << axis;
    }
    return tg_apply(t, op, &x, 1, &attributes, sizeof attributes);
}

tg_tensor *tg_sum(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return reduce(t, &sum_op, x, axes, 0, keep);
}

tg_tensor *tg_mean(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return reduce(t, &mean_op, x, axes, 0, keep);
}

tg_tensor *tg_max(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return reduce(t, &max_op, x, axes, 0, keep);
}

tg_tensor *tg_var(tg_tape *t, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep)
{
    return reduce(t, &var_op, x, axes, correction, keep);
}

#endif
