/* model: predicts the next token from the tokens before it.
 *
 *   x      = token[id] + position[t]      (B,T,C)    without positions: token[id] alone
 *   h      = gelu(hidden(x))              (B,T,2C)   features of this token at this position
 *   m      = causal mean of h             (B,T,2C)   m[t] = mean of h[0..t], which ignores order
 *   y      = gelu(mix(m))                 (B,T,2C)
 *   logits = head(y)                      (B,T,V)
 *
 * The mean does not depend on the order of the tokens. With position embeddings, h of a token depends on its position,
 * and the model can use the order. So the loss of a model without positions is larger.
 */
#ifndef MODEL_H
#define MODEL_H

#include <tapegrad.h>

typedef struct model {
    tg_params *params;
    bool with_positions;
    tg_nn_embedding token;
    tg_nn_positional position;
    tg_nn_linear hidden, mix, head;
    /* (T,T): row t holds 1/(t+1) up to column t */
    tg_tensor *averages;
} model;

/* Draws all parameters from the generator of the run, which has the error, too. */
model model_make(tg_run *run, int64_t vocabulary, int64_t dim, int64_t context, bool with_positions);

/* Returns the number of parameters that the model computes with. */
int64_t model_parameter_count(const model *m);

void model_free(model *m);

/* ids (B,T) -> logits (B,T,V). */
tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *ids);

#endif
