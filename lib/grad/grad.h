/* grad (private): the state of one tg_grad. */
#ifndef TG_GRAD_GRAD_H
#define TG_GRAD_GRAD_H

#include <tapegrad/grad.h>

#include "tape/tape.h"

typedef struct tg_grad_call {
    tg_tape *tape;
    tg_tensor *const *outputs, *const *inputs;
    int output_count, input_count;
    tg_tensor **gradients; /* of the inputs; all NULL at first */
    tg_grad_config config;
} tg_grad_call;

/* Returns the gradient of output i that the config gives, or NULL. */
static inline tg_tensor *tg_given_gradient(const tg_grad_call *g, int i)
{
    return g->config.output_gradients ? g->config.output_gradients[i] : NULL;
}

/* Computes the gradients in ops, which are recorded, after tg_find_paths. Returns false with the error set; the records
 * that exist then are the caller's to remove. */
bool tg_grad_in_ops(const tg_grad_call *g);

#endif
