/* tokenizer: the tables of a byte-pair encoding, and the conversion of text to ids and back.
 *
 * A word becomes ids by merges. Of all pairs of neighboring symbols the one with the lowest rank is merged, and of
 * equal pairs the leftmost one, until no pair can be merged. The symbols of a word are a linked list. The pairs that
 * can be merged are in a heap, lowest rank first. A merge adds at most two new pairs. A pair whose symbols have changed
 * is dropped when it is taken from the heap. So a word of n bytes takes O(n log n) time.
 *
 * Follows openai/gpt-2's encoder.py; the ids are those of tiktoken's "gpt2".
 */
#include "data/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/file.h"

static const char end_of_text[] = "<|endoftext|>";

/* ---- tables ---- */

/* Returns whether vocab.bpe writes a byte as itself. These 188 bytes have the first ids. */
static bool printable(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static bool add_token(tg_tokenizer *z, const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t start = z->token_count ? z->begin[z->token_count] : 0, count = (size_t)z->token_count;
    if (!tg_grow((void **)&z->begin, &z->begin_capacity, z->token_count ? count + 1 : 0, count + 2, sizeof *z->begin)) {
        return false;
    }
    size_t a_at = (size_t)(a - z->bytes), b_at = (size_t)(b - z->bytes);
    /* The parts of a merge point into z->bytes, which moves when it grows. */
    bool is_inside = z->bytes && a_at < start;
    if (!tg_grow((void **)&z->bytes, &z->byte_capacity, start, start + a_length + b_length, 1)) {
        return false;
    }
    memcpy(z->bytes + start, is_inside ? z->bytes + a_at : a, a_length);
    if (b_length > 0) {
        memcpy(z->bytes + start + a_length, z->bytes + b_at, b_length);
    }
    z->begin[count] = start;
    z->begin[count + 1] = start + a_length + b_length;
    z->token_count++;
    return true;
}

tg_tokenizer *tg_tokenizer_make(tg_error *error)
{
    tg_tokenizer *z = tg_alloc_zeroed(1, sizeof *z);
    if (!z) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory");
        return NULL;
    }
    z->words = tg_pretokenizer_new(error);
    bool is_ready = z->words != NULL;
    for (int pass = 0; pass < 2; pass++) {
        for (int byte = 0; is_ready && byte < TG_BYTE_TOKENS; byte++) {
            if (printable(byte) == (pass == 0)) {
                char one = (char)byte;
                z->id_of_byte[byte] = (uint8_t)z->token_count;
                z->byte_of_id[z->token_count] = (uint8_t)byte;
                is_ready =
                    add_token(z, &one, 1, NULL, 0) || tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory");
            }
        }
    }
    if (!is_ready) {
        tg_tokenizer_free(z);
        return NULL;
    }
    return z;
}

void tg_tokenizer_free(tg_tokenizer *z)
{
    if (z) {
        tg_pretokenizer_free(z->words);
        tg_free(z->bytes);
        tg_free(z->begin);
        tg_free(z->merges);
        tg_pair_map_free(&z->pairs);
        tg_free(z);
    }
}

const char *tg_tokenizer_bytes(const tg_tokenizer *z, int32_t id, size_t *length)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    if (!z || id < 0 || id > z->token_count) {
        return NULL;
    }
    if (id == z->token_count) {
        *length = sizeof end_of_text - 1;
        return end_of_text;
    }
    *length = z->begin[id + 1] - z->begin[id];
    return z->bytes + z->begin[id];
}

bool tg_tokenizer_add_merge(tg_tokenizer *z, int32_t left, int32_t right, tg_error *error)
{
    size_t rank = (size_t)z->token_count - TG_BYTE_TOKENS, left_length, right_length;
    if (tg_pair_map_get(&z->pairs, left, right, -1) >= 0) {
        return tg_error_set(error, TG_ERROR_FORMAT, "the merge was given before");
    }
    const char *a = tg_tokenizer_bytes(z, left, &left_length), *b = tg_tokenizer_bytes(z, right, &right_length);
    if (!tg_grow((void **)&z->merges, &z->merge_capacity, rank, rank + 1, sizeof *z->merges) ||
        !tg_pair_map_put(&z->pairs, left, right, (int64_t)rank) || !add_token(z, a, left_length, b, right_length)) {
        return tg_error_set(error, TG_ERROR_MEMORY, "out of memory");
    }
    z->merges[rank] = (tg_merge){left, right};
    return true;
}

int32_t tg_tokenizer_vocabulary(const tg_tokenizer *z)
{
    return z ? z->token_count + 1 : 0;
}

/* ---- encoding ---- */

typedef struct candidate {
    int64_t rank;
    int32_t at;          /* the index of the left symbol */
    int32_t left, right; /* the symbols when the pair was added to the heap */
} candidate;

/* The word that is being merged, as a linked list of symbols; the heap of pairs; and the output. */
typedef struct encoder {
    const tg_tokenizer *z;
    int32_t *symbol, *next, *previous; /* symbol -1: merged with the previous symbol */
    size_t symbol_capacity, next_capacity, previous_capacity;
    candidate *heap;
    size_t heap_count, heap_capacity;
    int32_t *ids;
    size_t id_count, id_capacity;
} encoder;

static bool earlier(const candidate *a, const candidate *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

/* Adds the pair that begins at `at` to the heap if it can be merged. Returns false when memory is exhausted. */
static bool offer(encoder *e, int32_t at)
{
    int32_t next = e->next[at];
    int64_t rank = next < 0 ? -1 : tg_pair_map_get(&e->z->pairs, e->symbol[at], e->symbol[next], -1);
    if (rank < 0) {
        return true;
    }
    if (!tg_grow((void **)&e->heap, &e->heap_capacity, e->heap_count, e->heap_count + 1, sizeof *e->heap)) {
        return false;
    }
    candidate c = {rank, at, e->symbol[at], e->symbol[next]};
    size_t i = e->heap_count++;
    for (; i > 0 && earlier(&c, &e->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        e->heap[i] = e->heap[(i - 1) / 2];
    }
    e->heap[i] = c;
    return true;
}

/* Removes the first pair from the heap and returns it. */
static candidate take(encoder *e)
{
    candidate first = e->heap[0], last = e->heap[--e->heap_count];
    size_t i = 0;
    for (size_t child = 1; child < e->heap_count; child = 2 * i + 1) {
        if (child + 1 < e->heap_count && earlier(&e->heap[child + 1], &e->heap[child])) {
            child++;
        }
        if (!earlier(&e->heap[child], &last)) {
            break;
        }
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return first;
}

static bool merge_at(encoder *e, const candidate *c)
{
    int32_t right = e->next[c->at];
    e->symbol[c->at] = (int32_t)(TG_BYTE_TOKENS + c->rank);
    e->symbol[right] = -1;
    e->next[c->at] = e->next[right];
    if (e->next[c->at] >= 0) {
        e->previous[e->next[c->at]] = c->at;
    }
    return offer(e, c->at) && (e->previous[c->at] < 0 || offer(e, e->previous[c->at]));
}

static bool encode_word(encoder *e, const char *word, size_t length)
{
    if (!tg_grow((void **)&e->symbol, &e->symbol_capacity, 0, length, sizeof *e->symbol) ||
        !tg_grow((void **)&e->next, &e->next_capacity, 0, length, sizeof *e->next) ||
        !tg_grow((void **)&e->previous, &e->previous_capacity, 0, length, sizeof *e->previous) ||
        !tg_grow((void **)&e->ids, &e->id_capacity, e->id_count, e->id_count + length, sizeof *e->ids)) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        e->symbol[i] = e->z->id_of_byte[(unsigned char)word[i]];
        e->next[i] = i + 1 < length ? (int32_t)i + 1 : -1;
        e->previous[i] = (int32_t)i - 1;
    }
    e->heap_count = 0;
    bool is_ready = true;
    for (size_t i = 0; is_ready && i + 1 < length; i++) {
        is_ready = offer(e, (int32_t)i);
    }
    while (is_ready && e->heap_count > 0) {
        candidate c = take(e);
        int32_t right = e->next[c.at];
        if (e->symbol[c.at] == c.left && right >= 0 && e->symbol[right] == c.right) {
            is_ready = merge_at(e, &c);
        }
    }
    for (int32_t i = 0; is_ready && i >= 0 && length > 0; i = e->next[i]) {
        e->ids[e->id_count++] = e->symbol[i];
    }
    return is_ready;
}

/* Encodes text without special tokens. */
static bool encode_part(encoder *e, tg_pretokenizer *words, const char *text, size_t begin, size_t end, tg_error *error)
{
    while (begin < end) {
        size_t stop = tg_pretokenizer_next(words, text, end, begin, error);
        if (stop == SIZE_MAX) {
            return false;
        }
        if (stop - begin > INT32_MAX || !encode_word(e, text + begin, stop - begin)) {
            return tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_encode: out of memory at byte %zu", begin);
        }
        begin = stop;
    }
    return true;
}

/* Returns the index of the next <|endoftext|>, or `length`. */
static size_t find_special(const char *text, size_t begin, size_t length)
{
    const size_t size = sizeof end_of_text - 1;
    for (size_t i = begin; i + size <= length; i++) {
        if (text[i] == '<' && memcmp(text + i, end_of_text, size) == 0) {
            return i;
        }
    }
    return length;
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
    encoder e = {.z = z};
    bool is_encoded = true;
    for (size_t begin = 0; is_encoded && begin < length;) {
        size_t end = special ? find_special(text, begin, length) : length;
        is_encoded = encode_part(&e, z->words, text, begin, end, error);
        begin = end;
        if (is_encoded && end < length) {
            begin += sizeof end_of_text - 1;
            is_encoded = tg_grow((void **)&e.ids, &e.id_capacity, e.id_count, e.id_count + 1, sizeof *e.ids) ||
                         tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_encode: out of memory at byte %zu", end);
            if (is_encoded) {
                e.ids[e.id_count++] = z->token_count;
            }
        }
    }
    tg_free(e.symbol);
    tg_free(e.next);
    tg_free(e.previous);
    tg_free(e.heap);
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
        if (!tg_checked_add(total, part, &total)) {
            tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_decode: the text does not fit into memory");
            return NULL;
        }
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
