/* join: cat and stack.
 *
 *   forward     y holds the inputs one after the other along an axis
 *   gradient    dx of each input += its part of dy
 *
 * The axes before the joined one are the rows of y. Each input contributes a run of values to each row; runs of any
 * dtype are copied. stack joins along a new axis, which the inputs do not have. Follows torch.cat and torch.stack.
 */
#include <stdio.h>

#include "ops/kernel_real.h"
#include "tensor/strided.h"

TG_DECLARE_KERNEL(tg_cat_forward);
TG_DECLARE_KERNEL(tg_cat_backward);

typedef struct join_attributes {
    int axis;
    bool is_new; /* the inputs do not have the axis */
} join_attributes;

/* The rows of y are `row` values apart. */
typedef struct joining {
    const tg_op_call *call;
    join_attributes a;
    int64_t row;
    bool backward;
    bool by_rows;  /* the rows of each input are equally far apart */
    bool in_order; /* y, or dy, is visited row by row */
    int64_t rows;
} joining;

/* Shorter rows of y are joined in order: with two threads, rows of 384 and 6144 values take 0.8 to 0.9 of the time that
 * visiting y once for each input takes. */
enum { LONG_PIECE = 16384 };
/* Shorter runs are less than a line of memory, and not worth a call. */
enum { SHORT_RUN = 16 };

/* Returns the length of x's run in each row. */
static int64_t run_of(const tg_tensor *x, int axis)
{
    axis_split split = split_at_axis(x, axis);
    return split.size * split.inner;
}

/* Writes the strides of x, or of its gradient, which is contiguous. */
static void strides_of(const joining *j, const tg_tensor *x, int64_t *strides)
{
    const tg_shape shape = tg_shape_of(x);
    tg_contiguous_strides(&shape, strides);
    for (int i = 0; i < x->rank && !j->backward; i++) {
        strides[i] = x->strides[i];
    }
}

/* Returns the rows of x. */
static tg_walk rows_of(const joining *j, const tg_tensor *x)
{
    int64_t strides[TG_MAX_RANK];
    tg_walk rows = tg_walk_new();
    strides_of(j, x, strides);
    for (int i = 0; i < j->a.axis; i++) {
        tg_walk_add_axis(&rows, x->shape[i], strides[i], 0);
    }
    return rows;
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
    const int64_t size = (int64_t)tg_size_of(x->dtype);
    const tg_shape whole = tg_shape_of(y);
    int64_t x_strides[TG_MAX_RANK], y_strides[TG_MAX_RANK];
    strides_of(j, x, x_strides);
    tg_contiguous_strides(&whole, y_strides);
    for (int i = j->a.axis; j->a.is_new && i < x->rank; i++) {
        y_strides[i] = y_strides[i + 1];
    }
    tg_shape shape = tg_shape_of(x);
    if (j->a.axis > 0 && j->by_rows) { /* the axes before the joined one are one */
        const tg_walk rows = rows_of(j, x);
        const int axis = j->a.axis - 1;
        for (int i = 0; i < axis; i++) {
            shape.size[i] = 1;
        }
        shape.size[axis] = count;
        x_strides[axis] = tg_walk_stride(&rows);
        y_strides[axis] = j->row;
        in_x += first * x_strides[axis] * size;
    }
    const int64_t at = (first * j->row + offset) * size;
    if (j->backward) {
        const char *dy = (const char *)call->output_gradients[0] + at;
        tg_strided s = tg_strided_of(&shape, x_strides, y_strides);
        call->overwrite[k] ? tg_strided_copy(&s, (size_t)size, in_x, dy) : tg_strided_add(&s, real_dtype, in_x, dy);
    } else {
        tg_strided s = tg_strided_of(&shape, y_strides, x_strides);
        tg_strided_copy(&s, (size_t)size, (char *)tg_values(y) + at, in_x);
    }
}

/* Where runs are shorter than a line of memory, y is visited once: all inputs of some rows, which fit into the cache,
 * and then the next rows. */
static void join_rows(void *context, int64_t begin, int64_t end)
{
    const joining *j = context;
    bool is_short = j->by_rows && j->row < SHORT_RUN * j->call->input_count;
    int64_t most = is_short ? 1 + 4096 / (j->row + 1) : end - begin;
    for (int64_t first = begin, count; first < end; first += count) {
        int64_t offset = 0;
        count = end - first < most ? end - first : most;
        for (int k = 0; k < j->call->input_count; k++) {
            move_runs(j, k, first, count, offset);
            offset += run_of(j->call->inputs[k], j->a.axis);
        }
    }
}

/* The same, row by row, for inputs that are contiguous. */
static void join_in_order(void *context, int64_t begin, int64_t end)
{
    const joining *j = context;
    const tg_op_call *call = j->call;
    const tg_tensor *y = call->outputs[0];
    const size_t size = tg_size_of(y->dtype);
    char *in_y = (char *)(j->backward ? call->output_gradients[0] : tg_values(y)) + (size_t)(begin * j->row) * size;
    for (int64_t row = begin; row < end; row++) {
        for (int k = 0; k < call->input_count; k++) {
            const tg_tensor *x = call->inputs[k];
            const int64_t run = x->count / j->rows;
            const size_t bytes = (size_t)run * size;
            char *in_x = j->backward ? call->input_gradients[k] : tg_values(x);
            if (in_x && run > 0) {
                in_x += (size_t)row * bytes;
                if (!j->backward) {
                    memcpy(in_y, in_x, bytes);
                } else if (call->overwrite[k]) {
                    memcpy(in_x, in_y, bytes);
                } else {
                    tg_add_values(in_x, in_y, run, real_dtype);
                }
            }
            in_y += bytes;
        }
    }
}

static void join(const tg_op_call *call, bool backward)
{
    const join_attributes a = *(const join_attributes *)call->attributes;
    const tg_tensor *y = call->outputs[0];
    const int64_t rows = split_at_axis(y, a.axis).outer;
    joining j = {.call = call, .a = a, .row = run_of(y, a.axis), .backward = backward, .by_rows = true, .rows = rows};
    j.in_order = j.row < LONG_PIECE && j.row >= SHORT_RUN * call->input_count;
    for (int k = 0; k < call->input_count; k++) {
        j.by_rows = j.by_rows && rows_of(&j, call->inputs[k]).rank == 1;
        j.in_order = j.in_order && (backward || call->inputs[k]->contiguous);
    }
    if (j.by_rows || j.in_order) {
        tg_parallel_for(rows, 1 + TG_GRAIN / j.row, j.in_order ? join_in_order : join_rows, &j);
    } else {
        join_rows(&j, 0, rows);
    }
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
    const int axis = ((const join_attributes *)call->attributes)->axis;
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

static bool stack_shape(tg_op_call *call)
{
    const int axis = ((const join_attributes *)call->attributes)->axis;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
    for (int k = 1; k < call->input_count; k++) {
        const tg_shape own = tg_shape_of(call->inputs[k]);
        if (!tg_shape_equal(own, shape) || !tg_op_expect_dtype(call, k, tg_dtype_of(call->inputs[0]))) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "input %d has shape %s and input 0 %s; they must be equal", k,
                              tg_shape_format(own, a), tg_shape_format(shape, b));
        }
    }
    for (int i = shape.rank++; i > axis; i--) {
        shape.size[i] = shape.size[i - 1];
    }
    shape.size[axis] = call->input_count;
    return tg_op_output(call, 0, tg_dtype_of(call->inputs[0]), shape);
}

#define JOIN_OP(op_name, rule)                                                                                        \
    {                                                                                                                 \
        .name = op_name, .shape = rule, TG_KERNELS(tg_cat_forward, tg_cat_backward), .accepts_layout = tg_any_layout, \
        .backward_ignores_inputs = TG_OP_ALL, .backward_ignores_outputs = TG_OP_ALL, .can_overwrite = true            \
    }

static const tg_op cat_op = JOIN_OP("cat", cat_shape), stack_op = JOIN_OP("stack", stack_shape);

static bool check_list(tg_tape *t, const char *call, tg_tensor *const *tensors, int count)
{
    if (!tensors || count < 1) {
        return tg_tape_fail(t, tensors ? TG_ERROR_VALUE : TG_ERROR_STATE, call,
                            tensors ? "%d tensors; at least 1 is needed" : "the array of %d tensors is NULL", count);
    }
    char name[32] = "tensors[0]";
    int k = 0;
    while (k < count && tensors[k] && !tensors[k]->is_freed) {
        k++;
    }
    if (k < count) {
        snprintf(name, sizeof name, "tensors[%d]", k);
    }
    return tg_tape_expect_input(t, call, name, tensors[k < count ? k : 0]);
}

tg_tensor *tg_cat(tg_tape *t, tg_tensor *const *tensors, int count, int axis)
{
    if (!check_list(t, "cat", tensors, count) || !tg_tape_expect_axis(t, "cat", tensors[0], &axis)) {
        return NULL;
    }
    if (tensors[0]->rank == 0) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "cat", "input 0 is a scalar; tg_stack joins scalars");
        return NULL;
    }
    const join_attributes a = {.axis = axis};
    return tg_apply(t, &cat_op, tensors, count, &a, sizeof a, NULL);
}

tg_tensor *tg_stack(tg_tape *t, tg_tensor *const *tensors, int count, int axis)
{
    if (!check_list(t, "stack", tensors, count)) {
        return NULL;
    }
    int rank = tensors[0]->rank + 1, asked = axis;
    if (!tg_axis_normalize(rank, &axis) || rank > TG_MAX_RANK) {
        tg_tape_fail(t, TG_ERROR_RANGE, "stack", "axis %d is outside [%d,%d), or the result has more than %d axes",
                     asked, -rank, rank, TG_MAX_RANK);
        return NULL;
    }
    const join_attributes a = {axis, true};
    return tg_apply(t, &stack_op, tensors, count, &a, sizeof a, NULL);
}

#endif
