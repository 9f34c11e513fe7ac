/* safetensors: the reader. */
#include "files/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"
#include "files/safetensors_header.h"
#include "system/system.h"

/* One file. The names of its tensors and its metadata are in `text`. */
typedef struct file_part {
    tg_file file;
    char *path, *text;
    tg_metadata_list metadata;
} file_part;

struct tg_safetensors {
    file_part *parts;
    size_t count, capacity;
    tg_entry_list list; /* the tensors of all files, sorted by name */
};

static bool no_memory(const char *call, const char *path, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", call, path);
}

/* ---- one file ---- */

/* Reads the length of the header and checks it. */
static bool read_length(const tg_file *file, int64_t max_header, size_t *length, tg_error *error)
{
    unsigned char bytes[8];
    if (file->size < 8) {
        return tg_error_set(
            error, TG_ERROR_FORMAT,
            "%s: '%s', byte 0: this is not a safetensors file: the file has %llu bytes; a header has at least 8",
            file->call, file->path, (unsigned long long)file->size);
    }
    if (!tg_file_read(file, 0, bytes, sizeof bytes, error)) {
        return false;
    }
    uint64_t n = tg_number_of_bytes(bytes, 8);
    if (n > file->size - 8) {
        return tg_error_set(error, TG_ERROR_FORMAT,
                            "%s: '%s', byte 0: this is not a safetensors file: a header of %llu bytes; the file has "
                            "%llu after its length",
                            file->call, file->path, (unsigned long long)n, (unsigned long long)(file->size - 8));
    }
    if (n > (uint64_t)max_header) {
        return tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s', byte 0: a header of %llu bytes; at most %lld are read",
                            file->call, file->path, (unsigned long long)n, (long long)max_header);
    }
    *length = (size_t)n;
    return true;
}

/* Adds a part for the file at `path`, which it takes over, and reads its header. If `memory` is not NULL, the part is
 * that file in memory. */
static bool add_part(tg_safetensors *f, const char *call, char *path, const tg_file *memory, int64_t max_header,
                     tg_error *error)
{
    if (!path || !tg_grow(&f->parts, &f->capacity, f->count, f->count + 1, sizeof *f->parts)) {
        no_memory(call, path ? path : "", error);
        tg_free(path);
        return false;
    }
    file_part *p = &f->parts[f->count];
    *p = (file_part){.path = path};
    size_t length = 0;
    if (memory) {
        tg_file_open_bytes(&p->file, call, path, memory->bytes, memory->size);
    } else if (!tg_file_open(&p->file, call, path, error)) {
        tg_free(path);
        return false;
    }
    f->count++;
    if (!read_length(&p->file, max_header, &length, error)) {
        return false;
    }
    p->text = tg_alloc(length + 1, 1);
    if (!p->text) {
        return no_memory(call, path, error);
    }
    tg_json j = {.call = call, .path = path, .text = p->text, .length = length, .offset = 8, .error = error};
    return tg_file_read(&p->file, 8, p->text, length, error) &&
           tg_safetensors_parse(&j, p->file.size - 8 - length, (int32_t)(f->count - 1), &f->list, &p->metadata);
}

/* ---- the index of a sharded model ---- */

/* One line of the weight map: a tensor, and the part that must have it. */
typedef struct mapping {
    const char *name;
    size_t at;
    size_t part;
} mapping;

typedef struct mapping_list {
    mapping *lines;
    size_t count, capacity;
} mapping_list;

/* Finds or opens the part with a file's name, which is in the folder of the index. */
static bool find_part(tg_safetensors *f, const tg_json *j, const char *name, int64_t max_header, size_t *found)
{
    const char *slash = strrchr(j->path, '/');
    size_t folder = slash ? (size_t)(slash - j->path) + 1 : 0;
    for (*found = 0; *found < f->count; ++*found) {
        if (strcmp(f->parts[*found].path + folder, name) == 0) {
            return true;
        }
    }
    return add_part(f, j->call, tg_path_join(j->path, folder, name), NULL, max_header, j->error);
}

static bool parse_weight_map(tg_safetensors *f, tg_json *j, int64_t max_header, mapping_list *list)
{
    size_t members = 0;
    tg_json_text name, shard;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &members, &name)) {
        if (!tg_json_string(j, &shard)) {
            return false;
        }
        if (!*shard.text || strchr(shard.text, '/') || strcmp(shard.text, ".") == 0 || strcmp(shard.text, "..") == 0) {
            return tg_json_fail(j, shard.at, "'%.*s' is not the name of a file in the same folder",
                                TG_CUT(shard.text, 100));
        }
        if (!tg_grow(&list->lines, &list->capacity, list->count, list->count + 1, sizeof *list->lines)) {
            return no_memory(j->call, j->path, j->error);
        }
        mapping *line = &list->lines[list->count++];
        *line = (mapping){name.text, name.at, 0};
        if (!find_part(f, j, shard.text, max_header, &line->part)) {
            return false;
        }
    }
    return !j->failed;
}

static bool parse_index(tg_safetensors *f, tg_json *j, int64_t max_header, mapping_list *list)
{
    size_t members = 0;
    tg_json_text key;
    bool has_map = false;
    if (!tg_json_check_utf8(j) || !tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &members, &key)) {
        bool is_map = strcmp(key.text, "weight_map") == 0;
        if (is_map && has_map) {
            return tg_json_fail(j, key.at, "'weight_map' is given twice");
        }
        has_map = has_map || is_map;
        if (!(is_map ? parse_weight_map(f, j, max_header, list) : tg_json_skip(j))) {
            return false;
        }
    }
    return !j->failed && tg_json_end(j) && (has_map || tg_json_fail(j, 0, "the index has no 'weight_map'"));
}

/* ---- names ---- */

/* Sorts the tensors of all parts by name, and sets their files. Two parts must not have one name. */
static bool sort(tg_safetensors *f, const char *call, const char *path, tg_error *error)
{
    tg_safetensors_entry *entries = f->list.entries;
    size_t again = tg_sort_by_name(entries, f->list.count, sizeof *entries);
    for (size_t i = 0; i < f->list.count; i++) {
        entries[i].array.file = &f->parts[entries[i].part].file;
    }
    if (again == 0) {
        return true;
    }
    int32_t a = entries[again - 1].part, b = entries[again].part;
    return tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s': '%.*s' is in two files, '%.*s' and '%.*s'", call, path,
                        TG_CUT(entries[again].array.name, 100), TG_CUT(f->parts[a < b ? a : b].path, 60),
                        TG_CUT(f->parts[a < b ? b : a].path, 60));
}

static bool check_mappings(const tg_safetensors *f, tg_json *j, const mapping_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const mapping *line = &list->lines[i];
        const tg_array *array = tg_safetensors_find(f, "", line->name);
        if (!array || array->file != &f->parts[line->part].file) {
            return tg_json_fail(j, line->at, "'%.*s' is not in '%.*s'", TG_CUT(line->name, 100),
                                TG_CUT(f->parts[line->part].path, 100));
        }
    }
    return true;
}

static bool open_index(tg_safetensors *f, const char *call, const char *path, int64_t max_header, tg_error *error)
{
    const uint64_t size = tg_system_status(path).size;
    if (size > (uint64_t)max_header) {
        return tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s', byte 0: an index of %llu bytes; at most %lld are read",
                            call, path, (unsigned long long)size, (long long)max_header);
    }
    tg_json j = {.call = call, .path = path, .error = error};
    j.text = tg_file_read_text(call, path, &j.length, error);
    mapping_list list = {NULL, 0, 0};
    bool is_open =
        j.text && parse_index(f, &j, max_header, &list) && sort(f, call, path, error) && check_mappings(f, &j, &list);
    tg_free(list.lines);
    tg_free(j.text);
    return is_open;
}

/* ---- the interface ---- */

/* Opens the file at `path`, or, if `memory` is not NULL, the one in memory. */
static tg_safetensors *open_file(const char *call, const char *path, const tg_file *memory, int64_t max_header,
                                 tg_error *error)
{
    tg_safetensors *f = tg_alloc_zeroed(1, sizeof *f);
    if (!f) {
        no_memory(call, path, error);
        return NULL;
    }
    bool is_open =
        !memory && tg_ends_with(path, ".index.json")
            ? open_index(f, call, path, max_header, error)
            : add_part(f, call, tg_path_join("", 0, path), memory, max_header, error) && sort(f, call, path, error);
    if (!is_open) {
        tg_safetensors_close(f);
        return NULL;
    }
    return f;
}

tg_safetensors *tg_safetensors_open(const char *call, const char *path, int64_t max_header, tg_error *error)
{
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the path is NULL", call);
        return NULL;
    }
    return open_file(call, path, NULL, max_header, error);
}

tg_safetensors *tg_safetensors_open_bytes(const char *call, const char *bytes, uint64_t size, int64_t max_header,
                                          tg_error *error)
{
    tg_file memory;
    tg_file_open_bytes(&memory, call, "bytes", bytes, size);
    return open_file(call, memory.path, &memory, max_header, error);
}

void tg_safetensors_close(tg_safetensors *f)
{
    if (!f) {
        return;
    }
    for (size_t i = 0; i < f->count; i++) {
        tg_file_close(&f->parts[i].file);
        tg_free(f->parts[i].metadata.pairs);
        tg_free(f->parts[i].text);
        tg_free(f->parts[i].path);
    }
    tg_free(f->parts);
    tg_free(f->list.entries);
    tg_free(f);
}

int64_t tg_safetensors_count(const tg_safetensors *f)
{
    return f ? (int64_t)f->list.count : 0;
}

const tg_array *tg_safetensors_at(const tg_safetensors *f, int64_t index)
{
    return index >= 0 && index < tg_safetensors_count(f) ? &f->list.entries[index].array : NULL;
}

const tg_array *tg_safetensors_find(const tg_safetensors *f, const char *prefix, const char *name)
{
    return tg_find_by_name(f->list.entries, f->list.count, sizeof *f->list.entries, prefix, name);
}

const char *tg_safetensors_metadata(const tg_safetensors *f, const char *key)
{
    const tg_metadata_list none = {NULL, 0, 0}, *list = f->count ? &f->parts[0].metadata : &none;
    const tg_metadata *pair = tg_find_by_name(list->pairs, list->count, sizeof *list->pairs, "", key);
    return pair ? pair->value : NULL;
}

tg_tensor *tg_tensor_new_from_safetensors(const char *path, const char *name, tg_error *error)
{
    static const char call[] = "tensor_new_from_safetensors";
    if (!name) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the name is NULL", call);
        return NULL;
    }
    tg_safetensors *f = tg_safetensors_open(call, path, TG_SAFETENSORS_HEADER, error);
    const tg_array *array = f ? tg_safetensors_find(f, "", name) : NULL;
    if (f && !array) {
        tg_error_set(error, TG_ERROR_RANGE, "%s: '%s' has no tensor '%.*s'", call, path, TG_CUT(name, 100));
    }
    tg_tensor *x = array ? tg_array_read_new(array, error) : NULL;
    tg_safetensors_close(f);
    return x;
}
