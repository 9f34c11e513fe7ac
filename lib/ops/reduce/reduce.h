/* reduce (private): the loop of reductions over some axes of x, which may have any strides.
 *
 * The axes are divided into kept and reduced ones. One thread computes each output, in a walk over the reduced axes
 * (tensor/walk.h), so the bits are the same for any number of threads.
 */
#ifndef TG_OPS_REDUCE_REDUCE_H
#define TG_OPS_REDUCE_REDUCE_H

#include "ops/kernel.h"

typedef struct tg_reduce_attributes {
    uint32_t reduced; /* one bit per axis */
    bool keep;
    bool smallest;  /* of amax: the minimum */
    bool root;      /* of var: the square root */
    bool all;       /* of any: whether all values must be true */
    int correction; /* of var */
    double p;       /* of norm */
} tg_reduce_attributes;

/* The walks have the strides of x and, as the other strides, those of its gradient. */
typedef struct reduction {
    tg_walk kept, reduced;
    const real *x, *y, *dy;
    real *out; /* y, or dx */
    const tg_reduce_attributes *attributes;
    bool mean; /* divide by the number of reduced values */
} reduction;

static inline reduction reduction_of(const tg_op_call *call)
{
    const tg_reduce_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    reduction r = {.kept = tg_walk_new(), .reduced = tg_walk_new(), .x = tg_values(x), .attributes = a};
    tg_shape shape = tg_shape_of(x);
    int64_t contiguous[TG_MAX_RANK];
    tg_contiguous_strides(&shape, contiguous);
    for (int axis = 0; axis < x->rank; axis++) {
        tg_walk_add_axis(a->reduced >> axis & 1 ? &r.reduced : &r.kept, x->shape[axis], x->strides[axis],
                         contiguous[axis]);
    }
    r.y = tg_values(call->outputs[0]);
    return r;
}

static inline void over_outputs(reduction *r, loop_body *body)
{
    int64_t grain = TG_GRAIN / (r->reduced.count + 1);
    tg_parallel_for(r->kept.count, grain < 1 ? 1 : grain, body, r);
}

static inline void reduce_forward(const tg_op_call *call, bool mean, loop_body *body)
{
    reduction r = reduction_of(call);
    r.out = tg_values(call->outputs[0]);
    r.mean = mean;
    over_outputs(&r, body);
}

static inline void reduce_backward(const tg_op_call *call, bool mean, loop_body *body)
{
    reduction r = reduction_of(call);
    r.dy = call->output_gradients[0];
    r.out = call->input_gradients[0];
    r.mean = mean;
    over_outputs(&r, body);
}

/* The shape rule: declares the output, of the dtype of x, which must be a float. */
bool tg_reduce_shape(tg_op_call *call);

/* The same with another dtype, for an x of any dtype. */
bool tg_reduce_output(tg_op_call *call, tg_dtype dtype);

/* Checks that no reduced axis is empty (SHAPE). `name` is that of the result that does not exist. */
bool tg_reduce_expect_values(tg_op_call *call, const char *name);

/* Checks the axes (RANGE), completes the attributes, and calls the op. */
tg_tensor *tg_reduce(tg_tape *t, const tg_op *op, tg_tensor *x, tg_axes axes, tg_keep_axes keep,
                     tg_reduce_attributes attributes);

#endif
