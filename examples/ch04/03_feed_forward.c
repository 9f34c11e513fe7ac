/* 03: what a block does at each position alone: up to four times the width, GELU, and down again. */
#include "../chapter.h"

int main(void)
{
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_gpt_config config;
    tg_gpt_config_named("gpt2-small", &config);
    cell(45);
    printf("%lld\n", (long long)config.width);

    tg_feed_forward ffn = tg_feed_forward_make(params, "ffn", config.width, 4 * config.width, TG_FEED_FORWARD_GELU);
    tg_tape *t = tg_tape_new(rng);
    check(tg_params_error(params));
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 3, config.width), NULL);
    tg_fill_uniform(x, rng, 0, 1, NULL);
    tg_tensor *y = tg_feed_forward_forward(t, &ffn, x);
    check(tg_tape_error(t));
    cell(47);
    print_shape(y);

    tg_tape_free(t);
    tg_release(x);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}
