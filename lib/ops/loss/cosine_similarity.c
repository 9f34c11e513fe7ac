/* cosine_similarity: the cosine of the angle between lines of two tensors.
 *
 *   forward     y = sum_i a_i b_i / (A B)                    A = max(|a|, eps), B = max(|b|, eps)
 *   gradient    da_i += dy (b_i / B - y a_i / |a|) / A       and with a and b exchanged; 0 for a_i / |a| where |a| = 0
 *
 * The lines lie along one axis; both inputs have one shape and any strides (the call broadcasts them). As in torch, the
 * gradient is that of y without the maximum, so for a norm below eps it is not the true derivative. Sums are in double.
 * Follows torch.nn.functional.cosine_similarity.
 */
#include "ops/kernel.h"

typedef struct cosine_attributes {
    double eps;
    int axis;
} cosine_attributes;

TG_DECLARE_KERNEL(tg_cosine_similarity_forward);
TG_DECLARE_KERNEL(tg_cosine_similarity_backward);

/* The walk visits the lines; it has the strides of both inputs. */
typedef struct cosines {
    tg_walk walk;
    const real *x[2], *dy;
    real *y, *dx[2];
    axis_split axis;
    int64_t stride[2]; /* of the axis */
    double eps;
} cosines;

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

/* Writes |a| and |b|, and returns a.b. */
static double products(const cosines *c, const real *a, const real *b, double norm[2])
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < c->axis.size; i++) {
        double a_i = (double)a[i * c->stride[0]], b_i = (double)b[i * c->stride[1]];
        ab += a_i * b_i;
        aa += a_i * a_i;
        bb += b_i * b_i;
    }
    norm[0] = sqrt(aa);
    norm[1] = sqrt(bb);
    return ab;
}

static void similarities(void *context, int64_t begin, int64_t end)
{
    const cosines *c = context;
    tg_cursor at = tg_walk_begin(&c->walk, begin);
    for (int64_t line = begin; line < end; line++) {
        double norm[2], ab = products(c, c->x[0] + at.offset, c->x[1] + at.other_offset, norm);
        c->y[line] = (real)(ab / ((norm[0] < c->eps ? c->eps : norm[0]) * (norm[1] < c->eps ? c->eps : norm[1])));
        tg_walk_advance(&c->walk, &at, 1);
    }
}

static void similarity_gradients(void *context, int64_t begin, int64_t end)
{
    const cosines *c = context;
    tg_cursor at = tg_walk_begin(&c->walk, begin);
    for (int64_t line = begin; line < end; line++) {
        const real *x[] = {c->x[0] + at.offset, c->x[1] + at.other_offset};
        double norm[2], y = products(c, x[0], x[1], norm);
        double limited[] = {norm[0] < c->eps ? c->eps : norm[0], norm[1] < c->eps ? c->eps : norm[1]};
        y /= limited[0] * limited[1];
        for (int k = 0; k < 2; k++) {
            double scale = (double)c->dy[line] / limited[k];
            double own = norm[k] > 0 || y != y ? scale * y / norm[k] : 0; /* NaN if a norm is not finite */
            real *dx = c->dx[k] ? c->dx[k] + line_offset(&c->axis, line) : NULL;
            for (int64_t i = 0; dx && i < c->axis.size; i++) {
                dx[i * c->axis.inner] += (real)(scale / limited[1 - k] * (double)x[1 - k][i * c->stride[1 - k]] -
                                                own * (double)x[k][i * c->stride[k]]);
            }
        }
        tg_walk_advance(&c->walk, &at, 1);
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
    char a_text[TG_SHAPE_TEXT], b_text[TG_SHAPE_TEXT];
    if (!(eps >= 0 && isfinite(eps))) {
        tg_tape_fail(t, TG_ERROR_VALUE, name, "eps %g; it must be finite, and 0 or more", eps);
        return NULL;
    }
    if (!tg_shape_broadcast(&a_shape, &b_shape, &joined)) {
        tg_tape_fail(t, TG_ERROR_SHAPE, name, "shapes %s and %s do not broadcast: sizes must be equal or 1",
                     tg_shape_format(a_shape, a_text), tg_shape_format(b_shape, b_text));
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
