/* pattern: searches by PCRE2.
 *
 * GPT-2's pattern (openai/gpt-2, src/encoder.py) is
 *
 *   contractions | letters | digits | other characters (each with at most one space before them) | white space
 *
 * A run of white space does not include the last character before a word, so that the word can begin with a space.
 * Every character is matched by one of the branches, so words follow each other without gaps.
 */
#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

struct tg_pattern {
    pcre2_general_context *memory;
    pcre2_code *code;
    tg_cuts cuts;
};

const char tg_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Patterns that published tokenizers have, first those that split as GPT-2's does. None of their branches goes from a
 * newline to a letter, and none but GPT-2's white space looks beyond a newline. */
#define GPT2_PATTERNS 3

static const char *const known[] = {
    tg_gpt2_pattern,
    /* tiktoken's, which splits equally */
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++\\z|\\s+(?!\\S)|\\s",
    /* cl100k, Llama 3 */
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++\\z|"
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
    /* Qwen 2 and 3; Qwen 3.5 */
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    /* o200k */
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|"
    "'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|"
    "'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    /* Digits, and the three of DeepSeek */
    "\\p{N}",
    "\\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{"
    "P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

/* ---- the notation ---- */

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

/* Escapes that mean something else in PCRE2: outside of a class, and in one. */
static const struct escape {
    char letter;
    const char *outside, *inside; /* NULL: cannot be said */
} escapes[] = {
    {'s', "\\p{White_Space}", "\\p{White_Space}"},
    {'S', "\\P{White_Space}", "\\P{White_Space}"},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'w', "[" WORD "]", WORD},
    {'W', "[^" WORD "]", NULL},
    {'h', "[0-9a-fA-F]", "0-9a-fA-F"},
    {'H', "[^0-9a-fA-F]", NULL},
    {'v', "\\x0b", "\\x0b"},
};

#define PATTERN (PCRE2_UCP | PCRE2_MULTILINE)

static pcre2_code *compile(const char *text, uint32_t options, pcre2_general_context *memory, int *code, size_t *at)
{
    pcre2_compile_context *context = pcre2_compile_context_create(memory);
    pcre2_code *compiled = NULL;
    *code = PCRE2_ERROR_HEAP_FAILED;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        compiled = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | options, code, at, context);
        pcre2_compile_context_free(context);
    }
    return compiled;
}

/* Adds \p{Name}. A script is that of the character alone, where PCRE2 also knows characters that several scripts
 * use. */
static void add_property(tg_text_buffer *out, const char *text, size_t length, pcre2_general_context *memory)
{
    char script[48];
    if (length > 5 && length < 40 && strncmp(text + 1, "{^", 2) != 0) {
        size_t at;
        int code;
        snprintf(script, sizeof script, "\\%c{sc:%.*s", text[0], TG_CUT(text + 2, (int)length - 2));
        pcre2_code *compiled = compile(script, PATTERN, memory, &code, &at);
        if (compiled) {
            pcre2_code_free(compiled);
            tg_text_add(out, script);
            return;
        }
    }
    tg_text_add(out, "\\");
    tg_text_add_bytes(out, text, length);
}

/* Adds the escape behind a backslash. Returns its length, or 0 if it cannot be said. */
static size_t add_escape(tg_text_buffer *out, const char *text, bool in_class, pcre2_general_context *memory)
{
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].letter == text[0]) {
            const char *other = in_class ? escapes[i].inside : escapes[i].outside;
            tg_text_add(out, other ? other : "");
            return other ? 1 : 0;
        }
    }
    const char *end = (text[0] == 'p' || text[0] == 'P') && text[1] == '{' ? strchr(text, '}') : NULL;
    if (end) {
        add_property(out, text, (size_t)(end - text) + 1, memory);
        return (size_t)(end - text) + 1;
    }
    if (text[0] == 'u' && strspn(text + 1, "0123456789abcdefABCDEF") >= 4) {
        tg_text_add(out, "\\x{");
        tg_text_add_bytes(out, text + 1, 4);
        tg_text_add(out, "}");
        return 5;
    }
    tg_text_add(out, "\\");
    tg_text_add_bytes(out, text, 1);
    return text[0] ? 1 : 0;
}

/* Writes a pattern in PCRE2's notation. Returns the position of what cannot be said, or SIZE_MAX. */
static size_t translate(tg_text_buffer *out, const char *text, pcre2_general_context *memory)
{
    bool in_class = false;
    for (size_t i = 0, length; text[i]; i += length) {
        length = 1;
        if (text[i] == '\\') {
            length = add_escape(out, text + i + 1, in_class, memory) + 1;
            if (length == 1) {
                return i;
            }
            continue;
        }
        if (in_class && text[i] == '[') {
            const char *end = text[i + 1] == ':' ? strstr(text + i, ":]") : NULL;
            if (!end) {
                return i; /* a class in a class */
            }
            length = (size_t)(end - text) + 2 - i;
        } else if (in_class && strncmp(text + i, "&&", 2) == 0) {
            return i;
        } else if (text[i] == '[') {
            in_class = true;
        } else if (text[i] == ']') {
            in_class = false;
        }
        tg_text_add_bytes(out, text + i, length);
    }
    return SIZE_MAX;
}

/* ---- patterns ---- */

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

static bool out_of_memory(tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory for a pattern");
}

static bool compile_pattern(tg_pattern *p, const char *text, bool is_literal, tg_error *error)
{
    int code = 0;
    size_t at = 0, bad = SIZE_MAX;
    tg_text_buffer written = {0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        p->cuts =
            !is_literal && strcmp(text, known[i]) == 0 ? (i < GPT2_PATTERNS ? TG_CUT_GPT2 : TG_CUT_LINES) : p->cuts;
    }
    if (is_literal) {
        tg_text_add(&written, text);
    } else {
        bad = translate(&written, text, p->memory);
    }
    if (bad != SIZE_MAX && !written.failed) {
        tg_free(written.bytes);
        return tg_error_set(error, TG_ERROR_FORMAT, "the pattern's \"%.*s\" is not supported", TG_CUT(text + bad, 20));
    }
    p->code = written.failed ? NULL
                             : compile(written.bytes ? written.bytes : "", is_literal ? PCRE2_LITERAL : PATTERN,
                                       p->memory, &code, &at);
    bool is_refused = !written.failed && !p->code && code != PCRE2_ERROR_HEAP_FAILED;
    tg_free(written.bytes);
    if (is_refused) {
        unsigned char reason[120];
        pcre2_get_error_message(code, reason, sizeof reason);
        return tg_error_set(error, code == PCRE2_ERROR_UNICODE_NOT_SUPPORTED ? TG_ERROR_STATE : TG_ERROR_FORMAT,
                            "PCRE2 refuses the pattern \"%.*s\": %s", TG_CUT(text, 60), reason);
    }
    if (!p->code) {
        return out_of_memory(error);
    }
    /* If no JIT exists, PCRE2 interprets the pattern, which is slower. */
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return true;
}

tg_pattern *tg_pattern_new(const char *text, bool is_literal, tg_error *error)
{
    static const char nothing[] = "(?!)"; /* an empty text is nowhere */
    bool is_empty = is_literal && !text[0];
    tg_pattern *p = tg_alloc_zeroed(1, sizeof *p);
    if (p) {
        p->memory = pcre2_general_context_create(allocate, release, NULL);
    }
    if (!p || !p->memory) {
        out_of_memory(error);
    } else if (compile_pattern(p, is_empty ? nothing : text, is_literal && !is_empty, error)) {
        return p;
    }
    tg_pattern_free(p);
    return NULL;
}

void tg_pattern_free(tg_pattern *p)
{
    if (p) {
        pcre2_code_free(p->code);
        pcre2_general_context_free(p->memory);
        tg_free(p);
    }
}

tg_cuts tg_pattern_cuts(const tg_pattern *p)
{
    return p->cuts;
}

void tg_matcher_free(tg_matcher *m)
{
    pcre2_match_data_free(m->match);
    pcre2_general_context_free(m->memory);
    *m = (tg_matcher){NULL, NULL};
}

/* ---- searches ---- */

int tg_pattern_find(const tg_pattern *p, tg_matcher *m, const char *text, size_t length, size_t from, size_t *begin,
                    size_t *end, tg_error *error)
{
    if (!m->match) {
        m->memory = m->memory ? m->memory : pcre2_general_context_create(allocate, release, NULL);
        m->match = m->memory ? pcre2_match_data_create(1, m->memory) : NULL;
        if (!m->match) {
            out_of_memory(error);
            return -1;
        }
    }
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int found = pcre2_match(p->code, subject, length, from, PCRE2_NO_UTF_CHECK, m->match, NULL);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) { /* the interpreter has more memory */
        found = pcre2_match(p->code, subject, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->match, NULL);
    }
    if (found == PCRE2_ERROR_NOMATCH) {
        return 0;
    }
    if (found < 0) {
        unsigned char reason[120];
        pcre2_get_error_message(found, reason, sizeof reason);
        tg_error_set(error, found == PCRE2_ERROR_NOMEMORY ? TG_ERROR_MEMORY : TG_ERROR_FORMAT,
                     "tokenizer: PCRE2 failed to find a word at byte %zu: %s", from, reason);
        return -1;
    }
    const size_t *place = pcre2_get_ovector_pointer(m->match);
    *begin = place[0];
    *end = place[1];
    return 1;
}

int tg_matches_next(tg_matches *m, size_t *begin, size_t *end, tg_error *error)
{
    size_t last = m->has_last ? m->from : SIZE_MAX;
    int found = 0;
    while (m->from <= m->length &&
           (found = tg_pattern_find(m->pattern, m->matcher, m->text, m->length, m->from, begin, end, error)) > 0) {
        if (*begin < *end || *end != last) {
            m->from = *end;
            m->has_last = true;
            return 1;
        }
        m->from += m->from < m->length ? tg_character_size(m->text[m->from]) : 1;
        found = 0;
    }
    return found;
}

/* ---- where a text may be cut ---- */

bool tg_is_white(const char *text, size_t length, size_t at)
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
    size_t size = ((unsigned char)text[at] & 0xc0) == 0x80 ? 0 : tg_character_size(text[at]);
    return size <= length - at && tg_utf8_check(text + at, size) == size ? size : 0;
}

/* The pattern decides for the two characters alone: no branch has more than one kind of characters, but for the white
 * space before a word and the letters after an apostrophe, and none looks at what stands before it. */
bool tg_pattern_can_cut(const tg_pattern *p, tg_matcher *m, const char *text, size_t length, size_t at)
{
    size_t before = at - 1;
    while (before > 0 && at - before < 4 && ((unsigned char)text[before] & 0xc0) == 0x80) {
        before--;
    }
    size_t left = character_at(text, at, before), right = character_at(text, length, at), begin, end;
    if (left != at - before || right == 0 || text[before] == '\'' || tg_is_white(text, length, before)) {
        return false;
    }
    return tg_pattern_find(p, m, text + before, left + right, 0, &begin, &end, NULL) == 1 && end == left;
}
