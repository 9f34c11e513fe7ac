/* graph: the records of a tape in Graphviz's language. A node's name is the address of its tensor. */
#include <tapegrad/profile.h>

#include <inttypes.h>

#include "base/error.h"
#include "base/text.h"
#include "tape/tape.h"

/* Writes a name as the part of a label, where '"' and '\\' need a backslash. */
static bool write_name(FILE *file, const char *name)
{
    char escaped[256];
    tg_escape(escaped, sizeof escaped, name);
    bool written = true;
    for (const char *at = escaped; written && *at; at++) {
        written = fprintf(file, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at) >= 0;
    }
    return written;
}

static bool write_node(FILE *file, const tg_tensor *x, const char *op)
{
    char text[TG_SHAPE_TEXT];
    const char *leaf = x->requires_grad ? "leaf" : "constant";
    return fprintf(file, "    t%" PRIxPTR " [label=\"", (uintptr_t)x) >= 0 && write_name(file, op ? op : leaf) &&
           fprintf(file, "\\n%s %s\", shape=%s];\n", tg_dtype_name(tg_dtype_of(x)),
                   tg_shape_format(tg_shape_of(x), text), op ? "box" : "ellipse") >= 0;
}

/* Returns whether a tensor was written as an input of an earlier record, or as an earlier input of this one. */
static bool was_written(const tg_tape *t, const tg_record *record, int input)
{
    const tg_tensor *x = tg_record_inputs(t, record)[input];
    size_t end = record->first_tensor + (size_t)input;
    for (size_t i = 0; i < end; i++) {
        if (t->tensors[i] == x) {
            return true;
        }
    }
    return false;
}

static bool write_record(const tg_tape *t, const tg_record *record, FILE *file)
{
    bool written = true;
    for (int i = 0; written && i < record->output_count; i++) {
        written = write_node(file, tg_record_outputs(t, record)[i], record->op->name);
    }
    for (int i = 0; written && i < record->input_count; i++) {
        const tg_tensor *x = tg_record_inputs(t, record)[i];
        if (x->node < 0 && !was_written(t, record, i)) {
            written = write_node(file, x, NULL);
        }
        for (int k = 0; written && k < record->output_count; k++) {
            written = fprintf(file, "    t%" PRIxPTR " -> t%" PRIxPTR ";\n", (uintptr_t)x,
                              (uintptr_t)tg_record_outputs(t, record)[k]) >= 0;
        }
    }
    return written;
}

bool tg_tape_write_dot(const tg_tape *t, FILE *file, tg_error *error)
{
    if (!t || !file) {
        return tg_error_set(error, TG_ERROR_STATE, "tape_write_dot: the %s is NULL", t ? "file" : "tape");
    }
    bool written = fputs("digraph tape {\n", file) >= 0;
    for (size_t i = 0; written && i < t->record_count; i++) {
        written = write_record(t, &t->records[i], file);
    }
    return (written && fputs("}\n", file) >= 0 && fflush(file) == 0) ||
           tg_error_set(error, TG_ERROR_FILE, "tape_write_dot: the file cannot be written");
}
