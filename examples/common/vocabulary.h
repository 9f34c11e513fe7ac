/* vocabulary: trains a vocabulary, or encodes a text, with a progress line, which Ctrl-C stops; and the text of a
 * token. */
#ifndef VOCABULARY_H
#define VOCABULARY_H

#include <tapegrad_text.h>

/* Returns a vocabulary of at most `size` ids, trained on the texts in `count` files. NULL with the error set. */
tg_tokenizer *vocabulary_train(const char *const *paths, int count, int64_t size, tg_error *error);

/* Writes the ids of the text in a file to another file, with `bytes` bytes each. Returns their number, or -1 with the
 * error set, and writes the size of the text to *length. */
int64_t vocabulary_encode(const tg_tokenizer *bpe, const char *path, const char *out, int bytes, bool special,
                          int64_t *length, tg_error *error);

/* Writes a token to `text`, with visible characters for spaces, newlines, other control characters, and bytes that are
 * not UTF-8. Returns `text`. */
#define TOKEN_TEXT 80
const char *token_text(const tg_tokenizer *bpe, int32_t id, char text[TOKEN_TEXT]);

#endif
