/* find_nan: searches the records in order for the first output with a NaN. Values live until the reset, so no op has to
 * be observed in advance. Exceptions: inside of a block of a transformer, results that backward does not read give
 * their values back (tg_tape_end_module), and a span drops its results (tg_activation_checkpoint_end).
 *
 * A NaN in an input counts only if the output has one, too, because a table may hold NaN in rows that no id selects. If
 * no output has a NaN, the first input that has one now is reported.
 *
 * An input may have been written after the op ran: an optimizer step after a NaN loss writes NaN to every parameter.
 * The values of such an input are not those that the op read, so they do not explain a NaN in its output. The storage's
 * version, which is part of the record, reveals the write.
 */
#include <math.h>
#include <stdio.h>

#include <tapegrad/find_nan.h>

#include "base/text.h"
#include "tape/tape.h"

/* Returns a view of the values that x does not repeat: index 0 of each expanded axis. An expanded tensor may have more
 * values than a loop can visit. The view is empty if x has no values any more. It has no reference to x. */
static tg_tensor distinct_values(const tg_tensor *x)
{
    tg_tensor view = *x;
    view.count = !tg_is_dropped(x) && tg_dtype_is_float(x->dtype);
    for (int axis = 0; axis < x->rank; axis++) {
        view.shape[axis] = x->strides[axis] == 0 && x->shape[axis] > 0 ? 1 : x->shape[axis];
        view.count *= view.shape[axis];
    }
    return view;
}

/* Returns the row-major index of the first NaN, or -1. */
static int64_t first_nan(const tg_tensor *x)
{
    const tg_tensor view = distinct_values(x);
    int64_t i = 0;
    while (i < view.count && !isnan(tg_value_at(&view, i))) {
        i++;
    }
    if (i == view.count) {
        return -1;
    }
    int64_t index = 0, step = 1;
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        index += i % view.shape[axis] * step;
        i /= view.shape[axis];
        step *= x->shape[axis];
    }
    return index;
}

/* Returns whether a tensor of the record was written after the call. `number` counts the inputs first, then the
 * outputs. */
static bool written_since(const tg_tape *t, const tg_record *record, int number)
{
    size_t tensor = record->first_tensor + (size_t)number;
    return !tg_is_dropped(t->tensors[tensor]) && t->states[tensor].version != tg_storage_version(t->tensors[tensor]);
}

/* Returns the largest absolute value of the float inputs. */
static double largest_input(const tg_tape *t, const tg_record *record)
{
    double largest = 0;
    for (int i = 0; i < record->input_count; i++) {
        const tg_tensor x = distinct_values(tg_record_inputs(t, record)[i]);
        for (int64_t k = 0; k < x.count; k++) {
            largest = fmax(largest, fabs(tg_value_at(&x, k)));
        }
    }
    return largest;
}

/* Writes the name of a record, such as "'log' (op 2 of 4)". Returns `text`. */
static const char *name_of(const tg_tape *t, size_t number, char text[300])
{
    snprintf(text, 300, "'%.*s' (op %zu of %zu)", TG_CUT(t->records[number].op->name, 200), number + 1,
             t->record_count);
    return text;
}

static void report_input(const tg_tape *t, size_t number, int input, int64_t index, const char *remark,
                         tg_nan_report *report)
{
    tg_shape shape = tg_shape_of(tg_record_inputs(t, &t->records[number])[input]);
    char at[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT], op[300];
    *report = (tg_nan_report){.record = (int64_t)number, .input = input, .index = index};
    name_of(t, number, op);
    tg_shape_format(shape, text);
    tg_index_format(&shape, index, at);
    tg_format_line(report->text, sizeof report->text, "input %d of %.*s, %.*s, has a NaN at %.*s%s", input,
                   TG_CUT(op, 200), TG_CUT(text, 80), TG_CUT(at, 80), remark);
}

/* The inputs of a record that cannot be examined: the first one that was written since, and the first one that has
 * given its values back; -1: none. */
typedef struct unknown_inputs {
    int written, gone;
} unknown_inputs;

/* Looks for a NaN in the inputs of a record. Returns true after it has reported one that was there before the call. */
static bool report_cause(const tg_tape *t, size_t number, unknown_inputs *unknown, tg_nan_report *report)
{
    const tg_record *record = &t->records[number];
    *unknown = (unknown_inputs){-1, -1};
    for (int i = 0; i < record->input_count; i++) {
        const tg_tensor *x = tg_record_inputs(t, record)[i];
        bool written = written_since(t, record, i);
        int64_t index = written ? -1 : first_nan(x);
        if (index >= 0) {
            report_input(t, number, i, index, " that no recorded op computed", report);
            return true;
        }
        if (tg_dtype_is_float(x->dtype) && (written || tg_is_dropped(x))) {
            int *first = written ? &unknown->written : &unknown->gone;
            *first = *first < 0 ? i : *first;
        }
    }
    return false;
}

/* Reports the first output with a NaN: either an input that had a NaN before the call, or the op that computed it. If
 * an input has given its values back, the op that computed that input may be the one, or one before it. */
static void report_output(const tg_tape *t, size_t number, int output, int64_t index, tg_nan_report *report)
{
    size_t first = number;
    unknown_inputs unknown;
    for (;;) {
        if (report_cause(t, first, &unknown, report)) {
            return;
        }
        if (unknown.gone < 0) {
            break;
        }
        first = (size_t)tg_record_inputs(t, &t->records[first])[unknown.gone]->node;
    }
    const tg_record *record = &t->records[first];
    tg_shape shape = tg_shape_of(tg_record_outputs(t, &t->records[number])[output]);
    char at[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT], op[300], first_op[300];
    tg_index_format(&shape, index, at);
    tg_shape_format(shape, text);
    name_of(t, number, op);
    name_of(t, first, first_op);
    *report = (tg_nan_report){.record = (int64_t)number, .input = -1, .index = index};
    if (unknown.written >= 0) {
        tg_format_line(
            report->text, sizeof report->text,
            "%.*s has a NaN at %.*s of %.*s; input %d of %.*s was changed in place since, and may have had one",
            TG_CUT(op, 90), TG_CUT(at, 40), TG_CUT(text, 40), unknown.written, TG_CUT(first_op, 90));
    } else if (first < number) {
        tg_format_line(
            report->text, sizeof report->text,
            "%.*s has a NaN at %.*s of %.*s; %.*s or an op between them computed it, from inputs without one "
            "(largest absolute value %g)",
            TG_CUT(op, 90), TG_CUT(at, 40), TG_CUT(text, 40), TG_CUT(first_op, 90), largest_input(t, record));
    } else {
        tg_format_line(report->text, sizeof report->text,
                       "%.*s computed a NaN at %.*s of %.*s, from inputs without one (largest absolute value %g)",
                       TG_CUT(op, 200), TG_CUT(at, 40), TG_CUT(text, 60), largest_input(t, record));
    }
}

bool tg_find_nan(const tg_tape *t, tg_nan_report *report)
{
    tg_nan_report unread;
    report = report ? report : &unread;
    for (size_t number = 0; t && number < t->record_count; number++) {
        const tg_record *record = &t->records[number];
        for (int i = 0; i < record->output_count; i++) {
            bool written = written_since(t, record, record->input_count + i);
            int64_t index = written ? -1 : first_nan(tg_record_outputs(t, record)[i]);
            if (index >= 0) {
                report_output(t, number, i, index, report);
                return true;
            }
        }
    }
    for (size_t number = 0; t && number < t->record_count; number++) {
        for (int i = 0; i < t->records[number].input_count; i++) {
            int64_t index = first_nan(tg_record_inputs(t, &t->records[number])[i]);
            if (index >= 0) {
                report_input(t, number, i, index, "; no recorded op's output has one", report);
                return true;
            }
        }
    }
    return false;
}
