/* A text as the file of a vocabulary of any format. If it is accepted, saving and opening it gives the same vocabulary,
 * and a text is encoded and decoded: back, if it is split as GPT-2 does and not changed. A pattern that takes too long
 * is an error. */
#include <string.h>

#include <tapegrad_text.h>

#include "text/tokenizer.h"
#include "fuzz.h"

/* Encodes, decodes and compares. */
static void round_trip(tg_tokenizer *tokenizer, const char *text, bool special)
{
    tg_error error = TG_NO_ERROR;
    tg_encoding encoding;
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    config.special = config.with_template = special;
    bool is_gpt2 = tg_tokenizer_is_gpt2(tokenizer) && !special;
    int64_t size = (int64_t)strlen(text);
    if (!tg_tokenizer_encode_text(tokenizer, text, (size_t)size, &encoding, &config, &error)) {
        fuzz_require(!is_gpt2 && error.code == TG_ERROR_FORMAT, "encode: %s", error.text);
        return;
    }
    for (int64_t i = 0; i < encoding.count; i++) {
        tg_token_span span = encoding.spans[i];
        fuzz_require(span.begin >= 0 && span.begin <= span.end && span.end <= size, "span [%lld,%lld)",
                     (long long)span.begin, (long long)span.end);
    }
    size_t length;
    char *decoded = tg_tokenizer_decode(tokenizer, encoding.ids, encoding.count, &length, &error);
    fuzz_require(decoded || (!is_gpt2 && error.code == TG_ERROR_FORMAT), "decode: %s", error.text);
    fuzz_require(!is_gpt2 || (length == strlen(text) && memcmp(decoded, text, length) == 0), "another text");
    tg_text_free(decoded);
    tg_encoding_free(&encoding);
}

static void compare(const tg_tokenizer *a, const tg_tokenizer *b)
{
    fuzz_require(tg_tokenizer_vocabulary(a) == tg_tokenizer_vocabulary(b), "another number of tokens");
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(a); id++) {
        size_t length, other_length;
        const char *bytes = tg_tokenizer_bytes(a, id, &length), *other = tg_tokenizer_bytes(b, id, &other_length);
        fuzz_require(length == other_length && (length == 0 || memcmp(bytes, other, length) == 0),
                     "token %d has other bytes", (int)id);
    }
}

/* Each format either cannot express the vocabulary, or gives it back. */
static void check_saved(const tg_tokenizer *tokenizer)
{
    static const tg_vocabulary_format formats[] = {TG_VOCABULARY_MERGES, TG_VOCABULARY_JSON, TG_VOCABULARY_RANKS};
    for (int i = 0; i < 3; i++) {
        tg_error error = TG_NO_ERROR;
        const char *path = fuzz_file("", 0);
        if (!tg_tokenizer_save(tokenizer, path, formats[i], &error)) {
            fuzz_require(error.code == TG_ERROR_VALUE, "save: %s", error.text);
            continue;
        }
        tg_tokenizer *opened = tg_tokenizer_open(path, NULL, &error);
        fuzz_require(opened != NULL, "open: %s", error.text);
        compare(tokenizer, opened);
        tg_tokenizer_free(opened);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_memory_begin();
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *tokenizer = tg_tokenizer_new_from_text((const char *)bytes, size, &error);
    fuzz_require(tokenizer ? error.code == TG_OK : error.code == TG_ERROR_FORMAT, "parse: code %d, \"%s\"",
                 (int)error.code, error.text);
    if (tokenizer) {
        for (int special = 0; special < 2; special++) {
            round_trip(tokenizer, "the cat sat on the mat\n\xc3\xa9\xc2\xa0 12", special);
            round_trip(tokenizer, " A\xcc\x81\xe6\x97\xa5\xe1\x84\x80\xe1\x85\xa1 [x]<0x0A>##a\xef\xac\x81\t\xc4\xb0",
                       special);
        }
        check_saved(tokenizer);
    }
    tg_tokenizer_free(tokenizer);
    fuzz_memory_end();
    return 0;
}
