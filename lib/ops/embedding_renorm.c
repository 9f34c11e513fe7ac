/* embedding_renorm: rows that a lookup will name are cut down to a norm, in place, before it: torch.embedding_renorm_.
 *
 *   n = sum(|w_c|^p)^(1/p)       where n > max_norm:   w = w max_norm / (n + 1e-7)
 *
 * A row that is named twice is looked at once: a bit for each row of the table remembers it. Frozen rows stay.
 */
#include <tapegrad/ops.h>

#include "base/alloc.h"
#include "tape/tape.h"

static void scale_row(tg_tensor *table, int64_t row, double factor)
{
    int64_t width = table->shape[1];
    for (int64_t c = 0; c < width; c++) {
        if (table->dtype == TG_F32) {
            ((float *)tg_values(table))[row * width + c] *= (float)factor;
        } else {
            ((double *)tg_values(table))[row * width + c] *= factor;
        }
    }
}

static bool met(uint8_t *seen, int32_t id)
{
    bool before = seen[id / 8] >> (id % 8) & 1;
    seen[id / 8] |= (uint8_t)(1 << (id % 8));
    return before;
}

static bool check(tg_tape *t, const tg_tensor *table, const tg_tensor *ids, double max_norm, double p)
{
    if (!table || !ids) {
        tg_tape_fail(t, TG_ERROR_STATE, "embedding_renorm", "the %s NULL", table ? "ids are" : "table is");
    } else if (table->rank != 2 || !tg_dtype_is_float((tg_dtype)table->dtype) || !table->contiguous) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "embedding_renorm", "the table must be a contiguous float matrix");
    } else if (ids->dtype != TG_I32 || !ids->contiguous) {
        tg_tape_fail(t, TG_ERROR_DTYPE, "embedding_renorm", "the ids must be contiguous i32");
    } else if (table->node >= 0) {
        tg_tape_fail(t, TG_ERROR_STATE, "embedding_renorm", "the table is the result of a recorded op");
    } else if (!(max_norm > 0) || !(p > 0)) {
        tg_tape_fail(t, TG_ERROR_VALUE, "embedding_renorm", "max_norm %g and p %g; both must be above 0", max_norm, p);
    } else {
        return true;
    }
    return false;
}

bool tg_embedding_renorm(tg_tape *t, tg_tensor *table, tg_tensor *ids, double max_norm, double p)
{
    if (!t || t->error.code != TG_OK || !check(t, table, ids, max_norm, p)) {
        return false;
    }
    const int32_t *id = tg_values(ids);
    int64_t rows = table->shape[0];
    for (int64_t i = 0; i < ids->count; i++) {
        if (id[i] < 0 || id[i] >= rows) {
            char text[TG_SHAPE_TEXT];
            tg_shape shape = tg_shape_of(ids);
            tg_tape_fail(t, TG_ERROR_RANGE, "embedding_renorm", "id %d at %s is outside [0,%lld)", id[i],
                         tg_index_format(&shape, i, text), (long long)rows);
            return false;
        }
    }
    uint8_t *seen = tg_alloc_zeroed((size_t)(rows / 8 + 1), 1);
    if (!seen) {
        tg_tape_fail(t, TG_ERROR_MEMORY, "embedding_renorm", "out of memory");
        return false;
    }
    for (int64_t i = 0; i < ids->count; i++) {
        double norm = met(seen, id[i]) || tg_row_is_frozen(table, id[i]) ? 0 : tg_row_norm(table, id[i], p);
        if (norm > max_norm) {
            scale_row(table, id[i], max_norm / (norm + 1e-7));
        }
    }
    tg_free(seen);
    tg_touch(table);
    return true;
}
