/* safetensors: the writer. The header is built in memory; the values are written from the tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/file.h"
#include "io/safetensors.h"

typedef struct item {
    char *name;
    const tg_tensor *x;
    tg_stored stored;
} item;

typedef struct text_pair {
    char *key, *value;
} text_pair;

struct tg_safetensors_writer {
    const char *call;
    item *items;
    size_t count, capacity;
    text_pair *metadata;
    size_t metadata_count, metadata_capacity;
};

static bool no_memory(const tg_safetensors_writer *w, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the header", w->call);
}

tg_safetensors_writer *tg_safetensors_writer_new(const char *call, tg_error *error)
{
    tg_safetensors_writer *w = tg_alloc_zeroed(1, sizeof *w);
    if (!w) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        return NULL;
    }
    w->call = call;
    return w;
}

void tg_safetensors_writer_free(tg_safetensors_writer *w)
{
    if (!w) {
        return;
    }
    for (size_t i = 0; i < w->count; i++) {
        tg_free(w->items[i].name);
    }
    for (size_t i = 0; i < w->metadata_count; i++) {
        tg_free(w->metadata[i].key);
        tg_free(w->metadata[i].value);
    }
    tg_free(w->items);
    tg_free(w->metadata);
    tg_free(w);
}

/* ---- adding ---- */

/* Returns a copy of two texts, one after the other. NULL, with the error, if it is not UTF-8. */
static char *copy_text(const tg_safetensors_writer *w, const char *what, const char *a, const char *b, tg_error *error)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    char *copy = tg_alloc(a_length + b_length + 1, 1);
    if (!copy) {
        no_memory(w, error);
        return NULL;
    }
    memcpy(copy, a, a_length);
    memcpy(copy + a_length, b, b_length + 1);
    size_t valid = tg_utf8_check(copy, a_length + b_length);
    if (valid < a_length + b_length) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: the %s '%.100s' is not UTF-8 at byte %zu", w->call, what, copy, valid);
        tg_free(copy);
        return NULL;
    }
    return copy;
}

bool tg_safetensors_add_stored(tg_safetensors_writer *w, const char *prefix, const char *name, const tg_tensor *x,
                               tg_stored stored, tg_error *error)
{
    char *copy = tg_tensor_check(w->call, name, x, error) ? copy_text(w, "name", prefix, name, error) : NULL;
    if (!copy) {
        return false;
    }
    if (strcmp(copy, "__metadata__") == 0) {
        tg_free(copy);
        return tg_error_set(error, TG_ERROR_VALUE, "%s: a tensor cannot have the name '__metadata__'", w->call);
    }
    void *items = w->items;
    if (!tg_grow(&items, &w->capacity, w->count, w->count + 1, sizeof *w->items)) {
        tg_free(copy);
        return no_memory(w, error);
    }
    w->items = items;
    w->items[w->count++] = (item){copy, x, stored};
    return true;
}

bool tg_safetensors_add(tg_safetensors_writer *w, const char *prefix, const char *name, const tg_tensor *x,
                        tg_save_floats floats, tg_error *error)
{
    return tg_safetensors_add_stored(w, prefix, name, x, tg_stored_of(tg_dtype_of(x), floats), error);
}

static bool has_key(const tg_safetensors_writer *w, const char *key)
{
    size_t i = 0;
    while (i < w->metadata_count && strcmp(w->metadata[i].key, key) != 0) {
        i++;
    }
    return i < w->metadata_count;
}

bool tg_safetensors_add_metadata(tg_safetensors_writer *w, const char *prefix, const char *key, const char *value,
                                 tg_error *error)
{
    text_pair pair = {.key = copy_text(w, "metadata key", prefix, key, error)};
    if (pair.key && has_key(w, pair.key)) {
        tg_free(pair.key);
        return true;
    }
    pair.value = pair.key ? copy_text(w, "metadata value", prefix, value, error) : NULL;
    void *metadata = w->metadata;
    bool is_ready = pair.value && (tg_grow(&metadata, &w->metadata_capacity, w->metadata_count, w->metadata_count + 1,
                                           sizeof *w->metadata) ||
                                   no_memory(w, error));
    w->metadata = metadata;
    if (!is_ready) {
        tg_free(pair.key);
        tg_free(pair.value);
        return false;
    }
    w->metadata[w->metadata_count++] = pair;
    return true;
}

/* ---- the header ---- */

typedef struct header {
    char *text;
    size_t used, capacity;
    bool is_short; /* memory was exhausted: nothing more is added */
} header;

static void put_bytes(header *h, const char *bytes, size_t length)
{
    void *text = h->text;
    h->is_short = h->is_short || !tg_grow(&text, &h->capacity, h->used, h->used + length, 1);
    h->text = text;
    if (!h->is_short) {
        memcpy(h->text + h->used, bytes, length);
        h->used += length;
    }
}

static void put(header *h, const char *text)
{
    put_bytes(h, text, strlen(text));
}

static void put_string(header *h, const char *text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    put(h, "\"");
    for (; *text; text++) {
        const char *escaped = strchr(plain, *text);
        char code[8];
        if (escaped) {
            snprintf(code, sizeof code, "\\%c", letters[escaped - plain]);
        } else if ((unsigned char)*text < 0x20) {
            snprintf(code, sizeof code, "\\u%04x", (unsigned)*text);
        } else {
            snprintf(code, sizeof code, "%c", *text);
        }
        put(h, code);
    }
    put(h, "\"");
}

static void put_number(header *h, const char *before, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%s%" PRIu64, before, number);
    put(h, text);
}

/* Returns the bytes of an item in the file. */
static uint64_t bytes_of(const item *i)
{
    return (uint64_t)i->x->count * (uint64_t)tg_stored_bits(i->stored) / 8;
}

static void put_item(header *h, const item *i, uint64_t begin)
{
    put_string(h, i->name);
    put(h, ":{\"dtype\":\"");
    put(h, tg_stored_name(i->stored));
    put(h, "\",\"shape\":[");
    for (int axis = 0; axis < i->x->rank; axis++) {
        put_number(h, axis ? "," : "", (uint64_t)i->x->shape[axis]);
    }
    put_number(h, "],\"data_offsets\":[", begin);
    put_number(h, ",", begin + bytes_of(i));
    put(h, "]}");
}

static void put_metadata(header *h, const tg_safetensors_writer *w)
{
    put(h, "\"__metadata__\":{");
    for (size_t i = 0; i < w->metadata_count; i++) {
        put(h, i ? "," : "");
        put_string(h, w->metadata[i].key);
        put(h, ":");
        put_string(h, w->metadata[i].value);
    }
    put(h, "}");
}

/* Builds the header, with its length in front. */
static bool build(const tg_safetensors_writer *w, header *h, tg_error *error)
{
    uint64_t offset = 0;
    put_bytes(h, "\0\0\0\0\0\0\0\0", 8);
    put(h, "{");
    if (w->metadata_count > 0) {
        put_metadata(h, w);
    }
    for (size_t i = 0; i < w->count; i++) {
        put(h, i > 0 || w->metadata_count > 0 ? "," : "");
        put_item(h, &w->items[i], offset);
        offset += bytes_of(&w->items[i]);
    }
    put(h, "}");
    put_bytes(h, "        ", (8 - h->used % 8) % 8);
    if (h->is_short) {
        return no_memory(w, error);
    }
    uint64_t length = h->used - 8;
    if (length > (uint64_t)TG_SAFETENSORS_MAX_HEADER) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: the names and metadata need %llu bytes; allowed are %lld",
                            w->call, (unsigned long long)length, (long long)TG_SAFETENSORS_MAX_HEADER);
    }
    for (int i = 0; i < 8; i++) {
        h->text[i] = (char)(length >> (8 * i));
    }
    return true;
}

/* ---- writing ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

/* The order of the reference writer. */
static int compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return x->stored != y->stored ? (x->stored < y->stored) - (x->stored > y->stored) : compare_names(a, b);
}

static bool check_names(tg_safetensors_writer *w, tg_error *error)
{
    if (w->count > 0) {
        qsort(w->items, w->count, sizeof *w->items, compare_names);
    }
    for (size_t i = 1; i < w->count; i++) {
        if (strcmp(w->items[i - 1].name, w->items[i].name) == 0) {
            return tg_error_set(error, TG_ERROR_VALUE, "%s: two tensors have the name '%.100s'", w->call,
                                w->items[i].name);
        }
    }
    return true;
}

bool tg_safetensors_write(tg_safetensors_writer *w, const char *path, tg_error *error)
{
    if (!check_names(w, error)) {
        return false;
    }
    if (w->count > 0) {
        qsort(w->items, w->count, sizeof *w->items, compare_items);
    }
    header h = {NULL, 0, 0, false};
    tg_file_writer file;
    bool is_begun = build(w, &h, error) && tg_file_writer_begin(&file, w->call, path, error);
    bool is_written = is_begun && tg_file_writer_write(&file, h.text, h.used, error);
    for (size_t i = 0; is_written && i < w->count; i++) {
        is_written = tg_array_write(&file, w->items[i].x, w->items[i].stored, error);
    }
    tg_free(h.text);
    if (!is_written) {
        if (is_begun) {
            tg_file_writer_abandon(&file);
        }
        return false;
    }
    return tg_file_writer_commit(&file, error);
}
