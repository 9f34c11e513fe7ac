/* The first bytes are options, the others a text: first as a file of vectors, then as a file of words, which are saved
 * as they were read, and then as the text of a vocabulary. What was encoded without unknown words decodes to a text
 * with the same ids. */
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

/* Saving and opening gives the same words. */
static void check_saved(const tg_words *words, const tg_words_config *config)
{
    tg_error error = TG_NO_ERROR;
    const char *path = fuzz_file("", 0);
    fuzz_require(tg_words_save(words, path, &error), "save: %s", error.text);
    tg_words *opened = tg_words_open(path, config, &error);
    fuzz_require(opened && tg_words_vocabulary(opened) == tg_words_vocabulary(words), "open: %s", error.text);
    for (int32_t id = 0; id < tg_words_vocabulary(words); id++) {
        fuzz_require(strcmp(tg_words_at(words, id), tg_words_at(opened, id)) == 0, "word %d differs", (int)id);
        fuzz_require(tg_words_find(words, tg_words_at(words, id)) == id, "word %d has another id", (int)id);
    }
    tg_words_free(opened);
}

static void check_text(const tg_words *words, const char *text, size_t size)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens, again;
    if (!tg_words_encode(words, text, size, &tokens, &error)) {
        fuzz_require(error.code == TG_ERROR_RANGE || error.code == TG_ERROR_FORMAT, "encode: %s", error.text);
        return;
    }
    size_t length;
    char *decoded = tg_words_decode(words, tokens.ids, tokens.count, &length, &error);
    fuzz_require(decoded && strlen(decoded) == length, "decode: %s", error.text);
    fuzz_require(tg_words_encode(words, decoded, length, &again, &error), "encode again: %s", error.text);
    fuzz_require(again.count == tokens.count &&
                     (tokens.count == 0 || memcmp(again.ids, tokens.ids, (size_t)tokens.count * 4) == 0),
                 "other ids after decoding");
    tg_tokens_free(&tokens);
    tg_tokens_free(&again);
    tg_text_free(decoded);
}

/* The bytes as a file of vectors; what was read is saved and read again with the same bits, except those of NaN. */
static void check_vectors(const char *bytes, size_t size, tg_vectors_format format)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *vectors, *again;
    tg_words *words = tg_words_open_vectors(fuzz_file(bytes, size), format, &vectors, &error);
    fuzz_require(words ? vectors != NULL : !vectors && error.code == TG_ERROR_FORMAT, "vectors: %s", error.text);
    if (!words) {
        return;
    }
    const char *path = fuzz_file("", 0);
    fuzz_require(tg_words_save_vectors(words, vectors, path, format, &error), "save vectors: %s", error.text);
    tg_words *opened = tg_words_open_vectors(path, format, &again, &error);
    fuzz_require(opened && tg_words_vocabulary(opened) == tg_words_vocabulary(words), "open vectors: %s", error.text);
    fuzz_require(tg_tensor_count(again) == tg_tensor_count(vectors), "another size");
    for (int64_t i = 0; i < tg_tensor_count(again); i++) {
        double a = tg_tensor_value_at(vectors, i), b = tg_tensor_value_at(again, i);
        fuzz_require(a == b || (a != a && b != b), "value %d differs", (int)i);
    }
    for (int32_t id = 0; id < tg_words_vocabulary(words); id++) {
        fuzz_require(strcmp(tg_words_at(words, id), tg_words_at(opened, id)) == 0, "word %d differs", (int)id);
    }
    tg_words_free(words);
    tg_words_free(opened);
    tg_release(vectors);
    tg_release(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const special[] = {"[MASK]", "<|unk|>"};
    fuzz_input input = {bytes, size};
    unsigned options = fuzz_byte(&input);
    tg_words_config config = tg_words_config_default();
    config.split = options & 1 ? TG_WORD_SPLIT_SPACE : TG_WORD_SPLIT_PUNCTUATION;
    config.order = options & 2 ? TG_WORD_ORDER_BYTES : TG_WORD_ORDER_FREQUENCY;
    config.unknown = options & 4 ? NULL : "<|unk|>";
    config.special_count = (int)(options >> 3 & 3) % 3;
    config.special = config.special_count > 0 ? special : NULL;
    config.special_last = options & 32;
    config.min_count = 1 + (options >> 6 & 1);
    config.vocabulary = options >> 7 ? 5 : INT32_MAX;
    const char *text = (const char *)input.bytes;
    fuzz_memory_begin();
    check_vectors(text, input.size, TG_VECTORS_TEXT);
    check_vectors(text, input.size, TG_VECTORS_BINARY);
    tg_error error = TG_NO_ERROR;
    tg_words *words = tg_words_open(fuzz_file(text, input.size), &config, &error);
    fuzz_require(words || error.code == TG_ERROR_FORMAT, "open: %s", error.text);
    if (words) {
        check_saved(words, &config);
    }
    tg_words_free(words);

    tg_error_clear(&error);
    words = tg_words_new(text, input.size, &config, &error);
    bool is_text = fuzz_is_utf8(input.bytes, input.size) && (input.size == 0 || !memchr(text, 0, input.size));
    fuzz_require(words ? is_text : !is_text && error.code == TG_ERROR_FORMAT, "new: %s", error.text);
    if (words) {
        fuzz_require(tg_words_vocabulary(words) <= config.vocabulary, "%d words", (int)tg_words_vocabulary(words));
        check_saved(words, &config);
        check_text(words, text, input.size);
    }
    tg_words_free(words);
    fuzz_memory_end();
    return 0;
}
