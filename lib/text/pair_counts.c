#include "text/pair_counts.h"

#include <string.h>

#include "text/tokenizer.h"

typedef struct tg_pair_candidate {
    int64_t count; /* when the pair was put into the heap */
    tg_pair pair;
    int32_t index;
} candidate;

bool tg_pair_counts_begin(tg_pair_counts *p, const tg_tokenizer *bytes, uint64_t most)
{
    *p = (tg_pair_counts){.bytes = bytes, .places = tg_alloc(most + 1, sizeof *p->places)};
    return p->places != NULL;
}

void tg_pair_counts_free(tg_pair_counts *p)
{
    tg_free(p->fresh.pairs);
    tg_free(p->fresh.slots.slots);
    tg_free(p->kept.pairs);
    tg_free(p->kept.slots.slots);
    tg_free(p->heap);
    tg_free(p->places);
}

/* ---- counts ---- */

/* Returns the entry of a pair, which is new if it has no places. NULL when memory is exhausted. */
static tg_counted_pair *entry_of(tg_pair_table *t, tg_pair pair)
{
    if (t->count == INT32_MAX || !tg_pair_slots_reserve(&t->slots, t->pairs, sizeof *t->pairs, t->count) ||
        !tg_grow(&t->pairs, &t->capacity, t->count, t->count + 1, sizeof *t->pairs)) {
        return NULL;
    }
    int32_t *slot = tg_pair_slot(&t->slots, t->pairs, sizeof *t->pairs, pair);
    if (*slot < 0) {
        *slot = (int32_t)t->count;
        t->pairs[t->count++] = (tg_counted_pair){pair, 0, 0, 0};
    }
    return &t->pairs[*slot];
}

bool tg_pair_counts_raise(tg_pair_counts *p, tg_pair pair, int64_t count, uint32_t place)
{
    tg_counted_pair *counted = entry_of(&p->fresh, pair);
    if (!counted) {
        return false;
    }
    uint32_t added = ++p->place_count;
    p->places[added] = (tg_pair_place){place, 0};
    *(counted->first ? &p->places[counted->last].next : &counted->first) = added;
    counted->last = added;
    counted->count += count;
    return true;
}

void tg_pair_counts_lower(tg_pair_counts *p, tg_pair pair, int64_t count)
{
    const tg_pair_table *t = &p->kept;
    int32_t index = t->count ? *tg_pair_slot(&t->slots, t->pairs, sizeof *t->pairs, pair) : -1;
    if (index >= 0) {
        t->pairs[index].count -= count;
    }
}

/* ---- the heap ---- */

/* Compares the bytes of two tokens. */
static int compare_bytes(const tg_tokenizer *z, int32_t a, int32_t b)
{
    size_t a_length, b_length;
    const char *a_bytes = tg_tokenizer_token(z, a, &a_length), *b_bytes = tg_tokenizer_token(z, b, &b_length);
    int order = memcmp(a_bytes, b_bytes, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

/* Returns whether pair a comes before pair b. */
static bool is_more_frequent(const void *context, const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->count != y->count) {
        return x->count > y->count;
    }
    int order = context ? compare_bytes(context, x->pair.left, y->pair.left) : 0;
    order = context && order == 0 ? compare_bytes(context, x->pair.right, y->pair.right) : order;
    if (order != 0) {
        return order > 0;
    }
    return x->pair.left != y->pair.left ? x->pair.left < y->pair.left : x->pair.right < y->pair.right;
}

bool tg_pair_counts_push(tg_pair_counts *p, int64_t least)
{
    tg_pair_table *t = &p->fresh;
    for (size_t i = 0; i < t->count; i++) {
        if (t->pairs[i].count < least) {
            continue;
        }
        tg_counted_pair *kept = entry_of(&p->kept, t->pairs[i].pair);
        if (!kept || !tg_grow(&p->heap, &p->heap_capacity, p->heap_count, p->heap_count + 1, sizeof *p->heap)) {
            return false;
        }
        *kept = t->pairs[i];
        p->heap[p->heap_count++] = (candidate){kept->count, kept->pair, (int32_t)(kept - p->kept.pairs)};
        tg_heap_up(p->heap, sizeof *p->heap, p->heap_count, is_more_frequent, p->bytes);
    }
    for (; t->count > 0; t->count--) { /* the last one first, so that the others are found */
        *tg_pair_slot(&t->slots, t->pairs, sizeof *t->pairs, t->pairs[t->count - 1].pair) = -1;
    }
    return true;
}

tg_counted_pair *tg_pair_counts_take(tg_pair_counts *p, int64_t least)
{
    while (p->heap_count > 0) {
        tg_counted_pair *best = &p->kept.pairs[p->heap[0].index];
        bool is_next = best->count == p->heap[0].count;
        if (is_next || best->count < least) {
            p->heap[0] = p->heap[--p->heap_count];
        } else {
            p->heap[0].count = best->count;
        }
        tg_heap_down(p->heap, sizeof *p->heap, p->heap_count, 0, is_more_frequent, p->bytes);
        if (is_next) {
            return best;
        }
    }
    return NULL;
}
