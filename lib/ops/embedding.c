/* embedding: rows of a table, picked by id.
 *
 *   forward     y[i,:]      = W[id[i],:]        W (V,C), ids of any shape S  ->  y (S,C)
 *   gradient    dW[id[i],:] += dy[i,:]          ids that repeat add up
 *
 * Every id is checked before anything is written: a bad id changes nothing.
 * Only rows that an id names get a gradient. In a leaf the others do not exist, so the cost is that of the batch and
 * not of V. Each row adds its positions in order, and the columns are what threads divide, so the bits never depend
 * on their number. With a padding index that row gets no gradient from here; forward returns it like any other. By
 * frequency, each dy is divided by how often the call names its row.
 *
 * Follows torch.nn.functional.embedding.
 */
#include "ops/embedding.h"

#include <tapegrad/ops.h>

typedef struct rows_context {
    const char *table; /* forward: W; backward: dy */
    char *out;         /* forward: y; backward: where the rows of dW are */
    const int32_t *rows;
    int64_t count, width;
    const void *scales; /* of each dy, or NULL */
} rows_context;

typedef struct lookup_attributes {
    int64_t padding; /* a row, or -1 */
    bool by_frequency;
} lookup_attributes;

TG_DECLARE_KERNEL(tg_embedding_forward);
TG_DECLARE_KERNEL(tg_embedding_backward);

static void KERNEL(copy_rows)(void *context, int64_t begin, int64_t end)
{
    const rows_context *r = context;
    size_t bytes = (size_t)r->width * sizeof(real);
    for (int64_t i = begin; i < end; i++) {
        memcpy(r->out + (size_t)i * bytes, r->table + (size_t)r->rows[i] * bytes, bytes);
    }
}

void KERNEL(tg_embedding_forward)(const tg_op_call *call)
{
    const tg_tensor *table = call->inputs[0], *ids = call->inputs[1];
    rows_context r = {tg_values(table), tg_values(call->outputs[0]), tg_values(ids), ids->count, table->shape[1], NULL};
    tg_parallel_for(r.count, 1 + TG_GRAIN / (r.width + 1), KERNEL(copy_rows), &r);
}

/* In the forward pass this was: y[i,:] = W[id[i],:]. Columns [begin, end) of every row. */
static void KERNEL(add_rows)(void *context, int64_t begin, int64_t end)
{
    const rows_context *r = context;
    const real *dy = (const real *)(const void *)r->table;
    real *values = (real *)(void *)r->out;
    for (int64_t i = 0; i < r->count; i++) {
        if (r->rows[i] < 0) {
            continue; /* the padding row */
        }
        const real *from = dy + i * r->width;
        real *to = values + r->rows[i] * r->width, scale = r->scales ? ((const real *)r->scales)[i] : 1;
        for (int64_t c = begin; c < end; c++) {
            to[c] += scale * from[c];
        }
    }
}

/* Makes a heap's order (no child above its parent) below `top`. */
static void KERNEL(sift_down)(int32_t *heap, int64_t count, int64_t top)
{
    int32_t moved = heap[top];
    int64_t child;
    while ((child = 2 * top + 1) < count) {
        child += child + 1 < count && heap[child + 1] > heap[child];
        if (heap[child] <= moved) {
            break;
        }
        heap[top] = heap[child];
        top = child;
    }
    heap[top] = moved;
}

static void KERNEL(sort)(int32_t *ids, int64_t count)
{
    for (int64_t i = count / 2 - 1; i >= 0; i--) {
        KERNEL(sift_down)(ids, count, i);
    }
    for (int64_t last = count - 1; last > 0; last--) {
        int32_t largest = ids[0];
        ids[0] = ids[last];
        ids[last] = largest;
        KERNEL(sift_down)(ids, last, 0);
    }
}

/* How many of the sorted ids are below `bound`. */
static int64_t KERNEL(below)(const int32_t *sorted, int64_t count, int64_t bound)
{
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (sorted[middle] < bound) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

void KERNEL(tg_frequency_scales)(const int32_t *id, int64_t count, int32_t *sorted, real *scales)
{
    memcpy(sorted, id, (size_t)count * sizeof *id);
    KERNEL(sort)(sorted, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t first = KERNEL(below)(sorted, count, id[i]);
        scales[i] = (real)(1.0 / (double)(KERNEL(below)(sorted, count, (int64_t)id[i] + 1) - first));
    }
}

void KERNEL(tg_embedding_backward)(const tg_op_call *call)
{
    const tg_tensor *table = call->inputs[0], *ids = call->inputs[1];
    const lookup_attributes *a = call->attributes;
    const int64_t padding = a->padding;
    const int32_t *id = tg_values(ids);
    real *scales = call->scratch;
    int32_t *place = (int32_t *)(scales + ids->count);
    void *values = NULL;
    if (padding < 0) {
        values = tg_op_gradient_rows(call, 0, id, ids->count, place);
    }
    for (int64_t i = 0; padding >= 0 && i < ids->count; i++) {
        place[i] = -1;
        if (id[i] != padding) {
            values = tg_op_gradient_rows(call, 0, &id[i], 1, &place[i]);
        }
    }
    if (values) {
        if (a->by_frequency) {
            KERNEL(tg_frequency_scales)(id, ids->count, place + ids->count, scales);
        }
        rows_context r = {call->output_gradients[0],      values, place, ids->count, table->shape[1],
                          a->by_frequency ? scales : NULL};
        int64_t grain = r.count > 0 ? TG_GRAIN / r.count : r.width;
        tg_parallel_for(r.width, grain < 16 ? 16 : grain, KERNEL(add_rows), &r);
    }
}

#ifdef TG_ONCE

static bool embedding_shape(tg_op_call *call)
{
    const tg_tensor *table = call->inputs[0], *ids = call->inputs[1];
    tg_shape shape = tg_shape_of(ids);
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_rank(call, 0, 2) ||
        !tg_op_expect_ids_below(call, 1, table->shape[0])) {
        return false;
    }
    if (shape.rank == TG_MAX_RANK) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "ids of rank %d; at most %d, because the width is added", shape.rank,
                          TG_MAX_RANK - 1);
    }
    shape.size[shape.rank++] = table->shape[1];
    return tg_op_output(call, 0, tg_dtype_of(table), shape) && tg_op_touches_rows(call, ids->count) &&
           tg_op_backward_scratch(call, ids->count, sizeof(double) + 2 * sizeof(int32_t));
}

static const tg_op embedding_op = {
    .name = "embedding",
    .shape = embedding_shape,
    .f32 = {tg_embedding_forward_f32, tg_embedding_backward_f32},
    .f64 = {tg_embedding_forward_f64, tg_embedding_backward_f64},
    .backward_reads_inputs = 1u << 1, /* the ids */
    .row_inputs = 1u << 0,
};

tg_lookup_config tg_lookup_config_default(void)
{
    return (tg_lookup_config){.padding_index = TG_NO_PADDING};
}

bool tg_padding_row(tg_tape *t, const char *name, const tg_tensor *table, int64_t padding_index, int64_t *row)
{
    int64_t rows = table && table->rank == 2 ? table->shape[0] : 0;
    *row = padding_index == TG_NO_PADDING ? -1 : padding_index < 0 ? padding_index + rows : padding_index;
    if (padding_index != TG_NO_PADDING && table && (padding_index < -rows || padding_index >= rows)) {
        tg_tape_fail(t, TG_ERROR_RANGE, name, "padding index %lld is outside [%lld,%lld)", (long long)padding_index,
                     (long long)-rows, (long long)rows);
        return false;
    }
    return true;
}

tg_tensor *tg_embedding_lookup_with(tg_tape *t, tg_tensor *table, tg_tensor *ids, const tg_lookup_config *given)
{
    tg_lookup_config config = given ? *given : tg_lookup_config_default();
    tg_tensor *inputs[] = {table, ids};
    lookup_attributes a = {.by_frequency = config.scale_by_frequency};
    return tg_padding_row(t, "embedding", table, config.padding_index, &a.padding)
               ? tg_apply(t, &embedding_op, inputs, 2, &a, sizeof a)
               : NULL;
}

tg_tensor *tg_embedding_lookup(tg_tape *t, tg_tensor *table, tg_tensor *ids)
{
    return tg_embedding_lookup_with(t, table, ids, NULL);
}

#endif
