/* cumsum: the running sum along an axis.
 *
 *   forward     y_i = sum_(j<=i) x_j
 *   gradient    dx_j += sum_(i>=j) dy_i
 *
 * Sums are in double. The values along the axis are a line; threads divide the lines. Follows torch.cumsum.
 */
#include "base/least.h"
#include "ops/kernel_real.h"

TG_DECLARE_KERNELS(tg_cumsum_forward, tg_cumsum_backward);

/* The lines that are summed at once. */
enum { TOGETHER = 256 };

typedef struct lines {
    const real *in; /* x, or dy */
    real *out;      /* y, or dx */
    axis_split axis;
    bool overwrite, backwards;
} lines;

/* Adds a value to each sum, and the sums to `out`, or writes them. */
static inline void add_row(const real *in, int64_t width, bool add, double *restrict sum, real *restrict out)
{
    for (int64_t c = 0; c < width; c++) {
        sum[c] += (double)in[c];
        out[c] = (add ? out[c] : 0) + (real)sum[c];
    }
}

/* Adds lines from the first values on, or for the gradient from the last on. Neighboring ones are added together. */
static void sum_lines(void *context, int64_t begin, int64_t end)
{
    const lines *a = context;
    const int64_t inner = a->axis.inner, n = a->axis.size;
    for (int64_t line = begin, width; line < end; line += width) {
        double sum[TOGETHER] = {0};
        const int64_t start = line_offset(&a->axis, line);
        width = least(least(inner - line % inner, TOGETHER), end - line);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = start + (a->backwards ? n - 1 - i : i) * inner;
            add_row(a->in + at, width, !a->overwrite, sum, a->out + at);
        }
    }
}

static void over_lines(const tg_op_call *call, const void *in, void *out, bool overwrite, bool backwards)
{
    const tg_tensor *x = call->inputs[0];
    int axis = *(const int *)call->attributes;
    lines a = {in, out, split_at_axis(x, axis), overwrite, backwards};
    if (x->count > 0) {
        tg_parallel_for(x->count / a.axis.size, 1 + TG_GRAIN / 8 / a.axis.size, sum_lines, &a);
    }
}

void KERNEL(tg_cumsum_forward)(const tg_op_call *call)
{
    over_lines(call, tg_values(call->inputs[0]), tg_values(call->outputs[0]), true, false);
}

/* The forward pass computed y_i = sum_(j<=i) x_j. */
void KERNEL(tg_cumsum_backward)(const tg_op_call *call)
{
    over_lines(call, call->output_gradients[0], call->input_gradients[0], writes_gradient(call, 0), true);
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_cumsum(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const int axis = *(const int *)call->attributes;
    const tg_axes axes = tg_axes_make(1, &axis);
    dx[0] = call->inputs[0]->rank == 0 ? dy[0] : tg_flip(t, tg_cumsum(t, tg_flip(t, dy[0], axes), axis), axes);
}

/* ---- the op ---- */

static bool cumsum_shape(tg_op_call *call)
{
    return tg_op_expect_float(call, 0) && tg_op_output_like(call, tg_dtype_of(call->inputs[0]), 0);
}

static const tg_op cumsum_op = {
    .name = "cumsum",
    .shape = cumsum_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_cumsum_forward, tg_cumsum_backward),
    TG_IGNORES_VALUES,
    .can_overwrite = true,
    .differentiate = differentiate_cumsum,
};

tg_tensor *tg_cumsum(tg_tape *t, tg_tensor *x, int axis)
{
    return tg_tape_expect_axis(t, "cumsum", x, &axis) ? tg_apply(t, &cumsum_op, &x, 1, &axis, sizeof axis, NULL) : NULL;
}

#endif
