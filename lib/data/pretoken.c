/* pretoken: GPT-2's pattern (openai/gpt-2, src/encoder.py), for PCRE2.
 *
 *   contractions | one space and letters | one space and digits | one space and anything else | white space
 *
 * A run of white space leaves its last character to the word behind it. PCRE2's own \s holds U+180E, which Python's
 * does not; White_Space is what is meant. Possessive quantifiers change nothing that matches, and keep a word of a
 * million letters from being walked back. Every character is matched by one of the branches, so words follow each
 * other without gaps.
 */
#include "data/pretoken.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"

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
    size_t place = 0;
    tg_pretokenizer *p = tg_alloc_zeroed(1, sizeof *p);
    if (p) {
        p->memory = pcre2_general_context_create(allocate, release, NULL);
    }
    pcre2_compile_context *compiling = p && p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    if (compiling) {
        p->pattern =
            pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &place, compiling);
        pcre2_compile_context_free(compiling);
    }
    if (p && p->pattern) {
        p->match = pcre2_match_data_create(1, p->memory);
    }
    if (!p || !p->match) {
        tg_pretokenizer_free(p);
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory for the pattern of words");
        return NULL;
    }
    pcre2_jit_compile(p->pattern, PCRE2_JIT_COMPLETE); /* only faster; where there is none the interpreter runs */
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

size_t tg_pretokenizer_next(tg_pretokenizer *p, const char *text, size_t length, size_t begin, tg_error *error)
{
    int found =
        pcre2_match(p->pattern, (PCRE2_SPTR)text, length, begin, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, p->match, NULL);
    if (found < 0) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: matching words at byte %zu failed with PCRE2's code %d", begin,
                     found);
        return SIZE_MAX;
    }
    return pcre2_get_ovector_pointer(p->match)[1];
}
