/* tokenizer_train: builds a vocabulary from a text.
 *
 * The text is split into words. Equal words are kept once, with their count. Then the following step is repeated until
 * the vocabulary is full or no pair occurs twice. All pairs of neighboring symbols are counted, each as often as its
 * word occurs. The most frequent pair becomes a merge and is merged in every word. Of equally frequent pairs the one
 * with the lower ids is taken. Each merge takes one pass over the distinct words, so the time is proportional to the
 * size of the vocabulary times the number of distinct words: seconds for a book, too long for an encyclopedia.
 *
 * Follows Sennrich, Haddow and Birch 2016, over bytes as Radford et al. 2019.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

typedef struct word {
    size_t begin, length; /* first in the text, after spell_words in symbols[] */
    int64_t count;
} word;

typedef struct trainer {
    tg_tokenizer *z;
    word *words;
    size_t count, capacity;
    int32_t *symbols; /* the symbols of all words, one after the other */
    const char *text;
} trainer;

static bool list_words(trainer *t, size_t length, tg_error *error)
{
    for (size_t begin = 0; begin < length;) {
        size_t end = tg_pretokenizer_next(t->z->words, t->text, length, begin, error);
        if (end == SIZE_MAX) {
            return false;
        }
        if (!tg_grow(&t->words, &t->capacity, t->count, t->count + 1, sizeof *t->words)) {
            return tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_train: out of memory for %zu words", t->count);
        }
        t->words[t->count++] = (word){begin, end - begin, 1};
        begin = end;
    }
    return true;
}

/* Compares two words by their bytes. Returns a number below, equal to or above 0. */
static int compare_words(const trainer *t, size_t a, size_t b)
{
    const word *x = &t->words[a], *y = &t->words[b];
    int order = memcmp(t->text + x->begin, t->text + y->begin, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static void sift_down(trainer *t, size_t at, size_t count)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && compare_words(t, child + 1, child) > 0;
        if (compare_words(t, at, child) >= 0) {
            return;
        }
        word swapped = t->words[at];
        t->words[at] = t->words[child];
        t->words[child] = swapped;
        at = child;
    }
}

/* Sorts the words with a heap sort, which needs no memory, and keeps equal words once with their count. */
static void unite_words(trainer *t)
{
    for (size_t i = t->count / 2; i-- > 0;) {
        sift_down(t, i, t->count);
    }
    for (size_t n = t->count; n-- > 1;) {
        word largest = t->words[0];
        t->words[0] = t->words[n];
        t->words[n] = largest;
        sift_down(t, 0, n);
    }
    size_t distinct = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (distinct > 0 && compare_words(t, distinct - 1, i) == 0) {
            t->words[distinct - 1].count++;
        } else {
            t->words[distinct++] = t->words[i];
        }
    }
    t->count = distinct;
}

static bool spell_words(trainer *t, tg_error *error)
{
    size_t total = 0;
    for (size_t i = 0; i < t->count; i++) {
        total += t->words[i].length;
    }
    t->symbols = tg_alloc(total + 1, sizeof *t->symbols);
    if (!t->symbols) {
        return tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_train: out of memory for %zu symbols", total);
    }
    size_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        const char *bytes = t->text + t->words[i].begin;
        t->words[i].begin = at;
        for (size_t k = 0; k < t->words[i].length; k++) {
            t->symbols[at++] = t->z->id_of_byte[(unsigned char)bytes[k]];
        }
    }
    return true;
}

/* Finds the most frequent pair; its count is 0 if no word has two symbols. False when memory is exhausted. */
static bool count_pairs(const trainer *t, tg_pair_map *counts, struct tg_pair_entry *best)
{
    for (size_t i = 0; i < t->count; i++) {
        const int32_t *symbol = t->symbols + t->words[i].begin;
        for (size_t k = 0; k + 1 < t->words[i].length; k++) {
            int64_t *count = tg_pair_map_put(counts, symbol[k], symbol[k + 1], 0);
            if (!count) {
                return false;
            }
            *count += t->words[i].count;
        }
    }
    *best = (struct tg_pair_entry){-1, -1, 0};
    for (size_t i = 0; i < counts->size; i++) {
        const struct tg_pair_entry *e = &counts->entries[i];
        bool lower = e->left < best->left || (e->left == best->left && e->right < best->right);
        if (e->left >= 0 && (e->value > best->value || (e->value == best->value && lower))) {
            *best = *e;
        }
    }
    return true;
}

static void merge_everywhere(trainer *t, int32_t left, int32_t right, int32_t merged)
{
    for (size_t i = 0; i < t->count; i++) {
        int32_t *symbol = t->symbols + t->words[i].begin;
        size_t kept = 0;
        for (size_t k = 0; k < t->words[i].length; kept++) {
            bool pair = k + 1 < t->words[i].length && symbol[k] == left && symbol[k + 1] == right;
            symbol[kept] = pair ? merged : symbol[k];
            k += pair ? 2 : 1;
        }
        t->words[i].length = kept;
    }
}

static bool out_of_memory(tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_train: out of memory for the ids");
}

/* Adds merges, and leaves one id for <|endoftext|>. */
static bool learn(trainer *t, int32_t size, tg_error *error)
{
    while (t->z->token_count < size - 1) {
        tg_pair_map counts = {NULL, 0, 0};
        struct tg_pair_entry best;
        bool is_counted = count_pairs(t, &counts, &best);
        tg_pair_map_free(&counts);
        if (!is_counted) {
            return tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_train: out of memory for counting pairs");
        }
        if (best.value < 2) {
            return true;
        }
        if (!tg_tokenizer_add_merged_token(t->z, best.left, best.right)) {
            return out_of_memory(error);
        }
        merge_everywhere(t, best.left, best.right, t->z->token_count - 1);
    }
    return true;
}

tg_tokenizer *tg_tokenizer_train(const char *text, size_t length, int32_t size, tg_error *error)
{
    if (!text) {
        tg_error_set(error, TG_ERROR_STATE, "tokenizer_train: the text is NULL");
        return NULL;
    }
    if (size <= TG_BYTES) {
        tg_error_set(error, TG_ERROR_VALUE,
                     "tokenizer_train: vocabulary %d; it must be at least %d, the bytes and <|endoftext|>", size,
                     TG_BYTES + 1);
        return NULL;
    }
    size_t bad = tg_utf8_check(text, length);
    if (bad < length) {
        tg_error_set(error, TG_ERROR_FORMAT, "tokenizer_train: byte 0x%02x at %zu is not UTF-8",
                     (unsigned)(unsigned char)text[bad], bad);
        return NULL;
    }
    trainer t = {.z = tg_tokenizer_make(error), .text = text};
    bool is_trained = t.z && (tg_tokenizer_add_bytes(t.z) || out_of_memory(error)) && list_words(&t, length, error);
    if (is_trained) {
        unite_words(&t);
        is_trained = spell_words(&t, error) && learn(&t, size, error) &&
                     (tg_tokenizer_add_end_of_text(t.z) || out_of_memory(error));
    }
    tg_free(t.words);
    tg_free(t.symbols);
    if (!is_trained) {
        tg_tokenizer_free(t.z);
        return NULL;
    }
    return t.z;
}
