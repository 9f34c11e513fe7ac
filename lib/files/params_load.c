#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "base/text.h"
#include "files/params_file.h"
#include "params/params.h"

TG_CONFIG(tg_params_load_config, tg_params_load_config_default, mark, .mark = mark, .strict = true,
          .max_header = TG_SAFETENSORS_HEADER);

/* ---- the report ---- */

/* Adds a line to the report. A line that does not fit is cut, and so are those after it. */
static void note(tg_load_report *report, const char *kind, const char *name, const char *rest)
{
    size_t used = strlen(report->text);
    if (used > 0 && used + 1 < sizeof report->text) {
        report->text[used++] = '\n';
    }
    const char *const parts[] = {kind, ": ", name, rest};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        used += tg_escape(report->text + used, sizeof report->text - used, parts[i]);
    }
}

/* Sets the error of a file that does not fit. */
static bool refuse(const char *name, const char *path, tg_code code, const tg_load_report *report, tg_error *error)
{
    char lines[TG_ERROR_TEXT];
    size_t used = 0;
    for (const char *c = report->text; *c && used + 2 < sizeof lines; c++) {
        if (*c == '\n') {
            lines[used++] = ';';
        }
        lines[used++] = *c == '\n' ? ' ' : *c;
    }
    lines[used] = '\0';
    return tg_error_set(error, code, "%s: '%s' does not fit: %lld missing, %lld unexpected, %lld mismatched; %s", name,
                        path, (long long)report->missing, (long long)report->unexpected, (long long)report->mismatched,
                        lines);
}

/* ---- comparing ---- */

/* Returns the array of entry `number`: that of its name, or of its oldest alias in the file; NULL if the file has
 * none. */
static const tg_array *array_of(const tg_params *params, const tg_safetensors *file, const char *prefix, int64_t number)
{
    const tg_array *found = tg_safetensors_find(file, prefix, tg_params_at(params, number).name);
    const tg_array *array = found;
    while (!found && (number = tg_params_next_alias(params, number)) >= 0) {
        const tg_array *of_alias = tg_safetensors_find(file, prefix, tg_params_at(params, number).name);
        array = of_alias ? of_alias : array;
    }
    return array;
}

static bool shape_fits(const tg_array *array, const tg_tensor *x, bool grown_rows)
{
    tg_shard shard = tg_shard_of(x);
    tg_shape here = tg_whole_shape(tg_shape_of(x), shard);
    if (grown_rows && shard.rows == 0 && here.rank > 0 && array->shape.rank == here.rank &&
        array->shape.size[0] < here.size[0]) {
        here.size[0] = array->shape.size[0];
    }
    return tg_shape_equal(array->shape, here);
}

/* Compares an array with its tensor. Returns TG_OK, or the code of the error, which is in the report. */
static tg_code compare(const tg_array *array, const char *name, const tg_tensor *x, const tg_params_load_config *config,
                       tg_load_report *report)
{
    bool dtype_fits = tg_stored_fits(array->dtype, tg_dtype_of(x), config->convert_floats);
    if (dtype_fits && shape_fits(array, x, config->grown_rows)) {
        report->loaded++;
        return TG_OK;
    }
    char rest[2 * TG_SHAPE_TEXT + 80];
    snprintf(rest, sizeof rest, " is %s %s in the file and %s %s here", tg_stored_name(array->dtype),
             tg_shape_text(array->shape).text, tg_dtype_name(tg_dtype_of(x)),
             tg_shape_text(tg_whole_shape(tg_shape_of(x), tg_shard_of(x))).text);
    note(report, "mismatched", name, rest);
    report->mismatched++;
    return dtype_fits ? TG_ERROR_SHAPE : TG_ERROR_DTYPE;
}

static void note_unexpected(const tg_params *params, const tg_safetensors *file, const char *prefix,
                            tg_load_report *report)
{
    size_t length = strlen(prefix);
    for (int64_t i = 0; i < tg_safetensors_count(file); i++) {
        const char *name = tg_safetensors_at(file, i)->name;
        if (strncmp(name, prefix, length) == 0 && !tg_params_find(params, name + length)) {
            note(report, "unexpected", name, "");
            report->unexpected++;
        }
    }
}

/* Fills the report. Returns TG_OK, or the code of the first mismatch. */
static tg_code compare_all(const tg_params *params, const tg_safetensors *file, const char *prefix,
                           const tg_params_load_config *config, tg_load_report *report)
{
    tg_code first = TG_OK;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_ALIAS) {
            continue;
        }
        const tg_array *array = array_of(params, file, prefix, i);
        if (!array) {
            note(report, "missing", entry.name, "");
            report->missing++;
            continue;
        }
        tg_code code = compare(array, entry.name, entry.tensor, config, report);
        first = first == TG_OK ? code : first;
    }
    note_unexpected(params, file, prefix, report);
    return first;
}

/* ---- reading ---- */

bool tg_params_read_from_file(const tg_params *params, const char *name, const tg_safetensors *file, const char *path,
                              const tg_params_load_config *config, tg_pending *pending, tg_error *error)
{
    const char *prefix = config->prefix ? config->prefix : "";
    tg_load_report unused, *report = config->report ? config->report : &unused;
    memset(report, 0, sizeof *report);
    tg_code code = compare_all(params, file, prefix, config, report);
    if (code != TG_OK || (config->strict && (report->missing > 0 || report->unexpected > 0))) {
        return refuse(name, path, code != TG_OK ? code : TG_ERROR_VALUE, report, error);
    }
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        const tg_array *array = entry.kind == TG_ENTRY_ALIAS ? NULL : array_of(params, file, prefix, i);
        tg_tensor *x = entry.tensor;
        bool becomes_bf16 = array && config->keep_bf16 && array->dtype == TG_STORED_BF16 && x->dtype == TG_F32 &&
                            entry.kind == TG_ENTRY_PARAMETER && !x->requires_grad && x->rank == 2 &&
                            array->shape.size[0] == tg_whole_shape(tg_shape_of(x), tg_shard_of(x)).size[0];
        if (array &&
            !(becomes_bf16 ? tg_pending_read_bf16 : tg_pending_read)(pending, name, array, x, tg_shard_of(x), error)) {
            return false;
        }
    }
    return true;
}

static bool check_load(const char *call, const tg_params *params, const tg_params_load_config *config, tg_error *error)
{
    if (!tg_config_check(call, config, mark, error) || !tg_params_check(call, params, error)) {
        return false;
    }
    if (config && (config->max_header < 1 || config->max_header > TG_SAFETENSORS_MAX_HEADER)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: max_header is %lld; it must be 1 to %lld", call,
                            (long long)config->max_header, (long long)TG_SAFETENSORS_MAX_HEADER);
    }
    if (config && config->report) {
        memset(config->report, 0, sizeof *config->report);
    }
    return true;
}

/* Loads from a file, or from bytes if `path` is NULL. */
static bool load(const char *call, tg_params *params, const char *path, const char *bytes, int64_t size,
                 const tg_params_load_config *given, tg_error *error)
{
    if (!check_load(call, params, given, error)) {
        return false;
    }
    tg_params_load_config config = given ? *given : tg_params_load_config_default();
    tg_pending pending = {NULL, 0, 0};
    tg_safetensors *file = path ? tg_safetensors_open(call, path, config.max_header, error)
                                : tg_safetensors_open_bytes(call, bytes, (uint64_t)size, config.max_header, error);
    bool is_read =
        file && tg_params_read_from_file(params, call, file, path ? path : "bytes", &config, &pending, error);
    tg_safetensors_close(file);
    tg_pending_end(&pending, is_read);
    return is_read;
}

bool tg_params_load(tg_params *params, const char *path, const tg_params_load_config *config, tg_error *error)
{
    static const char call[] = "params_load";
    if (!params || !path) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, params ? "path is" : "params are");
    }
    return load(call, params, path, NULL, 0, config, error);
}

bool tg_params_load_bytes(tg_params *params, const char *bytes, int64_t size, const tg_params_load_config *config,
                          tg_error *error)
{
    static const char call[] = "params_load_bytes";
    if (!params || !bytes) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, params ? "bytes are" : "params are");
    }
    if (size < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %lld bytes; it must be 0 or more", call, (long long)size);
    }
    return load(call, params, NULL, bytes, size, config, error);
}
