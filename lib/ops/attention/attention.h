/* attention (private): the parts of tg_scaled_dot_product_attention. */
#ifndef TG_OPS_ATTENTION_ATTENTION_H
#define TG_OPS_ATTENTION_ATTENTION_H

#include <tapegrad/ops.h>

/* Checks the arguments and the config, before dropout draws. Expands the queries to the batch axes of the weights,
 * those of the keys, the bias and the mask; and replaces lengths by a mask of keys. Values may have more batch axes,
 * along which the weights are the same. A result without values has no dropout, unless the weights are asked for. The
 * functions below take what it has prepared. */
bool tg_attention_prepare(tg_tape *tape, tg_tensor **queries, const tg_tensor *keys, const tg_tensor *values,
                          tg_scaled_dot_product_attention_config *config);

tg_tensor *tg_attention_fused(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                              const tg_scaled_dot_product_attention_config *config);

/* Its caller returns to a point of the tape if it fails. */
tg_tensor *tg_attention_elementary(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                   const tg_scaled_dot_product_attention_config *config);

/* Returns the weights (..,T,S) of the elementary path, after softmax and dropout. */
tg_tensor *tg_attention_weights(tg_tape *tape, tg_tensor *queries, tg_tensor *keys,
                                const tg_scaled_dot_product_attention_config *config);

#endif
