/* 01: the outline of a GPT, whose blocks do nothing yet: token and position embeddings, dropout, and a head that gives
 * a number for each of the 50257 tokens. */
#include "../chapter.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv);
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_gpt_config config; /* gpt2-small: V 50257, context 1024, width 768, dropout 0.1 */
    tg_gpt_config_named("gpt2-small", &config);
    tg_embedding tok_emb = tg_embedding_make(params, "tok_emb", config.vocabulary, config.width, NULL);
    tg_positional pos_emb = tg_positional_make(params, "pos_emb", TG_POSITION_LEARNED, config.context, config.width);
    tg_linear out_head = tg_linear_make(params, "out_head", config.width, config.vocabulary, TG_NO_BIAS);
    tg_tape *t = tg_tape_new(rng);
    check(tg_params_error(params));

    tg_tensor *batch = book_batch_of_two(book);
    cell(15);
    tg_print(stdout, batch);

    tg_tensor *x = tg_positional_forward(t, &pos_emb, tg_embedding_forward(t, &tok_emb, batch));
    tg_tensor *logits = tg_linear_forward(t, &out_head, tg_dropout(t, x, config.dropout));
    check(tg_tape_error(t));
    cell(16);
    printf("Output shape: ");
    print_shape(logits);
    tg_print(stdout, logits);

    tg_tape_free(t);
    tg_release(batch);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}
