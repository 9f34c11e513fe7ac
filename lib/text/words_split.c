/* words_split: a text as words. The rule with punctuation is the one of the book's chapter 2,
 *
 *   [word for word in re.split(r'([,.:;?_!"()\']|--|\s)', text) if word.strip()]
 *
 * without a library of regular expressions. White space is that of Python's str.isspace, which \s matches.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/words.h"

static bool is_between(char c, unsigned low, unsigned high)
{
    return (unsigned char)c >= low && (unsigned char)c <= high;
}

/* Returns the length of the white space character at the start of a text of UTF-8, or 0. */
static size_t space_at(const char *s, size_t left)
{
    if (is_between(*s, '\t', '\r') || is_between(*s, 0x1c, ' ')) {
        return 1;
    }
    if (left >= 2 && is_between(*s, 0xc2, 0xc2) && (is_between(s[1], 0x85, 0x85) || is_between(s[1], 0xa0, 0xa0))) {
        return 2; /* U+0085, U+00A0 */
    }
    if (left < 3 || !is_between(*s, 0xe1, 0xe3)) {
        return 0;
    }
    /* U+1680; U+2000 to U+200A, U+2028, U+2029, U+202F; U+205F; U+3000 */
    bool is_space = memcmp(s, "\xe1\x9a\x80", 3) == 0 || memcmp(s, "\xe2\x81\x9f", 3) == 0 ||
                    memcmp(s, "\xe3\x80\x80", 3) == 0 ||
                    (memcmp(s, "\xe2\x80", 2) == 0 &&
                     (is_between(s[2], 0x80, 0x8a) || is_between(s[2], 0xa8, 0xa9) || is_between(s[2], 0xaf, 0xaf)));
    return is_space ? 3 : 0;
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
