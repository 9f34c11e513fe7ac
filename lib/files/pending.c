#include "files/pending.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

static void replace_bytes(const tg_pending_values *pending, bool replaces)
{
    if (replaces) {
        memcpy(pending->to, pending->values, pending->bytes);
    }
}

static void replace_values(const tg_pending_values *pending, bool replaces)
{
    if (replaces) {
        memcpy(tg_values(pending->to), pending->values, pending->bytes);
        tg_touch(pending->to);
    }
}

void *tg_pending_add(tg_pending *pending, const char *call, const char *name, void *to, size_t bytes,
                     tg_pending_finish *finish, tg_error *error)
{
    bool is_grown =
        tg_grow(&pending->list, &pending->capacity, pending->count, pending->count + 1, sizeof *pending->list);
    void *values = is_grown ? tg_alloc(bytes > 0 ? bytes : 1, 1) : NULL;
    if (!values) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for '%.*s'", call, TG_CUT(name, 100));
        return NULL;
    }
    pending->list[pending->count++] = (tg_pending_values){to, values, bytes, finish ? finish : replace_bytes};
    return values;
}

bool tg_pending_read(tg_pending *pending, const char *call, const tg_array *array, tg_tensor *x, tg_shard shard,
                     tg_error *error)
{
    if (!tg_tensor_check(call, array->name, x, error)) {
        return false;
    }
    int64_t count = shard.rows > 0 ? x->count : tg_shape_count(array->shape);
    size_t bytes = (size_t)count * tg_size_of(x->dtype);
    void *values = tg_pending_add(pending, call, array->name, x, bytes, replace_values, error);
    return values && tg_array_read_rows(array, shard, x->rank > 0 ? x->shape[0] : 0, values, tg_dtype_of(x), error);
}

static void replace_storage(const tg_pending_values *pending, bool replaces)
{
    tg_storage **storage = pending->values;
    if (replaces) {
        tg_tensor_replace_storage(pending->to, *storage, TG_BF16);
    } else {
        tg_storage_drop(NULL, *storage);
    }
}

bool tg_pending_read_bf16(tg_pending *pending, const char *call, const tg_array *array, tg_tensor *x, tg_shard shard,
                          tg_error *error)
{
    if (!tg_tensor_check(call, array->name, x, error) || !tg_tensor_check_unshared(call, x, error)) {
        return false;
    }
    tg_storage *read = tg_storage_new(NULL, (size_t)x->count * tg_size_of(TG_BF16));
    tg_storage **storage =
        read ? tg_pending_add(pending, call, array->name, x, sizeof *storage, replace_storage, error) : NULL;
    if (!storage) {
        tg_storage_drop(NULL, read);
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for '%.*s'", call, TG_CUT(array->name, 100));
    }
    *storage = read;
    return tg_array_read_rows(array, shard, x->shape[0], tg_storage_values(read), TG_BF16, error);
}

void tg_pending_end(tg_pending *pending, bool replaces)
{
    for (size_t i = 0; i < pending->count; i++) {
        pending->list[i].finish(&pending->list[i], replaces);
        tg_free(pending->list[i].values);
    }
    tg_free(pending->list);
    *pending = (tg_pending){NULL, 0, 0};
}
