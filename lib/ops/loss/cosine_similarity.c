/* cosine_similarity: the cosine of the angle between lines of two tensors.
 *
 *   forward     y = sum_i a_i b_i / (A B)                    A = max(|a|, eps), B = max(|b|, eps)
 *   gradient    da_i += dy (b_i / B - y a_i / |a|) / A       and with a and b exchanged; 0 for a_i / |a| where |a| = 0
 *
 * The lines lie along one axis; both inputs have one shape and any strides (the call broadcasts them). As in torch, the
 * gradient is that of y without the maximum, so for a norm below eps it is not the true derivative. Sums are in double.
 * Lines that are side by side in memory are visited together, so that each cache line is read once.
 * Follows torch.nn.functional.cosine_similarity.
 */
#include "ops/kernel_real.h"

typedef struct cosine_attributes {
    double eps;
    int axis;
} cosine_attributes;

TG_DECLARE_KERNELS(tg_cosine_similarity_forward, tg_cosine_similarity_backward);

enum { COSINE_LINES = 16 }; /* the most that are visited together */

/* The walk visits the lines; it has the strides of both inputs. */
typedef struct cosines {
    tg_walk walk;
    const real *x[2], *dy;
    real *y, *dx[2];
    axis_split axis;
    int64_t stride[2]; /* of the axis */
    double eps;
    bool overwrite[2];
} cosines;

/* The results of some lines. */
typedef struct line_results {
    double y[COSINE_LINES], norm[2][COSINE_LINES], limited[2][COSINE_LINES]; /* a.b / (A B), |a| and |b|, A and B */
} line_results;

static cosines cosines_of(const tg_op_call *call)
{
    const cosine_attributes *attributes = call->attributes;
    const tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    cosines c = {.walk = tg_walk_new(),
                 .x = {tg_values(a), tg_values(b)},
                 .y = tg_values(call->outputs[0]),
                 .axis = split_at_axis(a, attributes->axis),
                 .eps = attributes->eps};
    for (int i = 0; i < a->rank; i++) {
        if (i == attributes->axis) {
            c.stride[0] = a->strides[i];
            c.stride[1] = b->strides[i];
        } else {
            tg_walk_add_axis(&c.walk, a->shape[i], a->strides[i], b->strides[i]);
        }
    }
    return c;
}

/* Returns how many lines from the cursor on, at most `most`, are side by side in both inputs and in the gradients. */
static int64_t lines_at(const cosines *c, const tg_cursor *at, int64_t line, int64_t most)
{
    int64_t left = c->axis.inner - line % c->axis.inner,
            n = tg_walk_run(&c->walk, at, most < COSINE_LINES ? most : COSINE_LINES);
    bool neighbors = tg_walk_stride(&c->walk) == 1 && tg_walk_other_stride(&c->walk) == 1;
    return neighbors ? (n < left ? n : left) : 1;
}

/* Computes the results of n lines. */
static inline void reduce_lines(const cosines *c, const real *a, const real *b, int64_t n, line_results *lines)
{
    double ab[COSINE_LINES] = {0}, aa[COSINE_LINES] = {0}, bb[COSINE_LINES] = {0};
    for (int64_t i = 0; i < c->axis.size; i++) {
        for (int64_t k = 0; k < n; k++) {
            double a_i = (double)a[i * c->stride[0] + k], b_i = (double)b[i * c->stride[1] + k];
            ab[k] += a_i * b_i;
            aa[k] += a_i * a_i;
            bb[k] += b_i * b_i;
        }
    }
    for (int64_t k = 0; k < n; k++) {
        double norms[] = {sqrt(aa[k]), sqrt(bb[k])};
        for (int side = 0; side < 2; side++) {
            lines->norm[side][k] = norms[side];
            lines->limited[side][k] = norms[side] < c->eps ? c->eps : norms[side];
        }
        lines->y[k] = ab[k] / (lines->limited[0][k] * lines->limited[1][k]);
    }
}

static void similarities(void *context, int64_t begin, int64_t end)
{
    const cosines *c = context;
    tg_cursor at = tg_walk_begin(&c->walk, begin);
    for (int64_t line = begin, n; line < end; line += n) {
        const real *a = c->x[0] + at.offset, *b = c->x[1] + at.other_offset;
        line_results lines;
        n = lines_at(c, &at, line, end - line);
        reduce_lines(c, a, b, n, &lines);
        for (int64_t k = 0; k < n; k++) {
            c->y[line + k] = (real)lines.y[k];
        }
        tg_walk_advance(&c->walk, &at, n);
    }
}

/* Writes, or adds, the gradients of n lines of the input `side`: other_scale other - own_scale x. */
static inline void differentiate_lines(const cosines *c, int side, const real *x, const real *other, int64_t n,
                                       const double *own_scale, const double *other_scale, real *restrict dx)
{
    for (int64_t i = 0; i < c->axis.size; i++) {
        const real *x_i = x + i * c->stride[side], *other_i = other + i * c->stride[1 - side];
        real *dx_i = dx + i * c->axis.inner;
        for (int64_t k = 0; k < n; k++) {
            real slope = (real)(other_scale[k] * (double)other_i[k] - own_scale[k] * (double)x_i[k]);
            dx_i[k] = accumulated(c->overwrite[side], dx_i[k], slope);
        }
    }
}

static void similarity_gradients(void *context, int64_t begin, int64_t end)
{
    const cosines *c = context;
    tg_cursor at = tg_walk_begin(&c->walk, begin);
    for (int64_t line = begin, n; line < end; line += n) {
        const real *x[] = {c->x[0] + at.offset, c->x[1] + at.other_offset};
        line_results lines;
        n = lines_at(c, &at, line, end - line);
        reduce_lines(c, x[0], x[1], n, &lines);
        for (int side = 0; side < 2; side++) {
            double own[COSINE_LINES], other[COSINE_LINES];
            for (int64_t k = 0; k < n; k++) {
                double scale = (double)c->dy[line + k] / lines.limited[side][k], norm = lines.norm[side][k];
                /* NaN if a norm is not finite */
                own[k] = norm > 0 || lines.y[k] != lines.y[k] ? scale * lines.y[k] / norm : 0;
                other[k] = scale / lines.limited[1 - side][k];
            }
            real *dx = c->dx[side] ? c->dx[side] + line_offset(&c->axis, line) : NULL;
            if (dx) {
                differentiate_lines(c, side, x[side], x[1 - side], n, own, other, dx);
            }
        }
        tg_walk_advance(&c->walk, &at, n);
    }
}

void KERNEL(tg_cosine_similarity_forward)(const tg_op_call *call)
{
    cosines c = cosines_of(call);
    tg_parallel_for(c.walk.count, 1 + TG_GRAIN / 4 / (c.axis.size + 1), similarities, &c);
}

/* The forward pass computed y = sum a b / (A B). */
void KERNEL(tg_cosine_similarity_backward)(const tg_op_call *call)
{
    cosines c = cosines_of(call);
    c.dy = call->output_gradients[0];
    c.dx[0] = call->input_gradients[0];
    c.dx[1] = call->input_gradients[1];
    c.overwrite[0] = writes_gradient(call, 0);
    c.overwrite[1] = writes_gradient(call, 1);
    tg_parallel_for(c.walk.count, 1 + TG_GRAIN / 4 / (c.axis.size + 1), similarity_gradients, &c);
}

#ifdef TG_ONCE

static bool cosine_shape(tg_op_call *call)
{
    int axis = ((const cosine_attributes *)call->attributes)->axis;
    tg_shape x = tg_shape_of(call->inputs[0]), shape = {0};
    for (int i = 0; i < x.rank; i++) {
        if (i != axis) {
            shape.size[shape.rank++] = x.size[i];
        }
    }
    return tg_op_expect_float(call, 0) && tg_op_expect_float(call, 1) &&
           tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

static const tg_op cosine_op = {
    .name = "cosine_similarity",
    .shape = cosine_shape,
    .input_names = {"a", "b"},
    TG_KERNELS(tg_cosine_similarity_forward, tg_cosine_similarity_backward),
    .accepts_layout = tg_any_layout,
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
};

/* Returns x expanded to the shape: x itself if it has the shape. */
static tg_tensor *expanded(tg_tape *t, tg_tensor *x, tg_shape shape)
{
    return tg_shape_equal(tg_shape_of(x), shape) ? x : tg_expand(t, x, shape);
}

tg_tensor *tg_cosine_similarity(tg_tape *t, tg_tensor *a, tg_tensor *b, int axis, double eps)
{
    const char *name = cosine_op.name;
    if (!tg_tape_expect_input(t, name, "a", a) || !tg_tape_expect_input(t, name, "b", b)) {
        return NULL;
    }
    tg_shape a_shape = tg_shape_of(a), b_shape = tg_shape_of(b), joined;
    if (!(eps >= 0 && isfinite(eps))) {
        tg_tape_fail(t, TG_ERROR_VALUE, name, "eps %g; it must be finite, and 0 or more", eps);
        return NULL;
    }
    if (!tg_shape_broadcast(&a_shape, &b_shape, &joined)) {
        tg_tape_fail(t, TG_ERROR_SHAPE, name, "shapes %s and %s do not broadcast: sizes must be equal or 1",
                     tg_shape_text(a_shape).text, tg_shape_text(b_shape).text);
        return NULL;
    }
    int asked = axis, rank = joined.rank > 0 ? joined.rank : 1;
    if (!tg_axis_normalize(rank, &axis)) {
        tg_tape_fail(t, TG_ERROR_RANGE, name, "axis %d is outside [%d,%d) for rank %d", asked, -rank, rank,
                     joined.rank);
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *inputs[] = {expanded(t, a, joined), expanded(t, b, joined)};
    cosine_attributes attributes = {eps, axis};
    return tg_tape_end(t, &point, tg_apply(t, &cosine_op, inputs, 2, &attributes, sizeof attributes, NULL));
}

#endif
