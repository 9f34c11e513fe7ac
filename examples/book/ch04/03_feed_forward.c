/* 03: What does a block compute for each position by itself? The feed-forward network of a block. It acts on each
 * position separately: a linear layer to four times the width, GELU, and a linear layer back to the width. */
#include "../book.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("What does a block compute for each position by itself?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    cell(45);
    printf("%lld\n", (long long)config.width);

    tg_nn_feed_forward ffn =
        tg_nn_feed_forward_make(params, "ffn", config.width, 4 * config.width, TG_FEED_FORWARD_GELU, NULL);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 3, config.width), NULL);
    tg_tensor_fill_uniform(x, tg_run_rng(run), 0, 1, NULL);
    /* (2,3,768) -> (2,3,3072) -> (2,3,768) */
    tg_tensor *y = tg_nn_feed_forward_forward(t, &ffn, x);
    check(tg_tape_error(t));
    cell(47);
    print_shape(y);

    tg_tape_free(t);
    tg_release(x);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}
