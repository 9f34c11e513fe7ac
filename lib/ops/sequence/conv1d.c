/* conv1d: the cross-correlation of sequences with kernels.
 *
 *   forward     y[b,o,t] = bias[o] + sum_(c,k) w[o,c,k] x[b, g C' + c, t stride + k dilation - padding]
 *   gradient    dw[o,c,k] += sum_(b,t) dy[b,o,t] x[...]
 *               dx[...]   += sum_(o,k) dy[b,o,t] w[o,c,k]
 *               dbias[o]  += sum_(b,t) dy[b,o,t]
 *
 * x is (B,C,T), w (O,C',K) with C' = C / groups, and channel o belongs to the group g = o / (O / groups). x is 0
 * outside of [0,T). Each group of a sequence becomes a matrix of columns (C' K, T'), the values under the kernel at
 * each output, and the products are those of matrices (im2col). Follows torch.nn.functional.conv1d.
 */
#include <tapegrad/conv.h>
#include <tapegrad/extend.h>

#include "ops/kernel.h"

typedef struct conv_attributes {
    int64_t stride, padding, dilation, groups;
} conv_attributes;

TG_DECLARE_KERNEL(tg_conv1d_forward);
TG_DECLARE_KERNEL(tg_conv1d_backward);

/* The sizes of one call: those of a group, without the batch. */
typedef struct conv {
    conv_attributes a;
    int64_t batch, in, out, kernel; /* channels per group, and K */
    int64_t length, outputs;        /* T and T' */
    const real *x, *w, *dy;
    real *columns; /* (in kernel, outputs) */
} conv;

static conv conv_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *w = call->inputs[1], *y = call->outputs[0];
    conv c = {.a = *(const conv_attributes *)call->attributes,
              .batch = x->shape[0],
              .in = w->shape[1],
              .kernel = w->shape[2],
              .length = x->shape[2],
              .outputs = y->shape[2],
              .x = tg_values(x),
              .w = tg_values(w),
              .columns = call->scratch};
    c.out = w->shape[0] / c.a.groups;
    return c;
}

/* Computes the outputs [*first, *end) at which tap k lies inside of the sequence. */
static void range_of_tap(const conv *c, int64_t k, int64_t *first, int64_t *end)
{
    int64_t offset = k * c->a.dilation - c->a.padding, last = c->length - 1 - offset;
    *first = offset < 0 ? (-offset - 1) / c->a.stride + 1 : 0;
    *end = last < 0 ? 0 : last / c->a.stride + 1;
    *end = *end < c->outputs ? *end : c->outputs;
    *first = *first < *end ? *first : *end;
}

/* Fills the columns of the channels that begin at x. */
static void gather_columns(const conv *c, const real *x)
{
    for (int64_t row = 0; row < c->in * c->kernel; row++) {
        int64_t first, end, k = row % c->kernel, offset = k * c->a.dilation - c->a.padding;
        real *column = c->columns + row * c->outputs;
        range_of_tap(c, k, &first, &end);
        memset(column, 0, (size_t)c->outputs * sizeof *column);
        for (int64_t t = first; t < end; t++) {
            column[t] = x[row / c->kernel * c->length + t * c->a.stride + offset];
        }
    }
}

/* Adds the gradient of the columns to that of the channels that begin at dx. */
static void column_gradient(const conv *c, real *dx)
{
    for (int64_t row = 0; row < c->in * c->kernel; row++) {
        int64_t first, end, k = row % c->kernel, offset = k * c->a.dilation - c->a.padding;
        const real *column = c->columns + row * c->outputs;
        range_of_tap(c, k, &first, &end);
        for (int64_t t = first; t < end; t++) {
            dx[row / c->kernel * c->length + t * c->a.stride + offset] += column[t];
        }
    }
}

void KERNEL(tg_conv1d_forward)(const tg_op_call *call)
{
    conv c = conv_of(call);
    real *y = tg_values(call->outputs[0]);
    const real *bias = call->input_count > 2 ? tg_values(call->inputs[2]) : NULL;
    int64_t rows = c.in * c.kernel;
    for (int64_t i = 0; i < c.batch * c.a.groups; i++) {
        int64_t group = i % c.a.groups;
        real *to = y + i * c.out * c.outputs;
        for (int64_t o = 0; bias && o < c.out; o++) {
            for (int64_t t = 0; t < c.outputs; t++) {
                to[o * c.outputs + t] = bias[group * c.out + o];
            }
        }
        gather_columns(&c, c.x + i * c.in * c.length);
        tg_gemm g = {c.out, c.outputs, rows, .lda = rows, .ldb = c.outputs, .ldc = c.outputs};
        gemm(&g, c.w + group * c.out * rows, c.columns, bias != NULL, to);
    }
}

/* Adds the sums of dy over batch and time to dbias. */
static void bias_gradient(const conv *c, real *dbias)
{
    int64_t channels = c->out * c->a.groups;
    for (int64_t i = 0; i < c->batch * channels; i++) {
        double sum = 0;
        for (int64_t t = 0; t < c->outputs; t++) {
            sum += (double)c->dy[i * c->outputs + t];
        }
        dbias[i % channels] += (real)sum;
    }
}

/* The forward pass computed y = w columns + bias for each group. */
void KERNEL(tg_conv1d_backward)(const tg_op_call *call)
{
    conv c = conv_of(call);
    c.dy = call->output_gradients[0];
    real *dx = call->input_gradients[0], *dw = call->input_gradients[1];
    int64_t rows = c.in * c.kernel;
    for (int64_t i = 0; (dx || dw) && i < c.batch * c.a.groups; i++) {
        int64_t weights = i % c.a.groups * c.out * rows;
        const real *dy = c.dy + i * c.out * c.outputs;
        if (dw) {
            gather_columns(&c, c.x + i * c.in * c.length);
            tg_gemm g = {c.out, rows, c.outputs, .transpose_b = true, .lda = c.outputs, .ldb = c.outputs, .ldc = rows};
            gemm(&g, dy, c.columns, true, dw + weights);
        }
        if (dx) {
            tg_gemm g = {rows, c.outputs, c.out, .transpose_a = true, .lda = rows, .ldb = c.outputs, .ldc = c.outputs};
            gemm(&g, c.w + weights, dy, false, c.columns);
            column_gradient(&c, dx + i * c.in * c.length);
        }
    }
    if (call->input_count > 2 && call->input_gradients[2]) {
        bias_gradient(&c, call->input_gradients[2]);
    }
}

#ifdef TG_ONCE

/* Checks the options, and computes T'. Returns false after an error. */
static bool count_outputs(tg_op_call *call, int64_t *outputs)
{
    const conv_attributes *a = call->attributes;
    const int64_t length = call->inputs[0]->shape[2], kernel = call->inputs[1]->shape[2];
    if (a->stride < 1 || a->dilation < 1 || a->groups < 1 || a->padding < 0) {
        return tg_op_fail(call, TG_ERROR_VALUE,
                          "stride %lld, padding %lld, dilation %lld and groups %lld; padding must be 0 or more, the "
                          "others 1 or more",
                          (long long)a->stride, (long long)a->padding, (long long)a->dilation, (long long)a->groups);
    }
    int64_t span, padded;
    bool fits = kernel >= 1 && !__builtin_mul_overflow(kernel - 1, a->dilation, &span) &&
                !__builtin_mul_overflow(a->padding, (int64_t)2, &padded) &&
                !__builtin_add_overflow(padded, length, &padded) && padded > span && padded <= TG_GEMM_LIMIT;
    *outputs = fits ? (padded - span - 1) / a->stride + 1 : 0;
    return fits || tg_op_fail(call, TG_ERROR_SHAPE,
                              "a kernel of %lld with dilation %lld does not fit into %lld positions with padding %lld",
                              (long long)kernel, (long long)a->dilation, (long long)length, (long long)a->padding);
}

static bool conv1d_shape(tg_op_call *call)
{
    const conv_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0], *w = call->inputs[1];
    char x_text[TG_SHAPE_TEXT], w_text[TG_SHAPE_TEXT], bias_text[TG_SHAPE_TEXT] = "no";
    int64_t outputs = 0;
    for (int i = 0; i < call->input_count; i++) {
        if (!tg_op_expect_float(call, i)) {
            return false;
        }
    }
    if (!tg_op_expect_rank(call, 0, 3) || !tg_op_expect_rank(call, 1, 3) || !count_outputs(call, &outputs)) {
        return false;
    }
    bool fits = x->shape[1] % a->groups == 0 && w->shape[1] == x->shape[1] / a->groups &&
                w->shape[0] % a->groups == 0 && w->shape[0] >= 1 && w->shape[1] >= 1;
    if (call->input_count > 2) {
        const tg_tensor *bias = call->inputs[2];
        fits = fits && bias->rank == 1 && bias->shape[0] == w->shape[0];
        tg_shape_format(tg_shape_of(bias), bias_text);
    }
    if (!fits) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "x is %s, the weight %s, %s the bias and %lld the groups; they must be (B,C,T), "
                          "(O,C/groups,K) and (O), with C and O multiples of groups",
                          tg_shape_format(tg_shape_of(x), x_text), tg_shape_format(tg_shape_of(w), w_text), bias_text,
                          (long long)a->groups);
    }
    int64_t rows = w->shape[1] * w->shape[2], columns;
    if (w->shape[0] / a->groups > TG_GEMM_LIMIT || rows > TG_GEMM_LIMIT) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the weight is %s; BLAS takes O / groups and C / groups * K up to %d",
                          tg_shape_format(tg_shape_of(w), w_text), TG_GEMM_LIMIT);
    }
    tg_shape shape = tg_shape_make(3, (int64_t[]){x->shape[0], w->shape[0], outputs});
    size_t size = tg_size_of(x->dtype);
    if (__builtin_mul_overflow(rows, outputs, &columns)) {
        return tg_op_fail(call, TG_ERROR_MEMORY, "out of memory");
    }
    return tg_op_output(call, 0, tg_dtype_of(x), shape) && tg_op_scratch(call, columns, size) &&
           tg_op_backward_scratch(call, columns, size);
}

static const tg_op conv1d_op = {
    .name = "conv1d",
    .shape = conv1d_shape,
    .input_names = {"x", "weight", "bias"},
    TG_KERNELS(tg_conv1d_forward, tg_conv1d_backward),
    .backward_ignores_inputs = 1u << 2, /* the bias */
    .backward_ignores_outputs = TG_OP_ALL,
};

static const char mark[] = "tg_conv1d_config_default";

tg_conv1d_config tg_conv1d_config_default(void)
{
    return (tg_conv1d_config){.mark = mark, .stride = 1, .dilation = 1, .groups = 1};
}

tg_tensor *tg_conv1d(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *bias, const tg_conv1d_config *given)
{
    if (!tg_tape_expect_config(t, "conv1d", given, mark)) {
        return NULL;
    }
    tg_conv1d_config c = given ? *given : tg_conv1d_config_default();
    conv_attributes a = {c.stride, c.padding, c.dilation, c.groups};
    tg_tensor *inputs[] = {x, weight, bias};
    return tg_apply(t, &conv1d_op, inputs, bias ? 3 : 2, &a, sizeof a, NULL);
}

#endif
