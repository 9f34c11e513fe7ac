/* layer_norm: normalizes each row to mean 0 and variance 1, then applies a weight and a bias.
 *
 *   forward     y = n w + b,    n = (x - m) r,    r = 1 / sqrt(v + eps)       m, v: mean and biased variance of the row
 *   gradient    db += dy        dw += dy n        summed over rows
 *               dx += r (g - mean(g) - n mean(g n)),    g = dy w
 *
 * (Ba, Kiros and Hinton 2016.) Forward saves m and r of each row, in double; backward recomputes n from x. Threads
 * divide the rows. In backward they divide CHUNKS chunks of rows, and the sums of dw and db over the chunks are added
 * in order, so the bits do not depend on the number of threads. Follows torch.nn.functional.layer_norm over the last
 * axis.
 */
#include "ops/lanes.h"

#define CHUNKS 16

TG_DECLARE_KERNEL(tg_layer_norm_forward);
TG_DECLARE_KERNEL(tg_layer_norm_backward);

typedef struct row_statistics {
    double mean, inverse; /* m and r */
} row_statistics;

typedef struct norm {
    const real *x, *weight, *bias, *dy;
    real *y, *dx;
    bool overwrite;
    real *scratch; /* in backward, per chunk four rows: its sums of dw and db, then n and g of the current row */
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

/* Adds dx of one row, and its parts of dw and db. `normal` and `g` are scratch memory for a row. The forward pass
 * computed n = (x - m) r, y = n w + b. */
static void gradient_of_row(const norm *n, int64_t row, real *restrict normal, real *restrict g, real *restrict dw,
                            real *restrict db)
{
    const int64_t width = n->width;
    const real *x = n->x + row * width, *dy = n->dy + row * width, *weight = n->weight;
    double mean = n->rows[row].mean, inverse = n->rows[row].inverse;
    for (int64_t c = 0; c < width; c++) {
        normal[c] = (real)(((double)x[c] - mean) * inverse);
        g[c] = dy[c] * weight[c];
        dw[c] += dy[c] * normal[c];
        db[c] += dy[c];
    }
    if (!n->dx) {
        return;
    }
    real mean_g = (real)(row_sum(g, width) / (double)width);
    real mean_gn = (real)(row_dot(g, normal, width) / (double)width);
    real factor = (real)inverse, *dx = n->dx + row * width;
    for (int64_t c = 0; c < width; c++) {
        real gradient = factor * (g[c] - mean_g - normal[c] * mean_gn);
        dx[c] = accumulated(n->overwrite, dx[c], gradient);
    }
}

/* Adds dx of the rows of the chunks begin .. end - 1, and writes the sums of dw and db over each chunk. */
static void gradient_of_chunks(void *context, int64_t begin, int64_t end)
{
    const norm *n = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        real *dw = n->scratch + chunk * 4 * n->width, *db = dw + n->width, *normal = db + n->width;
        memset(dw, 0, 2 * (size_t)n->width * sizeof(real));
        for (int64_t row = chunk * n->count / CHUNKS; row < (chunk + 1) * n->count / CHUNKS; row++) {
            gradient_of_row(n, row, normal, normal + n->width, dw, db);
        }
    }
}

/* Adds the sums of all chunks, in order. `offset` is that of the first chunk's sums. */
static void add_chunks(const norm *n, int64_t offset, real *gradient, bool overwrite)
{
    for (int64_t chunk = 0; gradient && chunk < CHUNKS; chunk++) {
        const real *sums = n->scratch + chunk * 4 * n->width + offset;
        for (int64_t c = 0; c < n->width; c++) {
            gradient[c] = accumulated(overwrite && chunk == 0, gradient[c], sums[c]);
        }
    }
}

void KERNEL(tg_layer_norm_backward)(const tg_op_call *call)
{
    norm n = norm_of(call);
    n.dy = call->output_gradients[0];
    n.dx = call->input_gradients[0];
    n.overwrite = call->overwrite[0];
    n.scratch = call->scratch;
    tg_parallel_for(CHUNKS, 1 + TG_GRAIN / 4 * CHUNKS / (n.count * n.width + 1), gradient_of_chunks, &n);
    add_chunks(&n, 0, call->input_gradients[1], call->overwrite[1]);
    add_chunks(&n, n.width, call->input_gradients[2], call->overwrite[2]);
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
           tg_op_save(call, x->count / width, sizeof(row_statistics)) &&
           tg_op_backward_scratch(call, (int64_t)CHUNKS * 4 * width, tg_size_of(x->dtype));
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
    if (!tg_tape_expect_tensor(t, "layer_norm", "input", x)) {
        return NULL;
    }
    tg_dtype dtype = tg_dtype_of(x);
    tg_shape row = tg_shape_make(1, (int64_t[]){tg_tensor_size(x, -1)});
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *inputs[] = {x, weight ? weight : tg_full(t, dtype, row, 1), bias ? bias : tg_full(t, dtype, row, 0)};
    return tg_tape_end(t, &point, tg_apply(t, &layer_norm_op, inputs, 3, &eps, sizeof eps, NULL));
}

#endif
