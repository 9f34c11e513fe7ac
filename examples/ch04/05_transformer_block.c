/* 05: the parts together: norm, attention, shortcut, norm, feed-forward, shortcut. The shape stays, so blocks stack. */
#include "../chapter.h"

int main(void)
{
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_gpt_config config;
    tg_gpt_config_named("gpt2-small", &config);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 4, config.width), NULL);
    tg_fill_uniform(x, rng, 0, 1, NULL);
    tg_multi_head_attention_config attention = tg_multi_head_attention_config_default();
    attention.dropout = config.dropout;
    tg_transformer_block block =
        tg_transformer_block_make(params, "block", config.width, config.heads, config.dropout, &attention);
    tg_tape *t = tg_tape_new(rng);
    check(tg_params_error(params));
    tg_tensor *y = tg_transformer_block_forward(t, &block, x);
    check(tg_tape_error(t));
    cell(64);
    printf("Input shape: ");
    print_shape(x);
    printf("Output shape: ");
    print_shape(y);

    tg_tape_free(t);
    tg_release(x);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}
