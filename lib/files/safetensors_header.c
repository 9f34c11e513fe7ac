#include "files/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- names ---- */

static int compare_names(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int order = strcmp(x, y);
    return order ? order : (x > y) - (x < y);
}

size_t tg_sort_by_name(void *structs, size_t count, size_t size)
{
    const char *names = structs;
    if (count > 0) {
        qsort(structs, count, size, compare_names);
    }
    for (size_t i = 1; i < count; i++) {
        if (strcmp(*(const char *const *)(names + (i - 1) * size), *(const char *const *)(names + i * size)) == 0) {
            return i;
        }
    }
    return 0;
}

const void *tg_find_by_name(const void *structs, size_t count, size_t size, const char *prefix, const char *name)
{
    size_t first = 0, end = count, length = strlen(prefix);
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const char *const *found = (const void *)((const char *)structs + middle * size);
        int order = strncmp(*found, prefix, length);
        order = order ? order : strcmp(*found + length, name);
        if (order == 0) {
            return found;
        }
        first = order < 0 ? middle + 1 : first;
        end = order < 0 ? end : middle;
    }
    return NULL;
}

/* ---- one tensor ---- */

static bool parse_dtype(tg_json *j, tg_array *array)
{
    tg_json_text name;
    if (!tg_json_string(j, &name)) {
        return false;
    }
    array->dtype = tg_stored_from_name(name.text);
    return array->dtype != TG_STORED_COUNT || tg_json_fail(j, name.at, "unknown dtype '%.*s'", TG_CUT(name.text, 40));
}

/* Reads an array of at most `most` whole numbers, and sets its position. *count is larger if it has more. */
static bool parse_numbers(tg_json *j, int64_t *numbers, size_t most, size_t *count, size_t *at)
{
    tg_json_next(j);
    *at = j->at;
    *count = 0;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', count)) {
        if (*count > most) {
            return true;
        }
        if (!tg_json_uint(j, &numbers[*count - 1])) {
            return false;
        }
    }
    return !j->failed;
}

static bool parse_shape(tg_json *j, tg_array *array)
{
    size_t rank, at;
    if (!parse_numbers(j, array->shape.size, TG_MAX_RANK, &rank, &at)) {
        return false;
    }
    array->shape.rank = (int)rank;
    return rank <= TG_MAX_RANK || tg_json_fail(j, at, "a rank above %d", TG_MAX_RANK);
}

/* Reads [begin,end]. */
static bool parse_offsets(tg_json *j, tg_safetensors_entry *entry)
{
    int64_t offsets[2] = {0, 0};
    size_t count, at;
    if (!parse_numbers(j, offsets, 2, &count, &at)) {
        return false;
    }
    if (count != 2) {
        return tg_json_fail(j, at, "data_offsets must be two numbers");
    }
    entry->array.offset = (uint64_t)offsets[0];
    entry->bytes = (uint64_t)(offsets[1] - offsets[0]);
    return offsets[1] >= offsets[0] || tg_json_fail(j, at, "data_offsets [%lld,%lld] end before they begin",
                                                    (long long)offsets[0], (long long)offsets[1]);
}

/* Checks that the shape and the dtype need exactly the bytes between the offsets. */
static bool check_bytes(tg_json *j, size_t at, const tg_safetensors_entry *entry)
{
    int64_t count = tg_shape_count(entry->array.shape);
    uint64_t bits;
    if (count < 0 || __builtin_mul_overflow((uint64_t)count, (uint64_t)tg_stored_bits(entry->array.dtype), &bits)) {
        return tg_json_fail(j, at, "'%.*s' has the shape %s, which is larger than any file",
                            TG_CUT(entry->array.name, 100), tg_shape_text(entry->array.shape).text);
    }
    if (bits % 8 != 0) {
        return tg_json_fail(j, at, "'%.*s' has %llu bits, which is not a multiple of 8", TG_CUT(entry->array.name, 100),
                            (unsigned long long)bits);
    }
    return bits / 8 == entry->bytes ||
           tg_json_fail(j, at, "'%.*s' has %llu bytes between its data_offsets; %s %s needs %llu",
                        TG_CUT(entry->array.name, 100), (unsigned long long)entry->bytes,
                        tg_stored_name(entry->array.dtype), tg_shape_text(entry->array.shape).text,
                        (unsigned long long)(bits / 8));
}

/* Parses {"dtype":..,"shape":..,"data_offsets":..}, in any order. Other members are skipped, as the reference does. */
static bool parse_tensor(tg_json *j, size_t at, tg_safetensors_entry *entry)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    bool found[3] = {false, false, false};
    size_t count = 0;
    tg_json_text key;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &count, &key)) {
        int field = 0;
        while (field < 3 && strcmp(key.text, names[field]) != 0) {
            field++;
        }
        if (field < 3 && found[field]) {
            return tg_json_fail(j, key.at, "'%s' is given twice", names[field]);
        }
        bool is_parsed = field == 0   ? parse_dtype(j, &entry->array)
                         : field == 1 ? parse_shape(j, &entry->array)
                         : field == 2 ? parse_offsets(j, entry)
                                      : tg_json_skip(j);
        if (!is_parsed) {
            return false;
        }
        if (field < 3) {
            found[field] = true;
        }
    }
    for (int field = 0; !j->failed && field < 3; field++) {
        if (!found[field]) {
            return tg_json_fail(j, at, "'%.*s' has no %s", TG_CUT(entry->array.name, 100), names[field]);
        }
    }
    return !j->failed && check_bytes(j, at, entry);
}

/* ---- the metadata ---- */

/* Parses an object of texts, or null. */
static bool parse_metadata(tg_json *j, tg_metadata_list *list)
{
    size_t count = 0;
    tg_json_text key, value;
    if (tg_json_word(j, "null")) {
        return true;
    }
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &count, &key)) {
        if (!tg_json_string(j, &value)) {
            return false;
        }
        if (!tg_grow(&list->pairs, &list->capacity, list->count, list->count + 1, sizeof *list->pairs)) {
            j->failed = true;
            return tg_error_set(j->error, TG_ERROR_MEMORY, "%s: '%s': out of memory", j->call, j->path);
        }
        list->pairs[list->count++] = (tg_metadata){key.text, value.text};
    }
    if (j->failed) {
        return false;
    }
    size_t again = tg_sort_by_name(list->pairs, list->count, sizeof *list->pairs);
    return again == 0 || tg_json_fail(j, (size_t)(list->pairs[again].key - j->text) - 1,
                                      "two metadata have the key '%.*s'", TG_CUT(list->pairs[again].key, 100));
}

/* ---- all tensors ---- */

static bool add_tensor(tg_json *j, const tg_json_text *name, int32_t part, tg_entry_list *list)
{
    tg_safetensors_entry entry = {.array = {.name = name->text}, .part = part};
    if (!parse_tensor(j, name->at, &entry)) {
        return false;
    }
    if (!tg_grow(&list->entries, &list->capacity, list->count, list->count + 1, sizeof *list->entries)) {
        j->failed = true;
        return tg_error_set(j->error, TG_ERROR_MEMORY, "%s: '%s': out of memory", j->call, j->path);
    }
    list->entries[list->count++] = entry;
    return true;
}

/* Of a total order, so that each system's qsort gives the same, and the same error. */
static int compare_offsets(const void *a, const void *b)
{
    const tg_safetensors_entry *x = a, *y = b;
    if (x->array.offset != y->array.offset) {
        return x->array.offset < y->array.offset ? -1 : 1;
    }
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->array.name, y->array.name);
}

static size_t position_of(const tg_json *j, const tg_safetensors_entry *entry)
{
    return (size_t)(entry->array.name - j->text) - 1;
}

static bool check_names(tg_json *j, tg_safetensors_entry *entries, size_t count)
{
    size_t again = tg_sort_by_name(entries, count, sizeof *entries);
    return again == 0 || tg_json_fail(j, position_of(j, &entries[again]), "two tensors have the name '%.*s'",
                                      TG_CUT(entries[again].array.name, 100));
}

/* Checks that the tensors fill the data without holes and overlaps: each begins where the one before ends. */
static bool check_offsets(tg_json *j, tg_safetensors_entry *entries, size_t count, uint64_t data_bytes)
{
    uint64_t end = 0;
    qsort(entries, count, sizeof *entries, compare_offsets);
    for (size_t i = 0; i < count; i++) {
        const tg_array *array = &entries[i].array;
        if (array->offset != end) {
            return tg_json_fail(j, position_of(j, &entries[i]), "'%.*s' begins at offset %llu of the data; the %s %llu",
                                TG_CUT(array->name, 100), (unsigned long long)array->offset,
                                i == 0 ? "first tensor begins at" : "tensor before it ends at",
                                (unsigned long long)end);
        }
        if (entries[i].bytes > data_bytes - end) {
            return tg_json_fail(j, position_of(j, &entries[i]),
                                "'%.*s' ends at offset %llu of the data; the file has %llu bytes of data",
                                TG_CUT(array->name, 100), (unsigned long long)(end + entries[i].bytes),
                                (unsigned long long)data_bytes);
        }
        end += entries[i].bytes;
    }
    return end == data_bytes || tg_json_fail(j, j->length + (size_t)end, "%llu bytes follow the last tensor",
                                             (unsigned long long)(data_bytes - end));
}

bool tg_safetensors_parse(tg_json *j, uint64_t data_bytes, int32_t part, tg_entry_list *list,
                          tg_metadata_list *metadata)
{
    size_t first = list->count, members = 0;
    bool has_metadata = false;
    tg_json_text name;
    if (!tg_json_check_utf8(j) || !tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &members, &name)) {
        bool is_metadata = strcmp(name.text, "__metadata__") == 0;
        if (is_metadata && has_metadata) {
            return tg_json_fail(j, name.at, "'__metadata__' is given twice");
        }
        has_metadata = has_metadata || is_metadata;
        if (!(is_metadata ? parse_metadata(j, metadata) : add_tensor(j, &name, part, list))) {
            return false;
        }
    }
    if (j->failed || !tg_json_end(j)) {
        return false;
    }
    size_t count = list->count - first;
    if (count == 0) {
        return data_bytes == 0 ||
               tg_json_fail(j, j->length, "%llu bytes of data, but no tensor", (unsigned long long)data_bytes);
    }
    tg_safetensors_entry *entries = list->entries + first;
    if (!check_names(j, entries, count) || !check_offsets(j, entries, count, data_bytes)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        entries[i].array.offset += j->offset + j->length;
    }
    return true;
}
