/* pointwise: the loop of losses that are computed value by value, which pointwise.h describes.
 *
 *   forward     y = sum_i l_i / divisor
 *   gradient    dx_i += dl (d l_i / d x_i),    with dl = dy / divisor
 *
 * The sum of each chunk is in double, and so is the sum of these sums, in order. Threads divide the chunks, so the bits
 * are the same for any number of threads.
 */
#include "ops/elementwise/elementwise_real.h"
#include "ops/loss/pointwise.h"

#include "base/least.h"
#include "ops/lanes.h"

typedef struct loss_loop {
    tg_elementwise_call elements;
    tg_chunk_kernel *kernel;
    int64_t count; /* of the losses */
    double *sums;  /* of each chunk, in the forward pass */
    real *dx;      /* in backward */
    bool overwrite;
} loss_loop;

static void sum_chunks(void *context, int64_t begin, int64_t end)
{
    const loss_loop *l = context;
    real losses[TG_ELEMENTWISE_CHUNK];
    for (int64_t c = begin; c < end; c++) {
        const int64_t first = c * TG_ELEMENTWISE_CHUNK, n = least(l->count - first, TG_ELEMENTWISE_CHUNK);
        KERNEL(tg_elementwise_part)(&l->elements, l->kernel, first, first + n, losses);
        l->sums[c] = row_sum(losses, n);
    }
}

/* Chunks per thread, for the grain of elementwise loops. */
enum { CHUNK_GRAIN = (1 + TG_GRAIN / TG_ELEMENTWISE_CHUNK) };

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
    const tg_shape shape = tg_shape_of(call->inputs[0]);
    loss_loop l = {.count = call->inputs[0]->count, .sums = call->scratch};
    KERNEL(tg_elementwise_set)(&l.elements, call, &shape, 0);
    l.kernel = l.elements.kernels->forward;
    int64_t chunks = chunks_of(l.count);
    tg_parallel_for(chunks, CHUNK_GRAIN, sum_chunks, &l);
    double sum = 0;
    for (int64_t c = 0; c < chunks; c++) {
        sum += l.sums[c];
    }
    *(real *)tg_values(call->outputs[0]) = (real)(sum / divisor_of(call));
}

static void find_gradients(void *context, int64_t begin, int64_t end)
{
    const loss_loop *l = context;
    if (l->overwrite) {
        KERNEL(tg_elementwise_part)(&l->elements, l->kernel, begin, end, l->dx + begin);
    } else {
        KERNEL(tg_elementwise_add)(&l->elements, l->kernel, begin, end, l->dx + begin);
    }
}

/* The forward pass computed y = sum_i l_i / divisor. */
void KERNEL(tg_loss_backward)(const tg_op_call *call)
{
    if (((const tg_loss_attributes *)call->attributes)->reduction == TG_REDUCTION_NONE) {
        KERNEL(tg_elementwise_backward)(call);
        return;
    }
    const tg_shape shape = tg_shape_of(call->inputs[0]);
    loss_loop l = {.count = call->inputs[0]->count};
    real dl[TG_ELEMENTWISE_CHUNK];
    for (int64_t i = 0; i < TG_ELEMENTWISE_CHUNK; i++) {
        dl[i] = (real)((double)*(const real *)call->output_gradients[0] / divisor_of(call));
    }
    KERNEL(tg_elementwise_set)(&l.elements, call, &shape, 0);
    l.elements.dy = dl;
    l.elements.dy_is_chunk = true;
    for (int i = 0; i < call->input_count; i++) {
        if (call->input_gradients[i]) {
            l.kernel = l.elements.kernels->gradient[i];
            l.dx = call->input_gradients[i];
            l.overwrite = writes_gradient(call, i);
            tg_parallel_for(l.count, TG_GRAIN, find_gradients, &l);
        }
    }
}

#ifdef TG_ONCE

tg_tensor *tg_loss_gradient(tg_tape *t, const tg_op_call *call, tg_tensor *dy)
{
    return tg_div_scalar(t, dy, divisor_of(call));
}

const tg_op_kernels tg_loss_levels[TG_LEVELS][2] = TG_KERNELS_UP_TO(avx2, tg_loss_forward, tg_loss_backward);

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
    char x_name[TG_INPUT_TEXT], name[TG_INPUT_TEXT];
    return tg_op_fail(call, TG_ERROR_SHAPE, "%s has shape %s and %s %s; they must be equal%s",
                      tg_op_input_text(call->op, input, name), tg_shape_text_of(call->inputs[input]).text,
                      tg_op_input_text(call->op, 0, x_name), tg_shape_text_of(call->inputs[0]).text, rule);
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
