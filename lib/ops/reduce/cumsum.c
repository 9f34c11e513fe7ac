/* cumsum: the running sum along an axis.
 *
 *   forward     y_i = sum_(j<=i) x_j
 *   gradient    dx_j += sum_(i>=j) dy_i
 *
 * Sums are in double. The values along the axis are a line; threads divide the lines. Follows torch.cumsum.
 */
#include "ops/kernel.h"

TG_DECLARE_KERNEL(tg_cumsum_forward);
TG_DECLARE_KERNEL(tg_cumsum_backward);

typedef struct lines {
    const real *in; /* x, or dy */
    real *out;      /* y, or dx */
    axis_split axis;
} lines;

static void sum_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    for (int64_t line = begin; line < end; line++) {
        int64_t start = line_offset(&a->axis, line);
        double sum = 0;
        for (int64_t i = 0; i < a->axis.size; i++) {
            sum += (double)a->in[start + i * a->axis.inner];
            a->out[start + i * a->axis.inner] = (real)sum;
        }
    }
}

/* The forward pass computed y_i = sum_(j<=i) x_j. */
static void gradient_of_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    for (int64_t line = begin; line < end; line++) {
        int64_t start = line_offset(&a->axis, line);
        double sum = 0;
        for (int64_t i = a->axis.size - 1; i >= 0; i--) {
            sum += (double)a->in[start + i * a->axis.inner];
            a->out[start + i * a->axis.inner] += (real)sum;
        }
    }
}

static void over_lines(const tg_op_call *call, const void *in, void *out, loop_body *body)
{
    const tg_tensor *x = call->inputs[0];
    int axis = *(const int *)call->attributes;
    lines a = {in, out, split_at_axis(x, axis)};
    if (x->count > 0) {
        tg_parallel_for(x->count / a.axis.size, 1 + TG_GRAIN / 8 / a.axis.size, body, &a);
    }
}

void KERNEL(tg_cumsum_forward)(const tg_op_call *call)
{
    over_lines(call, tg_values(call->inputs[0]), tg_values(call->outputs[0]), sum_lines);
}

void KERNEL(tg_cumsum_backward)(const tg_op_call *call)
{
    over_lines(call, call->output_gradients[0], call->input_gradients[0], gradient_of_lines);
}

#ifdef TG_ONCE

static bool cumsum_shape(tg_op_call *call)
{
    return tg_op_expect_float(call, 0) && tg_op_output_like(call, tg_dtype_of(call->inputs[0]), 0);
}

static const tg_op cumsum_op = {
    .name = "cumsum",
    .shape = cumsum_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_cumsum_forward, tg_cumsum_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
};

tg_tensor *tg_cumsum(tg_tape *t, tg_tensor *x, int axis)
{
    return tg_tape_expect_axis(t, "cumsum", x, &axis) ? tg_apply(t, &cumsum_op, &x, 1, &axis, sizeof axis, NULL) : NULL;
}

#endif
