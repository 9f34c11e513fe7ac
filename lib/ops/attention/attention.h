/* attention (private): the parts of tg_scaled_dot_product_attention. */
#ifndef TG_OPS_ATTENTION_ATTENTION_H
#define TG_OPS_ATTENTION_ATTENTION_H

#include <tapegrad/op.h>
#include <tapegrad/ops.h>

/* Checks the arguments and the config, before dropout draws. Expands the queries to the batch axes of the weights,
 * those of the keys, the bias and the mask; and replaces lengths by a mask of keys. Values may have more batch axes,
 * along which the weights are the same. A result without values has no dropout, unless the weights are asked for. Keys
 * and values that the mask hides become 0 if they are not finite. The functions below take what it has prepared. */
bool tg_attention_prepare(tg_tape *tape, tg_tensor **queries, tg_tensor **keys, tg_tensor **values,
                          tg_scaled_dot_product_attention_config *config);

/* Returns x, which is keys or values of queries of rank `rank`, with 0 for what the mask (B,S) hides; x itself if all
 * of that is finite. */
tg_tensor *tg_attention_hide(tg_tape *tape, tg_tensor *x, const tg_tensor *mask, int rank);

/* Returns keys or values with a matrix for each head of the queries: (..,H / n,S,D) -> (..,H,S,D). */
tg_tensor *tg_attention_repeat_heads(tg_tape *tape, tg_tensor *x, int64_t heads);

tg_tensor *tg_attention_fused(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                              const tg_scaled_dot_product_attention_config *config);

/* Its caller returns to a point of the tape if it fails. */
tg_tensor *tg_attention_elementary(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                   const tg_scaled_dot_product_attention_config *config);

/* The gradient of the fused op in ops. */
void tg_differentiate_attention(tg_tape *tape, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx);

/* Returns the weights (..,T,S) of the elementary path, after softmax and dropout. */
tg_tensor *tg_attention_weights(tg_tape *tape, tg_tensor *queries, tg_tensor *keys,
                                const tg_scaled_dot_product_attention_config *config);

#endif
