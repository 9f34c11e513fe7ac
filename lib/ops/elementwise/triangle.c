/* triangle: the lower or the upper part of matrices.
 *
 *   forward     y[i,j] = x[i,j] in the triangle, else 0      tril: j - i <= diagonal, triu: j - i >= diagonal
 *   gradient    dx[i,j] += dy[i,j] in the triangle
 *
 * The matrices are on the last two axes. Follows torch.tril and torch.triu.
 */
#include "ops/kernel.h"

typedef struct triangle_attributes {
    int64_t diagonal;
    bool upper;
} triangle_attributes;

TG_DECLARE_KERNEL(tg_triangle_forward);
TG_DECLARE_KERNEL(tg_triangle_backward);

typedef struct triangle_loop {
    const triangle_attributes *a;
    int64_t rows, columns;
    const real *from;
    real *to;
    bool add;
} triangle_loop;

/* Writes the triangle of `from` to `to`, and 0 elsewhere; with `add`, adds it. */
static void keep_lines(void *context, int64_t begin, int64_t end)
{
    const triangle_loop *l = context;
    const int64_t columns = l->columns;
    for (int64_t line = begin; line < end; line++) {
        const int64_t edge = line % l->rows + l->a->diagonal; /* the column of the diagonal */
        const int64_t inside = l->a->upper ? edge : edge + 1, split = inside < 0 ? 0 : inside;
        const int64_t middle = split < columns ? split : columns;
        const int64_t first = l->a->upper ? middle : 0, last = l->a->upper ? columns : middle;
        const real *restrict from = l->from + line * columns;
        real *restrict to = l->to + line * columns;
        if (l->add) {
            for (int64_t j = first; j < last; j++) {
                to[j] += from[j];
            }
            continue;
        }
        memset(to, 0, (size_t)first * sizeof *to);
        memcpy(to + first, from + first, (size_t)(last - first) * sizeof *to);
        memset(to + last, 0, (size_t)(columns - last) * sizeof *to);
    }
}

static void keep_triangle(const tg_op_call *call, const void *from, void *to, bool add)
{
    const tg_tensor *x = call->inputs[0];
    triangle_loop l = {call->attributes, x->shape[x->rank - 2], x->shape[x->rank - 1], from, to, add};
    if (x->count > 0) {
        tg_parallel_for(x->count / l.columns, 1 + TG_GRAIN / l.columns, keep_lines, &l);
    }
}

void KERNEL(tg_triangle_forward)(const tg_op_call *call)
{
    keep_triangle(call, tg_values(call->inputs[0]), tg_values(call->outputs[0]), false);
}

/* The forward pass computed y = x in the triangle. */
void KERNEL(tg_triangle_backward)(const tg_op_call *call)
{
    keep_triangle(call, call->output_gradients[0], call->input_gradients[0], !call->overwrite[0]);
}

#ifdef TG_ONCE

static bool triangle_shape(tg_op_call *call)
{
    tg_shape shape = tg_shape_of(call->inputs[0]);
    char text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (shape.rank < 2) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "argument 'x' has shape %s; it must have rank 2 or more",
                          tg_shape_format(shape, text));
    }
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

static const tg_op tril_op = {.name = "tril",
                              .shape = triangle_shape,
                              .input_names = {"x"},
                              TG_KERNELS(tg_triangle_forward, tg_triangle_backward),
                              .backward_ignores_inputs = TG_OP_ALL,
                              .backward_ignores_outputs = TG_OP_ALL,
                              .can_overwrite = true};
static const tg_op triu_op = {.name = "triu",
                              .shape = triangle_shape,
                              .input_names = {"x"},
                              TG_KERNELS(tg_triangle_forward, tg_triangle_backward),
                              .backward_ignores_inputs = TG_OP_ALL,
                              .backward_ignores_outputs = TG_OP_ALL,
                              .can_overwrite = true};

/* Returns the diagonal, limited so that the kernel's sum cannot overflow. */
static int64_t within(int64_t diagonal)
{
    const int64_t beyond = INT64_MAX / 4;
    return diagonal > beyond ? beyond : diagonal < -beyond ? -beyond : diagonal;
}

tg_tensor *tg_tril(tg_tape *t, tg_tensor *x, int64_t diagonal)
{
    triangle_attributes attributes = {within(diagonal), false};
    return tg_apply(t, &tril_op, &x, 1, &attributes, sizeof attributes, NULL);
}

tg_tensor *tg_triu(tg_tape *t, tg_tensor *x, int64_t diagonal)
{
    triangle_attributes attributes = {within(diagonal), true};
    return tg_apply(t, &triu_op, &x, 1, &attributes, sizeof attributes, NULL);
}

#endif
