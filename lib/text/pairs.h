/* pairs (private): an array whose elements begin with a pair of ids, and the number of the element with a pair: a hash
 * table with open addressing.
 */
#ifndef TG_TEXT_PAIRS_H
#define TG_TEXT_PAIRS_H

#include <tapegrad/extend.h>

typedef struct tg_pair {
    int32_t left, right;
} tg_pair;

typedef struct tg_pair_slots {
    int32_t *slots; /* -1: empty */
    size_t count;   /* a power of two, or 0 */
} tg_pair_slots;

/* Returns the slot of a pair in an array of elements of `size` bytes, or the empty slot for it: linear probing, and
 * Fibonacci hashing of a pair (Knuth, volume 3, 6.4). */
static inline int32_t *tg_pair_slot(const tg_pair_slots *s, const void *pairs, size_t size, tg_pair pair)
{
    uint64_t key = (uint64_t)(uint32_t)pair.left << 32 | (uint32_t)pair.right;
    size_t slot = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (s->count - 1);
    for (; s->slots[slot] >= 0; slot = (slot + 1) & (s->count - 1)) {
        const tg_pair *other = (const tg_pair *)((const char *)pairs + (size_t)s->slots[slot] * size);
        if (other->left == pair.left && other->right == pair.right) {
            break;
        }
    }
    return &s->slots[slot];
}

/* Makes room for the pair behind the `count` pairs of an array. Returns false when memory is exhausted. */
static inline bool tg_pair_slots_reserve(tg_pair_slots *s, const void *pairs, size_t size, size_t count)
{
    bool is_new;
    if (!tg_slots_reserve(&s->slots, &s->count, count + 1, &is_new)) {
        return false;
    }
    for (size_t i = 0; is_new && i < count; i++) {
        *tg_pair_slot(s, pairs, size, *(const tg_pair *)((const char *)pairs + i * size)) = (int32_t)i;
    }
    return true;
}

#endif
