/* encode: the conversion of text to ids.
 *
 * Byte pairs. A word becomes ids by merges. Of all pairs of neighboring symbols the one with the lowest rank is merged,
 * and of equal pairs the leftmost one, until no pair can be merged. The symbols of a word are a linked list. The pairs
 * that can be merged are in a heap, lowest rank first. A merge adds at most two new pairs. A pair whose symbols have
 * changed is dropped when it is taken from the heap. So a word of n bytes takes O(n log n) time. The first symbols are
 * bytes (openai/gpt-2's encoder.py; the ids are those of tiktoken's "gpt2"), or characters (Sennrich et al. 2016); then
 * those that are not in the vocabulary are the tokens of their bytes, or the unknown token.
 *
 * WordPiece (google-research/bert). The longest token with which a word begins is taken, then the longest with which
 * the rest begins behind the prefix "##", and so on. A word that is not used up is unknown.
 */
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* ---- byte pairs ---- */

typedef struct tg_symbol {
    int32_t id; /* -1: merged with the previous symbol */
    int32_t next, previous;
    uint32_t size; /* in bytes */
} symbol;

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
    const symbol *left = &e->symbols[at], *right = left->next < 0 ? NULL : &e->symbols[left->next];
    int64_t rank = right ? tg_tokenizer_rank(z, left->id, right->id) : -1;
    if (rank < 0 || rank >= ranks) {
        return true;
    }
    if (!tg_grow(&e->heap, &e->heap_capacity, e->heap_count, e->heap_count + 1, sizeof *e->heap)) {
        return false;
    }
    e->heap[e->heap_count++] = (candidate){(int32_t)rank, at, left->id, right->id};
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
    symbol *left = &e->symbols[c->at], *right = &e->symbols[left->next];
    left->id = z->merges[c->rank].result;
    right->id = -1;
    left->size += right->size;
    left->next = right->next;
    if (left->next >= 0) {
        e->symbols[left->next].previous = c->at;
    }
    return offer(e, z, c->at, ranks) && (left->previous < 0 || offer(e, z, left->previous, ranks));
}

static bool add_id(tg_encoder *e, int32_t id, tg_place place)
{
    if (!tg_grow(&e->ids, &e->id_capacity, e->id_count, e->id_count + 1, sizeof *e->ids) ||
        (e->has_places && !tg_grow(&e->places, &e->place_capacity, e->id_count, e->id_count + 1, sizeof *e->places))) {
        return false;
    }
    if (e->has_places) {
        e->places[e->id_count] = place;
    }
    e->ids[e->id_count++] = id;
    return true;
}

/* Returns the place of a part of a word if it is wanted. */
static tg_place place_of(const tg_encoder *e, const tg_view *word, size_t begin, size_t end)
{
    return e->has_places ? tg_view_place(word, begin, end) : (tg_place){0, 0};
}

/* Adds a symbol behind the `count` symbols of a word. */
static void add_symbol(tg_encoder *e, size_t *count, int32_t id, size_t size)
{
    e->symbols[*count] = (symbol){id, -1, (int32_t)*count - 1, (uint32_t)size};
    if (*count > 0) {
        e->symbols[*count - 1].next = (int32_t)*count;
    }
    ++*count;
}

/* Adds the symbols of bytes, each of which is a token. Returns false if one is not. */
static bool add_bytes(tg_encoder *e, size_t *count, const tg_tokenizer *z, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (z->id_of_byte[(unsigned char)bytes[i]] < 0) {
            return false;
        }
    }
    for (size_t i = 0; i < size; i++) {
        add_symbol(e, count, z->id_of_byte[(unsigned char)bytes[i]], 1);
    }
    return true;
}

/* Adds the unknown symbol that waits. */
static void add_unknown(tg_encoder *e, size_t *count, int32_t id, size_t *size)
{
    if (*size > 0) {
        add_symbol(e, count, id, *size);
        *size = 0;
    }
}

/* Writes the first symbols of a word: its bytes or characters. Returns their number. */
static size_t first_symbols(tg_encoder *e, const tg_tokenizer *z, const tg_view *word)
{
    const tg_model *m = &z->model;
    size_t count = 0, unknown = 0; /* the bytes of an unknown symbol, which waits because the next one may be a part */
    for (size_t i = 0, size; i < word->length; i += size) {
        const char *text = word->text + i;
        bool is_byte = m->kind == TG_MODEL_BYTES;
        size = is_byte ? 1 : tg_character_size(*text);
        int32_t id = is_byte ? z->id_of_byte[(unsigned char)*text] : tg_names_find(&z->tokens, text, size);
        if (id < 0 && m->has_byte_fallback && add_bytes(e, &count, z, text, size)) {
            continue;
        }
        if (id >= 0 || !m->fuses_unknown) {
            add_unknown(e, &count, m->unknown_id, &unknown);
        }
        if (id >= 0) {
            add_symbol(e, &count, id, size);
        } else if (m->unknown_id >= 0) {
            unknown += size;
        }
    }
    add_unknown(e, &count, m->unknown_id, &unknown);
    return count;
}

static bool encode_pairs(tg_encoder *e, const tg_tokenizer *z, const tg_view *word, int64_t ranks)
{
    size_t length = word->length;
    if (length > INT32_MAX || !tg_grow(&e->symbols, &e->symbol_capacity, 0, length, sizeof *e->symbols)) {
        return false;
    }
    size_t count = first_symbols(e, z, word), at = 0;
    e->heap_count = 0;
    bool is_ready = true;
    for (size_t i = 0; is_ready && i + 1 < count; i++) {
        is_ready = offer(e, z, (int32_t)i, ranks);
    }
    while (is_ready && e->heap_count > 0) {
        candidate c = take(e);
        const symbol *left = &e->symbols[c.at];
        if (left->id == c.left && left->next >= 0 && e->symbols[left->next].id == c.right) {
            is_ready = merge_at(e, z, &c, ranks);
        }
    }
    for (int32_t i = count > 0 ? 0 : -1; is_ready && i >= 0; i = e->symbols[i].next) {
        is_ready = add_id(e, e->symbols[i].id, place_of(e, word, at, at + e->symbols[i].size));
        at += e->symbols[i].size;
    }
    return is_ready;
}

/* ---- WordPiece ---- */

/* Returns the longest token with which the bytes from `begin` on begin, and writes the end of its bytes; or -1. The
 * word stands behind room for the prefix. */
static int32_t longest_piece(char *word, size_t begin, size_t length, const tg_tokenizer *z, size_t *end)
{
    size_t prefix = begin > 0 ? strlen(z->model.prefix) : 0;
    char *piece = word + begin - prefix; /* over bytes that are encoded */
    memcpy(piece, z->model.prefix, prefix);
    size_t most = z->model.longest > prefix ? z->model.longest - prefix : 0;
    *end = length - begin < most ? length : begin + most;
    while (*end<length && * end> begin && ((unsigned char)word[*end] & 0xc0) == 0x80) {
        (*end)--;
    }
    while (*end > begin) {
        int32_t id = tg_names_find(&z->tokens, piece, prefix + *end - begin);
        if (id >= 0) {
            return id;
        }
        *end = tg_character_before(word, *end);
    }
    return -1;
}

static bool encode_pieces(tg_encoder *e, const tg_tokenizer *z, const tg_view *v)
{
    size_t prefix = strlen(z->model.prefix), first = e->id_count, begin = 0, end;
    int64_t characters = 0;
    if (!tg_grow(&e->name, &e->name_capacity, 0, prefix + v->length, 1)) {
        return false;
    }
    char *word = e->name + prefix;
    memcpy(word, v->text, v->length);
    for (size_t i = 0; i < v->length; i += tg_character_size(v->text[i])) {
        characters++;
    }
    for (; begin < v->length && characters <= z->model.most_characters; begin = end) {
        int32_t id = longest_piece(word, begin, v->length, z, &end);
        if (id < 0) {
            break;
        }
        if (!add_id(e, id, place_of(e, v, begin, end))) {
            return false;
        }
    }
    if (begin < v->length) {
        e->id_count = first;
        return add_id(e, z->model.unknown_id, place_of(e, v, 0, v->length));
    }
    return true;
}

/* ---- texts ---- */

bool tg_encoder_word(tg_encoder *e, const tg_tokenizer *z, const tg_view *word, int64_t ranks)
{
    if (z->model.kind == TG_MODEL_WORD_PIECE) {
        return encode_pieces(e, z, word);
    }
    int32_t whole = z->model.ignores_merges ? tg_names_find(&z->tokens, word->text, word->length) : -1;
    return whole >= 0 ? add_id(e, whole, place_of(e, word, 0, word->length)) : encode_pairs(e, z, word, ranks);
}

void tg_encoder_free(tg_encoder *e)
{
    tg_free(e->symbols);
    tg_free(e->heap);
    tg_free(e->name);
    tg_free(e->is_whole);
    tg_free(e->places);
    tg_pipeline_free(&e->walk);
}

/* Encodes a word. Most words are tokens, and are merged once: then it is known whether that gives their token. */
static bool encode_word(tg_encoder *e, const tg_view *word)
{
    const tg_tokenizer *z = e->walk.z;
    bool has_merges = z->model.kind != TG_MODEL_WORD_PIECE && word->length <= z->model.longest;
    int32_t id = has_merges ? tg_names_find(&z->tokens, word->text, word->length) : -1;
    if (id >= 0 && !e->is_whole && !(e->is_whole = tg_alloc_zeroed((uint64_t)z->tokens.count, sizeof *e->is_whole))) {
        return false;
    }
    if (id >= 0 && e->is_whole[id]) {
        return add_id(e, id, place_of(e, word, 0, word->length));
    }
    size_t before = e->id_count;
    bool is_encoded = tg_encoder_word(e, z, word, INT64_MAX);
    if (is_encoded && id >= 0) {
        e->is_whole[id] = e->id_count == before + 1 && e->ids[before] == id;
    }
    return is_encoded;
}

static bool on_word(void *context, const tg_view *word, tg_error *error)
{
    tg_encoder *e = context;
    return encode_word(e, word) ||
           tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory at byte %zu", e->walk.call, word->at);
}

static bool on_token(void *context, const tg_view *token, int32_t id, tg_error *error)
{
    tg_encoder *e = context;
    return add_id(e, id, place_of(e, token, 0, token->length)) ||
           tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory at byte %zu", e->walk.call, token->at);
}

bool tg_encoder_text(tg_encoder *e, const tg_tokenizer *z, const char *call, bool special, const char *text,
                     size_t length, tg_error *error)
{
    tg_pipeline *w = &e->walk;
    w->z = z;
    w->call = call;
    w->special = special;
    w->on_word = on_word;
    w->on_token = on_token;
    w->context = e;
    w->error = error;
    return tg_pipeline_text(w, text, length);
}
