/* embedding: rows of a table, picked by id.
 *
 *   forward     y[i,:]      = W[id[i],:]        W (V,C), ids of any shape S  ->  y (S,C)
 *   gradient    dW[id[i],:] += dy[i,:]          ids that repeat add up
 *
 * Every id is checked before anything is written: a bad id changes nothing.
 * Only rows that an id names get a gradient. In a leaf the others do not exist, so the cost is that of the batch and not
 * of V. Each row adds its positions in order, and the columns are what threads divide, so the bits never depend on their
 * number. With a padding index that row gets no gradient from here; forward returns it like any other.
 *
 * Follows torch.nn.functional.embedding.
 */
#include "ops/real.h"

#include <tapegrad/ops.h>

typedef struct rows_context {
    const char *table; /* forward: W; backward: dy */
    char *out;         /* forward: y; backward: where the rows of dW are */
    const int32_t *rows;
    int64_t count, width;
} rows_context;

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
    rows_context r = {tg_values(table), tg_values(call->outputs[0]), tg_values(ids), ids->count, table->shape[1]};
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
        real *to = values + r->rows[i] * r->width;
        for (int64_t c = begin; c < end; c++) {
            to[c] += from[c];
        }
    }
}

void KERNEL(tg_embedding_backward)(const tg_op_call *call)
{
    const tg_tensor *table = call->inputs[0], *ids = call->inputs[1];
    const int64_t padding = *(const int64_t *)call->attributes;
    const int32_t *id = tg_values(ids);
    int32_t *place = call->scratch;
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
        rows_context r = {call->output_gradients[0], values, place, ids->count, table->shape[1]};
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
           tg_op_backward_scratch(call, ids->count, sizeof(int32_t));
}

static const tg_op embedding_op = {
    .name = "embedding",
    .shape = embedding_shape,
    .f32 = {tg_embedding_forward_f32, tg_embedding_backward_f32},
    .f64 = {tg_embedding_forward_f64, tg_embedding_backward_f64},
    .backward_reads_inputs = 1u << 1, /* the ids */
    .row_inputs = 1u << 0,
};

static tg_tensor *lookup(tg_tape *t, tg_tensor *table, tg_tensor *ids, int64_t padding)
{
    tg_tensor *inputs[] = {table, ids};
    return tg_apply(t, &embedding_op, inputs, 2, &padding, sizeof padding);
}

tg_tensor *tg_embedding_lookup(tg_tape *t, tg_tensor *table, tg_tensor *ids)
{
    return lookup(t, table, ids, -1);
}

tg_tensor *tg_embedding_lookup_padded(tg_tape *t, tg_tensor *table, tg_tensor *ids, int64_t padding_index)
{
    int64_t rows = table && table->rank == 2 ? table->shape[0] : 0;
    if (table && (padding_index < -rows || padding_index >= rows)) {
        return tg_tape_fail(t, TG_ERROR_RANGE, "embedding", "padding index %lld is outside [%lld,%lld)",
                            (long long)padding_index, (long long)-rows, (long long)rows);
    }
    return lookup(t, table, ids, padding_index < 0 ? padding_index + rows : padding_index);
}

#endif
