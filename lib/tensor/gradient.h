/* gradient (private): the gradient of a leaf, or of a result after tg_retain_grad.
 *
 * Its kind is its state (tg_grad_kind):
 *
 *     NONE    no gradient; the memory of an earlier one may be kept
 *     ROWS    the rows ids[0 .. count), also if that is none; every other row is zero
 *     DENSE   a tensor with the shape of the leaf
 *
 *               tg_gradient_rows            tg_gradient_write
 *       NONE ----------------------> ROWS ---------------------> DENSE
 *         \________________________________________________________^
 *                             tg_gradient_write
 *
 * tg_tensor_zero_grad and tg_gradient_release lead back to NONE from each of them. No other function changes the kind.
 * The memory for ROWS or DENSE is taken before, by tg_gradient_reserve or tg_gradient_plan, so the arrows cannot fail.
 */
#ifndef TG_TENSOR_GRADIENT_H
#define TG_TENSOR_GRADIENT_H

#include "tensor/tensor.h"

struct tg_gradient {
    tg_grad_kind kind;
    tg_tensor *dense; /* created when it is first needed, then reused */
    /* of ROWS: the number of rows, and the capacity of ids and values */
    int64_t count, capacity;
    int32_t *ids;
    void *values;
    int32_t *slot; /* one per row of the leaf: its index in ids and values, or -1 */
    /* what the backward in progress has planned: the number of rows that it may add, and whether it will write `dense`,
     * which is counted as a change of that tensor already */
    int64_t planned_rows;
    bool plans_write;
};

/* Reserves memory: for a gradient of kind DENSE, or of kind ROWS with `rows` rows more than it has. Returns false when
 * memory is exhausted; the gradient is then unchanged. */
bool tg_gradient_reserve(tg_tensor *x, tg_grad_kind kind, int64_t rows);

/* The same for the plan of a backward, whose reservations of rows add up. Recorded ops may read a dense gradient, which
 * is a tensor, so each write increases its version. A plan increases it at once, because it then checks that no record
 * of this backward reads what backward changes. */
static inline bool tg_gradient_plan(tg_tensor *x, tg_grad_kind kind, int64_t rows)
{
    bool is_reserved = kind == TG_GRAD_DENSE && x->gradient && x->gradient->dense;
    if (!is_reserved && !tg_gradient_reserve(x, kind, rows)) {
        return false;
    }
    if (kind == TG_GRAD_ROWS) {
        x->gradient->planned_rows += rows;
    } else if (!x->gradient->plans_write) {
        x->gradient->plans_write = true;
        tg_touch(x->gradient->dense);
    }
    return true;
}

/* Ends the reservations of rows of a plan that was carried out. */
void tg_gradient_end_plan(tg_tensor *x);

/* Takes back what was planned. */
void tg_gradient_abandon_plan(tg_tensor *x);

/* Writes the slots of rows. New rows are added, for which memory must have been reserved; they are zeros, or the caller
 * writes their values. Their slots follow those that exist, in the order in which the ids first appear. Returns the
 * first of them, or where it would be. The kind, which must not be DENSE, becomes ROWS, even without any. */
int32_t tg_gradient_rows(tg_tensor *leaf, const int32_t *ids, int64_t count, int32_t *slots, bool with_zeros);

/* The same for one row: returns its slot. */
static inline int64_t tg_gradient_row(tg_tensor *leaf, int32_t id)
{
    int32_t slot;
    tg_gradient_rows(leaf, &id, 1, &slot, true);
    return slot;
}

/* The slow part of tg_gradient_write. Returns whether the values are uninitialized. */
bool tg_gradient_become_dense(tg_tensor *x, bool may_overwrite);

/* Returns the values of the dense gradient, to write them. The kind becomes DENSE: the rows keep their values, and all
 * others become zero. Exception: if the kind was NONE and *overwrite is true, the values are uninitialized, and the
 * caller must write each. *overwrite becomes whether that is so. NULL: false. */
static inline void *tg_gradient_write(tg_tensor *x, bool *overwrite)
{
    tg_gradient *gradient = x->gradient;
    bool is_uninitialized = gradient->kind != TG_GRAD_DENSE && tg_gradient_become_dense(x, overwrite && *overwrite);
    if (overwrite) {
        *overwrite = is_uninitialized;
    }
    if (!gradient->plans_write) {
        tg_touch(gradient->dense);
    }
    gradient->plans_write = false;
    return tg_values(gradient->dense);
}

/* Removes the gradient of frozen rows (rows.c). Called after an op has contributed to the gradient. */
void tg_gradient_drop_frozen(tg_tensor *leaf);

/* Frees the memory of the gradient; its kind becomes NONE. */
void tg_gradient_release(tg_tensor *x);

/* Frees the gradient itself, too. */
void tg_gradient_free(tg_tensor *x);

#endif
