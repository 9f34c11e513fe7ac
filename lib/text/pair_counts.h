/* pair_counts (private): how often pairs of symbols occur, and which one is next.
 *
 * Each pair has a list of the places where it was found, in the order in which they were added. The pairs of a new
 * symbol are counted in a small table, and only those that occur often enough go to the large one. A count only falls
 * after its pair is in the heap, because every new neighborhood has the newest symbol. So the count in the heap is
 * never too low: a pair that comes out of it with an old count goes back with the present one.
 */
#ifndef TG_TEXT_PAIR_COUNTS_H
#define TG_TEXT_PAIR_COUNTS_H

#include "text/pairs.h"

/* A place of a pair, an index of 32 bits, and the number of the next one; 0: none. */
typedef struct tg_pair_place {
    uint32_t at, next;
} tg_pair_place;

typedef struct tg_counted_pair {
    tg_pair pair;
    int64_t count;
    uint32_t first, last; /* places */
} tg_counted_pair;

typedef struct tg_pair_table {
    tg_counted_pair *pairs;
    size_t count, capacity;
    tg_pair_slots slots;
} tg_pair_table;

typedef struct tg_pair_counts {
    tg_pair_table fresh; /* pairs that are being counted */
    tg_pair_table kept;  /* those that occur often enough; the heap has their indices */
    struct tg_pair_candidate *heap;
    size_t heap_count, heap_capacity;
    tg_pair_place *places;
    uint32_t place_count;
    const struct tg_tokenizer *bytes; /* whose bytes decide between equally frequent pairs; NULL: ids do */
} tg_pair_counts;

/* Begins without pairs. Of equally frequent pairs the next one is that with the lower ids, or with `bytes` that with
 * the greatest bytes. At most `most` places are added in the end. Returns false when memory is exhausted. */
bool tg_pair_counts_begin(tg_pair_counts *pairs, const struct tg_tokenizer *bytes, uint64_t most);
void tg_pair_counts_free(tg_pair_counts *pairs);

/* Adds a place and a count to a pair that is new since the last tg_pair_counts_push. Returns false when memory is
 * exhausted. */
bool tg_pair_counts_raise(tg_pair_counts *pairs, tg_pair pair, int64_t count, uint32_t place);

/* Keeps the new pairs that occur at least `least` times, and forgets the others. Returns false when memory is
 * exhausted. */
bool tg_pair_counts_push(tg_pair_counts *pairs, int64_t least);

/* Lowers the count of a pair that is kept. */
void tg_pair_counts_lower(tg_pair_counts *pairs, tg_pair pair, int64_t count);

/* Returns the next pair, which is removed from the heap, or NULL if none is left that occurs at least `least` times. */
tg_counted_pair *tg_pair_counts_take(tg_pair_counts *pairs, int64_t least);

#endif
