/* params: finding an entry by its name or its tensor, in a time that does not depend on the number of entries. */
#include <string.h>

#include "base/alloc.h"
#include "params/list.h"

/* Returns the slot of a name, or the empty slot where it belongs. */
static int32_t *slot_of_name(const tg_params *params, const char *name)
{
    const tg_slots *slots = &params->by_name;
    size_t at = tg_hash_bytes(name, strlen(name)) & (slots->count - 1);
    while (slots->entries[at] >= 0 && strcmp(params->entries[slots->entries[at]].entry.name, name) != 0) {
        at = (at + 1) & (slots->count - 1);
    }
    return &slots->entries[at];
}

/* The same of a tensor. Addresses are multiples of TG_ALIGNMENT, so their bytes are mixed. */
static int32_t *slot_of_tensor(const tg_params *params, const tg_tensor *x)
{
    const tg_slots *slots = &params->by_tensor;
    size_t at = tg_hash_bytes((const char *)&x, sizeof(const tg_tensor *)) & (slots->count - 1);
    while (slots->entries[at] >= 0 && params->entries[slots->entries[at]].entry.tensor != x) {
        at = (at + 1) & (slots->count - 1);
    }
    return &slots->entries[at];
}

static void index_name(tg_params *params, size_t number)
{
    *slot_of_name(params, params->entries[number].entry.name) = (int32_t)number;
}

static void index_tensor(tg_params *params, size_t number)
{
    int32_t *slot = slot_of_tensor(params, params->entries[number].entry.tensor);
    if (*slot < 0) {
        *slot = (int32_t)number;
    }
}

/* Makes room in one of the tables. If it moves, all entries are put into it again. */
static bool reserve(tg_params *params, tg_slots *slots, void (*index)(tg_params *, size_t))
{
    bool is_new;
    if (params->count >= INT32_MAX || !tg_slots_reserve(&slots->entries, &slots->count, params->count + 1, &is_new)) {
        return false;
    }
    for (size_t i = 0; is_new && i < params->count; i++) {
        index(params, i);
    }
    return true;
}

bool tg_params_reserve(tg_params *params)
{
    return tg_grow(&params->entries, &params->capacity, params->count, params->count + 1, sizeof *params->entries) &&
           reserve(params, &params->by_name, index_name) && reserve(params, &params->by_tensor, index_tensor);
}

void tg_params_index_last(tg_params *params)
{
    size_t number = params->count - 1;
    tg_named *last = &params->entries[number];
    index_name(params, number);
    index_tensor(params, number);
    tg_named *first = &params->entries[tg_params_number_of(params, last->entry.tensor)];
    if (first != last) {
        last->next_alias = first->next_alias;
        first->next_alias = (int64_t)number;
    }
}

void tg_params_forget_last(tg_params *params)
{
    const tg_named *last = &params->entries[params->count - 1];
    tg_named *first = &params->entries[tg_params_number_of(params, last->entry.tensor)];
    *slot_of_name(params, last->entry.name) = -1;
    if (first == last) {
        *slot_of_tensor(params, last->entry.tensor) = -1;
    } else {
        first->next_alias = last->next_alias;
    }
}

void tg_params_free_index(tg_params *params)
{
    tg_free(params->by_name.entries);
    tg_free(params->by_tensor.entries);
}

int64_t tg_params_number(const tg_params *params, const char *name)
{
    return params && name && params->count > 0 ? *slot_of_name(params, name) : -1;
}

int64_t tg_params_number_of(const tg_params *params, const tg_tensor *x)
{
    return params->count > 0 ? *slot_of_tensor(params, x) : -1;
}

int64_t tg_params_next_alias(const tg_params *params, int64_t number)
{
    return params->entries[number].next_alias;
}
