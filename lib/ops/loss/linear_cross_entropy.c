/* linear_cross_entropy: the cross-entropy of a head's logits, of which only some rows exist at a time.
 *
 *   logits      L = x W^T                x (..,C), W (V,C)
 *   forward     l = cross_entropy(L)     (cross_entropy.c)
 *   gradient    dx += dL W
 *               dW += dL^T x             summed over the rows
 *
 * The logits (..,V) of a large vocabulary, and their gradient, are the largest tensors of a GPT. Here a chunk of their
 * rows is computed in scratch memory, and its losses from it. Backward computes the chunk again, replaces it by its
 * gradient in place, and adds the products to dx and dW. So the memory of the logits does not grow with the number of
 * rows. The price is one more product of the size of forward, and dW is read and written once per chunk. Logits of a
 * single chunk are kept for backward instead, without that price. Follows torch.nn.functional.linear_cross_entropy,
 * whose chunks save the same memory.
 *
 * Computing the gradients in forward and keeping them would save that product, but needs a second gradient of the
 * weight. For GPT-2 and 512 positions it is larger than the logits.
 */
#include <tapegrad/extend.h>

#include "ops/lanes.h"
#include "ops/loss/cross_entropy_rows.h"

TG_DECLARE_WIDE_KERNELS(tg_linear_cross_entropy_forward, tg_linear_cross_entropy_backward);

enum { X, TARGETS, WEIGHT, CLASS_WEIGHT, GROUPS = CLASS_WEIGHT }; /* the inputs; there are no groups with weights */

/* The rows of a chunk: with fewer than 64, the products would read W more often than it pays. */
static int64_t chunk_rows(int64_t rows, int64_t classes)
{
    int64_t wanted = ((int64_t)1 << 23) / classes;
    wanted = wanted < 64 ? 64 : wanted;
    return rows < wanted ? rows : wanted;
}

/* The bytes that forward saves of the losses. Behind them are the logits, if they are kept. */
static size_t loss_bytes(int64_t rows)
{
    return sizeof(tg_cross_entropy_saved) + (size_t)rows * sizeof(tg_softmax_row);
}

/* A call, and its current chunk of rows. */
typedef struct chunk {
    const real *x;
    const void *weight;
    int weight_dtype;
    const int32_t *groups; /* or NULL */
    int64_t in, rows, step, begin, end;
    bool kept; /* the logits are a single chunk, which forward keeps */
    real *logits;
    tg_cross_entropy_rows loss_rows;
} chunk;

static chunk chunk_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[X], *weight = call->inputs[WEIGHT];
    chunk c = {.x = tg_values(x), .weight = tg_values(weight), .weight_dtype = weight->dtype, .in = weight->shape[1]};
    c.rows = call->inputs[TARGETS]->count;
    c.step = chunk_rows(c.rows, weight->shape[0]);
    c.kept = c.step == c.rows;
    c.logits = c.kept ? (real *)((char *)call->saved + loss_bytes(c.rows)) : call->scratch;
    c.loss_rows = (tg_cross_entropy_rows){.targets = tg_values(call->inputs[TARGETS]),
                                          .x = c.logits,
                                          .overwrite = true,
                                          .saved = call->saved,
                                          .classes = weight->shape[0],
                                          .attributes = *(const tg_cross_entropy_attributes *)call->attributes};
    if (c.loss_rows.attributes.has_groups) {
        c.groups = tg_values(call->inputs[GROUPS]);
    } else if (call->input_count > CLASS_WEIGHT) {
        c.loss_rows.weight = tg_values(call->inputs[CLASS_WEIGHT]);
        c.loss_rows.weight_sum = row_sum(c.loss_rows.weight, c.loss_rows.classes);
    }
    return c;
}

/* Makes the rows from this one on the current chunk. */
static void begin_chunk(chunk *c, int64_t begin)
{
    c->begin = c->loss_rows.first = begin;
    c->end = begin + c->step < c->rows ? begin + c->step : c->rows;
}

/* Removes the logits of other rows of a row's group. */
static void hide_groups(void *context, int64_t begin, int64_t end)
{
    const chunk *c = context;
    for (int64_t row = begin; row < end; row++) {
        real *logits = c->logits + row * c->loss_rows.classes, own = logits[c->begin + row];
        int32_t group = c->groups[c->begin + row];
        for (int64_t k = 0; k < c->rows; k++) {
            logits[k] = c->groups[k] == group ? -(real)INFINITY : logits[k];
        }
        logits[c->begin + row] = own;
    }
}

static void compute_logits(chunk *c)
{
    int64_t V = c->loss_rows.classes;
    tg_gemm logits = {c->end - c->begin, V, c->in, .b_layout = TG_TRANSPOSED, .lda = c->in, .ldb = c->in, .ldc = V};
    gemm_by(&logits, c->x + c->begin * c->in, c->weight_dtype, c->weight, c->logits);
    if (c->groups) {
        tg_parallel_for(c->end - c->begin, 1 + TG_GRAIN / (c->rows + 1), hide_groups, c);
    }
}

static void for_rows(chunk *c, void (*run)(void *loss_rows, int64_t begin, int64_t end))
{
    tg_parallel_for(c->end - c->begin, 1 + TG_GRAIN / 8 / (c->loss_rows.classes + 1), run, &c->loss_rows);
}

void KERNEL(tg_linear_cross_entropy_forward)(const tg_op_call *call)
{
    const tg_cross_entropy_attributes *a = call->attributes;
    chunk c = chunk_of(call);
    real *y = tg_values(call->outputs[0]);
    real *losses = c.kept ? call->scratch : c.logits + c.step * c.loss_rows.classes;
    c.loss_rows.losses = a->config.reduction == TG_REDUCTION_NONE ? y : losses;
    for (int64_t begin = 0; begin < c.rows; begin += c.step) {
        begin_chunk(&c, begin);
        compute_logits(&c);
        for_rows(&c, KERNEL(tg_cross_entropy_of_rows));
    }
    KERNEL(tg_cross_entropy_reduce)(&c.loss_rows, c.rows, y);
}

/* The forward pass computed l = cross_entropy(x W^T). */
void KERNEL(tg_linear_cross_entropy_backward)(const tg_op_call *call)
{
    chunk c = chunk_of(call);
    int64_t V = c.loss_rows.classes;
    real *dx = call->input_gradients[X], *dweight = call->input_gradients[WEIGHT];
    real *dlogits = c.loss_rows.dx = call->scratch;
    c.loss_rows.dy = call->output_gradients[0];
    for (int64_t begin = 0; begin < c.rows; begin += c.step) {
        begin_chunk(&c, begin);
        if (!c.kept) {
            compute_logits(&c);
        }
        for_rows(&c, KERNEL(tg_cross_entropy_gradient_of_rows));
        int64_t rows = c.end - begin;
        if (dx) {
            tg_gemm product = {rows, c.in, V, .lda = V, .ldb = c.in, .ldc = c.in, .add = true};
            gemm_by(&product, dlogits, c.weight_dtype, c.weight, dx + begin * c.in);
        }
        if (dweight) {
            tg_gemm product = {V, c.in, rows, .transpose_a = true, .lda = V, .ldb = c.in, .ldc = c.in, .add = true};
            gemm(&product, dlogits, c.x + begin * c.in, dweight);
        }
    }
}

#ifdef TG_ONCE

static bool linear_cross_entropy_shape(tg_op_call *call)
{
    const tg_cross_entropy_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[X], *targets = call->inputs[TARGETS], *weight = call->inputs[WEIGHT];
    if (!tg_op_expect_float(call, X) || !tg_op_expect_dtype(call, TARGETS, TG_I32) ||
        !tg_op_expect_float(call, WEIGHT)) {
        return false;
    }
    tg_shape rows = tg_shape_of(x);
    rows.rank--;
    if (rows.rank < 0 || !tg_shape_equal(rows, tg_shape_of(targets)) || weight->rank != 2 || weight->shape[0] < 1 ||
        weight->shape[1] < 1 || x->shape[rows.rank] != weight->shape[1]) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "x is %s, the weight %s, the targets %s; they must be (..,C), (V,C) and (..), V and C >= 1",
                          tg_shape_text_of(x).text, tg_shape_text_of(weight).text, tg_shape_text_of(targets).text);
    }
    int64_t V = weight->shape[0], step = chunk_rows(targets->count, V);
    if (V > TG_GEMM_LIMIT || weight->shape[1] > TG_GEMM_LIMIT) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the weight is %s; BLAS takes sizes up to %d",
                          tg_shape_text_of(weight).text, TG_GEMM_LIMIT);
    }
    size_t size = tg_size_of(tg_dtype_of(x));
    bool kept = step == targets->count;
    return tg_check_cross_entropy(call, &a->config, V, a->has_groups ? call->input_count : CLASS_WEIGHT) &&
           tg_check_targets(call, V, a->config.ignore_index, "the weight", weight) &&
           tg_op_output(call, 0, tg_dtype_of(x), a->config.reduction == TG_REDUCTION_NONE ? rows : TG_SCALAR) &&
           tg_op_save(call, 1, sizeof(tg_cross_entropy_saved)) &&
           tg_op_save(call, targets->count, sizeof(tg_softmax_row)) && tg_op_save(call, kept ? step * V : 0, size) &&
           tg_op_scratch(call, (kept ? 0 : step * V) + targets->count, size) &&
           tg_op_backward_scratch(call, step * V, size);
}

static const tg_op linear_cross_entropy_op = {
    .name = "linear_cross_entropy",
    .shape = linear_cross_entropy_shape,
    .input_names = {"x", "targets", "weight", "config.weight"},
    TG_WIDE_KERNELS(tg_linear_cross_entropy_forward, tg_linear_cross_entropy_backward),
    .backward_ignores_outputs = TG_OP_ALL,
    .bf16_inputs = 1u << WEIGHT,
};

tg_tensor *tg_linear_cross_entropy(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *targets,
                                   const tg_cross_entropy_config *config)
{
    const tg_op *op = &linear_cross_entropy_op;
    if (!tg_tape_expect_config(t, op->name, config, tg_cross_entropy_mark)) {
        return NULL;
    }
    tg_cross_entropy_attributes a = {.config = config ? *config : tg_cross_entropy_config_default()};
    tg_tensor *inputs[] = {x, targets, weight, a.config.weight};
    return tg_apply(t, op, inputs, a.config.weight ? 4 : 3, &a, sizeof a, NULL);
}

tg_tensor *tg_linear_cross_entropy_of_groups(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *targets,
                                             tg_tensor *groups)
{
    tg_cross_entropy_attributes a = {.config = tg_cross_entropy_config_default(), .has_groups = groups};
    tg_tensor *inputs[] = {x, targets, weight, groups};
    return tg_apply(t, &linear_cross_entropy_op, inputs, groups ? 4 : 3, &a, sizeof a, NULL);
}

#endif
