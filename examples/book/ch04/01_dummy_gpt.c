/* 01: Which parts does a GPT have besides its transformer blocks? A GPT without transformer blocks: token and position
 * embeddings, dropout, and a head that computes a logit for each of the 50257 tokens. */
#include "../book.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("Which parts does a GPT have besides its transformer blocks?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    /* V 50257, context 1024, width 768, dropout 0.1 */
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    tg_nn_embedding tok_emb = tg_nn_embedding_make(params, "tok_emb", config.vocabulary, config.width, NULL);
    tg_nn_positional pos_emb =
        tg_nn_positional_make(params, "pos_emb", TG_POSITION_LEARNED, config.context, config.width, NULL);
    tg_nn_linear out_head = tg_nn_linear_make(params, "out_head", config.width, config.vocabulary, TG_NO_BIAS);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));

    tg_tensor *batch = book_batch_of_two(book);
    cell(15);
    print_tensor(batch);

    /* (2,4) -> (2,4,768) -> (2,4,50257) */
    tg_tensor *x = tg_nn_positional_forward(t, &pos_emb, tg_nn_embedding_forward(t, &tok_emb, batch), 0);
    tg_tensor *logits = tg_nn_linear_forward(t, &out_head, tg_dropout(t, x, config.dropout));
    check(tg_tape_error(t));
    cell(16);
    printf("Output shape: ");
    print_shape(logits);
    print_tensor(logits);

    tg_tape_free(t);
    tg_release(batch);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}
