#include "text/tokenizer.h"

#include <tapegrad/extend.h>

/* Returns the slot of a pair, or the empty slot for it. Fibonacci hashing of both ids (Knuth, volume 3, 6.4), and
 * linear probing. */
static size_t slot_of(const tg_pair_map *map, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (map->size - 1);
    while (map->entries[slot].left >= 0 && (map->entries[slot].left != left || map->entries[slot].right != right)) {
        slot = (slot + 1) & (map->size - 1);
    }
    return slot;
}

static bool enlarge(tg_pair_map *map)
{
    tg_pair_map larger = {.size = map->size ? 2 * map->size : 64, .count = map->count};
    larger.entries = tg_alloc(larger.size, sizeof *larger.entries);
    if (!larger.entries) {
        return false;
    }
    for (size_t i = 0; i < larger.size; i++) {
        larger.entries[i].left = -1;
    }
    for (size_t i = 0; i < map->size; i++) {
        if (map->entries[i].left >= 0) {
            larger.entries[slot_of(&larger, map->entries[i].left, map->entries[i].right)] = map->entries[i];
        }
    }
    tg_free(map->entries);
    *map = larger;
    return true;
}

int64_t *tg_pair_map_put(tg_pair_map *map, int32_t left, int32_t right, int64_t initial)
{
    if (2 * (map->count + 1) > map->size && !enlarge(map)) {
        return NULL;
    }
    size_t slot = slot_of(map, left, right);
    if (map->entries[slot].left < 0) {
        map->entries[slot].left = left;
        map->entries[slot].right = right;
        map->entries[slot].value = initial;
        map->count++;
    }
    return &map->entries[slot].value;
}

void tg_pair_map_free(tg_pair_map *map)
{
    tg_free(map->entries);
    *map = (tg_pair_map){NULL, 0, 0};
}
