/* projector: the files of TensorBoard's embedding projector.
 *
 * STEP/TAG/tensors.tsv has one row per line, its values separated by tabs. metadata.tsv has one label per line and no
 * header, because the projector takes a header only if the first line has a tab. projector_config.pbtxt lists the
 * tables of the run, one block "embeddings { .. }" each. The formats are those of torch.utils.tensorboard.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "system/system.h"
#include "tools/tensorboard.h"

static const char call[] = "tensorboard_add_embedding";

/* A table's text is written in portions of at least this many bytes. */
#define ROWS_PORTION 8192

static bool out_of_memory(const char *path, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", call, path);
}

/* Replaces a file by a text, and frees the text. */
static bool write_text(const char *path, tg_text_buffer *text, tg_error *error)
{
    bool is_written =
        text->failed ? out_of_memory(path, error) : tg_file_replace(call, path, text->bytes, text->length, error);
    tg_free(text->bytes);
    return is_written;
}

/* ---- tensors.tsv ---- */

/* Writes the values of a row and those of the next rows until they are a portion. Returns the row after them, or -1. */
static int64_t write_rows(tg_file_writer *file, const tg_tensor *table, int64_t row, tg_text_buffer *text,
                          tg_error *error)
{
    int64_t rows = tg_tensor_size(table, 0), width = tg_tensor_size(table, 1);
    bool is_f32 = tg_tensor_dtype(table) == TG_F32;
    for (text->length = 0; row < rows && text->length < ROWS_PORTION && !text->failed; row++) {
        for (int64_t i = 0; i < width; i++) {
            double value = tg_tensor_value_at(table, row * width + i);
            if (!isfinite(value)) {
                tg_error_set(error, TG_ERROR_VALUE, "%s: the value %g at [%lld,%lld] is not finite", call, value,
                             (long long)row, (long long)i);
                return -1;
            }
            char number[TG_NUMBER_TEXT];
            tg_text_add(text, tg_format_number(value, is_f32 ? 9 : 17, number));
            tg_text_add(text, i + 1 < width ? "\t" : "\n");
        }
    }
    if (text->failed) {
        out_of_memory(file->path, error);
        return -1;
    }
    return tg_file_writer_write(file, text->bytes, text->length, error) ? row : -1;
}

static bool write_table(const tg_tensor *table, const char *path, tg_error *error)
{
    int64_t row = 0, rows = tg_tensor_size(table, 1) > 0 ? tg_tensor_size(table, 0) : 0;
    tg_file_writer file;
    if (!tg_file_writer_begin(&file, call, path, error)) {
        return false;
    }
    tg_text_buffer text = {0};
    while (row >= 0 && row < rows) {
        row = write_rows(&file, table, row, &text, error);
    }
    tg_free(text.bytes);
    if (row < 0) {
        tg_file_writer_abandon(&file);
        return false;
    }
    return tg_file_writer_commit(&file, error);
}

/* ---- metadata.tsv ---- */

/* Adds a label, escaped by tg_escape, which writes at most four bytes for one. */
static void add_label(tg_text_buffer *out, const char *label)
{
    const char *quote = label[strspn(label, " ")] == '\0' ? "\"" : "";
    size_t most = 4 * strlen(label) + 1;
    tg_text_add(out, quote);
    out->failed = out->failed || !tg_grow(&out->bytes, &out->capacity, out->length, out->length + most, 1);
    out->length += out->failed ? 0 : tg_escape(out->bytes + out->length, most, label);
    tg_text_add(out, quote);
    tg_text_add(out, "\n");
}

static bool write_labels(const char *const *labels, int64_t count, const char *path, tg_error *error)
{
    tg_text_buffer text = {0};
    for (int64_t i = 0; i < count; i++) {
        add_label(&text, labels[i]);
    }
    return write_text(path, &text, error);
}

/* ---- projector_config.pbtxt ---- */

/* Adds the block of a table to the file, unless the file has it. */
static bool add_to_config(const char *path, const char *folder, const char *name, bool has_labels, tg_error *error)
{
    char mark[600];
    snprintf(mark, sizeof mark, "tensor_name: \"%s\"\n", name);
    bool exists = tg_system_status(path).kind != TG_PATH_NONE;
    size_t length = 0;
    char *old = exists ? tg_file_read_text(call, path, &length, error) : NULL;
    if (exists && !old) {
        return false;
    }
    tg_text_buffer text = {0};
    tg_text_add_bytes(&text, old ? old : "", length);
    bool has_block = old && strstr(old, mark);
    tg_free(old);
    if (has_block) {
        tg_free(text.bytes);
        return true;
    }
    tg_text_add_format(&text, "embeddings {\n%stensor_path: \"%s/tensors.tsv\"\n", mark, folder);
    tg_text_add_format(&text, has_labels ? "metadata_path: \"%s/metadata.tsv\"\n}\n" : "}\n", folder);
    return write_text(path, &text, error);
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
