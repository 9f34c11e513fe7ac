/* resize: changes the number of rows of a table. The tensor remains the same object and gets a new storage.
 *
 * The first version of the new storage is higher than every version of the old one, so backward detects from this
 * number that a call was recorded before the resize. The owner of a follower (tg_row_state) compares its shape and that
 * of the table, and resizes all of its followers or none. Until then a second resize is refused, so no history of sizes
 * is kept.
 */
#include <string.h>

#include "base/alloc.h"
#include "tensor/getter.h"
#include "tensor/gradient.h"

static const char call[] = "tensor_resize_rows";

static bool check_removed_rows(const tg_tensor *x, int64_t rows, tg_error *error)
{
    for (int64_t row = rows; x->rows && row < x->shape[0]; row++) {
        tg_row_updates updates = tg_tensor_row_updates(x, row);
        if (tg_tensor_row_is_frozen(x, row)) {
            return tg_error_set(
                error, TG_ERROR_STATE,
                "%s: %lld rows would remove row %lld, which is frozen (a padding row?); unfreeze it first", call,
                (long long)rows, (long long)row);
        }
        if (updates.count > 0) {
            return tg_error_set(error, TG_ERROR_STATE,
                                "%s: %lld rows would remove row %lld, which was updated %lld times, last in step %lld; "
                                "tg_tensor_set_rows_watched(table, false, ..) drops these counts",
                                call, (long long)rows, (long long)row, (long long)updates.count,
                                (long long)updates.last_step);
        }
    }
    return true;
}

bool tg_tensor_check_unshared(const char *name, const tg_tensor *x, tg_error *error)
{
    return tg_storage_references(x) == 1 ||
           tg_error_set(
               error, TG_ERROR_STATE,
               "%s: another tensor shares the table's values; reset the tape that has views of it, and release "
               "detached tensors",
               name);
}

static bool check(const tg_tensor *x, int64_t rows, tg_error *error)
{
    if (!tg_rows_check_leaf(call, x, error)) {
        return false;
    }
    if (rows < 1 || (x->rank == 2 && rows > INT32_MAX)) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: %lld rows; it must be 1 to %d", call, (long long)rows,
                            INT32_MAX);
    }
    if (tg_tensor_grad_kind(x) != TG_GRAD_NONE) {
        return tg_error_set(
            error, TG_ERROR_STATE,
            "%s: the table has a gradient; drop it with tg_tensor_zero_grad after the step that uses it", call);
    }
    if (x->last_use > 0) {
        return tg_error_set(error, TG_ERROR_STATE,
                            "%s: a backward in progress adds to the gradient of the table; resize it after the step",
                            call);
    }
    if (!tg_tensor_check_unshared(call, x, error)) {
        return false;
    }
    if (!x->contiguous) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the table is not contiguous; resize a copy", call);
    }
    if (x->is_gradient) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the tensor is the gradient of another one; resize a copy",
                            call);
    }
    if (tg_shard_of(x).rows > 0) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the table is a shard; its rows are divided among processes",
                            call);
    }
    if (x->rows && x->rows->followers_behind > 0) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: %s", call, x->rows->behind_text);
    }
    return check_removed_rows(x, rows, error);
}

/* Returns a copy of an array with one element per row, for another number of rows; new elements are zero. NULL if the
 * array is NULL or memory is exhausted. */
static void *resized_copy(const tg_tensor *x, const void *facts, size_t size, int64_t rows)
{
    void *copy = facts ? tg_alloc_zeroed((uint64_t)rows, size) : NULL;
    if (copy) {
        memcpy(copy, facts, (size_t)(rows < x->shape[0] ? rows : x->shape[0]) * size);
    }
    return copy;
}

bool tg_resize_prepare(tg_resize *resize, tg_tensor *x, int64_t rows, tg_error *error)
{
    *resize = (tg_resize){.table = x, .rows = rows};
    if (!check(x, rows, error)) {
        return false;
    }
    if (rows == x->shape[0]) {
        return true;
    }
    tg_shape shape = tg_shape_of(x);
    shape.size[0] = rows;
    size_t bytes;
    if (!tg_shape_bytes(call, tg_dtype_of(x), &shape, &bytes, error)) {
        return false;
    }
    const uint8_t *frozen = x->rows ? x->rows->frozen : NULL;
    const tg_row_updates *updates = x->rows ? x->rows->updates : NULL;
    resize->frozen = resized_copy(x, frozen, 1, rows);
    resize->updates = resized_copy(x, updates, sizeof *updates, rows);
    resize->storage = tg_storage_new(NULL, bytes);
    if (!resize->storage || (frozen && !resize->frozen) || (updates && !resize->updates)) {
        tg_resize_abandon(resize);
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", call, (long long)rows);
    }
    size_t row_bytes = bytes / (size_t)rows, kept = (size_t)(rows < x->shape[0] ? rows : x->shape[0]) * row_bytes;
    char *values = tg_storage_values(resize->storage);
    memcpy(values, tg_values(x), kept);
    memset(values + kept, 0, bytes - kept);
    return true;
}

void tg_resize_abandon(tg_resize *resize)
{
    tg_storage_drop(NULL, resize->storage);
    tg_free(resize->frozen);
    tg_free(resize->updates);
    *resize = (tg_resize){.table = NULL};
}

void tg_tensor_replace_storage(tg_tensor *x, tg_storage *storage, tg_dtype dtype)
{
    x->dtype = (uint8_t)dtype;
    storage->first_version = tg_storage_version(x) + 1;
    atomic_store_explicit(&storage->version, storage->first_version, memory_order_relaxed);
    tg_storage_drop(NULL, x->storage);
    x->storage = storage;
    x->offset = 0;
    tg_gradient_release(x);
}

void tg_resize_commit(tg_resize *resize)
{
    tg_tensor *x = resize->table;
    if (!resize->storage) {
        return;
    }
    tg_tensor_replace_storage(x, resize->storage, tg_dtype_of(x));
    x->shape[0] = resize->rows;
    tg_shape shape = tg_shape_of(x);
    x->count = tg_shape_count(shape);
    /* The stride of an axis that had size 1 was arbitrary. */
    tg_contiguous_strides(&shape, x->strides);
    if (x->rows) {
        tg_free(x->rows->frozen);
        tg_free(x->rows->updates);
        x->rows->frozen = resize->frozen;
        x->rows->updates = resize->updates;
        x->rows->followers_behind = x->rows->followers;
    }
}

bool tg_tensor_resize_rows(tg_tensor *x, int64_t rows, tg_error *error)
{
    tg_resize resize;
    if (tg_getter_has(call, x) && x->rows && x->rows->follower_text) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: %s", call, x->rows->follower_text);
    }
    if (!tg_resize_prepare(&resize, x, rows, error)) {
        return false;
    }
    tg_resize_commit(&resize);
    return true;
}
