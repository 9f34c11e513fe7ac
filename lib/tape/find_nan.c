/* find_nan: after a loss turned NaN, where did it come from? The records are in order, and values live until the reset; so
 * the first NaN in that order is the cause, and nothing has to be watched before there is one.
 */
#include <math.h>

#include "tape/tape.h"

/* The row-major position of the first NaN, or -1. */
static int64_t first_nan(const tg_tensor *x)
{
    if (!tg_dtype_is_float((tg_dtype)x->dtype)) {
        return -1;
    }
    for (int64_t i = 0; i < x->count; i++) {
        if (isnan(tg_value_at(x, i))) {
            return i;
        }
    }
    return -1;
}

static double largest_size(const tg_tensor *x)
{
    double largest = 0;
    for (int64_t i = 0; i < x->count; i++) {
        largest = fmax(largest, fabs(tg_value_at(x, i)));
    }
    return largest;
}

static bool name_input(const tg_tape *t, size_t number, int input, int64_t at, tg_error *found)
{
    const tg_tensor *x = tg_record_inputs(t, &t->records[number])[input];
    tg_shape shape = tg_shape_of(x);
    char place[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT];
    tg_error_clear(found);
    tg_error_set(found, TG_ERROR_VALUE, "input %d of '%s' (op %zu of %zu), %s, has a NaN at %s: no op made it", input,
                 t->records[number].op->name, number + 1, t->record_count, tg_shape_format(shape, text),
                 tg_index_format(&shape, at, place));
    return true;
}

static bool name_op(const tg_tape *t, size_t number, int output, int64_t at, tg_error *found)
{
    const tg_record *record = &t->records[number];
    tg_shape shape = tg_shape_of(tg_record_outputs(t, record)[output]);
    double largest = 0;
    for (int i = 0; i < record->input_count; i++) {
        largest = fmax(largest, largest_size(tg_record_inputs(t, record)[i]));
    }
    char place[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT];
    tg_error_clear(found);
    tg_error_set(found, TG_ERROR_VALUE,
                 "'%s' (op %zu of %zu) made a NaN at %s of %s, from inputs without one (largest absolute value %g)",
                 record->op->name, number + 1, t->record_count, tg_index_format(&shape, at, place),
                 tg_shape_format(shape, text), largest);
    return true;
}

bool tg_tape_find_nan(const tg_tape *t, tg_error *found)
{
    for (size_t number = 0; t && number < t->record_count; number++) {
        const tg_record *record = &t->records[number];
        for (int i = 0; i < record->input_count; i++) {
            const tg_tensor *x = tg_record_inputs(t, record)[i];
            int64_t at = tg_tape_recorded(t, x) ? -1 : first_nan(x); /* a result was looked at when it was made */
            if (at >= 0) {
                return name_input(t, number, i, at, found);
            }
        }
        for (int i = 0; i < record->output_count; i++) {
            int64_t at = first_nan(tg_record_outputs(t, record)[i]);
            if (at >= 0) {
                return name_op(t, number, i, at, found);
            }
        }
    }
    return false;
}
