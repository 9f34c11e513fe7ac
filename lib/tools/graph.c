/* graph: the records of a tape in Graphviz's language. A node's name is the address of its tensor. */
#include <tapegrad/profile.h>

#include <inttypes.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

static void add_node(tg_text_buffer *out, const tg_tensor *x, const char *op)
{
    char text[TG_SHAPE_TEXT], name[256];
    const char *leaf = tg_tensor_requires_grad(x) ? "leaf" : "constant";
    size_t length = tg_escape(name, sizeof name, op ? op : leaf);
    tg_text_add_format(out, "    t%" PRIxPTR " [label=\"", (uintptr_t)x);
    tg_text_add_json(out, name, length); /* Graphviz's strings have JSON's backslashes */
    tg_text_add_format(out, "\\n%s %s\", shape=%s];\n", tg_dtype_name(tg_tensor_dtype(x)),
                       tg_shape_format(tg_tensor_shape(x), text), op ? "box" : "ellipse");
}

/* Returns whether a tensor was added as an input of an earlier record, or as an earlier input of this one. */
static bool was_added(const tg_tape *t, int64_t index, int input)
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

static void add_record(tg_text_buffer *out, const tg_tape *t, int64_t index)
{
    tg_tape_record record = tg_tape_record_at(t, index);
    for (int i = 0; i < record.output_count; i++) {
        add_node(out, record.outputs[i], record.op->name);
    }
    for (int i = 0; i < record.input_count; i++) {
        const tg_tensor *x = record.inputs[i];
        if (tg_tape_record_of(t, x) < 0 && !was_added(t, index, i)) {
            add_node(out, x, NULL);
        }
        for (int k = 0; k < record.output_count; k++) {
            tg_text_add_format(out, "    t%" PRIxPTR " -> t%" PRIxPTR ";\n", (uintptr_t)x,
                               (uintptr_t)record.outputs[k]);
        }
    }
}

bool tg_tape_write_dot(const tg_tape *t, FILE *file, tg_error *error)
{
    if (!t || !file) {
        return tg_error_set(error, TG_ERROR_STATE, "tape_write_dot: the %s is NULL", t ? "file" : "tape");
    }
    tg_text_buffer out = {0};
    tg_text_add(&out, "digraph tape {\n");
    for (int64_t i = 0; !out.failed && i < tg_tape_record_count(t); i++) {
        add_record(&out, t, i);
    }
    tg_text_add(&out, "}\n");
    bool is_written = out.failed ? tg_error_set(error, TG_ERROR_MEMORY, "tape_write_dot: out of memory")
                                 : (fwrite(out.bytes, 1, out.length, file) == out.length && fflush(file) == 0) ||
                                       tg_error_set(error, TG_ERROR_FILE, "tape_write_dot: the file cannot be written");
    tg_free(out.bytes);
    return is_written;
}
