/* params: finding an entry by its name or its tensor, in a time that does not depend on the number of entries. */
#include <string.h>

#include "base/alloc.h"
#include "params/list.h"

static uint32_t hash_of_name(const char *name)
{
    return (uint32_t)tg_hash_bytes(name, strlen(name));
}

/* Addresses are multiples of TG_ALIGNMENT, so their bytes are mixed. */
static uint32_t hash_of_tensor(const tg_tensor *x)
{
    return (uint32_t)tg_hash_bytes((const char *)&x, sizeof(const tg_tensor *));
}

/* Returns the place of a name, or the empty place where it belongs. */
static tg_place *place_of_name(const tg_params *params, const char *name, uint32_t hash)
{
    const tg_places *t = &params->by_name;
    size_t at = hash & (t->count - 1);
    while (t->places[at].number >= 0 && (t->places[at].hash != hash || strcmp(t->places[at].key, name) != 0)) {
        at = (at + 1) & (t->count - 1);
    }
    return &t->places[at];
}

/* The same of a tensor. */
static tg_place *place_of_tensor(const tg_params *params, const tg_tensor *x)
{
    const tg_places *t = &params->by_tensor;
    size_t at = hash_of_tensor(x) & (t->count - 1);
    while (t->places[at].number >= 0 && t->places[at].key != x) {
        at = (at + 1) & (t->count - 1);
    }
    return &t->places[at];
}

static void index_name(tg_params *params, size_t number)
{
    const tg_named *named = &params->entries[number];
    *place_of_name(params, named->entry.name, named->hash) =
        (tg_place){named->entry.name, named->hash, (int32_t)number};
}

static void index_tensor(tg_params *params, size_t number)
{
    const tg_tensor *x = params->entries[number].entry.tensor;
    tg_place *place = place_of_tensor(params, x);
    if (place->number < 0) {
        *place = (tg_place){x, 0, (int32_t)number};
    }
}

/* Makes room in one of the tables. If it moves, all entries are put into it again, in the order of their numbers. */
static bool reserve(tg_params *params, tg_places *t, void (*index)(tg_params *, size_t))
{
    size_t needed = params->count + 1, size = t->count ? t->count : 64;
    while (size < needed + needed / 2 + 1) {
        size *= 2;
    }
    if (size == t->count) {
        return true;
    }
    tg_place *empty = params->count < INT32_MAX ? tg_alloc(size, sizeof *empty) : NULL;
    if (!empty) {
        return false;
    }
    memset(empty, -1, size * sizeof *empty);
    tg_free(t->places);
    *t = (tg_places){empty, size};
    for (size_t i = 0; i < params->count; i++) {
        index(params, i);
    }
    return true;
}

bool tg_params_reserve(tg_params *params)
{
    return tg_grow(&params->entries, &params->capacity, params->count, params->count + 1, sizeof *params->entries) &&
           reserve(params, &params->by_name, index_name) && reserve(params, &params->by_tensor, index_tensor);
}

static void index_entry(tg_params *params, size_t number)
{
    tg_named *named = &params->entries[number];
    named->hash = hash_of_name(named->entry.name);
    named->next_alias = -1;
    index_name(params, number);
    index_tensor(params, number);
    tg_named *first = &params->entries[tg_params_number_of(params, named->entry.tensor)];
    if (first != named) {
        named->next_alias = first->next_alias;
        first->next_alias = (int64_t)number;
    } else if (named->entry.kind == TG_ENTRY_ALIAS) {
        named->entry.kind = TG_ENTRY_PARAMETER; /* the entry that it was an alias of was replaced or removed */
    }
}

void tg_params_index_last(tg_params *params)
{
    index_entry(params, params->count - 1);
}

void tg_params_index_all(tg_params *params)
{
    memset(params->by_name.places, -1, params->by_name.count * sizeof *params->by_name.places);
    memset(params->by_tensor.places, -1, params->by_tensor.count * sizeof *params->by_tensor.places);
    for (size_t i = 0; i < params->count; i++) {
        index_entry(params, i);
    }
}

void tg_params_forget_last(tg_params *params)
{
    const tg_named *last = &params->entries[params->count - 1];
    tg_named *first = &params->entries[tg_params_number_of(params, last->entry.tensor)];
    place_of_name(params, last->entry.name, last->hash)->number = -1;
    if (first == last) {
        place_of_tensor(params, last->entry.tensor)->number = -1;
    } else {
        first->next_alias = last->next_alias;
    }
}

void tg_params_free_index(tg_params *params)
{
    tg_free(params->by_name.places);
    tg_free(params->by_tensor.places);
}

int64_t tg_params_number(const tg_params *params, const char *name)
{
    return params && name && params->count > 0 ? place_of_name(params, name, hash_of_name(name))->number : -1;
}

int64_t tg_params_number_of(const tg_params *params, const tg_tensor *x)
{
    return params->count > 0 ? place_of_tensor(params, x)->number : -1;
}

int64_t tg_params_next_alias(const tg_params *params, int64_t number)
{
    return params->entries[number].next_alias;
}
