/* gradient: the gradient of a leaf (gradient.h).
 *
 * A gradient by rows is sparse: `ids` lists the rows in the order of their first use, `values` holds their gradients
 * one after the other, and slot[id] is the index of row `id` in both, or -1. The slots take four bytes per row of the
 * table and are initialized once. All other memory and time is proportional to the number of rows that the batch used:
 * a step never visits the whole table. Invariant: slot[ids[i]] == i for i < count, and every other slot is -1.
 *
 * Buffers are kept when a gradient is zeroed, so that the next step allocates nothing.
 */
#include "tensor/gradient.h"

#include <string.h>

#include "base/alloc.h"
#include "tensor/getter.h"
#include "tensor/strided.h"

static int64_t width_of(const tg_tensor *leaf)
{
    return leaf->rank == 2 ? leaf->shape[1] : 0;
}

static bool reserve(tg_tensor *x)
{
    if (!x->gradient) {
        x->gradient = tg_alloc_zeroed(1, sizeof *x->gradient);
    }
    return x->gradient != NULL;
}

static bool reserve_dense(tg_tensor *x)
{
    if (x->gradient && x->gradient->dense) {
        return true;
    }
    tg_shape shape = tg_shape_of(x);
    tg_tensor *dense = tg_tensor_make(NULL, tg_dtype_of(x), &shape);
    if (!dense || !reserve(x)) {
        tg_release(dense);
        return false;
    }
    dense->is_gradient = true;
    x->gradient->dense = dense;
    return true;
}

/* Reserves `more` rows in addition to those that exist or are planned. */
static bool reserve_rows(tg_tensor *leaf, int64_t more)
{
    if (!reserve(leaf)) {
        return false;
    }
    tg_gradient *gradient = leaf->gradient;
    int64_t rows = leaf->shape[0];
    if (!gradient->slot && rows > 0) {
        gradient->slot = tg_alloc((uint64_t)rows, sizeof *gradient->slot);
        if (!gradient->slot) {
            return false;
        }
        memset(gradient->slot, -1, (size_t)rows * sizeof *gradient->slot);
    }
    int64_t needed = gradient->count + gradient->planned_rows;
    needed = more > rows - needed ? rows : needed + more;
    if (needed > gradient->capacity) {
        int64_t larger = needed > rows - needed / 2 ? rows : needed + needed / 2;
        size_t size = tg_size_of(leaf->dtype) * (size_t)width_of(leaf);
        int32_t *ids = tg_alloc((uint64_t)larger, sizeof *ids);
        void *values = tg_alloc((uint64_t)larger, size ? size : 1);
        if (!ids || !values) {
            tg_free(ids);
            tg_free(values);
            return false;
        }
        if (gradient->count > 0) {
            memcpy(ids, gradient->ids, (size_t)gradient->count * sizeof *ids);
            memcpy(values, gradient->values, (size_t)gradient->count * size);
        }
        tg_free(gradient->ids);
        tg_free(gradient->values);
        gradient->ids = ids;
        gradient->values = values;
        gradient->capacity = larger;
    }
    return true;
}

bool tg_gradient_reserve(tg_tensor *x, tg_grad_kind kind, int64_t rows)
{
    return kind == TG_GRAD_ROWS ? reserve_rows(x, rows) : reserve_dense(x);
}

/* ---- the plan of a backward ---- */

void tg_gradient_end_plan(tg_tensor *x)
{
    if (x->gradient) {
        x->gradient->planned_rows = 0;
    }
}

void tg_gradient_abandon_plan(tg_tensor *x)
{
    tg_gradient_end_plan(x);
    if (x->gradient && x->gradient->plans_write) {
        x->gradient->plans_write = false;
        atomic_fetch_sub_explicit(&x->gradient->dense->storage->version, 1, memory_order_relaxed);
    }
}

/* ---- from one kind to the next ---- */

static void clear_rows(tg_gradient *gradient)
{
    for (int64_t i = 0; i < gradient->count; i++) {
        gradient->slot[gradient->ids[i]] = -1;
    }
    gradient->count = 0;
}

static void write_rows_to(const tg_tensor *leaf, char *dense)
{
    const tg_gradient *gradient = leaf->gradient;
    size_t bytes = (size_t)width_of(leaf) * tg_size_of(leaf->dtype);
    for (int64_t i = 0; i < gradient->count; i++) {
        memcpy(dense + (size_t)gradient->ids[i] * bytes, (const char *)gradient->values + (size_t)i * bytes, bytes);
    }
}

bool tg_gradient_become_dense(tg_tensor *x, bool may_overwrite)
{
    tg_gradient *gradient = x->gradient;
    bool is_uninitialized = gradient->kind == TG_GRAD_NONE && may_overwrite;
    if (!is_uninitialized) {
        char *dense = tg_values(gradient->dense);
        tg_zero_values(dense, x->count, tg_size_of(x->dtype));
        write_rows_to(x, dense);
        clear_rows(gradient);
    }
    gradient->kind = TG_GRAD_DENSE;
    return is_uninitialized;
}

int32_t tg_gradient_rows(tg_tensor *leaf, const int32_t *ids, int64_t count, int32_t *slots, bool with_zeros)
{
    tg_gradient *gradient = leaf->gradient;
    size_t size = tg_size_of(leaf->dtype);
    int64_t width = width_of(leaf), before = gradient->count;
    for (int64_t i = 0; i < count; i++) {
        int32_t *slot = &gradient->slot[ids[i]];
        if (*slot < 0) {
            *slot = (int32_t)gradient->count;
            gradient->ids[gradient->count++] = ids[i];
        }
        slots[i] = *slot;
    }
    if (with_zeros && gradient->count > before) { /* the new rows are the last ones */
        tg_zero_values((char *)gradient->values + (size_t)(before * width) * size, (gradient->count - before) * width,
                       size);
    }
    gradient->kind = TG_GRAD_ROWS;
    return (int32_t)before;
}

/* ---- the end ---- */

void tg_gradient_release(tg_tensor *x)
{
    tg_gradient *gradient = x->gradient;
    if (gradient) {
        tg_release(gradient->dense);
        tg_free(gradient->ids);
        tg_free(gradient->values);
        tg_free(gradient->slot);
        *gradient = (tg_gradient){.kind = TG_GRAD_NONE};
    }
}

void tg_gradient_free(tg_tensor *x)
{
    if (x->gradient) {
        tg_gradient_release(x);
        tg_free(x->gradient);
        x->gradient = NULL;
    }
}

/* ---- public ---- */

bool tg_tensor_set_requires_grad(tg_tensor *x, bool requires_grad, tg_error *error)
{
    static const char call[] = "tensor_set_requires_grad";
    if (!tg_tensor_check_handle(call, "tensor", x, error)) {
        return false;
    }
    if (x->node >= 0) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the tensor is the result of a recorded op; it must be a leaf",
                            call);
    }
    if (requires_grad && !tg_dtype_is_float(x->dtype)) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: the tensor is %s; it must be f32 or f64", call,
                            tg_dtype_name(tg_dtype_of(x)));
    }
    if (!requires_grad && x->last_use > 0) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: a backward in progress adds to the gradient of the tensor",
                            call);
    }
    x->requires_grad = requires_grad;
    if (!requires_grad) {
        tg_gradient_release(x);
    }
    return true;
}

bool tg_tensor_requires_grad(const tg_tensor *x)
{
    return tg_getter_has("tensor_requires_grad", x) && x->requires_grad;
}

tg_grad_kind tg_tensor_grad_kind(const tg_tensor *x)
{
    return tg_getter_has("tensor_grad_kind", x) && x->gradient ? x->gradient->kind : TG_GRAD_NONE;
}

tg_tensor *tg_tensor_grad(const tg_tensor *x)
{
    return tg_tensor_grad_kind(x) == TG_GRAD_DENSE ? x->gradient->dense : NULL;
}

tg_grad_rows tg_tensor_grad_rows(const tg_tensor *x)
{
    tg_grad_rows rows = {0, 0, NULL, NULL};
    if (tg_tensor_grad_kind(x) == TG_GRAD_ROWS) {
        rows.count = x->gradient->count;
        rows.width = width_of(x);
        rows.ids = x->gradient->ids;
        rows.values = x->gradient->values;
    }
    return rows;
}

tg_tensor *tg_tensor_new_dense_grad(const tg_tensor *x, tg_error *error)
{
    if (!tg_tensor_check_handle("tensor_new_dense_grad", "tensor", x, error)) {
        return NULL;
    }
    tg_grad_kind kind = tg_tensor_grad_kind(x);
    if (kind == TG_GRAD_DENSE) {
        return tg_tensor_new_copy(x->gradient->dense, error);
    }
    tg_tensor *dense = tg_tensor_new(tg_dtype_of(x), tg_shape_of(x), error);
    if (dense && kind == TG_GRAD_ROWS) {
        write_rows_to(x, tg_values(dense));
    }
    return dense;
}

void tg_tensor_zero_grad(tg_tensor *x)
{
    if (tg_getter_has("tensor_zero_grad", x) && x->gradient) {
        clear_rows(x->gradient);
        x->gradient->kind = TG_GRAD_NONE;
    }
}
