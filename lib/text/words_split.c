/* words_split: a text as words. The rule with punctuation is the one of the book's chapter 2,
 *
 *   [word for word in re.split(r'([,.:;?_!"()\']|--|\s)', text) if word.strip()]
 *
 * without a library of regular expressions. White space is that of Python's str.isspace, which \s matches: White_Space
 * of Unicode, and U+001C to U+001F.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/pattern.h"
#include "text/words.h"

/* Returns the length of the white space character at the start of a text of UTF-8, or 0. */
static size_t space_at(const char *s, size_t left)
{
    return (*s >= 0x1c && *s <= 0x1f) || tg_is_white(s, left, 0) ? tg_character_size(*s) : 0;
}

/* Returns the length of the punctuation at the start of a text, which is a word by itself, or 0. */
static size_t mark_at(tg_word_split split, const char *s, size_t left)
{
    if (split == TG_WORD_SPLIT_SPACE) {
        return 0;
    }
    return left >= 2 && s[0] == '-' && s[1] == '-' ? 2 : memchr(",.:;?_!\"()'", *s, 11) ? 1 : 0;
}

size_t tg_words_next(tg_word_split split, const char *text, size_t length, size_t *begin)
{
    size_t at = *begin;
    for (size_t space; at < length && (space = space_at(text + at, length - at)) > 0;) {
        at += space;
    }
    *begin = at;
    size_t mark = at < length ? mark_at(split, text + at, length - at) : 0;
    if (mark > 0) {
        return mark;
    }
    while (at < length && !space_at(text + at, length - at) && !mark_at(split, text + at, length - at)) {
        at++;
    }
    return at - *begin;
}

bool tg_words_check_text(const char *call, const char *text, size_t length, tg_error *error)
{
    size_t bad = tg_utf8_check(text, length);
    const char *terminator = length > 0 ? memchr(text, '\0', length) : NULL;
    if (terminator) {
        return tg_error_set(error, TG_ERROR_FORMAT, "%s: the text has a NUL at %zu", call, (size_t)(terminator - text));
    }
    return bad == length || tg_error_set(error, TG_ERROR_FORMAT, "%s: byte 0x%02x at %zu is not UTF-8", call,
                                         (unsigned)(unsigned char)text[bad], bad);
}

bool tg_words_joins(tg_word_split split, const char *word)
{
    return split == TG_WORD_SPLIT_PUNCTUATION && *word && strchr(",.?!\"()'", *word);
}
