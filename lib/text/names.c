/* names: see names.h. */
#include "text/names.h"

/* Returns the slot of a text, or the empty slot for it. */
static size_t slot_of(const tg_names *n, const char *bytes, size_t length)
{
    size_t slot = tg_hash_bytes(bytes, length) & (n->slot_count - 1);
    for (; n->slots[slot] >= 0; slot = (slot + 1) & (n->slot_count - 1)) {
        int32_t number = n->slots[slot];
        if (tg_names_length(n, number) == length && memcmp(n->bytes + n->begin[number], bytes, length) == 0) {
            break;
        }
    }
    return slot;
}

/* Makes room for so many texts that are found. */
static bool reserve_slots(tg_names *n, size_t texts)
{
    if (n->slot_count > texts + texts / 2) {
        return true;
    }
    bool is_new;
    tg_names larger = *n;
    larger.slots = NULL;
    larger.slot_count = 0;
    if (!tg_slots_reserve(&larger.slots, &larger.slot_count, texts, &is_new)) {
        return false;
    }
    for (size_t i = 0; i < n->slot_count; i++) {
        if (n->slots[i] >= 0) {
            larger.slots[slot_of(&larger, n->bytes + n->begin[n->slots[i]], tg_names_length(n, n->slots[i]))] =
                n->slots[i];
        }
    }
    tg_free(n->slots);
    *n = larger;
    return true;
}

void tg_names_free(tg_names *n)
{
    tg_free(n->bytes);
    tg_free(n->begin);
    tg_free(n->slots);
    *n = (tg_names){0};
}

void tg_names_clear(tg_names *n)
{
    for (size_t i = 0; n->count > 0 && i < n->slot_count; i++) {
        n->slots[i] = -1;
    }
    n->entered = 0;
    n->count = 0;
}

bool tg_names_append(tg_names *n, const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t count = (size_t)n->count, start = count ? n->begin[count] : 0, end = start + a_length + b_length;
    /* the bytes of other texts move when there are more */
    bool is_inside = n->bytes && a >= n->bytes && a < n->bytes + start;
    size_t a_at = is_inside ? (size_t)(a - n->bytes) : 0, b_at = is_inside && b ? (size_t)(b - n->bytes) : 0;
    if (count == INT32_MAX || !tg_grow(&n->bytes, &n->byte_capacity, start, end + 1, 1) ||
        !tg_grow(&n->begin, &n->begin_capacity, count ? count + 1 : 0, count + 2, sizeof *n->begin)) {
        return false;
    }
    memcpy(n->bytes + start, is_inside ? n->bytes + a_at : a, a_length);
    if (b_length > 0) {
        memcpy(n->bytes + start + a_length, is_inside ? n->bytes + b_at : b, b_length);
    }
    n->bytes[end] = '\0';
    n->begin[count] = start;
    n->begin[count + 1] = end + 1;
    n->count++;
    return true;
}

int32_t tg_names_enter(tg_names *n)
{
    if (!reserve_slots(n, n->entered + 1)) {
        return -1;
    }
    int32_t last = n->count - 1;
    int32_t *slot = &n->slots[slot_of(n, n->bytes + n->begin[last], tg_names_length(n, last))];
    if (*slot < 0) {
        *slot = last;
        n->entered++;
    }
    return *slot;
}

int32_t tg_names_find(const tg_names *n, const char *bytes, size_t length)
{
    return n->slot_count ? n->slots[slot_of(n, bytes, length)] : -1;
}
