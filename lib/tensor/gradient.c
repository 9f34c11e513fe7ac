/* gradient: what a leaf collects. None, rows, dense: the kind only rises until it is zeroed.
 *
 * Rows are compact: `ids` lists the rows in the order of their first touch, `values` holds their gradients one after
 * the other, and slot[id] says where row `id` is, or -1. The slots cost four bytes a row of the table, once;
 * everything else costs what the batch touched: a step over a table of a million rows never walks them. Invariant:
 * slot[ids[i]] == i for i < count, and every other slot is -1.
 *
 * Buffers stay when a gradient is zeroed, so that the next step allocates nothing.
 */
#include <string.h>

#include "tensor/tensor.h"

static int64_t width_of(const tg_tensor *leaf)
{
    return leaf->rank == 2 ? leaf->shape[1] : 0;
}

bool tg_gradient_reserve(tg_tensor *leaf)
{
    if (!leaf->gradient) {
        leaf->gradient = tg_alloc_zeroed(1, sizeof *leaf->gradient);
    }
    return leaf->gradient != NULL;
}

bool tg_gradient_reserve_dense(tg_tensor *leaf)
{
    if (!tg_gradient_reserve(leaf)) {
        return false;
    }
    if (!leaf->gradient->dense) {
        tg_shape shape = tg_shape_of(leaf);
        leaf->gradient->dense = tg_tensor_make(NULL, (tg_dtype)leaf->dtype, &shape);
    }
    return leaf->gradient->dense != NULL;
}

bool tg_gradient_reserve_rows(tg_tensor *leaf, int64_t more)
{
    if (!tg_gradient_reserve(leaf)) {
        return false;
    }
    tg_gradient *gradient = leaf->gradient;
    int64_t rows = leaf->shape[0];
    if (!gradient->slot && rows > 0) {
        gradient->slot = tg_alloc((size_t)rows, sizeof *gradient->slot);
        if (!gradient->slot) {
            return false;
        }
        memset(gradient->slot, -1, (size_t)rows * sizeof *gradient->slot);
    }
    int64_t needed = gradient->count + gradient->promised;
    needed = more > rows - needed ? rows : needed + more;
    if (needed > gradient->capacity) {
        int64_t larger = needed > rows - needed / 2 ? rows : needed + needed / 2;
        size_t size = tg_dtype_size((tg_dtype)leaf->dtype) * (size_t)width_of(leaf);
        int32_t *ids = tg_alloc((size_t)larger, sizeof *ids);
        void *values = tg_alloc((size_t)larger, size ? size : 1);
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
    gradient->promised += more;
    return true;
}

void tg_gradient_end_promises(tg_tensor *leaf)
{
    if (leaf->gradient) {
        leaf->gradient->promised = 0;
    }
}

/* Empties the list of rows; the dense gradient is not looked at. */
static void forget_rows(tg_gradient *gradient)
{
    for (int64_t i = 0; i < gradient->count; i++) {
        gradient->slot[gradient->ids[i]] = -1;
    }
    gradient->count = 0;
}

static void write_rows_to(const tg_tensor *leaf, char *dense)
{
    const tg_gradient *gradient = leaf->gradient;
    size_t bytes = (size_t)width_of(leaf) * tg_dtype_size((tg_dtype)leaf->dtype);
    for (int64_t i = 0; i < gradient->count; i++) {
        memcpy(dense + (size_t)gradient->ids[i] * bytes, (const char *)gradient->values + (size_t)i * bytes, bytes);
    }
}

void tg_gradient_make_dense(tg_tensor *leaf, bool *fresh)
{
    tg_gradient *gradient = leaf->gradient;
    bool overwritten_anyway = *fresh;
    *fresh = false;
    if (gradient->kind == TG_GRADIENT_DENSE) {
        return;
    }
    if (gradient->kind == TG_GRADIENT_NONE && overwritten_anyway) {
        *fresh = true;
    } else {
        char *dense = tg_values(gradient->dense);
        memset(dense, 0, (size_t)leaf->count * tg_dtype_size((tg_dtype)leaf->dtype));
        write_rows_to(leaf, dense);
        forget_rows(gradient);
    }
    gradient->kind = TG_GRADIENT_DENSE;
}

int64_t tg_gradient_row(tg_tensor *leaf, int32_t id)
{
    tg_gradient *gradient = leaf->gradient;
    int32_t place = gradient->slot[id];
    if (place < 0) {
        place = (int32_t)gradient->count++;
        size_t bytes = (size_t)width_of(leaf) * tg_dtype_size((tg_dtype)leaf->dtype);
        gradient->slot[id] = place;
        gradient->ids[place] = id;
        memset((char *)gradient->values + (size_t)place * bytes, 0, bytes);
    }
    gradient->kind = TG_GRADIENT_ROWS;
    return place;
}

void tg_gradient_release_buffers(tg_tensor *x)
{
    tg_gradient *gradient = x->gradient;
    if (gradient) {
        tg_release(gradient->dense);
        tg_free(gradient->ids);
        tg_free(gradient->values);
        tg_free(gradient->slot);
        *gradient = (tg_gradient){.rows = gradient->rows};
    }
}

void tg_gradient_free(tg_tensor *x)
{
    if (x->gradient) {
        tg_gradient_release_buffers(x);
        tg_free(x->gradient->rows.frozen);
        tg_free(x->gradient->rows.updates);
        tg_free(x->gradient->rows.past);
        tg_free(x->gradient);
        x->gradient = NULL;
    }
}

/* ---- public ---- */

bool tg_set_requires_grad(tg_tensor *x, bool requires_grad, tg_error *error)
{
    if (!x) {
        return tg_error_set(error, TG_ERROR_STATE, "set_requires_grad: the tensor is NULL");
    }
    if (x->node >= 0) {
        return tg_error_set(
            error, TG_ERROR_STATE,
            "set_requires_grad: the tensor is the result of a recorded op; only leaves can be switched");
    }
    if (requires_grad && !tg_dtype_is_float((tg_dtype)x->dtype)) {
        return tg_error_set(error, TG_ERROR_DTYPE,
                            "set_requires_grad: %s tensors have no gradient; allowed are f32 and f64",
                            tg_dtype_name((tg_dtype)x->dtype));
    }
    x->requires_grad = requires_grad;
    if (!requires_grad) {
        tg_gradient_release_buffers(x);
    }
    return true;
}

bool tg_requires_grad(const tg_tensor *x)
{
    return x->requires_grad;
}

tg_gradient_kind tg_gradient_kind_of(const tg_tensor *x)
{
    return x->gradient ? x->gradient->kind : TG_GRADIENT_NONE;
}

tg_tensor *tg_grad(const tg_tensor *x)
{
    return tg_gradient_kind_of(x) == TG_GRADIENT_DENSE ? x->gradient->dense : NULL;
}

tg_row_gradient tg_grad_rows(const tg_tensor *x)
{
    tg_row_gradient rows = {0, 0, NULL, NULL};
    if (tg_gradient_kind_of(x) == TG_GRADIENT_ROWS) {
        rows.count = x->gradient->count;
        rows.width = width_of(x);
        rows.ids = x->gradient->ids;
        rows.values = x->gradient->values;
    }
    return rows;
}

tg_tensor *tg_grad_new_dense(const tg_tensor *x, tg_error *error)
{
    if (!x) {
        tg_error_set(error, TG_ERROR_STATE, "grad_new_dense: the tensor is NULL");
        return NULL;
    }
    tg_gradient_kind kind = tg_gradient_kind_of(x);
    if (kind == TG_GRADIENT_DENSE) {
        return tg_tensor_new_copy(x->gradient->dense, error);
    }
    tg_tensor *dense = tg_tensor_new((tg_dtype)x->dtype, tg_shape_of(x), error);
    if (dense && kind == TG_GRADIENT_ROWS) {
        write_rows_to(x, tg_values(dense));
    }
    return dense;
}

void tg_zero_grad(tg_tensor *x)
{
    if (x && x->gradient) {
        forget_rows(x->gradient);
        x->gradient->kind = TG_GRADIENT_NONE;
    }
}
