/* words_new: the vocabulary of a text. A first vocabulary, in the order of the text, counts the words. Then the words
 * that stay are sorted and added to the result. */
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/words.h"

static const char call[] = "words_new";

/* A word and how often the text has it. */
typedef struct counted_word {
    const char *word;
    int64_t count;
} counted_word;

static int compare_bytes(const void *a, const void *b)
{
    return strcmp(((const counted_word *)a)->word, ((const counted_word *)b)->word);
}

static int compare_counts(const void *a, const void *b)
{
    const counted_word *x = a, *y = b;
    return x->count != y->count ? (x->count > y->count ? -1 : 1) : compare_bytes(a, b);
}

static bool out_of_memory(tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
}

/* ---- special tokens ---- */

/* Returns special token i, where the last one may be the unknown token. */
static const char *special_at(const tg_words_config *config, int i)
{
    return i < config->special_count ? config->special[i] : config->unknown;
}

static bool check_special(const tg_words_config *config, int index, tg_error *error)
{
    const char *token = special_at(config, index);
    if (!token) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: special token %d is NULL", call, index);
    }
    size_t at = 0, length = strlen(token);
    if (!tg_words_check_text(call, token, length, error)) {
        return false;
    }
    if (length == 0 || tg_words_next(config->split, token, length, &at) != length) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: the special token '%.*s' is not one word of the split", call,
                            TG_CUT(token, 60));
    }
    return true;
}

/* Adds the special tokens, and the unknown one if it is none of them. Sets the unknown id. */
static bool add_special(tg_words *w, const tg_words_config *config, tg_error *error)
{
    for (int i = 0; i < config->special_count + (config->unknown != NULL); i++) {
        const char *token = special_at(config, i);
        int32_t before = w->names.count, id = tg_words_add(w, token, strlen(token));
        if (id < 0) {
            return out_of_memory(error);
        }
        if (id < before && i < config->special_count) {
            return tg_error_set(error, TG_ERROR_VALUE, "%s: the special token '%.*s' is given twice", call,
                                TG_CUT(token, 60));
        }
        w->unknown = i == config->special_count ? id : w->unknown;
    }
    return true;
}

static bool check_options(const tg_words_config *config, tg_error *error)
{
    if ((unsigned)config->order > TG_WORD_ORDER_BYTES) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: order %d; it must be a tg_word_order", call,
                            (int)config->order);
    }
    if (config->min_count < 1) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: min_count %lld; it must be at least 1", call,
                            (long long)config->min_count);
    }
    if (!tg_config_check_list(call, "special", config->special, "special_count", config->special_count, error)) {
        return false;
    }
    for (int i = 0; i < config->special_count + (config->unknown != NULL); i++) {
        if (!check_special(config, i, error)) {
            return false;
        }
    }
    return true;
}

/* ---- counting ---- */

/* Adds the words of a text to *all, and writes how often each is in it to *counts. */
static bool count_words(tg_words *all, const char *text, size_t length, int64_t **counts, tg_error *error)
{
    size_t capacity = 0;
    for (size_t at = 0, size; (size = tg_words_next(all->split, text, length, &at)) > 0; at += size) {
        int32_t before = all->names.count, id = tg_words_add(all, text + at, size);
        if (id < 0 || !tg_grow(counts, &capacity, (size_t)before, (size_t)id + 1, sizeof **counts)) {
            return out_of_memory(error);
        }
        (*counts)[id] = id < before ? (*counts)[id] + 1 : 1;
    }
    return true;
}

/* Adds the words that stay, in their order. `special` has the special tokens. */
static bool add_words(tg_words *w, const tg_words *special, const tg_words *all, const int64_t *counts,
                      const tg_words_config *config, tg_error *error)
{
    counted_word *sorted = tg_alloc((uint64_t)all->names.count + 1, sizeof *sorted);
    if (!sorted) {
        return out_of_memory(error);
    }
    size_t found = 0, most = (size_t)(config->vocabulary - special->names.count);
    for (int32_t id = 0; id < all->names.count; id++) {
        const char *word = tg_words_at(all, id);
        if (counts[id] >= config->min_count && tg_words_find(special, word) < 0) {
            sorted[found++] = (counted_word){word, counts[id]};
        }
    }
    qsort(sorted, found, sizeof *sorted, compare_counts);
    found = found < most ? found : most;
    if (config->order == TG_WORD_ORDER_BYTES) {
        qsort(sorted, found, sizeof *sorted, compare_bytes);
    }
    bool is_added = true;
    for (size_t i = 0; is_added && i < found; i++) {
        is_added = tg_words_add(w, sorted[i].word, strlen(sorted[i].word)) >= 0 || out_of_memory(error);
    }
    tg_free(sorted);
    return is_added;
}

/* Fills the vocabulary `w`. `all` and `special` are without words. */
static bool fill(tg_words *w, tg_words *all, tg_words *special, const char *text, size_t length,
                 const tg_words_config *config, tg_error *error)
{
    if (!add_special(special, config, error)) {
        return false;
    }
    if (config->vocabulary < 1 || config->vocabulary < special->names.count) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: vocabulary %d; it must be at least 1, and at least the %d special "
                            "tokens",
                            call, config->vocabulary, special->names.count);
    }
    int64_t *counts = NULL;
    bool is_filled =
        count_words(all, text, length, &counts, error) && (config->special_last || add_special(w, config, error)) &&
        add_words(w, special, all, counts, config, error) && (!config->special_last || add_special(w, config, error));
    tg_free(counts);
    return is_filled;
}

tg_words *tg_words_new(const char *text, size_t length, const tg_words_config *given, tg_error *error)
{
    tg_words_config config;
    if (!text && length > 0) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the text is NULL", call);
        return NULL;
    }
    if (!tg_words_check_config(call, given, &config, error) || !check_options(&config, error) ||
        !tg_words_check_text(call, text, length, error)) {
        return NULL;
    }
    tg_words *w = tg_words_make(config.split), *all = tg_words_make(config.split);
    tg_words *special = tg_words_make(config.split);
    bool is_filled = w && all && special ? fill(w, all, special, text, length, &config, error) : out_of_memory(error);
    tg_words_free(all);
    tg_words_free(special);
    if (!is_filled) {
        tg_words_free(w);
        return NULL;
    }
    return w;
}
