/* block: attention and a small network, each with a way around it.
 *
 * x goes through a layer norm and attention, and is added to what comes out; the sum goes through
 * a second norm, a linear layer, GELU and another linear layer, and is added again. The way around
 * lets gradients reach the first block of many.
 *
 * The ops of the library compute it: tg_layer_norm, tg_linear, tg_gelu_tanh, tg_add. `attention`
 * below is complete.
 *
 * Shapes: x (batch,time,width) -> the same.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: all weights and biases of both last linear layers are 0. What does the block return? */
#include <tapegrad.h>

/* The parameters: weight and bias of each layer. */
typedef struct block {
    int heads;
    tg_tensor *norm1[2], *qkv[3], *out[2], *norm2[2], *up[2], *down[2];
} block;

/* Causal attention with several heads, and the linear layer behind it. */
static tg_tensor *attention(tg_tape *t, const block *b, tg_tensor *x)
{
    int64_t batch = tg_tensor_size(x, 0), time = tg_tensor_size(x, 1), width = tg_tensor_size(x, 2);
    tg_tensor *parts[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = tg_reshape(t, tg_linear(t, x, b->qkv[i], NULL), TG_SHAPE(batch, time, b->heads, width / b->heads));
        parts[i] = tg_transpose(t, parts[i], 1, 2);
    }
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = true;
    tg_tensor *y = tg_scaled_dot_product_attention(t, parts[0], parts[1], parts[2], &config);
    y = tg_reshape(t, tg_transpose(t, y, 1, 2), TG_SHAPE(batch, time, width));
    return tg_linear(t, y, b->out[0], b->out[1]);
}

tg_tensor *block_forward(tg_tape *t, const block *b, tg_tensor *x)
{
    const double eps = 1e-5;
    /* your part */
    x = tg_add(t, x, attention(t, b, tg_layer_norm(t, x, b->norm1[0], b->norm1[1], eps)));
    tg_tensor *y = tg_layer_norm(t, x, b->norm2[0], b->norm2[1], eps);
    y = tg_gelu_tanh(t, tg_linear(t, y, b->up[0], b->up[1]));
    return tg_add(t, x, tg_linear(t, y, b->down[0], b->down[1]));
    /* end of your part */
}
