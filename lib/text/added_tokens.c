/* added_tokens: the search for added tokens in a text.
 *
 * Of the added tokens that begin at a byte the longest is taken, and the search goes on behind it (leftmost-longest, as
 * in Hugging Face's tokenizers). The tokens are sorted by their bytes, so one with which the text begins is not behind
 * the text. The last entry that is not behind it is that token, or it has fewer bytes in common with the text; then the
 * token begins these common bytes, too, and the search is repeated for them alone. A search at one byte takes O(log n)
 * comparisons for n tokens, mostly once or twice, and not more often than a token has bytes. At most bytes there is
 * none: a table of bits says whether a token begins with the bytes that are there.
 *
 * Tokens that are normalized are searched in the normalized text between the others.
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

/* The most bytes that are hashed. */
#define HASHED_BYTES 4

static uint32_t hash_of(const char *text, size_t length)
{
    uint32_t hash = 0;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT32_C(0x9e3779b1);
    }
    return hash >> (32 - TG_SEARCH_BITS);
}

/* ---- preparing ---- */

/* Keeps the bytes of a token that were normalized, and sends the walk of it no further. */
static bool keep_normalized(void *context, const tg_view *v, tg_error *error)
{
    (void)error;
    tg_text_add_bytes(context, v->text, v->length);
    return true;
}

/* Writes what the normalizers make of the tokens that are normalized. */
static bool normalize_tokens(tg_tokenizer *z, tg_error *error)
{
    tg_pipeline *w = tg_alloc_zeroed(1, sizeof *w);
    bool is_good = w != NULL;
    if (is_good) {
        *w = (tg_pipeline){
            .z = z, .call = "tokenizer_open", .on_word = keep_normalized, .context = &z->normalized, .error = error};
    }
    for (size_t i = 0; is_good && i < z->added_count; i++) {
        size_t length, before = z->normalized.length;
        const char *bytes = tg_tokenizer_token(z, z->added[i].id, &length);
        is_good = !z->added[i].is_normalized || (tg_pipeline_text(w, bytes, length) && !z->normalized.failed);
        z->added[i].normalized_length = z->normalized.length - before;
    }
    if (w) {
        tg_pipeline_free(w);
    }
    tg_free(w);
    for (size_t i = 0, begin = 0; is_good && i < z->added_count; i++) {
        z->added[i].normalized = z->normalized.bytes ? z->normalized.bytes + begin : "";
        begin += z->added[i].normalized_length;
    }
    return is_good || tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_open: out of memory for the added tokens");
}

/* Adds the entries of a search behind the `count` entries of those before. Returns the number of all. */
static size_t add_entries(tg_tokenizer *z, int search, size_t count)
{
    tg_added_search *s = &z->searches[search];
    size_t begin = count;
    s->shortest = HASHED_BYTES;
    for (size_t i = 0; i < z->added_count; i++) {
        size_t length;
        const char *bytes = tg_tokenizer_normalized_token(z, z->added[i].id, &length);
        if (z->added[i].is_normalized == (search == 1) && length > 0) {
            z->entries[count++] = (tg_added_entry){bytes, length, i};
            z->longest_added = length > z->longest_added ? length : z->longest_added;
            s->shortest = length < s->shortest ? length : s->shortest;
        }
    }
    qsort(z->entries + begin, count - begin, sizeof *z->entries, compare_entries);
    for (size_t i = begin; i < count; i++) {
        uint32_t hash = hash_of(z->entries[i].bytes, s->shortest);
        s->hashes[hash / 64] |= UINT64_C(1) << hash % 64;
    }
    size_t next = begin;
    for (int byte = 0; byte <= TG_BYTES; byte++) {
        while (next < count && (unsigned char)z->entries[next].bytes[0] < byte) {
            next++;
        }
        s->entry_of[byte] = (int32_t)next;
    }
    return count;
}

bool tg_added_tokens_sort(tg_tokenizer *z, tg_error *error)
{
    z->entries = tg_alloc(z->added_count + 1, sizeof *z->entries);
    z->searches = tg_alloc_zeroed(TG_SEARCHES, sizeof *z->searches);
    bool is_good = z->entries && z->searches;
    bool has_words = false;
    for (size_t i = 0; i < z->added_count; i++) {
        has_words |= z->added[i].is_single_word;
    }
    if (!is_good) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_open: out of memory for the added tokens");
    }
    is_good = is_good && normalize_tokens(z, error) &&
              (!has_words || (z->word_character = tg_pattern_new("[\\w\\x{200c}\\x{200d}]", false, error)) != NULL);
    for (size_t search = 0, count = 0; is_good && search < TG_SEARCHES; search++) {
        count = add_entries(z, (int)search, count);
    }
    return is_good;
}

/* ---- searching ---- */

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
    const tg_added_search *s = &z->searches[search];
    const int32_t *entry_of = &s->entry_of[(unsigned char)text[0]];
    int32_t begin = entry_of[0], end = entry_of[1];
    if (begin == end || length < s->shortest) {
        return NULL;
    }
    uint32_t hash = hash_of(text, s->shortest);
    if (!(s->hashes[hash / 64] >> hash % 64 & 1)) {
        return NULL;
    }
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

/* Returns whether the character that begins at `at` belongs to a word. */
static bool is_of_word(tg_pipeline *w, const tg_view *v, size_t at)
{
    size_t begin, end;
    return tg_pattern_find(w->z->word_character, &w->matcher, v->text + at, tg_character_size(v->text[at]), 0, &begin,
                           &end, NULL) == 1;
}

/* Returns whether a token that was found is taken, and makes its ends those of the white space beside it. */
static bool takes(tg_pipeline *w, const tg_view *v, const tg_added_token *token, size_t covered, size_t *begin,
                  size_t *end)
{
    if (token->is_special && !w->special) {
        return false;
    }
    if (token->is_single_word && ((*begin > 0 && is_of_word(w, v, tg_character_before(v->text, *begin))) ||
                                  (*end < v->length && is_of_word(w, v, *end)))) {
        return false;
    }
    while (token->strips_left && *begin > covered) {
        size_t before = tg_character_before(v->text, *begin);
        if (!tg_is_white(v->text, v->length, before)) {
            break;
        }
        *begin = before;
    }
    while (token->strips_right && *end < v->length && tg_is_white(v->text, v->length, *end)) {
        *end += tg_character_size(v->text[*end]);
    }
    return true;
}

/* Hands on what lies between the tokens. */
static bool run_search(tg_pipeline *w, size_t stage, const tg_view *v)
{
    int search = (int)(w->z->steps[stage] - w->z->search_stages);
    size_t covered = 0;
    for (size_t at = 0; at < v->length;) {
        const tg_added_entry *found = tg_added_tokens_find(w->z, search, v->text + at, v->length - at);
        if (!found) {
            at++;
            continue;
        }
        const tg_added_token *token = &w->z->added[found->added];
        size_t begin = at, end = at + found->length;
        at = end;
        if (takes(w, v, token, covered, &begin, &end)) {
            tg_view between = tg_view_part(v, covered, begin > covered ? begin : covered);
            tg_view whole = tg_view_part(v, begin, end);
            if (!tg_pipeline_next(w, stage + 1, &between) || !w->on_token(w->context, &whole, token->id, w->error)) {
                return false;
            }
            covered = end;
        }
    }
    tg_view rest = tg_view_part(v, covered, covered < v->length ? v->length : covered);
    return tg_pipeline_next(w, stage + 1, &rest);
}

const tg_stage_kind tg_search_kind = {"added_tokens", "", "", run_search, NULL, 0, NULL};
