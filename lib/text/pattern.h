/* pattern (private): texts that are searched for, and patterns in the notation of Oniguruma, which Hugging Face's
 * tokenizers use, or of Rust, which tiktoken uses. PCRE2 finds them.
 *
 * The two notations and that of PCRE2 differ in what \s, \w, \d and \h are, in scripts, and in ^ and $. So these are
 * written in other words before PCRE2 reads the pattern, and what PCRE2 cannot say is refused. Letters and digits are
 * those of the Unicode version of the installed PCRE2.
 */
#ifndef TG_TEXT_PATTERN_H
#define TG_TEXT_PATTERN_H

#include <tapegrad/base.h>

typedef struct tg_pattern tg_pattern;

/* The pattern of openai/gpt-2's encoder.py. */
extern const char tg_gpt2_pattern[];

/* Where a text may be cut, so that its parts have the words of the text. */
typedef enum tg_cuts {
    TG_CUT_NOWHERE, /* that is not known */
    TG_CUT_LINES,   /* between the only newline behind a character that is not white and a letter of ASCII */
    TG_CUT_GPT2     /* the same, and where tg_pattern_can_cut says so */
} tg_cuts;

/* What a search changes; each thread has its own. Begins as zeros. */
typedef struct tg_matcher {
    void *memory, *match;
} tg_matcher;

void tg_matcher_free(tg_matcher *matcher);

/* Returns a pattern, or with `is_literal` a text that is searched for. NULL with the error set: FORMAT if the pattern
 * is refused, or MEMORY. */
tg_pattern *tg_pattern_new(const char *text, bool is_literal, tg_error *error);
void tg_pattern_free(tg_pattern *pattern);

/* Finds the first match from `from` on. `text` must be UTF-8. Returns 1, or 0 if there is none, or -1 with the error
 * set. */
int tg_pattern_find(const tg_pattern *pattern, tg_matcher *matcher, const char *text, size_t length, size_t from,
                    size_t *begin, size_t *end, tg_error *error);

/* The matches of a text, one after the other. */
typedef struct tg_matches {
    const tg_pattern *pattern;
    tg_matcher *matcher;
    const char *text;
    size_t length, from;
    bool has_last; /* whether a match ends at `from` */
} tg_matches;

/* Finds the next match, as tg_pattern_find does. One of no characters is not at the end of the last one. */
int tg_matches_next(tg_matches *matches, size_t *begin, size_t *end, tg_error *error);

tg_cuts tg_pattern_cuts(const tg_pattern *pattern);

/* Returns whether a text that GPT-2's pattern splits may be cut before the byte at `at` > 0. False if that is not sure.
 * The text may have bytes that are not UTF-8. */
bool tg_pattern_can_cut(const tg_pattern *pattern, tg_matcher *matcher, const char *text, size_t length, size_t at);

/* ---- characters ---- */

/* Returns the number of bytes of the character with this first byte. */
static inline size_t tg_character_size(char first)
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Returns whether White_Space (Unicode, PropList.txt) has the character that begins at `at`. */
bool tg_is_white(const char *text, size_t length, size_t at);

/* Returns the first byte of the character before the byte at `at` > 0. */
static inline size_t tg_character_before(const char *text, size_t at)
{
    do {
        at--;
    } while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

#endif
