/* attention_attributes (private): the attributes of the fused attention, and the rows of its queries and weights. */
#ifndef TG_OPS_ATTENTION_ATTENTION_ATTRIBUTES_H
#define TG_OPS_ATTENTION_ATTENTION_ATTRIBUTES_H

#include "ops/kernel.h"

typedef struct attention_attributes {
    double p, scale; /* p is the probability of dropout; 0 in evaluation */
    bool causal, has_bias, has_mask, has_first_keys;
    int64_t window;       /* the number of keys that a query sees at most; 0: all */
    uint32_t shared_axes; /* a bit for each axis of the queries along which the values alone differ */
} attention_attributes;

/* Returns the mask (B,S) of a call, or NULL; the inputs are queries, keys, values, and then bias, mask and first keys,
 * as far as there are any. */
static inline tg_tensor *attention_mask_of(const tg_op_call *call)
{
    const attention_attributes *a = call->attributes;
    return a->has_mask ? call->inputs[3 + a->has_bias] : NULL;
}

/* Returns the first keys (T) or (B,T) of a call, or NULL. */
static inline tg_tensor *attention_first_keys_of(const tg_op_call *call)
{
    const attention_attributes *a = call->attributes;
    return a->has_first_keys ? call->inputs[call->input_count - 1] : NULL;
}

/* Returns the number of rows that have values. */
static inline int64_t attention_rows_of(const tg_tensor *queries)
{
    int64_t width = queries->shape[queries->rank - 1];
    return width > 0 ? queries->count / width : 0;
}

/* Returns the number of rows of the weights, which are the same along the shared axes. */
static inline int64_t weight_rows_of(const tg_op_call *call)
{
    const tg_tensor *q = call->inputs[0];
    int64_t rows = 1;
    for (int axis = 0; axis < q->rank - 1; axis++) {
        rows *= ((const attention_attributes *)call->attributes)->shared_axes >> axis & 1 ? 1 : q->shape[axis];
    }
    return rows;
}

/* Returns the matrix of the weights that belongs to matrix `batch` of the queries. */
static inline int64_t weight_matrix_of(const tg_op_call *call, int64_t batch)
{
    const tg_tensor *q = call->inputs[0];
    int64_t matrix = 0, step = 1;
    for (int axis = q->rank - 3; axis >= 0; axis--) {
        if (!(((const attention_attributes *)call->attributes)->shared_axes >> axis & 1)) {
            matrix += batch % q->shape[axis] * step;
            step *= q->shape[axis];
        }
        batch /= q->shape[axis];
    }
    return matrix;
}

#endif
