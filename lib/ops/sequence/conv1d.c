/* conv1d: the cross-correlation of sequences with kernels.
 *
 *   forward     y[b,o,t] = bias[o] + sum_(c,k) w[o,c,k] x[b, g C' + c, t stride + k dilation - padding]
 *   gradient    dw[o,c,k] += sum_(b,t) dy[b,o,t] x[...]
 *               dx[...]   += sum_(o,k) dy[b,o,t] w[o,c,k]
 *               dbias[o]  += sum_(b,t) dy[b,o,t]
 *
 * x is (B,C,T), w (O,C',K) with C' = C / groups, and channel o belongs to the group g = o / (O / groups). x is 0
 * outside of [0,T). With a stride of 1 the inputs under a tap k are neighbors, so y is a sum of K products of matrices
 * that need no copy. With another stride, or few channels, each group of a sequence becomes a matrix of columns
 * (C' K, T'), the values under the kernel at each output, and there is one product. Threads divide the sequences, and
 * for the gradient of the weight its columns. Follows torch.nn.functional.conv1d.
 */
#include <tapegrad/conv.h>
#include <tapegrad/extend.h>

#include "ops/lanes.h"
#include "ops/sequence/conv1d_call.h"
#include "tensor/move.h"

TG_DECLARE_KERNELS(tg_conv1d_forward, tg_conv1d_backward);

/* ---- channel by channel ---- */

static void forward_of_channels(void *context, int64_t begin, int64_t end)
{
    const conv *c = context;
    for (int64_t i = begin; i < end; i++) {
        begin_outputs(c, i);
        for (int64_t k = 0; k < c->kernel; k++) {
            const taps at = range_of_tap(c, k);
            const real w = c->w[i % c->a.groups * c->kernel + k], *x = c->x + i * c->length + at.input;
            real *y = c->y + i * c->outputs + at.first;
            for (int64_t t = 0; t < at.count; t++) {
                y[t] += w * x[t * c->a.stride];
            }
        }
    }
}

/* The gradients of a channel, of all sequences. */
static void backward_of_channels(void *context, int64_t begin, int64_t end)
{
    const conv *c = context;
    for (int64_t channel = begin; channel < end; channel++) {
        for (int64_t k = 0; k < c->kernel; k++) {
            const taps at = range_of_tap(c, k);
            double sum = 0;
            for (int64_t b = 0; b < c->batch; b++) {
                const int64_t item = b * c->a.groups + channel, input = item * c->length + at.input;
                const real w = c->w[channel * c->kernel + k], *dy = c->dy + item * c->outputs + at.first;
                for (int64_t t = 0; c->dx && t < at.count; t++) {
                    c->dx[input + t * c->a.stride] += w * dy[t];
                }
                if (c->dw && c->a.stride == 1) {
                    sum += row_dot(dy, c->x + input, at.count);
                }
                for (int64_t t = 0; c->dw && c->a.stride != 1 && t < at.count; t++) {
                    sum += (double)dy[t] * (double)c->x[input + t * c->a.stride];
                }
            }
            if (c->dw) {
                c->dw[channel * c->kernel + k] += (real)sum;
            }
        }
    }
}

/* ---- tap by tap ---- */

static void multiply(const conv *c, tg_gemm g, const real *a, const real *b, bool add, real *sum)
{
    g.add = add;
    g.in_thread = c->in_thread;
    gemm(&g, a, b, sum);
}

/* Returns the weight of tap k of a group in the scratch memory. */
static real *weight_of_tap(const conv *c, int64_t k, int64_t group)
{
    return c->scratch + (k * c->a.groups + group) * c->out * c->in;
}

static void split_weight(const conv *c)
{
    const int64_t pairs = c->a.groups * c->out * c->in;
    for (int64_t i = 0; i < pairs; i++) {
        for (int64_t k = 0; k < c->kernel; k++) {
            c->scratch[k * pairs + i] = c->w[i * c->kernel + k];
        }
    }
}

static void forward_by_taps(void *context, int64_t begin, int64_t end)
{
    const conv *c = context;
    for (int64_t i = begin; i < end; i++) {
        begin_outputs(c, i);
        for (int64_t k = 0; k < c->kernel; k++) {
            const taps at = range_of_tap(c, k);
            tg_gemm g = {c->out, at.count, c->in, .lda = c->in, .ldb = c->length, .ldc = c->outputs};
            multiply(c, g, weight_of_tap(c, k, i % c->a.groups), c->x + i * c->in * c->length + at.input, true,
                     c->y + i * c->out * c->outputs + at.first);
        }
    }
}

static void inputs_by_taps(void *context, int64_t begin, int64_t end)
{
    const conv *c = context;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t k = 0; k < c->kernel; k++) {
            const taps at = range_of_tap(c, k);
            tg_gemm g = {c->in,        at.count,          c->out,          .transpose_a = true,
                         .lda = c->in, .ldb = c->outputs, .ldc = c->length};
            multiply(c, g, weight_of_tap(c, k, i % c->a.groups), c->dy + i * c->out * c->outputs + at.first, true,
                     c->dx + i * c->in * c->length + at.input);
        }
    }
}

/* The gradient of the weight of one tap and group: summed over the batch in the scratch memory, then added to dw. */
static void weights_by_taps(void *context, int64_t begin, int64_t end)
{
    const conv *c = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = i / c->a.groups, group = i % c->a.groups, pairs = c->out * c->in;
        const taps at = range_of_tap(c, k);
        tg_gemm g = {c->out,           c->in,       at.count, .b_layout = TG_TRANSPOSED, .lda = c->outputs,
                     .ldb = c->length, .ldc = c->in};
        real *sum = weight_of_tap(c, k, group);
        for (int64_t b = 0; b < c->batch; b++) {
            const int64_t item = b * c->a.groups + group;
            multiply(c, g, c->dy + item * c->out * c->outputs + at.first, c->x + item * c->in * c->length + at.input,
                     b > 0, sum);
        }
        for (int64_t pair = 0; c->batch > 0 && pair < pairs; pair++) {
            c->dw[(group * pairs + pair) * c->kernel + k] += sum[pair];
        }
    }
}

/* ---- columns ---- */

/* Fills some rows of the columns of the channels that begin at x. */
static void gather_columns(const conv *c, const real *x, int64_t first, int64_t count, real *columns)
{
    for (int64_t row = first; row < first + count; row++) {
        const taps at = range_of_tap(c, row % c->kernel);
        const real *from = x + row / c->kernel * c->length + at.input;
        real *column = columns + (row - first) * c->outputs, *end = column + at.first + at.count;
        memset(column, 0, (size_t)at.first * sizeof *column);
        copy_to_row(column + at.first, (const word *)from, c->a.stride, at.count);
        memset(end, 0, (size_t)(c->outputs - at.first - at.count) * sizeof *column);
    }
}

/* Adds the gradient of the columns to that of the channels that begin at dx. */
static void column_gradient(const conv *c, const real *columns, real *dx)
{
    for (int64_t row = 0; row < c->in * c->kernel; row++) {
        const taps at = range_of_tap(c, row % c->kernel);
        const real *column = columns + row * c->outputs + at.first;
        for (int64_t t = 0; t < at.count; t++) {
            dx[row / c->kernel * c->length + at.input + t * c->a.stride] += column[t];
        }
    }
}

static void forward_by_columns(const conv *c, int64_t begin, int64_t end, real *columns)
{
    const int64_t rows = c->in * c->kernel;
    for (int64_t i = begin; i < end; i++) {
        begin_outputs(c, i);
        gather_columns(c, c->x + i * c->in * c->length, 0, rows, columns);
        tg_gemm g = {c->out, c->outputs, rows, .lda = rows, .ldb = c->outputs, .ldc = c->outputs};
        multiply(c, g, c->w + i % c->a.groups * c->out * rows, columns, true, c->y + i * c->out * c->outputs);
    }
}

static void inputs_by_columns(const conv *c, int64_t begin, int64_t end, real *columns)
{
    const int64_t rows = c->in * c->kernel;
    for (int64_t i = begin; i < end; i++) {
        tg_gemm g = {rows, c->outputs, c->out, .transpose_a = true, .lda = rows, .ldb = c->outputs, .ldc = c->outputs};
        multiply(c, g, c->w + i % c->a.groups * c->out * rows, c->dy + i * c->out * c->outputs, false, columns);
        column_gradient(c, columns, c->dx + i * c->in * c->length);
    }
}

/* Returns into how many pieces the weights of a group are divided, for threads. They do not depend on the number of
 * these, nor do the bits then: BLAS adds in another order in a product of another size. */
static int64_t pieces_of(const conv *c)
{
    return c->batch == 1 ? 1 : least(4, (c->in * c->kernel + 15) / 16);
}

/* The gradient of the weights of a piece of a group, which is some rows of the columns: added up over the batch. */
static void weights_by_columns(const conv *c, int64_t begin, int64_t end, real *columns)
{
    const int64_t rows = c->in * c->kernel, pieces = pieces_of(c);
    for (int64_t i = begin; i < end; i++) {
        const int64_t group = i / pieces, first = rows * (i % pieces) / pieces,
                      count = rows * (i % pieces + 1) / pieces - first;
        tg_gemm g = {c->out,     count, c->outputs, .b_layout = TG_TRANSPOSED, .lda = c->outputs, .ldb = c->outputs,
                     .ldc = rows};
        for (int64_t b = 0; b < c->batch; b++) {
            const int64_t item = b * c->a.groups + group;
            gather_columns(c, c->x + item * c->in * c->length, first, count, columns);
            multiply(c, g, c->dy + item * c->out * c->outputs, columns, true, c->dw + group * c->out * rows + first);
        }
    }
}

/* ---- kernels ---- */

void KERNEL(tg_conv1d_forward)(const tg_op_call *call)
{
    conv c = conv_of(call);
    const int64_t items = c.batch * c.a.groups, values = c.outputs * c.in * c.out * c.kernel;
    c.y = tg_values(call->outputs[0]);
    if (c.method == CHANNEL_BY_CHANNEL) {
        run_items(&c, items, values, forward_of_channels);
    } else if (c.method == TAP_BY_TAP) {
        split_weight(&c);
        run_items(&c, items, values, forward_by_taps);
    } else {
        run_shares(&c, items, values, forward_by_columns);
    }
}

/* Adds the sums of dy over batch and time to the gradients of the biases of some channels. */
static void bias_gradient(void *context, int64_t begin, int64_t end)
{
    const conv *c = context;
    const int64_t channels = c->out * c->a.groups;
    for (int64_t channel = begin; channel < end; channel++) {
        for (int64_t b = 0; b < c->batch; b++) {
            c->dbias[channel] += (real)row_sum(c->dy + (b * channels + channel) * c->outputs, c->outputs);
        }
    }
}

void KERNEL(tg_conv1d_backward)(const tg_op_call *call)
{
    conv c = conv_of(call);
    c.dy = call->output_gradients[0];
    c.dx = call->input_gradients[0];
    c.dw = call->input_gradients[1];
    const int64_t values = c.outputs * c.in * c.out * c.kernel;
    if (c.method == CHANNEL_BY_CHANNEL && (c.dx || c.dw)) {
        run_items(&c, c.a.groups, c.batch * values, backward_of_channels);
    }
    if (c.method == TAP_BY_TAP && c.dx) {
        split_weight(&c);
        run_items(&c, c.batch * c.a.groups, values, inputs_by_taps);
    }
    if (c.method == TAP_BY_TAP && c.dw) {
        run_items(&c, c.kernel * c.a.groups, c.batch * values / c.kernel, weights_by_taps);
    }
    if (c.method == BY_COLUMNS && c.dx) {
        run_shares(&c, c.batch * c.a.groups, values, inputs_by_columns);
    }
    if (c.method == BY_COLUMNS && c.dw) {
        run_shares(&c, c.a.groups * pieces_of(&c), c.batch * values / pieces_of(&c), weights_by_columns);
    }
    c.dbias = c.bias ? call->input_gradients[2] : NULL;
    if (c.dbias) {
        tg_parallel_for(c.out * c.a.groups, 1 + TG_GRAIN / (1 + c.batch * c.outputs), bias_gradient, &c);
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
    char bias_text[TG_SHAPE_TEXT] = "no";
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
                          tg_shape_text_of(x).text, tg_shape_text_of(w).text, bias_text, (long long)a->groups);
    }
    const conv_method method = method_of(w, a);
    int64_t rows = w->shape[1] * w->shape[2], scratch = method == TAP_BY_TAP ? w->count : 0;
    if (w->shape[0] / a->groups > TG_GEMM_LIMIT || rows > TG_GEMM_LIMIT) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the weight is %s; BLAS takes O / groups and C / groups * K up to %d",
                          tg_shape_text_of(w).text, TG_GEMM_LIMIT);
    }
    tg_shape shape = tg_shape_make(3, (int64_t[]){x->shape[0], w->shape[0], outputs});
    size_t size = tg_size_of(x->dtype);
    if (method == BY_COLUMNS && (__builtin_mul_overflow(rows, outputs, &scratch) ||
                                 __builtin_mul_overflow(scratch, most_shares(x, a), &scratch))) {
        return tg_op_fail(call, TG_ERROR_MEMORY, "out of memory");
    }
    return tg_op_output(call, 0, tg_dtype_of(x), shape) && tg_op_scratch(call, scratch, size) &&
           tg_op_backward_scratch(call, scratch, size);
}

static const tg_op conv1d_op = {
    .name = "conv1d",
    .shape = conv1d_shape,
    .input_names = {"x", "weight", "bias"},
    TG_KERNELS(tg_conv1d_forward, tg_conv1d_backward),
    .backward_ignores_inputs = 1u << 2, /* the bias */
    .backward_ignores_outputs = TG_OP_ALL,
};

TG_CONFIG(tg_conv1d_config, tg_conv1d_config_default, mark, .mark = mark, .stride = 1, .dilation = 1, .groups = 1);

tg_tensor *tg_conv1d(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *bias, const tg_conv1d_config *given)
{
    if (!tg_tape_expect_config(t, "conv1d", given, mark)) {
        return NULL;
    }
    tg_conv1d_config c = given ? *given : tg_conv1d_config_default();
    conv_attributes a = {c.stride, c.padding, c.dilation, c.groups, tg_threads()};
    tg_tensor *inputs[] = {x, weight, bias};
    return tg_apply(t, &conv1d_op, inputs, bias ? 3 : 2, &a, sizeof a, NULL);
}

#endif
