/* embedding_options: the options max_norm and padding_index of embedding and embedding_bag.
 *
 * max_norm limits the p-norm n of the rows that a call names. A row w above the limit is scaled down in place, before
 * the lookup:
 *
 *   n = (sum_c |w_c|^p)^(1/p)       if n > max_norm:   w = w max_norm / (n + 1e-7)
 *
 * The ids are visited in sorted order, so that a row which several ids name is scaled once. Frozen rows keep their
 * values. Follows torch.embedding_renorm_.
 *
 * torch changes the table also in evaluation. Here a lookup without recording scales copies of the rows instead, with
 * the same result: parameters are read-only without recording, so that tapes of several threads may share them.
 *
 * The row of padding_index gets no gradient.
 */
#include <string.h>

#include "ops/embedding/embedding.h"

/* ---- max_norm ---- */

bool tg_check_norm_limit(tg_op_call *call, int table, const tg_norm_limit *limit)
{
    const tg_tensor *x = call->inputs[table];
    if (!(limit->norm >= 0) || !(limit->p > 0)) {
        return tg_op_fail(call, TG_ERROR_VALUE,
                          "max_norm %g and norm_type %g; max_norm must be at least 0 (0: no limit), norm_type above 0",
                          limit->norm, limit->p);
    }
    if (limit->norm > 0 && x->dtype == TG_BF16) {
        return tg_op_fail(call, TG_ERROR_DTYPE, "max_norm %g, and the table is bf16; it must be f32 or f64",
                          limit->norm);
    }
    return limit->norm == 0 || !x->owner ||
           tg_op_fail(call, TG_ERROR_STATE,
                      "max_norm changes the table in place, so the table must be a contiguous leaf");
}

static void scale(void *rows, int dtype, int64_t first, int64_t count, double factor)
{
    for (int64_t i = first; i < first + count; i++) {
        if (dtype == TG_F32) {
            ((float *)rows)[i] *= (float)factor;
        } else {
            ((double *)rows)[i] *= factor;
        }
    }
}

/* Returns the factor that scales a row down to the limit, or 1. */
static double factor_of(const tg_tensor *table, int64_t row, const tg_norm_limit *limit)
{
    double norm = tg_tensor_row_is_frozen(table, row) ? 0 : tg_row_norm(table, row, limit->p);
    return norm > limit->norm ? limit->norm / (norm + 1e-7) : 1;
}

void tg_limit_norms(const tg_op_call *call, const tg_norm_limit *limit)
{
    tg_tensor *table = call->inputs[TG_LOOKUP_TABLE];
    int64_t count = call->inputs[TG_LOOKUP_IDS]->count, width = table->shape[1];
    if (limit->norm == 0 || count == 0 || call->is_repeated || !call->tape->recording) {
        return;
    }
    int32_t *sorted = call->scratch;
    memcpy(sorted, tg_values(call->inputs[TG_LOOKUP_IDS]), (size_t)count * sizeof *sorted);
    tg_sort_ids(sorted, count);
    for (int64_t i = 0; i < count; i++) {
        bool repeats = i > 0 && sorted[i] == sorted[i - 1];
        double factor = repeats ? 1 : factor_of(table, sorted[i], limit);
        if (factor != 1) {
            scale(tg_values(table), table->dtype, sorted[i] * width, width, factor);
        }
    }
    tg_touch(table);
}

bool tg_limits_copies(const tg_op_call *call, const tg_norm_limit *limit)
{
    return limit->norm > 0 && !call->is_repeated && !call->tape->recording;
}

void tg_limit_copies(const tg_op_call *call, const tg_norm_limit *limit, void *copies)
{
    const tg_tensor *ids = call->inputs[TG_LOOKUP_IDS], *table = call->inputs[TG_LOOKUP_TABLE];
    const int32_t *id = tg_values(ids);
    int64_t width = table->shape[1];
    for (int64_t i = 0; i < ids->count; i++) {
        double factor = factor_of(table, id[i], limit);
        if (factor != 1) {
            scale(copies, table->dtype, i * width, width, factor);
        }
    }
}

/* ---- padding ---- */

bool tg_padding_row(tg_tape *t, const char *call, const tg_tensor *table, int64_t padding_index, int64_t *row)
{
    if (!tg_tape_expect_input(t, call, "table", table)) {
        return false;
    }
    if (table->rank != 2) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the table has shape %s; it must be (V,C)",
                            tg_shape_text_of(table).text);
    }
    int64_t rows = table->shape[0];
    *row = padding_index == TG_NO_PADDING ? -1 : padding_index < 0 ? padding_index + rows : padding_index;
    return padding_index == TG_NO_PADDING || (padding_index >= -rows && padding_index < rows) ||
           tg_tape_fail(t, TG_ERROR_RANGE, call, "padding_index %lld is outside [%lld,%lld)", (long long)padding_index,
                        (long long)-rows, (long long)rows);
}

void *tg_rows_of_ids(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int64_t padding,
                     int32_t *rows, int32_t *first_new)
{
    if (padding < 0) {
        return tg_find_grad_rows(call, input, ids, count, rows, first_new);
    }
    void *values = NULL;
    int32_t later; /* the new rows of all calls follow each other */
    for (int64_t begin = 0, end; begin < count; begin = end + 1) {
        for (end = begin; end < count && ids[end] != padding;) {
            end++;
        }
        if (end > begin) {
            values = tg_find_grad_rows(call, input, ids + begin, end - begin, rows + begin,
                                       first_new && values ? &later : first_new);
        }
        if (end < count) {
            rows[end] = -1;
        }
    }
    return values;
}
