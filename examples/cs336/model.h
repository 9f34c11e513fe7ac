/* model: the transformer of CS336's first assignment, by ops: what the course has its students write. The library has
 * fused ops for most of it, which the programs compare: tg_rms_norm, tg_softmax, tg_scaled_dot_product_attention and
 * tg_rotary. */
#ifndef MODEL_H
#define MODEL_H

#include <tapegrad.h>

/* ---- layers ---- */

/* x / sqrt(mean(x^2) + 1e-5) weight (Zhang and Sennrich 2019): x (..,C), weight (C) */
tg_tensor *rms_norm(tg_tape *t, tg_tensor *x, tg_tensor *weight);

/* x sigmoid(x) */
tg_tensor *silu(tg_tape *t, tg_tensor *x);

/* W2 (silu(W1 x) * W3 x) (Shazeer 2020): x (..,C), w1 and w3 (H,C), w2 (C,H) */
tg_tensor *swiglu(tg_tape *t, tg_tensor *x, tg_tensor *w1, tg_tensor *w2, tg_tensor *w3);

/* e^x / sum(e^x) along an axis; the largest value is subtracted first, so that nothing overflows */
tg_tensor *softmax(tg_tape *t, tg_tensor *x, int axis);

/* ---- attention ---- */

/* softmax(q k^T / sqrt(D)) v: q (..,T,D), k and v (..,S,D); where the mask (..,T,S) is 0 the weight is 0 */
tg_tensor *attention(tg_tape *t, tg_tensor *q, tg_tensor *k, tg_tensor *v, tg_tensor *mask);

/* Rotates the channels 2 i and 2 i + 1 of row `p` of x (..,T,D) by the angle p theta^(-2 i / D) (Su et al. 2021). */
tg_tensor *rope(tg_tape *t, tg_tensor *x, double theta);

/* The weights of causal attention with several heads, (C,C) each. */
typedef struct multihead {
    tg_tensor *q, *k, *v, *output;
} multihead;

/* x (B,T,C) -> (B,T,C); a theta of 0 leaves the positions out */
tg_tensor *multihead_attention(tg_tape *t, const multihead *w, tg_tensor *x, int64_t heads, double theta);

/* ---- the model ---- */

/* The parameters of a block, under the course's names. */
typedef struct block {
    multihead attention;
    tg_tensor *norm1, *w1, *w2, *w3, *norm2;
} block;

/* x + attention(norm(x)), and then x + swiglu(norm(x)) */
tg_tensor *block_forward(tg_tape *t, const block *w, tg_tensor *x, int64_t heads, double theta);

enum { MOST_LAYERS = 8 };

typedef struct model {
    /* the sizes: set them before model_make */
    int64_t vocabulary, context, width, layers, heads, hidden;
    double theta;
    /* the parameters */
    tg_tensor *table;
    block blocks[MOST_LAYERS];
    tg_tensor *norm, *head;
} model;

/* Makes the parameters. The initial values are those of the assignment: of a matrix (out,in) normal with the variance
 * 2 / (in + out), cut at three standard deviations; of the table with the variance 1, cut at 3; and 1 for norms. */
void model_make(model *m, tg_params *params, tg_rng *rng, tg_error *error);

/* ids (B,T) -> logits (B,T,V) */
tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *ids);

#endif
