/* pair_counts (private): how often pairs of symbols occur, and which one is next.
 *
 * The counts are in a hash table, and the pairs in a heap beside it, each with the places where it was found. A count
 * only falls after its pair was added, because every new neighborhood has the newest symbol. So the count in the heap
 * is never too low: a pair that comes out of the heap with an old count goes back with the present one.
 */
#ifndef TG_TEXT_PAIR_COUNTS_H
#define TG_TEXT_PAIR_COUNTS_H

#include <tapegrad/extend.h>

/* Places are indices of 32 bits. They stand in blocks, which are freed when no pair needs them. */
typedef struct tg_pair_places {
    int32_t block;
    uint32_t begin, count;
} tg_pair_places;

typedef struct tg_pair_candidate {
    int64_t count; /* when the pair was put into the heap */
    int32_t left, right;
    tg_pair_places places;
} tg_pair_candidate;

typedef struct tg_pair_counts {
    struct tg_pair_slot {
        int64_t count;
        int32_t left, right; /* left -1: empty */
    } * slots;
    size_t slot_count, used; /* slot_count is a power of two, or 0 */
    tg_pair_candidate *heap;
    size_t heap_count, heap_capacity;
    struct tg_place_block *blocks;
    size_t block_count, block_capacity;
    int32_t open_block;               /* the block that gets new places; -1: none */
    const struct tg_tokenizer *bytes; /* whose bytes decide between equally frequent pairs; NULL: ids do */
} tg_pair_counts;

/* Begins without pairs. Of equally frequent pairs the next one is that with the lower ids, or with `bytes` that with
 * the greatest bytes. */
void tg_pair_counts_begin(tg_pair_counts *pairs, const struct tg_tokenizer *bytes);
void tg_pair_counts_free(tg_pair_counts *pairs);

/* Adds a pair that is new, with `places` places, whose array *out is for the caller to fill at once. Returns false when
 * memory is exhausted. */
bool tg_pair_counts_add(tg_pair_counts *pairs, int32_t left, int32_t right, int64_t count, uint32_t places,
                        uint32_t **out);

/* Lowers the count of a pair; removes the pair if fewer than `least` remain. Pairs that were never added, or were
 * removed, are ignored. */
void tg_pair_counts_lower(tg_pair_counts *pairs, int32_t left, int32_t right, int64_t count, int64_t least);

/* Removes the next pair, and writes it to *best. Returns
 * false if no pair is left. tg_pair_counts_release frees its places. */
bool tg_pair_counts_take(tg_pair_counts *pairs, tg_pair_candidate *best);
uint32_t *tg_pair_counts_places(const tg_pair_counts *pairs, const tg_pair_places *places);
void tg_pair_counts_release(tg_pair_counts *pairs, const tg_pair_places *places);

#endif
