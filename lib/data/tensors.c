/* tensors: loaders of the rows of tensors that share axis 0. */
#include <string.h>

#include "base/alloc.h"
#include "data/loader.h"
#include "tensor/tensor.h"

typedef struct data_set {
    int count;
    tg_tensor **tensors; /* contiguous, (size,..) */
    int64_t size;
    int64_t *rows; /* a copy of config.rows, or NULL */
} data_set;

/* The tensors are the caller's, who may have resized one, and its values may be guarded. */
static bool check(const void *source, tg_error *error)
{
    static const char call[] = "loader_next";
    const data_set *d = source;
    for (int i = 0; i < d->count; i++) {
        const tg_tensor *x = d->tensors[i];
        if (!tg_tensor_check(call, "tensor of the loader", x, error)) {
            return false;
        }
        if (x->shape[0] != d->size) {
            return tg_error_set(error, TG_ERROR_STATE,
                                "%s: tensor %d was resized to %lld rows; it had %lld when the loader was made", call, i,
                                (long long)x->shape[0], (long long)d->size);
        }
    }
    return true;
}

static tg_tensor *new_tensor(const void *source, int i, int64_t count, int64_t columns)
{
    (void)columns;
    const tg_tensor *x = ((const data_set *)source)->tensors[i];
    tg_shape shape = tg_shape_of(x);
    shape.size[0] = count;
    return tg_tensor_new(tg_dtype_of(x), shape, NULL);
}

static bool fill(const void *source, const int64_t *order, int64_t first, tg_tensor *const *batch, tg_error *error)
{
    (void)error;
    const data_set *d = source;
    int64_t count = batch[0]->shape[0];
    for (int k = 0; k < d->count; k++) {
        size_t bytes = tg_bytes_of(batch[k]) / (size_t)count;
        const char *from = tg_values(d->tensors[k]);
        char *to = tg_tensor_data_mut(batch[k]);
        for (int64_t i = 0; i < count; i++) {
            int64_t row = tg_loader_item(order, first + i);
            row = d->rows ? d->rows[row] : row;
            memcpy(to + (size_t)i * bytes, from + (size_t)row * bytes, bytes);
        }
    }
    return true;
}

static void free_source(void *source)
{
    data_set *d = source;
    for (int i = 0; d->tensors && i < d->count; i++) {
        tg_release(d->tensors[i]);
    }
    tg_free(d->tensors);
    tg_free(d->rows);
    tg_free(d);
}

static const tg_loader_kind kind = {
    .items = "rows",
    .options = TG_LOADER_TENSORS,
    .check = check,
    .new_tensor = new_tensor,
    .fill = fill,
    .free = free_source,
};

/* ---- constructor ---- */

static bool check_tensors(tg_loader *l, tg_tensor *const *tensors, int count)
{
    if (count < 1) {
        return tg_error_set(l->run->error, TG_ERROR_VALUE, "%s: %d tensors; at least 1 is needed", l->call, count);
    }
    for (int i = 0; i < count; i++) {
        if (!tg_tensor_check(l->call, "tensor in the array", tensors[i], l->run->error)) {
            return false;
        }
        if (tensors[i]->rank == 0 || tensors[i]->shape[0] != tensors[0]->shape[0]) {
            return tg_error_set(l->run->error, TG_ERROR_SHAPE,
                                "%s: tensor %d has shape %s, and tensor 0 %lld rows; the sizes of axis 0 must be equal",
                                l->call, i, tg_shape_text_of(tensors[i]).text,
                                (long long)tg_tensor_size(tensors[0], 0));
        }
    }
    return tensors[0]->shape[0] > 0 ||
           tg_error_set(l->run->error, TG_ERROR_SHAPE, "%s: the tensors have no rows", l->call);
}

static bool check_rows(tg_loader *l, int64_t size)
{
    const tg_loader_config *c = &l->config;
    if (!c->rows) {
        return c->row_count == 0 || tg_error_set(l->run->error, TG_ERROR_VALUE,
                                                 "%s: row_count is %lld, and rows is NULL; set both, or none of them",
                                                 l->call, (long long)c->row_count);
    }
    if (c->row_count < 1) {
        return tg_error_set(l->run->error, TG_ERROR_VALUE,
                            "%s: rows is set, and row_count is %lld; it must be set to at least 1", l->call,
                            (long long)c->row_count);
    }
    for (int64_t i = 0; i < c->row_count; i++) {
        if (c->rows[i] < 0 || c->rows[i] >= size) {
            return tg_error_set(l->run->error, TG_ERROR_RANGE, "%s: row %lld at [%lld] is outside [0,%lld)", l->call,
                                (long long)c->rows[i], (long long)i, (long long)size);
        }
    }
    return true;
}

static bool open_source(tg_loader *l, tg_tensor *const *tensors, int count)
{
    const tg_loader_config *c = &l->config;
    data_set *d = l->source = tg_alloc_zeroed(1, sizeof *d);
    bool is_ready = d && (d->tensors = tg_alloc_zeroed((size_t)count, sizeof *d->tensors)) &&
                    (!c->rows || (d->rows = tg_alloc((uint64_t)c->row_count, sizeof *d->rows)));
    for (int i = 0; is_ready && i < count; i++) {
        d->tensors[i] = tensors[i]->contiguous ? tg_retain(tensors[i]) : tg_tensor_new_copy(tensors[i], NULL);
        d->count += d->tensors[i] != NULL;
        is_ready = d->tensors[i] != NULL;
    }
    if (!is_ready) {
        return tg_error_set(l->run->error, TG_ERROR_MEMORY, "%s: out of memory for %d tensors", l->call, count);
    }
    if (d->rows) {
        memcpy(d->rows, c->rows, (size_t)c->row_count * sizeof *d->rows);
    }
    d->size = tensors[0]->shape[0];
    return true;
}

tg_loader *tg_loader_new_from_tensors(tg_run *run, tg_tensor *const *tensors, int count, const tg_loader_config *config)
{
    tg_loader *l = tg_loader_make(run, "loader_new_from_tensors", &kind, tensors ? NULL : "array of tensors", config);
    if (tg_loader_is_begun(l) && check_tensors(l, tensors, count) && check_rows(l, tensors[0]->shape[0]) &&
        open_source(l, tensors, count)) {
        tg_loader_begin(l, l->config.rows ? l->config.row_count : tensors[0]->shape[0], count);
        l->config.rows = NULL; /* the caller's array is not used any more */
    }
    return l;
}
