/* rms_norm: divides each row by its root mean square, then multiplies by a weight.
 *
 *   forward     y = n w,    n = x r,    r = 1 / sqrt(mean(x^2) + eps)
 *   gradient    dw += dy n              summed over the rows
 *               dx += r (g - n mean(g n)),    g = dy w
 *
 * (Zhang and Sennrich 2019.) Forward saves r of each row, in double. Threads divide the rows for y and dx, and the
 * columns for dw, so one thread computes each sum, in the order of the rows. Follows torch.nn.functional.rms_norm over
 * the last axis.
 */
#include "ops/differentiate.h"
#include "ops/lanes.h"

TG_DECLARE_KERNELS(tg_rms_norm_forward, tg_rms_norm_backward);

typedef struct rms {
    const real *x, *weight, *dy;
    real *y, *dx, *dweight;
    bool overwrite;
    double *inverses;     /* r of each row */
    int64_t count, width; /* number of rows, and of values per row */
    double eps;
} rms;

static rms rms_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    int64_t width = x->shape[x->rank - 1];
    return (rms){.x = tg_values(x),
                 .weight = tg_values(call->inputs[1]),
                 .y = tg_values(call->outputs[0]),
                 .inverses = call->saved,
                 .count = x->count / width,
                 .width = width,
                 .eps = *(const double *)call->attributes};
}

static void normalize_rows(void *context, int64_t begin, int64_t end)
{
    const rms *n = context;
    for (int64_t row = begin; row < end; row++) {
        const real *x = n->x + row * n->width;
        real *y = n->y + row * n->width;
        double inverse = 1 / sqrt(row_dot(x, x, n->width) / (double)n->width + n->eps);
        for (int64_t c = 0; c < n->width; c++) {
            y[c] = (real)((double)x[c] * inverse) * n->weight[c];
        }
        n->inverses[row] = inverse;
    }
}

void KERNEL(tg_rms_norm_forward)(const tg_op_call *call)
{
    rms n = rms_of(call);
    tg_parallel_for(n.count, 1 + TG_GRAIN / 4 / n.width, normalize_rows, &n);
}

/* Adds dx of the rows begin .. end - 1. The forward pass computed y = x r w. */
static void gradient_of_rows(void *context, int64_t begin, int64_t end)
{
    const rms *n = context;
    for (int64_t row = begin; row < end; row++) {
        const real *x = n->x + row * n->width, *dy = n->dy + row * n->width;
        real *dx = n->dx + row * n->width;
        double inverse = n->inverses[row];
        double mean_gn = row_weighted_dot(x, 0, dy, n->weight, n->width) * inverse / (double)n->width;
        for (int64_t c = 0; c < n->width; c++) {
            double normal = (double)x[c] * inverse;
            real gradient = (real)(inverse * ((double)dy[c] * (double)n->weight[c] - normal * mean_gn));
            dx[c] = accumulated(n->overwrite, dx[c], gradient);
        }
    }
}

/* Adds dw of the columns begin .. end - 1. */
static void gradient_of_columns(void *context, int64_t begin, int64_t end)
{
    const rms *n = context;
    for (int64_t row = 0; row < n->count; row++) {
        const real *x = n->x + row * n->width, *dy = n->dy + row * n->width;
        for (int64_t c = begin; c < end; c++) {
            n->dweight[c] += dy[c] * (real)((double)x[c] * n->inverses[row]);
        }
    }
}

void KERNEL(tg_rms_norm_backward)(const tg_op_call *call)
{
    rms n = rms_of(call);
    n.dy = call->output_gradients[0];
    n.dx = call->input_gradients[0];
    n.dweight = call->input_gradients[1];
    n.overwrite = writes_gradient(call, 0);
    if (n.dx) {
        tg_parallel_for(n.count, 1 + TG_GRAIN / 4 / n.width, gradient_of_rows, &n);
    }
    if (n.dweight) {
        if (writes_gradient(call, 1)) {
            memset(n.dweight, 0, (size_t)n.width * sizeof(real));
        }
        tg_parallel_for(n.width, 1 + TG_GRAIN / (n.count + 1), gradient_of_columns, &n);
    }
}

#ifdef TG_ONCE

static bool rms_norm_shape(tg_op_call *call)
{
    double eps = *(const double *)call->attributes;
    const tg_tensor *x = call->inputs[0], *weight = call->inputs[1];
    int64_t width = x->rank > 0 ? x->shape[x->rank - 1] : 0;
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
        return false;
    }
    if (width < 1 || weight->rank != 1 || weight->shape[0] != width) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s and the weight %s; they must be (..,C) and (C) with C >= 1",
                          tg_shape_text_of(x).text, tg_shape_text_of(weight).text);
    }
    if (!(eps > 0)) {
        return tg_op_fail(call, TG_ERROR_VALUE, "eps is %g; it must be above 0", eps);
    }
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) && tg_op_save(call, x->count / width, sizeof(double));
}

static void differentiate_rms_norm(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_differentiate_rms(t, call, false, dy, dx);
}

static const tg_op rms_norm_op = {
    .name = "rms_norm",
    .shape = rms_norm_shape,
    .input_names = {"x", "weight"},
    TG_KERNELS(tg_rms_norm_forward, tg_rms_norm_backward),
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_rms_norm,
};

tg_tensor *tg_rms_norm(tg_tape *t, tg_tensor *x, tg_tensor *weight, double eps)
{
    if (!tg_tape_expect_input(t, "rms_norm", "x", x)) {
        return NULL;
    }
    tg_shape row = tg_shape_make(1, (int64_t[]){tg_tensor_size(x, -1)});
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *inputs[] = {x, weight ? weight : tg_full(t, tg_dtype_of(x), row, 1)};
    return tg_tape_end(t, &point, tg_apply(t, &rms_norm_op, inputs, 2, &eps, sizeof eps, NULL));
}

#endif
