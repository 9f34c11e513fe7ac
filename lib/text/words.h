/* words (private): a vocabulary of words as a table of texts. */
#ifndef TG_TEXT_WORDS_H
#define TG_TEXT_WORDS_H

#include <tapegrad/words.h>

#include "text/names.h"

struct tg_words {
    tg_names names;  /* by their ids */
    int32_t unknown; /* the id of the unknown token, or -1 */
    tg_word_split split;
};

/* ---- words_split.c ---- */

/* Returns the length of the first word from *begin on, and moves *begin to it; 0 after the last word. The text is
 * UTF-8. */
size_t tg_words_next(tg_word_split split, const char *text, size_t length, size_t *begin);

/* Checks that a text is UTF-8 without a NUL. */
bool tg_words_check_text(const char *call, const char *text, size_t length, tg_error *error);

/* Returns whether a word of this split has no space before it in a text. */
bool tg_words_joins(tg_word_split split, const char *word);

/* ---- words.c ---- */

/* Returns a vocabulary without words, or NULL when memory is exhausted. */
tg_words *tg_words_make(tg_word_split split);

/* Adds a word, which may exist already. Returns its id, or -1 when memory is exhausted. */
int32_t tg_words_add(tg_words *words, const char *word, size_t length);

/* Checks a config that may be NULL, and writes its copy or the defaults to *config. */
bool tg_words_check_config(const char *call, const tg_words_config *given, tg_words_config *config, tg_error *error);

#endif
