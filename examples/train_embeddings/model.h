/* model: predicts the next token from the ones before it.
 *
 *   x  = token embedding + position embedding      (B,T,C)    without positions: the token embedding alone
 *   h  = gelu(x W1^T + b1)                         (B,T,2C)   what this token, at this place, has to say
 *   m  = causal mean of h                          (B,T,2C)   m[t] = mean of h[0..t]: a plain average, blind to order
 *   y  = gelu(m W2^T + b2)                         (B,T,2C)
 *   logits = y W3^T                                (B,T,V)
 *
 * The mean cannot tell which of the tokens came last. Only the position embedding can: it lets h say different things
 * about the same token in different places. So what a model without positions loses is what order is worth.
 */
#ifndef MODEL_H
#define MODEL_H

#include <tapegrad.h>

typedef struct model {
    tg_params *params;
    bool with_positions;
    tg_embedding token;
    tg_positional position;
    tg_linear say, mix, head;
    tg_tensor *averages; /* (T,T): row t holds 1/(t+1) up to column t */
} model;

/* All parameters are drawn from rng; check tg_params_error(m.params) afterwards. */
model model_make(tg_rng *rng, int64_t vocabulary, int64_t dim, int64_t context, bool with_positions);
void model_free(model *m);

/* ids (B,T) -> logits (B,T,V). */
tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *ids);

#endif
