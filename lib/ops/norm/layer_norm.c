/* layer_norm: normalizes each row to mean 0 and variance 1, then applies a weight and a bias.
 *
 *   forward     y = n w + b,    n = (x - m) r,    r = 1 / sqrt(v + eps)       m, v: mean and biased variance of the row
 *   gradient    db += dy        dw += dy n        summed over rows
 *               dx += r (g - mean(g) - n mean(g n)),    g = dy w
 *
 * (Ba, Kiros and Hinton 2016.) Forward saves m and r of each row, in double; backward recomputes n from x. Sums over a
 * row have LANES lanes of `real`, which are added to sums in double every ROW_PART values. So vectors are as long as
 * the processor's, and rounding errors do not grow with the row. The mean that follows from the rounded sum is a
 * center: the mean of the differences from it is added, and its square subtracted from their mean square (Chan, Golub
 * and LeVeque 1983). For equal values the differences and their sums are exact, so x - m and v are 0. m is subtracted
 * in two steps, the nearest `real` and the rest, because the rounding of a mean far from 0 would be large beside the
 * deviations.
 *
 * Threads divide the rows. In backward they divide ROW_CHUNKS chunks of rows, and the sums of dw and db over the chunks
 * are added in order, so the bits do not depend on the number of threads. Follows torch.nn.functional.layer_norm over
 * the last axis.
 */
#include "base/vector.h"
#include "ops/differentiate.h"
#include "ops/lanes.h"

enum { ROW_CHUNKS = 16, ROW_PART = 8 * LANES };

TG_DECLARE_KERNELS(tg_layer_norm_forward, tg_layer_norm_backward);

typedef struct row_statistics {
    double mean, inverse; /* m and r */
} row_statistics;

typedef struct norm {
    const real *x, *weight, *bias, *dy;
    real *y, *dx;
    bool overwrite;
    real *scratch; /* in backward, per chunk two rows: its sums of dw and db; NULL without these gradients */
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

/* The mean of a row, as the sum of two `real`s. */
typedef struct split_mean {
    real high, low;
} split_mean;

static inline split_mean split(double mean)
{
    real high = (real)mean;
    return (split_mean){high, (real)(mean - (double)high)};
}

static inline real deviation(real x, split_mean m)
{
    return x - m.high - m.low;
}

static inline void add_lanes(double sum[LANES], const real part[LANES])
{
    for (int k = 0; k < LANES; k++) {
        sum[k] += (double)part[k];
    }
}

/* gcc keeps the lanes of one sum in registers, and those of two only as vectors. */
enum { NORM_VECTORS = LANES / VECTOR_LANES };

/* sum_c d_c and sum_c d_c^2, d_c = x_c - center */
typedef struct difference_sums {
    double d, squares;
} difference_sums;

static inline __attribute__((always_inline)) difference_sums differences_of_row(const real *x, int64_t n, real center)
{
    double sum[LANES] = {0}, squares[LANES] = {0};
    int64_t c = 0;
    while (c + LANES <= n) {
        vector part[NORM_VECTORS] = {{0}}, square[NORM_VECTORS] = {{0}};
        for (int64_t end = n - c < ROW_PART ? n : c + ROW_PART; c + LANES <= end; c += LANES) {
            for (int v = 0; v < NORM_VECTORS; v++) {
                const vector d = *(const vector *)(x + c + v * VECTOR_LANES) - center;
                part[v] += d;
                square[v] += d * d;
            }
        }
        add_lanes(sum, (const real *)part);
        add_lanes(squares, (const real *)square);
    }
    for (; c < n; c++) {
        double d = (double)(x[c] - center);
        sum[0] += d;
        squares[0] += d * d;
    }
    return (difference_sums){sum_of_lanes(sum), sum_of_lanes(squares)};
}

static inline row_statistics statistics_of_row(const real *x, int64_t n, double eps)
{
    const real center = (real)(differences_of_row(x, n, 0).d / (double)n);
    const difference_sums sums = differences_of_row(x, n, center);
    const double shift = sums.d / (double)n, variance = sums.squares / (double)n - shift * shift;
    return (row_statistics){(double)center + shift, 1 / sqrt((variance < 0 ? 0 : variance) + eps)};
}

static void normalize_rows(void *context, int64_t begin, int64_t end)
{
    const norm *n = context;
    for (int64_t row = begin; row < end; row++) {
        const real *x = n->x + row * n->width;
        real *y = n->y + row * n->width;
        n->rows[row] = statistics_of_row(x, n->width, n->eps);
        split_mean m = split(n->rows[row].mean);
        real factor = (real)n->rows[row].inverse;
        for (int64_t c = 0; c < n->width; c++) {
            y[c] = deviation(x[c], m) * factor * n->weight[c] + n->bias[c];
        }
    }
}

void KERNEL(tg_layer_norm_forward)(const tg_op_call *call)
{
    norm n = norm_of(call);
    tg_parallel_for(n.count, 1 + TG_GRAIN / 4 / n.width, normalize_rows, &n);
}

/* The sums over a row that its gradient needs. */
typedef struct gradient_sums {
    double g, gn; /* sum_c g_c, sum_c g_c n_c */
} gradient_sums;

/* Adds dy n to dw and dy to db if `adds` says so, a constant in each call, and returns the sums. The forward pass
 * computed n = (x - m) r, y = n w + b. */
static inline gradient_sums sums_of_row(const norm *n, const real *restrict x, const real *restrict dy, split_mean m,
                                        real factor, bool adds, real *restrict dw, real *restrict db)
{
    const real *restrict weight = n->weight;
    double sum[LANES] = {0}, dot[LANES] = {0};
    int64_t c = 0;
    while (c + LANES <= n->width) {
        real part[LANES] = {0}, product[LANES] = {0};
        for (int64_t end = n->width - c < ROW_PART ? n->width : c + ROW_PART; c + LANES <= end; c += LANES) {
            for (int k = 0; k < LANES; k++) {
                real normal = deviation(x[c + k], m) * factor, g = dy[c + k] * weight[c + k];
                if (adds) {
                    dw[c + k] += dy[c + k] * normal;
                    db[c + k] += dy[c + k];
                }
                part[k] += g;
                product[k] += g * normal;
            }
        }
        add_lanes(sum, part);
        add_lanes(dot, product);
    }
    for (; c < n->width; c++) {
        real normal = deviation(x[c], m) * factor, g = dy[c] * weight[c];
        if (adds) {
            dw[c] += dy[c] * normal;
            db[c] += dy[c];
        }
        sum[0] += (double)g;
        dot[0] += (double)g * (double)normal;
    }
    return (gradient_sums){sum_of_lanes(sum), sum_of_lanes(dot)};
}

/* Adds dx of one row, and its parts of dw and db unless these are NULL. */
static void gradient_of_row(const norm *n, int64_t row, real *restrict dw, real *restrict db)
{
    const real *x = n->x + row * n->width, *dy = n->dy + row * n->width, *weight = n->weight;
    split_mean m = split(n->rows[row].mean);
    real factor = (real)n->rows[row].inverse;
    gradient_sums sums =
        dw ? sums_of_row(n, x, dy, m, factor, true, dw, db) : sums_of_row(n, x, dy, m, factor, false, NULL, NULL);
    if (!n->dx) {
        return;
    }
    real mean_g = (real)(sums.g / (double)n->width), mean_gn = (real)(sums.gn / (double)n->width);
    real *dx = n->dx + row * n->width;
    for (int64_t c = 0; c < n->width; c++) {
        real gradient = factor * (dy[c] * weight[c] - mean_g - deviation(x[c], m) * factor * mean_gn);
        dx[c] = accumulated(n->overwrite, dx[c], gradient);
    }
}

/* Adds dx of the rows of the chunks begin .. end - 1, and writes the sums of dw and db over each chunk. */
static void gradient_of_chunks(void *context, int64_t begin, int64_t end)
{
    const norm *n = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        real *dw = n->scratch ? n->scratch + chunk * 2 * n->width : NULL, *db = dw ? dw + n->width : NULL;
        if (dw) {
            memset(dw, 0, 2 * (size_t)n->width * sizeof(real));
        }
        for (int64_t row = chunk * n->count / ROW_CHUNKS; row < (chunk + 1) * n->count / ROW_CHUNKS; row++) {
            gradient_of_row(n, row, dw, db);
        }
    }
}

/* Adds the sums of all chunks, in order. `offset` is that of the first chunk's sums. */
static void add_chunks(const norm *n, int64_t offset, real *gradient, bool overwrite)
{
    for (int64_t chunk = 0; gradient && chunk < ROW_CHUNKS; chunk++) {
        const real *sums = n->scratch + chunk * 2 * n->width + offset;
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
    n.overwrite = writes_gradient(call, 0);
    n.scratch = call->input_gradients[1] || call->input_gradients[2] ? call->scratch : NULL;
    tg_parallel_for(ROW_CHUNKS, 1 + TG_GRAIN / 4 * ROW_CHUNKS / (n.count * n.width + 1), gradient_of_chunks, &n);
    add_chunks(&n, 0, call->input_gradients[1], writes_gradient(call, 1));
    add_chunks(&n, n.width, call->input_gradients[2], writes_gradient(call, 2));
}

#ifdef TG_ONCE

static bool layer_norm_shape(tg_op_call *call)
{
    double eps = *(const double *)call->attributes;
    const tg_tensor *x = call->inputs[0], *weight = call->inputs[1], *bias = call->inputs[2];
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
                          tg_shape_text_of(x).text, tg_shape_text_of(weight).text, tg_shape_text_of(bias).text);
    }
    if (!(eps > 0)) {
        return tg_op_fail(call, TG_ERROR_VALUE, "eps is %g; it must be above 0", eps);
    }
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) &&
           tg_op_save(call, x->count / width, sizeof(row_statistics)) &&
           tg_op_backward_scratch(call, width, ROW_CHUNKS * 2 * tg_size_of(x->dtype));
}

static void differentiate_layer_norm(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_differentiate_rms(t, call, true, dy, dx);
    dx[2] = dy[0];
}

static const tg_op layer_norm_op = {
    .name = "layer_norm",
    .shape = layer_norm_shape,
    .input_names = {"x", "weight", "bias"},
    TG_KERNELS(tg_layer_norm_forward, tg_layer_norm_backward),
    .backward_ignores_inputs = 1u << 2, /* the bias */
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_layer_norm,
};

tg_tensor *tg_layer_norm(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *bias, double eps)
{
    if (!tg_tape_expect_input(t, "layer_norm", "x", x)) {
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
