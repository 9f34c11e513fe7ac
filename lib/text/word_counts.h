/* word_counts (private): the different words of texts, and how often they occur.
 *
 * The threads count the words of one piece each, in tables of their own, which are as large as a piece needs. Then
 * these are added to the table of all words, one after the other: a piece has far fewer different words than words.
 */
#ifndef TG_TEXT_WORD_COUNTS_H
#define TG_TEXT_WORD_COUNTS_H

#include "text/names.h"
#include "text/pieces.h"

typedef struct tg_word_table {
    tg_names words;
    int64_t *counts;
    size_t capacity;
} tg_word_table;

typedef struct tg_word_counter {
    const char *call;           /* for messages */
    const tg_tokenizer *z;      /* borrowed; its stages find the words */
    struct tg_word_part *parts; /* the pieces that are counted at the same time */
    int part_count;
    const tg_piece *pieces;
    tg_word_table table; /* of all words */
} tg_word_counter;

/* After true, call tg_word_counter_free. */
bool tg_word_counter_make(tg_word_counter *counter, const char *call, const tg_tokenizer *tokenizer, tg_error *error);
void tg_word_counter_free(tg_word_counter *counter);

/* Adds the words of `count` <= tg_piece_slots() pieces, in several threads. The bytes of the pieces can be freed
 * afterwards. FORMAT, of the first such byte, if they are not UTF-8. */
bool tg_word_counter_add(tg_word_counter *counter, const tg_piece *pieces, int count, tg_error *error);

/* Frees the words of a table. */
void tg_word_table_free(tg_word_table *table);

#endif
