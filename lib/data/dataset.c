/* dataset: batches of rows of tensors, in the order of torch's DataLoader, and random splits.
 *
 * The loader reuses its batches. A tensor of a batch is filled again when nobody else holds it; while a record of a
 * tape holds it, another one is used.
 */
#include <tapegrad/dataset.h>

#include <string.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/error.h"
#include "data/pass.h"
#include "tensor/tensor.h"

/* One tensor of the dataset, and the tensors of its batches. */
typedef struct column {
    tg_tensor *values; /* contiguous, (rows,..) */
    tg_tensor **kept;
    size_t kept_count, kept_capacity;
} column;

struct tg_dataset_loader {
    tg_error error;
    tg_dataset_loader_config config;
    tg_rng *rng, *sampler;
    column *columns;
    int column_count;
    int64_t *rows;         /* a copy of config.rows, or NULL */
    int64_t size;          /* of axis 0 of the tensors */
    int64_t count;         /* rows of the dataset: those of the tensors, or of config.rows */
    int64_t batches, next; /* of a pass; the index of the next batch */
    int64_t *order;        /* of the rows in this pass; NULL without shuffle */
};

static const char call[] = "dataset_loader_new";
static const char mark[] = "tg_dataset_loader_config_default";

tg_dataset_loader_config tg_dataset_loader_config_default(void)
{
    return (tg_dataset_loader_config){.mark = mark};
}

static bool check_tensors(tg_dataset_loader *l, tg_tensor *const *tensors, int count)
{
    if (count < 1) {
        return tg_error_set(&l->error, TG_ERROR_VALUE, "%s: %d tensors; at least 1 is needed", call, count);
    }
    for (int i = 0; i < count; i++) {
        char text[TG_SHAPE_TEXT];
        if (!tg_tensor_check(call, "tensor in the array", tensors[i], &l->error)) {
            return false;
        }
        if (tensors[i]->rank == 0 || tensors[i]->shape[0] != tensors[0]->shape[0]) {
            return tg_error_set(&l->error, TG_ERROR_SHAPE,
                                "%s: tensor %d has shape %s, and tensor 0 %lld rows; the sizes of axis 0 must be equal",
                                call, i, tg_shape_format(tg_shape_of(tensors[i]), text),
                                (long long)tg_tensor_size(tensors[0], 0));
        }
    }
    return true;
}

static bool check_config(tg_dataset_loader *l, int64_t rows)
{
    const tg_dataset_loader_config *c = &l->config;
    if (c->batch_size < 1) {
        return tg_error_set(&l->error, TG_ERROR_VALUE, "%s: batch_size %lld; it must be set to at least 1", call,
                            (long long)c->batch_size);
    }
    l->size = rows;
    l->count = c->rows ? c->row_count : rows;
    for (int64_t i = 0; c->rows && i < c->row_count; i++) {
        if (c->rows[i] < 0 || c->rows[i] >= rows) {
            return tg_error_set(&l->error, TG_ERROR_RANGE, "%s: row %lld at [%lld] is outside [0,%lld)", call,
                                (long long)c->rows[i], (long long)i, (long long)rows);
        }
    }
    l->batches = l->count < 1 ? 0 : l->count / c->batch_size + (!c->drop_last && l->count % c->batch_size != 0);
    return l->batches > 0 || tg_error_set(&l->error, TG_ERROR_SHAPE, "%s: %lld rows give no batch of %lld", call,
                                          (long long)l->count, (long long)c->batch_size);
}

static bool allocate(tg_dataset_loader *l, tg_tensor *const *tensors, int count)
{
    l->columns = tg_alloc_zeroed((size_t)count, sizeof *l->columns);
    l->rows = l->config.rows ? tg_alloc((size_t)l->count, sizeof *l->rows) : NULL;
    l->order = l->config.shuffle ? tg_alloc((size_t)l->count, sizeof *l->order) : NULL;
    l->sampler = l->config.shuffle ? tg_rng_new(0) : NULL;
    bool is_ready = l->columns && (!l->config.rows || l->rows) && (!l->config.shuffle || (l->order && l->sampler));
    for (; is_ready && l->column_count < count; l->column_count++) {
        tg_tensor *x = tensors[l->column_count];
        x = x->contiguous ? tg_retain(x) : tg_tensor_new_copy(x, NULL);
        l->columns[l->column_count].values = x;
        is_ready = x != NULL;
    }
    if (is_ready && l->rows) {
        memcpy(l->rows, l->config.rows, (size_t)l->count * sizeof *l->rows);
    }
    l->config.rows = NULL; /* the caller's array is not used any more */
    return is_ready ||
           tg_error_set(&l->error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", call, (long long)l->count);
}

tg_dataset_loader *tg_dataset_loader_new(tg_tensor *const *tensors, int count, tg_rng *rng,
                                         const tg_dataset_loader_config *given)
{
    tg_dataset_loader *l = tg_alloc_zeroed(1, sizeof *l);
    if (!l) {
        return NULL;
    }
    if (!tensors || !rng) {
        tg_error_set(&l->error, TG_ERROR_STATE, "%s: the %s is NULL", call, rng ? "array of tensors" : "generator");
        return l;
    }
    if (!tg_config_check(call, given, mark, &l->error)) {
        return l;
    }
    l->config = given ? *given : tg_dataset_loader_config_default();
    l->rng = rng;
    if (!check_tensors(l, tensors, count) || !check_config(l, tg_tensor_size(tensors[0], 0)) ||
        !allocate(l, tensors, count)) {
        l->batches = 0;
    }
    return l;
}

void tg_dataset_loader_free(tg_dataset_loader *l)
{
    for (int i = 0; l && i < l->column_count; i++) {
        for (size_t k = 0; k < l->columns[i].kept_count; k++) {
            tg_release(l->columns[i].kept[k]);
        }
        tg_free(l->columns[i].kept);
        tg_release(l->columns[i].values);
    }
    if (l) {
        tg_free(l->columns);
        tg_free(l->rows);
        tg_free(l->order);
        tg_rng_free(l->sampler);
        tg_free(l);
    }
}

/* Returns a tensor for this number of rows that nobody else holds. NULL with the error set. */
static tg_tensor *unused_tensor(tg_dataset_loader *l, column *c, int64_t rows)
{
    for (size_t i = 0; i < c->kept_count; i++) {
        if (tg_tensor_references(c->kept[i]) == 1 && tg_tensor_size(c->kept[i], 0) == rows) {
            return c->kept[i];
        }
    }
    tg_shape shape = tg_shape_of(c->values);
    shape.size[0] = rows;
    tg_tensor *added = tg_grow((void **)&c->kept, &c->kept_capacity, c->kept_count, c->kept_count + 1, sizeof *c->kept)
                           ? tg_tensor_new(tg_dtype_of(c->values), shape, NULL)
                           : NULL;
    if (!added) {
        tg_error_set(&l->error, TG_ERROR_MEMORY, "dataset_loader_next: out of memory for a batch");
        return NULL;
    }
    return c->kept[c->kept_count++] = added;
}

/* Checks that the tensors still have the values that the loader was made for: they are the caller's, who may have
 * resized one, and its values may be guarded. */
static bool check_columns(tg_dataset_loader *l)
{
    static const char next[] = "dataset_loader_next";
    for (int i = 0; i < l->column_count; i++) {
        const tg_tensor *x = l->columns[i].values;
        if (!tg_tensor_check(next, "tensor of the dataset", x, &l->error)) {
            return false;
        }
        if (x->shape[0] != l->size) {
            return tg_error_set(&l->error, TG_ERROR_STATE,
                                "%s: tensor %d was resized to %lld rows; it had %lld when the loader was made", next, i,
                                (long long)x->shape[0], (long long)l->size);
        }
    }
    return true;
}

/* Copies the rows of a batch that begins at `first`. */
static void fill(const tg_dataset_loader *l, const column *c, tg_tensor *batch, int64_t first)
{
    int64_t rows = batch->shape[0];
    size_t bytes = tg_bytes_of(batch) / (size_t)rows;
    char *to = tg_tensor_data_mut(batch);
    for (int64_t i = 0; i < rows; i++) {
        int64_t row = l->order ? l->order[first + i] : first + i;
        row = l->rows ? l->rows[row] : row;
        memcpy(to + (size_t)i * bytes, (const char *)tg_values(c->values) + (size_t)row * bytes, bytes);
    }
}

bool tg_dataset_loader_next(tg_dataset_loader *l, tg_tensor **batch)
{
    for (int i = 0; l && batch && i < l->column_count; i++) {
        batch[i] = NULL;
    }
    if (!l || l->error.code != TG_OK) {
        return false;
    }
    if (!batch) {
        return tg_error_set(&l->error, TG_ERROR_STATE, "dataset_loader_next: the batch is NULL");
    }
    if (l->next == l->batches) {
        l->next = 0;
        return false;
    }
    if (!check_columns(l)) {
        return false;
    }
    int64_t first = l->next * l->config.batch_size;
    int64_t rows = l->count - first < l->config.batch_size ? l->count - first : l->config.batch_size;
    for (int i = 0; i < l->column_count; i++) {
        tg_tensor *found = unused_tensor(l, &l->columns[i], rows);
        if (!found) {
            memset(batch, 0, (size_t)i * sizeof *batch);
            return false;
        }
        batch[i] = found;
    }
    if (l->next++ == 0) {
        tg_begin_pass(l->rng, l->sampler, l->order, l->count);
    }
    for (int i = 0; i < l->column_count; i++) {
        fill(l, &l->columns[i], batch[i], first);
    }
    return true;
}

const tg_error *tg_dataset_loader_error(const tg_dataset_loader *l)
{
    static const tg_error none = {TG_ERROR_MEMORY, "the loader is NULL: it could not be created"};
    return l ? &l->error : &none;
}

void tg_dataset_loader_clear_error(tg_dataset_loader *l)
{
    if (l) {
        tg_error_clear(&l->error);
    }
}

int64_t tg_dataset_loader_batches(const tg_dataset_loader *l)
{
    return l ? l->batches : 0;
}

bool tg_random_split(tg_rng *rng, const int64_t *lengths, int parts, int64_t *rows, tg_error *error)
{
    static const char split[] = "random_split";
    if (!rng || !lengths || !rows) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", split,
                            !rng       ? "generator"
                            : !lengths ? "array of lengths"
                                       : "array of rows");
    }
    if (parts < 1) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: %d parts; at least 1 is needed", split, parts);
    }
    int64_t count = 0;
    for (int i = 0; i < parts; i++) {
        if (lengths[i] < 0 || __builtin_add_overflow(count, lengths[i], &count)) {
            return tg_error_set(error, TG_ERROR_SHAPE, "%s: length %lld of part %d is negative or too large", split,
                                (long long)lengths[i], i);
        }
    }
    if (count < 1) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: the parts have no rows", split);
    }
    tg_rng_randperm(rng, rows, count);
    return true;
}
