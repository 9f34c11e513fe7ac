/* 06: GPT-2 of 124 million parameters, untrained: its logits, its size, and what it writes when nothing has been
 * learned. */
#include "../chapter.h"

#include <string.h>

/* A count with commas, as Python's {:,}. */
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
    int64_t total = tg_params_values(params);
    cell(74);
    printf("Total number of parameters: ");
    print_grouped(total);
    cell(76);
    printf("Token embedding layer shape: ");
    print_shape(tokens);
    printf("Output layer shape: ");
    print_shape(head);
    cell(78); /* GPT-2 uses one table for both */
    printf("Number of trainable parameters considering weight tying: ");
    print_grouped(total - tg_count(head));
    cell(80);
    printf("Total size of the model: %.2f MB\n", (double)total * sizeof(float) / (1024 * 1024));
}

/* The likeliest token, again and again: the chapter's generate_text_simple. */
static void print_generated(tg_tape *t, const tg_gpt *model, tg_tokenizer *bpe)
{
    const char *start = "Hello, I am";
    tg_error error = TG_NO_ERROR;
    tg_tokens prompt;
    tg_tokenizer_encode(bpe, start, strlen(start), false, &prompt, &error);
    tg_tensor *encoded = tg_tensor_new_from(TG_I32, TG_SHAPE(1, prompt.count), prompt.ids, &error);
    check(error.text);
    cell(90);
    printf("encoded: ");
    print_ids(prompt.ids, prompt.count);
    printf("\nencoded_tensor.shape: ");
    print_shape(encoded);

    int32_t text[10] = {0};
    memcpy(text, prompt.ids, (size_t)prompt.count * sizeof *text);
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 6;
    int64_t made = tg_gpt_generate(t, model, prompt.ids, prompt.count, &config, text + prompt.count);
    check(tg_tape_error(t));
    cell(91);
    printf("Output: tensor([");
    print_ids(text, prompt.count + made);
    printf("])\nOutput length: %lld\n", (long long)(prompt.count + made));
    char *decoded = tg_tokenizer_decode(bpe, text, prompt.count + made, NULL, &error);
    check(error.text);
    cell(93);
    printf("%s\n", decoded);
    tg_text_free(decoded);
    tg_release(encoded);
    tg_tokens_free(&prompt);
}

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv);
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_gpt_config config;
    tg_gpt_config_named("gpt2-small", &config);
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_tape *t = tg_tape_new(rng);
    check(tg_params_error(params));

    tg_tensor *batch = book_batch_of_two(book);
    tg_tensor *logits = tg_gpt_forward(t, model, batch); /* in training mode, with dropout, as in the chapter */
    check(tg_tape_error(t));
    cell(72);
    printf("Input batch:\n");
    tg_print(stdout, batch);
    printf("\nOutput shape: ");
    print_shape(logits);
    tg_print(stdout, logits);

    print_sizes(params);
    tg_tokenizer *bpe = book_tokenizer(book);
    print_generated(t, model, bpe);

    tg_tokenizer_free(bpe);
    tg_tape_free(t);
    tg_release(batch);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}
