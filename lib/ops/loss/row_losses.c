/* row_losses: losses of rows: each row (D) of the inputs (..,D) has one loss.
 *
 *   cosine_embedding_loss   1 - c where t = 1, max(0, c - margin) where t = -1, else 0
 *                           c = a.b / sqrt((a.a + e) (b.b + e)), e = 1e-12
 *   gradient                dc/da = b / sqrt((a.a + e) (b.b + e)) - c a / (a.a + e),    and with a and b exchanged
 *
 *   triplet_margin_loss     max(0, d(a, p) - n + margin)
 *                           n = d(a, q), with swap the smaller one of d(a, q) and d(p, q)
 *                           d(a, b) = |a - b + eps|_p, Balntas et al. 2016
 *   gradient                dd/da = sign(u) (|u| / d)^(p-1), u = a - b + eps;    dd/db = -dd/da
 *
 * a is the anchor, p the positive and q the negative of a triplet. Sums are in double. Threads divide the rows, and the
 * losses are added in order, so the bits are the same for any number of threads. Follows
 * torch.nn.functional.cosine_embedding_loss and triplet_margin_loss.
 */
#include <tapegrad/extend.h>

#include "ops/lanes.h"
#include "ops/elementwise/elementwise_real.h"
#include "ops/loss/pointwise.h"
#include "ops/reduce/p_norm.h"

/* torch's constant, which is a float. */
static const double cosine_eps = (double)1e-12F;

typedef struct row_loss_attributes {
    tg_reduction reduction;
    double margin, p, eps;
    bool swap;
} row_loss_attributes;

TG_DECLARE_KERNELS(tg_cosine_embedding_loss_forward, tg_cosine_embedding_loss_backward);
TG_DECLARE_KERNELS(tg_triplet_margin_loss_forward, tg_triplet_margin_loss_backward);

/* The inputs of the loops; `losses` in the forward pass, the others in backward. */
typedef struct rows {
    const real *in[3];
    real *losses;
    const real *dy;
    real *dx[3];  /* NULL for an input without a gradient */
    double scale; /* 1 / divisor */
    int64_t count, width;
    row_loss_attributes a;
} rows;

static rows rows_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    rows r = {.in = {tg_values(x), tg_values(call->inputs[1]), tg_values(call->inputs[2])},
              .count = 1,
              .width = x->shape[x->rank - 1],
              .a = *(const row_loss_attributes *)call->attributes};
    for (int axis = 0; axis < x->rank - 1; axis++) {
        r.count *= x->shape[axis];
    }
    r.scale = 1 / tg_loss_divisor(r.a.reduction, r.count, r.count);
    return r;
}

static void forward(const tg_op_call *call, loop_body *body)
{
    rows r = rows_of(call);
    bool each = r.a.reduction == TG_REDUCTION_NONE;
    r.losses = each ? tg_values(call->outputs[0]) : call->scratch;
    tg_parallel_for(r.count, 1 + TG_GRAIN / 4 / (r.width + 1), body, &r);
    if (!each) {
        double divisor = tg_loss_divisor(r.a.reduction, r.count, r.count);
        *(real *)tg_values(call->outputs[0]) = (real)(row_sum(r.losses, r.count) / divisor);
    }
}

static void backward(const tg_op_call *call, loop_body *body)
{
    rows r = rows_of(call);
    r.dy = call->output_gradients[0];
    for (int i = 0; i < 3; i++) {
        r.dx[i] = call->input_gradients[i];
    }
    tg_parallel_for(r.count, 1 + TG_GRAIN / 4 / (r.width + 1), body, &r);
}

/* Returns the gradient of the loss of a row. */
static double gradient_of_loss(const rows *r, int64_t row)
{
    return (double)r->dy[r->a.reduction == TG_REDUCTION_NONE ? row : 0] * r->scale;
}

/* ---- cosine_embedding_loss ---- */

typedef struct cosine {
    double aa, bb, c; /* a.a + e, b.b + e, and c */
} cosine;

static cosine cosine_of(const real *a, const real *b, int64_t width)
{
    cosine of = {row_dot(a, a, width) + cosine_eps, row_dot(b, b, width) + cosine_eps, 0};
    of.c = row_dot(a, b, width) / sqrt(of.aa * of.bb);
    return of;
}

static void cosine_losses(void *context, int64_t begin, int64_t end)
{
    const rows *r = context;
    for (int64_t row = begin; row < end; row++) {
        double c = cosine_of(r->in[0] + row * r->width, r->in[1] + row * r->width, r->width).c;
        real target = r->in[2][row];
        double hinge = c - r->a.margin < 0 ? 0 : c - r->a.margin;
        r->losses[row] = (real)(target == 1 ? 1 - c : target == -1 ? hinge : 0);
    }
}

static void cosine_gradients(void *context, int64_t begin, int64_t end)
{
    const rows *r = context;
    for (int64_t row = begin; row < end; row++) {
        const real *x[] = {r->in[0] + row * r->width, r->in[1] + row * r->width};
        cosine of = cosine_of(x[0], x[1], r->width);
        real target = r->in[2][row];
        double dc = target == 1 ? -1 : target == -1 && of.c - r->a.margin >= 0 ? 1 : 0;
        dc *= gradient_of_loss(r, row);
        const double squares[] = {of.aa, of.bb}, scale = dc / sqrt(of.aa * of.bb);
        bool has_gradient = dc != 0 || of.c != of.c; /* 0 times NaN is NaN */
        for (int i = 0; i < 2 && has_gradient; i++) {
            double own = dc * of.c / squares[i];
            for (int64_t k = 0; r->dx[i] && k < r->width; k++) {
                r->dx[i][row * r->width + k] += (real)(scale * (double)x[1 - i][k] - own * (double)x[i][k]);
            }
        }
    }
}

void KERNEL(tg_cosine_embedding_loss_forward)(const tg_op_call *call)
{
    forward(call, cosine_losses);
}

void KERNEL(tg_cosine_embedding_loss_backward)(const tg_op_call *call)
{
    backward(call, cosine_gradients);
}

/* ---- triplet_margin_loss ---- */

/* Returns |a - b + eps|_p. */
static double distance(const real *a, const real *b, int64_t width, double eps, double p)
{
    double sum = p == 2 ? row_squared_distance(a, b, eps, width) : 0;
    for (int64_t k = 0; p != 2 && k < width; k++) {
        sum = tg_p_norm_add(sum, (double)a[k] - (double)b[k] + eps, p);
    }
    return tg_p_norm_root(sum, p);
}

/* Adds scale times the gradient of d = |a - b + eps|_p to da, and subtracts it from db. Either may be NULL. */
static void add_distance_gradient(const real *a, const real *b, int64_t width, const row_loss_attributes *t, double d,
                                  double scale, real *da, real *db)
{
    int64_t ties = 0;
    for (int64_t k = 0; t->p == (double)INFINITY && k < width; k++) {
        ties += fabs((double)a[k] - (double)b[k] + t->eps) == d;
    }
    for (int64_t k = 0; k < width; k++) {
        real gradient = (real)(scale * tg_p_norm_gradient((double)a[k] - (double)b[k] + t->eps, d, t->p, ties));
        if (da) {
            da[k] += gradient;
        }
        if (db) {
            db[k] -= gradient;
        }
    }
}

typedef struct triplet {
    double positive, negative, swapped; /* d(a, p), d(a, q) and d(p, q) */
    double share;                       /* of d(p, q) in n: on a tie each distance gets half, as in torch.minimum */
    double loss;
} triplet;

static triplet triplet_of(const rows *r, int64_t row)
{
    const real *a = r->in[0] + row * r->width, *p = r->in[1] + row * r->width, *q = r->in[2] + row * r->width;
    triplet d = {.positive = distance(a, p, r->width, r->a.eps, r->a.p),
                 .negative = distance(a, q, r->width, r->a.eps, r->a.p)};
    double least = d.negative;
    if (r->a.swap) {
        d.swapped = distance(p, q, r->width, r->a.eps, r->a.p);
        d.share = d.swapped < d.negative ? 1 : d.swapped == d.negative ? 0.5 : 0;
        least = d.swapped < least || d.swapped != d.swapped ? d.swapped : least;
    }
    d.loss = r->a.margin + d.positive - least;
    return d;
}

static void triplet_losses(void *context, int64_t begin, int64_t end)
{
    const rows *r = context;
    for (int64_t row = begin; row < end; row++) {
        double loss = triplet_of(r, row).loss;
        r->losses[row] = (real)(loss < 0 ? 0 : loss);
    }
}

static void triplet_gradients(void *context, int64_t begin, int64_t end)
{
    const rows *r = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * r->width;
        const real *a = r->in[0] + at, *p = r->in[1] + at, *q = r->in[2] + at;
        real *da = r->dx[0] ? r->dx[0] + at : NULL, *dp = r->dx[1] ? r->dx[1] + at : NULL,
             *dq = r->dx[2] ? r->dx[2] + at : NULL;
        triplet d = triplet_of(r, row);
        if (d.loss < 0 && isfinite(d.loss)) {
            continue;
        }
        double dl = d.loss >= 0 ? gradient_of_loss(r, row) : 0; /* 0 times NaN is NaN */
        add_distance_gradient(a, p, r->width, &r->a, d.positive, dl, da, dp);
        add_distance_gradient(a, q, r->width, &r->a, d.negative, -dl * (1 - d.share), da, dq);
        if (d.share > 0 || (r->a.swap && !isfinite(d.loss))) {
            add_distance_gradient(p, q, r->width, &r->a, d.swapped, -dl * d.share, dp, dq);
        }
    }
}

void KERNEL(tg_triplet_margin_loss_forward)(const tg_op_call *call)
{
    forward(call, triplet_losses);
}

void KERNEL(tg_triplet_margin_loss_backward)(const tg_op_call *call)
{
    backward(call, triplet_gradients);
}

#ifdef TG_ONCE

/* Checks that inputs 0 to `equal` - 1 are floats of one shape (..,D), and declares the output. */
static bool row_loss_shape(tg_op_call *call, int equal)
{
    const row_loss_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape losses = tg_shape_of(x);
    if (!tg_loss_check_reduction(call, a->reduction, false)) {
        return false;
    }
    for (int i = 0; i < equal; i++) {
        if (!tg_op_expect_float(call, i)) {
            return false;
        }
        if (x->rank == 0 || !tg_same_shape(x, call->inputs[i])) {
            return tg_loss_report_shapes(call, i, ", and (..,D)");
        }
    }
    losses.rank--;
    return tg_op_output(call, 0, tg_dtype_of(x), a->reduction == TG_REDUCTION_NONE ? losses : TG_SCALAR) &&
           tg_op_scratch(call, tg_shape_count(losses) + 1, sizeof(double));
}

static bool cosine_shape(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *target = call->inputs[2];
    tg_shape losses = tg_shape_of(x);
    if (!tg_op_expect_float(call, 2) || !tg_loss_expect_constant(call, 2, "target") || !row_loss_shape(call, 2)) {
        return false;
    }
    losses.rank--;
    return tg_shape_equal(losses, tg_shape_of(target)) ||
           tg_op_fail(call, TG_ERROR_SHAPE, "rows %s and a target %s; they must be (..,D) and (..)",
                      tg_shape_text_of(x).text, tg_shape_text_of(target).text);
}

static bool triplet_shape(tg_op_call *call)
{
    return row_loss_shape(call, 3);
}

static const tg_op cosine_op = {
    .name = "cosine_embedding_loss",
    .shape = cosine_shape,
    .input_names = {"a", "b", "target"},
    TG_KERNELS(tg_cosine_embedding_loss_forward, tg_cosine_embedding_loss_backward),
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op triplet_op = {
    .name = "triplet_margin_loss",
    .shape = triplet_shape,
    .input_names = {"anchor", "positive", "negative"},
    TG_KERNELS(tg_triplet_margin_loss_forward, tg_triplet_margin_loss_backward),
    .backward_ignores_outputs = TG_OP_ALL,
};

TG_CONFIG(tg_cosine_embedding_loss_config, tg_cosine_embedding_loss_config_default, cosine_mark, .mark = cosine_mark);

tg_tensor *tg_cosine_embedding_loss(tg_tape *t, tg_tensor *a, tg_tensor *b, tg_tensor *target,
                                    const tg_cosine_embedding_loss_config *given)
{
    if (!tg_tape_expect_config(t, cosine_op.name, given, cosine_mark)) {
        return NULL;
    }
    tg_cosine_embedding_loss_config c = given ? *given : tg_cosine_embedding_loss_config_default();
    if (!isfinite(c.margin)) {
        tg_tape_fail(t, TG_ERROR_VALUE, cosine_op.name, "margin %g; it must be finite", c.margin);
        return NULL;
    }
    tg_tensor *inputs[] = {a, b, target};
    row_loss_attributes attributes = {.reduction = c.reduction, .margin = c.margin};
    return tg_apply(t, &cosine_op, inputs, 3, &attributes, sizeof attributes, NULL);
}

TG_CONFIG(tg_triplet_margin_loss_config, tg_triplet_margin_loss_config_default, triplet_mark, .mark = triplet_mark,
          .margin = 1, .p = 2, .eps = 1e-6);

tg_tensor *tg_triplet_margin_loss(tg_tape *t, tg_tensor *anchor, tg_tensor *positive, tg_tensor *negative,
                                  const tg_triplet_margin_loss_config *given)
{
    if (!tg_tape_expect_config(t, triplet_op.name, given, triplet_mark)) {
        return NULL;
    }
    tg_triplet_margin_loss_config c = given ? *given : tg_triplet_margin_loss_config_default();
    if (!(c.margin > 0 && isfinite(c.margin)) || !(c.p > 0) || !(c.eps >= 0 && isfinite(c.eps))) {
        tg_tape_fail(t, TG_ERROR_VALUE, triplet_op.name,
                     "margin %g, p %g and eps %g; margin and p must be above 0, eps at least 0, margin and eps finite",
                     c.margin, c.p, c.eps);
        return NULL;
    }
    tg_tensor *inputs[] = {anchor, positive, negative};
    row_loss_attributes attributes = {c.reduction, c.margin, c.p, c.eps, c.swap};
    return tg_apply(t, &triplet_op, inputs, 3, &attributes, sizeof attributes, NULL);
}

#endif
