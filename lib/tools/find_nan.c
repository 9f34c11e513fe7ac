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

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

/* The values that a tensor does not repeat: index 0 of each expanded axis. An expanded tensor may have more values than
 * a loop can visit. */
typedef struct distinct_values {
    tg_shape whole, distinct;
    int64_t count; /* 0: the values cannot be read, or are no floats */
} distinct_values;

static bool is_float(const tg_tensor *x)
{
    return tg_tensor_dtype(x) == TG_F32 || tg_tensor_dtype(x) == TG_F64;
}

static distinct_values distinct_values_of(const tg_tensor *x)
{
    distinct_values v = {.whole = tg_tensor_shape(x), .distinct = tg_tensor_shape(x)};
    v.count = is_float(x) && tg_tensor_check("find_nan", "tensor", x, NULL);
    for (int axis = 0; axis < v.whole.rank; axis++) {
        if (tg_tensor_stride(x, axis) == 0 && v.whole.size[axis] > 0) {
            v.distinct.size[axis] = 1;
        }
        v.count *= v.distinct.size[axis];
    }
    return v;
}

/* Returns the row-major index in x of distinct value number i. */
static int64_t index_of(const distinct_values *v, int64_t i)
{
    int64_t index = 0, step = 1;
    for (int axis = v->whole.rank - 1; axis >= 0; axis--) {
        index += i % v->distinct.size[axis] * step;
        i /= v->distinct.size[axis];
        step *= v->whole.size[axis];
    }
    return index;
}

/* Returns the row-major index of the first NaN, or -1. */
static int64_t first_nan(const tg_tensor *x)
{
    distinct_values v = distinct_values_of(x);
    for (int64_t i = 0; i < v.count; i++) {
        int64_t index = index_of(&v, i);
        if (isnan(tg_tensor_value_at(x, index))) {
            return index;
        }
    }
    return -1;
}

/* Returns the largest absolute value of the float inputs. */
static double largest_input(const tg_tape_record *record)
{
    double largest = 0;
    for (int i = 0; i < record->input_count; i++) {
        distinct_values v = distinct_values_of(record->inputs[i]);
        for (int64_t k = 0; k < v.count; k++) {
            largest = fmax(largest, fabs(tg_tensor_value_at(record->inputs[i], index_of(&v, k))));
        }
    }
    return largest;
}

/* Writes the name of a record, such as "'log' (op 2 of 4)". Returns `text`. */
static const char *name_of(const tg_tape *t, int64_t number, char text[300])
{
    snprintf(text, 300, "'%.*s' (op %lld of %lld)", TG_CUT(tg_tape_record_at(t, number).op->name, 200),
             (long long)number + 1, (long long)tg_tape_record_count(t));
    return text;
}

static void report_input(const tg_tape *t, int64_t number, int input, int64_t index, const char *remark,
                         tg_nan_report *report)
{
    tg_shape shape = tg_tensor_shape(tg_tape_record_at(t, number).inputs[input]);
    char at[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT], op[300];
    *report = (tg_nan_report){.record = number, .input = input, .index = index};
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
static bool report_cause(const tg_tape *t, int64_t number, unknown_inputs *unknown, tg_nan_report *report)
{
    tg_tape_record record = tg_tape_record_at(t, number);
    *unknown = (unknown_inputs){-1, -1};
    for (int i = 0; i < record.input_count; i++) {
        const tg_tensor *x = record.inputs[i];
        tg_recorded_values values = tg_tape_recorded_values(t, number, i);
        int64_t index = values == TG_VALUES_KEPT ? first_nan(x) : -1;
        if (index >= 0) {
            report_input(t, number, i, index, " that no recorded op computed", report);
            return true;
        }
        if (values == TG_VALUES_CHANGED && unknown->written < 0 && is_float(x)) {
            unknown->written = i;
        }
        if (values == TG_VALUES_GONE && unknown->gone < 0 && is_float(x)) {
            unknown->gone = i;
        }
    }
    return false;
}

/* Reports the first output with a NaN: either an input that had a NaN before the call, or the op that computed it. If
 * an input has given its values back, the op that computed that input may be the one, or one before it. */
static void report_output(const tg_tape *t, int64_t number, int output, int64_t index, tg_nan_report *report)
{
    int64_t first = number;
    unknown_inputs unknown;
    for (;;) {
        if (report_cause(t, first, &unknown, report)) {
            return;
        }
        if (unknown.gone < 0) {
            break;
        }
        first = tg_tape_record_of(t, tg_tape_record_at(t, first).inputs[unknown.gone]);
    }
    tg_tape_record record = tg_tape_record_at(t, first);
    tg_shape shape = tg_tensor_shape(tg_tape_record_at(t, number).outputs[output]);
    char at[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT], op[300], first_op[300];
    tg_index_format(&shape, index, at);
    tg_shape_format(shape, text);
    name_of(t, number, op);
    name_of(t, first, first_op);
    *report = (tg_nan_report){.record = number, .input = -1, .index = index};
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
            TG_CUT(op, 90), TG_CUT(at, 40), TG_CUT(text, 40), TG_CUT(first_op, 90), largest_input(&record));
    } else {
        tg_format_line(report->text, sizeof report->text,
                       "%.*s computed a NaN at %.*s of %.*s, from inputs without one (largest absolute value %g)",
                       TG_CUT(op, 200), TG_CUT(at, 40), TG_CUT(text, 60), largest_input(&record));
    }
}

bool tg_find_nan(const tg_tape *t, tg_nan_report *report)
{
    tg_nan_report unread;
    report = report ? report : &unread;
    for (int64_t number = 0; number < tg_tape_record_count(t); number++) {
        tg_tape_record record = tg_tape_record_at(t, number);
        for (int i = 0; i < record.output_count; i++) {
            bool is_kept = tg_tape_recorded_values(t, number, record.input_count + i) == TG_VALUES_KEPT;
            int64_t index = is_kept ? first_nan(record.outputs[i]) : -1;
            if (index >= 0) {
                report_output(t, number, i, index, report);
                return true;
            }
        }
    }
    for (int64_t number = 0; number < tg_tape_record_count(t); number++) {
        tg_tape_record record = tg_tape_record_at(t, number);
        for (int i = 0; i < record.input_count; i++) {
            int64_t index = first_nan(record.inputs[i]);
            if (index >= 0) {
                report_input(t, number, i, index, "; no recorded op's output has one", report);
                return true;
            }
        }
    }
    return false;
}
