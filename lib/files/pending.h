/* pending (private): values that were read, and that replace others all at once. Reading can fail and changes nothing;
 * replacing cannot fail. Views and detached tensors have the new values of the tensor whose memory they share, too. */
#ifndef TG_FILES_PENDING_H
#define TG_FILES_PENDING_H

#include "files/safetensors.h"

typedef struct tg_pending_values tg_pending_values;

/* Replaces what is pending, or, unless `replaces`, leaves it. Frees what the values own. Cannot fail. */
typedef void tg_pending_finish(const tg_pending_values *pending, bool replaces);

struct tg_pending_values {
    void *to, *values;
    size_t bytes;
    tg_pending_finish *finish;
};

typedef struct tg_pending {
    tg_pending_values *list;
    size_t count, capacity;
} tg_pending;

/* Returns memory, which is the list's, for what replaces `to`: its bytes, or, with `finish`, what that makes of them.
 * NULL, with the error about `name`, when memory is exhausted. */
void *tg_pending_add(tg_pending *pending, const char *call, const char *name, void *to, size_t bytes,
                     tg_pending_finish *finish, tg_error *error);

/* Reads an array for x, for the first rows of x, or for a shard: their dtypes and shapes must have been compared. */
bool tg_pending_read(tg_pending *pending, const char *call, const tg_array *array, tg_tensor *x, tg_shard shard,
                     tg_error *error);

/* The same for a frozen parameter and an array of BF16: x becomes a tensor of bf16, with a new storage. STATE if
 * another tensor shares the values of x. */
bool tg_pending_read_bf16(tg_pending *pending, const char *call, const tg_array *array, tg_tensor *x, tg_shard shard,
                          tg_error *error);

/* Finishes all, and frees the list. The versions of tensors whose values were replaced increase. */
void tg_pending_end(tg_pending *pending, bool replaces);

#endif
