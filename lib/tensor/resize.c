/* resize: a table with another number of rows, the same tensor over another storage.
 *
 * The new storage's first version is above all that the old one had: so backward sees by the number alone that a call
 * was recorded before (tg_storage.born). Everything is reserved before anything changes, for several tables at once.
 */
#include <tapegrad/rows.h>

#include <string.h>

#include "tensor/tensor.h"

/* Whether nothing is lost or confused by leaving `rows` of x. */
static bool check_resize(const tg_tensor *x, int64_t rows, tg_error *error)
{
    if (rows < 1 || (x->rank == 2 && rows > INT32_MAX)) {
        return tg_error_set(error, TG_ERROR_SHAPE, "resize_rows: %lld rows; allowed are 1 to %d", (long long)rows,
                            INT32_MAX);
    }
    if (tg_gradient_kind_of(x) != TG_GRADIENT_NONE) {
        return tg_error_set(
            error, TG_ERROR_STATE,
            "resize_rows: the table has a gradient; tg_zero_grad drops it, after the step that uses it");
    }
    if (!x->contiguous || atomic_load_explicit(&x->storage->references, memory_order_acquire) > 1) {
        return tg_error_set(
            error, TG_ERROR_STATE,
            "resize_rows: another tensor shares the table's values: reset the tape that has views of it, "
            "release detached ones");
    }
    for (int64_t row = rows; row < x->shape[0]; row++) {
        tg_row_updates updates = tg_row_updates_of(x, row);
        if (tg_row_is_frozen(x, row)) {
            return tg_error_set(error, TG_ERROR_STATE,
                                "resize_rows: row %lld is frozen (a padding row?) and would go with %lld rows",
                                (long long)row, (long long)rows);
        }
        if (updates.count > 0) {
            return tg_error_set(
                error, TG_ERROR_STATE,
                "resize_rows: row %lld would go with %lld rows, but was updated %lld times, last in step "
                "%lld; tg_watch_rows(table, false, ..) forgets that",
                (long long)row, (long long)rows, (long long)updates.count, (long long)updates.last_step);
        }
    }
    return true;
}

static size_t kept_bytes(const tg_tensor *x, int64_t rows, size_t row_bytes)
{
    return (size_t)(rows < x->shape[0] ? rows : x->shape[0]) * row_bytes;
}

/* A copy of a property's array with another number of rows, zeros in the new ones; *resized is NULL where there is
 * none. */
static bool copy_property(const tg_tensor *x, const void *property, size_t size, int64_t rows, void **resized)
{
    *resized = property ? tg_alloc_zeroed((size_t)rows, size) : NULL;
    if (*resized) {
        memcpy(*resized, property, kept_bytes(x, rows, size));
    }
    return *resized || !property;
}

/* What a table will have. */
typedef struct resized {
    tg_storage *storage;
    void *frozen, *updates;
} resized;

static void abandon(resized *made)
{
    tg_storage_drop(NULL, made->storage);
    tg_free(made->frozen);
    tg_free(made->updates);
}

/* Into *made, which is all NULLs when nothing is to be done. */
static bool prepare(const tg_tensor *x, int64_t rows, resized *made, tg_error *error)
{
    *made = (resized){NULL, NULL, NULL};
    if (!tg_rows_check_leaf("resize_rows", x, error) || !check_resize(x, rows, error)) {
        return false;
    }
    if (rows == x->shape[0]) {
        return true;
    }
    tg_shape shape = tg_shape_of(x);
    shape.size[0] = rows;
    size_t bytes;
    if (!tg_shape_bytes("resize_rows", (tg_dtype)x->dtype, &shape, &bytes, error)) {
        return false;
    }
    const tg_gradient *gradient = x->gradient;
    if (!copy_property(x, gradient ? gradient->frozen : NULL, 1, rows, &made->frozen) ||
        !copy_property(x, gradient ? gradient->updates : NULL, sizeof *gradient->updates, rows, &made->updates) ||
        !(made->storage = tg_storage_new(NULL, bytes))) {
        abandon(made);
        return tg_error_set(error, TG_ERROR_MEMORY, "resize_rows: out of memory for %lld rows", (long long)rows);
    }
    size_t kept = kept_bytes(x, rows, bytes / (size_t)rows);
    char *values = tg_storage_values(made->storage);
    memcpy(values, tg_values(x), kept);
    memset(values + kept, 0, bytes - kept);
    return true;
}

static void commit(tg_tensor *x, int64_t rows, const resized *made)
{
    if (!made->storage) {
        return;
    }
    made->storage->born = tg_storage_version(x) + 1;
    atomic_store_explicit(&made->storage->version, made->storage->born, memory_order_relaxed);
    tg_storage_drop(NULL, x->storage);
    x->storage = made->storage;
    x->offset = 0;
    x->shape[0] = rows;
    x->count = tg_shape_count(tg_shape_of(x));
    if (x->gradient) {
        tg_gradient_release_buffers(x);
        tg_free(x->gradient->frozen);
        tg_free(x->gradient->updates);
        x->gradient->frozen = made->frozen;
        x->gradient->updates = made->updates;
    }
}

bool tg_resize_tables(tg_tensor *const *tables, int count, int64_t rows, tg_error *error)
{
    resized made[TG_MAX_TABLES];
    for (int i = 0; i < count; i++) {
        if (!prepare(tables[i], rows, &made[i], error)) {
            while (i-- > 0) {
                abandon(&made[i]);
            }
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        commit(tables[i], rows, &made[i]);
    }
    return true;
}

bool tg_resize_rows(tg_tensor *x, int64_t rows, tg_error *error)
{
    return tg_resize_tables(&x, 1, rows, error);
}
