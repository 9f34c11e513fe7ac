/* gradcheck_adding: why a backward must add to a gradient, for the message about one that assigns. An input that is
 * used twice, or a row that two ids name, gets the sum of two gradients; an assignment keeps only the last one. */
#include <stdio.h>

#include "base/text.h"
#include "gradcheck/gradcheck.h"

/* Of more ids, only these are searched for a repetition. */
#define SEARCHED_IDS 1000

/* Returns whether `ids` may name rows of `x` for the output `y`: y has one row of x for each id. */
static bool names_rows(const tg_tensor *ids, const tg_tensor *x, const tg_tensor *y)
{
    return tg_dtype_of(ids) == TG_I32 && tg_has_values(ids) && ids->count > 1 && x->rank > 0 && x->count > 0 &&
           y->count == ids->count * (x->count / x->shape[0]);
}

/* Writes which two of the ids are equal, those of the row if it has two. Returns the length, 0 if none are. */
static int describe_ids(const tg_tensor *ids, int64_t row, const tg_op *op, int input, char *text, size_t size)
{
    int64_t count = ids->count < SEARCHED_IDS ? ids->count : SEARCHED_IDS;
    int64_t first = -1, again = -1;
    bool is_row = false;
    for (int64_t i = 1; i < count && !is_row; i++) {
        double id = tg_tensor_value_at(ids, i);
        for (int64_t k = 0; k < i && !is_row; k++) {
            if (id == tg_tensor_value_at(ids, k) && (first < 0 || id == (double)row)) {
                first = k;
                again = i;
                is_row = id == (double)row;
            }
        }
    }
    if (first < 0) {
        return 0;
    }
    char at[TG_SHAPE_TEXT], and_at[TG_SHAPE_TEXT], name[TG_INPUT_TEXT];
    tg_shape shape = tg_shape_of(ids);
    return snprintf(text, size, "; %sid %g is at %s and %s of %s of '%.*s', so its row gets the sum of both",
                    is_row ? "" : "for example, ", tg_tensor_value_at(ids, first), tg_index_format(&shape, first, at),
                    tg_index_format(&shape, again, and_at), tg_op_input_text(op, input, name), TG_CUT(op->name, 40));
}

const char *tg_check_describe_adding(const tg_check *c, int k, int64_t entry, char text[TG_CHECK_REMARK])
{
    const tg_tape *t = c->tape;
    const tg_tensor *x = c->inputs[k];
    int length = snprintf(text, TG_CHECK_REMARK, "backward must add to the gradient that exists");
    if (c->guard.overwrites && !c->guard.overwrites->levels) {
        snprintf(text + length, TG_CHECK_REMARK - (size_t)length,
                 "; '%.*s' has can_overwrite, and may write instead only for TG_GRADIENT_WRITE",
                 TG_CUT(c->guard.overwrites->name, 40));
        return text;
    }
    length += snprintf(text + length, TG_CHECK_REMARK - (size_t)length, " (+=, not =)");
    char name[TG_CHECK_NAME];
    int uses = 0;
    for (size_t r = 0; r < t->record_count; r++) {
        const tg_record *record = &t->records[r];
        tg_tensor *const *inputs = tg_record_inputs(t, record);
        for (int i = 0; i < record->input_count; i++) {
            uses += inputs[i] == x;
            for (int m = 0; inputs[i] == x && m < record->input_count; m++) {
                if (names_rows(inputs[m], x, *tg_record_outputs(t, record)) &&
                    describe_ids(inputs[m], entry / (x->count / x->shape[0]), record->op, m, text + length,
                                 TG_CHECK_REMARK - (size_t)length) > 0) {
                    return text;
                }
            }
        }
    }
    if (uses > 1) {
        snprintf(text + length, TG_CHECK_REMARK - (size_t)length, "; %.*s is used %d times, and gets the sum of all",
                 TG_CUT(tg_check_name(c, k, name), 80), uses);
    }
    return text;
}
