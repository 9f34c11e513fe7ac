/* graph: the records of a tape in Graphviz's language. A node's name is the address of its tensor. */
#include <tapegrad/profile.h>

#include <inttypes.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

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
    const char *leaf = tg_tensor_requires_grad(x) ? "leaf" : "constant";
    return fprintf(file, "    t%" PRIxPTR " [label=\"", (uintptr_t)x) >= 0 && write_name(file, op ? op : leaf) &&
           fprintf(file, "\\n%s %s\", shape=%s];\n", tg_dtype_name(tg_tensor_dtype(x)),
                   tg_shape_format(tg_tensor_shape(x), text), op ? "box" : "ellipse") >= 0;
}

/* Returns whether a tensor was written as an input of an earlier record, or as an earlier input of this one. */
static bool was_written(const tg_tape *t, int64_t index, int input)
{
    const tg_tensor *x = tg_tape_record_at(t, index).inputs[input];
    for (int64_t k = 0; k <= index; k++) {
        tg_tape_record record = tg_tape_record_at(t, k);
        for (int i = 0; i < (k < index ? record.input_count : input); i++) {
            if (record.inputs[i] == x) {
                return true;
            }
        }
    }
    return false;
}

static bool write_record(const tg_tape *t, int64_t index, FILE *file)
{
    tg_tape_record record = tg_tape_record_at(t, index);
    bool written = true;
    for (int i = 0; written && i < record.output_count; i++) {
        written = write_node(file, record.outputs[i], record.op->name);
    }
    for (int i = 0; written && i < record.input_count; i++) {
        const tg_tensor *x = record.inputs[i];
        if (tg_tape_record_of(t, x) < 0 && !was_written(t, index, i)) {
            written = write_node(file, x, NULL);
        }
        for (int k = 0; written && k < record.output_count; k++) {
            written =
                fprintf(file, "    t%" PRIxPTR " -> t%" PRIxPTR ";\n", (uintptr_t)x, (uintptr_t)record.outputs[k]) >= 0;
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
    for (int64_t i = 0; written && i < tg_tape_record_count(t); i++) {
        written = write_record(t, i, file);
    }
    return (written && fputs("}\n", file) >= 0 && fflush(file) == 0) ||
           tg_error_set(error, TG_ERROR_FILE, "tape_write_dot: the file cannot be written");
}
