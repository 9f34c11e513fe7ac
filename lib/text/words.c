/* words: a vocabulary of words, encoding and decoding. The words stand one after the other in one text, and a hash
 * table finds the id of a word.
 *
 * It is a type of its own and not a fourth format of the tokenizer: it has no bytes, merges or ranks, an unknown word
 * has one id, and it needs no PCRE2.
 */
#include "text/words.h"

#include <string.h>

#include <tapegrad/extend.h>

TG_CONFIG(tg_words_config, tg_words_config_default, mark, .mark = mark, .unknown = "<|unk|>", .min_count = 1,
          .vocabulary = INT32_MAX);

bool tg_words_check_config(const char *call, const tg_words_config *given, tg_words_config *config, tg_error *error)
{
    if (!tg_config_check(call, given, mark, error)) {
        return false;
    }
    *config = given ? *given : tg_words_config_default();
    return (unsigned)config->split <= TG_WORD_SPLIT_SPACE ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: split %d; it must be a tg_word_split", call, (int)config->split);
}

/* ---- the table ---- */

tg_words *tg_words_make(tg_word_split split)
{
    tg_words *w = tg_alloc_zeroed(1, sizeof *w);
    if (w) {
        w->unknown = -1;
        w->split = split;
    }
    return w;
}

void tg_words_free(tg_words *w)
{
    if (w) {
        tg_names_free(&w->names);
        tg_free(w);
    }
}

int32_t tg_words_add(tg_words *w, const char *word, size_t length)
{
    int32_t id = tg_names_find(&w->names, word, length);
    return id >= 0 ? id : tg_names_append(&w->names, word, length, NULL, 0) ? tg_names_enter(&w->names) : -1;
}

int32_t tg_words_vocabulary(const tg_words *w)
{
    return w ? w->names.count : 0;
}

int32_t tg_words_find(const tg_words *w, const char *word)
{
    return w && word ? tg_names_find(&w->names, word, strlen(word)) : -1;
}

const char *tg_words_at(const tg_words *w, int32_t id)
{
    return w && id >= 0 && id < w->names.count ? w->names.bytes + w->names.begin[id] : NULL;
}

/* ---- encoding ---- */

/* An array of ids that grows. */
typedef struct id_list {
    int32_t *ids;
    size_t count, capacity;
} id_list;

static bool encode(const tg_words *w, const char *text, size_t length, id_list *list, tg_error *error)
{
    for (size_t at = 0, size; (size = tg_words_next(w->split, text, length, &at)) > 0; at += size) {
        int32_t id = tg_names_find(&w->names, text + at, size);
        id = id < 0 ? w->unknown : id;
        if (id < 0) {
            return tg_error_set(error, TG_ERROR_RANGE,
                                "words_encode: the word '%.*s' at %zu is not in the vocabulary, which has no token for "
                                "unknown words",
                                tg_cut_bytes(text + at, size, 60), text + at, at);
        }
        if (!tg_grow(&list->ids, &list->capacity, list->count, list->count + 1, sizeof *list->ids)) {
            return tg_error_set(error, TG_ERROR_MEMORY, "words_encode: out of memory at %zu", at);
        }
        list->ids[list->count++] = id;
    }
    return true;
}

bool tg_words_encode(const tg_words *w, const char *text, size_t length, tg_tokens *tokens, tg_error *error)
{
    if (!tokens) {
        return tg_error_set(error, TG_ERROR_STATE, "words_encode: the tokens are NULL");
    }
    *tokens = (tg_tokens){NULL, 0};
    if (!w || (!text && length > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "words_encode: the %s NULL", w ? "text is" : "words are");
    }
    id_list list = {NULL, 0, 0};
    if (!tg_words_check_text("words_encode", text, length, error) || !encode(w, text, length, &list, error)) {
        tg_free(list.ids);
        return false;
    }
    *tokens = (tg_tokens){list.ids, (int64_t)list.count};
    return true;
}

char *tg_words_decode(const tg_words *w, const int32_t *ids, int64_t count, size_t *length, tg_error *error)
{
    size_t unused, total = 0;
    length = length ? length : &unused;
    *length = 0;
    if (!w || (!ids && count > 0)) {
        tg_error_set(error, TG_ERROR_STATE, "words_decode: the %s NULL", w ? "ids are" : "words are");
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        const char *word = tg_words_at(w, ids[i]);
        if (!word) {
            tg_error_set(error, TG_ERROR_RANGE, "words_decode: id %d at [%lld] is outside [0,%d)", ids[i], (long long)i,
                         w->names.count);
            return NULL;
        }
        size_t part = strlen(word) + 1;
        if (part > SIZE_MAX - 1 - total) {
            tg_error_set(error, TG_ERROR_MEMORY, "words_decode: the text does not fit into memory");
            return NULL;
        }
        total += part;
    }
    char *text = tg_alloc((uint64_t)total + 1, 1), *out = text;
    if (!text) {
        tg_error_set(error, TG_ERROR_MEMORY, "words_decode: out of memory for %zu bytes", total);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        const char *word = tg_words_at(w, ids[i]);
        if (i > 0 && !tg_words_joins(w->split, word)) {
            *out++ = ' ';
        }
        out = (char *)memcpy(out, word, strlen(word)) + strlen(word);
    }
    *out = '\0';
    *length = (size_t)(out - text);
    return text;
}
