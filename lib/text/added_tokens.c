/* added_tokens: the search for added tokens in a text.
 *
 * Of the added tokens that begin at a byte the longest is taken, and the search goes on behind it (leftmost-longest, as
 * in Hugging Face's tokenizers). The tokens are sorted by their bytes, so one with which the text begins is not behind
 * the text. The last entry that is not behind it is that token, or it has fewer bytes in common with the text; then the
 * token begins these common bytes, too, and the search is repeated for them alone. A search at one byte takes O(log n)
 * comparisons for n tokens, mostly once or twice, and not more often than a token has bytes.
 *
 * Tokens that are normalized are searched in what is left between the others, even though no text is normalized here.
 */
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* Compares two texts by their bytes; a text comes behind one that it begins with. */
static int compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

/* Of equal tokens the first one comes last, where the search finds it. */
static int compare_entries(const void *a, const void *b)
{
    const tg_added_entry *x = a, *y = b;
    int order = compare(x->bytes, x->length, y->bytes, y->length);
    return order != 0 ? order : (x->added < y->added) - (x->added > y->added);
}

/* Adds the entries of a search behind the `count` entries of those before. Returns the number of all. */
static size_t add_entries(tg_tokenizer *z, int search, size_t count)
{
    size_t begin = count;
    for (size_t i = 0; i < z->added_count; i++) {
        if (z->added[i].is_normalized == (search == 1)) {
            size_t length;
            const char *bytes = tg_tokenizer_bytes(z, z->added[i].id, &length);
            z->entries[count++] = (tg_added_entry){bytes, length, i};
            z->longest_added = length > z->longest_added ? length : z->longest_added;
        }
    }
    qsort(z->entries + begin, count - begin, sizeof *z->entries, compare_entries);
    size_t next = begin;
    for (int byte = 0; byte <= TG_BYTES; byte++) {
        while (next < count && (unsigned char)z->entries[next].bytes[0] < byte) {
            next++;
        }
        z->entry_of[search][byte] = (int32_t)next;
    }
    return count;
}

bool tg_added_tokens_sort(tg_tokenizer *z)
{
    z->entries = tg_alloc(z->added_count + 1, sizeof *z->entries);
    if (!z->entries) {
        return false;
    }
    size_t count = 0;
    for (int search = 0; search < TG_SEARCHES; search++) {
        count = add_entries(z, search, count);
    }
    return true;
}

/* Returns the first of the entries [low,high) that is behind the text. */
static int32_t first_behind(const tg_tokenizer *z, int32_t low, int32_t high, const char *text, size_t length)
{
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (compare(z->entries[middle].bytes, z->entries[middle].length, text, length) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const tg_added_entry *tg_added_tokens_find(const tg_tokenizer *z, int search, const char *text, size_t length)
{
    const int32_t *entry_of = &z->entry_of[search][(unsigned char)text[0]];
    int32_t begin = entry_of[0], end = entry_of[1];
    while ((end = first_behind(z, begin, end, text, length)) > begin) {
        const tg_added_entry *last = &z->entries[end - 1];
        size_t common = 1; /* all of these entries begin with the first byte */
        while (common < last->length && common < length && text[common] == last->bytes[common]) {
            common++;
        }
        if (common == last->length) {
            return last;
        }
        length = common;
    }
    return NULL;
}
