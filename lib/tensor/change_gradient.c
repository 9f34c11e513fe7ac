/* change_gradient: changes of a leaf's gradient outside of a backward. gradient.c has the representation. */
#include <string.h>

#include "base/alloc.h"
#include "tensor/gradient.h"
#include "tensor/overlap.h"
#include "tensor/strided.h"

static bool check_leaf(const char *call, const tg_tensor *x, tg_error *error)
{
    if (!tg_tensor_check_handle(call, "tensor", x, error)) {
        return false;
    }
    return (x->node < 0 && x->requires_grad) ||
           tg_error_set(error, TG_ERROR_STATE, "%s: the tensor is %s; it must be a leaf that requires a gradient", call,
                        x->node < 0 ? "a leaf that does not require a gradient" : "the result of a recorded op");
}

static bool check_table(const char *call, const tg_tensor *x, tg_error *error)
{
    return check_leaf(call, x, error) &&
           (x->rank == 2 || tg_error_set(error, TG_ERROR_SHAPE,
                                         "%s: the tensor has rank %d; a gradient by rows needs rank 2", call, x->rank));
}

static bool report_memory(const char *call, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the gradient", call);
}

bool tg_tensor_reserve_grad(tg_tensor *x, tg_grad_kind kind, int64_t rows, tg_error *error)
{
    static const char call[] = "tensor_reserve_grad";
    bool by_rows = kind == TG_GRAD_ROWS;
    if (!(by_rows ? check_table(call, x, error) : check_leaf(call, x, error))) {
        return false;
    }
    if ((!by_rows && kind != TG_GRAD_DENSE) || (by_rows && rows < 0)) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: kind %d and %lld rows; it must be TG_GRAD_ROWS with 0 or more rows, or TG_GRAD_DENSE",
                            call, (int)kind, (long long)rows);
    }
    return tg_gradient_reserve(x, kind, rows) || report_memory(call, error);
}

bool tg_tensor_make_grad_dense(tg_tensor *x, tg_error *error)
{
    static const char call[] = "tensor_make_grad_dense";
    if (!check_leaf(call, x, error)) {
        return false;
    }
    if (!tg_gradient_reserve(x, TG_GRAD_DENSE, 0)) {
        return report_memory(call, error);
    }
    if (x->gradient->kind != TG_GRAD_DENSE) {
        tg_gradient_write(x, NULL);
    }
    return true;
}

/* Reserves memory for those rows that have no gradient yet. */
static bool reserve_new_rows(tg_tensor *x, const int32_t *ids, int64_t count)
{
    if (!tg_gradient_reserve(x, TG_GRAD_ROWS, 0)) {
        return false;
    }
    int32_t *slot = x->gradient->slot;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (slot[ids[i]] == -1) {
            slot[ids[i]] = -2; /* found, so that its repetitions do not count */
            found++;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        slot[ids[i]] = slot[ids[i]] == -2 ? -1 : slot[ids[i]];
    }
    return tg_gradient_reserve(x, TG_GRAD_ROWS, found);
}

/* Returns false when memory is exhausted. */
static bool add_rows(tg_tensor *x, const int32_t *ids, const void *values, int64_t count)
{
    bool dense = tg_tensor_grad_kind(x) == TG_GRAD_DENSE;
    if (!dense && !reserve_new_rows(x, ids, count)) {
        return false;
    }
    if (!dense) {
        tg_gradient_rows(x, NULL, 0, NULL, false); /* also without ids the gradient exists */
    }
    size_t bytes = (size_t)x->shape[1] * tg_size_of(x->dtype);
    char *sums = dense ? tg_gradient_write(x, NULL) : x->gradient->values;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = dense ? ids[i] : tg_gradient_row(x, ids[i]);
        tg_add_values(sums + (size_t)row * bytes, (const char *)values + (size_t)i * bytes, x->shape[1],
                      tg_dtype_of(x));
    }
    if (tg_has_frozen_rows(x)) {
        tg_gradient_drop_frozen(x);
    }
    return true;
}

/* Returns whether values that are added are in the memory of x's gradient, and not each where it is added. */
static bool must_copy(const tg_tensor *x, const int32_t *ids, const void *values, int64_t count)
{
    const tg_gradient *g = x->gradient;
    const size_t row = (size_t)x->shape[1] * tg_size_of(x->dtype), bytes = (size_t)count * row;
    if (!g || !(tg_ranges_meet(g->values, g->values ? (size_t)g->capacity * row : 0, values, bytes) ||
                (g->dense && tg_overlaps_memory(g->dense, values, bytes)))) {
        return false;
    }
    const bool dense = g->kind == TG_GRAD_DENSE;
    const char *sums = dense ? tg_values(g->dense) : g->values;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = dense ? ids[i] : g->kind == TG_GRAD_ROWS ? g->slot[ids[i]] : -1;
        if (at < 0 || sums + (size_t)at * row != (const char *)values + (size_t)i * row) {
            return true;
        }
    }
    return false;
}

bool tg_tensor_add_grad_rows(tg_tensor *x, const int32_t *ids, const void *values, int64_t count, tg_error *error)
{
    static const char call[] = "tensor_add_grad_rows";
    if (!check_table(call, x, error)) {
        return false;
    }
    if (count < 0) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: %lld rows; it must be 0 or more", call, (long long)count);
    }
    if (count > 0 && (!ids || !values)) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the array of %s is NULL", call, ids ? "values" : "ids");
    }
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= x->shape[0]) {
            return tg_error_set(error, TG_ERROR_RANGE, "%s: id %d at [%lld] is outside [0,%lld)", call, (int)ids[i],
                                (long long)i, (long long)x->shape[0]);
        }
    }
    bool copies = must_copy(x, ids, values, count);
    size_t bytes = (size_t)(count * x->shape[1]) * tg_size_of(x->dtype);
    void *copy = copies ? tg_alloc(bytes, 1) : NULL;
    bool is_added = copies == (copy != NULL) && add_rows(x, ids, copy ? memcpy(copy, values, bytes) : values, count);
    tg_free(copy);
    return is_added || report_memory(call, error);
}
