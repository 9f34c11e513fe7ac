/* safetensors: the writer. The header is built in memory; the values are written from the tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"
#include "files/safetensors.h"
#include "files/safetensors_header.h"

typedef struct item {
    char *name;
    tg_tensor *x;
    tg_shard shard; /* x has only these rows */
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
    int32_t *slots; /* from keys to metadata: tg_slots_reserve */
    size_t slot_count;
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
        tg_release(w->items[i].x);
    }
    for (size_t i = 0; i < w->metadata_count; i++) {
        tg_free(w->metadata[i].key);
        tg_free(w->metadata[i].value);
    }
    tg_free(w->items);
    tg_free(w->metadata);
    tg_free(w->slots);
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
        tg_error_set(error, TG_ERROR_VALUE, "%s: the %s '%.*s' is not UTF-8 at byte %zu", w->call, what,
                     TG_CUT(copy, 100), valid);
        tg_free(copy);
        return NULL;
    }
    return copy;
}

bool tg_safetensors_add_stored(tg_safetensors_writer *w, const char *prefix, const char *name, const tg_tensor *x,
                               tg_shard shard, tg_stored stored, tg_error *error)
{
    char *copy = tg_tensor_check(w->call, name, x, error) ? copy_text(w, "name", prefix, name, error) : NULL;
    if (!copy) {
        return false;
    }
    if (strcmp(copy, "__metadata__") == 0) {
        tg_free(copy);
        return tg_error_set(error, TG_ERROR_VALUE, "%s: a tensor cannot have the name '__metadata__'", w->call);
    }
    if (!tg_grow(&w->items, &w->capacity, w->count, w->count + 1, sizeof *w->items)) {
        tg_free(copy);
        return no_memory(w, error);
    }
    w->items[w->count++] = (item){copy, tg_retain((tg_tensor *)(uintptr_t)x), shard, stored};
    return true;
}

bool tg_safetensors_add(tg_safetensors_writer *w, const char *prefix, const char *name, const tg_tensor *x,
                        tg_shard shard, tg_save_floats floats, tg_error *error)
{
    return tg_safetensors_add_stored(w, prefix, name, x, shard, tg_stored_of(tg_dtype_of(x), floats), error);
}

/* Returns the slot of a key, or the empty slot for it. */
static size_t slot_of(const tg_safetensors_writer *w, const char *key)
{
    size_t slot = tg_hash_bytes(key, strlen(key)) & (w->slot_count - 1);
    while (w->slots[slot] >= 0 && strcmp(w->metadata[w->slots[slot]].key, key) != 0) {
        slot = (slot + 1) & (w->slot_count - 1);
    }
    return slot;
}

/* Makes room for another pair. */
static bool reserve_pair(tg_safetensors_writer *w)
{
    size_t needed = w->metadata_count + 1;
    bool is_new;
    if (!tg_grow(&w->metadata, &w->metadata_capacity, w->metadata_count, needed, sizeof *w->metadata) ||
        !tg_slots_reserve(&w->slots, &w->slot_count, needed, &is_new)) {
        return false;
    }
    for (size_t i = 0; is_new && i < w->metadata_count; i++) {
        w->slots[slot_of(w, w->metadata[i].key)] = (int32_t)i;
    }
    return true;
}

bool tg_safetensors_add_metadata(tg_safetensors_writer *w, const char *prefix, const char *key, const char *value,
                                 tg_error *error)
{
    text_pair pair = {.key = copy_text(w, "metadata key", prefix, key, error)};
    bool is_ready = pair.key && (reserve_pair(w) || no_memory(w, error));
    if (is_ready && w->slots[slot_of(w, pair.key)] >= 0) {
        tg_free(pair.key);
        return true;
    }
    pair.value = is_ready ? copy_text(w, "metadata value", prefix, value, error) : NULL;
    if (!pair.value) {
        tg_free(pair.key);
        return false;
    }
    w->slots[slot_of(w, pair.key)] = (int32_t)w->metadata_count;
    w->metadata[w->metadata_count++] = pair;
    return true;
}

/* ---- the header ---- */

/* What writer 0 shares with the others. */
typedef struct plan {
    uint64_t data, end;   /* the offsets of the values in the file */
    uint64_t tensors;     /* the number of tensors */
    uint64_t checksum;    /* of their names, dtypes and shapes */
    char temporary[4096]; /* the path of the new file */
} plan;

static void add_string(tg_text_buffer *text, const char *string)
{
    tg_text_add(text, "\"");
    tg_text_add_json(text, string, strlen(string));
    tg_text_add(text, "\"");
}

/* Returns the shape of an item in the file. */
static tg_shape shape_of(const item *i)
{
    return tg_whole_shape(tg_shape_of(i->x), i->shard);
}

/* Returns the bytes of values of this shape. */
static uint64_t bytes_of(const item *i, tg_shape shape)
{
    return (uint64_t)tg_shape_count(shape) * (uint64_t)tg_stored_bits(i->stored) / 8;
}

/* Returns where the rows of this writer begin in the item, in bytes. */
static uint64_t own_begin(const item *i)
{
    tg_shape before = shape_of(i);
    before.size[0] = i->shard.first;
    return i->shard.rows > 0 ? bytes_of(i, before) : 0;
}

static void add_item(tg_text_buffer *text, const item *i, uint64_t begin)
{
    add_string(text, i->name);
    tg_text_add_format(text, ":{\"dtype\":\"%s\",\"shape\":[", tg_stored_name(i->stored));
    tg_shape shape = shape_of(i);
    for (int axis = 0; axis < shape.rank; axis++) {
        tg_text_add_format(text, "%s%" PRId64, axis ? "," : "", shape.size[axis]);
    }
    tg_text_add_format(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + bytes_of(i, shape));
}

static void add_metadata(tg_text_buffer *text, const tg_safetensors_writer *w)
{
    tg_text_add(text, "\"__metadata__\":{");
    for (size_t i = 0; i < w->metadata_count; i++) {
        tg_text_add(text, i ? "," : "");
        add_string(text, w->metadata[i].key);
        tg_text_add(text, ":");
        add_string(text, w->metadata[i].value);
    }
    tg_text_add(text, "}");
}

/* Builds the header, with its length in front, and fills the plan, except the path. */
static bool build(const tg_safetensors_writer *w, tg_text_buffer *text, plan *p, tg_error *error)
{
    uint64_t offset = 0;
    tg_text_add_bytes(text, "\0\0\0\0\0\0\0\0", 8);
    tg_text_add(text, "{");
    if (w->metadata_count > 0) {
        add_metadata(text, w);
    }
    tg_text_add(text, w->metadata_count > 0 && w->count > 0 ? "," : "");
    size_t first = text->length;
    for (size_t i = 0; i < w->count; i++) {
        tg_text_add(text, i > 0 ? "," : "");
        add_item(text, &w->items[i], offset);
        offset += bytes_of(&w->items[i], shape_of(&w->items[i]));
    }
    size_t end = text->length;
    tg_text_add(text, "}");
    tg_text_add_bytes(text, "        ", (8 - text->length % 8) % 8);
    if (text->failed) {
        return no_memory(w, error);
    }
    uint64_t length = text->length - 8;
    if (length > (uint64_t)TG_SAFETENSORS_MAX_HEADER) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: the names and metadata need %llu bytes; a header has at most %lld", w->call,
                            (unsigned long long)length, (long long)TG_SAFETENSORS_MAX_HEADER);
    }
    tg_number_to_bytes(length, text->bytes, 8);
    *p = (plan){.data = text->length,
                .end = text->length + offset,
                .tensors = w->count,
                .checksum = tg_hash_bytes(text->bytes + first, end - first)};
    return true;
}

/* ---- writing ---- */

/* The order of the reference writer. */
static int compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return x->stored != y->stored ? (x->stored < y->stored) - (x->stored > y->stored) : strcmp(x->name, y->name);
}

static bool check_names(tg_safetensors_writer *w, tg_error *error)
{
    size_t again = tg_sort_by_name(w->items, w->count, sizeof *w->items);
    return again == 0 || tg_error_set(error, TG_ERROR_VALUE, "%s: two tensors have the name '%.*s'", w->call,
                                      TG_CUT(w->items[again].name, 100));
}

static bool check_alone(const tg_safetensors_writer *w, tg_error *error)
{
    for (size_t i = 0; i < w->count; i++) {
        int64_t rows = w->items[i].shard.rows, own = rows > 0 ? w->items[i].x->shape[0] : 0;
        if (own < rows) {
            return tg_error_set(error, TG_ERROR_STATE,
                                "%s: '%.*s' has %lld rows of a table of %lld; tg_checkpoint_save_together saves all",
                                w->call, TG_CUT(w->items[i].name, 100), (long long)own, (long long)rows);
        }
    }
    return true;
}

static bool prepare(tg_safetensors_writer *w, bool is_alone, tg_text_buffer *text, plan *p, tg_error *error)
{
    if (!check_names(w, error) || (is_alone && !check_alone(w, error))) {
        return false;
    }
    if (w->count > 0) {
        qsort(w->items, w->count, sizeof *w->items, compare_items);
    }
    return build(w, text, p, error);
}

/* Writer 0 creates the new file. */
static bool begin(tg_file_writer *file, const tg_safetensors_writer *w, const char *path, plan *p, tg_error *error)
{
    if (!tg_file_writer_begin(file, w->call, path, error)) {
        return false;
    }
    if (snprintf(p->temporary, sizeof p->temporary, "%s", file->temporary) >= (int)sizeof p->temporary) {
        tg_file_writer_abandon(file);
        return tg_error_set(error, TG_ERROR_FILE, "%s: write '%.*s...': the path is too long", w->call,
                            TG_CUT(path, 200));
    }
    return true;
}

/* Writes the tensors, or, in another writer than the first, only the rows of shards. */
static bool write_items(tg_file_writer *file, const tg_safetensors_writer *w, uint64_t data, bool is_first,
                        tg_error *error)
{
    bool is_written = true;
    for (size_t i = 0; is_written && i < w->count; i++) {
        const item *next = &w->items[i];
        if (is_first || next->shard.rows > 0) {
            is_written = (file->bytes || tg_file_writer_seek(file, data + own_begin(next), error)) &&
                         tg_array_write(file, next->x, next->stored, error);
        }
        data += bytes_of(next, shape_of(next));
    }
    return is_written;
}

/* Another writer than the first adds its rows to the new file. */
static bool add_rows(const tg_safetensors_writer *w, const char *path, const plan *own, const plan *first,
                     tg_error *error)
{
    tg_file_writer file;
    if (own->tensors != first->tensors || own->checksum != first->checksum) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: %llu tensors, writer 0 has %llu; names, dtypes, shapes and the number of rows of "
                            "sharded tables must be equal",
                            w->call, (unsigned long long)own->tensors, (unsigned long long)first->tensors);
    }
    if (!tg_file_writer_join(&file, w->call, path, first->temporary, error)) {
        return false;
    }
    bool is_written = write_items(&file, w, first->data, false, error);
    return tg_file_writer_leave(&file, error) && is_written;
}

char *tg_safetensors_write_bytes(tg_safetensors_writer *w, int64_t *size, tg_error *error)
{
    tg_text_buffer text = {0};
    tg_file_writer file;
    plan own;
    bool is_ready = prepare(w, true, &text, &own, error);
    char *bytes = is_ready ? tg_alloc(own.end + 1, 1) : NULL;
    if (is_ready && !bytes) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %llu bytes", w->call, (unsigned long long)own.end);
    }
    tg_file_writer_begin_bytes(&file, w->call, bytes);
    bool is_written = bytes && tg_file_writer_write(&file, text.bytes, text.length, error) &&
                      write_items(&file, w, own.data, true, error);
    tg_free(text.bytes);
    if (!is_written) {
        tg_free(bytes);
        return NULL;
    }
    bytes[own.end] = '\0';
    *size = (int64_t)own.end;
    return bytes;
}

bool tg_safetensors_write_together(tg_safetensors_writer *w, const char *path, const tg_checkpoint_group *group,
                                   tg_error *error)
{
    tg_text_buffer text = {0};
    tg_file_writer file;
    tg_error local = TG_NO_ERROR;
    plan own = {.data = 0}, first;
    const int64_t index = tg_group_index(group), count = tg_group_count(group);
    bool is_first = index == 0;
    bool is_ready = prepare(w, count == 1, &text, &own, &local);
    bool is_begun = is_ready && is_first && begin(&file, w, path, &own, &local);
    first = own;
    bool is_agreed = tg_group_agree(group, &local, error) && tg_group_share(group, &first, sizeof first, error);
    for (int64_t turn = 0; is_agreed && turn < count; turn++) {
        if (turn == index && is_first) {
            (void)(tg_file_writer_write(&file, text.bytes, text.length, &local) &&
                   write_items(&file, w, own.data, true, &local));
        } else if (turn == index) {
            add_rows(w, path, &own, &first, &local);
        }
        is_agreed = tg_group_agree(group, &local, error);
    }
    tg_free(text.bytes);
    if (is_begun && !is_agreed) {
        tg_file_writer_abandon(&file);
    } else if (is_begun) {
        tg_file_writer_commit(&file, &local);
    }
    return is_agreed && tg_group_agree(group, &local, error);
}

bool tg_safetensors_write(tg_safetensors_writer *w, const char *path, tg_error *error)
{
    return tg_safetensors_write_together(w, path, NULL, error);
}
