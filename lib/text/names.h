/* names (private): texts with numbers, such as tokens and words, and the number of a text. Text i is the bytes from
 * begin[i] on, with a NUL behind them. The texts that are found are in a hash table with open addressing. Begins as
 * zeros.
 */
#ifndef TG_TEXT_NAMES_H
#define TG_TEXT_NAMES_H

#include <tapegrad/extend.h>

typedef struct tg_names {
    char *bytes;
    size_t *begin; /* count + 1 offsets */
    size_t byte_capacity, begin_capacity;
    int32_t count;
    int32_t *slots; /* -1: empty */
    size_t slot_count, entered;
} tg_names;

void tg_names_free(tg_names *names);

/* Removes all texts, and keeps the memory. */
void tg_names_clear(tg_names *names);

/* Adds a text, whose number is the next one: the bytes a followed by the bytes b. Both may be those of other
 * texts. Returns false when memory is exhausted. */
bool tg_names_append(tg_names *names, const char *a, size_t a_length, const char *b, size_t b_length);

/* Lets the last text be found, unless another one has the same bytes. Returns the number of the one that is found, or
 * -1 when memory is exhausted. */
int32_t tg_names_enter(tg_names *names);

/* Returns the number of a text that is found, or -1. */
int32_t tg_names_find(const tg_names *names, const char *bytes, size_t length);

static inline size_t tg_names_length(const tg_names *names, int32_t number)
{
    return names->begin[number + 1] - names->begin[number] - 1;
}

static inline const char *tg_names_at(const tg_names *names, int32_t number, size_t *length)
{
    *length = tg_names_length(names, number);
    return names->bytes + names->begin[number];
}

#endif
