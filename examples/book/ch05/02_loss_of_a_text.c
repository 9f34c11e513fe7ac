/* 02: How is a text divided for training, and how large is the loss before that? The story in two parts, one for
 * training and one for validation, and the loss of both before training. */
#include "training.h"

/* Prints the shapes of all batches of a pass. Returns the number of input tokens. */
static int64_t print_pass(tg_loader *loader)
{
    int64_t tokens = 0;
    for (tg_batch batch; tg_loader_next(loader, &batch);) {
        tokens += tg_tensor_count(batch.inputs);
        printf("torch.Size([%lld, %lld]) ", (long long)tg_tensor_size(batch.inputs, 0),
               (long long)tg_tensor_size(batch.inputs, 1));
        print_shape(batch.targets);
    }
    check(tg_loader_error(loader));
    return tokens;
}

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("How is a text divided for training, and how large is the loss before that?");
    tg_tokenizer *bpe = book_tokenizer(book);
    tg_run *run = tg_run_new(123);
    story data = story_new(book, bpe, run);

    cell(55);
    size_t shown = data.length < 99 ? data.length : 99;
    print_text(stdout, data.text, shown);
    printf("\n");
    cell(56);
    print_text(stdout, data.text + data.length - shown, shown);
    printf("\n");
    cell(57);
    printf("Characters: %zu\nTokens: %lld\n", data.length, (long long)data.tokens);

    cell(65);
    printf("Train loader:\n");
    int64_t train_tokens = print_pass(data.train);
    printf("\nValidation loader:\n");
    int64_t validation_tokens = print_pass(data.validation);
    cell(67);
    printf("Training tokens: %lld\nValidation tokens: %lld\nAll tokens: %lld\n", (long long)train_tokens,
           (long long)validation_tokens, (long long)(train_tokens + validation_tokens));

    tg_rng_seed(tg_run_rng(run), 123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = model_new(params, book, bpe);
    tg_tape *t = book_tape(run);
    /* the seed for the order of the batches; the order changes the mean loss only by rounding */
    tg_rng_seed(tg_run_rng(run), 123);
    cell(71);
    printf("Training loss: %.15g\n", mean_loss(t, model, data.train, INT64_MAX));
    printf("Validation loss: %.15g\n", mean_loss(t, model, data.validation, INT64_MAX));

    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    story_free(&data);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    return book_end();
}
