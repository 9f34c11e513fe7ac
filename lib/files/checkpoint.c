/* checkpoint: saves and loads a list of parts. The functions that return a part, and the kinds of parts, are in
 * checkpoint_parts.c, checkpoint_optim.c and checkpoint_values.c. */
#include "files/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

const char tg_save_call[] = "checkpoint_save", tg_load_call[] = "checkpoint_load";

/* ---- for the kinds of parts ---- */

const char *tg_part_name(const tg_checkpoint_part *part, const char *text, char out[TG_PART_NAME])
{
    snprintf(out, TG_PART_NAME, "%s%s", part->name, text);
    return out;
}

bool tg_saving_add_rows(tg_safetensors_writer *writer, const char *prefix, const char *name, tg_dtype dtype,
                        tg_shape shape, tg_shard shard, const void *values, tg_error *error)
{
    tg_tensor *x = tg_tensor_new_from(dtype, shape, values, error);
    bool is_added = x && tg_safetensors_add(writer, prefix, name, x, shard, TG_SAVE_FLOATS_KEEP, error);
    tg_release(x);
    return is_added;
}

bool tg_saving_add(tg_safetensors_writer *writer, const char *prefix, const char *name, tg_dtype dtype, tg_shape shape,
                   const void *values, tg_error *error)
{
    return tg_saving_add_rows(writer, prefix, name, dtype, shape, (tg_shard){0, 0}, values, error);
}

bool tg_saving_add_integer(tg_safetensors_writer *writer, const char *prefix, const char *name, int64_t value,
                           tg_error *error)
{
    char key[TG_PART_NAME], text[32];
    /* a prefix is shorter (check_part), but gcc would warn */
    snprintf(key, sizeof key, "%.*s%s", TG_PART_NAME - 64, prefix, name);
    snprintf(text, sizeof text, "%" PRId64, value);
    return tg_safetensors_add_metadata(writer, "", key, text, error);
}

bool tg_loading_refuse(const tg_loading *loading, tg_error *error, const char *format, ...)
{
    char text[TG_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tg_error_set(error, TG_ERROR_VALUE, "%s: '%.*s' does not fit: %s", tg_load_call, TG_CUT(loading->path, 200),
                        text);
}

void *tg_loading_replace(tg_loading *loading, const tg_checkpoint_part *part, void *to, size_t bytes, tg_error *error)
{
    return tg_pending_add(&loading->values, tg_load_call, part->name, to, bytes, NULL, error);
}

const tg_array *tg_loading_find(const tg_loading *loading, const char *prefix, const char *name, tg_dtype dtype,
                                tg_shape shape, tg_error *error)
{
    const tg_array *array = tg_safetensors_find(loading->file, prefix, name);
    if (!array) {
        tg_loading_refuse(loading, error, "the tensor '%s%s' is missing", prefix, name);
        return NULL;
    }
    if (!tg_stored_fits(array->dtype, dtype, false) || !tg_shape_equal(array->shape, shape)) {
        tg_loading_refuse(loading, error, "'%s%s' is %s %s in the file and %s %s here", prefix, name,
                          tg_stored_name(array->dtype), tg_shape_text(array->shape).text, tg_dtype_name(dtype),
                          tg_shape_text(shape).text);
        return NULL;
    }
    return array;
}

bool tg_loading_read_rows(const tg_loading *loading, const char *prefix, const char *name, tg_dtype dtype,
                          tg_shape shape, tg_shard shard, void *out, tg_error *error)
{
    const tg_array *array = tg_loading_find(loading, prefix, name, dtype, tg_whole_shape(shape, shard), error);
    return array && tg_array_read_rows(array, shard, shape.size[0], out, dtype, error);
}

bool tg_loading_read(const tg_loading *loading, const char *prefix, const char *name, tg_dtype dtype, tg_shape shape,
                     void *out, tg_error *error)
{
    return tg_loading_read_rows(loading, prefix, name, dtype, shape, (tg_shard){0, 0}, out, error);
}

/* Reads a whole text as an integer; strtoll alone would accept spaces and a '+'. */
static bool parse_integer(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long read = strtoll(text, &end, 10);
    *value = read;
    return ((*text >= '0' && *text <= '9') || *text == '-') && *end == '\0' && end > text && errno == 0;
}

bool tg_loading_read_integer(const tg_loading *loading, const char *prefix, const char *name, int64_t *value,
                             tg_error *error)
{
    char key[TG_PART_NAME];
    snprintf(key, sizeof key, "%s%s", prefix, name);
    const char *text = tg_safetensors_metadata(loading->file, key);
    if (!text) {
        return tg_loading_refuse(loading, error, "the metadata has no '%s'", key);
    }
    return parse_integer(text, value) ||
           tg_loading_refuse(loading, error, "'%s' is \"%.*s\" in the metadata; it must be an integer of 64 bits", key,
                             TG_CUT(text, 40));
}

bool tg_is_count(double number)
{
    return number >= 0 && number <= 9007199254740992 && number == floor(number);
}

int64_t tg_loading_count(const tg_loading *loading, const char *prefix)
{
    int64_t found = 0;
    size_t length = strlen(prefix);
    for (int64_t i = 0; i < tg_safetensors_count(loading->file); i++) {
        found += strncmp(tg_safetensors_at(loading->file, i)->name, prefix, length) == 0;
    }
    return found;
}

/* ---- lists of parts ---- */

static bool check_part(const char *call, const tg_checkpoint_part *part, int64_t index, tg_error *error)
{
    if (!part->kind) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: part %lld is not the result of a function such as tg_checkpoint_params()", call,
                            (long long)index);
    }
    /* the longest suffix of a part's name is shorter than half of TG_PART_NAME */
    if (!part->name || !*part->name || strlen(part->name) >= TG_PART_NAME / 2) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: the name of part %lld has %lld characters; it must have 1 to %d", call,
                            (long long)index, part->name ? (long long)strlen(part->name) : 0, TG_PART_NAME / 2 - 1);
    }
    if (part->kind->object && !part->object) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s of part '%s' is NULL", call, part->kind->object,
                            part->name);
    }
    return part->size >= 0 ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: part '%s' has %lld bytes", call, part->name, (long long)part->size);
}

/* Checks that no two parts have the same name. */
static bool check_names(const char *call, const tg_checkpoint_part *parts, int64_t count, tg_error *error)
{
    int32_t *slots = NULL;
    size_t slot_count = 0;
    bool is_new,
        is_good = (count <= INT32_MAX && tg_slots_reserve(&slots, &slot_count, (size_t)count, &is_new)) ||
                  tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld parts", call, (long long)count);
    for (int32_t i = 0; is_good && i < count; i++) {
        const char *name = parts[i].name;
        size_t slot = tg_hash_bytes(name, strlen(name)) & (slot_count - 1);
        for (; is_good && slots[slot] >= 0; slot = (slot + 1) & (slot_count - 1)) {
            is_good = strcmp(parts[slots[slot]].name, name) != 0 ||
                      tg_error_set(error, TG_ERROR_VALUE, "%s: parts %d and %d are both named '%s'", call,
                                   (int)slots[slot], (int)i, name);
        }
        slots[slot] = i;
    }
    tg_free(slots);
    return is_good;
}

static bool check_parts(const char *call, const char *path, const tg_checkpoint_part *parts, int64_t count,
                        tg_error *error)
{
    if (!path || (!parts && count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, path ? "array of parts is" : "path is");
    }
    if (count < 1) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %lld parts; at least 1 is needed", call, (long long)count);
    }
    for (int64_t i = 0; i < count; i++) {
        if (!check_part(call, &parts[i], i, error)) {
            return false;
        }
    }
    return check_names(call, parts, count, error);
}

bool tg_checkpoint_save_together(const char *path, const tg_checkpoint_part *parts, int64_t count,
                                 const tg_checkpoint_group *group, tg_error *error)
{
    if (!tg_group_check(tg_save_call, group, error)) {
        return false;
    }
    tg_error local = TG_NO_ERROR;
    tg_safetensors_writer *writer = NULL;
    bool is_added = check_parts(tg_save_call, path, parts, count, &local) &&
                    (writer = tg_safetensors_writer_new(tg_save_call, &local)) &&
                    tg_safetensors_add_metadata(writer, "", "format", "pt", &local);
    for (int64_t i = 0; is_added && i < count; i++) {
        is_added = parts[i].kind->add(writer, &parts[i], &local);
    }
    bool is_saved = tg_group_agree(group, &local, error) && tg_safetensors_write_together(writer, path, group, error);
    tg_safetensors_writer_free(writer);
    return is_saved;
}

bool tg_checkpoint_save(const char *path, const tg_checkpoint_part *parts, int64_t count, tg_error *error)
{
    return tg_checkpoint_save_together(path, parts, count, NULL, error);
}

bool tg_checkpoint_load_together(const char *path, const tg_checkpoint_part *parts, int64_t count,
                                 const tg_checkpoint_group *group, tg_error *error)
{
    if (!tg_group_check(tg_load_call, group, error)) {
        return false;
    }
    tg_error local = TG_NO_ERROR;
    tg_loading loading = {.path = path};
    if (check_parts(tg_load_call, path, parts, count, &local)) {
        loading.file = tg_safetensors_open(tg_load_call, path, TG_SAFETENSORS_HEADER, &local);
    }
    bool is_ready = loading.file;
    for (int64_t i = 0; is_ready && i < count; i++) {
        is_ready = !parts[i].kind->prepare || parts[i].kind->prepare(&loading, &parts[i], &local);
    }
    is_ready = tg_group_agree(group, &local, error);
    tg_pending_end(&loading.values, is_ready);
    tg_safetensors_close(loading.file);
    return is_ready;
}

bool tg_checkpoint_load(const char *path, const tg_checkpoint_part *parts, int64_t count, tg_error *error)
{
    return tg_checkpoint_load_together(path, parts, count, NULL, error);
}

/* ---- single parts ---- */

static tg_safetensors *open_for(const char *call, const char *path, const char *name, tg_error *error)
{
    if (!path || !name) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, path ? "name" : "path");
        return NULL;
    }
    return tg_safetensors_open(call, path, TG_SAFETENSORS_HEADER, error);
}

char *tg_checkpoint_read_text(const char *path, const char *name, tg_error *error)
{
    static const char call[] = "checkpoint_read_text";
    tg_safetensors *file = open_for(call, path, name, error);
    if (!file) {
        return NULL;
    }
    const char *text = tg_safetensors_metadata(file, name);
    char *copy = text ? tg_alloc(strlen(text) + 1, 1) : NULL;
    if (copy) {
        memcpy(copy, text, strlen(text) + 1);
    } else if (text) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    } else {
        tg_error_set(error, TG_ERROR_VALUE, "%s: the metadata of '%.*s' has no '%.*s'", call, TG_CUT(path, 200),
                     TG_CUT(name, 100));
    }
    tg_safetensors_close(file);
    return copy;
}

char *tg_checkpoint_read_bytes(const char *path, const char *name, int64_t *size, tg_error *error)
{
    static const char call[] = "checkpoint_read_bytes";
    tg_safetensors *file = open_for(call, path, name, error);
    if (!file) {
        return NULL;
    }
    const tg_array *array = tg_safetensors_find(file, "", name);
    int64_t count = array ? tg_shape_count(array->shape) : 0;
    char *bytes = NULL;
    if (!array || array->dtype != TG_STORED_U8 || array->shape.rank != 1) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: '%.*s' has no tensor '%.*s' of bytes", call, TG_CUT(path, 200),
                     TG_CUT(name, 100));
    } else if (!(bytes = tg_alloc((uint64_t)count + 1, 1))) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld bytes", call, (long long)count);
    } else if (!tg_array_read(array, bytes, TG_U8, error)) {
        tg_free(bytes);
        bytes = NULL;
    } else {
        bytes[count] = '\0';
        if (size) {
            *size = count;
        }
    }
    tg_safetensors_close(file);
    return bytes;
}
