/* pretoken: splits text into words by GPT-2's pattern (openai/gpt-2, src/encoder.py), with PCRE2.
 *
 *   contractions | letters | digits | other characters (each with at most one space before them) | white space
 *
 * A run of white space does not include the last character before a word, so that the word can begin with a space.
 * PCRE2's \s includes U+180E, but Python's does not, so the pattern uses White_Space. Possessive quantifiers match the
 * same words and prevent backtracking in a word of a million letters. Every character is matched by one of the
 * branches, so words follow each other without gaps.
 *
 * Most words of most texts consist of ASCII characters of one kind, and are found without PCRE2, ten times as fast.
 */
#include "text/pretoken.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <tapegrad/extend.h>

struct tg_pretokenizer {
    pcre2_general_context *memory;
    pcre2_code *pattern;
    pcre2_match_data *match;
};

static const char pattern[] = "'(?:[sdmt]|re|ve|ll)"
                              "| ?\\p{L}++"
                              "| ?\\p{N}++"
                              "| ?[^\\p{White_Space}\\p{L}\\p{N}]++"
                              "|\\p{White_Space}+(?!\\P{White_Space})"
                              "|\\p{White_Space}++";

static void *allocate(size_t size, void *context)
{
    (void)context;
    return tg_alloc(size, 1);
}

static void release(void *block, void *context)
{
    (void)context;
    tg_free(block);
}

tg_pretokenizer *tg_pretokenizer_new(tg_error *error)
{
    int code = 0;
    size_t offset = 0;
    tg_pretokenizer *p = tg_alloc_zeroed(1, sizeof *p);
    if (p) {
        p->memory = pcre2_general_context_create(allocate, release, NULL);
    }
    pcre2_compile_context *compiling = p && p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    if (compiling) {
        p->pattern =
            pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, compiling);
        pcre2_compile_context_free(compiling);
    }
    if (p && p->pattern) {
        p->match = pcre2_match_data_create(1, p->memory);
    }
    bool is_refused = compiling && !p->pattern && code != PCRE2_ERROR_HEAP_FAILED;
    if (is_refused) {
        unsigned char reason[120];
        pcre2_get_error_message(code, reason, sizeof reason);
        tg_error_set(error, TG_ERROR_STATE, "tokenizer: PCRE2 refuses the word pattern at byte %zu: %s", offset,
                     reason);
    }
    if (!p || !p->match) {
        tg_pretokenizer_free(p);
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory for the word pattern");
        return NULL;
    }
    /* If no JIT exists, PCRE2 interprets the pattern, which is slower. */
    pcre2_jit_compile(p->pattern, PCRE2_JIT_COMPLETE);
    return p;
}

void tg_pretokenizer_free(tg_pretokenizer *p)
{
    if (p) {
        pcre2_match_data_free(p->match);
        pcre2_code_free(p->pattern);
        pcre2_general_context_free(p->memory);
        tg_free(p);
    }
}

/* The kinds of ASCII characters in the pattern. Of a character that is not ASCII, and of a control character that is
 * not white space, PCRE2 knows the kind. */
typedef enum kind { UNKNOWN, LETTER, DIGIT, SIGN, WHITE } kind;

static kind kind_of(char character)
{
    unsigned char c = (unsigned char)character;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        return LETTER;
    }
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
        return WHITE;
    }
    return c >= '0' && c <= '9' ? DIGIT : c > ' ' && c < 127 ? SIGN : UNKNOWN;
}

/* Returns the end of the word that begins at `begin`, or 0 if PCRE2 has to find it. */
static size_t next_ascii(const char *text, size_t length, size_t begin)
{
    kind first = kind_of(text[begin]);
    if (first == UNKNOWN || text[begin] == '\'') { /* a contraction, perhaps */
        return 0;
    }
    size_t at = begin + 1;
    if (text[begin] == ' ' && at < length && kind_of(text[at]) != WHITE) {
        first = kind_of(text[at]);
        if (first == UNKNOWN) {
            return 0;
        }
        at++;
    }
    while (at < length && kind_of(text[at]) == first) {
        at++;
    }
    if (at < length && kind_of(text[at]) == UNKNOWN) { /* it may belong to the word */
        return 0;
    }
    /* the last white space before a word belongs to the next one */
    return first == WHITE && at < length && at - begin > 1 ? at - 1 : at;
}

size_t tg_pretokenizer_next(tg_pretokenizer *p, const char *text, size_t length, size_t begin, tg_error *error)
{
    size_t end = next_ascii(text, length, begin);
    if (end > 0) {
        return end;
    }
    int found =
        pcre2_match(p->pattern, (PCRE2_SPTR)text, length, begin, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, p->match, NULL);
    if (found < 0) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: PCRE2 failed to find a word at byte %zu, with code %d", begin,
                     found);
        return SIZE_MAX;
    }
    return pcre2_get_ovector_pointer(p->match)[1];
}

/* ---- where a text may be cut ---- */

/* Returns whether White_Space (Unicode, PropList.txt) has the character that begins at `at`. */
static bool is_white(const char *text, size_t length, size_t at)
{
    const unsigned char *c = (const unsigned char *)text + at;
    size_t left = length - at;
    if (c[0] < 0x80) {
        return c[0] == ' ' || (c[0] >= '\t' && c[0] <= '\r');
    }
    if (c[0] == 0xc2) { /* U+0085, U+00A0 */
        return left >= 2 && (c[1] == 0x85 || c[1] == 0xa0);
    }
    if (left < 3) {
        return false;
    }
    if (c[0] == 0xe2 && c[1] == 0x80) { /* U+2000 to U+200A, U+2028, U+2029, U+202F */
        return (c[2] >= 0x80 && c[2] <= 0x8a) || c[2] == 0xa8 || c[2] == 0xa9 || c[2] == 0xaf;
    }
    return (c[0] == 0xe1 && c[1] == 0x9a && c[2] == 0x80) || /* U+1680 */
           (c[0] == 0xe2 && c[1] == 0x81 && c[2] == 0x9f) || /* U+205F */
           (c[0] == 0xe3 && c[1] == 0x80 && c[2] == 0x80);   /* U+3000 */
}

/* Returns the length of the character that begins at `at`, or 0 if none does. */
static size_t character_at(const char *text, size_t length, size_t at)
{
    unsigned char first = (unsigned char)text[at];
    size_t size = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    return size <= length - at && tg_utf8_check(text + at, size) == size ? size : 0;
}

/* The pattern decides for the two characters alone: no branch has more than one kind of characters, but for the white
 * space before a word and the letters after an apostrophe, and none looks at what stands before it. */
bool tg_pretokenizer_can_cut(tg_pretokenizer *p, const char *text, size_t length, size_t at)
{
    size_t before = at - 1;
    while (before > 0 && at - before < 4 && ((unsigned char)text[before] & 0xc0) == 0x80) {
        before--;
    }
    size_t left = character_at(text, at, before), right = character_at(text, length, at);
    if (left != at - before || right == 0 || text[before] == '\'' || is_white(text, length, before)) {
        return false;
    }
    return tg_pretokenizer_next(p, text + before, left + right, 0, NULL) == left;
}
