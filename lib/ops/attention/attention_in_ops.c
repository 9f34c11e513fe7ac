/* attention_in_ops: the gradient of the fused attention, written in ops (tg_op.differentiate): that of the elementary
 * chain (attention_elementary.c), with the weights P.
 *
 *   dP = dy v^T    dS = P (dP - sum_j dP_ij P_ij)    dv = P^T dy    dq = scale dS k    dk = scale dS^T q    db = dS
 */
#include "ops/attention/attention.h"
#include "ops/attention/attention_attributes.h"
#include "ops/differentiate.h"

/* Returns whether each matrix of x serves a group of heads of the queries. */
static bool is_grouped(const tg_op_call *call, int input)
{
    const tg_tensor *x = call->inputs[input], *q = call->inputs[0];
    return x->rank >= 3 && x->shape[x->rank - 3] != 1 && x->shape[x->rank - 3] != q->shape[q->rank - 3];
}

/* Returns the keys, or the values, with a matrix for each head. */
static tg_tensor *with_heads(tg_tape *t, const tg_op_call *call, int input)
{
    const tg_tensor *q = call->inputs[0];
    tg_tensor *x = call->inputs[input];
    return is_grouped(call, input) ? tg_attention_repeat_heads(t, x, q->shape[q->rank - 3]) : x;
}

/* Returns the gradient a^T b of the keys, or of the values: that of a group of heads is the sum of theirs. */
static tg_tensor *add_heads(tg_tape *t, const tg_op_call *call, int input, tg_tensor *a, tg_tensor *b)
{
    const tg_tensor *x = call->inputs[input], *q = call->inputs[0];
    tg_tensor *dx = tg_matmul(t, tg_transpose(t, a, -2, -1), b);
    if (!is_grouped(call, input)) {
        return dx;
    }
    const int64_t keys = x->shape[x->rank - 2], width = x->shape[x->rank - 1];
    const int64_t heads = q->shape[q->rank - 3] / x->shape[x->rank - 3];
    tg_shape shape = tg_shape_of(q);
    shape.size[q->rank - 3] /= heads;
    shape.size[q->rank - 2] = keys;
    dx = tg_reshape(t, dx, tg_shape_make(4, (int64_t[]){-1, heads, keys, width}));
    return tg_reshape(t, tg_sum(t, dx, TG_AXES(1), TG_DROP_AXES), shape);
}

void tg_differentiate_attention(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const attention_attributes *a = call->attributes;
    if (a->p > 0) {
        tg_tape_fail(t, TG_ERROR_VALUE, "grad", "'%s' with dropout has no second derivative", call->op->name);
        return;
    }
    if (tg_op_is_empty(call)) {
        return;
    }
    tg_tensor *q = call->inputs[0], *keys = with_heads(t, call, 1), *values = with_heads(t, call, 2);
    tg_scaled_dot_product_attention_config config = {
        .scale = a->scale, .is_causal = a->causal, .window = a->window, .first_keys = attention_first_keys_of(call)};
    config.bias = a->has_bias ? call->inputs[3] : NULL;
    config.key_mask = attention_mask_of(call);
    tg_tensor *weights = keys ? tg_attention_weights(t, q, keys, &config) : NULL;
    tg_tensor *dweights = tg_matmul(t, dy[0], tg_transpose(t, values, -2, -1));
    tg_tensor *dot = tg_sum(t, tg_mul(t, dweights, weights), TG_AXES(-1), TG_KEEP_AXES);
    tg_tensor *dscores = tg_mul(t, weights, tg_sub(t, dweights, dot)), *scaled = tg_mul_scalar(t, dscores, a->scale);
    dx[0] = tg_wants(call, 0) ? tg_matmul(t, scaled, keys) : NULL;
    dx[1] = tg_wants(call, 1) ? add_heads(t, call, 1, scaled, q) : NULL;
    dx[2] = tg_wants(call, 2) ? add_heads(t, call, 2, weights, dy[0]) : NULL;
    if (a->has_bias) {
        dx[3] = dscores;
    }
}
