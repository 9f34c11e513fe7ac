/* Bytes as a text: UTF-8 is encoded and decoded back, anything else is refused. Bytes as ids: they are decoded, or
 * refused if an id does not exist. */
#include <stdlib.h>
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

static const char training_text[] =
    "The keeper of the lighthouse kept the light. He'd keep it, they'll find, as the keepers before him had kept it: "
    "1899, 1900, 1901. <|endoftext|> na\xc3\xafve caf\xc3\xa9 \xe7\x81\xaf\xe5\x8f\xb0 \xf0\x9f\x92\xa1\n\n  the end\n";

static void text(tg_tokenizer *tokenizer, bool special, const uint8_t *bytes, size_t size)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens = {NULL, 77};
    if (!tg_tokenizer_encode(tokenizer, (const char *)bytes, size, special, &tokens, &error)) {
        fuzz_require(error.code == TG_ERROR_FORMAT && !fuzz_is_utf8(bytes, size), "encode refused: %s", error.text);
        fuzz_require(!tokens.ids && tokens.count == 0, "tokens are not empty after an error");
        return;
    }
    fuzz_require(fuzz_is_utf8(bytes, size), "bytes that are not UTF-8 were encoded");
    size_t length;
    char *decoded = tg_tokenizer_decode(tokenizer, tokens.ids, tokens.count, &length, &error);
    fuzz_require(decoded && length == size && (size == 0 || memcmp(decoded, bytes, size) == 0) && decoded[size] == '\0',
                 "other bytes were decoded: %s", error.text);
    tg_text_free(decoded);
    tg_tokens_free(&tokens);
}

static void ids(const tg_tokenizer *tokenizer, const uint8_t *bytes, size_t size)
{
    int64_t count = (int64_t)(size / 2);
    int32_t *all = malloc((size_t)count * sizeof *all + 1);
    bool exist = true;
    for (int64_t i = 0; all && i < count; i++) {
        all[i] = (int32_t)(bytes[2 * i] | bytes[2 * i + 1] << 8) - 8;
        exist = exist && all[i] >= 0 && all[i] < tg_tokenizer_vocabulary(tokenizer);
    }
    tg_error error = TG_NO_ERROR;
    char *decoded = all ? tg_tokenizer_decode(tokenizer, all, count, NULL, &error) : NULL;
    fuzz_require(exist == (decoded != NULL) && (decoded || error.code == TG_ERROR_RANGE), "decode: %s", error.text);
    tg_text_free(decoded);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    /* It lives as long as the process, because training takes longer than encoding. So memory is not counted here. */
    static tg_tokenizer *tokenizer;
    if (!tokenizer) {
        tg_error error = TG_NO_ERROR;
        tokenizer = tg_tokenizer_train(training_text, sizeof training_text - 1, 300, &error);
        fuzz_require(tokenizer != NULL, "%s", error.text);
    }
    text(tokenizer, false, bytes, size);
    text(tokenizer, true, bytes, size);
    ids(tokenizer, bytes, size);
    return 0;
}
