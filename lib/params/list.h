/* list (private): the entries of params, and how they are found. One table has a slot for the name of each entry, and
 * one for the address of each tensor, with the number of its first entry. Slots are never emptied: when an entry is
 * removed or gets another tensor, the table is filled again. */
#ifndef TG_PARAMS_LIST_H
#define TG_PARAMS_LIST_H

#include "params/params.h"
#include "tensor/tensor.h"

typedef struct tg_named {
    tg_entry entry;     /* TG_ENTRY_ALIAS: not the first one of its tensor */
    bool required_grad; /* whether the tensor required a gradient before it was added */
    int64_t next_alias; /* number of another entry of the tensor that was added earlier, or -1. In the first entry of a
                         * tensor: that of its newest alias */
} tg_named;

/* A name. It stays until the params are freed, even if its entry is removed, because others may refer to it. */
typedef struct tg_name {
    struct tg_name *before;
    char text[];
} tg_name;

struct tg_params {
    tg_run *run;
    bool is_made; /* whether the constructor succeeded */
    tg_dtype dtype;
    const tg_params_source *source; /* NULL except while a model is opened */
    tg_named *entries;
    size_t count, capacity;
    tg_name *names;  /* the newest one */
    int64_t changes; /* how often an entry was replaced or removed */
    int32_t *slots;  /* tg_slots_reserve */
    size_t slot_count;
};

/* ---- params.c ---- */

/* Adds x and takes over the caller's reference. Returns x; after an error releases x and returns NULL. */
tg_tensor *tg_params_add_entry(tg_params *params, const char *name, tg_tensor *x, tg_entry_kind kind);

/* ---- find.c ---- */

/* Makes room for one more entry. Returns false when memory is exhausted; the entries are as before. */
bool tg_params_reserve(tg_params *params);

/* Makes the last entry known. Cannot fail. */
void tg_params_index_last(tg_params *params);

/* Fills the table again. Cannot fail. */
void tg_params_index_all(tg_params *params);

#endif
