/* find_nan: after a loss turned NaN, where did it come from? The records are in order, and values live until the
 * reset; so the first output in that order that has a NaN is where to look, and nothing has to be watched before
 * there is one.
 *
 * An input with a NaN is named only when the output has one as well: a table may hold NaN in rows that no id asked
 * for. And an input may have been written into after the op, as the step of an optimizer does with every parameter
 * once a loss is NaN: then its values tell nothing about the op, and its storage's version, which the record kept,
 * gives that away.
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

/* Written into after the call. `place` counts the record's tensors, the inputs first. */
static bool written_since(const tg_tape *t, const tg_record *record, int place)
{
    size_t tensor = record->first_tensor + (size_t)place;
    return t->versions[tensor] != tg_storage_version(t->tensors[tensor]);
}

/* Of the float inputs alone: an id is no magnitude. */
static double largest_size(const tg_tape *t, const tg_record *record)
{
    double largest = 0;
    for (int i = 0; i < record->input_count; i++) {
        const tg_tensor *x = tg_record_inputs(t, record)[i];
        for (int64_t k = 0; tg_dtype_is_float((tg_dtype)x->dtype) && k < x->count; k++) {
            largest = fmax(largest, fabs(tg_value_at(x, k)));
        }
    }
    return largest;
}

static void name_input(const tg_tape *t, size_t number, int input, int64_t at, const char *remark, tg_error *found)
{
    tg_shape shape = tg_shape_of(tg_record_inputs(t, &t->records[number])[input]);
    char place[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT];
    tg_error_clear(found);
    tg_error_set(found, TG_ERROR_VALUE, "input %d of '%s' (op %zu of %zu), %s, has a NaN at %s: %s", input,
                 t->records[number].op->name, number + 1, t->record_count, tg_shape_format(shape, text),
                 tg_index_format(&shape, at, place), remark);
}

/* The output has a NaN at the position, and no earlier op's output has one. */
static void name_origin(const tg_tape *t, size_t number, int output, int64_t at, tg_error *found)
{
    const tg_record *record = &t->records[number];
    int written = -1;
    for (int i = 0; i < record->input_count; i++) {
        const tg_tensor *x = tg_record_inputs(t, record)[i];
        if (written_since(t, record, i)) {
            written = tg_dtype_is_float((tg_dtype)x->dtype) && written < 0 ? i : written;
            continue;
        }
        int64_t brought = first_nan(x);
        if (brought >= 0) {
            name_input(t, number, i, brought, "no recorded op made it", found);
            return;
        }
    }
    tg_shape shape = tg_shape_of(tg_record_outputs(t, record)[output]);
    char place[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT];
    tg_index_format(&shape, at, place);
    tg_shape_format(shape, text);
    tg_error_clear(found);
    if (written >= 0) {
        tg_error_set(found, TG_ERROR_VALUE,
                     "'%s' (op %zu of %zu) has a NaN at %s of %s; its input %d was written into since, and may have "
                     "brought it",
                     record->op->name, number + 1, t->record_count, place, text, written);
        return;
    }
    tg_error_set(found, TG_ERROR_VALUE,
                 "'%s' (op %zu of %zu) made a NaN at %s of %s, from inputs without one (largest absolute value %g)",
                 record->op->name, number + 1, t->record_count, place, text, largest_size(t, record));
}

bool tg_tape_find_nan(const tg_tape *t, tg_error *found)
{
    for (size_t number = 0; t && number < t->record_count; number++) {
        const tg_record *record = &t->records[number];
        for (int i = 0; i < record->output_count; i++) {
            bool written = written_since(t, record, record->input_count + i);
            int64_t at = written ? -1 : first_nan(tg_record_outputs(t, record)[i]);
            if (at >= 0) {
                name_origin(t, number, i, at, found);
                return true;
            }
        }
    }
    for (size_t number = 0; t && number < t->record_count; number++) {
        for (int i = 0; i < t->records[number].input_count; i++) {
            int64_t at = first_nan(tg_record_inputs(t, &t->records[number])[i]);
            if (at >= 0) {
                name_input(t, number, i, at, "no recorded op's output has one", found);
                return true;
            }
        }
    }
    return false;
}
