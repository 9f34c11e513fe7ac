/* positional (private): what attention asks of positions. */
#ifndef TG_NN_POSITIONAL_H
#define TG_NN_POSITIONAL_H

#include "nn/module.h"
#include "tensor/tensor.h"

/* Writes a value of a contiguous f32 or f64 tensor. */
static inline void tg_put(tg_tensor *x, int64_t i, double value)
{
    if (x->dtype == TG_F32) {
        ((float *)tg_values(x))[i] = (float)value;
    } else {
        ((double *)tg_values(x))[i] = value;
    }
}

void tg_fill_sinusoidal(tg_tensor *table, double first, double step, double amplitude);

/* Queries or keys (B,H,T,D) from position `start` on, turned when the positions are rotary, and otherwise as they are.
 * `positional` may be NULL in all of these: no relative positions. */
tg_tensor *tg_positional_turn(tg_tape *tape, const tg_positional *positional, tg_tensor *x, int64_t start);

/* What is added to the scaled scores of queries (B,H,T,D) and S keys: into *bias, NULL when the kind adds nothing.
 * False after an error. With `causal` no key lies ahead of its query. */
bool tg_positional_bias(tg_tape *tape, const tg_positional *positional, tg_tensor *queries, int64_t keys, bool causal,
                        tg_tensor **bias);

/* The queries that meet the keys' contents: Transformer-XL adds u. */
tg_tensor *tg_positional_content(tg_tape *tape, const tg_positional *positional, tg_tensor *queries);

/* What is added to the attention's result: Shaw's values, from weights (B,H,T,S). */
tg_tensor *tg_positional_values(tg_tape *tape, const tg_positional *positional, tg_tensor *weights);

static inline bool tg_positional_needs_weights(const tg_positional *positional)
{
    return positional && positional->kind == TG_POSITION_SHAW;
}

#endif
