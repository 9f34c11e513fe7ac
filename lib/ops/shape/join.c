/* join: cat and stack.
 *
 *   forward     y holds the inputs one after the other along an axis
 *   gradient    dx of each input += its part of dy
 *
 * The axes before the joined one are the rows of y. Each input contributes a run of values to each row; runs of any
 * dtype are copied. stack is cat along a new axis of size 1. Follows torch.cat and torch.stack.
 */
#include <stdio.h>

#include "ops/kernel.h"
#include "tensor/strided.h"

TG_DECLARE_KERNEL(tg_cat_forward);
TG_DECLARE_KERNEL(tg_cat_backward);

/* The rows of y are `row` values apart. */
typedef struct joining {
    const tg_op_call *call;
    int axis;
    int64_t row;
    bool backward;
} joining;

/* Returns the length of x's run in each row. */
static int64_t run_of(const tg_tensor *x, int axis)
{
    axis_split split = split_at_axis(x, axis);
    return split.size * split.inner;
}

/* Moves `count` rows of input k, or of its gradient. They begin at `offset` in the rows of y. */
static void move_runs(const joining *j, int k, int64_t first, int64_t count, int64_t offset)
{
    const tg_op_call *call = j->call;
    const tg_tensor *x = call->inputs[k], *y = call->outputs[0];
    char *in_x = j->backward ? call->input_gradients[k] : tg_values(x);
    if (!in_x) {
        return;
    }
    int64_t run = run_of(x, j->axis), size = (int64_t)tg_size_of(x->dtype);
    const int64_t x_strides[] = {run, 1}, y_strides[] = {j->row, 1};
    in_x += first * run * size;
    if (j->backward) {
        const char *dy = (const char *)call->output_gradients[0] + (first * j->row + offset) * size;
        tg_strided s = tg_strided_of(&(tg_shape){2, {count, run}}, x_strides, y_strides);
        call->overwrite[k] ? tg_strided_copy(&s, (size_t)size, in_x, dy) : tg_strided_add(&s, REAL_DTYPE, in_x, dy);
    } else {
        tg_strided s = tg_strided_of(&(tg_shape){2, {count, run}}, y_strides, x_strides);
        tg_strided_copy(&s, (size_t)size, (char *)tg_values(y) + (first * j->row + offset) * size, in_x);
    }
}

/* Where runs are shorter than a line of memory, y is visited once: all inputs of some rows, which fit into the cache,
 * and then the next rows. */
static void join_rows(void *context, int64_t begin, int64_t end)
{
    const joining *j = context;
    int64_t most = j->row / j->call->input_count < 16 ? 1 + 4096 / (j->row + 1) : end - begin;
    for (int64_t first = begin, count; first < end; first += count) {
        int64_t offset = 0;
        count = end - first < most ? end - first : most;
        for (int k = 0; k < j->call->input_count; k++) {
            move_runs(j, k, first, count, offset);
            offset += run_of(j->call->inputs[k], j->axis);
        }
    }
}

static void join(const tg_op_call *call, bool backward)
{
    int axis = *(const int *)call->attributes;
    const tg_tensor *y = call->outputs[0];
    joining j = {call, axis, run_of(y, axis), backward};
    tg_parallel_for(split_at_axis(y, axis).outer, 1 + TG_GRAIN / j.row, join_rows, &j);
}

void KERNEL(tg_cat_forward)(const tg_op_call *call)
{
    join(call, false);
}

void KERNEL(tg_cat_backward)(const tg_op_call *call)
{
    join(call, true);
}

#ifdef TG_ONCE

static bool cat_shape(tg_op_call *call)
{
    int axis = *(const int *)call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
    for (int k = 1; k < call->input_count; k++) {
        tg_shape own = tg_shape_of(call->inputs[k]), same = own;
        if (own.rank == shape.rank) {
            same.size[axis] = shape.size[axis];
        }
        if (!tg_shape_equal(same, shape) || !tg_op_expect_dtype(call, k, tg_dtype_of(call->inputs[0]))) {
            return tg_op_fail(call, TG_ERROR_SHAPE,
                              "input %d has shape %s, and the inputs before it give %s; all sizes except that of axis "
                              "%d must be equal",
                              k, tg_shape_format(own, a), tg_shape_format(shape, b), axis);
        }
        if (__builtin_add_overflow(shape.size[axis], own.size[axis], &shape.size[axis])) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "the sizes along axis %d do not fit into 64 bits", axis);
        }
    }
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

static const tg_op cat_op = {.name = "cat",
                             .shape = cat_shape,
                             TG_KERNELS(tg_cat_forward, tg_cat_backward),
                             .backward_ignores_inputs = TG_OP_ALL,
                             .backward_ignores_outputs = TG_OP_ALL,
                             .can_overwrite = true};

static bool check_list(tg_tape *t, const char *name, tg_tensor *const *tensors, int count)
{
    return (tensors && count >= 1) ||
           tg_tape_fail(t, tensors ? TG_ERROR_VALUE : TG_ERROR_STATE, name,
                        tensors ? "%d tensors; at least 1 is needed" : "the array of %d tensors is NULL", count);
}

tg_tensor *tg_cat(tg_tape *t, tg_tensor *const *tensors, int count, int axis)
{
    if (!check_list(t, "cat", tensors, count) || !tg_tape_expect_input(t, "cat", "tensors[0]", tensors[0]) ||
        !tg_tape_expect_axis(t, "cat", tensors[0], &axis)) {
        return NULL;
    }
    if (tensors[0]->rank == 0) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "cat", "input 0 is a scalar; tg_stack joins scalars");
        return NULL;
    }
    return tg_apply(t, &cat_op, tensors, count, &axis, sizeof axis, NULL);
}

/* Compares the shapes here, so that an error shows them without the new axis. */
tg_tensor *tg_stack(tg_tape *t, tg_tensor *const *tensors, int count, int axis)
{
    if (!check_list(t, "stack", tensors, count) || !tg_tape_expect_input(t, "stack", "tensors[0]", tensors[0])) {
        return NULL;
    }
    int rank = tensors[0]->rank + 1, asked = axis;
    if (!tg_axis_normalize(rank, &axis) || rank > TG_MAX_RANK) {
        tg_tape_fail(t, TG_ERROR_RANGE, "stack", "axis %d is outside [%d,%d), or the result has more than %d axes",
                     asked, -rank, rank, TG_MAX_RANK);
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor **rows = tg_pool_take(t->pool, (size_t)count * sizeof *rows);
    if (!rows) {
        tg_tape_fail(t, TG_ERROR_MEMORY, "stack", "out of memory");
        return NULL;
    }
    for (int k = 0; k < count; k++) {
        if (!tensors[k] || tensors[k]->is_freed) {
            char name[32];
            snprintf(name, sizeof name, "tensors[%d]", k);
            tg_tape_expect_input(t, "stack", name, tensors[k]);
        } else if (!tg_same_shape(tensors[k], tensors[0])) {
            char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
            tg_tape_fail(t, TG_ERROR_SHAPE, "stack", "input %d has shape %s and input 0 %s; they must be equal", k,
                         tg_shape_format(tg_shape_of(tensors[k]), a), tg_shape_format(tg_shape_of(tensors[0]), b));
        }
        if (tensors[k] && tg_dtype_of(tensors[k]) != tg_dtype_of(tensors[0])) {
            tg_tape_fail(t, TG_ERROR_DTYPE, "stack", "input %d is %s; it must be %s (tg_cast converts)", k,
                         tg_dtype_name(tg_dtype_of(tensors[k])), tg_dtype_name(tg_dtype_of(tensors[0])));
        }
        rows[k] = tg_unsqueeze(t, tensors[k], axis);
    }
    tg_tensor *y = tg_apply(t, &cat_op, rows, count, &axis, sizeof axis, NULL);
    tg_pool_give(t->pool, rows);
    return tg_tape_end(t, &point, y);
}

#endif
