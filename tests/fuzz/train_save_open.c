/* A tokenizer that is trained on a text, saved and opened again gives the same ids, which decode to the text. A file of
 * the text gives the same tokenizer. The first byte is the size of the vocabulary above 256. */
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

static tg_tokens encode(tg_tokenizer *tokenizer, const char *text, size_t length)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    fuzz_require(tg_tokenizer_encode(tokenizer, text, length, false, &tokens, &error), "encode: %s", error.text);
    return tokens;
}

static void save_and_open(tg_tokenizer *tokenizer, const char *text, size_t length)
{
    tg_error error = TG_NO_ERROR;
    const char *path = fuzz_file("", 0);
    fuzz_require(tg_tokenizer_save(tokenizer, path, TG_VOCABULARY_MERGES, &error), "save: %s", error.text);
    tg_tokenizer *opened = tg_tokenizer_open(path, NULL, &error);
    fuzz_require(opened != NULL, "open: %s", error.text);
    tg_tokens ids = encode(tokenizer, text, length), same = encode(opened, text, length);
    fuzz_require(ids.count == same.count && (ids.count == 0 || memcmp(ids.ids, same.ids, (size_t)ids.count * 4) == 0),
                 "the opened tokenizer gives other ids");
    size_t decoded_length;
    char *decoded = tg_tokenizer_decode(opened, same.ids, same.count, &decoded_length, &error);
    fuzz_require(decoded && decoded_length == length && (length == 0 || memcmp(decoded, text, length) == 0),
                 "the ids decode to another text: %s", error.text);
    tg_text_free(decoded);
    tg_tokens_free(&ids);
    tg_tokens_free(&same);
    tg_tokenizer_free(opened);
}

static void compare_vocabularies(const tg_tokenizer *a, const tg_tokenizer *b)
{
    fuzz_require(tg_tokenizer_vocabulary(a) == tg_tokenizer_vocabulary(b), "the file gives other ids");
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(a); id++) {
        size_t a_length, b_length;
        const char *bytes = tg_tokenizer_bytes(a, id, &a_length), *same = tg_tokenizer_bytes(b, id, &b_length);
        fuzz_require(a_length == b_length && memcmp(bytes, same, a_length) == 0, "the file gives another id %d", id);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_input input = {bytes, size};
    int32_t vocabulary = 256 + (int32_t)fuzz_byte(&input);
    const char *text = (const char *)input.bytes;
    fuzz_memory_begin();
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *tokenizer = tg_tokenizer_train(text, input.size, vocabulary, &error);
    bool is_valid = vocabulary >= 257 && fuzz_is_utf8(input.bytes, input.size);
    fuzz_require(is_valid == (tokenizer != NULL), "train: %s", tokenizer ? "accepted" : error.text);
    const char *path = fuzz_file(text, input.size);
    tg_tokenizer *same = tg_tokenizer_train_files(&path, 1, vocabulary, NULL, NULL);
    fuzz_require(is_valid == (same != NULL), "train_files and train do not agree");
    if (tokenizer) {
        compare_vocabularies(tokenizer, same);
        fuzz_require(tg_tokenizer_vocabulary(tokenizer) <= vocabulary, "the vocabulary is too large");
        save_and_open(tokenizer, text, input.size);
    }
    tg_tokenizer_free(tokenizer);
    tg_tokenizer_free(same);
    fuzz_memory_end();
    return 0;
}
