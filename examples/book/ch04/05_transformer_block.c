/* 05: What goes into a transformer block, and what comes out? A transformer block: norm, attention, shortcut, norm,
 * feed-forward, shortcut. The output has the shape of the input, so blocks can be stacked. */
#include "../book.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("What goes into a transformer block, and what comes out?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 4, config.width), NULL);
    tg_tensor_fill_uniform(x, tg_run_rng(run), 0, 1, NULL);
    tg_nn_transformer_block_config options = tg_nn_transformer_block_config_default();
    options.dropout = config.dropout;
    options.attention.dropout = config.dropout;
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "block", config.width, config.heads, &options);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));
    tg_tensor *y = tg_nn_transformer_block_forward(t, &block, x, NULL);
    check(tg_tape_error(t));
    cell(64);
    printf("Input shape: ");
    print_shape(x);
    printf("Output shape: ");
    print_shape(y);

    tg_tape_free(t);
    tg_release(x);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}
