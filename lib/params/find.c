/* params: finding an entry by its name or its tensor, in a time that does not depend on the number of entries. */
#include <string.h>

#include "base/alloc.h"
#include "params/list.h"

/* Returns the slot of a name, or the empty slot where it belongs. */
static int32_t *slot_of_name(const tg_params *params, const char *name)
{
    size_t last = params->slot_count - 1, at = tg_hash_bytes(name, strlen(name)) & last;
    while (params->slots[at] >= 0 && strcmp(params->entries[params->slots[at]].entry.name, name) != 0) {
        at = (at + 1) & last;
    }
    return &params->slots[at];
}

/* The same of a tensor: the slot of its first entry. */
static int32_t *slot_of_tensor(const tg_params *params, const tg_tensor *x)
{
    size_t last = params->slot_count - 1, at = tg_hash_bytes((const char *)&x, sizeof(const tg_tensor *)) & last;
    for (; params->slots[at] >= 0; at = (at + 1) & last) {
        const tg_entry *entry = &params->entries[params->slots[at]].entry;
        if (entry->tensor == x && entry->kind != TG_ENTRY_ALIAS) {
            break;
        }
    }
    return &params->slots[at];
}

static void index_entry(tg_params *params, int32_t number)
{
    tg_named *named = &params->entries[number];
    named->next_alias = -1;
    *slot_of_name(params, named->entry.name) = number;
    tg_entry_kind kind = named->entry.kind;
    named->entry.kind = TG_ENTRY_ALIAS; /* the slot of its name is not that of the tensor */
    int32_t *first = slot_of_tensor(params, named->entry.tensor);
    if (*first >= 0) {
        named->next_alias = params->entries[*first].next_alias;
        params->entries[*first].next_alias = number;
    } else {
        *first = number;
        /* an alias becomes a parameter when the entry that it was an alias of is replaced or removed */
        named->entry.kind = kind == TG_ENTRY_ALIAS ? TG_ENTRY_PARAMETER : kind;
    }
}

void tg_params_index_last(tg_params *params)
{
    index_entry(params, (int32_t)params->count - 1);
}

void tg_params_index_all(tg_params *params)
{
    if (params->slot_count > 0) {
        memset(params->slots, -1, params->slot_count * sizeof *params->slots);
    }
    for (size_t i = 0; i < params->count; i++) {
        index_entry(params, (int32_t)i);
    }
}

bool tg_params_reserve(tg_params *params)
{
    bool is_new, has_room = params->count < INT32_MAX &&
                            tg_grow(&params->entries, &params->capacity, params->count, params->count + 1,
                                    sizeof *params->entries) &&
                            tg_slots_reserve(&params->slots, &params->slot_count, 2 * (params->count + 1), &is_new);
    if (has_room && is_new) {
        tg_params_index_all(params);
    }
    return has_room;
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
