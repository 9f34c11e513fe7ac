/* attention (private): the two paths of tg_scaled_dot_product_attention. The caller has checked the config. */
#ifndef TG_OPS_ATTENTION_H
#define TG_OPS_ATTENTION_H

#include <tapegrad/ops.h>

tg_tensor *tg_attention_fused(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                              const tg_scaled_dot_product_attention_config *config);

tg_tensor *tg_attention_elementary(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                   const tg_scaled_dot_product_attention_config *config);

/* Returns the weights (..,T,S) of the elementary path, after softmax and dropout. */
tg_tensor *tg_attention_weights(tg_tape *tape, tg_tensor *queries, tg_tensor *keys,
                                const tg_scaled_dot_product_attention_config *config);

#endif
