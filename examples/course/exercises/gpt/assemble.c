/* assemble: all parts in their order.
 *
 * The ids become token vectors, positions are added, each block changes the vectors a little, a
 * last norm brings them to one scale, and a linear layer without a bias turns each vector into a
 * logit for every token. Nothing else is in a GPT-2, however large it is.
 *
 * Shapes: ids (batch,time) -> (batch,time,width) -> ... -> logits (batch,time,vocabulary).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: which of these layers would notice if the words were in another order, without the
 * positions and the mask? */
#include <tapegrad.h>

typedef struct gpt {
    tg_nn_embedding tokens;
    tg_nn_positional positions;
    tg_nn_transformer_block blocks[2];
    int block_count;
    tg_nn_layer_norm norm;
    tg_nn_linear head;
} gpt;

/* Each module has a function tg_nn_..._forward(tape, &module, x). The positions have one more argument, the position of
 * the first token, 0; the blocks have a config, NULL. */
tg_tensor *gpt_forward(tg_tape *t, const gpt *g, tg_tensor *ids)
{
    tg_tensor *x = tg_nn_embedding_forward(t, &g->tokens, ids);
    /* your part */
    return tg_nn_linear_forward(t, &g->head, x);
    /* end of your part */
}
