/* 02: How can a tokenizer encode every text, even a word that it has never seen? GPT-2's tokenizer, byte pair encoding.
 * It can encode every text: an unknown word is split into smaller tokens. */
#include "../book.h"

static void print_tokens(const tg_tokenizer *bpe, const int32_t *ids, int64_t count)
{
    size_t length;
    tg_error error = TG_NO_ERROR;
    char *text = tg_tokenizer_decode(bpe, ids, count, &length, &error);
    check(&error);
    print_text(stdout, text, length);
    tg_text_free(text);
}

int main(int argc, char **argv)
{
    const char *folder = book_folder(argc, argv, NULL);
    question("How can a tokenizer encode every text, even a word that it has never seen?");
    tg_tokenizer *bpe = book_tokenizer(folder);
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;

    const char text[] = "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace.";
    tg_tokenizer_encode(bpe, text, sizeof text - 1, true, &tokens, &error);
    check(&error);
    cell(74);
    print_ids(tokens.ids, tokens.count);
    cell(75);
    print_tokens(bpe, tokens.ids, tokens.count);
    tg_tokens_free(&tokens);

    size_t length;
    char *raw = book_text(folder, &length);
    tg_tokenizer_encode(bpe, raw, length, false, &tokens, &error);
    check(&error);
    cell(81);
    printf("%lld\n", (long long)tokens.count);

    /* x is the model's input; y is its target, one token further */
    const int32_t *sample = tokens.ids + 50;
    cell(84);
    printf("x: ");
    print_ids(sample, 4);
    printf("\ny:      ");
    print_ids(sample + 1, 4);
    cell(86);
    for (int i = 1; i <= 4; i++) {
        print_ids(sample, i);
        printf(" ----> %d\n", sample[i]);
    }
    cell(87);
    for (int i = 1; i <= 4; i++) {
        print_tokens(bpe, sample, i);
        printf(" ----> ");
        print_tokens(bpe, sample + i, 1);
        printf("\n");
    }
    tg_tokens_free(&tokens);
    tg_text_free(raw);
    tg_tokenizer_free(bpe);
    return book_end();
}
