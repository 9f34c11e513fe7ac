/* tensor: making, sharing and looking at tensors.
 *
 * Invariants: the strides of an axis of size 1 mean nothing; `contiguous` is computed once, when a tensor is made,
 * since strides never change afterwards, and of a shape only the rows of a contiguous tensor (tg_resize_rows); a
 * reference count of one means that the holder is alone, so that the last release needs no atomic subtraction.
 */
#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

const char *tg_dtype_name(tg_dtype dtype)
{
    static const char *const names[] = {"f32", "f64", "i32", "u8"};
    return (unsigned)dtype < 4 ? names[dtype] : "unknown dtype";
}

size_t tg_dtype_size(tg_dtype dtype)
{
    static const uint8_t sizes[] = {sizeof(float), sizeof(double), sizeof(int32_t), sizeof(uint8_t)};
    return (unsigned)dtype < 4 ? sizes[dtype] : 0;
}

/* ---- storage ---- */

tg_storage *tg_storage_new(tg_pool *pool, size_t bytes)
{
    tg_storage *storage = tg_pool_take(pool, TG_STORAGE_HEAD + bytes);
    if (storage) {
        atomic_init(&storage->references, 1);
        atomic_init(&storage->version, 0);
        storage->born = 0;
    }
    return storage;
}

/* True when the caller held the last reference. */
static bool last_reference(atomic_int *references)
{
    return atomic_load_explicit(references, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

void tg_storage_drop(tg_pool *pool, tg_storage *storage)
{
    if (storage && last_reference(&storage->references)) {
        tg_pool_give(pool, storage);
    }
}

/* ---- making ---- */

static bool has_contiguous_strides(const tg_tensor *x)
{
    int64_t expected = 1;
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        if (x->shape[axis] != 1 && x->strides[axis] != expected) {
            return x->count == 0;
        }
        expected *= x->shape[axis];
    }
    return true;
}

/* A tensor without shape and storage. */
static tg_tensor *make_bare(tg_pool *pool, tg_dtype dtype, int rank)
{
    tg_tensor *x = tg_pool_take(pool, sizeof *x);
    if (x) {
        atomic_init(&x->references, 1);
        x->dtype = (uint8_t)dtype;
        x->rank = (uint8_t)rank;
        x->requires_grad = false;
        x->adjoint_fresh = false;
        x->node = -1;
        x->offset = 0;
        x->tape = NULL;
        x->gradient = NULL;
        x->adjoint = NULL;
    }
    return x;
}

/* A tensor without storage and strides. */
static tg_tensor *make_head(tg_pool *pool, tg_dtype dtype, const tg_shape *shape)
{
    tg_tensor *x = make_bare(pool, dtype, shape->rank);
    int64_t count = 1;
    for (int axis = 0; x && axis < shape->rank; axis++) {
        x->shape[axis] = shape->size[axis];
        count *= shape->size[axis];
    }
    if (x) {
        x->count = count;
    }
    return x;
}

/* Contiguous storage for x; or the end of x. */
static tg_tensor *give_storage(tg_pool *pool, tg_tensor *x)
{
    x->contiguous = true;
    x->storage = tg_storage_new(pool, tg_bytes_of(x));
    if (!x->storage) {
        tg_pool_give(pool, x);
        return NULL;
    }
    return x;
}

tg_tensor *tg_tensor_make(tg_pool *pool, tg_dtype dtype, const tg_shape *shape)
{
    tg_tensor *x = make_head(pool, dtype, shape);
    if (!x) {
        return NULL;
    }
    tg_contiguous_strides(shape, x->strides);
    return give_storage(pool, x);
}

tg_tensor *tg_tensor_make_like(tg_pool *pool, tg_dtype dtype, const tg_tensor *like)
{
    if (!like->contiguous) {
        tg_shape shape = tg_shape_of(like);
        return tg_tensor_make(pool, dtype, &shape);
    }
    tg_tensor *x = make_bare(pool, dtype, like->rank);
    if (!x) {
        return NULL;
    }
    x->count = like->count;
    if (like->rank <= 4) { /* a few moves, and a cache line less than all eight */
        memcpy(x->shape, like->shape, 4 * sizeof *x->shape);
        memcpy(x->strides, like->strides, 4 * sizeof *x->strides);
    } else {
        memcpy(x->shape, like->shape, sizeof x->shape);
        memcpy(x->strides, like->strides, sizeof x->strides);
    }
    return give_storage(pool, x);
}

tg_tensor *tg_tensor_make_view(tg_pool *pool, tg_tensor *base, const tg_shape *shape, const int64_t *strides,
                               int64_t offset)
{
    tg_tensor *x = make_head(pool, (tg_dtype)base->dtype, shape);
    if (!x) {
        return NULL;
    }
    for (int axis = 0; axis < shape->rank; axis++) {
        x->strides[axis] = strides[axis];
    }
    x->contiguous = has_contiguous_strides(x);
    x->offset = base->offset + offset;
    x->storage = base->storage;
    atomic_fetch_add_explicit(&x->storage->references, 1, memory_order_relaxed);
    return x;
}

void tg_tensor_drop(tg_pool *pool, tg_tensor *x)
{
    if (x && last_reference(&x->references)) {
        if (x->gradient) {
            tg_gradient_free(x);
        }
        tg_storage_drop(pool, x->storage);
        tg_pool_give(pool, x);
    }
}

tg_tensor *tg_retain(tg_tensor *x)
{
    if (x) {
        atomic_fetch_add_explicit(&x->references, 1, memory_order_relaxed);
    }
    return x;
}

void tg_release(tg_tensor *x)
{
    tg_tensor_drop(NULL, x);
}

int tg_tensor_references(const tg_tensor *x)
{
    return atomic_load_explicit(&x->references, memory_order_acquire);
}

static tg_tensor *new_uninitialized(const char *name, tg_dtype dtype, tg_shape shape, tg_error *error)
{
    size_t bytes;
    if (tg_dtype_size(dtype) == 0) {
        tg_error_set(error, TG_ERROR_DTYPE, "%s: %d is not a dtype", name, (int)dtype);
        return NULL;
    }
    if (!tg_shape_bytes(name, dtype, &shape, &bytes, error)) {
        return NULL;
    }
    tg_tensor *x = tg_tensor_make(NULL, dtype, &shape);
    if (!x) {
        char text[TG_SHAPE_TEXT];
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %zu bytes of shape %s", name, bytes,
                     tg_shape_format(shape, text));
    }
    return x;
}

static tg_tensor *refuse_null(const char *name, tg_error *error)
{
    tg_error_set(error, TG_ERROR_STATE, "%s: the tensor is NULL", name);
    return NULL;
}

tg_tensor *tg_tensor_new(tg_dtype dtype, tg_shape shape, tg_error *error)
{
    tg_tensor *x = new_uninitialized("tensor_new", dtype, shape, error);
    if (x) {
        memset(tg_values(x), 0, (size_t)x->count * tg_dtype_size(dtype));
    }
    return x;
}

tg_tensor *tg_tensor_new_full(tg_dtype dtype, tg_shape shape, double value, tg_error *error)
{
    tg_tensor *x = new_uninitialized("tensor_new_full", dtype, shape, error);
    if (x) {
        tg_fill(x, value, NULL);
    }
    return x;
}

tg_tensor *tg_tensor_new_from(tg_dtype dtype, tg_shape shape, const void *values, tg_error *error)
{
    tg_tensor *x = new_uninitialized("tensor_new_from", dtype, shape, error);
    if (x && x->count > 0) {
        if (!values) {
            tg_release(x);
            tg_error_set(error, TG_ERROR_STATE, "tensor_new_from: the values are NULL");
            return NULL;
        }
        memcpy(tg_values(x), values, (size_t)x->count * tg_dtype_size(dtype));
    }
    return x;
}

tg_tensor *tg_tensor_new_arange(tg_dtype dtype, double start, double end, double step, tg_error *error)
{
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 || (end - start) / step < 0) {
        tg_error_set(
            error, TG_ERROR_VALUE,
            "tensor_new_arange: from %g to %g by steps of %g; allowed are finite numbers and a step towards the "
            "end",
            start, end, step);
        return NULL;
    }
    double steps = ceil((end - start) / step);
    if (steps > (double)(INT64_MAX / 16)) {
        tg_error_set(error, TG_ERROR_SHAPE, "tensor_new_arange: %g values do not fit into memory", steps);
        return NULL;
    }
    tg_tensor *x = new_uninitialized("tensor_new_arange", dtype, tg_shape_make(1, (int64_t[]){(int64_t)steps}), error);
    for (int64_t i = 0; x && i < x->count; i++) {
        double value = start + (double)i * step;
        tg_convert((char *)tg_values(x) + (size_t)i * tg_dtype_size(dtype), dtype, &value, TG_F64, 1);
    }
    return x;
}

tg_tensor *tg_tensor_new_copy(const tg_tensor *x, tg_error *error)
{
    if (!x) {
        return refuse_null("tensor_new_copy", error);
    }
    tg_tensor *copy = new_uninitialized("tensor_new_copy", (tg_dtype)x->dtype, tg_shape_of(x), error);
    if (copy) {
        tg_copy_to_contiguous(x, tg_values(copy));
    }
    return copy;
}

tg_tensor *tg_tensor_new_cast(const tg_tensor *x, tg_dtype dtype, tg_error *error)
{
    tg_tensor *copy = tg_tensor_new_copy(x, error);
    tg_tensor *cast = copy ? new_uninitialized("tensor_new_cast", dtype, tg_shape_of(x), error) : NULL;
    if (cast) {
        tg_convert(tg_values(cast), dtype, tg_values(copy), (tg_dtype)x->dtype, x->count);
    }
    tg_release(copy);
    return cast;
}

tg_tensor *tg_tensor_new_detached(tg_tensor *x, tg_error *error)
{
    if (!x) {
        return refuse_null("tensor_new_detached", error);
    }
    tg_shape shape = tg_shape_of(x);
    tg_tensor *view = tg_tensor_make_view(NULL, x, &shape, x->strides, 0);
    if (!view) {
        tg_error_set(error, TG_ERROR_MEMORY, "tensor_new_detached: out of memory");
    }
    return view;
}

/* ---- looking ---- */

tg_dtype tg_dtype_of(const tg_tensor *x)
{
    return (tg_dtype)x->dtype;
}

tg_shape tg_shape_of(const tg_tensor *x)
{
    return tg_shape_make(x->rank, x->shape);
}

int tg_rank(const tg_tensor *x)
{
    return x->rank;
}

int64_t tg_size(const tg_tensor *x, int axis)
{
    return tg_axis_normalize(x->rank, &axis) ? x->shape[axis] : -1;
}

int64_t tg_stride(const tg_tensor *x, int axis)
{
    return tg_axis_normalize(x->rank, &axis) ? x->strides[axis] : 0;
}

int64_t tg_count(const tg_tensor *x)
{
    return x->count;
}

bool tg_is_contiguous(const tg_tensor *x)
{
    return x->contiguous;
}

const void *tg_data(const tg_tensor *x)
{
    return tg_values(x);
}

void *tg_data_mut(tg_tensor *x)
{
    tg_touch(x);
    return tg_values(x);
}

uint64_t tg_version_of(const tg_tensor *x)
{
    return tg_storage_version(x);
}

double tg_value_at(const tg_tensor *x, int64_t index)
{
    if (index < 0 || index >= x->count) {
        return (double)NAN;
    }
    int64_t place = 0;
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        place += index % x->shape[axis] * x->strides[axis];
        index /= x->shape[axis];
    }
    double value;
    size_t size = tg_dtype_size((tg_dtype)x->dtype);
    tg_convert(&value, TG_F64, (const char *)tg_values(x) + place * (int64_t)size, (tg_dtype)x->dtype, 1);
    return value;
}
