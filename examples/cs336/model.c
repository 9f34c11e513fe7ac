#include "model.h"

#include <math.h>
#include <stdio.h>

/* ---- layers ---- */

tg_tensor *rms_norm(tg_tape *t, tg_tensor *x, tg_tensor *weight)
{
    tg_tensor *square = tg_mean(t, tg_mul(t, x, x), TG_AXES(-1), TG_KEEP_AXES);
    return tg_mul(t, tg_mul(t, x, tg_pow_scalar(t, tg_add_scalar(t, square, 1e-5), -0.5)), weight);
}

tg_tensor *silu(tg_tape *t, tg_tensor *x)
{
    return tg_mul(t, x, tg_sigmoid(t, x));
}

tg_tensor *swiglu(tg_tape *t, tg_tensor *x, tg_tensor *w1, tg_tensor *w2, tg_tensor *w3)
{
    tg_tensor *gate = silu(t, tg_linear(t, x, w1, NULL));
    return tg_linear(t, tg_mul(t, gate, tg_linear(t, x, w3, NULL)), w2, NULL);
}

tg_tensor *softmax(tg_tape *t, tg_tensor *x, int axis)
{
    tg_tensor *e = tg_exp(t, tg_sub(t, x, tg_amax(t, x, TG_AXES(axis), TG_KEEP_AXES)));
    return tg_div(t, e, tg_sum(t, e, TG_AXES(axis), TG_KEEP_AXES));
}

/* ---- attention ---- */

tg_tensor *attention(tg_tape *t, tg_tensor *q, tg_tensor *k, tg_tensor *v, tg_tensor *mask)
{
    tg_tensor *scores =
        tg_div_scalar(t, tg_matmul(t, q, tg_transpose(t, k, -2, -1)), sqrt((double)tg_tensor_size(q, -1)));
    scores = tg_masked_fill(t, scores, tg_logical_not(t, mask), -INFINITY);
    return tg_matmul(t, softmax(t, scores, -1), v);
}

tg_tensor *rope(tg_tape *t, tg_tensor *x, double theta)
{
    int64_t positions = tg_tensor_size(x, -2), pairs = tg_tensor_size(x, -1) / 2;
    /* the angles, (T,D/2): a column of positions times a row of frequencies, theta^(-2 i / D) */
    tg_tensor *ones = tg_full(t, TG_F32, TG_SHAPE(positions), 1), *all = tg_full(t, TG_F32, TG_SHAPE(pairs), 1);
    tg_tensor *column = tg_add_scalar(t, tg_cumsum(t, ones, 0), -1), *row = tg_add_scalar(t, tg_cumsum(t, all, 0), -1);
    tg_tensor *frequencies = tg_exp(t, tg_mul_scalar(t, row, -log(theta) / (double)pairs));
    tg_tensor *angles = tg_mul(t, tg_unsqueeze(t, column, 1), frequencies);
    tg_tensor *c = tg_cos(t, angles), *s = tg_sin(t, angles);
    tg_tensor *even = tg_slice(t, x, -1, 0, 2 * pairs, 2), *odd = tg_slice(t, x, -1, 1, 2 * pairs, 2);
    tg_tensor *rotated[] = {tg_sub(t, tg_mul(t, even, c), tg_mul(t, odd, s)),
                            tg_add(t, tg_mul(t, even, s), tg_mul(t, odd, c))};
    return tg_reshape(t, tg_stack(t, rotated, 2, -1), tg_tensor_shape(x));
}

/* (B,T,C) -> (B,heads,T,C/heads) */
static tg_tensor *split_heads(tg_tape *t, tg_tensor *x, int64_t heads)
{
    return tg_transpose(t, tg_reshape(t, x, TG_SHAPE(tg_tensor_size(x, 0), tg_tensor_size(x, 1), heads, -1)), 1, 2);
}

tg_tensor *multihead_attention(tg_tape *t, const multihead *w, tg_tensor *x, int64_t heads, double theta)
{
    tg_tensor *q = split_heads(t, tg_linear(t, x, w->q, NULL), heads);
    tg_tensor *k = split_heads(t, tg_linear(t, x, w->k, NULL), heads);
    tg_tensor *v = split_heads(t, tg_linear(t, x, w->v, NULL), heads);
    if (theta > 0) {
        q = rope(t, q, theta);
        k = rope(t, k, theta);
    }
    int64_t tokens = tg_tensor_size(x, 1);
    tg_tensor *causal = tg_tril(t, tg_full(t, TG_F32, TG_SHAPE(tokens, tokens), 1), 0);
    tg_tensor *joined = tg_reshape(t, tg_transpose(t, attention(t, q, k, v, causal), 1, 2), tg_tensor_shape(x));
    return tg_linear(t, joined, w->output, NULL);
}

/* ---- the model ---- */

tg_tensor *block_forward(tg_tape *t, const block *w, tg_tensor *x, int64_t heads, double theta)
{
    x = tg_add(t, x, multihead_attention(t, &w->attention, rms_norm(t, x, w->norm1), heads, theta));
    return tg_add(t, x, swiglu(t, rms_norm(t, x, w->norm2), w->w1, w->w2, w->w3));
}

/* Returns a new parameter of normal values, cut at three standard deviations; of ones for a std of 0. */
static tg_tensor *make(tg_params *params, tg_rng *rng, const char *name, tg_shape shape, double std, tg_error *error)
{
    tg_tensor *x = tg_params_add(params, name, shape);
    if (std > 0) {
        tg_init_trunc_normal(x, rng, 0, std, -3 * std, 3 * std, error);
    } else {
        tg_tensor_fill(x, 1, error);
    }
    return x;
}

void model_make(model *m, tg_params *params, tg_rng *rng, tg_error *error)
{
    int64_t c = m->width, h = m->hidden;
    double square = sqrt(2 / (double)(c + c)), wide = sqrt(2 / (double)(c + h));
    m->table = make(params, rng, "token_embeddings.weight", TG_SHAPE(m->vocabulary, c), 1, error);
    for (int i = 0; i < m->layers; i++) {
        block *b = &m->blocks[i];
        const struct {
            const char *name;
            tg_tensor **x;
            tg_shape shape;
            double std;
        } parts[] = {{"attn.q_proj", &b->attention.q, TG_SHAPE(c, c), square},
                     {"attn.k_proj", &b->attention.k, TG_SHAPE(c, c), square},
                     {"attn.v_proj", &b->attention.v, TG_SHAPE(c, c), square},
                     {"attn.output_proj", &b->attention.output, TG_SHAPE(c, c), square},
                     {"ln1", &b->norm1, TG_SHAPE(c), 0},
                     {"ffn.w1", &b->w1, TG_SHAPE(h, c), wide},
                     {"ffn.w2", &b->w2, TG_SHAPE(c, h), wide},
                     {"ffn.w3", &b->w3, TG_SHAPE(h, c), wide},
                     {"ln2", &b->norm2, TG_SHAPE(c), 0}};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            char name[100];
            snprintf(name, sizeof name, "layers.%d.%s.weight", i, parts[k].name);
            *parts[k].x = make(params, rng, name, parts[k].shape, parts[k].std, error);
        }
    }
    m->norm = make(params, rng, "ln_final.weight", TG_SHAPE(c), 0, error);
    m->head =
        make(params, rng, "lm_head.weight", TG_SHAPE(m->vocabulary, c), sqrt(2 / (double)(m->vocabulary + c)), error);
}

tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *ids)
{
    tg_tensor *x = tg_embedding(t, ids, m->table, NULL);
    for (int i = 0; i < m->layers; i++) {
        x = block_forward(t, &m->blocks[i], x, m->heads, m->theta);
    }
    return tg_linear(t, rms_norm(t, x, m->norm), m->head, NULL);
}
