/* encode: the conversion of text to ids, and back.
 *
 * A word becomes ids by merges. Of all pairs of neighboring symbols the one with the lowest rank is merged, and of
 * equal pairs the leftmost one, until no pair can be merged. The symbols of a word are a linked list. The pairs that
 * can be merged are in a heap, lowest rank first. A merge adds at most two new pairs. A pair whose symbols have changed
 * is dropped when it is taken from the heap. So a word of n bytes takes O(n log n) time.
 *
 * Follows openai/gpt-2's encoder.py; the ids are those of tiktoken's "gpt2".
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* ---- encoding ---- */

typedef struct tg_candidate {
    int32_t rank;
    int32_t at;          /* the index of the left symbol */
    int32_t left, right; /* the symbols when the pair was added to the heap */
} candidate;

static bool is_earlier(const void *context, const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    (void)context;
    return x->rank < y->rank || (x->rank == y->rank && x->at < y->at);
}

/* Adds the pair that begins at `at` to the heap if it has a rank below `ranks`. Returns false when memory is
 * exhausted. */
static bool offer(tg_encoder *e, const tg_tokenizer *z, int32_t at, int64_t ranks)
{
    int32_t next = e->next[at];
    int64_t rank = next < 0 ? -1 : tg_tokenizer_rank(z, e->symbol[at], e->symbol[next]);
    if (rank < 0 || rank >= ranks) {
        return true;
    }
    if (!tg_grow(&e->heap, &e->heap_capacity, e->heap_count, e->heap_count + 1, sizeof *e->heap)) {
        return false;
    }
    e->heap[e->heap_count++] = (candidate){(int32_t)rank, at, e->symbol[at], e->symbol[next]};
    tg_heap_up(e->heap, sizeof *e->heap, e->heap_count, is_earlier, NULL);
    return true;
}

/* Removes the first pair from the heap and returns it. */
static candidate take(tg_encoder *e)
{
    candidate first = e->heap[0];
    e->heap[0] = e->heap[--e->heap_count];
    tg_heap_down(e->heap, sizeof *e->heap, e->heap_count, 0, is_earlier, NULL);
    return first;
}

static bool merge_at(tg_encoder *e, const tg_tokenizer *z, const candidate *c, int64_t ranks)
{
    int32_t right = e->next[c->at];
    e->symbol[c->at] = z->merges[c->rank].result;
    e->symbol[right] = -1;
    e->next[c->at] = e->next[right];
    if (e->next[c->at] >= 0) {
        e->previous[e->next[c->at]] = c->at;
    }
    return offer(e, z, c->at, ranks) && (e->previous[c->at] < 0 || offer(e, z, e->previous[c->at], ranks));
}

bool tg_encoder_word(tg_encoder *e, const tg_tokenizer *z, const char *word, size_t length, int64_t ranks)
{
    if (!tg_grow(&e->symbol, &e->symbol_capacity, 0, length, sizeof *e->symbol) ||
        !tg_grow(&e->next, &e->next_capacity, 0, length, sizeof *e->next) ||
        !tg_grow(&e->previous, &e->previous_capacity, 0, length, sizeof *e->previous) ||
        !tg_grow(&e->ids, &e->id_capacity, e->id_count, e->id_count + length, sizeof *e->ids)) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        e->symbol[i] = z->id_of_byte[(unsigned char)word[i]];
        e->next[i] = i + 1 < length ? (int32_t)i + 1 : -1;
        e->previous[i] = (int32_t)i - 1;
    }
    e->heap_count = 0;
    bool is_ready = true;
    for (size_t i = 0; is_ready && i + 1 < length; i++) {
        is_ready = offer(e, z, (int32_t)i, ranks);
    }
    while (is_ready && e->heap_count > 0) {
        candidate c = take(e);
        int32_t right = e->next[c.at];
        if (e->symbol[c.at] == c.left && right >= 0 && e->symbol[right] == c.right) {
            is_ready = merge_at(e, z, &c, ranks);
        }
    }
    for (int32_t i = 0; is_ready && i >= 0 && length > 0; i = e->next[i]) {
        e->ids[e->id_count++] = e->symbol[i];
    }
    return is_ready;
}

void tg_encoder_free(tg_encoder *e)
{
    tg_free(e->symbol);
    tg_free(e->next);
    tg_free(e->previous);
    tg_free(e->heap);
}

/* Appends the ids of text without added tokens. */
static bool encode_words(tg_encoder *e, const tg_encoding *c, const char *text, size_t begin, size_t end,
                         tg_error *error)
{
    while (begin < end) {
        size_t stop = tg_pretokenizer_next(c->splits, text, end, begin, error);
        if (stop == SIZE_MAX) {
            return false;
        }
        if (stop - begin > INT32_MAX || !tg_encoder_word(e, c->z, text + begin, stop - begin, INT64_MAX)) {
            return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory at byte %zu", c->call, begin);
        }
        begin = stop;
    }
    return true;
}

/* Appends the ids of text that was searched for added tokens `search` times. */
static bool encode_part(tg_encoder *e, const tg_encoding *c, int search, const char *text, size_t begin, size_t end,
                        tg_error *error)
{
    if (search == TG_SEARCHES) {
        return encode_words(e, c, text, begin, end, error);
    }
    for (size_t at = begin; at < end;) {
        const tg_added_entry *found = tg_added_tokens_find(c->z, search, text + at, end - at);
        const tg_added_token *token = found ? &c->z->added[found->added] : NULL;
        if (token && (c->special || !token->is_special)) {
            if (!encode_part(e, c, search + 1, text, begin, at, error)) {
                return false;
            }
            if (!tg_grow(&e->ids, &e->id_capacity, e->id_count, e->id_count + 1, sizeof *e->ids)) {
                return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory at byte %zu", c->call, at);
            }
            e->ids[e->id_count++] = token->id;
            begin = at + found->length;
        }
        at += found ? found->length : 1;
    }
    return encode_part(e, c, search + 1, text, begin, end, error);
}

bool tg_encoder_text(tg_encoder *e, const tg_encoding *c, const char *text, size_t length, tg_error *error)
{
    return encode_part(e, c, 0, text, 0, length, error);
}

bool tg_tokenizer_encode(tg_tokenizer *z, const char *text, size_t length, bool special, tg_tokens *tokens,
                         tg_error *error)
{
    if (!tokens) {
        return tg_error_set(error, TG_ERROR_STATE, "tokenizer_encode: the tokens are NULL");
    }
    *tokens = (tg_tokens){NULL, 0};
    if (!z || (!text && length > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "tokenizer_encode: the %s is NULL", z ? "text" : "tokenizer");
    }
    size_t bad = tg_utf8_check(text, length);
    if (bad < length) {
        return tg_error_set(error, TG_ERROR_FORMAT, "tokenizer_encode: byte 0x%02x at %zu is not UTF-8",
                            (unsigned)(unsigned char)text[bad], bad);
    }
    tg_encoder e = {0};
    tg_encoding how = {"tokenizer_encode", z, z->words, special};
    bool is_encoded = tg_encoder_text(&e, &how, text, length, error);
    tg_encoder_free(&e);
    if (!is_encoded) {
        tg_free(e.ids);
        return false;
    }
    *tokens = (tg_tokens){e.ids, (int64_t)e.id_count};
    return true;
}

void tg_tokens_free(tg_tokens *tokens)
{
    if (tokens) {
        tg_free(tokens->ids);
        *tokens = (tg_tokens){NULL, 0};
    }
}

/* ---- decoding ---- */

char *tg_tokenizer_decode(const tg_tokenizer *z, const int32_t *ids, int64_t count, size_t *length, tg_error *error)
{
    size_t total = 0, part, written = 0;
    if (length) {
        *length = 0;
    }
    if (!z || (!ids && count > 0)) {
        tg_error_set(error, TG_ERROR_STATE, "tokenizer_decode: the %s NULL", z ? "ids are" : "tokenizer is");
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        if (!tg_tokenizer_bytes(z, ids[i], &part)) {
            tg_error_set(error, TG_ERROR_RANGE, "tokenizer_decode: id %d at [%lld] is outside [0,%d)", ids[i],
                         (long long)i, tg_tokenizer_vocabulary(z));
            return NULL;
        }
        if (part > SIZE_MAX - 1 - total) {
            tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_decode: the text does not fit into memory");
            return NULL;
        }
        total += part;
    }
    char *text = tg_alloc(total + 1, 1);
    if (!text) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_decode: out of memory for %zu bytes", total);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        const char *bytes = tg_tokenizer_bytes(z, ids[i], &part);
        memcpy(text + written, bytes, part);
        written += part;
    }
    text[written] = '\0';
    if (length) {
        *length = written;
    }
    return text;
}
