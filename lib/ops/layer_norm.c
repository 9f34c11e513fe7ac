/* layer_norm: normalizes each row to mean 0 and variance 1, then applies a weight and a bias.
 *
 *   forward     y = n w + b,    n = (x - m) r,    r = 1 / sqrt(v + eps)       m, v: mean and biased variance of the row
 *   gradient    db += dy        dw += dy n        summed over rows
 *               dx += r (g - mean(g) - n mean(g n)),    g = dy w
 *
 * (Ba, Kiros and Hinton 2016.) Forward saves m and r of each row, in double; backward recomputes n from x. Threads
 * divide the rows for y and dx, and the columns for dw and db, so one thread computes each sum, in the order of the
 * rows. Follows torch.nn.functional.layer_norm over the last axis.
 */
#include "ops/lanes.h"

TG_DECLARE_KERNEL(tg_layer_norm_forward);
TG_DECLARE_KERNEL(tg_layer_norm_backward);

typedef struct row_statistics {
    double mean, inverse; /* m and r */
} row_statistics;

typedef struct norm {
    const real *x, *weight, *bias, *dy;
    real *y, *dx, *dweight, *dbias;
    bool overwrite;
    row_statistics *rows;
    int64_t count, width; /* number of rows, and of values per row */
    double eps;
} norm;

static norm norm_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    int64_t width = x->shape[x->rank - 1];
    norm n = {.x = tg_values(x),
              .weight = tg_values(call->inputs[1]),
              .bias = tg_values(call->inputs[2]),
              .y = tg_values(call->outputs[0]),
              .rows = call->saved,
              .count = x->count / width,
              .width = width,
              .eps = *(const double *)call->attributes};
    return n;
}

/* Returns sum_c (x_c - mean)^2, in the lanes of lanes.h. */
static inline double squared_deviations(const real *x, double mean, int64_t n)
{
    double lane[LANES] = {0};
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        for (int k = 0; k < LANES; k++) {
            lane[k] += ((double)x[c + k] - mean) * ((double)x[c + k] - mean);
        }
    }
    for (; c < n; c++) {
        lane[0] += ((double)x[c] - mean) * ((double)x[c] - mean);
    }
    return sum_of_lanes(lane);
}

static void normalize_rows(void *context, int64_t begin, int64_t end)
{
    const norm *n = context;
    for (int64_t row = begin; row < end; row++) {
        const real *x = n->x + row * n->width;
        real *y = n->y + row * n->width;
        double mean = row_sum(x, n->width) / (double)n->width;
        double squares = squared_deviations(x, mean, n->width);
        double inverse = 1 / sqrt(squares / (double)n->width + n->eps);
        for (int64_t c = 0; c < n->width; c++) {
            y[c] = (real)(((double)x[c] - mean) * inverse) * n->weight[c] + n->bias[c];
        }
        n->rows[row] = (row_statistics){mean, inverse};
    }
}

void KERNEL(tg_layer_norm_forward)(const tg_op_call *call)
{
    norm n = norm_of(call);
    tg_parallel_for(n.count, 1 + TG_GRAIN / 4 / n.width, normalize_rows, &n);
}

/* Adds dx of the rows begin .. end - 1. The forward pass computed n = (x - m) r, y = n w + b. */
static void gradient_of_rows(void *context, int64_t begin, int64_t end)
{
    const norm *n = context;
    const real *weight = n->weight;
    const int64_t width = n->width;
    for (int64_t row = begin; row < end; row++) {
        const real *x = n->x + row * width, *dy = n->dy + row * width;
        real *dx = n->dx + row * width;
        double mean = n->rows[row].mean, inverse = n->rows[row].inverse;
        double mean_g = row_dot(dy, weight, width) / (double)width;
        double mean_gn = inverse * row_weighted_dot(x, mean, dy, weight, width) / (double)width;
        if (n->overwrite) {
            memset(dx, 0, (size_t)width * sizeof(real)); /* row by row, so that it stays in the cache */
        }
        for (int64_t c = 0; c < width; c++) {
            double normal = ((double)x[c] - mean) * inverse;
            dx[c] += (real)(inverse * ((double)dy[c] * (double)weight[c] - mean_g - normal * mean_gn));
        }
    }
}

/* Adds dw and db of the columns begin .. end - 1. */
static void gradient_of_columns(void *context, int64_t begin, int64_t end)
{
    const norm *n = context;
    for (int64_t row = 0; row < n->count; row++) {
        const real *x = n->x + row * n->width, *dy = n->dy + row * n->width;
        real *dweight = n->dweight, *dbias = n->dbias;
        double mean = n->rows[row].mean, inverse = n->rows[row].inverse;
        for (int64_t c = begin; dweight && c < end; c++) {
            dweight[c] += dy[c] * (real)(((double)x[c] - mean) * inverse);
        }
        for (int64_t c = begin; dbias && c < end; c++) {
            dbias[c] += dy[c];
        }
    }
}

void KERNEL(tg_layer_norm_backward)(const tg_op_call *call)
{
    norm n = norm_of(call);
    n.dy = call->output_gradients[0];
    n.dx = call->input_gradients[0];
    n.dweight = call->input_gradients[1];
    n.dbias = call->input_gradients[2];
    n.overwrite = call->overwrite[0];
    for (int i = 1; i < 3; i++) {
        if (call->input_gradients[i] && call->overwrite[i]) {
            memset(call->input_gradients[i], 0, (size_t)n.width * sizeof(real));
        }
    }
    if (n.dx) {
        tg_parallel_for(n.count, 1 + TG_GRAIN / 4 / n.width, gradient_of_rows, &n);
    }
    if (n.dweight || n.dbias) {
        tg_parallel_for(n.width, 1 + TG_GRAIN / (n.count + 1), gradient_of_columns, &n);
    }
}

#ifdef TG_ONCE

static bool layer_norm_shape(tg_op_call *call)
{
    double eps = *(const double *)call->attributes;
    const tg_tensor *x = call->inputs[0], *weight = call->inputs[1], *bias = call->inputs[2];
    char x_text[TG_SHAPE_TEXT], weight_text[TG_SHAPE_TEXT], bias_text[TG_SHAPE_TEXT];
    int64_t width = x->rank > 0 ? x->shape[x->rank - 1] : 0;
    tg_shape row = tg_shape_make(1, &width);
    for (int i = 0; i < 3; i++) {
        if (!tg_op_expect_float(call, i)) {
            return false;
        }
    }
    if (width < 1 || !tg_shape_equal(tg_shape_of(weight), row) || !tg_shape_equal(tg_shape_of(bias), row)) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "x is %s, the weight %s, the bias %s; they must be (..,C), (C) and (C) with C >= 1",
                          tg_shape_format(tg_shape_of(x), x_text), tg_shape_format(tg_shape_of(weight), weight_text),
                          tg_shape_format(tg_shape_of(bias), bias_text));
    }
    if (!(eps > 0)) {
        return tg_op_fail(call, TG_ERROR_VALUE, "eps is %g; it must be above 0", eps);
    }
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) &&
           tg_op_save(call, x->count / width, sizeof(row_statistics));
}

static const tg_op layer_norm_op = {
    .name = "layer_norm",
    .shape = layer_norm_shape,
    TG_KERNELS(tg_layer_norm_forward, tg_layer_norm_backward),
    .backward_ignores_inputs = 1u << 2, /* the bias */
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
};

tg_tensor *tg_layer_norm(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *bias, double eps)
{
    tg_tensor *inputs[] = {x, weight, bias};
    return tg_apply(t, &layer_norm_op, inputs, 3, &eps, sizeof eps, NULL);
}

#endif
