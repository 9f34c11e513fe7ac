/* added_tokens: the search for added tokens in a text.
 *
 * Of the added tokens that begin at a byte the longest is taken, and the search goes on behind it (leftmost-longest, as
 * in Hugging Face's tokenizers): the bytes that are there are looked up in a table, with each length that tokens have.
 * At most bytes none begins: a table of bits says whether a token begins with the bytes that are there.
 *
 * Tokens that are normalized are searched in the normalized text between the others.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

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

/* Adds the bytes of an added token as a search finds them: through the normalizers, if it is normalized. */
static bool add_text(tg_names *names, const tg_tokenizer *z, const tg_added_token *token, tg_pipeline *w)
{
    size_t length;
    const char *bytes = tg_tokenizer_token(z, token->id, &length);
    tg_text_buffer text = {0};
    w->context = &text;
    bool is_good = !token->is_normalized || (tg_pipeline_text(w, bytes, length) && !text.failed);
    is_good =
        is_good && (token->is_normalized ? tg_names_append(names, text.bytes ? text.bytes : "", text.length, NULL, 0)
                                         : tg_names_append(names, bytes, length, NULL, 0));
    tg_free(text.bytes);
    return is_good;
}

/* Adds the length of a token. */
static bool add_length(tg_added_search *s, size_t length)
{
    size_t at = 0;
    while (at < s->length_count && s->lengths[at] > length) {
        at++;
    }
    if (at < s->length_count && s->lengths[at] == length) {
        return true;
    }
    if (!tg_grow(&s->lengths, &s->length_capacity, s->length_count, s->length_count + 1, sizeof *s->lengths)) {
        return false;
    }
    memmove(s->lengths + at + 1, s->lengths + at, (s->length_count - at) * sizeof *s->lengths);
    s->lengths[at] = length;
    s->length_count++;
    return true;
}

/* Fills a search. Of equal tokens the first one is found. */
static bool fill(tg_tokenizer *z, int search, tg_pipeline *w)
{
    tg_added_search *s = &z->searches[search];
    bool is_good = true;
    for (size_t i = 0; is_good && i < z->added_count; i++) {
        is_good = add_text(&s->names, z, &z->added[i], w);
        size_t length = is_good ? tg_names_length(&s->names, (int32_t)i) : 0;
        if (z->added[i].is_normalized == (search == 1) && length > 0) {
            is_good = tg_names_enter(&s->names) >= 0 && add_length(s, length);
            z->longest_added = length > z->longest_added ? length : z->longest_added;
        }
    }
    size_t least = s->length_count > 0 ? s->lengths[s->length_count - 1] : 0;
    s->shortest = least < HASHED_BYTES ? least : HASHED_BYTES;
    for (size_t i = 0; i < s->names.slot_count; i++) {
        if (s->names.slots[i] >= 0) {
            uint32_t hash = hash_of(s->names.bytes + s->names.begin[s->names.slots[i]], s->shortest);
            s->hashes[hash / 64] |= UINT64_C(1) << hash % 64;
        }
    }
    return is_good;
}

bool tg_added_tokens_prepare(tg_tokenizer *z, tg_error *error)
{
    tg_pipeline w = {.z = z, .call = "tokenizer_open", .on_word = keep_normalized, .error = error};
    z->searches = tg_alloc_zeroed(TG_SEARCHES, sizeof *z->searches);
    bool is_good = z->searches != NULL, has_words = false;
    for (size_t i = 0; i < z->added_count; i++) {
        has_words |= z->added[i].is_single_word;
    }
    for (int search = 0; is_good && search < TG_SEARCHES; search++) {
        is_good = fill(z, search, &w);
    }
    tg_pipeline_free(&w);
    if (is_good && has_words) {
        z->word_character = tg_pattern_new("[\\w\\x{200c}\\x{200d}]", false, error);
        is_good = z->word_character != NULL;
    }
    return is_good || tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_open: out of memory for the added tokens");
}

void tg_added_tokens_free(tg_tokenizer *z)
{
    for (int search = 0; z->searches && search < TG_SEARCHES; search++) {
        tg_names_free(&z->searches[search].names);
        tg_free(z->searches[search].lengths);
    }
    tg_free(z->searches);
}

/* ---- searching ---- */

const tg_added_token *tg_added_tokens_find(const tg_tokenizer *z, int search, const char *text, size_t length,
                                           size_t *size)
{
    const tg_added_search *s = &z->searches[search];
    if (s->length_count == 0 || length < s->shortest) {
        return NULL;
    }
    uint32_t hash = hash_of(text, s->shortest);
    if (!(s->hashes[hash / 64] >> hash % 64 & 1)) {
        return NULL;
    }
    for (size_t i = 0; i < s->length_count; i++) {
        *size = s->lengths[i];
        int32_t found = *size <= length ? tg_names_find(&s->names, text, *size) : -1;
        if (found >= 0) {
            return &z->added[found];
        }
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
        size_t size, begin = at;
        const tg_added_token *token = tg_added_tokens_find(w->z, search, v->text + at, v->length - at, &size);
        if (!token) {
            at++;
            continue;
        }
        size_t end = at + size;
        at = end;
        if (takes(w, v, token, covered, &begin, &end)) {
            tg_view between = tg_view_part(v, covered, begin > covered ? begin : covered);
            tg_view whole = tg_view_part(v, begin, end);
            if (!tg_pipeline_next(w, stage + 1, &between) ||
                (w->on_token && !w->on_token(w->context, &whole, token->id, w->error))) {
                return false;
            }
            covered = end;
        }
    }
    tg_view rest = tg_view_part(v, covered, covered < v->length ? v->length : covered);
    return tg_pipeline_next(w, stage + 1, &rest);
}

const tg_stage_kind tg_search_kind = {"added_tokens", "", "", run_search, NULL, 0, NULL};
