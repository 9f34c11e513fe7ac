/* projector: the files of TensorBoard's embedding projector.
 *
 * STEP/TAG/tensors.tsv has one row per line, its values separated by tabs. metadata.tsv has one label per line and no
 * header, because the projector takes a header only if the first line has a tab. projector_config.pbtxt lists the
 * tables of the run, one block "embeddings { .. }" each. The formats are those of torch.utils.tensorboard.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/tensorboard.h"

static const char call[] = "tensorboard_add_embedding";

/* Text that is written to a file in portions. */
typedef struct output {
    tg_file_writer file;
    char text[8192];
    size_t used;
    bool failed;
    tg_error *error;
} output;

static void flush(output *o)
{
    o->failed = o->failed || !tg_file_writer_write(&o->file, o->text, o->used, o->error);
    o->used = 0;
}

static void put(output *o, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (o->used == sizeof o->text) {
            flush(o);
        }
        o->text[o->used++] = text[i];
    }
}

/* Ends the file: commits it, or keeps the old one after an error. */
static bool finish(output *o)
{
    flush(o);
    if (o->failed) {
        tg_file_writer_abandon(&o->file);
        return false;
    }
    return tg_file_writer_commit(&o->file, o->error);
}

static bool begin(output *o, const char *path, tg_error *error)
{
    o->used = 0;
    o->failed = false;
    o->error = error;
    return tg_file_writer_begin(&o->file, call, path, error);
}

/* ---- tensors.tsv ---- */

/* Writes a finite number with enough digits to read it back. In every locale its decimal separator is a point. */
static void put_number(output *o, double value, bool is_f32)
{
    char text[64];
    int length = snprintf(text, sizeof text, is_f32 ? "%.9g" : "%.17g", value);
    size_t point = strspn(text, "-0123456789"), bytes = strcspn(text + point, "e0123456789");
    put(o, text, point);
    put(o, ".", bytes > 0);
    put(o, text + point + bytes, (size_t)length - point - bytes);
}

static bool write_table(const tg_tensor *table, const char *path, tg_error *error)
{
    int64_t rows = tg_tensor_size(table, 0), width = tg_tensor_size(table, 1);
    output o;
    if (!begin(&o, path, error)) {
        return false;
    }
    for (int64_t i = 0; !o.failed && i < rows * width; i++) {
        double value = tg_tensor_value_at(table, i);
        if (!isfinite(value)) {
            o.failed = true;
            tg_error_set(error, TG_ERROR_VALUE, "%s: the value %g at [%lld,%lld] is not finite", call, value,
                         (long long)(i / width), (long long)(i % width));
        }
        put_number(&o, value, tg_tensor_dtype(table) == TG_F32);
        put(&o, (i + 1) % width ? "\t" : "\n", 1);
    }
    return finish(&o);
}

/* ---- metadata.tsv ---- */

static void put_label(output *o, const char *label)
{
    bool is_blank = label[strspn(label, " ")] == '\0';
    put(o, "\"", is_blank);
    for (; *label; label++) {
        unsigned char c = (unsigned char)*label;
        char escaped[8];
        if (c == '\t' || c == '\n' || c == '\r') {
            put(o, c == '\t' ? "\\t" : c == '\n' ? "\\n" : "\\r", 2);
        } else if (c < 0x20 || c == 0x7f) {
            put(o, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", c));
        } else {
            put(o, label, 1);
        }
    }
    put(o, "\"\n", is_blank ? 2 : 0);
    put(o, "\n", !is_blank);
}

static bool write_labels(const char *const *labels, int64_t count, const char *path, tg_error *error)
{
    output o;
    if (!begin(&o, path, error)) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        put_label(&o, labels[i]);
    }
    return finish(&o);
}

/* ---- projector_config.pbtxt ---- */

/* Adds the block of a table to the file, unless the file has it. */
static bool add_to_config(const char *path, const char *folder, const char *name, bool has_labels, tg_error *error)
{
    char block[2048], mark[600];
    snprintf(mark, sizeof mark, "tensor_name: \"%s\"\n", name);
    int length = snprintf(block, sizeof block, "embeddings {\n%stensor_path: \"%s/tensors.tsv\"\n", mark, folder);
    length += snprintf(block + length, sizeof block - (size_t)length,
                       has_labels ? "metadata_path: \"%s/metadata.tsv\"\n}\n" : "}\n", folder);
    size_t old_length = 0;
    char *old = access(path, F_OK) == 0 ? tg_file_read_text(call, path, &old_length, error) : NULL;
    if (!old && access(path, F_OK) == 0) {
        return false;
    }
    if (old && strstr(old, mark)) {
        tg_free(old);
        return true;
    }
    output o;
    bool is_begun = begin(&o, path, error);
    if (is_begun) {
        put(&o, old, old_length);
        put(&o, block, (size_t)length);
    }
    tg_free(old);
    return is_begun && finish(&o);
}

/* ---- the public function ---- */

/* The longest tag, so that the names of files fit. */
#define LONGEST_TAG 200

static bool check(const tg_tensorboard *log, const char *tag, const tg_tensor *table, const char *const *labels,
                  int64_t label_count, int64_t step, tg_error *error)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    if (!tg_tensorboard_check(call, log, tag, step, error) || !tg_tensorboard_check_dtype(call, table, error)) {
        return false;
    }
    if (tag[strspn(tag, allowed)] || tag[0] == '.' || strlen(tag) > LONGEST_TAG) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: the tag '%.*s' is not a name of at most %d letters, digits, '_', '-' and '.', with "
                            "no '.' at its begin",
                            call, TG_CUT(tag, 60), LONGEST_TAG);
    }
    int64_t rows = tg_tensor_size(table, 0);
    if (tg_tensor_rank(table) != 2 || (labels && label_count != rows)) {
        return tg_error_set(error, TG_ERROR_SHAPE,
                            "%s: the table has rank %d and %lld rows, for %lld labels; it must be (rows,C), with one "
                            "label per row",
                            call, tg_tensor_rank(table), (long long)rows, (long long)label_count);
    }
    for (int64_t i = 0; labels && i < label_count; i++) {
        if (!labels[i]) {
            return tg_error_set(error, TG_ERROR_STATE, "%s: label %lld is NULL", call, (long long)i);
        }
    }
    return true;
}

bool tg_tensorboard_add_embedding(tg_tensorboard *log, const char *tag, const tg_tensor *table,
                                  const char *const *labels, int64_t label_count, int64_t step, tg_error *error)
{
    if (!check(log, tag, table, labels, label_count, step, error)) {
        return false;
    }
    char folder[LONGEST_TAG + 32], name[LONGEST_TAG + 32];
    snprintf(folder, sizeof folder, "%05lld/%s", (long long)step, tag);
    snprintf(name, sizeof name, "%s:%05lld", tag, (long long)step);
    size_t size = strlen(log->folder) + sizeof folder + 32;
    char *path = tg_alloc(size, 1);
    if (!path) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", call, log->folder);
    }
    snprintf(path, size, "%s/%s", log->folder, folder);
    bool is_written = tg_folder_make(call, path, error);
    if (is_written) {
        snprintf(path, size, "%s/%s/tensors.tsv", log->folder, folder);
        is_written = write_table(table, path, error);
    }
    if (is_written && labels) {
        snprintf(path, size, "%s/%s/metadata.tsv", log->folder, folder);
        is_written = write_labels(labels, label_count, path, error);
    }
    if (is_written) {
        snprintf(path, size, "%s/projector_config.pbtxt", log->folder);
        is_written = add_to_config(path, folder, name, labels != NULL, error);
    }
    tg_free(path);
    return is_written;
}
