/* triangle: the lower or the upper part of matrices.
 *
 *   forward     y[i,j] = x[i,j] in the triangle, else 0      tril: j - i <= diagonal, triu: j - i >= diagonal
 *   gradient    dx[i,j] += dy[i,j] in the triangle
 *
 * The matrices are on the last two axes. Follows torch.tril and torch.triu.
 */
#include "ops/kernel_real.h"
#include "tensor/move.h"

typedef struct triangle_attributes {
    int64_t diagonal;
    bool upper;
} triangle_attributes;

TG_DECLARE_KERNELS(tg_triangle_forward, tg_triangle_backward);

typedef struct triangle_loop {
    const triangle_attributes *a;
    tg_walk lines; /* of `from`, on all axes but the last */
    int64_t rows, columns, stride;
    const real *from;
    real *to;
    bool add;
} triangle_loop;

/* Writes the triangle of `from` to `to`, and 0 elsewhere; with `add`, adds it. */
static void keep_lines(void *context, int64_t begin, int64_t end)
{
    const triangle_loop *l = context;
    const int64_t columns = l->columns;
    tg_cursor at = tg_walk_begin(&l->lines, begin);
    for (int64_t line = begin; line < end; line++) {
        const int64_t edge = line % l->rows + l->a->diagonal; /* the column of the diagonal */
        const int64_t inside = l->a->upper ? edge : edge + 1, split = inside < 0 ? 0 : inside;
        const int64_t middle = split < columns ? split : columns;
        const int64_t first = l->a->upper ? middle : 0, last = l->a->upper ? columns : middle;
        const real *from = l->from + at.offset + first * l->stride;
        real *to = l->to + line * columns;
        if (!l->add) {
            memset(to, 0, (size_t)first * sizeof *to);
            memset(to + last, 0, (size_t)(columns - last) * sizeof *to);
        }
        move_row(to + first, 1, (const word *)from, l->stride, last - first, l->add);
        tg_walk_advance(&l->lines, &at, 1);
    }
}

/* `strides` are those of `from`. */
static void keep_triangle(const tg_op_call *call, const int64_t *strides, const void *from, void *to, bool add)
{
    const tg_tensor *x = call->inputs[0];
    const int last = x->rank - 1;
    triangle_loop l = {
        call->attributes, tg_walk_new(), x->shape[last - 1], x->shape[last], strides[last], from, to, add};
    for (int axis = 0; axis < last; axis++) {
        tg_walk_add_axis(&l.lines, x->shape[axis], strides[axis], 0);
    }
    tg_parallel_for(l.lines.count, 1 + TG_GRAIN / l.columns, keep_lines, &l);
}

void KERNEL(tg_triangle_forward)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    keep_triangle(call, x->strides, tg_values(x), tg_values(call->outputs[0]), false);
}

/* The forward pass computed y = x in the triangle. */
void KERNEL(tg_triangle_backward)(const tg_op_call *call)
{
    const tg_shape shape = tg_shape_of(call->inputs[0]);
    int64_t strides[TG_MAX_RANK];
    tg_contiguous_strides(&shape, strides);
    keep_triangle(call, strides, call->output_gradients[0], call->input_gradients[0], !writes_gradient(call, 0));
}

#ifdef TG_ONCE

/* ---- gradients in ops ---- */

static void differentiate_triangle(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_apply(t, call->op, dy, 1, call->attributes, sizeof(triangle_attributes), NULL);
}

/* ---- the ops ---- */

static bool triangle_shape(tg_op_call *call)
{
    tg_shape shape = tg_shape_of(call->inputs[0]);
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (shape.rank < 2) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "argument 'x' has shape %s; it must have rank 2 or more",
                          tg_shape_text(shape).text);
    }
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

#define TRIANGLE_OP(op_name)                                                                                       \
    {                                                                                                              \
        .name = op_name, .shape = triangle_shape, .input_names = {"x"},                                            \
        TG_KERNELS(tg_triangle_forward, tg_triangle_backward), .accepts_layout = tg_any_layout, TG_IGNORES_VALUES, \
        .can_overwrite = true, .differentiate = differentiate_triangle                                             \
    }

static const tg_op tril_op = TRIANGLE_OP("tril"), triu_op = TRIANGLE_OP("triu");

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
