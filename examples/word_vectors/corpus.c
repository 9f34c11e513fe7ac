/* corpus: reads texts, and turns them into ids. */
#include <stdlib.h>
#include <string.h>

#include "word_vectors.h"

/* Makes letters of ASCII small, and everything else of ASCII a space, as in the corpus text8. */
static void simplify(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i], small = c | 0x20;
        if (c < 0x80) {
            text[i] = (char)(small >= 'a' && small <= 'z' ? small : ' ');
        }
    }
}

/* Reads the files, whose paths have commas between them, into one text. Returns NULL with the error set. */
static char *read_texts(const char *paths, size_t *length, tg_error *error)
{
    char *all = NULL;
    *length = 0;
    for (const char *begin = paths; begin; begin = strchr(begin, ',') ? strchr(begin, ',') + 1 : NULL) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%.*s", (int)strcspn(begin, ","), begin);
        size_t size;
        char *text = tg_text_read(path, &size, error), *longer = text ? realloc(all, *length + size + 1) : NULL;
        if (!longer) {
            if (text) {
                snprintf(error->text, sizeof error->text, "out of memory for the texts");
            }
            tg_text_free(text);
            free(all);
            return NULL;
        }
        all = longer;
        memcpy(all + *length, text, size);
        *length += size;
        all[(*length)++] = ' ';
        tg_text_free(text);
    }
    return all;
}

/* Counts the words, and removes those that are left out. */
static bool count_words(corpus *c, const tg_tokens *tokens)
{
    c->ids = malloc((size_t)tokens->count * sizeof *c->ids + 1);
    c->counts = calloc((size_t)c->vocabulary + 1, sizeof *c->counts);
    for (int64_t i = 0; c->ids && c->counts && i < tokens->count; i++) {
        c->ids[c->count] = tokens->ids[i];
        c->count += tokens->ids[i] < c->vocabulary;
        c->counts[tokens->ids[i]]++;
    }
    return c->ids && c->counts;
}

bool corpus_read(corpus *c, const options *o)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens = {NULL, 0};
    tg_words_config config = tg_words_config_default();
    config.split = TG_WORD_SPLIT_SPACE;
    config.min_count = o->min_count;
    config.special_last = true;
    *c = (corpus){0};
    size_t length;
    char *text = read_texts(o->text, &length, &error);
    if (text && !o->as_is) {
        simplify(text, length);
    }
    c->words = text ? tg_words_new(text, length, &config, &error) : NULL;
    c->vocabulary = tg_words_vocabulary(c->words) - 1;
    bool good = c->words && tg_words_encode(c->words, text, length, &tokens, &error);
    free(text);
    if (!good) {
        complain("%s", error.text);
    } else if (!count_words(c, &tokens)) {
        good = complain("out of memory for %lld words", (long long)tokens.count);
    } else if (c->vocabulary < 2) {
        good = complain("%s: %d different words occur %lld times or more; at least 2 are needed", o->text,
                        (int)c->vocabulary, (long long)o->min_count);
    }
    tg_tokens_free(&tokens);
    if (!good) {
        corpus_free(c);
    }
    return good;
}

void corpus_free(corpus *c)
{
    tg_words_free(c->words);
    free(c->ids);
    free(c->counts);
    *c = (corpus){0};
}
