/* 06: How large is GPT-2, and what does it write before it is trained? An untrained GPT-2 of 124 million parameters:
 * its logits, its size, and the text that it generates. */
#include "../book.h"

#include <string.h>

/* Prints a count with commas, as Python's {:,} does. */
static void print_grouped(int64_t count)
{
    if (count >= 1000) {
        print_grouped(count / 1000);
        printf(",%03d", (int)(count % 1000));
    } else {
        printf("%d", (int)count);
    }
}

static void print_sizes(const tg_params *params)
{
    tg_tensor *tokens = tg_params_find(params, "tok_emb.weight"), *head = tg_params_find(params, "out_head.weight");
    int64_t total = tg_params_value_count(params);
    cell(74);
    printf("Total number of parameters: ");
    print_grouped(total);
    cell(76);
    printf("Token embedding layer shape: ");
    print_shape(tokens);
    printf("Output layer shape: ");
    print_shape(head);
    /* GPT-2 uses one table for the embedding and the head */
    cell(78);
    printf("Number of trainable parameters considering weight tying: ");
    print_grouped(total - tg_tensor_count(head));
    cell(80);
    printf("Total size of the model: %.2f MB\n", (double)total * sizeof(float) / (1024 * 1024));
}

/* Generates greedily, always the most probable token: the chapter's generate_text_simple. */
static void print_generated(tg_tape *t, const tg_gpt *model, tg_tokenizer *bpe)
{
    const char *start = "Hello, I am";
    tg_error error = TG_NO_ERROR;
    tg_tokens prompt;
    tg_tokenizer_encode(bpe, start, strlen(start), false, &prompt, &error);
    tg_tensor *encoded = tg_tensor_new_from_i32(TG_SHAPE(1, prompt.count), prompt.ids, &error);
    check(&error);
    cell(90);
    printf("encoded: ");
    print_ids(prompt.ids, prompt.count);
    printf("\nencoded_tensor.shape: ");
    print_shape(encoded);

    /* GPT-2's tokenizer needs 4 tokens for the prompt, another one more */
    int32_t text[64] = {0};
    memcpy(text, prompt.ids, (size_t)prompt.count * sizeof *text);
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 6;
    int64_t made = tg_gpt_generate(t, model, prompt.ids, prompt.count, text + prompt.count, &config);
    check(tg_tape_error(t));
    cell(91);
    printf("Output: tensor([");
    print_ids(text, prompt.count + made);
    printf("])\nOutput length: %lld\n", (long long)(prompt.count + made));
    char *decoded = tg_tokenizer_decode(bpe, text, prompt.count + made, NULL, &error);
    check(&error);
    cell(93);
    print_text(stdout, decoded, strlen(decoded));
    printf("\n");
    tg_text_free(decoded);
    tg_release(encoded);
    tg_tokens_free(&prompt);
}

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("How large is GPT-2, and what does it write before it is trained?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    tg_tokenizer *bpe = book_tokenizer(book);
    config.vocabulary = tg_tokenizer_vocabulary(bpe);
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));

    tg_tensor *batch = book_batch_of_two(book);
    /* (2,4) -> (2,4,50257); with dropout, because the chapter's model is in training mode */
    tg_tensor *logits = tg_gpt_forward(t, model, batch, NULL);
    check(tg_tape_error(t));
    cell(72);
    printf("Input batch:\n");
    print_tensor(batch);
    printf("\nOutput shape: ");
    print_shape(logits);
    print_tensor(logits);

    print_sizes(params);
    print_generated(t, model, bpe);

    tg_tokenizer_free(bpe);
    tg_tape_free(t);
    tg_release(batch);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}
