/* linear: the product of the rows of x with a weight in PyTorch's layout, (out,in).
 *
 *   forward     y = x W^T + b            x (..,in)  ->  y (..,out)
 *   gradient    dx += dy W
 *               dW += dy^T x             summed over the rows
 *               db += dy                 summed over the rows
 *
 * One gemm forward and two backward, over all rows at once. tg_matmul with a transposed view computes the same numbers,
 * but the gradient of the view would be one more pass over a matrix of the weight's size. The bias is copied into y
 * first, and gemm adds to it. Threads divide the columns of db, so one thread computes each sum, in the order of the
 * rows. Follows torch.nn.functional.linear.
 */
#include "ops/differentiate.h"
#include "ops/kernel_real.h"

TG_DECLARE_KERNELS(tg_linear_forward, tg_linear_backward);

typedef struct map {
    int64_t rows, in, out;
    const real *bias, *dy;
    real *y, *dbias;
} map;

static map map_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *weight = call->inputs[1];
    map m = {
        .rows = tg_row_count(x), .out = weight->shape[0], .in = weight->shape[1], .y = tg_values(call->outputs[0])};
    m.bias = call->input_count == 3 ? tg_values(call->inputs[2]) : NULL;
    return m;
}

static void copy_bias(void *context, int64_t begin, int64_t end)
{
    const map *m = context;
    for (int64_t row = begin; row < end; row++) {
        memcpy(m->y + row * m->out, m->bias, (size_t)m->out * sizeof(real));
    }
}

void KERNEL(tg_linear_forward)(const tg_op_call *call)
{
    map m = map_of(call);
    if (m.bias) {
        tg_parallel_for(m.rows, 1 + TG_GRAIN / (m.out + 1), copy_bias, &m);
    }
    const tg_gemm g = {m.rows,      m.out,       m.in,         .b_layout = TG_TRANSPOSED,
                       .lda = m.in, .ldb = m.in, .ldc = m.out, .add = m.bias};
    gemm_by(&g, tg_values(call->inputs[0]), call->inputs[1]->dtype, tg_values(call->inputs[1]), m.y);
}

static void add_to_bias(void *context, int64_t begin, int64_t end)
{
    const map *m = context;
    for (int64_t row = 0; row < m->rows; row++) {
        for (int64_t c = begin; c < end; c++) {
            m->dbias[c] += m->dy[row * m->out + c];
        }
    }
}

/* The forward pass computed y = x W^T + b. */
void KERNEL(tg_linear_backward)(const tg_op_call *call)
{
    map m = map_of(call);
    m.dy = call->output_gradients[0];
    real *dx = call->input_gradients[0], *dweight = call->input_gradients[1];
    if (dx) {
        const tg_gemm g = {
            m.rows, m.in, m.out, .lda = m.out, .ldb = m.in, .ldc = m.in, .add = !writes_gradient(call, 0)};
        gemm_by(&g, m.dy, call->inputs[1]->dtype, tg_values(call->inputs[1]), dx);
    }
    if (dweight) {
        const tg_gemm g = {m.out,        m.in,        m.rows,      .transpose_a = true,
                           .lda = m.out, .ldb = m.in, .ldc = m.in, .add = !writes_gradient(call, 1)};
        gemm(&g, m.dy, tg_values(call->inputs[0]), dweight);
    }
    m.dbias = m.bias ? call->input_gradients[2] : NULL;
    if (m.dbias) {
        if (writes_gradient(call, 2)) {
            memset(m.dbias, 0, (size_t)m.out * sizeof(real));
        }
        tg_parallel_for(m.out, 1 + TG_GRAIN / (m.rows + 1), add_to_bias, &m);
    }
}

#ifdef TG_ONCE

/* ---- gradients in ops ---- */

static void differentiate_linear(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_wants(call, 0) ? tg_matmul(t, dy[0], call->inputs[1]) : NULL;
    if (tg_wants(call, 1)) {
        dx[1] = tg_matmul(t, tg_transpose(t, tg_as_rows(t, dy[0]), 0, 1), tg_as_rows(t, call->inputs[0]));
    }
    if (call->input_count == 3) {
        dx[2] = dy[0];
    }
}

/* ---- the op ---- */

static bool linear_shape(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *weight = call->inputs[1];
    const tg_tensor *bias = call->input_count == 3 ? call->inputs[2] : NULL;
    for (int i = 0; i < call->input_count; i++) {
        if (!tg_op_expect_float(call, i)) {
            return false;
        }
    }
    if (x->rank < 1 || weight->rank != 2 || x->shape[x->rank - 1] != weight->shape[1] ||
        (bias && (bias->rank != 1 || bias->shape[0] != weight->shape[0]))) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s, the weight %s%s%s; they must be (..,in), (out,in)%s",
                          tg_shape_text_of(x).text, tg_shape_text_of(weight).text, bias ? ", the bias " : "",
                          bias ? tg_shape_text_of(bias).text : "", bias ? " and (out)" : "");
    }
    tg_shape shape = tg_shape_of(x);
    shape.size[shape.rank - 1] = weight->shape[0];
    int64_t rows = tg_row_count(x);
    if (rows > TG_GEMM_LIMIT || weight->shape[0] > TG_GEMM_LIMIT || weight->shape[1] > TG_GEMM_LIMIT) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s, the weight %s; BLAS takes sizes up to %d",
                          tg_shape_text_of(x).text, tg_shape_text_of(weight).text, TG_GEMM_LIMIT);
    }
    return tg_op_output(call, 0, tg_dtype_of(x), shape);
}

static const tg_op linear_op = {
    .name = "linear",
    .shape = linear_shape,
    .input_names = {"x", "weight", "bias"},
    TG_KERNELS(tg_linear_forward, tg_linear_backward),
    .backward_ignores_inputs = 1u << 2, /* the bias */
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .bf16_inputs = 1u << 1, /* the weight */
    .differentiate = differentiate_linear,
};

tg_tensor *tg_linear(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *bias)
{
    tg_tensor *inputs[] = {x, weight, bias};
    return tg_apply(t, &linear_op, inputs, bias ? 3 : 2, NULL, 0, NULL);
}

#endif
