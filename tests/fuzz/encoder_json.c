/* encoder.json, the ids of a file of merges: two texts with a NUL between them, first the merges. If they are accepted,
 * every token has its own bytes, tokenizer.json keeps all of them, and a text is encoded and decoded back. */
#include <stdio.h>
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

static void check(const tg_tokenizer *tokenizer, tg_tokenizer *again)
{
    static const char text[] = "the hen then\n\xc3\xa9\xc2\xa0 12";
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    size_t length, other_length;
    fuzz_require(tg_tokenizer_encode(again, text, strlen(text), false, &tokens, &error), "%s", error.text);
    char *decoded = tg_tokenizer_decode(tokenizer, tokens.ids, tokens.count, &length, &error);
    fuzz_require(decoded && length == strlen(text) && memcmp(decoded, text, length) == 0, "decode: %s", error.text);
    tg_text_free(decoded);
    tg_tokens_free(&tokens);
    fuzz_require(tg_tokenizer_vocabulary(tokenizer) == tg_tokenizer_vocabulary(again), "another number of tokens");
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(tokenizer); id++) {
        const char *bytes = tg_tokenizer_bytes(tokenizer, id, &length);
        const char *other = tg_tokenizer_bytes(again, id, &other_length);
        fuzz_require(length == other_length && memcmp(bytes, other, length) == 0, "token %d has other bytes", (int)id);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint8_t *end = size ? memchr(bytes, '\0', size) : NULL;
    size_t merges = end ? (size_t)(end - bytes) : size, skipped = end ? 1 : 0;
    char ids[100];
    fuzz_memory_begin();
    const char *path = fuzz_file(bytes + merges + skipped, size - merges - skipped);
    snprintf(ids, sizeof ids, "%s.ids", path);
    fuzz_require(rename(path, ids) == 0, "'%s' cannot be written", ids);
    fuzz_file(bytes, merges);
    tg_error error = TG_NO_ERROR;
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.ids = ids;
    tg_tokenizer *tokenizer = tg_tokenizer_open(path, &config, &error);
    fuzz_require(tokenizer ? error.code == TG_OK : error.code == TG_ERROR_FORMAT, "open: code %d, \"%s\"",
                 (int)error.code, error.text);
    if (tokenizer) {
        fuzz_require(tg_tokenizer_save(tokenizer, path, TG_VOCABULARY_JSON, &error), "save: %s", error.text);
        tg_tokenizer *again = tg_tokenizer_open(path, NULL, &error);
        fuzz_require(again != NULL, "open what was saved: %s", error.text);
        check(tokenizer, again);
        tg_tokenizer_free(again);
    }
    tg_tokenizer_free(tokenizer);
    remove(ids);
    fuzz_memory_end();
    return 0;
}
