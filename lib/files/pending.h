/* pending (private): values that were read for tensors, and that replace the tensors' values all at once. Reading can
 * fail and changes nothing; the commit cannot fail.
 *
 * Each tensor's values are read into a new storage, and the commit exchanges the storages. A storage that another
 * tensor shares is overwritten instead, so that views and detached tensors have the new values, too.
 */
#ifndef TG_FILES_PENDING_H
#define TG_FILES_PENDING_H

#include "files/safetensors.h"

typedef struct tg_pending_values {
    tg_tensor *x; /* borrowed, contiguous */
    tg_storage *storage;
    int64_t count; /* of the values that were read; those after them stay */
} tg_pending_values;

typedef struct tg_pending {
    tg_pending_values *values;
    size_t count, capacity;
} tg_pending;

/* Reads an array for x, for the first rows of x, or for a shard: their dtypes and shapes must have been compared. */
bool tg_pending_read(tg_pending *pending, const char *call, const tg_safetensors *file, const tg_array *array,
                     tg_tensor *x, tg_shard shard, tg_error *error);

/* Replaces the values. The tensors' versions increase. Frees the list. */
void tg_pending_commit(tg_pending *pending);

/* Frees the list; the tensors are unchanged. */
void tg_pending_abandon(tg_pending *pending);

#endif
