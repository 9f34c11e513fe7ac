#include "text/pair_counts.h"

#include <string.h>

#include "text/tokenizer.h"

/* The number of places of a block; a pair with more has a block of its own. */
#define BLOCK_PLACES ((uint32_t)1 << 18)

typedef struct tg_place_block {
    uint32_t *places; /* NULL: free */
    uint32_t used;
    uint32_t pairs; /* that have places in it */
} place_block;

void tg_pair_counts_begin(tg_pair_counts *p, const tg_tokenizer *bytes)
{
    *p = (tg_pair_counts){.open_block = -1, .bytes = bytes};
}

void tg_pair_counts_free(tg_pair_counts *p)
{
    for (size_t i = 0; i < p->block_count; i++) {
        tg_free(p->blocks[i].places);
    }
    tg_free(p->blocks);
    tg_free(p->heap);
    tg_free(p->slots);
    tg_pair_counts_begin(p, NULL);
}

/* ---- counts ---- */

static size_t first_slot(const tg_pair_counts *p, int32_t left, int32_t right)
{
    return tg_hash_pair(left, right) & (p->slot_count - 1);
}

/* Returns the slot of a pair, or the empty slot for it: linear probing. */
static size_t slot_of(const tg_pair_counts *p, int32_t left, int32_t right)
{
    size_t slot = first_slot(p, left, right);
    while (p->slots[slot].left >= 0 && (p->slots[slot].left != left || p->slots[slot].right != right)) {
        slot = (slot + 1) & (p->slot_count - 1);
    }
    return slot;
}

static bool enlarge(tg_pair_counts *p)
{
    tg_pair_counts larger = {.slot_count = p->slot_count ? 2 * p->slot_count : 64};
    larger.slots = tg_alloc(larger.slot_count, sizeof *larger.slots);
    if (!larger.slots) {
        return false;
    }
    for (size_t i = 0; i < larger.slot_count; i++) {
        larger.slots[i].left = -1;
    }
    for (size_t i = 0; i < p->slot_count; i++) {
        if (p->slots[i].left >= 0) {
            larger.slots[slot_of(&larger, p->slots[i].left, p->slots[i].right)] = p->slots[i];
        }
    }
    tg_free(p->slots);
    p->slots = larger.slots;
    p->slot_count = larger.slot_count;
    return true;
}

/* Empties a slot, and moves the pairs behind it that would not be found any more (Knuth, volume 3, 6.4, algorithm
 * R). */
static void remove_slot(tg_pair_counts *p, size_t hole)
{
    size_t mask = p->slot_count - 1;
    for (size_t i = (hole + 1) & mask; p->slots[i].left >= 0; i = (i + 1) & mask) {
        size_t first = first_slot(p, p->slots[i].left, p->slots[i].right);
        if (((i - first) & mask) >= ((i - hole) & mask)) {
            p->slots[hole] = p->slots[i];
            hole = i;
        }
    }
    p->slots[hole].left = -1;
    p->used--;
}

void tg_pair_counts_lower(tg_pair_counts *p, int32_t left, int32_t right, int64_t count, int64_t least)
{
    size_t slot = p->slot_count ? slot_of(p, left, right) : 0;
    if (p->slot_count && p->slots[slot].left >= 0) {
        p->slots[slot].count -= count;
        if (p->slots[slot].count < least) {
            remove_slot(p, slot);
        }
    }
}

/* ---- places ---- */

/* Adds a block without places. Returns its index, or -1 when memory is exhausted. */
static int32_t new_block(tg_pair_counts *p)
{
    if (p->block_count == INT32_MAX ||
        !tg_grow(&p->blocks, &p->block_capacity, p->block_count, p->block_count + 1, sizeof *p->blocks)) {
        return -1;
    }
    p->blocks[p->block_count] = (place_block){NULL, 0, 0};
    return (int32_t)p->block_count++;
}

static bool reserve_places(tg_pair_counts *p, uint32_t count, tg_pair_places *places)
{
    bool fits = p->open_block >= 0 && BLOCK_PLACES - p->blocks[p->open_block].used >= count;
    int32_t index = fits ? p->open_block : new_block(p);
    if (index < 0) {
        return false;
    }
    place_block *block = &p->blocks[index];
    if (!block->places) {
        block->places = tg_alloc(count > BLOCK_PLACES / 2 ? count : BLOCK_PLACES, sizeof *block->places);
        if (!block->places) {
            p->block_count--;
            return false;
        }
        if (count <= BLOCK_PLACES / 2) {
            p->open_block = index;
        }
    }
    *places = (tg_pair_places){index, block->used, count};
    block->used += count;
    block->pairs++;
    return true;
}

uint32_t *tg_pair_counts_places(const tg_pair_counts *p, const tg_pair_places *places)
{
    return p->blocks[places->block].places + places->begin;
}

void tg_pair_counts_release(tg_pair_counts *p, const tg_pair_places *places)
{
    place_block *block = &p->blocks[places->block];
    block->pairs--;
    if (block->pairs == 0 && places->block == p->open_block) {
        block->used = 0;
    } else if (block->pairs == 0) {
        tg_free(block->places);
        block->places = NULL;
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
    const tg_pair_candidate *x = a, *y = b;
    if (x->count != y->count) {
        return x->count > y->count;
    }
    int order = context ? compare_bytes(context, x->left, y->left) : 0;
    order = context && order == 0 ? compare_bytes(context, x->right, y->right) : order;
    if (order != 0) {
        return order > 0;
    }
    return x->left != y->left ? x->left < y->left : x->right < y->right;
}

bool tg_pair_counts_add(tg_pair_counts *p, int32_t left, int32_t right, int64_t count, uint32_t places, uint32_t **out)
{
    tg_pair_candidate added = {count, left, right, {0, 0, 0}};
    if ((4 * (p->used + 1) > 3 * p->slot_count && !enlarge(p)) ||
        !tg_grow(&p->heap, &p->heap_capacity, p->heap_count, p->heap_count + 1, sizeof *p->heap) ||
        !reserve_places(p, places, &added.places)) {
        return false;
    }
    size_t slot = slot_of(p, left, right);
    p->slots[slot] = (struct tg_pair_slot){count, left, right};
    p->used++;
    p->heap[p->heap_count++] = added;
    tg_heap_up(p->heap, sizeof *p->heap, p->heap_count, is_more_frequent, p->bytes);
    *out = tg_pair_counts_places(p, &added.places);
    return true;
}

bool tg_pair_counts_take(tg_pair_counts *p, tg_pair_candidate *best)
{
    while (p->heap_count > 0) {
        size_t slot = slot_of(p, p->heap[0].left, p->heap[0].right);
        bool is_known = p->slots[slot].left >= 0;
        if (is_known && p->slots[slot].count != p->heap[0].count) {
            p->heap[0].count = p->slots[slot].count;
            tg_heap_down(p->heap, sizeof *p->heap, p->heap_count, 0, is_more_frequent, p->bytes);
            continue;
        }
        *best = p->heap[0];
        p->heap[0] = p->heap[--p->heap_count];
        tg_heap_down(p->heap, sizeof *p->heap, p->heap_count, 0, is_more_frequent, p->bytes);
        if (is_known) {
            remove_slot(p, slot);
            return true;
        }
        tg_pair_counts_release(p, &best->places);
    }
    return false;
}
