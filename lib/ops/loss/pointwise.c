/* pointwise: the loop of losses that are computed value by value, which pointwise.h describes.
 *
 *   forward     y = sum_i l_i / divisor
 *   gradient    dx_i += dl (d l_i / d x_i),    with dl = dy / divisor
 *
 * The sum of each chunk is in double, and so is the sum of these sums, in order. Threads divide the chunks, so the bits
 * are the same for any number of threads.
 */
#include "ops/loss/pointwise.h"

#include "ops/lanes.h"

typedef struct loss_loop {
    const tg_op_call *call;
    tg_chunk_kernel *kernel;
    int64_t count;                        /* of the losses */
    bool plain[TG_ELEMENTWISE_INPUTS];    /* the input is `real` and has the shape of the losses */
    tg_walk walks[TG_ELEMENTWISE_INPUTS]; /* of the inputs that are not plain */
    double *sums;                         /* of each chunk, in the forward pass */
    real dl;                              /* in backward */
    real *dx;
    bool overwrite;
} loss_loop;

static void set_up(loss_loop *l, const tg_op_call *call)
{
    const tg_tensor *first = call->inputs[0];
    tg_shape shape = tg_shape_of(first);
    l->call = call;
    l->count = first->count;
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        l->plain[i] = x->dtype == REAL_DTYPE && tg_same_shape(x, first);
        if (!l->plain[i]) {
            l->walks[i] = tg_walk_broadcast(x, &shape);
        }
    }
}

/* Returns the inputs of a chunk. Those that are not plain are copied to `gathered`. */
static tg_chunk chunk_at(const loss_loop *l, int64_t begin, real gathered[][TG_ELEMENTWISE_CHUNK])
{
    tg_chunk k = {.n = l->count - begin < TG_ELEMENTWISE_CHUNK ? l->count - begin : TG_ELEMENTWISE_CHUNK,
                  .attributes = l->call->attributes};
    for (int i = 0; i < l->call->input_count; i++) {
        const tg_tensor *x = l->call->inputs[i];
        k.in[i] = gathered[i];
        if (l->plain[i]) {
            k.in[i] = (const real *)tg_values(x) + begin;
        } else {
            KERNEL(tg_chunk_gather)(&l->walks[i], x, begin, k.n, gathered[i]);
        }
    }
    return k;
}

static void sum_chunks(void *context, int64_t begin, int64_t end)
{
    const loss_loop *l = context;
    real gathered[TG_ELEMENTWISE_INPUTS][TG_ELEMENTWISE_CHUNK], losses[TG_ELEMENTWISE_CHUNK];
    for (int64_t c = begin; c < end; c++) {
        tg_chunk k = chunk_at(l, c * TG_ELEMENTWISE_CHUNK, gathered);
        k.out = losses;
        l->kernel(&k);
        l->sums[c] = row_sum(losses, k.n);
    }
}

/* Chunks per thread, for the grain of elementwise loops. */
#define CHUNK_GRAIN (1 + TG_GRAIN / TG_ELEMENTWISE_CHUNK)

static int64_t chunks_of(int64_t count)
{
    return count / TG_ELEMENTWISE_CHUNK + (count % TG_ELEMENTWISE_CHUNK != 0);
}

static double divisor_of(const tg_op_call *call)
{
    const tg_loss_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    return tg_loss_divisor(a->reduction, x->count, x->rank > 0 ? x->shape[0] : 1);
}

void KERNEL(tg_loss_forward)(const tg_op_call *call)
{
    if (((const tg_loss_attributes *)call->attributes)->reduction == TG_REDUCTION_NONE) {
        KERNEL(tg_elementwise_forward)(call);
        return;
    }
    loss_loop l;
    set_up(&l, call);
    l.kernel = KERNEL(tg_elementwise_kernels_of)(call)->forward;
    l.sums = call->scratch;
    int64_t chunks = chunks_of(l.count);
    tg_parallel_for(chunks, CHUNK_GRAIN, sum_chunks, &l);
    double sum = 0;
    for (int64_t c = 0; c < chunks; c++) {
        sum += l.sums[c];
    }
    *(real *)tg_values(call->outputs[0]) = (real)(sum / divisor_of(call));
}

static void gradient_chunks(void *context, int64_t begin, int64_t end)
{
    const loss_loop *l = context;
    real gathered[TG_ELEMENTWISE_INPUTS][TG_ELEMENTWISE_CHUNK], dl[TG_ELEMENTWISE_CHUNK],
        gradient[TG_ELEMENTWISE_CHUNK];
    for (int64_t i = 0; i < TG_ELEMENTWISE_CHUNK; i++) {
        dl[i] = l->dl;
    }
    for (int64_t c = begin; c < end; c++) {
        tg_chunk k = chunk_at(l, c * TG_ELEMENTWISE_CHUNK, gathered);
        real *dx = l->dx + c * TG_ELEMENTWISE_CHUNK;
        k.dy = dl;
        k.out = l->overwrite ? dx : gradient;
        l->kernel(&k);
        for (int64_t i = 0; i < k.n && !l->overwrite; i++) {
            dx[i] += gradient[i];
        }
    }
}

/* The forward pass computed y = sum_i l_i / divisor. */
void KERNEL(tg_loss_backward)(const tg_op_call *call)
{
    if (((const tg_loss_attributes *)call->attributes)->reduction == TG_REDUCTION_NONE) {
        KERNEL(tg_elementwise_backward)(call);
        return;
    }
    loss_loop l;
    set_up(&l, call);
    l.dl = (real)((double)*(const real *)call->output_gradients[0] / divisor_of(call));
    for (int i = 0; i < call->input_count; i++) {
        if (call->input_gradients[i]) {
            l.kernel = KERNEL(tg_elementwise_kernels_of)(call)->gradient[i];
            l.dx = call->input_gradients[i];
            l.overwrite = call->overwrite[i];
            tg_parallel_for(chunks_of(l.count), CHUNK_GRAIN, gradient_chunks, &l);
        }
    }
}

#ifdef TG_ONCE

bool tg_loss_check_reduction(tg_op_call *call, tg_reduction reduction, bool allows_batch_mean)
{
    if ((unsigned)reduction > TG_REDUCTION_BATCH_MEAN) {
        return tg_op_fail(call, TG_ERROR_VALUE, "reduction %d does not exist", (int)reduction);
    }
    return reduction != TG_REDUCTION_BATCH_MEAN || allows_batch_mean ||
           tg_op_fail(call, TG_ERROR_VALUE,
                      "TG_REDUCTION_BATCH_MEAN is for kl_div; the reduction must be mean, sum or none");
}

bool tg_loss_expect_constant(tg_op_call *call, int input, const char *name)
{
    return !call->tape->recording || !tg_tensor_requires_grad(call->inputs[input]) ||
           tg_op_fail(call, TG_ERROR_STATE, "the %s requires a gradient, and has none in this loss (tg_detach)", name);
}

bool tg_loss_report_shapes(tg_op_call *call, int input, const char *rule)
{
    char x[TG_SHAPE_TEXT], x_name[TG_INPUT_TEXT], other[TG_SHAPE_TEXT], name[TG_INPUT_TEXT];
    return tg_op_fail(call, TG_ERROR_SHAPE, "%s has shape %s and %s %s; they must be equal%s",
                      tg_op_input_text(call->op, input, name), tg_shape_format(tg_shape_of(call->inputs[input]), other),
                      tg_op_input_text(call->op, 0, x_name), tg_shape_format(tg_shape_of(call->inputs[0]), x), rule);
}

bool tg_loss_shape(tg_op_call *call, int equal)
{
    const tg_loss_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    for (int i = 0; i < equal; i++) {
        if (!tg_op_expect_float(call, i)) {
            return false;
        }
        if (!tg_same_shape(x, call->inputs[i])) {
            return tg_loss_report_shapes(call, i, "");
        }
    }
    if (a->reduction == TG_REDUCTION_NONE) {
        return tg_op_output_like(call, tg_dtype_of(x), 0);
    }
    return tg_op_output(call, 0, tg_dtype_of(x), TG_SCALAR) && tg_op_scratch(call, chunks_of(x->count), sizeof(double));
}

#endif
