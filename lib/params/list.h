/* list (private): the entries of params, and how they are found. Both tables have numbers of entries, -1 where a slot
 * is empty, and after a collision the next slot follows. Entries are removed in the order opposite to that in which
 * they were added, so a slot can be emptied: no entry that is left has passed it. */
#ifndef TG_PARAMS_LIST_H
#define TG_PARAMS_LIST_H

#include "params/params.h"
#include "tensor/tensor.h"

typedef struct tg_named {
    tg_entry entry;
    bool required_grad; /* whether the tensor required a gradient before it was added */
    int64_t next_alias; /* number of another entry of the tensor that was added earlier, or -1. In the first entry of a
                         * tensor: that of its newest alias */
} tg_named;

typedef struct tg_slots {
    int32_t *entries;
    size_t count;
} tg_slots;

struct tg_params {
    tg_error error;
    tg_dtype dtype;
    tg_rng *rng;
    tg_named *entries;
    size_t count, capacity;
    tg_slots by_name, by_tensor; /* by_tensor has the first entry of each tensor */
};

/* ---- params.c ---- */

/* Adds x and takes over the caller's reference. Returns x; after an error releases x and returns NULL. */
tg_tensor *tg_params_add_entry(tg_params *params, const char *name, tg_tensor *x, tg_entry_kind kind);

/* ---- find.c ---- */

/* Makes room for one more entry. Returns false when memory is exhausted; the entries are as before. */
bool tg_params_reserve(tg_params *params);

/* Makes the last entry known, or unknown. Neither can fail. */
void tg_params_index_last(tg_params *params);
void tg_params_forget_last(tg_params *params);

void tg_params_free_index(tg_params *params);

#endif
