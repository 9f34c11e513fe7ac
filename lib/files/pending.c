#include "files/pending.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

bool tg_pending_read(tg_pending *pending, const char *call, const tg_safetensors *file, const tg_array *array,
                     tg_tensor *x, tg_shard shard, tg_error *error)
{
    if (!tg_tensor_check(call, array->name, x, error)) {
        return false;
    }
    bool is_grown =
        tg_grow(&pending->values, &pending->capacity, pending->count, pending->count + 1, sizeof *pending->values);
    tg_storage *storage = is_grown ? tg_storage_new(NULL, tg_bytes_of(x)) : NULL;
    if (!storage) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for '%.*s'", call, TG_CUT(array->name, 100));
    }
    int64_t count = shard.rows > 0 ? x->count : tg_shape_count(array->shape);
    pending->values[pending->count++] = (tg_pending_values){x, storage, count};
    return tg_safetensors_read_rows(file, array, shard, x->rank > 0 ? x->shape[0] : 0, tg_storage_values(storage),
                                    tg_dtype_of(x), error);
}

/* The new storage replaces the old one, unless another tensor shares the old one (a view on a tape, a detached tensor);
 * then the values are copied, so that all of them see the new values. */
static void commit(const tg_pending_values *values)
{
    tg_tensor *x = values->x;
    size_t read = (size_t)values->count * tg_size_of(x->dtype), all = tg_bytes_of(x);
    char *from = tg_storage_values(values->storage), *to = tg_values(x);
    if (x->offset != 0 || atomic_load_explicit(&x->storage->references, memory_order_acquire) > 1) {
        memcpy(to, from, read);
        tg_touch(x);
        tg_storage_drop(NULL, values->storage);
        return;
    }
    memcpy(from + read, to + read, all - read);
    atomic_store_explicit(&values->storage->version, tg_storage_version(x) + 1, memory_order_relaxed);
    values->storage->first_version = x->storage->first_version;
    tg_storage_drop(NULL, x->storage);
    x->storage = values->storage;
}

void tg_pending_commit(tg_pending *pending)
{
    for (size_t i = 0; i < pending->count; i++) {
        commit(&pending->values[i]);
    }
    tg_free(pending->values);
    *pending = (tg_pending){NULL, 0, 0};
}

void tg_pending_abandon(tg_pending *pending)
{
    for (size_t i = 0; i < pending->count; i++) {
        tg_storage_drop(NULL, pending->values[i].storage);
    }
    tg_free(pending->values);
    *pending = (tg_pending){NULL, 0, 0};
}
