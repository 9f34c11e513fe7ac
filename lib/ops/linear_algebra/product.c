#include "ops/linear_algebra/product.h"

tg_tensor *tg_apply_product(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count)
{
    tg_product_attributes a = {t ? t->precision : TG_MATMUL_F32};
    return tg_apply(t, op, inputs, input_count, &a, tg_precision_rounds(a.precision) ? sizeof a : 0, NULL);
}

bool tg_has_rounded_factors(const tg_op_call *call)
{
    return call->attributes && tg_dtype_of(call->inputs[0]) == TG_F32;
}

tg_rounded tg_rounded_factors(const tg_op_call *call, int64_t m, int64_t n, int64_t k)
{
    if (!tg_has_rounded_factors(call)) {
        return TG_NOT_ROUNDED;
    }
    return call->tape->onednn && tg_onednn_accepts(m, n, k) ? TG_ROUNDED_BF16 : TG_ROUNDED_FLOAT;
}

/* Returns a walk over the matrices of x in memory order, without those that are repeated. */
static tg_walk walk_of(const tg_tensor *x)
{
    tg_walk walk = tg_walk_new();
    if (x->contiguous) {
        tg_walk_add_axis(&walk, x->count, 1, 0);
        return walk;
    }
    for (int axis = 0; axis < x->rank - 2; axis++) {
        if (x->strides[axis] != 0) {
            tg_walk_add_axis(&walk, x->shape[axis], x->strides[axis], 0);
        }
    }
    int row = x->rank - 2, column = x->rank - 1;
    int outer = x->strides[row] >= x->strides[column] ? row : column, inner = row + column - outer;
    tg_walk_add_axis(&walk, x->shape[outer], x->strides[outer], 0);
    tg_walk_add_axis(&walk, x->shape[inner], x->strides[inner], 0);
    return walk;
}

/* A parameter is a leaf of the user that requires a gradient. Its rounded copy lives until the reset. */
static bool is_parameter(const tg_tensor *x)
{
    return !x->owner && x->requires_grad && x->contiguous;
}

static bool declare_backward(tg_op_call *call, tg_rounded kind, int64_t count)
{
    return tg_op_backward_scratch(call, count, (size_t)kind) && tg_op_backward_scratch(call, TG_ALIGNMENT, 1);
}

/* Declares scratch memory for an input, for both kernels, or reserves the copy of a parameter. */
static bool declare_input(tg_op_call *call, tg_rounded kind, int input)
{
    tg_tensor *x = call->inputs[input];
    if (is_parameter(x)) {
        return tg_tape_reserve_copy(call->tape, x, kind) || tg_op_fail(call, TG_ERROR_MEMORY, "out of memory");
    }
    int64_t count = walk_of(x).count;
    return tg_op_scratch(call, count, (size_t)kind) && tg_op_scratch(call, TG_ALIGNMENT, 1) &&
           declare_backward(call, kind, count);
}

static bool prepare(tg_op_call *call, const tg_gemm *g, bool add)
{
    return tg_onednn_prepare(call->tape->onednn, call->op->name, g, add, call->tape->error);
}

/* Whether backward adds to a gradient is known only when it runs. */
static bool prepare_backward(tg_op_call *call, int input, const tg_gemm *g)
{
    return !call->tape->recording || !call->inputs[input]->requires_grad ||
           (prepare(call, g, false) && prepare(call, g, true));
}

bool tg_products_declare(tg_op_call *call, tg_rounded kind, const tg_products *p)
{
    if (kind == TG_NOT_ROUNDED) {
        return true;
    }
    bool is_declared =
        declare_input(call, kind, 0) && declare_input(call, kind, 1) && declare_backward(call, kind, p->outputs);
    return is_declared &&
           (kind != TG_ROUNDED_BF16 || (prepare(call, &p->forward, p->forward_adds) &&
                                        prepare_backward(call, 0, &p->for_a) && prepare_backward(call, 1, &p->for_b)));
}

/* Returns scratch memory for the next factor. The one after it begins on a cache line. */
static void *take(tg_factors *f, int64_t count)
{
    char *taken = f->scratch;
    f->scratch += ((size_t)count * (size_t)f->kind + TG_ALIGNMENT - 1) / TG_ALIGNMENT * TG_ALIGNMENT;
    return taken;
}

const void *tg_input_factor(tg_factors *f, int input)
{
    const tg_tensor *x = f->call->inputs[input];
    if (f->kind == TG_NOT_ROUNDED) {
        return tg_values(x);
    }
    const void *copy = tg_tape_copy_of(f->call->tape, x, f->kind);
    if (!copy) {
        tg_walk walk = walk_of(x);
        void *rounded = take(f, walk.count);
        tg_round_walk(&walk, tg_values(x), f->kind, rounded);
        copy = rounded;
    }
    return copy;
}

const void *tg_gradient_factor(tg_factors *f)
{
    const void *gradient = f->call->output_gradients[0];
    if (f->kind == TG_NOT_ROUNDED) {
        return gradient;
    }
    int64_t count = f->call->outputs[0]->count;
    void *rounded = take(f, count);
    tg_round_values(gradient, count, f->kind, rounded);
    return rounded;
}
