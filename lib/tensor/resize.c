/* resize: a table with another number of rows, the same tensor over another storage.
 *
 * The new storage's first version is above all that the old one had: so backward sees by the number alone that a call
 * was recorded before (tg_storage.born). Everything is reserved before anything changes, for several tables at once.
 */
#include <tapegrad/rows.h>

#include <string.h>

#include "tensor/tensor.h"

bool tg_resize_check(const tg_tensor *x, int64_t rows, tg_error *error)
{
    if (!tg_rows_check_leaf("resize_rows", x, error)) {
        return false;
    }
    if (rows < 1 || (x->rank == 2 && rows > INT32_MAX)) {
        return tg_error_set(error, TG_ERROR_SHAPE, "resize_rows: %lld rows; a table has 1 to %d", (long long)rows,
                            INT32_MAX);
    }
    if (tg_gradient_kind_of(x) != TG_GRADIENT_NONE) {
        return tg_error_set(
            error, TG_ERROR_STATE,
            "resize_rows: the table has a gradient; tg_zero_grad drops it, after the step that uses it");
    }
    if (atomic_load_explicit(&x->storage->references, memory_order_acquire) > 1) {
        return tg_error_set(
            error, TG_ERROR_STATE,
            "resize_rows: another tensor shares the table's values: reset the tape that has views of it, "
            "release detached ones");
    }
    if (!x->contiguous) {
        return tg_error_set(error, TG_ERROR_STATE, "resize_rows: the table is not contiguous; resize a copy");
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
static bool prepare(tg_tensor *x, int64_t rows, resized *made, tg_error *error)
{
    *made = (resized){NULL, NULL, NULL};
    if (!tg_resize_check(x, rows, error)) {
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
    tg_row_facts *facts = tg_gradient_reserve(x) ? &x->gradient->rows : NULL;
    if (!facts || !copy_property(x, facts->frozen, 1, rows, &made->frozen) ||
        !copy_property(x, facts->updates, sizeof *facts->updates, rows, &made->updates) ||
        !tg_grow((void **)&facts->past, &facts->past_capacity, facts->past_count, facts->past_count + 1,
                 sizeof *facts->past) ||
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

/* Sizes that are not below the new one say nothing that it does not. Room was reserved. */
static void remember(tg_row_facts *facts, uint64_t born, int64_t rows)
{
    while (facts->past_count > 0 && facts->past[facts->past_count - 1].rows >= rows) {
        facts->past_count--;
    }
    facts->past[facts->past_count++] = (tg_past_size){born, rows};
}

int64_t tg_least_rows_since(const tg_tensor *x, uint64_t seen)
{
    const tg_row_facts *facts = x->gradient ? &x->gradient->rows : NULL;
    for (size_t i = 0; facts && i < facts->past_count; i++) {
        if (facts->past[i].born > seen) {
            return facts->past[i].rows;
        }
    }
    return x->shape[0];
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
    tg_shape shape = tg_shape_of(x);
    x->count = tg_shape_count(shape);
    tg_contiguous_strides(&shape, x->strides); /* what an axis of 1 had meant nothing */
    tg_gradient_release_buffers(x);
    tg_row_facts *facts = &x->gradient->rows;
    tg_free(facts->frozen);
    tg_free(facts->updates);
    facts->frozen = made->frozen;
    facts->updates = made->updates;
    remember(facts, made->storage->born, rows);
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
