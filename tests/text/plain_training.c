#include "plain_training.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Python's regex has White_Space as \s; PCRE2's \s has U+180E besides. */
static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+"
                              "|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+";

size_t plain_split(const char *text, size_t length, plain_word **words)
{
    int code;
    size_t offset, count = 0, capacity = 16;
    static pcre2_code *compiled; /* until the program ends */
    if (!compiled) {
        compiled =
            pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
        assert_non_null(compiled);
        pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    }
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    *words = malloc(capacity * sizeof **words);
    for (size_t at = 0; at < length;) {
        assert_true(pcre2_match(compiled, (PCRE2_SPTR)text, length, at, PCRE2_NO_UTF_CHECK, match, NULL) > 0);
        const size_t *found = pcre2_get_ovector_pointer(match);
        assert_int_equal(found[0], at);
        if (count == capacity) {
            capacity *= 2;
            *words = realloc(*words, capacity * sizeof **words);
        }
        (*words)[count++] = (plain_word){text + at, found[1] - at};
        at = found[1];
    }
    pcre2_match_data_free(match);
    return count;
}

/* GPT-2's ids of the bytes: first the printable ones. */
static int32_t id_of_byte(unsigned char byte)
{
    int32_t id = 0, others = 0;
    for (int b = 0; b < 256; b++) {
        int is_printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) {
            return is_printable ? id : 188 + others;
        }
        id += is_printable;
        others += !is_printable;
    }
    return -1;
}

#define WORD_END (-1)

/* Finds the most frequent pair. Returns whether there is one. */
static bool best_pair(const int32_t *symbols, size_t count, int32_t ids, plain_merge *best)
{
    int64_t *counts = calloc((size_t)ids * (size_t)ids, sizeof *counts);
    best->count = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        if (symbols[i] != WORD_END && symbols[i + 1] != WORD_END) {
            counts[symbols[i] * ids + symbols[i + 1]]++;
        }
    }
    for (int32_t left = 0; left < ids; left++) {
        for (int32_t right = 0; right < ids; right++) {
            if (counts[left * ids + right] > best->count) {
                *best = (plain_merge){left, right, counts[left * ids + right]};
            }
        }
    }
    free(counts);
    return best->count > 0;
}

int32_t plain_train(const char *text, size_t length, int32_t most, plain_merge *merges)
{
    plain_word *words;
    size_t word_count = plain_split(text, length, &words), count = 0;
    int32_t *symbols = malloc((length + word_count + 1) * sizeof *symbols), made = 0;
    for (size_t i = 0; i < word_count; i++) {
        for (size_t k = 0; k < words[i].length; k++) {
            symbols[count++] = id_of_byte((unsigned char)words[i].bytes[k]);
        }
        symbols[count++] = WORD_END;
    }
    while (made < most && best_pair(symbols, count, 256 + made, &merges[made])) {
        size_t kept = 0;
        for (size_t i = 0; i < count; kept++) {
            int is_pair = i + 1 < count && symbols[i] == merges[made].left && symbols[i + 1] == merges[made].right;
            symbols[kept] = is_pair ? 256 + made : symbols[i];
            i += is_pair ? 2 : 1;
        }
        count = kept;
        made++;
    }
    free(symbols);
    free(words);
    return made;
}
