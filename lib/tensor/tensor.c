/* tensor: constructors, reference counts and getters.
 *
 * Invariants. The stride of an axis of size 1 has no meaning. `contiguous` is computed once, when a tensor is created;
 * a resize does not change it, because only a contiguous tensor can be resized. A reference count of 1 means that no
 * other thread holds the tensor, so the last release needs no atomic subtraction.
 */
#include <math.h>
#include <string.h>

#include "tensor/getter.h"
#include "tensor/gradient.h"
#include "tensor/strided.h"

/* ---- dtypes ---- */

const char *tg_dtype_name(tg_dtype dtype)
{
    static const char *const names[] = {"f32", "f64", "i32", "u8", "bf16"};
    return (unsigned)dtype <= TG_BF16 ? names[dtype] : "unknown";
}

size_t tg_dtype_size(tg_dtype dtype)
{
    static const uint8_t sizes[] = {sizeof(float), sizeof(double), sizeof(int32_t), sizeof(uint8_t), sizeof(uint16_t)};
    return (unsigned)dtype <= TG_BF16 ? sizes[dtype] : 0;
}

/* ---- storage ---- */

void tg_storage_begin(tg_storage *storage)
{
    atomic_init(&storage->references, 1);
    atomic_init(&storage->version, 0);
    storage->first_version = 0;
    storage->guard = NULL;
    tg_poison(storage + 1, TG_STORAGE_HEAD - sizeof *storage); /* the last bytes before the values */
}

tg_storage *tg_storage_new(tg_pool *pool, size_t bytes)
{
    tg_storage *storage = tg_pool_take(pool, TG_STORAGE_HEAD + bytes);
    if (storage) {
        tg_storage_begin(storage);
    }
    return storage;
}

static tg_storage *storage_of_zeros(size_t bytes)
{
    tg_storage *storage = tg_block_new_zeroed(TG_STORAGE_HEAD + bytes);
    if (storage) {
        tg_storage_begin(storage);
    }
    return storage;
}

/* Removes a reference, unless it is the last one. Returns whether it is the last. */
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

/* ---- NULL and values that are not there ---- */

/* Returns whether a freed tensor was freed by its last owner, and not by its tape: its memory has no guard. */
static bool is_released(const tg_tensor *x)
{
    return x->is_freed && !x->freed_op;
}

bool tg_tensor_refuse(const char *call, const char *name, const tg_tensor *x, tg_error *error)
{
    if (is_released(x)) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s was freed", call, name ? name : "tensor");
    }
    const tg_value_guard *guard = x->storage->guard;
    return guard->refuse(guard, call, name, x, error);
}

/* The error is in the run of those who have set the guard, and they may clear it. */
static bool refuse_in_run(const char *call, const char *name, const tg_tensor *x)
{
    const tg_value_guard *guard = x->storage->guard;
    tg_error error = TG_NO_ERROR;
    if (guard->run && tg_run_is_clear(guard->run)) {
        tg_tensor_refuse(call, name, x, &error);
        tg_run_set_error_by(guard->run, &error, guard);
    }
    return false;
}

bool tg_tensor_refuse_getter(const char *call, const tg_tensor *x)
{
    return !is_released(x) && refuse_in_run(call, NULL, x);
}

bool tg_tensor_check_handle(const char *call, const char *name, const tg_tensor *x, tg_error *error)
{
    if (!x) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, name);
    }
    if (x->is_freed && !is_released(x)) {
        refuse_in_run(call, name, x); /* that of its tape, too */
    }
    return !x->is_freed || tg_tensor_refuse(call, name, x, error);
}

bool tg_tensor_check(const char *call, const char *name, const tg_tensor *x, tg_error *error)
{
    return tg_has_values(x) || (tg_tensor_check_handle(call, name, x, error) && tg_tensor_refuse(call, name, x, error));
}

bool tg_check_ids(const char *call, const tg_tensor *ids, int64_t bound, tg_error *error)
{
    const int32_t *id = tg_values(ids);
    for (int64_t i = 0; i < ids->count; i++) {
        if (id[i] < 0 || id[i] >= bound) {
            tg_shape shape = tg_shape_of(ids);
            char text[TG_SHAPE_TEXT];
            return tg_error_set(error, TG_ERROR_RANGE, "%s: id %d at %s is outside [0,%lld)", call, (int)id[i],
                                tg_index_format(&shape, i, text), (long long)bound);
        }
    }
    return true;
}

/* tg_tensor_check for a getter. */
static bool has_values(const char *call, const tg_tensor *x)
{
    return tg_has_values(x) || (x && tg_tensor_refuse_getter(call, x));
}

/* ---- constructors ---- */

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

/* Returns a tensor without storage and strides. */
static tg_tensor *make_head(tg_pool *pool, tg_dtype dtype, const tg_shape *shape)
{
    tg_tensor *x = tg_pool_take(pool, sizeof *x);
    if (!x) {
        return NULL;
    }
    atomic_init(&x->references, 1);
    x->dtype = (uint8_t)dtype;
    x->rank = (uint8_t)shape->rank;
    x->requires_grad = false;
    x->is_gradient = false;
    x->node = -1;
    x->last_use = 0;
    x->count = 1;
    x->offset = 0;
    x->owner = NULL;
    x->gradient = NULL;
    x->rows = NULL;
    x->adjoint = NULL;
    x->is_freed = false;
    x->freed_op = NULL;
    atomic_init(&x->holder, NULL);
    for (int axis = 0; axis < shape->rank; axis++) {
        x->shape[axis] = shape->size[axis];
        x->count *= shape->size[axis];
    }
    return x;
}

static tg_tensor *make(tg_pool *pool, tg_dtype dtype, const tg_shape *shape, bool zeroed)
{
    tg_tensor *x = make_head(pool, dtype, shape);
    if (!x) {
        return NULL;
    }
    tg_contiguous_strides(shape, x->strides);
    x->contiguous = true;
    x->storage = zeroed ? storage_of_zeros(tg_bytes_of(x)) : tg_storage_new(pool, tg_bytes_of(x));
    if (!x->storage) {
        tg_pool_give(pool, x);
        return NULL;
    }
    return x;
}

tg_tensor *tg_tensor_make(tg_pool *pool, tg_dtype dtype, const tg_shape *shape)
{
    return make(pool, dtype, shape, false);
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
    x->offset = base->offset + (x->count > 0 ? offset : 0); /* the offset of no value may be beyond the storage */
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
        if (x->rows) {
            tg_row_state_free(x);
        }
        tg_storage_drop(pool, x->storage);
        tg_pool_give(pool, x);
    }
}

tg_tensor *tg_retain(tg_tensor *x)
{
    if (!tg_getter_has("retain", x)) {
        return NULL;
    }
    atomic_fetch_add_explicit(&x->references, 1, memory_order_relaxed);
    return x;
}

void tg_release(tg_tensor *x)
{
    if (!tg_getter_has("release", x)) {
        return;
    }
    if (x->owner && tg_tensor_references(x) == 1) {
        tg_error_set(x->owner->run->error, TG_ERROR_STATE,
                     "release: this result of shape %s belongs to its tape, which frees it at the reset; release what "
                     "you have created or retained, once",
                     tg_shape_text_of(x).text);
        return;
    }
    tg_tensor_drop(NULL, x);
}

int tg_tensor_references(const tg_tensor *x)
{
    return atomic_load_explicit(&x->references, memory_order_acquire);
}

/* Returns a tensor whose values are zeros or uninitialized. */
static tg_tensor *new_tensor(const char *name, tg_dtype dtype, tg_shape shape, bool zeroed, tg_error *error)
{
    size_t bytes;
    if (tg_dtype_size(dtype) == 0) {
        tg_error_set(error, TG_ERROR_DTYPE, "%s: %d is not a dtype", name, (int)dtype);
        return NULL;
    }
    if (!tg_shape_bytes(name, dtype, &shape, &bytes, error)) {
        return NULL;
    }
    tg_tensor *x = make(NULL, dtype, &shape, zeroed);
    if (!x) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %zu bytes of shape %s", name, bytes,
                     tg_shape_text(shape).text);
    }
    return x;
}

tg_tensor *tg_tensor_new(tg_dtype dtype, tg_shape shape, tg_error *error)
{
    return new_tensor("tensor_new", dtype, shape, true, error);
}

tg_tensor *tg_tensor_new_full(tg_dtype dtype, tg_shape shape, double value, tg_error *error)
{
    tg_tensor *x = new_tensor("tensor_new_full", dtype, shape, false, error);
    if (x) {
        tg_tensor_fill(x, value, NULL);
    }
    return x;
}

tg_tensor *tg_tensor_new_from(tg_dtype dtype, tg_shape shape, const void *values, tg_error *error)
{
    tg_tensor *x = new_tensor("tensor_new_from", dtype, shape, false, error);
    if (x && x->count > 0) {
        if (!values) {
            tg_release(x);
            tg_error_set(error, TG_ERROR_STATE, "tensor_new_from: the values are NULL");
            return NULL;
        }
        tg_copy_values(tg_values(x), values, x->count, tg_dtype_size(dtype));
    }
    return x;
}

tg_tensor *tg_tensor_new_arange(tg_dtype dtype, double start, double end, double step, tg_error *error)
{
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 || (end - start) / step < 0) {
        tg_error_set(error, TG_ERROR_VALUE,
                     "tensor_new_arange: from %g to %g by steps of %g; all must be finite, and the step must lead "
                     "towards the end",
                     start, end, step);
        return NULL;
    }
    double steps = ceil((end - start) / step);
    if (steps > (double)(INT64_MAX / 16)) {
        tg_error_set(error, TG_ERROR_SHAPE, "tensor_new_arange: %g values do not fit into memory", steps);
        return NULL;
    }
    tg_tensor *x = new_tensor("tensor_new_arange", dtype, tg_shape_make(1, (int64_t[]){(int64_t)steps}), false, error);
    for (int64_t i = 0; x && i < x->count; i++) {
        double value = start + (double)i * step;
        tg_convert((char *)tg_values(x) + (size_t)i * tg_dtype_size(dtype), dtype, &value, TG_F64, 1);
    }
    return x;
}

tg_tensor *tg_tensor_new_copy(const tg_tensor *x, tg_error *error)
{
    if (!tg_tensor_check("tensor_new_copy", "tensor", x, error)) {
        return NULL;
    }
    tg_tensor *copy = new_tensor("tensor_new_copy", (tg_dtype)x->dtype, tg_shape_of(x), false, error);
    if (copy) {
        tg_copy_to_contiguous(x, tg_values(copy));
    }
    return copy;
}

tg_tensor *tg_tensor_new_cast(const tg_tensor *x, tg_dtype dtype, tg_error *error)
{
    if (!tg_tensor_check("tensor_new_cast", "tensor", x, error)) {
        return NULL;
    }
    tg_tensor *cast = new_tensor("tensor_new_cast", dtype, tg_shape_of(x), false, error);
    tg_tensor *copy = cast && !x->contiguous ? tg_tensor_new_copy(x, error) : NULL;
    if (!cast || (!copy && !x->contiguous)) {
        tg_release(cast);
        return NULL;
    }
    tg_convert(tg_values(cast), dtype, tg_values(copy ? copy : x), (tg_dtype)x->dtype, x->count);
    tg_release(copy);
    return cast;
}

/* ---- getters ---- */

tg_dtype tg_tensor_dtype(const tg_tensor *x)
{
    return tg_getter_has("tensor_dtype", x) ? (tg_dtype)x->dtype : TG_F32;
}

tg_shape tg_tensor_shape(const tg_tensor *x)
{
    return tg_getter_has("tensor_shape", x) ? tg_shape_of(x) : TG_SCALAR;
}

int tg_tensor_rank(const tg_tensor *x)
{
    return tg_getter_has("tensor_rank", x) ? x->rank : 0;
}

int64_t tg_tensor_size(const tg_tensor *x, int axis)
{
    return tg_getter_has("tensor_size", x) && tg_axis_normalize(x->rank, &axis) ? x->shape[axis] : 0;
}

int64_t tg_tensor_stride(const tg_tensor *x, int axis)
{
    return tg_getter_has("tensor_stride", x) && tg_axis_normalize(x->rank, &axis) ? x->strides[axis] : 0;
}

int64_t tg_tensor_count(const tg_tensor *x)
{
    return tg_getter_has("tensor_count", x) ? x->count : 0;
}

bool tg_tensor_is_contiguous(const tg_tensor *x)
{
    return tg_getter_has("tensor_is_contiguous", x) && x->contiguous;
}

const void *tg_tensor_data(const tg_tensor *x)
{
    return has_values("tensor_data", x) ? tg_values(x) : NULL;
}

void *tg_tensor_data_mut(tg_tensor *x)
{
    if (!has_values("tensor_data_mut", x)) {
        return NULL;
    }
    tg_touch(x);
    return tg_values(x);
}

double tg_value_at(const tg_tensor *x, int64_t index)
{
    int64_t offset = 0;
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        offset += index % x->shape[axis] * x->strides[axis];
        index /= x->shape[axis];
    }
    double value;
    tg_convert(&value, TG_F64, (const char *)tg_values(x) + offset * (int64_t)tg_size_of(x->dtype), (tg_dtype)x->dtype,
               1);
    return value;
}

double tg_tensor_value_at(const tg_tensor *x, int64_t index)
{
    bool is_inside = has_values("tensor_value_at", x) && index >= 0 && index < x->count;
    return is_inside ? tg_value_at(x, index) : (double)NAN;
}

double tg_tensor_item(const tg_tensor *x, tg_error *error)
{
    if (!tg_tensor_check("tensor_item", "tensor", x, error)) {
        return (double)NAN;
    }
    if (x->count != 1) {
        tg_error_set(error, TG_ERROR_SHAPE, "tensor_item: shape %s has %lld values; it must have exactly one",
                     tg_shape_text_of(x).text, (long long)x->count);
        return (double)NAN;
    }
    return tg_value_at(x, 0);
}
