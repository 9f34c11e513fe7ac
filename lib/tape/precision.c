/* precision: the precision of a tape's matrix products, and its rounded copies of parameters.
 *
 * A step uses each parameter in forward and in backward, in the same version. So its rounded copy is kept until the
 * reset. The copy holds a reference to the parameter: the version then identifies its values.
 * ops/linear_algebra/product.c rounds all other factors for one kernel.
 */
#include "tape/tape.h"

bool tg_matmul_bf16_is_fast(void)
{
    return !tg_onednn_missing();
}

bool tg_tape_set_matmul_precision(tg_tape *t, tg_matmul_precision precision)
{
    static const char call[] = "tape_set_matmul_precision";
    if (!tg_tape_is_usable(t)) {
        return false;
    }
    if ((unsigned)precision > TG_MATMUL_REPRODUCIBLE) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call,
                            "%d is not a precision; it must be TG_MATMUL_F32, TG_MATMUL_BF16, TG_MATMUL_BF16_FAST or "
                            "TG_MATMUL_REPRODUCIBLE",
                            (int)precision);
    }
    const char *missing = tg_precision_rounds(precision) ? tg_onednn_missing() : NULL;
    if (missing && precision == TG_MATMUL_BF16_FAST) {
        return tg_tape_fail(t, TG_ERROR_STATE, call,
                            "products in bf16 are not faster than in f32 here: %s; "
                            "TG_MATMUL_BF16 computes them in the time of f32",
                            missing);
    }
    if (tg_precision_rounds(precision) && !missing && !t->onednn) {
        t->onednn = tg_onednn_new();
        if (!t->onednn) {
            return tg_tape_fail(t, TG_ERROR_MEMORY, call, "out of memory");
        }
    }
    t->precision = precision;
    return true;
}

static tg_rounded_copy *find(const tg_tape *t, const tg_tensor *x, tg_rounded kind)
{
    for (size_t i = 0; i < t->copy_count; i++) {
        if (t->copies[i].parameter == x && t->copies[i].kind == kind) {
            return &t->copies[i];
        }
    }
    return NULL;
}

bool tg_tape_reserve_copy(tg_tape *t, tg_tensor *x, tg_rounded kind)
{
    tg_rounded_copy *copy = find(t, x, kind);
    size_t bytes = (size_t)x->count * (size_t)kind;
    if (copy && copy->bytes == bytes) {
        return true;
    }
    void *values = tg_pool_take(t->pool, bytes);
    if (!values || !tg_grow(&t->copies, &t->copy_capacity, t->copy_count, t->copy_count + 1, sizeof *t->copies)) {
        tg_pool_give(t->pool, values);
        return false;
    }
    if (copy) {
        /* the parameter was resized; tg_grow may have moved the copy */
        copy = find(t, x, kind);
        tg_pool_give(t->pool, copy->values);
    } else {
        copy = &t->copies[t->copy_count++];
        copy->parameter = tg_retain(x);
        copy->kind = kind;
    }
    copy->is_written = false;
    copy->bytes = bytes;
    copy->values = values;
    return true;
}

const void *tg_tape_copy_of(tg_tape *t, const tg_tensor *x, tg_rounded kind)
{
    tg_rounded_copy *copy = find(t, x, kind);
    if (!copy || copy->bytes != (size_t)x->count * (size_t)kind) {
        return NULL;
    }
    if (!copy->is_written || copy->version != tg_storage_version(x)) {
        tg_round_values(tg_values(x), x->count, kind, copy->values);
        copy->version = tg_storage_version(x);
        copy->is_written = true;
    }
    return copy->values;
}

void tg_tape_free_copies(tg_tape *t)
{
    for (size_t i = 0; i < t->copy_count; i++) {
        tg_pool_give(t->pool, t->copies[i].values);
        tg_tensor_drop(t->pool, t->copies[i].parameter);
    }
    t->copy_count = 0;
    if (t->onednn) {
        tg_onednn_end_step(t->onednn);
    }
}
