/* pretoken (private): splits text into words. Merges never cross the end of a word. */
#ifndef TG_TEXT_PRETOKEN_H
#define TG_TEXT_PRETOKEN_H

#include <tapegrad/base.h>

typedef struct tg_pretokenizer tg_pretokenizer;

/* Returns NULL with the error set when memory is exhausted, and with STATE in a build without PCRE2. */
tg_pretokenizer *tg_pretokenizer_new(tg_error *error);
void tg_pretokenizer_free(tg_pretokenizer *pretokenizer);

/* Returns the end of the word that begins at `begin` < length. `text` must be UTF-8. SIZE_MAX with the error set when
 * memory is exhausted. */
size_t tg_pretokenizer_next(tg_pretokenizer *pretokenizer, const char *text, size_t length, size_t begin,
                            tg_error *error);

/* Returns whether a text may be cut before the byte at `at` > 0: the words of both parts are those of the text. False
 * if that is not sure. The text may have bytes that are not UTF-8. */
bool tg_pretokenizer_can_cut(tg_pretokenizer *pretokenizer, const char *text, size_t length, size_t at);

#endif
