/* word_counts (private): the different words of texts, and how often they occur.
 *
 * The threads count the words of one piece each, in tables of their own, which are as large as a piece needs. Then
 * these are added to the tables of all words. The bits of a word's hash choose its table, and each thread fills some of
 * them, so no table needs a lock. Sums of whole numbers do not depend on the order, nor on the number of threads.
 */
#ifndef TG_TEXT_WORD_COUNTS_H
#define TG_TEXT_WORD_COUNTS_H

#include "text/pieces.h"

/* The number of tables of all words. */
#define TG_WORD_TABLES 16

typedef struct tg_counted_word {
    const char *bytes;
    int64_t count;
    uint32_t length, hash;
} tg_counted_word;

typedef struct tg_word_table {
    tg_counted_word *words;
    size_t count, capacity;
    int32_t *slots; /* -1: empty */
    size_t slot_count;
    struct tg_word_block *blocks; /* the bytes of the words, if the table owns them */
} tg_word_table;

typedef struct tg_word_counter {
    const char *call;           /* for messages */
    const tg_tokenizer *z;      /* borrowed; its stages find the words */
    struct tg_word_part *parts; /* the pieces that are counted at the same time */
    int part_count;
    tg_word_table tables[TG_WORD_TABLES];
} tg_word_counter;

/* After true, call tg_word_counter_free. */
bool tg_word_counter_make(tg_word_counter *counter, const char *call, const tg_tokenizer *tokenizer, tg_error *error);
void tg_word_counter_free(tg_word_counter *counter);

/* Adds the words of `count` <= tg_piece_slots() pieces, in several threads. The bytes of the pieces can be freed
 * afterwards. FORMAT, of the first such byte, if they are not UTF-8. */
bool tg_word_counter_add(tg_word_counter *counter, const tg_piece *pieces, int count, tg_error *error);

/* Returns the number of different words. */
int64_t tg_word_counter_words(const tg_word_counter *counter);

/* Frees the words of a table. */
void tg_word_table_free(tg_word_table *table);

#endif
