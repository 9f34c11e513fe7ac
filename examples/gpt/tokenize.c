/* tokenize: converts a text to token ids, so that training need not do it each time. The file has nanoGPT's .bin
 * format: the ids without a header. */
#include <string.h>

#include "../common/program.h"
#include "../common/terminal.h"
#include "../common/vocabulary.h"
#include "commands.h"

static void print_pieces(const tg_tokenizer *bpe, const tg_tokens *tokens)
{
    for (int64_t i = 0; i < tokens->count; i++) {
        char text[TOKEN_TEXT];
        printf("%8d  %s\n", tokens->ids[i], token_text(bpe, tokens->ids[i], text));
    }
}

static bool tokenize_prompt(tg_tokenizer *bpe, const options *o, tg_error *error)
{
    tg_tokens tokens;
    if (!tg_tokenizer_encode(bpe, o->prompt, strlen(o->prompt), o->end_of_text, &tokens, error)) {
        return false;
    }
    print_pieces(bpe, &tokens);
    printf("%zu bytes, %lld tokens\n", strlen(o->prompt), (long long)tokens.count);
    tg_tokens_free(&tokens);
    return true;
}

static bool tokenize_file(tg_tokenizer *bpe, const options *o, tg_error *error)
{
    int64_t length;
    int width = tg_tokenizer_vocabulary(bpe) <= 65536 ? 2 : 4;
    int64_t count = vocabulary_encode(bpe, o->text, o->out, width, o->end_of_text, &length, error);
    if (count >= 0) {
        print_line(stdout, "%s: %lld bytes, %lld tokens of %d bytes each in %s", o->text, (long long)length,
                   (long long)count, width, o->out);
    }
    return count >= 0;
}

int tokenize(const options *o)
{
    tg_error error = TG_NO_ERROR;
    if (!o->vocab || (o->prompt != NULL) == (o->text != NULL) || (o->out != NULL) != (o->text != NULL)) {
        complain("tokenize: the options must be --vocab FILE and either --text FILE --out FILE or --prompt TEXT");
        return 2;
    }
    tg_tokenizer *bpe = tg_tokenizer_open(o->vocab, NULL, &error);
    bool good = bpe && (o->text ? tokenize_file(bpe, o, &error) : tokenize_prompt(bpe, o, &error));
    tg_tokenizer_free(bpe);
    return good || complain("%s", error.text) ? 0 : interrupted() ? 130 : 2;
}
