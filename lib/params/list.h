/* list (private): the entries of params, and how they are found. A place of both tables has the number of an entry, -1
 * where it is empty, and after a collision the next place follows. If the last entry is removed, its place can be
 * emptied, because no entry that is left has passed it. Removing another one renumbers those behind it and fills both
 * tables again.
 *
 * With 100,000 entries each of a place, an entry and its name is in memory, not in the cache. So a place has the hash,
 * which tells other names apart, and the address of the name, which need not wait for the entry. Places of half the
 * size, without that address, took 1.3 to 2 times as long for names in random order.
 */
#ifndef TG_PARAMS_LIST_H
#define TG_PARAMS_LIST_H

#include "params/params.h"
#include "tensor/tensor.h"

typedef struct tg_named {
    tg_entry entry;
    bool required_grad; /* whether the tensor required a gradient before it was added */
    uint32_t hash;      /* of the name */
    int64_t next_alias; /* number of another entry of the tensor that was added earlier, or -1. In the first entry of a
                         * tensor: that of its newest alias */
} tg_named;

typedef struct tg_place {
    const void *key; /* the name or the tensor */
    uint32_t hash;
    int32_t number;
} tg_place;

typedef struct tg_places {
    tg_place *places;
    size_t count; /* a power of two, or 0 */
} tg_places;

/* A block of names, one behind the other. */
typedef struct tg_names {
    struct tg_names *before;
    size_t used, size;
    char text[];
} tg_names;

struct tg_params {
    tg_run *run;
    bool is_made; /* whether the constructor succeeded */
    tg_dtype dtype;
    tg_named *entries;
    size_t count, capacity;
    tg_names *names;
    int64_t changes;              /* how often an entry was replaced or removed */
    tg_places by_name, by_tensor; /* by_tensor has the first entry of each tensor */
};

/* ---- params.c ---- */

/* Adds x and takes over the caller's reference. Returns x; after an error releases x and returns NULL. */
tg_tensor *tg_params_add_entry(tg_params *params, const char *name, tg_tensor *x, tg_entry_kind kind);

/* ---- names.c ---- */

/* Returns a copy of the name of the next entry, or NULL when memory is exhausted. It stays until the params are freed,
 * even if its entry is removed, because others may refer to it. */
const char *tg_params_add_name(tg_params *params, const char *name);

/* Removes the name of the last entry, which nobody has seen. */
void tg_params_remove_last_name(tg_params *params);

void tg_params_free_names(tg_params *params);

/* ---- find.c ---- */

/* Makes room for one more entry. Returns false when memory is exhausted; the entries are as before. */
bool tg_params_reserve(tg_params *params);

/* Makes the last entry known, or unknown. Neither can fail. */
void tg_params_index_last(tg_params *params);
void tg_params_forget_last(tg_params *params);

/* Fills both tables again. Cannot fail. */
void tg_params_index_all(tg_params *params);

void tg_params_free_index(tg_params *params);

#endif
